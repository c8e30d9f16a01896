"""What happens in a run, as values.

One event per thing that happened, each with a literal ``type``. They are what the journal keeps,
the record folds and the metrics count; nothing else leaves the loop. Exactly one event of a run
segment is terminal: ``RunCompleted``, ``UserInputRequested``, ``Handoff``, ``PartialRunSummary``
or ``RunCancelled``.
"""

from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.core.state import SuspensionRecord


class AgentEvent(BaseModel):
    """The base of all events."""

    model_config = ConfigDict(frozen=True)


class RunStarted(AgentEvent):
    """A request was taken up, or, with ``reply``, taken up again after a question.

    ``choice`` is the id of the choice that the reply picked, empty for free words.
    ``shared`` names what of the notebook the first message carries, ``gone`` the variables that
    existed at the suspension and no longer do, ``replaced`` those that the cell's earlier turn had
    made or changed, and that were taken back before this one began. ``share`` says how much of the
    notebook the model is told, ``share_figures`` that charts are shown to a model that sees.
    ``effort`` is how long the model may think, where the cell says so, and ``instructions`` the
    hash of each file with the person's instructions, by path.
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
    """A piece of the model's prose."""

    type: Literal["text_delta"] = "text_delta"
    content: str


class ReasoningDelta(AgentEvent):
    """A piece of the model's reasoning, where the provider shows it."""

    type: Literal["reasoning_delta"] = "reasoning_delta"
    content: str


class ToolEvent(AgentEvent):
    """A tool begins (``completed=False``) or has ended.

    ``arguments`` are the model's; where it wrote the call into its words, ``around`` is what else
    they say. ``result`` is the gate's envelope, capped and JSON-able; on
    the end of code it holds under ``"output"`` the whole ``KernelOutput`` as JSON, which people
    see and models do not.
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
    """A tool's answer entered the transcript: the exact text that the model will read."""

    type: Literal["tool_result_observed"] = "tool_result_observed"
    tool_name: str
    tool_call_id: str
    content: str
    ok: bool = True


class ArtifactPublished(AgentEvent):
    """A snapshot is on disk.

    ``path`` and ``page``, which is a report's for people, are relative to the workspace, with
    forward slashes. ``live_name`` is the name that it holds there.
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
    """Counters of the run after an iteration."""

    type: Literal["state_snapshot"] = "state_snapshot"
    iteration: int
    variables: tuple[str, ...] = ()
    elapsed_s: float = 0.0


class LLMCallCompleted(AgentEvent):
    """One answer of the model. ``cost_usd`` is ``None`` when the price is unknown.

    ``finish_reason`` is ``error`` for one that broke off and was paid for by estimate.
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
    """The model has said nothing for ``silent_s`` seconds; the run waits and is alive."""

    type: Literal["heartbeat"] = "heartbeat"
    model: str
    silent_s: float


class BudgetWarning(AgentEvent):
    """Most of a budget is used: from here on the run comes to its end.

    ``guard`` is ``tokens`` or ``cost`` (US dollars); ``used`` counts what is spent.
    """

    type: Literal["budget_warning"] = "budget_warning"
    guard: str
    used: float
    limit: float


class AgentError(AgentEvent):
    """A failure that the funnel answered without ending the run, if ``recoverable``.

    ``action`` is what is done about it, ``attempt`` counts from 1 up to ``budget``, and
    ``delay_s`` is the wait before the next try; ``fallback`` the model that takes over.
    ``strategy`` is the plan of a policy, such as ``ROLLBACK``, and ``put_back`` what going back
    did to the variables, in words.
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
    """What a turn did to the variables was taken back, or, if ``redone``, done again.

    It follows the end of the turn, and ends nothing itself. Each name stands in one of the four at
    most: those that have their earlier value again, those that are gone again, those that were
    left because they were bound or changed since, and those of which there was no copy.
    """

    type: Literal["turn_taken_back"] = "turn_taken_back"
    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    redone: bool = False


class TurnForgotten(AgentEvent):
    """Later turns are told nothing of this one. It follows the end of the turn."""

    type: Literal["turn_forgotten"] = "turn_forgotten"


class RunCompleted(AgentEvent):
    """The model said that it is done. ``variables`` are what the run bound."""

    type: Literal["run_completed"] = "run_completed"
    summary: str
    variables: tuple[str, ...] = ()


class UserInputRequested(AgentEvent):
    """The run waits for an answer; persist the record and resume from it."""

    type: Literal["user_input_requested"] = "user_input_requested"
    question: str
    context: str | None = None
    choices: tuple[str, ...] = ()
    suspension_record: SuspensionRecord
    originating_failure_kind: FailureKind | None = None


class Handoff(AgentEvent):
    """The run cannot go on and asks nothing."""

    type: Literal["handoff"] = "handoff"
    rationale: str
    blockers: tuple[str, ...] = ()
    suggested_next_steps: tuple[str, ...] = ()
    failure: Failure | None = None


class PartialRunSummary(AgentEvent):
    """The run stopped early on its own."""

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
    """Whether ``event`` ends its run segment."""
    return isinstance(event, _TERMINAL)


def parse_event(data: dict[str, Any]) -> AgentEvent:
    """The event that ``data`` is. ``pydantic.ValidationError`` when it is none."""
    return _ADAPTER.validate_python(data)
