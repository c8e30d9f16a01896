"""What waits for a person, and code that was cut off while it reached outside."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.core.choices import OUTCOME
from parsimony_kernel.core.effects import action_sha
from parsimony_kernel.core.kinds import (
    EFFECT_KEY,
    HELD,
    Action,
    Effect,
    Failure,
    FailureKind,
    FailureType,
)
from parsimony_kernel.core.reach import ACTING, Reach, ReachKind
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.gate.approval import Approval, Approving
from parsimony_kernel.gate.gate import Gate, StepOutcome
from parsimony_kernel.gate.stages import STAGES
from parsimony_kernel.toolbox.run_tools import code_tools
from parsimony_kernel.tools import Tool, ToolResult, Tools, tool

Reaches = Callable[[str], Sequence[Reach]]


def gate_of(
    *of: Tool, mode: Approval = Approval.guarded, reaches: Reaches = lambda code: ()
) -> Gate:
    stages = (*STAGES, Approving(mode, reaches).stage)
    return Gate(Tools(of), timeout_s=5, stages=stages, run_id="r1")


def named(name: str, **options: Any) -> Tool:
    @tool(name=name, **options)
    async def act() -> str:
        """Act."""
        return "done"

    return act


ALARMING = ["delete_rows", "modify", "transfer_money", "Refund", "refund_order", "deleteRows"]
CALM = ["look_up", "undelete", "modified_since", "list_refunds"]


@pytest.mark.parametrize(
    ("mode", "name", "options", "waits"),
    [
        *(("guarded", name, {}, True) for name in ALARMING),
        *(("guarded", name, {}, False) for name in CALM),
        ("guarded", "delete_rows", {"effect": "write"}, True),
        ("guarded", "delete_rows", {"effect": "none"}, False),
        ("guarded", "delete_rows", {"effect": "idempotent"}, False),
        ("guarded", "delete_rows", {"idempotent": True}, False),
        ("auto", "delete_rows", {}, False),
        ("ask", "delete_rows", {}, True),
        ("ask", "act", {}, True),
        ("ask", "act", {"idempotent": True}, True),
        ("ask", "act", {"effect": "idempotent"}, True),
        ("ask", "act", {"effect": "write"}, True),
        ("ask", "act", {"tool_type": "publish"}, True),
        ("ask", "act", {"tool_type": "code", "effect": "none"}, True),
        ("ask", "act", {"effect": "none"}, False),
        ("ask", "act", {"tool_type": "termination"}, False),
        ("ask", "act", {"terminal": True}, False),
    ],
    ids=str,
)
async def test_call_waits_by_its_name_its_effect_and_the_mode(
    mode: str, name: str, options: dict[str, Any], waits: bool
) -> None:
    outcome = await gate_of(named(name, **options), mode=Approval(mode)).step(name, {})
    assert (outcome.failure is not None and HELD in outcome.failure.metadata) is waits


# A tool whose ``reaches`` tells of one argument only.


def keeping(tells: Callable[[str], Sequence[str]]) -> Tool:
    @tool(effect="idempotent", reaches=lambda inputs: tells(str(inputs["name"])))
    async def keep(name: str) -> str:
        """Keep it."""
        return "kept"

    return keep


async def test_approval_shows_tools_own_description() -> None:
    gate = gate_of(keeping(lambda name: (f"{name} is code.",) if name == "a.py" else ()))
    assert (await gate.step("keep", {"name": "a.txt"})).ok
    asked = failure_of(await gate.step("keep", {"name": "a.py"}))
    assert (asked.explanation, asked.metadata["question"]) == ("A.py is code.", "May keep run?")
    leave = asked.metadata[HELD]
    assert (await gate.step("keep", {"name": "a.py"}, approved=leave)).ok


async def test_approval_covers_only_the_reach_it_was_given_for() -> None:
    said = ["it starts a program"]
    gate = gate_of(keeping(lambda name: said))
    asked = failure_of(await gate.step("keep", {"name": "a"}))
    said[:] = ["it deletes a file"]
    again = await gate.step("keep", {"name": "a"}, approved=asked.metadata[HELD])
    assert "deletes a file" in failure_of(again).explanation


async def test_auto_mode_asks_about_no_reach_of_a_tool() -> None:
    gate = gate_of(keeping(lambda name: ("x",)), mode=Approval.auto)
    assert (await gate.step("keep", {"name": "a"})).ok


async def test_call_whose_reach_is_not_told_is_refused() -> None:
    def broken(name: str) -> Sequence[str]:
        raise OSError("no such disk")

    outcome = await gate_of(keeping(broken)).step("keep", {"name": "a"})
    assert "no such disk" in failure_of(outcome).explanation


@pytest.mark.parametrize("mode", Approval)
async def test_code_that_clears_namespace_asks_in_every_mode(mode: Approval) -> None:
    where = (place(ReachKind.forgetting),)
    gate = gate_of(code_that("done"), mode=mode, reaches=lambda code: where)
    asked = failure_of(await gate.step("run_code", CODE))
    assert "forgets every variable" in asked.explanation
    assert (await gate.step("run_code", CODE, approved=asked.metadata[HELD])).ok


LATE = Failure(
    FailureKind.tool_error,
    "TimeoutError: the code ran into its timeout",
    metadata={"type": FailureType.TIMEOUT, "effect": Effect.none},
)
CODE = {"code": "x"}


def code_that(answer: Any) -> Tool:
    @tool(name="run_code", tool_type="code")
    async def run_code(code: str) -> Any:
        """Run it."""
        return answer

    return run_code


def place(kind: ReachKind) -> Reach:
    return Reach(kind, "there", 1, "x")


def failure_of(outcome: StepOutcome) -> Failure:
    assert outcome.failure is not None
    return outcome.failure


async def ran(answer: Any, mode: Approval, *places: Reach) -> StepOutcome:
    gate = gate_of(code_that(answer), mode=mode, reaches=lambda code: places)
    outcome = await gate.step("run_code", CODE)
    if outcome.failure is not None and HELD in outcome.failure.metadata:
        leave = outcome.failure.metadata[HELD]
        outcome = await gate.step("run_code", CODE, approved=leave)
    return outcome


@pytest.mark.parametrize("mode", Approval)
@pytest.mark.parametrize("kind", sorted(ACTING))
async def test_late_code_that_reaches_outside_is_asked_about_and_not_retried(
    kind: ReachKind, mode: Approval
) -> None:
    failure = failure_of(await ran(ToolResult.from_failure(LATE), mode, place(kind)))
    assert failure.effect is Effect.uncertain
    assert failure.suggested_action is Action.ask_user
    assert failure.metadata["question"] == "Did run_code take effect?"
    assert failure.metadata["choices"] == OUTCOME
    assert failure.metadata[EFFECT_KEY] == action_sha("run_code", CODE, run_id="r1")
    assert place(kind).sentence.rstrip(".") in failure.explanation


@pytest.mark.parametrize("mode", Approval)
@pytest.mark.parametrize(
    "places",
    [(), (place(ReachKind.secret),), (place(ReachKind.forgetting),)],
    ids=["nowhere", "a key", "the namespace"],
)
async def test_late_harmless_code_may_be_retried(places: tuple[Reach, ...], mode: Approval) -> None:
    failure = failure_of(await ran(ToolResult.from_failure(LATE), mode, *places))
    assert (failure.effect, failure.suggested_action) == (Effect.none, Action.retry)


async def test_code_that_reaches_outside_in_time_is_not_asked_about() -> None:
    where = place(ReachKind.network)
    assert (await ran("done", Approval.auto, where)).ok
    wrong = ToolResult.from_failure(Failure(FailureKind.tool_error, "NameError: x"))
    failure = failure_of(await ran(wrong, Approval.auto, where))
    assert (failure.effect, failure.suggested_action) == (Effect.none, Action.retry)


DOWNLOAD = "import pandas as pd\ntry:\n    pd.read_csv('http://data.example.invalid/a.csv')\n"


@pytest.mark.parametrize(
    ("code", "effect"),
    [
        ("import subprocess\nsubprocess.run(['true'])", Effect.uncertain),
        (f"{DOWNLOAD}except OSError:\n    pass", Effect.none),
    ],
    ids=["a program", "a download"],
)
async def test_late_download_may_be_retried(tmp_path: Path, code: str, effect: Effect) -> None:
    import pandas  # noqa: F401 - the deadline is for the download

    tools = code_tools(CodeExecutor(cwd=str(tmp_path)), timeout_s=1)
    asking = Approving(Approval.auto, lambda code: (), tmp_path)
    gate = Gate(tools, timeout_s=60, approvals=asking)
    failure = failure_of(await gate.step("run_code", {"code": f"{code}\nwhile True:\n    pass"}))
    assert (failure.type, failure.effect) == (FailureType.TIMEOUT, effect)


async def test_download_that_was_cut_off_is_run_again_and_told(tmp_path: Path) -> None:
    import pandas  # noqa: F401 - the deadline is for the download

    tools = code_tools(CodeExecutor(cwd=str(tmp_path)), timeout_s=1)
    asking = Approving(Approval.auto, lambda code: (), tmp_path)
    gate = Gate(tools, timeout_s=60, approvals=asking)
    code = f"{DOWNLOAD}except OSError:\n    while waits:\n        pass"
    assert not (await gate.step("run_code", {"code": f"waits = True\n{code}"})).ok
    again = await gate.step("run_code", {"code": f"waits = False\n{code}"})
    told = "data.example.invalid: a download that was cut off is run again."
    assert again.envelope.get("note") == told


# Leave is for exactly one action, looked at again when it runs.

FULL = {"payment": "P9", "amount": 10, "to": "ann"}
CHANGES: list[dict[str, Any]] = [
    {"amount": 11}, {"amount": "10"}, {"amount": 10.5}, {"payment": "p9"}, {"to": "ann "},
    {"to": ""}, {"note": None},
]  # fmt: skip


def paying(paid: list[Any]) -> Gate:
    """A gate of a run of its own, with two tools that pay."""

    def named(name: str) -> Tool:
        @tool(name=name, effect="write")
        async def pay(payment: str, amount: float | str, to: str, note: str | None = "") -> None:
            """Pay."""
            paid.append(payment)

        return pay

    return gate_of(named("refund"), named("transfer"))


def leave_of(outcome: StepOutcome) -> str:
    """The hash that the person is asked to allow."""
    return str(failure_of(outcome).metadata[HELD])


@pytest.mark.parametrize("change", CHANGES, ids=str)
async def test_changed_arguments_are_asked_about_again(change: dict[str, Any]) -> None:
    paid: list[Any] = []
    leave = leave_of(await paying(paid).step("refund", FULL))
    changed = await paying(paid).step("refund", {**FULL, **change}, approved=leave)
    assert leave_of(changed) != leave
    other = await paying(paid).step("transfer", FULL, approved=leave)
    assert leave_of(other) != leave
    assert paid == []


@pytest.mark.parametrize("forged", ["", "0" * 64, "not-approved", "approved"])
async def test_reply_without_action_hash_is_no_approval(forged: str) -> None:
    paid: list[Any] = []
    assert not (await paying(paid).step("refund", FULL, approved=forged)).ok
    assert paid == []


async def test_changed_target_is_asked_about_again() -> None:
    reached = [Reach(ReachKind.shell, "ls", 1, "go()")]
    gate = gate_of(code_that("ran"), reaches=lambda code: reached)
    leave = leave_of(await gate.step("run_code", CODE))
    reached[:] = [Reach(ReachKind.deletion, "a.csv", 1, "go()")]
    assert leave_of(await gate.step("run_code", CODE, approved=leave)) != leave
    reached[:] = [Reach(ReachKind.shell, "ls", 1, "go()")]
    assert (await gate.step("run_code", CODE, approved=leave)).ok
