"""A trace says how an execution went, and nothing of what was said in it."""

from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from parsimony_kernel.core.events import (
    AgentError,
    AgentEvent,
    Handoff,
    LLMCallCompleted,
    PartialRunSummary,
    RunCancelled,
    RunCompleted,
    RunStarted,
    TextDelta,
    ToolEvent,
)
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.metrics.otel import Timed, export, observer, span_of
from parsimony_kernel.testing.clock import START, ManualClock

SECOND = 1_000_000_000
SECRET = "a secret of the notebook"

BEGUN = RunStarted(run_id="r1", request=SECRET, model="m")
ANSWER = LLMCallCompleted(
    model="m",
    prompt_tokens=90,
    completion_tokens=10,
    cost_usd=0.5,
    duration_s=2,
    finish_reason="tool_calls",
)
CALL = ToolEvent(tool_name="code", tool_call_id="c1", arguments={"code": SECRET})
RAN = CALL.model_copy(
    update={"completed": True, "ok": True, "result": {"result": SECRET}, "duration_s": 3.0}
)
REFUSED = RAN.model_copy(
    update={"ok": False, "result": {"error": "unknown_action", "message": SECRET}}
)
RETRY = AgentError(
    message=SECRET,
    failure=Failure(FailureKind.tool_error, SECRET, metadata={"type": "schema_mismatch"}),
    action="retry",
    attempt=1,
    recoverable=True,
    delay_s=1.5,
    fallback="n",
)
DONE = RunCompleted(summary=SECRET)
WHOLE: list[Timed] = [
    (100.0, BEGUN),
    (103.0, ANSWER),
    (103.0, CALL),
    (106.5, RAN),
    (107.0, RETRY),
    (108.0, DONE),
]


def test_an_execution_is_a_span_with_one_below_it_for_each_answer_and_each_call() -> None:
    span = span_of(WHOLE, agent="a")
    assert (span.name, span.start_ns, span.end_ns) == (
        "invoke_agent a",
        100 * SECOND,
        108 * SECOND,
    )
    assert span.error is None
    assert dict(span.attributes) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "a",
        "gen_ai.conversation.id": "r1",
        "gen_ai.request.model": "m",
        "parsimony.outcome": "completed",
        "parsimony.resumed": False,
    }
    chat, tool = span.children
    assert (chat.name, chat.start_ns, chat.end_ns) == ("chat m", 101 * SECOND, 103 * SECOND)
    assert dict(chat.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 90,
        "gen_ai.usage.output_tokens": 10,
        "gen_ai.response.finish_reasons": ("tool_calls",),
        "parsimony.cost_usd": 0.5,
    }
    assert (tool.name, tool.end_ns - tool.start_ns) == ("execute_tool code", 3 * SECOND)
    assert tool.attributes["gen_ai.tool.call.id"] == "c1"


def test_a_failure_is_a_moment_of_the_execution_with_what_was_done_about_it() -> None:
    (moment,) = span_of(WHOLE).moments
    assert (moment.name, moment.at_ns) == ("failure", 107 * SECOND)
    assert dict(moment.attributes) == {
        "parsimony.attempt": 1,
        "parsimony.recoverable": True,
        "parsimony.delay_s": 1.5,
        "parsimony.failure.kind": "tool_error",
        "parsimony.failure.type": "schema_mismatch",
        "parsimony.action": "retry",
        "parsimony.fallback": "n",
    }


def test_nothing_that_was_said_or_computed_is_in_a_trace() -> None:
    timed = [*WHOLE[:-1], (107.5, REFUSED), (107.6, TextDelta(content=SECRET)), WHOLE[-1]]
    assert SECRET not in repr(span_of(timed))


@pytest.mark.parametrize(
    ("result", "error"),
    [
        ({"error": "unknown_action"}, "unknown_action"),
        ({"error": "action_timeout"}, "action_timeout"),
        ({"stopped": True}, "cancelled"),
        (None, "error"),
    ],
)
def test_a_call_that_failed_says_by_which_name(result: dict[str, Any] | None, error: str) -> None:
    ended = RAN.model_copy(update={"ok": False, "result": result})
    (tool,) = span_of([(0.0, BEGUN), (1.0, ended), (2.0, DONE)]).children
    assert (tool.error, tool.attributes["error.type"]) == (error, error)


