"""What a run reads of an agent, and what it gives to one that leaves things out."""

from types import SimpleNamespace

import pytest

from parsimony_kernel.agent.hooks import RunContext
from parsimony_kernel.agent.loop import run_loop
from parsimony_kernel.core.clock import SYSTEM_CLOCK
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.policy import DefaultPolicy
from parsimony_kernel.core.state import RunState


async def test_agent_without_model_is_refused_before_running() -> None:
    state = RunState()
    with pytest.raises(TypeError, match="model_config"):
        await anext(run_loop(SimpleNamespace(), state))
    assert (state.started_at, state.done) == ("", False)


def test_agent_with_model_alone_gets_defaults() -> None:
    context = RunContext.of(SimpleNamespace(model_config="offline"))
    assert context.guardrails == AgentGuardrails()
    assert isinstance(context.policy, DefaultPolicy)
    assert (context.clock, tuple(context.tools)) == (SYSTEM_CLOCK, ())
    assert RunContext.of(context) is context


def test_run_reads_settings_once_and_keys_when_needed() -> None:
    agent = SimpleNamespace(
        model_config="offline", guardrails=AgentGuardrails(max_iterations=2), suspension_secret="a"
    )
    context = RunContext.of(agent)
    agent.guardrails, agent.suspension_secret = AgentGuardrails(max_iterations=9), "b"
    assert context.guardrails.max_iterations == 2
    assert context.signing_key() == ("b", "")
    assert context.signing_key("older") == ("b", "")
