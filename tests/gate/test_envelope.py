"""The envelope stays small and can be sent, whatever is put in."""

import json
from typing import Any

import pytest

from parsimony_kernel.core.kinds import Effect, Failure, FailureKind
from parsimony_kernel.core.refusals import RefusalError
from parsimony_kernel.gate.envelope import MAX_BYTES, Envelope, refused, succeeded, to_text, told

BIG = 5_000_000


def answered(result: Any, names: tuple[str, ...] = ("look",)) -> Envelope:
    return succeeded("look", result, state="running", valid_next_actions=names)


def failed(requested: str = "look", /, **fields: Any) -> Envelope:
    failure = Failure(
        FailureKind.tool_error,
        fields.pop("explanation", "no"),
        partial_data=fields.pop("partial_data", None),
        metadata={"envelope": fields},
    )
    return refused(requested, told(failure), state="running", valid_next_actions=["look"])


@pytest.mark.parametrize(
    "envelope",
    [
        answered(["x" * 3_000] * 500),
        answered("\N{OLD PERSONAL COMPUTER}" * BIG),
        answered(["\N{OLD PERSONAL COMPUTER}" * 3_000] * 6),
        answered({'"' * 150 + str(each): '"' * 150 for each in range(900)}),
        answered(1, tuple(f"tool_{each:060}" for each in range(5_000))),
        failed("n" * BIG),
        failed(explanation="e" * BIG),
        failed(details=[{"field": str(each), "problem": "p" * 500} for each in range(100_000)]),
        failed(details={"field": "f" * BIG}),
        failed(known_actions=[f"tool_{each:060}" for each in range(5_000)]),
        failed(reason="r" * BIG, error_message="m" * BIG),
        failed(**{f"field_{each}": "x" * 3_000 for each in range(1_000)}),
        failed(partial_data=["\ud800" * 3_000] * 500, explanation="half \ud800"),
    ],
)
def test_an_envelope_is_small_and_can_be_sent(envelope: Envelope) -> None:
    text = to_text(envelope).encode()
    assert len(text) <= MAX_BYTES
    again = json.loads(text)
    assert again["requested"]
    assert isinstance(again["valid_next_actions"], list)
    assert again["valid_next_actions"]


def test_what_is_cut_is_cut_in_the_middle_and_says_so() -> None:
    message = failed(explanation="first " + "e" * BIG + " last")["message"]
    assert message.startswith("first ")
    assert message.endswith(" last")
    assert "characters left out" in message
    assert len(message) < 2_100


def test_details_are_few_and_short() -> None:
    details = failed(details=[{"field": "f" * 500}] * 100)["details"]
    assert details[20:] == ["… 80 more left out"]
    assert len(details[0]["field"]) < 250


def test_a_failure_s_own_fields_do_not_take_the_place_of_the_gate_s() -> None:
    envelope = failed(error="none", requested="other", state=5, message="fine", reason="kept")
    assert envelope["error"] == "action_error"
    assert (envelope["requested"], envelope["state"]) == ("look", "running")
    assert (envelope["message"], envelope["reason"]) == ("no", "kept")


def test_a_result_that_cannot_be_shown_is_done_all_the_same() -> None:
    class Unshowable:
        def __str__(self) -> str:
            raise RuntimeError("no words")

    assert "note" not in answered([1])
    envelope = answered([1, Unshowable()])
    assert envelope["result"][0] == 1
    assert envelope["note"].startswith("The action was done")
    assert "error" not in envelope


def test_a_failure_is_told_short_and_keeps_what_it_is() -> None:
    failure = Failure(
        FailureKind.policy_violation,
        "e" * BIG,
        tuple("b" * BIG for _ in range(30)),
        metadata={
            "refusal": RefusalError.validation_failed,
            "effect": Effect.uncertain,
            "question": "q" * BIG,
            "seconds": 5,
            "envelope": {"details": ["d" * BIG]},
        },
    )
    short = told(failure)
    assert (short.kind, short.refusal, short.effect) == (
        failure.kind,
        RefusalError.validation_failed,
        Effect.uncertain,
    )
    assert short.suggested_action is failure.suggested_action
    assert short.metadata["seconds"] == 5
    assert len(short.blockers) == 20
    assert len(repr(short)) < 30_000
