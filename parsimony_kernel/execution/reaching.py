"""What an audit event reaches outside the notebook, if anything: the fourteen rules of approval.

An event is judged by what it names and by the stack that raises it. It is a seat belt, not a
sandbox: code that goes round Python's own functions, with ctypes or in a subinterpreter, is not
seen.
"""

import functools
import ipaddress
import os
import re
import socket
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

from parsimony_kernel.analysis.calls import PATTERNS
from parsimony_kernel.core.reach import ReachKind, runner_of
from parsimony_kernel.execution.capture import live_shell
from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.lineage.file_access import WRITES, WRITTEN

# What an event reaches: the kind, and what it names.
Target = tuple[ReachKind, str]

ENVIRONMENT = "parsimony.environment"
_KEY_FILE, _KEY_NAME = PATTERNS["key_file"], PATTERNS["key_name"]

_TABLE: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("events.toml").read_text(encoding="utf-8")
)
_EVENTS, _LISTS = (
    _TABLE["events"],
    {row: frozenset(text.split()) for row, text in _TABLE["lists"].items()},
)
# The arguments that are places which are changed or removed, with those of their folders'
# descriptors, and the argument of an event of the network that holds an address, a host or a URL.
_CHANGED: dict[str, tuple[int, int | None]] = {
    event: (place, None if folder < 0 else folder)
    for event, (place, folder) in _EVENTS["changed"].items()
}
_REMOVED, _ADDRESSED, _HOSTED, _LINKED = (
    _EVENTS[each] for each in ("removed", "addressed", "hosted", "linked")
)
_STARTED, _FORKED, _KILLED = (_LISTS[each] for each in ("started", "forked", "killed"))
EVENTS = frozenset(
    {
        "open", "sqlite3.connect", "pickle.find_class", ENVIRONMENT, *_CHANGED, *_REMOVED,
        *_STARTED, *_FORKED, *_KILLED, *_ADDRESSED, *_HOSTED, *_LINKED,
    }
)  # fmt: skip

_WORKERS = _LISTS["workers"]
_UNPICKLERS = _WORKERS | _LISTS["unpicklers"]

_STANDARD = tuple(
    f"{os.path.realpath(sysconfig.get_path(each))}{os.sep}" for each in ("stdlib", "platstdlib")
)
_INSTALLED = ("site-packages", "dist-packages")
_OURS = f"{Path(__file__).resolve().parents[1]}{os.sep}"
# What the modules of cells are called, in workers too.
_NOTEBOOK = frozenset({"__main__", "__mp_main__"})
_DEEPEST = 400
_MOST_TEXTS = 200


@dataclass(frozen=True)
class Caller:
    """Who raises an event.

    Args:
        is_own: nearest, behind Python's own modules, is code of the notebook or its workspace.
        is_importing: a library is being imported.
        modules: the packages between the event and the notebook's code, Python's among them.
        lines: the lines of the cell that are on the stack.
    """

    is_own: bool
    is_importing: bool
    modules: frozenset[str]
    lines: frozenset[int]


def caller(filename: str, workspace: str) -> Caller:
    """Who raises the event that is being heard; ``filename`` is the running cell's."""
    frame: FrameType | None = sys._getframe(1)
    modules, lines = set[str](), set[int]()
    nearest: bool | None = None
    is_importing = False
    for _ in range(_DEEPEST):
        if frame is None:
            break
        name = frame.f_code.co_filename
        module = str(frame.f_globals.get("__name__") or "")
        if name == filename:
            lines.add(frame.f_lineno)
        if name == filename or module in _NOTEBOOK or _is_below(name, workspace):
            nearest = True if nearest is None else nearest
        elif name.startswith("<frozen importlib"):
            is_importing = is_importing or nearest is not True
        elif nearest is not True and not name.startswith(_OURS) and _is_told(frame):
            names = module.split(".")
            modules.update(".".join(names[:depth]) for depth in (1, 2, 3))
            if nearest is None and not _is_plumbing(name):
                nearest = False
        frame = frame.f_back
    return Caller(nearest is True, is_importing, frozenset(modules), frozenset(lines))


def _is_told(frame: FrameType) -> bool:
    """Whether a frame is anybody's; IPython puts its own function in the place of ``open``."""
    return frame.f_code.co_name != "_modified_open"


def _is_below(name: str, folder: str) -> bool:
    inside = name.startswith(folder) and not any(each in name for each in _INSTALLED)
    return inside and not name.startswith((_OURS, *_STANDARD))


