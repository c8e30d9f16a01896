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


async def test_static_text_answers_tasks_without_data() -> None:
    chain = FallbackChain(primary_agent=breaks(OSError("x")), classify=lambda task: task)
    answer = await chain.answer("greeting")
    assert answer.strategy == "static_fallback"
    assert answer.text == FallbackChain.FALLBACK_RESPONSES["greeting"]


async def test_rejected_answer_is_skipped() -> None:
    chain = FallbackChain(
        primary_agent=says("no evidence"),
        backup_agent=says("with evidence"),
        accept=lambda _, text: text.startswith("with"),
    )
    answer = await chain.answer("?")
    assert answer.text == "with evidence"
    assert answer.failures == (("primary_agent", "its answer was not valid"),)


async def test_each_fallback_is_reported() -> None:
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


async def test_key_in_failure_is_scrubbed(caplog: pytest.LogCaptureFixture) -> None:
    chain = FallbackChain(primary_agent=breaks(RuntimeError("denied for sk-abcdefghijklmnop")))
    answer = await chain.answer("?")
    assert "abcdefghijklmnop" not in str(answer.failures)
    assert "abcdefghijklmnop" not in caplog.text


async def test_stop_is_not_handled_by_next_strategy() -> None:
    chain = FallbackChain(primary_agent=breaks(KeyboardInterrupt()), backup_agent=says("x"))
    with pytest.raises(KeyboardInterrupt):
        await chain.execute("?")
