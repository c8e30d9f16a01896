"""What a person has to allow before it runs.

Allowed is exactly one action: its hash is sealed with the question and compared again when it
runs, and an action that was changed is asked about anew.
"""

import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from parsimony_kernel.agent.failure.kinds import Action, Failure, FailureKind
from parsimony_kernel.agent.failure.recovery import HELD
from parsimony_kernel.gate.effects import action_sha
from parsimony_kernel.gate.refusal import RefusalError
from parsimony_kernel.gate.stages import Attempt, Stage
from parsimony_kernel.tools import Tool
from parsimony_kernel.triage.taxonomy import FailureType

# The key of a failure's metadata that holds the hash of the action to be allowed.
APPROVAL = HELD
CHOICES = ("Run it", "Do not run it")


_YES = r"(?:yes|y|ok|okay|sure|ja|go ahead|go on)"
_ALLOWED = re.compile(
    rf"(?:{_YES}(?:[,.! ]+run it)?|run it)(?:[,.! ]+please)?[.! ]*", re.IGNORECASE
)


class Approval(StrEnum):
    """When a person is asked: never, where an action reaches outside, or before each."""

    auto = "auto"
    guarded = "guarded"
    always = "always"


def approves(reply: str) -> bool:
    """Whether the answer allows the action."""
    return _ALLOWED.fullmatch(reply.strip()) is not None


def approved(mode: Approval, reaches: Callable[[str], Sequence[str]]) -> Stage:
    """Code that reaches outside, and writes, wait for a person.

    ``reaches`` says of a cell, a sentence for each place, what it would do outside.
    """

    def stage(attempt: Attempt) -> Failure | None:
        if mode is Approval.auto:
            return None
        tool = attempt.tools[attempt.action]
        places = _places(tool, attempt, reaches)
        if not places and not (mode is Approval.always and _does_something(tool)):
            return None
        # With what it reaches now: a name in it may mean another file when it runs.
        sha = action_sha(attempt.action, {**attempt.inputs, "": places})
        return None if attempt.approved == sha else _ask(attempt, tool, places, sha)

    return stage


def _does_something(tool: Tool) -> bool:
    return tool.tool_type == "code" or tool.effect == "write"


def _places(
    tool: Tool, attempt: Attempt, reaches: Callable[[str], Sequence[str]]
) -> tuple[str, ...]:
    if tool.tool_type == "code":
        return tuple(reaches(str(attempt.inputs.get("code", ""))))
    return (f"{tool.name} writes outside the notebook",) if tool.effect == "write" else ()


def _ask(attempt: Attempt, tool: Tool, places: Sequence[str], sha: str) -> Failure:
    what = "this code" if tool.tool_type == "code" else attempt.action
    why = "; ".join(places) or "every step is to be allowed"
    details: Any = list(places)
    return Failure(
        FailureKind.policy_violation,
        f"{why[:1].upper()}{why[1:]}",
        suggested_action=Action.ask_user,
        metadata={
            "refusal": RefusalError.validation_failed,
            "type": FailureType.CONSTRAINT_IGNORED,
            "question": f"May {what} run?",
            "choices": list(CHOICES),
            APPROVAL: sha,
            "envelope": {"reason": "it waits for the person to allow it", "details": details},
        },
    )
