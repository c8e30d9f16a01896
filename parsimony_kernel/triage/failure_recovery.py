"""Adapter that uses a ``FailurePolicy`` as a ``RecoveryPolicy``.

Retry budgets stay the funnel's: a type of failure chooses the hint, never the number of attempts.
Types that the policy doesn't state fall back to the default policy.
"""

from dataclasses import dataclass

from parsimony_kernel.core.causes import is_for_a_person
from parsimony_kernel.core.conversation import request_in
from parsimony_kernel.core.kinds import Action, Failure
from parsimony_kernel.core.policy import DefaultPolicy
from parsimony_kernel.core.state import RunState
from parsimony_kernel.core.taxonomy import FailureContext, TriageContext
from parsimony_kernel.triage.classify import from_messages
from parsimony_kernel.triage.policy import ACTIONS, FailurePolicy, RecoveryAction


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


# Public alias.
policy_as_recovery = PolicyRecovery


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
