"""Tools from MCP servers: one event loop in a thread of its own, and on it one task per server.

The rule of the place: nothing of a server runs on the kernel's event loop, and it is trusted no
further than its command line. Its answers are data; its hints only choose when a person is asked.
"""

import asyncio
import json
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter

from parsimony_kernel.core.causes import AMBIGUOUS
from parsimony_kernel.core.kinds import ASKS, HELD, Action
from parsimony_kernel.toolbox.mcp_servers import Server, ServerError, servers_of
from parsimony_kernel.tools import REPLY, Tool, ToolResult, Tools, tool

_STARTS_WITHIN_S = 60.0
# What the package takes to end a server that does not want to, and a little more.
_ENDS_WITHIN_S = 7.0
_MOST_WORDS = 1_000
_LAST_WORDS = 300
_DECLINE = "Decline"
# Errors of the protocol after which nobody knows what a call has done.
_CLOSED = -32000
_BROKEN: Mapping[int | None, str] = {
    _CLOSED: "ended before it answered",
    -32600: "no longer knows this connection",
    -32603: "failed inside",
}
# On Linux a server ends with the thread that started it, even where the kernel is killed and the
# server does not mind the end of its input.
_TIED = "import ctypes,os,sys;ctypes.CDLL(None).prctl(1,9);os.execvp(sys.argv[1],sys.argv[1:])"

T = TypeVar("T")


class ToolFailed(Exception):
    """A tool of a server failed, in the server's words."""


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """The event loop of all servers, until the process ends."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="parsimony-mcp", daemon=True).start()
    return loop


def _submit(work: Coroutine[Any, Any, T]) -> Future[T]:
    """Run ``work`` on the servers' loop; cancelling the future cancels it there."""
    return asyncio.run_coroutine_threadsafe(work, _loop())


class Servers:
    """The MCP servers of a notebook that the person has added.

    Args:
        folder: the notebook's; ``workspace`` bounds where settings are looked for.
        environ: the values of the variables that settings name.
    """

    def __init__(self, folder: Path, workspace: Path, environ: Mapping[str, str]) -> None:
        self._places = folder, workspace
        self._environ = environ
        self._added: dict[str, _Connection] = {}

    def find(self, name: str) -> Server:
        """The server that settings call ``name``. ``ServerError`` lists those that exist."""
        known = servers_of(*self._places)
        if name not in known:
            there = ", ".join(known) or "none"
            raise ServerError(f"There is no MCP server {name!r} in .mcp.json: {there}")
        return known[name]

    def listing(self) -> list[tuple[str, str, str]]:
        """Each server that settings name: its name, its command line, whether it runs."""
        ended = "ended, is started again when it is called"
        states = {name: "running" if each.is_open else ended for name, each in self._added.items()}
        known = servers_of(*self._places).items()
        return [(name, each.line, states.get(name, "not started")) for name, each in known]

    def start(self, name: str) -> Future[Tools]:
        """Start a server that the person has allowed; turns have its tools from then on.

        Returns:
            The tools it brings, or ``ServerError`` where it ends, cannot be reached or says nothing
            for 60 s. Cancelling the future ends the server.

        Raises:
            ServerError: it is not known or not allowed, or something of it is missing.
        """
        server = self.find(name)
        if not server.is_allowed:
            raise ServerError(f"Nobody has allowed this to be started: {server.line}")
        if bool(server.command) == bool(server.url):
            raise ServerError(f"{name!r} in {server.source} needs a command or a url: give it one")
        path = server.env.get("PATH")
        if server.command and shutil.which(server.program, path=path) is None:
            raise ServerError(f"There is no program {server.program!r}: install it, or correct it")
        return _submit(self._start(_Connection(server.filled(self._environ))))

    async def _start(self, connection: "_Connection") -> Tools:
        await connection.client()
        await self._end(connection.name)
        self._added[connection.name] = connection
        return Tools(connection.tools())

    def remove(self, *names: str) -> bool:
        """End servers and take their tools away; whether any was there."""
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
        """The tools of all servers, and one that reads their resources.

        They stay as they were when the person added the server, who is asked again for others.
        """
        made = [each for connection in self._added.values() for each in connection.tools()]
        reading = {name: each for name, each in self._added.items() if each.has_resources}

        async def read_resource(server: str, uri: str = "") -> Any:
            if server not in reading:
                raise LookupError(f"no MCP server {server!r}: {', '.join(reading)}")
            return await asyncio.wrap_future(_submit(reading[server].read(uri)))

        does = f"Read a resource of {' or '.join(reading)}, or without `uri` list what there is."
        return Tools(
            [*made, *([tool(description=does, effect="none")(read_resource)] if reading else ())]
        )


