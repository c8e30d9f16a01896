"""Classify audit events by their side effect outside the notebook; the rules are data.

``events.toml`` lists what each audit event does to which of its arguments; ``Keeper`` decides from
that and from the call stack of the event. It is a seat belt, not a sandbox: code that bypasses
Python's own functions, with ctypes or in a subinterpreter, is not seen.

Worker processes of a cell are refused side effects that need approval, because they can't ask: one
is an error there, and the cell that started it reports it as well. A forked worker inherits the
audit hook; a spawned one installs its own from its preparation data before anything else, as remote
kernels do. So this imports only the standard library.
"""

import builtins
import functools
import ipaddress
import json
import os
import re
import socket
import sys
import sysconfig
import tempfile
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from itertools import islice
from pathlib import Path
from pickletools import genops
from traceback import walk_stack
from typing import Any, NamedTuple, NoReturn
from zipfile import ZipFile

from parsimony_kernel.analysis.calls import PATTERNS
from parsimony_kernel.core.reach import ReachKind, is_run_later
from parsimony_kernel.core.redaction import NAMES_A_KEY
from parsimony_kernel.execution.run_scope import OURS, Permit, ours
from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.lineage.file_access import READ, WRITES, WRITTEN


class Target(NamedTuple):
    """A side effect: its kind, and the path, host, program or name that it concerns.

    A deletion says what it does, and to which paths: to one, or to both of a move.
    """

    kind: ReachKind
    what: str
    does: str = ""
    paths: tuple[str, ...] = ()


_TABLE: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("events.toml").read_text(encoding="utf-8")
)
EVENTS: Mapping[str, list[Any]] = _TABLE["events"]
LISTS = {row: frozenset(text.split()) for row, text in _TABLE["lists"].items()}
_WORKERS = LISTS["workers"]
_UNPICKLERS = _WORKERS | LISTS["unpicklers"]
_PICKLED = tuple(LISTS["pickled"])
# The beginning of bytes pickled by protocol 2 or later, and of a NumPy file of objects.
_PROTOCOL = re.compile(rb"\x80[\x02-\x05]")
_PICKLE = re.compile(rb"(?s)%b|\x93NUMPY.*\|O" % _PROTOCOL.pattern)
# A text in older pickled bytes that goes on after what was read.
_LONG_TEXT = re.compile(rb"(?s)[SV][^\n]{1000,}\Z|[TX]..[\x00-\x1f]\x00|[TX]...\x00.{1000}")
_PACKED = {b"\x1f\x8b": "gzip", b"BZ": "bz2", b"\xfd7": "lzma"}

_STANDARD = tuple(
    f"{os.path.realpath(sysconfig.get_path(each))}{os.sep}" for each in ("stdlib", "platstdlib")
)
_INSTALLED = ("site-packages", "dist-packages")
_PACKAGES = str(Path(__file__).resolve().parents[2])
_OURS = f"{Path(__file__).resolve().parents[1]}{os.sep}"
# The module names of cells, in workers too.
_NOTEBOOK = frozenset({"__main__", "__mp_main__"})
_DEEPEST = 400
_MOST_TEXTS = 200
_HEAD = 4_096


@dataclass(frozen=True)
class Caller:
    """The origin of an audit event on the call stack.

    Args:
        is_own: the nearest caller outside the standard library is notebook or workspace code.
        is_importing: a library is being imported.
        modules: the packages between the event and the notebook's code, standard library included.
        lines: the lines of the cell that are on the stack.
    """

    is_own: bool
    is_importing: bool
    modules: frozenset[str]
    lines: frozenset[int]


def is_installed(path: str) -> bool:
    """Whether a file belongs to the standard library or to an installed package."""
    return path.startswith(_STANDARD) or any(each in path for each in _INSTALLED)


