"""A provider on loopback: OpenAI's chat completions over real HTTP, with faults on demand.

So that what is tested is the client that will talk to a real provider. Standard library only. The
server never sleeps: silence lasts until the client goes away or the server stops. By default it
is as strict about transcripts as the strictest provider.
"""

import asyncio
import contextlib
import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Any

from parsimony_kernel.core.chat import Completion, Usage
from parsimony_kernel.testing.scripted import numbered, say

_HELLO = say("Grüße — 你好")
_USAGE = Usage(11, 7)
_PIECE = 7


class Wire(StrEnum):
    """What can happen to a reply on its way."""

    # The client must see a broken answer.
    reset = "reset"  # before any header
    cut = "cut"  # midway, the connection dropped
    ended_early = "ended_early"  # midway, with a clean end of the body
    garbage = "garbage"  # 200 with a page of HTML
    garbage_event = "garbage_event"  # an event that is not JSON
    error_event = "error_event"  # an error object in the stream
    empty_body = "empty_body"
    empty_choices = "empty_choices"
    silence = "silence"  # no header ever
    silence_midway = "silence_midway"
    refusal = "refusal"  # the text comes as a refusal instead of as content
    # The client must see the whole reply.
    comments = "comments"  # keep-alive comments between the events
    crlf = "crlf"
    split_bytes = "split_bytes"  # characters of several bytes torn apart
    doubled_done = "doubled_done"
    usage_missing = "usage_missing"
    usage_nan = "usage_nan"
    usage_absurd = "usage_absurd"


@dataclass(frozen=True)
class Faulty:
    """``reply``, with ``wire`` happening to it."""

    wire: Wire
    reply: Completion = _HELLO


@dataclass(frozen=True)
class HttpError:
    """An error response. ``{key}`` in the message becomes the key that the request carried."""

    status: int
    message: str
    code: str | None = None
    type: str = "invalid_request_error"
    headers: Mapping[str, str] = field(default_factory=dict)


def rate_limited(retry_after: str | None = None) -> HttpError:
    """429, with ``Retry-After`` if given."""
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return HttpError(
        429, "Rate limit reached for requests.", "rate_limit_exceeded", "requests", headers
    )


SERVER_ERROR = HttpError(500, "The server had an error.", type="server_error")
OVERLOADED = HttpError(503, "The engine is overloaded.", type="server_error")
UNAUTHORIZED = HttpError(401, "Incorrect API key provided: {key}.", "invalid_api_key")
OUT_OF_QUOTA = HttpError(
    429, "You exceeded your current quota.", "insufficient_quota", "insufficient_quota"
)
UNKNOWN_MODEL = HttpError(404, "The model does not exist.", "model_not_found")
CONTEXT_LENGTH = HttpError(
    400,
    "This model's maximum context length is 8192 tokens, and the messages hold 9001.",
    "context_length_exceeded",
)
CONTENT_POLICY = HttpError(400, "The request was rejected.", "content_policy_violation")

Reply = Completion | Faulty | HttpError
Step = Reply | Callable[[dict[str, Any]], Reply]


@dataclass(frozen=True)
class Recorded:
    """One request as it came.

    ``silent`` is set once the server has fallen silent on it, and ``gone`` once its client has
    closed the connection.
    """

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    silent: threading.Event = field(default_factory=threading.Event)
    gone: threading.Event = field(default_factory=threading.Event)