def _is_magic(by: Caller) -> bool:
    """Whether ``%run`` or its like reads a file, and not what reloads modules."""
    return "IPython.core.magics" in by.modules and "IPython.extensions" not in by.modules


def _is_installed(path: str) -> bool:
    return path.startswith(_STANDARD) or any(each in path for each in _INSTALLED)


@functools.lru_cache(maxsize=4_096)
def _is_plumbing(name: str) -> bool:
    """Whether a file is Python's own."""
    if name.startswith("<"):
        return True
    return name.startswith(_STANDARD) and not any(each in name for each in _INSTALLED)


class Judge:
    """Says of audit events what they reach.

    Args:
        workspace: what may be written to.
        said: the texts that the code and the variables that it uses hold.
        made: the paths that the notebook's code has made, added to.
        keep: keeps what a file of the workspace holds; whether it could.
        frozen: nothing may change there, nothing may be started, and nothing else is judged.
    """

    def __init__(
        self,
        workspace: Path,
        said: Callable[[], Iterable[str]],
        made: set[str] | None = None,
        keep: Callable[[str], bool] = lambda path: True,
        *,
        frozen: bool = False,
    ) -> None:
        self._frozen = frozen
        self._workspace = os.path.realpath(workspace)
        self._said = said
        self._keep = keep
        self.made = set[str]() if made is None else made
        # The file that was opened for reading last, which what is unpickled comes from.
        self._opened = ""

    def target(self, event: str, arguments: tuple[Any, ...], by: Caller) -> Target | None:
        """What the event reaches; ``None`` for nothing."""
        if event == "open":
            return self._opening(arguments[0], arguments[2], by)
        if event == "sqlite3.connect":
            return self._database(os.fsdecode(arguments[0]), by)
        if event in _CHANGED:
            if event == "os.utime" and not self._frozen:
                return None
            place, folder = _CHANGED[event]
            path = _path_of(arguments[place], None if folder is None else arguments[folder])
            return None if path is None else self._written(path, by)
        if event in _REMOVED:
            return self._removing(event, arguments, by)
        if event in _STARTED or event in _FORKED:
            return (ReachKind.shell, event) if self._frozen else _starting(event, arguments, by)
        if self._frozen:
            return None
        if event in _KILLED:
            return _killing(event, arguments, by)
        if event == "pickle.find_class":
            return self._unpickling(by)
        if event == ENVIRONMENT:
            reads = by.is_own and by.modules <= _LISTS["mappings"]
            is_key = reads and _KEY_NAME.search(str(arguments[0]))
            return (ReachKind.secret, str(arguments[0])) if is_key else None
        return _network(event, arguments)

    def writing(self, place: Any, by: Caller) -> Target | None:
        """What writing to a file reaches."""
        path = _path_of(place)
        return None if path is None else self._written(path, by)

    def _opening(self, place: Any, flags: Any, by: Caller) -> Target | None:
        path = _path_of(place)
        if path is None:
            return None
        writes = isinstance(flags, int) and flags & WRITES
        if self._frozen and not writes:
            return None
        if not writes:
            is_there = by.is_own or Path(path).exists()
            if _KEY_FILE.search(path) and is_there and not by.is_importing:
                return ReachKind.secret, _shown(path, self._workspace)
            runs = path.endswith((".py", ".ipy")) and _is_magic(by)
            is_known = _is_within(path, self._workspace) or _is_installed(path)
            if runs and not is_known and not by.is_importing:
                return ReachKind.dynamic_code, _shown(path, self._workspace)
            self._opened = path
            is_copied = not _LISTS["copiers"].isdisjoint(by.modules)
            return None if is_copied or not Path(path).exists() else self._unpickling(by)
        return self._written(os.path.realpath(path), by)

    def _written(self, path: str, by: Caller) -> Target | None:
        if by.is_importing or self._is_free(path, by):
            return None
        if self._frozen:
            return ReachKind.outside_write, _shown(path, self._workspace)
        if path in self.made:
            self._keep(path)
            return None
        if _is_within(path, self._workspace):
            if ARTIFACT_FOLDER in Path(path[len(self._workspace) :]).parts:
                return ReachKind.outside_write, _shown(path, self._workspace)
            is_code = runner_of(path) and "__pycache__" not in path
            if is_code and (by.is_own or self._is_named(path)):
                return ReachKind.runnable, _shown(path, self._workspace)
            if not os.path.lexists(path):
                self.made.add(path)
            elif not self._keep(path):
                return ReachKind.replacing, _shown(path, self._workspace)
            WRITTEN.setdefault(path)
            return None
        return ReachKind.outside_write, _shown(path, self._workspace)

    def _removing(self, event: str, arguments: tuple[Any, ...], by: Caller) -> Target | None:
        path = _path_of(arguments[0], arguments[_REMOVED[event]])
        if path is None or by.is_importing:
            return None
        if event == "os.rename":
            goal = _path_of(arguments[1], arguments[3])
            if path in self.made or self._is_free(path, by):
                return None if goal is None else self._written(goal, by)
        elif (
            path in self.made
            or self._is_free(path, by)
            or _is_below_any(path, self.made)
            or not os.path.lexists(path)
        ):
            return None
        return ReachKind.deletion, _shown(path, self._workspace)

    def _database(self, name: str, by: Caller) -> Target | None:
        if name in ("", ":memory:") or "mode=memory" in name or name.startswith("file::memory:"):
            return None
        if name.startswith("file:"):
            if "mode=ro" in name or "immutable=1" in name:
                return None
            name = name.removeprefix("file:").partition("?")[0]
        return self.writing(name, by)

    def _unpickling(self, by: Caller) -> Target | None:
        path = self._opened
        is_worker = not _UNPICKLERS.isdisjoint(by.modules - {"joblib"})
        if (
            by.is_importing
            or is_worker
            or not path.endswith(tuple(_LISTS["pickled"]))
            or path in WRITTEN
            or self._is_free(path, by)
        ):
            return None
        return ReachKind.unpickling, _shown(path, self._workspace)

    def _is_free(self, path: str, by: Caller) -> bool:
        """Whether anybody may write there: temporary files, and what libraries keep for
        themselves. The narrowest of the folders decides."""
        if path.startswith("/dev/") or path == os.devnull:
            return True
        around = [each for each in (*_temporary(), self._workspace) if _is_within(path, each)]
        if around:
            return max(around, key=len) != self._workspace
        return not by.is_own and _is_kept_by_libraries(path) and not self._is_said(path)

    def _is_named(self, path: str) -> bool:
        return any(each.endswith(Path(path).name) for each in self._said())

    def _is_said(self, path: str) -> bool:
        """Whether the code itself names the file, or a folder above it that is not a home."""
        for each in self._said():
            if len(each) > 2 and os.sep in each:
                named = os.path.realpath(Path(each).expanduser())
                if path == named or (named != _home() and path.startswith(named + os.sep)):
                    return True
        return False


