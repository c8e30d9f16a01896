"""The executors of this process: in the namespace of the user's IPython shell, and in their own.

In the shell, an agent's cell goes through the shell's transforms, sees its variables and magics,
and can be debugged with ``%debug``. The user's In, Out, ``_``, history, execution count and output
stay unchanged. The shell's own ``run_cell`` would change all of these, so it is not used.
"""

import asyncio
import builtins
import contextvars
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from parsimony_kernel.analysis.read import read
from parsimony_kernel.execution import capture, code_cell
from parsimony_kernel.execution.base import LOOK_S, CellExecution, InProcessExecutor
from parsimony_kernel.execution.base import BaseCodeExecutor as BaseCodeExecutor
from parsimony_kernel.execution.capture import DESCRIPTORS, end_children
from parsimony_kernel.execution.factory import OutputFactory
from parsimony_kernel.execution.inspection import attempt, is_a
from parsimony_kernel.execution.interrupt import CodeGuard, OwnThread
from parsimony_kernel.lineage.script import SEEDS

Done = asyncio.Future[None]

# How long code may take to end after its deadline or a cancel before it is abandoned, in seconds.
_GRACE_S = 0.45


class NotebookExecutor(InProcessExecutor):
    """Runs agent code in a shell, on the thread that awaits it.

    Child processes of a cell are killed when it is stopped or reaches its deadline, see
    ``execution.capture``; those of a cell that ended by itself live on.

    Args:
        shell: an ``InteractiveShell`` of any kind: a kernel's, a terminal's, a bare one.
    """

    def __init__(self, shell: Any) -> None:
        super().__init__()
        self._shell = shell

    async def clear_namespace(self) -> None:
        """Delete the user-visible variables, but none of the shell's own names."""
        for name in self.variables():
            del self._shell.user_ns[name]
        self.origin_ledger.clear()

    def namespace(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self._shell.user_ns)

    def hidden(self) -> Mapping[str, Any]:
        return cast("Mapping[str, Any]", self._shell.user_ns_hidden)

    def _compile(self, source: str, filename: str, *, expression: bool) -> code_cell.Cell:
        if expression:
            return code_cell.compile_expression(source, filename)
        shell = self._shell
        try:
            code = shell.transform_cell(source)
        except SyntaxError as exc:
            exc.filename = filename
            raise
        return code_cell.compile_cell(code, filename, shell.transform_ast)

    async def _run(self, run: CellExecution) -> None:
        shell = self._shell
        in_main = threading.current_thread() is threading.main_thread()
        guard = CodeGuard(run.seconds, around=DESCRIPTORS if in_main else None)
        # Functions look their globals up in the module of the shell.
        given = run.parts(guard), shell.user_global_ns, run.namespace, run.capture.show
        with capture.capturing(run.capture, shell):
            with guard, shell.builtin_trap, _users_state(shell):
                shell.events.trigger("pre_execute")
                drawn = capture.open_figures()
                if run.cell.awaits:
                    run.error = await guard.drive(code_cell.evaluate_awaiting(*given))
                else:
                    run.error = guard.attempt(code_cell.evaluate, *given)
                # Listeners for the end of a cell, such as the one that shows open figures.
                shell.events.trigger("post_execute")
                # With a non-interactive matplotlib backend, new figures are still open.
                if run.error is None and capture.open_figures() - drawn and _draws_on_no_screen():
                    run.error = guard.attempt(capture.show_figures, run.capture, drawn)
            run.reason = guard.reason
            if run.reason is not None:
                end_children(run.capture)
            DESCRIPTORS.drain(run.capture)
            run.compare()
            run.look()
        error = run.error
        if is_a(error, Exception):
            attempt(lambda: _remember_for_debug(shell, error, run.cell.filename), lambda _: None)


def _draws_on_no_screen() -> bool:
    return str(sys.modules["matplotlib"].get_backend()).lower() == "agg"


@contextmanager
def _users_state(shell: Any) -> Iterator[None]:
    """Save and restore the state that the shell's listeners and magics keep for user cells."""
    publisher, folders = shell.display_pub, shell.user_ns.get("_dh")
    state = getattr(publisher, "_in_post_execute", None)
    been = folders.copy() if type(folders) is list else None
    try:
        yield
    finally:
        if been is not None:
            folders[:] = been
        if state is not None:
            publisher._in_post_execute = state


def _remember_for_debug(shell: Any, exc: Exception, filename: str) -> None:
    """Make ``exc`` available to ``%debug`` and ``%tb``, from the agent's own first frame on."""
    shown = code_cell.from_cell(code_cell.traceback_of(exc), filename)
    if shown is None:
        return
    code_cell.set_traceback(exc, shown)
    sys.last_type, sys.last_value, sys.last_traceback = type(exc), exc, shown
    if sys.version_info >= (3, 12):
        sys.last_exc = exc
    if hasattr(shell, "InteractiveTB"):
        shell.InteractiveTB.tb = shown


def _display(*values: Any, **_: Any) -> None:
    here = capture.capture_here()
    for value in values:
        if here is not None:
            here.show(value)


