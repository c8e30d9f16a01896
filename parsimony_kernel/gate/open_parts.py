"""A run does not end as done while a part of its plan is open."""

from collections.abc import Callable, Sequence

from parsimony_kernel.core.causes import PLAN_OPEN
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.gate.stages import Attempt, Stage

DONE = "return_done"


def nothing_open(open_parts: Callable[[], Sequence[str]]) -> Stage:
    """A stage that refuses ``return_done`` while ``open_parts`` has any, naming the first."""

    def stage(attempt: Attempt) -> Failure | None:
        if attempt.action != DONE:
            return None
        waiting = tuple(open_parts())
        if not waiting:
            return None
        reason = f"the plan is open: {'; '.join(waiting)}"
        return PLAN_OPEN.failure(
            f"The run has not ended, for {reason}. Go on with {waiting[0]!r}; call plan again "
            "with what is done, or without a part that is not needed any more.",
            tool_name=attempt.action,
            envelope={"reason": reason, "details": {"open": list(waiting)}},
        )

    return stage
