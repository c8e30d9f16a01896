"""Code that runs to see what it does, and leaves nothing behind.

Put back afterwards: every binding of the namespace; what lay in the objects that the code could
change, as far as ``lineage.checkpoint`` has copied it; ``os.environ``, ``sys.path``, the warning
filters, and the generators of ``random`` and ``numpy.random``. Not run at all is a cell that
plainly changes an object of which no copy can be made; one that only may have done so is told
about in stderr.

Prevented: that Python writes, removes or renames a file, or starts a process. Writing is left to
it in the folder for temporary files and in caches. Libraries that write natively are recognised by
the names of their functions before the cell runs; what they write otherwise is named afterwards.

Left: imported modules and what else is kept in modules (the options of a library, its
connections), what is sent over the network or to a file that was open before, and what threads do
that are older than the cell.
"""

import io
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parsimony_kernel.analysis.cell import Call
from parsimony_kernel.analysis.read import read
from parsimony_kernel.execution.capture import Capture, live_shell
from parsimony_kernel.execution.guard import keep
from parsimony_kernel.execution.native import QUERIES, WRITERS, WRITING_QUERY
from parsimony_kernel.lineage.checkpoint import Checkpoints
from parsimony_kernel.lineage.file_access import WRITES
from parsimony_kernel.lineage.ledger import OriginLedger

_ABSENT = object()
_MOST_NAMES = 10

# Which arguments of an audit event are places that it changes, each with its folder's descriptor.
_CHANGING: dict[str, tuple[tuple[int, int | None], ...]] = {
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.mkdir": ((0, 2),),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, None),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.chflags": ((0, None),),
    "os.utime": ((0, 3),),
    "os.setxattr": ((0, None),),
    "os.removexattr": ((0, None),),
    "shutil.rmtree": ((0, 1),),
}
_STARTING = frozenset(
    {
        "subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn",
        "os.spawn", "os.startfile", "os.startfile/2", "pty.spawn",
    }
)  # fmt: skip

_BUFFERS = frozenset({"BytesIO", "StringIO", "BufferOutputStream"})

_MOST_FILES = 1_000
_NOT_LOOKED_INTO = frozenset({"__pycache__", "node_modules"})


class DryRunError(PermissionError):
    """A dry run writes nothing and starts nothing."""


@contextmanager
def leaving_nothing(
    code: str,
    folder: Path,
    capture: Capture,
    namespace: Callable[[], dict[str, Any]],
    bindings: Callable[[], Mapping[str, Any]],
    given: Callable[[], Mapping[str, Any]],
) -> Iterator[None]:
    """Whatever ``code`` does in the body is taken back; what could not be is told in stderr.

    Args:
        code: Python, after IPython's transforms.
        folder: where it runs.
        namespace: gives the live namespace, also when it has been replaced meanwhile.
        bindings: gives the names in it that code may bind, with their objects.
        given: gives what the namespace has of itself.

    Raises:
        DryRunError: before the body, when the code would change what cannot be put back.
    """
    _refuse_native_writers(code, namespace())
    kept = Checkpoints(namespace, bindings, OriginLedger(), given)
    number = kept.take()
    kept.protect(code)
    # Going back at once changes nothing, and tells of what there is no copy.
    without = set(kept.put_back(number).lost)
    plainly = sorted(without & read(code).mutated)
    if plainly:
        raise DryRunError(
            f"a dry run leaves everything as it is: {_listed(plainly)} would be changed in place, "
            "and cannot be copied first; work on a copy, or run the code for real"
        )
    before, files = dict(namespace()), _Files(folder)
    keep(capture, _Bounds(folder))
    try:
        with _process_kept():
            yield
    finally:
        _rebind(namespace(), before)
        lost = kept.put_back(number).lost
        if lost:
            capture.stderr.write(
                "This dry run may have changed what could not be copied before it: "
                f"{_listed(lost)}.\n"
            )
        written = files.changed()
        if written:
            capture.stderr.write(
                "Files that changed during this dry run, past Python or by somebody else: "
                f"{_listed(written)}.\n"
            )


def _listed(of: Iterable[str]) -> str:
    names = tuple(of)
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _rebind(namespace: dict[str, Any], before: Mapping[str, Any]) -> None:
    for name in namespace.keys() - before.keys():
        del namespace[name]
    for name, value in before.items():
        if namespace.get(name, _ABSENT) is not value:
            namespace[name] = value


@contextmanager
def _process_kept() -> Iterator[None]:
    """What a process has one of is afterwards as it is now."""
    environ, path, drawn = dict(os.environ), list(sys.path), random.getstate()
    numbers: Any = sys.modules.get("numpy.random")
    drawn_by_numpy = None if numbers is None else numbers.get_state()
    try:
        with warnings.catch_warnings():
            yield
    finally:
        for name in os.environ.keys() - environ.keys():
            del os.environ[name]
        for name, value in environ.items():
            if os.environ.get(name) != value:
                os.environ[name] = value
        sys.path[:] = path
        random.setstate(drawn)
        if numbers is not None:
            numbers.set_state(drawn_by_numpy)


