"""The one seam through which files are written.

Whatever is announced is on the disk before, whole or not at all: bytes go to a temporary file of
the same folder, are synced, get their name in one step, and the folder is synced. Every error of
the operating system leaves here as a ``StorageError`` that says what to do.
"""

import errno
import os
import secrets
import stat
import threading
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
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

# What this process has synced: folders, up to the root, each with its inode, and files with what
# tells that nobody has changed them since.
_anchored: dict[Path, tuple[int, ...]] = {}

# The folders that a thread is alone in.
_held = threading.local()

TROUBLE = tomllib.loads(Path(__file__).with_name("trouble.toml").read_text(encoding="utf-8"))


class StorageError(SessionError, OSError):
    """A file could not be written or read. ``str()`` is one sentence with the remedy."""

    def __init__(self, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        self.errno = code


def storage_error(exc: OSError, path: Path, doing: str = "write") -> StorageError:
    """``exc``, met while ``doing`` something to ``path``, as a sentence."""
    if isinstance(exc, StorageError):
        return exc
    usual = f"{exc.strerror or str(exc) or type(exc).__name__}; check the folder and try again"
    said = TROUBLE["system"].get(errno.errorcode.get(exc.errno or 0, ""), usual)
    return StorageError(f"Cannot {doing} {str(path)!r}: {said}.", code=exc.errno)


@contextmanager
def _explained(path: Path, doing: str = "write") -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except OSError as exc:
        raise storage_error(exc, path, doing) from exc
    except ValueError as exc:  # a NUL in the path
        raise StorageError(f"Cannot {doing} {str(path)!r}: {exc}; choose another name.") from exc


def _flush(handle: int) -> None:
    try:
        os.fsync(handle)
    except OSError as exc:
        if exc.errno not in _NO_FOLDER_SYNC or not stat.S_ISDIR(os.fstat(handle).st_mode):
            raise


def _sync_names(*folders: Path) -> None:
    """Sync the names in ``folders``."""
    for folder in folders if os.name != "nt" else ():  # a folder cannot be opened there
        handle = os.open(folder, os.O_RDONLY)
        try:
            _flush(handle)
        finally:
            os.close(handle)


def _anchor(*folders: Path) -> None:
    """Sync every name on the way to ``folders``, once in this process.

    Also of folders that were there: whoever made them may have been killed before the sync.
    """
    news: dict[Path, tuple[int, ...]] = {}
    for whole in (Path(os.path.realpath(folder)) for folder in folders):
        for each in (whole, *whole.parents[:-1]):
            inode = (each.stat().st_ino,)
            if each in news or _anchored.get(each) == inode:
                break
            news[each] = inode
    for above in {each.parent for each in news}:
        # One that is passed through and cannot be read holds nothing of ours.
        with suppress(PermissionError):
            _sync_names(above)
    _anchored.update(news)


def _unchanged_since(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns


def _is_synced(path: Path) -> bool:
    """Whether this process has synced the file as it is now, and its name."""
    try:
        return path in _anchored and _anchored[path] == _unchanged_since(path.lstat())
    except OSError:
        return False


@contextmanager
def _alone(handle: int) -> Iterator[bool]:
    """Keep others that ask from ``handle``'s file; yields whether the file system can do that."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
    except (OSError, AttributeError):
        yield False
        return
    try:
        yield True
    finally:
        # Said, not left to the closing: a child that was forked meanwhile has the lock as well.
        fcntl.flock(handle, fcntl.LOCK_UN)


@contextmanager
def alone_in(folder: Path) -> Iterator[bool]:
    """Keep others that ask from ``folder``; yields whether the system can do that.

    Who is alone there already stays so: a lock is no wait for oneself.
    """
    if os.name == "nt":  # a folder cannot be opened there
        yield False
        return
    key, held = os.path.realpath(folder), vars(_held).setdefault("folders", set())
    if key in held:
        yield True
        return
    with _explained(folder, "lock the folder"):
        handle = os.open(folder, os.O_RDONLY)
    try:
        with _alone(handle) as is_alone:
            held.update([key] if is_alone else ())
            yield is_alone
    finally:
        held.discard(key)
        os.close(handle)


@contextmanager
def _drafts(
    files: Mapping[Path, bytes], mode: int, like: os.stat_result | None = None
) -> Iterator[Mapping[Path, Path]]:
    """Write each file under another name beside its own, synced; gives these names by its own."""
    drafts = {
        path: path.parent / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(8)}{_SUFFIX}"
        for path in files
    }
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handles: dict[Path, int] = {}
    try:
        with ExitStack() as opened:
            for path, data in files.items():
                with _explained(path):
                    handles[path] = os.open(drafts[path], flags, mode)
                    opened.callback(os.close, handles[path])
                    view = memoryview(data)
                    while view:
                        view = view[os.write(handles[path], view) :]
                    if len(files) > 1 and hasattr(os, "posix_fadvise"):
                        # A hint to begin with the writing, so that the first sync below waits for
                        # all of them, and the others for little.
                        os.posix_fadvise(handles[path], 0, 0, os.POSIX_FADV_DONTNEED)
                    if like is not None:
                        _make_like(handles[path], like)
            for path, handle in handles.items():
                with _explained(path):
                    if files[path]:  # of an empty file the name is all
                        os.fsync(handle)
        yield drafts
    finally:
        for draft in drafts.values():
            with suppress(OSError):
                draft.unlink(missing_ok=True)


def _make_like(handle: int, like: os.stat_result) -> None:
    """Give ``handle``'s file the owner, as far as that is permitted, and the mode of ``like``."""
    if os.name == "nt":
        return
    mode = stat.S_IMODE(like.st_mode)
    try:
        os.fchown(handle, like.st_uid, like.st_gid)
    except OSError:
        mode &= 0o777  # who owns it now is not to be taken for who owned it
        try:
            os.fchown(handle, -1, like.st_gid)
        except OSError:
            mode &= 0o707
    os.fchmod(handle, mode)


def _link_new(temporary: Path, path: Path) -> bool:
    """Give ``temporary`` its name unless somebody has it; whether it got it."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError as exc:
        if exc.errno not in _NO_LINKS:
            raise
        # Without links: a rename, while nobody else is at one in this folder.
        with alone_in(path.parent):
            if os.path.lexists(path):
                return False
            temporary.rename(path)
    return True


def _refuse_leaving(folder: Path) -> None:
    """Raise where ``folder`` lies in an ``.ockham`` and, by a link, outside of its workspace."""
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
    """Create ``folder`` and what is missing above it, durably. What exists is only synced.

    Below a workspace's ``.ockham`` no link is followed out of that workspace: what came with a
    clone could else write anywhere.
    """
    with _explained(folder, "create the folder"):
        _make_missing(folder, mode)
        _anchor(folder)


def _make_missing(folder: Path, mode: int = 0o777) -> None:
    _refuse_leaving(folder)
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        if folder == folder.parent:
            break
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(mode=mode, exist_ok=True)


def create(path: Path, data: bytes, *, mode: int = 0o666) -> bool:
    """Create ``path`` with ``data`` unless it exists; of many callers exactly one succeeds, where
    the file system has hard links or locks.

    Returns whether this call made the file. An existing one is neither read nor changed.
    """
    return path in create_all({path: data}, mode=mode)


def create_all(
    files: Mapping[Path, bytes], *, mode: int = 0o666, gate: Path | None = None
) -> frozenset[Path]:
    """``create`` each of these files, with fewer waits for the disk than one by one: all are synced
    at once, and then all their names.

    Args:
        gate: one of them; where somebody else has made that one, none is made.

    Returns those that this call made.
    """
    files = {path: data for path, data in files.items() if path == gate or not _is_synced(path)}
    for path in files:
        with _explained(path.parent, "create the folder"):
            _make_missing(path.parent)
    with _explained(next(iter(files), Path())):
        news = {path: data for path, data in files.items() if not os.path.lexists(path)}
        if gate is not None and gate not in news:
            return frozenset()
        with _drafts(news, mode) as drafts:
            made = {gate} if gate is not None and _link_new(drafts[gate], gate) else set[Path]()
            if gate is None or made:
                made |= {each for each in news if each != gate and _link_new(drafts[each], each)}
        folders = {path.parent for path in files}
        _anchor(*folders)
        _sync_names(*folders)
        _anchored.update((path, _unchanged_since(path.lstat())) for path in made)
    return frozenset(made)


def replace(path: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Write ``data`` in the place of whatever ``path`` holds, in one step."""
    make_folder(path.parent)
    _put(path, data, mode)


def _put(path: Path, data: bytes, mode: int, like: os.stat_result | None = None) -> None:
    with _explained(path), _drafts({path: data}, mode, like) as drafts:
        drafts[path].replace(path)
        _anchor(path.parent)
        _sync_names(path.parent)


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> bytes:
    """Write what ``change`` makes of the bytes of ``path`` in their place, in one step.

    Of many callers none loses what another has written: one at a time is at a folder, where the
    system has locks. The mode is kept, and the owner where that is permitted; an access list, and
    other hard links to the file, are not. Whatever ``change`` raises leaves the file as it is.

    Returns the bytes that are there now.
    """
    with alone_in(path.parent):
        with _explained(path, "read"), path.open("rb") as stream:
            before, like = stream.read(), os.fstat(stream.fileno())
        data = change(before)
        if data == before:
            settle(path)
            return data
        _put(path, data, 0o600, like)
    return data


def append_line(path: Path, line: str) -> None:
    """Append ``line`` and a newline in one write, and sync.

    A line that a crash left without its newline is closed first, in the same write, so that it
    spoils nothing but itself. What could not be written and synced whole is taken back, so that
    nobody finds a line that was never announced. ``ValueError`` when ``line`` holds a line break.
    """
    if "\n" in line or "\r" in line:
        raise ValueError(f"One line was expected and {line!r} holds a line break: encode it first.")
    data = line.encode("utf-8", "surrogatepass") + b"\n"
    make_folder(path.parent)
    with _explained(path, "append to"):
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        flags |= getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(path, flags, 0o666)
        try:
            if _anchored.get(path) != _unchanged_since(os.fstat(handle)):
                # Before the line: one that nobody could be told of would else be found.
                _sync_names(path.parent)
            with _alone(handle) as is_alone:
                end = os.fstat(handle).st_size
                try:
                    _append(handle, b"\n" + data if _is_torn(handle, end) else data)
                except OSError:
                    if is_alone:
                        with suppress(OSError):
                            os.ftruncate(handle, end)
                    raise
                _anchored[path] = _unchanged_since(os.fstat(handle))
        finally:
            os.close(handle)


def _append(handle: int, data: bytes) -> None:
    if os.write(handle, data) != len(data):
        raise OSError(errno.ENOSPC, "only a part of the line was written")
    os.fsync(handle)


def _is_torn(handle: int, size: int) -> bool:
    if not size:
        return False
    os.lseek(handle, size - 1, os.SEEK_SET)
    return os.read(handle, 1) != b"\n"


def settle(path: Path) -> None:
    """Make sure that ``path`` as it is now outlives a power cut, whoever wrote it.

    For what is announced again without being written again: its writer may have been killed
    before the sync, or may be at it now, and then it is waited for.
    """
    if _is_synced(path):
        return
    with _explained(path, "sync"):
        # A pipe in its place is not waited for.
        how = os.O_RDWR if os.name == "nt" else os.O_RDONLY | os.O_NONBLOCK
        handle = os.open(path, how)
        try:
            with _alone(handle):
                os.fsync(handle)
                now = _unchanged_since(os.fstat(handle))
        finally:
            os.close(handle)
        _anchor(path.parent)
        _sync_names(path.parent)
        _anchored[path] = now


def read(path: Path) -> bytes:
    """The bytes of ``path``; ``StorageError`` when it is missing or cannot be read."""
    with _explained(path, "read"):
        return path.read_bytes()


def listed(folder: Path) -> list[str]:
    """The names in ``folder``, sorted, without those of files that a writer has not named yet.

    Nothing where there is no folder. ``StorageError`` if it is unreadable.
    """
    with _explained(folder, "list"):
        names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
    return sorted(name for name in names if not _is_temporary(name))


def remove(path: Path) -> None:
    """Delete a file; one that is gone already is no error."""
    with _explained(path, "delete"):
        path.unlink(missing_ok=True)
        _sync_names(path.parent)


def move_aside(path: Path, to: Path) -> Path:
    """Move a file where nothing is lost by it: to ``to``, or beside what stands there already.

    Returns the path that it has then.
    """
    make_folder(to.parent)
    number, place = 1, to
    with _explained(path, "move"):
        while os.path.lexists(place):
            number += 1
            place = to.with_name(f"{to.name}.{number}")
        path.rename(place)
        _sync_names(*{place.parent, path.parent})
    return place


def _is_temporary(name: str) -> bool:
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


def sweep_temporary(folder: Path, *, clock: Clock = SYSTEM_CLOCK) -> int:
    """Remove what writers that died left below ``folder``; returns how many files went.

    Only temporary files of this module that are older than an hour: a younger one may belong to
    a writer that lives, perhaps on another machine.
    """
    oldest = clock.now().timestamp() - STRAY_AFTER_S
    removed = 0
    for place, _, names in os.walk(folder):  # passes over what goes away or cannot be read
        for stray in (Path(place, name) for name in names if _is_temporary(name)):
            with suppress(OSError):
                if stray.stat().st_mtime < oldest:
                    stray.unlink()
                    removed += 1
    return removed
