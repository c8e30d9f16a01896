"""Approval at run time: stop code just before a side effect that needs approval.

A keeper receives the audit events of one capture only, including those of its tasks and threads.
Code of a run stops at the top-level statement that would reach outside the notebook: that
statement's changes are rolled back, earlier statements stay done, and after approval the code
resumes at that statement. A dry run leaves nothing behind.
"""

import os
import random
import re
import sqlite3
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from types import FunctionType, GeneratorType
from typing import Any

from parsimony_kernel.analysis.calls import ATOMIC_FUNCTIONS, COPYING_FUNCTIONS, SQL_CALLS, names
from parsimony_kernel.analysis.cell_names import Call, Names
from parsimony_kernel.analysis.cell_names import Cell as Code
from parsimony_kernel.analysis.read import read
from parsimony_kernel.core.audit import listen, listening
from parsimony_kernel.core.outputs import KernelOutput
from parsimony_kernel.core.reach import ACTING, Reach, ReachKind
from parsimony_kernel.execution import side_effects
from parsimony_kernel.execution.capture import Capture, capture_of_code, capturing
from parsimony_kernel.execution.code_cell import Cell, Part
from parsimony_kernel.execution.factory import OutputFactory
from parsimony_kernel.execution.inspection import comes_from
from parsimony_kernel.execution.interrupt import INTERRUPTIONS, CodeGuard, Held
from parsimony_kernel.execution.native import watch_native_code, written_by
from parsimony_kernel.execution.run_scope import OURS as _OURS
from parsimony_kernel.execution.run_scope import Permit, current_permit, ours
from parsimony_kernel.execution.side_effects import Keeper
from parsimony_kernel.lineage.checkpoint import Change
from parsimony_kernel.lineage.file_backups import FileState, reversal
from parsimony_kernel.storage.durable import StorageError

_MAX_SOURCE = 200
_MAX_FILES = 1_000
_PLAIN_FUNCTIONS = ATOMIC_FUNCTIONS | COPYING_FUNCTIONS
_PLAIN_TYPES = (list, dict, set, tuple, str, bytes, int, float, bool)
_READING = names("network", "gets")
_SENDING = names("network", "sends")
_CHANGING = re.compile(r"(?is)^\s*(?:INSERT|UPDATE|DELETE|REPLACE|CREATE|DROP|ALTER)\b")
_DUCKS = "SELECT path FROM duckdb_databases() WHERE NOT readonly"
# Side effects that a dry run still performs when they are allowed.
_READ = frozenset({ReachKind.network, ReachKind.secret, ReachKind.unpickling})


_PROBE = "parsimony.probe"


def keep(capture: Capture, keeper: Keeper) -> None:
    """Let ``keeper`` check the code of ``capture`` from now on, for as long as any of it runs."""
    capture.keeper = keeper
    listen(_hear)
    watch_native_code()


@contextmanager
def computing(workspace: Path) -> Iterator[None]:
    """Run the body without any side effect outside, e.g. to compute a lazy plan for publishing.

    Raises:
        PermissionError: when the body would reach outside.
    """
    with capturing(Capture(OutputFactory())) as capture:
        keep(capture, _Computing(Permit(workspace)))
        yield


class _Computing(Keeper):
    def check(self, event: str, found: side_effects.Target, by: side_effects.Caller) -> None:
        raise PermissionError(f"it may not reach {found.what}: compute it in code, which asks")


def is_watching() -> bool:
    """Probe whether our audit hook receives events: an earlier hook can refuse a later one."""
    heard: list[str] = []
    with listening(lambda event, _: heard.append(event)):
        sys.audit(_PROBE)
    return _PROBE in heard


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    # At interpreter shutdown, module globals are set to None.
    if _OURS is not None and event in side_effects.EVENTS and not _OURS.get():
        capture = capture_of_code()
        if capture is not None and capture.keeper is not None:
            capture.keeper.hear(event, arguments)


# The statements of a run


