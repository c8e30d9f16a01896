"""The iterations of a run: check limits, ask the model, run its calls, recover from failures.

Every exit is a terminal event. Starting and resuming a run is in ``agent.loop``.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from itertools import takewhile
from typing import Any, TypeVar

from parsimony_kernel.agent import outcomes
from parsimony_kernel.agent.chart_images import picture_messages
from parsimony_kernel.agent.failure.detectors import post_llm, post_tool, pre_step, record_tool_call
from parsimony_kernel.agent.failure.recovery import FALLBACK, FINAL, GUARD, answer, learned, pause
from parsimony_kernel.agent.hooks import RunContext
from parsimony_kernel.agent.model_calls import ModelCalls
from parsimony_kernel.agent.progress import Progress
from parsimony_kernel.agent.written_calls import WRITTEN, written_calls
from parsimony_kernel.core import chat, kinds
from parsimony_kernel.core import events as ev
from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.causes import NO_CALL, has_open_type
from parsimony_kernel.core.chat import Completion, FunctionCall, ToolCall
from parsimony_kernel.core.choices import LIMITS, Choice
from parsimony_kernel.core.kinds import Action, Failure, FailureKind, FailureType, TriageContext
from parsimony_kernel.core.state import HeldCall, RunState, SuspensionRecord, remember
from parsimony_kernel.core.text import encodable
from parsimony_kernel.gate.envelope import to_text
from parsimony_kernel.gate.gate import StepOutcome
from parsimony_kernel.gate.loops import Repetition
from parsimony_kernel.gate.rules import DONE
from parsimony_kernel.llm.extras import without_secrets
from parsimony_kernel.llm.transcript import unique_id
from parsimony_kernel.toolbox.run_tools import Plan, stored_file_tools
from parsimony_kernel.triage.classify import RulesClassifier

T = TypeVar("T")
Events = AsyncGenerator[ev.AgentEvent, None]

# An answer with more calls than this is out of control; the calls beyond it are skipped.
MAX_CALLS = 50


class Run:
    """The operations of one run on its state."""

    def __init__(self, context: RunContext, state: RunState) -> None:
        hooks = context.hooks
        self.context, self.hooks, self.clock, self.state = context, hooks, context.clock, state
        self.cancellation = state.cancellation = state.cancellation or CancellationRequest()
        state.terms = context.terms
        state.started_at = state.started_at or self.clock.now().isoformat()
        self.secrets = hooks.secrets(context)
        self.tools = stored_file_tools(state.files) + hooks.tools(context)
        self.gate = hooks.gate(self.tools, context, state)
        self.model_calls = ModelCalls(context, state, self.tools, self.secrets)
        self.progress = Progress(state, hooks.files(state))
        self._recovered: ev.AgentEvent | None = None  # the event that answered the last failure
        self._limits_met = 0
        self._refused: set[FailureKind] = set()
        turns = (each.get("tool_calls") for each in state.messages if isinstance(each, dict))
        self._ids = dict.fromkeys(call["id"] for calls in turns for call in calls or ())
        # Parallel calls of one answer that have started, from the current one on.
        self._beside: deque[asyncio.Task[tuple[StepOutcome, float]]] = deque()

    async def iterate(self) -> Events:
        """Run one iteration: check limits, ask the model, run its calls."""
        state, model_calls = self.state, self.model_calls
        if state.answered is not None:
            for event in self._taken_up(*state.answered):
                yield event
            return
        recovered, self._recovered = self._recovered, None
        if recovered is not None:
            await pause(recovered, self.context, state)
        if self.cancellation.is_set:
            raise Cancelled(self.cancellation.reason)
        # The time until now went to the reader of the events; it is not the model's silence.
        now = state.last_event_time_s = self.clock.monotonic()
        failure: Failure | None = None
        calls: Sequence[ToolCall] = ()
        approved = None
        if state.pending_call is not None:
            calls, approved = await self._allowed(state.pending_call)
        elif (failure := pre_step(state, self.context.guardrails, now=now)) is None:
            async with aclosing(model_calls.ask(since=now)) as events:
                async for event in events:
                    yield event
            failure, calls = self._heard(model_calls.reply)
        if failure is None:
            async for event in self._in_order(calls, approved):
                yield event
            return
        await self._skip(calls, self.secrets.clean(failure.explanation))
        yield await self._fail(failure)
        if FALLBACK in failure.metadata:
            # The next model starts with a fresh count.
            state.failure_attempts.pop(failure.kind, None)

    def _heard(self, reply: Completion | Failure) -> tuple[Failure | None, tuple[ToolCall, ...]]:
        """Append an answer to the transcript; return its failure, if any, and its calls."""
        if isinstance(reply, Failure):
            return reply, ()
        state, self._limits_met = self.state, 0
        failure = post_llm(response=reply, state=state, guardrails=self.context.guardrails)
        is_cut_off = failure is not None and failure.kind is FailureKind.output_truncated
        calls = () if is_cut_off else reply.message.tool_calls
        answer = reply.message.content
        if failure is None and not calls:
            calls, answer = written_calls(reply.message, self.tools, state.messages)
        if failure is None and not calls and answer and DONE in self.tools and _ends(answer, state):
            # A final answer in plain text becomes a call of return_done, so it passes the gate.
            function = FunctionCall(DONE, json.dumps({"summary": answer}))
            calls, answer = (ToolCall(f"ended_{len(state.messages)}", function),), None
        # Some models use one id for several calls.
        calls = tuple(replace(each, id=unique_id(each.id, self._ids)) for each in calls)
        self._say(answer, calls, reply.message.opaque)
        if failure is None and not calls:
            state.turn.text_only_response = True
            words = "the model answered in words and called no tool"
            failure = NO_CALL.failure(words, iteration=state.iteration)
        return failure, calls

    def _taken_up(self, record: SuspensionRecord, chosen: Choice | None) -> Iterator[ev.AgentEvent]:
        """Continue after an answered question, or end the run if the answer was to stop.

        Yields a snapshot first.
        """
        state, effect = self.state, record.pending_effect
        state.answered = None
        # The person says whether a write with an unknown outcome happened.
        if effect and chosen is Choice.happened:
            self.hooks.effects(state).commit(effect, {"confirmed": "by the person"})
        elif effect and chosen is Choice.did_not_happen:
            self.hooks.effects(state).withdraw(effect)
        yield snapshot_of(state, self.context)
        if chosen is Choice.stop:
            state.done = True
            why = record.pending_question_context or record.pending_question
            missing = f"the rest of the request, for you said to stop: {why}"
            yield ev.PartialRunSummary(missing=missing, learned_facts=learned(state))

    async def _in_order(self, calls: Sequence[ToolCall], approved: str | None) -> Events:
        """Run ``calls`` in order. ``approved`` is the hash that a person allowed for the first."""
        state, clean = self.state, bool(calls)
        await self._skip(calls[MAX_CALLS:], f"{MAX_CALLS} calls are the most in one answer")
        calls = calls[:MAX_CALLS]
        for index, call in enumerate(calls):
            allowed = None if index else approved
            async for event in self._call(call, rest=calls[index + 1 :], approved=allowed):
                clean = clean and not (isinstance(event, ev.ToolEvent) and event.ok is False)
                yield event
            if state.done:
                return
            if not clean:
                break
        if clean:
            state.failure_attempts.clear()
            state.recoveries.clear()
            self._solve(None)
            self._refused.clear()
        yield snapshot_of(self.state, self.context)

    async def _allowed(self, held: HeldCall) -> tuple[Sequence[ToolCall], str | None]:
        """Return the call that waited for approval, the calls after it, and the approved hash.

        If the person declined, undo what the call has done so far, tell the model, and return no
        calls.
        """
        state = self.state
        behind, state.pending_behind, state.pending_call = state.pending_behind, [], None
        call, *rest = (each.call for each in (held, *behind))
        if held.allowed:
            return (call, *rest), held.sha
        back = self.progress.declined()
        ran = f"What ran before it was undone. {back}" if back else "Nothing was run."
        message = f"This was not allowed. {ran}"
        self._answer(call, to_text({"error": "not_allowed", "message": message}))
        await self._skip(rest, "the call before it was declined")
        return (), None

    async def _call(
        self, call: ToolCall, *, rest: Sequence[ToolCall], approved: str | None = None
    ) -> Events:
        """Run one call and yield its events; ``rest`` are the calls after it in the same answer."""
        state, name, tool = self.state, call.function.name, self.tools.get(call.function.name)
        arguments = chat.arguments_of(call)
        begun = ev.ToolEvent(
            tool_name=name,
            tool_call_id=call.id,
            tool_type="function" if tool is None else tool.tool_type,
            arguments=self.secrets.of_json(arguments),
            around=_last_words(state.messages) if call.id.startswith(WRITTEN) else None,
        )

        def ended(**how: Any) -> ev.ToolEvent:
            return begun.model_copy(update={"completed": True, **how})

        yield begun
        if approved is None:
            record_tool_call(state, name, arguments)
            state.turn.tool_calls_this_turn += 1
        self.progress.begin(None if self._overlaps(call) else tool)
        began = self.clock.monotonic()
        try:
            together = [*takewhile(self._overlaps, (call, *rest))]
            if len(together) > 1 and approved is None and not self._beside:
                self._beside.extend(asyncio.ensure_future(self._step(each)) for each in together)
            begun_beside = self._beside.popleft() if self._beside else None
            outcome, seconds = await (begun_beside or self._step(call, approved))
        except Cancelled:
            self._answer(call, '{"error": "cancelled", "message": "the run was stopped"}')
            for event in self._drained():
                yield event
            yield ended(ok=False, result={"stopped": True})
            raise
        state.procedure_state = self.gate.place
        # A tool has its own time limit: its time counts neither as silence nor as the run's time.
        state.last_event_time_s = self.clock.monotonic()
        state.started_monotonic_s += state.last_event_time_s - began
        outcome = self.progress.settle(outcome)
        if approved is not None:
            note = f"Allowed by the person. {outcome.envelope.get('note', '')}".rstrip()
            outcome = outcomes.adding(outcome, "note", note)
        keeping = self.hooks.kept(call, outcome, state)
        whole = await self._explained(call, await self._unless_stopped(keeping, outcome))
        # ``read`` is for the model; ``outcome`` is for people and stays on this machine.
        read, outcome = self._told(self.hooks.shared(call, whole)), self._told(whole)
        content, failure = to_text(read.envelope), outcome.failure
        if failure is not None and kinds.HELD in failure.metadata:
            # It waits for approval; the record keeps the call, so that it can run unchanged.
            yield ended(result={"waiting": "approval"})
            await self.let_fall()
            state.pending_call = HeldCall.of(call, failure.metadata[kinds.HELD])
            state.pending_behind = list(map(HeldCall.of, rest))
            yield snapshot_of(state, self.context)
            event = await self._fail(failure, read=read.failure)
            if not isinstance(event, ev.UserInputRequested):
                state.pending_call, state.pending_behind = None, []
                self._answer(call, content)
                await self._skip(rest, "the call before it may not run")
            yield event
            return
        self._answer(call, content)
        self._note(call, outcome, read)
        for event in self._drained():
            yield event
        yield ended(
            ok=outcome.ok,
            result=outcomes.for_people(outcome, self.secrets, stopped=self.cancellation.is_set),
            failure=failure and failure.without_data(),
            duration_s=seconds,
        )
        yield ev.ToolResultObserved(
            tool_name=name, tool_call_id=call.id, content=content, ok=outcome.ok
        )
        await self._picture(outcome)
        # The model wrote the rest of the batch on the assumption that this call succeeds. And a
        # record may be sealed next, in which every call needs a result.
        if outcome.request is not None or not outcome.ok:
            ends = "failed" if outcome.request is None else "ended the run"
            await self._skip(rest, f"the call before it {ends}")
        if self.cancellation.is_set:
            raise Cancelled(self.cancellation.reason)
        if outcome.request is not None:
            state.done = True
            yield outcomes.terminal_event(outcome.request, self.context, state, self.secrets)
            return
        failed = post_tool(outcome.result, call, state)
        if failed is None:
            return
        shown = post_tool(read.result, call, state) or failed
        if not (outcome.is_guidance and self._is_first_of_its_kind(shown)):
            yield await self._fail(failed, read=shown)

    def _note(self, call: ToolCall, outcome: StepOutcome, read: StepOutcome) -> None:
        """Update the state after ``call``: plan, solved failures and repetition counts."""
        state, name, data = self.state, call.function.name, outcome.result.data
        if outcome.ok:
            self._solve(name)
        if outcome.ok and isinstance(data, Plan):
            state.subgoals = list(map(self.secrets.clean, data.parts))
            state.done_subgoals = list(map(self.secrets.clean, data.done))
        if outcome.is_guidance:
            return
        arguments = chat.arguments_of(call)
        is_code = name in self.tools and self.tools[name].tool_type == "code"
        seen = Repetition.from_json(state.repetition).after(
            name,
            self.secrets.of_json(arguments),
            outcomes.shown(outcome),
            is_late=is_code and outcomes.is_late(outcome),
            read=outcomes.shown(read),
        )
        state.repetition = seen.to_json()
        # Polling for changing results is no loop; code that fails in a new way each time is one.
        if seen.is_news and (outcome.ok or not is_code):
            state.last_repeat_counts[chat.loop_signature(name, arguments)] = 1

    def _is_first_of_its_kind(self, refusal: Failure) -> bool:
        """Whether a guidance refusal is the first of its kind.

        The first one is only the tool's result, which the model reads before it continues; the
        second in a row enters the funnel. The first counts as a failed attempt only where the
        action is a retry: counting it before narrowing would use up narrowing's single attempt.
        """
        kind, state = refusal.kind, self.state
        if state.failure_attempts.get(kind) or kind in self._refused:
            return False
        self._refused.add(kind)
        if refusal.suggested_action is Action.retry:
            state.record_failure_attempt(kind)
        state.lessons_learned = remember(state.lessons_learned, refusal)
        return True

    async def _step(self, call: ToolCall, approved: str | None = None) -> tuple[StepOutcome, float]:
        """Pass ``call`` through the gate; return its outcome and its duration in seconds."""
        name, given, started = call.function.name, chat.arguments_of(call), self.clock.monotonic()
        stop = self.cancellation
        outcome = await self.gate.step(name, given, cancellation=stop, approved=approved)
        return outcome, self.clock.monotonic() - started

    def _overlaps(self, call: ToolCall) -> bool:
        """Whether ``call`` may run in parallel with others.

        Its tool must be marked as parallelizable, have no effect and need no person. In a procedure
        nothing runs in parallel, since each step decides which may follow.
        """
        tool = self.tools.get(call.function.name)
        if tool is None or not tool.parallelizable or self.gate.place:
            return False
        return tool.effect == "none" and tool.reaches is None

    async def let_fall(self) -> None:
        """Cancel parallel calls after one failed or was stopped; they count as not run."""
        begun, self._beside = self._beside, deque()
        for each in begun:
            each.cancel()
        await asyncio.gather(*begun, return_exceptions=True)

    def _solve(self, tool: str | None) -> None:
        """Mark earlier failures of ``tool`` as solved, so that the model no longer reads them.

        ``None`` stands for failures of no tool, such as an answer without a call.
        """
        self.state.lessons_learned = [
            each.noting({kinds.SOLVED: True}) if each.metadata.get("tool_name") == tool else each
            for each in self.state.lessons_learned
        ]

    def _drained(self) -> Iterator[ev.AgentEvent]:
        """Yield the events that the host emitted, and add them to the state.

        Published artifacts are recorded as this run's, and model calls of tools count towards its
        cost.
        """
        state, turn = self.state, self.state.turn
        for event in self.hooks.drain():
            if isinstance(event, ev.ArtifactPublished):
                minted = event.model_dump(include={"kind", "logical_id", "content_sha"})
                name = (event.kind, event.live_name or "")
                if minted not in turn.minted_refs:
                    turn.minted_refs.append(minted)
                if event.live_name and name not in turn.minted_live_names:
                    turn.minted_live_names.append(name)
            elif isinstance(event, ev.LLMCallCompleted):
                state.cumulative_prompt_tokens += event.prompt_tokens
                state.cumulative_completion_tokens += event.completion_tokens
                state.cumulative_cost_usd += event.cost_usd or 0.0
            yield event

    def _told(self, outcome: StepOutcome) -> StepOutcome:
        """Copy the outcome without secrets."""
        envelope = self.secrets.of_cleaned(outcome.envelope)
        failure = outcome.failure and self.secrets.of_failure(outcome.failure)
        result = outcome.result if failure is None else replace(outcome.result, failure=failure)
        return replace(outcome, envelope=envelope, failure=failure, result=result)

    async def _unless_stopped(self, work: Awaitable[T], instead: T) -> T:
        """Await ``work``; return ``instead`` if the run is stopped, so that the step's outcome is
        still reported."""
        try:
            return await self.cancellation.race(work)
        except Cancelled:
            return instead

    async def _picture(self, outcome: StepOutcome) -> None:
        """Append the step's charts to the transcript if the model accepts images."""
        sees = getattr(self.model_calls.model, "sees_pictures", False)
        if sees and (figures := self.hooks.pictures(outcome)):
            drawing = asyncio.to_thread(picture_messages, figures, list(self.state.messages))
            drawn = await self._unless_stopped(drawing, [])
            self.state.messages.extend(self.secrets.of_prose(drawn))

    async def _explained(self, call: ToolCall, outcome: StepOutcome) -> StepOutcome:
        """Add the failure type and its hint to an outcome that the gate could not classify."""
        failure = outcome.failure
        if failure is None or not has_open_type(failure):
            return outcome
        if not isinstance(self.context.classifier, RulesClassifier):  # it may ask a model
            failure = self.hooks.shared(call, outcome).failure or failure
        tool = self.tools.get(call.function.name)
        repeatable = tool is not None and tool.is_repeatable
        judging = outcomes.diagnose(
            failure, call, self.context, self.state, self.known(), is_idempotent=repeatable
        )
        return outcomes.with_type(outcome, await self._unless_stopped(judging, FailureType.UNKNOWN))

    async def _fail(self, failure: Failure, *, read: Failure | None = None) -> ev.AgentEvent:
        """Send ``failure`` through the funnel; ``read`` is the part that the model may read."""
        self._limits_met += failure.kind in LIMITS or GUARD in failure.metadata
        if self._limits_met > 1:  # retrying a limit would only reach it again
            failure = failure.noting({FINAL: True})
        failure = self.secrets.of_failure(failure)
        self._recovered = await answer(failure, self.context, self.state, run=self, read=read)
        return self._recovered

    def known(self) -> TriageContext:
        """Return the facts about this run for strategies and classifiers."""
        state = self.state
        return TriageContext(
            tools=tuple(self.tools),
            constraints=tuple(state.pinned_constraints),
            subgoals=tuple(state.subgoals),
            done_subgoals=frozenset(state.done_subgoals),
            checkpoints=self.progress.checkpoints,
        )

    def go_back(self, checkpoint_id: str | None) -> tuple[str, str]:
        """Restore a checkpoint; describe it for people and for the model.

        Raises ``LookupError`` when there is none.
        """
        words = self.progress.go_back(checkpoint_id)
        # A new gate, since its walker starts at the restored state of the procedure.
        self.gate = self.hooks.gate(self.tools, self.context, self.state)
        return words, self.hooks.shared_names(words)

    async def _skip(self, calls: Sequence[ToolCall], why: str) -> None:
        """Answer ``calls`` as not run."""
        await self.let_fall()
        for call in calls:
            self._answer(call, to_text({"error": "not_run", "message": f"not run: {why}"}))

    def _say(self, text: str | None, calls: Sequence[ToolCall], opaque: str) -> None:
        """Append the model's answer to the transcript, without secrets."""
        secrets = self.secrets
        content = secrets.of_json(encodable(text))
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if opaque := without_secrets(opaque, secrets):
            message["opaque"] = opaque
        for call in calls:
            arguments = secrets.of_arguments(call.function.arguments)
            function = {"name": call.function.name, "arguments": arguments}
            asked = {"id": call.id, "type": "function", "function": function}
            message.setdefault("tool_calls", []).append(asked)
        self.state.messages.append(message)

    def _answer(self, call: ToolCall, content: str) -> None:
        """Append the result of ``call`` to the transcript."""
        message = {"role": "tool", "tool_call_id": call.id, "name": call.function.name}
        self.state.messages.append({**message, "content": content})


def snapshot_of(state: RunState, context: RunContext) -> ev.StateSnapshot:
    """Build a progress event: iterations, variables and elapsed seconds."""
    return ev.StateSnapshot(
        iteration=state.iteration,
        variables=context.hooks.variables(state),
        elapsed_s=state.elapsed_seconds(context.clock.monotonic()),
    )


def _ends(words: str, state: RunState) -> bool:
    """Whether a plain-text answer is final: tools ran, no failure or subgoal is open, and the text
    doesn't announce more (by ending in a colon or an ellipsis)."""
    text = words.rstrip()
    announces = not text or text.endswith((":", "…", "..."))
    is_open = bool(state.failure_attempts or state.open_subgoals)
    return bool(state.tool_call_history) and not is_open and not announces


def _last_words(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of the model's last message; empty if it only called tools."""
    contents = (each["content"] for each in reversed(messages) if each["role"] == "assistant")
    return next(contents, None) or ""
