"""Asking the models: the requests of a run, the budget that they are within, and what they cost.

The models stand in the order in which they are wanted, each behind its breaker. Each is asked once
at a time: whether to try again is the funnel's; that a run stops asking after so many failures in a
row holds whatever the policy.
"""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from parsimony_kernel.agent.failure.detectors import Budget, accumulate_usage
from parsimony_kernel.agent.failure.recovery import FALLBACK, FINAL, asks_for_long, budget_of
from parsimony_kernel.agent.hooks import RunContext
from parsimony_kernel.agent.prompts import FINISH_WITHIN_BUDGET
from parsimony_kernel.agent.renderer import KEPT_RESULTS, MAX_COMPACTION, IncrementalRenderer
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.causes import BREAKER_OPEN, PROVIDER_FAULT
from parsimony_kernel.core.chat import (
    Beat,
    ChatModel,
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
from parsimony_kernel.limits.breaker import CircuitOpenError
from parsimony_kernel.limits.budget import Demand
from parsimony_kernel.llm import thinking
from parsimony_kernel.llm.chokepoint import call_llm
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.llm.transcript import Repairer

# Over all models of a run. Three models with the default budget of three retries use it up.
MAX_FAILING_REQUESTS = 12


class ModelCalls:
    """The requests of one run, and what comes of them.

    Args:
        models: those that answer, the preferred one first; at least one.
        schemas: the tools that every request describes.
        callable_: the names of all that may be called.

    Attributes:
        model: the one that is asked next.
        reply: what came of the last request.
        prompt_tokens: those of the last request, as its provider counts them, if it does.
    """

    def __init__(
        self,
        context: RunContext,
        state: RunState,
        models: Sequence[ChatModel],
        schemas: list[dict[str, Any]],
        callable_: Sequence[str],
        *,
        secrets: Secrets,
        cancellation: CancellationRequest,
    ) -> None:
        self.model, *self._others = models
        self.reply: Completion | Failure = _nothing_came()
        self.prompt_tokens: int | None = None
        self._context = context
        self._state = state
        self._schemas = schemas
        self._secrets = secrets
        self._cancellation = cancellation
        self._clock = context.clock
        # They outlive the run: a provider that was down a moment ago is not found out anew.
        self._breakers = context.hooks.breakers
        self._budget = Budget(state, context.guardrails)
        self._renderer = IncrementalRenderer(callable_)
        self._repairer = Repairer()
        self._failing = 0

    @property
    def sees_pictures(self) -> bool:
        """Whether the model that is asked next can be shown a picture."""
        return bool(getattr(self.model, "sees_pictures", False))

    async def reckoned(self) -> tuple[ModelRequest, Failure | Demand | None]:
        """The next request, and what it asks of the budget; compacted where it would not fit."""
        while True:
            request = self.request()
            if not self._budget.is_limited:
                return request, None
            reckoning = self._budget.reckon(self.model, request)
            request, demand = await self._cancellation.race(reckoning)
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
                in_text=not getattr(self.model, "reads_envelopes", False),
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
        window = getattr(self.model, "context_window", None)
        return min(KEPT_RESULTS, window) if isinstance(window, int) and window > 0 else KEPT_RESULTS

    def warn(self, demand: Demand) -> BudgetWarning:
        """Most of a budget is used: less of the past is sent, and the model is told to finish."""
        state = self._state
        state.budget_warned = True
        state.compaction = max(state.compaction, 1)
        told = filter(None, (state.pending_instruction, FINISH_WITHIN_BUDGET))
        state.pending_instruction = "\n\n".join(told)
        return BudgetWarning(guard=demand.guard, used=demand.used, limit=demand.limit)

    async def ask(self, request: ModelRequest, *, since: float) -> AsyncGenerator[AgentEvent, None]:
        """What happens while ``request`` is answered. The answer, or why there is none, is
        ``reply`` then.

        ``since`` is when the pass began, in seconds of the clock.
        """
        state, model, clock = self._state, self.model, self._clock
        self.reply, thoughts, heard_at = _nothing_came(), "", clock.monotonic()
        async with aclosing(self._answer(request)) as items:
            async for item in items:
                match item:
                    case Delta(text, reasoning):
                        if reasoning:
                            thoughts += reasoning
                            state.accumulated_reasoning_duration_s += clock.monotonic() - heard_at
                            yield ReasoningDelta(content=encodable(reasoning))
                        if text:
                            yield TextDelta(content=encodable(text))
                    case Beat(silent_s):
                        yield Heartbeat(model=model.name, silent_s=silent_s)
                    case _:
                        self.reply = item
                heard_at = state.last_event_time_s = clock.monotonic()
        state.accumulated_reasoning += self._secrets.clean(thoughts)
        bill = self.reply if isinstance(self.reply, Completion) else None
        if self._budget.is_limited:
            bill = await self._cancellation.race(self._budget.bill(self.reply, request, model))
        if bill is not None:
            yield self._account(bill, since)
        if isinstance(self.reply, Failure):
            self.reply = self._rerouted(self.reply)
            return
        state.pending_instruction = None
        state.failure_attempts.pop(FailureKind.transient_provider, None)

    async def _answer(
        self, request: ModelRequest
    ) -> AsyncGenerator[Delta | Beat | Completion | Failure, None]:
        """Ask the model once; see ``call_llm``. One whose breaker is open is not asked."""
        try:
            permit = self._breakers.of(service_of(self.model)).admit()
        except CircuitOpenError as refused:
            yield _left_alone(self.model.name, refused.retry_in_s)
            return
        answers = call_llm(
            self.model,
            request,
            cancellation=self._cancellation,
            clock=self._clock,
            repair=self._repairer.repair,
        )
        try:
            async with aclosing(answers):
                async for item in answers:
                    if isinstance(item, Completion):
                        permit.succeeded()
                        self._failing = 0
                    elif isinstance(item, Failure):
                        self._failing += 1
                        if item.kind is FailureKind.transient_provider:
                            permit.failed()
                    yield item
        finally:
            permit.released()

    def _rerouted(self, failure: Failure) -> Failure:
        """``failure``, after the next model has taken over where this one is given up."""
        if self._failing >= MAX_FAILING_REQUESTS:
            return given_up(failure)
        if failure.kind is not FailureKind.transient_provider:
            return failure
        attempts = self._state.failure_attempts
        budget = budget_of(self._context.policy, failure.kind)
        spent = attempts.get(failure.kind, 0) >= budget
        breaker = self._breakers.of(service_of(self.model))
        is_open = breaker.state == "open" or "breaker" in failure.metadata
        if self._others and (spent or is_open or asks_for_long(failure)):
            self.model, *self._others = self._others
            attempts.pop(failure.kind, None)
            return _noted(failure, FALLBACK, self.model.name)
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


def service_of(model: ChatModel) -> str:
    """What fails together: the model's ``service`` where it has one, else its name."""
    return str(getattr(model, "service", model.name))


def _left_alone(name: str, seconds: float) -> Failure:
    sentence = f"{name} failed several times in a row and is left alone for {seconds:.0f} s more."
    return BREAKER_OPEN.failure(
        sentence,
        model=name,
        breaker="open",
        retry_in_s=seconds,
        remedy="Run the cell again then, or choose another model.",
    )


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
