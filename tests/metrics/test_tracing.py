"""Turns are traced in OpenTelemetry's names where that is configured, and nothing of it can break a
turn."""

import subprocess
import sys
import threading
from datetime import datetime, timedelta
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import error_attributes
from opentelemetry.trace import SpanKind, StatusCode

from parsimony_kernel.core import events as ev
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.llm.providers import provider_of
from parsimony_kernel.metrics import tracing
from parsimony_kernel.metrics.tracing import Observer
from parsimony_kernel.testing.manual_clock import START, ManualClock

SECRET = "a secret of the notebook"
MODEL = "gemini/gemini-pro"
BEGUN = ev.RunStarted(run_id="r1", request=SECRET, model=MODEL)
ANSWER = ev.LLMCallCompleted(
    model=MODEL,
    prompt_tokens=90,
    completion_tokens=10,
    cached_tokens=60,
    cost_usd=0.5,
    duration_s=2,
    finish_reason="tool_calls",
)
RAN = ev.ToolEvent(
    tool_name="code",
    tool_call_id="c1",
    arguments={"code": SECRET},
    completed=True,
    ok=True,
    result={"result": SECRET},
    duration_s=3.0,
)
REFUSED = RAN.model_copy(
    update={"ok": False, "result": {"error": "unknown_action", "message": SECRET}}
)
RETRY = ev.AgentError(
    message=SECRET,
    failure=Failure(FailureKind.tool_error, SECRET, metadata={"type": "schema_mismatch"}),
    action="retry",
    attempt=1,
    recoverable=True,
    fallback="n",
)
DONE = ev.RunCompleted(summary=SECRET)
ROOT = "invoke_agent parsimony-agent"


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


def provider_with(exporter: SpanExporter) -> TracerProvider:
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    return made


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch, exporter: InMemorySpanExporter) -> TracerProvider:
    """A provider that the person has set; the API lets that happen once in a process."""
    made = provider_with(exporter)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", made)
    return made


def observer(clock: ManualClock | None = None) -> Observer:
    found = tracing.observer(clock or ManualClock(), provider_of)
    assert found is not None
    return found


def a_turn() -> None:
    who = observer()
    who.observe(BEGUN)
    who.observe(DONE)


def spans_of(*events: ev.AgentEvent, clock: ManualClock | None = None) -> dict[str, ReadableSpan]:
    """The spans of an execution whose events are two seconds apart, by name."""
    exporter, clock = InMemorySpanExporter(), clock or ManualClock()
    who = observer(clock)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(trace, "_TRACER_PROVIDER", provider_with(exporter))
        for event in events:
            clock.advance(2)
            who.observe(event)
    return {span.name: span for span in exporter.get_finished_spans()}


def seconds(span: ReadableSpan) -> tuple[float, float]:
    """When it started and ended, from the clock's start."""
    assert span.start_time is not None
    assert span.end_time is not None
    return span.start_time / 1e9 - START.timestamp(), span.end_time / 1e9 - START.timestamp()


def test_execution_span_has_child_per_answer_and_call() -> None:
    spans = spans_of(BEGUN, ANSWER, ev.TextDelta(content=SECRET), RAN, RETRY, DONE)
    root, chat, code = (spans[name] for name in (ROOT, f"chat {MODEL}", "execute_tool code"))
    assert [seconds(span) for span in (root, chat, code)] == [(2, 12), (2, 4), (5, 8)]
    assert [span.kind for span in (root, chat, code)] == [
        *(SpanKind.INTERNAL, SpanKind.CLIENT, SpanKind.INTERNAL)
    ]
    for child in (chat, code):
        assert child.parent is not None
        assert root.context is not None
        assert child.parent.span_id == root.context.span_id
    assert dict(root.attributes or {}) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "parsimony-agent",
        "gen_ai.conversation.id": "r1",
        "gen_ai.provider.name": "gemini",
        "gen_ai.request.model": MODEL,
        "gen_ai.usage.input_tokens": 90,
        "gen_ai.usage.output_tokens": 10,
        "parsimony.outcome": "completed",
    }
    assert dict(chat.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "gemini",
        "gen_ai.request.model": MODEL,
        "gen_ai.usage.input_tokens": 90,
        "gen_ai.usage.output_tokens": 10,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.usage.cache_creation.input_tokens": 0,
        "gen_ai.response.finish_reasons": ("tool_calls",),
    }
    assert dict(code.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "code",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
    }


