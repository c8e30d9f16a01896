"""Document 001, sentence by sentence: the refusals, and what lets an agent go on after one."""

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from parsimony_kernel.agent.failure.kinds import Effect, FailureKind
from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.kinds import RefusalError
from parsimony_kernel.gate.gate import Gate, StepOutcome
from parsimony_kernel.gate.procedure import Edge, Procedure, Walker
from parsimony_kernel.tools import Tool, Tools, Validator, tool
from parsimony_kernel.triage.taxonomy import FailureType
from tests.fast_loop import fast_loop

from . import Fields

ACTIONS = ["take_order", "add_modifier", "pay", "fulfill", "cancel", "fetch_report", "edit_file"]
NEXT = {
    "new": ["take_order"],
    "ordered": ["add_modifier", "pay", "cancel", "fetch_report", "edit_file"],
    "paid": ["fulfill"],
}
INPUTS: dict[str, Fields] = {"add_modifier": {"modifier": "oat"}}
MODIFIERS = ("oat", "soy", "almond")
SHOP = Procedure(
    "shop",
    ("new", "ordered", "paid", "done"),
    "new",
    ("done",),
    (
        Edge("take_order", "new", "ordered"),
        Edge("add_modifier", "ordered", "ordered"),
        Edge("pay", "ordered", "paid"),
        Edge("fulfill", "paid", "done"),
        Edge("cancel", "ordered", "done"),
        Edge("fetch_report", "ordered", "ordered"),
        Edge("edit_file", "ordered", "ordered"),
    ),
)


def is_sold(inputs: Any) -> str | None:
    if inputs["modifier"] in MODIFIERS:
        return None
    return f"modifier must be one of: {', '.join(MODIFIERS)}"


class Shop:
    """The coffee counter of the document, a report that hangs, and a file that must be read."""

    def __init__(self, state: str = "new") -> None:
        self.ran: list[str] = []
        self.gate = Gate(self.tools(), timeout_s=30, walker=Walker(SHOP, state))

    def tools(self) -> Tools:
        @tool
        async def take_order(item: str = "tea") -> str:
            """Take an order."""
            self.ran.append("take_order")
            return f"one {item}"

        @tool(validators=(is_sold,))
        async def add_modifier(modifier: str) -> str:
            """Add a modifier."""
            self.ran.append("add_modifier")
            return modifier

        def answering(name: str, answer: str) -> Tool:
            @tool(name=name)
            async def act() -> str:
                """Act."""
                self.ran.append(name)
                return answer

            return act

        @tool
        async def fetch_report() -> str:
            """Hangs."""
            await asyncio.Event().wait()
            return "never"

        @tool
        async def edit_file() -> str:
            """Fails."""
            raise ValueError("must read the file before editing it")

        answers = {"pay": "paid", "fulfill": "there you are", "cancel": "cancelled"}
        plain = [answering(*each) for each in answers.items()]
        return Tools([take_order, add_modifier, *plain, fetch_report, edit_file])

    async def step(self, action: str, inputs: Fields | None = None) -> StepOutcome:
        given = INPUTS.get(action, {}) if inputs is None else inputs
        if action != "fetch_report":
            return await self.gate.step(action, given)
        async with fast_loop(0.5):
            return await self.gate.step(action, given)


# How each refusal is brought about: where the agent stands, what it requests, with what.
WAYS: dict[str, tuple[str, str, Fields]] = {
    "invalid_transition": ("new", "pay", {}),
    "unknown_action": ("new", "tako_order", {}),
    "validation_failed": ("ordered", "add_modifier", {"modifier": "moon"}),
    "action_timeout": ("ordered", "fetch_report", {}),
    "action_error": ("ordered", "edit_file", {}),
}
# What the document's envelopes hold, by their error.
FIELDS = {
    "invalid_transition": {"message"},
    "unknown_action": {"known_actions"},
    "validation_failed": {"reason", "details"},
    "action_timeout": {"timeout_seconds", "message"},
    "action_error": {"error_type", "error_message"},
}


async def refused(error: str) -> tuple[Shop, StepOutcome]:
    state, action, inputs = WAYS[error]
    shop = Shop(state)
    return shop, await shop.step(action, inputs)


# The five, told apart by one field.


def test_exactly_five_refusals() -> None:
    assert [*RefusalError] == [*WAYS]


