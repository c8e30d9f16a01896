"""The executor interface, and the base of the executors that run code in this process.

A subclass of the latter defines how code is compiled and on which stack it runs. In-process
executors take turns, because a process has one working folder; each starts a cell in its own folder
and restores the previous one afterwards.
"""

import asyncio
import logging
import re
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, chdir, contextmanager, nullcontext, suppress
from dataclasses import InitVar, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from parsimony_kernel.analysis.read import read
from parsimony_kernel.core.audit import listening
from parsimony_kernel.core.clock import SYSTEM_CLOCK
from parsimony_kernel.core.outputs import (
    ExceptionObject,
    FetchLogEntry,
    KernelOutput,
    KernelOutputType,
)
from parsimony_kernel.core.reach import Reach
from parsimony_kernel.execution.capture import Capture
from parsimony_kernel.execution.code_cell import Cell, Part, cell_name
from parsimony_kernel.execution.factory import SNAPSHOT_BYTES, OutputFactory
from parsimony_kernel.execution.guard import (
    DryRunError,
    Paused,
    StatementGuard,
    dry_permit,
    leaving_nothing,
)
from parsimony_kernel.execution.interrupt import INTERRUPTIONS, CodeGuard, DeadlineReached, Reason
from parsimony_kernel.execution.native import watch_native_code
from parsimony_kernel.execution.readers import live_names
from parsimony_kernel.execution.run_scope import Permit, RunScope, current_permit, current_scope
from parsimony_kernel.lineage.checkpoint import Checkpoints
from parsimony_kernel.lineage.file_access import Watch, source_state
from parsimony_kernel.lineage.ledger import OriginLedger, stamp_effect
from parsimony_kernel.lineage.observe import CellEffect, Looked, before_cell, observe_cell
from parsimony_kernel.lineage.snapshot import Snapshot, difference, visible

_log = logging.getLogger(__name__)
T = TypeVar("T")

# Time limits, in seconds, for formatting an exception and for summarising the changed variables:
# both run users' code, such as a repr.
_ERROR_S = 1.0
_SUMMARY_S = 2.0
# How looking at a user's object may end early.
_ENDS: tuple[type[BaseException], ...] = (Exception, *INTERRUPTIONS)
LOOK_S = _ERROR_S + _SUMMARY_S
_POLL_S = 0.005

# Names that Python and IPython keep in a namespace for themselves.
_NOBODYS = re.compile(r"__\w*__|_+|_(?:i+|oh|dh|ih)|_i?\d+|In|Out")


class BaseCodeExecutor(ABC):
    """Runs Python in a persistent namespace. Subclass it to run code elsewhere.

    Errors of the code are values: an ``ExceptionObject`` in the output, also for a deadline (its
    message contains ``timeout``). Cancelling the awaiting task stops the code and raises
    ``CancelledError``.
    """

    origin_ledger: OriginLedger
    # Whether this executor stops code before side effects that need approval.
    is_watched = False
    # Code stopped before a side effect, which can resume after approval.
    paused: Paused | None = None

    @abstractmethod
    async def execute(
        self,
        code: str,
        dry_run: bool = False,
        timeout_seconds: float | None = None,
        producer_notebook_path: str | None = None,
        seen_live_names: set[tuple[str, str]] | None = None,
    ) -> KernelOutput:
        """Run a cell of code; a trailing expression is displayed.

        Args:
            code: Python source, top-level ``await`` allowed.
            dry_run: leave nothing behind, see ``guard.leaving_nothing``: no binding, no
                change of what existed, no file, no lineage.
            timeout_seconds: the deadline; ``None`` for no limit.
            producer_notebook_path: the notebook that the code runs for; recorded as the origin of
                the variables that it assigns.
            seen_live_names: ``(kind, live_name)`` pairs that this run has read or written; the
                pairs of published tables that the code reads are added.

        Returns:
            The output, including errors of the code.
        """

    @abstractmethod
    async def eval(
        self, expr: str, dry_run: bool = False, timeout_seconds: float | None = None
    ) -> KernelOutput:
        """Evaluate one expression.

        Args:
            expr: Python source of an expression; a statement is an error in the output.
            dry_run: leave nothing behind, as for ``execute``.
            timeout_seconds: the deadline; ``None`` for no limit.
        """

    @abstractmethod
    async def set_cwd(self, cwd: str, session_id: str | None = None) -> None:
        """Set the working folder of later cells.

        Args:
            cwd: the path of the folder.
            session_id: not used by the executors here.
        """

    @abstractmethod
    async def clear_namespace(self) -> None:
        """Delete every variable, back to the initial namespace."""

    def variables(self) -> dict[str, Any]:
        """Return the user-visible variables: no modules, private names or IPython internals.

        Returns:
            A new dict of live objects or their stand-ins (``RemoteValue``); empty if the executor
            doesn't know.
        """
        return {}

    def checkpoints(self) -> Checkpoints | None:
        """Return checkpoints of the namespace; ``None`` when the executor can't restore state.

        They are kept up to date for as long as the caller holds a reference.
        """
        return None


