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
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parsimony_kernel.analysis.cell import Call
from parsimony_kernel.analysis.read import read
from parsimony_kernel.core.reach import ReachKind
from parsimony_kernel.execution.asking import process_state
from parsimony_kernel.execution.capture import Capture
from parsimony_kernel.execution.cell import Cell
from parsimony_kernel.execution.guard import keep, ours
from parsimony_kernel.execution.native import QUERIES, WRITERS, WRITING_QUERY
from parsimony_kernel.execution.reaching import Judge, caller, texts_of
from parsimony_kernel.lineage.checkpoint import Checkpoints
from parsimony_kernel.lineage.ledger import OriginLedger

_ABSENT = object()
_MOST_NAMES = 10
_BUFFERS = frozenset({"BytesIO", "StringIO", "BufferOutputStream"})
_MOST_FILES = 1_000
_NOT_LOOKED_INTO = frozenset({"__pycache__", "node_modules"})


class DryRunError(PermissionError):
    """A dry run writes nothing and starts nothing."""


@contextmanager
def leaving_nothing(
    cell: Cell,
    folder: Path,
    capture: Capture,
    namespace: Callable[[], dict[str, Any]],
    bindings: Callable[[], Mapping[str, Any]],
    given: Callable[[], Mapping[str, Any]],
) -> Iterator[None]:
    """Whatever ``cell`` does in the body is taken back; what could not be is told in stderr.

    Args:
        folder: where it runs.
        namespace: gives the live namespace, also when it has been replaced meanwhile.
        bindings: gives the names in it that code may bind, with their objects.
        given: gives what the namespace has of itself.

    Raises:
        DryRunError: before the body, when the code would change what cannot be put back.
    """
    code = cell.code
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
    keep(capture, _Bounds(cell, folder, namespace))
    process = process_state()
    try:
        with warnings.catch_warnings():
            yield
    finally:
        process()
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


class _Bounds:
    """Refuses what code of one dry run would write outside of what is free, or start."""

    def __init__(self, cell: Cell, folder: Path, namespace: Callable[[], dict[str, Any]]) -> None:
        said = read(cell.code)
        self._from = cell.filename, str(folder)
        self._judge = Judge(
            folder, lambda: (*said.strings, *texts_of(said.reads, namespace())), frozen=True
        )

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Raise ``DryRunError`` where an event changes or starts something."""
        with ours():
            found = self._judge.target(event, arguments, caller(*self._from))
        if found is None:
            return
        if event == "sqlite3.connect":
            raise DryRunError(
                f"a dry run writes nothing: to read {found[1]!r}, open it as "
                "'file:{path}?mode=ro' with uri=True"
            )
        if found[0] is ReachKind.shell:
            raise DryRunError("a dry run starts no process: run the code for real")
        raise DryRunError(f"a dry run writes nothing: {found[1]!r} stays as it is")


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
