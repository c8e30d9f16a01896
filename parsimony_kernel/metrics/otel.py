"""Executions as OpenTelemetry traces: one span each, with one below it for every model answer and
every tool call.

Names and attributes are those of OpenTelemetry's conventions for generative AI. Durations, names,
counts and failures leave the machine; requests, prompts, arguments and results do not. What a
span says is decided by ``span_of``, which is pure; the rest needs the ``otel`` extra.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.events import (
    AgentError,
    AgentEvent,
    Handoff,
    LLMCallCompleted,
    PartialRunSummary,
    ReasoningDelta,
    RunCancelled,
    RunCompleted,
    RunStarted,
    TextDelta,
    ToolEvent,
    UserInputRequested,
    is_terminal,
)

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

Value = str | bool | int | float | Sequence[str]
Attributes = Mapping[str, Value]
# A moment in seconds since the epoch, and what happened then.
Timed = tuple[float, AgentEvent]

INSTRUMENTATION = "parsimony_kernel"
_PREFIX = "parsimony."


@dataclass(frozen=True)
class Moment:
    """Something without a duration, at nanoseconds since the epoch."""

    name: str
    at_ns: int
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True)
class SpanData:
    """One span. Times are nanoseconds since the epoch; ``error`` is ``None`` where all is well.

    ``reaches_out`` tells a request to a model from what happens in this process.
    """

    name: str
    start_ns: int
    end_ns: int
    attributes: Attributes = field(default_factory=dict)
    error: str | None = None
    moments: tuple[Moment, ...] = ()
    children: tuple["SpanData", ...] = ()
    reaches_out: bool = False


def span_of(timed: Sequence[Timed], *, agent: str = "agent") -> SpanData:
    """The span of one execution, from its first event to its last.

    ``ValueError`` without events. Clocks may have been set in between: no span ends before it
    starts, and none starts before the execution.
    """
    if not timed:
        raise ValueError("an execution has events: none were given")
    start = _ns(timed[0][0])
    children: list[SpanData] = []
    moments: list[Moment] = []
    for at, event in timed:
        match event:
            case LLMCallCompleted():
                children.append(_answer(event, start, _ns(at)))
            case ToolEvent(completed=True):
                children.append(_call(event, start, _ns(at)))
            case AgentError():
                moments.append(_failure(event, _ns(at)))
            case _:
                pass
    outcome, error = _ending(timed[-1][1])
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": agent,
        f"{_PREFIX}outcome": outcome,
    }
    started = timed[0][1]
    if isinstance(started, RunStarted):
        attributes["gen_ai.conversation.id"] = started.run_id
        attributes["gen_ai.request.model"] = started.model
        attributes[f"{_PREFIX}resumed"] = started.reply is not None
    ends = [_ns(at) for at, _ in timed] + [child.end_ns for child in children]
    return SpanData(
        f"invoke_agent {agent}",
        start,
        max(ends),
        attributes,
        error,
        tuple(moments),
        tuple(children),
    )


def _ns(seconds: float) -> int:
    return round(seconds * 1_000_000_000)


def _stretch(start: int, end: int, duration_s: float) -> tuple[int, int]:
    end = max(start, end)
    return max(start, end - _ns(duration_s)), end


def _answer(event: LLMCallCompleted, start: int, end: int) -> SpanData:
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": event.model,
        "gen_ai.usage.input_tokens": event.prompt_tokens,
        "gen_ai.usage.output_tokens": event.completion_tokens,
    }
    if event.finish_reason is not None:
        attributes["gen_ai.response.finish_reasons"] = (event.finish_reason,)
    if event.cost_usd is not None:
        attributes[f"{_PREFIX}cost_usd"] = event.cost_usd
    began, ended = _stretch(start, end, event.duration_s)
    return SpanData(f"chat {event.model}", began, ended, attributes, reaches_out=True)


def _call(event: ToolEvent, start: int, end: int) -> SpanData:
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": event.tool_name,
        "gen_ai.tool.call.id": event.tool_call_id,
        "gen_ai.tool.type": event.tool_type,
    }
    error = None
    if event.ok is False:
        result = event.result or {}
        error = "cancelled" if result.get("stopped") else str(result.get("error", "error"))
        attributes["error.type"] = error
    began, ended = _stretch(start, end, event.duration_s or 0.0)
    return SpanData(f"execute_tool {event.tool_name}", began, ended, attributes, error)


def _failure(event: AgentError, at_ns: int) -> Moment:
    attributes: dict[str, Value] = {
        f"{_PREFIX}attempt": event.attempt,
        f"{_PREFIX}recoverable": event.recoverable,
        f"{_PREFIX}delay_s": event.delay_s,
    }
    if event.failure is not None:
        attributes[f"{_PREFIX}failure.kind"] = event.failure.kind.value
        attributes[f"{_PREFIX}failure.type"] = event.failure.type.value
    if event.action is not None:
        attributes[f"{_PREFIX}action"] = event.action
    if event.fallback is not None:
        attributes[f"{_PREFIX}fallback"] = event.fallback
    return Moment("failure", at_ns, attributes)


def _ending(event: AgentEvent) -> tuple[str, str | None]:
    """How an execution ended, and the error that this is, if it is one."""
    match event:
        case RunCompleted():
            return "completed", None
        case UserInputRequested():
            return "asked", None
        case Handoff():
            return "handed_off", event.failure.kind.value if event.failure else None
        case PartialRunSummary():
            return "stopped", "stopped"
        case RunCancelled():
            return "cancelled", None
        case _:
            return "open", "the events end before the execution does"


def observer(
    tracer: "Tracer", *, agent: str = "agent", clock: Clock = SYSTEM_CLOCK
) -> Callable[[AgentEvent], None]:
    """What to call with each event of one run, as it happens.

    A trace is handed to ``tracer`` when its execution ends. Runs at the same time need an observer
    each.
    """
    timed: list[Timed] = []

    def observe(event: AgentEvent) -> None:
        if isinstance(event, TextDelta | ReasoningDelta):
            return
        if isinstance(event, RunStarted):
            timed.clear()
        timed.append((clock.now().timestamp(), event))
        if is_terminal(event):
            export(span_of(timed, agent=agent), tracer)
            timed.clear()

    return observe


def export(span: SpanData, tracer: "Tracer") -> None:
    """Give ``span`` and what is below it to ``tracer``."""
    from opentelemetry import context, trace

    def give(data: SpanData, parent: context.Context | None) -> None:
        made = tracer.start_span(
            data.name,
            context=parent,
            kind=trace.SpanKind.CLIENT if data.reaches_out else trace.SpanKind.INTERNAL,
            attributes=data.attributes,
            start_time=data.start_ns,
        )
        for moment in data.moments:
            made.add_event(moment.name, moment.attributes, moment.at_ns)
        if data.error is not None:
            made.set_status(trace.StatusCode.ERROR, data.error)
        inside = trace.set_span_in_context(made, parent)
        for child in data.children:
            give(child, inside)
        made.end(data.end_ns)

    give(span, None)
