"""A run of a bare agent over replies that are written beforehand."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from parsimony_kernel.agent.cancellation import CancellationRequest
from parsimony_kernel.agent.loop import run_loop
from parsimony_kernel.agent.state import RunState

from . import LOOK, SHAPES, Provider, bare_agent, collect, fresh_state, install, with_ends


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
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
