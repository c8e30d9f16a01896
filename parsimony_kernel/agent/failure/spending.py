"""Whether the next request still fits the run's budget, found out before it is made.

The detector of ``policy_violation`` for tokens and cost. A limit is a question to the person:
they allow as much again, or the run ends there; at a ceiling it ends, whatever they allow. What a
model does not count is charged by size and by its price, or a budget would never be used up.
"""

import asyncio
from dataclasses import replace

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


async def reserve(
    state: RunState, guardrails: AgentGuardrails, model: ChatModel, request: ModelRequest
) -> Failure | Demand | None:
    """Reckon the request that is about to be made.

    Gives the failure that forbids it, or the demand that has passed the soft limit, or ``None``.
    The answer is reckoned as long as the model may make it; that of a ``capped`` request as no
    longer than a usual one, for the cap keeps what comes on top within the budget.
    """
    if not is_limited(guardrails):
        return None
    prompt = tokens_in(request.messages, request.tools)
    answer = _longest(model) or ANSWER_TOKENS
    if request.max_answer_tokens is not None:
        answer = min(answer, ANSWER_TOKENS)
    demands: list[Demand] = []
    if guardrails.max_tokens is not None:
        used = _used_tokens(state)
        demands.append(Demand("tokens", used, prompt + answer, guardrails.max_tokens))
    spendings = _spendings(state, guardrails)
    if spendings:
        try:
            price = await _price(model, prompt, answer, within_s=_patience(request))
        except FailureRaised as raised:
            return raised.failure
        if price is None:
            return _unpriced(model.name, min(limit for _, limit in spendings))
        demands += [Demand("cost", spent, price, limit) for spent, limit in spendings]
        ceiling = guardrails.ceiling_cost_usd
        if ceiling is not None and demands[-1].is_over:
            return _at_ceiling(demands[-1])
    for demand in demands:
        if demand.is_over:
            return _over(demand)
    return next((demand for demand in demands if demand.is_near), None)


async def capped(
    state: RunState, guardrails: AgentGuardrails, model: ChatModel, request: ModelRequest
) -> ModelRequest:
    """``request`` with the longest answer that the budget has room for, where there is a budget.

    Never less than ``LEAST_ANSWER_TOKENS``: whether a usual one fits is for ``reserve``.
    """
    if not is_limited(guardrails):
        return request
    prompt = tokens_in(request.messages, request.tools)
    rooms: list[float] = []
    if guardrails.max_tokens is not None:
        rooms.append(guardrails.max_tokens - _used_tokens(state) - prompt)
    spendings = _spendings(state, guardrails)
    if spendings:
        left_usd = min(limit - spent for spent, limit in spendings)
        try:
            room = await _affordable(left_usd, model, request, prompt)
        except FailureRaised:
            room = None  # reserve tells
        if room is not None:
            rooms.append(room)
    if not rooms:
        return request
    longest = int(min(*rooms, MOST_TOKENS))
    return replace(request, max_answer_tokens=max(longest, LEAST_ANSWER_TOKENS))


async def _affordable(
    left_usd: float, model: ChatModel, request: ModelRequest, prompt: int
) -> float | None:
    """How long an answer the money buys; ``None`` when it is free or its price is not known."""
    heard = await _price(model, prompt, 0, within_s=_patience(request))
    if heard is None:
        return None
    usual = await _price(model, prompt, ANSWER_TOKENS, within_s=_patience(request))
    if usual is None or usual <= heard:
        return None
    return (left_usd - heard) / (usual - heard) * ANSWER_TOKENS


async def charged(
    reply: Completion, request: ModelRequest, model: ChatModel, guardrails: AgentGuardrails
) -> Completion:
    """``reply`` with the tokens and the cost that its model left out, where there is a limit."""
    if not is_limited(guardrails):
        return reply
    usage = reply.usage
    if usage == Usage():
        usage = usage_by_size(request, reply.message)
    return await _with_cost(replace(reply, usage=usage), request, model, guardrails)


async def charged_failure(
    failure: Failure, request: ModelRequest, model: ChatModel, guardrails: AgentGuardrails
) -> Completion | None:
    """What an answer that broke off has used, as a completion without choices.

    ``None`` where there is no limit, or no answer had begun: then the provider asks for nothing.
    """
    tokens = failure.metadata.get("answer_tokens")
    if tokens is None or not is_limited(guardrails):
        return None
    usage = Usage(tokens_in(request.messages, request.tools), tokens)
    bill = Completion(choices=(), usage=usage, model=model.name)
    return await _with_cost(bill, request, model, guardrails)


