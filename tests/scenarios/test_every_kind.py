"""All thirteen kinds: each comes up in a run, at its phase, with its default action and budget."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.agent.failure import DefaultPolicy, FailureKind, default_action_for
from parsimony_kernel.agent.loop import run_loop
from parsimony_kernel.core.chat import Usage
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.events import (
    AgentError,
    AgentEvent,
    Handoff,
    LLMCallCompleted,
    UserInputRequested,
    is_terminal,
)
from parsimony_kernel.testing.clock import ManualClock
from parsimony_kernel.testing.scripted import ScriptedModel, Step, call, say

DONE = call("return_done", summary="ok")
TWO_PRICES = "import pandas as pd\ncars = pd.DataFrame({'unit_price': [1], 'list_price': [2]})"
# Shows something new each time, so that only the calls are alike.
# What it shows goes to and fro, which is no news.
COUNTING = "n = 1 - globals().get('n', 0)\nn"
# A wait that no interrupt of ours reaches, and that ends by itself soon after the test.
STUCK = "import threading\nthreading.Event().wait(3)"


class _Status(Exception):
    def __init__(self, status_code: int) -> None:
        super().__init__("no")
        self.status_code = status_code


def ending(reason: str) -> Step:
    whole = say("x")
    return replace(whole, choices=(replace(whole.choices[0], finish_reason=reason),))


@dataclass(frozen=True)
class Case:
    """How a kind comes up: found when, by which steps and limits, and how the funnel answers."""

    phase: str
    steps: Sequence[Step]
    action: str
    budget: int
    limits: dict[str, Any] = field(default_factory=dict)


CASES: dict[FailureKind, Case] = {
    FailureKind.transient_provider: Case("request", [ConnectionError("reset"), DONE], "retry", 3),
    FailureKind.output_truncated: Case("answer", [ending("length"), DONE], "retry", 1),
    FailureKind.output_refused: Case("answer", [ending("content_filter")], "handoff", 0),
    FailureKind.ambiguous_input: Case(
        "tool",
        [call("run_code", code=TWO_PRICES), call("run_code", code="cars['price'].sum()")],
        "ask_user",
        0,
    ),
    FailureKind.scope_too_large: Case("request", [_Status(413), DONE], "narrow_scope", 0),
    FailureKind.capability_gap: Case("request", [_Status(401)], "handoff", 0),
    FailureKind.no_progress: Case("answer", [say("hm"), DONE], "narrow_scope", 0),
    FailureKind.loop_detected: Case("answer", [call("run_code", code=COUNTING)] * 7, "ask_user", 0),
    FailureKind.tool_error: Case("tool", [call("run_code", code="1/0"), DONE], "retry", 2),
    FailureKind.policy_violation: Case(
        "before",
        [replace(call("run_code", code="1"), usage=Usage(8_000, 0))],
        "ask_user",
        0,
        {"max_tokens": 9_000},
    ),
    FailureKind.kernel_invalidated: Case(
        "tool",
        [call("run_code", code=STUCK), DONE],
        "narrow_scope",
        0,
        {"tool_timeout_s": 0.05},
    ),
    FailureKind.iteration_limit: Case(
        "before", [call("run_code", code="1")], "ask_user", 0, {"max_iterations": 1}
    ),
    FailureKind.time_limit: Case("before", [], "ask_user", 0, {"max_execution_time_s": 1}),
}


def test_the_table_is_whole() -> None:
    assert set(CASES) == set(FailureKind)


def answered(events: Sequence[AgentEvent]) -> list[tuple[FailureKind, str]]:
    """The failures that the funnel saw, and what it did about each."""
    found: list[tuple[FailureKind, str]] = []
    for event in events:
        match event:
            case AgentError(failure=failure, action=action) if failure and action:
                found.append((failure.kind, action))
            case UserInputRequested(originating_failure_kind=kind) if kind:
                found.append((kind, "ask_user"))
            case Handoff(failure=failure) if failure:
                found.append((failure.kind, "handoff"))
    return found


def phase_of(events: Sequence[AgentEvent], requests: int) -> str:
    """When the failure was found: before a request, in it, in its answer, or at a tool."""
    seen: set[str] = set()
    for event in events:
        if isinstance(event, AgentError | UserInputRequested | Handoff):
            break
        kind = str(getattr(event, "type", ""))
        seen = set() if kind == "state_snapshot" else seen | {kind}
    if "tool_event" in seen:
        return "tool"
    if "llm_call_completed" in seen:
        return "answer"
    answers = sum(isinstance(event, LLMCallCompleted) for event in events)
    return "request" if requests > answers else "before"


@pytest.mark.parametrize("kind", CASES)
async def test_a_run_meets_the_kind_and_answers_it(kind: FailureKind) -> None:
    case = CASES[kind]
    clock = ManualClock()
    model = ScriptedModel(case.steps)
    agent = Agent(
        model,
        suspension_secret="s",
        guardrails=AgentGuardrails(**case.limits),
        clock=clock,
    )
    events: list[AgentEvent] = []
    if kind is FailureKind.time_limit:
        state = agent.start("the total price")
        clock.advance(2)
        events = [event async for event in run_loop(agent, state)]
    else:
        events = [event async for event in agent.run("the total price")]
    model.assert_exhausted()
    assert [is_terminal(event) for event in events] == [False] * (len(events) - 1) + [True]
    assert answered(events) == [(kind, case.action)]
    assert phase_of(events, len(model.requests)) == case.phase
    assert DefaultPolicy().retry_budget(kind) == case.budget
    # A budget's question is the one default that its detector overrides.
    if kind is not FailureKind.policy_violation:
        assert default_action_for(kind).value == case.action
