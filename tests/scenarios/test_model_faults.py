"""What a model can do wrong, and that a run finishes right or says why it cannot.

One case per fault, through the real client and real HTTP. A run is to enter one number: a model
that learns enters it exactly once, and one that never does enters nothing by mistake.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count, repeat
from typing import Any

import pytest

from parsimony_kernel.core.chat import Completion, answer
from parsimony_kernel.core.events import Handoff, RunCompleted, ToolEvent, UserInputRequested
from parsimony_kernel.core.kinds import FailureKind, FailureType
from parsimony_kernel.testing.provider import CONTENT_POLICY, Faulty, Reply, Wire
from parsimony_kernel.testing.scripted import call, calls, raw_call, say
from tests.llm.dialects import LITELLM_WARNINGS

from .agents import ended_by, run_with
from .notebooks import begun

pytestmark = LITELLM_WARNINGS


ADD = call("add", n=1)
DONE = call("return_done", summary="1 was entered.")
# What no half-written call may enter.
HALF = 13


@dataclass(frozen=True)
class Mended:
    """An answer that is wrong once, what the funnel did, and what the model was told about it."""

    row: str
    wrong: Completion
    errors: tuple[tuple[str, str, int], ...] = ()
    told: str = ""


STALL = (("no_progress", "narrow_scope", 1),)
CUT = (("output_truncated", "retry", 1),)

MENDED = (
    Mended(
        "invalid JSON arguments once", raw_call("add", f'{{"n": {HALF}'), told="not a JSON object"
    ),
    Mended("invalid JSON arguments once", raw_call("add", f"[{HALF}]"), told="not a JSON object"),
    Mended("invalid JSON arguments once", raw_call("add", "n=13"), told="not a JSON object"),
    Mended("invalid JSON arguments once", raw_call("add", "[" * 2_000), told="not a JSON object"),
    Mended("unknown tool", call("ad", n=HALF), told="Did you mean 'add'"),
    Mended("unknown tool", call("delete all of it", n=HALF), told="Available tools: add, look"),
    Mended("wrong argument", call("add", n="many"), told="'n'.*got 'many'"),
    Mended("missing argument", call("add"), told="'n' is missing"),
    Mended("extra argument", call("add", n=HALF, m=2), told="'m' is not a field"),
    Mended("length with half a call", ended_by("length", raw_call("add", '{"n": 13')), CUT, "cut"),
    Mended("length with half a call", ended_by("length", call("add", n=HALF)), CUT, "cut off"),
    Mended(
        "length with half a call",
        ended_by("length", calls(call("add", n=HALF), raw_call("add", '{"n"'), text="First")),
        CUT,
        "cut off",
    ),
    Mended("text only once", say("I would enter the number now:"), STALL, "no tool call"),
    Mended("empty message", say(""), STALL, "no tool call"),
    Mended("empty message", answer(), STALL, "no tool call"),
    Mended("empty message", say(" \n"), STALL, "no tool call"),
)


def numbered(cases: Sequence[Any]) -> list[str]:
    return [f"{case.row}, {number}" for number, case in enumerate(cases, start=1)]


@pytest.mark.parametrize("before_the_effect", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("case", MENDED, ids=numbered(MENDED))
async def test_single_mistake_is_explained_and_recovered(
    case: Mended, before_the_effect: bool
) -> None:
    script = (case.wrong, ADD, DONE) if before_the_effect else (ADD, case.wrong, DONE)
    ran = await run_with(script)
    assert ran.last == RunCompleted(summary="1 was entered.")
    assert ran.result.ok
    assert not ran.result.failed
    assert ran.effects == [1]
    assert ran.errors == list(case.errors)
    assert ran.waits == ()
    read = [str(m.get("content")) for m in ran.requests[2 - before_the_effect].body["messages"]]
    assert any(re.search(case.told, text) for text in read)


async def test_duplicate_call_ids_run_once_each() -> None:
    script = [
        calls(
            raw_call("look", '{"at": "x"}', call_id="a"), raw_call("add", '{"n": 1}', call_id="a")
        ),
        raw_call("look", '{"at": "y"}', call_id="a"),
        raw_call("return_done", '{"summary": "1 was entered."}', call_id="a"),
    ]
    ran = await run_with(script)
    assert isinstance(ran.last, RunCompleted)
    assert ran.errors == []
    assert ran.effects == [1]
    sent = ran.requests[-1].body["messages"]
    made = {each["id"]: each["function"]["name"] for m in sent for each in m.get("tool_calls", ())}
    answered = {m["tool_call_id"]: m["name"] for m in sent if m["role"] == "tool"}
    assert list(made.values()) == ["look", "add", "look"]
    assert answered == made


@dataclass(frozen=True)
class Hopeless:
    """A model that never learns: how it ends, and after how many requests at the most."""

    row: str
    answers: Iterable[Reply]
    kind: FailureKind
    requests: int
    errors: tuple[tuple[str, str, int], ...] = ()


# The kind, the requests, and what was done before.
TRIED = (FailureKind.tool_error, 3, (("tool_error", "retry", 2),))
STALLED = (FailureKind.no_progress, 2, STALL)
DECLINED = (FailureKind.output_refused, 1)
BROKEN = raw_call("add", '{"n": 13')

HOPELESS = (
    Hopeless("invalid JSON arguments for ever", repeat(BROKEN), *TRIED),
    Hopeless(
        "invalid JSON arguments for ever",
        (raw_call("add", '{"n": 13' + " " * n) for n in count()),
        *TRIED,
    ),
    Hopeless("text only for ever", repeat(say("Let me think.")), *STALLED),
    Hopeless("text only for ever", (say(f"Thought {n}.") for n in count()), *STALLED),
    Hopeless("the same call for ever, refused", repeat(call("ad", n=HALF)), *TRIED),
    Hopeless("refusal", repeat(ended_by("content_filter", say("I"))), *DECLINED),
    Hopeless("refusal", repeat(ended_by("content_filter", call("add", n=HALF))), *DECLINED),
    Hopeless("refusal", repeat(CONTENT_POLICY), *DECLINED),
    # The client keeps the words of a streamed refusal to itself: what is left is empty.
    Hopeless("refusal", repeat(Faulty(Wire.refusal, say("I will not do that."))), *STALLED),
)


@pytest.mark.parametrize("case", HOPELESS, ids=numbered(HOPELESS))
async def test_incorrigible_model_is_handed_off_without_effect(case: Hopeless) -> None:
    ran = await run_with(case.answers)
    last = ran.handed_off(case.kind)
    assert last.rationale
    assert last.blockers
    assert ran.effects == []
    assert len(ran.requests) == case.requests
    assert ran.errors == list(case.errors)


@pytest.mark.parametrize("same", [call("look", at="x"), ADD], ids=["reads", "has an effect"])
async def test_endless_repeated_call_becomes_a_question(same: Completion) -> None:
    name = same.message.tool_calls[0].function.name
    ran = await run_with(repeat(same))
    assert isinstance(ran.last, UserInputRequested)
    assert ran.last.originating_failure_kind is FailureKind.loop_detected
    assert ran.result.suspended
    assert 1 < begun(ran.events, name) < 8
    assert len(ran.requests) < 8
    # Two runs show the same; what would be the third is refused, and then asked about.
    assert len(ran.effects) == (2 if name == "add" else 0)


@pytest.mark.parametrize(
    "refused",
    [call("ad", n=HALF), call("add", n="many"), raw_call("add", '{"n": 13')],
    ids=["unknown", "wrong argument", "invalid JSON"],
)
async def test_refused_call_repeated_between_good_ones_ends(refused: Completion) -> None:
    name = refused.message.tool_calls[0].function.name
    good = (call("look", at=str(n)) for n in count())
    script = (step for each in good for step in (refused, each))
    ran = await run_with(script)
    assert isinstance(ran.last, UserInputRequested | Handoff)
    assert not ran.result.ok
    assert 1 < begun(ran.events, name) < 8
    assert ran.effects == []


CLAIM = call("return_done", summary="7319 was entered, and the result is in `df_ledger`.")


async def test_unseen_success_is_refused_once_then_marked() -> None:
    ran = await run_with([CLAIM, CLAIM], "Enter one number into the ledger.")
    assert isinstance(ran.last, RunCompleted)
    told = [e for e in ran.events if isinstance(e, ToolEvent) and e.completed]
    assert [event.ok for event in told] == [False, True]
    assert told[0].failure is not None
    assert told[0].failure.type is FailureType.HALLUCINATED_STATE
    assert all("`df_ledger`" in str((event.result or {})["not_found"]) for event in told)
    assert ran.errors == []
    assert ran.effects == []
