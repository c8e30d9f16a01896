"""OpenTelemetry traces of runs, following its semantic conventions for generative AI.

Each execution is an ``invoke_agent`` span with a ``chat`` child span per model answer and an
``execute_tool`` child span per tool call. Names, counts, durations and kinds of failure are
exported; requests, prompts, arguments and results aren't.

A turn is traced if this process uses OpenTelemetry; otherwise nothing is imported. Tracing never
breaks a turn, and delays its end by at most ``WAIT_S``.
"""

import logging
import sys
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from parsimony_kernel.core import events as ev
from parsimony_kernel.core.clock import Clock
from parsimony_kernel.metrics.figures import executions

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

AGENT = "parsimony-agent"
# Seconds that the end of a turn waits for a synchronous exporter.
WAIT_S = 0.2

Attributes = dict[str, Any]
ProviderOf = Callable[[str], str | None]

_log = logging.getLogger(__name__)


class Observer:
    """Traces the executions of one run by the tracer provider of this process.

    Args:
        clock: the time of events.
        provider_of: maps a model to its provider, by LiteLLM's name.
    """

    def __init__(self, clock: Clock, provider_of: ProviderOf) -> None:
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
            _log.warning("A trace was lost: %r", exc)

    def _write_trace(self, timed: Sequence[tuple[int, ev.AgentEvent]]) -> None:
        from opentelemetry import trace

        tracer = trace.get_tracer("parsimony_kernel")
        start, first = timed[0]
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": AGENT,
        }
        if isinstance(first, ev.RunStarted):  # samplers only see the initial attributes
            attributes |= self._model(first.model) | {"gen_ai.conversation.id": first.run_id}
        root = tracer.start_span(f"invoke_agent {AGENT}", attributes=attributes, start_time=start)
        with trace.use_span(root):
            for at, event in timed:
                # ``max``: the clock may have been set back in between.
                self._write_part(tracer, event, start, max(start, at))
        (execution,) = executions(event for _, event in timed)
        answers = [event for _, event in timed if isinstance(event, ev.LLMCallCompleted)]
        root.set_attributes(
            {
                "gen_ai.usage.input_tokens": sum(each.prompt_tokens for each in answers),
                "gen_ai.usage.output_tokens": sum(each.completion_tokens for each in answers),
                "parsimony.outcome": execution.outcome or "open",
            }
        )
        last, error = timed[-1][1], "stopped" if execution.outcome == "stopped" else None
        if isinstance(last, ev.Handoff) and last.failure:
            error = last.failure.kind.value
        _end(root, max(at for at, _ in timed), error)

    def _write_part(self, tracer: "Tracer", event: ev.AgentEvent, start: int, at: int) -> None:
        from opentelemetry.trace import SpanKind

        match event:
            case ev.LLMCallCompleted():
                name, kind = f"chat {event.model}", SpanKind.CLIENT
                attributes = self._model(event.model) | {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.usage.input_tokens": event.prompt_tokens,
                    "gen_ai.usage.output_tokens": event.completion_tokens,
                    "gen_ai.usage.cache_read.input_tokens": event.cached_tokens,
                    "gen_ai.usage.cache_creation.input_tokens": event.cache_write_tokens,
                    "gen_ai.response.finish_reasons": tuple(filter(None, [event.finish_reason])),
                }
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
        span = tracer.start_span(name, kind=kind, attributes=attributes, start_time=begun)
        _end(span, at, error)

    def _model(self, name: str) -> Attributes:
        # A model without a provider, such as the built-in one, is its own provider.
        provider = self._provider_of(name) or name
        return {"gen_ai.provider.name": provider, "gen_ai.request.model": name}


def _ns(seconds: float) -> int:
    return round(seconds * 1_000_000_000)


def _end(span: "Span", at: int, error: str | None) -> None:
    from opentelemetry.trace import StatusCode

    if error is not None:
        span.set_attribute("error.type", error)
        span.set_status(StatusCode.ERROR, error)
    span.end(at)


def observer(clock: Clock, provider_of: ProviderOf) -> Observer | None:
    """Return an observer for one turn, or ``None`` if this process doesn't use OpenTelemetry.

    A provider can't be set without importing its API.
    """
    return Observer(clock, provider_of) if "opentelemetry.trace" in sys.modules else None
