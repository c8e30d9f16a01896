"""Leave is for exactly one action, looked at again when it runs."""

from typing import Any

import pytest

from parsimony_kernel.core.kinds import HELD
from parsimony_kernel.core.reach import Reach, ReachKind
from parsimony_kernel.gate.approval import Approval, Approving
from parsimony_kernel.gate.gate import Gate, StepOutcome
from parsimony_kernel.gate.stages import STAGES
from parsimony_kernel.tools import Tools, tool

FULL = {"payment": "P9", "amount": 10, "to": "ann"}
CHANGES: list[dict[str, Any]] = [
    {"amount": 11},
    {"amount": "10"},
    {"amount": 10.5},
    {"payment": "p9"},
    {"to": "ann "},
    {"to": ""},
    {"note": None},
]


class Bank:
    """Pays, and notes what."""

    def __init__(self) -> None:
        self.paid: list[tuple[str, str, Any]] = []
        self.reached = (Reach(ReachKind.shell, "ls", 1, "go()"),)

    @property
    def gate(self) -> Gate:
        """A gate of a run of its own."""

        @tool(effect="write")
        async def refund(payment: str, amount: float | str, to: str, note: str | None = "") -> str:
            """Pay back."""
            self.paid.append(("refund", payment, amount))
            return "paid"

        @tool(effect="write")
        async def transfer(
            payment: str, amount: float | str, to: str, note: str | None = ""
        ) -> str:
            """Pay on."""
            self.paid.append(("transfer", payment, amount))
            return "paid"

        @tool(tool_type="code", effect="none")
        async def run_code(code: str) -> str:
            """Run code."""
            self.paid.append(("run_code", code, None))
            return "ran"

        stages = (*STAGES, Approving(Approval.guarded, lambda code: self.reached).stage)
        return Gate(Tools([refund, transfer, run_code]), timeout_s=5, stages=stages)


def leave_of(outcome: StepOutcome) -> str:
    """The hash that the person is asked to allow."""
    assert outcome.failure is not None
    return str(outcome.failure.metadata[HELD])


async def test_a_write_waits_and_runs_with_leave_for_exactly_itself() -> None:
    bank = Bank()
    waiting = await bank.gate.step("refund", FULL)
    assert bank.paid == []
    reordered = dict(reversed(FULL.items()))
    assert (await bank.gate.step("refund", reordered, approved=leave_of(waiting))).ok
    assert bank.paid == [("refund", "P9", 10)]


@pytest.mark.parametrize("change", CHANGES, ids=str)
async def test_whatever_was_changed_since_is_asked_about_anew_and_not_run(
    change: dict[str, Any],
) -> None:
    bank = Bank()
    leave = leave_of(await bank.gate.step("refund", FULL))
    changed = await bank.gate.step("refund", {**FULL, **change}, approved=leave)
    assert leave_of(changed) != leave
    other = await bank.gate.step("transfer", FULL, approved=leave)
    assert leave_of(other) != leave
    assert bank.paid == []


@pytest.mark.parametrize("forged", ["", "0" * 64, "not-approved", "approved"])
async def test_words_that_are_no_hash_of_it_are_no_leave(forged: str) -> None:
    bank = Bank()
    assert not (await bank.gate.step("refund", FULL, approved=forged)).ok
    assert bank.paid == []


async def test_code_that_reaches_something_else_by_now_is_asked_about_anew() -> None:
    bank = Bank()
    leave = leave_of(await bank.gate.step("run_code", {"code": "go()"}))
    bank.reached = (Reach(ReachKind.deletion, "a.csv", 1, "go()"),)
    assert leave_of(await bank.gate.step("run_code", {"code": "go()"}, approved=leave)) != leave
    bank.reached = (Reach(ReachKind.shell, "ls", 1, "go()"),)
    assert (await bank.gate.step("run_code", {"code": "go()"}, approved=leave)).ok
    assert bank.paid == [("run_code", "go()", None)]


# -- when a person is asked