@dataclass(frozen=True)
class CellRequest:
    """A request to run code. The fields are the arguments of ``BaseCodeExecutor.execute``."""

    code: str
    dry_run: bool = False
    timeout_seconds: float | None = None
    producer_notebook_path: str | None = None
    is_expression: bool = False

    def __post_init__(self) -> None:
        seconds = self.timeout_seconds
        if seconds is not None and not seconds > 0:
            raise ValueError(f"timeout_seconds is {seconds!r}; give more than 0, or None")


class CellExecutor(BaseCodeExecutor):
    """An executor that runs statements and expressions in the same way, by ``run_cell``."""

    @abstractmethod
    async def run_cell(self, request: CellRequest) -> tuple[KernelOutput, set[tuple[str, str]]]:
        """Run a cell.

        Returns:
            The output, and the ``(kind, live_name)`` of each published table that the cell read.
        """

    async def execute(
        self,
        code: str,
        dry_run: bool = False,
        timeout_seconds: float | None = None,
        producer_notebook_path: str | None = None,
        seen_live_names: set[tuple[str, str]] | None = None,
    ) -> KernelOutput:
        request = CellRequest(code, dry_run, timeout_seconds, producer_notebook_path)
        output, read = await self.run_cell(request)
        if seen_live_names is not None:
            seen_live_names |= read
        return output

    async def eval(
        self, expr: str, dry_run: bool = False, timeout_seconds: float | None = None
    ) -> KernelOutput:
        request = CellRequest(expr.strip(), dry_run, timeout_seconds, is_expression=True)
        return (await self.run_cell(request))[0]


# In this process

_process_turn = threading.Lock()


@asynccontextmanager
async def process_turn() -> AsyncIterator[None]:
    """Hold the process-wide lock of in-process executors; waiting does not block the loop."""
    while not _process_turn.acquire(blocking=False):
        await asyncio.sleep(_POLL_S)
    try:
        yield
    finally:
        _process_turn.release()


@contextmanager
def working_folder(folder: Path | None, note: Callable[[str], None]) -> Iterator[Path]:
    """Change to ``folder`` for the body, then back; ``note`` if the body left the folder."""
    with chdir(folder or Path.cwd()):
        start = Path.cwd()
        try:
            yield start
        finally:
            is_left = True
            with suppress(FileNotFoundError):  # the code has removed it
                is_left = Path.cwd() != start
            if is_left:
                note(f"The working folder is {str(start)!r} again; each cell starts there.\n")


