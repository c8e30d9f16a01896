"""Whole runs of the real agent against a provider on loopback, whose clock the test moves."""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.causes import DefaultPolicy
from parsimony_kernel.core.chat import Completion
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.events import (
    AgentError,
    AgentEvent,
    AgentResult,
    Handoff,
    collect,
)
from parsimony_kernel.core.kinds import FailureKind
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.testing.provider import LoopbackProvider, Recorded, Step, transcript_breach
from parsimony_kernel.tools import Tool, Tools, tool
from tests.session.session_steps import assert_well_told

from .loops import errors

KEY = "sk-loopback0123456789abcdef"
MODEL = "openai/gpt-5"

# Real seconds after which a run that should have ended counts as hanging.
_HANGING_S = 30.0
# Passes of the event loop in which a run that need not wait would go on.
_PASSES = 20


def ended_by(reason: str, completion: Completion) -> Completion:
    """``completion`` with this ``finish_reason``."""
    return replace(completion, choices=(replace(completion.choices[0], finish_reason=reason),))


class Tally:
    """What the effects of a run were, in order, and the tools that have them."""

    def __init__(self) -> None:
        self.effects: list[int] = []

    @property
    def tools(self) -> tuple[Tool, ...]:
        """``add`` has an effect, ``look`` has none, ``fetch`` answers at length."""

        @tool
        async def add(n: int) -> dict[str, int]:
            """Enter a number."""
            self.effects.append(n)
            return {"entered": n}

        @tool(idempotent=True)
        async def look(at: str = "") -> dict[str, str]:
            """Look."""
            return {"seen": at}

        @tool(idempotent=True)
        async def fetch(page: int) -> dict[str, str]:
            """Fetch a page."""
            return {"page": f"page {page}: " + "x" * 3_000}

        return add, look, fetch


@dataclass(frozen=True)
class Ran:
    """A run that ended. ``waits`` are the back-offs in seconds of the run's clock, ``effects`` the
    numbers that were entered, ``requests`` what the provider was sent."""

    events: tuple[AgentEvent, ...]
    waits: tuple[float, ...]
    effects: Sequence[int] = ()
    requests: Sequence[Recorded] = ()

    @property
    def last(self) -> AgentEvent:
        return self.events[-1]

    @property
    def result(self) -> AgentResult:
        return collect(self.events)

    def handed_off(self, kind: FailureKind) -> Handoff:
        """Its end; ``AssertionError`` unless that hands off a failure of ``kind``."""
        assert isinstance(self.last, Handoff)
        assert self.last.failure is not None
        assert self.last.failure.kind is kind
        assert self.result.failed
        assert not self.result.ok
        return self.last

    @property
    def errors(self) -> list[tuple[str, str | None, int]]:
        return errors(self.events)

    @property
    def messages(self) -> list[str]:
        """The sentences of those failures."""
        return [event.message for event in self.events if isinstance(event, AgentError)]


def config_of(provider: LoopbackProvider, model: str = MODEL) -> dict[str, Any]:
    return {"model": model, "api_key": KEY, "api_base": provider.url}


def agent_at(*configs: Mapping[str, Any], tools: Sequence[Tool] = (), **limits: Any) -> Agent:
    """An agent with the shipped policy, whose models are ``configs`` in the order of fallback."""
    config: Any = configs[0] if len(configs) == 1 else list(configs)
    return Agent(
        model_config=config,
        tools=Tools(tools) + termination_tools(),
        policy=DefaultPolicy(),
        guardrails=AgentGuardrails(**limits),
        suspension_secret="s",
        clock=ManualClock(auto=False),
    )


async def run_with(
    answers: Iterable[Step], message: str = "Enter one number.", **limits: Any
) -> Ran:
    """One run of a fresh agent whose only provider gives ``answers``, which are used up if they
    have an end."""
    tally = Tally()
    with LoopbackProvider(answers) as provider:
        agent = agent_at(config_of(provider), tools=tally.tools, **limits)
        ran = await drive(agent, provider, message)
    if isinstance(answers, Sized):
        provider.assert_exhausted()
    return replace(ran, effects=tally.effects, requests=provider.requests)


async def drive(
    agent: Agent, provider: LoopbackProvider, message: str = "Enter one number."
) -> Ran:
    """Run to the end, moving the clock through each back-off and each silence of the provider.

    ``AssertionError`` unless what holds for every run holds for this one: its last event and no
    other is terminal, each event is JSON and without the key, each transcript is valid, and
    nothing is left open or waiting.
    """
    clock = agent.clock
    assert isinstance(clock, ManualClock)
    before = asyncio.all_tasks()
    asked = len(provider.requests)
    events: list[AgentEvent] = []
    waits: list[float] = []
    async with asyncio.timeout(_HANGING_S):
        stream = agent.run(message)
        delay = 0.0
        while True:
            following = asyncio.ensure_future(_next(stream))
            if delay > 0:
                waits.append(delay)
                await _sit_out(delay, clock, following, provider)
            await _attend(following, agent, clock, provider)
            event = await following
            if event is None:
                break
            events.append(event)
            delay = event.delay_s if isinstance(event, AgentError) else 0.0
    await _assert_nothing_is_left(provider, clock, before)
    assert_well_told(events)
    assert KEY not in json.dumps([event.model_dump(mode="json") for event in events])
    for request in provider.requests[asked:]:
        assert transcript_breach(request.body["messages"]) is None
        assert request.headers["authorization"] == f"Bearer {KEY}"
    return Ran(tuple(events), tuple(waits))


async def _next(stream: AsyncGenerator[AgentEvent, None]) -> AgentEvent | None:
    return await anext(stream, None)


async def _sit_out(
    delay: float,
    clock: ManualClock,
    following: "asyncio.Future[AgentEvent | None]",
    provider: LoopbackProvider,
) -> None:
    """Let ``delay`` pass, and see that the run waits for the whole of it."""
    while clock.sleepers == 0 and not following.done():
        await asyncio.sleep(0.001)
    asked = len(provider.requests)
    clock.advance(delay * 0.99)
    for _ in range(_PASSES):
        await asyncio.sleep(0)
    assert not following.done()
    assert len(provider.requests) == asked
    clock.advance(delay * 0.02)


async def _attend(
    following: "asyncio.Future[AgentEvent | None]",
    agent: Agent,
    clock: ManualClock,
    provider: LoopbackProvider,
) -> None:
    """Wait for the next event; where the provider has fallen silent, let the limit pass."""
    timed: set[int] = set()
    while not following.done():
        silent = {
            index
            for index, request in enumerate(provider.requests)
            if request.silent.is_set() and not request.gone.is_set()
        }
        if silent - timed and clock.sleepers:
            timed |= silent
            clock.advance(agent.guardrails.llm_timeout_s)
        await asyncio.wait({following}, timeout=0.001)


async def _assert_nothing_is_left(
    provider: LoopbackProvider, clock: ManualClock, before: set[asyncio.Task[Any]]
) -> None:
    for request in provider.requests:
        assert await asyncio.to_thread(request.gone.wait, 60)
    assert clock.sleepers == 0
    assert [task for task in asyncio.all_tasks() - before if not task.done()] == []
