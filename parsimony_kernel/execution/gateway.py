"""A kernel behind a Jupyter server: a Kernel Gateway, an Enterprise Gateway, or JupyterLab's own.

The token travels in a header and never in an address, so that it stands in no log, no message and
no ``repr``.
"""

import asyncio
import json
import time
from contextlib import suppress
from difflib import get_close_matches
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

import aiohttp
from jupyter_client.jsonutil import json_default
from jupyter_client.session import Session

from parsimony_kernel.execution.remote_kernel import (
    START_S,
    Content,
    Disconnected,
    Kernel,
    unreachable,
)
from parsimony_kernel.execution.remote_values import RemoteKernelError

_REQUEST_S = 10.0
_LOOK_S = 2.0
_PING_S = 20.0
_ENDING_S = 1.0
_ENDED = "was ended by its server, as idle ones are"
_RECONNECTS = 5
_RECONNECT_S = 0.5

_REFUSED = (
    "{url} refuses the token (HTTP {status}); give `token=` what the server was started with."
)
_SAID = {
    401: _REFUSED,
    403: _REFUSED,
    404: "There is no Jupyter server at {url} (HTTP 404); check the address, with the path before "
    "/api.",
}
_FAILED = "{url} failed (HTTP {status}); its log says why, and trying again later may help."
_UNTRUSTED = (
    "The certificate of {url} is not trusted; name the authority that signed it in the environment "
    "variable SSL_CERT_FILE."
)
_NO_TLS = "{url} does not speak TLS; if it is a plain server, its address is http://."
_SILENCE = "{url} does not answer; check the address, and that the server runs."
_OTHER = "What answers at {url} is no Jupyter server; check the address, with the path before /api."


class GatewayKernel(Kernel):
    """A kernel that a Jupyter server starts and ends for us.

    When this process is killed, the kernel stays until the server culls it.

    Args:
        url: the server's address; a ``token`` in its query is taken out.
        token: what the server was started with, ``None`` for a server that asks for none.

    Raises ``ValueError`` for what is no address of a server.
    """

    _http: aiohttp.ClientSession | None = None
    # Of the kernel, once it is started.
    _path = ""

    def __init__(self, url: str, token: str | None, name: str, grace_s: float) -> None:
        self.url, inside = server_address(url)
        super().__init__(name, grace_s)
        token = token or inside
        self._headers = {"Authorization": f"token {token}"} if token else {}
        self._session = Session()
        self._looked_at = float("-inf")

    async def _start(self) -> None:
        self._http = aiohttp.ClientSession(
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(_REQUEST_S),
            trust_env=True,
            # A process that ends can start no thread to look a name up.
            connector=aiohttp.TCPConnector(ttl_dns_cache=None),
        )
        names = list(await self._ask("GET", "/api/kernelspecs", "kernelspecs"))
        if self.name not in names:
            near = get_close_matches(self.name, names, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise RemoteKernelError(
                f"{self.url} has no kernel named {self.name!r}: {hint}There are: "
                f"{', '.join(sorted(names)) or 'none'}."
            )
        patience = aiohttp.ClientTimeout(START_S)
        body = {"name": self.name}
        started = await self._ask("POST", "/api/kernels", "id", json=body, timeout=patience)
        self._path = f"/api/kernels/{started}"
        await self._connect()
        if not await self._is_there():
            raise RemoteKernelError(f"The kernel {self.name!r} of {self.url} does not answer.")

    async def _connect(self) -> None:
        assert self._http is not None
        for each in self._listening:
            each.cancel()
        address = f"{self.url}{self._path}/channels"
        try:
            self._socket = await self._http.ws_connect(address, heartbeat=_PING_S, max_msg_size=0)
        except (aiohttp.ClientError, TimeoutError) as exc:
            raise RemoteKernelError(
                f"{self.url} starts kernels but lets no websocket through; a proxy before it must "
                "pass `Upgrade: websocket` on."
            ) from exc
        self._listening = [asyncio.create_task(self._listen())]

    async def _listen(self) -> None:
        async for frame in self._socket:
            if frame.type is aiohttp.WSMsgType.TEXT:  # what has buffers is no answer to us
                message = json.loads(frame.data)
                self._arrived(message["channel"], message)
        self._inbox.put_nowait(None)

    async def _reconnect(self) -> None:
        for left in reversed(range(_RECONNECTS)):
            try:
                await self._ask("GET", self._path, missing=_ENDED)
                await self._connect()
                break
            except RemoteKernelError as exc:
                if not left or str(exc) == _ENDED:
                    raise
                await asyncio.sleep(_RECONNECT_S)

    async def _send(self, channel: str, kind: str, content: Content) -> str:
        message = self._session.msg(kind, content) | {"channel": channel, "buffers": []}
        try:
            await self._socket.send_str(json.dumps(message, default=json_default))
        except OSError as exc:
            raise Disconnected("lost its connection") from exc
        return str(message["header"]["msg_id"])

    async def _how_it_died(self) -> str | None:
        if self._death is None and time.monotonic() - self._looked_at >= _LOOK_S:
            self._looked_at = time.monotonic()
            try:
                await self._ask("GET", self._path, missing=_ENDED)
            except RemoteKernelError as exc:
                self._death = str(exc) if str(exc) == _ENDED else unreachable(exc)
        return self._death

    async def _interrupt(self) -> None:
        with suppress(RemoteKernelError):
            await self._ask("POST", f"{self._path}/interrupt")

    async def _end(self) -> None:
        http, path = self._http, self._path
        if http is not None:
            if path:
                # A server takes seconds to end a kernel that does not listen.
                ending = aiohttp.ClientTimeout(_REQUEST_S, sock_read=_ENDING_S)
                with suppress(RemoteKernelError):
                    await self._ask("DELETE", path, timeout=ending)
            await http.close()
        self._http, self._path = None, ""

    async def _ask(
        self, method: str, path: str, key: str = "", missing: str = _SAID[404], **given: Any
    ) -> Any:
        """What the server answers, of it ``key``. Raises ``RemoteKernelError``.

        Args:
            missing: what is said where nothing is at ``path``.
        """
        assert self._http is not None
        status = 0
        try:
            async with self._http.request(method, f"{self.url}{path}", **given) as response:
                status = response.status
                response.raise_for_status()
                return (await response.json(content_type=None))[key] if key else None
        except aiohttp.ClientConnectorCertificateError:
            said = _UNTRUSTED
        except aiohttp.ClientSSLError:
            said = _NO_TLS
        except (aiohttp.ClientConnectionError, TimeoutError):
            said = _SILENCE
        except aiohttp.ClientResponseError:
            said = missing if status == 404 else _SAID.get(status, _FAILED)
        except (ValueError, LookupError, TypeError, aiohttp.ClientError):
            said = _OTHER
        raise RemoteKernelError(said.format(url=self.url, status=status))


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
