"""Generate, criticise, refine (Shinn et al., 2023), with the validators having every last word.

A critique is a proposal like any other: it may change the next attempt and never its verdict.
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
    """One proposal, what a validator had against it, and what the critic then said."""

    proposal: P
    reason: str = ""
    critique: str = ""


@dataclass(frozen=True)
class Reflection(Generic[P]):
    """All trials, oldest first, and why they ended."""

    trials: tuple[Trial[P], ...]
    ending: Ending

    @property
    def ok(self) -> bool:
        """Whether the last proposal passed every validator."""
        return self.ending == "accepted"

    @property
    def proposal(self) -> P:
        """The last one."""
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
    """Propose until the validators accept.

    Args:
        critique: from a proposal and the reason of its rejection, what to do about it.
        refine: from the same and the critique, the next proposal.
        validators: asked in order about every proposal, up to the first that rejects it.
        effect: what a rejected proposal may have done outside; anything but none ends the
            reflection, for what has happened is reconciled and not proposed again.

    A refined proposal that equals a rejected one carries nothing new and ends it too.
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
