"""Why runs fail, and what answers a failure: the table of causes, and the policy.

The one table maps each cause to its kind, type, refusal and ladder. ``failure`` builds a failure
from its row and ``cause_of`` finds the row of a failure. ``has_open_type`` says whether a
classifier determines its type, and ``is_for_a_person``, by the ladder's first rung, whether no
strategy may answer it. The later rungs restate the budgets of ``DefaultPolicy``; tests keep the two
in step.

The table is values only: code that detects a failure builds it from its row and adds only the
explanation; the row has the meaning. The policy is pure: it reads the failure and the counts and
changes neither.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from parsimony_kernel.core.kinds import Action, Effect, Failure
from parsimony_kernel.core.kinds import FailureKind as Kind
from parsimony_kernel.core.kinds import FailureType as Type
from parsimony_kernel.core.kinds import RefusalError as Refusal
from parsimony_kernel.core.state import RunState


class Rung(StrEnum):
    """The response to one occurrence.

    ``refusal`` is the tool's own result, outside the funnel; ``fallback`` switches to the next
    model at once, if there is one; ``reconcile`` queries the source of truth, if the tool has one.
    The others are the funnel's actions.
    """

    refusal = "refusal"
    retry = "retry"
    fallback = "fallback"
    reconcile = "reconcile"
    narrow_scope = "narrow_scope"
    ask_user = "ask_user"
    handoff = "handoff"


@dataclass(frozen=True)
class Cause:
    """One way to fail, and its response.

    Args:
        name: the cause in words. Rows of one name differ in kind or effect.
        type: ``None`` if a classifier determines it from the error.
        refusal: ``None`` if no action is refused or reported.
        ladder: the shipped policy's response to each consecutive occurrence; the last ends the run.
            If the first asks, only a person may answer.
        effect: what may have happened outside; ``None`` if the ladder does not depend on it.
        signs: the metadata keys of a failure that distinguish this row from similar ones.
    """

    name: str
    kind: Kind
    type: Type | None
    refusal: Refusal | None
    ladder: tuple[Rung, ...]
    effect: Effect | None = None
    signs: tuple[str, ...] = ()

    def failure(
        self,
        explanation: str,
        *,
        blockers: Sequence[str] = (),
        action: Action | None = None,
        partial_data: Any = None,
        **metadata: Any,
    ) -> Failure:
        """Build a failure of this cause.

        Args:
            explanation: one sentence for a person.
            blockers: why the run cannot continue.
            action: the suggested action, if it is not the kind's default.
            partial_data: what was obtained before the failure.
            metadata: measurements, including the row's ``signs``; a ``type`` or ``effect`` here
                overrides the row's.
        """
        known = {"type": self.type, "refusal": self.refusal, "effect": self.effect}
        noted = {name: value for name, value in known.items() if value not in (None, Type.UNKNOWN)}
        noted |= metadata
        return Failure(self.kind, explanation, tuple(blockers), action, partial_data, noted)

    def explains(self, failure: Failure) -> bool:
        """Return whether ``failure`` matches everything that the row specifies."""
        return (
            failure.kind is self.kind
            and self.type in (None, failure.type)
            and failure.refusal is self.refusal
            and self.effect in (None, failure.effect)
            and all(sign in failure.metadata for sign in self.signs)
        )


_CORRECTED = (Rung.refusal, Rung.retry, Rung.handoff)
_RETRIED = (Rung.retry, Rung.retry, Rung.handoff)
_PROVIDER = (Rung.retry, Rung.retry, Rung.retry, Rung.fallback, Rung.handoff)
_LOOKED_UP = (Rung.reconcile, Rung.ask_user)
_OPEN_ENDED = (Rung.refusal, Rung.narrow_scope, Rung.handoff)
_NARROWED = (Rung.narrow_scope, Rung.handoff)
_ASKED = (Rung.ask_user,)
_HANDED_OVER = (Rung.handoff,)
_REFUSED = (Rung.refusal, Rung.handoff)

# A cause: its name; its kind, type, refusal and ladder.
# fmt: off
NOT_REGISTERED = Cause("name not registered",
    Kind.tool_error, Type.WRONG_TOOL_CALLED, Refusal.unknown_action, _CORRECTED)
NOT_REACHABLE = Cause("registered, not reachable now",
    Kind.tool_error, Type.WRONG_TOOL_CALLED, Refusal.invalid_transition, _CORRECTED)
BAD_ARGUMENTS = Cause("arguments break the schema",
    Kind.tool_error, Type.SCHEMA_MISMATCH, Refusal.validation_failed, _CORRECTED)
RULE_BROKEN = Cause("task contract or guard broken (keys of the task file)",
    Kind.policy_violation, Type.CONSTRAINT_IGNORED, Refusal.validation_failed, _REFUSED)
NOT_APPROVED = Cause("approval missing, stale, or its hash differs",
    Kind.policy_violation, Type.CONSTRAINT_IGNORED, Refusal.validation_failed, _ASKED,
    signs=("approval",))
LOOP = Cause("same call, same observation, again",
    Kind.loop_detected, Type.LOOP_DETECTED, Refusal.validation_failed, (Rung.refusal, *_ASKED))
PROVIDER_FAULT = Cause("provider 429, 5xx, network",
    Kind.transient_provider, Type.EXTERNAL_FAULT, None, _PROVIDER)
BREAKER_OPEN = Cause("breaker open",
    Kind.transient_provider, Type.EXTERNAL_FAULT, None, (Rung.fallback, Rung.handoff),
    signs=("breaker",))
LATE = Cause("tool past its deadline",
    Kind.tool_error, Type.TIMEOUT, Refusal.action_timeout, _RETRIED, effect=Effect.none)
LATE_UNCERTAIN = replace(LATE, ladder=_LOOKED_UP, effect=Effect.uncertain)
RAISED = Cause("tool body raised",
    Kind.tool_error, None, Refusal.action_error, _RETRIED, effect=Effect.none)
RAISED_UNCERTAIN = replace(RAISED, ladder=_LOOKED_UP, effect=Effect.uncertain)
RAISED_COMMITTED = replace(RAISED, ladder=_HANDED_OVER, effect=Effect.committed)
ANSWER_CUT_OFF = Cause("finish_reason length",
    Kind.output_truncated, Type.SCHEMA_MISMATCH, None, (Rung.retry, Rung.handoff))
ANSWER_REFUSED = Cause("content filter, refusal",
    Kind.output_refused, Type.CONSTRAINT_IGNORED, None, _HANDED_OVER)
CLAIM_UNOBSERVED = Cause(
    "the answer names something that does not exist, or a deed that the events contradict",
    Kind.no_progress, Type.HALLUCINATED_STATE, Refusal.validation_failed, (Rung.refusal,))
PLAN_OPEN = Cause("return_done with open sub-goals",
    Kind.no_progress, Type.PLAN_INCOMPLETE, Refusal.validation_failed, _OPEN_ENDED)
CONTEXT_EXCEEDED = Cause("context window exceeded",
    Kind.scope_too_large, Type.CONTEXT_OVERFLOW, None, _NARROWED)
GOAL_DRIFT = Cause("answer to another question than asked",
    Kind.scope_too_large, Type.GOAL_DRIFT, Refusal.validation_failed, _OPEN_ENDED)
STATE_LOST = Cause("executor or kernel lost its state",
    Kind.kernel_invalidated, Type.EXTERNAL_FAULT, None, _NARROWED, effect=Effect.none)
STATE_LOST_UNCERTAIN = replace(STATE_LOST, ladder=_ASKED, effect=Effect.uncertain)
AMBIGUOUS = Cause("several readings of the request, or a column that does not exist",
    Kind.ambiguous_input, Type.UNKNOWN, None, _ASKED)
CAPABILITY_GAP = Cause("no key, no connector, model unknown, package missing",
    Kind.capability_gap, Type.UNKNOWN, None, _HANDED_OVER)
STEPS_USED = Cause("steps, time",
    Kind.iteration_limit, Type.UNKNOWN, None, _ASKED)
TIME_USED = replace(STEPS_USED, kind=Kind.time_limit)
BUDGET_USED = Cause("tokens, cost",
    Kind.policy_violation, Type.UNKNOWN, None, _ASKED, signs=("guard",))
NO_CALL = Cause("words without a call, or silence",
    Kind.no_progress, Type.UNKNOWN, None, _NARROWED)
PROVIDER_SILENT = Cause("provider silent",
    Kind.transient_provider, Type.TIMEOUT, None, _PROVIDER)
TOOL_BREAKER_OPEN = Cause("breaker of a tool open",
    Kind.tool_error, Type.EXTERNAL_FAULT, Refusal.invalid_transition, _CORRECTED,
    signs=("breaker",))
GUARD_BROKEN = Cause("guard of the procedure raises",
    Kind.policy_violation, None, Refusal.validation_failed, _HANDED_OVER)
WRITE_UNRECORDED = Cause("record of a write fails",
    Kind.capability_gap, None, Refusal.action_error, _HANDED_OVER)
LIMIT_UNKEEPABLE = Cause("limit that cannot be kept",
    Kind.policy_violation, Type.UNKNOWN, None, _HANDED_OVER, signs=("guard", "remedy"))
RUN_BROKEN = Cause("the run itself breaks",
    Kind.tool_error, Type.UNKNOWN, None, _HANDED_OVER)
CHECK_BROKEN = Cause("a check of an action breaks",
    Kind.tool_error, None, Refusal.action_error, _HANDED_OVER, signs=("check",))
LOOP_AHEAD = Cause("same call, over and over, in one answer or without a check",
    Kind.loop_detected, Type.LOOP_DETECTED, None, _ASKED)
COLUMNS_NEAR = Cause("a column that does not exist, and several come near",
    Kind.ambiguous_input, Type.UNKNOWN, Refusal.validation_failed, _ASKED)
# fmt: on

# In table order.
CAUSES = tuple(each for each in list(globals().values()) if isinstance(each, Cause))


def cause_of(failure: Failure) -> Cause | None:
    """Return the most specific row that matches ``failure``; ``None`` if there is none."""
    rows = [cause for cause in CAUSES if cause.explains(failure)]
    return max(rows, key=_speciality, default=None)


def has_open_type(failure: Failure) -> bool:
    """Return whether a classifier may determine the type.

    It may if the type is unknown and the row does not fix it as unknown. An error built by a tool
    itself looks like one of the run's, and is classified.
    """
    row = cause_of(failure)
    is_open = row is None or row is RUN_BROKEN or row.type is None
    return is_open and failure.type is Type.UNKNOWN


def is_for_a_person(failure: Failure) -> bool:
    """Return whether only a person may answer: an approval, a limit, a question, an unknown effect.

    Its ladder starts with the question, after the source of truth was queried if there is one; a
    limit that cannot be enforced is reported without one.
    """
    cause = cause_of(failure)
    if cause is None or cause is LIMIT_UNKEEPABLE:
        return cause is not None
    first = next(rung for rung in cause.ladder if rung is not Rung.reconcile)
    return first is Rung.ask_user


def _speciality(cause: Cause) -> tuple[int, bool, bool]:
    return len(cause.signs), cause.type is not None, cause.effect is not None


MAX_BACKOFF_S = 30.0

_RETRIES = {Kind.transient_provider: 3, Kind.tool_error: 2, Kind.output_truncated: 1}


@runtime_checkable
class RecoveryPolicy(Protocol):
    """The protocol of a recovery policy, which a host may replace."""

    def retry_budget(self, kind: Kind) -> int:
        """Return the number of consecutive retries for ``kind``."""

    def backoff(self, kind: Kind, attempt: int) -> float:
        """Return the seconds to wait before retry number ``attempt``, counted from 0."""

    def decide(self, failure: Failure, state: RunState) -> Action:
        """Return the action, given the counts before this failure."""


class DefaultPolicy:
    """The default ladder: retry within a budget, narrow once, then ask a person."""

    def retry_budget(self, kind: Kind) -> int:
        return _RETRIES.get(kind, 0)

    def backoff(self, kind: Kind, attempt: int) -> float:
        if kind is not Kind.transient_provider:
            return 0.0
        return float(min(2.0 ** min(attempt, 16), MAX_BACKOFF_S))

    def decide(self, failure: Failure, state: RunState) -> Action:
        action = failure.suggested_action
        assert action is not None  # a Failure always has one after construction
        return self._within_budget(action, failure.kind, state)

    def _within_budget(
        self, action: Action, kind: Kind, state: RunState, *, fewest_retries: int = 0
    ) -> Action:
        """Return ``action``, or a handoff if its budget is used up."""
        if action not in (Action.retry, Action.narrow_scope):
            return action
        most = 1 if action is Action.narrow_scope else max(self.retry_budget(kind), fewest_retries)
        return Action.handoff if state.failure_attempts.get(kind, 0) >= most else action
