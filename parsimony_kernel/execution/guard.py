"""Who judges what code is about to open, start or reach, and stops it just before it does.

A keeper hears only what the code of one capture does, in its tasks and threads as well. Code of a
run stops at the top-level statement that would reach outside: what that one had changed is put
back, the ones before it stay done, and whoever allows it lets the code go on there. A dry run
leaves nothing behind.
"""

import asyncio
import os
import random
import re
import sqlite3
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FunctionType, GeneratorType, ModuleType
from typing import Any, NoReturn

from parsimony_kernel.analysis.calls import ATOMIC_FUNCTIONS, COPYING_FUNCTIONS, PATTERNS, names
from parsimony_kernel.analysis.cell import Call, Names
from parsimony_kernel.analysis.cell import Cell as Code
from parsimony_kernel.analysis.read import read
from parsimony_kernel.core.audit import listen, listening
from parsimony_kernel.core.outputs import KernelOutput
from parsimony_kernel.core.reach import ACTING, Reach, ReachKind
from parsimony_kernel.execution.capture import Capture, capture_of_code, capturing
from parsimony_kernel.execution.cell import Cell, Part
from parsimony_kernel.execution.factory import OutputFactory, addresses, is_altair
from parsimony_kernel.execution.inspection import attempt
from parsimony_kernel.execution.interrupt import CodeGuard, DeadlineReached, Held
from parsimony_kernel.execution.permit import Permit, current_permit
from parsimony_kernel.execution.side_effects import (
    EVENTS,
    LISTS,
    Caller,
    GuardedEnvironment,
    Judge,
    Target,
    host_of,
    ip_address_of,
    texts_of,
)
from parsimony_kernel.execution.workers import Workers, watch_workers
from parsimony_kernel.lineage.checkpoint import Change, Checkpoints
from parsimony_kernel.lineage.files import FileState

_MAX_SOURCE = 200
_PLAIN_FUNCTIONS = ATOMIC_FUNCTIONS | COPYING_FUNCTIONS
_PLAIN_TYPES = (list, dict, set, tuple, str, bytes, int, float, bool)
WRITERS, QUERIES = LISTS["writers"], LISTS["queries"]
WRITING_QUERY = re.compile(
    r"(?is)(?:^|;)\s*(?:COPY\b.+\bTO\b|EXPORT\s+DATABASE\b|ATTACH\b|CHECKPOINT\b|VACUUM\b.+\bINTO\b)"
)
_READING = names("network", "gets")
_SENDING = names("network", "sends")
_CHANGING = re.compile(r"(?is)^\s*(?:INSERT|UPDATE|DELETE|REPLACE|CREATE|DROP|ALTER)\b")
_READ_ONLY = re.compile(r"(?i)\bREAD_ONLY\b|mode=ro")
_ADDRESS = re.compile(r"\b(?:https?|s3a?|gs|gcs|az|abfss?|ftp|hf|r2)://[^\s'\"),]+")
# What a dry run does where its code may.
_READ = frozenset({ReachKind.network, ReachKind.secret, ReachKind.unpickling})
# What ends a statement from outside: whether what it reached has happened is not known then.
_INTERRUPTIONS = (DeadlineReached, KeyboardInterrupt, asyncio.CancelledError, Held)


@dataclass
class Keeper:
    """Judges what code is about to do.

    Args:
        judge: finds what an event reaches, if anything.
        check: is given the event, what it reaches and who raises it, and may raise to prevent it.
        workers: the processes that the code may start to compute, if it may.
    """

    judge: Judge
    check: Callable[[str, Target, Caller], None]
    workers: Workers | None = None


_ours: ContextVar[bool] = ContextVar("parsimony_ours", default=False)
_lock = threading.Lock()
_PROBE = "parsimony.probe"
_is_listening = False


def keep(capture: Capture, keeper: Keeper) -> None:
    """From now on ``keeper`` judges what belongs to ``capture``, for as long as any of it runs."""
    global _is_listening
    capture.keeper = keeper
    with _lock:
        if not _is_listening:
            _is_listening = True
            listen(_hear)
            watch_workers(lambda: getattr(keeper_here(), "workers", None))


@contextmanager
def computing(workspace: Path) -> Iterator[None]:
    """What the body computes, such as a plan that is published, may reach nothing outside.

    Raises:
        PermissionError: where it would.
    """

    def refuse(_: str, found: Target, by: Caller) -> NoReturn:
        raise PermissionError(f"it may not reach {found[1]}: compute it in code, which asks")

    judge = Judge(workspace)
    with capturing(Capture(OutputFactory())) as capture:
        keep(capture, Keeper(judge, refuse, Workers(workspace, judge.made)))
        yield