class LoopbackProvider:
    """The server, for the length of a ``with``.

    Args:
        script: one step per request: a ``Completion`` (see ``testing.scripted``), a ``Faulty``
            one, an ``HttpError``, or a function of the request's body. It may be endless.
        strict: answer 400, naming the breach, to a transcript that a strict provider refuses;
            such a request consumes no step.

    ``url`` is the ``api_base``; ``requests`` is what came. On leaving, a fault of the server
    itself is raised.
    """

    def __init__(self, script: Iterable[Step] = (), *, strict: bool = True) -> None:
        self.requests: list[Recorded] = []
        self._arrived = threading.Condition()
        self._script: Iterator[Step] = iter(script)
        self._strict = strict
        self._too_many = 0
        self._trouble: list[BaseException] = []
        self._port = 0
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="loopback-provider", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    def __enter__(self) -> "LoopbackProvider":
        self._thread.start()
        self._started.wait()
        self._raise_trouble()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if exc is None:
            self._raise_trouble()

    def wait_for_requests(self, count: int = 1, timeout_s: float = 10.0) -> None:
        """Block until ``count`` requests came; ``AssertionError`` when they do not."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.requests) >= count, timeout_s):
                raise AssertionError(f"{len(self.requests)} of {count} requests came")

    def assert_exhausted(self) -> None:
        """``AssertionError`` unless exactly as many requests came as the script has steps."""
        if self._too_many:
            raise AssertionError(f"{self._too_many} requests came after the script's last step")
        left = next(self._script, None)
        if left is not None:
            raise AssertionError(f"after {len(self.requests)} requests nobody asked for {left!r}")

    def _raise_trouble(self) -> None:
        if self._trouble:
            raise self._trouble[0]

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as exc:  # boundary: tool - the server's thread; __exit__ raises it
            self._trouble.append(exc)
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        serving: set[asyncio.Task[None]] = set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._answer(reader, writer))
            serving.add(task)
            task.add_done_callback(serving.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        for task in tuple(serving):
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came: Recorded | None = None
        try:
            came = await _read(reader)
            if came is not None:
                with self._arrived:
                    self.requests.append(came)
                    self._arrived.notify_all()
                await _Response(reader, writer, came).send(self._reply_to(came))
                await _hang_up(reader, writer)
                came.gone.set()
        except (ConnectionError, asyncio.IncompleteReadError):
            if came is not None:
                came.gone.set()  # the client went away, which is its right
        except Exception as exc:  # boundary: front end - a client's request; __exit__ raises it
            self._trouble.append(exc)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def _reply_to(self, came: Recorded) -> Reply:
        if came.path != "/v1/chat/completions":
            return HttpError(404, f"There is nothing at {came.path!r}.", "unknown_url")
        breach = transcript_breach(came.body.get("messages")) if self._strict else None
        if breach is not None:
            return HttpError(400, breach, "invalid_messages")
        try:
            step = next(self._script)
        except StopIteration:
            self._too_many += 1
            return HttpError(400, "The script of the loopback provider is over.", "script_over")
        return step if isinstance(step, Completion | Faulty | HttpError) else step(came.body)


async def _hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say no more, and wait until the client has closed its side too."""
    with contextlib.suppress(OSError):
        if not writer.is_closing():
            writer.write_eof()
        while await reader.read(1024):
            pass


async def _read(reader: asyncio.StreamReader) -> Recorded | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines)
    }
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Recorded(first.split(" ")[1], headers, json.loads(body) if body else {})


