"""Guardrails of a custom agent loop: a loop breaker, a budget, and pinned constraints.

The loop breaker looks at calls alone. Its thresholds include the current call, and a call that
trips is not remembered. It ignores results, so three different orders looked up in a row are a loop
to it; a run uses ``gate.loops`` instead, which judges calls together with their results.

A budget is exceeded by strictly more than its limit. ``consume`` counts a call after it was made:
it detects an excess and does not prevent it. A run has its own (``limits.budget``), which reserves.

Pinned constraints end the prompt. They are a reminder where a model pays most attention, not an
enforcement: the gate enforces rules, see ``gate.rules``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Any, ClassVar, TypedDict

from parsimony_kernel.core.config import MAX_PINNED
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


# Share of the budget from which a run should stop exploring and finish.
SOFT_SHARE = 0.8


class _Default(float):
    """A default limit, told apart from one that the caller set."""


_MAX_COST_USD = _Default(1.0)


class BudgetExhausted(Exception):
    """The budget does not cover the call."""


class TokenBudget:
    """Token and cost budget of a run.

    A model without a price is refused if the caller set a cost limit, which couldn't be enforced.
    Otherwise its cost counts as zero.

    Args:
        max_tokens: limit of input and output tokens together.
        max_cost_usd: limit in US dollars; ``None`` is no limit.
        pricing: by model, US dollars per million ``input`` and ``output`` tokens.

    Raises:
        ValueError: a limit or a price is negative or NaN.
    """

    def __init__(
        self,
        max_tokens: int = 100_000,
        max_cost_usd: float | None = _MAX_COST_USD,
        pricing: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        rates = [rate for prices in (pricing or {}).values() for rate in prices.values()]
        for amount in (max_tokens, max_cost_usd or 0.0, *rates):
            if not amount >= 0:
                raise ValueError(f"a limit or a price is a number from 0 on, not {amount!r}")
        self.max_tokens = max_tokens
        self.max_cost = math.inf if max_cost_usd is None else max_cost_usd
        self.pricing = pricing or {}
        self.used_tokens = 0
        self.estimated_cost = 0.0
        self._prices_needed = max_cost_usd is not None and not isinstance(max_cost_usd, _Default)

    @property
    def is_near(self) -> bool:
        """Whether the soft limit is exceeded: time to stop exploring and finish.

        A summary may then shorten validated and pending work, but must not drop writes, approvals
        and idempotency keys.
        """
        is_much = self.used_tokens > SOFT_SHARE * self.max_tokens
        return is_much or self.estimated_cost > SOFT_SHARE * self.max_cost

    def consume(self, input_tokens: int, output_tokens: int, model: str) -> None:
        """Count the usage of a call; it stays counted even if the budget is exceeded.

        Raises:
            BudgetExhausted: the budget is exceeded.
            ValueError: a number of tokens is invalid.
        """
        for count in (input_tokens, output_tokens):
            if not isinstance(count, int) or count < 0:
                raise ValueError(f"a number of tokens is a whole number from 0 on, not {count!r}")
        self.used_tokens += input_tokens + output_tokens
        self.estimated_cost += self._cost(input_tokens, output_tokens, model)
        if self.used_tokens > self.max_tokens:
            raise BudgetExhausted(f"Token limit exceeded: {self.used_tokens}/{self.max_tokens}")
        if self.estimated_cost > self.max_cost:
            raise BudgetExhausted(
                f"Cost limit exceeded: ${self.estimated_cost:.2f}/${self.max_cost:.2f}"
            )

    def _cost(self, input_tokens: int, output_tokens: int, model: str) -> float:
        rates = self.pricing.get(model)
        if rates is None:
            if self._prices_needed:
                raise BudgetExhausted(f"Pricing missing for model: {model}")
            return 0.0
        return (input_tokens * rates["input"] + output_tokens * rates["output"]) / 1_000_000


FEWEST = 3
RECENT_MESSAGES = 10
CRITICAL_CONSTRAINTS = (
    "Keep personal data out of every answer.",
    "Ask for a confirmation before anything that changes data.",
    "Ask when something is not clear; do not guess.",
    "Call tools ten times at most for one request.",
)


def pinned_block(constraints: Sequence[str]) -> str:
    """Render the constraints as a numbered list under a heading.

    Raises:
        ValueError: there are not three to five, or one is empty. More of them, or longer ones,
            would weaken each other.
    """
    lines = [" ".join(each.split()) for each in constraints]
    if not FEWEST <= len(lines) <= MAX_PINNED or not all(lines):
        raise ValueError(
            f"pin {FEWEST} to {MAX_PINNED} constraints, each with some text, "
            f"not {list(constraints)!r}"
        )
    numbered = (f"{number}. {line}" for number, line in enumerate(lines, 1))
    return "\n".join(["CRITICAL CONSTRAINTS (must follow):", *numbered])


class PinnedConstraintsAgent:
    """Builder of prompts that end with pinned constraints.

    ``constraints`` are as for ``pinned_block``. The class attribute ``CRITICAL_CONSTRAINTS`` is the
    rendered text of the default ones.
    """

    CRITICAL_CONSTRAINTS: ClassVar[str] = pinned_block(CRITICAL_CONSTRAINTS)

    def __init__(self, base_system_prompt: str, constraints: Sequence[str] | None = None) -> None:
        self.base_system_prompt = base_system_prompt
        self._pinned = (
            self.CRITICAL_CONSTRAINTS if constraints is None else pinned_block(constraints)
        )

    def build_prompt(
        self, conversation_history: Sequence[Mapping[str, Any]], current_task: str
    ) -> str:
        """Build the prompt: base prompt, the last ten messages, ``current_task``, constraints."""
        recent = conversation_history[-RECENT_MESSAGES:]
        return "\n".join(
            [
                self.base_system_prompt,
                "",
                "=== CONVERSATION HISTORY ===",
                *(f"{message['role']}: {message.get('content') or ''}" for message in recent),
                "",
                "=== CURRENT TASK ===",
                current_task,
                "",
                self._pinned,
            ]
        )