@contextmanager
def ours() -> Iterator[None]:
    """What the body does is the notebook's own work: no keeper is asked."""
    token = _ours.set(True)
    try:
        yield
    finally:
        _ours.reset(token)


def keeper_here() -> Keeper | None:
    """Who judges the code that is running now."""
    capture = capture_of_code()
    return None if capture is None else capture.keeper


def is_watching() -> bool:
    """Whether this process hears its audit events: whoever came first may refuse another hook."""
    heard: list[str] = []

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event == _PROBE:
            heard.append(event)

    with listening(hear):
        sys.audit(_PROBE)
    return bool(heard)


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    # At its end the interpreter takes the names of modules away.
    if _ours is not None and event in EVENTS and not _ours.get():
        keeper = keeper_here()
        if keeper is not None:
            with ours():
                by = keeper.judge.caller()
                found = keeper.judge.target(event, arguments, by)
            if found is not None:
                keeper.check(event, found, by)


# The statements of a run


@dataclass
class Paused:
    """Code that waits at a statement: what is left of its cell, under which hash it may go on, and
    what it has done so far."""

    # Nothing where another kernel has it.
    cell: Cell | None
    sha: str
    changes: list[Change] = field(default_factory=list)
    # What it has given so far.
    output: KernelOutput | None = None
    # What it has done outside already, in sentences.
    left: tuple[str, ...] = ()
    # What its files held before.
    files: list[FileState] = field(default_factory=list)


