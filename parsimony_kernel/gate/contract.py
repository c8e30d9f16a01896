"""What a task allows, checked against each action that is proposed for it.

Deterministic, and the last word: a critic is asked only about an action that keeps the contract,
and what it says is a remark. A plan is no business of a contract, nor is a tool that ends or
suspends a run.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from parsimony_kernel.agent.failure.causes import RULE_BROKEN
from parsimony_kernel.agent.failure.kinds import Action, Failure
from parsimony_kernel.gate.stages import Attempt, Stage, nearest
from parsimony_kernel.tools import Tool

ADMITTED = "admitted"
TOOLS_BY_INTENT: Mapping[str, Collection[str]] = {"lookup_order": ("query_db",)}

Critic = Callable[[str, Mapping[str, Any]], str]


class ActionMismatch(Exception):
    """The action breaks the contract of its task."""


@dataclass(frozen=True)
class ActionContract:
    """What a task allows.

    Args:
        allowed_tools: the tools that may be called at all; ``None`` when all may.
        serving_tools: those of them that serve the task's intent; ``None`` when all do.
        identifiers: what the task is about, such as ``{"order_id": "A102"}``. An action that an
            identifier binds carries the first of them, under its name or as ``id``, and no action
            contradicts any. An identifier that is a text is met by an integer written the same.

    An identifier binds the tools that take it: those with a parameter of its name, and for the
    first one those with a parameter ``id``. A tool such as ``run_code`` takes neither, and what
    stands inside its code is not read. Where nobody says what a tool takes, it is bound.
    """

    allowed_tools: frozenset[str] | None = None
    serving_tools: frozenset[str] | None = None
    identifiers: Mapping[str, object] = field(default_factory=dict)

    @property
    def tools(self) -> frozenset[str] | None:
        """The tools that are allowed and serve the intent; ``None`` when all do."""
        if self.allowed_tools is None or self.serving_tools is None:
            return self.serving_tools if self.allowed_tools is None else self.allowed_tools
        return self.allowed_tools & self.serving_tools

    def violation(
        self,
        tool_name: str,
        tool_args: Mapping[str, Any],
        parameters: Collection[str] | None = None,
    ) -> str | None:
        """What the action breaks, in a few words: the tool, the intent, then the identifiers.

        ``parameters`` are the names that the tool takes, ``None`` when they are not known.
        """
        if self.allowed_tools is not None and tool_name not in self.allowed_tools:
            return "tool not allowed"
        if self.serving_tools is not None and tool_name not in self.serving_tools:
            return "tool does not match intent"
        for position, (name, value) in enumerate(self.identifiers.items()):
            spellings = (name, "id") if position == 0 else (name,)
            told = [tool_args[each] for each in spellings if each in tool_args]
            binds = parameters is None or not set(spellings).isdisjoint(parameters)
            is_missing = position == 0 and binds and not told
            if is_missing or not all(_is_the_same(each, value) for each in told):
                return f"{_in_words(name)} changed"
        return None

    def check_tools(self, known: Collection[str]) -> None:
        """``ValueError`` when a tool that it names is none of the ``known`` ones."""
        named = frozenset().union(self.allowed_tools or (), self.serving_tools or ())
        for name in sorted(named.difference(known)):
            likely = nearest(name, known)
            remedy = f"did you mean {likely!r}?" if likely else f"there are {', '.join(known)}."
            raise ValueError(f"the contract names {name!r}, which is no tool; {remedy}")


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


def _is_the_same(told: object, value: object) -> bool:
    if type(told) is int and isinstance(value, str):
        return str(told) == value
    return told == value


def _in_words(name: str) -> str:
    stem = name.removesuffix("_id")
    return f"{stem.replace('_', ' ')} ID" if stem != name else name