class InProcessExecutor(CellExecutor):
    """An executor that runs code in this process; subclasses define the stack it runs on."""

    def __init__(
        self, cwd: str | Path | None = None, output_factory: OutputFactory | None = None
    ) -> None:
        self.origin_ledger = OriginLedger()
        self._open: weakref.WeakSet[Checkpoints] = weakref.WeakSet()
        self.output_factory = output_factory or OutputFactory(local_dir=cwd)
        self._cwd = None if cwd is None else Path(cwd).resolve()
        self._steps: dict[str, int] = {}

    is_watched = True

    # Defined by subclasses

    @abstractmethod
    def namespace(self) -> dict[str, Any]:
        """Return the live namespace."""

    @abstractmethod
    def hidden(self) -> Mapping[str, Any]:
        """Return the bindings that are not user variables, such as seeded libraries."""

    @abstractmethod
    def _compile(self, source: str, filename: str, *, expression: bool) -> Cell:
        """Compile a cell; raise its syntax error."""

    @abstractmethod
    async def _run(self, run: "CellExecution") -> None:
        """Run the cell within its capture, then call ``run.compare`` and ``run.look``.

        Sets ``run.error``, ``run.reason`` and ``run.is_late``.
        """

    # The contract

    async def run_cell(self, request: CellRequest) -> tuple[KernelOutput, set[tuple[str, str]]]:
        folder = self._cwd or Path.cwd()
        output = await self._cell(request)
        return output, live_names((each.source for each in output.fetched), folder)

    async def set_cwd(self, cwd: str, session_id: str | None = None) -> None:
        folder = Path(cwd).resolve()
        if not folder.is_dir():
            raise NotADirectoryError(f"{cwd!r} is not a folder; create it first, or choose another")
        self._cwd = folder
        self.output_factory.local_dir = folder

    def variables(self) -> dict[str, Any]:
        return visible(self.namespace(), self.hidden())

    def checkpoints(self) -> Checkpoints:
        opened = self.new_checkpoints(self.origin_ledger)
        self._open.add(opened)
        return opened

    def new_checkpoints(self, ledger: OriginLedger | None = None) -> Checkpoints:
        """Return new checkpoints of the namespace, which the caller must keep up to date."""
        return Checkpoints(
            self.namespace, self._bindings, ledger or OriginLedger(), lambda: self.hidden()
        )

    def stamp(self, effect: CellEffect, code: str, scope: RunScope, at: str, **how: Any) -> None:
        """Record a cell's effect in the ledger, see ``stamp_effect``."""
        stamp_effect(self.origin_ledger, effect, code, scope, at, **how)

    def _bindings(self) -> dict[str, Any]:
        """Return the bindings that code made, including imports and private names."""
        watch_native_code(self.namespace())  # what it replaces is no change of the code's
        given = self.hidden()
        return {
            name: value
            for name, value in self.namespace().copy().items()
            if type(name) is str
            and name.isidentifier()
            and not _NOBODYS.fullmatch(name)
            and (name not in given or given[name] is not value)
        }

    async def _cell(self, request: CellRequest) -> KernelOutput:
        source, dry_run = request.code, request.dry_run
        scope = None if dry_run else current_scope()
        producer = None if dry_run else request.producer_notebook_path
        permit = None if dry_run else current_permit()
        capture = Capture(self.output_factory)
        started = SYSTEM_CLOCK.monotonic()
        async with process_turn():
            with working_folder(self._cwd, lambda text: capture.stderr.write(text)) as folder:
                filename = self._name(scope, source)
                before = self._going_on(permit)
                if before is not None:
                    capture.stderr.write(before.stale(self.origin_ledger.version))
                try:
                    cell = before and before.cell
                    cell = cell or self._compile(source, filename, expression=request.is_expression)
                except Exception as exc:  # boundary: tool - code that breaks the compiler
                    return self._rejected(exc, filename)
                for checkpoints in tuple(self._open):
                    lost = checkpoints.protect(cell.code)
                    capture.stderr.write("" if dry_run else lost)
                permit = dry_permit(folder) if dry_run else permit
                if permit is not None:
                    watch_native_code(self.namespace())
                run = CellExecution(self, cell, folder, capture, permit, request.timeout_seconds)
                around = leaving_nothing(run) if dry_run else nullcontext()
                try:
                    with listening(run.watch.hear), around:
                        await self._run(run)
                except DryRunError as exc:
                    return self._rejected(exc, filename)
            paused = None
            if run.held is not None and run.statement_guard is not None and not dry_run:
                paused = self.paused = run.statement_guard.pause(before)
            if scope is None:
                run.overwritten = ()
            if scope is not None or producer is not None:
                scope = scope or RunScope(run_id="", notebook_path="", cell_id="")
                path = scope.notebook_path if producer is None else producer
                run.stamp(replace(scope, notebook_path=path))
            if run.reason == "cancel":
                raise asyncio.CancelledError(run.still_running())
            output = run.output(SYSTEM_CLOCK.monotonic() - started)
            if before is not None and before.output is not None:
                output = before.output.followed_by(output)
            if paused is not None:
                paused.output = output.without_error()
                version = self.origin_ledger.version
                paused.versions = {name: version(name) for name in read(source).reads}
            return output

    def _going_on(self, permit: Permit | None) -> Paused | None:
        """Return the paused code if this permit approves it; ``None`` otherwise."""
        if permit is None:
            return None
        paused, self.paused = self.paused, None
        return paused if paused is not None and permit.approved == paused.sha else None

    def _name(self, scope: RunScope | None, source: str) -> str:
        run = scope.run_id if scope is not None else ""
        step = self._steps[run] = self._steps.get(run, 0) + 1
        return cell_name(scope.turn if scope is not None else 0, step, source)

    def _rejected(self, exc: BaseException, filename: str) -> KernelOutput:
        return KernelOutput(outputs=(self.describe(exc, filename),))

    def describe(self, exc: BaseException, filename: str) -> ExceptionObject:
        """Convert an exception to an output, on the caller's stack.

        This runs users' code, such as ``__str__``, for at most ``_ERROR_S``; the fallback doesn't.
        """
        told = _within(_ERROR_S, lambda: self.output_factory.exception(exc, filename=filename))
        return told or self.output_factory.exception(exc, filename=filename, asks=False)