@pytest.mark.parametrize(
    ("end", "outcome", "error"),
    [
        (DONE, "completed", None),
        (Handoff(rationale=SECRET), "handed_off", None),
        (
            Handoff(rationale=SECRET, failure=Failure(FailureKind.capability_gap, SECRET)),
            "handed_off",
            "capability_gap",
        ),
        (PartialRunSummary(missing=SECRET), "stopped", "stopped"),
        (RunCancelled(), "cancelled", None),
        (CALL, "open", "the events end before the execution does"),
    ],
)
def test_a_trace_tells_how_the_execution_ended(
    end: AgentEvent, outcome: str, error: str | None
) -> None:
    span = span_of([(0.0, BEGUN), (1.0, end)])
    assert (span.attributes["parsimony.outcome"], span.error) == (outcome, error)


def test_when_the_clock_is_set_back_no_span_ends_before_it_starts() -> None:
    span = span_of([(100.0, BEGUN), (40.0, ANSWER), (30.0, RAN), (20.0, DONE)])
    for each in (span, *span.children):
        assert span.start_ns <= each.start_ns <= each.end_ns <= span.end_ns


def test_an_agent_that_is_used_as_a_library_has_traces_though_its_run_has_no_first_event() -> None:
    span = span_of([(1.0, ANSWER), (3.0, DONE)])
    assert (span.start_ns, span.end_ns) == (SECOND, 3 * SECOND)
    assert "gen_ai.conversation.id" not in span.attributes


def test_without_events_there_is_no_execution() -> None:
    with pytest.raises(ValueError, match="none were given"):
        span_of([])


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> TracerProvider:
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    return made


def by_name(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in exporter.get_finished_spans()}


def test_a_span_is_exported_with_its_times_its_place_and_its_state(
    exporter: InMemorySpanExporter, provider: TracerProvider
) -> None:
    timed = [*WHOLE[:3], (106.5, REFUSED), *WHOLE[4:]]
    export(span_of(timed, agent="a"), provider.get_tracer("test"))
    spans = by_name(exporter)
    root, chat, tool = (spans[n] for n in ("invoke_agent a", "chat m", "execute_tool code"))
    assert root.parent is None
    assert root.context is not None
    for child in (chat, tool):
        assert child.parent is not None
        assert child.parent.span_id == root.context.span_id
    assert (root.start_time, root.end_time) == (100 * SECOND, 108 * SECOND)
    assert (chat.kind, tool.kind) == (SpanKind.CLIENT, SpanKind.INTERNAL)
    assert (root.status.status_code, tool.status.status_code) == (
        StatusCode.UNSET,
        StatusCode.ERROR,
    )
    assert tool.status.description == "unknown_action"
    assert [(event.name, event.timestamp) for event in root.events] == [("failure", 107 * SECOND)]
    assert dict(chat.attributes or {})["gen_ai.usage.input_tokens"] == 90


def test_an_observer_hands_over_a_trace_when_an_execution_ends_and_not_before(
    exporter: InMemorySpanExporter, provider: TracerProvider
) -> None:
    clock = ManualClock()
    observe = observer(provider.get_tracer("test"), agent="a", clock=clock)
    for event in (BEGUN, ANSWER, TextDelta(content="x"), RAN):
        clock.advance(2)
        observe(event)
    assert exporter.get_finished_spans() == ()
    clock.advance(2)
    observe(DONE)
    root = by_name(exporter)["invoke_agent a"]
    start = round(START.timestamp()) * SECOND
    assert (root.start_time, root.end_time) == (start + 2 * SECOND, start + 10 * SECOND)
    observe(BEGUN.model_copy(update={"reply": "go on"}))
    observe(DONE)
    assert [span.name for span in exporter.get_finished_spans()].count("invoke_agent a") == 2