@dataclass
class _Call:
    """A request to a server. ``news`` gets its questions, each answered by one of ``replies``, and
    at last the result or an exception."""

    news: asyncio.Queue[Any] = field(default_factory=asyncio.Queue)
    replies: asyncio.Queue[str] = field(default_factory=asyncio.Queue)


class _Connection:
    """A server, started again when it is called after its end. Coroutines run on the loop.

    One task owns the server and its calls, which end with it.
    """

    def __init__(self, server: Server) -> None:
        self.name = server.name
        self.has_resources = False
        self._server = server
        self._task: asyncio.Task[None] | None = None
        self._client: Any = None
        self._heard: Any = None
        self._listed: list[Any] = []
        # The newest call, and those that wait for the person, by what was called.
        self._call = _Call()
        self._waiting: dict[str, _Call] = {}

    @property
    def is_open(self) -> bool:
        """Whether it can be called. Nobody writes to what is heard of a program that has ended."""
        statistics = getattr(self._heard, "statistics", None)
        return self._client is not None and (not statistics or statistics().open_send_streams > 0)

    async def client(self) -> Any:
        """The connected client of the package; starts the server where it does not run."""
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
        """End the server and whatever waits for it; the task that does it."""
        task, self._task, self._client = self._task, None, None
        self._waiting.clear()
        if task is not None:
            task.cancel()
        return task

    async def _live(self, started: "asyncio.Future[None]") -> None:
        with tempfile.TemporaryFile("w+", errors="replace") as self._errors:
            try:
                from mcp import Client  # deferred: it takes a second

                async with (
                    Client(self._transport(), elicitation_callback=self._elicit) as client,
                    asyncio.TaskGroup() as self._calls,
                ):
                    self._listed = self._listed or await _tools_of(client)
                    self.has_resources = client.server_capabilities.resources is not None
                    self._client = client
                    started.set_result(None)
                    try:
                        await asyncio.Event().wait()  # until it is ended, or ends
                    finally:
                        self._client = None
            except Exception as exc:  # boundary: tool - whatever a server does
                if not started.done():
                    started.set_exception(self._broken(_reason(exc)))

    @asynccontextmanager
    async def _transport(self) -> AsyncGenerator[Any, None]:
        """The streams from and to the server."""
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

    # -- what turns ask of it

    def tools(self) -> list[Tool]:
        """What the server offers, as tools."""
        return [self._tool(each) for each in self._listed]

    def _tool(self, told: Any) -> Tool:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{self.name}__{told.name}")[:64]
        effect = _effect(told.annotations)
        called: list[str] = []

        def reaches(arguments: Mapping[str, Any]) -> tuple[str, ...]:
            if effect is not None or called or _key(told.name, arguments) in self._waiting:
                return ()
            return (f"{name} does not say whether it changes something outside the notebook",)

        async def call(**arguments: Any) -> Any:
            called.append(name)  # allowed by now, for the rest of the turn
            answer = self._answer(told.name, arguments, REPLY.get())
            return await asyncio.wrap_future(_submit(answer))

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

    async def _answer(self, name: str, arguments: dict[str, Any], reply: str | None) -> Any:
        """What a tool answers. A question of its server is the person's, and the call waits for it:
        it is made again with their reply."""
        key = _key(name, arguments)
        call = self._waiting.pop(key, None)
        if reply is None:
            call = await self._begin("call_tool", name, arguments)
        elif call is None or not self.is_open:
            raise LookupError("the call that asked has ended with its server: call it anew")
        else:
            call.replies.put_nowait(reply)
        came = await self._next(call)
        if isinstance(came, ToolResult):
            self._waiting[key] = call
            return came
        return _data(came)

    async def read(self, uri: str) -> Any:
        """A resource as text, or without ``uri`` what there is."""
        if uri:
            read = await self._next(await self._begin("read_resource", uri))
            return "\n".join(map(_text, read.contents))
        listed = await self._next(await self._begin("list_resources"))
        return {str(each.uri): each.description or each.name for each in listed.resources}

    async def _begin(self, method: str, *arguments: Any) -> _Call:
        client, call = await self.client(), _Call()

        async def run() -> None:
            try:
                came = await getattr(client, method)(*arguments)
            except asyncio.CancelledError:
                came = self._broken("has ended")
            except Exception as exc:  # boundary: tool - whatever a server does
                came = self._error(exc)
            call.news.put_nowait(came)

        self._call = call
        self._calls.create_task(run())
        return call

    def _error(self, exc: Exception) -> Exception:
        code = getattr(exc, "code", None)
        error = self._broken(_BROKEN[code]) if code in _BROKEN else exc
        if code == _CLOSED or (code and self._server.url):
            self.end()
        return error

    async def _next(self, call: _Call) -> Any:
        """What comes of ``call`` next. One that is stopped or late ends its server: that may hang,
        and nothing of it is to go on."""
        try:
            came = await call.news.get()
        except asyncio.CancelledError:
            self.end()
            raise
        if isinstance(came, Exception):
            raise came
        return came

    async def _elicit(self, context: Any, params: Any) -> Any:
        """Put a question to the person for each field of a form, in the place of the newest call:
        its required fields, else all, else a plain yes."""
        result, call = import_module("mcp_types").ElicitResult, self._call
        form = params.requested_schema if params.mode == "form" else {}
        fields, content = form.get("properties", {}), dict[str, Any]()
        for name in form.get("required") or fields or ("",):
            of = fields.get(name, {"enum": ["Accept"]})
            wrong = ""
            while name not in content:
                call.news.put_nowait(self._question(params, name, of, wrong))
                reply = (await call.replies.get()).strip()
                if reply.casefold() == _DECLINE.casefold():
                    return result(action="decline")
                with suppress(ValueError):
                    content[name] = _value(of.get("type", ""), reply)
                wrong = f"{reply!r} does not fit. "
        return result(action="accept", content=content if form else None)

    def _question(self, asked: Any, name: str, of: Mapping[str, Any], wrong: str) -> ToolResult:
        told = f" {of.get('title', name)}: {of.get('description', '')}".rstrip(": ")
        link = f" Open {asked.url} first." if asked.mode == "url" else ""
        offered = ["Yes", "No"] if of.get("type") == "boolean" else of.get("enum", [])
        offered = offered or [each.get("const") for each in of.get("oneOf", ())]
        how = "" if offered else '. Answer "decline" to say nothing'
        failure = AMBIGUOUS.failure(
            f"The MCP server {self.name!r} asks, and gets your answer",
            action=Action.ask_user,
            question=f"{wrong}{asked.message}{link}{told}{how}",
            choices=(*map(str, offered), _DECLINE) if offered else (),
            **{HELD: ASKS},
        )
        return ToolResult.from_failure(failure)

    def _broken(self, what: str) -> ServerError:
        """With what the server printed last to its standard error."""
        words = ""
        with suppress(OSError, ValueError):  # closed
            self._errors.seek(0)
            words = " ".join(self._errors.read()[-_LAST_WORDS:].split())
        told = f"; its last words: {words}" if words else ""
        return ServerError(f"the MCP server {self.name!r} {what}{told}")


