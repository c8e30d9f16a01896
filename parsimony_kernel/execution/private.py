"""Run code in a private namespace, in a worker thread."""

import asyncio
import builtins
import contextvars
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from parsimony_kernel.analysis.read import read
from parsimony_kernel.execution.capture import (
    Capture,
    capture_here,
    capturing,
    live_shell,
    no_exit,
    no_input,
    open_figures,
    show_figures,
    working,
)
from parsimony_kernel.execution.children import DESCRIPTORS, end_children
from parsimony_kernel.execution.code_cell import (
    Cell,
    compile_cell,
    compile_expression,
    evaluate,
    evaluate_awaiting,
)
from parsimony_kernel.execution.factory import OutputFactory
from parsimony_kernel.execution.inprocess import LOOK_S, CellExecution, InProcessExecutor
from parsimony_kernel.execution.interrupt import CodeGuard, OwnThread
from parsimony_kernel.lineage.script import SEEDS

T = TypeVar("T")
Done = asyncio.Future[None]

# How long code may take to end after its deadline or a cancel before it is abandoned, in seconds.
_GRACE_S = 0.45


def _display(*values: Any, **_: Any) -> None:
    capture = capture_here()
    for value in values:
        if capture is not None:
            capture.show(value)


class CodeExecutor(InProcessExecutor):
    """Runs code in a private namespace.

    It starts with ``pd``, ``np``, ``alt``, ``datetime``, ``timedelta``, ``timezone``, the
    document readers, and ``load_dataset``.

    Each cell runs in a worker thread, so a call returns at its deadline whatever the code does.
    Python code is stopped then. A blocking call is abandoned, with an old copy of the namespace and
    no output, unless it waits for a child process of the cell: these are killed with their
    descendants, see ``execution.children``. Children of a cell that ended by itself live on. The
    working folder is restored after each cell. Classes and imports work; ``exec``, ``eval``,
    ``compile`` and ``input`` are removed. This is no sandbox: code has the rights of the process.

    Args:
        cwd: the working folder of the code; ``None`` for the process's own.
        output_factory: converts values to outputs; ``None`` for a default one.
    """

    def __init__(
        self, cwd: str | Path | None = None, output_factory: OutputFactory | None = None
    ) -> None:
        super().__init__(cwd, output_factory)
        self._seeded: dict[str, Any] = {}
        self.locals: dict[str, Any] = self._fresh()
        self._loops = _Loops()
        weakref.finalize(self, self._loops.close)

    def _fresh(self) -> dict[str, Any]:
        self._seeded = libraries_for(_FREE)
        return {"__name__": "__main__", "__builtins__": private_builtins(), **self._seeded}

    async def clear_namespace(self) -> None:
        self.locals = self._fresh()
        self.origin_ledger.clear()

    def namespace(self) -> dict[str, Any]:
        return self.locals

    def hidden(self) -> Mapping[str, Any]:
        return self._seeded

    def _compile(self, source: str, filename: str, *, expression: bool) -> Cell:
        cell = (compile_expression if expression else compile_cell)(source, filename)
        found = libraries_for(read(source).reads - self.locals.keys())
        self._seeded.update(found)
        self.locals.update(found)
        return cell

    async def _run(self, run: CellExecution) -> None:
        guard, compared = CodeGuard(run.seconds), threading.Event()

        def work() -> None:
            with guard:
                run.error = self._work(run, guard)

        def look() -> None:
            # On the same thread, since objects such as SQLite connections are tied to it.
            compared.wait()
            if not run.is_late:
                run.look()

        with capturing(run.capture, live_shell()):
            ran, looked = _in_thread((work, look), run.capture)
            await self._wait(ran, guard, None if run.seconds is None else run.seconds + _GRACE_S)
            if not ran.done() and run.capture.children:
                # It may be waiting for a child process: kill these, and interrupt it after that.
                guard.interrupt(guard.reason or "deadline")
                end_children(run.capture)
                await asyncio.wait({ran}, timeout=_GRACE_S)
            run.is_late = not ran.done()
            try:
                run.compare()
            finally:
                compared.set()
            if not run.is_late:
                # This hangs only if a user object's repr or message blocks in C code.
                await self._wait(looked, guard, LOOK_S + _GRACE_S)
            if guard.reason is not None:
                end_children(run.capture)
            DESCRIPTORS.drain(run.capture)
        run.reason = guard.reason
        if run.is_late:
            run.reason = run.reason or "deadline"
            self.locals = dict(self.locals)  # the stuck thread keeps the old one

    async def _wait(self, stage: Done, guard: CodeGuard, seconds: float | None) -> None:
        waited = {stage}
        try:
            await asyncio.wait(waited, timeout=seconds)
        except asyncio.CancelledError:
            guard.interrupt("cancel")
            # Ignore further cancels meanwhile: they don't make the code end any sooner.
            ending = asyncio.ensure_future(asyncio.wait(waited, timeout=_GRACE_S))
            while not ending.done():
                try:
                    await asyncio.shield(ending)
                except asyncio.CancelledError:
                    continue

    def _work(self, run: CellExecution, guard: CodeGuard) -> BaseException | None:
        drawn, show = open_figures(), run.capture.show
        given = run.parts(guard), run.namespace, run.namespace, show
        try:
            if run.cell.awaits:
                error = self._loops.run(guard.drive(evaluate_awaiting(*given)))
            else:
                error = guard.attempt(evaluate, *given)
        except BaseException as exc:  # boundary: tool - the cell's code
            return exc
        if error is None:
            error = guard.attempt(show_figures, run.capture, drawn)
        return error


