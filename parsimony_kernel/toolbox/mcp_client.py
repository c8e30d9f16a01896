"""MCP client: the servers in settings files, the permission to start them, and their tools.

A permission covers one exact command line or address: it is stored outside the workspace under the
hash of the entry, so a changed settings file needs a new permission.

There is one task per server, on an event loop in its own thread. Rule: nothing of a server runs on
the kernel's event loop, and a server is trusted no further than its command line. Its answers are
data; its hints only decide when a person is asked.
"""

import asyncio
import hashlib
import json
import re
import shlex
import shutil
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.storage import durable
from parsimony_kernel.tools import Tool, Tools

PREFIX = "mcp:"
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
SETTINGS = ".mcp.json"


class ServerError(SessionError, ConnectionError):
    """A server can't be used; the message is one sentence with the remedy."""


class Server(BaseModel):
    """One entry of a settings file.

    ``command`` with ``args`` runs in ``folder``, or ``url`` is the address. The server's
    environment is ``env`` plus the few variables for home and program paths. In all of these,
    ``${NAME}`` and ``${NAME:-default}`` stand for an environment variable of the kernel.
    ``timeout`` is the deadline of a call in seconds.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    source: Path
    folder: Path
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    timeout: float | None = Field(None, gt=0)

    @property
    def program(self) -> str:
        """The program to run; ``python`` is the kernel's own, as in a Jupyter kernelspec."""
        return sys.executable if self.command == "python" else self.command

    @property
    def line(self) -> str:
        """Command line or address for a person, without the values of variables and headers."""
        what = self.url or shlex.join((self.command, *self.args))
        names = ", ".join((*self.env, *self.headers))
        return f"{what} (with {names})" if names else what

    @property
    def permission(self) -> Path:
        """Permission file, named by the hash of every setting that decides what is started."""
        from jupyter_core.paths import jupyter_data_dir  # deferred: few notebooks have a server

        decides = self.model_dump_json(exclude={"name", "source", "timeout"})
        sha = hashlib.sha256(decides.encode()).hexdigest()
        return Path(jupyter_data_dir()) / "parsimony" / "mcp" / sha

    @property
    def is_allowed(self) -> bool:
        """Whether this user allowed exactly this entry."""
        return self.permission.is_file()

    def allow(self) -> None:
        """Store the person's permission. ``ServerError`` if it can't be written."""
        try:
            durable.make_folder(self.permission.parent, mode=0o700)
            durable.create(self.permission, f"{self.line}\n".encode(), mode=0o600)
        except durable.StorageError as exc:
            raise ServerError(str(exc)) from exc

    def filled(self, environ: Mapping[str, str]) -> "Server":
        """Substitute environment variables. ``ServerError`` names one that is not set."""

        def value(found: re.Match[str]) -> str:
            name, default = found.groups()
            if environ.get(name, default) is None:
                raise ServerError(
                    f"The MCP server {self.name!r} needs the environment variable {name}, which is "
                    "not set. Set it, and restart the kernel."
                )
            return json.dumps(environ.get(name) or default or "")[1:-1]

        return Server.model_validate_json(_VARIABLE.sub(value, self.model_dump_json()))


def servers_of(folder: Path, workspace: Path) -> dict[str, Server]:
    """Read the servers of each ``.mcp.json`` from ``folder`` up to ``workspace``, by name.

    Of two with one name the nearer wins.

    Raises:
        ServerError: a file can't be read.
    """
    root, here = workspace.resolve(), folder.resolve()
    found: dict[str, Server] = {}
    for each in (here, *here.parents):
        if each.is_relative_to(root) and (each / SETTINGS).is_file():
            # The nearer comes first, and wins.
            found = found | _read(each / SETTINGS) | found
    return found


def _read(path: Path) -> dict[str, Server]:
    try:
        entries = json.loads(path.read_bytes()).get("mcpServers", {}).items()
        of_file = {"source": path, "folder": path.parent}
        return {name: Server(**{**entry, **of_file, "name": name}) for name, entry in entries}
    except (OSError, ValueError, AttributeError, TypeError, KeyError) as exc:
        why = " ".join(str(exc).split())[:200]
        raise ServerError(
            f"{path} cannot be read ({why}). It is JSON like "
            '{"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}.'
        ) from exc


