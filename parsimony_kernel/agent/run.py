"""One pass of a run after the other: check, ask the model, act, and answer what fails.

The machinery around one state. Every exit is one of the terminal events; who begins and resumes a
run is in ``agent.loop``.
"""

import inspect
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from parsimony_kernel.agent.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.agent.events import (
    AgentEvent,
    Handoff,
    RunCompleted,
    StateSnapshot,
    ToolEvent,
    ToolResultObserved,
    UserInputRequested,
    is_terminal,
)
from parsimony_kernel.agent.failure.causes import CAPABILITY_GAP, has_open_type
from parsimony_kernel.agent.failure.detectors import (
    arguments_of,
    loop_signature,
    post_llm,
    post_tool,
    pre_step,
    record_tool_call,
    text_only,
)
from parsimony_kernel.agent.failure.kinds import Action, Effect, Failure, FailureKind
from parsimony_kernel.agent.failure.recovery import FALLBACK, handle_failure, suspend
from parsimony_kernel.agent.failure.suspension import SuspensionRequest
from parsimony_kernel.agent.failure.termination import TerminationRequest
from parsimony_kernel.agent.hooks import RunHooks, hooks_of
from parsimony_kernel.agent.knowledge import Knowledge, typed
from parsimony_kernel.agent.model_calls import ModelCalls, given_up
from parsimony_kernel.agent.progress import Progress, told
from parsimony_kernel.agent.redaction import of_failure
from parsimony_kernel.agent.state import HeldCall, RunState, TurnSubstate, remember
from parsimony_kernel.agent.terms import terms_of
from parsimony_kernel.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.execution.outputs import KernelOutput
from parsimony_kernel.gate.approval import APPROVAL
from parsimony_kernel.gate.envelope import to_text
from parsimony_kernel.gate.gate import Gate, StepOutcome
from parsimony_kernel.gate.refusal import GUIDANCE
from parsimony_kernel.gate.repetition import Repetition
from parsimony_kernel.llm.base import Completion, FunctionCall, ToolCall
from parsimony_kernel.llm.chain import Chain
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.llm.transcript import encodable
from parsimony_kernel.toolbox.plan import Plan
from parsimony_kernel.tools import Tools
from parsimony_kernel.triage.classifier.rules import RulesClassifier
from parsimony_kernel.triage.hints import HINTS
from parsimony_kernel.triage.taxonomy import FailureType, TriageContext

# An answer that asks for more calls than this has lost its way; the rest of them is not run.
MAX_CALLS = 50