def test_trace_uses_conventions_and_contains_no_text() -> None:
    known = {
        value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")
    } | {error_attributes.ERROR_TYPE}
    written = ANSWER.model_copy(update={"cache_write_tokens": 5})
    for span in spans_of(
        BEGUN, written, REFUSED, RETRY, ev.PartialRunSummary(missing=SECRET)
    ).values():
        names = set(span.attributes or {})
        assert {name for name in names if not name.startswith("parsimony.")} <= known
        assert SECRET not in span.to_json()


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("claude-sonnet", "anthropic"),
        ("azure/deployed", "azure"),
        ("ollama_chat/qwen", "ollama_chat"),
        ("offline", "offline"),
    ],
)
def test_provider_has_name_of_litellm(model: str, provider: str) -> None:
    spans = spans_of(BEGUN, ANSWER.model_copy(update={"model": model}), DONE)
    assert (spans[f"chat {model}"].attributes or {})["gen_ai.provider.name"] == provider


@pytest.mark.parametrize(
    ("result", "error"),
    [
        ({"error": "unknown_action"}, "unknown_action"),
        ({"error": "action_timeout"}, "action_timeout"),
        ({"stopped": True}, "cancelled"),
        (None, "error"),
    ],
)
def test_failed_call_names_its_error(result: dict[str, Any] | None, error: str) -> None:
    span = spans_of(BEGUN, RAN.model_copy(update={"ok": False, "result": result}), DONE)[
        "execute_tool code"
    ]
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, error)
    assert (span.attributes or {})["error.type"] == error


@pytest.mark.parametrize(
    ("end", "outcome", "error"),
    [
        (DONE, "completed", None),
        (ev.Handoff(rationale=SECRET), "handed_off", None),
        (
            ev.Handoff(rationale=SECRET, failure=Failure(FailureKind.capability_gap, SECRET)),
            "handed_off",
            "capability_gap",
        ),
        (ev.PartialRunSummary(missing=SECRET), "stopped", "stopped"),
        (ev.RunCancelled(), "cancelled", None),
    ],
)
def test_trace_tells_how_execution_ended(
    end: ev.AgentEvent, outcome: str, error: str | None
) -> None:
    root = spans_of(BEGUN, end)[ROOT]
    assert (root.attributes or {})["parsimony.outcome"] == outcome
    assert root.status.description == error


class SetBack(ManualClock):
    """A clock that somebody sets back by ten seconds whenever it is read."""

    reads = 0

    def now(self) -> datetime:
        self.reads += 1
        return START - timedelta(seconds=10 * (self.reads - 1))


def test_no_span_ends_before_it_starts() -> None:
    for span in spans_of(BEGUN, ANSWER, RAN, DONE, clock=SetBack()).values():
        begun, ended = seconds(span)
        assert 0 <= begun <= ended


def test_run_of_a_bare_agent_is_traced() -> None:
    assert list(spans_of(ANSWER, DONE)) == [f"chat {MODEL}", ROOT]


def test_turn_inside_users_span_is_its_child(
    in_process: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    with in_process.get_tracer("theirs").start_as_current_span("analysis"):
        a_turn()
    turn, theirs = exporter.get_finished_spans()
    assert turn.parent is not None
    assert theirs.context is not None
    assert turn.parent.span_id == theirs.context.span_id


# -- where it is configured


def test_unconfigured_tracing_is_not_imported() -> None:
    program = (
        "import sys\n"
        "from parsimony_kernel.core.clock import SYSTEM_CLOCK\n"
        "from parsimony_kernel.metrics.tracing import observer\n"
        "assert observer(SYSTEM_CLOCK, str) is None\n"
        "print('opentelemetry' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "False\n"


def test_later_provider_is_used_from_then_on(
    monkeypatch: pytest.MonkeyPatch, exporter: InMemorySpanExporter
) -> None:
    a_turn()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider_with(exporter))
    a_turn()
    assert len(exporter.get_finished_spans()) == 1


# -- what other people's code may do


class Raising(SpanProcessor):
    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("full")


class Refusing(SpanExporter):
    def export(self, spans: Any) -> SpanExportResult:
        raise ConnectionError("gone")


class Hanging(SpanExporter):
    """Hangs until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.exported = threading.Event()

    def export(self, spans: Any) -> SpanExportResult:
        self.let_go.wait()
        self.exported.set()
        return SpanExportResult.SUCCESS


@pytest.mark.parametrize(
    ("broken", "said"),
    [("processor", "RuntimeError('full')"), ("exporter", "gone"), ("provider", "AttributeError")],
)
def test_others_errors_break_no_turn(
    broken: str, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    provider: Any = object() if broken == "provider" else provider_with(Refusing())
    if broken == "processor":
        provider = TracerProvider()
        provider.add_span_processor(Raising())
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    a_turn()
    assert said in caplog.text


def test_hanging_exporter_does_not_hold_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = Hanging()
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider_with(hanging))
    a_turn()
    assert not hanging.exported.is_set()
    hanging.let_go.set()
    assert hanging.exported.wait(timeout=60)