@dataclass
class Paused:
    """A cell stopped before a statement that needs approval, ready to resume there.

    ``cell`` is the remaining code, ``sha`` the action hash whose approval resumes it.
    """

    # None when the paused code lives in another kernel.
    cell: Cell | None
    sha: str
    changes: list[Change] = field(default_factory=list)
    # The output so far.
    output: KernelOutput | None = None
    # Side effects that already happened, as sentences.
    left: tuple[str, ...] = ()
    # The contents of its files before the run.
    files: list[FileState] = field(default_factory=list)
    # The versions of the variables that it reads, when it paused.
    versions: dict[str, int] = field(default_factory=dict)

    def stale(self, version: Callable[[str], int]) -> str:
        """Return a warning for variables that the cell reads and that have changed since it paused.

        Args:
            version: returns the current version of a variable.
        """
        names = sorted(name for name, before in self.versions.items() if version(name) != before)
        told = "changed while this step waited: its earlier statements used the old values"
        return f"{', '.join(names)} {told}.\n" if names else ""


class StatementGuard(Keeper):
    """Checks a cell (``base.CellExecution``) statement by statement against its permit."""

    def __init__(self, permit: Permit, run: Any) -> None:
        code, namespace = read(run.cell.code), run.executor.namespace

        def said() -> tuple[Any, ...]:
            return (*code.strings, *map(namespace().get, code.reads))

        super().__init__(permit, said, run.cell.filename)
        self.held: Reach | None = None
        # The index of the running statement.
        self.at = 0
        self._guard: CodeGuard | None = None
        # No reference to the run itself: code that outlives it would keep it alive.
        self._cell: Cell = run.cell
        self._namespace = namespace
        self._new_checkpoints = run.executor.new_checkpoints
        # Restores what the statement may have changed; ``None`` when nothing was saved.
        self._restore: Callable[[], object] | None = None
        self._streams: dict[str, int] = {}
        self._thread, self._process = 0, os.getpid()
        # An allowed host name was resolved, so its IP addresses are allowed too.
        self._is_resolved = False
        # Side effects of the current statement.
        self._left: list[Reach] = []
        # The paths that it removed or moved, and what brings each back; ``None`` if nothing can.
        self._removed: dict[str, Callable[[], object] | None] = {}
        # Those of its side effects that were undone when it was held.
        self._put_back: list[Reach] = []
        self._leaving = threading.Lock()
        self._is_over = True

    def parts(self, guard: CodeGuard, capture: Capture) -> Iterator[Part]:
        """Yield the cell's statements; take a checkpoint before each that may change anything.

        Args:
            guard: interrupts the cell when one of its threads was stopped.
            capture: the capture of the cell's code.
        """
        self._guard = guard
        keep(capture, self)
        self._thread = threading.get_ident()
        self._is_over = False
        side_effects.watch_environment(1)
        for at, part in enumerate(self._cell.parts):
            self.at = at
            with ours():
                self._check_databases(self._begin(part))
            yield part
            if self.held is not None:  # the code has caught the stop
                raise Held
            self._settle()

    def end(self, error: BaseException | None, note: Callable[[str], None]) -> None:
        """Close the guard after the code ended, and roll back the statement that was held.

        From now on, code that outlives the cell may not reach outside. Refusals of workers are
        passed to ``note``.
        """
        if not self._is_over:
            self._is_over = True
            side_effects.watch_environment(-1)
            note(self.refused())
        # After an interruption from outside, the outcome of the statement's effects is unknown.
        if self.held is None and error is not None and not isinstance(error, INTERRUPTIONS):
            self._settle()
        if self.held is None:
            self._restore = None
        elif self._restore is not None:
            self._restore()

    def pause(self, before: Paused | None) -> Paused | None:
        """Return the remaining code to resume after approval; ``None`` when it can't resume.

        Args:
            before: the previous pause, if this run resumed from it.
        """
        permit = self.permit
        permit.held, permit.why_not = self.held, self._why_not()
        if permit.held is None or permit.why_not or permit.open_end:
            return None
        left = tuple(each.sentence for each in permit.left if each not in self._put_back)
        paused = Paused(self._cell.rest(self.at), permit.sha(permit.held), left=left)
        if before is not None:
            paused.changes, paused.files = before.changes, before.files
            paused.left = (*before.left, *left)
        return paused

    def _why_not(self) -> str:
        """Return why the held statement can't be run again; empty when it can.

        Files of the workspace that it only removed or moved are put back for that.
        """
        acts = [each for each in self._left if not self._only_reads(each)]
        removes = all(each.kind is ReachKind.deletion for each in acts)
        if acts and not (removes and all(self._removed.values())):
            told = " ".join(each.sentence for each in acts)
            return f"this already happened and isn't repeated: {told}"
        if self._restore is None:
            return "what it had changed was not saved, so it isn't run again"
        bound = self._namespace()
        moved = [name for name, at in self._streams.items() if _position(bound.get(name)) != at]
        if moved:
            names = ", ".join(sorted(moved))
            return f"it had already consumed {names}, which can't be rewound, so it isn't run again"
        if acts:
            try:
                with ours():
                    for put_back in filter(None, reversed(self._removed.values())):
                        put_back()
            except (OSError, StorageError):  # something else stands there now
                told = " ".join(each.sentence for each in acts)
                return f"this already happened and isn't repeated: {told}"
            self.permit.made.difference_update(self._removed)
            self._put_back = acts
        if self._left:
            with ours():
                self.permit.ended()
        return ""

    def _only_reads(self, reach: Reach) -> bool:
        """Whether a side effect of the statement only reads: a program or a deletion never does."""
        if reach.kind is not ReachKind.network:
            return False
        return only_reads(read(self._text), self._namespace())

    @property
    def _text(self) -> str:
        return self._cell.text(self._cell.parts[self.at])

    def check(self, event: str, found: side_effects.Target, by: side_effects.Caller) -> None:
        """Raise to stop the code before a side effect that is not allowed."""
        kind, what, does, paths = found
        if os.getpid() != self._process:
            self.refuse(what)
        if self._is_over:
            raise PermissionError(f"this code has ended and may no longer reach {what}")
        if self.held is not None:
            raise Held
        # The approval of ``shutil.rmtree`` covers what it removes below its folder.
        is_inner = event in ("os.remove", "os.rmdir") and "shutil" in by.modules
        above = (Path(paths[0]), *Path(paths[0]).parents) if is_inner else ()
        if not self._removed.keys().isdisjoint(map(str, above)):
            self._keep(paths)
            return
        reach = replace(self._reach(kind, what, by), does=does)
        if kind is ReachKind.network and self._is_resolved and side_effects.ip_address_of(what):
            return
        approved = self.permit.approved
        is_refused = self.permit.is_dry and kind not in _READ
        is_allowed = approved is not None and approved == self.permit.sha(reach)
        first, last = self._cell.parts[self.at].lines
        lines = by.lines | frozenset(range(first, last + 1))
        if not is_refused and (is_allowed or self.permit.allows(reach, lines)):
            self._is_resolved = self._is_resolved or kind is ReachKind.network
            with self._leaving:
                self._keep(paths)
                self._leave(reach)
            return
        self.held = reach
        if threading.get_ident() != self._thread and self._guard is not None:
            self._guard.interrupt("held")
        raise Held

    def _leave(self, reach: Reach) -> None:
        """Record a side effect before it happens (write-ahead)."""
        same = ((each.kind, each.what) == (reach.kind, reach.what) for each in self._left)
        if reach.kind not in ACTING or any(same):
            return
        key = self.permit.leaving(reach, self._text, self._only_reads(reach))
        if key:
            self.held, self.permit.open_end = reach, key
            raise Held
        self._left.append(reach)
        self.permit.left.append(reach)

    def _keep(self, paths: Sequence[str]) -> None:
        """Keep what is about to be removed, or moved to another path."""
        for path in map(Path, paths):
            is_folder_moved = len(paths) > 1 and path.is_dir()
            inside = [*islice(path.rglob("*"), _MAX_FILES)] if is_folder_moved else []
            some = inside if len(inside) < _MAX_FILES else []  # a part of them is of no use
            kept = [self.permit.keep(str(each)) for each in (path, *some)]
            can_return = all(kept) and not is_folder_moved
            back = reversal(path, Path(self._workspace)) if can_return else None
            self._removed.setdefault(str(path), back)

    def _settle(self) -> None:
        """Record the end of the statement, whatever its outcome."""
        if self._left:
            self._left.clear()
            self._removed.clear()
            with ours():
                self.permit.ended()

    def _reach(self, kind: ReachKind, what: str, by: side_effects.Caller) -> Reach:
        first, last = self._cell.parts[self.at].lines
        inside = [line for line in by.lines if first <= line <= last]
        line = min(inside, default=first)
        lines = self._cell.code.splitlines()
        text = " ".join(lines[line - 1].split()) if line <= len(lines) else ""
        return Reach(kind, what, line, text[:_MAX_SOURCE])

    def _check_databases(self, statement: Code) -> None:
        """Stop before a statement changes an open database: only opening it is seen."""
        namespace, start = self._namespace(), self._cell.parts[self.at].lines[0]
        for call in statement.calls:
            by = side_effects.Caller(True, False, frozenset(), frozenset({start + call.line - 1}))
            changes = changed_databases(call, namespace)
            found = [self.target(event, (path,), by) for event, path in changes]
            for each in filter(None, found):
                self.check("", each, by)

    def _begin(self, part: Part) -> Code:
        """Take a checkpoint of what the statement may change; none if all its calls are plain."""
        statement = read(self._cell.text(part))
        bound = self._namespace()
        is_plain = all(_is_plain(call, bound) for call in statement.calls)
        if is_plain and not (statement.magics or statement.modules):
            self._restore = None
            return statement
        before, put_back = self._new_checkpoints(), process_state()
        before.take()
        before.protect(self._cell.text(part))
        self._restore = lambda: (put_back(), before.put_back(0))
        self._is_resolved = False
        self._streams = {
            name: at for name in statement.reads if (at := _position(bound.get(name))) is not None
        }
        return statement


