"""Copies of files, made before a turn's code writes to them, so that undo can restore them."""

from collections.abc import Callable, Iterable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from parsimony_kernel.identity import ARTIFACT_FOLDER, content_sha
from parsimony_kernel.storage import durable

# The budget for the copies of one turn, in bytes.
ROOM_BYTES = 64 * 2**20


@dataclass(frozen=True)
class FileState:
    """The state of a file before a turn, or a step, wrote to it.

    Args:
        path: the file.
        folder: where a copy of its old content is, whose name is ``was``.
        was: the SHA-256 of the old content, empty if the file didn't exist.
        size: the old size in bytes.
        then: the SHA-256 of the content that the turn left there, empty if it left no file.
    """

    path: Path
    folder: Path
    was: str = ""
    size: int = 0
    then: str = ""


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
        return tuple(each for each in states if each.was != each.then)


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
        if (now := _sha(state.path)) == state.then:
            before = _state(state.path, state.folder)
            _put_back(state)
            inverse.append(replace(before, then=state.was))
        elif now != state.was:
            left.append(state)
    return inverse, left


def reversal(path: Path, workspace: Path) -> Callable[[], object] | None:
    """Return a function that restores what is at a path now, or ``None``.

    What is outside the workspace, a link, and a file without a copy can't be restored. A folder is
    restored without its files.
    """
    if path.is_symlink() or not path.is_relative_to(workspace):
        return None
    if path.is_dir():
        return partial(path.mkdir, parents=True, exist_ok=True)
    state = FileState(path, workspace / ARTIFACT_FOLDER / "replaced", _sha(path))
    has_copy = (state.folder / state.was).is_file() if state.was else not path.exists()
    return partial(_put_back, state) if has_copy else None


def _state(path: Path, folder: Path) -> FileState:
    if not path.is_file():
        return FileState(path, folder)
    data = durable.read(path)
    was = content_sha(data)
    durable.replace(folder / was, data, mode=0o600)  # anew, because old copies are purged
    return FileState(path, folder, was, len(data))


def _put_back(state: FileState) -> bool:
    """Restore a file, and return whether its content differed."""
    if _sha(state.path) == state.was:
        return False
    if not state.was:
        durable.remove(state.path)
        return True
    data = durable.read(state.folder / state.was)
    if state.path.is_file():
        durable.rewrite(state.path, lambda _: data)  # keeps its mode
    else:
        durable.replace(state.path, data)
    return True


def _sha(path: Path) -> str:
    """Return the SHA-256 of a file, empty if there is none that can be read."""
    with suppress(OSError):
        return content_sha(durable.read(path)) if path.is_file() else ""
    return ""