_STARTS_WITHIN_S = 60.0
# Slightly more than the MCP package needs to kill a server that doesn't exit.
_ENDS_WITHIN_S = 7.0
_MOST_WORDS = 1_000
_LAST_WORDS = 300
# Protocol errors after which the outcome of a call is unknown.
_CLOSED, _REFUSED, _INSIDE = -32000, -32600, -32603
_BROKEN: Mapping[int | None, str] = {
    _CLOSED: "ended before it answered",
    _REFUSED: "no longer knows this connection",
    _INSIDE: "failed inside",
}
# prctl(PR_SET_PDEATHSIG, SIGKILL): on Linux a server dies with the thread that started it, even if
# the kernel is killed and the server ignores the end of its input.
_TIED = "import ctypes,os,sys;ctypes.CDLL(None).prctl(1,9);os.execvp(sys.argv[1],sys.argv[1:])"

T = TypeVar("T")


class ToolFailed(Exception):
    """Failure of a server's tool, in the server's words."""


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of all servers; it runs until the process ends."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="parsimony-mcp", daemon=True).start()
    return loop


def _submit(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Run ``work`` on the servers' loop; cancelling the future cancels the work."""
    return asyncio.run_coroutine_threadsafe(work, _loop())


class Servers:
    """MCP servers that the person added to a notebook.

    Args:
        folder: the notebook's folder.
        workspace: the top folder in which settings are looked for.
        environ: values of the environment variables that settings name.
    """

    def __init__(self, folder: Path, workspace: Path, environ: Mapping[str, str]) -> None:
        self._places = folder, workspace
        self._environ = environ
        self._added: dict[str, _Connection] = {}

    def find(self, name: str) -> Server:
        """Return the server called ``name`` in the settings.

        Raises:
            ServerError: there is none; the message lists those that exist.
        """
        known = servers_of(*self._places)
        if name not in known:
            there = ", ".join(known) or "none"
            raise ServerError(f"There is no MCP server {name!r} in .mcp.json: {there}.")
        return known[name]

    def listing(self) -> list[tuple[str, str, str]]:
        """List the servers of the settings as (name, command line, state)."""
        ended = "ended, is started again when it is called"
        states = {name: "running" if each.is_open else ended for name, each in self._added.items()}
        known = servers_of(*self._places).items()
        return [(name, each.line, states.get(name, "not started")) for name, each in known]

    def start(self, name: str) -> Future[Tools]:
        """Start a server that the person allowed; its tools are available to turns from then on.

        Returns:
            A future of the server's tools. It fails with ``ServerError`` if the server exits, can't
            be reached or is silent for 60 s. Cancelling the future ends the server.

        Raises:
            ServerError: the server is unknown or not allowed, or its settings or program are
                incomplete.
        """
        server = self.find(name)
        if not server.is_allowed:
            raise ServerError(f"Nobody has allowed this to be started: {server.line}.")
        if bool(server.command) == bool(server.url):
            raise ServerError(f"{name!r} in {server.source} needs a command or a url: give it one.")
        path = server.env.get("PATH")
        if server.command and shutil.which(server.program, path=path) is None:
            raise ServerError(f"There is no program {server.program!r}: install it, or correct it.")
        return _submit(self._start(_Connection(server.filled(self._environ))))

    async def _start(self, connection: "_Connection") -> Tools:
        await connection.client()
        await self._end(connection.name)
        self._added[connection.name] = connection
        return Tools(connection.tools())

    def remove(self, *names: str) -> bool:
        """End servers and remove their tools; return whether any of them was added."""
        is_known = not self._added.keys().isdisjoint(names)
        if is_known:
            with suppress(TimeoutError):
                _submit(self._end(*names)).result(_ENDS_WITHIN_S)
        return is_known

    async def _end(self, *names: str) -> None:
        ends = [self._added.pop(name).end() for name in names if name in self._added]
        await asyncio.gather(*filter(None, ends), return_exceptions=True)

    def close(self) -> None:
        """End all servers."""
        self.remove(*self._added)

    def tools(self) -> Tools:
        """Return the tools of all servers.

        The tools stay those of the time when the person added the server; getting others takes
        another approval.
        """
        return Tools(each for added in self._added.values() for each in added.tools())


class _Connection:
    """Connection to a server; a call restarts a server that has ended.

    Coroutines run on the servers' loop. One task owns the server and its calls, which end with it.
    """

    def __init__(self, server: Server) -> None:
        self.name = server.name
        self._server = server
        self._task: asyncio.Task[None] | None = None
        self._client: Any = None
        self._heard: Any = None
        self._listed: list[Any] = []

    @property
    def is_open(self) -> bool:
        """Whether the server can be called. An exited program's stream has no open sender."""
        statistics = getattr(self._heard, "statistics", None)
        return self._client is not None and (not statistics or statistics().open_send_streams > 0)

    async def client(self) -> Any:
        """Return the MCP package's connected client; start the server if it isn't running."""
        if not self.is_open:
            self.end()
            started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._live(started))
            try:
                await asyncio.wait_for(started, _STARTS_WITHIN_S)
            except TimeoutError:
                raise self._broken(f"said nothing for {_STARTS_WITHIN_S:.0f} s") from None
            finally:
                if self._client is None:
                    self.end()
        return self._client

    def end(self) -> "asyncio.Task[None] | None":
        """End the server and its calls; return the task that is shutting it down."""
        task, self._task, self._client = self._task, None, None
        if task is not None:
            task.cancel()
        return task

    async def _live(self, started: "asyncio.Future[None]") -> None:
        with tempfile.TemporaryFile("w+", errors="replace") as self._errors:
            try:
                from mcp import Client  # deferred: it takes a second

                async with Client(self._transport()) as client, asyncio.TaskGroup() as self._calls:
                    self._listed = self._listed or await _tools_of(client)
                    self._client = client
                    started.set_result(None)
                    try:
                        await asyncio.Event().wait()  # until this task is cancelled
                    finally:
                        self._client = None
            except Exception as exc:  # boundary: tool - whatever a server does
                if not started.done():
                    started.set_exception(self._broken(_reason(exc)))

    @asynccontextmanager
    async def _transport(self) -> AsyncGenerator[Any, None]:
        """Open the streams from and to the server."""
        from mcp import StdioServerParameters, stdio_client

        server = self._server
        async with AsyncExitStack() as stack:
            if server.url:
                http = import_module("mcp.client.streamable_http")
                client = http.create_mcp_http_client(headers=server.headers)
                await stack.enter_async_context(client)
                opened = http.streamable_http_client(server.url, http_client=client)
            else:
                command = [server.program, *server.args]
                if sys.platform == "linux":
                    command = [sys.executable, "-ISc", _TIED, *command]
                parameters = StdioServerParameters(
                    command=command[0], args=command[1:], env=server.env, cwd=server.folder
                )
                opened = stdio_client(parameters, errlog=self._errors)
            self._heard, write = await stack.enter_async_context(opened)
            yield self._heard, write

    # -- calls from turns

    def tools(self) -> list[Tool]:
        """Return the server's tools."""
        return [self._tool(each) for each in self._listed]

    def _tool(self, told: Any) -> Tool:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{self.name}__{told.name}")[:64]
        effect = _effect(told.annotations)
        called: list[str] = []

        def reaches(arguments: Mapping[str, Any]) -> tuple[str, ...]:
            if effect is not None or called:
                return ()
            return (f"{name} does not say whether it changes something outside the notebook",)

        async def call(**arguments: Any) -> Any:
            called.append(name)  # approved by now, for the rest of the turn
            return await asyncio.wrap_future(_submit(self._answer(told.name, arguments)))

        return Tool(
            function=call,
            name=name,
            description=(told.description or told.title or told.name)[:_MOST_WORDS],
            parameters_schema={"properties": {}, **told.input_schema, "type": "object"},
            effect=effect,
            validators=(partial(_wrong_fields, told.input_schema),),
            reaches=reaches,
            timeout_s=self._server.timeout,
        )

    async def _answer(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool and return its answer.

        Cancelling the wait (a stop or a timeout) ends the server: it may hang, and nothing of the
        call may go on.
        """
        client, answers = await self.client(), asyncio.Queue[Any]()

        async def run() -> None:
            try:
                came = await client.call_tool(name, arguments)
            except asyncio.CancelledError:
                came = self._broken("has ended")
            except Exception as exc:  # boundary: tool - whatever a server does
                came = self._error(exc)
            answers.put_nowait(came)

        self._calls.create_task(run())
        try:
            came = await answers.get()
        except asyncio.CancelledError:
            self.end()
            raise
        if isinstance(came, Exception):
            raise came
        return _data(came)

    def _error(self, exc: Exception) -> Exception:
        code, words = getattr(exc, "code", None), str(exc)
        what = _BROKEN.get(code)
        # A request that is refused has the code of a lost session, which only HTTP has.
        if code == _REFUSED and not (self._server.url and "session" in words.casefold()):
            what = None
        if code == _INSIDE:
            what = f"{what} ({words})"
        if code == _CLOSED or (code and self._server.url):
            self.end()
        return self._broken(what) if what else exc

    def _broken(self, what: str) -> ServerError:
        """Build an error with the last words of the server's standard error."""
        words = ""
        with suppress(OSError, ValueError):  # closed
            self._errors.seek(0)
            words = " ".join(self._errors.read()[-_LAST_WORDS:].split())
        told = f"; its last words: {words}" if words else ""
        text = f"The MCP server {self.name!r} {what}{told}"
        return ServerError(text if text.endswith((".", "!", "?")) else f"{text}.")


async def _tools_of(client: Any) -> list[Any]:
    page = await client.list_tools(cache_mode="bypass")
    tools: list[Any] = page.tools
    while page.next_cursor:
        page = await client.list_tools(cursor=page.next_cursor)
        tools += page.tools
    return tools


def _reason(exc: BaseException) -> str:
    """Say why a server doesn't start, from the innermost exception of nested groups."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    if isinstance(exc, ImportError):
        return 'needs mcp 2.3 or newer: pip install "parsimony-kernel[mcp]"'
    return f"cannot be used: {str(exc) or type(exc).__name__}"


def _effect(hints: Any) -> Literal["none", "idempotent", "write"] | None:
    """Return a tool's declared external effect; ``None`` if the server declares none."""
    if hints is None or (hints.read_only_hint, hints.destructive_hint) == (None, None):
        return None
    if hints.read_only_hint:
        return "none"
    return "idempotent" if hints.idempotent_hint and hints.destructive_hint is False else "write"


def _wrong_fields(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, str] | None:
    """Validate arguments against a tool's schema; return the errors by field, if any."""
    import jsonschema  # type: ignore[import-untyped]
    from referencing import Registry  # left empty, so that remote references aren't fetched

    validator = jsonschema.Draft202012Validator(schema, registry=Registry())
    wrong = validator.iter_errors(dict(arguments))
    return {".".join(map(str, e.path)) or "arguments": e.message for e in wrong} or None


def _data(result: Any) -> Any:
    """Return a tool's structured data, else its text. ``ToolFailed`` if it failed."""
    text, data = "\n".join(map(_text, result.content)), result.structured_content
    if result.is_error:
        raise ToolFailed(text)
    # The MCP package wraps a value that is no JSON object in {"result": …}.
    return text if data is None else data.get("result", data) if len(data) == 1 else data


def _text(part: Any) -> str:
    """Return a part of an answer as text; for other content a note of its kind."""
    inner = getattr(part, "resource", part)
    what = getattr(inner, "uri", "") or getattr(inner, "mime_type", "") or "data"
    return getattr(inner, "text", None) or f"[{what}, not text]"
