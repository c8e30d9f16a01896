"""What a chat model is to the loop.

Values and one protocol. A completion has the shape that litellm gives
(``choices[0].message.tool_calls[i].function.arguments``), so that detectors read both alike.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True)
class ModelRequest:
    """One request: rendered messages, the tools' schemas, and how long the model may be silent.

    Messages and schemas are shared with other requests of the run: copy before changing one.
    ``heartbeat_s`` asks for a sign each time the model was silent for so long; ``deadline_s``
    ends the whole answer, however lively it is. ``max_answer_tokens`` is what a budget has left for
    the answer, reasoning included: an adapter passes it on to its provider.
    """

    messages: Sequence[dict[str, Any]]
    tools: Sequence[dict[str, Any]] = ()
    timeout_s: float = 60.0
    heartbeat_s: float | None = None
    deadline_s: float | None = None
    max_answer_tokens: int | None = None


@dataclass(frozen=True)
class Delta:
    """A piece of a streaming answer; either may be empty."""

    text: str = ""
    reasoning: str = ""


@dataclass(frozen=True)
class Beat:
    """The model has said nothing for ``silent_s`` seconds and is waited for."""

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
    """The assistant's turn.

    ``opaque`` is what its provider wants back as it came, such as signed thinking: JSON that
    nobody reads on the way, see ``llm.thinking``.
    """

    content: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning_content: str | None = None
    opaque: str = ""
    role: str = "assistant"


@dataclass(frozen=True)
class Choice:
    """The one alternative that is asked for."""

    message: Message
    finish_reason: str | None = "stop"


@dataclass(frozen=True)
class Usage:
    """Tokens of one request. Of the prompt, so many were read from a cache, and written to it."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(frozen=True)
class Completion:
    """A whole answer. ``cost_usd`` is ``None`` when the price is unknown."""

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
    """A completion that says ``text`` and requests ``calls``."""
    message = Message(content=text, tool_calls=tuple(calls))
    choice = Choice(message, "tool_calls" if calls else "stop")
    return Completion((choice,), usage or Usage(), model, cost_usd)


class StandInError(AssertionError):
    """A stand-in for a model was used against its script: a test's fault, and never weather."""


# The name of the model that is built in.
OFFLINE = "offline"


@runtime_checkable
class ChatModel(Protocol):
    """Anything that answers a request.

    ``stream`` yields any number of ``Delta`` and last, exactly one ``Completion``. It makes one
    attempt, holds no state between requests, stops when its task is cancelled, and raises what
    its transport raises: translation is the chokepoint's.
    """

    @property
    def name(self) -> str:
        """What the record calls the model, such as ``offline`` or ``openai/gpt-5``."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Completion]:
        """Answer ``request``."""
        ...
