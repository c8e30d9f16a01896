"""Try again, knowing something new. Past ``max_attempts`` a person is called."""

from collections.abc import Iterable
from typing import Any

from tenacity import RetryCallState, Retrying, wait_random_exponential

from parsimony_kernel.gate.stages import nearest
from parsimony_kernel.triage.actions import RecoveryAction, configurable
from parsimony_kernel.triage.taxonomy import FailureContext, FailureType

MIN_WAIT_S = 1.0
MAX_WAIT_S = 30.0


@configurable
async def retry_with_tool_manifest(
    context: FailureContext, tools: Iterable[str] = (), *, max_attempts: int = 2
) -> RecoveryAction:
    """Again, knowing which tools there are and which was probably meant."""
    known = list(tools) or list(context.run.tools)
    if context.attempts >= max_attempts:
        return RecoveryAction.ESCALATE(
            message=f"a tool that does not exist was called {context.attempts + 1} times"
        )
    step = context.last_step
    called = step.tool_called if step else None
    hint = f"There is no tool {called!r}." if called else "That tool does not exist."
    if called and (likely := nearest(called, known)) is not None:
        hint += f" Did you mean {likely!r}?"
    if known:
        hint += f" Tools: {', '.join(known)}."
    return RecoveryAction.RETRY(hint=hint, inject={"tools": known} if known else None)


@configurable
async def retry_with_schema_hint(
    context: FailureContext, *, max_attempts: int = 2
) -> RecoveryAction:
    """Again, knowing what did not fit."""
    step = context.last_step
    seen = context.raw_error or (step.error if step else None) or "no details were given"
    if context.attempts >= max_attempts:
        return RecoveryAction.ESCALATE(
            message=f"the structure was wrong {context.attempts + 1} times: {seen}"
        )
    where = f" of {step.tool_called}" if step and step.tool_called else ""
    return RecoveryAction.RETRY(
        hint=f"What was sent or returned{where} does not have the structure expected: {seen}"
    )


@configurable
async def backoff_and_retry(
    context: FailureContext,
    *,
    max_attempts: int = 3,
    min_wait_s: float = MIN_WAIT_S,
    max_wait_s: float = MAX_WAIT_S,
) -> RecoveryAction:
    """Again after a wait that grows and is random; what the service asks for is the least.

    What ran past its deadline may have happened: unless doing it twice is the same as once, or it
    is known to have had no effect, a person is asked.
    """
    step = context.last_step
    facts: dict[str, Any] = {**(step.metadata if step else {}), **context.metadata}
    effect = facts.get("effect")
    is_open = context.failure_type is FailureType.TIMEOUT and effect != "none"
    if effect == "uncertain" or (is_open and not (step and step.idempotent)):
        return RecoveryAction.SUSPEND(
            message="The last action may have happened, or not. Check before it is done again.",
            metadata={"effect": "uncertain", "tool": step.tool_called if step else None},
        )
    if context.attempts >= max_attempts:
        return RecoveryAction.ESCALATE(
            message=f"the service failed {context.attempts + 1} times in a row"
        )
    asked = facts.get("retry_after_s")
    wait = _wait(context.attempts + 1, min_wait_s, max_wait_s)
    return RecoveryAction.RETRY(delay=max(wait, asked) if isinstance(asked, int | float) else wait)


def _wait(attempt: int, least_s: float, most_s: float) -> float:
    # Twice the least to begin with: a first window of one point would have no jitter.
    wait = wait_random_exponential(multiplier=2 * least_s, max=most_s, min=least_s)
    state = RetryCallState(Retrying(), None, (), {})
    state.attempt_number = attempt
    return wait(state)
