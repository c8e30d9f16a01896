"""The envelopes of document 001, field by field, from the gate with a procedure.

A golden is a subset: the envelope has the document's fields with the document's values, and may
have more.
"""

import asyncio
import threading
from typing import Any, Literal

import pytest

from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.core.refusals import RefusalError
from parsimony_kernel.gate.gate import Gate
from parsimony_kernel.gate.procedure import Edge, Procedure, Walker
from parsimony_kernel.gate.stages import Attempt, arguments, known, reachable
from parsimony_kernel.testing.clock import fast_loop
from parsimony_kernel.tools import Tools, tool

MODIFIERS = ("oat", "soy", "almond")
ran: list[str] = []


@tool
async def take_order(item: str = "tea") -> str:
    """Take an order."""
    ran.append("take_order")
    return f"one {item}"


@tool
async def add_modifier(modifier: str) -> None:
    """Add a modifier."""
    ran.append("add_modifier")


@tool
async def pay() -> None:
    """Pay."""
    ran.append("pay")


@tool
async def fulfill() -> None:
    """Hand the order over."""


@tool
async def cancel() -> None:
    """Cancel."""


COFFEE = Tools([take_order, add_modifier, pay, fulfill, cancel])
COUNTER = Procedure(
    "counter",
    ("new", "ordered", "paid", "done"),
    "new",
    ("done",),
    (
        Edge("take_order", "new", "ordered"),
        Edge("add_modifier", "ordered", "ordered"),
        Edge("pay", "ordered", "paid"),
        Edge("cancel", "ordered", "done"),
        Edge("fulfill", "paid", "done"),
    ),
)
REPORT = Procedure(
    "report",
    ("open", "done"),
    "open",
    ("done",),
    (Edge("fetch_report", "open", "done"), Edge("cancel", "open", "done")),
)
EDITOR = Procedure(
    "editor",
    ("start",),
    "start",
    ("start",),
    (Edge("read_file", "start", "start"), Edge("edit_file", "start", "start")),
)


def modifier_is_sold(attempt: Attempt) -> Failure | None:
    got = attempt.inputs.get("modifier")
    if attempt.action != "add_modifier" or got in MODIFIERS:
        return None
    reason = f"modifier must be one of: {', '.join(MODIFIERS)}"
    return Failure(
        FailureKind.policy_violation,
        f"add_modifier: {reason}.",
        metadata={
            "refusal": RefusalError.validation_failed,
            "envelope": {"reason": reason, "details": {"field": "modifier", "got": got}},
        },
    )


def walking(tools: Tools, walker: Walker) -> Gate:
    """A gate with a procedure, whose deadline is thirty seconds."""
    stages = (known, reachable, arguments, modifier_is_sold)
    return Gate(tools, timeout_s=30, stages=stages, walker=walker)


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    ran.clear()


def contains(envelope: dict[str, Any], golden: dict[str, Any]) -> None:
    assert {key: envelope.get(key) for key in golden} == golden


async def test_an_action_that_is_not_reachable_is_refused_before_it_runs() -> None:
    walker = Walker(COUNTER)
    outcome = await walking(COFFEE, walker).step("pay", {})
    contains(
        outcome.envelope,
        {
            "error": "invalid_transition",
            "requested": "pay",
            "valid_next_actions": ["take_order"],
            "message": (
                "action 'pay' is not reachable from current state. "
                "Valid actions now: ['take_order']."
            ),
        },
    )
    assert outcome.is_guidance
    assert (ran, walker.state) == ([], "new")


async def test_an_unknown_action_is_answered_with_every_known_one() -> None:
    outcome = await walking(COFFEE, Walker(COUNTER)).step("tako_order", {})
    contains(
        outcome.envelope,
        {
            "error": "unknown_action",
            "requested": "tako_order",
            "known_actions": ["take_order", "add_modifier", "pay", "fulfill", "cancel"],
            "did_you_mean": "take_order",
            "valid_next_actions": ["take_order"],
        },
    )


