"""Budget of tokens and dollars for custom agent loops.

A budget is exceeded by strictly more than its limit. ``consume`` counts a call after it was made:
it detects an excess and does not prevent it. A run has its own (``limits.budget``), which reserves.
"""

import math
from collections.abc import Mapping

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
