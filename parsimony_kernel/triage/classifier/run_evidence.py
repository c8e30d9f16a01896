"""What a run's own records prove about its end, without asking a model.

Each sign is a function of the trajectory and of what the run knows; without records none speaks.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

from parsimony_kernel.gate.claims import unobserved
from parsimony_kernel.gate.observation import Observation
from parsimony_kernel.triage.taxonomy import FailureType, Step, TriageContext

Sign = Callable[[Sequence[Step], TriageContext], bool]


def is_over_the_window(steps: Sequence[Step], run: TriageContext) -> bool:
    """The last request was longer than the model's context."""
    return (
        run.prompt_tokens is not None
        and run.context_window is not None
        and run.prompt_tokens > run.context_window
    )


def ended_with_open_subgoals(steps: Sequence[Step], run: TriageContext) -> bool:
    """The agent declared success and a part of the plan was never checked."""
    return bool(run.summary and run.open_subgoals)


def changed_an_identifier(steps: Sequence[Step], run: TriageContext) -> bool:
    """An argument of the task contract was always given another value, or its value stands in
    nothing that the agent did by the end."""
    given = [step.tool_input for step in steps if isinstance(step.tool_input, dict)]
    seen = "\n".join(_text(step.tool_input) + _text(step.llm_output) for step in steps)
    for name, wanted in run.identifiers.items():
        values = [str(each[name]) for each in given if name in each]
        if values and wanted not in values:
            return True
        if run.summary and wanted not in seen and wanted not in run.summary:
            return True
    return False


def claims_what_was_not_observed(steps: Sequence[Step], run: TriageContext) -> bool:
    """The summary names or counts something that nothing in the run showed."""
    if not run.summary or run.observed is None:
        return False
    seen = Observation(run.observed, run.names, published=run.published, ran=run.ran)
    return bool(unobserved(run.summary, seen))


SIGNS: tuple[tuple[FailureType, Sign], ...] = (
    (FailureType.CONTEXT_OVERFLOW, is_over_the_window),
    (FailureType.GOAL_DRIFT, changed_an_identifier),
    (FailureType.PLAN_INCOMPLETE, ended_with_open_subgoals),
    (FailureType.HALLUCINATED_STATE, claims_what_was_not_observed),
)


def proved(steps: Sequence[Step], run: TriageContext) -> FailureType | None:
    """The type that the run's records prove, the most basic first."""
    return next((kind for kind, sign in SIGNS if sign(steps, run)), None)


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)