def _is_library_read(place: Any, _: Any, flags: Any) -> bool:
    """Whether an installed file that holds no key is opened for reading, which anybody may do."""
    path = None if isinstance(flags, int) and flags & WRITES else _path_of(place)
    return path is not None and is_installed(path) and not PATTERNS["key_file"].search(path)


@functools.lru_cache(maxsize=4_096)
def _is_standard(name: str) -> bool:
    """Whether a file belongs to the standard library."""
    return name.startswith(("<", *_STANDARD)) and not any(each in name for each in _INSTALLED)


class Keeper:
    """The check of one capture's code, and of its workers, by what their audit events reach.

    Args:
        permit: what the code may do; modules of its workspace count as notebook code.
        said: returns the strings in the code, and the values of the variables that it reads.
        filename: the file name of the running cell.
        refusals: a file to which each worker appends what it may not reach; created when the
            first one starts.
    """

    def __init__(
        self,
        permit: Permit,
        said: Callable[[], Iterable[Any]] = tuple,
        filename: str = "",
        refusals: str = "",
    ) -> None:
        self.permit, self.said, self.filename, self.refusals = permit, said, filename, refusals
        self._workspace = os.path.realpath(permit.workspace)
        # The files opened for reading since the last unpickling, which may be its source.
        self._opened: dict[str, None] = {}
        # The lengths of bytes that were looked for among the files read earlier.
        self._sizes: set[int] = set()

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Check an audit event, if it is one of ``EVENTS``; prepare for a worker that starts."""
        if event not in EVENTS or OURS.get():
            return
        with ours():
            if event == "open" and _is_library_read(*arguments):
                return  # most events, and the stack of an import is deep
            if event in ("os.fork", "parsimony.worker"):
                if not self.refusals:
                    handle, self.refusals = tempfile.mkstemp(prefix="parsimony-")
                    os.close(handle)
                for prepared in arguments:  # what a worker that doesn't fork is told
                    prepared["parsimony"] = self
            by = self.caller()
            found = self.target(event, arguments, by)
            if found is not None:
                self.check(event, found, by)

    def check(self, event: str, found: Target, by: Caller) -> None:
        """Raise to prevent a side effect; in a worker, whatever it is."""
        self.refuse(found.what)

    def refused(self) -> str:
        """Return a line for each refusal so far, without duplicates; later ones aren't recorded."""
        if not self.refusals:
            return ""
        noted, self.refusals = Path(self.refusals), ""
        lines = noted.read_text(encoding="utf-8").splitlines(keepends=True)
        noted.unlink()
        return "".join(dict.fromkeys(lines))

    def refuse(self, what: str) -> NoReturn:
        """Raise ``PermissionError`` in a worker for a side effect, and record the refusal."""
        with suppress(OSError):  # the cell that started it has ended, and nobody reads it
            notes = os.open(self.refusals, os.O_WRONLY | os.O_APPEND)
            os.write(notes, f"A worker process may not reach {what}.\n".encode())
            os.close(notes)
        raise PermissionError(f"a worker process may not reach {what}: do it in the cell itself")

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        # Unpickling guards the worker, whose path may lack this package until then.
        permit = self.permit
        given = str(permit.workspace), tuple(permit.made), permit.is_dry, self.refusals
        loading = (
            f"import sys; {_PACKAGES!r} in sys.path or sys.path.append({_PACKAGES!r}); "
            "from parsimony_kernel.execution.native import guard_worker"
        )
        return builtins.eval, (f"exec({loading!r}) or guard_worker(*{given!r})",)

    def caller(self) -> Caller:
        """Walk the stack to find the caller of the current audit event."""
        filename, workspace = self.filename, str(self.permit.workspace)
        modules, lines = set[str](), set[int]()
        nearest: bool | None = None
        is_importing = False
        for frame, line in islice(walk_stack(sys._getframe(1)), _DEEPEST):
            name = frame.f_code.co_filename
            module = str(frame.f_globals.get("__name__") or "")
            # IPython replaces ``open`` by a function of its own.
            is_ours = name.startswith(_OURS) or frame.f_code.co_name == "_modified_open"
            is_theirs = name.startswith(workspace) and not is_ours and not is_installed(name)
            if name == filename:
                lines.add(line)
            if name == filename or module in _NOTEBOOK or is_theirs:
                nearest = True if nearest is None else nearest
            elif name.startswith("<frozen importlib"):
                is_importing = is_importing or nearest is not True
            elif nearest is not True and not is_ours:
                names = module.split(".")
                modules.update(".".join(names[:depth]) for depth in (1, 2, 3))
                if nearest is None and not _is_standard(name):
                    nearest = False
        return Caller(nearest is True, is_importing, frozenset(modules), frozenset(lines))

    def target(self, event: str, arguments: tuple[Any, ...], by: Caller) -> Target | None:
        """Return the side effect of one of ``EVENTS``; ``None`` when there is none."""
        does, *at = EVENTS[event]
        match does:
            case "open":
                place, mode, flags = arguments
                return self._opening(place, mode, flags, by)
            case "database":
                return self._database(os.fsdecode(arguments[0]), by)
            case "write" | "change" | "touch":
                path = _path_at(arguments, *at)
                if does == "change" or (does == "touch" and "shutil" not in by.modules):
                    path = _followed(path)
                # The time of a file of the workspace needs no copy of the file.
                is_free = does == "touch" and _is_within(path or "", self._workspace)
                return None if is_free and not self.permit.is_dry else self._writing(path, by)
            case "remove" | "move":
                to = _path_at(arguments, 1, 3) if does == "move" else None
                return self._removing(_path_at(arguments, *at), to, by)
            case "start":
                return _starting(_command(*(arguments[each] for each in at)), by)
            case "fork":
                is_worker = not (_WORKERS | {"subprocess"}).isdisjoint(by.modules)
                return None if is_worker else Target(ReachKind.shell, str(at[0]))
            case "kill":
                return _killing(event, arguments, by)
            case "worker":
                return None
            case "unpickle":
                return None if _unpickles_freely(by) else self._loading(by)
            case "environment" | "setting":
                name = os.fsdecode(arguments[0])
                packages = {each.partition(".")[0] for each in by.modules}
                reads = does == "setting" or packages <= LISTS["mappings"]
                is_key = reads and NAMES_A_KEY.search(name)
                return Target(ReachKind.secret, name) if is_key else None
            case "mode":
                return self._marking(_followed(_path_at(arguments, *at)), arguments[1], by)
            case "address":
                return _connecting(event, *arguments[:2])
            case "link":
                return _host(host_of(str(arguments[at[0]])))
        return _host(arguments[at[0]])

    def _found(self, kind: ReachKind, path: str) -> Target:
        """Build a target with a readable path: relative to the workspace, else to ``~``."""
        if _is_below(path, self._workspace):
            return Target(kind, os.path.relpath(path, self._workspace))
        home = _home()
        return Target(kind, f"~{path[len(home) :]}" if _is_below(path, home) else path)

    def _opening(self, place: Any, mode: Any, flags: Any, by: Caller) -> Target | None:
        path = _path_of(place)
        if path is None:
            return None
        if isinstance(flags, int) and flags & WRITES:
            # The event of ``os.open`` doesn't tell the descriptor of the folder that it is given;
            # ``pathlib`` gives none.
            may_have_folder = mode is None and by.is_own and "pathlib" not in by.modules
            folders = _open_folders() if may_have_folder else ()
            outside = [each for each in folders if not _is_within(each, self._workspace)]
            paths = [*(str(Path(each, os.fsdecode(place))) for each in outside), _followed(path)]
            return next(filter(None, (self._writing(each, by) for each in paths)), None)
        is_there = Path(path).exists()
        if PATTERNS["key_file"].search(path) and (by.is_own or is_there) and not by.is_importing:
            return self._found(ReachKind.secret, path)
        is_known = _is_within(path, self._workspace) or is_installed(path)
        # ``%run`` and similar magics, but not autoreload.
        is_magic = "IPython.core.magics" in by.modules and "IPython.extensions" not in by.modules
        if is_magic and path.endswith((".py", ".ipy")) and not (is_known or by.is_importing):
            return self._found(ReachKind.dynamic_code, path)
        if not is_there or is_installed(path):
            return None
        if path.casefold().endswith(_PICKLED):
            is_copied = not LISTS["copiers"].isdisjoint(by.modules)
            return None if is_copied else self._unpickling(path, by)
        if "shutil" not in by.modules:
            self._opened[path] = None
        return None

    def _writing(self, path: str | None, by: Caller) -> Target | None:
        if path is None or by.is_importing or self._is_free(path, by):
            return None
        if path in self.permit.made and not self.permit.is_dry:
            self.permit.keep(path)
            return None
        kind = self._kind_of_write(path, by)
        if kind is not None:
            return self._found(kind, path)
        if not os.path.lexists(path):
            self.permit.made.add(path)
        WRITTEN.setdefault(path)
        return None

    def _kind_of_write(self, path: str, by: Caller) -> ReachKind | None:
        """Return why writing to a path needs approval; if it needs none, keep what is there."""
        is_ours = ARTIFACT_FOLDER in Path(path[len(self._workspace) :]).parts
        if self.permit.is_dry or is_ours or not _is_within(path, self._workspace):
            return ReachKind.outside_write
        is_code = is_run_later(path) and "__pycache__" not in path
        if is_code and (by.is_own or self._is_named(path)):
            return ReachKind.runnable
        is_kept = not os.path.lexists(path) or self.permit.keep(path)
        return None if is_kept else ReachKind.replacing

    def _removing(self, path: str | None, to: str | None, by: Caller) -> Target | None:
        """Return the removal of a path, or its move ``to`` another, which is written then."""
        if path is None or by.is_importing:
            return None
        is_made = not self.permit.made.isdisjoint((path, *map(str, Path(path).parents)))
        if is_made or self._is_free(path, by):
            return self._writing(to, by)
        if not os.path.lexists(path):
            return None
        removed = self._found(ReachKind.deletion, path)
        if to is None:
            return removed._replace(does="deletes files", paths=(path,))
        kind = None if self._is_free(to, by) else self._kind_of_write(to, by)
        # What stands there then is the person's, and none that this code has written.
        self.permit.made.discard(to)
        WRITTEN.pop(to, None)
        does = "moves files" if kind is None else f"moves files and {kind.words}"
        what = f"{removed.what} to {self._found(ReachKind.deletion, to).what}"
        return Target(ReachKind.deletion, what, does, (path, to))

    def _database(self, name: str, by: Caller) -> Target | None:
        if name.startswith("file:"):
            name, _, options = name.removeprefix("file:").partition("?")
            if any(each in options for each in ("mode=memory", "mode=ro", "immutable=1")):
                return None
        return None if name == ":memory:" else self._writing(_followed(_path_of(name)), by)

    def _marking(self, path: str | None, mode: Any, by: Caller) -> Target | None:
        """Return the side effect of new permissions: a file that becomes a program is run later."""
        is_asked = mode & 0o111 and by.is_own and LISTS["copiers"].isdisjoint(by.modules)
        if path is None or not is_asked or self._is_free(path, by):
            return self._writing(path, by)
        is_new = Path(path).is_file() and not os.access(path, os.X_OK)
        return self._found(ReachKind.runnable, path) if is_new else self._writing(path, by)

    def _loading(self, by: Caller) -> Target | None:
        """Return the unpickling of all files opened so far that hold objects.

        Of those that earlier cells have read, the ones that a variable may hold.
        """
        sizes = {len(each) for each in self.said() if type(each) in (bytes, bytearray)}
        sizes -= self._sizes
        self._sizes |= sizes
        read = [each for each in tuple(READ) if sizes and _size(each) in sizes]
        opened = dict.fromkeys((*self._opened, *read))
        found = [each for each in opened if self._unpickling(each, by) and _holds_pickle(each)]
        said = ", ".join(self._found(ReachKind.unpickling, each).what for each in found)
        for path in opened:
            self._opened.pop(path, None)
        return Target(ReachKind.unpickling, said) if found else None

    def _unpickling(self, path: str, by: Caller) -> Target | None:
        if _unpickles_freely(by) or path in WRITTEN or self._is_free(path, by):
            return None
        return self._found(ReachKind.unpickling, path)

    def _is_free(self, path: str, by: Caller) -> bool:
        """Whether writing there needs no approval: temporary files, and libraries' own files.

        Of nested folders, the innermost decides.
        """
        if path.startswith("/dev/") or path == os.devnull:
            return True
        around = [each for each in (*_temporary(), self._workspace) if _is_within(path, each)]
        if around:
            return max(around, key=len) != self._workspace
        is_theirs = not by.is_own and LISTS["storing"].isdisjoint(by.modules)
        return is_theirs and _is_kept_by_libraries(path) and not self._is_said(path)

    def _is_named(self, path: str) -> bool:
        return any(each.endswith(Path(path).name) for each in short_texts(self.said()))

    def _is_said(self, path: str) -> bool:
        """Whether the code names the file, or a folder above it other than the home folder."""
        said = (each for each in short_texts(self.said()) if len(each) > 2 and os.sep in each)
        named = (os.path.realpath(Path(each).expanduser()) for each in said)
        return any(path == each or (each != _home() and _is_below(path, each)) for each in named)


