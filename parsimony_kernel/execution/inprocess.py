"""What the executors of this process share: turns, folder, capture, lineage, and the output.

An executor says how its code is compiled and on which stack it runs. In-process executors take
turns, because the working folder is one per process; each starts a cell in its own folder and
puts the folder back.
"""

import asyncio
import logging
import os
import re
import threading
import weakref
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from parsimony_kernel.core.audit import listening
from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.outputs import (
    ExceptionObject,
    FetchLogEntry,
    KernelOutput,
    KernelOutputType,
)
from parsimony_kernel.execution.asking import Asking, Paused
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.execution.capture import Capture
from parsimony_kernel.execution.cell import Cell, Part, cell_name
from parsimony_kernel.execution.datasets import live_names
from parsimony_kernel.execution.dry_run import DryRunError, leaving_nothing
from parsimony_kernel.execution.factory import SNAPSHOT_BYTES, OutputFactory, traceback_of
from parsimony_kernel.execution.inspection import attempt, is_a, plain
from parsimony_kernel.execution.interrupt import CodeGuard, DeadlineReached, Reason
from parsimony_kernel.execution.permit import Permit, current_permit
from parsimony_kernel.execution.run_scope import RunScope, current_scope
from parsimony_kernel.lineage.checkpoint import Checkpoints
from parsimony_kernel.lineage.file_access import Watch
from parsimony_kernel.lineage.ledger import OriginLedger
from parsimony_kernel.lineage.snapshot import Snapshot, visible
from parsimony_kernel.lineage.stamp import (
    CellEffect,
    Looked,
    before_cell,
    observe_cell,
    stamp_effect,
    stopped_line,
)

_log = logging.getLogger(__name__)
T = TypeVar("T")

# How long the message of an exception may take, and how long the summary of the changed
# variables: code of users' runs in both.
_ERROR_S = 1.0
_SUMMARY_S = 2.0
LOOK_S = _ERROR_S + _SUMMARY_S
_POLL_S = 0.005

# What Python and IPython keep in a namespace for themselves.
_NOBODYS = re.compile(r"__\w*__|_+|_(?:i+|oh|dh|ih)|_i?\d+|In|Out")

_process_turn = threading.Lock()


@dataclass
class CellEnd:
    """How a cell ended.

    ``reason`` is why it was interrupted, if it was; ``late`` whether something of it still runs.
    """

    error: BaseException | None = None
    reason: Reason | None = None
    late: bool = False


@asynccontextmanager
async def process_turn() -> AsyncIterator[None]:
    """Wait for the other executors of this process. The event loop stays free meanwhile."""
    while not _process_turn.acquire(blocking=False):
        await asyncio.sleep(_POLL_S)
    try:
        yield
    finally:
        _process_turn.release()


@contextmanager
def working_folder(folder: Path | None, note: Callable[[str], None]) -> Iterator[Path]:
    """Be in ``folder`` for the body, and afterwards where one was before."""
    before = Path.cwd()
    if folder is not None:
        os.chdir(folder)
    start = before if folder is None else Path.cwd()
    try:
        yield start
    finally:
        try:
            moved = Path.cwd() != start
        except FileNotFoundError:
            moved = True
        if moved:
            note(f"The working folder is {str(start)!r} again; each cell starts there.\n")
        os.chdir(before)


