"""Copies of files, made before a turn's code writes to them, so that undo can restore them."""

import hashlib
import uuid
from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.storage import durable

# The budget for the copies of one turn, in bytes.
ROOM_BYTES = 64 * 2**20


@dataclass(frozen=True)
class FileState:
    """The state of a file before a turn, or a step, wrote to it.

    Args:
        path: the file.
        copy: the file with its old content, ``None`` if it didn't exist.
        size: the old size in bytes.
        then: the SHA-256 of the content that the turn left there, empty if it left no file.
    """

    path: Path
    copy: Path | None
    size: int = 0
    then: str = ""

    @property
    def is_changed(self) -> bool:
        """Whether the file has changed since the turn."""
        return _sha(self.path) != self.then


class Files:
    """The file copies of one turn.

    Args:
        workspace: the folder of the workspace.
        made: paths that the turn itself created, which undo leaves alone.
    """

    def __init__(self, workspace: Path, made: Set[str] = frozenset()) -> None:
        self._made = made
        self._workspace = workspace
        self._folder = workspace / ARTIFACT_FOLDER / "replaced"
        self._kept: list[FileState] = []
        # The number of copies made before the current step.
        self._begun = 0

    def begin(self) -> int:
        """Begin a step, and return the number by which ``since`` finds its files."""
        self._begun = len(self._kept)
        return self._begun

    def keep(self, name: str) -> bool:
        """Copy a file before its first write in this step.

        Returns:
            False if the budget is exhausted. A path that is no file, or can't be read, needs no
            copy.
        """
        path = Path(name)
        if path in {each.path for each in self._kept[self._begun :]} or not path.is_file():
            return True
        size = path.stat().st_size
        if size + sum(each.size for each in self._kept) > ROOM_BYTES:
            return False
        with suppress(OSError):
            self._kept.append(_state(path, self._folder))
        return True

    def since(self, number: int) -> tuple[FileState, ...]:
        """Return the state at ``begin`` of the files written to since then."""
        return _first(self._kept[number:])

    def give_back(self, states: Iterable[FileState]) -> tuple[str, ...]:
        """Restore files to ``states``; return the paths of those that differed, sorted.

        Paths inside the workspace are relative to it.
        """
        changed = [each.path for each in states if _put_back(each)]
        inside = self._workspace
        return tuple(
            sorted(str(p.relative_to(inside) if p.is_relative_to(inside) else p) for p in changed)
        )

    def close(self) -> tuple[FileState, ...]:
        """Return the files that the turn changed, with hashes of the new content, and reset."""
        kept, self._kept, self._begun = self._kept, [], 0
        first = (each for each in _first(kept) if str(each.path) not in self._made)
        states = [replace(each, then=_sha(each.path)) for each in first]
        return tuple(each for each in states if each.copy is None or _sha(each.copy) != each.then)


def _first(states: Sequence[FileState]) -> tuple[FileState, ...]:
    """Return the first state of each file."""
    return tuple({each.path: each for each in reversed(states)}.values())


def turned(states: Iterable[FileState]) -> tuple[list[FileState], list[FileState]]:
    """Restore the files that haven't changed since the turn.

    Returns:
        The states that redo this, and the states of the files left alone because they changed
        since.
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
    """Restore a file, and return whether its content differed."""
    if state.copy is None:
        there = state.path.is_file()
        if there:
            durable.remove(state.path)
        return there
    data = durable.read(state.copy)
    if not state.path.is_file():
        durable.replace(state.path, data)
    elif durable.read(state.path) == data:
        return False
    else:
        durable.rewrite(state.path, lambda _: data)  # keeps its mode
    return True


def _sha(path: Path) -> str:
    try:
        return hashlib.sha256(durable.read(path)).hexdigest() if path.is_file() else ""
    except OSError:
        return ""
