"""A provider on loopback: OpenAI's chat completions over real HTTP, with faults on demand.

So that what is tested is the client that will talk to a real provider. Standard library only. The
server never sleeps: silence lasts until the client goes away or the server stops. By default it
is as strict about transcripts as the strictest provider.
"""

import asyncio
import json
import math
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from email import message_from_string
from enum import StrEnum
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


# What an answer that is not streamed can have as well.
_IN_THE_ANSWER = (
    *(None, Wire.refusal, Wire.empty_choices),
    *(Wire.usage_missing, Wire.usage_nan, Wire.usage_absurd),
)


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
UNKNOWN_MODEL = HttpError(404, "The model does not exist.", "model_not_found")
CONTEXT_LENGTH = HttpError(
    400,
    "This model's maximum context length is 8192 tokens, and the messages hold 9001.",
    "context_length_exceeded",
)
CONTENT_POLICY = HttpError(400, "The request was rejected.", "content_policy_violation")


@dataclass(frozen=True)
class Raw:
    """A reply in the bytes of another protocol."""

    body: bytes
    kind: str = "text/event-stream"


Reply = Completion | Faulty | HttpError | Raw
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
        path: where it answers, and ``breach`` what it refuses when strict; for another protocol.

    ``url`` is the ``api_base``; ``requests`` is what came. On leaving, a fault of the server
    itself is raised.
    """

    def __init__(
        self,
        script: Iterable[Step] = (),
        *,
        strict: bool = True,
        path: str = "/v1/chat/completions",
        breach: Callable[[dict[str, Any]], str | None] | None = None,
    ) -> None:
        self.requests: list[Recorded] = []
        self._script: Iterator[Step] = iter(script)
        self._path = path
        self._breach = (breach or _chat_breach) if strict else None
        self._too_many = 0
        self._trouble: list[Exception] = []

    def __enter__(self) -> "LoopbackProvider":
        listening, opened = socket.create_server(("127.0.0.1", 0)), threading.Event()
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        serving = self._live(listening, opened)
        self._thread = threading.Thread(target=asyncio.run, args=(serving,), daemon=True)
        self._thread.start()
        opened.wait()
        return self

    def __exit__(self, kind: object, exc: BaseException | None, traceback: object) -> None:
        self._loop.call_soon_threadsafe(self._is_over.set)
        self._thread.join()
        if exc is None and self._trouble:
            raise self._trouble[0]

    def assert_exhausted(self) -> None:
        """``AssertionError`` unless exactly as many requests came as the script has steps."""
        if self._too_many:
            raise AssertionError(f"{self._too_many} requests came after the script's last step")
        left = next(self._script, None)
        if left is not None:
            raise AssertionError(f"after {len(self.requests)} requests nobody asked for {left!r}")

    async def _live(self, listening: socket.socket, opened: threading.Event) -> None:
        """Serve until the ``with`` ends, which cancels the connections that are left."""
        self._loop, self._is_over = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._serve, sock=listening)
        opened.set()
        await self._is_over.wait()
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request on one connection, which closes behind it."""
        came = None
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("iso-8859-1")
            start, _, rest = head.partition("\r\n")
            headers = {name.lower(): value for name, value in message_from_string(rest).items()}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            came = Recorded(start.split()[1], headers, json.loads(body) if body else {})
            await self._answer(came, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # a client may go away; anything else is a bug of this server or of a step
        except Exception as exc:  # boundary: tool - a step of the script, raised at the end
            self._trouble.append(exc)
        finally:
            writer.transport.abort()
        if came is not None:  # and this server doesn't end, which cancels it
            came.gone.set()

    async def _answer(
        self, came: Recorded, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Send the reply, and wait until the client has closed its side too."""
        reply = self._take(came)
        wire = reply.wire if isinstance(reply, Faulty) else None
        if wire is Wire.reset:
            # A linger of zero turns the close into a reset instead of an orderly end.
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            return
        for piece in _bytes_of(reply, came):
            writer.write(piece)
            await writer.drain()
        if wire in (Wire.silence, Wire.silence_midway):
            came.silent.set()
            await reader.read(1)
        with suppress(OSError):  # it may have done so already
            writer.write_eof()
            await reader.read()

    def _take(self, came: Recorded) -> Reply:
        """Record a request and give its reply."""
        self.requests.append(came)
        if came.path.partition("?")[0] != self._path:
            return HttpError(404, f"There is nothing at {came.path!r}.", "unknown_url")
        if self._breach is not None and (breach := self._breach(came.body)):
            return HttpError(400, breach, "invalid_messages")
        for step in self._script:
            return step(came.body) if callable(step) else step
        self._too_many += 1
        return HttpError(400, "The script of the loopback provider is over.", "script_over")


def _bytes_of(reply: Reply, came: Recorded) -> Iterator[bytes]:
    """The reply as it is sent, piece by piece."""
    match reply:
        case HttpError():
            key = came.headers.get("authorization", "").removeprefix("Bearer ")
            told = _error(reply.message.replace("{key}", key), reply.type, reply.code)
            yield _whole(_json(told), "application/json", reply.status, reply.headers)
        case Completion():
            yield from _completed(reply, came.body)
        case Raw(body, kind):
            yield _whole(body, kind)
        case Faulty(Wire.silence):
            pass
        case Faulty(Wire.garbage):
            yield _whole(b"<html><body>Welcome</body></html>", "text/html")
        case Faulty(Wire.empty_body):
            yield _whole(b"", "text/html")
        case Faulty(wire, completion):
            yield from _completed(completion, came.body, wire)


def _completed(
    completion: Completion, asked: dict[str, Any], wire: Wire | None = None
) -> Iterator[bytes]:
    if not asked.get("stream") and wire in _IN_THE_ANSWER:
        message, finish = _message(completion, asked, wire), completion.choices[0].finish_reason
        body = _frame(asked, "chat.completion") | {
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": _usage(completion, wire),
        }
        yield _whole(_json(body), "application/json")
        return
    events = [*map(_event, _chunks(completion, asked, wire)), b"data: [DONE]\n\n"]
    half = events[: max(1, len(events) // 3)]
    match wire:
        case Wire.cut | Wire.ended_early | Wire.silence_midway:
            events = half
        case Wire.garbage_event:
            events = [*half, b"data: {not json\n\n"]
        case Wire.error_event:
            events = [*half, _event(_error("It broke.", "server_error", None))]
        case Wire.comments:
            events = [part for event in events for part in (b": wait\n\n", event)]
        case Wire.crlf:
            events = [event.replace(b"\n", b"\r\n") for event in events]
        case Wire.doubled_done:
            events = [*events, events[-1]]
        case Wire.split_bytes:
            events = [bytes([byte]) for byte in b"".join(events)]
    yield _head(200, "text/event-stream", {"Transfer-Encoding": "chunked"})
    for event in events:
        yield b"%x\r\n%b\r\n" % (len(event), event)
    if wire not in (Wire.cut, Wire.silence_midway):
        yield b"0\r\n\r\n"


def _whole(
    body: bytes, kind: str, status: int = 200, headers: Mapping[str, str] | None = None
) -> bytes:
    return _head(status, kind, {"Content-Length": str(len(body)), **(headers or {})}) + body


def _head(status: int, kind: str, headers: Mapping[str, str]) -> bytes:
    fields = {"Content-Type": kind, "Connection": "close", **headers}
    lines = [f"HTTP/1.1 {status} Reply", *map(": ".join, fields.items())]
    return "\r\n".join([*lines, "\r\n"]).encode()


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _error(message: str, kind: str, code: str | None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _event(chunk: Mapping[str, Any]) -> bytes:
    return b"data: " + _json(chunk) + b"\n\n"


def _frame(body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": body.get("model", "")}


def _usage(completion: Completion, wire: Wire | None) -> dict[str, Any]:
    usage = completion.usage if completion.usage != Usage() else _USAGE
    match wire:
        case Wire.usage_nan:
            return {"prompt_tokens": math.nan, "completion_tokens": math.nan}
        case Wire.usage_absurd:
            return {"prompt_tokens": 10**15, "completion_tokens": -3}
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def _message(completion: Completion, body: Mapping[str, Any], wire: Wire | None) -> dict[str, Any]:
    # Ids from the number of messages: the same conversation gets the same ids.
    said = numbered(completion, len(body.get("messages") or ())).message
    told = "refusal" if wire is Wire.refusal else "content"
    message: dict[str, Any] = {"role": "assistant", "content": None, told: said.content}
    if said.reasoning_content:
        message["reasoning_content"] = said.reasoning_content
    if said.tool_calls:
        message["tool_calls"] = [asdict(one) for one in said.tool_calls]
    return message


def _chunks(completion: Completion, body: dict[str, Any], wire: Wire | None) -> list[Any]:
    """The answer in pieces: reasoning, text, calls, the reason of its end, usage if asked for."""
    message = _message(completion, body, wire)
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    for key in ("reasoning_content", "content", "refusal"):
        deltas += [{key: piece} for piece in _pieces(message.get(key) or "")]
    for index, one in enumerate(message.get("tool_calls", ())):
        opened = {**one, "index": index, "function": {**one["function"], "arguments": ""}}
        deltas.append({"tool_calls": [opened]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            for piece in _pieces(one["function"]["arguments"])
        ]
    frame = _frame(body, "chat.completion.chunk")
    ends = [*(None for _ in deltas), completion.choices[0].finish_reason]
    choices = [
        {"index": 0, "delta": delta, "finish_reason": end}
        for delta, end in zip([*deltas, {}], ends, strict=True)
    ]
    is_empty = wire is Wire.empty_choices
    chunks = [{**frame, "choices": [] if is_empty else [choice]} for choice in choices]
    is_counted = (body.get("stream_options") or {}).get("include_usage")
    if is_counted and wire is not Wire.usage_missing:
        chunks.append({**frame, "choices": [], "usage": _usage(completion, wire)})
    return chunks


def _pieces(text: str) -> list[str]:
    return [text[i : i + _PIECE] for i in range(0, len(text), _PIECE)]


_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SPOKEN = {"role", "content", "name"}
_KEYS = {
    "system": _SPOKEN,
    "developer": _SPOKEN,
    "user": _SPOKEN,
    "assistant": _SPOKEN | {"tool_calls", "reasoning_content", "refusal"},
    "tool": _SPOKEN | {"tool_call_id"},
}


def _chat_breach(body: Mapping[str, Any]) -> str | None:
    return transcript_breach(body.get("messages"))


def transcript_breach(messages: Any) -> str | None:
    """The first thing in ``messages`` that a strict provider refuses, in one sentence."""
    if not isinstance(messages, list) or not messages:
        return f"'messages' must be a list that is not empty, got {messages!r}."
    ids, owed = set[str](), list[str]()
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
            if breach := _call_breach(call, ids):
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