async def test_inputs_that_a_validator_rejects_change_nothing() -> None:
    walker = Walker(COUNTER, "ordered")
    outcome = await walking(COFFEE, walker).step("add_modifier", {"modifier": "moon"})
    contains(
        outcome.envelope,
        {
            "error": "validation_failed",
            "requested": "add_modifier",
            "reason": "modifier must be one of: oat, soy, almond",
            "details": {"field": "modifier", "got": "moon"},
            "valid_next_actions": ["add_modifier", "pay", "cancel"],
        },
    )
    assert (ran, walker.state) == ([], "ordered")


async def test_a_value_that_the_signature_rejects_is_given_as_it_came() -> None:
    @tool
    async def add_modifier(modifier: Literal["oat", "soy", "almond"]) -> None:
        """Add a modifier."""

    gate = walking(Tools([*COFFEE.values(), add_modifier]), Walker(COUNTER, "ordered"))
    outcome = await gate.step("add_modifier", {"modifier": "moon"})
    contains(outcome.envelope["details"], {"field": "modifier", "got": "moon"})


async def test_a_body_that_raises_is_passed_on_with_type_and_message() -> None:
    @tool
    async def read_file(path: str) -> str:
        """Read."""
        return path

    @tool
    async def edit_file(path: str) -> None:
        """Edit."""
        raise ValueError("must read the file before editing it")

    walker = Walker(EDITOR)
    gate = walking(Tools([read_file, edit_file]), walker)
    outcome = await gate.step("edit_file", {"path": "x"})
    contains(
        outcome.envelope,
        {
            "error": "action_error",
            "requested": "edit_file",
            "error_type": "ValueError",
            "error_message": "must read the file before editing it",
            "valid_next_actions": ["read_file", "edit_file"],
        },
    )
    assert walker.taken == ()


async def test_a_success_has_the_result_and_what_is_possible_in_the_new_state() -> None:
    walker = Walker(COUNTER)
    outcome = await walking(COFFEE, walker).step("take_order", {"item": "tea"})
    contains(
        outcome.envelope,
        {
            "requested": "take_order",
            "result": "one tea",
            "valid_next_actions": ["add_modifier", "pay", "cancel"],
        },
    )
    assert "error" not in outcome.envelope
    assert walker.state == "ordered"


async def test_whoever_follows_the_valid_actions_comes_to_the_end() -> None:
    walker = Walker(COUNTER)
    gate = walking(COFFEE, walker)
    answer = (await gate.step("fulfill", {})).envelope
    while walker.state != "done":
        action = next(name for name in answer["valid_next_actions"] if name != "add_modifier")
        answer = (await gate.step(action, {})).envelope
    assert ran == ["take_order", "pay"]
    assert answer["valid_next_actions"] == []


async def test_the_list_is_empty_only_when_the_run_is_over() -> None:
    gate = walking(COFFEE + termination_tools(), Walker(COUNTER, "done"))
    here = await gate.step("pay", {})
    assert here.envelope["valid_next_actions"] == ["return_done", "return_unable", "ask_user"]
    over = await gate.step("return_done", {"summary": "Served."})
    assert over.envelope["valid_next_actions"] == []


async def test_a_guard_that_raises_stops_no_other_action() -> None:
    def broken() -> bool:
        raise ZeroDivisionError("division by zero")

    edges = (Edge("pay", "new", "done", "broken"), Edge("cancel", "new", "done"))
    procedure = Procedure("p", ("new", "done"), "new", ("done",), edges, {"broken": broken})
    gate = walking(COFFEE, Walker(procedure))
    refused = await gate.step("pay", {})
    contains(
        refused.envelope,
        {
            "error": "validation_failed",
            "reason": "the guard 'broken' raised ZeroDivisionError: division by zero",
            "valid_next_actions": ["pay", "cancel"],
        },
    )
    assert not refused.is_guidance
    assert (await gate.step("cancel", {})).ok
    assert ran == []