def _unpickles_freely(by: Caller) -> bool:
    """Whether it is imported code, or one process of a cell hears from another."""
    return by.is_importing or not _UNPICKLERS.isdisjoint(by.modules - {"joblib"})


def _holds_pickle(path: str) -> bool:
    """Whether a file, or a member of an archive, begins as pickled bytes do."""
    if not Path(path).is_file():
        return False
    with suppress(Exception):  # boundary: user object - a file that is broken, or changes
        with open(path, "rb") as stream:
            head = stream.read(_HEAD)
        if head[:2] in _PACKED:
            with import_module(_PACKED[head[:2]]).open(path) as stream:
                head = stream.read(_HEAD)
        with suppress(zlib.error):
            head = zlib.decompressobj().decompress(head, _HEAD)
        if not head.startswith(b"PK"):
            return _is_pickle(head)
        with ZipFile(path) as archive:
            members = map(archive.open, archive.namelist()[:_MOST_TEXTS])
            return any(_is_pickle(member.read(_HEAD)) for member in members)
    return False


def _is_pickle(head: bytes) -> bool:
    if _PICKLE.match(head):
        return True
    # Protocols 0 and 1 have no beginning of their own, and any other may follow a short header.
    starts = (found.start() for found in islice(_PROTOCOL.finditer(head, 0, 256), 16))
    return any(_reads_on(head[at:]) for at in (0, *starts))


