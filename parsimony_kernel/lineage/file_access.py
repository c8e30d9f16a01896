"""The files that Python opens for reading while a cell runs, from its audit events.

Libraries that read with native code, such as pyarrow and DuckDB, raise no events, so their reads
aren't seen.
"""

import os
import site
import stat
import sys
import sysconfig
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from traceback import walk_stack
from typing import Any, ClassVar

from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.lineage.classes import FACTS

# The most files recorded per cell; of a whole folder tree, only the first ones are.
MOST_FILES = 1_000
_ELSEWHERE = tuple(
    f"{os.path.realpath(each)}{os.sep}"
    for each in (
        *sysconfig.get_paths().values(),
        *site.getsitepackages(),
        site.getusersitepackages(),
        *(f"{base}/{each}" for base in (sys.prefix, sys.base_prefix) for each in ("lib", "share")),
        *("/proc", "/sys", "/dev", "/etc", "/usr/lib", "/usr/share"),
    )
)
_LONGEST_SOURCE = 1_024
_SUFFIXES, _FOLDERS = (tuple(FACTS["files"][each].split()) for each in ("suffixes", "folders"))
_WRITES = os.O_WRONLY | os.O_TRUNC
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

# Files written by this process: absolute paths, with symbolic links in their folders resolved.
WRITTEN: dict[str, None] = {}
_MOST_WRITTEN = 10_000
# The files that cells of this process have read, likewise.
READ: dict[str, None] = {}


@dataclass(frozen=True)
class SourceState:
    """The state of a source at the end of a cell that read it: size in bytes, and mtime.

    Without these, it was no file, or is known to have changed since. A change during the cell's
    run goes unnoticed, and so does one that keeps the size and the mtime. ``is_read`` says that the
    cell certainly read it, and doesn't merely name it.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}  # for loading it back

    path: str
    size_bytes: int | None = None
    mtime_ns: int | None = None
    is_read: bool = field(default=False, compare=False)


@dataclass
class Watch:
    """The files opened while it listens: real absolute paths, ordered by first access.

    Files that are written are also recorded for the whole process, in ``WRITTEN``.

    Args:
        namespace: the globals of the cell.
        filename: the file name of the cell's code, if known.
        read: the files read, each with the lines of the cell that were running; 0 stands for
            another thread or task.
        written: the files written or replaced, each with whether it was read before that.
    """

    namespace: Any = None
    filename: str = ""
    read: dict[str, set[int]] = field(default_factory=dict)
    written: dict[str, bool] = field(default_factory=dict)

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        """Record the file of an audit event, if it is opened for reading or writing."""
        if event != "open" and event != "sqlite3.connect" and event != "os.rename":
            return
        try:
            self._note(event, args)
        except Exception:  # boundary: subscriber - whoever opens a file must not notice
            return

    def _note(self, event: str, args: tuple[Any, ...]) -> None:
        is_moved = event == "os.rename"
        flags = args[2] if event == "open" and type(args[2]) is int else 0
        if flags & WRITES:
            _note_written(args[0])
        if (path := _data_path(args[is_moved])) is None:
            return
        is_read = not (is_moved or flags & _WRITES) and Path(path).is_file()
        if is_read and len(self.read) < MOST_FILES:
            self.read.setdefault(path, set()).add(self._line())
            if len(READ) < _MOST_WRITTEN:
                READ.setdefault(path)
        if (is_moved or flags & WRITES) and len(self.written) < MOST_FILES:
            self.written[path] = path in self.read or self.written.get(path, False)

    def _line(self) -> int:
        """Return the line of the cell, not of one nested in it, that this thread is running."""
        line = 0
        for frame, number in walk_stack(sys._getframe(1)):
            code, is_ours = frame.f_code, frame.f_globals is self.namespace
            if is_ours and code.co_name == "<module>" and self.filename in ("", code.co_filename):
                line = number
        return line


def _note_written(place: Any) -> None:
    if isinstance(place, str | bytes | os.PathLike) and len(WRITTEN) < _MOST_WRITTEN:
        folder, name = os.path.split(os.fsdecode(place))
        WRITTEN.setdefault(os.path.join(os.path.realpath(folder), name))  # noqa: PTH118  (quick)


def _data_path(place: Any) -> str | None:
    """Return the real path of a file, ``None`` if it is known to hold no data."""
    path = "" if isinstance(place, int) else os.fsdecode(place)
    if not path or path.startswith(("<", ":memory:")) or path.endswith(_SUFFIXES):
        return None
    parts = os.path.join(os.getcwd(), path).split(os.sep)  # noqa: PTH109, PTH118, PTH206
    if not {*_FOLDERS}.isdisjoint(parts):
        return None
    # In the artifact folder, only published tables are data.
    if ARTIFACT_FOLDER in parts and not path.endswith(".parquet"):
        return None
    real = os.path.realpath(path)
    return None if real.startswith(_ELSEWHERE) else real


def sources_in(
    literals: Iterable[str], cwd: Path, folders: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the literals that are URLs, files, or glob patterns such as ``sales/*.parquet``.

    Args:
        literals: the strings to check.
        cwd: the folder that paths are relative to; results below it are relative too.
        folders: further strings that may also be the folder of a table in many files.
    """
    found: dict[str, None] = {}
    for text in (*literals, *folders):
        if not text or len(text) > _LONGEST_SOURCE or "\n" in text or "\0" in text:
            continue
        if text.startswith(("http://", "https://")):
            found.setdefault(text)
            continue
        named = os.path.join(cwd, os.path.expanduser(text))  # noqa: PTH111, PTH118
        try:
            # First by a quick look: most literals name nothing.
            if "*" not in text and not os.access(named, os.F_OK):
                continue
            path = Path(named)
            is_folder = text in folders and path.is_dir()
            if not (path.is_file() or is_folder or _has_files(path)):
                continue
            resolved, folder = path.resolve(), cwd.resolve()
        except (OSError, RuntimeError, ValueError):
            continue
        inside = resolved.is_relative_to(folder)
        found.setdefault((resolved.relative_to(folder) if inside else resolved).as_posix())
    return tuple(found)


def source_state(source: str, folder: Path) -> SourceState:
    """Return the current state of the file ``source``, relative to ``folder``."""
    try:
        found = (folder / Path(source).expanduser()).stat()
    except (OSError, RuntimeError, ValueError):
        return SourceState(source)
    if not stat.S_ISREG(found.st_mode):
        return SourceState(source)
    return SourceState(source, found.st_size, found.st_mtime_ns)


def _has_files(pattern: Path) -> bool:
    """Return whether files match a glob pattern.

    A pattern for several folders counts as matching if its fixed folder exists, without a search.
    Text with no fixed suffix is no pattern.
    """
    if "*" not in str(pattern) or not pattern.suffix or "*" in pattern.suffix:
        return False
    named = list(takewhile(lambda part: "*" not in part, pattern.parts))
    folder = Path(*named)
    is_one = len(named) == len(pattern.parts) - 1
    return any(folder.glob(pattern.name)) if is_one else folder.is_dir()
