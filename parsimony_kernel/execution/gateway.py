"""A kernel behind a Jupyter server: a Kernel Gateway, an Enterprise Gateway, or JupyterLab's own.

The token is sent in a header and never in a URL, so that it appears in no log, message or
``repr``.
"""

import logging
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from jupyter_kernel_client.manager import KernelHttpManager, fetch
from websocket import WebSocketException

from parsimony_kernel.execution.remote_kernel import (
    START_S,
    Kernel,
    RemoteKernelError,
)

T = TypeVar("T")

_REQUEST_S = 10.0
_LOOK_S = 2.0
_PING_S = 20.0
_HANG_UP_S = 2.0
# Timeouts to connect and to read: a server takes seconds to kill an unresponsive kernel.
_ENDING_S = (_REQUEST_S, 1.0)
_ENDED = "was ended by its server, as idle ones are"
_CLOSED = "cannot be reached (the connection was closed)"

# Silences the client libraries, which log URLs and headers.
_SILENT = logging.Logger("parsimony.gateway", level=logging.CRITICAL + 1)


class GatewayKernel(Kernel):
    """A kernel that a Jupyter server starts and ends for us.

    When this process is killed, the kernel stays until the server culls it.

    Args:
        url: the server's address.
        token: the server's token; ``None`` for a server without one.
        name: the server's kernelspec to start.

    Raises:
        ValueError: when ``url`` is not the address of a server.
    """

    def __init__(self, url: str, token: str | None = None, name: str = "python3") -> None:
        super().__init__(name)
        self.url = server_address(url)
        self._headers = {"Authorization": f"token {token}"} if token else {}
        given = {"log": _SILENT, "timeout": _REQUEST_S, "ping_interval": _PING_S}
        self.manager = KernelHttpManager(
            self.url, None, headers=self._headers, client_kwargs=given, log=_SILENT
        )
        self._looked_at = float("-inf")

    def start(self) -> None:
        specs = partial(
            fetch, f"{self.url}/api/kernelspecs", headers=self._headers, timeout=_REQUEST_S
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
        except (RuntimeError, OSError, WebSocketException) as exc:
            raise RemoteKernelError(
                f"The kernel {self.name!r} of {self.url} does not answer; a proxy before it must "
                "pass `Upgrade: websocket` on."
            ) from exc

    def send(self, code: str, expression: str) -> None:
        try:
            super().send(code, expression)
        except (OSError, WebSocketException) as exc:
            raise RemoteKernelError(_CLOSED) from exc

    def _read(self, get: Callable[..., Any], seconds: float) -> Iterator[dict[str, Any]]:
        yield from super()._read(get, seconds)
        if not self.client.connection_ready.is_set():
            raise RemoteKernelError(_CLOSED)

    def death(self) -> str | None:
        if self._death is None and time.monotonic() - self._looked_at >= _LOOK_S:
            self._looked_at = time.monotonic()
            try:
                is_alive = self._asked(partial(self.manager.is_alive, _REQUEST_S))
                self._death = None if is_alive else _ENDED
            except RemoteKernelError as exc:
                self._death = f"cannot be reached ({str(exc).rstrip('.')})"
        return self._death

    def close(self) -> None:
        self._hang_up()
        if self.manager.has_kernel:
            with suppress(OSError):
                self.manager.shutdown_kernel(now=True, timeout=_ENDING_S)

    def _hang_up(self) -> None:
        if self.client is not None:
            # Closing alone would leave its thread asleep for seconds.
            with suppress(OSError, AttributeError):  # the connection is closed already
                self.client.kernel_socket.sock.sock.shutdown(socket.SHUT_RDWR)
                self.client.connection_thread.join(_HANG_UP_S)
            self.client.stop_channels()

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


def server_address(url: str) -> str:
    """Check a server's address; return it without a trailing slash.

    Raises:
        ValueError: when it is not an HTTP address, or holds a secret.
    """
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("the address of a server begins with http:// or https:// and a host")
    if parts.username is not None or parts.password is not None or parts.query:
        raise ValueError("put no secret into the address of a server; give `token=` instead")
    return url.strip().rstrip("/")