async def _with_cost(
    reply: Completion, request: ModelRequest, model: ChatModel, guardrails: AgentGuardrails
) -> Completion:
    if reply.cost_usd is not None or not is_priced(guardrails):
        return reply
    usage = reply.usage
    try:
        cost = await _price(
            model, usage.prompt_tokens, usage.completion_tokens, within_s=_patience(request)
        )
    except FailureRaised:
        cost = None  # the next reserve tells
    return replace(reply, cost_usd=cost)


def is_limited(guardrails: AgentGuardrails) -> bool:
    """Whether there is a limit of tokens or cost."""
    return guardrails.max_tokens is not None or is_priced(guardrails)


def is_priced(guardrails: AgentGuardrails) -> bool:
    """Whether there is a limit of cost, so that prices have to be known."""
    return guardrails.max_cost_usd is not None or guardrails.ceiling_cost_usd is not None


def _spendings(state: RunState, guardrails: AgentGuardrails) -> list[tuple[float, float]]:
    """What was spent and how much may be, in US dollars: of the budget, then of the ceiling."""
    limits = []
    if guardrails.max_cost_usd is not None:
        limits.append((_used_usd(state), guardrails.max_cost_usd))
    if guardrails.ceiling_cost_usd is not None:
        limits.append((state.cumulative_cost_usd, guardrails.ceiling_cost_usd))
    return limits


def _used_tokens(state: RunState) -> int:
    spent = state.cumulative_prompt_tokens + state.cumulative_completion_tokens
    return spent - state.budget_from_tokens


def _used_usd(state: RunState) -> float:
    return state.cumulative_cost_usd - state.budget_from_cost_usd


def _longest(model: ChatModel) -> int | None:
    """The longest answer that ``model`` says it makes, where that is a number of tokens."""
    limit = getattr(model, "max_answer_tokens", None)
    if not isinstance(limit, int) or isinstance(limit, bool):
        return None
    return limit if 0 < limit <= MOST_TOKENS else None


def _patience(request: ModelRequest) -> float | None:
    """Seconds: a price that never comes is asked for twice before that is told."""
    return None if request.deadline_s is None else request.deadline_s / 2


async def _price(
    model: ChatModel, prompt: int, answer: int, *, within_s: float | None
) -> float | None:
    """US dollars; ``None`` when the model has no price to tell in time.

    ``FailureRaised`` passes: it says why the model cannot be used at all.
    """
    estimate = getattr(model, "estimate_cost_usd", None)
    if estimate is None:
        return None
    try:
        async with asyncio.timeout(within_s):
            return usd(await estimate(prompt, answer))
    except FailureRaised:
        raise
    except Exception:  # boundary: tool - a price that cannot be told is not known
        return None


def _over(demand: Demand) -> Failure:
    needed = (
        f"${demand.reserved:.4f}" if demand.guard == "cost" else f"{demand.reserved:,.0f} tokens"
    )
    noun = "cost" if demand.guard == "cost" else "token"
    # As much again would not do either: that is no question.
    hopeless = demand.reserved > demand.limit
    cause = LIMIT_UNKEEPABLE if hopeless else BUDGET_USED
    return cause.failure(
        f"{demand.in_words()} are used and the next request may need {needed}",
        action=Action.handoff if hopeless else Action.ask_user,
        guard=demand.guard,
        used=demand.used,
        reserved=demand.reserved,
        limit=demand.limit,
        question=f"The run has reached its {noun} budget. Go on with as much again?",
        **({"remedy": f"Allow more than {needed} for this turn."} if hopeless else {}),
    )


def _at_ceiling(demand: Demand) -> Failure:
    """What no answer of a person's can go on from."""
    needed = f"${demand.reserved:.4f}"
    return LIMIT_UNKEEPABLE.failure(
        f"The ceiling of the cost is reached: {demand.in_words()} are used and the next request "
        f"may need {needed}",
        action=Action.stop,
        guard="cost",
        used=demand.used,
        reserved=demand.reserved,
        limit=demand.limit,
        remedy=CEILING_REMEDY,
    )


def _unpriced(name: str, limit: float) -> Failure:
    sentence = f"The price of {name!r} is unknown, so a limit of {dollars(limit)} cannot be kept."
    return LIMIT_UNKEEPABLE.failure(
        sentence,
        blockers=(sentence,),
        guard="cost",
        limit=limit,
        remedy="Limit the tokens instead, or choose a model whose price is known.",
    )
