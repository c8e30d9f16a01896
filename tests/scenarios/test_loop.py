"""Whole runs of the loop with a scripted model: their events, their limits, and broken hosts."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import pytest

from parsimony_kernel.agent.failure import Action, DefaultPolicy, Failure, FailureKind
from parsimony_kernel.agent.loop import resume_run
from parsimony_kernel.agent.run import MAX_CALLS
from parsimony_kernel.core import events as ev
from parsimony_kernel.core.chat import Completion, Delta, ModelRequest, Usage
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.kinds import FailureType
from parsimony_kernel.core.state import RunState, SuspensionRecord
from parsimony_kernel.llm.chokepoint import FINISHING_S
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.testing.scripted import ScriptedModel, Step, call, calls, raw_call, say
from parsimony_kernel.toolbox.run_tools import plan
from parsimony_kernel.tools import ToolResult, tool
from tests.session.session_steps import gather
from tests.session.session_steps import question as asked

from .loops import DONE, DOWN, actions, bare, begun, errors, run


@tool
async def look(at: str = "", deep: Any = None) -> dict[str, str]:
    """Look."""
    return {"seen": at}


async def play(steps: Sequence[Step], *tools: Any) -> list[ev.AgentEvent]:
    model = ScriptedModel(steps)
    events = await run(bare(model=model, tools=tools))
    model.assert_exhausted()
    return events


def kinds(events: Sequence[ev.AgentEvent]) -> list[str]:
    return [str(getattr(event, "type", "")) for event in events]


@tool
async def break_down() -> None:
    """Break."""
    raise RuntimeError("broken")


async def test_run_emits_events_in_order() -> None:
    events = await play([call("look", at="x"), call("return_done", summary="seen x")], look)
    assert kinds(events) == [
        "llm_call_completed",
        "tool_event",
        "tool_event",
        "tool_result_observed",
        "state_snapshot",
        "llm_call_completed",
        "tool_event",
        "tool_event",
        "tool_result_observed",
        "run_completed",
    ]
    observed = events[3]
    assert isinstance(observed, ev.ToolResultObserved)
    assert json.loads(observed.content)["result"] == {"seen": "x"}
    assert events[-1] == ev.RunCompleted(summary="seen x")


@pytest.mark.parametrize("said", ["The mean is 3.", "Fertig: 3"])
async def test_final_text_completes_finished_run(said: str) -> None:
    """What a model says when its work is done is the answer; nobody asks for it again."""
    events = await play([call("look", at="x"), say(said)], look)
    assert errors(events) == []
    assert events[-1] == ev.RunCompleted(summary=said)


@pytest.mark.parametrize(
    "before",
    [[], [call("break_down")], [call("plan", parts=["a", "b"])]],
    ids=["nothing done", "a failed step", "an open part"],
)
async def test_text_does_not_complete_open_run(before: list[Step]) -> None:
    end = call("return_done", summary="ok")
    steps = [*before, say("So."), call("plan", parts=["a"], done=["a"]), end]
    events = await play(steps, look, break_down, plan)
    assert errors(events)[-1:] == [("no_progress", "narrow_scope", 1)]
    assert isinstance(events[-1], ev.RunCompleted)


async def test_loop_record_answers_every_call() -> None:
    events = await play([call("look", at="x")] * 6, look)
    messages = asked(events).suspension_record.messages
    made = [each["id"] for message in messages for each in message.get("tool_calls") or ()]
    assert made == [message["tool_call_id"] for message in messages if message["role"] == "tool"]


async def test_declined_limit_ends_with_summary() -> None:
    model = ScriptedModel([call("look", at="1")])
    who = bare(model=model, tools=[look], max_iterations=1)
    question = asked(await run(who))
    resumed = await gather(resume_run(who, question.suspension_record, "Stop here"))
    assert kinds(resumed) == ["state_snapshot", "partial_run_summary"]


# Limits.


def used(completion: Completion, tokens: int) -> Completion:
    return replace(completion, usage=Usage(tokens, 0))


async def test_budget_question_allows_as_much_again() -> None:
    model = ScriptedModel(
        [used(call("look", at="x"), 9_000), used(call("look", at="y"), 9_000), DONE]
    )
    who = bare(model=model, tools=[look], max_tokens=10_000)
    question = asked(await run(who))
    assert question.originating_failure_kind is FailureKind.policy_violation
    assert "9,000 of 10,000 tokens" in (question.context or "")
    assert question.choices == ("Go on", "Stop here")
    assert question.suspension_record.originating_guard == "tokens"
    assert len(model.requests) == 1

    carried = SuspensionRecord.model_validate_json(question.suspension_record.model_dump_json())
    again = asked(await gather(resume_run(who, carried, "Go on")))
    assert "9,000 of 10,000 tokens" in (again.context or "")
    assert len(model.requests) == 2
    finished = await gather(resume_run(who, again.suspension_record, "Go on"))
    assert finished[-1] == ev.RunCompleted(summary="ok")


@tool(name="look")
async def look_long(at: str) -> dict[str, str]:
    """Look."""
    return {"seen": at * 2000}


async def test_near_budget_model_is_warned_once_and_context_shrinks() -> None:
    used_by_each = (("a", 10), ("b", 10), ("c", 79_980))
    steps = [used(call("look", at=at), used_by) for at, used_by in used_by_each]
    model = ScriptedModel([*steps, call("look", at="d"), DONE])
    events = await run(bare(model=model, tools=[look_long], max_tokens=100_000))
    warnings = [event for event in events if isinstance(event, ev.BudgetWarning)]
    assert warnings == [ev.BudgetWarning(guard="tokens", used=80_000, limit=100_000)]
    told = ["budget" in request.messages[-1]["content"] for request in model.requests]
    assert told == [False, False, False, True, False]

    def whole(number: int) -> list[bool]:
        results = [m for m in model.requests[number].messages if m["role"] == "tool"]
        return ["shortened" not in m["content"] for m in results]

    assert whole(2) == [True, True]
    assert whole(3) == [False, False, True]


async def test_write_near_budget_limit_stays_recorded_and_is_not_repeated() -> None:
    refunds: list[str] = []

    @tool(effect="none")
    async def look(at: str) -> str:
        """Look."""
        return "Delayed, ETA Friday"

    @tool(effect="write")
    async def refund(payment: str) -> dict[str, str]:
        """Pay back."""
        refunds.append(payment)
        return {"receipt": f"R{len(refunds)}", "note": "n" * 4_000}

    paid = call("refund", payment="P9")
    model = ScriptedModel(
        [used(paid, 1_000), used(call("look", at="x"), 82_000), call("look", at="y"), paid, DONE]
    )
    state = begun()
    events = await run(bare(model=model, tools=[look, refund], max_tokens=100_000), state=state)
    assert [type(e) for e in events if isinstance(e, ev.BudgetWarning)] == [ev.BudgetWarning]
    assert isinstance(events[-1], ev.RunCompleted)
    assert refunds == ["P9"]

    said = [m for m in model.requests[-1].messages if m["role"] in ("assistant", "tool")]
    asked = [c["function"] for m in said for c in m.get("tool_calls") or ()]
    # What was asked for stands as it was; of the answers only words without end are gone.
    assert [json.loads(each["arguments"]) for each in asked if each["name"] == "refund"] == [
        {"payment": "P9"}
    ] * 2
    first = next(m["content"] for m in said if m["role"] == "tool")
    assert "shortened" in first
    assert "receipt: R1" in first
    # The run's own memory is whole.
    kept = [json.loads(m["content"]) for m in state.messages if m["role"] == "tool"]
    assert [each["result"]["receipt"] for each in (kept[0], kept[3])] == ["R1", "R1"]
    assert "shortened" not in json.dumps(kept)


class Slow:
    """Says and thinks a word behind each of ``waits``, and then is done."""

    name = "slow"

    def __init__(self, clock: ManualClock, waits: Iterable[float]) -> None:
        self._clock = clock
        self._waits = waits

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Completion]:
        for seconds in self._waits:
            await self._clock.sleep(seconds)
            yield Delta("hm", reasoning="well")
        yield DONE


async def test_run_time_limit_ends_endless_answer() -> None:
    who = bare(max_execution_time_s=45)
    who.model_config = Slow(who.clock, repeat(10))
    question = asked(await run(who))
    assert question.originating_failure_kind is FailureKind.time_limit
    assert who.clock.monotonic() == 45 + FINISHING_S


async def test_heartbeat_shows_silent_model() -> None:
    who = bare()
    who.model_config = Slow(who.clock, (0, 50))
    events = await run(who)
    beats = [event for event in events if isinstance(event, ev.Heartbeat)]
    assert beats == [ev.Heartbeat(model="slow", silent_s=s) for s in (20, 40)]
    assert isinstance(events[-1], ev.RunCompleted)


async def test_fallback_model_takes_over_after_retries() -> None:
    first, second = ScriptedModel([DOWN] * 4, "first"), ScriptedModel([DONE], "second")
    who = bare(model=[first, second])
    events = await run(who)
    told = [event for event in events if isinstance(event, ev.AgentError)]
    assert [(e.action, e.attempt, e.fallback) for e in told] == [
        ("retry", 1, None),
        ("retry", 2, None),
        ("retry", 3, None),
        ("retry", 1, "second"),
    ]
    assert who.clock.slept == [1, 2, 4]
    answered = [event.model for event in events if isinstance(event, ev.LLMCallCompleted)]
    assert answered == ["second"]


async def test_at_most_twelve_requests_fail_in_a_row() -> None:
    class Stubborn(DefaultPolicy):
        def retry_budget(self, kind: FailureKind) -> int:
            return 1000

        def decide(self, failure: Failure, state: RunState) -> Action:
            return Action.retry

    models = [ScriptedModel([TimeoutError("slow")] * 20, name) for name in "abcde"]
    who = bare(model=models)
    who.policy = Stubborn()
    last = (await run(who))[-1]
    assert isinstance(last, ev.Handoff)
    assert sum(len(model.requests) for model in models) == 12


@pytest.mark.parametrize(
    "limit", [{"max_tokens": 0}, {"max_cost_usd": -1}, {"max_cost_usd": float("inf")}]
)
def test_meaningless_limits_are_refused(limit: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"greater than 0|finite"):
        AgentGuardrails(**limit)


async def test_wait_never_exceeds_run_time() -> None:
    who = bare(*[DOWN] * 4, max_execution_time_s=2)
    question = asked(await run(who))
    assert question.originating_failure_kind is FailureKind.time_limit
    assert who.clock.slept == [1, 1]


async def test_approved_loop_may_continue() -> None:
    model = ScriptedModel([call("look", at="x")] * 7 + [DONE])
    who = bare(model=model, tools=[look])
    question = asked(await run(who))
    assert question.originating_failure_kind is FailureKind.loop_detected
    went_on = await gather(resume_run(who, question.suspension_record, "do it once more"))
    assert went_on[-1] == ev.RunCompleted(summary="ok")


# Broken hosts.


def breaks(*_: Any, **__: Any) -> Any:
    raise RuntimeError("broken")


def leaves(*_: Any, **__: Any) -> Any:
    raise SystemExit(1)


def cancels(*_: Any, **__: Any) -> Any:
    raise asyncio.CancelledError


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("decide", breaks),
        ("decide", leaves),
        ("decide", cancels),
        ("decide", lambda *_: "no action"),
        ("decide", lambda *_: None),
        ("retry_budget", breaks),
        ("retry_budget", lambda *_: None),
        ("backoff", breaks),
        ("backoff", lambda *_: "long"),
    ],
)
async def test_raising_policy_falls_back_to_default(name: str, answer: Callable[..., Any]) -> None:
    who = bare(DOWN, DONE, tools=[look])
    setattr(who.policy, name, answer)
    events = await run(who)
    assert actions(events) == ["retry"]
    assert events[-1] == ev.RunCompleted(summary="ok")
    assert who.clock.slept == [1.0]


@pytest.mark.parametrize("wait", [float("inf"), float("nan"), 1e9, -5.0])
async def test_wait_never_exceeds_remaining_time(wait: float) -> None:
    who = bare(DOWN, DONE, tools=[look])
    setattr(who.policy, "backoff", lambda *_: wait)  # noqa: B010
    assert isinstance((await run(who))[-1], ev.RunCompleted)
    assert sum(who.clock.slept) <= 60


@pytest.mark.parametrize("limits", [{"max_iterations": 1}, {"max_tokens": 4_000}])
async def test_policy_retrying_a_limit_meets_it_once_more(limits: dict[str, Any]) -> None:
    who = bare(call("look", at="x" * 14_000), tools=[look], **limits)
    setattr(who.policy, "decide", lambda *_: Action.retry)  # noqa: B010
    events = await run(who)
    assert actions(events) == ["retry"]
    assert isinstance(events[-1], ev.Handoff)


@pytest.mark.parametrize("name", ["models", "tools", "gate", "drain", "variables", "effects"])
async def test_raising_hook_ends_run_with_its_error(name: str) -> None:
    who = bare(call("look", at="x"), DONE, tools=[look])
    setattr(who.hooks, name, breaks)
    last = (await run(who))[-1]
    assert isinstance(last, ev.Handoff)
    assert "RuntimeError: broken" in last.rationale


@pytest.mark.parametrize(
    "arguments",
    [
        '{"deep":' + "[" * 490 + "]" * 490 + "}",
        '{"deep":' * 60 + "1" + "}" * 60,
        '{"at": "' + "x" * 1_100_000 + '"}',
        "[" * 100_000,
    ],
    ids=["lists", "objects", "long", "broken"],
)
async def test_invalid_arguments_are_quoted_and_refused(arguments: str) -> None:
    events = await run(bare(raw_call("look", arguments), DONE, tools=[look]))
    begun = next(event for event in events if isinstance(event, ev.ToolEvent))
    assert len(json.dumps(begun.arguments)) < 3_000
    assert isinstance(events[-1], ev.RunCompleted)


async def test_calls_per_answer_are_limited() -> None:
    seen: list[int] = []

    @tool
    async def note(n: int) -> None:
        """Note."""
        seen.append(n)

    who = bare(calls(*[call("note", n=n) for n in range(200)]), DONE, tools=[note])
    await run(who)
    assert seen == list(range(MAX_CALLS))
    results = [m for m in who.model_config.requests[1].messages if m["role"] == "tool"]
    assert len(results) == 200
    assert "most in one answer" in results[-1]["content"]


async def test_tool_time_is_not_run_time() -> None:
    waits = calls(*[call("wait", n=n) for n in range(20)])

    @tool
    async def wait(n: int) -> None:
        """Wait."""
        who.clock.advance(4)

    who = bare(waits, DONE, tools=[wait], max_execution_time_s=10)
    assert isinstance((await run(who))[-1], ev.RunCompleted)
    assert who.clock.monotonic() == 80


async def test_lost_correction_is_repeated() -> None:
    who = bare(say("hm"), DOWN, DONE)
    await run(who)
    told = ["return_unable" in r.messages[-1]["content"] for r in who.model_config.requests]
    assert told == [False, True, True]


async def test_false_claim_is_corrected_by_name() -> None:
    claimed = Failure(
        FailureKind.no_progress,
        "The summary claims 99.",
        metadata={"type": FailureType.HALLUCINATED_STATE},
    )

    @tool
    async def judge() -> ToolResult:
        """Judge."""
        return ToolResult.from_failure(claimed)

    who = bare(call("judge"), DONE, tools=[judge])
    await run(who)
    told = who.model_config.requests[1].messages[-1]["content"]
    assert "claims 99" in told
    assert "no tool call" not in told