# The deadline. The loop's clock runs ahead while a body hangs, so that nobody waits.


TIMEOUT = {
    "error": "action_timeout",
    "requested": "fetch_report",
    "timeout_seconds": 30,
    "valid_next_actions": ["fetch_report", "cancel"],
}


async def test_a_body_past_its_deadline_is_answered_and_stopped() -> None:
    stopped: list[str] = []

    @tool
    async def fetch_report() -> None:
        """Hangs."""
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("stopped")

    walker = Walker(REPORT)
    async with fast_loop() as passed:
        outcome = await walking(Tools([fetch_report, cancel]), walker).step("fetch_report", {})
        assert 30 <= passed() < 31
    contains(outcome.envelope, TIMEOUT)
    assert (stopped, walker.state) == (["stopped"], "open")


async def test_a_deadline_is_worded_as_in_the_document() -> None:
    @tool
    async def fetch_report() -> None:
        """Hangs."""
        await asyncio.Event().wait()

    async with fast_loop():
        gate = walking(Tools([fetch_report, cancel]), Walker(REPORT))
        outcome = await gate.step("fetch_report", {})
    assert outcome.envelope["message"] == "action 'fetch_report' exceeded its 30s timeout."


def swallowing(release: asyncio.Event, told: list[str]) -> Tools:
    @tool
    async def fetch_report() -> str:
        """Does not honour its cancellation."""
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                told.append("swallowed")
        told.append("late")
        return "late"

    return Tools([fetch_report, cancel])


async def test_what_a_body_that_ignores_its_deadline_does_late_changes_nothing() -> None:
    release, told = asyncio.Event(), list[str]()
    walker = Walker(REPORT)
    gate = walking(swallowing(release, told), walker)
    async with fast_loop():
        outcome = await gate.step("fetch_report", {})
    contains(outcome.envelope, TIMEOUT)
    before = dict(outcome.envelope)
    release.set()
    while told[-1] != "late":
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert told == ["swallowed", "late"]
    assert outcome.envelope == before
    assert (walker.state, walker.taken) == ("open", ())
    assert gate.valid_next_actions == ("fetch_report", "cancel")
    assert (await gate.step("cancel", {})).ok


async def test_the_answer_comes_at_the_deadline_whatever_the_body_honours() -> None:
    release = asyncio.Event()
    gate = walking(swallowing(release, []), Walker(REPORT))
    async with fast_loop(0.01) as passed:
        await gate.step("fetch_report", {})
        waited = passed()
    release.set()
    assert 30 <= waited <= 30.6


@pytest.mark.parametrize("as_tool", [True, False])
async def test_a_blocking_body_blocks_neither_the_loop_nor_the_answer(as_tool: bool) -> None:
    begun, release, done = threading.Event(), threading.Event(), threading.Event()

    def fetch_report() -> str:
        """Blocks its thread."""
        try:
            begun.set()
            release.wait()
        finally:
            done.set()
        return "late"

    built = tool(fetch_report)
    if not as_tool:
        built = type(built)(
            fetch_report,  # type: ignore[arg-type]
            "fetch_report",
            "Blocks.",
            built.parameters_schema,
        )
    walker = Walker(REPORT)
    gate = walking(Tools([built, cancel]), walker)
    try:
        answer = asyncio.ensure_future(gate.step("fetch_report", {}))
        # A thread that has not begun at its deadline never does.
        assert await asyncio.to_thread(begun.wait, 60)
        async with fast_loop():
            outcome = await answer
        assert not done.is_set()
        contains(outcome.envelope, TIMEOUT)
        before = dict(outcome.envelope)
    finally:
        release.set()
    assert await asyncio.to_thread(done.wait, 60)
    await asyncio.sleep(0)
    assert outcome.envelope == before
    assert (walker.state, walker.taken) == ("open", ())
