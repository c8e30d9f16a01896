"""What a run may spend, reckoned before it is spent.

Pure. A demand is what was counted, what the next request would add at most, and the limit; over
means strictly more.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Guard = Literal["tokens", "cost"]

# From here on a run stops exploring and comes to its end.
SOFT_SHARE = 0.8

# English prose and code hold about four bytes a token; other scripts hold more bytes and as many
# tokens, so bytes err on the safe side.
BYTES_PER_TOKEN = 4

# What an answer may take that nobody has limited: a long step of code and the words around it.
ANSWER_TOKENS = 1_000


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
            return f"${self.used:.4f} of ${self.limit:.2f}"
        return f"{self.used:,.0f} of {self.limit:,.0f} tokens"


def tokens_in(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> int:
    """About how many tokens a request holds, by its size."""
    size = sum(
        _size(message.get("content"))
        + sum(_size(call["function"].get("arguments")) for call in message.get("tool_calls") or ())
        for message in messages
    )
    return (size + _size(list(tools))) // BYTES_PER_TOKEN + 1


def _size(value: Any) -> int:
    if value is None:
        return 0
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