@dataclass(eq=False)
class CellExecution:
    """One execution of a cell: its outcome, its changes, and its output.

    The executor sets ``error`` (the exception that ended it), ``reason`` (why it was interrupted)
    and ``is_late`` (part of it still runs). ``overwritten`` are the names that the user had bound
    and the cell changed.
    """

    executor: InProcessExecutor
    cell: Cell
    folder: Path
    capture: Capture
    permit: InitVar[Permit | None]
    seconds: float | None
    error: BaseException | None = None
    reason: Reason | None = None
    is_late: bool = False
    overwritten: tuple[str, ...] = ()
    _effect: CellEffect = field(default_factory=CellEffect)
    _after: dict[str, Any] = field(default_factory=dict)
    _summaries: list[KernelOutputType] = field(default_factory=list)
    _looked: Looked = field(init=False)
    _told: ExceptionObject | None = None
    _is_recorded: bool = True
    _is_cut: bool = False

    def __post_init__(self, permit: Permit | None) -> None:
        self.namespace = self.executor.namespace()
        self.watch = Watch(self.namespace, self.cell.filename)
        self._looked = Looked(self.namespace, before=Snapshot(self.namespace))
        with self._recording():
            self._looked = before_cell(self.cell.code, self.namespace)
        self.statement_guard = None if permit is None else StatementGuard(permit, self)

    def parts(self, guard: CodeGuard) -> Iterator[Part]:
        """Yield the statements to run, in order."""
        if self.statement_guard is None:
            return iter(self.cell.parts)
        return self.statement_guard.parts(guard, self.capture)

    @property
    def held(self) -> Reach | None:
        """The side effect that the code was stopped before, unless it was interrupted otherwise."""
        guard = self.statement_guard
        return guard.held if guard is not None and self.reason in (None, "held") else None

    def still_running(self) -> str:
        """Describe parts of the stopped code that still run; empty when there are none."""
        if self.is_late:
            return (
                "; one of its calls cannot be interrupted and still runs, cut off from the "
                "variables: it may still write files, what it binds is lost, and functions defined "
                "before must be defined again"
            )
        theirs = any(each.is_alive() for each in tuple(self.capture.threads))
        return "; threads that it started still run, and may write files" if theirs else ""

    @contextmanager
    def _recording(self) -> Iterator[None]:
        """Run a step of lineage recording; if it fails, warn in stderr and let the cell go on."""
        try:
            yield
        except Exception:  # boundary: subscriber - the cell goes on
            _log.exception("the lineage of a cell was not recorded")
            if self._is_recorded:
                self.capture.stderr.write("The lineage of this cell was not recorded.\n")
            self._is_recorded = False

    def compare(self) -> None:
        """Compute what the cell changed, without running users' code."""
        if self.statement_guard is not None:
            self.statement_guard.end(self.error, self.capture.stderr.write)
        before, looked = self._looked.before.now(self.namespace), self._looked
        # A thread that ends later still has this execution, and must keep no value alive.
        del self._looked
        self._after, hidden = self.namespace.copy(), self.executor.hidden()
        self._effect = CellEffect(*difference(before, self._after, hidden))
        with self._recording():
            self._effect = observe_cell(
                before,
                self._after,
                self.cell.code,
                self.folder,
                looked=looked,
                opened=dict(self.watch.read),
                written=dict(self.watch.written),
                hidden=hidden,
            )
        ledger = self.executor.origin_ledger
        replaced = {name: before[name] for name in self._effect.changed if name in before}
        self.overwritten = tuple(
            name
            for name in visible(replaced, hidden)
            if self._is_recorded
            if (origin := ledger.get(name)) is None or origin.actor == "user"
        )

    def look(self) -> None:
        """Format the error and summarise the changed variables.

        This runs methods of users' objects. It takes at most ``LOOK_S`` seconds, unless C code
        blocks.
        """
        self._is_cut = True
        if self.error is not None:
            self._told = self.executor.describe(self.error, self.cell.filename)
        is_changed = bool(self._effect.changed)
        self._is_cut = is_changed and _within(_SUMMARY_S, self._summarise) is not True
        self._after = {}

    def _summarise(self) -> bool:
        """Summarise the changed variables; return whether all fit into ``SNAPSHOT_BYTES``."""
        room = SNAPSHOT_BYTES
        for name in self._effect.changed:
            told = self.executor.output_factory.summary(self._after[name], name)
            room -= len(told.model_dump_json())
            if room < 0:
                return False
            self._summaries.append(told)
        return True

    def stamp(self, scope: RunScope) -> None:
        """Record the cell's effect in the ledger."""
        if self._is_recorded:
            with self._recording():
                self.executor.stamp(
                    self._effect,
                    self.cell.code,
                    scope,
                    SYSTEM_CLOCK.now().isoformat(),
                    failed=self.error is not None or self.reason is not None,
                    stopped_at=self.cell.left_at(self.error),
                )
        if not self._is_recorded:
            # An unknown origin is incomplete; the previous origin would be wrong.
            for name in (*self._effect.changed, *self._effect.deleted):
                self.executor.origin_ledger.go_back(name, 0)

    def output(self, duration: float) -> KernelOutput:
        """Build the output of the cell; ``duration`` in seconds."""
        capture, effect, failure = self.capture, self._effect, self._failure()
        return KernelOutput(
            stdout=capture.stdout.text(),
            stderr=capture.stderr.text(),
            outputs=(*capture.outputs, *([] if failure is None else [failure])),
            printed_before=tuple(capture.printed_before),
            changed=effect.changed,
            deleted=effect.deleted,
            overwritten=self.overwritten,
            variables=tuple(self._summaries),
            fetched=tuple(_fetched(each, self.folder) for each in effect.sources),
            duration_s=duration,
            truncated=capture.is_cut or self._is_cut,
        )

    def _failure(self) -> ExceptionObject | None:
        if (held := self.held) is not None:
            message = f"stopped before this: {held.sentence}"
            permit = None if self.statement_guard is None else self.statement_guard.permit
            if permit is not None and permit.is_dry:
                message = f"a dry run changes nothing: it stopped before {held.what}"
            elif permit is not None and (why := permit.why_not):
                message += f" {why[:1].upper()}{why[1:].removesuffix('.')}."
            at: dict[str, Any] = {"line": held.line, "source_line": held.source_line}
            return ExceptionObject(name="PermissionError", message=message, **at)
        if self.error is None and self.reason is None:
            return None
        told = self._told or self.executor.output_factory.exception(
            self.error or DeadlineReached(), filename=self.cell.filename, asks=False
        )
        update: dict[str, Any] = {}
        if self.reason == "deadline":
            message = f"timeout: the code was stopped after {self.seconds:g} s"
            message += self.cell.so_far(self.error)
            update = {"name": "TimeoutError", "message": message + self.still_running()}
            update |= {"past_deadline": True, "state_lost": self.is_late}
        elif self.reason == "stop":
            message = f"stopped by the user{self.still_running()}"
            update = {"name": "KeyboardInterrupt", "message": message}
        return told.model_copy(update=update)


def _within(seconds: float, look: Callable[[], T]) -> T | None:
    """Return the result of ``look``; ``None`` when it fails, is interrupted, or takes too long."""
    guard = CodeGuard(seconds)
    try:
        with guard:
            return guard.call(look)
    except _ENDS:  # boundary: user object - its repr
        return None


def _fetched(source: str, folder: Path) -> FetchLogEntry:
    given: Any = {"kind": "url"} if source.startswith(("http://", "https://")) else {}
    return FetchLogEntry(source=source, size_bytes=source_state(source, folder).size_bytes, **given)
