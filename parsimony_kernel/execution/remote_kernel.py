"""A kernel outside this process: a local process, or one that a Jupyter server runs for us.

Manager and client are jupyter_client's blocking ones, or have the same methods, and are used on
one thread. Every failure to reach a kernel is a ``RemoteKernelError``: one sentence with the
remedy. A server's token is sent in a header and never in a URL, so that it appears in no log,
message or ``repr``.
"""

import logging
import queue
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from jupyter_core.utils import ensure_event_loop, run_sync

from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.execution.capture import kill_marked, marked, new_mark

T = TypeVar("T")

START_S = 60.0
# How many messages are read before the deadline is checked again.
_BATCH = 1000
_STATES = {"restarting": "was restarted by its server, as it is when it dies", "dead": "died"}

_REQUEST_S = 10.0
_LOOK_S = 2.0
_PING_S = 20.0
_HANG_UP_S = 2.0
# Timeouts to connect and to read: a server takes seconds to kill an unresponsive kernel.
_ENDING_S = (_REQUEST_S, 1.0)
_CLOSED = "cannot be reached (the connection was closed)"

_QUIETLY = {"silent": True, "store_history": False, "allow_stdin": False, "stop_on_error": False}
# Silences the client libraries, which log URLs and headers.
_SILENT = logging.Logger("parsimony.gateway", level=logging.CRITICAL + 1)


class RemoteKernelError(SessionError):
    """No kernel is available to run code. ``str()`` is one sentence with the remedy."""


class Loss(RemoteKernelError):
    """The kernel is gone with all its variables.

    ``how`` it ended follows the words "the kernel"; ``why`` is the cause: its own death, a
    deadline, or a stop. ``ran`` is whether the request reached the kernel.
    """

    def __init__(
        self, how: str, why: Literal["death", "deadline", "stop"] = "death", *, ran: bool = False
    ) -> None:
        super().__init__(f"The kernel {how}; run again what made the variables that you need.")
        self.how, self.why, self.ran = how, why, ran


