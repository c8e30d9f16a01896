"""What turns have used of models, counted from their events, and what a budget leaves."""

from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass
from operator import add

from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.events import AgentEvent, LLMCallCompleted, PartialRunSummary
from parsimony_kernel.limits.budget import CEILING_REMEDY, dollars
from parsimony_kernel.session.turns import SessionError


@dataclass(frozen=True)
class Used:
    """Calls of models, their tokens, and US dollars; ``unpriced`` calls have no known price."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    seconds: float = 0.0
    cached_tokens: int = 0

    def __add__(self, other: "Used") -> "Used":
        return Used(*map(add, astuple(self), astuple(other)))


def used(events: Iterable[AgentEvent]) -> Used:
    """What the events say that was used. ``seconds`` are those of waiting for models."""
    return sum(
        (
            Used(
                1,
                event.prompt_tokens,
                event.completion_tokens,
                event.cost_usd or 0.0,
                event.cost_usd is None,
                event.duration_s,
                event.cached_tokens,
            )
            for event in events
            if isinstance(event, LLMCallCompleted)
        ),
        Used(),
    )


def within_budget(
    limits: AgentGuardrails,
    limit_usd: float | None,
    spent_usd: Callable[[], float],
    of_turn_usd: float = 0.0,
) -> AgentGuardrails:
    """``limits``, with what the budget of the notebook leaves to a turn.

    Args:
        limit_usd: what all turns may cost together, in US dollars; ``None`` for no limit.
        spent_usd: gives what they have cost.
        of_turn_usd: what of that this turn has cost already.

    Raises:
        SessionError: nothing is left.
    """
    if limit_usd is None:
        return limits
    if (spent := spent_usd()) >= limit_usd:
        raise SessionError(
            f"The turns of this notebook have cost ${spent:.4f}, and together they may cost "
            f"{dollars(limit_usd)}. Nothing was run. {_RAISE}"
        )
    return limits.model_copy(update={"ceiling_cost_usd": limit_usd - spent + of_turn_usd})


def at_budget(event: AgentEvent, limit_usd: float | None) -> AgentEvent:
    """``event``; where the notebook's budget has ended the turn, it says so."""
    is_end = isinstance(event, PartialRunSummary) and event.next_step_plan == CEILING_REMEDY
    if not is_end or limit_usd is None:
        return event
    missing = f"What all turns of this notebook may cost, {dollars(limit_usd)}, is used up."
    return event.model_copy(update={"missing": missing, "next_step_plan": _RAISE})


_RAISE = (
    "To allow more, set the budget of the notebook higher, for instance with "
    "%config ParsimonyAgent.notebook_budget = 5"
)
