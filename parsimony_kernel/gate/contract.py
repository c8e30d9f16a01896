"""What a task allows, checked against each action that is proposed for it.

Deterministic, and the last word: a critic is asked only about an action that keeps the contract,
and what it says is a remark.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from parsimony_kernel.agent.failure.kinds import Failure, FailureKind
from parsimony_kernel.gate.refusal import RefusalError
from parsimony_kernel.gate.stages import Attempt, Stage
from parsimony_kernel.triage.taxonomy import FailureType

ADMITTED = "admitted"
TOOLS_BY_INTENT: Mapping[str, Collection[str]] = {"lookup_order": ("query_db",)}

Critic = Callable[[str, Mapping[str, Any]], str]


class ActionMismatch(Exception):
    """The action breaks the contract of its task."""


@dataclass(frozen=True)
class ActionContract:
    """What a task allows.

    Args:
        allowed_tools: the tools that may be called at all.
        serving_tools: those of them that serve the task's intent; ``None`` when all do.
        identifiers: what the task is about, such as ``{"order_id": "A102"}``. An action carries
            the first of them, under its name or as ``id``, and contradicts none of the others.
    """

    allowed_tools: frozenset[str]
    serving_tools: frozenset[str] | None = None
    identifiers: Mapping[str, object] = field(default_factory=dict)

    def violation(self, tool_name: str, tool_args: Mapping[str, Any]) -> str | None:
        """What the action breaks, in a few words: the tool, the intent, then the identifiers."""
        if tool_name not in self.allowed_tools:
            return "tool not allowed"
        if self.serving_tools is not None and tool_name not in self.serving_tools:
            return "tool does not match intent"
        for position, (name, value) in enumerate(self.identifiers.items()):
            spellings = (name, "id") if position == 0 else (name,)
            told = [tool_args[each] for each in spellings if each in tool_args]
            if (position == 0 and not told) or any(each != value for each in told):
                return f"{_in_words(name)} changed"
        return None


@dataclass(frozen=True)
class Review:
    """``verdict`` is ``admitted`` or the violation; ``remark`` is the critic's, who is not asked
    about a violation and cannot lift one."""

    verdict: str
    remark: str = ""

    @property
    def is_admitted(self) -> bool:
        return self.verdict == ADMITTED


def review(
    contract: ActionContract,
    tool_name: str,
    tool_args: Mapping[str, Any],
    critic: Critic | None = None,
) -> Review:
    """The contract's verdict on an action, and a critic's remark beside it."""
    broken = contract.violation(tool_name, tool_args)
    if broken is not None:
        return Review(broken)
    return Review(ADMITTED, critic(tool_name, tool_args) if critic is not None else "")


def validate_action_contract(
    task_contract: Mapping[str, object],
    tool_name: str,
    tool_args: Mapping[str, Any],
    allowed_tools: Collection[str],
    *,
    tools_by_intent: Mapping[str, Collection[str]] = TOOLS_BY_INTENT,
) -> str:
    """``"admitted"``, or ``ActionMismatch`` with what is wrong.

    Args:
        task_contract: ``intent`` and the identifiers of the task, whose names end in ``_id``.
        tools_by_intent: which tools serve an intent; one that is not named asks for none.
    """
    serving = tools_by_intent.get(str(task_contract.get("intent")))
    contract = ActionContract(
        frozenset(allowed_tools),
        None if serving is None else frozenset(serving),
        {name: value for name, value in task_contract.items() if name.endswith("_id")},
    )
    broken = contract.violation(tool_name, tool_args)
    if broken is not None:
        raise ActionMismatch(broken)
    return ADMITTED


def within_contract(contract: ActionContract) -> Stage:
    """A stage that refuses what breaks ``contract``. A tool that ends or suspends the run passes:
    there must be a way out."""

    def stage(attempt: Attempt) -> Failure | None:
        if attempt.tools[attempt.action].terminal:
            return None
        broken = contract.violation(attempt.action, attempt.inputs)
        return None if broken is None else _refusal(contract, attempt.action, broken)

    return stage


def _refusal(contract: ActionContract, action: str, broken: str) -> Failure:
    serving = contract.allowed_tools
    if contract.serving_tools is not None:
        serving &= contract.serving_tools
    kept = ", ".join(f"{name}={value!r}" for name, value in contract.identifiers.items())
    return Failure(
        FailureKind.policy_violation,
        f"{action} breaks the contract of this task: {broken}. Nothing was run. The task allows: "
        f"{', '.join(sorted(serving)) or 'no tool'}{f', with {kept}' if kept else ''}.",
        metadata={
            "refusal": RefusalError.validation_failed,
            "type": FailureType.CONSTRAINT_IGNORED,
            "tool_name": action,
            "envelope": {
                "reason": broken,
                "details": {
                    "allowed_tools": sorted(serving),
                    "identifiers": dict(contract.identifiers),
                },
            },
        },
    )


def _in_words(name: str) -> str:
    stem = name.removesuffix("_id")
    return f"{stem.replace('_', ' ')} ID" if stem != name else name
