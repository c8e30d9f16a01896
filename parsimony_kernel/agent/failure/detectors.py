"""What is wrong, if anything.

Detectors look and never touch: each gives a ``Failure`` or ``None``. Within a phase, hard stops
come before quality, quality before warnings, and the first match wins. The two functions that
keep counts for them (``record_tool_call``, ``accumulate_usage``) are the only ones here that
write to the state. ``Budget`` finds out before a request is made whether it still fits the limits
of tokens and cost. A limit is a question to the person: they allow as much again, or the run ends
there; at a ceiling it ends, whatever they allow.
"""

import asyncio
import logging
import math
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from parsimony_kernel.core import causes
from parsimony_kernel.core.calls import arguments_of, loop_signature, tool_name_of
from parsimony_kernel.core.chat import ChatModel, Completion, ModelRequest, Usage
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.kinds import Action, Failure, FailureRaised
from parsimony_kernel.core.state import RunState
from parsimony_kernel.limits.budget import (
    ANSWER_TOKENS,
    MOST_TOKENS,
    Demand,
    Guard,
    dollars,
    tokens_in,
    usage_by_size,
    usd,
)

# A shorter answer holds no step, so no shorter one is asked for.
LEAST_ANSWER_TOKENS = 256
# What is said of a run that has come to its ceiling.
CEILING_REMEDY = "Raise the ceiling of the cost, then ask again."

_log = logging.getLogger(__name__)


def record_tool_call(state: RunState, name: str, args: dict[str, Any]) -> str:
    """Enter a call into the history and its count; gives the signature."""
    signature = loop_signature(name, args)
    state.tool_call_history.append(signature)
    state.last_repeat_counts[signature] = state.last_repeat_counts.get(signature, 0) + 1
    return signature


def accumulate_usage(
    state: RunState, response: Any, *, model: str | None = None
) -> tuple[int, int, float]:
    """Add what ``response`` cost to the state.

    Gives (prompt tokens, completion tokens, US dollars). What a provider leaves out, or reports
    as no number, counts as zero; an unknown price too.
    """
    usage = getattr(response, "usage", None)
    cost = getattr(response, "cost_usd", None)
    if not hasattr(response, "cost_usd") and (litellm := sys.modules.get("litellm")):
        with suppress(Exception):  # boundary: tool - an unpriced model must not end a run
            cost = litellm.completion_cost(completion_response=response, model=model)
    prompt = int(_number(getattr(usage, "prompt_tokens", 0)))
    completion = int(_number(getattr(usage, "completion_tokens", 0)))
    state.cumulative_prompt_tokens += prompt
    state.cumulative_completion_tokens += completion
    state.cumulative_cost_usd += _number(cost)
    return prompt, completion, _number(cost)


def _number(value: Any) -> float:
    is_sound = isinstance(value, int | float) and math.isfinite(value) and value >= 0
    return float(value) if is_sound else 0.0


def pre_step(
    state: RunState, guardrails: AgentGuardrails, *, now: float | None = None
) -> Failure | None:
    """Before a model call: steps, then time, then silence. ``now`` is monotonic."""
    current = time.monotonic() if now is None else now
    steps, most_steps = state.iteration, guardrails.max_iterations
    if steps >= most_steps:
        used = f"{steps} of {most_steps} steps are used"
        return causes.STEPS_USED.failure(used, iteration=steps, max_iterations=most_steps)
    elapsed, most_s = state.elapsed_seconds(current), guardrails.max_execution_time_s
    if elapsed >= most_s:
        used = f"{elapsed:.0f} of {most_s:.0f} seconds are used"
        return causes.TIME_USED.failure(used, elapsed_s=elapsed, max_execution_time_s=most_s)
    last = state.last_event_time_s
    silence = 0.0 if last is None else current - last
    if silence > guardrails.stall_threshold_s:
        return causes.NO_CALL.failure(f"nothing came for {silence:.0f} seconds", silence_s=silence)
    return None


def post_llm(*, response: Any, state: RunState, guardrails: AgentGuardrails) -> Failure | None:
    """After an answer: cut off, refused, or about to repeat itself."""
    choice = response.choices[0]
    reason, refusal = choice.finish_reason, getattr(choice.message, "refusal", None)
    if reason == "length":
        words = "the model's answer was cut off at the length limit"
        return causes.ANSWER_CUT_OFF.failure(words, finish_reason=reason)
    if refusal or reason in ("content_filter", "refusal"):
        why = str(refusal or "content filter")
        words = "the model refused to answer"
        return causes.ANSWER_REFUSED.failure(words, blockers=(why,), finish_reason=reason)
    return _repeating(choice.message, state, guardrails)


def _repeating(message: Any, state: RunState, guardrails: AgentGuardrails) -> Failure | None:
    counts = Counter(state.last_repeat_counts)
    for call in getattr(message, "tool_calls", None) or ():
        name = call.function.name
        signature = loop_signature(name, arguments_of(call))
        counts[signature] += 1
        count = counts[signature]
        if count >= guardrails.loop_hard_threshold:
            words = f"{name} was about to run for the {count}th time with the same arguments"
            known = {"signature": signature, "repeat_count": count, "tool_name": name}
            return causes.LOOP_AHEAD.failure(words, **known)
        if count > guardrails.loop_soft_threshold:
            _log.info("%s repeats: %s calls with the same arguments", signature, count)
    return None


