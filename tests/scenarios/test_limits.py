"""Runs that meet their limits: budgets, time in mid-answer, models that go away, full contexts."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from parsimony_kernel.agent.failure import Action, DefaultPolicy, Failure, FailureKind
from parsimony_kernel.agent.hooks import RunHooks
from parsimony_kernel.agent.loop import resume_run, run_loop
from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.chat import ChatModel, Completion, Delta, ModelRequest, Usage
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.events import (
    AgentError,
    AgentEvent,
    BudgetWarning,
    Handoff,
    Heartbeat,
    LLMCallCompleted,
    RunCompleted,
    UserInputRequested,
    is_terminal,
    parse_event,
)
from parsimony_kernel.core.state import RunState, SuspensionRecord
from parsimony_kernel.limits.breaker import Breakers
from parsimony_kernel.llm.chokepoint import FINISHING_S
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.testing.scripted import ScriptedModel, call
from parsimony_kernel.tools import Tools, tool

DONE = call("return_done", summary="ok")
DOWN = ConnectionError("reset")


@tool
async def look(at: str) -> dict[str, str]:
    """Look."""
    return {"seen": at * 2000}


def agent(model: ChatModel | Sequence[ChatModel], **limits: Any) -> SimpleNamespace:
    clock = ManualClock()
    return SimpleNamespace(
        model_config=model,
        policy=DefaultPolicy(),
        guardrails=AgentGuardrails(**limits),
        instructions="Be brief.",
        suspension_secret="s",
        tools=Tools([look]) + termination_tools(),
        clock=clock,
        hooks=RunHooks(Breakers(clock)),
    )


def request() -> RunState:
    return RunState(messages=[{"role": "user", "content": "go"}], started_monotonic_s=0.0)


async def gather(events: AsyncIterator[AgentEvent]) -> list[AgentEvent]:
    gathered = [event async for event in events]
    assert [is_terminal(event) for event in gathered] == [False] * (len(gathered) - 1) + [True]
    assert [parse_event(event.model_dump(mode="json")) for event in gathered] == gathered
    return gathered


def used(completion: Completion, tokens: int) -> Completion:
    return replace(completion, usage=Usage(tokens, 0))


def asked(events: Sequence[AgentEvent]) -> UserInputRequested:
    last = events[-1]
    assert isinstance(last, UserInputRequested)
    return last


async def test_budget_question_allows_as_much_again() -> None:
    model = ScriptedModel(
        [used(call("look", at="x"), 9_000), used(call("look", at="y"), 9_000), DONE]
    )
    who = agent(model, max_tokens=10_000)
    question = asked(await gather(run_loop(who, request())))
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
    assert finished[-1] == RunCompleted(summary="ok")


async def test_other_question_does_not_lift_budget() -> None:
    model = ScriptedModel([used(call("ask_user", question="Which?"), 9_000)])
    who = agent(model, max_tokens=10_000)
    question = asked(await gather(run_loop(who, request())))
    assert question.originating_failure_kind is None
    again = asked(await gather(resume_run(who, question.suspension_record, "that one")))
    assert again.originating_failure_kind is FailureKind.policy_violation
    assert len(model.requests) == 1


async def test_near_budget_model_is_warned_once_and_context_shrinks() -> None:
    used_by_each = (("a", 10), ("b", 10), ("c", 79_980))
    steps = [used(call("look", at=at), used_by) for at, used_by in used_by_each]
    model = ScriptedModel([*steps, call("look", at="d"), DONE])
    events = await gather(run_loop(agent(model, max_tokens=100_000), request()))
    warnings = [event for event in events if isinstance(event, BudgetWarning)]
    assert warnings == [BudgetWarning(guard="tokens", used=80_000, limit=100_000)]
    told = ["budget" in request.messages[-1]["content"] for request in model.requests]
    assert told == [False, False, False, True, False]

    def whole(number: int) -> list[bool]:
        results = [m for m in model.requests[number].messages if m["role"] == "tool"]
        return ["shortened" not in m["content"] for m in results]

    assert whole(2) == [True, True]
    assert whole(3) == [False, False, True]


class Murmuring:
    """Says something every ten seconds, for ever."""

    name = "murmuring"

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Completion]:
        while True:
            await self._clock.sleep(10)
            yield Delta("hm")


async def test_run_time_limit_ends_endless_answer() -> None:
    who = agent([], max_execution_time_s=45)
    who.model_config = Murmuring(who.clock)
    question = asked(await gather(run_loop(who, request())))
    assert question.originating_failure_kind is FailureKind.time_limit
    assert who.clock.monotonic() == 45 + FINISHING_S


class Pondering:
    """Answers after ``seconds`` of silence."""

    name = "pondering"

    def __init__(self, clock: ManualClock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Completion]:
        yield Delta(reasoning="well")
        await self._clock.sleep(self._seconds)
        yield replace(DONE, choices=DONE.choices)


async def test_heartbeat_shows_silent_model() -> None:
    who = agent([])
    who.model_config = Pondering(who.clock, 50)
    events = await gather(run_loop(who, request()))
    beats = [event for event in events if isinstance(event, Heartbeat)]
    assert beats == [Heartbeat(model="pondering", silent_s=s) for s in (20, 40)]
    assert isinstance(events[-1], RunCompleted)


async def test_fallback_model_takes_over_after_retries() -> None:
    first, second = ScriptedModel([DOWN] * 4, "first"), ScriptedModel([DONE], "second")
    who = agent([first, second])
    events = await gather(run_loop(who, request()))
    told = [event for event in events if isinstance(event, AgentError)]
    assert [(e.action, e.attempt, e.fallback) for e in told] == [
        ("retry", 1, None),
        ("retry", 2, None),
        ("retry", 3, None),
        ("retry", 1, "second"),
    ]
    assert who.clock.slept == [1, 2, 4]
    answered = [event.model for event in events if isinstance(event, LLMCallCompleted)]
    assert answered == ["second"]


async def test_at_most_twelve_requests_fail_in_a_row() -> None:
    class Stubborn(DefaultPolicy):
        def retry_budget(self, kind: FailureKind) -> int:
            return 1000

        def decide(self, failure: Failure, state: RunState) -> Action:
            return Action.retry

    models = [ScriptedModel([TimeoutError("slow")] * 20, name) for name in "abcde"]
    who = agent(models)
    who.policy = Stubborn()
    last = (await gather(run_loop(who, request())))[-1]
    assert isinstance(last, Handoff)
    assert sum(len(model.requests) for model in models) == 12


@pytest.mark.parametrize(
    "limit", [{"max_tokens": 0}, {"max_cost_usd": -1}, {"max_cost_usd": float("inf")}]
)
def test_meaningless_limits_are_refused(limit: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"greater than 0|finite"):
        AgentGuardrails(**limit)


async def test_wait_never_exceeds_run_time() -> None:
    who = agent(ScriptedModel([DOWN] * 4), max_execution_time_s=2)
    question = asked(await gather(run_loop(who, request())))
    assert question.originating_failure_kind is FailureKind.time_limit
    assert who.clock.slept == [1, 1]


async def test_approved_loop_may_continue() -> None:
    model = ScriptedModel([call("look", at="x")] * 7 + [DONE])
    who = agent(model)
    question = asked(await gather(run_loop(who, request())))
    assert question.originating_failure_kind is FailureKind.loop_detected
    went_on = await gather(resume_run(who, question.suspension_record, "do it once more"))
    assert went_on[-1] == RunCompleted(summary="ok")
