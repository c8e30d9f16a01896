"""Runs of the loop over an agent that is nothing but what the loop reads."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from parsimony_kernel.agent.failure import DefaultPolicy
from parsimony_kernel.agent.hooks import RunHooks
from parsimony_kernel.agent.loop import run_loop
from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.events import AgentError, AgentEvent
from parsimony_kernel.core.state import RunState
from parsimony_kernel.limits.breaker import Breakers
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.testing.scripted import ScriptedModel, Step, call
from parsimony_kernel.tools import Tools
from tests.session.session_steps import gather as gather

DONE = call("return_done", summary="ok")
DOWN = ConnectionError("reset")


class Answered(Exception):
    """What a client raises for an answer with this status."""

    def __init__(self, status_code: int) -> None:
        super().__init__("no")
        self.status_code = status_code


def bare(
    *steps: Step, model: Any = None, tools: Sequence[Any] = (), policy: Any = None, **limits: Any
) -> SimpleNamespace:
    """An agent whose model is ``model``, or plays ``steps``, on a clock of its own."""
    clock = ManualClock()
    return SimpleNamespace(
        model_config=model or ScriptedModel(steps),
        policy=policy or DefaultPolicy(),
        guardrails=AgentGuardrails(**limits),
        instructions="Be brief.",
        suspension_secret="s",
        tools=Tools(tools) + termination_tools(),
        clock=clock,
        hooks=RunHooks(Breakers(clock)),
    )


def begun() -> RunState:
    """A run that has its request and nothing else."""
    messages = [{"role": "user", "content": "go"}]
    return RunState(run_id="r", session_id="s", messages=messages, started_monotonic_s=0.0)


async def run(
    who: SimpleNamespace,
    *,
    state: RunState | None = None,
    cancellation: CancellationRequest | None = None,
) -> list[AgentEvent]:
    """The events of a run of ``who`` from its beginning to its end."""
    return await gather(run_loop(who, state or begun(), cancellation=cancellation))


def actions(events: Sequence[AgentEvent]) -> list[str | None]:
    """What was done about each failure that did not end the run."""
    return [event.action for event in events if isinstance(event, AgentError)]


def errors(events: Sequence[AgentEvent]) -> list[tuple[str, str | None, int]]:
    """Kind, action and attempt of each failure that did not end the run."""
    return [
        (str(event.failure.kind) if event.failure else "", event.action, event.attempt)
        for event in events
        if isinstance(event, AgentError)
    ]
