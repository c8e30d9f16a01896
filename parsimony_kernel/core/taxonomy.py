"""The names of causes, and the context in which a cause is diagnosed.

Values only. The order and the strings of ``FailureType`` are stable, since journals contain them.
New members go before ``UNKNOWN``, which stays last.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


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
        metadata: facts beyond the text; ``evidence.facts_of`` extracts them from an exception, and
            the gate adds ``type`` and ``refusal``.
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
    def attempts(self) -> int:
        """The number of failures of this type that were handled before this one."""
        return sum(1 for kind, _ in self.attempt_history if kind == self.failure_type)
