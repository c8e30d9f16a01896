"""What a tool answered passes its own validators, or nothing rests on it."""

import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.effects import MemoryEffects, action_sha
from parsimony_kernel.core.kinds import Action, Effect, Failure, FailureKind, FailureType
from parsimony_kernel.execution.interrupt import stop_on_sigint
from parsimony_kernel.gate import stages
from parsimony_kernel.gate.gate import Gate, StepOutcome
from parsimony_kernel.gate.stages import STAGES, Attempt
from parsimony_kernel.patterns.critic import ValidationResult
from parsimony_kernel.tools import OutputValidator, Tool, Tools, tool

ORDER = {"order": "A102", "total": 12}


def looking_up(*checks: OutputValidator, answer: Any = ORDER, **options: Any) -> Tool:
    @tool(name="look_up", output_validators=list(checks), **options)
    async def look_up() -> Any:
        """Look the order up."""
        return answer

    return look_up


async def step(of: Tool) -> StepOutcome:
    return await Gate(Tools([of]), timeout_s=5).step(of.name, {})


def failure_of(outcome: StepOutcome) -> Failure:
    assert outcome.failure is not None
    return outcome.failure


def accepts(_: Any) -> ValidationResult:
    return ValidationResult(True)


def has_scan(output: dict[str, Any]) -> ValidationResult:
    return ValidationResult("scan" in output, f"no scan of {output['order']}")


def is_dear(output: dict[str, Any]) -> str | None:
    return None if output["total"] > 100 else f"a total of {output['total']} is no large order"


@pytest.mark.parametrize(
    ("checks", "reason"),
    [
        ([accepts, has_scan, is_dear], "no scan of A102"),
        ([is_dear, has_scan], "a total of 12 is no large order"),
        ([lambda _: ValidationResult(False)], "a validator refused it"),
    ],
)
async def test_first_validator_refusal_stops_with_its_reason(
    checks: list[OutputValidator], reason: str
) -> None:
    outcome = await step(looking_up(*checks))
    failure = failure_of(outcome)
    assert failure.kind is FailureKind.tool_error
    assert (failure.type, failure.effect) == (FailureType.SCHEMA_MISMATCH, Effect.none)
    assert outcome.envelope["error"] == "action_error"
    assert outcome.envelope["message"] == (
        f"look_up was done, but what it answered is refused: {reason}"
    )
    assert outcome.envelope["error_message"] == reason
    assert outcome.envelope["result"] == ORDER
    assert not outcome.is_guidance


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("the sum is wrong"), "the sum is wrong"),
        (ConnectionError("away"), "a check of it broke (ConnectionError: away)"),
    ],
)
async def test_raising_validator_counts_as_rejection(error: Exception, reason: str) -> None:
    def raises(_: Any) -> None:
        raise error

    assert (await step(looking_up(raises))).envelope["error_message"] == reason


@pytest.mark.parametrize("kind", [bool, np.bool_])
async def test_validator_may_return_bool(kind: Callable[[bool], Any]) -> None:
    yes, no = (lambda _: kind(True)), (lambda _: kind(False))
    assert (await step(looking_up(yes))).ok
    assert (await step(looking_up(yes, no))).envelope["error_message"] == "a validator refused it"
    assert (await step(looking_up(validators=[yes]))).ok
    refused = await step(looking_up(validators=[no]))
    assert refused.envelope["reason"] == "a validator refused it"
    assert refused.is_guidance


def for_ever(_: Any) -> None:
    while True:
        pass


def stubborn(_: Any) -> None:
    """Takes the first interruption for something else."""
    try:
        for_ever(_)
    except BaseException:
        return


@pytest.mark.parametrize("validator", [for_ever, stubborn])
async def test_hanging_validator_rejects_at_deadline(
    monkeypatch: pytest.MonkeyPatch, validator: OutputValidator
) -> None:
    monkeypatch.setattr(stages, "CHECK_S", 0.01)
    said = "a check of it took longer than 0.01 s"
    assert (await step(looking_up(validator))).envelope["error_message"] == said
    assert (await step(looking_up(validators=[validator]))).envelope["reason"] == said


@pytest.mark.parametrize("validator", [for_ever, stubborn])
async def test_stop_during_validation_ends_run(validator: OutputValidator) -> None:
    def stopped(output: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        validator(output)

    with stop_on_sigint(stop := CancellationRequest()), pytest.raises(Cancelled):
        await step(looking_up(stopped))
    assert stop.is_set


class Letters:
    def __init__(self) -> None:
        self.sent: list[str] = []
        self.judged: list[Any] = []
        self.effects = MemoryEffects()

    def gate(self, **options: Any) -> Gate:
        def judge(output: Any) -> str | None:
            self.judged.append(output)
            return "no receipt" if "receipt" not in output else None

        @tool(effect="write", output_validators=(judge,), **options)
        async def send(to: str) -> Any:
            """Send."""
            self.sent.append(to)
            return {"to": (to,)}

        return Gate(Tools([send]), timeout_s=5, effects=self.effects, run_id="r1")


async def test_write_with_rejected_output_is_not_repeated() -> None:
    letters = Letters()
    first = await letters.gate().step("send", {"to": "ann"})
    failure = failure_of(first)
    assert failure.effect is Effect.committed
    assert failure.type is FailureType.SCHEMA_MISMATCH
    again = await letters.gate().step("send", {"to": "ann"})
    assert again.envelope == first.envelope
    assert again.envelope["result"] == {"to": ["ann"]}
    assert letters.sent == ["ann"]
    assert letters.judged == [{"to": ["ann"]}] * 2


async def test_reconciled_write_output_is_validated() -> None:
    letters = Letters()

    async def found(to: str) -> dict[str, str]:
        return {"found": to}

    inputs = {"to": "ann"}
    letters.effects.intend(action_sha("send", inputs, run_id="r1"), "send", inputs)
    outcome = await letters.gate(reconcile=found).step("send", inputs)
    assert failure_of(outcome).effect is Effect.committed
    assert outcome.envelope["result"] == {"found": "ann"}
    assert letters.sent == []


class Address(BaseModel):
    """Where a parcel goes."""

    street: str
    zip_code: str


async def test_nested_field_is_named_by_path() -> None:
    @tool
    async def send_parcel(address: Address) -> None:
        """Send a parcel."""

    gate = Gate(Tools([send_parcel]), timeout_s=5)
    inputs = {"address": {"street": "Main St", "zip_code": 7}}
    envelope = (await gate.step("send_parcel", inputs)).envelope
    assert envelope["details"]["field"] == "address.zip_code"
    assert "'address'" not in envelope["reason"]


async def test_raising_check_blocks_and_says_so() -> None:
    def broken(attempt: Attempt) -> None:
        raise RecursionError("too deep")

    asked: list[Any] = []
    of = looking_up(asked.append)
    outcome = await Gate(Tools([of]), timeout_s=5, stages=(*STAGES, broken)).step(of.name, {})
    said = "a check of look_up broke (RecursionError: too deep). Nothing was run."
    assert outcome.envelope["message"] == said
    assert failure_of(outcome).suggested_action is Action.handoff
    assert outcome.envelope["valid_next_actions"] == ["look_up"]
    assert asked == []
