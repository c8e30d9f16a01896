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
    run goes unnoticed, and so does one that keeps the size and the mtime.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}  # for loading it back

    path: str
    size_bytes: int | None = None
    mtime_ns: int | None = None


@dataclass
class Watch:
    """The files opened for reading while it listens: absolute paths, ordered by first read.

    Files that are written are recorded for the whole process, in ``WRITTEN``.
    """

    read: dict[str, None] = field(default_factory=dict)

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        """Record the file of an audit event, if it is opened for reading or writing."""
        if event != "open" and event != "sqlite3.connect":
            return
        try:
            if event == "open" and type(args[2]) is int and args[2] & WRITES:
                _note_written(args[0])
            path = _read_path(event, args) if len(self.read) < MOST_FILES else None
        except Exception:  # boundary: subscriber - whoever opens a file must not notice
            return
        if path is not None:
            self.read.setdefault(path)
            if len(READ) < _MOST_WRITTEN:
                READ.setdefault(path)


def _note_written(place: Any) -> None:
    if isinstance(place, str | bytes | os.PathLike) and len(WRITTEN) < _MOST_WRITTEN:
        path = Path(os.fsdecode(place))
        WRITTEN.setdefault(str(path.parent.resolve() / path.name))


def _read_path(event: str, args: tuple[Any, ...]) -> str | None:
    path = args[0]
    if type(path) is bytes:
        path = os.fsdecode(path)
    if type(path) is not str or not path or path.startswith(("<", ":memory:")):
        return None
    if path.endswith(_SUFFIXES) or (event == "open" and args[2] & _WRITES):
        return None
    absolute = Path.cwd() / path
    if not {*_FOLDERS}.isdisjoint(absolute.parts) or not absolute.is_file():
        return None
    # In the artifact folder, only published tables are data.
    if ARTIFACT_FOLDER in absolute.parts and absolute.suffix != ".parquet":
        return None
    return None if os.path.realpath(absolute).startswith(_ELSEWHERE) else str(absolute)


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
        try:
            path = cwd / Path(text).expanduser()
            is_folder = text in folders and path.is_dir()
            if not (path.is_file() or is_folder or _has_files(path)):
                continue
            resolved, base = path.resolve(), cwd.resolve()
        except (OSError, RuntimeError, ValueError):
            continue
        inside = resolved.is_relative_to(base)
        found.setdefault(resolved.relative_to(base).as_posix() if inside else resolved.as_posix())
    return tuple(found)


def source_state(source: str, folder: Path) -> SourceState:
    """Return the current state of the file ``source``, relative to ``folder``."""
    try:
        found = (folder / source).stat()
    except (OSError, ValueError):
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