class InProcessExecutor(BaseCodeExecutor):
    """An executor that runs code in this process. Subclasses say where."""

    def __init__(
        self,
        *,
        cwd: str | Path | None,
        output_factory: OutputFactory | None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.origin_ledger = OriginLedger()
        self._open: weakref.WeakSet[Checkpoints] = weakref.WeakSet()
        self.output_factory = output_factory or OutputFactory(local_dir=cwd)
        self._clock = clock
        self._cwd = None if cwd is None else Path(cwd).resolve()
        self._steps: dict[str, int] = {}

    is_watched = True

    # What a subclass says

    @abstractmethod
    def _namespace(self) -> dict[str, Any]:
        """The live namespace."""

    @abstractmethod
    def _hidden(self) -> Mapping[str, Any]:
        """Bindings of the namespace that are nobody's variables."""

    @abstractmethod
    def _compile(self, source: str, filename: str, *, expression: bool) -> Cell:
        """Compile a cell; raises what is wrong with it."""

    @abstractmethod
    async def _run(
        self,
        cell: Cell,
        capture: Capture,
        *,
        namespace: dict[str, Any],
        seconds: float | None,
        observed: "Observation",
    ) -> CellEnd:
        """Run the cell within ``capture``, then ``observed.compare`` and ``observed.look`` on the
        same stack.
        """

    # The contract

    async def execute(
        self,
        code: str,
        dry_run: bool = False,
        timeout_seconds: float | None = None,
        producer_notebook_path: str | None = None,
        seen_live_names: set[tuple[str, str]] | None = None,
    ) -> KernelOutput:
        folder = self._cwd or Path.cwd()
        output = await self._cell(
            code, dry_run=dry_run, seconds=timeout_seconds, producer=producer_notebook_path
        )
        if seen_live_names is not None:
            seen_live_names |= live_names((each.source for each in output.fetched), folder)
        return output

    async def eval(
        self,
        expr: str,
        dry_run: bool = False,
        timeout_seconds: float | None = None,
    ) -> KernelOutput:
        return await self._cell(
            expr.strip(), dry_run=dry_run, seconds=timeout_seconds, expression=True
        )

    async def set_cwd(self, cwd: str, session_id: str | None = None) -> None:
        folder = Path(cwd).resolve()
        if not folder.is_dir():
            raise NotADirectoryError(f"{cwd!r} is no folder; make it first, or name another")
        self._cwd = folder
        self.output_factory.local_dir = folder

    def variables(self) -> dict[str, Any]:
        return visible(self._namespace(), self._hidden())

    def checkpoints(self) -> Checkpoints:
        opened = Checkpoints(
            self._namespace, self._bindings, self.origin_ledger, lambda: self._hidden()
        )
        self._open.add(opened)
        return opened

    def _bindings(self) -> dict[str, Any]:
        """The names that code has bound, imports and private ones among them."""
        given = self._hidden()
        return {
            name: value
            for name, value in self._namespace().copy().items()
            if type(name) is str
            and name.isidentifier()
            and not _NOBODYS.fullmatch(name)
            and (name not in given or given[name] is not value)
        }

    async def _cell(
        self,
        source: str,
        *,
        dry_run: bool,
        seconds: float | None,
        producer: str | None = None,
        expression: bool = False,
    ) -> KernelOutput:
        if seconds is not None and not seconds > 0:
            raise ValueError(f"timeout_seconds is {seconds!r}; give more than 0, or None")
        scope = current_scope()
        capture = Capture(self.output_factory)
        started = self._clock.monotonic()
        async with process_turn():
            with working_folder(self._cwd, lambda text: capture.stderr.write(text)) as folder:
                filename = self._name(scope, source)
                permit = None if dry_run else current_permit()
                paused = self._going_on(permit)
                try:
                    if paused is not None and paused.cell is not None:
                        cell = paused.cell
                    else:
                        cell = self._compile(source, filename, expression=expression)
                except (
                    Exception,
                    RecursionError,
                ) as exc:  # boundary: tool - code that breaks the compiler
                    return self._rejected(exc, filename, source)
                for checkpoints in tuple(self._open):
                    lost = checkpoints.protect(cell.code)
                    capture.stderr.write("" if dry_run else lost)
                namespace = self._namespace()
                watch = Watch()
                with listening(watch.hear):
                    observed = Observation(self, cell, namespace, folder, watch, capture)
                    observed.asking = self._asking(permit, cell, capture)
                    try:
                        with self._kept(cell, folder, capture) if dry_run else nullcontext():
                            end = await self._run(
                                cell,
                                capture,
                                namespace=namespace,
                                seconds=seconds,
                                observed=observed,
                            )
                            observed.compare(end.error)
                    except DryRunError as exc:
                        return self._rejected(exc, filename, source)
            if permit is not None:
                self._hold(permit, observed, end, paused)
            theirs = () if dry_run or scope is None else self._overwritten(observed)
            if not dry_run:
                self._stamp(observed, end, scope, producer)
            if end.reason == "cancel":
                raise asyncio.CancelledError(observed.still_running(end))
            output = self._output(
                capture,
                observed,
                end,
                seconds,
                overwritten=theirs,
                duration=self._clock.monotonic() - started,
            )
            if paused is not None and paused.output is not None:
                output = paused.output.followed_by(output)
            if permit is not None and permit.held is not None and self.paused is not None:
                self.paused.output = output.without_error()
            return output

    def _asking(self, permit: Permit | None, cell: Cell, capture: Capture) -> Asking | None:
        if permit is None:
            return None
        given = self._hidden
        return Asking(permit, cell, capture, self._namespace, self._bindings, given)

    def _going_on(self, permit: Permit | None) -> Paused | None:
        """The code that waited, where this is what it waited for."""
        if permit is None:
            return None
        paused, self.paused = self.paused, None
        return paused if paused is not None and permit.approved == paused.sha else None

    def _hold(
        self, permit: Permit, observed: "Observation", end: CellEnd, before: Paused | None
    ) -> None:
        """Keep what is left of code that was stopped before it reached outside."""
        asking = observed.asking
        if asking is None or asking.held is None or end.reason not in (None, "held"):
            return
        permit.held = asking.held
        permit.why_not = asking.why_not
        if permit.why_not or permit.open_end:
            return
        self.paused = Paused(observed.cell.rest(asking.at), permit.sha(asking.held))
        self.paused.left = tuple(each.sentence for each in permit.left)
        if before is not None:
            self.paused.changes, self.paused.files = before.changes, before.files
            self.paused.left = (*before.left, *self.paused.left)

    def _kept(self, cell: Cell, folder: Path, capture: Capture) -> AbstractContextManager[None]:
        return leaving_nothing(
            cell, folder, capture, self._namespace, self._bindings, lambda: self._hidden()
        )

    def _overwritten(self, observed: "Observation") -> tuple[str, ...]:
        """The names that the person had bound and the cell changed. Before they are stamped."""
        ledger = self.origin_ledger
        return tuple(
            name
            for name in observed.effect.changed
            if name in observed.before
            and ((origin := ledger.get(name)) is None or origin.actor == "user")
        )

    def _name(self, scope: RunScope | None, source: str) -> str:
        run = scope.run_id if scope is not None else ""
        step = self._steps[run] = self._steps.get(run, 0) + 1
        return cell_name(scope.turn if scope is not None else 0, step, source)

    def _rejected(self, exc: BaseException, filename: str, source: str) -> KernelOutput:
        return KernelOutput(outputs=(self._told(exc, filename, source),))

    def _told(self, exc: BaseException, filename: str, source: str) -> ExceptionObject:
        """The exception as an output, on the stack of whoever asks; code of users' runs in it."""
        factory = self.output_factory

        def look() -> ExceptionObject:
            told = factory.exception(exc, filename=filename, source=source)
            if not is_a(exc, SystemExit):
                return told
            code = attempt(
                lambda: "" if exc.code is None else plain(f" with {exc.code!r}")[:200],
                lambda _: "",
            )
            message = f"sys.exit ended this cell{code}; the kernel goes on"
            return told.model_copy(update={"message": message})

        told = _within(_ERROR_S, look)
        return told or factory.exception_unasked(exc, filename=filename, source=source)

    def _stamp(
        self,
        observed: "Observation",
        end: CellEnd,
        scope: RunScope | None,
        producer: str | None,
    ) -> None:
        if scope is None and producer is None:
            return
        scope = scope or RunScope(run_id="", notebook_path="", cell_id="")
        if producer is not None:
            scope = RunScope(
                run_id=scope.run_id,
                notebook_path=producer,
                cell_id=scope.cell_id,
                turn=scope.turn,
                actor=scope.actor,
            )
        given = scope
        ledger = self.origin_ledger
        if observed.is_recorded:
            observed.recorded(
                lambda: stamp_effect(
                    ledger,
                    observed.effect,
                    observed.cell.code,
                    given,
                    self._clock.now().isoformat(),
                    cwd=observed.folder,
                    failed=end.error is not None or end.reason is not None,
                    stopped_at=observed.stopped_at,
                ),
                None,
            )
        if not observed.is_recorded:
            # Of unknown origin, which is less than the truth; what they were before is not true.
            for name in (*observed.effect.changed, *observed.effect.deleted):
                ledger.drop(name)

    def _output(
        self,
        capture: Capture,
        observed: "Observation",
        end: CellEnd,
        seconds: float | None,
        *,
        overwritten: tuple[str, ...],
        duration: float,
    ) -> KernelOutput:
        outputs = capture.outputs
        error = self._error(end, observed, seconds)
        if error is not None:
            outputs.append(error)
        return KernelOutput(
            stdout=capture.stdout.text(),
            stderr=capture.stderr.text(),
            outputs=tuple(outputs),
            changed=observed.effect.changed,
            deleted=observed.effect.deleted,
            overwritten=overwritten,
            variables=tuple(observed.summaries),
            fetched=tuple(_fetched(each, observed.folder) for each in observed.effect.sources),
            duration_s=duration,
            truncated=capture.is_cut or observed.is_cut,
        )

    def _error(
        self, end: CellEnd, observed: "Observation", seconds: float | None
    ) -> ExceptionObject | None:
        held = None if observed.asking is None else observed.asking.held
        if end.error is None and end.reason is None and held is None:
            return None
        if held is not None and end.reason in (None, "held"):
            return ExceptionObject(
                name="PermissionError",
                message=f"stopped before this: {held.sentence}",
                line=held.line,
                source_line=held.source_line,
            )
        told = observed.told
        if told is None or end.error is None:
            told = self.output_factory.exception_unasked(
                end.error or DeadlineReached(),
                filename=observed.cell.filename,
                source=observed.cell.source,
            )
        if end.reason == "deadline":
            message = f"timeout: the code was stopped after {seconds:g} s"
            message += observed.cell.so_far(None if end.error is None else traceback_of(end.error))
            message += observed.still_running(end)
            return told.model_copy(
                update={
                    "name": "TimeoutError",
                    "message": message,
                    "past_deadline": True,
                    "state_lost": end.late,
                }
            )
        if end.reason == "stop":
            return told.model_copy(
                update={
                    "name": "KeyboardInterrupt",
                    "message": f"stopped by the user{observed.still_running(end)}",
                }
            )
        return told


class Observation:
    """What became of the namespace in one cell, and of the lineage that is written of it."""

    def __init__(
        self,
        executor: InProcessExecutor,
        cell: Cell,
        namespace: dict[str, Any],
        folder: Path,
        watch: Watch,
        capture: Capture,
    ) -> None:
        self._executor = executor
        self._watch = watch
        self._capture = capture
        self.asking: Asking | None = None
        self.is_recorded = True
        self._looked: Looked | None = self.recorded(lambda: before_cell(cell.code, namespace), None)
        self.namespace = namespace
        there = visible(namespace, executor._hidden())
        looked = self._looked
        # What stood before is not kept alive by being looked at, as far as that can be.
        self._standing = Snapshot(there) if looked is None else looked.keep(there)
        self.before: Mapping[str, Any] = {}
        self.after: dict[str, Any] = {}
        self.cell = cell
        self.folder = folder
        self.effect = CellEffect()
        self.told: ExceptionObject | None = None
        self.stopped_at = 0
        self.summaries: list[KernelOutputType] = []
        self.is_cut = False
        self._is_compared = False

    def parts(self, guard: CodeGuard) -> Iterator[Part]:
        """The statements that run, in order."""
        return iter(self.cell.parts) if self.asking is None else self.asking.parts(guard)

    def still_running(self, end: CellEnd) -> str:
        """That something of code that was stopped goes on, in words; empty when nothing does."""
        if end.late:
            return (
                "; one of its calls cannot be interrupted and still runs, cut off from the "
                "variables: it may still write files, what it binds is lost, and functions defined "
                "before must be defined again"
            )
        theirs = any(
            each.is_alive() and not each.name.startswith("parsimony-")
            for each in tuple(self._capture.threads)
        )
        return "; threads that it started still run, and may write files" if theirs else ""

    def recorded(self, step: Callable[[], T], otherwise: T) -> T:
        """What a step of the lineage gives. Where it fails the cell goes on, and that is told.

        The handler for everything of a subscriber: the code is not to fail with who observes it.
        """
        try:
            return step()
        except Exception:  # boundary: subscriber - the cell goes on
            _log.exception("the lineage of a cell was not recorded")
            if self.is_recorded:
                self._capture.stderr.write("The lineage of this cell was not recorded.\n")
            self.is_recorded = False
            return otherwise

    def compare(self, error: BaseException | None) -> None:
        """See what changed; no code of users' runs. Once, whoever asks first.

        Args:
            error: what the code ended with, if with an error.
        """
        if self._is_compared:
            return
        self._is_compared = True
        if self.asking is not None:
            self.asking.end(error)
        self.before = self._standing.now(self.namespace)
        self.after = visible(self.namespace, self._executor._hidden())
        looked = self._looked
        seen = None
        if looked is not None:
            seen = self.recorded(
                lambda: observe_cell(
                    self.before,
                    self.after,
                    self.cell.code,
                    self.folder,
                    looked=looked,
                    opened=tuple(self._watch.read),
                )[0],
                None,
            )
        self.effect = seen or _bound_anew(self.before, self.after)

    def look(self, error: BaseException | None) -> None:
        """Tell ``error`` and summarise what changed, on the stack of the code: the methods of
        users' objects run. At most ``LOOK_S``, but for C code.
        """
        self.is_cut = True
        if error is not None:
            self.told = self._executor._told(error, self.cell.filename, self.cell.source)
            self.stopped_at = _within(_ERROR_S, lambda: stopped_line(error, self.namespace)) or 0
        self.is_cut = bool(self.effect.changed)
        if self.effect.changed:
            self.is_cut = _within(_SUMMARY_S, self._summarise) is not True

    def _summarise(self) -> bool:
        """Whether all of it has found room."""
        room = SNAPSHOT_BYTES
        for name in self.effect.changed:
            told = self._executor.output_factory.summary(self.after[name], name)
            room -= len(told.model_dump_json())
            if room < 0:
                return False
            self.summaries.append(told)
        return True


def _within(seconds: float, look: Callable[[], T]) -> T | None:
    """What ``look`` finds; ``None`` when it is interrupted, or takes longer."""
    guard = CodeGuard(seconds)
    try:
        with guard:
            return guard.call(look)
    except (  # boundary: user object - its repr
        Exception,
        DeadlineReached,
        KeyboardInterrupt,
        asyncio.CancelledError,
    ):
        return None


def _bound_anew(before: Mapping[str, Any], after: Mapping[str, Any]) -> CellEffect:
    """What a comparison of the bindings alone tells."""
    return CellEffect(
        changed=tuple(
            name for name in after if name not in before or before[name] is not after[name]
        ),
        deleted=tuple(name for name in before if name not in after),
    )


def _fetched(source: str, folder: Path) -> FetchLogEntry:
    if source.startswith(("http://", "https://")):
        return FetchLogEntry(source=source, kind="url")
    try:
        size: int | None = (folder / source).stat().st_size
    except OSError:
        size = None
    return FetchLogEntry(source=source, kind="file", size_bytes=size)
