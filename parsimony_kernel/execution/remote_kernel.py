"""The interface of a kernel outside this process, and its local implementation.

Manager and client are jupyter_client's blocking ones, or have the same methods, and are used on
one thread. Every failure to reach a kernel is a ``RemoteKernelError``: one sentence with the
remedy.
"""

import queue
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from jupyter_core.utils import ensure_event_loop, run_sync

from parsimony_kernel.execution.children import kill_marked, marked, new_mark

START_S = 60.0
# How many messages are read before the deadline is checked again.
_BATCH = 1000
_STATES = {"restarting": "was restarted by its server, as it is when it dies", "dead": "died"}


class RemoteKernelError(Exception):
    """No kernel is available to run code. ``str()`` is one sentence with the remedy."""


class Kernel(ABC):
    """One kernel, from start to end. It can't be started again.

    Args:
        name: the kernelspec to start.
    """

    def __init__(self, name: str = "python3") -> None:
        self.name = name
        self.manager: Any = None
        self.client: Any = None
        self._sent = ""
        self._death: str | None = None

    @abstractmethod
    def start(self) -> None:
        """Start it and wait until it listens. Raises ``RemoteKernelError``."""

    @abstractmethod
    def death(self) -> str | None:
        """Return how it ended, in words that follow "the kernel"; ``None`` while it is alive."""

    @abstractmethod
    def close(self) -> None:
        """Kill it at once and free its resources."""

    def send(self, code: str, expression: str) -> None:
        """Ask it to run ``code`` quietly and then to evaluate ``expression``.

        Raises ``RemoteKernelError``, as ``reply`` does, when the connection broke.
        """
        self._sent = self.client.execute(
            code,
            silent=True,
            store_history=False,
            user_expressions={"answer": expression},
            allow_stdin=False,
            stop_on_error=False,
        )

    def reply(self, seconds: float) -> dict[str, Any] | None:
        """Wait for the reply to the last request; ``None`` on timeout."""
        message = next(self._read(self.client.get_shell_msg, seconds), None)
        return message and message["content"]

    def speaks(self) -> bool:
        """Whether it published anything about the last request since the last call."""
        return bool(list(self._read(self.client.get_iopub_msg, 0)))

    def questions(self) -> Iterator[str]:
        """Yield the questions of the running request; answer each one with ``tell``."""
        for message in self._read(self.client.get_stdin_msg, 0):
            yield message["content"]["prompt"]

    def tell(self, answer: str) -> None:
        """Answer the oldest question."""
        self.client.input(answer)

    def _read(self, get: Callable[..., Any], seconds: float) -> Iterator[dict[str, Any]]:
        with suppress(queue.Empty):
            for _ in range(_BATCH):
                message = get(timeout=seconds)
                if message["header"]["msg_type"] == "status":
                    state = message["content"]["execution_state"]
                    self._death = _STATES.get(state, self._death)
                if (message["parent_header"] or {}).get("msg_id") == self._sent:
                    yield message

    def interrupt(self) -> None:
        """Interrupt the running code. Does nothing when the kernel can't be reached."""
        with suppress(RuntimeError, OSError):
            self.manager.interrupt_kernel()


class LocalKernel(Kernel):
    """A kernel as a local process. It ends when this process does.

    Closing it also kills the processes that its code has started.
    """

    _mark = ""

    def start(self) -> None:
        from jupyter_client.kernelspec import NoSuchKernel
        from jupyter_client.manager import KernelManager

        self._mark = new_mark()
        self.manager = KernelManager(kernel_name=self.name)
        nowhere = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        try:
            self.manager.start_kernel(env=marked(None, self._mark), **nowhere)
            self.client = self.manager.client()
            self.client.start_channels(hb=False)
            self.client.wait_for_ready(timeout=START_S)
        except NoSuchKernel as exc:
            raise RemoteKernelError(
                f"No kernel is named {self.name!r} here; `jupyter kernelspec list` tells the names."
            ) from exc
        except (OSError, RuntimeError) as exc:
            raise RemoteKernelError(
                f"The kernel {self.name!r} did not start ({exc}); "
                f"`jupyter console --kernel {self.name}` shows why."
            ) from exc

    def death(self) -> str | None:
        status = run_sync(self.manager.provisioner.poll)()
        return None if status is None else exit_in_words(status)

    def close(self) -> None:
        if self.client is not None:
            self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel(now=True)
        kill_marked(self._mark)
        ensure_event_loop().close()


def exit_in_words(status: int) -> str:
    """Describe a process's exit ``status``, in words that follow its name."""
    if status >= 0:
        return f"ended by itself with exit status {status}"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
    why = ", as it is when memory runs out" if -status == signal.SIGKILL else ""
    return f"was ended by {name}{why}"