class CodeExecutor(InProcessExecutor):
    """Runs code in a private namespace.

    It starts with ``pd``, ``np``, ``alt``, ``datetime``, ``timedelta``, ``timezone``, the
    document readers, and ``load_dataset``.

    Each cell runs in a worker thread, so a call returns at its deadline whatever the code does.
    Python code is stopped then. A blocking call is abandoned, with an old copy of the namespace and
    no output, unless it waits for a child process of the cell: these are killed with their
    descendants, see ``execution.capture``. Children of a cell that ended by itself live on. The
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
        # The last one runs the cells that await; it is kept, since objects are bound to it.
        self._loops: list[asyncio.AbstractEventLoop] = []
        weakref.finalize(self, _close, self._loops)

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

    def _compile(self, source: str, filename: str, *, expression: bool) -> code_cell.Cell:
        compiled = code_cell.compile_expression if expression else code_cell.compile_cell
        cell = compiled(source, filename)
        found = libraries_for(read(source).reads - self.locals.keys())
        self._seeded.update(found)
        self.locals.update(found)
        return cell

    async def _run(self, run: CellExecution) -> None:
        guard, output, compared = CodeGuard(run.seconds), run.capture, threading.Event()

        def work() -> None:
            with guard:
                run.error = self._work(run, guard)

        def look() -> None:
            # On the same thread, since objects such as SQLite connections are tied to it.
            compared.wait()
            if not run.is_late:
                run.look()

        with capture.capturing(output, capture.live_shell()):
            ran, looked = _in_thread((work, look), output)
            await self._wait(ran, guard, None if run.seconds is None else run.seconds + _GRACE_S)
            if not ran.done() and output.children:
                # It may be waiting for a child process: kill these, and interrupt it after that.
                guard.interrupt(guard.reason or "deadline")
                end_children(output)
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
                end_children(output)
            DESCRIPTORS.drain(output)
        run.reason = guard.reason
        if run.is_late:
            run.reason = run.reason or "deadline"
            self.locals = dict(self.locals)  # the stuck thread keeps the old one

    async def _wait(self, stage: Done, guard: CodeGuard, seconds: float | None) -> None:
        """Wait for ``stage``, at most ``seconds``; after a cancel, for the grace period."""
        loop = asyncio.get_running_loop()
        # Without a limit for decades, because not every loop can wait for ever.
        due = loop.time() + (1e9 if seconds is None else seconds)
        while not stage.done() and loop.time() < due:
            try:
                await asyncio.wait({stage}, timeout=due - loop.time())
            except asyncio.CancelledError:
                if guard.reason is None:  # a further cancel doesn't make the code end any sooner
                    guard.interrupt("cancel")
                    due = loop.time() + _GRACE_S

    def _work(self, run: CellExecution, guard: CodeGuard) -> BaseException | None:
        drawn, show = capture.open_figures(), run.capture.show
        given = run.parts(guard), run.namespace, run.namespace, show
        try:
            if run.cell.awaits:
                if not self._loops or self._loops[-1].is_running():  # a stuck thread runs it
                    self._loops.append(asyncio.new_event_loop())
                error = self._loops[-1].run_until_complete(
                    guard.drive(code_cell.evaluate_awaiting(*given))
                )
            else:
                error = guard.attempt(code_cell.evaluate, *given)
        except BaseException as exc:  # boundary: tool - the cell's code
            return exc
        if error is None:
            error = guard.attempt(capture.show_figures, run.capture, drawn)
        return error


def _in_thread(steps: Sequence[Callable[[], None]], output: capture.Capture) -> list[Done]:
    """Run ``steps`` in order in a new thread, captured by ``output``.

    Returns:
        A future for each step, done when the step has ended.
    """
    context, ends = contextvars.copy_context(), [Future[None]() for _ in steps]

    def thread() -> None:
        for step, end in zip(steps, ends, strict=True):
            # Told outside of ``working``: once the last has ended, the streams are those of before.
            try:
                with capture.working(output):
                    step()
            finally:
                end.set_result(None)

    OwnThread(target=context.run, args=(thread,), name="parsimony-cell", daemon=True).start()
    return [asyncio.wrap_future(end) for end in ends]


def _close(loops: Iterable[asyncio.AbstractEventLoop]) -> None:
    for each in loops:
        if not each.is_running():
            each.close()


# The initial namespace: the names that are cheap to import, and the builtins.

_FREE = ("datetime", "timedelta", "timezone")

_LEFT_OUT = {"exec", "eval", "compile", "breakpoint", "help", "license", "get_ipython"}


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
        "print": _print, "display": _display, "input": capture.no_input,
        "exit": capture.no_exit, "quit": capture.no_exit,
    }  # fmt: skip


def libraries_for(names: Iterable[str]) -> dict[str, Any]:
    """Import only the initial names that occur in ``names``: importing all takes seconds."""
    found: dict[str, Any] = {}
    for name in SEEDS.keys() & set(names) - {"display", "get_ipython"}:
        exec(SEEDS[name], found)
    found.pop("__builtins__", None)
    return found
