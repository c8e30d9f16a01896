"""Judge a proposal before it counts: contract and critic, validated handoff, reflexion.

Contracts and validators are deterministic and decide. A critic only comments: its remark may change
the next attempt, never a verdict. Reflexion is after Shinn et al., 2023.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

from parsimony_kernel.core.config import ActionContract
from parsimony_kernel.core.kinds import Effect

P = TypeVar("P")

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


@dataclass(frozen=True)
class ValidationResult:
    """Result of one validator; ``reason`` says what is wrong."""

    valid: bool
    reason: str = ""


Validator = Callable[[dict[str, object]], ValidationResult]


def validated_handoff(
    output: dict[str, object], validators: Sequence[Validator]
) -> dict[str, object]:
    """Return ``output`` if every validator accepts it.

    Otherwise return a dict with ``status``, ``error`` (the first rejection's reason) and
    ``fallback``; later validators don't run. An exception of a validator propagates: its verdict is
    unknown.
    """
    rejected = rejection(output, validators)
    if rejected is None:
        return output
    return {
        "status": "validation_failed",
        "error": rejected.reason,
        "fallback": "Request human review of this output",
    }


def rejection(
    proposal: P, validators: Sequence[Callable[[P], ValidationResult]]
) -> ValidationResult | None:
    """Return the result of the first validator that rejects ``proposal``, or ``None``."""
    results = (validator(proposal) for validator in validators)
    return next((result for result in results if not result.valid), None)


MAX_ATTEMPTS = 3

Ending = Literal["accepted", "attempts_used", "nothing_new", "effect_not_excluded"]


@dataclass(frozen=True)
class Trial(Generic[P]):
    """One proposal, the validator's reason for rejecting it, and the critique."""

    proposal: P
    reason: str = ""
    critique: str = ""


@dataclass(frozen=True)
class Reflection(Generic[P]):
    """All trials, oldest first, and the reason the loop ended."""

    trials: tuple[Trial[P], ...]
    ending: Ending

    @property
    def ok(self) -> bool:
        """Whether the last proposal passed every validator."""
        return self.ending == "accepted"

    @property
    def proposal(self) -> P:
        """The last proposal."""
        return self.trials[-1].proposal


async def reflect(
    generate: Callable[[], Awaitable[P]],
    critique: Callable[[P, str], Awaitable[str]],
    refine: Callable[[P, str, str], Awaitable[P]],
    validators: Sequence[Callable[[P], ValidationResult]],
    *,
    max_attempts: int = MAX_ATTEMPTS,
    effect: Callable[[P], Effect] = lambda _: Effect.none,
) -> Reflection[P]:
    """Propose and refine until the validators accept.

    A refined proposal that equals a rejected one ends the loop, too.

    Args:
        generate: returns the first proposal.
        critique: takes a proposal and the reason of its rejection; returns a critique.
        refine: takes the proposal, the reason and the critique; returns the next proposal.
        validators: run in order on every proposal, up to the first that rejects it.
        max_attempts: maximum number of proposals.
        effect: returns the external effect of a rejected proposal; any but none ends the loop, as
            it must be reconciled and not proposed again.

    Returns:
        The trials, and how they ended.
    """
    trials: list[Trial[P]] = []
    proposal = await generate()
    while True:
        result = rejection(proposal, validators)
        if result is None:
            return Reflection((*trials, Trial(proposal)), "accepted")
        rejected = Trial(proposal, result.reason)
        if effect(proposal) is not Effect.none:
            return Reflection((*trials, rejected), "effect_not_excluded")
        if any(proposal == earlier.proposal for earlier in trials):
            return Reflection((*trials, rejected), "nothing_new")
        if len(trials) + 1 >= max_attempts:
            return Reflection((*trials, rejected), "attempts_used")
        said = await critique(proposal, rejected.reason)
        trials.append(replace(rejected, critique=said))
        proposal = await refine(proposal, rejected.reason, said)
