"""What a model is told when a failure is to be mended by its next step.

Text only, one per kind that is narrowed or retried with new information.
"""

from parsimony_kernel.core.causes import GOAL_DRIFT
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.core.taxonomy import FailureType

_NARROW = {
    FailureKind.no_progress: (
        "Your last answer had words but no tool call, so nothing happened. Choose one now: take "
        "the next step with a tool; call ask_user if you need to know something from the person; "
        "call return_done with a summary if the request is fulfilled; call return_unable with "
        "blockers if it cannot be."
    ),
    FailureKind.scope_too_large: (
        "That was too much at once ({explanation}). Pick the smallest next step that brings the "
        "request forward, do only that, and look at its result."
    ),
    FailureKind.kernel_invalidated: (
        "The state of the notebook was lost ({explanation}). Pick the smallest next step: load "
        "again only what the request still needs, and do not rely on earlier variables."
    ),
}

_RETRY = {
    FailureKind.output_truncated: (
        "Your last answer was cut off at the length limit and none of it was run. Answer again, "
        "shorter: one tool call with less code."
    ),
}


_CLAIMED = (
    "{explanation} Go back to the last step whose result you have seen: run the smallest code that "
    "shows what you want to say, or call return_done with only what was shown."
)
_TOLD = "{explanation}"
_SILENT = "Nothing came for a while ({explanation}). Take the smallest next step with a tool."


def narrowing(failure: Failure) -> str:
    """The corrective prompt that narrows the next step."""
    text = _NARROW.get(failure.kind)
    if failure.type is FailureType.HALLUCINATED_STATE:
        text = _CLAIMED
    elif failure.type is FailureType.PLAN_INCOMPLETE or GOAL_DRIFT.explains(failure):
        text = _TOLD
    elif "silence_s" in failure.metadata:
        text = _SILENT
    if text is None:
        return (
            f"The last step failed ({failure.explanation}). Pick the smallest next step that "
            "avoids this, or call ask_user or return_unable."
        )
    return text.format(explanation=failure.explanation)


def retry_note(failure: Failure) -> str | None:
    """What a retry should know, where the transcript does not say it already."""
    return _RETRY.get(failure.kind)
