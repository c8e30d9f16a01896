"""Reflexion: generate, criticise, refine (Shinn et al., 2023), with validators as the judges.

A critique is only a suggestion: it may change the next attempt, never its verdict.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

from parsimony_kernel.core.kinds import Effect
from parsimony_kernel.patterns.handoff import ValidationResult, rejection

P = TypeVar("P")

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
