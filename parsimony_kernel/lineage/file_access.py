"""The files that Python opens for reading while a cell runs, by its audit events.

What a library reads with its own code, as pyarrow and DuckDB do, raises no event and is not seen.
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

# More files than this are not told; a cell that opens a whole tree is told by what comes first.
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

# What code of this process has written: absolute paths, the links of their folders followed.
WRITTEN: dict[str, None] = {}
_MOST_WRITTEN = 10_000


@dataclass(frozen=True)
class SourceState:
    """What a source was when a cell that read it had ended: its size in bytes and the time of its
    last change.

    Without them it was no file, or is known to have changed since. What changes a file while the
    cell runs, or keeps its size and that time, is not seen by it.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}  # where it is read again

    path: str
    size_bytes: int | None = None
    mtime_ns: int | None = None


@dataclass
class Watch:
    """What was opened for reading meanwhile: absolute paths, in the order of the first time. What
    is written is kept for the process."""

    read: dict[str, None] = field(default_factory=dict)

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        """Note what an audit event says of a file that is opened for reading."""
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
    # Of what is kept of the notebook only published tables are data.
    if ARTIFACT_FOLDER in absolute.parts and absolute.suffix != ".parquet":
        return None
    return None if os.path.realpath(absolute).startswith(_ELSEWHERE) else str(absolute)


def sources_in(
    literals: Iterable[str], cwd: Path, folders: Collection[str] = ()
) -> tuple[str, ...]:
    """The literals that are addresses, files, or patterns such as ``sales/*.parquet`` that files
    match; what lies below ``cwd`` relative to it.

    Args:
        folders: literals that may be the folder of a table in many files, too.
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
    """What the file ``source``, relative to ``folder``, is now."""
    try:
        found = (folder / source).stat()
    except (OSError, ValueError):
        return SourceState(source)
    if not stat.S_ISREG(found.st_mode):
        return SourceState(source)
    return SourceState(source, found.st_size, found.st_mtime_ns)


def _has_files(pattern: Path) -> bool:
    """Whether files match a pattern, or may where it is for several folders: these are not looked
    into. One of any suffix is not taken for a pattern."""
    if "*" not in str(pattern) or not pattern.suffix or "*" in pattern.suffix:
        return False
    named = list(takewhile(lambda part: "*" not in part, pattern.parts))
    folder = Path(*named)
    is_one = len(named) == len(pattern.parts) - 1
    return any(folder.glob(pattern.name)) if is_one else folder.is_dir()
