"""Hand over to a person."""

from parsimony_kernel.triage.actions import RecoveryAction, configurable
from parsimony_kernel.triage.taxonomy import FailureContext


@configurable
async def escalate(context: FailureContext, message: str = "") -> RecoveryAction:
    """Hand the task over, saying what failed last."""
    step = context.last_step
    seen = context.raw_error or (step.error if step else None)
    told = f"{context.failure_type.value}: {seen}" if seen else context.failure_type.value
    return RecoveryAction.ESCALATE(message=message or told)