@pytest.mark.parametrize("error", [*WAYS])
async def test_refusal_is_an_envelope_that_changes_no_state(error: str) -> None:
    state, action, _ = WAYS[error]
    shop, outcome = await refused(error)
    envelope = outcome.envelope
    assert not outcome.ok
    assert (envelope["error"], envelope["requested"]) == (error, action)
    assert envelope.keys() >= FIELDS[error]
    assert ("known_actions" in envelope) == (error == "unknown_action")
    assert json.loads(json.dumps(envelope)) == envelope
    assert not [text for text in envelope.values() if "\n" in str(text) or "Traceback" in str(text)]
    assert envelope["valid_next_actions"] == NEXT[state]
    assert (shop.gate.place, shop.ran) == (state, [])
    assert (await shop.step(envelope["valid_next_actions"][0])).ok
    assert len(shop.ran) == 1


@pytest.mark.parametrize(
    ("error", "is_guidance", "type_", "effect"),
    [
        ("invalid_transition", True, FailureType.WRONG_TOOL_CALLED, Effect.none),
        ("unknown_action", True, FailureType.WRONG_TOOL_CALLED, Effect.none),
        ("validation_failed", True, FailureType.SCHEMA_MISMATCH, Effect.none),
        ("action_timeout", False, FailureType.TIMEOUT, Effect.uncertain),
        ("action_error", False, None, None),
    ],
)
async def test_refusal_before_body_is_guidance_and_after_is_failure(
    error: str, is_guidance: bool, type_: FailureType | None, effect: Effect | None
) -> None:
    _, outcome = await refused(error)
    assert outcome.is_guidance == is_guidance
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.tool_error
    assert outcome.failure.refusal == error
    assert type_ is None or (outcome.failure.type, outcome.failure.effect) == (type_, effect)


# Not reachable, or not there at all.


@pytest.mark.parametrize("state", [*NEXT])
@pytest.mark.parametrize("action", ACTIONS)
async def test_action_without_edge_is_blocked(state: str, action: str) -> None:
    shop = Shop(state)
    outcome = await shop.step(action)
    is_blocked = outcome.envelope.get("error") == "invalid_transition"
    assert is_blocked == (action not in NEXT[state])
    assert not is_blocked or (shop.ran, outcome.envelope["valid_next_actions"]) == ([], NEXT[state])


@pytest.mark.parametrize("state", [*NEXT])
@pytest.mark.parametrize("verb", ["tako_order", "refund", "PAY", "", "take_order "])
async def test_unknown_verb_gets_all_action_names(state: str, verb: str) -> None:
    outcome = await Shop(state).step(verb, {})
    assert outcome.envelope["error"] == "unknown_action"
    assert outcome.envelope["known_actions"] == ACTIONS


async def test_tool_missing_from_graph_is_not_run() -> None:
    shop = Shop()

    @tool
    async def refund() -> None:
        """Not in the graph."""
        shop.ran.append("refund")

    gate = Gate(shop.tools() + Tools([refund]), timeout_s=30, walker=Walker(SHOP))
    outcome = await gate.step("refund", {})
    assert outcome.envelope["error"] == "invalid_transition"
    assert outcome.envelope["valid_next_actions"] == NEXT["new"]
    assert shop.ran == []


@pytest.mark.parametrize(
    ("state", "action", "inputs", "error"),
    [
        ("new", "tako_order", {"modifier": "moon"}, "unknown_action"),
        ("new", "add_modifier", {"modifier": "moon"}, "invalid_transition"),
        ("new", "edit_file", {"nothing": 1}, "invalid_transition"),
        ("ordered", "edit_file", {"nothing": 1}, "validation_failed"),
    ],
)
async def test_first_failing_check_answers(
    state: str, action: str, inputs: Fields, error: str
) -> None:
    assert (await Shop(state).step(action, inputs)).envelope["error"] == error


async def test_validator_skips_inputs_breaking_the_signature() -> None:
    asked: list[Any] = []

    @tool(validators=(asked.append,))
    async def add_modifier(modifier: str) -> None:
        """Add a modifier."""

    outcome = await Gate(Tools([add_modifier]), timeout_s=30).step("add_modifier", {"modifier": 7})
    assert outcome.envelope["error"] == "validation_failed"
    assert outcome.envelope["details"]["field"] == "modifier"
    assert asked == []


# Validators.


async def test_tool_validator_names_reason_field_and_value() -> None:
    shop, outcome = await refused("validation_failed")
    assert outcome.envelope["reason"] == "modifier must be one of: oat, soy, almond"
    assert outcome.envelope["details"] == {"field": "modifier", "got": "moon"}
    assert (await shop.step("add_modifier", {"modifier": "soy"})).ok
    assert shop.ran == ["add_modifier"]


class Drink(BaseModel):
    modifier: str
    cups: int = Field(le=4)