def _is_plain(call: Call, bound: Mapping[str, Any]) -> bool:
    """Whether a call needs no checkpoint: a builtin function, or a method of a plain value.

    Such calls never reach outside.
    """
    if call.name == call.root:
        return call.name in _PLAIN_FUNCTIONS and call.name not in bound
    return type(bound.get(call.root)) in _PLAIN_TYPES and call.name.count(".") == 1


def _position(value: Any) -> int | None:
    """Return how far a stream has been read; ``None`` for other values or if unknown."""
    if type(value) is GeneratorType:
        return -1 if value.gi_frame is None else value.gi_frame.f_lasti
    if not hasattr(type(value), "__next__"):
        return None
    with suppress(Exception):  # boundary: user object - its own tell and length hint
        return int(value.tell() if hasattr(value, "tell") else value.__length_hint__())
    return None


def process_state() -> Callable[[], None]:
    """Save process-wide state: random generators, working folder, environment, ``sys.path``.

    Returns:
        A function that restores it.
    """
    folder, path, environment = Path.cwd(), list(sys.path), dict(os.environ)
    drawn, numbers = random.getstate(), sys.modules.get("numpy.random")
    drawn_by_numpy = None if numbers is None else numbers.get_state()

    def put_back() -> None:
        random.setstate(drawn)
        if numbers is not None:
            numbers.set_state(drawn_by_numpy)
        sys.path[:] = path
        for name in os.environ.keys() - environment.keys():
            del os.environ[name]
        os.environ.update(environment)
        with suppress(OSError):
            os.chdir(folder)

    return put_back