async def _tools_of(client: Any) -> list[Any]:
    page = await client.list_tools(cache_mode="bypass")
    tools: list[Any] = page.tools
    while page.next_cursor:
        page = await client.list_tools(cursor=page.next_cursor)
        tools += page.tools
    return tools


def _key(name: str, arguments: Mapping[str, Any]) -> str:
    """By which a call is known when it is made again."""
    return json.dumps([name, dict(arguments)], sort_keys=True, default=str)


def _reason(exc: BaseException) -> str:
    """Why a server does not start, out of the groups of exceptions around it."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    if isinstance(exc, ImportError):
        return 'needs mcp 2.3 or newer: pip install "parsimony-kernel[mcp]"'
    return f"cannot be used: {str(exc) or type(exc).__name__}"


def _value(kind: str, reply: str) -> Any:
    """What a person's words are as the value of a field. ``ValueError`` where they do not fit."""
    if kind == "array":
        return [each.strip() for each in reply.split(",")]
    kinds: Mapping[str, Any] = {"boolean": bool, "integer": int, "number": float}
    return TypeAdapter(kinds.get(kind, str)).validate_python(reply)


def _effect(hints: Any) -> Literal["none", "idempotent", "write"] | None:
    """What a tool does outside, as its server says; ``None`` where it does not."""
    if hints is None or (hints.read_only_hint, hints.destructive_hint) == (None, None):
        return None
    if hints.read_only_hint:
        return "none"
    return "idempotent" if hints.idempotent_hint and hints.destructive_hint is False else "write"


def _wrong_fields(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, str] | None:
    """What is wrong with arguments, by field."""
    import jsonschema  # type: ignore[import-untyped]
    from referencing import Registry  # an empty one: nothing that a schema names is fetched

    validator = jsonschema.Draft202012Validator(schema, registry=Registry())
    wrong = validator.iter_errors(dict(arguments))
    return {".".join(map(str, e.path)) or "arguments": e.message for e in wrong} or None


def _data(result: Any) -> Any:
    """What a tool answered: its data, else its text. ``ToolFailed`` where it failed."""
    text, data = "\n".join(map(_text, result.content)), result.structured_content
    if result.is_error:
        raise ToolFailed(text)
    # The official package wraps whatever is no object.
    return text if data is None else data.get("result", data) if len(data) == 1 else data


def _text(part: Any) -> str:
    """A part of an answer as text; of what is none, its kind."""
    inner = getattr(part, "resource", part)
    what = getattr(inner, "uri", "") or getattr(inner, "mime_type", "") or "data"
    return getattr(inner, "text", None) or f"[{what}, not text]"
