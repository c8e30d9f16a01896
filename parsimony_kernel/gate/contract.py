"""A task's contract, checked against each action that is proposed for it.

A plan is no business of a contract, nor is a tool that ends or suspends a run.
"""

from parsimony_kernel.core.causes import RULE_BROKEN
from parsimony_kernel.core.contract import ActionContract
from parsimony_kernel.core.kinds import Action, Failure
from parsimony_kernel.gate.stages import Attempt, Stage
from parsimony_kernel.tools import Tool


def within_contract(contract: ActionContract) -> Stage:
    """A stage that refuses what breaks ``contract``. A plan passes, and what ends or suspends the
    run: there must be a way out."""

    def stage(attempt: Attempt) -> Failure | None:
        tool = attempt.tools[attempt.action]
        if not is_work(tool):
            return None
        parameters = tool.parameters_schema.get("properties", {})
        broken = contract.violation(attempt.action, attempt.inputs, parameters)
        return None if broken is None else _refusal(contract, attempt, broken)

    return stage


def is_work(tool: Tool) -> bool:
    """Whether a call of ``tool`` does something, and does not only plan, end or suspend the run."""
    return not tool.terminal and tool.tool_type != "plan"


def _refusal(contract: ActionContract, attempt: Attempt, broken: str) -> Failure:
    working = {name for name, tool in attempt.tools.items() if is_work(tool)}
    serving = working if contract.tools is None else contract.tools
    kept = ", ".join(f"{name}={value!r}" for name, value in contract.identifiers.items())
    return RULE_BROKEN.failure(
        f"{attempt.action} breaks the contract of this task: {broken}. Nothing was run. The task "
        f"allows: {', '.join(sorted(serving)) or 'no tool'}{f', with {kept}' if kept else ''}.",
        # The model may send another action; one that breaks the contract again goes to a person.
        action=Action.retry,
        tool_name=attempt.action,
        envelope={
            "reason": broken,
            "details": {
                "allowed_tools": sorted(serving),
                "identifiers": dict(contract.identifiers),
            },
        },
    )
