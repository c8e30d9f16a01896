"""Whole runs of the loop with a scripted model, compared as streams of events."""

import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from parsimony_kernel.agent.failure import (
    DefaultPolicy,
)
from parsimony_kernel.agent.loop import resume_run, run_loop
from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.events import (
    AgentError,
    AgentEvent,
    RunCompleted,
    ToolResultObserved,
    UserInputRequested,
    is_terminal,
    parse_event,
)
from parsimony_kernel.core.state import RunState
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.testing.scripted import ScriptedModel, Step, call, calls, say
from parsimony_kernel.toolbox.plan import plan
from parsimony_kernel.tools import Tools, tool


def agent(model: ScriptedModel, *tools: Any, **limits: Any) -> SimpleNamespace:
    return SimpleNamespace(
        model_config=model,
        policy=DefaultPolicy(),
        guardrails=AgentGuardrails(**limits),
        instructions="Be brief.",
        suspension_secret="s",
        tools=Tools(tools) + termination_tools(),
        clock=ManualClock(),
    )


def request(text: str = "go") -> RunState:
    return RunState(
        run_id="r",
        session_id="s",
        messages=[{"role": "user", "content": text}],
        started_monotonic_s=ManualClock().monotonic(),
    )


async def play(steps: Sequence[Step], *tools: Any, **limits: Any) -> list[AgentEvent]:
    model = ScriptedModel(steps)
    events = [event async for event in run_loop(agent(model, *tools, **limits), request())]
    model.assert_exhausted()
    assert [is_terminal(event) for event in events] == [False] * (len(events) - 1) + [True]
    assert [parse_event(event.model_dump(mode="json")) for event in events] == events
    return events


def kinds(events: Sequence[AgentEvent]) -> list[str]:
    return [str(getattr(event, "type", "")) for event in events]


def errors(events: Sequence[AgentEvent]) -> list[tuple[str, str | None, int]]:
    return [
        (str(e.failure.kind) if e.failure else "", e.action, e.attempt)
        for e in events
        if isinstance(e, AgentError)
    ]


@tool
async def look(at: str) -> dict[str, str]:
    """Look."""
    return {"seen": at}


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
    assert isinstance(observed, ToolResultObserved)
    assert json.loads(observed.content)["result"] == {"seen": "x"}
    assert events[-1] == RunCompleted(summary="seen x")


PLAN = plan


@pytest.mark.parametrize("said", ["The mean is 3.", "Fertig: 3"])
async def test_final_text_completes_finished_run(said: str) -> None:
    """What a model says when its work is done is the answer; nobody asks for it again."""
    events = await play([call("look", at="x"), say(said)], look)
    assert errors(events) == []
    assert events[-1] == RunCompleted(summary=said)


@pytest.mark.parametrize(
    "before",
    [[], [call("break_down")], [call("plan", parts=["a", "b"])]],
    ids=["nothing done", "a failed step", "an open part"],
)
async def test_text_does_not_complete_open_run(before: list[Step]) -> None:
    end = call("return_done", summary="ok")
    steps = [*before, say("So."), call("plan", parts=["a"], done=["a"]), end]
    events = await play(steps, look, break_down, PLAN)
    assert errors(events)[-1:] == [("no_progress", "narrow_scope", 1)]
    assert isinstance(events[-1], RunCompleted)


async def test_stalls_between_successes_do_not_add_up() -> None:
    steps: list[Step] = []
    for number in range(3):
        steps += [say("hm…"), call("look", at=str(number))]
    events = await play([*steps, call("return_done", summary="ok")], look)
    assert errors(events) == [("no_progress", "narrow_scope", 1)] * 3
    assert isinstance(events[-1], RunCompleted)


async def test_calls_after_a_failed_call_are_skipped() -> None:
    seen: list[str] = []

    @tool
    async def note(text: str) -> None:
        """Note."""
        seen.append(text)

    model = ScriptedModel(
        [
            calls(call("break_down"), call("note", text="after")),
            call("return_done", summary="ok"),
        ]
    )
    async for _ in run_loop(agent(model, break_down, note), request()):
        pass
    assert seen == []
    results = [m for m in model.requests[1].messages if m["role"] == "tool"]
    assert results[1]["content"] == "Not run: the call before it failed"


async def test_loop_record_answers_every_call() -> None:
    events = await play([call("look", at="x")] * 6, look)
    last = events[-1]
    assert isinstance(last, UserInputRequested)
    asked = [c["id"] for m in last.suspension_record.messages for c in m.get("tool_calls") or ()]
    answered = [m["tool_call_id"] for m in last.suspension_record.messages if m["role"] == "tool"]
    assert asked == answered


async def test_declined_limit_ends_with_summary() -> None:
    model = ScriptedModel([call("look", at="1")])
    who = agent(model, look, max_iterations=1)
    asked = [event async for event in run_loop(who, request())][-1]
    assert isinstance(asked, UserInputRequested)
    resumed = [e async for e in resume_run(who, asked.suspension_record, "Stop here")]
    assert kinds(resumed) == ["state_snapshot", "partial_run_summary"]


async def test_stop_during_tool_answers_call_and_ends_run() -> None:
    stop = CancellationRequest()

    @tool
    async def stall() -> None:
        """Stall."""
        stop.set("enough")
        await CancellationRequest().wait()

    state = request()
    who = agent(ScriptedModel([call("stall")]), stall)
    events = [e async for e in run_loop(who, state, cancellation=stop)]
    assert kinds(events)[-3:] == ["tool_event", "state_snapshot", "run_cancelled"]
    assert state.messages[-1]["role"] == "tool"
    assert state.done


async def test_truncated_answer_runs_no_calls() -> None:
    from dataclasses import replace

    whole = call("look", at="x")
    cut = replace(whole, choices=(replace(whole.choices[0], finish_reason="length"),))
    events = await play([cut, call("return_done", summary="ok")], look)
    assert errors(events) == [("output_truncated", "retry", 1)]
    assert not any(getattr(event, "tool_name", "") == "look" for event in events)
