"""The names of causes, and what is known when one is looked for.

Values only. The order and the strings of ``FailureType`` are stable: they stand in journals. New
members go before ``UNKNOWN``, which stays last.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class FailureType(StrEnum):
    """Why something failed, hence which hint helps. One per failure."""

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
        index: its place in the run.
        action: what it did, in the run's own words.
        error: the text of what went wrong, ``None`` when nothing did.
        exception_type: the class of the exception behind it, dotted or not.
        metadata: what is known beyond the text; ``evidence.facts_of`` makes it from an
            exception, and the gate's ``type`` and ``refusal`` stand here.
        idempotent: doing it twice is the same as doing it once.
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
    """What a run knows besides its steps. Whatever it cannot tell stays empty.

    Args:
        tools: the names that can be called.
        constraints: what the task forbids, in words.
        subgoals: the parts of the plan in order; ``done_subgoals`` are those that were checked.
        summary: what the agent said in the end; empty while it has not ended.
        unobserved: whether a summary says something that nothing in the run showed, where that
            can be told.
        identifiers: the task contract's values by argument name, such as ``order_id: A102``.
        prompt_tokens: the size of the last request, and ``context_window`` its limit.
        checkpoints: ids of the states whose checks passed, oldest first.
    """

    tools: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    subgoals: tuple[str, ...] = ()
    done_subgoals: frozenset[str] = frozenset()
    summary: str = ""
    unobserved: Callable[[str], bool] | None = None
    identifiers: Mapping[str, str] = field(default_factory=dict)
    prompt_tokens: int | None = None
    context_window: int | None = None
    checkpoints: tuple[str, ...] = ()

    @property
    def open_subgoals(self) -> tuple[str, ...]:
        """The parts of the plan that were not checked, in order."""
        return tuple(goal for goal in self.subgoals if goal not in self.done_subgoals)


@dataclass(frozen=True)
class FailureContext:
    """What a strategy is given.

    Args:
        trajectory: the steps, oldest first.
        attempt_history: the failures of this run before this one, each with the recovery action
            that answered it, or ``None`` where that is not known.
        raw_error: the exception or the text that was seen, if any.
        run: what the run knows besides its steps.
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
        """How many failures of this type were answered before this one."""
        return sum(1 for kind, _ in self.attempt_history if kind == self.failure_type)
