"""The kernel's process: IPython's kernel application with our kernel class and extension.

The extension is loaded last, after everything in the user's configuration. If it fails to load,
the failure is reported and the kernel still starts as a Python kernel.
"""

import sys

from ipykernel.kernelapp import IPKernelApp
from traitlets import Type, Unicode

from parsimony_kernel.kernel.kernel import ParsimonyKernel


class ParsimonyKernelApp(IPKernelApp):
    """IPython's kernel application; reads the user's ``ipython_kernel_config.py`` like it."""

    # Use `jupyter parsimony install`: the inherited subcommand would install IPython's kernel.
    subcommands: dict[str, object] = {}  # noqa: RUF012 - a traitlets declaration

    kernel_class = Type(
        ParsimonyKernel,
        klass="ipykernel.kernelbase.Kernel",
        help="The kernel that is started.",
    ).tag(config=True)

    agent_extension = Unicode(
        "parsimony_agent",
        help="The IPython extension that brings %%agent; empty for none.",
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
