"""What a run may spend, reckoned before it is spent.

Pure. A demand is what was counted, what the next request would add at most, and the limit; over
means strictly more.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from parsimony_kernel.core.chat import Message, ModelRequest, Usage
from parsimony_kernel.core.pictures import pictures_in, tokens_of

Guard = Literal["tokens", "cost"]

# From here on a run stops exploring and comes to its end.
SOFT_SHARE = 0.8

# English prose and code hold about four bytes a token; other scripts hold more bytes and as many
# tokens, so bytes err on the safe side.
BYTES_PER_TOKEN = 4

# What an answer may take that nobody has limited: a long step of code and the words around it.
ANSWER_TOKENS = 1_000

# No request is near these: a larger number is a fault of whoever counted.
MOST_TOKENS = 10_000_000
MOST_USD = 1_000_000.0


@dataclass(frozen=True)
class Demand:
    """What one guard is asked for: US dollars for ``cost``, else tokens."""

    guard: Guard
    used: float
    reserved: float
    limit: float

    @property
    def is_over(self) -> bool:
        """Whether the request must not be made."""
        return self.used + self.reserved > self.limit

    @property
    def is_near(self) -> bool:
        """Whether the soft limit is passed."""
        return self.used + self.reserved > SOFT_SHARE * self.limit

    def in_words(self) -> str:
        """One clause for people, such as ``812 of 1,000 tokens``."""
        if self.guard == "cost":
            return f"${self.used:.4f} of {dollars(self.limit)}"
        return f"{self.used:,.0f} of {self.limit:,.0f} tokens"


def tokens_in(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> int:
    """About how many tokens a request holds, by its size."""
    shown = sum(tokens_of(each) for message in messages for each in pictures_in(message))
    size = sum(
        _size(_in_words(message.get("content")))
        + _size(message.get("opaque"))
        + sum(_size(call["function"].get("arguments")) for call in message.get("tool_calls") or ())
        for message in messages
    )
    return (size + _size(list(tools))) // BYTES_PER_TOKEN + 1 + shown


def _in_words(content: Any) -> Any:
    """``content`` without its pictures, which are counted by their pixels."""
    if not isinstance(content, list):
        return content
    return [part for part in content if not (isinstance(part, Mapping) and "image_url" in part)]


def tokens_said(message: Message) -> int:
    """About how many tokens an answer holds, by its size; its reasoning counts."""
    size = _size(message.content) + _size(message.reasoning_content)
    for call in message.tool_calls:
        size += _size(call.function.name) + _size(call.function.arguments)
    return size // BYTES_PER_TOKEN + 1


def usage_by_size(request: ModelRequest, message: Message) -> Usage:
    """What a request and its answer used, where nobody has counted it."""
    return Usage(tokens_in(request.messages, request.tools), tokens_said(message))


def counted(usage: Any) -> Usage | None:
    """The tokens that ``usage`` tells, where they can be true and are not both zero."""
    prompt = _within(getattr(usage, "prompt_tokens", None), MOST_TOKENS)
    completion = _within(getattr(usage, "completion_tokens", None), MOST_TOKENS)
    if prompt is None or completion is None:
        return None
    if not prompt and not completion:
        return None
    details = getattr(usage, "prompt_tokens_details", None)
    read = getattr(usage, "cached_tokens", None) or getattr(details, "cached_tokens", None)
    written = getattr(usage, "cache_write_tokens", None)
    written = written or getattr(usage, "cache_creation_input_tokens", None)
    cached = (int(_within(each, prompt) or 0) for each in (read, written))
    return Usage(int(prompt), int(completion), *cached)


def dollars(amount: float) -> str:
    """An amount of US dollars in words: to the cent, and as far as it takes where it is less."""
    cents = f"{amount:,.2f}"
    exact = f"{amount:,.6f}".rstrip("0")
    return f"${cents if len(exact) <= len(cents) or amount >= 1 else exact}"


def usd(value: Any) -> float | None:
    """``value`` as US dollars; ``None`` when it is no price."""
    return _within(value, MOST_USD)


def _within(value: Any, most: float) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= most else None


def _size(value: Any) -> int:
    if value is None:
        return 0
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
