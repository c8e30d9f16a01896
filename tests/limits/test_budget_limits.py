"""What a request would use, reckoned before it is made."""

from types import SimpleNamespace
from typing import Any

import pytest

from parsimony_kernel.core.chat import Message, ModelRequest, Usage
from parsimony_kernel.limits.budget import (
    MOST_TOKENS,
    MOST_USD,
    Demand,
    counted,
    dollars,
    tokens_in,
    tokens_said,
    usage_by_size,
    usd,
)
from parsimony_kernel.testing.scripted import call


@pytest.mark.parametrize(
    ("used", "reserved", "near", "over"),
    [(0, 800, False, False), (0, 801, True, False), (900, 100, True, False), (1000, 1, True, True)],
)
def test_over_is_strict_and_near_is_four_fifths(
    used: int, reserved: int, near: bool, over: bool
) -> None:
    demand = Demand("tokens", used, reserved, 1000)
    assert (demand.is_near, demand.is_over) == (near, over)


def test_demand_is_reported_in_its_unit() -> None:
    assert Demand("tokens", 1170, 0, 1000).in_words() == "1,170 of 1,000 tokens"
    assert Demand("cost", 0.01234, 0, 0.5).in_words() == "$0.0123 of $0.50"


def test_text_calls_and_schemas_count_by_bytes() -> None:
    empty = tokens_in([], [])
    words = tokens_in([{"role": "user", "content": "x" * 4000}], [])
    assert 1000 <= words - empty <= 1001
    script = tokens_in([{"role": "user", "content": "数" * 1000}], [])
    assert 750 <= script - empty <= 751
    called = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"function": {"arguments": "y" * 4000}}],
    }
    assert 1000 <= tokens_in([called], []) - empty <= 1001
    assert tokens_in([], [{"function": {"description": "z" * 4000}}]) - empty > 1000
    parts = {"role": "user", "content": [{"type": "text", "text": "x" * 4000}]}
    assert tokens_in([parts], []) - empty > 1000


def test_answer_counts_text_reasoning_and_calls() -> None:
    empty = tokens_said(Message())
    asked = call("look", at="y" * 4000).message
    assert tokens_said(Message("x" * 4000)) - empty == 1000
    assert tokens_said(Message(reasoning_content="x" * 4000)) - empty == 1000
    assert 1000 < tokens_said(asked) - empty < 1010
    messages = [{"role": "user", "content": "x" * 4000}]
    used = usage_by_size(ModelRequest(messages), asked)
    assert used == Usage(tokens_in(messages, ()), tokens_said(asked))


@pytest.mark.parametrize(
    ("prompt", "completion", "told"),
    [
        (3, 2, Usage(3, 2)),
        (3.0, 0, Usage(3, 0)),
        (MOST_TOKENS, 0, Usage(MOST_TOKENS, 0)),
        (0, 0, None),
        (MOST_TOKENS + 1, 0, None),
        (3, -1, None),
        (3, float("nan"), None),
        (3, float("inf"), None),
        (3, None, None),
        ("3", "2", None),
        (True, 2, None),
    ],
)
def test_impossible_count_is_not_reported(prompt: Any, completion: Any, told: Usage | None) -> None:
    usage = SimpleNamespace(prompt_tokens=prompt, completion_tokens=completion)
    assert counted(usage) == told
    assert counted(None) is None


@pytest.mark.parametrize(
    ("value", "price"),
    [
        (0, 0.0),
        (0.5, 0.5),
        (MOST_USD, MOST_USD),
        (-0.1, None),
        (float("nan"), None),
        (float("inf"), None),
        (10**400, None),
        ("0.1", None),
        (True, None),
        (None, None),
    ],
)
def test_price_is_a_nonnegative_number(value: Any, price: float | None) -> None:
    assert usd(value) == price


@pytest.mark.parametrize(
    ("amount", "words"),
    [(0.0, "$0.00"), (0.5, "$0.50"), (0.0001, "$0.0001"), (0.125, "$0.125"), (1234.5, "$1,234.50")],
)
def test_limit_is_shown_to_the_needed_digits(amount: float, words: str) -> None:
    assert dollars(amount) == words
