"""A handoff passes its validators or does not take place."""

import pytest

from parsimony_kernel.patterns.handoff import ValidationResult, validated_handoff


def accepts(_: dict[str, object]) -> ValidationResult:
    return ValidationResult(True)


def test_the_same_object_comes_back_when_all_pass() -> None:
    output: dict[str, object] = {"order": "A102"}
    assert validated_handoff(output, [accepts, accepts]) is output
    assert validated_handoff(output, []) is output


def test_the_first_failure_stops_and_its_reason_is_the_answer() -> None:
    asked: list[str] = []

    def rejects(reason: str, output: dict[str, object]) -> ValidationResult:
        asked.append(reason)
        return ValidationResult(False, f"{reason} of {output['order']}")

    answer = validated_handoff(
        {"order": "A102"},
        [accepts, lambda o: rejects("no scan", o), lambda o: rejects("no policy", o)],
    )
    assert answer["status"] == "validation_failed"
    assert answer["error"] == "no scan of A102"
    assert "human review" in str(answer["fallback"])
    assert asked == ["no scan"]


def test_a_validator_that_raises_is_not_taken_for_one_that_accepts() -> None:
    def broken(_: dict[str, object]) -> ValidationResult:
        raise ConnectionError("the source of truth is away")

    with pytest.raises(ConnectionError):
        validated_handoff({}, [broken])


def test_a_result_has_no_reason_unless_one_is_given() -> None:
    assert ValidationResult(True) == ValidationResult(valid=True, reason="")
