"""Failure detectors.

Detectors are read-only: each returns a ``Failure`` or ``None``. Within a phase, hard stops come
before quality, quality before warnings, and the first match wins. Only the two counters
(``record_tool_call``, ``accumulate_usage``) write to the state.
"""

import logging
import math
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import Any

from parsimony_kernel.core import causes
from parsimony_kernel.core.chat import arguments_of, loop_signature, tool_name_of
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.core.state import RunState

_log = logging.getLogger(__name__)


def record_tool_call(state: RunState, name: str, args: dict[str, Any]) -> str:
    """Add a call to the history, increment its count, and return its signature."""
    signature = loop_signature(name, args)
    state.tool_call_history.append(signature)
    state.last_repeat_counts[signature] = state.last_repeat_counts.get(signature, 0) + 1
    return signature


def accumulate_usage(
    state: RunState, response: Any, *, model: str | None = None
) -> tuple[int, int, float]:
    """Add the usage and cost of ``response`` to the state.

    Returns:
        Prompt tokens, completion tokens and US dollars. Missing or invalid counts, and an unknown
        price, are zero.
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
    """Check steps, then time, then silence before a model call. ``now`` is monotonic seconds."""
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
    """Check an answer: was it cut off or refused, or would its calls repeat themselves?"""
    choice = response.choices[0]
    reason, refusal = choice.finish_reason, getattr(choice.message, "refusal", None)
    if reason == "length":
        words = "the model's answer was cut off at the length limit"
        return causes.ANSWER_CUT_OFF.failure(words, finish_reason=reason)
    if refusal or reason in ("content_filter", "refusal"):
        why = str(refusal or "content filter")
        words = "the model refused to answer"
        return causes.ANSWER_REFUSED.failure(words, blockers=(why,), finish_reason=reason)
    counts = Counter(state.last_repeat_counts)
    for call in getattr(choice.message, "tool_calls", None) or ():
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
    """Return the failure of a tool call: its own, or one built from the exception it raised."""
    name = tool_name_of(call)
    failure: Failure | None = getattr(result, "failure", None)
    if failure is not None:
        return replace(failure, metadata={"tool_name": name, **failure.metadata})
    message = getattr(result, "exception_message", None)
    if message is None:
        return None
    data = getattr(result, "partial_data", None)
    return causes.RAISED.failure(f"{name} failed: {message}", partial_data=data, tool_name=name)
