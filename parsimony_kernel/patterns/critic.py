"""A contract's verdict on an action, and a critic's word beside it.

The contract is deterministic and the last word: a critic is asked only about an action that keeps
it, and what it says is a remark.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.core.contract import ActionContract

ADMITTED = "admitted"
TOOLS_BY_INTENT: Mapping[str, Collection[str]] = {"lookup_order": ("query_db",)}

Critic = Callable[[str, Mapping[str, Any]], str]


class ActionMismatch(Exception):
    """The action breaks the contract of its task."""


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
