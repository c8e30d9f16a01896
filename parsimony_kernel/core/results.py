"""The results of a run, as values."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from parsimony_kernel.core import events as ev


@dataclass(frozen=True)
class Published:
    """One published snapshot. ``path`` is relative to the workspace."""

    logical_id: str
    content_sha: str
    path: str
    title: str
    variable: str = ""


class Dataset(Published):
    """A published table."""


class Chart(Published):
    """A published chart."""


class Report(Published):
    """A published report."""


class Script(Published):
    """A published notebook: a Python script."""


@dataclass(frozen=True)
class AgentResult:
    """The collected result of a run.

    ``ok`` means that the request was fulfilled, even after recovered failures. A suspended or
    cancelled run is neither ok nor failed: see ``suspended`` and ``cancelled``.
    """

    text: str = ""
    datasets: tuple[Dataset, ...] = ()
    charts: tuple[Chart, ...] = ()
    reports: tuple[Report, ...] = ()
    context: Any = None
    events: tuple[ev.AgentEvent, ...] = field(default=(), repr=False)
    scripts: tuple[Script, ...] = ()

    @property
    def ok(self) -> bool:
        return any(isinstance(event, ev.RunCompleted) for event in self.events)

    @property
    def suspended(self) -> bool:
        return any(isinstance(event, ev.UserInputRequested) for event in self.events)

    @property
    def cancelled(self) -> bool:
        return any(isinstance(event, ev.RunCancelled) for event in self.events)

    @property
    def failed(self) -> bool:
        """Whether the run ended on its own without fulfilling the request."""
        return any(
            isinstance(event, ev.Handoff | ev.PartialRunSummary)
            or (isinstance(event, ev.AgentError) and not event.recoverable)
            for event in self.events
        )


_KINDS = {"dataset": Dataset, "chart": Chart, "report": Report, "notebook": Script}


def collect(events: Iterable[ev.AgentEvent], *, context: Any = None) -> AgentResult:
    """Fold a stream of events into its result.

    Args:
        events: the events of one run, in order.
        context: kept in the result, as ``context``.
    """
    kept = tuple(events)
    summaries = [event.summary for event in kept if isinstance(event, ev.RunCompleted)]
    words = (event.content for event in kept if isinstance(event, ev.TextDelta))
    published: dict[str, tuple[Any, ...]] = {
        f"{kind.__name__.lower()}s": tuple(
            kind(event.logical_id, event.content_sha, event.path, event.title, event.variable)
            for event in kept
            if isinstance(event, ev.ArtifactPublished) and event.kind == name
        )
        for name, kind in _KINDS.items()
    }
    text = (summaries or [""])[-1] or "".join(words)
    return AgentResult(text=text, context=context, events=kept, **published)