def _reads_on(head: bytes) -> bool:
    """Whether bytes read as pickled ones, to their end, and import something or are framed."""
    seen, at, stream = set[str](), 0, BytesIO(head)
    with suppress(ValueError, OverflowError):
        for code, _, _ in genops(stream):
            seen.add(code.name)
            at = stream.tell()
    is_whole = "STOP" in seen or at > _HEAD // 2 or _LONG_TEXT.match(head, at) is not None
    return is_whole and not seen.isdisjoint({"GLOBAL", "INST", "FRAME"})


def _size(path: str) -> int:
    return os.stat(path).st_size if os.path.isfile(path) else -1  # noqa: PTH113, PTH116


def _starting(words: list[str], by: Caller) -> Target | None:
    program = words[0] if words else ""
    is_worker = program == sys.executable and not _WORKERS.isdisjoint(by.modules)
    is_looking = by.is_importing or not LISTS["looking"].isdisjoint(by.modules)
    if is_worker or is_looking or (not by.is_own and Path(program).name in LISTS["probes"]):
        return None
    said = " ".join(words)
    kind = ReachKind.installation if PATTERNS["install"].search(said) else ReachKind.shell
    return Target(kind, said[:200])


def _command(program: Any, arguments: Any) -> list[str]:
    """Return the words of a command: its arguments, or the program alone."""
    if isinstance(arguments, str | bytes | os.PathLike):
        arguments = [arguments]
    words = list(arguments or ()) or [program]
    return [os.fsdecode(each) for each in words if isinstance(each, str | bytes | os.PathLike)]


