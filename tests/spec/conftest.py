"""A run of a bare agent over replies that are written beforehand."""

from types import SimpleNamespace
from typing import Any

import pytest

from parsimony_kernel.agent.cancellation import CancellationRequest
from parsimony_kernel.agent.loop import resume_run, run_loop
from parsimony_kernel.agent.state import RunState, SuspensionRecord

from . import (
    LOOK,
    SHAPES,
    Provider,
    Run,
    bare_agent,
    collect,
    done,
    fresh_state,
    install,
    with_ends,
)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Drive a bare agent that can look over replies: events, the state, the provider."""

    async def drive(
        *replies: Any,
        shape: Any = SHAPES[1],
        state: RunState | None = None,
        cancellation: CancellationRequest | None = None,
        **agent: Any,
    ) -> Any:
        provider = Provider(*replies, shape=shape)
        install(monkeypatch, provider)
        state = state or fresh_state()
        given = bare_agent(**{"tools": with_ends(LOOK), **agent})
        events = await collect(run_loop(given, state, cancellation=cancellation))
        return SimpleNamespace(events=events, state=state, provider=provider)

    return drive


@pytest.fixture
def resumed(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Answer the question of a record to such an agent: events, the provider."""

    async def drive(record: SuspensionRecord, reply: str, *replies: Any, **more: Any) -> Any:
        provider = Provider(*(replies or [done()]))
        install(monkeypatch, provider)
        agent = bare_agent(tools=with_ends(LOOK))
        events = await collect(resume_run(agent, record, reply, **more))
        return SimpleNamespace(events=events, provider=provider)

    return drive