def by_mapping(inputs: Mapping[str, Any]) -> dict[str, str]:
    reason = is_sold(inputs)
    return {} if reason is None else {"modifier": reason}


def by_model(inputs: Mapping[str, Any]) -> None:
    Drink(**inputs)


def both(inputs: Mapping[str, Any]) -> dict[str, str]:
    return {"modifier": "is not sold", "size": "modifier and size do not go together"}


NOT_SOLD = "modifier must be one of: oat, soy, almond"
NO_NAME = {"field": "arguments"}
MOON, NINE = {"field": "modifier", "got": "moon"}, {"field": "cups", "got": 9}


@pytest.mark.parametrize(
    ("validator", "reason", "details"),
    [
        (is_sold, NOT_SOLD, NO_NAME),
        (by_mapping, NOT_SOLD, MOON),
        (by_model, "cups: Input should be less than or equal to 4", NINE),
        (
            both,
            "modifier: is not sold; modifier and size do not go together",
            [MOON, {"field": "size"}],
        ),
    ],
)
async def test_multi_argument_validator_names_its_field(
    validator: Validator, reason: str, details: Any
) -> None:
    @tool(validators=(validator,))
    async def add_modifier(modifier: str, cups: int) -> None:
        """Add a modifier."""

    gate = Gate(Tools([add_modifier]), timeout_s=30)
    refusal = (await gate.step("add_modifier", {"modifier": "moon", "cups": 9})).envelope
    assert (refusal["error"], refusal["reason"]) == ("validation_failed", reason)
    assert refusal["details"] == details
    if validator is by_mapping:
        assert (await gate.step("add_modifier", {"modifier": "oat", "cups": 9})).ok


@pytest.mark.parametrize("modifier", MODIFIERS)
async def test_accepted_inputs_reach_the_body(modifier: str) -> None:
    shop = Shop("ordered")
    outcome = await shop.step("add_modifier", {"modifier": modifier})
    assert (outcome.envelope["result"], shop.ran) == (modifier, ["add_modifier"])


# The deadline.


def hanging(release: threading.Event) -> dict[str, Callable[..., Any]]:
    async def waits() -> str:
        await asyncio.Event().wait()
        return "never"

    def blocks() -> str:
        release.wait()
        return "late"

    def calculates() -> str:
        turns = 0
        while not release.is_set():
            turns += 1
        return f"{turns} turns"

    return {"waits": waits, "blocks": blocks, "calculates": calculates}


def named(function: Callable[..., Any], name: str) -> Tool:
    return tool(name=name, description="Takes long.")(function)


@pytest.mark.parametrize("seconds", [30, 7, 2.5])
@pytest.mark.parametrize("body", ["waits", "blocks", "calculates"])
async def test_late_body_is_a_refusal_with_its_budget(body: str, seconds: float) -> None:
    release = threading.Event()
    gate = Gate(Tools([named(hanging(release)[body], "fetch_report")]), timeout_s=seconds)
    try:
        async with fast_loop(0.25) as passed:
            outcome = await gate.step("fetch_report", {})
            waited = passed()
    finally:
        release.set()
    assert outcome.envelope["error"] == "action_timeout"
    assert outcome.envelope["timeout_seconds"] == seconds
    sentence = f"action 'fetch_report' exceeded its {seconds}s timeout."
    assert outcome.envelope["message"].startswith(sentence)
    # Whether a thread can be stopped in time is its own affair, and is reported besides.
    assert body != "waits" or outcome.envelope["message"] == sentence
    assert waited >= seconds


async def test_other_tasks_run_while_body_computes() -> None:
    release, ticks = threading.Event(), 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    gate = Gate(Tools([named(hanging(release)["calculates"], "fetch_report")]), timeout_s=5)
    other = asyncio.ensure_future(tick())
    try:
        async with fast_loop(0.25):
            await gate.step("fetch_report", {})
    finally:
        release.set()
        other.cancel()
    assert ticks > 10


async def test_sync_body_runs_off_the_loop_thread() -> None:
    def where() -> int:
        return threading.get_ident()

    gate = Gate(Tools([named(where, "fetch_report")]), timeout_s=30)
    outcome = await gate.step("fetch_report", {})
    assert isinstance(outcome.envelope["result"], int)
    assert outcome.envelope["result"] != threading.get_ident()


# A body that raises.


class QuotaExceeded(Exception):
    """An error of the host's own."""


