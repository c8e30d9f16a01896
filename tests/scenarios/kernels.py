"""A notebook's folder, and the real kernels that are started in it one after the other."""

import os
import select
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from parsimony_kernel.core.events import AgentEvent
from parsimony_kernel.storage.journal import SqliteJournal, TurnRow
from parsimony_kernel.storage.keyring import Keyring
from parsimony_kernel.storage.workspace import journal_path
from parsimony_kernel.testing.kernel_process import PATIENCE_S, LiveKernel, live_kernel

_SETUP = """
from parsimony_agent import extension
from parsimony_agent.cell import open_in
from parsimony_kernel.testing.scripted import ScriptedModel, call, calls, say
from parsimony_kernel.testing.scripted import HangingModel


def _use(model):
    def opened(shell):
        session = open_in(shell)
        session._model = model
        return session

    extension.uninstall(get_ipython())
    extension.install(get_ipython(), session_factory=opened)
"""


class Desk:
    """The kernels of one folder. ``kernel`` is the one that runs now, started when needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stack = ExitStack()
        self._kernel: LiveKernel | None = None

    @property
    def kernel(self) -> LiveKernel:
        if self._kernel is None:
            environ = {"IPYTHONDIR": str(self.folder / ".ipython"), "PARSIMONY_MODEL": "offline"}
            self._kernel = self._stack.enter_context(live_kernel(self.folder, environ=environ))
            assert self._kernel.run(_SETUP).status == "ok"
        return self._kernel

    def use(self, model: str) -> None:
        """Answer the next turns by the model that this expression makes in the kernel."""
        assert self.kernel.run(f"_use({model})").status == "ok"

    def kill(self) -> None:
        """End the kernel as a machine without memory does."""
        assert self._kernel is not None
        self._kernel._manager.provisioner.process.send_signal(signal.SIGKILL)
        self.await_death()

    def await_death(self) -> None:
        """Wait until the kernel has died; the next use of ``kernel`` starts another."""
        assert self._kernel is not None
        self._kernel._manager.provisioner.process.wait(timeout=PATIENCE_S)
        self._kernel = None
        self._stack.close()

    def close(self) -> None:
        self._kernel = None
        self._stack.close()

    @contextmanager
    def journal(self) -> Iterator[SqliteJournal]:
        """What is on disk, read by another process than the kernel.

        The key that signs is the kernels' own, and this process has it too.
        """
        with closing(SqliteJournal(journal_path(self.folder), keyring=Keyring())) as opened:
            yield opened

    def turns(self) -> tuple[TurnRow, ...]:
        """The turns on disk. ``AssertionError`` unless the chain of all entries holds."""
        with self.journal() as journal:
            assert journal.verify() is None
            return journal.turns()

    def statuses(self) -> list[str]:
        """What is on record of each turn, oldest first."""
        return [turn.status for turn in self.turns()]

    def events(self, turn: TurnRow) -> tuple[AgentEvent, ...]:
        """What is on disk of a turn."""
        with self.journal() as journal:
            return journal.events(turn.run_id)


class Bell:
    """A named pipe by which code in a kernel says that it has come to a place.

    ``ring`` is the code, one line; ``wait`` raises ``TimeoutError`` when it is not reached.
    """

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.ring = f"with open({str(path)!r}, 'w') as bell: bell.write('now')"
        self._pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def wait(self) -> None:
        readable, _, _ = select.select([self._pipe], [], [], PATIENCE_S)
        if not readable:
            raise TimeoutError("the code never came to the place where it rings")

    def close(self) -> None:
        os.close(self._pipe)


def printed(kernel: LiveKernel, expression: str) -> str:
    """What the person's ``print(expression)`` says; a stream comes in any number of pieces."""
    cell = kernel.run(f"print({expression})")
    return "".join(str(piece["text"]) for piece in cell.of_type("stream")).rstrip("\n")
