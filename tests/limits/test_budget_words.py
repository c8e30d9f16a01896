"""Amounts as people read them."""

import pytest

from parsimony_kernel.limits.budget import dollars


@pytest.mark.parametrize(
    ("amount", "words"),
    [(0.0, "$0.00"), (0.5, "$0.50"), (0.0001, "$0.0001"), (0.125, "$0.125"), (1234.5, "$1,234.50")],
)
def test_a_limit_is_said_to_the_cent_and_as_far_as_it_takes(amount: float, words: str) -> None:
    assert dollars(amount) == words
