"""Whatever a host, a policy or a model hands in, a run ends with one event that says why."""

import asyncio
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from parsimony_kernel.agent.failure import Action, DefaultPolicy, Failure, FailureKind
from parsimony_kernel.agent.hooks import RunHooks
from parsimony_kernel.agent.loop import run_loop
from parsimony_kernel.agent.run import MAX_CALLS
from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.events import (
    AgentError,
    AgentEvent,
    Handoff,
    RunCompleted,
    ToolEvent,
    is_terminal,
)
from parsimony_kernel.core.state import RunState
from parsimony_kernel.core.taxonomy import FailureType
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.testing.scripted import ScriptedModel, Step, call, calls, raw_call, say
from parsimony_kernel.tools import ToolResult, Tools, tool

DONE = call("return_done", summary="ok")
DOWN = ConnectionError("reset")
NAN = float("nan")


@tool
async def look(at: str = "", deep: Any = None) -> str:
    """Look."""
    return at


def agent(*steps: Step, hooks: RunHooks | None = None, **limits: Any) -> SimpleNamespace:
    return SimpleNamespace(
        model_config=ScriptedModel(steps),
        policy=DefaultPolicy(),
        guardrails=AgentGuardrails(**limits),
        instructions="Be brief.",
        suspension_secret="s",
        tools=Tools([look]) + termination_tools(),
        clock=ManualClock(),
        hooks=hooks or RunHooks(),
    )


async def gather(who: SimpleNamespace) -> list[AgentEvent]:
    state = RunState(messages=[{"role": "user", "content": "go"}], started_monotonic_s=0.0)
    events = [event async for event in run_loop(who, state)]
    assert [is_terminal(event) for event in events] == [False] * (len(events) - 1) + [True]
    for event in events:
        event.model_dump_json()
    assert state.done
    return events


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
    who = agent(DOWN, DONE)
    who.policy = DefaultPolicy()
    setattr(who.policy, name, answer)
    events = await gather(who)
    assert [event.action for event in events if isinstance(event, AgentError)] == ["retry"]
    assert events[-1] == RunCompleted(summary="ok")
    assert who.clock.slept == [1.0]


@pytest.mark.parametrize("wait", [float("inf"), NAN, 1e9, -5.0])
async def test_wait_never_exceeds_remaining_time(wait: float) -> None:
    who = agent(DOWN, DONE)
    setattr(who.policy, "backoff", lambda *_: wait)  # noqa: B010
    assert isinstance((await gather(who))[-1], RunCompleted)
    assert sum(who.clock.slept) <= 60


@pytest.mark.parametrize("limits", [{"max_iterations": 1}, {"max_tokens": 4_000}])
async def test_policy_retrying_a_limit_meets_it_once_more(limits: dict[str, Any]) -> None:
    who = agent(call("look", at="x" * 14_000), **limits)
    setattr(who.policy, "decide", lambda *_: Action.retry)  # noqa: B010
    events = await gather(who)
    assert [event.action for event in events if isinstance(event, AgentError)] == ["retry"]
    assert isinstance(events[-1], Handoff)


@pytest.mark.parametrize("name", ["models", "tools", "gate", "drain", "variables", "effects"])
async def test_raising_hook_ends_run_with_its_error(name: str) -> None:
    hooks = RunHooks()
    setattr(hooks, name, breaks)
    last = (await gather(agent(call("look", at="x"), DONE, hooks=hooks)))[-1]
    assert isinstance(last, Handoff)
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
    events = await gather(agent(raw_call("look", arguments), DONE))
    begun = next(event for event in events if isinstance(event, ToolEvent))
    assert len(json.dumps(begun.arguments)) < 3_000
    assert isinstance(events[-1], RunCompleted)


async def test_lone_surrogate_in_answer_is_written() -> None:
    half = "half \ud800"
    steps = [
        calls(raw_call("look", json.dumps({"at": half})), text=half),
        call("return_done", summary="seen \\ud800"),
    ]
    events = await gather(agent(*steps))
    assert isinstance(events[-1], RunCompleted)


async def test_calls_per_answer_are_limited() -> None:
    seen: list[int] = []

    @tool
    async def note(n: int) -> None:
        """Note."""
        seen.append(n)

    who = agent(calls(*[call("note", n=n) for n in range(200)]), DONE)
    who.tools = Tools([note]) + termination_tools()
    await gather(who)
    assert seen == list(range(MAX_CALLS))
    results = [m for m in who.model_config.requests[1].messages if m["role"] == "tool"]
    assert len(results) == 200
    assert "most in one answer" in results[-1]["content"]


async def test_tool_time_is_not_run_time() -> None:
    waits = calls(*[call("wait", n=n) for n in range(20)])
    who = agent(waits, DONE, max_execution_time_s=10)

    @tool
    async def wait(n: int) -> None:
        """Wait."""
        who.clock.advance(4)

    who.tools = Tools([wait]) + termination_tools()
    assert isinstance((await gather(who))[-1], RunCompleted)
    assert who.clock.monotonic() == 80


async def test_lost_correction_is_repeated() -> None:
    who = agent(say("hm"), DOWN, DONE)
    await gather(who)
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

    who = agent(call("judge"), DONE)
    who.tools = Tools([judge]) + termination_tools()
    await gather(who)
    told = who.model_config.requests[1].messages[-1]["content"]
    assert "claims 99" in told
    assert "no tool call" not in told
