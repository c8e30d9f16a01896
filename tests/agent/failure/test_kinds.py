"""The failure value."""

import pytest

from parsimony_kernel.agent.failure import (
    Action,
    Failure,
    FailureKind,
    FailureRaised,
    default_action_for,
)
from parsimony_kernel.core.kinds import Effect
from parsimony_kernel.core.refusals import RefusalError
from parsimony_kernel.core.taxonomy import FailureType

DEFAULTS = {
    "transient_provider": "retry",
    "output_truncated": "retry",
    "tool_error": "retry",
    "ambiguous_input": "ask_user",
    "loop_detected": "ask_user",
    "iteration_limit": "ask_user",
    "time_limit": "ask_user",
    "scope_too_large": "narrow_scope",
    "no_progress": "narrow_scope",
    "kernel_invalidated": "narrow_scope",
    "output_refused": "handoff",
    "capability_gap": "handoff",
    "policy_violation": "handoff",
}


def test_the_kinds_are_exactly_the_thirteen() -> None:
    assert {kind.value for kind in FailureKind} == set(DEFAULTS)
    assert {action.value for action in Action} == {
        "retry",
        "narrow_scope",
        "ask_user",
        "handoff",
        "stop",
    }


@pytest.mark.parametrize(("kind", "action"), DEFAULTS.items())
def test_every_kind_has_its_default_action(kind: str, action: str) -> None:
    assert default_action_for(FailureKind(kind)) == action
    assert Failure(FailureKind(kind), "x").suggested_action == action


def test_a_given_action_stays() -> None:
    failure = Failure(FailureKind.tool_error, "x", suggested_action=Action.stop)
    assert failure.suggested_action is Action.stop


def test_equality_and_hash_ignore_metadata_and_action() -> None:
    one = Failure(FailureKind.tool_error, "x", ("a",), metadata={"iteration": 1})
    same = Failure(FailureKind.tool_error, "x", ("a",), Action.stop, metadata={"iteration": 2})
    other = Failure(FailureKind.tool_error, "x", ("b",))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert len({one, same, other}) == 2


def test_blockers_become_a_tuple_and_the_value_cannot_be_changed() -> None:
    failure = Failure(FailureKind.capability_gap, "no SAP", blockers=["a", "b"])
    assert failure.blockers == ("a", "b")
    with pytest.raises(AttributeError):
        failure.explanation = "y"


def test_the_derived_answers_have_defaults_and_read_metadata() -> None:
    plain = Failure(FailureKind.tool_error, "x")
    assert (plain.type, plain.refusal, plain.effect) == (FailureType.UNKNOWN, None, Effect.none)
    known = Failure(
        FailureKind.tool_error,
        "x",
        metadata={"type": "timeout", "refusal": "action_timeout", "effect": "uncertain"},
    )
    assert (known.type, known.refusal, known.effect) == (
        FailureType.TIMEOUT,
        RefusalError.action_timeout,
        Effect.uncertain,
    )


def test_failure_raised_carries_the_failure_and_reads_as_kind_and_explanation() -> None:
    failure = Failure(FailureKind.tool_error, "boom")
    assert str(FailureRaised(failure)) == "tool_error: boom"
    assert FailureRaised(failure).failure is failure


def test_unknown_is_the_last_type_and_timeout_stands_before_it() -> None:
    assert [kind.name for kind in FailureType][-2:] == ["TIMEOUT", "UNKNOWN"]
