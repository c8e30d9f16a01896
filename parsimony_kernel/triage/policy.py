"""Recovery by type of failure: actions, strategies that choose an action, and policies.

``RecoveryAction.RETRY(hint=…)`` and its six siblings are frozen values; ``RecoveryAction.RETRY`` is
also their class, for ``isinstance`` and ``match``. A policy is a frozen value, too: one field per
type, each a strategy or ``None``. A type without a strategy falls back to ``default``, then to the
strategy of document 004.

``PolicyRecovery`` uses such a policy as the run's ``RecoveryPolicy``. Retry budgets stay the
funnel's: a type of failure chooses the hint, never the number of attempts. Types that the policy
doesn't state fall back to the default policy.
"""

import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from parsimony_kernel.core.causes import DefaultPolicy, is_for_a_person
from parsimony_kernel.core.conversation import request_in
from parsimony_kernel.core.fuzzy import nearest
from parsimony_kernel.core.kinds import Action, Failure, FailureContext, FailureType, TriageContext
from parsimony_kernel.core.state import RunState
from parsimony_kernel.core.text import encodable
from parsimony_kernel.triage.classify import from_messages
from parsimony_kernel.triage.taxonomy import column


@dataclass(frozen=True)
class RecoveryAction:
    """Base class of the seven recovery actions."""

    RETRY: ClassVar[type["Retry"]]
    REPLAN: ClassVar[type["Replan"]]
    ROLLBACK: ClassVar[type["Rollback"]]
    RESUME: ClassVar[type["Resume"]]
    ESCALATE: ClassVar[type["Escalate"]]
    SUSPEND: ClassVar[type["Suspend"]]
    ABORT: ClassVar[type["Abort"]]

    # The funnel's action that carries out this recovery.
    carried_out_by: ClassVar[Action]

    @property
    def name(self) -> str:
        """Name of the class attribute of ``RecoveryAction``, e.g. "RETRY"."""
        return type(self).__name__.upper()

    @property
    def words(self) -> str:
        """Message to the model or, if the action ends the run, to the person.

        Made encodable for the record, as its values come from a host.
        """
        said = vars(self)
        given = "; ".join(f"{name} = {value}" for name, value in (said.get("inject") or {}).items())
        goal = said.get("from_subgoal")
        parts = (
            *map(said.get, ("hint", "message", "reason")),
            given and f"Known: {given}.",
            goal and f"Go on from this part of the plan, which is open: {goal}.",
        )
        told: str = encodable(" ".join(map(str, filter(None, parts))))
        return told


@dataclass(frozen=True)
class Retry(RecoveryAction):
    """Retry the step after ``delay`` seconds, with ``hint`` and the values of ``inject``.

    Raises:
        ValueError: the delay is negative.
    """

    carried_out_by = Action.retry
    hint: str | None = None
    inject: Mapping[str, Any] | None = None
    delay: float = 0.0

    def __post_init__(self) -> None:
        if not self.delay >= 0:
            raise ValueError(f"a delay is 0 or more seconds, not {self.delay!r}")


@dataclass(frozen=True)
class Replan(RecoveryAction):
    """Try another way to the same goal, with ``hint``."""

    carried_out_by = Action.narrow_scope
    hint: str | None = None


@dataclass(frozen=True)
class Rollback(RecoveryAction):
    """Go back to a checkpoint, a state whose checks passed; ``None`` is the newest."""

    carried_out_by = Action.narrow_scope
    checkpoint_id: str | None = None


@dataclass(frozen=True)
class Resume(RecoveryAction):
    """Continue from an open part of the plan; ``None`` is the first."""

    carried_out_by = Action.narrow_scope
    from_subgoal: str | None = None


@dataclass(frozen=True)
class Escalate(RecoveryAction):
    """Hand the task to a person."""

    carried_out_by = Action.handoff
    message: str = ""


@dataclass(frozen=True)
class Suspend(RecoveryAction):
    """Ask a person and wait."""

    carried_out_by = Action.ask_user
    message: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Abort(RecoveryAction):
    """Stop, with the results so far."""

    carried_out_by = Action.stop
    reason: str = ""


ACTIONS: Mapping[str, type[RecoveryAction]] = {
    each.__name__.upper(): each
    for each in (Retry, Replan, Rollback, Resume, Escalate, Suspend, Abort)
}
for _name, _action in ACTIONS.items():
    setattr(RecoveryAction, _name, _action)

Strategy = Callable[[FailureContext], Awaitable[RecoveryAction]]


# Strategies: each escalates to a person after ``max_attempts``. Use ``functools.partial`` for other
# settings.


async def escalate(context: FailureContext, message: str = "") -> RecoveryAction:
    """Hand the task to a person, naming the last failure."""
    seen = _seen(context)
    told = f"{context.failure_type.value}: {seen}" if seen else context.failure_type.value
    return Escalate(message or told)