class StatementGuard:
    """Lets one run of a cell, an ``inprocess.CellExecution``, go as far as it may."""

    def __init__(self, permit: Permit, run: Any) -> None:
        self.permit = permit
        self.held: Reach | None = None
        # Which statement of the cell runs.
        self.at = 0
        self._guard: CodeGuard | None = None
        # Not the run, which would be held by whatever outlives it.
        self._cell: Cell = run.cell
        self._namespace = run.executor.namespace
        self._new_checkpoints = run.executor.new_checkpoints
        self._before: Checkpoints | None = None
        self._put_process_back: Callable[[], None] = lambda: None
        self._streams: dict[str, int] = {}
        self._thread, self._process = 0, os.getpid()
        # A name was resolved that is allowed, so its addresses are.
        self._is_resolved = False
        # What this statement has reached.
        self._left: list[Reach] = []
        self._is_over = True
        self._judge = run.judge(
            permit.workspace, made=permit.made, keep=permit.keep, is_dry=permit.is_dry
        )
        # A worker of a dry run may write nowhere but in the folder for temporary files.
        self.workers = Workers(Path(os.devnull) if permit.is_dry else permit.workspace, permit.made)

    def parts(self, guard: CodeGuard, capture: Capture) -> Iterator[Part]:
        """The statements of the cell, each with a state to go back to.

        Args:
            guard: wakes the code, when a thread of it has been stopped.
            capture: what its code belongs to.
        """
        self._guard = guard
        keep(capture, Keeper(self._judge, self._check, self.workers))
        self._thread = threading.get_ident()
        self._is_over = False
        _watch_environment(1)
        for at, part in enumerate(self._cell.parts):
            self.at = at
            with ours():
                statement = self._begin(part)
            self._check_native(statement)
            yield part
            self._settle()
            if self.held is not None:  # the code has caught the stop
                raise Held

    def end(self, error: BaseException | None, note: Callable[[str], None]) -> None:
        """The code has ended: what outlives it may not reach. What the held statement did is put
        back."""
        if not self._is_over:
            self._is_over = True
            _watch_environment(-1)
            for each in self.workers.refused():
                note(f"{each[:1].upper()}{each[1:]}.\n")
        if error is not None and not isinstance(error, _INTERRUPTIONS):
            self._settle()
        if self.held is None:
            self._before = None
        elif self._before is not None:
            self._put_process_back()
            self._before.put_back(0)

    def pause(self, before: Paused | None) -> Paused | None:
        """What is left of the code, which was stopped; nothing where it may not go on.

        Args:
            before: what had been left of it the last time, if this went on from there.
        """
        permit = self.permit
        permit.held, permit.why_not = self.held, self._why_not()
        if permit.held is None or permit.why_not or permit.open_end:
            return None
        left = tuple(each.sentence for each in permit.left)
        paused = Paused(self._cell.rest(self.at), permit.sha(permit.held), left=left)
        if before is not None:
            paused.changes, paused.files = before.changes, before.files
            paused.left = (*before.left, *left)
        return paused

    def _why_not(self) -> str:
        """Why the held statement may not run a second time; empty when it may."""
        if self._left and not only_reads(read(self._text), self._namespace()):
            told = " ".join(each.sentence for each in self._left)
            return f"this already happened and isn't repeated: {told}"
        if self._before is None:
            return "what it had changed was not saved, so it isn't run again"
        bound = self._namespace()
        moved = [name for name, at in self._streams.items() if _position(bound.get(name)) != at]
        if moved:
            names = ", ".join(sorted(moved))
            return f"it had already consumed {names}, which can't be rewound, so it isn't run again"
        return ""

    @property
    def _text(self) -> str:
        return self._cell.text(self._cell.parts[self.at])

    def _check(self, event: str, found: Target, by: Caller) -> None:
        """Stop the code before an event that it may not cause."""
        kind, what = found
        if os.getpid() != self._process:
            with ours():
                self.workers.refuse(what)
        if self._is_over:
            raise PermissionError(f"this code has ended and may no longer reach {what}")
        if self.held is not None:
            raise Held
        reach = self._reach(kind, what, by)
        if kind is ReachKind.network and self._is_resolved and ip_address_of(what):
            return
        approved = self.permit.approved
        is_refused = self.permit.is_dry and kind not in _READ
        is_allowed = approved is not None and approved == self.permit.sha(reach)
        first, last = self._cell.parts[self.at].lines
        lines = by.lines | frozenset(range(first, last + 1))
        if not is_refused and (is_allowed or self.permit.allows(reach, lines)):
            self._is_resolved = self._is_resolved or kind is ReachKind.network
            with ours():
                self._leave(reach)
            return
        self.held = reach
        if threading.get_ident() != self._thread and self._guard is not None:
            self._guard.interrupt("held")
        raise Held

    def _leave(self, reach: Reach) -> None:
        """Put on record what is about to happen, before it does."""
        if reach.kind is ReachKind.deletion:
            self.permit.keep(str(self.permit.workspace / reach.what))
        if reach.kind not in ACTING or reach in self._left:
            return
        text = self._text
        # A program or a deletion is none, whatever else the statement reads.
        reads = reach.kind is ReachKind.network and only_reads(read(text), self._namespace())
        key = self.permit.leaving(reach, text, reads)
        if key:
            self.held, self.permit.open_end = reach, key
            raise Held
        self._left.append(reach)
        self.permit.left.append(reach)

    def _settle(self) -> None:
        """The statement has ended, whatever came of it."""
        if self._left:
            self._left.clear()
            with ours():
                self.permit.ended()

    def _reach(self, kind: ReachKind, what: str, by: Caller) -> Reach:
        first, last = self._cell.parts[self.at].lines
        inside = [line for line in by.lines if first <= line <= last]
        line = min(inside, default=first)
        lines = self._cell.code.splitlines()
        text = " ".join(lines[line - 1].split()) if line <= len(lines) else ""
        return Reach(kind, what, line, text[:_MAX_SOURCE])

    def _check_native(self, statement: Code) -> None:
        """Stop before what libraries would do past Python in this statement."""
        namespace, start = self._namespace(), self._cell.parts[self.at].lines[0]
        for call in statement.calls:
            by = Caller(True, False, frozenset(), frozenset({start + call.line - 1}))
            with ours():
                found = [self._judge.writing(path, by) for path in writes(call, namespace)]
                found += [(ReachKind.network, host) for host in fetches(call, namespace)]
            for each in filter(None, found):
                self._check("", each, by)

    def _begin(self, part: Part) -> Code:
        """Remember what the statement may change."""
        statement = read(self._cell.text(part))
        bound = self._namespace()
        is_plain = all(_is_plain(call, bound) for call in statement.calls)
        if is_plain and not (statement.magics or statement.modules):
            self._before = None
            return statement
        self._before = self._new_checkpoints()
        self._before.take()
        self._before.protect(self._cell.text(part))
        self._put_process_back = process_state()
        self._is_resolved = False
        self._streams = {
            name: at for name in statement.reads if (at := _position(bound.get(name))) is not None
        }
        return statement


def _is_plain(call: Call, bound: Mapping[str, Any]) -> bool:
    """Whether a call is of a builtin function, or of a method of a plain value: these don't reach,
    and what they change need not be kept for it."""
    if call.name == call.root:
        return call.name in _PLAIN_FUNCTIONS and call.name not in bound
    return type(bound.get(call.root)) in _PLAIN_TYPES and call.name.count(".") == 1


def _position(value: Any) -> int | None:
    """How far a stream has been read, as far as that can be told; ``None`` for what is none."""
    if type(value) is GeneratorType:
        return -1 if value.gi_frame is None else value.gi_frame.f_lasti
    if not hasattr(type(value), "__next__"):
        return None
    with suppress(Exception):  # boundary: user object - its own ways of telling
        return int(value.tell() if hasattr(value, "tell") else value.__length_hint__())
    return None


def process_state() -> Callable[[], None]:
    """What a process has one of: random numbers, folder, environment, path. What it gives puts
    that back."""
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


