"""The events of a run, and the result that they add up to.

Each has a literal ``type``. The journal stores them, the record folds them, the metrics count them;
nothing else leaves the loop. Exactly one event of a run segment is terminal: ``RunCompleted``,
``UserInputRequested``, ``Handoff``, ``PartialRunSummary`` or ``RunCancelled``.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.core.state import SuspensionRecord


class AgentEvent(BaseModel):
    """The base class of all events."""

    model_config = ConfigDict(frozen=True)


class RunStarted(AgentEvent):
    """A request was started or, with ``reply``, resumed after a question.

    ``choice`` is the id of the choice that the reply picked, empty for free words. ``shared`` names
    the parts of the notebook in the first message. ``gone`` are the variables that existed at the
    suspension and no longer do; ``replaced`` are those made or changed by the cell's earlier turn,
    which was undone before this one started. ``share`` says how much of the notebook the model
    sees, ``share_figures`` whether charts are sent to a model with vision. ``effort`` is the
    reasoning effort, if the cell sets it, and ``instructions`` the hash of each of the person's
    instruction files, by path.
    """

    type: Literal["run_started"] = "run_started"
    run_id: str
    request: str
    model: str
    reply: str | None = None
    choice: str = ""
    shared: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    max_iterations: int = 0
    max_execution_time_s: float = 0.0
    llm_timeout_s: float = 60.0
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    claims: Literal["mark", "strict"] = "mark"
    effort: str = ""
    approve: str = ""
    procedure: str = ""
    notice: str = ""
    replaced: tuple[str, ...] = ()
    share: str = ""
    share_figures: bool = False
    instructions: dict[str, str] = Field(default_factory=dict)


class TextDelta(AgentEvent):
    """A chunk of the model's prose."""

    type: Literal["text_delta"] = "text_delta"
    content: str


class ReasoningDelta(AgentEvent):
    """A chunk of the model's reasoning, if the provider reveals it."""

    type: Literal["reasoning_delta"] = "reasoning_delta"
    content: str


class ToolEvent(AgentEvent):
    """A tool call starts (``completed=False``) or has ended.

    ``arguments`` are the model's; if it wrote the call into its prose, ``around`` is the rest of
    that prose. ``result`` is the gate's envelope, capped and JSON-able. For code that has ended, it
    has the whole ``KernelOutput`` as JSON under ``"output"``, for people and not for models.
    """

    type: Literal["tool_event"] = "tool_event"
    tool_name: str
    tool_call_id: str
    tool_type: str = "function"
    completed: bool = False
    arguments: dict[str, Any] = Field(default_factory=dict)
    around: str | None = None
    ok: bool | None = None
    result: dict[str, Any] | None = None
    failure: Failure | None = None
    duration_s: float | None = None


class ToolResultObserved(AgentEvent):
    """A tool's result entered the transcript: the exact text for the model."""

    type: Literal["tool_result_observed"] = "tool_result_observed"
    tool_name: str
    tool_call_id: str
    content: str
    ok: bool = True


class ArtifactPublished(AgentEvent):
    """A snapshot was written to disk.

    ``path`` is relative to the workspace, ``page`` (a report's page for people) to the notebook's
    folder, both with forward slashes. ``live_name`` is its current name there.
    """

    type: Literal["artifact_published"] = "artifact_published"
    kind: str
    logical_id: str
    content_sha: str
    path: str
    title: str
    variable: str = ""
    reused: bool = False
    page: str = ""
    figure: dict[str, Any] | None = None
    live_name: str = ""


class StateSnapshot(AgentEvent):
    """The run's counters after an iteration."""

    type: Literal["state_snapshot"] = "state_snapshot"
    iteration: int
    variables: tuple[str, ...] = ()
    elapsed_s: float = 0.0


class LLMCallCompleted(AgentEvent):
    """One model call. ``cost_usd`` is ``None`` if the price is unknown.

    ``finish_reason`` is ``error`` for an answer that broke off and whose cost is an estimate.
    """

    type: Literal["llm_call_completed"] = "llm_call_completed"
    model: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None
    duration_s: float = 0.0
    finish_reason: str | None = None


class Heartbeat(AgentEvent):
    """The model has been silent for ``silent_s`` seconds; the run is alive and waits."""

    type: Literal["heartbeat"] = "heartbeat"
    model: str
    silent_s: float