def _in_thread(steps: Sequence[Callable[[], None]], capture: Capture) -> list[Done]:
    """Run ``steps`` in order in a new thread, as code of ``capture``.

    Returns:
        A future for each step, done when the step has ended.
    """
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    ends: list[Done] = [loop.create_future() for _ in steps]

    def end(done: Done) -> None:
        if not done.done():
            done.set_result(None)

    def thread() -> None:
        for step, done in zip(steps, ends, strict=True):
            # Told outside of ``working``: once the last has ended, the streams are those of before.
            try:
                with working(capture):
                    step()
            finally:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(end, done)

    OwnThread(target=context.run, args=(thread,), name="parsimony-cell", daemon=True).start()
    return ends


class _Loops:
    """The event loop of cells that await; kept between cells, since objects are bound to it."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run ``coroutine`` to its end, on another loop than one that a stuck thread still runs."""
        if self._loop is None or self._loop.is_running():
            self._loop = asyncio.new_event_loop()
        loop = self._loop
        try:
            return loop.run_until_complete(coroutine)
        finally:
            if self._loop is not loop:
                loop.close()

    def close(self) -> None:
        if self._loop is not None and not self._loop.is_running():
            self._loop.close()


# The initial namespace: the names that are cheap to import, and the builtins.

_FREE = ("datetime", "timedelta", "timezone")

_LEFT_OUT = frozenset(
    {"exec", "eval", "compile", "input", "breakpoint", "exit", "quit", "help", "copyright"}
    | {"credits", "license", "get_ipython"}
)


def _print(*values: Any, **options: Any) -> None:
    # Looked up at call time, since a capture replaces ``builtins.print``.
    builtins.print(*values, **options)


def private_builtins() -> dict[str, Any]:
    """Return Python's builtins without those that compile text or wait for a person.

    Classes, imports and ``print`` work. This keeps honest code honest; it is no sandbox, and
    nothing inside the process can be one.
    """
    kept = {name: value for name, value in vars(builtins).items() if name not in _LEFT_OUT}
    return kept | {
        "print": _print, "display": _display, "input": no_input, "exit": no_exit, "quit": no_exit
    }  # fmt: skip


def libraries_for(names: Iterable[str]) -> dict[str, Any]:
    """Import only the initial names that occur in ``names``: importing all takes seconds."""
    found: dict[str, Any] = {}
    for name in SEEDS.keys() & set(names) - {"display", "get_ipython"}:
        exec(SEEDS[name], found)
    found.pop("__builtins__", None)
    return found
