"""A budget of tokens and dollars for a loop of one's own.

Over means strictly more. ``consume`` counts what was spent and can only notice; ``reserve`` asks
before, so that a call that would go over is never made.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

# From here on a run stops exploring and comes to its end.
SOFT_SHARE = 0.8


class _Default(float):
    """A limit that nobody has set."""


_MAX_COST_USD = _Default(1.0)


class BudgetExhausted(Exception):
    """The budget does not cover the call."""


@dataclass(frozen=True, eq=False)
class Reservation:
    """What is held for one call until it is settled or released."""

    tokens: int
    cost: float
    model: str


class TokenBudget:
    """What a run may use up.

    Args:
        max_tokens: input and output together.
        max_cost_usd: US dollars; ``None`` is no limit.
        pricing: by model, US dollars a million ``input`` and ``output`` tokens.

    A model without a price is refused when a cost limit was given, for it could not be kept.
    When none was given, its cost counts as nothing. ``ValueError`` for a limit or a price that
    is negative or no number.
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
        """Past the soft limit: time to stop exploring and to bring the work to its end.

        What may be shortened then is what was validated and what is pending. Writes, approvals
        and idempotency keys are no part of a summary.
        """
        spent, paid = self._totals(0, 0.0)
        return spent > SOFT_SHARE * self.max_tokens or paid > SOFT_SHARE * self.max_cost

    def consume(self, input_tokens: int, output_tokens: int, model: str) -> None:
        """Count what a call has used. ``BudgetExhausted`` once it is too much.

        What is counted stays counted. ``ValueError`` for a number of tokens that is none.
        """
        self.used_tokens += _tokens(input_tokens, output_tokens)
        self.estimated_cost += self._cost(input_tokens, output_tokens, model)
        self._refuse_if_over(0, 0.0)

    def reserve(self, input_tokens: int, output_tokens: int, model: str) -> Reservation:
        """Hold what a call may use at most, before it is made.

        ``BudgetExhausted`` when that would be too much together with what is used and held; then
        nothing is held. ``ValueError`` as for ``consume``.
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
        """Put what a call has used in the place of what was held for it.

        What is not told counts as all that was held. ``BudgetExhausted`` when the call took more
        than it said and that was too much; ``ValueError`` when nothing is held any more.
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
        """Give back what was held for a call that was not made. ``ValueError`` if nothing is."""
        if reservation not in self._held:
            raise ValueError("nothing is held by this reservation: it was settled or released")
        self._held.discard(reservation)

    def _totals(self, tokens: int, cost: float) -> tuple[int, float]:
        """What is used and held, with ``tokens`` and ``cost`` more."""
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
