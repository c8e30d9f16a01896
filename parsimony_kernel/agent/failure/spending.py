"""Whether the next request still fits the run's budget, found out before it is made.

The detector of ``policy_violation`` for tokens and cost. A limit is a question to the person:
they allow as much again, or the run ends there.
"""

from typing import Protocol, runtime_checkable

from parsimony_kernel.agent.config import AgentGuardrails
from parsimony_kernel.agent.failure.kinds import Action, Failure, FailureKind, FailureRaised
from parsimony_kernel.agent.state import RunState
from parsimony_kernel.limits.budget import ANSWER_TOKENS, Demand, tokens_in
from parsimony_kernel.llm.base import ChatModel, ModelRequest


@runtime_checkable
class Priced(Protocol):
    """A model that can say what a request would cost."""

    async def estimate_cost_usd(self, prompt_tokens: int, answer_tokens: int) -> float | None:
        """US dollars; ``None`` when the price is unknown."""
        ...


async def reserve(
    state: RunState, guardrails: AgentGuardrails, model: ChatModel, request: ModelRequest
) -> Failure | Demand | None:
    """Reckon the request that is about to be made.

    Gives the failure that forbids it, or the demand that has passed the soft limit, or ``None``.
    """
    if guardrails.max_tokens is None and guardrails.max_cost_usd is None:
        return None
    prompt = tokens_in(request.messages, request.tools)
    answer = getattr(model, "max_answer_tokens", None) or ANSWER_TOKENS
    demands: list[Demand] = []
    if guardrails.max_tokens is not None:
        spent = state.cumulative_prompt_tokens + state.cumulative_completion_tokens
        used = spent - state.budget_from_tokens
        demands.append(Demand("tokens", used, prompt + answer, guardrails.max_tokens))
    if guardrails.max_cost_usd is not None:
        try:
            price = await _price(model, prompt, answer)
        except FailureRaised as raised:
            return raised.failure
        if price is None:
            return _unpriced(model.name, guardrails.max_cost_usd)
        used_usd = state.cumulative_cost_usd - state.budget_from_cost_usd
        demands.append(Demand("cost", used_usd, price, guardrails.max_cost_usd))
    for demand in demands:
        if demand.is_over:
            return _over(demand)
    return next((demand for demand in demands if demand.is_near), None)


async def _price(model: ChatModel, prompt: int, answer: int) -> float | None:
    return await model.estimate_cost_usd(prompt, answer) if isinstance(model, Priced) else None


def _over(demand: Demand) -> Failure:
    needed = (
        f"${demand.reserved:.4f}" if demand.guard == "cost" else f"{demand.reserved:,.0f} tokens"
    )
    noun = "cost" if demand.guard == "cost" else "token"
    # As much again would not do either: that is no question.
    hopeless = demand.reserved > demand.limit
    return Failure(
        FailureKind.policy_violation,
        f"{demand.in_words()} are used and the next request may need {needed}",
        suggested_action=Action.handoff if hopeless else Action.ask_user,
        metadata={
            "guard": demand.guard,
            "used": demand.used,
            "reserved": demand.reserved,
            "limit": demand.limit,
            "question": f"The run has reached its {noun} budget. Go on with as much again?",
            **({"remedy": f"Allow more than {needed} for this turn."} if hopeless else {}),
        },
    )


def _unpriced(name: str, limit: float) -> Failure:
    sentence = f"The price of {name!r} is unknown, so a limit of ${limit:.2f} cannot be kept."
    return Failure(
        FailureKind.policy_violation,
        sentence,
        blockers=(sentence,),
        metadata={
            "guard": "cost",
            "limit": limit,
            "remedy": "Limit the tokens instead, or choose a model whose price is known.",
        },
    )
