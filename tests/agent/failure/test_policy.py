"""The ladder of the default policy."""

import pytest

from parsimony_kernel.agent.failure import Action, DefaultPolicy, Failure, FailureKind
from parsimony_kernel.core.policy import RecoveryPolicy
from parsimony_kernel.core.state import RunState

POLICY = DefaultPolicy()
BUDGETS = {"transient_provider": 3, "tool_error": 2, "output_truncated": 1}


def state(**attempts: int) -> RunState:
    counts = {FailureKind(kind): count for kind, count in attempts.items()}
    return RunState(run_id="r1", session_id="s1", failure_attempts=counts)


def test_the_default_policy_is_a_recovery_policy() -> None:
    assert isinstance(POLICY, RecoveryPolicy)


@pytest.mark.parametrize("kind", list(FailureKind))
def test_retry_budgets_are_three_two_one_and_zero_elsewhere(kind: FailureKind) -> None:
    assert POLICY.retry_budget(kind) == BUDGETS.get(kind.value, 0)


def test_backoff_doubles_to_thirty_seconds_and_only_for_the_provider() -> None:
    waits = [POLICY.backoff(FailureKind.transient_provider, n) for n in range(7)]
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert POLICY.backoff(FailureKind.tool_error, 3) == 0.0


@pytest.mark.parametrize(("kind", "budget"), BUDGETS.items())
def test_a_retry_becomes_a_handoff_once_its_budget_is_used(kind: str, budget: int) -> None:
    failure = Failure(FailureKind(kind), "x")
    for prior in range(budget):
        assert POLICY.decide(failure, state(**{kind: prior})) is Action.retry
    assert POLICY.decide(failure, state(**{kind: budget})) is Action.handoff


@pytest.mark.parametrize("kind", ["no_progress", "scope_too_large", "kernel_invalidated"])
def test_the_second_strike_of_narrowing_is_a_handoff(kind: str) -> None:
    failure = Failure(FailureKind(kind), "x")
    assert POLICY.decide(failure, state()) is Action.narrow_scope
    assert POLICY.decide(failure, state(**{kind: 1})) is Action.handoff
