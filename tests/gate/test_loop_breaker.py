"""The library's loop breaker counts calls, the present one included."""

import inspect

import pytest

from parsimony_kernel.patterns.loop_breaker import LoopBreaker


def different(number: int) -> tuple[str, dict[str, object]]:
    return f"tool_{number:02}_{'xyz'[number % 3] * number}", {"page": number}


def test_the_defaults_are_those_of_the_document() -> None:
    given = inspect.signature(LoopBreaker).parameters.values()
    assert {each.name: each.default for each in given} == {
        "max_steps": 15,
        "max_identical": 3,
        "same_tool_streak": 5,
        "semantic_threshold": 0.9,
    }


def test_the_third_identical_call_trips() -> None:
    breaker = LoopBreaker(max_identical=3)
    said = [breaker.check("query_db", {"id": "A102"}) for _ in range(3)]
    assert said == [False, False, True]


def test_identical_calls_need_not_follow_one_another() -> None:
    breaker = LoopBreaker()
    said = []
    for number in range(3):
        said.append(breaker.check("query_db", {"id": "A102", "limit": 1}))
        breaker.check(*different(number))
    assert said == [False, False, True]


def test_the_order_of_the_arguments_does_not_make_another_call() -> None:
    breaker = LoopBreaker(max_identical=2)
    assert not breaker.check("query_db", {"id": "A102", "limit": 1})
    assert breaker.check("query_db", {"limit": 1, "id": "A102"})


def test_the_step_limit_trips_on_call_sixteen() -> None:
    breaker = LoopBreaker(semantic_threshold=1.01)
    said = [breaker.check(*different(number)) for number in range(16)]
    assert said == [False] * 15 + [True]


def test_the_fifth_call_of_one_tool_in_a_row_trips_and_another_tool_starts_anew() -> None:
    texts = ["red fox", "blue whale", "tall pine", "old stone", "cold river"]
    breaker = LoopBreaker()
    assert [breaker.check("search", {"query": text}) for text in texts] == [False] * 4 + [True]
    broken = LoopBreaker()
    for text in texts[:4]:
        broken.check("search", {"query": text})
    assert not broken.check("fetch", {"page": 1})
    assert not broken.check("search", {"query": texts[4]})


@pytest.mark.parametrize("field", ["query", "prompt", "text", "task"])
def test_nearly_the_same_words_trip_on_the_third_call(field: str) -> None:
    breaker = LoopBreaker()
    texts = ["where is the order now", "Where is the order now?", " where is the order now! "]
    said = [breaker.check("search", {field: text, "try": n}) for n, text in enumerate(texts)]
    assert said == [False, False, True]


def test_without_observations_three_orders_looked_up_in_a_row_look_alike() -> None:
    breaker = LoopBreaker()
    said = [breaker.check("query_db", {"id": each}) for each in ("A101", "A102", "A103")]
    assert said == [False, False, True]


def test_a_call_that_trips_is_not_kept() -> None:
    breaker = LoopBreaker(max_identical=2)
    breaker.check("query_db", {"id": "A102"})
    for _ in range(5):
        assert breaker.check("query_db", {"id": "A102"})
    assert len(breaker.tool_call_history) == 1


@pytest.mark.parametrize(
    ("limits", "calls"),
    [
        ({"max_steps": 2, "max_identical": 9, "same_tool_streak": 9}, 3),
        ({"max_steps": 9, "max_identical": 2, "same_tool_streak": 9}, 2),
        ({"max_steps": 9, "max_identical": 9, "same_tool_streak": 4}, 4),
    ],
)
def test_the_first_limit_that_is_reached_trips(limits: dict[str, int], calls: int) -> None:
    breaker = LoopBreaker(**limits)
    said = [breaker.check("query_db", {"id": "A102"}) for _ in range(calls)]
    assert said == [False] * (calls - 1) + [True]
