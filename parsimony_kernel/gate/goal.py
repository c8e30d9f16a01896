"""A run does not end as done with an answer to another question than was asked."""

from collections.abc import Callable, Mapping, Sequence

from parsimony_kernel.core.causes import GOAL_DRIFT
from parsimony_kernel.core.contract import ActionContract
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.core.taxonomy import Step, TriageContext
from parsimony_kernel.gate.open_parts import DONE
from parsimony_kernel.gate.stages import Attempt, Stage
from parsimony_kernel.triage.classify import changed_an_identifier


def about_the_goal(
    contract: ActionContract | None, made: Callable[[], Sequence[Step]]
) -> tuple[Stage, ...]:
    """A stage that refuses ``return_done`` when the run was about something else than the
    identifiers of ``contract``; none where there are no identifiers.

    ``made`` gives the steps of the run so far.
    """
    kept = {} if contract is None else _identifiers(contract)
    if not kept:
        return ()

    def stage(attempt: Attempt) -> Failure | None:
        summary = attempt.inputs.get("summary")
        if attempt.action != DONE or not isinstance(summary, str):
            return None
        run = TriageContext(summary=summary, identifiers=kept)
        return _refusal(kept) if changed_an_identifier(made(), run) else None

    return (stage,)


def _identifiers(contract: ActionContract) -> dict[str, str]:
    """Those that are texts or numbers: they are written one way only."""
    return {
        name: str(value)
        for name, value in contract.identifiers.items()
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    }


def _refusal(kept: Mapping[str, str]) -> Failure:
    goal = ", ".join(f"{name}={value!r}" for name, value in kept.items())
    reason = f"the answer is to another question than was asked, which is about {goal}"
    return GOAL_DRIFT.failure(
        f"The run has not ended, for {reason}. Do what was asked with {goal}, and name it in the "
        "summary; or call return_unable with what stands in the way.",
        tool_name=DONE,
        envelope={"reason": reason, "details": {"identifiers": dict(kept)}},
    )
