"""The limits of the library's loop breaker, each with the others out of its way."""

from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest

from parsimony_kernel.patterns.loop_breaker import LoopBreaker

NEVER = 1_000
Step = tuple[str, dict[str, Any]]


def only(**limit: float) -> LoopBreaker:
    """A breaker of which nothing trips but ``limit``."""
    limits: dict[str, Any] = {
        "max_steps": NEVER,
        "max_identical": NEVER,
        "same_tool_streak": NEVER,
        "semantic_threshold": 1.01,
    }
    return LoopBreaker(**{**limits, **limit})


def said(breaker: LoopBreaker, steps: Sequence[Step]) -> list[bool]:
    return [breaker.check(name, args) for name, args in steps]


def test_identical_calls_are_counted_however_far_they_lie_apart() -> None:
    breaker = only(max_identical=3)
    between: list[Step] = [(f"tool_{n}", {"page": n}) for n in range(40)]
    same: Step = ("query_db", {"id": "A102"})
    assert said(breaker, [same, *between, same, *between, same])[-1] is True


def test_only_calls_that_are_equal_in_tool_and_arguments_are_identical() -> None:
    steps: list[Step] = [
        ("query_db", {"id": "A102"}),
        ("query_db", {"id": "A103"}),
        ("get_eta", {"id": "A102"}),
        ("query_db", {"id": "A102", "limit": 1}),
        ("query_db", {"order": "A102"}),
        ("query_db", {}),
    ]
    assert said(only(max_identical=2), steps) == [False] * len(steps)
    assert said(only(max_identical=2), [*steps, steps[0]])[-1] is True


def test_arguments_that_json_has_no_word_for_are_compared_by_their_text() -> None:
    steps: list[Step] = [
        ("query_db", {"since": date(2026, 1, 1)}),
        ("query_db", {"since": date(2026, 1, 2)}),
        ("query_db", {"since": date(2026, 1, 1)}),
    ]
    assert said(only(max_identical=2), steps) == [False, False, True]


def test_a_streak_is_broken_by_any_other_tool_and_needs_its_whole_length() -> None:
    steps: list[Step] = [("search", {"n": n}) for n in range(4)]
    other: Step = ("fetch", {})
    assert said(only(same_tool_streak=5), [*steps, other, *steps]) == [False] * 9
    assert said(only(same_tool_streak=5), [*steps, ("search", {"n": 4})]) == [False] * 4 + [True]


def test_sixteen_calls_trip_whatever_they_are_and_the_sixteenth_is_not_kept() -> None:
    breaker = only(max_steps=15)
    assert said(breaker, [(f"tool_{n}", {}) for n in range(16)]) == [False] * 15 + [True]
    assert len(breaker.tool_call_history) == 15


def similar(**limit: float) -> LoopBreaker:
    """A breaker of which nothing trips but likeness, over a window of four calls."""
    return LoopBreaker(**{"max_steps": NEVER, "max_identical": 3, "same_tool_streak": 5, **limit})  # type: ignore[arg-type]


def searched(text: str, number: int) -> Step:
    return "search", {"query": text, "try": number}


def test_case_and_space_around_the_words_do_not_make_others() -> None:
    breaker = similar(semantic_threshold=1.0)
    texts = ["WHERE IS THE ORDER", "where is the order", "   where is the order\n"]
    assert said(breaker, [searched(t, n) for n, t in enumerate(texts)]) == [False, False, True]


def test_words_exactly_as_like_as_the_threshold_are_alike() -> None:
    # "search abcd" and "search abce" share 10 of 11 letters each.
    steps = [searched(text, n) for n, text in enumerate(("abcd", "abce", "abcf"))]
    assert said(similar(semantic_threshold=20 / 22), steps) == [False, False, True]
    assert said(similar(semantic_threshold=20 / 22 + 1e-9), steps) == [False, False, False]


def test_likeness_looks_back_over_four_calls_and_no_further() -> None:
    others: list[Step] = [
        ("open_page", {"query": "weather in Lima"}),
        ("count", {"query": "9"}),
        ("plot", {"query": "rainfall by month"}),
    ]
    first, second, third = (searched("where is order A102", n) for n in range(3))
    near = [first, *others[:2], second, third]
    assert said(similar(), near) == [False] * 4 + [True]
    far = [first, *others, second, third]
    assert said(similar(), far) == [False] * 6


def test_the_same_words_to_another_tool_are_less_alike() -> None:
    words = {"query": "A102"}
    tools = ("query_database", "get_eta", "suggest_alternative")
    steps = [(name, {**words, "try": n}) for n, name in enumerate(tools)]
    assert said(similar(), steps) == [False] * 3


def test_the_words_of_all_four_fields_count_together_in_their_order() -> None:
    fields = {"task": "d", "text": "c", "prompt": "b", "query": "A"}
    breaker = similar()
    breaker.check("search", fields)
    assert breaker.tool_call_history[0]["intent_text"] == "search a b c d"


@pytest.mark.parametrize("limit", ["max_steps", "max_identical", "same_tool_streak"])
def test_a_limit_of_one_lets_no_second_call_of_its_kind_through(limit: str) -> None:
    breaker = only(**{limit: 1})
    first = breaker.check("query_db", {"id": "A102"})
    assert first is (limit != "max_steps")
    assert breaker.check("query_db", {"id": "A102"}) is True
