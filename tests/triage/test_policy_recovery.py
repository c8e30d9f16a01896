"""A policy of strategies stands in for the default policy, inside its budgets."""

import asyncio
from typing import Any

import pytest

from parsimony_kernel.agent.failure.recovery import handle_failure
from parsimony_kernel.core.causes import (
    AMBIGUOUS,
    BUDGET_USED,
    NOT_APPROVED,
    STEPS_USED,
    TIME_USED,
    Cause,
)
from parsimony_kernel.core.conversation import opening
from parsimony_kernel.core.events import AgentError, UserInputRequested
from parsimony_kernel.core.kinds import Action, Failure, FailureKind
from parsimony_kernel.core.policy import DefaultPolicy
from parsimony_kernel.core.state import RunState
from parsimony_kernel.core.taxonomy import FailureContext, FailureType
from parsimony_kernel.triage.failure_recovery import context_of, policy_as_recovery
from parsimony_kernel.triage.policy import FailurePolicy, RecoveryAction


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
    policy = policy_as_recovery(FailurePolicy())
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
    policy = policy_as_recovery(answering(plan))
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

    policy = policy_as_recovery(FailurePolicy(default=slow))
    state = RunState()
    plan = await policy.plan(failure(), state)
    assert plan == RecoveryAction.ABORT(reason="thought about it")
    assert policy.action_of(plan, failure(), state) is Action.stop
    assert policy.decide(failure(), state) is Action.retry


@pytest.mark.parametrize("effect", ["uncertain", "committed"])
async def test_no_strategy_repeats_possible_effect(effect: str) -> None:
    class Agent:
        policy = policy_as_recovery(answering(RecoveryAction.RETRY()))
        suspension_secret = "secret"

    found = failure(effect=effect)
    events = [event async for event in handle_failure(found, agent=Agent(), state=RunState())]
    assert events
    assert not any(isinstance(event, AgentError) for event in events)


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
        policy = policy_as_recovery(answering(RecoveryAction.REPLAN()))
        suspension_secret = "secret"

    signs: dict[str, Any] = dict.fromkeys(cause.signs, "y")
    found = cause.failure("x", action=Action.ask_user, **signs)
    events = [event async for event in handle_failure(found, agent=Agent(), state=RunState())]
    assert [type(event) for event in events] == [UserInputRequested]
    assert Agent.policy.decide(found, RunState()) is Action.ask_user
