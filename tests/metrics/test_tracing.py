"""Turns are traced where the person configured it, and nothing about it can break a turn."""

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.events import AgentEvent, RunCompleted, RunStarted
from parsimony_kernel.metrics import tracing
from parsimony_kernel.metrics.tracing import Observer, exporters_in, observer
from parsimony_kernel.testing.clock import ManualClock
from parsimony_kernel.testing.scripted import ScriptedModel, call
from parsimony_kernel.tools import Tools, tool

BEGUN = RunStarted(run_id="r1", request="go", model="m")
DONE = RunCompleted(summary="done")
ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """What is kept for a process is not kept from test to test."""
    yield
    tracing._configured.cache_clear()
    tracing._warn.cache_clear()


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


def provider_of(exporter: SpanExporter) -> TracerProvider:
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    return made


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch, exporter: InMemorySpanExporter) -> TracerProvider:
    """A provider that the person has set; the API lets that happen once in a process."""
    made = provider_of(exporter)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", made)
    return made


def a_turn(who: Observer | None) -> None:
    assert who is not None
    who.observe(BEGUN)
    who.observe(DONE)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, ()),
        ({"OTEL_SERVICE_NAME": "lab", "OTEL_RESOURCE_ATTRIBUTES": "a=b"}, ()),
        ({"OTEL_TRACES_EXPORTER": "console"}, ("console",)),
        ({"OTEL_TRACES_EXPORTER": " otlp , console,"}, ("otlp", "console")),
        ({"OTEL_TRACES_EXPORTER": "none"}, ()),
        ({"OTEL_TRACES_EXPORTER": "none", **ENDPOINT}, ()),
        ({"OTEL_TRACES_EXPORTER": " "}, ()),
        (ENDPOINT, ("otlp",)),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318"}, ("otlp",)),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, ()),
        ({"OTEL_SDK_DISABLED": "True", **ENDPOINT}, ()),
        ({"OTEL_SDK_DISABLED": "false", **ENDPOINT}, ("otlp",)),
    ],
)
def test_the_environment_asks_for_exporters_as_opentelemetry_says(
    environ: Mapping[str, str], expected: tuple[str, ...]
) -> None:
    assert exporters_in(environ) == expected


