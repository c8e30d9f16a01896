"""An IPython extension for kernels under test: ours, with a session that is written down.

``%load_ext scripted_agent``; the first word of a request names the script of its turn.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from fake_session import FakeSession, Segment, asks

from parsimony_agent.extension import install, uninstall
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.events import AgentEvent, RunCompleted, TextDelta
from parsimony_kernel.session.turn_values import TurnOptions

DONE = RunCompleted(summary="Finished as asked.")


def script(word: str) -> list[Segment]:
    """The segments of a turn whose request begins with ``word``."""
    match word:
        case "ask":
            return [[asks("Which one?", "alpha", "beta")], [TextDelta(content="Taken. "), DONE]]
        case "twice":
            return [[asks("Which one?", "alpha", "beta")], [asks("And then?", "gamma")], [DONE]]
        case "wait":
            return [[TextDelta(content="Waiting. "), asyncio.Event(), DONE]]
        case _:
            return [[TextDelta(content="Working. "), DONE]]


class WordSession(FakeSession):
    """Takes its segments from the request."""

    def turn(
        self,
        request: str,
        *,
        cell_key: str,
        options: TurnOptions | None = None,
        stop: CancellationRequest | None = None,
    ) -> AsyncIterator[AgentEvent]:
        self._segments = script(request.split()[0])
        return super().turn(request, cell_key=cell_key, options=options, stop=stop)


def load_ipython_extension(shell: Any) -> None:
    session = WordSession()
    shell.user_ns["agent_session"] = session
    install(shell, session_factory=lambda _: session)


def unload_ipython_extension(shell: Any) -> None:
    uninstall(shell)
