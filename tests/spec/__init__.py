"""What the documents' programs run against: a litellm whose answers are written beforehand."""

import asyncio
import inspect
import json
import os
import re
from collections.abc import AsyncIterator, Callable
from copy import deepcopy
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from parsimony_kernel.agent.config import AgentGuardrails
from parsimony_kernel.agent.failure import DefaultPolicy, FailureKind
from parsimony_kernel.agent.state import RunState
from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.llm import chokepoint
from parsimony_kernel.llm.litellm_model import import_litellm
from parsimony_kernel.tools import Tool, ToolResult, Tools
from tests.transcripts import user

SECRET = "a secret of the tests"
Fields = dict[str, Any]
# What the fixtures give that run an agent over replies, or answer its question.
Run = Callable[..., Any]

# What litellm's own classes warn of when they are first used.
LITELLM_WARNS = "ignore:Item 'summary' on TypedDict class:UserWarning"


@dataclass(frozen=True)
class Reply:
    """One answer of the model. ``calls`` are pairs of a tool's name and its arguments."""

    text: str = ""
    calls: tuple[tuple[str, Any], ...] = ()
    finish: str | None = None
    usage: tuple[int, int] | None = (10, 5)

    @property
    def finish_reason(self) -> str:
        return self.finish or ("tool_calls" if self.calls else "stop")


def done(summary: str = "All of it is done.") -> Reply:
    """The model ends the run."""
    return Reply(calls=(("return_done", {"summary": summary}),))


def ask(question: str = "Which series?", **more: Any) -> Reply:
    """The model puts a question."""
    return Reply(calls=(("ask_user", {"question": question, **more}),))


def use(name: str, **arguments: Any) -> Reply:
    """The model calls one tool."""
    return Reply(calls=((name, arguments),))


class StatusError(Exception):
    """An error of a client that has a response."""

    def __init__(self, status: int, text: str = "", **headers: str) -> None:
        super().__init__(text or f"status {status}")
        self.status_code = status
        self.response = type("Response", (), {"status_code": status, "headers": headers})()


def _calls(reply: Reply, stem: str) -> list[Fields]:
    return [
        {
            "index": index,
            "id": f"{stem}_{index}",
            "type": "function",
            "function": {
                "name": name,
                "arguments": given if isinstance(given, str) else json.dumps(given),
            },
        }
        for index, (name, given) in enumerate(reply.calls)
    ]


def _usage(reply: Reply) -> dict[str, int] | None:
    if reply.usage is None:
        return None
    prompt, completion = reply.usage
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def as_object(value: Any) -> Any:
    """Dicts, however deep, as plain objects with attributes."""
    if isinstance(value, dict):
        return SimpleNamespace(**{key: as_object(one) for key, one in value.items()})
    if isinstance(value, list):
        return [as_object(one) for one in value]
    return value


def whole_body(reply: Reply, stem: str = "call") -> Fields:
    """The answer as the wire carries it in one piece."""
    calls = [{key: one[key] for key in ("id", "type", "function")} for one in _calls(reply, stem)]
    message = {"role": "assistant", "content": reply.text or None, "tool_calls": calls or None}
    return {
        "id": "answer",
        "model": "gpt-4o-mini",
        "choices": [{"index": 0, "finish_reason": reply.finish_reason, "message": message}],
        "usage": _usage(reply),
    }


def _chunk(delta: Fields, finish: str | None = None) -> Fields:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def chunk_bodies(reply: Reply, stem: str = "call") -> list[Fields]:
    """The answer as the wire carries it in pieces: text by word, arguments in two halves."""
    words = [_chunk({"content": word}) for word in re.findall(r"\S+\s*", reply.text)]
    pieces = [_chunk({"role": "assistant", "content": ""}), *words]
    for one in _calls(reply, stem):
        text = one["function"]["arguments"]
        half = len(text) // 2
        first = {**one, "function": {**one["function"], "arguments": text[:half]}}
        rest = {"index": one["index"], "function": {"arguments": text[half:]}}
        pieces += [_chunk({"tool_calls": [first]}), _chunk({"tool_calls": [rest]})]
    pieces.append(_chunk({}, reply.finish_reason))
    if (usage := _usage(reply)) is not None:
        pieces.append({"choices": [], "usage": usage})
    return pieces


async def _stream(pieces: list[Any]) -> AsyncIterator[Any]:
    for piece in pieces:
        await asyncio.sleep(0)
        yield piece


_PIECE = {"content": None, "tool_calls": None, "role": None}
_CALL_PIECE = {"id": None, "type": None}


def _filled(body: Fields) -> Fields:
    """A piece with every attribute that a client's object has, None where the wire has none."""
    filled = {"usage": None, **deepcopy(body)}
    for choice in filled["choices"]:
        choice["delta"] = {**_PIECE, **choice["delta"]}
        for call in choice["delta"]["tool_calls"] or ():
            call["function"].setdefault("name", None)
            call.update({key: call.get(key) for key in _CALL_PIECE})
    return filled