def post_tool(result: Any, call: Any, state: RunState) -> Failure | None:
    """After a tool: its own failure, or the exception that left it."""
    name = tool_name_of(call)
    failure: Failure | None = getattr(result, "failure", None)
    if failure is not None:
        return replace(failure, metadata={"tool_name": name, **failure.metadata})
    message = getattr(result, "exception_message", None)
    if message is None:
        return None
    data = getattr(result, "partial_data", None)
    return causes.RAISED.failure(f"{name} failed: {message}", partial_data=data, tool_name=name)


@dataclass(frozen=True)
class Budget:
    """The tokens and the US dollars that a run may still use. What a model does not count is
    charged by its size and price, or a budget would never be used up."""

    state: RunState
    guardrails: AgentGuardrails

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit of tokens or cost."""
        return bool(self._limits)

    @property
    def _limits(self) -> list[Demand]:
        """Each limit with what of it is used, and nothing reserved yet; the ceiling comes last."""
        state, limits = self.state, self.guardrails
        tokens = state.cumulative_prompt_tokens + state.cumulative_completion_tokens
        cost = state.cumulative_cost_usd
        told: list[tuple[Guard, float, float | None]] = [
            ("tokens", tokens - state.budget_from_tokens, limits.max_tokens),
            ("cost", cost - state.budget_from_cost_usd, limits.max_cost_usd),
            ("cost", cost, limits.ceiling_cost_usd),
        ]
        return [Demand(guard, used, 0, most) for guard, used, most in told if most is not None]

    async def reckon(
        self, model: ChatModel, request: ModelRequest
    ) -> tuple[ModelRequest, Failure | Demand | None]:
        """Reckon the request that is about to be made, with an answer of the usual length.

        Gives it with the longest answer that there is room for, and the failure that forbids it,
        the demand that has passed the soft limit, or ``None``.
        """
        prompt, limits = tokens_in(request.messages, request.tools), self._limits
        longest: Any = getattr(model, "max_answer_tokens", None)
        is_short = isinstance(longest, int) and 0 < longest < ANSWER_TOKENS
        usual = longest if is_short else ANSWER_TOKENS
        # What the prompt alone takes, and what it takes with its answer.
        takes: dict[str, tuple[float, float]] = {"tokens": (prompt, prompt + usual)}
        if costs := [each.limit for each in limits if each.guard == "cost"]:
            try:
                asked = await _price(model, request, prompt, 0)
                both = None if asked is None else await _price(model, request, prompt, usual)
            except FailureRaised as raised:
                return request, raised.failure
            if asked is None or both is None:
                return request, _unpriced(model.name, min(costs))
            takes["cost"] = asked, both
        demands = [replace(each, reserved=takes[each.guard][1]) for each in limits]
        if over := [each for each in demands if each.is_over]:
            at_ceiling = over[-1] is demands[-1] and self.guardrails.ceiling_cost_usd is not None
            return request, _over(over[-1 if at_ceiling else 0], is_ceiling=at_ceiling)
        room = float(MOST_TOKENS)
        for each in demands:
            alone, whole = takes[each.guard]
            if whole > alone:
                room = min(room, (each.limit - each.used - alone) * usual / (whole - alone))
        capped = replace(request, max_answer_tokens=max(int(room), LEAST_ANSWER_TOKENS))
        return capped, next((each for each in demands if each.is_near), None)

    async def bill(
        self, reply: Completion | Failure, request: ModelRequest, model: ChatModel
    ) -> Completion | None:
        """``reply`` with the tokens and the cost that its model left out.

        Of an answer that broke off, what was heard of it, as a completion without choices; ``None``
        where none had begun: then the provider asks for nothing.
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
        with suppress(FailureRaised):  # the next request tells
            cost = await _price(model, request, usage.prompt_tokens, usage.completion_tokens)
            reply = replace(reply, cost_usd=cost)
        return reply


async def _price(model: ChatModel, request: ModelRequest, prompt: int, answer: int) -> float | None:
    """US dollars; ``None`` when the model has no price to tell in time.

    ``FailureRaised`` passes: it says why the model cannot be used at all.
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


def _over(demand: Demand, *, is_ceiling: bool = False) -> Failure:
    """What asks for more than there is; at a ceiling no answer of a person's can go on."""
    is_cost = demand.guard == "cost"
    needed = f"${demand.reserved:.4f}" if is_cost else f"{demand.reserved:,.0f} tokens"
    said = f"{demand.in_words()} are used and the next request may need {needed}"
    known, final = asdict(demand), causes.LIMIT_UNKEEPABLE
    if is_ceiling:
        said = f"The ceiling of the cost is reached: {said}"
        return final.failure(said, action=Action.stop, remedy=CEILING_REMEDY, **known)
    if demand.reserved > demand.limit:  # as much again would not do either: that is no question
        remedy = f"Allow more than {needed} for this turn."
        return final.failure(said, action=Action.handoff, remedy=remedy, **known)
    noun = "cost" if is_cost else "token"
    question = f"The run has reached its {noun} budget. Go on with as much again?"
    return causes.BUDGET_USED.failure(said, action=Action.ask_user, question=question, **known)


def _unpriced(name: str, limit: float) -> Failure:
    sentence = f"The price of {name!r} is unknown, so a limit of {dollars(limit)} cannot be kept."
    remedy = "Limit the tokens instead, or choose a model whose price is known."
    return causes.LIMIT_UNKEEPABLE.failure(sentence, guard="cost", limit=limit, remedy=remedy)
