"""Budget of tokens and dollars for custom agent loops.

A budget is exceeded by strictly more than its limit. ``consume`` counts a call afterwards and can
only detect the excess; ``reserve`` checks beforehand, so that the call is never made.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

# Share of the budget from which a run should stop exploring and finish.
SOFT_SHARE = 0.8


class _Default(float):
    """A default limit, told apart from one that the caller set."""


_MAX_COST_USD = _Default(1.0)


class BudgetExhausted(Exception):
    """The budget does not cover the call."""


@dataclass(frozen=True, eq=False)
class Reservation:
    """Tokens and cost reserved for one call until it is settled or released."""

    tokens: int
    cost: float
    model: str


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
        self._held: set[Reservation] = set()

    @property
    def is_near(self) -> bool:
        """Whether the soft limit is exceeded: time to stop exploring and finish.

        A summary may then shorten validated and pending work, but must not drop writes, approvals
        and idempotency keys.
        """
        spent, paid = self._totals(0, 0.0)
        return spent > SOFT_SHARE * self.max_tokens or paid > SOFT_SHARE * self.max_cost

    def consume(self, input_tokens: int, output_tokens: int, model: str) -> None:
        """Count the usage of a call; it stays counted even if the budget is exceeded.

        Raises:
            BudgetExhausted: the budget is exceeded.
            ValueError: a number of tokens is invalid.
        """
        self.used_tokens += _tokens(input_tokens, output_tokens)
        self.estimated_cost += self._cost(input_tokens, output_tokens, model)
        self._refuse_if_over(0, 0.0)

    def reserve(self, input_tokens: int, output_tokens: int, model: str) -> Reservation:
        """Reserve the maximum usage of a call before it is made.

        Raises:
            BudgetExhausted: used and reserved amounts would exceed the budget; nothing is reserved.
            ValueError: a number of tokens is invalid.
        """
        asked = Reservation(
            _tokens(input_tokens, output_tokens),
            self._cost(input_tokens, output_tokens, model),
            model,
        )
        self._refuse_if_over(asked.tokens, asked.cost)
        self._held.add(asked)
        return asked

    def settle(
        self,
        reservation: Reservation,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
    ) -> None:
        """Replace a reservation by the call's actual usage; all of it if the usage is unknown.

        Raises:
            BudgetExhausted: the call used more than reserved, and the budget is exceeded.
            ValueError: the reservation was settled or released before, or a number is invalid.
        """
        if input_tokens is None or output_tokens is None:
            self.release(reservation)
            self.used_tokens += reservation.tokens
            self.estimated_cost += reservation.cost
        else:
            _tokens(input_tokens, output_tokens)
            self.release(reservation)
            self.consume(input_tokens, output_tokens, reservation.model)

    def release(self, reservation: Reservation) -> None:
        """Release the reservation of a call that was not made.

        Raises:
            ValueError: it was settled or released before.
        """
        if reservation not in self._held:
            raise ValueError("nothing is held by this reservation: it was settled or released")
        self._held.discard(reservation)

    def _totals(self, tokens: int, cost: float) -> tuple[int, float]:
        """Add up used and reserved amounts, plus ``tokens`` and ``cost``."""
        held_tokens = sum(each.tokens for each in self._held)
        held_cost = sum(each.cost for each in self._held)
        return self.used_tokens + held_tokens + tokens, self.estimated_cost + held_cost + cost

    def _refuse_if_over(self, tokens: int, cost: float) -> None:
        spent, paid = self._totals(tokens, cost)
        if spent > self.max_tokens:
            raise BudgetExhausted(f"Token limit exceeded: {spent}/{self.max_tokens}")
        if paid > self.max_cost:
            raise BudgetExhausted(f"Cost limit exceeded: ${paid:.2f}/${self.max_cost:.2f}")

    def _cost(self, input_tokens: int, output_tokens: int, model: str) -> float:
        rates = self.pricing.get(model)
        if rates is None:
            if self._prices_needed:
                raise BudgetExhausted(f"Pricing missing for model: {model}")
            return 0.0
        return (input_tokens * rates["input"] + output_tokens * rates["output"]) / 1_000_000


def _tokens(input_tokens: int, output_tokens: int) -> int:
    for count in (input_tokens, output_tokens):
        if not isinstance(count, int) or count < 0:
            raise ValueError(f"a number of tokens is a whole number from 0 on, not {count!r}")
    return input_tokens + output_tokens
