"""What a request would use, reckoned before it is made."""

import pytest

from parsimony_kernel.limits.budget import Demand, tokens_in


@pytest.mark.parametrize(
    ("used", "reserved", "near", "over"),
    [(0, 800, False, False), (0, 801, True, False), (900, 100, True, False), (1000, 1, True, True)],
)
def test_over_means_strictly_more_and_near_means_past_four_fifths(
    used: int, reserved: int, near: bool, over: bool
) -> None:
    demand = Demand("tokens", used, reserved, 1000)
    assert (demand.is_near, demand.is_over) == (near, over)


def test_a_demand_is_told_in_its_unit() -> None:
    assert Demand("tokens", 1170, 0, 1000).in_words() == "1,170 of 1,000 tokens"
    assert Demand("cost", 0.01234, 0, 0.5).in_words() == "$0.0123 of $0.50"


def test_text_calls_and_schemas_count_and_other_scripts_by_their_bytes() -> None:
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
