"""A policy says what to do about each type of failure, and a failure always gets an answer."""

import asyncio
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.agent.failure.recovery import handle_failure
from parsimony_kernel.core.causes import (
    AMBIGUOUS,
    BUDGET_USED,
    NOT_APPROVED,
    STEPS_USED,
    TIME_USED,
    Cause,
    DefaultPolicy,
)
from parsimony_kernel.core.conversation import opening
from parsimony_kernel.core.events import UserInputRequested
from parsimony_kernel.core.kinds import (
    Action,
    Failure,
    FailureContext,
    FailureKind,
    FailureType,
    Step,
    TriageContext,
)
from parsimony_kernel.core.state import RunState
from parsimony_kernel.triage.policy import (
    FailurePolicy,
    PolicyRecovery,
    RecoveryAction,
    backoff_and_retry,
    context_of,
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


# A policy of strategies stands in for the default policy, inside its budgets.


def failure(
    kind: FailureKind = FailureKind.tool_error,
    type: FailureType = FailureType.SCHEMA_MISMATCH,
    **metadata: Any,
) -> Failure:
    return Failure(kind, "it failed", metadata={"type": type, **metadata})


def answering(action: RecoveryAction) -> FailurePolicy:
    async def strategy(ctx: FailureContext) -> RecoveryAction:
        return action

    return FailurePolicy(default=strategy)


@pytest.mark.parametrize("kind", FailureKind)
def test_default_answers_what_policy_omits(kind: FailureKind) -> None:
    policy = PolicyRecovery(FailurePolicy())
    for prior in range(4):
        state = RunState(failure_attempts={kind: prior})
        each = failure(kind)
        assert policy.decide(each, state) is DefaultPolicy().decide(each, state)
    assert policy.retry_budget(kind) == DefaultPolicy().retry_budget(kind)
    assert policy.backoff(kind, 2) == DefaultPolicy().backoff(kind, 2)


@pytest.mark.parametrize(
    ("plan", "allowed"), [(RecoveryAction.RETRY(), 2), (RecoveryAction.REPLAN(), 1)]
)
def test_stubborn_strategy_ends_at_kinds_budget(plan: RecoveryAction, allowed: int) -> None:
    policy = PolicyRecovery(answering(plan))
    actions = [
        policy.decide(failure(), RunState(failure_attempts={FailureKind.tool_error: prior}))
        for prior in range(4)
    ]
    assert actions.count(Action.handoff) == 4 - allowed
    assert actions[allowed:] == [Action.handoff] * (4 - allowed)


async def test_waiting_strategy_needs_a_waiting_funnel() -> None:
    async def slow(ctx: FailureContext) -> RecoveryAction:
        await asyncio.sleep(0)
        return RecoveryAction.ABORT(reason="thought about it")

    policy = PolicyRecovery(FailurePolicy(default=slow))
    state = RunState()
    plan = await policy.plan(failure(), state)
    assert plan == RecoveryAction.ABORT(reason="thought about it")
    assert policy.action_of(plan, failure(), state) is Action.stop
    assert policy.decide(failure(), state) is Action.retry


def test_strategy_sees_request_steps_and_count() -> None:
    state = RunState(
        messages=[
            *opening("sum the orders", "<notebook_context>\n{}\n</notebook_context>"),
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "a", "function": {"name": "serch", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "a", "content": '{"error": "unknown_action"}'},
        ],
        failure_attempts={FailureKind.tool_error: 2, FailureKind.no_progress: 5},
        pinned_constraints=["never delete"],
    )
    seen = context_of(failure(retry_after_s=4.0), state)
    assert seen.original_task == "sum the orders"
    assert seen.last_step is not None
    assert seen.last_step.tool_called == "serch"
    assert seen.attempts == 2
    assert seen.run.constraints == ("never delete",)
    assert (seen.raw_error, seen.metadata["retry_after_s"]) == ("it failed", 4.0)
    assert seen.metadata["effect"] == "none"


@pytest.mark.parametrize("cause", [NOT_APPROVED, STEPS_USED, TIME_USED, BUDGET_USED, AMBIGUOUS])
async def test_questions_for_people_reach_people(cause: Cause) -> None:
    class Agent:
        policy = PolicyRecovery(answering(RecoveryAction.REPLAN()))
        suspension_secret = "secret"

    signs: dict[str, Any] = dict.fromkeys(cause.signs, "y")
    found = cause.failure("x", action=Action.ask_user, **signs)
    events = [event async for event in handle_failure(found, agent=Agent(), state=RunState())]
    assert [type(event) for event in events] == [UserInputRequested]
    assert Agent.policy.decide(found, RunState()) is Action.ask_user
