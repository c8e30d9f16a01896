"""Tools from MCP servers: each server has a thread of its own, and its tools pass the same gate.

The rule of the place: nothing of a server runs on the kernel's event loop, and it is trusted no
further than its command line. What it answers is data; its hints only choose when a person is
asked.
"""

import asyncio
import json
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from parsimony_kernel.core.causes import AMBIGUOUS
from parsimony_kernel.core.kinds import ASKS, HELD, Action
from parsimony_kernel.toolbox.mcp_servers import Allowed, Server, ServerError, servers_of
from parsimony_kernel.tools import REPLY, Tool, ToolResult, Tools, in_thread, tool

if TYPE_CHECKING:
    import mcp_types

_STARTS_WITHIN_S = 60.0
# What the package takes to end a server that does not want to, and a little more.
_ENDS_WITHIN_S = 7.0
_LISTS_WITHIN_S = 0.05
_MOST_WORDS = 1_000
_LAST_WORDS = 300
_DECLINE = "Decline"
# On Linux a server ends with the thread that started it, even where the kernel is killed and the
# server does not mind the end of its input.
_TIED = "import ctypes,os,sys;ctypes.CDLL(None).prctl(1,9);os.execvp(sys.argv[1],sys.argv[1:])"


class ToolFailed(Exception):
    """A tool of a server failed, in the server's words."""


class _Question(NamedTuple):
    """What a server wants to know of the person. Without choices any words are an answer."""

    words: str
    choices: tuple[str, ...]


@dataclass
class _Call:
    """One request to a server. ``news`` is what comes of it next: the result, an exception, or a
    question, on which it goes on with one of ``replies``."""

    news: "Future[Any]" = field(default_factory=Future)
    replies: "asyncio.Queue[str]" = field(default_factory=asyncio.Queue)

    def tell(self, news: Any) -> None:
        """From the server's thread."""
        if not self.news.done():  # else nobody waits any more
            self.news.set_result(news)


class Servers:
    """The MCP servers of a notebook that the person has added.

    Args:
        folder: the notebook's; ``workspace`` bounds where settings are looked for.
        environ: what the variables of settings stand for.
    """

    def __init__(self, folder: Path, workspace: Path, environ: Mapping[str, str]) -> None:
        self._places = folder, workspace
        self._environ = environ
        self._added: dict[str, _Connection] = {}

    def _find(self, name: str) -> Server:
        """The server that settings call ``name``. ``ServerError`` lists those that there are."""
        known = servers_of(*self._places)
        server = known.get(name)
        if server is None:
            there = ", ".join(known) or "none"
            raise ServerError(f"There is no MCP server {name!r} in .mcp.json: {there}")
        if bool(server.command) == bool(server.url):
            raise ServerError(f"{name!r} in {server.source} needs a command or a url: give it one")
        return server

    def listing(self) -> list[tuple[str, str, str]]:
        """Each server that settings name: its name, its command line, whether it runs."""
        states = {name: each.state for name, each in self._added.items()}
        return [
            (name, server.line, states.get(name, "not started"))
            for name, server in servers_of(*self._places).items()
        ]

    def add(self, name: str, says_yes: Callable[[str], bool]) -> Tools:
        """Start a server, and give its tools to turns from now on.

        Args:
            name: what settings call it.
            says_yes: asks the person about its command line, unless they said yes to it before.

        Raises:
            ServerError: it is not known or was declined, or something of it is missing.
            ConnectionError: it does not start.
            StorageError: the yes cannot be kept.
        """
        server, allowed = self._find(name), Allowed()
        if server not in allowed:
            if not says_yes(server.line):
                raise ServerError(f"Declined: {name!r} was not started")
            allowed.add(server)
        connection = _Connection(server.filled(self._environ))
        connection.start()
        self.remove(name)
        self._added[name] = connection
        return Tools(connection.tools())

    def remove(self, name: str) -> bool:
        """End a server and take its tools away; whether it was there."""
        connection = self._added.pop(name, None)
        if connection is not None:
            connection.end(_ENDS_WITHIN_S)
        return connection is not None

    def close(self) -> None:
        """End all servers."""
        for name in tuple(self._added):
            self.remove(name)

    def tools(self) -> Tools:
        """The tools of all servers, as they tell them now, and one that reads their resources."""
        made = [each for connection in self._added.values() for each in connection.tools()]
        reading = {name: each for name, each in self._added.items() if each.has_resources}

        async def read_resource(server: str, uri: str = "") -> Any:
            if server not in reading:
                raise LookupError(f"no MCP server {server!r}: {', '.join(reading)}")
            return await reading[server].read(uri)

        does = f"Read a resource of {' or '.join(reading)}, or without `uri` list what there is."
        reader = tool(description=does, effect="none")(read_resource)
        return Tools([*made, reader] if reading else made)

    def changes(self) -> tuple[str, ...]:
        """The servers whose tools are others than when this was last asked, in words."""
        changed = ((name, each.changed()) for name, each in self._added.items())
        return tuple(
            f"the changed tools of the MCP server {name}: {', '.join(tools)}"
            for name, tools in changed
            if tools
        )


