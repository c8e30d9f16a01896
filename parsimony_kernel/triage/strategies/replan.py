"""Go another way, or on from where the plan is open."""

from parsimony_kernel.triage.actions import RecoveryAction, configurable
from parsimony_kernel.triage.taxonomy import FailureContext, FailureType

_HINTS = {
    FailureType.CONSTRAINT_IGNORED: "A constraint of the task was broken. Keep to: {rules}.",
    FailureType.LOOP_DETECTED: (
        "{tool} was called again with the same input and gave the same. What it says is known by "
        "now: use it, or take another way."
    ),
    FailureType.CONTEXT_OVERFLOW: (
        "The context is too long. Go on from the checked facts and the open work alone. "
        "The task: {task}"
    ),
    FailureType.GOAL_DRIFT: "The work has left the task. The task is: {task}",
    FailureType.HALLUCINATED_STATE: (
        "Something was asserted that no tool's output shows. Observe it, or leave it out."
    ),
}
_OTHERWISE = "The last way failed ({error}). Take another one to the same goal."


@configurable
async def replan(
    context: FailureContext, hint: str | None = None, *, max_attempts: int = 2
) -> RecoveryAction:
    """Another plan, knowing what was wrong with the last one."""
    if context.attempts >= max_attempts:
        return RecoveryAction.ESCALATE(
            message=f"{context.failure_type.value} {context.attempts + 1} times"
        )
    step = context.last_step
    text = hint or _HINTS.get(context.failure_type, _OTHERWISE)
    return RecoveryAction.REPLAN(
        hint=text
        if hint
        else text.format(
            rules="; ".join(context.run.constraints) or "what the task states",
            tool=(step.tool_called if step else None) or "The tool",
            task=context.original_task,
            error=context.raw_error or (step.error if step else None) or "no details",
        )
    )


@configurable
async def resume_from_subgoal(
    context: FailureContext, subgoal: str | None = None, *, max_attempts: int = 2
) -> RecoveryAction:
    """On from ``subgoal``, else from the first part of the plan that is open."""
    if context.attempts >= max_attempts:
        return RecoveryAction.ESCALATE(
            message="the plan is still open: " + "; ".join(context.run.open_subgoals)
        )
    first = next(iter(context.run.open_subgoals), None)
    return RecoveryAction.RESUME(from_subgoal=subgoal or first)
