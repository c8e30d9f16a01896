"""A kernel behind a Jupyter server: a Kernel Gateway, an Enterprise Gateway, or JupyterLab's own.

The token travels in a header and never in an address, so that it stands in no log, no message and
no ``repr``.
"""

import asyncio
import json
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit, urlunsplit

from parsimony_kernel.execution.remote_kernel import (
    Disconnected,
    Kernel,
    RemoteKernelError,
    unreachable,
)

T = TypeVar("T")

_REQUEST_S = 10.0
_START_S = 60.0
_LOOK_S = 2.0
_PING_S = 20.0
_HANG_UP_S = 2.0
_ENDED = "was ended by its server, as idle ones are"
_RECONNECTS = 5
_RECONNECT_S = 0.5

# The libraries beneath log addresses and headers.
_SILENT = logging.Logger("parsimony.gateway", level=logging.CRITICAL + 1)


class GatewayKernel(Kernel):
    """A kernel that a Jupyter server starts and ends for us.

    When this process is killed, the kernel stays until the server culls it.

    Args:
        url: the server's address; a ``token`` in its query is taken out.
        token: what the server was started with, ``None`` for a server that asks for none.
        name: the kernelspec that is started, one of the server's.

    Raises ``ValueError`` for what is no address of a server.
    """

    def __init__(self, url: str, token: str | None = None, name: str = "python3") -> None:
        super().__init__()
        self.url, inside = server_address(url)
        self.name = name
        token = token or inside
        self._headers = {"Authorization": f"token {token}"} if token else {}
        self._manager: Any = None
        self._client: Any = None
        self._socket: Any = None
        self._broken: str | None = None
        self._death: str | None = None
        self._looked_at = float("-inf")

    async def start(self) -> None:
        http, _, _ = _libraries()
        names = await self._asked(self._names)
        if self.name not in names:
            near = get_close_matches(self.name, names, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise RemoteKernelError(
                f"{self.url} has no kernel named {self.name!r}: {hint}There are: "
                f"{', '.join(sorted(names)) or 'none'}."
            )
        self._manager = http(**self._given())
        await self._asked(
            lambda: self._manager.start_kernel(self.name, timeout=_START_S), of="start a kernel"
        )
        await self._connect()

    async def _connect(self) -> None:
        self._client = self._manager.client
        loop = asyncio.get_running_loop()
        self._broken = None
        # Not a daemon by itself, the thread of the socket is one where it is started from one.
        await asyncio.to_thread(self._client.start_channels)
        app = self._client.kernel_socket
        if app is None or not self._client.connection_ready.is_set():
            await self._hang_up()
            raise RemoteKernelError(
                f"{self.url} starts kernels but lets no websocket through; a proxy before it must "
                "pass `Upgrade: websocket` on."
            )
        self._socket = app

        def arrived(source: Any, message: Any) -> None:
            if source is self._socket:
                _acknowledge(source)
                self._loop_call(loop, self._received, message)

        def closed(source: Any, *_: Any) -> None:
            if source is self._socket:
                self._loop_call(loop, self._lost)

        app.on_message, app.on_close = arrived, closed
        if not self._client.connection_ready.is_set():
            self._lost()
        await self._warm_up()

    async def _warm_up(self) -> None:
        """Wait until the kernel answers: what is asked before its sockets are bound is lost."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _START_S
        while loop.time() < until:
            try:
                self._client.kernel_info()
                while (message := await self.receive(1.0)) is not None:
                    if message.type == "kernel_info_reply":
                        return
            except Exception as exc:
                raise RemoteKernelError(self._unreachable()) from exc
        raise RemoteKernelError(f"The kernel {self.name!r} of {self.url} does not answer.")

    @staticmethod
    def _loop_call(loop: asyncio.AbstractEventLoop, function: Any, *given: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody listens any more
            loop.call_soon_threadsafe(function, *given)

    def _received(self, raw: Any) -> None:
        if not isinstance(raw, str):
            return  # only a message with buffers is not text, and none is for us
        message = json.loads(raw)
        state = message["content"].get("execution_state")
        if message["header"]["msg_type"] == "status" and state in ("restarting", "dead"):
            self._death = (
                "was restarted by its server, as it is when it dies"
                if state == "restarting"
                else "died"
            )
        self._take(message)

    def _lost(self) -> None:
        if self._broken is None:
            self._broken = "the connection was closed"
            self._arrived.put_nowait(Disconnected(self._broken))

    async def reconnect(self) -> None:
        http, _, _ = _libraries()
        kernel = self._manager.kernel
        await self._hang_up()
        for left in reversed(range(_RECONNECTS)):
            try:
                if kernel is not None:
                    self._manager = await self._asked(
                        lambda: http(**self._given(), kernel_id=kernel["id"])
                    )
                if kernel is None or not self._manager.has_kernel:
                    self._death = _ENDED
                    raise Disconnected(self._death)
                await self._connect()
                return
            except RemoteKernelError:
                if not left:
                    raise
                await asyncio.sleep(_RECONNECT_S)

    async def send(self, code: str, expression: str) -> str:
        try:
            sent: str = self._client.execute(
                code,
                silent=True,
                store_history=False,
                user_expressions={"answer": expression},
                allow_stdin=False,
                stop_on_error=False,
            )
        except Exception as exc:  # whatever the socket's library raises for one that is closed
            raise Disconnected("the connection was closed") from exc
        return sent

    async def death(self) -> str | None:
        now = asyncio.get_running_loop().time()
        if self._death is None and now - self._looked_at >= _LOOK_S:
            self._looked_at = now
            try:
                if await self._asked(lambda: self._manager.refresh_model(_REQUEST_S)) is None:
                    self._death = _ENDED
            except RemoteKernelError as exc:
                self._death = unreachable(exc)
        return self._death

    async def interrupt(self) -> None:
        with suppress(RemoteKernelError, RuntimeError):
            await self._asked(lambda: self._manager.interrupt_kernel(timeout=_REQUEST_S))

    async def close(self) -> None:
        await self._hang_up()
        if self._manager is not None and self._manager.has_kernel:
            with suppress(RemoteKernelError, RuntimeError):
                await self._asked(
                    lambda: self._manager.shutdown_kernel(now=True, timeout=_REQUEST_S)
                )

    async def _hang_up(self) -> None:
        client, self._client, self._socket = self._client, None, None
        if client is not None:
            await asyncio.to_thread(_hung_up, client)

    def _given(self) -> dict[str, Any]:
        return {
            "server_url": self.url,
            "token": None,
            "headers": dict(self._headers),
            "client_kwargs": {"log": _SILENT, "timeout": _REQUEST_S, "ping_interval": _PING_S},
            "log": _SILENT,
        }

    def _names(self) -> list[str]:
        _, fetch, _ = _libraries()
        answer = fetch(
            f"{self.url}/api/kernelspecs", headers=dict(self._headers), timeout=_REQUEST_S
        )
        return list(answer.json()["kernelspecs"])

    async def _asked(self, request: Callable[[], T], *, of: str = "answer") -> T:
        """What a blocking request of the library gives. Raises ``RemoteKernelError``."""
        _, _, errors = _libraries()
        try:
            return await asyncio.to_thread(request)
        except errors.HTTPError as exc:
            status = exc.response.status_code
        except errors.SSLError as exc:
            raise RemoteKernelError(self._insecure("CERTIFICATE_VERIFY" in str(exc))) from None
        except (errors.ConnectionError, errors.Timeout):
            raise RemoteKernelError(self._unreachable()) from None
        except (ValueError, LookupError, TypeError, errors.RequestException):
            raise RemoteKernelError(
                f"What answers at {self.url} is no Jupyter server; check the address, with the "
                "path before /api."
            ) from None
        if status in (401, 403):
            raise RemoteKernelError(
                f"{self.url} refuses the token (HTTP {status}); give `token=` what the server was "
                "started with."
            )
        if status == 404:
            raise RemoteKernelError(
                f"There is no Jupyter server at {self.url} (HTTP 404); check the address, with "
                "the path before /api."
            )
        raise RemoteKernelError(
            f"{self.url} could not {of} (HTTP {status}); its log says why, and trying again later "
            "may help."
        )

    def _insecure(self, is_untrusted: bool) -> str:
        if is_untrusted:
            return (
                f"The certificate of {self.url} is not trusted; name the authority that signed it "
                "in the environment variable REQUESTS_CA_BUNDLE."
            )
        return f"{self.url} does not speak TLS; if it is a plain server, its address is http://."

    def _unreachable(self) -> str:
        return f"{self.url} does not answer; check the address, and that the server runs."


def _acknowledge(app: Any) -> None:
    """Say at once that a message has arrived: a server with Nagle's algorithm holds the next one
    back until then, and the system would wait 40 ms for something to send along."""
    now = getattr(socket, "TCP_QUICKACK", None)
    if now is not None:
        with suppress(OSError, AttributeError):  # the connection is closed meanwhile
            app.sock.sock.setsockopt(socket.IPPROTO_TCP, now, 1)


def _hung_up(client: Any) -> None:
    app, thread = client.kernel_socket, client.connection_thread
    if app is not None and app.sock is not None and app.sock.sock is not None:
        # Its thread sleeps through a mere close for seconds.
        with suppress(OSError):
            app.sock.sock.shutdown(socket.SHUT_RDWR)
        thread.join(_HANG_UP_S)
    client.stop_channels()


def server_address(url: str) -> tuple[str, str | None]:
    """The address without query and trailing slash, and the token that stood in it, if any."""
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("the address of a server begins with http:// or https:// and a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("put no password into the address of a server; give `token=` instead")
    token = parse_qs(parts.query).get("token", [None])[0]
    path = parts.path.rstrip("/")
    for page in ("/lab", "/tree", "/api"):
        path = path.removesuffix(page)
    return urlunsplit((parts.scheme, parts.netloc, path, "", "")), token


def _libraries() -> tuple[Any, Any, Any]:
    """The manager of kernels, a plain request, and what requests raise."""
    try:
        from jupyter_kernel_client.manager import KernelHttpManager, fetch
        from requests import exceptions
    except ImportError as exc:
        raise RemoteKernelError(
            'Kernels behind a server need another package: pip install "parsimony-kernel[remote]"'
        ) from exc
    return KernelHttpManager, fetch, exceptions
