"""Token and cost budgets of a run, checked before each model request.

A demand compares the usage so far plus a reservation for the next request with the limit; over
means strictly more. At a limit the user is asked: they allow as much again, or the run ends there.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from parsimony_kernel.core import causes
from parsimony_kernel.core.chat import ChatModel, Completion, Message, ModelRequest, Usage
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.conversation import pictures_in, tokens_of
from parsimony_kernel.core.kinds import Action, Failure, FailureRaised
from parsimony_kernel.core.state import RunState

Guard = Literal["tokens", "cost"]

# The soft limit, as a share of the limit: beyond it a run stops exploring and wraps up.
SOFT_SHARE = 0.8

# English prose and code have about four bytes per token. Other scripts have more bytes for as many
# tokens, so counting bytes overestimates, which is safe.
BYTES_PER_TOKEN = 4

# Tokens reserved for an answer without a limit of its own: a long step of code with its text.
ANSWER_TOKENS = 1_000

# Plausibility limits: a larger number is a counting error.
MOST_TOKENS = 10_000_000
MOST_USD = 1_000_000.0


@dataclass(frozen=True)
class Demand:
    """Usage, reservation and limit of one guard: US dollars for ``cost``, else tokens."""

    guard: Guard
    used: float
    reserved: float
    limit: float

    @property
    def is_over(self) -> bool:
        """Whether the limit is exceeded, so that the request must not be made."""
        return self.used + self.reserved > self.limit

    @property
    def is_near(self) -> bool:
        """Whether the soft limit is exceeded."""
        return self.used + self.reserved > SOFT_SHARE * self.limit

    def in_words(self) -> str:
        """Format usage and limit for people, such as ``812 of 1,000 tokens``."""
        if self.guard == "cost":
            return f"${self.used:.4f} of {dollars(self.limit)}"
        return f"{self.used:,.0f} of {self.limit:,.0f} tokens"


def tokens_in(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> int:
    """Estimate the tokens of a request by its size."""
    shown = sum(tokens_of(each) for message in messages for each in pictures_in(message))
    size = sum(
        _size(_in_words(message.get("content")))
        + _size(message.get("opaque"))
        + sum(_size(call["function"].get("arguments")) for call in message.get("tool_calls") or ())
        for message in messages
    )
    return (size + _size(list(tools))) // BYTES_PER_TOKEN + 1 + shown


def _in_words(content: Any) -> Any:
    """Return ``content`` without its pictures, which are counted by their pixels."""
    if not isinstance(content, list):
        return content
    return [part for part in content if not (isinstance(part, Mapping) and "image_url" in part)]


def tokens_said(message: Message) -> int:
    """Estimate the tokens of an answer by its size, including its reasoning."""
    size = _size(message.content) + _size(message.reasoning_content)
    for call in message.tool_calls:
        size += _size(call.function.name) + _size(call.function.arguments)
    return size // BYTES_PER_TOKEN + 1


def usage_by_size(request: ModelRequest, message: Message) -> Usage:
    """Estimate the usage of a request and its answer by size, if the model didn't count it."""
    return Usage(tokens_in(request.messages, request.tools), tokens_said(message))


def counted(usage: Any) -> Usage | None:
    """Return the tokens reported in ``usage``; ``None`` if implausible or both zero."""
    prompt = _within(getattr(usage, "prompt_tokens", None), MOST_TOKENS)
    completion = _within(getattr(usage, "completion_tokens", None), MOST_TOKENS)
    if prompt is None or completion is None or not prompt + completion:
        return None
    details = getattr(usage, "prompt_tokens_details", None)
    read = getattr(usage, "cached_tokens", None) or getattr(details, "cached_tokens", None)
    written = getattr(usage, "cache_write_tokens", None)
    written = written or getattr(usage, "cache_creation_input_tokens", None)
    cached = (int(_within(each, prompt) or 0) for each in (read, written))
    return Usage(int(prompt), int(completion), *cached)


def dollars(amount: float) -> str:
    """Format US dollars to the cent; amounts below one dollar with up to six decimals."""
    cents = f"{amount:,.2f}"
    exact = f"{amount:,.6f}".rstrip("0")
    return f"${cents if len(exact) <= len(cents) or amount >= 1 else exact}"


def usd(value: Any) -> float | None:
    """Return ``value`` as US dollars; ``None`` if it isn't a plausible price."""
    return _within(value, MOST_USD)


def _within(value: Any, most: float) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= most else None


def _size(value: Any) -> int:
    if value is None:
        return 0
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


