"""A policy says what to do about each type of failure, and a failure always gets an answer."""

import asyncio
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.core.taxonomy import FailureContext, FailureType, Step, TriageContext
from parsimony_kernel.triage.policy import (
    FailurePolicy,
    RecoveryAction,
    backoff_and_retry,
    escalate,
    replan,
    resume_from_subgoal,
    retry_with_tool_manifest,
    rollback_to_checkpoint,
)

EXTERNAL = FailureType.EXTERNAL_FAULT


def context(kind: FailureType = EXTERNAL, attempts: int = 0, **fields: Any) -> FailureContext:
    return FailureContext(
        kind, attempt_history=[(kind, RecoveryAction.RETRY())] * attempts, **fields
    )


def failed(tool: str = "fetch", **fields: Any) -> list[Step]:
    return [Step(0, tool, tool_called=tool, error="it failed", **fields)]


def constant(action: RecoveryAction) -> Any:
    async def strategy(ctx: FailureContext) -> RecoveryAction:
        return action

    return strategy


def test_delay_is_never_negative() -> None:
    with pytest.raises(ValueError, match=r"-1\.0"):
        RecoveryAction.RETRY(delay=-1.0)


async def test_continuing_loop_is_rolled_back() -> None:
    run = TriageContext(checkpoints=("c1",))
    answer = await FailurePolicy().dispatch(context(FailureType.LOOP_DETECTED, 1, run=run))
    assert answer == RecoveryAction.ROLLBACK("c1")


@pytest.mark.parametrize("kind", FailureType)
async def test_repeated_failure_reaches_a_person(kind: FailureType) -> None:
    answer = await FailurePolicy().dispatch(context(kind, attempts=3, trajectory=failed()))
    assert isinstance(answer, RecoveryAction.ESCALATE | RecoveryAction.SUSPEND)


async def test_raising_or_silent_strategy_escalates() -> None:
    async def broken(ctx: FailureContext) -> RecoveryAction:
        raise KeyError("settings")

    for strategy, told in ((broken, "KeyError: 'settings'"), (constant(None), "None")):  # type: ignore[arg-type]
        answer = await FailurePolicy(default=strategy).dispatch(context())
        assert isinstance(answer, RecoveryAction.ESCALATE)
        assert told in answer.message
        assert "EXTERNAL_FAULT" in answer.message


async def test_default_answers_unnamed_types() -> None:
    policy = FailurePolicy(EXTERNAL_FAULT=backoff_and_retry, default=escalate)
    assert isinstance(await policy.dispatch(context()), RecoveryAction.RETRY)
    for kind in set(FailureType) - {EXTERNAL}:
        answer = await policy.dispatch(context(kind, trajectory=failed()))
        assert answer == RecoveryAction.ESCALATE(message=f"{kind.value}: it failed")


async def test_manifest_names_tools_and_intended_one() -> None:
    trajectory = failed("serch_web")
    for tools, run in (
        (["search_web", "add"], TriageContext()),
        ([], TriageContext(("search_web", "add"))),
    ):
        ctx = context(FailureType.WRONG_TOOL_CALLED, trajectory=trajectory, run=run)
        answer = await retry_with_tool_manifest(ctx, tools)
        assert isinstance(answer, RecoveryAction.RETRY)
        assert answer.hint is not None
        assert "Did you mean 'search_web'?" in answer.hint
        assert "search_web, add" in answer.hint
        assert answer.inject == {"tools": ["search_web", "add"]}


@given(attempts=st.integers(0, 2), least=st.floats(0.5, 2), most=st.floats(4, 60))
def test_wait_is_bounded_and_doubles(attempts: int, least: float, most: float) -> None:
    strategy = partial(backoff_and_retry, min_wait_s=least, max_wait_s=most)
    answer = asyncio.run(_answer(strategy, context(attempts=attempts)))
    assert isinstance(answer, RecoveryAction.RETRY)
    assert least <= answer.delay <= min(most, 2 * least * 2**attempts)


async def test_first_wait_is_random() -> None:
    answers: list[Any] = [await backoff_and_retry(context()) for _ in range(20)]
    assert len({each.delay for each in answers}) > 1


async def test_services_retry_after_is_the_minimum() -> None:
    trajectory = failed(metadata={"retry_after_s": 45.0})
    answer = await backoff_and_retry(context(trajectory=trajectory))
    assert answer == RecoveryAction.RETRY(delay=45.0)


@pytest.mark.parametrize(
    ("kind", "fields", "action"),
    [
        (EXTERNAL, {"metadata": {"effect": "uncertain"}}, RecoveryAction.SUSPEND),
        (FailureType.TIMEOUT, {}, RecoveryAction.SUSPEND),
        (FailureType.TIMEOUT, {"metadata": {"effect": "none"}}, RecoveryAction.RETRY),
        (FailureType.TIMEOUT, {"idempotent": True}, RecoveryAction.RETRY),
        (
            FailureType.TIMEOUT,
            {"idempotent": True, "metadata": {"effect": "uncertain"}},
            RecoveryAction.SUSPEND,
        ),
    ],
)
async def test_possible_effect_is_asked_about(
    kind: FailureType, fields: dict[str, Any], action: type[RecoveryAction]
) -> None:
    answer = await backoff_and_retry(context(kind, trajectory=failed(**fields)))
    assert isinstance(answer, action)


async def test_plan_may_have_a_hint_of_ones_own() -> None:
    assert await replan(context(), "a {brace}") == RecoveryAction.REPLAN(hint="a {brace}")


async def test_run_resumes_at_first_open_part() -> None:
    run = TriageContext(subgoals=("load", "check", "chart"), done_subgoals=frozenset({"load"}))
    ctx = context(FailureType.PLAN_INCOMPLETE, run=run)
    assert await resume_from_subgoal(ctx) == RecoveryAction.RESUME(from_subgoal="check")
    assert await resume_from_subgoal(ctx, "chart") == RecoveryAction.RESUME(from_subgoal="chart")


async def test_rollback_uses_newest_checkpoint_else_replans() -> None:
    there = context(FailureType.HALLUCINATED_STATE, run=TriageContext(checkpoints=("c1", "c2")))
    assert await rollback_to_checkpoint(there) == RecoveryAction.ROLLBACK("c2")
    assert await rollback_to_checkpoint(there, "c1") == RecoveryAction.ROLLBACK("c1")
    nowhere = context(FailureType.HALLUCINATED_STATE)
    assert isinstance(await rollback_to_checkpoint(nowhere), RecoveryAction.REPLAN)


async def _answer(strategy: Any, ctx: FailureContext) -> RecoveryAction:
    return await strategy(ctx)  # type: ignore[no-any-return]
