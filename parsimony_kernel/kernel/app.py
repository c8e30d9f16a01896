"""The kernel that front ends show as Parsimony Agent, and its process.

It is IPython's kernel under a name of its own: execution, completion, the debugger and
``language_info`` are inherited untouched, so that every front end treats its notebooks as Python.
The application is IPython's, too. It loads the extension last, after everything in the user's
configuration. If that fails, the failure is reported and the kernel still starts as a Python
kernel.
"""

import signal
import sys
import threading
from types import FrameType
from typing import Any

from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
from IPython.core import release
from traitlets import Type, Unicode

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


class ParsimonyKernelApp(IPKernelApp):
    """IPython's kernel application; reads the user's ``ipython_kernel_config.py`` like it."""

    # Use `jupyter parsimony install`: the inherited subcommand would install IPython's kernel.
    subcommands: dict[str, object] = {}  # noqa: RUF012 - a traitlets declaration

    kernel_class = Type(
        ParsimonyKernel, klass="ipykernel.kernelbase.Kernel", help="The kernel that is started."
    ).tag(config=True)

    agent_extension = Unicode(
        "parsimony_agent", help="The IPython extension that brings %%agent; empty for none."
    ).tag(config=True)

    def _log_format_default(self) -> str:
        # Clients recognise the kernel's own lines in its error stream by this name.
        return "[IPKernelApp]%(highlevel)s %(message)s"

    def init_extensions(self) -> None:
        """Load the extensions of the user's configuration, then the agent's."""
        super().init_extensions()
        name = self.agent_extension
        if not name:
            return
        try:
            reason = self.shell.extension_manager.load_extension(name)
        except Exception as error:  # boundary: tool - an extension's code
            # Importing an extension runs any code of the environment: a broken package or an
            # unfinished upgrade may raise anything, and the user's Python must still start.
            self.log.warning("The extension %r could not be loaded", name, exc_info=True)
            self._announce(name, f"{type(error).__name__}: {error}")
        else:
            if reason == "no load function":
                self._announce(name, "it has no load_ipython_extension function")

    def _announce(self, name: str, reason: str) -> None:
        """Report in the first cell's output why ``%%agent`` is missing."""

        def say(*_: object) -> None:
            self.shell.events.unregister("pre_run_cell", say)
            print(
                f"The agent is not available in this kernel: loading {name!r} failed with "
                f"{reason}. Plain Python works. `jupyter parsimony doctor` says what to fix; "
                "then restart the kernel.",
                file=sys.stderr,
            )

        self.shell.events.register("pre_run_cell", say)
