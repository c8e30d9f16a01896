"""A kernel somewhere else: what is asked of one, and the one that is a process of this machine.

Used on one event loop. Whatever goes wrong on the way to a kernel is a ``RemoteKernelError``, one
sentence with the remedy.
"""

import asyncio
import signal
import subprocess
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.execution.descendants import kill_marked, marked, new_mark

START_S = 60.0


class RemoteKernelError(Exception):
    """Why there is no kernel to run code in. ``str()`` is one sentence with the remedy."""


class Disconnected(Exception):
    """The way to the kernel broke; the kernel itself may live on. ``str()`` says how."""


def unreachable(reason: Exception) -> str:
    """That a kernel is lost because of ``reason``, in words that follow "the kernel"."""
    return f"cannot be reached ({str(reason).rstrip('.')})"


@dataclass(frozen=True)
class Message:
    """What a kernel sent, and the id of the request that it belongs to."""

    type: str
    parent: str
    content: dict[str, Any]


class Kernel(ABC):
    """One kernel, from its start to its end. It is not started a second time."""

    def __init__(self) -> None:
        self._arrived: asyncio.Queue[Message | Disconnected | None] = asyncio.Queue()

    @abstractmethod
    async def start(self) -> None:
        """Have it run and listen. Raises ``RemoteKernelError``."""

    @abstractmethod
    async def send(self, code: str, expression: str) -> str:
        """Ask it to run ``code`` quietly and then to evaluate ``expression``; the request's id.

        Raises ``Disconnected``.
        """

    @abstractmethod
    async def death(self) -> str | None:
        """How it ended, in words that follow "the kernel"; ``None`` while it lives."""

    @abstractmethod
    async def interrupt(self) -> None:
        """Interrupt what it runs. Does nothing when it cannot be reached."""

    @abstractmethod
    async def close(self) -> None:
        """End it at once, whatever it does, and free what was held for it."""

    async def reconnect(self) -> None:
        """Reach the same kernel again. Raises ``Disconnected`` when it is gone, and
        ``RemoteKernelError`` when the way to it is.
        """
        raise Disconnected("there is no other way to it")

    async def receive(self, seconds: float) -> Message | None:
        """The next message, or ``None`` when none came in time. Raises ``Disconnected``."""
        try:
            arrived = await asyncio.wait_for(self._arrived.get(), seconds)
        except TimeoutError:
            return None
        if isinstance(arrived, Disconnected):
            raise arrived
        return arrived

    def wake(self) -> None:
        """Let whoever waits for a message go on without one."""
        self._arrived.put_nowait(None)

    def _take(self, message: dict[str, Any]) -> None:
        parent = message.get("parent_header") or {}
        kind = message["header"]["msg_type"]
        self._arrived.put_nowait(Message(kind, parent.get("msg_id", ""), message["content"]))


class LocalKernel(Kernel):
    """A kernel as a process of this machine. It ends when this process does.

    When it is closed, the processes that its code has started end with it.

    Args:
        name: the kernelspec that is started.
    """

    def __init__(self, name: str = "python3") -> None:
        super().__init__()
        self.name = name
        self._manager: Any = None
        self._client: Any = None
        self._pumps: list[asyncio.Task[None]] = []
        self._mark = new_mark()

    async def start(self) -> None:
        from jupyter_client.kernelspec import NoSuchKernel
        from jupyter_client.manager import AsyncKernelManager

        self._manager = AsyncKernelManager(kernel_name=self.name)
        try:
            await self._manager.start_kernel(
                env=marked(None, self._mark),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except NoSuchKernel as exc:
            raise RemoteKernelError(
                f"No kernel is named {self.name!r} here; `jupyter kernelspec list` tells the names."
            ) from exc
        except OSError as exc:
            raise RemoteKernelError(
                f"The kernel {self.name!r} cannot be started ({exc.strerror or exc}); check the "
                "`argv` of its kernelspec."
            ) from exc
        self._client = self._manager.client()
        self._client.start_channels(stdin=False, hb=False)
        try:
            await self._client.wait_for_ready(timeout=START_S)
        except RuntimeError as exc:
            raise RemoteKernelError(
                f"The kernel {self.name!r} {await self.death() or 'did not answer'} while it "
                f"started; `jupyter console --kernel {self.name}` shows why."
            ) from exc
        for read in (self._client.get_shell_msg, self._client.get_iopub_msg):
            self._pumps.append(asyncio.create_task(self._pump(read)))

    async def _pump(self, read: Any) -> None:
        while True:
            self._take(await read())

    async def send(self, code: str, expression: str) -> str:
        sent: str = self._client.execute(
            code,
            silent=True,
            store_history=False,
            user_expressions={"answer": expression},
            allow_stdin=False,
            stop_on_error=False,
        )
        return sent

    async def death(self) -> str | None:
        provisioner = self._manager.provisioner
        status = None if provisioner is None else await provisioner.poll()
        if status is None:
            return None if provisioner is not None and provisioner.has_process else "ended"
        return exit_in_words(status)

    async def interrupt(self) -> None:
        with suppress(RuntimeError, OSError):
            await self._manager.interrupt_kernel()

    async def close(self) -> None:
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        if self._client is not None:
            self._client.stop_channels()
        if self._manager is not None and self._manager.has_kernel:
            await self._manager.shutdown_kernel(now=True)
        kill_marked(self._mark)


def exit_in_words(status: int) -> str:
    """How a process ended that left ``status``, in words that follow its name."""
    if status >= 0:
        return f"ended by itself with exit status {status}"
    name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
    why = ", as it is when memory runs out" if -status == signal.SIGKILL else ""
    return f"was ended by {name}{why}"
