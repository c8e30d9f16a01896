"""The one seam through which files are written.

Whatever is announced is on the disk before, whole or not at all: bytes go to a temporary file of
the same folder, are synced, get their name in one step, and the folder is synced. Every error of
the operating system leaves here as a ``StorageError`` that says what to do.
"""

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from parsimony_kernel.clock import SYSTEM_CLOCK, Clock

_PREFIX = ".parsimony-"
_SUFFIX = ".tmp"
STRAY_AFTER_S = 3600.0

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_NO_FOLDER_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})

_REMEDIES: dict[int, tuple[str, str]] = {
    errno.ENOSPC: ("the disk is full", "free some space and try again"),
    errno.EDQUOT: ("the quota of this disk is used up", "free some space and try again"),
    errno.EFBIG: ("the file would be larger than is allowed", "make it smaller or raise the limit"),
    errno.EROFS: ("the file system is read-only", "choose a folder that can be written"),
    errno.EACCES: ("permission is denied", "make the folder writable or choose another"),
    errno.EPERM: ("the operation is not permitted", "make the folder writable or choose another"),
    errno.ENOTDIR: (
        "a part of the path is a file, not a folder",
        "move that file away or choose another folder",
    ),
    errno.EEXIST: (
        "a file stands in its place",
        "move that file away or choose another folder",
    ),
    errno.EISDIR: ("a folder stands in its place", "move that folder away"),
    errno.ENAMETOOLONG: ("the name is too long", "choose a shorter one"),
    errno.ENOENT: ("the path does not exist", "create the folder or choose another"),
    errno.EIO: ("the disk reported an input/output error", "check the disk and try again"),
    errno.EMFILE: ("too many files are open", "close some and try again"),
}


class StorageError(OSError):
    """A file could not be written or read. ``str()`` is one sentence with the remedy."""

    def __init__(self, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        self.errno = code


def storage_error(exc: OSError, path: Path, doing: str = "write") -> StorageError:
    """``exc``, met while ``doing`` something to ``path``, as a sentence."""
    if isinstance(exc, StorageError):
        return exc
    fallback = (exc.strerror or str(exc) or type(exc).__name__, "check the folder and try again")
    reason, remedy = _REMEDIES.get(exc.errno or 0, fallback)
    return StorageError(f"Cannot {doing} {str(path)!r}: {reason}; {remedy}.", code=exc.errno)


@contextmanager
def _explained(path: Path, doing: str = "write") -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise storage_error(exc, path, doing) from exc
    except ValueError as exc:  # a NUL in the path
        raise StorageError(f"Cannot {doing} {str(path)!r}: {exc}; choose another name.") from exc


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # a folder cannot be opened there
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as exc:
        if exc.errno not in _NO_FOLDER_SYNC:
            raise
    finally:
        os.close(handle)


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _write_new(path: Path, data: bytes, mode: int) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    try:
        _write_all(handle, data)
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _temporary(path: Path, data: bytes, mode: int) -> Iterator[Path]:
    temporary = path.parent / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(8)}{_SUFFIX}"
    try:
        _write_new(temporary, data, mode)
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _link_new(temporary: Path, path: Path, data: bytes, mode: int) -> bool:
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as exc:
        if exc.errno not in _NO_LINKS:
            raise
        # Without links, exclusive creation still lets exactly one win; what it cannot give is
        # a file that is never seen half-written.
        try:
            _write_new(path, data, mode)
        except FileExistsError:
            return False
    return True


def make_folder(folder: Path, *, mode: int = 0o777) -> None:
    """Create ``folder`` and what is missing above it, durably. An existing one is left alone."""
    with _explained(folder, "create the folder"):
        missing = []
        current = folder
        while not current.is_dir():
            missing.append(current)
            if current == current.parent:
                break
            current = current.parent
        for each in reversed(missing):
            each.mkdir(mode=mode, exist_ok=True)
            _sync_folder(each.parent)


def create(path: Path, data: bytes, *, mode: int = 0o666) -> bool:
    """Create ``path`` with ``data`` unless it exists; of many callers exactly one succeeds.

    Returns whether this call made the file. An existing one is neither read nor changed.
    """
    make_folder(path.parent)
    with _explained(path):
        with _temporary(path, data, mode) as temporary:
            made = _link_new(temporary, path, data, mode)
        _sync_folder(path.parent)
    return made


def write_once(path: Path, data: bytes, *, mode: int = 0o666) -> bool:
    """Write a file that never changes.

    Returns ``True`` when this call wrote it and ``False`` when it was there with the same bytes.
    A file with other bytes is a ``StorageError`` and is left as it is.
    """
    with _explained(path, "read"):
        there = path.is_file()
    if not there and create(path, data, mode=mode):
        return True
    if read(path) != data:
        raise StorageError(
            f"Cannot write {str(path)!r}: it exists with other content and is written only once; "
            "move it away if it is damaged."
        )
    return False


def replace(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Write ``data`` in the place of whatever ``path`` holds, in one step."""
    make_folder(path.parent)
    with _explained(path):
        with _temporary(path, data, mode) as temporary:
            temporary.replace(path)
        _sync_folder(path.parent)


def append_line(path: Path, line: str) -> None:
    """Append ``line`` and a newline in one write, and sync.

    A line that a crash left without its newline is closed first, in the same write, so that it
    spoils nothing but itself. ``ValueError`` when ``line`` holds a line break.
    """
    if "\n" in line or "\r" in line:
        raise ValueError(f"One line was expected and {line!r} holds a line break: encode it first.")
    data = line.encode("utf-8", "surrogatepass") + b"\n"
    make_folder(path.parent)
    with _explained(path, "append to"):
        is_new = not path.exists()
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        handle = os.open(path, flags, 0o666)
        try:
            if _is_torn(handle):
                data = b"\n" + data
            written = os.write(handle, data)
            if written != len(data):
                raise OSError(errno.ENOSPC, "only a part of the line was written")
            os.fsync(handle)
        finally:
            os.close(handle)
        if is_new:
            _sync_folder(path.parent)


def _is_torn(handle: int) -> bool:
    size = os.fstat(handle).st_size
    if not size:
        return False
    os.lseek(handle, size - 1, os.SEEK_SET)
    return os.read(handle, 1) != b"\n"


def read(path: Path) -> bytes:
    """The bytes of ``path``; ``StorageError`` when it is missing or cannot be read."""
    with _explained(path, "read"):
        return path.read_bytes()


def sweep_temporary(folder: Path, *, clock: Clock = SYSTEM_CLOCK) -> int:
    """Remove what writers that died left below ``folder``; returns how many files went.

    Only temporary files of this module that are older than an hour: a younger one may belong to
    a writer that lives, perhaps on another machine.
    """
    oldest = clock.now().timestamp() - STRAY_AFTER_S
    removed = 0
    for stray in folder.rglob(f"{_PREFIX}*{_SUFFIX}"):
        with contextlib.suppress(OSError):
            if stray.stat().st_mtime < oldest:
                stray.unlink()
                removed += 1
    return removed
