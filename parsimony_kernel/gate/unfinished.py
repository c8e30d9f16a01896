"""A run does not end as done while its plan is open, or with an answer to another question."""

from collections.abc import Callable, Sequence

from parsimony_kernel.core.causes import GOAL_DRIFT, PLAN_OPEN
from parsimony_kernel.core.contract import ActionContract
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.core.taxonomy import Step, TriageContext
from parsimony_kernel.gate.stages import Attempt, Stage
from parsimony_kernel.triage.classify import changed_an_identifier

DONE = "return_done"


def nothing_open(open_parts: Callable[[], Sequence[str]]) -> Stage:
    """A stage that refuses ``return_done`` while ``open_parts`` has any, naming the first."""

    def stage(attempt: Attempt) -> Failure | None:
        waiting = tuple(open_parts()) if attempt.action == DONE else ()
        if not waiting:
            return None
        reason = f"the plan is open: {'; '.join(waiting)}"
        return PLAN_OPEN.failure(
            f"The run has not ended, for {reason}. Go on with {waiting[0]!r}; call plan again "
            "with what is done, or without a part that is not needed any more.",
            tool_name=DONE,
            envelope={"reason": reason, "details": {"open": list(waiting)}},
        )

    return stage


def about_the_goal(
    contract: ActionContract | None, made: Callable[[], Sequence[Step]]
) -> tuple[Stage, ...]:
    """A stage that refuses ``return_done`` when the run was about something else than the
    identifiers of ``contract``; none where there are no identifiers.

    ``made`` gives the steps of the run so far.
    """
    # Those that are texts or numbers: they are written one way only.
    kept = {
        name: str(value)
        for name, value in ({} if contract is None else contract.identifiers).items()
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    }
    goal = ", ".join(f"{name}={value!r}" for name, value in kept.items())
    reason = f"the answer is to another question than was asked, which is about {goal}"

    def stage(attempt: Attempt) -> Failure | None:
        summary = attempt.inputs.get("summary")
        if attempt.action != DONE or not isinstance(summary, str):
            return None
        if not changed_an_identifier(made(), TriageContext(summary=summary, identifiers=kept)):
            return None
        return GOAL_DRIFT.failure(
            f"The run has not ended, for {reason}. Do what was asked with {goal}, and name it in "
            "the summary; or call return_unable with what stands in the way.",
            tool_name=DONE,
            envelope={"reason": reason, "details": {"identifiers": kept}},
        )

    return (stage,) if kept else ()
