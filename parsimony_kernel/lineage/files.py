"""What files of the workspace held before code of a turn wrote to them, so that they come back."""

import hashlib
import uuid
from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from pathlib import Path

from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.storage import durable

# As much is kept of the files of one turn.
ROOM_BYTES = 64 * 2**20


@dataclass(frozen=True)
class FileState:
    """What a file held: ``copy`` has its bytes; without one there was none. ``then`` is the hash
    of what the turn left there, empty for nothing."""

    path: Path
    copy: Path | None
    size: int = 0
    then: str = ""

    @property
    def is_changed(self) -> bool:
        """Whether the file is another than the turn has left."""
        return _sha(self.path) != self.then


class Files:
    """The copies of one turn.

    Args:
        made: the paths that the turn itself has made, which undo leaves as they are.
    """

    def __init__(self, workspace: Path, made: Set[str] = frozenset()) -> None:
        self._made = made
        self._workspace = workspace
        self._folder = workspace / ARTIFACT_FOLDER / "replaced"
        self._kept: list[FileState] = []
        # Those of the step that runs now.
        self._seen: set[Path] = set()

    def begin(self) -> int:
        """A step begins; the number to put its files back by."""
        self._seen.clear()
        return len(self._kept)

    def keep(self, name: str) -> bool:
        """Keep what the file holds, before it is written to for the first time in this step.

        Whether there is room for it; what is no file, or cannot be read, needs none.
        """
        path = Path(name)
        if path in self._seen or not path.is_file():
            return True
        size = path.stat().st_size
        if size + sum(each.size for each in self._kept) > ROOM_BYTES:
            return False
        try:
            self._kept.append(_state(path, self._folder))
        except OSError:
            return True
        self._seen.add(path)
        return True

    def put_back(self, since: int) -> tuple[str, ...]:
        """Give the files what they held at ``begin``; those that were another, sorted."""
        return self.give_back(self.since(since))

    def since(self, number: int) -> tuple[FileState, ...]:
        """What files held at ``begin``, of those that were written to since."""
        return tuple({each.path: each for each in reversed(self._kept[number:])}.values())

    def give_back(self, states: Iterable[FileState]) -> tuple[str, ...]:
        """Give files what they held; those that were another, sorted."""
        changed = [each for each in states if _put_back(each)]
        return tuple(sorted(name_of(each, self._workspace) for each in changed))

    def close(self) -> tuple[FileState, ...]:
        """What was there before the turn, with what it has left; empties this."""
        kept = (each for each in reversed(self._kept) if str(each.path) not in self._made)
        first = {each.path: each for each in kept}
        self._kept, self._seen = [], set()
        states = (replace(each, then=_sha(each.path)) for each in first.values())
        return tuple(each for each in states if each.copy is None or _sha(each.copy) != each.then)


def name_of(state: FileState, workspace: Path) -> str:
    """The file as a person knows it."""
    inside = state.path.is_relative_to(workspace)
    return str(state.path.relative_to(workspace) if inside else state.path)


def turned(states: Iterable[FileState]) -> tuple[list[FileState], list[FileState]]:
    """Put files back that are as the turn has left them.

    Returns:
        What does that again the other way round, and what was left since it is another by now.
    """
    inverse, left = [], []
    for state in states:
        if state.is_changed:
            is_back = state.copy is not None and _sha(state.copy) == _sha(state.path)
            left += [] if is_back else [state]
            continue
        folder = state.path.parent if state.copy is None else state.copy.parent
        before = _state(state.path, folder)
        _put_back(state)
        inverse.append(replace(before, then=_sha(state.path)))
    return inverse, left


def _state(path: Path, folder: Path) -> FileState:
    if not path.is_file():
        return FileState(path, None)
    data = durable.read(path)
    copy = folder / uuid.uuid4().hex
    durable.create(copy, data, mode=0o600)
    return FileState(path, copy, len(data))


def _put_back(state: FileState) -> bool:
    """Whether the file held something else."""
    if state.copy is None:
        there = state.path.is_file()
        if there:
            durable.remove(state.path)
        return there
    data = durable.read(state.copy)
    if not state.path.is_file():
        durable.replace(state.path, data)
        return True
    if durable.read(state.path) == data:
        return False
    durable.rewrite(state.path, lambda _: data)  # keeps its mode
    return True


def _sha(path: Path) -> str:
    try:
        return hashlib.sha256(durable.read(path)).hexdigest() if path.is_file() else ""
    except OSError:
        return ""