@dataclass(frozen=True)
class Budget:
    """The token and cost budget of a run. An answer of ``ANSWER_TOKENS`` is reserved.

    Usage that a model doesn't report is estimated from sizes and prices; otherwise a budget would
    never run out.
    """

    state: RunState
    guardrails: AgentGuardrails

    @property
    def is_limited(self) -> bool:
        """Whether tokens or cost are limited."""
        return bool(self._limits)

    @property
    def _limits(self) -> list[Demand]:
        """The demand of each configured limit: the usage so far, without a reservation."""
        state, limits = self.state, self.guardrails
        tokens = state.cumulative_prompt_tokens + state.cumulative_completion_tokens
        cost = state.cumulative_cost_usd
        told: list[tuple[Guard, float, float | None]] = [
            ("tokens", tokens - state.budget_from_tokens, limits.max_tokens),
            ("cost", cost - state.budget_from_cost_usd, limits.max_cost_usd),
        ]
        return [Demand(guard, used, 0, most) for guard, used, most in told if most is not None]

    async def reckon(
        self, model: ChatModel, request: ModelRequest
    ) -> tuple[ModelRequest, Failure | Demand | None]:
        """Check the next request, with an answer of the usual length, against the limits.

        Returns:
            The request, capped to the longest answer within the limits unless it is forbidden, and
            either the failure that forbids it, the demand beyond the soft limit, or ``None``.
        """
        prompt = tokens_in(request.messages, request.tools)
        demands, room = list[Demand](), float(MOST_TOKENS)
        for each in self._limits:
            alone: float | None = prompt
            whole: float | None = prompt + ANSWER_TOKENS
            if each.guard == "cost":
                try:
                    alone = await _price(model, request, prompt, 0)
                    whole = await _price(model, request, prompt, ANSWER_TOKENS)
                except FailureRaised as raised:
                    return request, raised.failure
            if alone is None or whole is None:
                return request, _unpriced(model.name, each.limit)
            if whole > alone:
                room = min(room, (each.limit - each.used - alone) * ANSWER_TOKENS / (whole - alone))
            demands.append(replace(each, reserved=whole))
        if over := [each for each in demands if each.is_over]:
            return request, _over(over[0])
        capped = replace(request, max_answer_tokens=max(int(room), ANSWER_TOKENS))
        return capped, next((each for each in demands if each.is_near), None)

    async def bill(
        self, reply: Completion | Failure, request: ModelRequest, model: ChatModel
    ) -> Completion | None:
        """Return ``reply`` with the tokens and cost that its model didn't report, estimated.

        An answer that broke off is billed for the tokens received, as a completion without choices;
        ``None`` if no answer had begun: then the provider charges nothing.
        """
        if isinstance(reply, Failure):
            tokens = reply.metadata.get("answer_tokens")
            if tokens is None:
                return None
            usage = Usage(tokens_in(request.messages, request.tools), tokens)
            reply = Completion(choices=(), usage=usage, model=model.name)
        elif reply.usage == Usage():
            reply = replace(reply, usage=usage_by_size(request, reply.message))
        if reply.cost_usd is not None or all(each.guard != "cost" for each in self._limits):
            return reply
        usage = reply.usage
        with suppress(FailureRaised):  # the next request reports it
            cost = await _price(model, request, usage.prompt_tokens, usage.completion_tokens)
            reply = replace(reply, cost_usd=cost)
        return reply


async def _price(model: ChatModel, request: ModelRequest, prompt: int, answer: int) -> float | None:
    """Ask the model for a price in US dollars; ``None`` if it gives none in time.

    ``FailureRaised`` passes through: it tells why the model can't be used at all.
    """
    estimate = getattr(model, "estimate_cost_usd", None)
    if estimate is None:
        return None
    try:
        async with asyncio.timeout(request.deadline_s):
            return usd(await estimate(prompt, answer))
    except FailureRaised:
        raise
    except Exception:  # boundary: tool - a price that cannot be told is not known
        return None


def _over(demand: Demand) -> Failure:
    """Return the failure for an exceeded limit: a question, or a handoff if asking can't help."""
    is_cost = demand.guard == "cost"
    needed = f"${demand.reserved:.4f}" if is_cost else f"{demand.reserved:,.0f} tokens"
    said = f"{demand.in_words()} are used and the next request may need {needed}"
    known = asdict(demand)
    if demand.reserved > demand.limit:  # as much again wouldn't suffice either: don't ask
        remedy = f"Allow more than {needed} for this turn."
        return causes.LIMIT_UNKEEPABLE.failure(said, action=Action.handoff, remedy=remedy, **known)
    noun = "cost" if is_cost else "token"
    question = f"The run has reached its {noun} budget. Go on with as much again?"
    return causes.BUDGET_USED.failure(said, action=Action.ask_user, question=question, **known)


def _unpriced(name: str, limit: float) -> Failure:
    sentence = f"The price of {name!r} is unknown, so a limit of {dollars(limit)} cannot be kept."
    remedy = "Limit the tokens instead, or choose a model whose price is known."
    return causes.LIMIT_UNKEEPABLE.failure(sentence, guard="cost", limit=limit, remedy=remedy)
