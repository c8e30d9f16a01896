"""What the end of code means, as the tool that runs it tells."""

import pytest

from parsimony_kernel.core.causes import LATE, RAISED, STATE_LOST, Cause, cause_of
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.core.taxonomy import FailureType
from parsimony_kernel.execution.private import CodeExecutor
from parsimony_kernel.gate.gate import Gate, StepOutcome
from parsimony_kernel.toolbox.run_code import code_tools

# Real seconds; code that is to be stopped at its deadline has no other clock.
SOON_S = 0.2
# A wait that no interrupt of ours reaches, and that ends by itself soon after the test.
STUCK = "import threading\nthreading.Event().wait(3)"
# Deadlines of the code's own; the words of one are those that we would use.
TIRED = "raise TimeoutError('read timeout')"
ALIKE = "raise TimeoutError('timeout: the code was stopped after 30 s by the database')"


async def ran(code: str) -> StepOutcome:
    return await Gate(code_tools(CodeExecutor(), timeout_s=SOON_S), timeout_s=60).step(
        "run_code", {"code": code}
    )


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("while True: pass", LATE),
        (STUCK, STATE_LOST),
        ("1/0", RAISED),
        (TIRED, RAISED),
        (ALIKE, RAISED),
    ],
)
async def test_code_outcome_maps_to_table_row(code: str, cause: Cause) -> None:
    failure = (await ran(code)).failure
    assert isinstance(failure, Failure)
    assert cause_of(failure) is cause


async def test_late_code_reports_its_deadline() -> None:
    outcome = await ran("while True: pass")
    assert outcome.envelope["error"] == "action_timeout"
    assert outcome.envelope["timeout_seconds"] == SOON_S
    assert outcome.failure is not None
    assert outcome.failure.type is FailureType.TIMEOUT


@pytest.mark.parametrize("code", ["1/0", TIRED, ALIKE])
async def test_raising_code_is_not_late(code: str) -> None:
    outcome = await ran(code)
    assert outcome.envelope["error"] == "action_error"
    assert "timeout_seconds" not in outcome.envelope


async def test_lost_state_is_reported_and_no_refusal() -> None:
    outcome = await ran(STUCK)
    assert outcome.failure is not None
    assert outcome.failure.refusal is None
    assert "still runs" in outcome.failure.explanation
    assert "still runs" in outcome.envelope["message"]
