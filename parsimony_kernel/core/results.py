"""The results of a run, as values."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from parsimony_kernel.core.events import (
    AgentError,
    AgentEvent,
    ArtifactPublished,
    Handoff,
    PartialRunSummary,
    RunCancelled,
    RunCompleted,
    TextDelta,
    UserInputRequested,
)


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
    events: tuple[AgentEvent, ...] = field(default=(), repr=False)
    scripts: tuple[Script, ...] = ()

    @property
    def ok(self) -> bool:
        return any(isinstance(event, RunCompleted) for event in self.events)

    @property
    def suspended(self) -> bool:
        return any(isinstance(event, UserInputRequested) for event in self.events)

    @property
    def cancelled(self) -> bool:
        return any(isinstance(event, RunCancelled) for event in self.events)

    @property
    def failed(self) -> bool:
        """Whether the run ended on its own without fulfilling the request."""
        return any(
            isinstance(event, Handoff | PartialRunSummary)
            or (isinstance(event, AgentError) and not event.recoverable)
            for event in self.events
        )


_KINDS = {"dataset": Dataset, "chart": Chart, "report": Report, "notebook": Script}


def collect(events: Iterable[AgentEvent], *, context: Any = None) -> AgentResult:
    """Fold a stream of events into its result.

    Args:
        events: the events of one run, in order.
        context: kept in the result, as ``context``.
    """
    kept = tuple(events)
    published: dict[str, list[Any]] = {kind: [] for kind in _KINDS}
    summary = ""
    words: list[str] = []
    for event in kept:
        match event:
            case TextDelta():
                words.append(event.content)
            case RunCompleted():
                summary = event.summary
            case ArtifactPublished() if event.kind in _KINDS:
                facts = {each.name: getattr(event, each.name) for each in fields(Published)}
                published[event.kind].append(_KINDS[event.kind](**facts))
    return AgentResult(
        text=summary or "".join(words),
        datasets=tuple(published["dataset"]),
        charts=tuple(published["chart"]),
        reports=tuple(published["report"]),
        context=context,
        events=kept,
        scripts=tuple(published["notebook"]),
    )
