"""Model calls of a run: requests, budget, cost and fallback models.

The models are in order of preference, each behind a circuit breaker. Each request is one attempt;
the funnel decides about retries. Whatever the policy, a run gives up after
``MAX_FAILING_REQUESTS`` failures in a row.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict, replace

from parsimony_kernel.agent.failure.detectors import accumulate_usage
from parsimony_kernel.agent.failure.recovery import FALLBACK, FINAL, asks_for_long, budget_of
from parsimony_kernel.agent.hooks import RunContext
from parsimony_kernel.agent.prompts import FINISH_WITHIN_BUDGET
from parsimony_kernel.agent.renderer import KEPT_RESULTS, MAX_COMPACTION, IncrementalRenderer
from parsimony_kernel.core import events as ev
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.causes import BREAKER_OPEN
from parsimony_kernel.core.chat import Beat, ChatModel, Completion, Delta, ModelRequest
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.core.state import RunState
from parsimony_kernel.core.text import encodable
from parsimony_kernel.limits.breaker import CircuitBreaker, CircuitOpenError
from parsimony_kernel.limits.budget import Budget, Demand
from parsimony_kernel.llm.chokepoint import call_llm
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.llm.transcript import Repairer
from parsimony_kernel.tools import Tools

# Counted over all models of a run; three models with the default three retries each use it up.
MAX_FAILING_REQUESTS = 12


class ModelCalls:
    """The model calls of one run.

    Args:
        tools: all callable tools; the host selects the ones that a request describes.

    Attributes:
        model: the model to ask next.
        reply: the completion or failure of the last request.
    """

    def __init__(
        self, context: RunContext, state: RunState, tools: Tools, secrets: Secrets
    ) -> None:
        hooks = context.hooks
        offered = hooks.offered(tools)
        self.model, *self._others = hooks.models(context)
        self.reply: Completion | Failure
        self._context, self._state, self._secrets = context, state, secrets
        self._cancellation = state.cancellation or CancellationRequest()
        self._schemas = secrets.of_prose(offered.to_llm())
        self._budget = Budget(state, context.guardrails)
        self._renderer = IncrementalRenderer(context.instructions, tuple(offered))
        self._repairer = Repairer()
        self._failing = 0

    @property
    def _breaker(self) -> CircuitBreaker:
        # It outlives the run, so the next run knows at once that a provider is down.
        return self._context.hooks.breakers.of(service_of(self.model))

    def request(self) -> ModelRequest:
        """Render the next request from the current state."""
        state, limits = self._state, self._context.guardrails
        # The window is in tokens of about 4 characters. Taken as a number of characters, it gives
        # results a quarter of the window.
        window = getattr(self.model, "context_window", None)
        most = window if isinstance(window, int) and 0 < window < KEPT_RESULTS else KEPT_RESULTS
        in_text = not getattr(self.model, "reads_envelopes", False)
        return ModelRequest(
            self._renderer.render(state, in_text=in_text, most=most),
            self._schemas,
            timeout_s=limits.llm_timeout_s,
            heartbeat_s=limits.stream_heartbeat_s,
            deadline_s=self._context.time_left(state),
        )

    async def ask(self, *, since: float) -> AsyncGenerator[ev.AgentEvent, None]:
        """Ask the model once, within the budget, and set ``reply``.

        ``since`` is the start of the iteration, in monotonic seconds of the clock.
        """
        state, model, clock = self._state, self.model, self._context.clock
        request, demand = await self._reckoned()
        if isinstance(demand, Failure):
            self.reply = demand
            return
        if demand is not None:
            yield ev.BudgetWarning(guard=demand.guard, used=demand.used, limit=demand.limit)
        state.iteration += 1
        state.turn.text_only_response, state.turn.tool_calls_this_turn = False, 0
        try:
            permit = self._breaker.admit()
        except CircuitOpenError as refused:
            self.reply = self._rerouted(_left_alone(model.name, refused.retry_in_s))
            return
        stop, repair = self._cancellation, self._repairer.repair
        answer = call_llm(model, request, cancellation=stop, clock=clock, repair=repair)
        thoughts, heard_at = "", clock.monotonic()
        try:
            async with aclosing(answer):
                async for item in answer:
                    match item:
                        case Delta(text, reasoning):
                            if reasoning:
                                thoughts += reasoning
                                thought_s = clock.monotonic() - heard_at
                                state.accumulated_reasoning_duration_s += thought_s
                                yield ev.ReasoningDelta(content=encodable(reasoning))
                            if text:
                                yield ev.TextDelta(content=encodable(text))
                        case Beat(silent_s):
                            yield ev.Heartbeat(model=model.name, silent_s=silent_s)
                        case _:
                            self.reply = item
                    heard_at = state.last_event_time_s = clock.monotonic()
            if isinstance(self.reply, Completion):
                permit.report("succeeded")
            elif self.reply.kind is FailureKind.transient_provider:
                permit.report("failed")
        finally:
            permit.report("released")
        state.accumulated_reasoning += self._secrets.clean(thoughts)
        bill = self.reply if isinstance(self.reply, Completion) else None
        if self._budget.is_limited:
            bill = await self._cancellation.race(self._budget.bill(self.reply, request, model))
        if bill is not None:
            yield self._account(bill, since)
        if isinstance(self.reply, Failure):
            self.reply = self._rerouted(self.reply)
            return
        self._failing, state.pending_instruction = 0, None
        state.failure_attempts.pop(FailureKind.transient_provider, None)

    async def _reckoned(self) -> tuple[ModelRequest, Failure | Demand | None]:
        """Fit the next request into the budget.

        Returns:
            The request, limited to the longest answer that the budget allows, and the failure that
            forbids it, a warning, or ``None``.

        Older results are shortened when the request doesn't fit, and near the end of the budget;
        then the model is also told to finish.
        """
        state = self._state
        request, demand = self.request(), None
        while self._budget.is_limited:
            reckoning = self._budget.reckon(self.model, request)
            request, demand = await self._cancellation.race(reckoning)
            fits = not isinstance(demand, Failure) or "reserved" not in demand.metadata
            if fits or state.compaction >= MAX_COMPACTION:
                break
            state.compaction += 1
            request = self.request()
        if demand is None or isinstance(demand, Failure):
            return request, demand
        if state.budget_warned:
            return request, None
        state.budget_warned, state.compaction = True, max(state.compaction, 1)
        instructions = filter(None, (state.pending_instruction, FINISH_WITHIN_BUDGET))
        state.pending_instruction = "\n\n".join(instructions)
        return replace(self.request(), max_answer_tokens=request.max_answer_tokens), demand

    def _rerouted(self, failure: Failure) -> Failure:
        """Switch to the next model if this one is given up, and note that in the failure."""
        self._failing += "breaker" not in failure.metadata
        if self._failing >= MAX_FAILING_REQUESTS:
            return failure.noting({FINAL: True})
        if failure.kind is not FailureKind.transient_provider:
            return failure
        attempts = self._state.failure_attempts
        spent = attempts.get(failure.kind, 0) >= budget_of(self._context.policy, failure.kind)
        is_open = self._breaker.state == "open" or "breaker" in failure.metadata
        if self._others and (spent or is_open or asks_for_long(failure)):
            self.model, *self._others = self._others
            attempts.pop(failure.kind, None)
            return failure.noting({FALLBACK: self.model.name})
        return failure.noting({FINAL: True}) if is_open else failure

    def _account(self, reply: Completion, started: float) -> ev.LLMCallCompleted:
        """Add the usage and cost of ``reply`` to the state; return its event."""
        accumulate_usage(self._state, reply, model=reply.model)
        return ev.LLMCallCompleted(
            model=reply.model,
            **asdict(reply.usage),
            cost_usd=reply.cost_usd,
            duration_s=self._context.clock.monotonic() - started,
            finish_reason=reply.choices[0].finish_reason if reply.choices else "error",
        )


def service_of(model: ChatModel) -> str:
    """Return the key of a model's circuit breaker: its ``service``, or else its name."""
    return str(getattr(model, "service", model.name))


def _left_alone(name: str, seconds: float) -> Failure:
    words = f"{name} failed several times in a row and is left alone for {seconds:.0f} s more."
    remedy = "Run the cell again then, or choose another model."
    return BREAKER_OPEN.failure(
        words, model=name, breaker="open", retry_in_s=seconds, remedy=remedy
    )
