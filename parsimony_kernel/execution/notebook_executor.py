"""Run code in the namespace of the user's IPython shell.

The agent's cell goes through the shell's transforms, sees its variables and magics, and can be
debugged with ``%debug``. The user's In, Out, ``_``, history, execution count and output stay
unchanged. The shell's own ``run_cell`` would change all of these, so it is not used.
"""

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from parsimony_kernel.execution.capture import capturing, open_figures, show_figures
from parsimony_kernel.execution.children import DESCRIPTORS, end_children
from parsimony_kernel.execution.code_cell import (
    Cell,
    compile_cell,
    compile_expression,
    evaluate,
    evaluate_awaiting,
    from_cell,
    set_traceback,
    traceback_of,
)
from parsimony_kernel.execution.inprocess import CellExecution, InProcessExecutor
from parsimony_kernel.execution.inspection import attempt, is_a
from parsimony_kernel.execution.interrupt import CodeGuard


class NotebookExecutor(InProcessExecutor):
    """Runs agent code in a shell, on the thread that awaits it.

    Child processes of a cell are killed when it is stopped or reaches its deadline, see
    ``execution.children``; those of a cell that ended by itself live on.

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

    def _compile(self, source: str, filename: str, *, expression: bool) -> Cell:
        if expression:
            return compile_expression(source, filename)
        try:
            code = self._shell.transform_cell(source)
        except SyntaxError as exc:
            exc.filename = filename
            raise
        return compile_cell(source, filename, code=code, transform=self._shell.transform_ast)

    async def _run(self, run: CellExecution) -> None:
        shell, capture = self._shell, run.capture
        in_main = threading.current_thread() is threading.main_thread()
        guard = CodeGuard(run.seconds, around=DESCRIPTORS if in_main else None)
        # Functions look their globals up in the module of the shell.
        given = run.parts(guard), shell.user_global_ns, run.namespace, capture.show
        with capturing(capture, shell):
            with guard, shell.builtin_trap, _users_state(shell):
                shell.events.trigger("pre_execute")
                drawn = open_figures()
                if run.cell.awaits:
                    run.error = await guard.drive(evaluate_awaiting(*given))
                else:
                    run.error = guard.attempt(evaluate, *given)
                # Listeners for the end of a cell, such as the one that shows open figures.
                shell.events.trigger("post_execute")
                # With a non-interactive matplotlib backend, new figures are still open.
                if run.error is None and open_figures() - drawn and _draws_on_no_screen():
                    run.error = guard.attempt(show_figures, capture, drawn)
            run.reason = guard.reason
            if run.reason is not None:
                end_children(capture)
            DESCRIPTORS.drain(capture)
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
    shown = from_cell(traceback_of(exc), filename)
    if shown is None:
        return
    set_traceback(exc, shown)
    sys.last_type, sys.last_value, sys.last_traceback = type(exc), exc, shown
    if sys.version_info >= (3, 12):
        sys.last_exc = exc
    if hasattr(shell, "InteractiveTB"):
        shell.InteractiveTB.tb = shown