def _starting(event: str, arguments: tuple[Any, ...], by: Caller) -> Target | None:
    if event in _FORKED:
        is_worker = not _WORKERS.isdisjoint(by.modules) or "subprocess" in by.modules
        return None if is_worker else (ReachKind.shell, event.partition(".")[2])
    words = _command(event, arguments)
    program = Path(words[0]).name if words else ""
    if not _WORKERS.isdisjoint(by.modules) and words and words[0] == sys.executable:
        return None
    if not _LISTS["looking"].isdisjoint(by.modules) or by.is_importing:
        return None
    if not by.is_own and program in _LISTS["probes"]:
        return None
    said = " ".join(words)
    kind = ReachKind.installation if PATTERNS["install"].search(said) else ReachKind.shell
    return kind, said[:200]


def _command(event: str, arguments: tuple[Any, ...]) -> list[str]:
    """The program of an event and its arguments."""
    if event == "subprocess.Popen":
        given = arguments[1]
        words = [given] if isinstance(given, str | bytes | os.PathLike) else list(given or ())
        words = words or [arguments[0]]
    elif event == "os.system":
        words = [arguments[0]]
    elif event == "pty.spawn":
        words = list(arguments[0])
    else:
        at = 1 if event == "os.spawn" else 0
        words = list(arguments[at + 1] if len(arguments) > at + 1 else ()) or [arguments[at]]
    return [os.fsdecode(each) for each in words if isinstance(each, str | bytes | os.PathLike)]


def _killing(event: str, arguments: tuple[Any, ...], by: Caller) -> Target | None:
    is_library = not (_WORKERS | {"subprocess", "psutil"}).isdisjoint(by.modules)
    if event == "signal.pthread_kill" or is_library or not arguments[1]:
        return None
    own = {0, os.getpid()} if event == "os.kill" else set()
    return None if arguments[0] in own else (ReachKind.process, str(arguments[0]))