class Kernel(ABC):
    """One kernel, from start to end. It can't be started again.

    Args:
        name: the kernelspec to start.
    """

    manager: Any = None
    client: Any = None
    _sent = ""
    _death: str | None = None

    def __init__(self, name: str) -> None:
        self.name = name

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

        Raises ``Loss``, as ``reply`` does, when the connection broke.
        """
        asked = {"answer": expression}
        self._sent = self.client.execute(code, user_expressions=asked, **_QUIETLY)

    def reply(self, seconds: float) -> dict[str, Any] | None:
        """Wait for the reply to the last request; ``None`` on timeout."""
        message = next(self._read(self.client.get_shell_msg, seconds), None)
        return message and message["content"]

    def speaks(self) -> bool:
        """Whether it published anything about the last request since the last call."""
        return bool(list(self._read(self.client.get_iopub_msg, 0)))

    def answer(self, told: Callable[[str], str]) -> None:
        """Answer the questions of the running request."""
        for message in self._read(self.client.get_stdin_msg, 0):
            self.client.input(told(message["content"]["prompt"]))

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
        from jupyter_client.manager import start_new_kernel

        self._mark = new_mark()
        given: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        given["env"] = marked(None, self._mark)
        try:
            self.manager, self.client = start_new_kernel(START_S, self.name, **given)
        except (NoSuchKernel, OSError, RuntimeError) as exc:
            raise RemoteKernelError(
                f"The kernel {self.name!r} did not start ({exc}): `jupyter kernelspec list` tells "
                f"the names, `jupyter console --kernel {self.name}` shows why."
            ) from exc

    def death(self) -> str | None:
        status = run_sync(self.manager.provisioner.poll)()
        if status is None or status >= 0:
            return None if status is None else f"ended by itself with exit status {status}"
        names = {each.value: each.name for each in signal.Signals}
        return f"was ended by {names.get(-status, -status)}"

    def close(self) -> None:
        if self.client is not None:
            self.client.stop_channels()
            self.manager.shutdown_kernel(now=True)
        kill_marked(self._mark)
        ensure_event_loop().close()


class GatewayKernel(Kernel):
    """A kernel of a Kernel Gateway, an Enterprise Gateway, or a JupyterLab's server.

    When this process is killed, the kernel stays until the server culls it.

    Args:
        url: the server's address, without a trailing slash.
        token: the server's token; ``None`` for a server without one.
        name: the server's kernelspec to start.

    Raises:
        RemoteKernelError: when a package is missing.
    """

    def __init__(self, url: str, token: str | None = None, name: str = "python3") -> None:
        super().__init__(name)
        self.url, self._headers = url, {"Authorization": f"token {token}"} if token else {}
        try:
            from jupyter_kernel_client.manager import KernelHttpManager, fetch
            from websocket import WebSocketException
        except ImportError as exc:
            raise RemoteKernelError(
                "Kernels behind a server need another package: "
                'pip install "parsimony-kernel[remote]"'
            ) from exc
        self._fetch, self._errors = fetch, (RuntimeError, OSError, WebSocketException)
        given = {"log": _SILENT, "timeout": _REQUEST_S, "ping_interval": _PING_S}
        self.manager = KernelHttpManager(
            url, None, headers=self._headers, client_kwargs=given, log=_SILENT
        )
        self._looked_at = float("-inf")

    def start(self) -> None:
        specs = partial(
            self._fetch, f"{self.url}/api/kernelspecs", headers=self._headers, timeout=_REQUEST_S
        )
        names = self._asked(lambda: list(specs().json()["kernelspecs"]))
        if self.name not in names:
            there = ", ".join(sorted(names)) or "none"
            raise RemoteKernelError(
                f"{self.url} has no kernel named {self.name!r}. There are: {there}."
            )
        self._asked(partial(self.manager.start_kernel, self.name, timeout=START_S))
        self.client = self.manager.client
        try:
            # The socket's thread is a daemon only because the thread that starts it is one.
            self.client.start_channels()
            # Requests sent before the kernel's sockets are bound are lost.
            self.client.wait_for_ready(START_S)
        except self._errors as exc:
            raise RemoteKernelError(
                f"The kernel {self.name!r} of {self.url} does not answer; a proxy before it must "
                "pass `Upgrade: websocket` on."
            ) from exc

    def send(self, code: str, expression: str) -> None:
        try:
            super().send(code, expression)
        except self._errors as exc:
            raise Loss(_CLOSED) from exc

    def _read(self, get: Callable[..., Any], seconds: float) -> Iterator[dict[str, Any]]:
        yield from super()._read(get, seconds)
        if not self.client.connection_ready.is_set():
            raise Loss(_CLOSED)

    def death(self) -> str | None:
        if self._death is None and time.monotonic() - self._looked_at >= _LOOK_S:
            self._looked_at = time.monotonic()
            try:
                if not self._asked(partial(self.manager.is_alive, _REQUEST_S)):
                    self._death = "was ended by its server, as idle ones are"
            except RemoteKernelError as exc:
                self._death = f"cannot be reached ({str(exc).rstrip('.')})"
        return self._death

    def close(self) -> None:
        if self.client is not None:
            # Closing alone would leave its thread asleep for seconds.
            with suppress(OSError, AttributeError):  # the connection is closed already
                self.client.kernel_socket.sock.sock.shutdown(socket.SHUT_RDWR)
                self.client.connection_thread.join(_HANG_UP_S)
            self.client.stop_channels()
        if self.manager.has_kernel:
            with suppress(OSError):
                self.manager.shutdown_kernel(now=True, timeout=_ENDING_S)

    def _asked(self, request: Callable[[], T]) -> T:
        """Run a request of the client library; translate its errors to ``RemoteKernelError``."""
        try:
            return request()
        except (ValueError, LookupError, TypeError, OSError) as exc:
            status = getattr(getattr(exc, "response", None), "status_code", None)
            if status in (401, 403):
                what = f"refuses the token (HTTP {status})"
                how = "give `token=` what the server was started with."
            else:
                what = f"is no Jupyter server that can be used ({type(exc).__name__}: {exc})"[:300]
                how = "check the address, with the path before /api, and that the server runs."
        raise RemoteKernelError(f"{self.url} {what}; {how}")


def kernel_maker(name: str, url: str | None, token: str | None) -> Callable[[], Kernel]:
    """Return what makes a kernel that is not started yet: a local one, or one of a server.

    Raises:
        ValueError: when ``url`` is not an HTTP address, or holds a secret.
    """
    if url is None:
        return partial(LocalKernel, name)
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("the address of a server begins with http:// or https:// and a host")
    if parts.username is not None or parts.password is not None or parts.query:
        raise ValueError("put no secret into the address of a server; give `token=` instead")
    return partial(GatewayKernel, url.strip().rstrip("/"), token, name)