class _Response:
    """One response on one connection, which closes behind it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, came: Recorded
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._came = came

    async def send(self, reply: Reply) -> None:
        match reply:
            case HttpError():
                await self._error(reply)
            case Faulty(wire, completion):
                await self._faulty(wire, completion)
            case Completion():
                await self._whole(_chunks(reply, self._came.body), reply)

    async def _error(self, error: HttpError) -> None:
        key = self._came.headers.get("authorization", "").removeprefix("Bearer ")
        told = {
            "message": error.message.replace("{key}", key),
            "type": error.type,
            "param": None,
            "code": error.code,
        }
        body = json.dumps({"error": told}).encode()
        await self._plain(body, "application/json", error.status, error.headers)

    async def _whole(
        self,
        chunks: Sequence[dict[str, Any]],
        completion: Completion,
        usage: Any = None,
        told: str = "content",
    ) -> None:
        if self._came.body.get("stream"):
            await self._events([*map(_event, chunks), b"data: [DONE]\n\n"])
        else:
            body = _whole_body(completion, self._came.body, usage, told)
            await self._plain(json.dumps(body, ensure_ascii=False).encode(), "application/json")

    async def _faulty(self, wire: Wire, completion: Completion) -> None:
        if wire is Wire.reset:
            # A linger of zero turns the close into a reset instead of an orderly end.
            self._writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            self._writer.transport.abort()
            return
        if wire is Wire.silence:
            await self._fall_silent()
            return
        if wire in (Wire.garbage, Wire.empty_body):
            page = b"" if wire is Wire.empty_body else b"<html><body>Welcome</body></html>"
            await self._plain(page, "text/html")
            return
        usage = {
            Wire.usage_nan: {"prompt_tokens": float("nan"), "completion_tokens": float("nan")},
            Wire.usage_absurd: {"prompt_tokens": 10**15, "completion_tokens": -3},
        }.get(wire)
        told = "refusal" if wire is Wire.refusal else "content"
        chunks = _chunks(completion, self._came.body, usage, told)
        if wire is Wire.usage_missing:
            chunks = [chunk for chunk in chunks if chunk["choices"]]
        if wire is Wire.empty_choices:
            chunks = [{**chunk, "choices": []} for chunk in chunks]
        if wire in (
            Wire.usage_missing,
            Wire.usage_nan,
            Wire.usage_absurd,
            Wire.empty_choices,
            Wire.refusal,
        ):
            await self._whole(chunks, completion, usage, told)
            return
        events = [*map(_event, chunks), b"data: [DONE]\n\n"]
        half = events[: max(1, len(events) // 3)]
        match wire:
            case Wire.cut:
                await self._events(half, end=False)
            case Wire.ended_early:
                await self._events(half)
            case Wire.silence_midway:
                await self._events(half, end=False)
                await self._fall_silent()
            case Wire.garbage_event:
                await self._events([*half, b"data: {not json\n\n"])
            case Wire.error_event:
                error = {"message": "It broke.", "type": "server_error", "code": None}
                await self._events([*half, _event({"error": error})])
            case Wire.comments:
                await self._events([part for event in events for part in (b": wait\n\n", event)])
            case Wire.crlf:
                await self._events([event.replace(b"\n", b"\r\n") for event in events])
            case Wire.doubled_done:
                await self._events([*events, events[-1]])
            case Wire.split_bytes:
                body = b"".join(events)
                await self._events([body[i : i + 1] for i in range(len(body))])

    async def _plain(
        self,
        body: bytes,
        content_type: str,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._head(status, content_type, {"Content-Length": str(len(body)), **(headers or {})})
        self._writer.write(body)
        await self._writer.drain()

    async def _events(self, events: Iterable[bytes], *, end: bool = True) -> None:
        self._head(200, "text/event-stream", {"Transfer-Encoding": "chunked"})
        for event in events:
            self._writer.write(b"%x\r\n%b\r\n" % (len(event), event))
            await self._writer.drain()
        if end:
            self._writer.write(b"0\r\n\r\n")
            await self._writer.drain()

    def _head(self, status: int, content_type: str, headers: Mapping[str, str]) -> None:
        lines = {"Content-Type": content_type, "Connection": "close", **headers}
        text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self._writer.write(f"HTTP/1.1 {status} Reply\r\n{text}\r\n".encode("latin-1"))

    async def _fall_silent(self) -> None:
        self._came.silent.set()
        with contextlib.suppress(ConnectionError):
            await self._reader.read(1)


def _event(chunk: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"


def _usage_of(completion: Completion) -> dict[str, int]:
    usage = completion.usage if completion.usage != Usage() else _USAGE
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _calls_of(completion: Completion, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    # Ids from the number of messages: the same conversation gets the same ids.
    played = numbered(completion, len(body.get("messages") or ()))
    return [
        {
            "id": one.id,
            "type": "function",
            "function": {"name": one.function.name, "arguments": one.function.arguments},
        }
        for one in played.message.tool_calls
    ]


def _chunks(
    completion: Completion, body: Mapping[str, Any], usage: Any = None, told: str = "content"
) -> list[dict[str, Any]]:
    """The answer in pieces: reasoning, text, calls, the reason of its end, usage if asked for."""

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {**_frame(body, "chat.completion.chunk"), "choices": [choice]}

    choice = completion.choices[0]
    pieces = [chunk({"role": "assistant", "content": ""})]
    for key, text in (
        ("reasoning_content", choice.message.reasoning_content),
        (told, choice.message.content),
    ):
        pieces += [chunk({key: piece}) for piece in _pieces(text or "")]
    for index, one in enumerate(_calls_of(completion, body)):
        name, arguments = one["function"]["name"], one["function"]["arguments"]
        opened = {**one, "index": index, "function": {"name": name, "arguments": ""}}
        pieces.append(chunk({"tool_calls": [opened]}))
        pieces += [
            chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
            for piece in _pieces(arguments)
        ]
    pieces.append(chunk({}, choice.finish_reason))
    if (body.get("stream_options") or {}).get("include_usage"):
        counted = usage or _usage_of(completion)
        frame = _frame(body, "chat.completion.chunk")
        pieces.append({**frame, "choices": [], "usage": counted})
    return pieces


def _pieces(text: str) -> list[str]:
    return [text[i : i + _PIECE] for i in range(0, len(text), _PIECE)]


def _whole_body(
    completion: Completion, body: Mapping[str, Any], usage: Any, told: str
) -> dict[str, Any]:
    choice = completion.choices[0]
    message: dict[str, Any] = {"role": "assistant", "content": None, told: choice.message.content}
    if choice.message.reasoning_content:
        message["reasoning_content"] = choice.message.reasoning_content
    if calls := _calls_of(completion, body):
        message["tool_calls"] = calls
    return {
        **_frame(body, "chat.completion"),
        "choices": [{"index": 0, "message": message, "finish_reason": choice.finish_reason}],
        "usage": usage or _usage_of(completion),
    }


def _frame(body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": body.get("model", "")}


_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KEYS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {
        "role",
        "content",
        "name",
        "tool_calls",
        "reasoning_content",
        "thinking_blocks",
        "refusal",
    },
    "tool": {"role", "content", "name", "tool_call_id"},
}


def transcript_breach(messages: Any) -> str | None:
    """The first thing in ``messages`` that a strict provider refuses, in one sentence."""
    if not isinstance(messages, list) or not messages:
        return f"'messages' must be a list that is not empty, got {messages!r}."
    ids: set[str] = set()
    owed: list[str] = []
    for i, message in enumerate(messages):
        where = f"messages[{i}]"
        role = message.get("role") if isinstance(message, dict) else None
        if role not in _KEYS:
            return f"{where} has the unknown role {role!r}."
        if extra := sorted(set(message) - _KEYS[role]):
            return f"{where} has the unknown keys {extra!r}."
        if "name" in message and not _NAME.fullmatch(str(message["name"])):
            return f"{where} has the name {message['name']!r}."
        content, made = message.get("content"), message.get("tool_calls")
        if role == "tool":
            answered = message.get("tool_call_id")
            if answered not in owed:
                return f"{where} answers {answered!r}, which no call before it waits for."
            owed.remove(answered)
            if not isinstance(content, str | list):
                return f"{where} has the content {content!r}."
            continue
        if owed:
            return f"{where} comes before the results of the calls {owed!r}."
        if made is None or role != "assistant":
            if not (content.strip() if isinstance(content, str) else content):
                return f"{where} says nothing."
            continue
        if not isinstance(made, list) or not made:
            return f"{where} has the tool_calls {made!r}."
        for call in made:
            breach = _call_breach(call, ids)
            if breach is not None:
                return f"{where}: {breach}"
            ids.add(call["id"])
            owed.append(call["id"])
    return f"the calls {owed!r} have no results." if owed else None


def _call_breach(call: Any, ids: set[str]) -> str | None:
    if not isinstance(call, dict) or call.get("type") != "function":
        return f"{call!r} is no function call."
    if not isinstance(call.get("id"), str) or not call["id"]:
        return f"a call has the id {call.get('id')!r}."
    if call["id"] in ids:
        return f"the id {call['id']!r} is used twice."
    function = call.get("function") or {}
    if not _NAME.fullmatch(str(function.get("name") or "")):
        return f"a call has the name {function.get('name')!r}."
    try:
        arguments = json.loads(function["arguments"], parse_constant=_refuse)
    except (KeyError, TypeError, ValueError):
        arguments = None
    if not isinstance(arguments, dict):
        return f"the arguments of {function['name']!r} are not a JSON object."
    return None


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
