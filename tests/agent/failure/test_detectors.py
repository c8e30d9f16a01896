"""The three phases of detection."""

from types import SimpleNamespace

import pytest

from parsimony_kernel.agent.failure import (
    Failure,
    FailureKind,
    accumulate_usage,
    loop_signature,
    post_llm,
    post_tool,
    pre_step,
    record_tool_call,
)
from parsimony_kernel.core.chat import (
    Choice,
    Completion,
    FunctionCall,
    Message,
    ToolCall,
    Usage,
    answer,
)
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.state import RunState
from parsimony_kernel.tools import ToolResult

LIMITS = AgentGuardrails(max_iterations=3, max_execution_time_s=10, stall_threshold_s=5)


def fresh(**fields: object) -> RunState:
    return RunState.model_validate({"started_monotonic_s": 0.0, **fields})


def call(name: str = "run_code", arguments: str = "{}") -> ToolCall:
    return ToolCall("c1", FunctionCall(name, arguments))


def test_the_guardrails_are_the_documented_ones() -> None:
    assert AgentGuardrails().model_dump() == {
        "max_iterations": 50,
        "max_execution_time_s": 300,
        "llm_timeout_s": 60,
        "tool_timeout_s": 600,
        "stall_threshold_s": 30,
        "stream_heartbeat_s": 20,
        "loop_soft_threshold": 2,
        "loop_hard_threshold": 6,
        "max_tokens": None,
        "max_cost_usd": None,
        "ceiling_cost_usd": None,
        "claims": "mark",
    }


def test_nothing_is_wrong_at_the_start() -> None:
    assert pre_step(fresh(), LIMITS, now=1.0) is None


@pytest.mark.parametrize(
    ("iteration", "now", "last", "kind"),
    [
        (3, 99.0, 0.0, FailureKind.iteration_limit),
        (0, 10.0, 0.0, FailureKind.time_limit),
        (0, 6.0, 0.5, FailureKind.no_progress),
    ],
)
def test_before_a_step_steps_beat_time_and_time_beats_silence(
    iteration: int, now: float, last: float, kind: FailureKind
) -> None:
    found = pre_step(fresh(iteration=iteration, last_event_time_s=last), LIMITS, now=now)
    assert found is not None
    assert found.kind is kind


def test_one_iteration_allowed_fires_when_the_counter_is_one() -> None:
    one = AgentGuardrails(max_iterations=1)
    assert pre_step(fresh(), one, now=0.0) is None
    found = pre_step(fresh(iteration=1), one, now=0.0)
    assert found is not None
    assert found.metadata == {"iteration": 1, "max_iterations": 1}


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("length", FailureKind.output_truncated),
        ("content_filter", FailureKind.output_refused),
        ("refusal", FailureKind.output_refused),
    ],
)
def test_a_finish_reason_is_read(reason: str, kind: FailureKind) -> None:
    response = Completion((Choice(Message("x"), reason),))
    found = post_llm(response=response, state=fresh(), guardrails=LIMITS)
    assert found is not None
    assert (found.kind, found.metadata["finish_reason"]) == (kind, reason)


def test_a_repeat_is_found_one_call_before_the_threshold_is_passed() -> None:
    state = fresh()
    limits = AgentGuardrails(loop_hard_threshold=3)
    response = answer(calls=[call(arguments='{"code": "1"}')])
    verdicts = []
    for _ in range(3):
        found = post_llm(response=response, state=state, guardrails=limits)
        verdicts.append(found.kind if found else None)
        record_tool_call(state, "run_code", {"code": "1"})
    assert verdicts == [None, None, FailureKind.loop_detected]


def test_repeats_within_one_answer_count_too() -> None:
    limits = AgentGuardrails(loop_hard_threshold=3)
    response = answer(calls=[call(), call(), call()])
    found = post_llm(response=response, state=fresh(), guardrails=limits)
    assert found is not None
    assert found.metadata["repeat_count"] == 3


def test_a_signature_ignores_order_and_the_words_shown_to_people() -> None:
    one = loop_signature("f", {"a": 1, "b": 2, "_ui_message": "looking"})
    assert one == loop_signature("f", {"b": 2, "a": 1, "_ui_message": "once more"})
    name, _, digest = one.partition(":")
    assert (name, len(digest)) == ("f", 8)
    assert one != loop_signature("f", {"a": 2, "b": 2})


def test_arguments_that_are_no_json_are_still_counted() -> None:
    state = fresh()
    broken = answer(calls=[call(arguments="{oops")])
    assert post_llm(response=broken, state=state, guardrails=LIMITS) is None


def test_a_tool_failure_keeps_its_kind_and_gains_the_name() -> None:
    inner = Failure(FailureKind.capability_gap, "no", ("b",))
    found = post_tool(ToolResult.from_failure(inner), call("fetch"), fresh())
    assert found == inner
    assert found is not None
    assert found.metadata["tool_name"] == "fetch"


def test_an_exception_of_a_tool_is_a_tool_error() -> None:
    found = post_tool(ToolResult.from_exception(ValueError("bad")), call("fetch"), fresh())
    assert found is not None
    assert found.kind is FailureKind.tool_error
    assert "fetch failed: ValueError: bad" in found.explanation


def test_success_is_no_failure() -> None:
    assert post_tool(ToolResult.from_data(1), call(), fresh()) is None


def test_usage_adds_up_and_absurd_numbers_count_as_nothing() -> None:
    state = fresh()
    ours = answer("x", usage=Usage(10, 5), cost_usd=0.5)
    assert accumulate_usage(state, ours) == (10, 5, 0.5)
    absurd = SimpleNamespace(
        usage=SimpleNamespace(prompt_tokens=float("nan"), completion_tokens=-3), cost_usd=None
    )
    assert accumulate_usage(state, absurd) == (0, 0, 0.0)
    assert accumulate_usage(state, SimpleNamespace(usage=None, cost_usd=float("inf"))) == (0, 0, 0)
    assert (state.cumulative_prompt_tokens, state.cumulative_cost_usd) == (10, 0.5)