def _seen(context: FailureContext) -> BaseException | str | None:
    return context.raw_error or context.failed_step.error


async def retry_with_tool_manifest(
    context: FailureContext, tools: Iterable[str] = (), *, max_attempts: int = 2
) -> RecoveryAction:
    """Retry with a list of the tools and the one that was probably meant."""
    known = list(tools) or list(context.run.tools)
    if context.attempts >= max_attempts:
        return Escalate(f"a tool that does not exist was called {context.attempts + 1} times")
    called = context.failed_step.tool_called
    hint = f"There is no tool {called!r}." if called else "That tool does not exist."
    if called and (likely := nearest(called, known)) is not None:
        hint += f" Did you mean {likely!r}?"
    if known:
        hint += f" Tools: {', '.join(known)}."
    return Retry(hint=hint, inject={"tools": known} if known else None)


async def retry_with_schema_hint(
    context: FailureContext, *, max_attempts: int = 2
) -> RecoveryAction:
    """Retry with the validation error as a hint."""
    seen, called = _seen(context) or "no details were given", context.failed_step.tool_called
    if context.attempts >= max_attempts:
        return Escalate(f"the structure was wrong {context.attempts + 1} times: {seen}")
    where = f" of {called}" if called else ""
    return Retry(f"What was sent or returned{where} does not have the structure expected: {seen}")


async def backoff_and_retry(
    context: FailureContext,
    *,
    max_attempts: int = 3,
    min_wait_s: float = 1.0,
    max_wait_s: float = 30.0,
) -> RecoveryAction:
    """Retry with exponential back-off and jitter, at least after the service's ``Retry-After``.

    A step that timed out may have taken effect: unless it is idempotent, or is known to have had no
    effect, a person is asked.
    """
    step = context.failed_step
    facts: dict[str, Any] = {**step.metadata, **context.metadata}
    effect = facts.get("effect")
    is_open = context.failure_type is FailureType.TIMEOUT and effect != "none"
    if effect == "uncertain" or (is_open and not step.idempotent):
        return Suspend(
            message="The last action may have happened, or not. Check before it is done again.",
            metadata={"effect": "uncertain", "tool": step.tool_called},
        )
    if context.attempts >= max_attempts:
        return Escalate(f"the service failed {context.attempts + 1} times in a row")
    asked = facts.get("retry_after_s")
    # Starts at twice the minimum: otherwise the first wait would have no jitter.
    window = min(max_wait_s, 2 * min_wait_s * 2.0 ** min(context.attempts, 60))
    wait = random.uniform(min_wait_s, max(min_wait_s, window))
    return Retry(delay=max(wait, asked) if isinstance(asked, int | float) else wait)


_HINTS = column("replan")


async def replan(
    context: FailureContext, hint: str | None = None, *, max_attempts: int = 2
) -> RecoveryAction:
    """Make another plan, with a hint on what was wrong with the last one."""
    if context.attempts >= max_attempts:
        return Escalate(f"{context.failure_type.value} {context.attempts + 1} times")
    told = _HINTS.get(context.failure_type, _HINTS[FailureType.UNKNOWN]).format(
        rules="; ".join(context.run.constraints) or "what the task states",
        tool=context.failed_step.tool_called or "The tool",
        task=context.original_task,
        error=_seen(context) or "no details",
    )
    return Replan(hint or told)


async def resume_from_subgoal(
    context: FailureContext, subgoal: str | None = None, *, max_attempts: int = 2
) -> RecoveryAction:
    """Resume from ``subgoal``, else from the first open part of the plan."""
    if context.attempts >= max_attempts:
        return Escalate("the plan is still open: " + "; ".join(context.run.open_subgoals))
    first = next(iter(context.run.open_subgoals), None)
    return Resume(subgoal or first)


async def rollback_to_checkpoint(
    context: FailureContext, checkpoint_id: str | None = None, *, max_attempts: int = 1
) -> RecoveryAction:
    """Roll back to ``checkpoint_id``, else to the newest checkpoint; without one, replan."""
    if context.attempts >= max_attempts:
        return Escalate(f"{context.failure_type.value} again after going back")
    newest = context.run.checkpoints[-1] if context.run.checkpoints else None
    target = checkpoint_id or newest
    return await replan(context) if target is None else Rollback(target)


# Policies.

STRATEGIES: Mapping[str, Any] = {
    each.__name__: each
    for each in (
        *(backoff_and_retry, escalate, replan, resume_from_subgoal),
        *(retry_with_schema_hint, retry_with_tool_manifest, rollback_to_checkpoint),
    )
}


