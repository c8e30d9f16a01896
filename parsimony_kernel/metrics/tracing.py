"""Runs as OpenTelemetry traces, in the names of its conventions for generative AI.

One ``invoke_agent`` span for each execution, and below it a ``chat`` span for each answer of the
model and an ``execute_tool`` span for each tool call. Names, counts, durations and kinds of failure
leave the machine; requests, prompts, arguments and results don't.

A turn is traced where this process has a tracer provider, or where OpenTelemetry's own environment
variables ask for OTLP; otherwise nothing is imported. Tracing never breaks or delays a turn.
"""

import logging
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from parsimony_kernel.core import events as ev
from parsimony_kernel.core.clock import Clock
from parsimony_kernel.core.text import words_of
from parsimony_kernel.metrics.figures import executions

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

AGENT = "parsimony-agent"
# How long the end of a turn waits for an exporter that works in the caller's thread.
WAIT_S = 0.2

# LiteLLM's names of providers where the conventions use another one.
_PROVIDERS = {
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex_ai": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")

Value = str | bool | int | float | Sequence[str]
Attributes = dict[str, Value]
ProviderOf = Callable[[str], str | None]

_log = logging.getLogger(__name__)


class Observer:
    """Traces the executions of one run, one after the other.

    Args:
        tracer: where spans go when an execution has ended.
        provider_of: the provider of a model, by LiteLLM's name.
    """

    def __init__(self, tracer: "Tracer", clock: Clock, provider_of: ProviderOf) -> None:
        self._tracer = tracer
        self._clock = clock
        self._provider_of = provider_of
        self._timed: list[tuple[int, ev.AgentEvent]] = []

    def observe(self, event: ev.AgentEvent) -> None:
        """Take ``event`` as it happens; a terminal one hands the trace over. Raises nothing."""
        if isinstance(event, ev.TextDelta | ev.ReasoningDelta):
            return
        if isinstance(event, ev.RunStarted):
            self._timed = []
        self._timed.append((_ns(self._clock.now().timestamp()), event))
        if not ev.is_terminal(event):
            return
        timed, self._timed = self._timed, []
        # An exporter may hang: what it is given then is lost, and the turn goes on.
        work = threading.Thread(target=copy_context().run, args=(self._export, timed), daemon=True)
        work.start()
        work.join(WAIT_S)

    def _export(self, timed: Sequence[tuple[int, ev.AgentEvent]]) -> None:
        try:
            self._write_trace(timed)
        except Exception as exc:  # boundary: subscriber - other people's processors and exporters
            _warn(f"A trace was lost: {_described(exc)}")

    def _write_trace(self, timed: Sequence[tuple[int, ev.AgentEvent]]) -> None:
        from opentelemetry import trace

        start, first = timed[0]
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": AGENT,
        }
        if isinstance(first, ev.RunStarted):
            attributes |= self._model(first.model)
            attributes["gen_ai.conversation.id"] = first.run_id
            attributes["parsimony.resumed"] = first.reply is not None
        root = self._tracer.start_span(
            f"invoke_agent {AGENT}", attributes=attributes, start_time=start
        )
        with trace.use_span(root):
            for at, event in timed:
                # The clock may have been set back in between.
                self._write_part(root, event, start, max(start, at))
        answers = [event for _, event in timed if isinstance(event, ev.LLMCallCompleted)]
        root.set_attribute("gen_ai.usage.input_tokens", sum(a.prompt_tokens for a in answers))
        root.set_attribute("gen_ai.usage.output_tokens", sum(a.completion_tokens for a in answers))
        last = timed[-1][1]
        outcome = executions(event for _, event in timed)[-1].outcome or "open"
        root.set_attribute("parsimony.outcome", outcome)
        error = "stopped" if outcome == "stopped" else None
        if isinstance(last, ev.Handoff) and last.failure:
            error = last.failure.kind.value
        _end(root, max(at for at, _ in timed), error)

    def _write_part(self, root: "Span", event: ev.AgentEvent, start: int, at: int) -> None:
        from opentelemetry.trace import SpanKind

        match event:
            case ev.LLMCallCompleted():
                span = self._tracer.start_span(
                    f"chat {event.model}",
                    kind=SpanKind.CLIENT,
                    attributes=self._model(event.model) | _answer(event),
                    start_time=max(start, at - _ns(event.duration_s)),
                )
                _end(span, at, "error" if event.finish_reason == "error" else None)
            case ev.ToolEvent(completed=True):
                span = self._tracer.start_span(
                    f"execute_tool {event.tool_name}",
                    attributes={
                        "gen_ai.operation.name": "execute_tool",
                        "gen_ai.tool.name": event.tool_name,
                        "gen_ai.tool.call.id": event.tool_call_id,
                        "gen_ai.tool.type": event.tool_type,
                    },
                    start_time=max(start, at - _ns(event.duration_s or 0.0)),
                )
                result = event.result or {}
                error = "cancelled" if result.get("stopped") else str(result.get("error", "error"))
                _end(span, at, error if event.ok is False else None)
            case ev.AgentError():
                root.add_event("failure", _failure(event), at)

    def _model(self, name: str) -> Attributes:
        # A model without a provider, such as the built-in one, is its own.
        provider = self._provider_of(name) or name
        return {
            "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
            "gen_ai.request.model": name,
        }


