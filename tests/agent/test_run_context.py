"""What a run reads of an agent, and what it says of one that it cannot use."""

from types import SimpleNamespace
from typing import Any

import pytest

from parsimony_kernel.agent.hooks import RunContext
from parsimony_kernel.agent.loop import run_loop
from parsimony_kernel.core.clock import SYSTEM_CLOCK
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.policy import DefaultPolicy
from parsimony_kernel.core.state import RunState


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("model_config", None, "needs a model_config, such as 'openai/gpt-5'"),
        ("guardrails", {"max_tokens": 9}, "must be AgentGuardrails, not {'max_tokens': 9}"),
        ("policy", "strict", "policy of an agent must be an object with decide(), not 'strict'"),
        ("tools", [len], "made with tool(), and <built-in function len> is not"),
        ("instructions", 3, "must be str, not 3"),
        ("hooks", 3, "must be RunHooks, not 3"),
        ("pinned_constraints", "never", "must be list | tuple, not 'never'"),
        ("signing_key", "s3cret", "must be an object with __call__(), not str"),
    ],
)
async def test_agent_with_unusable_part_is_refused_before_anything_runs(
    name: str, value: Any, words: str
) -> None:
    state = RunState()
    with pytest.raises(TypeError) as raised:
        await anext(run_loop(SimpleNamespace(**{"model_config": "offline", name: value}), state))
    assert words in str(raised.value)
    assert (state.started_at, state.done) == ("", False)


def test_agent_with_only_a_model_gets_every_default() -> None:
    context = RunContext.of(SimpleNamespace(model_config="offline"))
    assert context.guardrails == AgentGuardrails()
    assert isinstance(context.policy, DefaultPolicy)
    assert (context.clock, tuple(context.tools)) == (SYSTEM_CLOCK, ())
    assert RunContext.of(context) is context


def test_run_keeps_what_it_read_and_asks_for_keys_when_it_needs_them() -> None:
    agent = SimpleNamespace(
        model_config="offline", guardrails=AgentGuardrails(max_iterations=2), suspension_secret="a"
    )
    context = RunContext.of(agent)
    agent.guardrails, agent.suspension_secret = AgentGuardrails(max_iterations=9), "b"
    assert context.guardrails.max_iterations == 2
    assert context.signing_key() == ("b", "")
    assert context.secret_of("older") == "b"