def _killing(event: str, arguments: tuple[Any, ...], by: Caller) -> Target | None:
    is_library = not (_WORKERS | {"subprocess", "psutil"}).isdisjoint(by.modules)
    own = {0, os.getpid()} if event == "os.kill" else set()
    if is_library or not arguments[1] or arguments[0] in own:
        return None
    return Target(ReachKind.process, str(arguments[0]))


def _connecting(event: str, link: Any, address: Any) -> Target | None:
    connects = event == "socket.connect"
    # Connecting a datagram socket sends nothing.
    is_idle = connects and getattr(link, "type", None) == socket.SOCK_DGRAM
    is_internet = getattr(link, "family", socket.AF_INET) in (socket.AF_INET, socket.AF_INET6)
    if is_idle or not (is_internet and isinstance(address, tuple)):
        return None
    # A client of the Jupyter server can do anything that its user can.
    if connects and is_local(str(address[0])) and address[1] in _server_ports():
        return Target(ReachKind.network, f"the Jupyter server on port {address[1]}")
    return _host(address[0])


def _host(host: Any) -> Target | None:
    name = os.fsdecode(host) if isinstance(host, str | bytes) else ""
    return None if is_local(name) else Target(ReachKind.network, name)


def _server_ports() -> set[int]:
    """Return the ports of this user's Jupyter servers, from their runtime files."""
    from jupyter_core.paths import jupyter_runtime_dir  # deferred: most code connects to nothing

    ports = set[int]()
    for record in Path(jupyter_runtime_dir()).glob("*server-*.json"):
        with suppress(OSError, ValueError, LookupError):  # it is being written, or gone
            ports.add(int(json.loads(record.read_text(encoding="utf-8"))["port"]))
    return ports