def _ns(seconds: float) -> int:
    return round(seconds * 1_000_000_000)


def _end(span: "Span", at: int, error: str | None) -> None:
    from opentelemetry.trace import StatusCode

    if error is not None:
        span.set_attribute("error.type", error)
        span.set_status(StatusCode.ERROR, error)
    span.end(at)


def _answer(event: ev.LLMCallCompleted) -> Attributes:
    return _known(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.usage.input_tokens": event.prompt_tokens,
            "gen_ai.usage.output_tokens": event.completion_tokens,
            "gen_ai.usage.cache_read.input_tokens": event.cached_tokens or None,
            "gen_ai.usage.cache_creation.input_tokens": event.cache_write_tokens or None,
            "gen_ai.response.finish_reasons": event.finish_reason and (event.finish_reason,),
            "parsimony.cost_usd": event.cost_usd,
        }
    )


def _failure(event: ev.AgentError) -> Attributes:
    failure = event.failure
    return _known(
        {
            "parsimony.attempt": event.attempt,
            "parsimony.failure.kind": failure.kind.value if failure else None,
            "parsimony.failure.type": failure.type.value if failure else None,
            "parsimony.action": event.action,
            "parsimony.fallback": event.fallback,
        }
    )


def _known(found: Mapping[str, Value | None]) -> Attributes:
    return {name: value for name, value in found.items() if value is not None}


def observer(environ: Mapping[str, str], clock: Clock, provider_of: ProviderOf) -> Observer | None:
    """The observer of one turn; ``None`` where tracing isn't configured.

    The provider of this process comes first; it may be set at any time.
    """
    try:
        provider = _provider(environ)
        if provider is None:
            return None
        tracer = provider.get_tracer("parsimony_kernel")
    except Exception as exc:  # boundary: subscriber - other people's providers
        _warn(f"Turns are not traced: {_described(exc)}")
        return None
    return Observer(tracer, clock, provider_of)


def _provider(environ: Mapping[str, str]) -> "TracerProvider | None":
    if _setting(environ, "OTEL_SDK_DISABLED").lower() == "true":
        return None
    # Nobody can have set a provider without importing the API.
    if "opentelemetry.trace" in sys.modules:
        from opentelemetry import trace

        own = trace.get_tracer_provider()
        if not isinstance(own, trace.ProxyTracerProvider):
            return own
    exporter = _setting(environ, "OTEL_TRACES_EXPORTER")
    if not exporter and _setting(environ, *_ENDPOINTS):
        exporter = "otlp"
    if exporter in ("", "none"):
        return None
    protocol = _setting(environ, *_PROTOCOLS)
    wanted = exporter if exporter != "otlp" else protocol if protocol == "grpc" else ""
    if wanted:
        raise LookupError(f"set a tracer provider in this process to trace to {wanted!r}")
    return _otlp()


def _setting(environ: Mapping[str, str], *names: str) -> str:
    """The first of the variables ``names`` that isn't blank, or ``""``."""
    return next((said for name in names if (said := environ.get(name, "").strip())), "")


@cache
def _otlp() -> "TracerProvider":
    """A provider of our own, one for the process, whose global one stays free for the person."""
    try:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        package = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    except ImportError:
        raise LookupError(
            "the environment asks for it, but it needs 'parsimony-kernel[otel]'"
        ) from None
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(package.OTLPSpanExporter()))
    return provider


def _described(exc: Exception) -> str:
    return ": ".join(filter(None, (type(exc).__name__, words_of(exc))))


@cache
def _warn(sentence: str) -> None:
    """Log ``sentence``, once in this process."""
    _log.warning("%s", sentence)
