"""Durable, atomic file writes: the only module that writes files.

A write is on disk, complete, before its caller reports it: bytes go to a temporary file in the
same folder, are synced and renamed in one step, and then the folder is synced. Every operating
system error is raised as a ``StorageError`` with its remedy.
"""

import errno
import os
import secrets
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from itertools import takewhile
from pathlib import Path

from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.identity import ARTIFACT_FOLDER

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_PREFIX = ".parsimony-"
_SUFFIX = ".tmp"
STRAY_AFTER_S = 3600.0

_NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_NO_FOLDER_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})

# Paths synced by this process: folders up to the root, each with its inode, and files, each with
# the stat fields that would differ after a change.
_anchored: dict[Path, tuple[int, ...]] = {}

TROUBLE = tomllib.loads(Path(__file__).with_name("trouble.toml").read_text(encoding="utf-8"))


class StorageError(SessionError, OSError):
    """A file could not be written or read. ``str()`` is one sentence with the remedy."""

    def __init__(self, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        self.errno = code


def storage_error(exc: Exception, path: Path, doing: str = "write") -> StorageError:
    """Translate ``exc``, raised while ``doing`` something to ``path``, to a ``StorageError``."""
    if isinstance(exc, StorageError):
        return exc
    code = getattr(exc, "errno", None)
    said = TROUBLE["system"].get(errno.errorcode.get(code or 0, ""))
    said = said or f"{getattr(exc, 'strerror', '') or exc}; check the path and try again"
    return StorageError(f"Cannot {doing} {str(path)!r}: {said}.", code=code)


@contextmanager
def _explained(path: Path, doing: str = "write") -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except (OSError, ValueError) as exc:  # ValueError: a NUL in the path
        raise storage_error(exc, path, doing) from exc


def _flush(opened: tuple[Path, int]) -> None:
    path, handle = opened
    try:
        os.fsync(handle)
    except OSError as exc:
        if exc.errno not in _NO_FOLDER_SYNC or not stat.S_ISDIR(os.fstat(handle).st_mode):
            raise storage_error(exc, path) from exc


def _flush_all(handles: Sequence[tuple[Path, int]]) -> None:
    """Sync open files or folders side by side: a disk serves such waits together."""
    try:
        with ThreadPoolExecutor(len(handles) or 1) as pool:
            others = pool.map(_flush, handles[1:])
            # Results are read, since errors are raised then.
            _ = [*map(_flush, handles[:1]), *others]
    except RuntimeError:  # no thread can start: the process is ending, or has too many
        for each in handles:
            _flush(each)


def _sync_names(*folders: Path, only_above: bool = False) -> None:
    """Sync the directory entries of ``folders``, and once per process those on the path to them.

    Existing folders are synced too: their creator may have been killed before its own sync.
    """
    news: dict[Path, tuple[int, ...]] = {}
    wanted = dict.fromkeys(Path(os.path.realpath(folder)) for folder in folders)
    for whole in wanted:
        for each in (whole, *whole.parents[:-1]):
            inode = (each.stat().st_ino,)
            if each in news or _anchored.get(each) == inode:
                break
            news[each] = inode
    if os.name == "nt":  # Windows can't open a folder
        return
    own = {} if only_above else wanted
    with ExitStack() as opened:
        handles = []
        for folder in own | dict.fromkeys(each.parent for each in news):
            # An unreadable ancestor contains no entry that we created.
            with suppress(*() if folder in own else (PermissionError,)):
                handles.append((folder, os.open(folder, os.O_RDONLY)))
                opened.callback(os.close, handles[-1][1])
        _flush_all(handles)
    _anchored.update(news)


def _unchanged_since(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns


def _is_synced(path: Path) -> bool:
    """Return whether this process has synced the file in its current state, and its name."""
    try:
        return path in _anchored and _anchored[path] == _unchanged_since(path.lstat())
    except OSError:
        return False


@contextmanager
def _alone(handle: int) -> Iterator[bool]:
    """Hold an advisory lock on the file of ``handle``; yield whether locking is supported."""
    is_alone = False
    with suppress(OSError, AttributeError):
        fcntl.flock(handle, fcntl.LOCK_EX)
        is_alone = True
    try:
        yield is_alone
    finally:
        # Unlock explicitly: closing isn't enough when a child forked meanwhile shares the lock.
        if is_alone:
            fcntl.flock(handle, fcntl.LOCK_UN)


@contextmanager
def _opened(path: Path, flags: int, mode: int = 0o666) -> Iterator[int]:
    handle = os.open(path, flags | getattr(os, "O_BINARY", 0), mode)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def alone_in(folder: Path) -> Iterator[bool]:
    """Hold an advisory lock on ``folder``; yield whether the system supports it.

    Not reentrant: where there are no hard links, ``create`` takes it too.
    """
    if os.name == "nt":  # Windows can't open a folder
        yield False
        return
    with ExitStack() as opened:
        with _explained(folder, "lock the folder"):
            handle = opened.enter_context(_opened(folder, os.O_RDONLY))
        yield opened.enter_context(_alone(handle))


@contextmanager
def _drafts(
    files: Mapping[Path, bytes], mode: int, like: os.stat_result | None = None
) -> Iterator[Mapping[Path, Path]]:
    """Write and sync each file under a temporary name in its folder; yield target → temporary."""
    drafts = {
        path: path.parent / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(8)}{_SUFFIX}"
        for path in files
    }
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    handles: dict[Path, int] = {}
    try:
        with ExitStack() as opened:
            for path, data in files.items():
                with _explained(path):
                    handles[path] = opened.enter_context(_opened(drafts[path], flags, mode))
                    view = memoryview(data)
                    while view:
                        view = view[os.write(handles[path], view) :]
                    if like is not None:
                        _make_like(handles[path], like)
            # An empty file has no data to sync.
            _flush_all([(path, handle) for path, handle in handles.items() if files[path]])
        yield drafts
    finally:
        for draft in drafts.values():
            with suppress(OSError):
                draft.unlink(missing_ok=True)


def _make_like(handle: int, like: os.stat_result) -> None:
    """Copy the mode of ``like`` to the file of ``handle``, its owner and group where permitted."""
    if os.name == "nt":
        return
    mode = stat.S_IMODE(like.st_mode)
    # The rights of a group, or of an owner, that is another one now are dropped.
    for user, group, rest in ((-1, like.st_gid, 0o707), (like.st_uid, -1, 0o777)):
        try:
            os.fchown(handle, user, group)
        except OSError:
            mode &= rest
    os.fchmod(handle, mode)


def _link_new(temporary: Path, path: Path) -> bool:
    """Give ``temporary`` the name ``path`` unless it is taken; return whether that succeeded."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as exc:
        if exc.errno not in _NO_LINKS:
            raise
        # No hard links here: check and rename under the folder's lock instead.
        with alone_in(path.parent):
            if os.path.lexists(path):
                return False
            temporary.rename(path)
    return True


def _refuse_leaving(folder: Path) -> None:
    """Raise if ``folder`` is below an ``.ockham`` and a link leads it out of the workspace."""
    parts = folder.absolute().parts
    if ARTIFACT_FOLDER not in parts:
        return
    workspace = os.path.realpath(Path(*parts[: parts.index(ARTIFACT_FOLDER)]))
    real = os.path.realpath(folder)
    if not Path(real).is_relative_to(workspace):
        raise StorageError(
            f"Cannot write to {str(folder)!r}: a link on the way leads out of the workspace, to "
            f"{real!r}; replace it by a folder.",
            code=errno.ELOOP,
        )


def make_folder(folder: Path, *, mode: int = 0o777) -> None:
    """Create ``folder`` and its missing parents, durably. Existing folders are only synced.

    Below a workspace's ``.ockham``, links out of the workspace are refused: otherwise a cloned
    repository could redirect writes anywhere.
    """
    with _explained(folder, "create the folder"):
        _make_missing(folder, mode)
        _sync_names(folder, only_above=True)


def _make_missing(folder: Path, mode: int = 0o777) -> None:
    _refuse_leaving(folder)
    missing = [*takewhile(lambda each: not each.is_dir(), (folder, *folder.parents))]
    for each in reversed(missing):
        each.mkdir(mode=mode, exist_ok=True)


def create(path: Path, data: bytes, *, mode: int = 0o666) -> bool:
    """Create ``path`` with ``data`` unless it exists.

    Of concurrent callers exactly one succeeds, where the file system has hard links or locks. An
    existing file is neither read nor changed.

    Returns whether this call created the file.
    """
    return path in create_all({path: data}, mode=mode)


def create_all(
    files: Mapping[Path, bytes], *, mode: int = 0o666, claim: Path | None = None
) -> frozenset[Path]:
    """Create several files like ``create``, with fewer disk waits: sync all data, then all names.

    With ``claim``, the first of them, nothing is created where that one exists.

    Returns the paths that this call created.
    """
    files = {path: data for path, data in files.items() if not _is_synced(path)}
    for path in files:
        with _explained(path.parent, "create the folder"):
            _make_missing(path.parent)
    with _explained(next(iter(files), Path())):
        news = {path: data for path, data in files.items() if not os.path.lexists(path)}
        with _drafts(news, mode) as drafts:
            made = set[Path]()
            for path in news:
                with _explained(path):
                    if claim in (None, path, *made) and _link_new(drafts[path], path):
                        made.add(path)
        _sync_names(*(path.parent for path in files))
        _anchored.update((path, _unchanged_since(path.lstat())) for path in made)
    return frozenset(made)


def replace(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Replace the contents of ``path`` with ``data`` atomically, creating it if missing."""
    make_folder(path.parent)
    _put(path, data, mode)


def _put(path: Path, data: bytes, mode: int, like: os.stat_result | None = None) -> None:
    with _explained(path), _drafts({path: data}, mode, like) as drafts:
        drafts[path].replace(path)
        _sync_names(path.parent)


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> bytes:
    """Replace the bytes of ``path`` with ``change(bytes)`` atomically.

    Concurrent callers don't lose each other's updates, where the system has locks: the folder is
    locked meanwhile. The mode is kept, and the owner where permitted; access lists and other hard
    links are not. If ``change`` raises, the file is unchanged.

    Returns the new bytes.
    """
    with alone_in(path.parent):
        with _explained(path, "read"), path.open("rb") as stream:
            before, like = stream.read(), os.fstat(stream.fileno())
        data = change(before)
        _put(path, data, 0o600, like)
    return data


def append_line(path: Path, line: str) -> None:
    """Append ``line`` and a newline in one write, and sync.

    A torn last line (a crash left it without its newline) is terminated in the same write, so that
    it corrupts only itself. If the write or sync fails, the file is truncated back where it could
    be locked, so that no reader finds a line that was never reported as written.

    Raises:
        ValueError: ``line`` contains a line break.
        StorageError: it could not be written.
    """
    if "\n" in line or "\r" in line:
        raise ValueError(f"One line was expected and {line!r} holds a line break: encode it first.")
    data = line.encode("utf-8", "surrogatepass") + b"\n"
    make_folder(path.parent)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    with _explained(path, "append to"), _opened(path, flags) as handle:
        if _anchored.get(path) != _unchanged_since(os.fstat(handle)):
            # Sync the name first: a failure after the append would leave an unreported line.
            _sync_names(path.parent)
        with _alone(handle) as is_alone:
            end = os.fstat(handle).st_size
            whole = b"\n" + data if _is_torn(handle, end) else data
            try:
                if os.write(handle, whole) != len(whole):
                    raise OSError(errno.ENOSPC, "only a part of the line was written")
                os.fsync(handle)
            except OSError:
                if is_alone:
                    with suppress(OSError):
                        os.ftruncate(handle, end)
                raise
            _anchored[path] = _unchanged_since(os.fstat(handle))


def _is_torn(handle: int, size: int) -> bool:
    if not size:
        return False
    os.lseek(handle, size - 1, os.SEEK_SET)
    return os.read(handle, 1) != b"\n"


def settle(path: Path) -> None:
    """Sync ``path`` as it is now, whoever wrote it, so that it survives a power cut.

    For a file that is reported again without being rewritten: its writer may have been killed
    before the sync, or may still hold the lock, in which case this waits for it.
    """
    if _is_synced(path):
        return
    with _explained(path, "sync"):
        # O_NONBLOCK: don't hang if a pipe lies at this path.
        how = os.O_RDWR if os.name == "nt" else os.O_RDONLY | os.O_NONBLOCK
        with _opened(path, how) as handle, _alone(handle):
            os.fsync(handle)
            now = _unchanged_since(os.fstat(handle))
        _sync_names(path.parent)
        _anchored[path] = now


def read(path: Path) -> bytes:
    """Return the bytes of ``path``; ``StorageError`` if it is missing or unreadable."""
    with _explained(path, "read"):
        return path.read_bytes()


def listed(folder: Path) -> list[str]:
    """Return the names in ``folder``, sorted, without the temporary files of this module.

    Empty if the folder doesn't exist; ``StorageError`` if it is unreadable.
    """
    with _explained(folder, "list"):
        names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
    return sorted(name for name in names if not _is_temporary(name))


def remove(path: Path) -> None:
    """Delete a file; a missing file is not an error."""
    with _explained(path, "delete"):
        path.unlink(missing_ok=True)
        _sync_names(path.parent)


def rename(path: Path, name: str) -> Path:
    """Give a file another ``name`` in its folder; return the new path. Nothing has that name."""
    with _explained(path, "move"):
        new = path.rename(path.with_name(name))
        _sync_names(path.parent)
    return new


def _is_temporary(name: str) -> bool:
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


def sweep_temporary(folder: Path, *, clock: Clock = SYSTEM_CLOCK) -> int:
    """Remove temporary files that dead writers left below ``folder``; return their number.

    Only temporary files of this module older than ``STRAY_AFTER_S`` are removed: a younger one may
    belong to a live writer, perhaps on another machine.
    """
    oldest = clock.now().timestamp() - STRAY_AFTER_S
    removed = 0
    for place, _, names in os.walk(folder):  # skips folders that vanish or are unreadable
        for stray in (Path(place, name) for name in names if _is_temporary(name)):
            with suppress(OSError):
                if stray.stat().st_mtime < oldest:
                    stray.unlink()
                    removed += 1
    return removed
