"""Go back to a state whose checks passed."""

from parsimony_kernel.triage.actions import RecoveryAction, configurable
from parsimony_kernel.triage.strategies.replan import replan
from parsimony_kernel.triage.taxonomy import FailureContext


@configurable
async def rollback_to_checkpoint(
    context: FailureContext, checkpoint_id: str | None = None, *, max_attempts: int = 1
) -> RecoveryAction:
    """Back to ``checkpoint_id``, else to the newest state; another plan when there is none."""
    if context.attempts >= max_attempts:
        return RecoveryAction.ESCALATE(
            message=f"{context.failure_type.value} again after going back"
        )
    newest = context.run.checkpoints[-1] if context.run.checkpoints else None
    target = checkpoint_id or newest
    return await replan(context) if target is None else RecoveryAction.ROLLBACK(target)
