"""Why runs fail: the one table that joins a kind with its type, its refusal and its ladder.

The table decides what a failure is made of, by ``failure``, which row a failure has, by
``cause_of``, whether a classifier is asked for its type, by ``has_open_type``, and, by the first
rung, what no strategy may answer, by ``is_for_a_person``. The further rungs say what the budgets
of ``DefaultPolicy`` come to; tests hold the two together.

Values only. Whatever finds a failure makes it of its row; the row knows what it means, the place
that found it only what to say.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from parsimony_kernel.core.kinds import Action, Effect, Failure
from parsimony_kernel.core.kinds import FailureKind as Kind
from parsimony_kernel.core.refusals import RefusalError as Refusal
from parsimony_kernel.core.taxonomy import FailureType as Type


class Rung(StrEnum):
    """What is done about one occurrence.

    A ``refusal`` is the tool's own answer, outside the funnel; ``fallback`` is the next model at
    once, where there is one; ``reconcile`` asks the source of truth, where the tool knows one. The
    rest are the funnel's actions.
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
    """One way to fail, and what is done about it.

    Args:
        name: the cause in words. Rows of one name differ in kind or effect.
        type: ``None`` where a classifier tells it from the error.
        refusal: ``None`` where no action is refused or reported.
        ladder: what the shipped policy does, one rung for each occurrence in a row; the last ends
            the run. Where it begins with a question, nothing but the person answers.
        effect: what may have happened outside; ``None`` where the ladder does not depend on it.
        signs: the keys of a failure's metadata that tell the row from those that are like it.
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
        """A failure of this cause.

        ``metadata`` holds what was measured, the row's ``signs`` among it; a ``type`` or an
        ``effect`` in it stands in the place of the row's. ``action`` is what is suggested,
        where that is not what the kind alone says.
        """
        known = {"type": self.type, "refusal": self.refusal, "effect": self.effect}
        noted = {
            name: value
            for name, value in known.items()
            if value is not None and value is not Type.UNKNOWN
        }
        return Failure(
            self.kind, explanation, tuple(blockers), action, partial_data, {**noted, **metadata}
        )

    def explains(self, failure: Failure) -> bool:
        """Whether ``failure`` has everything that the row names."""
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

# In the order in which they stand above.
CAUSES = tuple(each for each in list(globals().values()) if isinstance(each, Cause))


def cause_of(failure: Failure) -> Cause | None:
    """The row of ``failure``, the most special of several; ``None`` when there is none."""
    rows = [cause for cause in CAUSES if cause.explains(failure)]
    return max(rows, key=_speciality, default=None)


def has_open_type(failure: Failure) -> bool:
    """Whether a classifier may tell the type: it is not known, and the row does not say that it
    stays so. The error that a tool makes itself looks like one of the run, and is told."""
    row = cause_of(failure)
    is_open = row is None or row is RUN_BROKEN or row.type is None
    return is_open and failure.type is Type.UNKNOWN


def is_for_a_person(failure: Failure) -> bool:
    """Whether only a person may answer: an approval, a limit, a question, an uncertain effect.

    Its ladder begins with the question, once the source of truth was asked where there is one; a
    limit that cannot be kept is told without one.
    """
    cause = cause_of(failure)
    if cause is None or cause is LIMIT_UNKEEPABLE:
        return cause is not None
    first = next(rung for rung in cause.ladder if rung is not Rung.reconcile)
    return first is Rung.ask_user


def _speciality(cause: Cause) -> tuple[int, bool, bool]:
    return len(cause.signs), cause.type is not None, cause.effect is not None
