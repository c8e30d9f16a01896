"""A budget holds, whatever a provider reports, and can say no before anything is spent."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.patterns.token_budget import BudgetExhausted, TokenBudget

PRICING = {"order-model": {"input": 1.0, "output": 2.0}}


def small() -> TokenBudget:
    return TokenBudget(max_tokens=1_000, max_cost_usd=0.01, pricing=PRICING)


def test_what_is_held_counts_for_the_next_reservation() -> None:
    budget = small()
    first = budget.reserve(600, 0, "order-model")
    with pytest.raises(BudgetExhausted, match="1200/1000"):
        budget.reserve(600, 0, "order-model")
    budget.release(first)
    budget.reserve(600, 0, "order-model")


def test_a_cost_is_reserved_too() -> None:
    budget = TokenBudget(max_cost_usd=1.0, pricing={"m": {"input": 1e6, "output": 1e6}})
    held = budget.reserve(1, 0, "m")
    with pytest.raises(BudgetExhausted, match="Cost limit"):
        budget.reserve(1, 0, "m")
    assert budget.estimated_cost == 0.0
    budget.settle(held, 0, 0)
    budget.reserve(1, 0, "m")


def test_a_call_whose_usage_nobody_told_counts_as_all_that_was_held() -> None:
    budget = small()
    budget.settle(budget.reserve(600, 300, "order-model"))
    assert budget.used_tokens == 900
    assert budget.estimated_cost == pytest.approx(0.0012)


def test_a_call_that_took_more_than_it_said_is_noticed() -> None:
    budget = small()
    held = budget.reserve(100, 100, "order-model")
    with pytest.raises(BudgetExhausted, match="5100/1000"):
        budget.settle(held, 100, 5_000)
    assert budget.used_tokens == 5_100


@pytest.mark.parametrize("again", ["settle", "release"])
def test_a_reservation_is_used_once(again: str) -> None:
    budget = small()
    held = budget.reserve(100, 100, "order-model")
    budget.settle(held, 100, 10)
    with pytest.raises(ValueError, match="nothing is held"):
        getattr(budget, again)(held)
    assert budget.used_tokens == 110


@pytest.mark.parametrize("absurd", [-1, float("nan"), float("inf"), 1.5, None])
def test_an_absurd_usage_changes_nothing(absurd: Any) -> None:
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
def test_a_limit_or_a_price_that_is_no_number_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="from 0 on"):
        TokenBudget(**given)


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 400), st.booleans())))
def test_who_reserves_what_is_used_at_most_never_goes_over(
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