class _Bounds:
    """Where the code of one dry run may write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        shell = live_shell()
        cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        free = [Path(tempfile.gettempdir()), Path(os.devnull).parent, Path(cache)]
        free += [] if shell is None else [Path(shell.ipython_dir)]
        self._free = tuple(each.resolve() for each in free)

    def allow(self, place: Any, descriptor: Any = None) -> bool:
        """Whether the file at ``place`` may be changed. The narrowest of the folders decides."""
        if isinstance(place, int):
            return True  # open already
        path = Path(os.fsdecode(place))
        if isinstance(descriptor, int) and descriptor >= 0:
            try:
                path = Path(f"/proc/self/fd/{descriptor}").readlink() / path
            except OSError:
                return True  # whoever opened the folder has been asked
        around = {path.resolve(), *path.resolve().parents} & {*self._free, self._folder}
        return bool(around) and max(around, key=lambda each: len(each.parts)) != self._folder

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Refuse what would write outside them, or start something."""
        if event in _STARTING:
            raise DryRunError("a dry run starts no process: run the code for real")
        if event == "open":
            place, _, flags = arguments
            if flags & WRITES and not self.allow(place):
                raise _refusal(place)
        elif event == "sqlite3.connect":
            _check_database(os.fsdecode(arguments[0]), self)
        else:
            for place, folder in _CHANGING.get(event, ()):
                descriptor = None if folder is None else arguments[folder]
                if not self.allow(arguments[place], descriptor):
                    raise _refusal(arguments[place])


def _check_database(name: str, bounds: _Bounds) -> None:
    """Let a connection be that cannot write into the workspace."""
    if name in ("", ":memory:") or "mode=memory" in name or name.startswith("file::memory:"):
        return
    if name.startswith("file:"):
        if "mode=ro" in name or "immutable=1" in name:
            return
    elif bounds.allow(name):
        return
    raise DryRunError(
        f"a dry run writes nothing: to read {name!r}, open it as 'file:{{path}}?mode=ro' "
        "with uri=True"
    )


def _refusal(place: Any) -> DryRunError:
    return DryRunError(f"a dry run writes nothing: {os.fsdecode(place)!r} stays as it is")


# What libraries write past Python.


def _refuse_native_writers(code: str, namespace: dict[str, Any]) -> None:
    cell = read(code)
    buffers = {
        name for name, value in namespace.copy().items() if issubclass(type(value), io.IOBase)
    }
    for statement in cell.statements:
        if statement.rebinds and _BUFFERS.intersection(each.last for each in statement.calls):
            buffers |= statement.writes
    for call in cell.calls:
        native = call.last in WRITERS and call.names and not _to_buffer(call, buffers)
        if native or (call.last in QUERIES and WRITING_QUERY.search("".join(call.texts))):
            raise DryRunError(
                f"a dry run writes nothing: {call.last}() in line {call.line} writes past Python, "
                "where it cannot be kept from it; leave it out, or run the code for real"
            )


def _to_buffer(call: Call, buffers: set[str]) -> bool:
    return not (buffers | _BUFFERS).isdisjoint(call.names)


@dataclass(frozen=True)
class _Seen:
    modified_ns: int
    size: int


class _Files:
    """The files of a folder as they are now: their times and sizes, of a bounded number."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._before = self._look()

    def changed(self) -> list[str]:
        """The paths within the folder that are there, gone, or other than then."""
        now = self._look()
        return sorted(
            f"{below}{name}"
            for below in self._before.keys() & now.keys()
            for name in self._before[below].keys() | now[below].keys()
            if self._before[below].get(name) != now[below].get(name)
        )

    def _look(self) -> dict[str, dict[str, _Seen]]:
        """What lies in each folder, by its path; folders that cannot be read are left out."""
        found: dict[str, dict[str, _Seen]] = {}
        pending, room = [""], _MOST_FILES
        for below in pending:
            try:
                with os.scandir(self._folder / below) as entries:
                    inside = [each for each in entries if not each.name.startswith(".")]
                    room -= len(inside)
                    if room < 0:
                        break
                    found[below] = {each.name: _seen(each) for each in inside}
            except OSError:
                continue
            pending += [
                f"{below}{each.name}/"
                for each in sorted(inside, key=lambda each: each.name)
                if each.name not in _NOT_LOOKED_INTO and each.is_dir(follow_symlinks=False)
            ]
        return found


def _seen(entry: os.DirEntry[str]) -> _Seen:
    if entry.is_dir(follow_symlinks=False):
        return _Seen(0, 0)
    facts = entry.stat(follow_symlinks=False)
    return _Seen(facts.st_mtime_ns, facts.st_size)
