"""The protocol between the loop and a chat model, and the calls that a model requests.

Values and one protocol. A completion has litellm's shape
(``choices[0].message.tool_calls[i].function.arguments``), so that detectors read both alike.
"""

import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol, runtime_checkable

from parsimony_kernel.core.text import encodable


@dataclass(frozen=True)
class ModelRequest:
    """One request: rendered messages, tool schemas, and timeouts.

    Messages and schemas are shared with other requests of the run: copy one before changing it.
    ``heartbeat_s`` asks for a ``Beat`` after each such period of silence; ``deadline_s`` limits the
    whole answer, even while it streams. ``max_answer_tokens`` is the budget left for the answer,
    reasoning included; an adapter passes it to its provider.
    """

    messages: Sequence[dict[str, Any]]
    tools: Sequence[dict[str, Any]] = ()
    timeout_s: float = 60.0
    heartbeat_s: float | None = None
    deadline_s: float | None = None
    max_answer_tokens: int | None = None


@dataclass(frozen=True)
class Delta:
    """A chunk of a streaming answer; either field may be empty."""

    text: str = ""
    reasoning: str = ""


@dataclass(frozen=True)
class Beat:
    """The model has been silent for ``silent_s`` seconds, and the loop still waits."""

    silent_s: float


@dataclass(frozen=True)
class FunctionCall:
    """A tool's name and its arguments as JSON text, exactly as the model wrote them."""

    name: str
    arguments: str


@dataclass(frozen=True)
class ToolCall:
    """One requested call."""

    id: str
    function: FunctionCall
    type: str = "function"


@dataclass(frozen=True)
class Message:
    """The assistant's message.

    ``opaque`` is JSON that the provider wants back unchanged, such as signed thinking; nothing in
    between reads it, see ``llm.extras``.
    """

    content: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning_content: str | None = None
    opaque: str = ""
    role: str = "assistant"


@dataclass(frozen=True)
class Choice:
    """The single alternative of a completion."""

    message: Message
    finish_reason: str | None = "stop"


@dataclass(frozen=True)
class Usage:
    """Token counts of one request, with the prompt tokens read from and written to a cache."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(frozen=True)
class Completion:
    """A whole answer. ``cost_usd`` is ``None`` if the price is unknown."""

    choices: tuple[Choice, ...]
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    cost_usd: float | None = None

    @property
    def message(self) -> Message:
        return self.choices[0].message


def answer(
    text: str | None = None,
    calls: Sequence[ToolCall] = (),
    *,
    model: str = "",
    usage: Usage | None = None,
    cost_usd: float | None = None,
) -> Completion:
    """Build a completion with ``text`` and the requested ``calls``."""
    message = Message(content=text, tool_calls=tuple(calls))
    choice = Choice(message, "tool_calls" if calls else "stop")
    return Completion((choice,), usage or Usage(), model, cost_usd)


# What a model streams.
Item = Delta | Completion


class StandInError(AssertionError):
    """A stand-in for a model was used against its script: a test's error, never a transient one."""


# The name of the built-in rule-based model (no LLM).
OFFLINE = "offline"


@runtime_checkable
class ChatModel(Protocol):
    """Anything that answers a request.

    ``stream`` yields any number of ``Delta`` and then exactly one ``Completion``. It makes one
    attempt, keeps no state between requests, stops when its task is cancelled, and raises its
    transport's errors; the chokepoint translates them.
    """

    @property
    def name(self) -> str:
        """The model's name in the record, such as ``offline`` or ``openai/gpt-5``."""

    def stream(self, request: ModelRequest) -> AsyncIterator[Item]:
        """Stream the answer to ``request``."""


# Larger than any code that a model writes, deeper than any schema.
_MAX_ARGUMENTS = 1_000_000
_MAX_DEPTH = 40
_QUOTED = 2_000

# Text for the person while the call runs; not part of its identity.
_NOT_IDENTITY = "_ui_message"


def loop_signature(name: str, args: dict[str, Any]) -> str:
    """Return ``name:8 hex digits``, a digest of the arguments; rephrased equal calls share it."""
    identity = {key: value for key, value in args.items() if key != _NOT_IDENTITY}
    text = json.dumps(identity, sort_keys=True, default=str)
    return f"{name}:{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def arguments_of(call: Any) -> dict[str, Any]:
    """Parse the arguments of a litellm-shaped call.

    Text that is not a JSON object, or is too long or too deeply nested for arguments, is returned
    as ``_raw_args``, cut to a quotable length.
    """
    raw = call.function.arguments
    if isinstance(raw, dict):
        return raw
    quoted = {"_raw_args": encodable(raw[:_QUOTED]) if isinstance(raw, str) else raw}
    if isinstance(raw, str) and len(raw) > _MAX_ARGUMENTS:
        return quoted
    try:
        parsed = json.loads(raw) if raw else {}
    except (TypeError, ValueError, RecursionError):  # RecursionError: endlessly nested text
        return quoted
    if not isinstance(parsed, dict) or _depth(parsed) > _MAX_DEPTH:
        return quoted
    cleaned: dict[str, Any] = encodable(parsed)
    return cleaned


def _depth(value: Any) -> int:
    """Return the nesting depth of ``value``, counting no further than ``_MAX_DEPTH`` + 1."""
    level, deep = [value], 0
    while level and deep <= _MAX_DEPTH:
        inner = [each for each in level if isinstance(each, dict | list)]
        parts = (each.values() if isinstance(each, dict) else each for each in inner)
        level = list(chain.from_iterable(parts))
        deep += 1
    return deep


def tool_name_of(call: Any) -> str:
    """Return the name of the tool that ``call`` requests, for every shape of call."""
    if isinstance(call, str):
        return call
    if isinstance(call, dict):
        return str(call.get("function", {}).get("name", call.get("name", "tool")))
    function = getattr(call, "function", None)
    return str(getattr(function, "name", None) or getattr(call, "name", "tool"))