@dataclass(frozen=True)
class FailurePolicy:
    """One strategy per type of failure; ``default`` is for types without one."""

    WRONG_TOOL_CALLED: Strategy | None = None
    CONSTRAINT_IGNORED: Strategy | None = None
    LOOP_DETECTED: Strategy | None = None
    HALLUCINATED_STATE: Strategy | None = None
    PLAN_INCOMPLETE: Strategy | None = None
    SCHEMA_MISMATCH: Strategy | None = None
    CONTEXT_OVERFLOW: Strategy | None = None
    GOAL_DRIFT: Strategy | None = None
    EXTERNAL_FAULT: Strategy | None = None
    TIMEOUT: Strategy | None = None
    UNKNOWN: Strategy | None = None
    default: Strategy | None = None

    def stated(self, failure_type: FailureType) -> Strategy | None:
        """Return this policy's own strategy for a type: its field, else ``default``."""
        own: Strategy | None = getattr(self, FailureType(failure_type).name)
        return own or self.default

    def resolve(self, failure_type: FailureType) -> Strategy:
        """Return the strategy for a type; document 004's if the policy has none."""
        return self.stated(failure_type) or _DEFAULTS[FailureType(failure_type)]

    async def dispatch(self, context: FailureContext) -> RecoveryAction:
        """Run the strategy for the failure's type.

        If a host's strategy raises or returns no recovery action, the result is ``Escalate``: the
        failure must still reach a person.
        """
        kind = context.failure_type
        try:
            action = await self.resolve(kind)(context)
        except Exception as exc:  # boundary: tool - a host's function
            return Escalate(f"the strategy for {kind.name} failed: {type(exc).__name__}: {exc}")
        if isinstance(action, RecoveryAction):
            return action
        return Escalate(f"the strategy for {kind.name} gave {action!r}, which is no RecoveryAction")


async def _replan_then_roll_back(context: FailureContext) -> RecoveryAction:
    """Replan; if the loop continues after that, roll back to the newest checkpoint."""
    again = context.attempts > 0
    return await (rollback_to_checkpoint(context, max_attempts=2) if again else replan(context))


_NAMED = {**STRATEGIES, "replan_then_roll_back": _replan_then_roll_back}
# Document 004's strategy for each type, and for the deadline.
_DEFAULTS: Mapping[FailureType, Strategy] = {
    kind: _NAMED[column("strategy")[kind]] for kind in FailureType
}


@dataclass(frozen=True)
class PolicyRecovery(DefaultPolicy):
    """Recovery by ``policy``, with the default policy as the fallback.

    ``plan`` is for a funnel that can await a strategy and use its full answer; ``decide`` is the
    synchronous form.
    """

    policy: FailurePolicy

    def decide(self, failure: Failure, state: RunState) -> Action:
        """Return the action alone; the default policy's if the strategy would have to wait."""
        if is_for_a_person(failure):
            return super().decide(failure, state)
        planning = self.plan(failure, state)
        try:
            planning.send(None)
        except StopIteration as ended:
            return self.action_of(ended.value, failure, state)
        finally:
            planning.close()
        return super().decide(failure, state)

    async def plan(
        self, failure: Failure, state: RunState, run: TriageContext | None = None
    ) -> RecoveryAction | None:
        """Return the policy's plan for ``failure``; ``None`` if it states none for its type.

        The funnel doesn't call this for failures that only a person may answer.
        """
        if self.policy.stated(failure.type) is None:
            return None
        return await self.policy.dispatch(context_of(failure, state, run))

    def action_of(self, plan: RecoveryAction | None, failure: Failure, state: RunState) -> Action:
        """Return the action that carries out ``plan``; a handoff if its budget is used up."""
        if plan is None:
            return super().decide(failure, state)
        # A kind with no retries by default gets one if a strategy asks for it.
        return self._within_budget(plan.carried_out_by, failure.kind, state, fewest_retries=1)


def context_of(
    failure: Failure, state: RunState, run: TriageContext | None = None
) -> FailureContext:
    """Build a strategy's context from the state of a run.

    The history covers the failures in a row and restarts when a step succeeds. If a run has not
    recorded it, the number of failures of this kind replaces it, without actions.
    """
    prior = state.failure_attempts.get(failure.kind, 0)
    answered = [(each, _answer(name)) for each, name in state.recoveries]
    return FailureContext(
        failure_type=failure.type,
        trajectory=from_messages(state.messages),
        original_task=request_in(state.messages),
        attempt_history=tuple(answered) or ((failure.type, None),) * prior,
        raw_error=failure.explanation,
        run=run or TriageContext(constraints=tuple(state.pinned_constraints)),
        metadata={**failure.metadata, "effect": failure.effect.value},
    )


def _answer(name: str) -> RecoveryAction | None:
    """Return the recovery action of that name, or the first that maps to the funnel's action."""
    carried_out = (plan for plan in ACTIONS.values() if plan.carried_out_by.value == name)
    made_of = ACTIONS.get(name) or next(carried_out, None)
    return None if made_of is None else made_of()
