"""What real runs of the loop come to in figures and in metrics."""

from typing import Any

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.agent.hooks import RunHooks
from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.events import AgentEvent
from parsimony_kernel.limits.breaker import Breakers
from parsimony_kernel.metrics import prometheus
from parsimony_kernel.metrics.figures import Execution, executions, fired, of_runs
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.testing.scripted import ScriptedModel, call
from parsimony_kernel.tools import Tools, tool

DONE = call("return_done", summary="ok")
DOWN = ConnectionError("reset")


@tool
async def look(at: str) -> str:
    """Look."""
    return at


def agent(*models: ScriptedModel, breakers: Breakers | None = None, **limits: Any) -> Agent:
    clock = ManualClock()
    return Agent(
        list(models),
        tools=Tools([look]) + termination_tools(),
        guardrails=AgentGuardrails(**limits),
        suspension_secret="s",
        hooks=RunHooks(breakers or Breakers(clock)),
        clock=clock,
    )


async def events_of(who: Agent) -> tuple[AgentEvent, ...]:
    return (await who.ask("go")).events


def only(events: tuple[AgentEvent, ...]) -> Execution:
    (execution,) = executions(events)
    return execution


async def test_corrected_refusal_is_a_safe_recovery() -> None:
    steps = [call("lok", at="x"), call("look", at="x"), DONE]
    run = await events_of(agent(ScriptedModel(steps)))
    execution = only(run)
    assert (execution.steps, execution.validated) == (3, 3)
    assert execution.rejections == {"unknown_action": 1}
    assert execution.interventions == {"refusal": 1}
    figures = of_runs([run])
    assert (figures.recovery_rate, figures.rejection_rate) == (1, 1 / 3)
    metrics = prometheus.of_runs([run])
    assert metrics.recovery_rate == figures.recovery_rate
    assert metrics.validation_rejection_rate == figures.rejection_rate


async def test_fallback_model_and_open_breaker_are_counted() -> None:
    breakers = Breakers(ManualClock())
    first = ScriptedModel([DOWN] * 5, "first")
    runs = [
        await events_of(agent(first, ScriptedModel([DONE], "second"), breakers=breakers))
        for _ in range(3)
    ]
    each = [only(run) for run in runs]
    assert [one.interventions["fallback_model"] for one in each] == [1, 1, 1]
    assert [sorted(one.open_breakers) for one in each][-1] == ["first"]
    assert [list(one.tokens) for one in each] == [["second"]] * 3
    assert [alert.name for alert in fired(of_runs(runs))] == ["fallback rate", "breaker open"]
