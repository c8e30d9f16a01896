"""The one failure value, its refusals and causes, and the context in which a cause is diagnosed.

Values only: no decisions, no waits, no access to a run. ``kind`` selects the retry budget and the
ladder, ``type`` the hint, and ``effect`` what must not be done next.

The order and the strings of ``FailureType`` are stable, since journals contain them. New members go
before ``UNKNOWN``, which stays last.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from pydantic import ConfigDict
from pydantic import dataclasses as checked


class FailureType(StrEnum):
    """The cause of a failure, which selects the hint. One per failure."""

    WRONG_TOOL_CALLED = "wrong_tool_called"
    CONSTRAINT_IGNORED = "constraint_ignored"
    LOOP_DETECTED = "loop_detected"
    HALLUCINATED_STATE = "hallucinated_state"
    PLAN_INCOMPLETE = "plan_incomplete"
    SCHEMA_MISMATCH = "schema_mismatch"
    CONTEXT_OVERFLOW = "context_overflow"
    GOAL_DRIFT = "goal_drift"
    EXTERNAL_FAULT = "external_fault"
    TIMEOUT = "timeout"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Step:
    """One step of an agent.

    Args:
        index: its position in the run.
        action: what it did, in the run's own words.
        error: the text of its error, ``None`` if it had none.
        exception_type: the class of the exception behind it, dotted or not.
        metadata: facts beyond the text; ``error_table.facts_of`` extracts them from an exception,
            and the gate adds ``type`` and ``refusal``.
        idempotent: repeating it has no further effect.
    """

    index: int
    action: str
    tool_called: str | None = None
    tool_input: Any = None
    tool_output: Any = None
    llm_output: str | None = None
    error: str | None = None
    exception_type: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    idempotent: bool = False


@dataclass(frozen=True)
class TriageContext:
    """The facts about a run besides its steps; unknown ones stay empty.

    Args:
        tools: the names that can be called.
        constraints: what the task forbids, in words.
        subgoals: the parts of the plan in order; ``done_subgoals`` are those that were checked.
        checkpoints: ids of the states whose checks passed, oldest first.
    """

    tools: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    subgoals: tuple[str, ...] = ()
    done_subgoals: frozenset[str] = frozenset()
    checkpoints: tuple[str, ...] = ()

    @property
    def open_subgoals(self) -> tuple[str, ...]:
        """The parts of the plan that were not checked, in order."""
        return tuple(goal for goal in self.subgoals if goal not in self.done_subgoals)


@dataclass(frozen=True)
class FailureContext:
    """The input of a strategy.

    Args:
        trajectory: the steps, oldest first.
        attempt_history: the earlier failures of this run, each with the recovery action that
            answered it, or ``None`` if unknown.
        raw_error: the exception or error text, if any.
        run: the facts about the run besides its steps.
    """

    failure_type: FailureType
    trajectory: Sequence[Step] = ()
    original_task: str = ""
    attempt_history: Sequence[tuple[FailureType, Any]] = ()
    raw_error: BaseException | str | None = None
    run: TriageContext = field(default_factory=TriageContext)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def last_step(self) -> Step | None:
        """The step that failed."""
        return self.trajectory[-1] if self.trajectory else None

    @property
    def failed_step(self) -> Step:
        """The step that failed, or an empty one if it is unknown."""
        return self.last_step or Step(0, "")

    @property
    def attempts(self) -> int:
        """The number of failures of this type that were handled before this one."""
        return sum(1 for kind, _ in self.attempt_history if kind == self.failure_type)


_Plain = str | int | float | bool | None
# Metadata keys of a failure: the write whose outcome is unknown, and the hash of the action that
# waits for approval.
EFFECT_KEY = "effect_key"
HELD = "approval"
# The metadata key of a remembered failure after which the run continued.
SOLVED = "solved"


class FailureKind(StrEnum):
    """What went wrong. A closed set of thirteen."""

    transient_provider = "transient_provider"
    output_truncated = "output_truncated"
    output_refused = "output_refused"
    ambiguous_input = "ambiguous_input"
    scope_too_large = "scope_too_large"
    capability_gap = "capability_gap"
    no_progress = "no_progress"
    loop_detected = "loop_detected"
    tool_error = "tool_error"
    policy_violation = "policy_violation"
    kernel_invalidated = "kernel_invalidated"
    iteration_limit = "iteration_limit"
    time_limit = "time_limit"


class Action(StrEnum):
    """The funnel's response to a failure. A closed set of five."""

    retry = "retry"
    narrow_scope = "narrow_scope"
    ask_user = "ask_user"
    handoff = "handoff"
    stop = "stop"


