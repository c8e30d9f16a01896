"""OpenTelemetry traces of runs, following its semantic conventions for generative AI.

Each execution is an ``invoke_agent`` span with a ``chat`` child span per model answer and an
``execute_tool`` child span per tool call. Names, counts, durations and kinds of failure are
exported; requests, prompts, arguments and results aren't.

A turn is traced if this process has a tracer provider; otherwise nothing is imported. Tracing never
breaks a turn, and delays its end by at most ``WAIT_S``.
"""

import logging
import sys
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from functools import cache
from typing import TYPE_CHECKING

from parsimony_kernel.core import events as ev
from parsimony_kernel.core.clock import Clock
from parsimony_kernel.core.text import words_of
from parsimony_kernel.metrics.figures import executions

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

AGENT = "parsimony-agent"
# Seconds that the end of a turn waits for a synchronous exporter.
WAIT_S = 0.2

# LiteLLM's provider names that differ from those of the conventions.
_PROVIDERS = {
    "azure": "azure.ai.openai", "azure_ai": "azure.ai.inference", "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini", "vertex_ai": "gcp.vertex_ai", "watsonx": "ibm.watsonx.ai",
    "mistral": "mistral_ai", "moonshot": "moonshot_ai", "xai": "x_ai",
}  # fmt: skip
Value = str | bool | int | float | Sequence[str]
Attributes = dict[str, Value]
ProviderOf = Callable[[str], str | None]

_log = logging.getLogger(__name__)


class Observer:
    """Traces the executions of one run.

    Args:
        tracer: receives the spans of an execution when it has ended.
        clock: the time of events.
        provider_of: maps a model to its provider, by LiteLLM's name.
    """

    def __init__(self, tracer: "Tracer", clock: Clock, provider_of: ProviderOf) -> None:
        self._tracer = tracer
        self._clock = clock
        self._provider_of = provider_of
        self._timed: list[tuple[int, ev.AgentEvent]] = []

    def observe(self, event: ev.AgentEvent) -> None:
        """Record an event as it happens; a terminal event exports the trace. Raises nothing."""
        if isinstance(event, ev.TextDelta | ev.ReasoningDelta):
            return
        if isinstance(event, ev.RunStarted):
            self._timed = []
        self._timed.append((_ns(self._clock.now().timestamp()), event))
        if not ev.is_terminal(event):
            return
        timed, self._timed = self._timed, []
        # An exporter may hang: then the trace is lost and the turn goes on.
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
        if isinstance(first, ev.RunStarted):  # samplers only see the initial attributes
            attributes |= self._model(first.model) | {"gen_ai.conversation.id": first.run_id}
        root = self._tracer.start_span(
            f"invoke_agent {AGENT}", attributes=attributes, start_time=start
        )
        with trace.use_span(root):
            for at, event in timed:
                # ``max``: the clock may have been set back in between.
                self._write_part(event, start, max(start, at))
        answers = [event for _, event in timed if isinstance(event, ev.LLMCallCompleted)]
        outcome = executions(event for _, event in timed)[-1].outcome or "open"
        root.set_attributes(
            {
                "gen_ai.usage.input_tokens": sum(each.prompt_tokens for each in answers),
                "gen_ai.usage.output_tokens": sum(each.completion_tokens for each in answers),
                "parsimony.outcome": outcome,
            }
        )
        last, error = timed[-1][1], "stopped" if outcome == "stopped" else None
        if isinstance(last, ev.Handoff) and last.failure:
            error = last.failure.kind.value
        _end(root, max(at for at, _ in timed), error)

    def _write_part(self, event: ev.AgentEvent, start: int, at: int) -> None:
        from opentelemetry.trace import SpanKind

        attributes: Attributes
        match event:
            case ev.LLMCallCompleted():
                name, kind = f"chat {event.model}", SpanKind.CLIENT
                attributes = self._model(event.model) | _answer(event)
                error = "error" if event.finish_reason == "error" else None
            case ev.ToolEvent(completed=True):
                name, kind = f"execute_tool {event.tool_name}", SpanKind.INTERNAL
                attributes = {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": event.tool_name,
                    "gen_ai.tool.call.id": event.tool_call_id,
                    "gen_ai.tool.type": event.tool_type,
                }
                result = event.result or {}
                said = "cancelled" if result.get("stopped") else str(result.get("error", "error"))
                error = said if event.ok is False else None
            case _:
                return
        begun = max(start, at - _ns(event.duration_s or 0.0))
        span = self._tracer.start_span(name, kind=kind, attributes=attributes, start_time=begun)
        _end(span, at, error)

    def _model(self, name: str) -> Attributes:
        # A model without a provider, such as the built-in one, is its own provider.
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
    found: dict[str, Value | None] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.usage.input_tokens": event.prompt_tokens,
        "gen_ai.usage.output_tokens": event.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": event.cached_tokens or None,
        "gen_ai.usage.cache_creation.input_tokens": event.cache_write_tokens or None,
        "gen_ai.response.finish_reasons": event.finish_reason and (event.finish_reason,),
    }
    return {name: value for name, value in found.items() if value is not None}


def observer(clock: Clock, provider_of: ProviderOf) -> Observer | None:
    """Return an observer for one turn, or ``None`` without a tracer provider in this process.

    A provider may be set at any time, so this is checked for each turn.
    """
    # A provider can't be set without importing the API.
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace

    try:
        provider = trace.get_tracer_provider()
        if not isinstance(provider, trace.ProxyTracerProvider):
            return Observer(provider.get_tracer("parsimony_kernel"), clock, provider_of)
    except Exception as exc:  # boundary: subscriber - other people's providers
        _warn(f"Turns are not traced: {_described(exc)}")
    return None


def _described(exc: Exception) -> str:
    return ": ".join(filter(None, (type(exc).__name__, words_of(exc))))


@cache
def _warn(sentence: str) -> None:
    """Log ``sentence`` once per process."""
    _log.warning("%s", sentence)
