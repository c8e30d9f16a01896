"""Every combination of strategies that are missing, raise, say nothing or answer."""

import itertools

import pytest

from parsimony_kernel.patterns.fallback import FallbackChain, Strategy

NAMES = ("primary_agent", "backup_agent", "direct_generation")
WITHOUT_DATA = {"direct_generation", "static_fallback"}
STATES = ("missing", "raises", "empty", "answers")


def strategy(name: str, state: str, asked: list[str]) -> Strategy | None:
    async def run(task: str) -> str | None:
        asked.append(name)
        if state == "raises":
            raise ConnectionError("down")
        return " \n" if state == "empty" else f"{name} on {task}"

    return None if state == "missing" else run


@pytest.mark.parametrize("is_live", [False, True])
@pytest.mark.parametrize("states", list(itertools.product(STATES, repeat=3)))
@pytest.mark.parametrize("has_text", [False, True])
async def test_first_allowed_answer_wins_and_later_strategies_are_not_called(
    states: tuple[str, ...], has_text: bool, is_live: bool
) -> None:
    asked: list[str] = []
    chain = FallbackChain(
        **{name: strategy(name, state, asked) for name, state in zip(NAMES, states, strict=True)},  # type: ignore[arg-type]
        classify=lambda _: "greeting" if has_text else "unknown",
    )
    able = [name for name, state in zip(NAMES, states, strict=True) if state == "answers"]
    able += ["static_fallback"] if has_text else []
    may = [name for name in able if not (is_live and name in WITHOUT_DATA)]
    answer = await chain.answer("A102", requires_live_data=is_live)

    assert answer.strategy == (may[0] if may else None)
    if may:
        fixed = FallbackChain.FALLBACK_RESPONSES["greeting"]
        assert answer.text == (fixed if may[0] == "static_fallback" else f"{may[0]} on A102")
    else:
        assert answer.text == FallbackChain.DEFAULT_RESPONSE
    wanted = [name for name, state in zip(NAMES, states, strict=True) if state != "missing"]
    if is_live:
        wanted = [name for name in wanted if name not in WITHOUT_DATA]
    if answer.strategy in wanted:
        wanted = wanted[: wanted.index(str(answer.strategy)) + 1]
    assert asked == wanted