@dataclass
class Run:
    """The machinery around one state."""

    agent: Any
    state: RunState
    cancellation: CancellationRequest
    clock: Clock = field(init=False)
    hooks: RunHooks = field(init=False)
    secrets: Secrets = field(init=False)
    tools: Tools = field(init=False)
    gate: Gate = field(init=False)
    model_calls: ModelCalls = field(init=False)
    progress: Progress = field(init=False)
    _limits_met: int = 0
    _refused: set[FailureKind] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.clock = getattr(self.agent, "clock", None) or SYSTEM_CLOCK
        self.hooks = hooks_of(self.agent)
        self.secrets = self.hooks.secrets(self.agent)
        self.tools = self.hooks.tools(self.agent)
        self.gate = self.hooks.gate(self.tools, self.agent, self.state)
        self.model_calls = ModelCalls(
            self.agent,
            self.state,
            Chain(self.hooks.models(self.agent), self.hooks.breakers, self.clock),
            self.secrets.of_prose(self.tools.to_llm()),
            cancellation=self.cancellation,
            clock=self.clock,
        )
        self.progress = Progress(self.state)
        self.state.cancellation = self.cancellation
        self.state.terms = terms_of(self.agent)
        if not self.state.started_at:
            self.state.started_at = self.clock.now().isoformat()

    async def iterate(self) -> AsyncGenerator[AgentEvent, None]:
        """One pass: check, ask the model, act."""
        state = self.state
        if self.cancellation.is_set:
            raise Cancelled(self.cancellation.reason)
        now = self.clock.monotonic()
        # Whoever reads the events has taken this time, not the model.
        state.last_event_time_s = now
        if state.pending_call is not None:
            async for event in self._answered(state.pending_call):
                yield event
            return
        failure = pre_step(state, self.agent.guardrails, now=now)
        if failure is not None:
            async for event in self._fail(self._met(failure)):
                yield event
            return
        request, demand = await self.model_calls.reckoned()
        if isinstance(demand, Failure):
            async for event in self._fail(self._met(demand)):
                yield event
            return
        self._limits_met = 0
        if demand is not None and not state.budget_warned:
            yield self.model_calls.warn(demand)
            request = replace(
                self.model_calls.request(), max_answer_tokens=request.max_answer_tokens
            )
        state.iteration += 1
        state.turn = TurnSubstate(
            minted_refs=state.turn.minted_refs,
            minted_live_names=state.turn.minted_live_names,
        )
        reply: Completion | Failure | None = None
        reasoned = len(state.accumulated_reasoning)
        async with aclosing(self.model_calls.ask(request, since=now)) as items:
            async for item in items:
                if isinstance(item, Completion | Failure):
                    reply = item
                else:
                    yield item
        assert reply is not None
        known, new = state.accumulated_reasoning[:reasoned], state.accumulated_reasoning[reasoned:]
        state.accumulated_reasoning = known + self.secrets.clean(new)
        if isinstance(reply, Completion):
            async for event in self._act(reply):
                yield event
            return
        async for event in self._fail(reply):
            yield event
        if FALLBACK in reply.metadata:
            # Its last failure is not the next model's first.
            state.failure_attempts.pop(reply.kind, None)

    def _met(self, failure: Failure) -> Failure:
        """``failure`` of a limit; trying again meets it again, so once is the most."""
        self._limits_met += 1
        return failure if self._limits_met == 1 else given_up(failure)

    async def _act(self, reply: Completion) -> AsyncGenerator[AgentEvent, None]:
        state = self.state
        failure = post_llm(response=reply, state=state, guardrails=self.agent.guardrails)
        calls = () if _is_cut_off(failure) else reply.message.tool_calls
        state.messages.append(_assistant(reply, calls, self.secrets))
        if failure is None and not calls:
            state.turn.text_only_response = True
            failure = text_only(state)
        if failure is not None:
            async for event in self._fail(failure, unanswered=calls):
                yield event
            return
        clean = True
        for index, call in enumerate(calls):
            if index and (over := self._enough(index)):
                self._skip(calls[index:], over)
                break
            async for event in self._call(call, rest=calls[index + 1 :]):
                clean = clean and not (isinstance(event, ToolEvent) and event.ok is False)
                yield event
            if state.done:
                return
            if not clean:
                break
        if clean:
            state.failure_attempts.clear()
            state.recoveries.clear()
            self._refused.clear()
        yield self.snapshot()

    def _enough(self, calls: int) -> str | None:
        """Why the rest of an answer's calls is not run, if it is not."""
        elapsed = self.state.elapsed_seconds(self.clock.monotonic())
        if elapsed >= self.agent.guardrails.max_execution_time_s:
            return "not run: the time of the run is over"
        return (
            f"not run: {MAX_CALLS} calls are the most in one answer" if calls >= MAX_CALLS else None
        )

    def snapshot(self) -> StateSnapshot:
        """How far the run is: its rounds, its variables, its seconds."""
        return StateSnapshot(
            iteration=self.state.iteration,
            variables=self.hooks.variables(self.state),
            elapsed_s=self.state.elapsed_seconds(self.clock.monotonic()),
        )

    async def _answered(self, held: HeldCall) -> AsyncGenerator[AgentEvent, None]:
        """Run the call that waited for a person, or tell the model that it may not run."""
        self.state.pending_call = None
        call = ToolCall(held.id, FunctionCall(held.name, held.arguments))
        if held.allowed:
            async for event in self._call(call, rest=(), approved=held.sha):
                yield event
        else:
            message = "The person did not allow this. Nothing was run; their words follow."
            self._answer(call, to_text({"error": "not_allowed", "message": message}))
        if not self.state.done:
            yield self.snapshot()

    async def _call(
        self, call: ToolCall, *, rest: Sequence[ToolCall], approved: str | None = None
    ) -> AsyncGenerator[AgentEvent, None]:
        state, name = self.state, call.function.name
        arguments = arguments_of(call)
        tool_type = self.tools[name].tool_type if name in self.tools else "function"
        shown_arguments = self.secrets.of_json(arguments)
        begun = ToolEvent(
            tool_name=name, tool_call_id=call.id, tool_type=tool_type, arguments=shown_arguments
        )
        yield begun
        if approved is None:
            record_tool_call(state, name, arguments)
            state.turn.tool_calls_this_turn += 1
        started = self.clock.monotonic()
        is_tried = self._begin(name, tool_type)
        try:
            outcome = await self.gate.step(
                name, arguments, cancellation=self.cancellation, approved=approved
            )
        except Cancelled:
            self._answer(call, '{"error": "cancelled", "message": "the run was stopped"}')
            for event in self.hooks.drain():
                yield event
            yield begun.model_copy(
                update={"completed": True, "ok": False, "result": {"stopped": True}}
            )
            raise
        state.procedure_state = self.gate.place
        # A running tool is not the model's silence.
        state.last_event_time_s = self.clock.monotonic()
        if is_tried:
            outcome = self._settled(outcome)
        whole = await self._explained(call, outcome)
        # What the model reads, and what people do: the second stays on this machine.
        read, outcome = self._told(self.hooks.shared(call, whole)), self._told(whole)
        content = to_text(read.envelope)
        if outcome.failure is not None and APPROVAL in outcome.failure.metadata:
            async for event in self._held(call, rest, begun, outcome.failure, read):
                yield event
            return
        self._answer(call, content)
        if outcome.ok and isinstance(outcome.result.data, Plan):
            state.subgoals = list(map(self.secrets.clean, outcome.result.data.parts))
            state.done_subgoals = list(map(self.secrets.clean, outcome.result.data.done))
        if not outcome.is_guidance:
            seen = Repetition.from_json(state.repetition).after(
                name,
                shown_arguments,
                _shown(outcome),
                is_late=tool_type == "code" and _is_late(outcome),
                read=_shown(read),
            )
            state.repetition = seen.to_json()
            # Asking a tool again for what changes is no loop; the same code again is one.
            if seen.is_news and tool_type != "code":
                state.last_repeat_counts[loop_signature(name, arguments)] = 1
        for event in self.hooks.drain():
            yield event
        yield begun.model_copy(
            update={
                "completed": True,
                "ok": outcome.ok,
                "result": self._for_people(outcome),
                "failure": outcome.failure and outcome.failure.without_data(),
                "duration_s": self.clock.monotonic() - started,
            }
        )
        yield ToolResultObserved(
            tool_name=name, tool_call_id=call.id, content=content, ok=outcome.ok
        )
        # What follows in the batch was written in the belief that this call succeeds and the run
        # goes on; and a record may be sealed next, in which no call may stay unanswered.
        if outcome.request is not None:
            self._skip(rest, "not run: the run ended with the call before")
        elif not outcome.ok:
            self._skip(rest, "not run: the call before it failed")
        async for event in self._conclude(call, outcome, read):
            yield event

    def _begin(self, name: str, tool_type: str) -> bool:
        """Whether what runs is taken back when it fails: code, or a function of the notebook."""
        if tool_type == "code":
            self.progress.begin()
            return True
        function = getattr(self.tools[name], "function", None) if name in self.tools else None
        body = inspect.unwrap(function) if callable(function) else None
        if tool_type != "function" or getattr(body, "__module__", None) != "__main__":
            return False
        self.progress.begin(body)
        return True

    def _settled(self, outcome: StepOutcome) -> StepOutcome:
        """What code leaves behind: a state to go back to, or, when it failed, nothing but the
        names that are new."""
        failure = outcome.failure
        if failure is None:
            if outcome.request is None:
                self.progress.passed()
            return outcome
        if failure.refusal in GUIDANCE or APPROVAL in failure.metadata:
            return outcome
        # Variables go with what happened outside: that is not taken back either.
        if failure.kind is FailureKind.kernel_invalidated or failure.effect is not Effect.none:
            self.progress.spoil()
            return outcome
        back = self.progress.failed()
        return _adding(outcome, "variables", told(back)) if back else outcome

    def _told(self, outcome: StepOutcome) -> StepOutcome:
        """The outcome as everyone reads it: without what this run has to keep to itself."""
        failure = outcome.failure and of_failure(outcome.failure, self.secrets)
        return replace(outcome, envelope=self.secrets.of_cleaned(outcome.envelope), failure=failure)

    async def _explained(self, call: ToolCall, outcome: StepOutcome) -> StepOutcome:
        """The outcome with the type of its failure, where the gate could not tell that, and with
        what helps against it."""
        failure = outcome.failure
        if failure is None or not has_open_type(failure):
            return outcome
        elapsed = self.state.elapsed_seconds(self.clock.monotonic())
        classifier = self.hooks.classifier(self.agent)
        if not isinstance(classifier, RulesClassifier):  # it may ask a model
            failure = self.hooks.shared(call, outcome).failure or failure
        judging = self._knowledge().type_of(
            failure,
            call,
            classifier,
            within_s=max(0.0, self.agent.guardrails.max_execution_time_s - elapsed),
            clock=self.clock,
        )
        try:
            kind = await self.cancellation.race(judging)
        except Cancelled:
            return outcome  # what the step came to is told first
        if kind is FailureType.UNKNOWN:
            return outcome
        outcome = replace(outcome, failure=outcome.failure and typed(outcome.failure, kind))
        return _adding(outcome, "hint", HINTS[kind]) if kind in HINTS else outcome

    async def _held(
        self,
        call: ToolCall,
        rest: Sequence[ToolCall],
        begun: ToolEvent,
        failure: Failure,
        read: StepOutcome,
    ) -> AsyncGenerator[AgentEvent, None]:
        """The call waits for a person; it goes into the record, to be run as it is."""
        state = self.state
        yield begun.model_copy(update={"completed": True, "result": {"waiting": "approval"}})
        self._skip(rest, "not run: the call before it waits for the person")
        state.pending_call = HeldCall(
            id=call.id,
            name=call.function.name,
            arguments=call.function.arguments,
            sha=failure.metadata[APPROVAL],
        )
        yield self.snapshot()
        suspended = False
        async for event in self._fail(failure, read=read.failure):
            suspended = isinstance(event, UserInputRequested)
            yield event
        if not suspended:
            state.pending_call = None
            self._answer(call, to_text(read.envelope))

    async def _conclude(
        self, call: ToolCall, outcome: StepOutcome, read: StepOutcome
    ) -> AsyncGenerator[AgentEvent, None]:
        state = self.state
        if self.cancellation.is_set:
            raise Cancelled(self.cancellation.reason)
        match outcome.request:
            case SuspensionRequest() as request:
                state.done = True
                yield suspend(
                    self.agent,
                    state,
                    question=self.secrets.clean(request.question),
                    context=request.context and self.secrets.clean(request.context),
                    choices=tuple(map(self.secrets.clean, request.choices)),
                )
            case TerminationRequest() as request if request.is_done:
                state.done = True
                yield RunCompleted(summary=request.message, variables=self.hooks.variables(state))
            case TerminationRequest() as request:
                state.done = True
                yield Handoff(
                    rationale=request.message,
                    blockers=request.blockers,
                    suggested_next_steps=request.suggested_next_steps,
                    failure=CAPABILITY_GAP.failure(request.message, blockers=request.blockers),
                )
            case None:
                failure = post_tool(outcome.result, call, state)
                if failure is not None:
                    told = post_tool(read.result, call, state) or failure
                    async for event in self._tool_failed(failure, outcome, told):
                        yield event

    async def _tool_failed(
        self, failure: Failure, outcome: StepOutcome, read: Failure
    ) -> AsyncGenerator[AgentEvent, None]:
        # The first guidance refusal is the tool's answer: the model reads it and goes on. The
        # second in a row enters the funnel. The first is counted there, but not where the ladder
        # goes on with narrowing, whose one strike it would use up.
        kind, attempts = failure.kind, self.state.failure_attempts
        if outcome.is_guidance and not attempts.get(kind) and kind not in self._refused:
            self._refused.add(kind)
            if failure.suggested_action is Action.retry:
                self.state.record_failure_attempt(kind)
            lesson = of_failure(read, self.secrets)
            self.state.lessons_learned = remember(self.state.lessons_learned, lesson)
            return
        async for event in self._fail(failure, read=read):
            yield event

    async def _fail(
        self,
        failure: Failure,
        *,
        unanswered: Sequence[ToolCall] = (),
        read: Failure | None = None,
    ) -> AsyncGenerator[AgentEvent, None]:
        """Answer ``failure``; ``read`` is what the model may read of it, if that is not all."""
        failure = of_failure(failure, self.secrets)
        self._skip(unanswered, f"not run: {failure.explanation}")
        async for event in handle_failure(
            failure,
            agent=self.agent,
            state=self.state,
            run=self,
            read=read and of_failure(read, self.secrets),
        ):
            yield event
            if is_terminal(event):
                return

    def known(self) -> TriageContext:
        """What a strategy may know of this run."""
        return self._knowledge().as_context()

    def shared_names(self, words: str) -> str:
        """What the model may read of words that name variables."""
        return self.hooks.shared_names(words)

    def go_back(self, checkpoint_id: str | None) -> str:
        """Go back to a checkpoint; ``LookupError`` when there is none."""
        words = self.progress.go_back(checkpoint_id)
        # With its walker where the procedure stood then.
        self.gate = self.hooks.gate(self.tools, self.agent, self.state)
        return words

    def _knowledge(self) -> Knowledge:
        return Knowledge(
            self.state,
            self.tools,
            self.hooks.identifiers(self.agent),
            self.progress.checkpoints,
            self.model_calls.prompt_tokens,
            getattr(self.model_calls.chain.current, "context_window", None),
        )

    def _for_people(self, outcome: StepOutcome) -> dict[str, Any]:
        result = dict(outcome.envelope)
        if self.cancellation.is_set and not outcome.ok:
            result["stopped"] = True
        data = outcome.result.data if outcome.ok else outcome.result.partial_data
        if isinstance(data, KernelOutput):
            result["output"] = self.secrets.of_json(data.model_dump(mode="json"))
        return result

    def _skip(self, calls: Sequence[ToolCall], why: str) -> None:
        for call in calls:
            self._answer(call, to_text({"error": "not_run", "message": why}))

    def _answer(self, call: ToolCall, content: str) -> None:
        self.state.messages.append(
            {
                "role": "tool",
                "tool_call_id": call.id,
                "name": call.function.name,
                "content": content,
            }
        )


def _assistant(reply: Completion, calls: Sequence[ToolCall], secrets: Secrets) -> dict[str, Any]:
    content = secrets.of_json(encodable(reply.message.content))
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.function.name,
                    "arguments": secrets.of_arguments(call.function.arguments),
                },
            }
            for call in calls
        ]
    return message


def _shown(outcome: StepOutcome) -> str:
    return to_text(outcome.envelope.get("result", outcome.envelope))


def _is_late(outcome: StepOutcome) -> bool:
    failure = outcome.failure
    return failure is not None and (
        failure.type is FailureType.TIMEOUT or failure.kind is FailureKind.kernel_invalidated
    )


def _adding(outcome: StepOutcome, key: str, text: str) -> StepOutcome:
    return replace(outcome, envelope={**outcome.envelope, key: text})


def _is_cut_off(failure: Failure | None) -> bool:
    return failure is not None and failure.kind is FailureKind.output_truncated
