"""A loop breaker that looks at calls alone: a library for loops of one's own.

The thresholds count the current attempt, and a call that trips is not kept. It knows nothing of
what came back, so three different orders looked up in a row are a loop to it; what a run uses is
``gate.loops``, which judges call and observation together.
"""

import hashlib
import json
from collections.abc import Mapping
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Any, TypedDict

# The arguments whose words say what a call is about.
_INTENT_FIELDS = ("query", "prompt", "text", "task")


class PastCall(TypedDict):
    """One call as it is remembered."""

    tool: str
    args_hash: str
    intent_text: str


class LoopBreaker:
    """Says of each call, before it is made, whether it would go round in a loop.

    Args:
        max_steps: calls that may be made at all.
        max_identical: how many equal calls, or calls with nearly the same words, are a loop.
        same_tool_streak: how many calls of one tool in a row are a loop.
        semantic_threshold: from which likeness on, 0 to 1, words are nearly the same.
    """

    def __init__(
        self,
        max_steps: int = 15,
        max_identical: int = 3,
        same_tool_streak: int = 5,
        semantic_threshold: float = 0.9,
    ) -> None:
        self.max_steps = max_steps
        self.max_identical = max_identical
        self.same_tool_streak = same_tool_streak
        self.semantic_threshold = semantic_threshold
        self.tool_call_history: list[PastCall] = []

    def check(self, tool_name: str, args: Mapping[str, Any]) -> bool:
        """Whether this call would be one too many. A call that is not is kept in the history."""
        call = PastCall(
            tool=tool_name,
            args_hash=_hash_of(tool_name, args),
            intent_text=_intent_of(tool_name, args),
        )
        if (
            len(self.tool_call_history) >= self.max_steps
            or self._identical(call) >= self.max_identical
            or self._streak(call) >= self.same_tool_streak
            or self._similar(call) >= self.max_identical
        ):
            return True
        self.tool_call_history.append(call)
        return False

    def _identical(self, call: PastCall) -> int:
        return 1 + sum(past["args_hash"] == call["args_hash"] for past in self.tool_call_history)

    def _streak(self, call: PastCall) -> int:
        newest_first = reversed(self.tool_call_history)
        return 1 + sum(1 for _ in takewhile(lambda p: p["tool"] == call["tool"], newest_first))

    def _similar(self, call: PastCall) -> int:
        window = self.tool_call_history[-(self.same_tool_streak - 1) :]
        return 1 + sum(
            SequenceMatcher(None, past["intent_text"], call["intent_text"]).ratio()
            >= self.semantic_threshold
            for past in window
        )


def _hash_of(tool_name: str, args: Mapping[str, Any]) -> str:
    canonical = json.dumps([tool_name, dict(args)], sort_keys=True, default=str)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _intent_of(tool_name: str, args: Mapping[str, Any]) -> str:
    words = (args.get(name) for name in _INTENT_FIELDS)
    return " ".join([tool_name, *(str(each).strip().lower() for each in words if each)])