class RefusalError(StrEnum):
    """The five refusals, by their wire names: the ``error`` field of an envelope."""

    invalid_transition = "invalid_transition"
    unknown_action = "unknown_action"
    validation_failed = "validation_failed"
    action_timeout = "action_timeout"
    action_error = "action_error"


# They tell the model what to send instead, and are raised before the action's body runs; the other
# two report what happened while it ran.
GUIDANCE = frozenset(RefusalError) - {RefusalError.action_timeout, RefusalError.action_error}


class Effect(StrEnum):
    """What may already have happened outside when the failure was detected."""

    none = "none"
    uncertain = "uncertain"
    committed = "committed"


_DEFAULT_ACTIONS = {
    Action.retry: "transient_provider output_truncated tool_error",
    Action.ask_user: "ambiguous_input loop_detected iteration_limit time_limit",
    Action.narrow_scope: "scope_too_large no_progress kernel_invalidated",
    Action.handoff: "output_refused capability_gap policy_violation",
}


def default_action_for(kind: FailureKind) -> Action:
    """Return the response to ``kind`` if no policy overrides it."""
    name = FailureKind(kind).value
    return next(action for action, kinds in _DEFAULT_ACTIONS.items() if name in kinds.split())


@checked.dataclass(frozen=True, config=ConfigDict(arbitrary_types_allowed=True, extra="forbid"))
class Failure:
    """One classified failure, immutable and hashable.

    Equality and hash are over ``(kind, explanation, blockers)``: the memory of lessons drops
    duplicates by them, and what was measured along the way (``metadata``) must not keep two
    reports of the same failure apart.

    Args:
        kind: what went wrong.
        explanation: one sentence for a person.
        blockers: the concrete reasons why the run cannot go on; any iterable becomes a tuple.
        suggested_action: ``None`` becomes the default action of ``kind``.
        partial_data: what was obtained before the failure, if anything.
        metadata: measurements and, for the derived fields below, ``type``, ``refusal`` and
            ``effect``.
    """

    kind: FailureKind
    explanation: str
    blockers: tuple[str, ...] = ()
    suggested_action: Action | None = field(default=None, compare=False)
    partial_data: Any = field(default=None, compare=False)
    metadata: dict[str, Any] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if self.suggested_action is None:
            object.__setattr__(self, "suggested_action", default_action_for(self.kind))

    @property
    def type(self) -> FailureType:
        """Why it failed; ``UNKNOWN`` unless the code that detected it knew."""
        return FailureType(self.metadata.get("type", FailureType.UNKNOWN))

    @property
    def refusal(self) -> RefusalError | None:
        """The wire name, if the gate refused or reported the action."""
        name = self.metadata.get("refusal")
        return None if name is None else RefusalError(name)

    @property
    def effect(self) -> Effect:
        """What may already have happened outside."""
        return Effect(self.metadata.get("effect", Effect.none))

    def without_data(self) -> "Failure":
        """Return the failure as it is persisted: no partial data, and only plain metadata."""
        plain = {key: value for key, value in self.metadata.items() if isinstance(value, _Plain)}
        return replace(self, partial_data=None, metadata=plain)

    def noting(self, facts: Mapping[str, Any]) -> "Failure":
        """Return the same failure with ``facts`` added to its metadata."""
        return replace(self, metadata={**self.metadata, **facts})


class FailureRaised(Exception):
    """Wraps a ``Failure`` for code that can only raise."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.kind}: {failure.explanation}")
        self.failure = failure
