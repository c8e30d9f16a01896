"""What the executors of this process share: turns, folder, capture, lineage, and the output.

An executor says how its code is compiled and on which stack it runs. In-process executors take
turns, because the working folder is one per process; each starts a cell in its own folder and
puts the folder back.
"""

import asyncio
import os
import re
import threading
import weakref
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parsimony_kernel.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.execution.capture import Capture
from parsimony_kernel.execution.cell import Cell, cell_name
from parsimony_kernel.execution.dry_run import DryRunError, leaving_nothing
from parsimony_kernel.execution.executor import BaseCodeExecutor
from parsimony_kernel.execution.factory import SNAPSHOT_BYTES, OutputFactory
from parsimony_kernel.execution.inspection import attempt, is_a, plain
from parsimony_kernel.execution.interrupt import CodeGuard, DeadlineReached, Reason
from parsimony_kernel.execution.outputs import (
    ExceptionObject,
    FetchLogEntry,
    KernelOutput,
    KernelOutputType,
)
from parsimony_kernel.execution.run_scope import RunScope, current_scope
from parsimony_kernel.lineage.checkpoint import Checkpoints
from parsimony_kernel.lineage.file_access import Watch, watching
from parsimony_kernel.lineage.ledger import OriginLedger
from parsimony_kernel.lineage.snapshot import visible
from parsimony_kernel.lineage.stamping import (
    CellEffect,
    Looked,
    before_cell,
    observe_cell,
    stamp_cell,
    stopped_line,
)

