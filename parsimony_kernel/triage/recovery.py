"""A ``FailurePolicy`` in the place of the default ``RecoveryPolicy``.

Budgets stay the funnel's: a type chooses the hint, never how often something is tried. What the
policy does not state is answered by the ladder that it stands in for.
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
    """``policy``, and the default policy for what it does not state.

    ``plan`` is for a funnel that can wait for a strategy and use its whole answer; ``decide``
    serves one that cannot.
    """

    policy: FailurePolicy

    def decide(self, failure: Failure, state: RunState) -> Action:
        """The action without the plan; the default when the strategy has to wait for something."""
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
        """What the policy says about ``failure``; ``None`` when it states nothing of its type.

        The funnel does not ask where only a person may answer.
        """
        if self.policy.stated(failure.type) is None:
            return None
        return await self.policy.dispatch(context_of(failure, state, run))

    def action_of(self, plan: RecoveryAction | None, failure: Failure, state: RunState) -> Action:
        """The action that carries out ``plan``, within the budgets."""
        if plan is None:
            return super().decide(failure, state)
        action = plan.carried_out_by
        prior = state.failure_attempts.get(failure.kind, 0)
        allowed = {
            # A kind that is not retried by default may be retried once when a strategy knows how.
            Action.retry: max(1, self.retry_budget(failure.kind)),
            Action.narrow_scope: 1,
        }
        return Action.handoff if prior >= allowed.get(action, prior + 1) else action


# A ``FailurePolicy`` as a ``RecoveryPolicy``; the default policy answers what it does not state.
policy_as_recovery = PolicyRecovery


def context_of(
    failure: Failure, state: RunState, run: TriageContext | None = None
) -> FailureContext:
    """What a strategy is given, from what a run has.

    The history is that of the failures in a row: it begins anew when a step succeeds. Of a run
    that did not write it down, the counts by kind stand for it, with no action.
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
    """The plan of that name, or the one that an action without a plan carries out."""
    carried_out = (plan for plan in ACTIONS.values() if plan.carried_out_by.value == name)
    made_of = ACTIONS.get(name) or next(carried_out, None)
    return None if made_of is None else made_of()
