"""What detectors find, beyond the sentences of document 000, and what a failure says."""

from types import SimpleNamespace

from parsimony_kernel.agent.failure import (
    Failure,
    FailureKind,
    accumulate_usage,
    post_llm,
    post_tool,
)
from parsimony_kernel.core.chat import FunctionCall, ToolCall, Usage, answer
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.kinds import Effect
from parsimony_kernel.core.refusals import RefusalError
from parsimony_kernel.core.state import RunState
from parsimony_kernel.core.taxonomy import FailureType
from parsimony_kernel.tools import ToolResult


def fresh(**fields: object) -> RunState:
    return RunState.model_validate({"started_monotonic_s": 0.0, **fields})


def call(name: str = "run_code", arguments: str = "{}") -> ToolCall:
    return ToolCall("c1", FunctionCall(name, arguments))


def test_repeats_within_one_answer_count() -> None:
    limits = AgentGuardrails(loop_hard_threshold=3)
    response = answer(calls=[call(), call(), call()])
    found = post_llm(response=response, state=fresh(), guardrails=limits)
    assert found is not None
    assert found.metadata["repeat_count"] == 3


def test_tool_failure_keeps_kind_and_gains_tool_name() -> None:
    inner = Failure(FailureKind.capability_gap, "no", ("b",))
    found = post_tool(ToolResult.from_failure(inner), call("fetch"), fresh())
    assert found == inner
    assert found is not None
    assert found.metadata["tool_name"] == "fetch"


def test_usage_is_summed_and_absurd_counts_ignored() -> None:
    state = fresh()
    ours = answer("x", usage=Usage(10, 5), cost_usd=0.5)
    assert accumulate_usage(state, ours) == (10, 5, 0.5)
    absurd = SimpleNamespace(
        usage=SimpleNamespace(prompt_tokens=float("nan"), completion_tokens=-3), cost_usd=None
    )
    assert accumulate_usage(state, absurd) == (0, 0, 0.0)
    assert accumulate_usage(state, SimpleNamespace(usage=None, cost_usd=float("inf"))) == (0, 0, 0)
    assert (state.cumulative_prompt_tokens, state.cumulative_cost_usd) == (10, 0.5)


def test_derived_answers_default_and_read_metadata() -> None:
    plain = Failure(FailureKind.tool_error, "x")
    assert (plain.type, plain.refusal, plain.effect) == (FailureType.UNKNOWN, None, Effect.none)
    known = Failure(
        FailureKind.tool_error,
        "x",
        metadata={"type": "timeout", "refusal": "action_timeout", "effect": "uncertain"},
    )
    assert (known.type, known.refusal, known.effect) == (
        FailureType.TIMEOUT,
        RefusalError.action_timeout,
        Effect.uncertain,
    )