def plain_chunks(reply: Reply, stem: str) -> Any:
    """An async generator of plain objects."""
    return _stream([as_object(_filled(body)) for body in chunk_bodies(reply, stem)])


def litellm_chunks(reply: Reply, stem: str) -> Any:
    """An async generator of litellm's own pieces."""
    from litellm.types.utils import ModelResponseStream

    return _stream([ModelResponseStream(**body) for body in chunk_bodies(reply, stem)])


def plain_whole(reply: Reply, stem: str) -> Any:
    """A whole answer as a plain object."""
    return as_object(whole_body(reply, stem))


def litellm_whole(reply: Reply, stem: str) -> Any:
    """A whole answer as litellm's own object."""
    from litellm import ModelResponse

    body = whole_body(reply, stem)
    return ModelResponse(**{key: value for key, value in body.items() if value is not None})


SHAPES: tuple[Callable[[Reply, str], Any], ...] = (
    plain_chunks,
    litellm_chunks,
    plain_whole,
    litellm_whole,
)


class Provider:
    """Answers each request with the next reply and keeps what was sent.

    A reply is a ``Reply``, a function that makes the error to raise, or that is awaited, or the
    answer itself.
    """

    def __init__(self, *replies: Any, shape: Callable[[Reply, str], Any] = litellm_chunks) -> None:
        self.replies = list(replies)
        self.shape = shape
        self.requests: list[Fields] = []
        self.last = Reply()

    @property
    def asked(self) -> int:
        """How many requests arrived."""
        return len(self.requests)

    async def acompletion(self, **request: Any) -> Any:
        """What litellm's function of that name is replaced by."""
        self.requests.append(
            deepcopy({key: request.get(key) for key in ("model", "messages", "tools")})
        )
        assert self.replies, f"request {self.asked} was not expected"
        reply = self.replies.pop(0)
        if inspect.iscoroutinefunction(reply):
            return await reply()
        if callable(reply):
            raise reply()
        if not isinstance(reply, Reply):
            return reply
        self.last = reply
        return self.shape(reply, f"call_{self.asked}")

    def stream_chunk_builder(self, chunks: list[Any], *_: Any, **__: Any) -> Any:
        """What litellm's function is replaced by where the pieces are not litellm's own."""
        assert chunks
        return plain_whole(self.last, f"call_{self.asked}")


def install(monkeypatch: pytest.MonkeyPatch, provider: Provider) -> Any:
    """Put the provider in the place of litellm's call; no key is in the environment."""
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    monkeypatch.delenv("PARSIMONY_LIVE_CALLS", raising=False)
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(chokepoint, "LIVE_CALLS_ALLOWED", True)
    # All that a first request would import: a test may give a model less time than that takes.
    litellm = import_litellm()
    monkeypatch.setattr(litellm, "acompletion", provider.acompletion)
    if provider.shape is plain_chunks:
        monkeypatch.setattr(litellm, "stream_chunk_builder", provider.stream_chunk_builder)
    return litellm


class PromptPolicy(DefaultPolicy):
    """The shipped policy without its waits."""

    def backoff(self, kind: FailureKind, attempt: int) -> float:
        """No wait for any kind."""
        return 0.0


def bare_agent(**more: Any) -> Any:
    """An agent that is nothing but the six attributes that the loop reads."""
    given: Fields = {
        "guardrails": AgentGuardrails(),
        "policy": PromptPolicy(),
        "suspension_secret": SECRET,
        "model_config": {"model": "gpt-4o-mini"},
        "instructions": "You analyse data.",
        "tools": termination_tools(),
    }
    return SimpleNamespace(**{**given, **more})


def fresh_state(text: str = "What grew most?", **more: Any) -> RunState:
    """A run that has its request and nothing else."""
    given: Fields = {"run_id": "r1", "session_id": "s1", "messages": [user(text)]}
    return RunState(**{**given, **more})


async def collect(events: AsyncIterator[Any]) -> list[Any]:
    """Every event of a run, within ten seconds."""
    async with asyncio.timeout(10):
        return [event async for event in events]


def only(events: list[Any], kind: type) -> Any:
    """The one event of that class."""
    [event] = [event for event in events if isinstance(event, kind)]
    return event


async def look(x: int = 0) -> ToolResult:
    """See a number."""
    return ToolResult.from_data(f"saw {x}")


def tool_of(function: Callable[..., Any], **more: Any) -> Tool:
    """``function`` as a tool that takes ``x``."""
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    return Tool(function, function.__name__, "Looks.", schema, **more)


LOOK = tool_of(look)


def with_ends(*tools: Tool) -> Tools:
    """``tools`` and those that end a run."""
    return Tools(tools) + termination_tools()