RAISED: list[tuple[Exception, str, str]] = [
    (ValueError("must read the file first"), "ValueError", "must read the file first"),
    (FileNotFoundError("no such file: q3.csv"), "FileNotFoundError", "no such file: q3.csv"),
    (ConnectionError("the service said no"), "ConnectionError", "the service said no"),
    (QuotaExceeded("40 of 40 used"), "QuotaExceeded", "40 of 40 used"),
]


@pytest.mark.parametrize(("exc", "name", "text"), RAISED)
@pytest.mark.parametrize("is_async", [True, False])
async def test_exception_type_and_message_are_passed_on(
    exc: Exception, name: str, text: str, is_async: bool
) -> None:
    async def waits() -> None:
        raise exc

    def plain() -> None:
        raise exc

    gate = Gate(Tools([named(waits if is_async else plain, "edit_file")]), timeout_s=30)
    outcome = await gate.step("edit_file", {})
    assert outcome.envelope["error"] == "action_error"
    assert outcome.envelope["error_type"] == name
    assert outcome.envelope["error_message"] == text


async def test_unmet_precondition_is_recovered_by_its_remedy() -> None:
    read: list[str] = []

    @tool
    async def read_file(path: str) -> str:
        """Read."""
        read.append(path)
        return path

    @tool
    async def edit_file(path: str) -> str:
        """Edit."""
        if path not in read:
            raise ValueError("must read the file before editing it")
        return "edited"

    edges = (Edge("read_file", "here", "here"), Edge("edit_file", "here", "here"))
    editor = Procedure("editor", ("here",), "here", ("here",), edges)
    gate = Gate(Tools([read_file, edit_file]), timeout_s=30, walker=Walker(editor))
    first = await gate.step("edit_file", {"path": "a"})
    assert first.envelope["error"] == "action_error"
    assert first.envelope["valid_next_actions"] == ["read_file", "edit_file"]
    await gate.step("read_file", {"path": "a"})
    assert (await gate.step("edit_file", {"path": "a"})).envelope["result"] == "edited"


# Every response, success or refusal.


@pytest.mark.parametrize(
    ("state", "action", "result", "becomes"),
    [
        ("new", "take_order", "one tea", "ordered"),
        ("ordered", "add_modifier", "oat", "ordered"),
        ("ordered", "pay", "paid", "paid"),
    ],
)
async def test_success_has_result_new_state_and_next_actions(
    state: str, action: str, result: str, becomes: str
) -> None:
    outcome = await Shop(state).step(action)
    assert "error" not in outcome.envelope
    assert outcome.envelope["requested"] == action
    assert (outcome.envelope["result"], outcome.envelope["state"]) == (result, becomes)
    assert outcome.envelope["valid_next_actions"] == NEXT[becomes]


QUICK = [each for each in ACTIONS if each != "fetch_report"]


@given(st.lists(st.sampled_from([*QUICK, "tako_order", "edit"]), max_size=12))
async def test_every_response_lists_true_next_actions(requests: list[str]) -> None:
    shop = Shop()
    for request in requests:
        allowed = list(shop.gate.valid_next_actions)
        outcome = await shop.step(request)
        assert outcome.is_guidance == (request not in allowed)
        assert outcome.envelope["valid_next_actions"] == list(shop.gate.valid_next_actions)
        assert ("error" in outcome.envelope) == (not outcome.ok)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=30))
async def test_agent_ignorant_of_graph_is_never_stuck(choices: list[int]) -> None:
    shop = Shop()
    answer = (await shop.step("hello?", {})).envelope
    for choice in choices:
        possible = [each for each in answer["valid_next_actions"] if each in QUICK]
        if not possible:
            break
        answer = (await shop.step(possible[choice % len(possible)])).envelope
        assert answer.get("error") in (None, "action_error")


async def test_valid_actions_can_be_queried_without_a_step() -> None:
    shop = Shop()
    assert [*shop.gate.valid_next_actions] == NEXT["new"]
    await shop.step("take_order")
    assert [*shop.gate.valid_next_actions] == NEXT["ordered"]
    assert shop.ran == ["take_order"]


# Without a procedure.


async def test_without_procedure_every_tool_is_valid_until_end() -> None:
    tools = Shop().tools() + termination_tools()
    gate = Gate(tools, timeout_s=30)
    assert [*gate.valid_next_actions] == [*tools]
    assert (await gate.step("pay", {})).envelope["valid_next_actions"] == [*tools]
    over = await gate.step("return_done", {"summary": "Served."})
    assert over.envelope["valid_next_actions"] == []
    late = await gate.step("pay", {})
    assert late.envelope["error"] == "invalid_transition"
    assert late.envelope["valid_next_actions"] == []
