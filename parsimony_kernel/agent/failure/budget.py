"""Whether the next request still fits the run's budget, found out before it is made.

The detector of ``policy_violation`` for tokens and cost. A limit is a question to the person:
they allow as much again, or the run ends there; at a ceiling it ends, whatever they allow. What a
model does not count is charged by size and by its price, or a budget would never be used up.
"""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from parsimony_kernel.core.causes import BUDGET_USED, LIMIT_UNKEEPABLE
from parsimony_kernel.core.chat import ChatModel, Completion, ModelRequest, Usage
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.kinds import Action, Failure, FailureRaised
from parsimony_kernel.core.state import RunState
from parsimony_kernel.limits.budget import (
    ANSWER_TOKENS,
    MOST_TOKENS,
    Demand,
    dollars,
    tokens_in,
    usage_by_size,
    usd,
)

# A shorter answer holds no step, so no shorter one is asked for.
LEAST_ANSWER_TOKENS = 256
# What is said of a run that has come to its ceiling.
CEILING_REMEDY = "Raise the ceiling of the cost, then ask again."


@dataclass(frozen=True)
class Budget:
    """The tokens and the US dollars that a run may still use."""

    state: RunState
    guardrails: AgentGuardrails

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit of tokens or cost."""
        return self.guardrails.max_tokens is not None or bool(self._cost_limits)

    async def reserve(self, model: ChatModel, request: ModelRequest) -> Failure | Demand | None:
        """Reckon the request that is about to be made.

        Gives the failure that forbids it, or the demand that has passed the soft limit, or
        ``None``. The answer is reckoned as long as the model may make it; that of a ``capped``
        request as no longer than a usual one, for the cap keeps what comes on top within.
        """
        prompt = tokens_in(request.messages, request.tools)
        answer = _longest(model) or ANSWER_TOKENS
        if request.max_answer_tokens is not None:
            answer = min(answer, ANSWER_TOKENS)
        demands: list[Demand] = []
        if (most := self.guardrails.max_tokens) is not None:
            demands.append(Demand("tokens", self._used_tokens, prompt + answer, most))
        if self._cost_limits:
            try:
                price = await _price(model, request, prompt, answer)
            except FailureRaised as raised:
                return raised.failure
            if price is None:
                return _unpriced(model.name, min(limit for _, limit in self._cost_limits))
            demands += [Demand("cost", spent, price, limit) for spent, limit in self._cost_limits]
            if self.guardrails.ceiling_cost_usd is not None and demands[-1].is_over:
                return _over(demands[-1], is_ceiling=True)
        for demand in demands:
            if demand.is_over:
                return _over(demand)
        return next((demand for demand in demands if demand.is_near), None)

    async def capped(self, model: ChatModel, request: ModelRequest) -> ModelRequest:
        """``request`` with the longest answer that the budget has room for.

        Never less than ``LEAST_ANSWER_TOKENS``: whether a usual one fits is for ``reserve``.
        """
        prompt = tokens_in(request.messages, request.tools)
        rooms: list[float] = []
        if (most := self.guardrails.max_tokens) is not None:
            rooms.append(most - self._used_tokens - prompt)
        if self._cost_limits:
            left_usd = min(limit - spent for spent, limit in self._cost_limits)
            room = await _affordable(left_usd, model, request, prompt)
            rooms += () if room is None else (room,)
        if not rooms:
            return request
        longest = int(min(*rooms, MOST_TOKENS))
        return replace(request, max_answer_tokens=max(longest, LEAST_ANSWER_TOKENS))

    async def charged(
        self, reply: Completion, request: ModelRequest, model: ChatModel
    ) -> Completion:
        """``reply`` with the tokens and the cost that its model left out."""
        usage = reply.usage
        if usage == Usage():
            usage = usage_by_size(request, reply.message)
        return await self._with_cost(replace(reply, usage=usage), request, model)

    async def charged_failure(
        self, failure: Failure, request: ModelRequest, model: ChatModel
    ) -> Completion | None:
        """What an answer that broke off has used, as a completion without choices.

        ``None`` where no answer had begun: then the provider asks for nothing.
        """
        tokens = failure.metadata.get("answer_tokens")
        if tokens is None:
            return None
        usage = Usage(tokens_in(request.messages, request.tools), tokens)
        bill = Completion(choices=(), usage=usage, model=model.name)
        return await self._with_cost(bill, request, model)

    async def _with_cost(
        self, reply: Completion, request: ModelRequest, model: ChatModel
    ) -> Completion:
        if reply.cost_usd is not None or not self._cost_limits:
            return reply
        usage = reply.usage
        try:
            cost = await _price(model, request, usage.prompt_tokens, usage.completion_tokens)
        except FailureRaised:
            cost = None  # the next reserve tells
        return replace(reply, cost_usd=cost)

    @property
    def _cost_limits(self) -> list[tuple[float, float]]:
        """What was spent and how much may be, in US dollars: of the budget, then of the ceiling."""
        spent = self.state.cumulative_cost_usd
        limits = (
            (spent - self.state.budget_from_cost_usd, self.guardrails.max_cost_usd),
            (spent, self.guardrails.ceiling_cost_usd),
        )
        return [(used, limit) for used, limit in limits if limit is not None]

    @property
    def _used_tokens(self) -> int:
        state = self.state
        spent = state.cumulative_prompt_tokens + state.cumulative_completion_tokens
        return spent - state.budget_from_tokens


async def _affordable(
    left_usd: float, model: ChatModel, request: ModelRequest, prompt: int
) -> float | None:
    """How long an answer the money buys; ``None`` when it is free or its price is not known."""
    try:
        heard = await _price(model, request, prompt, 0)
        usual = None if heard is None else await _price(model, request, prompt, ANSWER_TOKENS)
    except FailureRaised:
        return None  # reserve tells
    if heard is None or usual is None or usual <= heard:
        return None
    return (left_usd - heard) / (usual - heard) * ANSWER_TOKENS


def _longest(model: ChatModel) -> int | None:
    """The longest answer that ``model`` says it makes, where that is a number of tokens."""
    limit = getattr(model, "max_answer_tokens", None)
    if not isinstance(limit, int) or isinstance(limit, bool):
        return None
    return limit if 0 < limit <= MOST_TOKENS else None


async def _price(model: ChatModel, request: ModelRequest, prompt: int, answer: int) -> float | None:
    """US dollars; ``None`` when the model has no price to tell in time.

    ``FailureRaised`` passes: it says why the model cannot be used at all.
    """
    estimate = getattr(model, "estimate_cost_usd", None)
    if estimate is None:
        return None
    # A price that never comes is asked for twice before that is told.
    patience_s = None if request.deadline_s is None else request.deadline_s / 2
    try:
        async with asyncio.timeout(patience_s):
            return usd(await estimate(prompt, answer))
    except FailureRaised:
        raise
    except Exception:  # boundary: tool - a price that cannot be told is not known
        return None


def _over(demand: Demand, *, is_ceiling: bool = False) -> Failure:
    """What asks for more than there is; at a ceiling no answer of a person's can go on."""
    is_cost = demand.guard == "cost"
    needed = f"${demand.reserved:.4f}" if is_cost else f"{demand.reserved:,.0f} tokens"
    said = f"{demand.in_words()} are used and the next request may need {needed}"
    known: dict[str, Any] = {
        "guard": demand.guard,
        "used": demand.used,
        "reserved": demand.reserved,
        "limit": demand.limit,
    }
    if is_ceiling:
        said = f"The ceiling of the cost is reached: {said}"
        return LIMIT_UNKEEPABLE.failure(said, action=Action.stop, remedy=CEILING_REMEDY, **known)
    noun = "cost" if is_cost else "token"
    known["question"] = f"The run has reached its {noun} budget. Go on with as much again?"
    if demand.reserved > demand.limit:  # as much again would not do either: that is no question
        remedy = f"Allow more than {needed} for this turn."
        return LIMIT_UNKEEPABLE.failure(said, action=Action.handoff, remedy=remedy, **known)
    return BUDGET_USED.failure(said, action=Action.ask_user, **known)


def _unpriced(name: str, limit: float) -> Failure:
    sentence = f"The price of {name!r} is unknown, so a limit of {dollars(limit)} cannot be kept."
    return LIMIT_UNKEEPABLE.failure(
        sentence,
        blockers=(sentence,),
        guard="cost",
        limit=limit,
        remedy="Limit the tokens instead, or choose a model whose price is known.",
    )