class _Connection:
    """A server and the thread that talks to it; another one after each end."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._listed: tuple[mcp_types.Tool, ...] = ()
        self._known: dict[str, str] = {}
        self._client: Any = None
        self._thread: threading.Thread | None = None
        self._end = asyncio.Event()
        # The newest call, and those that wait for the person, by what was called.
        self._call: _Call | None = None
        self._waiting: dict[str, _Call] = {}
        self._words = ""
        self.has_resources = False

    def start(self) -> None:
        """Start the server, unless it runs.

        Raises:
            ServerError: the package or the server's program is missing.
            ConnectionError: it cannot be reached, ended, or said nothing in time.
        """
        if self._is_open():
            return
        try:
            self._mcp = import_module("mcp")
        except ImportError as exc:
            remedy = 'pip install "parsimony-kernel[mcp]"'
            raise ServerError(f"MCP servers need the package mcp: {remedy}") from exc
        program = self._server.program
        if program and shutil.which(program, path=self._server.env.get("PATH")) is None:
            raise ServerError(f"There is no program {program!r}: install it, or mend .mcp.json")
        self._waiting.clear()
        self._end = asyncio.Event()
        started: Future[None] = Future()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._live(started, self._end)), daemon=True
        )
        self._thread.start()
        try:
            started.result(_STARTS_WITHIN_S)
        except BaseException as exc:  # Stop as well
            self.end()
            if isinstance(exc, TimeoutError):
                raise self._broken(f"said nothing for {_STARTS_WITHIN_S:.0f} s") from exc
            raise
        self._known = self._known or self._descriptions()

    @property
    def state(self) -> str:
        """For a person."""
        return "running" if self._is_open() else "ended, is started again when it is called"

    def _is_open(self) -> bool:
        """As far as is known."""
        return self._client is not None and not self._end.is_set()

    def end(self, wait_s: float = 0.0) -> None:
        """End the server, and whatever waits for it."""
        self._client = None
        if self._thread is not None and self._thread.is_alive():
            with suppress(RuntimeError):  # its loop has closed meanwhile
                self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(wait_s)

    # -- what turns ask of it

    def tools(self) -> list[Tool]:
        """What the server offers, made tools; by its last list where it is slow to tell."""
        if self._is_open() and not self._waiting:
            listing = asyncio.run_coroutine_threadsafe(self._list(self._client), self._loop)
            with suppress(Exception):  # boundary: tool - it is heard of when it is called
                listing.result(_LISTS_WITHIN_S)
        return [self._tool(each) for each in self._listed]

    def changed(self) -> list[str]:
        """The tools that are not what they were when this was last asked."""
        before, self._known = self._known, self._descriptions()
        return sorted({name for name, _ in before.items() ^ self._known.items()})

    def _descriptions(self) -> dict[str, str]:
        return {each.name: each.model_dump_json() for each in self._listed}

    def _tool(self, told: "mcp_types.Tool") -> Tool:
        name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{self._server.name}__{told.name}")[:64]
        effect = _effect(told.annotations)
        called: list[str] = []

        def reaches(arguments: Mapping[str, Any]) -> tuple[str, ...]:
            if effect is not None or called or _key(told.name, arguments) in self._waiting:
                return ()
            return (f"{name} does not say whether it changes something outside the notebook",)

        async def call(**arguments: Any) -> Any:
            called.append(name)  # allowed by now, for the rest of the turn
            return await self._answer(told.name, arguments)

        return Tool(
            function=call,
            name=name,
            description=(told.description or told.title or told.name)[:_MOST_WORDS],
            parameters_schema={"properties": {}, **told.input_schema, "type": "object"},
            effect=effect,
            validators=(_fits(told.input_schema),),
            reaches=reaches,
            timeout_s=self._server.timeout,
        )

    async def _answer(self, name: str, arguments: dict[str, Any]) -> Any:
        """What a tool answers. A question of its server is the person's, and the call waits for it:
        it is made again with their reply."""
        key = _key(name, arguments)
        reply, waits = REPLY.get(), self._waiting.pop(key, None)
        if reply is None:
            call = await self._begin("call_tool", name, arguments)
        elif waits is None or not self._is_open():
            raise LookupError("the call that asked has ended with its server: call it anew")
        else:
            call, waits.news = waits, Future()
            self._loop.call_soon_threadsafe(call.replies.put_nowait, reply)
        came = await self._news(call)
        if not isinstance(came, _Question):
            return _data(came)
        self._waiting[key] = call
        failure = AMBIGUOUS.failure(
            f"The MCP server {self._server.name!r} asks, and gets your answer",
            action=Action.ask_user,
            question=came.words,
            choices=came.choices,
            **{HELD: ASKS},
        )
        return ToolResult.from_failure(failure)

    async def read(self, uri: str) -> Any:
        """A resource as text, or without ``uri`` what there is."""
        if uri:
            read = await self._news(await self._begin("read_resource", uri))
            return "\n".join(map(_text, read.contents))
        listed = await self._news(await self._begin("list_resources"))
        return {str(each.uri): each.description or each.name for each in listed.resources}

    async def _begin(self, method: str, *arguments: Any) -> _Call:
        """Send a request; a server that has ended is started again."""
        await in_thread(self.start)
        call, client = _Call(), self._client
        self._call = call

        async def run() -> None:
            try:
                call.tell(await getattr(client, method)(*arguments))
            except asyncio.CancelledError:
                call.tell(self._broken("has ended"))
            except Exception as exc:  # boundary: tool - whatever a server does
                call.tell(exc)

        asyncio.run_coroutine_threadsafe(run(), self._loop)
        return call

    async def _news(self, call: _Call) -> Any:
        """What comes of ``call`` next. One that is stopped or late ends its server: that may hang,
        and nothing of it is to go on."""
        try:
            came = await asyncio.wrap_future(call.news)
        except asyncio.CancelledError:
            self.end()
            raise
        if not isinstance(came, Exception):
            return came
        if getattr(came, "code", None) == self._mcp.types.CONNECTION_CLOSED:
            raise self._broken("ended before it answered") from came
        raise came

    # -- on the server's thread

    async def _live(self, started: "Future[None]", end: asyncio.Event) -> None:
        self._loop = asyncio.get_running_loop()
        with tempfile.TemporaryFile("w+", errors="replace") as self._errors:
            try:
                async with self._mcp.Client(
                    self._transport(end), elicitation_callback=self._elicit, cache=None
                ) as client:
                    await self._list(client)
                    capabilities = client.server_capabilities
                    self.has_resources = bool(capabilities and capabilities.resources)
                    self._client = client
                    started.set_result(None)
                    await end.wait()
            except Exception as exc:  # boundary: tool - whatever a server does
                if not started.done():
                    started.set_exception(self._broken(_reason(exc)))
            finally:
                self._last_words()
                end.set()

    @asynccontextmanager
    async def _transport(self, end: asyncio.Event) -> AsyncGenerator[Any, None]:
        """The streams from and to the server; when the first ends, the connection does."""
        import anyio  # deferred, as all of mcp

        async with self._opened() as (read, write), anyio.create_task_group() as group:
            heard, hears = anyio.create_memory_object_stream[Any](0)

            async def pass_on() -> None:
                async with heard:
                    async for message in read:
                        await heard.send(message)
                end.set()

            group.start_soon(pass_on)
            yield hears, write
            group.cancel_scope.cancel()

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[Any, None]:
        server = self._server
        if server.url:
            http = import_module("mcp.client.streamable_http")
            async with (
                http.create_mcp_http_client(headers=server.headers) as client,
                http.streamable_http_client(server.url, http_client=client) as streams,
            ):
                yield streams
            return
        command = [server.program, *server.args]
        if sys.platform == "linux":
            command = [sys.executable, "-ISc", _TIED, *command]
        parameters = self._mcp.StdioServerParameters(
            command=command[0], args=command[1:], env=server.env, cwd=server.folder
        )
        async with self._mcp.stdio_client(parameters, errlog=self._errors) as streams:
            yield streams

    async def _list(self, client: Any) -> None:
        page = await client.list_tools()
        tools = page.tools
        while page.next_cursor:
            page = await client.list_tools(cursor=page.next_cursor)
            tools += page.tools
        self._listed = tuple(tools)

    async def _elicit(self, context: Any, asked: Any) -> Any:
        """Put a question to the person for each field, in the place of the newest call."""
        answer, call = self._mcp.types.ElicitResult, self._call
        content: dict[str, Any] = {}
        for name, words, choices, value in _questions(asked) if call is not None else ():
            wrong = ""
            while call is not None and name not in content:
                call.tell(_Question(wrong + words, choices))
                reply = (await call.replies.get()).strip()
                if reply.casefold() == _DECLINE.casefold():
                    return answer(action="decline")
                try:
                    content[name] = value(reply)
                except (ValueError, KeyError):
                    wrong = f"{reply!r} does not fit. "
        return answer(action="accept", content=content if asked.mode == "form" else None)

    def _broken(self, what: str) -> ConnectionError:
        last = self._last_words()
        words = f"; its last words: {last}" if last else ""
        return ConnectionError(f"the MCP server {self._server.name!r} {what}{words}")

    def _last_words(self) -> str:
        """What the server printed last to its standard error."""
        with suppress(OSError, ValueError):  # closed: what was read before stands
            self._errors.seek(0)
            self._words = " ".join(self._errors.read()[-_LAST_WORDS:].split())
        return self._words


def _key(name: str, arguments: Mapping[str, Any]) -> str:
    """By which a call is known when it is made again."""
    return json.dumps([name, dict(arguments)], sort_keys=True, default=str)


def _reason(exc: BaseException) -> str:
    """What went wrong, out of the groups of exceptions around it."""
    while isinstance(exc, BaseExceptionGroup):
        exc = exc.exceptions[0]
    return f"cannot be used: {str(exc) or type(exc).__name__}"


_YES_OR_NO = {"yes": True, "true": True, "no": False, "false": False}
_VALUES: Mapping[str, Callable[[str], Any]] = {
    "boolean": lambda reply: _YES_OR_NO[reply.casefold()],
    "integer": int,
    "number": float,
    "array": lambda reply: [each.strip() for each in reply.split(",")],
}


def _questions(
    asked: Any,
) -> Iterator[tuple[str, str, tuple[str, ...], Callable[[str], Any]]]:
    """What has to be answered, field by field: its name, the question, the choices, and what makes
    a reply the field's value. A form's required fields, else all, else a plain yes."""
    schema = asked.requested_schema if asked.mode == "form" else {}
    words = f"{asked.message} Open {asked.url} first." if asked.mode == "url" else asked.message
    fields = schema.get("properties", {})
    for name in schema.get("required") or fields or ("",):
        of = fields.get(name, {} if name else {"enum": ["Accept"]})
        told = f" {of.get('title', name)}: {of.get('description', '')}".rstrip(": ")
        offered = ["Yes", "No"] if of.get("type") == "boolean" else of.get("enum", [])
        offered = offered or [each.get("const") for each in of.get("oneOf", ())]
        how = "" if offered else '. Answer "decline" to say nothing'
        choices = (*map(str, offered), _DECLINE) if offered else ()
        yield name, f"{words}{told}{how}", choices, _VALUES.get(of.get("type", ""), str)


def _effect(
    hints: "mcp_types.ToolAnnotations | None",
) -> Literal["none", "idempotent", "write"] | None:
    """What a tool does outside, as its server says; ``None`` where it does not."""
    if hints is None or (hints.read_only_hint, hints.destructive_hint) == (None, None):
        return None
    if hints.read_only_hint:
        return "none"
    return "idempotent" if hints.idempotent_hint and hints.destructive_hint is False else "write"


def _fits(schema: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Mapping[str, str] | None]:
    """A check that says of arguments what is wrong with each."""

    def check(arguments: Mapping[str, Any]) -> Mapping[str, str] | None:
        import jsonschema  # type: ignore[import-untyped]
        from referencing import Registry  # an empty one: nothing that a schema names is fetched

        validator = jsonschema.Draft202012Validator(schema, registry=Registry())
        wrong = validator.iter_errors(dict(arguments))
        return {".".join(map(str, e.path)) or "arguments": e.message for e in wrong} or None

    return check


def _data(result: Any) -> Any:
    """What a tool answered: its data, else its text. ``ToolFailed`` where it failed."""
    text = "\n".join(map(_text, result.content))
    if result.is_error:
        raise ToolFailed(text)
    data = result.structured_content
    if data is None:
        return text
    return data["result"] if isinstance(data, dict) and set(data) == {"result"} else data


def _text(part: Any) -> str:
    """A part of an answer as text; of what is none, what it is and its size."""
    inner = getattr(part, "resource", part)
    if isinstance(text := getattr(inner, "text", None), str):
        return text
    size = len(getattr(inner, "data", "") or getattr(inner, "blob", "")) * 3 // 4
    what = getattr(inner, "uri", "") or getattr(inner, "mime_type", "") or "data"
    return f"[{what}, {size:,} bytes]"
