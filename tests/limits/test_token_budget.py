"""A budget holds, whatever a provider reports, and can say no before anything is spent."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.patterns.token_budget import BudgetExhausted, TokenBudget

PRICING = {"order-model": {"input": 1.0, "output": 2.0}}


def small() -> TokenBudget:
    return TokenBudget(max_tokens=1_000, max_cost_usd=0.01, pricing=PRICING)


def test_held_tokens_count_for_next_reservation() -> None:
    budget = small()
    first = budget.reserve(600, 0, "order-model")
    with pytest.raises(BudgetExhausted, match="1200/1000"):
        budget.reserve(600, 0, "order-model")
    budget.release(first)
    budget.reserve(600, 0, "order-model")


def test_cost_is_reserved() -> None:
    budget = TokenBudget(max_cost_usd=1.0, pricing={"m": {"input": 1e6, "output": 1e6}})
    held = budget.reserve(1, 0, "m")
    with pytest.raises(BudgetExhausted, match="Cost limit"):
        budget.reserve(1, 0, "m")
    assert budget.estimated_cost == 0.0
    budget.settle(held, 0, 0)
    budget.reserve(1, 0, "m")


def test_unreported_usage_counts_as_reserved() -> None:
    budget = small()
    budget.settle(budget.reserve(600, 300, "order-model"))
    assert budget.used_tokens == 900
    assert budget.estimated_cost == pytest.approx(0.0012)


def test_excess_usage_is_noticed() -> None:
    budget = small()
    held = budget.reserve(100, 100, "order-model")
    with pytest.raises(BudgetExhausted, match="5100/1000"):
        budget.settle(held, 100, 5_000)
    assert budget.used_tokens == 5_100


@pytest.mark.parametrize("again", ["settle", "release"])
def test_reservation_is_single_use(again: str) -> None:
    budget = small()
    held = budget.reserve(100, 100, "order-model")
    budget.settle(held, 100, 10)
    with pytest.raises(ValueError, match="nothing is held"):
        getattr(budget, again)(held)
    assert budget.used_tokens == 110


@pytest.mark.parametrize("absurd", [-1, float("nan"), float("inf"), 1.5, None])
def test_absurd_usage_changes_nothing(absurd: Any) -> None:
    budget = small()
    for call in (budget.consume, budget.reserve):
        with pytest.raises(ValueError, match="a whole number"):
            call(absurd, 10, "order-model")
    held = budget.reserve(500, 0, "order-model")
    if absurd is not None:
        with pytest.raises(ValueError, match="a whole number"):
            budget.settle(held, 10, absurd)
    with pytest.raises(BudgetExhausted):
        budget.reserve(501, 0, "order-model")
    assert budget.used_tokens == 0


@pytest.mark.parametrize(
    "given",
    [
        {"max_tokens": -1},
        {"max_cost_usd": float("nan")},
        {"pricing": {"m": {"input": float("nan"), "output": 1.0}}},
        {"pricing": {"m": {"input": 1.0, "output": -1.0}}},
    ],
)
def test_invalid_limit_or_price_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="from 0 on"):
        TokenBudget(**given)


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400), st.booleans())))
def test_reserving_the_maximum_never_overspends(
    calls: list[tuple[int, int, bool]],
) -> None:
    budget = TokenBudget(max_tokens=1_000)
    for at_most, used, told in calls:
        try:
            held = budget.reserve(at_most, 0, "m")
        except BudgetExhausted:
            continue
        if told:
            budget.settle(held, min(used, at_most), 0)
        else:
            budget.settle(held)
    assert budget.used_tokens <= 1_000
