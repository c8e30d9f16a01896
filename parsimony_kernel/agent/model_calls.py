"""Asking the model: the requests of a run, the budget that they are within, and what they cost."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from parsimony_kernel.agent.failure.budget import Budget
from parsimony_kernel.agent.failure.detectors import accumulate_usage
from parsimony_kernel.agent.failure.recovery import FALLBACK, FINAL, asks_for_long, budget_of
from parsimony_kernel.agent.hooks import RunContext
from parsimony_kernel.agent.prompts import FINISH_WITHIN_BUDGET
from parsimony_kernel.agent.renderer import KEPT_RESULTS, MAX_COMPACTION, IncrementalRenderer
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.causes import PROVIDER_FAULT
from parsimony_kernel.core.chat import (
    Beat,
    Completion,
    Delta,
    FunctionCall,
    ModelRequest,
    ToolCall,
)
from parsimony_kernel.core.events import (
    AgentEvent,
    BudgetWarning,
    Heartbeat,
    LLMCallCompleted,
    ReasoningDelta,
    TextDelta,
)
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.core.state import RunState
from parsimony_kernel.core.text import encodable
from parsimony_kernel.gate.rules import DONE
from parsimony_kernel.limits.budget import Demand
from parsimony_kernel.llm import thinking
from parsimony_kernel.llm.chain import Chain
from parsimony_kernel.llm.secrets import Secrets


class ModelCalls:
    """The requests of one run, and what comes of them.

    Args:
        schemas: the tools that every request describes.
        callable_: the names of all that may be called.

    Attributes:
        chain: the models, of which one is asked at a time.
        prompt_tokens: those of the last request, as its provider counts them, if it does.
    """

    def __init__(
        self,
        context: RunContext,
        state: RunState,
        chain: Chain,
        schemas: list[dict[str, Any]],
        callable_: Sequence[str],
        *,
        cancellation: CancellationRequest,
    ) -> None:
        self.chain = chain
        self.prompt_tokens: int | None = None
        self._context = context
        self._state = state
        self._schemas = schemas
        self._cancellation = cancellation
        self._clock = context.clock
        self._budget = Budget(state, context.guardrails)
        self._renderer = IncrementalRenderer(callable_)

    @property
    def sees_pictures(self) -> bool:
        """Whether the model that is asked next can be shown a picture."""
        return bool(getattr(self.chain.current, "sees_pictures", False))

    async def reckoned(self) -> tuple[ModelRequest, Failure | Demand | None]:
        """The next request, and what it asks of the budget; compacted where it would not fit."""
        if not self._budget.is_limited:
            return self.request(), None
        model = self.chain.current
        while True:
            request = await self._cancellation.race(self._budget.capped(model, self.request()))
            demand = await self._cancellation.race(self._budget.reserve(model, request))
            fits = not isinstance(demand, Failure) or "reserved" not in demand.metadata
            if fits or self._state.compaction >= MAX_COMPACTION:
                return request, demand
            self._state.compaction += 1

    def request(self) -> ModelRequest:
        """The next request as the state is now."""
        limits = self._context.guardrails
        return ModelRequest(
            self._renderer.render(
                self._state,
                instructions=self._context.instructions,
                in_text=not getattr(self.chain.current, "reads_envelopes", False),
                most=self._room_for_results(),
            ),
            self._schemas,
            timeout_s=limits.llm_timeout_s,
            heartbeat_s=limits.stream_heartbeat_s,
            deadline_s=limits.max_execution_time_s
            - self._state.elapsed_seconds(self._clock.monotonic()),
        )

    def _room_for_results(self) -> int:
        """A quarter of what the model takes, in characters; four are about a token."""
        window = getattr(self.chain.current, "context_window", None)
        return min(KEPT_RESULTS, window) if isinstance(window, int) and window > 0 else KEPT_RESULTS

    def warn(self, demand: Demand) -> BudgetWarning:
        """Most of a budget is used: less of the past is sent, and the model is told to finish."""
        state = self._state
        state.budget_warned = True
        state.compaction = max(state.compaction, 1)
        told = filter(None, (state.pending_instruction, FINISH_WITHIN_BUDGET))
        state.pending_instruction = "\n\n".join(told)
        return BudgetWarning(guard=demand.guard, used=demand.used, limit=demand.limit)

    async def ask(
        self, request: ModelRequest, *, since: float
    ) -> AsyncGenerator[AgentEvent | Completion | Failure, None]:
        """What happens while ``request`` is answered; last the answer, or why there is none.

        ``since`` is when the pass began, in seconds of the clock.
        """
        state = self._state
        reply: Completion | Failure | None = None
        asked = self.chain.current.name
        answers = self.chain.ask(request, cancellation=self._cancellation)
        async with aclosing(answers) as items:
            async for item in items:
                match item:
                    case Delta():
                        self._remember_reasoning(item)
                        for event in _deltas(item):
                            yield event
                    case Beat(silent_s):
                        yield Heartbeat(model=asked, silent_s=silent_s)
                    case _:
                        reply = item
                state.last_event_time_s = self._clock.monotonic()
        billed = request, self.chain.current
        if not isinstance(reply, Completion):
            failure = reply or _nothing_came()
            if self._budget.is_limited:
                charging = self._budget.charged_failure(failure, *billed)
                bill = await self._cancellation.race(charging)
                if bill is not None:
                    yield self._account(bill, since)
            yield self._rerouted(failure)
            return
        state.pending_instruction = None
        state.failure_attempts.pop(FailureKind.transient_provider, None)
        if self._budget.is_limited:
            reply = await self._cancellation.race(self._budget.charged(reply, *billed))
        yield self._account(reply, since)
        yield reply

    def _remember_reasoning(self, delta: Delta) -> None:
        state = self._state
        if delta.reasoning:
            since = state.last_event_time_s
            state.accumulated_reasoning += delta.reasoning
            if since is not None:
                state.accumulated_reasoning_duration_s += self._clock.monotonic() - since

    def _rerouted(self, failure: Failure) -> Failure:
        """``failure``, after the next model has taken over where this one is given up."""
        if self.chain.is_spent:
            return given_up(failure)
        if failure.kind is not FailureKind.transient_provider:
            return failure
        attempts = self._state.failure_attempts
        budget = budget_of(self._context.policy, failure.kind)
        spent = attempts.get(failure.kind, 0) >= budget
        is_open = self.chain.is_open or "breaker" in failure.metadata
        if spent or is_open or asks_for_long(failure):
            fallback = self.chain.move_on()
            if fallback is not None:
                attempts.pop(failure.kind, None)
                return _noted(failure, FALLBACK, fallback)
        return given_up(failure) if is_open else failure

    def _account(self, reply: Completion, started: float) -> LLMCallCompleted:
        prompt, completion, _ = accumulate_usage(self._state, reply, model=reply.model)
        if reply.choices:
            self.prompt_tokens = prompt or None
        return LLMCallCompleted(
            model=reply.model,
            prompt_tokens=prompt,
            completion_tokens=completion,
            cached_tokens=reply.usage.cached_tokens,
            cache_write_tokens=reply.usage.cache_write_tokens,
            cost_usd=reply.cost_usd,
            duration_s=self._clock.monotonic() - started,
            finish_reason=reply.choices[0].finish_reason if reply.choices else "error",
        )


def given_up(failure: Failure) -> Failure:
    """``failure``, for which nothing is left to be tried."""
    return _noted(failure, FINAL, True)


def _noted(failure: Failure, key: str, value: Any) -> Failure:
    return replace(failure, metadata={**failure.metadata, key: value})


def _deltas(delta: Delta) -> list[AgentEvent]:
    events: list[AgentEvent] = []
    if delta.reasoning:
        events.append(ReasoningDelta(content=encodable(delta.reasoning)))
    if delta.text:
        events.append(TextDelta(content=encodable(delta.text)))
    return events


def _nothing_came() -> Failure:
    return PROVIDER_FAULT.failure("the model's stream ended without an answer")


def ends(words: str, state: RunState) -> bool:
    """Whether words are the end: something was done, nothing of it failed, no part of a plan is
    open, and they announce nothing."""
    said = words.rstrip()
    announces = not said or said.endswith((":", "…", "..."))
    is_open = bool(state.failure_attempts or state.open_subgoals)
    return bool(state.tool_call_history) and not is_open and not announces


def ending(words: str, state: RunState) -> ToolCall:
    """Words that end a run, as the call that a model ends one with: through the same gate."""
    call = FunctionCall(DONE, json.dumps({"summary": words}))
    return ToolCall(f"ended_{len(state.messages)}", call)


def assistant_message(
    said: str | None, calls: Sequence[ToolCall], opaque: str, secrets: Secrets
) -> dict[str, Any]:
    """A model's answer as it stands in the transcript."""
    content = secrets.of_json(encodable(said))
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if opaque := thinking.without_secrets(opaque, secrets):
        message["opaque"] = opaque
    for call in calls:
        arguments = secrets.of_arguments(call.function.arguments)
        function = {"name": call.function.name, "arguments": arguments}
        asked = {"id": call.id, "type": "function", "function": function}
        message.setdefault("tool_calls", []).append(asked)
    return message


def last_words(messages: Sequence[Mapping[str, Any]]) -> str:
    """What the model said last; empty where it only called tools."""
    said = (each["content"] for each in reversed(messages) if each["role"] == "assistant")
    return next(said, None) or ""
