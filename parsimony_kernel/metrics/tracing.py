"""Whether a notebook's turns are traced, and where the traces go.

As the person configured it and not otherwise: through the tracer provider that this process has,
or to the exporters that OpenTelemetry's own environment variables name. What is not configured
costs no import. Tracing never breaks a turn or holds it up.
"""

import logging
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from typing import TYPE_CHECKING, Any

from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.events import AgentEvent, is_terminal
from parsimony_kernel.core.text import words_of
from parsimony_kernel.metrics import otel

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Tracer, TracerProvider

# What the end of a turn waits for an exporter that works where it is called.
WAIT_S = 0.2

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_OTLP = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
_GROUP = "opentelemetry_traces_exporter"
_API = "opentelemetry.trace"
_NAMED = "OTEL_PYTHON_TRACER_PROVIDER"

_log = logging.getLogger(__name__)


class _NoProvider(LookupError):
    """The environment names a tracer provider that is not installed."""


class Observer:
    """Traces one turn. ``observe`` takes each event of it as it happens, and raises nothing."""

    def __init__(
        self, tracer: "Tracer", *, agent: str = "agent", clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._observe = otel.observer(tracer, agent=agent, clock=clock)

    def observe(self, event: AgentEvent) -> None:
        """Take ``event``; the trace is handed over when it is a terminal one."""
        if not is_terminal(event):
            _guarded(self._observe, event)
            return
        # An exporter may hang: what it is given then is lost, and the turn goes on.
        work = threading.Thread(
            target=copy_context().run, args=(_guarded, self._observe, event), daemon=True
        )
        work.start()
        work.join(WAIT_S)


def observer(
    environ: Mapping[str, str], *, agent: str = "agent", clock: Clock = SYSTEM_CLOCK
) -> Observer | None:
    """The observer of one turn; ``None`` when the person has configured no tracing.

    A provider that is set in this process comes first; it may be set at any time.
    """
    try:
        provider = _provider(environ)
        if provider is None:
            return None
        tracer = provider.get_tracer(otel.INSTRUMENTATION)
        return Observer(tracer, agent=agent, clock=clock)
    except _NoProvider as exc:
        _warn(f"Turns are not traced: {exc}.")
        return None
    except Exception as exc:  # boundary: subscriber - other people's providers
        _warn(f"Turns are not traced: {_told(exc)}")
        return None


def exporters_in(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the exporters that ``environ`` asks for.

    Asking for them is naming them, or an OTLP endpoint. A name or attributes of a service alone
    send nothing anywhere.
    """
    if _value(environ, "OTEL_SDK_DISABLED").lower() == "true":
        return ()
    named = _value(environ, "OTEL_TRACES_EXPORTER")
    if not named and any(_value(environ, name) for name in _ENDPOINTS):
        named = "otlp"
    names = tuple(name for part in named.split(",") if (name := part.strip()))
    return tuple(name for name in names if name != "none")


def _value(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name, "").strip()


def _provider(environ: Mapping[str, str]) -> "TracerProvider | None":
    if _value(environ, "OTEL_SDK_DISABLED").lower() == "true":
        return None
    own = _set_in_process(environ)
    if own is not None:
        return own
    exporters = exporters_in(environ)
    if not exporters:
        return None
    protocol = next((said for name in _PROTOCOLS if (said := _value(environ, name))), "")
    return _configured(exporters, protocol)


def _set_in_process(environ: Mapping[str, str]) -> "TracerProvider | None":
    # Nobody can have set one without importing it, but a variable may name one.
    named = _value(environ, _NAMED)
    if _API not in sys.modules and not named:
        return None
    with _quiet():
        try:
            from opentelemetry import trace
        except ImportError:
            return None
        try:
            provider = trace.get_tracer_provider()
        except StopIteration:
            raise _NoProvider(
                f"there is no tracer provider {named!r}; install what has it, or leave {_NAMED} out"
            ) from None
    return None if isinstance(provider, trace.ProxyTracerProvider) else provider


@cache
def _configured(exporters: tuple[str, ...], protocol: str) -> "TracerProvider | None":
    """A provider of ours, one a process: the process's own stays free for the person to set."""
    try:
        with _quiet():
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        _warn(
            "Turns are not traced although the environment asks for it: install "
            "'parsimony-kernel[otel]'."
        )
        return None
    found = [made for name in exporters if (made := _exporter(name, protocol)) is not None]
    if not found:
        return None
    provider = TracerProvider()
    for each in found:
        provider.add_span_processor(BatchSpanProcessor(each))
    return provider


def _exporter(name: str, protocol: str) -> "SpanExporter | None":
    from importlib.metadata import entry_points

    if name == "console":
        _warn(
            "Turns are not traced to 'console', which would write into the cells of the notebook; "
            "name another exporter, such as 'otlp'."
        )
        return None
    # Without a protocol, the one that the specification prefers of those that are installed.
    entries = (_OTLP.get(protocol, protocol),) if protocol else tuple(_OTLP.values())
    wanted = entries if name == "otlp" else (name,)
    points = [point for each in wanted for point in entry_points(group=_GROUP, name=each)]
    if not points:
        _warn(
            f"Turns are not traced to {name!r}: install its exporter, such as "
            "opentelemetry-exporter-otlp-proto-http for 'otlp'."
        )
        return None
    try:
        made: SpanExporter = points[0].load()()
    except Exception as exc:  # boundary: subscriber - other people's exporters
        _warn(f"Turns are not traced to {name!r}: {_told(exc)}")
        return None
    return made


def _guarded(observe: Callable[[AgentEvent], Any], event: AgentEvent) -> None:
    try:
        observe(event)
    except Exception as exc:  # boundary: subscriber - other people's processors and exporters
        _warn(f"A trace was lost: {_told(exc)}")


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep OpenTelemetry from telling of its own fall-backs, with tracebacks, as it is imported."""
    log = logging.getLogger("opentelemetry")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)


def _told(exc: Exception) -> str:
    return ": ".join(filter(None, (type(exc).__name__, words_of(exc))))


@cache
def _warn(sentence: str) -> None:
    """Say ``sentence``, once in this process."""
    _log.warning("%s", sentence)