def test_what_is_not_configured_is_off_and_not_even_imported() -> None:
    program = (
        "import sys\n"
        "from parsimony_kernel.metrics.tracing import observer\n"
        "assert observer({'OTEL_SERVICE_NAME': 'lab'}) is None\n"
        "print('opentelemetry' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "False\n"


def test_a_process_without_a_provider_and_an_environment_that_asks_for_none_is_off() -> None:
    assert observer({}) is None


@tool
async def look(at: str) -> str:
    """Look."""
    return at


async def test_a_real_turn_is_one_trace_in_the_provider_of_the_process(
    in_process: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    who = observer({}, agent="a.ipynb")
    assert who is not None
    agent = Agent(
        ScriptedModel(
            [call("lok", at="x"), call("look", at="x"), call("return_done", summary="ok")]
        ),
        tools=Tools([look]) + termination_tools(),
        suspension_secret="s",
        clock=ManualClock(),
    )
    seen: list[AgentEvent] = []
    async for event in agent.run("go"):
        who.observe(event)
        seen.append(event)
    assert isinstance(seen[-1], RunCompleted)
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == [
        "chat scripted",
        "execute_tool lok",
        "chat scripted",
        "execute_tool look",
        "chat scripted",
        "execute_tool return_done",
        "invoke_agent a.ipynb",
    ]
    assert len({span.context.trace_id for span in spans if span.context}) == 1


def test_a_turn_inside_a_span_of_the_person_s_belongs_to_it(
    in_process: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    with in_process.get_tracer("theirs").start_as_current_span("analysis"):
        a_turn(observer({}))
    turn, theirs = exporter.get_finished_spans()
    assert turn.parent is not None
    assert theirs.context is not None
    assert turn.parent.span_id == theirs.context.span_id


def said_by_a_process(monkeypatch: pytest.MonkeyPatch, **environ: str) -> str:
    """What a fresh process writes that is asked for an observer twice."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    program = (
        "import os\n"
        "from parsimony_kernel.metrics.tracing import observer\n"
        "assert [observer(os.environ) for _ in range(2)] == [None, None]\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout + ran.stderr


def test_a_tracer_provider_that_is_not_there_is_named_and_nothing_else_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = said_by_a_process(
        monkeypatch, OTEL_PYTHON_TRACER_PROVIDER="banana", OTEL_PYTHON_CONTEXT="banana"
    )
    assert said == (
        "Turns are not traced: there is no tracer provider 'banana'; install what has it, or "
        "leave OTEL_PYTHON_TRACER_PROVIDER out.\n"
    )


def test_the_console_is_refused_once_since_it_would_write_into_the_cells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = said_by_a_process(
        monkeypatch, OTEL_TRACES_EXPORTER="console", OTEL_PYTHON_CONTEXT="banana"
    )
    assert said == (
        "Turns are not traced to 'console', which would write into the cells of the notebook; "
        "name another exporter, such as 'otlp'.\n"
    )


def test_a_provider_of_the_person_s_goes_before_the_name_of_one_that_is_not_there(
    in_process: TracerProvider, exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_PYTHON_TRACER_PROVIDER", "banana")
    a_turn(observer({"OTEL_PYTHON_TRACER_PROVIDER": "banana"}))
    assert len(exporter.get_finished_spans()) == 1


def test_opentelemetry_may_speak_again_once_it_is_imported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    observer({"OTEL_PYTHON_TRACER_PROVIDER": "banana", **ENDPOINT})
    logging.getLogger("opentelemetry.context").warning("of the person's own")
    assert "of the person's own" in caplog.text


def test_a_provider_that_is_set_later_is_used_from_then_on(
    monkeypatch: pytest.MonkeyPatch, exporter: InMemorySpanExporter
) -> None:
    assert observer({}) is None
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider_of(exporter))
    a_turn(observer({}))
    assert len(exporter.get_finished_spans()) == 1


def test_disabled_is_off_whatever_the_process_has_set(in_process: TracerProvider) -> None:
    assert observer({"OTEL_SDK_DISABLED": "true"}) is None


_EXPORTER = """
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
MADE = []
class Exporter(InMemorySpanExporter):
    def __init__(self):
        super().__init__()
        MADE.append(self)
class Broken(Exporter):
    def __init__(self):
        raise OSError("no such collector")
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A package with exporters, as ``pip`` leaves it: a module, and entry points beside it."""
    (tmp_path / "their_exporters.py").write_text(_EXPORTER)
    about = tmp_path / "their_exporters-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: their-exporters\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[opentelemetry_traces_exporter]\n"
        "theirs = their_exporters:Exporter\n"
        "otlp_proto_grpc = their_exporters:Exporter\n"
        "broken = their_exporters:Broken\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import their_exporters  # type: ignore[import-not-found]

    yield their_exporters
    del sys.modules["their_exporters"]


def sent(who: Observer | None, environ: Mapping[str, str]) -> None:
    a_turn(who)
    provider = tracing._provider(environ)
    assert isinstance(provider, TracerProvider)
    assert provider.force_flush()


@pytest.mark.parametrize(
    "environ",
    [
        {"OTEL_TRACES_EXPORTER": "theirs"},
        ENDPOINT,
        {**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
        {"OTEL_TRACES_EXPORTER": "broken,theirs"},
    ],
)
def test_an_exporter_that_the_environment_names_gets_the_traces_of_every_turn(
    installed: Any, environ: Mapping[str, str]
) -> None:
    for _ in range(2):
        sent(observer(environ), environ)
    (made,) = installed.MADE
    assert [span.name for span in made.get_finished_spans()] == ["invoke_agent agent"] * 2
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"OTEL_TRACES_EXPORTER": "nowhere"}, "not traced to 'nowhere': install its exporter"),
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "not traced to 'otlp'"),
        ({"OTEL_TRACES_EXPORTER": "broken"}, "not traced to 'broken': OSError: no such collector"),
    ],
)
def test_an_exporter_that_cannot_be_had_is_said_once_and_turns_go_on_untraced(
    installed: Any,
    environ: Mapping[str, str],
    sentence: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert [observer(environ) for _ in range(3)] == [None] * 3
    assert [sentence in record.getMessage() for record in caplog.records] == [True]


def test_without_the_package_the_extra_is_named_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert [observer(ENDPOINT) for _ in range(2)] == [None, None]
    assert ["parsimony-kernel[otel]" in record.getMessage() for record in caplog.records] == [True]


class Raising(SpanProcessor):
    def on_end(self, span: ReadableSpan) -> None:
        raise RuntimeError("full")


class Refusing(SpanExporter):
    def export(self, spans: Any) -> SpanExportResult:
        raise ConnectionError("gone")


def test_a_processor_that_raises_is_said_once_and_breaks_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    provider = TracerProvider()
    provider.add_span_processor(Raising())
    who = Observer(provider.get_tracer("test"))
    a_turn(who)
    a_turn(who)
    said = [record.getMessage() for record in caplog.records]
    assert said == ["A trace was lost: RuntimeError: full"]


def test_an_exporter_that_raises_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    a_turn(Observer(provider_of(Refusing()).get_tracer("test")))
    assert "gone" in caplog.text


def test_a_provider_that_raises_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", object())
    assert observer({}) is None


class Hanging(SpanExporter):
    """Hangs until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.exported = threading.Event()

    def export(self, spans: Any) -> SpanExportResult:
        self.let_go.wait()
        self.exported.set()
        return SpanExportResult.SUCCESS


def test_an_exporter_that_hangs_does_not_hold_the_turn() -> None:
    hanging = Hanging()
    a_turn(Observer(provider_of(hanging).get_tracer("test")))
    assert not hanging.exported.is_set()
    hanging.let_go.set()
    assert hanging.exported.wait(timeout=60)