# How long the summary of the changed variables may take; a user's repr runs in it.
_SUMMARY_S = 2.0
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
        observe: Callable[[], None],
    ) -> CellEnd:
        """Run the cell within ``capture``, then ``observe`` on the same stack."""

    # The contract

    async def execute(
        self,
        code: str,
        dry_run: bool = False,
        timeout_seconds: float | None = None,
        producer_notebook_path: str | None = None,
        seen_live_names: set[tuple[str, str]] | None = None,
    ) -> KernelOutput:
        return await self._cell(
            code, dry_run=dry_run, seconds=timeout_seconds, producer=producer_notebook_path
        )

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
                try:
                    cell = self._compile(source, filename, expression=expression)
                except (Exception, RecursionError) as exc:
                    return self._rejected(exc, filename, source)
                for checkpoints in tuple(self._open):
                    checkpoints.protect(cell.code)
                namespace = self._namespace()
                with watching() as watch:
                    observed = _Observation(self, cell, namespace, folder, watch)
                    try:
                        with self._kept(cell, folder, capture) if dry_run else nullcontext():
                            end = await self._run(
                                cell,
                                capture,
                                namespace=namespace,
                                seconds=seconds,
                                observe=observed.take,
                            )
                            observed.take_effect_only()
                    except DryRunError as exc:
                        return self._rejected(exc, filename, source)
            theirs = () if dry_run or scope is None else self._overwritten(observed)
            if not dry_run:
                self._stamp(observed, end, scope, producer)
            if end.reason == "cancel":
                raise asyncio.CancelledError
            return self._output(
                capture,
                observed,
                end,
                seconds,
                overwritten=theirs,
                duration=self._clock.monotonic() - started,
            )

    def _kept(self, cell: Cell, folder: Path, capture: Capture) -> AbstractContextManager[None]:
        return leaving_nothing(
            cell.code, folder, capture, self._namespace, self._bindings, lambda: self._hidden()
        )

    def _overwritten(self, observed: "_Observation") -> tuple[str, ...]:
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
        error = self.output_factory.exception(exc, filename=filename, source=source)
        return KernelOutput(outputs=(error,))

    def _stamp(
        self,
        observed: "_Observation",
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
        stamp_cell(
            self.origin_ledger,
            observed.before,
            observed.after,
            observed.cell.code,
            scope,
            observed.folder,
            self._clock.now().isoformat(),
            effect=observed.effect,
            failed=end.error is not None or end.reason is not None,
            stopped_at=stopped_line(end.error, observed.namespace),
        )

    def _output(
        self,
        capture: Capture,
        observed: "_Observation",
        end: CellEnd,
        seconds: float | None,
        *,
        overwritten: tuple[str, ...],
        duration: float,
    ) -> KernelOutput:
        outputs = capture.outputs
        error = self._error(end, observed.cell, seconds)
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

    def _error(self, end: CellEnd, cell: Cell, seconds: float | None) -> ExceptionObject | None:
        where = {"filename": cell.filename, "source": cell.source}
        if end.reason == "deadline":
            place = end.error or DeadlineReached()
            told = self.output_factory.exception(place, **where)
            message = f"timeout: the code was stopped after {seconds:g} s"
            if end.late:
                message += (
                    "; one of its calls cannot be interrupted and still runs, cut off from the "
                    "variables: what it does from now on is lost, and functions defined before "
                    "must be defined again"
                )
            return told.model_copy(
                update={
                    "name": "TimeoutError",
                    "message": message,
                    "past_deadline": True,
                    "state_lost": end.late,
                }
            )
        if end.reason == "stop":
            told = self.output_factory.exception(end.error or KeyboardInterrupt(), **where)
            return told.model_copy(
                update={"name": "KeyboardInterrupt", "message": "stopped by the user"}
            )
        if end.error is None:
            return None
        told = self.output_factory.exception(end.error, **where)
        if is_a(end.error, SystemExit):
            leaving = end.error
            code = attempt(
                lambda: "" if leaving.code is None else plain(f" with {leaving.code!r}")[:200],
                lambda _: "",
            )
            message = f"sys.exit ended this cell{code}; the kernel goes on"
            return told.model_copy(update={"message": message})
        return told


class _Observation:
    """What became of the namespace in one cell."""

    def __init__(
        self,
        executor: InProcessExecutor,
        cell: Cell,
        namespace: dict[str, Any],
        folder: Path,
        watch: Watch,
    ) -> None:
        self._executor = executor
        self._watch = watch
        self._looked: Looked = before_cell(cell.code, namespace)
        self.namespace = namespace
        self.before = visible(namespace, executor._hidden())
        self.after = self.before
        self.cell = cell
        self.folder = folder
        self.effect = CellEffect()
        self.summaries: list[KernelOutputType] = []
        self.is_cut = False
        self._is_taken = False

    def take(self) -> None:
        """Compare and summarise, on the stack of the code: a summary runs the reprs of users."""
        self.take_effect_only()
        if not self.effect.changed:
            return
        guard = CodeGuard(_SUMMARY_S)
        try:
            with guard:
                guard.call(self._summarise)
        except (Exception, DeadlineReached, KeyboardInterrupt, asyncio.CancelledError):
            self.is_cut = True

    def take_effect_only(self) -> None:
        """Compare, where the code's own stack is gone."""
        if self._is_taken:
            return
        self._is_taken = True
        self.after = visible(self.namespace, self._executor._hidden())
        self.effect, _ = observe_cell(
            self.before,
            self.after,
            self.cell.code,
            self.folder,
            looked=self._looked,
            opened=tuple(self._watch.read),
        )

    def _summarise(self) -> None:
        room = SNAPSHOT_BYTES
        for name in self.effect.changed:
            told = self._executor.output_factory.summary(self.after[name], name)
            room -= len(told.model_dump_json())
            if room < 0:
                self.is_cut = True
                return
            self.summaries.append(told)


def _fetched(source: str, folder: Path) -> FetchLogEntry:
    if source.startswith(("http://", "https://")):
        return FetchLogEntry(source=source, kind="url")
    try:
        size: int | None = (folder / source).stat().st_size
    except OSError:
        size = None
    return FetchLogEntry(source=source, kind="file", size_bytes=size)
