"""What a person has to allow before it runs.

Allowed is exactly one action: its hash is sealed with the question and compared again when it
runs, and an action that was changed is asked about anew.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

from parsimony_kernel.core.causes import NOT_APPROVED
from parsimony_kernel.core.choices import APPROVAL
from parsimony_kernel.core.effects import action_sha, is_sensitive
from parsimony_kernel.core.kinds import HELD, Action, Failure
from parsimony_kernel.core.reach import ACTING, Reach, ReachKind
from parsimony_kernel.gate.inputs import inputs_of
from parsimony_kernel.gate.stages import Attempt, Stage
from parsimony_kernel.tools import Tool


class Approval(StrEnum):
    """When a person is asked: never, where an action reaches outside, or before each.

    Before each that may change something: only a tool that says that it changes nothing, and one
    that ends or suspends the run, are not asked about. What forgets the person's variables is
    asked about in every mode.
    """

    auto = "auto"
    guarded = "guarded"
    always = "always"


def approved(mode: Approval, reaches: Callable[[str], Sequence[Reach | str]]) -> Stage:
    """Code that reaches outside, writes, and calls that say that they reach wait for a person.

    So does a function that is called after something grave and does not say what it does. A write
    that is on record does not run, and nobody is asked about it.

    Args:
        reaches: says of a cell what it would do outside, each place as it was screened or in a
            sentence. Whatever does more than read is noted in the attempt, in every mode.
    """

    def stage(attempt: Attempt) -> Failure | None:
        tool = attempt.tools[attempt.action]
        found = _found(tool, attempt, reaches)
        attempt.outside.extend(_said(each) for each in found if _acts(each))
        places = (*map(_said, found), *_of_tool(tool))
        asks = tool.asks or any(map(_forgets, found))
        if attempt.recorded or (mode is Approval.auto and not asks):
            return None
        if not places and not (mode is Approval.always and _does_something(tool)):
            return None
        # With what it reaches now: a name in it may mean another file when it runs.
        sha = action_sha(attempt.action, {**inputs_of(tool, attempt.inputs), "": places})
        return None if attempt.approved == sha else _ask(attempt, tool, places, sha)

    return stage


def _does_something(tool: Tool) -> bool:
    if tool.tool_type == "code":
        return True
    return tool.effect != "none" and not tool.terminal and tool.tool_type != "termination"


def _found(
    tool: Tool, attempt: Attempt, reaches: Callable[[str], Sequence[Reach | str]]
) -> Sequence[Reach | str]:
    """What this call would do outside."""
    if tool.tool_type == "code":
        return reaches(str(attempt.inputs.get("code", "")))
    return () if tool.reaches is None else tuple(tool.reaches(attempt.inputs))


def _of_tool(tool: Tool) -> tuple[str, ...]:
    """What every call of it would do, as the tool says or does not say."""
    if tool.tool_type == "code":
        return ()
    if tool.asks:
        return (f"{tool.name}: {tool.description.partition('.')[0].lower()}",)
    if tool.effect == "write":
        return (f"{tool.name} writes outside the notebook",)
    if tool.tool_type == "function" and not _says_what_it_does(tool) and is_sensitive(tool.name):
        return (
            f"{tool.name} sounds as if it changed something outside, and does not say what it does",
        )
    return ()


def _says_what_it_does(tool: Tool) -> bool:
    return tool.effect is not None or tool.idempotent


def _said(reach: Reach | str) -> str:
    return reach if isinstance(reach, str) else reach.sentence


def _acts(reach: Reach | str) -> bool:
    return isinstance(reach, str) or reach.kind in ACTING


def _forgets(reach: Reach | str) -> bool:
    return not isinstance(reach, str) and reach.kind is ReachKind.forgetting


def _ask(attempt: Attempt, tool: Tool, places: Sequence[str], sha: str) -> Failure:
    what = "this code" if tool.tool_type == "code" else attempt.action
    why = "; ".join(places) or "every step is to be allowed"
    details: Any = list(places)
    return NOT_APPROVED.failure(
        f"{why[:1].upper()}{why[1:]}",
        action=Action.ask_user,
        question=f"May {what} run?",
        choices=APPROVAL,
        envelope={"reason": "it waits for the person to allow it", "details": details},
        **{HELD: sha},
    )
