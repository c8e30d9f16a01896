"""The funnel: one failure, one action."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from parsimony_kernel.agent.failure import (
    Action,
    DefaultPolicy,
    Failure,
    FailureKind,
    accumulate_usage,
    handle_failure,
)
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.chat import Usage, answer
from parsimony_kernel.core.events import AgentError, AgentEvent, Handoff, UserInputRequested
from parsimony_kernel.core.kinds import FailureContext
from parsimony_kernel.core.state import RunState
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.triage.policy import Escalate, FailurePolicy, PolicyRecovery, RecoveryAction


def agent(clock: ManualClock | None = None) -> SimpleNamespace:
    return SimpleNamespace(
        policy=DefaultPolicy(), suspension_secret="s", clock=clock or ManualClock()
    )


async def funnel(
    failure: Failure, state: RunState, who: SimpleNamespace | None = None
) -> list[AgentEvent]:
    return [event async for event in handle_failure(failure, agent=who or agent(), state=state)]


class Stubborn(DefaultPolicy):
    def decide(self, failure: Failure, state: RunState) -> Action:
        return Action.retry


@pytest.mark.parametrize(
    ("metadata", "event"),
    [
        ({"effect": "uncertain"}, UserInputRequested),
        ({"effect": "committed"}, Handoff),
        ({"final": True}, Handoff),
    ],
)
async def test_unrepeatable_failure_is_never_repeated(
    metadata: dict[str, object], event: type[AgentEvent]
) -> None:
    who = agent()
    who.policy = Stubborn()
    failure = Failure(FailureKind.tool_error, "why", metadata=metadata)
    assert [type(each) for each in await funnel(failure, RunState(), who)] == [event]


async def test_retry_after_is_honoured_up_to_a_minute() -> None:
    def asking(seconds: float) -> Failure:
        return Failure(FailureKind.transient_provider, "429", metadata={"retry_after_s": seconds})

    clock = ManualClock()
    await funnel(asking(60), RunState(), agent(clock))
    assert clock.slept == [60]
    (ended,) = await funnel(asking(500), RunState(), agent(clock))
    assert isinstance(ended, Handoff)
    assert "500 s" in ended.suggested_next_steps[0]
    assert clock.slept == [60]


async def test_stop_ends_the_wait() -> None:
    class Forever(ManualClock):
        async def sleep(self, seconds: float) -> None:
            stop.set("enough")
            await asyncio.Event().wait()

    stop = CancellationRequest()
    state = RunState(cancellation=stop)
    events = await funnel(Failure(FailureKind.transient_provider, "429"), state, agent(Forever()))
    assert len(events) == 1
    assert not state.done


BROKE = Failure(FailureKind.tool_error, "broke")
Strategy = Callable[[], Awaitable[Any]]


def planning(strategy: Strategy, clock: ManualClock | None = None) -> SimpleNamespace:
    """An agent whose policy plans as ``strategy`` says, about everything alike."""

    async def planned(context: FailureContext) -> Any:
        return await strategy()

    class Undispatched(FailurePolicy):
        async def dispatch(self, context: FailureContext) -> Any:
            return await planned(context)

    who = agent(clock)
    who.policy = PolicyRecovery(Undispatched(default=planned))
    return who


async def hangs() -> None:
    await asyncio.Event().wait()


async def test_strategy_ignoring_cancel_is_abandoned() -> None:
    over = asyncio.Event()

    async def stubborn() -> None:
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue

    (event,) = await funnel(BROKE, RunState(), planning(stubborn))
    assert isinstance(event, AgentError)
    over.set()


async def test_cancelled_funnel_is_not_the_strategys_fault() -> None:
    clock = ManualClock(auto=False)
    running = asyncio.ensure_future(funnel(BROKE, RunState(), planning(hangs, clock)))
    await clock.until_asleep()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert clock.sleepers == 0


async def test_lone_surrogate_in_plan_is_written() -> None:
    async def strategy() -> RecoveryAction:
        return Escalate(message="half \ud800")

    (event,) = await funnel(BROKE, RunState(), planning(strategy))
    assert isinstance(event, Handoff)
    event.model_dump_json()


def test_usage_is_summed_and_absurd_counts_ignored() -> None:
    state = RunState(started_monotonic_s=0.0)
    ours = answer("x", usage=Usage(10, 5), cost_usd=0.5)
    assert accumulate_usage(state, ours) == (10, 5, 0.5)
    absurd = SimpleNamespace(
        usage=SimpleNamespace(prompt_tokens=float("nan"), completion_tokens=-3), cost_usd=None
    )
    assert accumulate_usage(state, absurd) == (0, 0, 0.0)
    assert accumulate_usage(state, SimpleNamespace(usage=None, cost_usd=float("inf"))) == (0, 0, 0)
    assert (state.cumulative_prompt_tokens, state.cumulative_cost_usd) == (10, 0.5)
