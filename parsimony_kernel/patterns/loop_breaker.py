"""Loop breaker that looks at calls alone, for custom agent loops.

The thresholds include the current call, and a call that trips is not remembered. It ignores
results, so three different orders looked up in a row are a loop to it. A run uses ``gate.loops``
instead, which judges calls together with their results.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Any, TypedDict

from parsimony_kernel.core.effects import action_sha

# Arguments whose words say what a call is about.
_INTENT_FIELDS = ("query", "prompt", "text", "task")


class PastCall(TypedDict):
    """Remembered form of a call."""

    tool: str
    args_hash: str
    intent_text: str


@dataclass(eq=False, repr=False)
class LoopBreaker:
    """Detector that checks each call, before it is made, for a loop.

    Args:
        max_steps: maximum number of calls.
        max_identical: number of equal or similar calls that make a loop.
        same_tool_streak: number of consecutive calls of one tool that make a loop.
        semantic_threshold: similarity, 0 to 1, from which two texts count as similar.
    """

    max_steps: int = 15
    max_identical: int = 3
    same_tool_streak: int = 5
    semantic_threshold: float = 0.9
    tool_call_history: list[PastCall] = field(default_factory=list, init=False)

    def check(self, tool_name: str, args: Mapping[str, Any]) -> bool:
        """Whether this call would be a loop; if not, add it to the history."""
        call = PastCall(
            tool=tool_name,
            args_hash=action_sha(tool_name, args),
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


def _intent_of(tool_name: str, args: Mapping[str, Any]) -> str:
    words = (args.get(name) for name in _INTENT_FIELDS)
    return " ".join([tool_name, *(str(each).strip().lower() for each in words if each)])