def changed_databases(call: Call, namespace: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the files that a call changes through an open connection, each with its event."""
    texts = (*call.texts, *side_effects.short_texts(map(namespace.get, call.names)))
    written = [path for text in texts if call.last in SQL_CALLS for path in written_by(text)]
    changes = [("parsimony.write", path) for path in written]
    if call.last in ("append", "to_sql") or any(map(_CHANGING.search, texts)):
        names = {call.root} if call.last == "append" else call.handed  # a list may append one
        changes += (each for name in names for each in _databases(namespace.get(name)))
    return changes


def _databases(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the database files of a connection or cursor: of DuckDB's open ones no copy is kept."""
    if type(value) is sqlite3.Cursor:
        value = value.connection
    is_duck = comes_from(value, "duckdb", "DuckDBPyConnection")
    if is_duck or type(value) is sqlite3.Connection:
        with suppress(Exception):  # boundary: user object - it is closed
            told = value.cursor().execute(_DUCKS if is_duck else "PRAGMA database_list").fetchall()
            event = "parsimony.touch" if is_duck else "parsimony.write"
            yield from ((event, path) for *_, path in told if path)


def only_reads(statement: Names, namespace: Mapping[str, Any]) -> bool:
    """Whether a statement's network requests only read.

    A notebook function is classified by the functions it calls. Anything unknown counts as a
    possible write.
    """
    called = {call.last for call in statement.calls}
    for call in statement.calls:
        function = namespace.get(call.name)
        if type(function) is FunctionType:
            called.update(function.__code__.co_names)
    carries = any({"data", "json"} & call.keywords.keys() for call in statement.calls)
    return not (called.isdisjoint(_READING) or carries) and called.isdisjoint(_SENDING)


# Dry runs


class DryRunError(PermissionError):
    """A dry run would change something that can't be restored."""


def dry_permit(workspace: Path) -> Permit:
    """Return the permit of a dry run: the current permit, minus all changes."""
    permit = current_permit() or Permit(workspace, lambda reach, lines: True)
    return replace(permit, workspace=workspace, made=set(), is_dry=True)


@contextmanager
def leaving_nothing(run: Any) -> Iterator[None]:
    """Undo everything that the cell changes in the body; warn in stderr about the rest.

    Restored afterwards: every binding of the namespace; the contents of objects that the code
    could change, as far as ``lineage.checkpoint`` copied them; ``os.environ``, ``sys.path``, the
    warning filters, and the generators of ``random`` and ``numpy.random``. A cell that plainly
    changes an object that can't be copied is not run at all; if it only may have changed one, a
    warning goes to stderr.

    The cell runs under a ``dry_permit``: it stops before it writes, removes or renames a file or
    starts a program, as far as a ``StatementGuard`` can see. It may write to the temporary folder
    and to caches.

    Not restored: imported modules and other module state (library options, connections), data
    sent over the network or to a file that was already open, and the work of threads older than
    the cell.

    Raises:
        DryRunError: before the body, when the code would change something that can't be restored.
    """
    code, namespace = run.cell.code, run.executor.namespace
    kept = run.executor.new_checkpoints()
    number = kept.take()
    kept.protect(code)
    # Restoring right away changes nothing, and lists the objects without a copy.
    plainly = sorted(read(code).mutated.intersection(kept.put_back(number).lost))
    if plainly:
        raise DryRunError(
            f"a dry run leaves everything as it is: {', '.join(plainly)} would be changed in "
            "place, and cannot be copied first; work on a copy, or run the code for real"
        )
    before, process = dict(namespace()), process_state()
    try:
        with warnings.catch_warnings():
            yield
    finally:
        process()
        bound = namespace()
        for name in bound.keys() - before.keys():
            del bound[name]
        bound.update(before)
        lost = kept.put_back(number).lost
        if lost:
            run.capture.stderr.write(
                "This dry run may have changed what could not be copied before it: "
                f"{', '.join(lost)}.\n"
            )
