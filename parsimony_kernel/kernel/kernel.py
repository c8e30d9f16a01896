"""The kernel that front ends show as Parsimony Agent.

It is IPython's kernel under a name of its own: execution, completion, the debugger and
``language_info`` are inherited untouched, so that every front end treats its notebooks as Python.
"""

import signal
import threading
from types import FrameType
from typing import Any

from ipykernel.ipkernel import IPythonKernel
from IPython.core import release

from parsimony_kernel import __version__


class ParsimonyKernel(IPythonKernel):
    """IPython's kernel under the name Parsimony Agent."""

    implementation = "parsimony"
    # Starts with IPython's version: clients compare it, and IPython runs the cells.
    implementation_version = f"{release.version}+parsimony.{__version__}"

    _is_stopped = False  # before the cell's code began

    async def execute_request(self, stream: Any, ident: Any, parent: Any) -> None:
        """Run a cell and always send its reply, whenever and however often Stop is pressed.

        In IPython's kernel, Stop just before or after the cell's code loses the reply, so the cell
        seems to run for ever.
        """
        if threading.current_thread() is not threading.main_thread():
            await super().execute_request(stream, ident, parent)
            return
        self._is_stopped = False
        before = signal.signal(signal.SIGINT, self._stop)
        try:
            await super().execute_request(stream, ident, parent)
        finally:
            signal.signal(signal.SIGINT, before)

    async def do_execute(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return the content of a cell's reply, even if Stop came just outside its code."""
        if threading.current_thread() is not threading.main_thread():
            return await super().do_execute(*args, **kwargs)  # type: ignore[no-any-return]
        outside = signal.getsignal(signal.SIGINT)
        try:
            # A handler of ours would appear in the traceback that the person sees.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                if self._is_stopped:
                    raise KeyboardInterrupt
                return await super().do_execute(*args, **kwargs)  # type: ignore[no-any-return]
            finally:
                signal.signal(signal.SIGINT, outside)
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, outside)
            return {
                "status": "error",
                "ename": "KeyboardInterrupt",
                "evalue": "",
                "traceback": [],
                "execution_count": self.shell.execution_count - 1,
                "user_expressions": {},
                "payload": [],
            }

    def _stop(self, _signum: int, _frame: FrameType | None) -> None:
        self._is_stopped = True

    @property
    def banner(self) -> str:
        """The text that a console prints at start."""
        return (
            f"Parsimony Agent {__version__}: begin a cell with %%agent and say what you want; "
            f"%agent help tells the rest\n{self.shell.banner}"
        )
