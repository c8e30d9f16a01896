"""The state of one run, how it ends, and the part of it that survives a suspension.

Values only. Live objects (files, executor, cancellation) are left out when the state is written.
"""

import time
import uuid
from collections.abc import Iterable
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic.dataclasses import dataclass

from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.chat import FunctionCall, ToolCall
from parsimony_kernel.core.kinds import Failure, FailureKind, FailureType

MAX_LESSONS = 5
MAX_RECOVERIES = 50
SCHEMA_VERSION = 6


class TurnSubstate(BaseModel):
    """State that one iteration leaves for its next steps."""

    minted_refs: list[dict[str, Any]] = Field(default_factory=list)
    minted_live_names: list[tuple[str, str]] = Field(default_factory=list)
    text_only_response: bool = False
    tool_calls_this_turn: int = 0


class HeldCall(BaseModel):
    """A requested call that waits for a person's approval, or behind one that does.

    ``sha`` is the hash of exactly this action; ``allowed`` is set by the answer.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    name: str
    arguments: str
    sha: str
    allowed: bool | None = None

    @classmethod
    def of(cls, call: ToolCall, sha: str = "") -> Self:
        """Return ``call`` as one to run later."""
        function = call.function
        return cls(id=call.id, name=function.name, arguments=function.arguments, sha=sha)

    @property
    def call(self) -> ToolCall:
        """The call as the model requested it."""
        return ToolCall(self.id, FunctionCall(self.name, self.arguments))


class Carried(BaseModel):
    """What a run keeps across a suspension: the fields shared by its state and its record."""

    model_id: str = ""
    started_at: str = ""
    tool_call_history: list[str] = Field(default_factory=list)
    accumulated_reasoning: str = ""
    accumulated_reasoning_duration_s: float = 0.0
    last_repeat_counts: dict[str, int] = Field(default_factory=dict)
    cumulative_cost_usd: float = 0.0
    cumulative_prompt_tokens: int = 0
    cumulative_completion_tokens: int = 0
    lessons_learned: list[Failure] = Field(default_factory=list)
    failure_attempts: dict[FailureKind, int] = Field(default_factory=dict)
    pinned_constraints: list[str] = Field(default_factory=list)
    compaction: int = 0
    budget_from_tokens: int = 0
    budget_from_cost_usd: float = 0.0
    budget_warned: bool = False
    pending_instruction: str | None = None
    pending_call: HeldCall | None = None
    pending_behind: list[HeldCall] = Field(default_factory=list)
    repetition: list[dict[str, Any]] = Field(default_factory=list)
    procedure_state: str = ""
    recoveries: list[tuple[FailureType, str]] = Field(default_factory=list)
    subgoals: list[str] = Field(default_factory=list)
    done_subgoals: list[str] = Field(default_factory=list)
    terms: str = ""
    begun: str = ""
    workspace: str = ""

    def carried(self) -> dict[str, Any]:
        """Return these fields by name."""
        return {name: getattr(self, name) for name in Carried.model_fields}


class SuspensionRecord(Carried):
    """A run that waits for an answer: sealed JSON, sufficient to resume in another process.

    ``suspension_token`` is ``"{nonce}.{hex}"`` over the ids and is self-verifying; ``seal`` is a
    MAC over the canonical bytes of everything else. Times are ISO 8601 in UTC. ``variables`` are
    the names that existed at the suspension, with their versions in the ledger, ``terms`` is a hash
    of the contract and procedure in force, and ``begun`` a hash of what the run may do.
    """

    model_config = ConfigDict(extra="forbid")

    run_id: str
    session_id: str
    suspension_token: str
    suspended_at: str
    messages: list[dict[str, Any]] = Field(default_factory=list)
    iteration_count: int = 0
    minted_refs: list[dict[str, Any]] = Field(default_factory=list)
    minted_live_names: list[tuple[str, str]] = Field(default_factory=list)
    elapsed_seconds: float = 0.0
    pending_question: str = ""
    pending_question_context: str | None = None
    choices: list[str] = Field(default_factory=list)
    choice_ids: list[str] = Field(default_factory=list)
    originating_failure_kind: FailureKind | None = None
    variables: dict[str, int] = Field(default_factory=dict)
    originating_guard: str = ""
    pending_effect: str = ""
    key_id: str = ""
    schema_version: int = SCHEMA_VERSION
    seal: str = ""

    @property
    def nonce(self) -> str:
        """The single-use name of this suspension."""
        return self.suspension_token.partition(".")[0]


def remember(lessons: Iterable[Failure], failure: Failure) -> list[Failure]:
    """Add ``failure`` to ``lessons``: one per kind, at most five, the oldest dropped."""
    kept = [lesson for lesson in lessons if lesson.kind != failure.kind]
    return [*kept, failure.without_data()][-MAX_LESSONS:]


class RunState(Carried):
    """The whole state of a run.

    ``messages`` is append-only, and a message in it never changes. ``compaction`` says how much of
    old tool results the renderer leaves out: 0 as in document 002, 1 all but the newest, 2 all.
    ``budget_from_tokens`` and ``budget_from_cost_usd`` are the amounts spent when the person last
    extended the budget, which counts from there. ``recoveries`` are the failures that the funnel
    handled, by type, each with its responses, the newest last; ``subgoals`` are the parts of the
    model's latest plan.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    run_id: str = Field(default_factory=lambda: uuid.uuid4().hex)
    session_id: str = ""
    messages: list[Any] = Field(default_factory=list)
    iteration: int = 0
    turn: TurnSubstate = Field(default_factory=TurnSubstate)
    last_event_time_s: float | None = None
    started_monotonic_s: float = Field(default_factory=time.monotonic, exclude=True)
    accumulated_elapsed_s: float = 0.0
    done: bool = False
    files: Any = Field(default=None, exclude=True)
    code_executor: Any = Field(default=None, exclude=True)
    cancellation: CancellationRequest | None = Field(default=None, exclude=True)
    # The record of the question just answered, with the choice that was meant.
    answered: Any = Field(default=None, exclude=True)

    def record_failure_attempt(self, kind: FailureKind) -> int:
        """Count one more failure of ``kind`` and return the new count."""
        count = self.failure_attempts.get(kind, 0) + 1
        self.failure_attempts[kind] = count
        return count

    @property
    def open_subgoals(self) -> tuple[str, ...]:
        """The unfinished parts of the plan, in order."""
        return tuple(goal for goal in self.subgoals if goal not in self.done_subgoals)

    def note_recovery(self, failure_type: FailureType, answer: str) -> None:
        """Record the response to a failure: a plan's name, or an action's."""
        self.recoveries = [*self.recoveries, (failure_type, answer)][-MAX_RECOVERIES:]

    def elapsed_seconds(self, now: float | None = None) -> float:
        """Return the seconds spent running, without suspensions; ``now`` is monotonic."""
        current = time.monotonic() if now is None else now
        return self.accumulated_elapsed_s + max(0.0, current - self.started_monotonic_s)

    @classmethod
    def from_suspension(cls, record: SuspensionRecord, **alive: Any) -> Self:
        """Restore the state to resume from. A budget is reset only if it caused the suspension.

        Args:
            record: what was kept of the run.
            alive: what a record cannot hold, by field: ``files``, ``code_executor``,
                ``cancellation``, and ``started_monotonic_s`` of another clock than the machine's.
        """
        because, raised = record.originating_failure_kind, record.originating_guard
        spent = record.cumulative_prompt_tokens + record.cumulative_completion_tokens
        is_late = because is FailureKind.time_limit
        carried = record.carried()
        carried["budget_warned"] = record.budget_warned and not raised
        if raised == "tokens":
            carried["budget_from_tokens"] = spent
        if raised == "cost":
            carried["budget_from_cost_usd"] = record.cumulative_cost_usd
        return cls(
            **carried,
            run_id=record.run_id,
            session_id=record.session_id,
            messages=[dict(message) for message in record.messages],
            iteration=0 if because is FailureKind.iteration_limit else record.iteration_count,
            turn=TurnSubstate.model_validate(record, from_attributes=True),
            accumulated_elapsed_s=0.0 if is_late else record.elapsed_seconds,
            **alive,
        )


@dataclass(frozen=True)
class TerminationRequest:
    """The model is done, or, with blockers, cannot continue; returned by a termination tool.

    The loop turns it into the terminal event. Its fields are validated as text.
    """

    message: str
    blockers: tuple[str, ...] = ()
    suggested_next_steps: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        """Whether the task was completed."""
        return not self.blockers


@dataclass(frozen=True)
class SuspensionRequest:
    """The model asks the person a question; returned by the ``ask_user`` tool."""

    question: str
    context: str | None = None
    choices: tuple[str, ...] = ()