def is_local(host: str) -> bool:
    """Whether a host is this machine."""
    name = host.strip("[]").rstrip(".").casefold().partition("%")[0]
    own = socket.gethostname().casefold()
    number = ip_address_of(name)
    is_loopback = number is not None and number.is_loopback
    return is_loopback or name in {"", own, own.partition(".")[0], *LISTS["local"]}


def ip_address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse a host as an IP address; ``None`` when it is a name."""
    with suppress(ValueError):
        return ipaddress.ip_address(host.partition("%")[0])
    return None


def host_of(url: str) -> str:
    """Return the host of a URL; empty when it is not a URL."""
    found = re.match(
        r"(?:https?|ftp|wss?|tcp|grpc(?:\+\w+)?)://(?:[^/@]*@)?(\[[^\]]+\]|[^/:?#]+)", url
    )
    return found[1] if found else ""


def _path_at(arguments: tuple[Any, ...], place: int, descriptor: int) -> str | None:
    """Resolve the path in an event's arguments, relative to the folder open as a descriptor.

    ``place`` and ``descriptor`` are indices into ``arguments``; a negative ``descriptor`` means
    that the event has none.
    """
    return _path_of(arguments[place], None if descriptor < 0 else arguments[descriptor])


def _path_of(place: Any, descriptor: Any = None) -> str | None:
    """Resolve a path, following links in its folder but not in its last part.

    ``None`` when it is no path, such as an open descriptor.
    """
    if not isinstance(place, str | bytes | os.PathLike):
        return None
    name = os.fsdecode(place)
    if not name or "\0" in name:
        return None
    if isinstance(descriptor, int) and descriptor >= 0 and not name.startswith(os.sep):
        try:
            name = str(Path(_folder_of(descriptor), name))
        except OSError:
            return None  # it is no descriptor
    folder, last = os.path.split(os.path.abspath(name))  # noqa: PTH100  (don't follow a link)
    return os.path.join(os.path.realpath(folder), last)  # noqa: PTH118  (quick)


def _followed(path: str | None) -> str | None:
    """Follow links in the last part of a path too."""
    return os.path.realpath(path) if path and os.path.islink(path) else path  # noqa: PTH114


def _folder_of(descriptor: int) -> str:
    import fcntl  # deferred: not on Windows, where no call takes a descriptor

    get_path = getattr(fcntl, "F_GETPATH", None)  # on macOS
    if get_path is None:
        return str(Path(f"/proc/self/fd/{descriptor}").readlink())
    return os.fsdecode(fcntl.fcntl(descriptor, get_path, bytes(1024)).rstrip(b"\0"))


def _open_folders() -> Iterator[str]:
    """Yield the folders that this process has open as descriptors."""
    with suppress(FileNotFoundError):  # on Windows
        for each in os.listdir("/dev/fd"):  # noqa: PTH208  (no Path for each)
            with suppress(OSError):  # the descriptor of the listing itself is closed
                if Path(path := _folder_of(int(each))).is_dir():
                    yield path


def _is_within(path: str, folder: str) -> bool:
    return path == folder or _is_below(path, folder)


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)


@functools.lru_cache(maxsize=8)
def _real(folder: str) -> str:
    return os.path.realpath(folder)


def _temporary() -> tuple[str, ...]:
    kept = tempfile.tempdir or os.environ.get("TMPDIR") or "/tmp"
    return (_real(os.fsdecode(kept)), "/var/tmp")


def _home() -> str:
    return _real(str(Path("~").expanduser()))


def _is_kept_by_libraries(path: str) -> bool:
    """Whether a path lies in a cache or settings folder, where libraries keep their own files."""
    home = _home()
    if not _is_below(path, home):
        variables = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR", "IPYTHONDIR")
        bases = (*map(os.environ.get, variables), sys.prefix)
        return any(each and _is_within(path, _real(each)) for each in bases)
    first = path[len(home) :].strip(os.sep).partition(os.sep)[0]
    return first.startswith(".") or first in ("Library", "AppData")


class GuardedEnvironment(os._Environ):  # type: ignore[type-arg]
    """``os.environ`` during a checked run: reading a variable raises an audit event."""

    def __getitem__(self, key: Any) -> Any:
        sys.audit("parsimony.environment", key)
        return super().__getitem__(key)

    def __repr__(self) -> str:
        return f"environ({dict(self)!r})"


def watch_environment(by: int) -> None:
    """Turn audit events for reading ``os.environ`` on while any keeper is active, else off.

    Args:
        by: 1 when one starts, -1 when one ends.
    """
    global _judging
    _judging += by
    for each in (os.environ, getattr(os, "environb", None)):
        if type(each) in (os._Environ, GuardedEnvironment):
            setattr(each, "__class__", GuardedEnvironment if _judging else os._Environ)  # noqa: B010


_judging = 0


def short_texts(values: Iterable[Any]) -> Iterator[str]:
    """Yield those of ``texts_in`` that may be a path."""
    return (each for each in texts_in(values) if len(each) < 4_096)


def texts_in(values: Iterable[Any]) -> Iterator[str]:
    """Yield the strings and paths among values, or in those that are containers."""
    for value in values:
        several: Iterable[Any] = (value,)
        if type(value) is dict:
            several = value.values()
        elif type(value) in (list, tuple, set):
            several = value or ()
        for each in list(islice(several, _MOST_TEXTS)):
            if isinstance(each, str | os.PathLike):
                yield os.fsdecode(each)
