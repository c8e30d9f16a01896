"""What stands in the table of causes is consistent."""

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.core.causes import (
    CAUSES,
    CLAIM_UNOBSERVED,
    LIMIT_UNKEEPABLE,
    RAISED,
    RUN_BROKEN,
    Cause,
    Rung,
    cause_of,
    has_open_type,
    is_for_a_person,
)
from parsimony_kernel.core.kinds import GUIDANCE, Effect, Failure, FailureKind, FailureType

PACKAGE = Path(__file__).parents[3] / "parsimony_kernel"
ENDS = {Rung.ask_user, Rung.handoff}


def name(cause: Cause) -> str:
    return cause.name


def failure_of(cause: Cause) -> Failure:
    """What a place makes that finds ``cause``."""
    signs: dict[str, Any] = dict.fromkeys(cause.signs, "y")
    return cause.failure("x", **signs)


@pytest.mark.parametrize("cause", CAUSES, ids=name)
def test_failure_maps_to_its_row_in_run_and_journal(cause: Cause) -> None:
    failure = failure_of(cause)
    assert cause_of(failure) is cause
    assert cause_of(failure.without_data()) is cause


@pytest.mark.parametrize("cause", CAUSES, ids=name)
def test_classifier_is_asked_only_for_open_types(cause: Cause) -> None:
    failure = failure_of(cause)
    assert has_open_type(failure) == (cause.type is None or cause is RUN_BROKEN)
    typed = replace(failure, metadata={**failure.metadata, "type": FailureType.SCHEMA_MISMATCH})
    assert not has_open_type(typed)


def test_classifier_types_unexplained_failures() -> None:
    assert has_open_type(Failure(FailureKind.policy_violation, "no budget was met"))


def literal_failures(path: Path) -> list[int]:
    """The lines on which ``Failure`` is given a kind that is written there."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Failure"
        and any(ast.unparse(each).startswith("FailureKind.") for each in node.args)
    ]


@pytest.mark.parametrize("package", ["agent", "agent/failure", "gate", "limits", "llm", "toolbox"])
def test_detector_builds_failure_from_row(package: str) -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in sorted((PACKAGE / package).glob("*.py"))
        for line in literal_failures(path)
    ]
    assert found == [], "make it of a row: agent.failure.causes has one, or is to have one"


def test_every_kind_has_a_cause() -> None:
    assert {cause.kind for cause in CAUSES} == set(FailureKind)


@pytest.mark.parametrize("cause", CAUSES, ids=name)
def test_ladder_ends_with_person_and_repeats_no_effect(cause: Cause) -> None:
    if cause is CLAIM_UNOBSERVED:  # said again, it is accepted
        assert cause.ladder == (Rung.refusal,)
        return
    assert [rung in ENDS for rung in cause.ladder] == [False] * (len(cause.ladder) - 1) + [True]
    # Only what the model can mend is refused first, and only once.
    assert Rung.refusal not in cause.ladder[1:]
    assert cause.ladder[0] is not Rung.refusal or cause.refusal in GUIDANCE
    if cause.effect in (Effect.uncertain, Effect.committed):
        assert not {Rung.retry, Rung.fallback, Rung.narrow_scope} & set(cause.ladder)


@pytest.mark.parametrize("cause", CAUSES, ids=name)
def test_questions_and_inspections_need_a_person(cause: Cause) -> None:
    begins = cause.ladder[0] is Rung.ask_user or cause.ladder == (Rung.reconcile, Rung.ask_user)
    assert is_for_a_person(failure_of(cause)) is (begins or cause is LIMIT_UNKEEPABLE)


def test_model_mistakes_need_no_person() -> None:
    assert not is_for_a_person(failure_of(RAISED))
    assert not is_for_a_person(Failure(FailureKind.policy_violation, "of no row"))