def _watch_environment(by: int) -> None:
    """Reading a variable of the environment is an event while more judge it than do not."""
    global _judging
    _judging += by
    if type(os.environ) in (os._Environ, GuardedEnvironment):
        os.environ.__class__ = GuardedEnvironment if _judging else os._Environ


_judging = 0


# What libraries do with their own code when a statement calls them, where Python sees nothing. They
# are known by the names of their functions, and what they are handed is looked up: texts in the
# statement, and what the names in it hold when it is about to run.


def writes(call: Call, namespace: Mapping[str, Any]) -> Iterator[str]:
    """The paths to which a call writes past Python."""
    texts = (*call.texts, *texts_of(call.names, namespace))
    if call.last in QUERIES:
        for text in texts:
            if WRITING_QUERY.search(text) and not _READ_ONLY.search(text):
                for found in PATTERNS["sql_file"].findall(text):
                    yield from filter(None, found)
    elif call.last in WRITERS or _is_duckdb(call, namespace) or _leads_on(call, namespace):
        is_read = call.last in LISTS["openers"] and call.mode in (None, "r")
        yield from (each for each in texts if not is_read and not each.startswith(":"))
    if call.last == "to_sql" or any(map(_CHANGING.search, texts)):
        for name in call.handed:
            yield from _databases(namespace.get(name))


def _is_duckdb(call: Call, namespace: Mapping[str, Any]) -> bool:
    writes = call.last == "connect" and "read_only" not in call.keywords
    writes = writes or call.last.startswith(("to_", "write_"))
    return writes and _library(call, namespace) in ("duckdb", "_duckdb")


def _leads_on(call: Call, namespace: Mapping[str, Any]) -> bool:
    """Whether it is a function of the notebook that calls such a writer."""
    function = namespace.get(call.name)
    return type(function) is FunctionType and not WRITERS.isdisjoint(function.__code__.co_names)


def _databases(value: Any) -> Iterator[str]:
    """The files that a connection of SQLite, or a cursor of it, is open to."""
    if type(value) is sqlite3.Cursor:
        value = value.connection
    if type(value) is sqlite3.Connection:
        with suppress(sqlite3.Error):  # it is closed
            yield from (path for _, _, path in value.execute("PRAGMA database_list") if path)


def fetches(call: Call, namespace: Mapping[str, Any]) -> Iterator[str]:
    """The hosts from which a call fetches past Python."""
    if call.last in LISTS["clouds"]:
        yield call.last
    root: Any = namespace.get(call.root)
    if call.last == "save" and is_altair(root):
        for address in addresses(attempt(lambda: root.to_dict(validate=False), lambda _: {})):
            yield host_of(address) or address
    if call.last in QUERIES or _library(call, namespace) in LISTS["fetchers"]:
        for text in (*call.texts, *texts_of(call.handed, namespace)):
            for address in _ADDRESS.findall(text):
                yield host_of(address) or address


def _library(call: Call, namespace: Mapping[str, Any]) -> str:
    """The library that the call belongs to, by what its name stands for now."""
    root = namespace.get(call.root)
    name = root.__name__ if type(root) is ModuleType else type(root).__module__
    return name.partition(".")[0]


def only_reads(statement: Names, namespace: Mapping[str, Any]) -> bool:
    """Whether what a statement sends, if anything, only asks for what it reads.

    A function of the notebook is known by what it calls; what is not known may be an effect.
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
    """A dry run would change what cannot be put back."""


def dry_permit(workspace: Path) -> Permit:
    """What a dry run may do: what the code may do for real, but for changing anything."""
    permit = current_permit() or Permit(workspace, lambda reach, lines: True)
    return replace(permit, workspace=workspace, made=set(), is_dry=True)


@contextmanager
def leaving_nothing(run: Any) -> Iterator[None]:
    """Whatever the cell does in the body is taken back; what could not be is told in stderr.

    Put back afterwards: every binding of the namespace; what lay in the objects that the code
    could change, as far as ``lineage.checkpoint`` has copied it;
    ``os.environ``, ``sys.path``, the warning filters, and the generators of ``random`` and
    ``numpy.random``. Not run at all is a cell that plainly changes an object of which no copy can
    be made; one that only may have done so is told about in stderr.

    It runs under a ``dry_permit``, so it stops before a file is written, removed or renamed and
    before a program starts, as far as a ``StatementGuard`` sees that. Writing is left to it in the
    folder for temporary files and in caches.

    Left: imported modules and what else is kept in modules (the options of a library, its
    connections), what is sent over the network or to a file that was open before, and what
    threads do that are older than the cell.

    Raises:
        DryRunError: before the body, when the code would change what cannot be put back.
    """
    code, namespace = run.cell.code, run.executor.namespace
    kept = run.executor.new_checkpoints()
    number = kept.take()
    kept.protect(code)
    # Going back at once changes nothing, and tells of what there is no copy.
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
