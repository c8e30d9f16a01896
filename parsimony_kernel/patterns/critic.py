"""Critic: a contract's verdict on an action, with a critic's remark.

The contract is deterministic and decides; a critic comments only on actions that keep the contract.
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
    """Verdict on an action.

    ``verdict`` is ``admitted`` or the violation. ``remark`` is the critic's, who isn't asked about
    a violation and can't overrule one.
    """

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
    """Check an action against the contract, and ask the critic if it passes."""
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
    """Validate an action against a task contract.

    Args:
        task_contract: the task's ``intent``, and its identifiers, whose names end in ``_id``.
        tool_name: the tool to call.
        tool_args: its arguments.
        allowed_tools: the tools that the task may use.
        tools_by_intent: tools that serve an intent; an intent not listed doesn't restrict tools.

    Returns:
        ``"admitted"``.

    Raises:
        ActionMismatch: the action breaks the contract; the message says how.
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
