"""A fallback gives up capability, never the truth."""

from collections.abc import Awaitable, Callable

import pytest

from parsimony_kernel.patterns.fallback import FallbackChain


def says(
    text: str | None, asked: list[str] | None = None
) -> Callable[[str], Awaitable[str | None]]:
    async def strategy(task: str) -> str | None:
        if asked is not None:
            asked.append(task)
        return text

    return strategy


def breaks(exc: BaseException) -> Callable[[str], Awaitable[str | None]]:
    async def strategy(_: str) -> str | None:
        raise exc

    return strategy


async def test_the_first_valid_answer_wins_and_the_rest_is_not_asked() -> None:
    asked: list[str] = []
    chain = FallbackChain(
        primary_agent=breaks(ConnectionError("down")),
        backup_agent=says("A102 is delayed"),
        direct_generation=says("I guess it is fine", asked),
    )
    answer = await chain.answer("Where is A102?")
    assert (answer.text, answer.strategy) == ("A102 is delayed", "backup_agent")
    assert answer.failures == (("primary_agent", "ConnectionError: down"),)
    assert asked == []
    assert await chain.execute("Where is A102?") == "A102 is delayed"


@pytest.mark.parametrize("empty", ["", "  \n", None])
async def test_an_empty_answer_is_not_valid(empty: str | None) -> None:
    chain = FallbackChain(primary_agent=says(empty), backup_agent=says("yes"))
    answer = await chain.answer("?")
    assert (answer.text, answer.strategy) == ("yes", "backup_agent")
    assert answer.failures == (("primary_agent", "its answer was empty"),)


async def test_a_task_that_needs_live_data_is_answered_by_nothing_that_has_none() -> None:
    asked: list[str] = []
    chain = FallbackChain(
        primary_agent=breaks(TimeoutError()),
        backup_agent=says(""),
        direct_generation=says("A102 arrives on Friday", asked),
        classify=lambda _: "greeting",
    )
    answer = await chain.answer("Where is A102?", requires_live_data=True)
    assert answer.strategy is None
    assert asked == []
    assert "Friday" not in answer.text
    assert answer.text not in FallbackChain.FALLBACK_RESPONSES.values()
    assert [name for name, _ in answer.failures] == [
        "primary_agent",
        "backup_agent",
        "direct_generation",
        "static_fallback",
    ]
    without = await chain.answer("Where is A102?")
    assert without.strategy == "direct_generation"


async def test_a_task_that_needs_live_data_is_answered_by_an_agent_that_has_it() -> None:
    chain = FallbackChain(primary_agent=says(""), backup_agent=says("delayed"))
    answer = await chain.answer("Where is A102?", requires_live_data=True)
    assert (answer.text, answer.strategy) == ("delayed", "backup_agent")


async def test_when_all_fail_the_answer_says_so_and_what_to_do() -> None:
    text = await FallbackChain().execute("Where is A102?", requires_live_data=True)
    assert "unavailable" in text
    assert "Try again" in text
    assert "support" in text
    assert await FallbackChain().execute("Where is A102?") == text


async def test_a_fixed_text_answers_what_needs_no_data() -> None:
    chain = FallbackChain(primary_agent=breaks(OSError("x")), classify=lambda task: task)
    answer = await chain.answer("greeting")
    assert answer.strategy == "static_fallback"
    assert answer.text == FallbackChain.FALLBACK_RESPONSES["greeting"]


async def test_an_answer_that_is_not_accepted_is_passed_over() -> None:
    chain = FallbackChain(
        primary_agent=says("no evidence"),
        backup_agent=says("with evidence"),
        accept=lambda _, text: text.startswith("with"),
    )
    answer = await chain.answer("?")
    assert answer.text == "with evidence"
    assert answer.failures == (("primary_agent", "its answer was not valid"),)


async def test_each_fallback_is_told() -> None:
    told: list[str] = []
    chain = FallbackChain(
        primary_agent=says(""),
        backup_agent=says(""),
        direct_generation=says("x"),
        on_fallback=told.append,
    )
    await chain.execute("?")
    assert told == ["backup_agent", "direct_generation"]
    told.clear()
    await FallbackChain(primary_agent=says("x"), on_fallback=told.append).execute("?")
    assert told == []


async def test_a_key_in_a_failure_is_not_passed_on(caplog: pytest.LogCaptureFixture) -> None:
    chain = FallbackChain(primary_agent=breaks(RuntimeError("denied for sk-abcdefghijklmnop")))
    answer = await chain.answer("?")
    assert "abcdefghijklmnop" not in str(answer.failures)
    assert "abcdefghijklmnop" not in caplog.text


async def test_a_stop_is_not_answered_by_the_next_strategy() -> None:
    chain = FallbackChain(primary_agent=breaks(KeyboardInterrupt()), backup_agent=says("x"))
    with pytest.raises(KeyboardInterrupt):
        await chain.execute("?")