def _network(event: str, arguments: tuple[Any, ...]) -> Target | None:
    if event in _LINKED:
        host = host_of(str(arguments[0]))
    elif event in _HOSTED:
        host = arguments[_HOSTED[event]]
    else:
        address = arguments[1]
        family = getattr(arguments[0], "family", None)
        is_datagram = getattr(arguments[0], "type", None) == socket.SOCK_DGRAM
        # Connecting a socket of datagrams sends nothing.
        if not isinstance(address, tuple) or (is_datagram and event == "socket.connect"):
            return None
        if family not in (None, socket.AF_INET, socket.AF_INET6):
            return None
        host = address[0]
    if isinstance(host, bytes):
        host = os.fsdecode(host)
    if not isinstance(host, str) or is_local(host):
        return None
    return ReachKind.network, host


def is_local(host: str) -> bool:
    """Whether a host is this machine."""
    name = host.strip("[]").rstrip(".").casefold().partition("%")[0]
    if name in _LISTS["local"] or not name or name in _own_names():
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def is_number(host: str) -> bool:
    """Whether a host is given as an IP address."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


@functools.lru_cache(maxsize=1)
def _own_names() -> frozenset[str]:
    name = socket.gethostname().casefold()
    return frozenset({name, name.partition(".")[0]})


def host_of(url: str) -> str:
    """The host of an address on the web; empty where it is none."""
    found = re.match(r"(?:https?|ftp|wss?)://(?:[^/@]*@)?(\[[^\]]+\]|[^/:?#]+)", url)
    return found[1] if found else ""


def _path_of(place: Any, descriptor: Any = None) -> str | None:
    """The absolute path of a place, links of its folder followed; ``None`` where it is open."""
    if not isinstance(place, str | bytes | os.PathLike):
        return None
    name = os.fsdecode(place)
    if not name or "\0" in name:
        return None
    if isinstance(descriptor, int) and descriptor >= 0 and not name.startswith(os.sep):
        try:
            name = str(Path(f"/proc/self/fd/{descriptor}").readlink() / name)
        except OSError:
            return None  # whoever opened the folder has been asked
    path = Path(os.path.abspath(name))  # noqa: PTH100  (a link is not followed itself)
    return str(Path(os.path.realpath(path.parent)) / path.name)


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _is_below_any(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(f"{each}{os.sep}") for each in folders)


@functools.lru_cache(maxsize=8)
def _real(folder: str) -> str:
    return os.path.realpath(folder)


def _temporary() -> tuple[str, ...]:
    kept = tempfile.tempdir or os.environ.get("TMPDIR") or "/tmp"
    return (_real(os.fsdecode(kept)), "/var/tmp")


def _home() -> str:
    return _real(str(Path("~").expanduser()))


def _is_kept_by_libraries(path: str) -> bool:
    """Whether a path lies in a folder of a home where programs keep what they need."""
    home, shell = _home(), live_shell()
    if not _is_within(path, home) or path == home:
        variables = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR")
        bases = (*map(os.environ.get, variables), sys.prefix, getattr(shell, "ipython_dir", None))
        return any(each and _is_within(path, _real(each)) for each in bases)
    first = path[len(home) :].strip(os.sep).partition(os.sep)[0]
    return first.startswith(".") or first in ("Library", "AppData")


def _shown(path: str, workspace: str) -> str:
    """A path as a person knows it: below the workspace, else below the home."""
    if _is_within(path, workspace) and path != workspace:
        return os.path.relpath(path, workspace)
    home = _home()
    return f"~{path[len(home) :]}" if _is_within(path, home) and path != home else path


class GuardedEnvironment(os._Environ):  # type: ignore[type-arg]
    """``os.environ`` while code of a run is judged: reading a variable is an event."""

    def __getitem__(self, key: Any) -> Any:
        sys.audit(ENVIRONMENT, key)
        return super().__getitem__(key)


def texts_of(names: Iterable[str], namespace: Mapping[str, Any]) -> tuple[str, ...]:
    """The texts and paths that ``names`` hold, themselves or in a plain container."""
    found: list[str] = []
    for name in names:
        value = namespace.get(name)
        several: Iterable[Any] = (value,)
        if type(value) is dict:
            several = value.values()
        elif type(value) in (list, tuple, set):
            several = value or ()
        found += [
            os.fsdecode(each)
            for each in list(islice(several, _MOST_TEXTS))
            if isinstance(each, str | os.PathLike) and len(str(each)) < 4_096
        ]
    return tuple(found)