class BudgetWarning(AgentEvent):
    """Most of a budget is spent; from here on the run is wound up.

    ``guard`` is ``tokens`` or ``cost`` (US dollars); ``used`` is the amount spent.
    """

    type: Literal["budget_warning"] = "budget_warning"
    guard: str
    used: float
    limit: float


class AgentError(AgentEvent):
    """A failure that the funnel handled, without ending the run if ``recoverable``.

    ``action`` is the response, ``attempt`` counts from 1 up to ``budget``, ``delay_s`` is the
    back-off before the next attempt, and ``fallback`` the model that takes over. ``strategy`` is a
    policy's plan, such as ``ROLLBACK``, and ``put_back`` describes what a rollback did to the
    variables.
    """

    type: Literal["error"] = "error"
    message: str
    failure: Failure | None = None
    recoverable: bool = False
    action: str | None = None
    attempt: int = 0
    budget: int = 0
    delay_s: float = 0.0
    fallback: str | None = None
    strategy: str = ""
    put_back: str = ""


class TurnTakenBack(AgentEvent):
    """A turn's changes to variables were undone or, if ``redone``, re-applied.

    It follows the end of the turn and is not terminal. Each name is in at most one of the four
    groups: restored to the earlier value, removed again, kept because it was bound or changed
    since, or lost because there was no copy.
    """

    type: Literal["turn_taken_back"] = "turn_taken_back"
    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    redone: bool = False


class TurnForgotten(AgentEvent):
    """This turn is hidden from later ones. It follows the end of the turn."""

    type: Literal["turn_forgotten"] = "turn_forgotten"


class RunCompleted(AgentEvent):
    """The model declared the task done. ``variables`` are those that the run bound."""

    type: Literal["run_completed"] = "run_completed"
    summary: str
    variables: tuple[str, ...] = ()


class UserInputRequested(AgentEvent):
    """The run waits for an answer; persist the record to resume from it."""

    type: Literal["user_input_requested"] = "user_input_requested"
    question: str
    context: str | None = None
    choices: tuple[str, ...] = ()
    suspension_record: SuspensionRecord
    originating_failure_kind: FailureKind | None = None


class Handoff(AgentEvent):
    """The run cannot continue and asks nothing."""

    type: Literal["handoff"] = "handoff"
    rationale: str
    blockers: tuple[str, ...] = ()
    suggested_next_steps: tuple[str, ...] = ()
    failure: Failure | None = None


class PartialRunSummary(AgentEvent):
    """The run stopped early by itself."""

    type: Literal["partial_run_summary"] = "partial_run_summary"
    missing: str
    learned_facts: tuple[str, ...] = ()
    next_step_plan: str | None = None


class RunCancelled(AgentEvent):
    """The run was stopped from outside."""

    type: Literal["run_cancelled"] = "run_cancelled"
    message: str = "The run was stopped."
    reason: str = ""


_ANY: Any = reduce(or_, AgentEvent.__subclasses__())
_ADAPTER: TypeAdapter[AgentEvent] = TypeAdapter(Annotated[_ANY, Field(discriminator="type")])
_TERMINAL = RunCompleted | UserInputRequested | Handoff | PartialRunSummary | RunCancelled


def is_terminal(event: AgentEvent) -> bool:
    """Return whether ``event`` ends its run segment."""
    return isinstance(event, _TERMINAL)


def parse_event(data: dict[str, Any]) -> AgentEvent:
    """Parse ``data`` into an event.

    Raises:
        pydantic.ValidationError: it is not one.
    """
    return _ADAPTER.validate_python(data)


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
    summaries = [event.summary for event in kept if isinstance(event, RunCompleted)]
    words = (event.content for event in kept if isinstance(event, TextDelta))
    published: dict[str, tuple[Any, ...]] = {
        f"{kind.__name__.lower()}s": tuple(
            kind(event.logical_id, event.content_sha, event.path, event.title, event.variable)
            for event in kept
            if isinstance(event, ArtifactPublished) and event.kind == name
        )
        for name, kind in _KINDS.items()
    }
    text = (summaries or [""])[-1] or "".join(words)
    return AgentResult(text=text, context=context, events=kept, **published)
