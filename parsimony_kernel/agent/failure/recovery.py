"""The funnel: the one place where a failure becomes an action.

``decide`` sees the counts as they were; then the failure is counted and remembered; then the
action is carried out. Nothing else in the package retries, narrows, suspends or hands off.
"""

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, Self, TypeVar, assert_never

from parsimony_kernel.agent.failure.suspension import Secret, build_record
from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.causes import GOAL_DRIFT, is_for_a_person
from parsimony_kernel.core.choices import LIMITS, MORE, ids_of, labels_of
from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.events import (
    AgentError,
    AgentEvent,
    Handoff,
    PartialRunSummary,
    UserInputRequested,
)
from parsimony_kernel.core.kinds import EFFECT_KEY, HELD, Action, Effect, Failure, FailureKind
from parsimony_kernel.core.policy import DefaultPolicy, RecoveryPolicy
from parsimony_kernel.core.state import RunState, remember
from parsimony_kernel.core.taxonomy import FailureType, TriageContext
from parsimony_kernel.core.text import encodable
from parsimony_kernel.storage.keyring import KeyringError
from parsimony_kernel.triage.policy import (
    Abort,
    Escalate,
    RecoveryAction,
    Replan,
    Resume,
    Retry,
    Rollback,
    Suspend,
)

_QUESTIONS = {
    FailureKind.iteration_limit: "The run has used all its steps. Go on with as many again?",
    FailureKind.time_limit: "The run has used all its time. Go on for as long again?",
    FailureKind.loop_detected: "The agent is repeating itself. How should it go on?",
}
_NARROW = {
    FailureKind.no_progress: (
        "Your last answer had words but no tool call, so nothing happened. Choose one now: take "
        "the next step with a tool; call ask_user if you need to know something from the person; "
        "call return_done with a summary if the request is fulfilled; call return_unable with "
        "blockers if it cannot be."
    ),
    FailureKind.scope_too_large: (
        "That was too much at once ({explanation}). Pick the smallest next step that brings the "
        "request forward, do only that, and look at its result."
    ),
    FailureKind.kernel_invalidated: (
        "The state of the notebook was lost ({explanation}). Pick the smallest next step: load "
        "again only what the request still needs, and do not rely on earlier variables."
    ),
}

_RETRY = {
    FailureKind.output_truncated: (
        "Your last answer was cut off at the length limit and none of it was run. Answer again, "
        "shorter: one tool call with less code."
    ),
}


_CLAIMED = (
    "{explanation} Go back to the last step whose result you have seen: run the smallest code that "
    "shows what you want to say, or call return_done with only what was shown."
)
_SILENT = "Nothing came for a while ({explanation}). Take the smallest next step with a tool."
_REMEDIES = {
    FailureKind.tool_error: (
        "Say in a new request what to do differently, or mend it in a cell of yours: what the run "
        "has made so far is there."
    ),
    FailureKind.no_progress: "Ask for less at once, say it in other words, or try another model.",
}
_log = logging.getLogger(__name__)

# A person would rather choose another model, or come back, than watch a longer wait.
MAX_WAIT_S = 60.0
# The longest that a strategy thinks, and real seconds in which what is stopped has to end.
PLANNING_S = 30.0
_HEEDED_S = 0.4
T = TypeVar("T")

# Keys of a failure's metadata: the budget that was reached; the model that takes over at once;
# and that nothing is left to be tried.
GUARD, FALLBACK, FINAL = "guard", "fallback", "final"
_UNTIMED = AgentGuardrails(max_execution_time_s=math.inf)


@dataclass(frozen=True)
class RecoveryContext:
    """What the funnel knows of an agent. Without ``guardrails`` there is no limit of time.

    The ``kind`` of a field is the type of its value, or the name of a method that it has.

    Args:
        signing_key: gives the secret that seals a question, and its id. It is asked when there is
            a question, since keys are rotated while a run goes on; may raise ``KeyringError`` or
            ``ValueError``.
    """

    signing_key: Callable[[], tuple[Secret, str]] = field(metadata={"kind": "__call__"})
    policy: RecoveryPolicy = field(default_factory=DefaultPolicy, metadata={"kind": "decide"})
    guardrails: AgentGuardrails = field(default=_UNTIMED, metadata={"kind": AgentGuardrails})
    clock: Clock = field(default=SYSTEM_CLOCK, metadata={"kind": "now"})

    @classmethod
    def of(cls, agent: object) -> Self:
        """Read ``agent``, which may be read already. ``TypeError`` for a value of another kind."""
        if isinstance(agent, cls):
            return agent

        def unnamed_key() -> tuple[Secret, str]:
            return getattr(agent, "suspension_secret", None) or "", ""

        given: dict[str, Any] = {"signing_key": unnamed_key}
        for each in fields(cls):
            value, kind = getattr(agent, each.name, None), each.metadata["kind"]
            if value is None:
                continue
            is_named = isinstance(kind, str)
            if not (hasattr(value, kind) if is_named else isinstance(value, kind)):
                needed = f"an object with {kind}()" if is_named else getattr(kind, "__name__", kind)
                # What should give a key may be the key.
                shown = type(value).__name__ if kind == "__call__" else repr(value)
                raise TypeError(f"the {each.name} of an agent must be {needed}, not {shown}")
            made = each.metadata.get("made")
            given[each.name] = made(value) if made else value
        return cls(**given)

    def time_left(self, state: RunState) -> float:
        """Seconds that the run still has; waiting longer would only be found out afterwards."""
        elapsed = state.elapsed_seconds(self.clock.monotonic())
        return max(0.0, self.guardrails.max_execution_time_s - elapsed)


class Surroundings(Protocol):
    """What the funnel is told of a run beside its state, and may do to it."""

    def known(self) -> TriageContext:
        """What a strategy may know."""
        ...

    def go_back(self, checkpoint_id: str | None) -> str:
        """Go back to a state of the variables, the newest by default, and tell what that did.

        ``LookupError`` when there is none.
        """
        ...

    def shared_names(self, words: str) -> str:
        """What the model may read of words that name variables."""
        ...


async def handle_failure(
    failure: Failure,
    *,
    agent: object,
    state: RunState,
    run: Surroundings | None = None,
    read: Failure | None = None,
) -> AsyncGenerator[AgentEvent, None]:
    """Answer ``failure`` with exactly one action and yield what happened.

    Args:
        failure: what was found.
        agent: a ``RecoveryContext``, or an agent, which may have no more than ``policy`` and
            ``suspension_secret``.
        state: its counts, lessons, ``pending_instruction`` and ``done`` are updated.
        run: asked for what strategies may know, and to go back; without it nothing can be.
        read: ``failure`` as a model may read it, if that is not all; people read all of it.

    Yields ``AgentError(recoverable=True)`` for retry and narrow_scope, else one terminal event.
    ``Cancelled``, and nothing is counted, where the run is to stop while a strategy thinks.
    """
    context = RecoveryContext.of(agent)
    policy, clock = context.policy, context.clock
    told = read or failure
    decision = await _decided(context, told, state, run)
    action = _permitted(decision.action, failure)
    prior = state.failure_attempts.get(failure.kind, 0)
    if HELD not in failure.metadata:  # what waits for a person has not failed
        state.record_failure_attempt(failure.kind)
        state.lessons_learned = remember(state.lessons_learned, told)
        state.note_recovery(failure.type, decision.strategy or action.value)

    match action:
        case Action.retry:
            delay = max(_delay(failure, policy, prior), min(decision.delay_s, MAX_WAIT_S))
            note = decision.hint or retry_note(told)
            state.pending_instruction = note or state.pending_instruction
            yield AgentError(
                message=failure.explanation,
                failure=failure.without_data(),
                recoverable=True,
                action=action.value,
                attempt=prior + 1,
                budget=budget_of(policy, failure.kind),
                delay_s=delay,
                fallback=failure.metadata.get(FALLBACK),
                strategy=decision.strategy,
            )
            await _pause(min(delay, context.time_left(state)), clock, state)
        case Action.narrow_scope:
            put_back = _gone_back(decision, run)
            names = put_back if run is None else run.shared_names(put_back)
            parts = filter(None, (names, decision.hint or narrowing(told)))
            state.pending_instruction = " ".join(parts)
            if failure.type is FailureType.CONTEXT_OVERFLOW:
                state.compaction += 1
            yield AgentError(
                message=failure.explanation,
                failure=failure.without_data(),
                recoverable=True,
                action=action.value,
                attempt=prior + 1,
                budget=1,
                strategy=decision.strategy,
                put_back=put_back,
            )
        case Action.ask_user:
            state.done = True
            yield suspend(
                context,
                state,
                question=decision.words
                or failure.metadata.get("question")
                or _QUESTIONS.get(failure.kind)
                or failure.explanation,
                context=failure.explanation,
                choices=failure.metadata.get("choices")
                or (MORE if failure.kind in LIMITS or failure.metadata.get(GUARD) else ()),
                kind=failure.kind,
                guard=failure.metadata.get(GUARD, ""),
                effect_key=failure.metadata.get(EFFECT_KEY, ""),
            )
        case Action.handoff:
            state.done = True
            yield Handoff(
                rationale=decision.words or failure.explanation,
                blockers=failure.blockers or (failure.explanation,),
                suggested_next_steps=tuple(filter(None, (_remedy(failure),))),
                failure=failure.without_data(),
            )
        case Action.stop:
            state.done = True
            yield PartialRunSummary(
                missing=decision.words or failure.explanation,
                learned_facts=learned(state),
                next_step_plan=failure.metadata.get("remedy"),
            )
        case _:
            assert_never(action)


def learned(state: RunState) -> tuple[str, ...]:
    """What is known as a run stops early: what failed on the way, and no limit that ends it."""
    return tuple(
        lesson.explanation for lesson in state.lessons_learned if lesson.kind not in LIMITS
    )


def suspend(
    run: RecoveryContext,
    state: RunState,
    *,
    question: str,
    context: str | None = None,
    choices: Any = (),
    kind: FailureKind | None = None,
    guard: str = "",
    effect_key: str = "",
) -> UserInputRequested | Handoff:
    """Seal the state and give the event that carries the question.

    Without a key to seal it with, nobody could answer: then the question is handed off.
    """
    asked = tuple(choices)
    offered = labels_of(asked)
    try:
        secret, key_id = run.signing_key()
        record = build_record(
            state,
            secret=secret or "",
            now=run.clock.now(),
            elapsed_s=state.elapsed_seconds(run.clock.monotonic()),
            question=question,
            context=context,
            choices=offered,
            choice_ids=ids_of(asked),
            kind=kind,
            guard=guard,
            effect_key=effect_key,
            key_id=key_id,
        )
    except (KeyringError, ValueError) as problem:
        return Handoff(
            rationale=f"There is a question, and it cannot be put in a way that lasts: {question}",
            blockers=(str(problem),),
        )
    return UserInputRequested(
        question=question,
        context=context,
        choices=offered,
        suspension_record=record,
        originating_failure_kind=kind,
    )


def _permitted(action: Action, failure: Failure) -> Action:
    """What holds above every policy: an effect that may have happened is not repeated, and what
    is final is not tried again."""
    if action not in (Action.retry, Action.narrow_scope):
        return action
    if failure.effect is Effect.uncertain:
        return Action.ask_user
    if failure.effect is Effect.committed or failure.metadata.get(FINAL) or asks_for_long(failure):
        return Action.handoff
    return action


def asks_for_long(failure: Failure) -> bool:
    """Whether the provider wants to be left alone for longer than a run waits."""
    asked = failure.metadata.get("retry_after_s")
    patient = not isinstance(asked, int | float) or asked <= MAX_WAIT_S
    return not patient and not failure.metadata.get(FALLBACK)


def _remedy(failure: Failure) -> str | None:
    if asks_for_long(failure):
        seconds = failure.metadata["retry_after_s"]
        wait = f"for {seconds:.0f} s" if math.isfinite(seconds) else "to be left alone"
        return f"The provider asks {wait}: try again then, or choose another model."
    remedy: str | None = failure.metadata.get("remedy")
    return remedy or _REMEDIES.get(failure.kind)


@dataclass(frozen=True)
class _Decision:
    """An action, and what a plan says about carrying it out."""

    action: Action
    plan: RecoveryAction | None = None
    hint: str | None = None
    delay_s: float = 0.0
    words: str | None = None

    @property
    def strategy(self) -> str:
        """The name of the plan; empty without one."""
        return "" if self.plan is None else self.plan.name


async def within(work: Awaitable[T], seconds: float, clock: Clock) -> T:
    """What a host's ``work`` gives; ``TimeoutError`` where it takes longer.

    The work is a task of its own. Whatever it raises to end more than itself is a
    ``RuntimeError`` here, and work that does not heed its end is left behind.
    """
    task = asyncio.ensure_future(contained(work))
    limit = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, limit}, return_when=asyncio.FIRST_COMPLETED)
        if task.cancelled():
            raise RuntimeError("the work cancelled itself")
        if task.done():
            return task.result()
        raise TimeoutError(f"no answer within {seconds:g} s")
    finally:
        task.cancel()
        limit.cancel()
        ends = asyncio.gather(task, limit, return_exceptions=True)
        await asyncio.wait({ends}, timeout=_HEEDED_S)


@contextmanager
def outlived(sentence: str, stop: CancellationRequest | None = None) -> Iterator[None]:
    """Run a host's code; where it breaks, log ``sentence`` and go on behind the ``with``.

    Raises ``Cancelled`` instead where ``stop`` is set by then.
    """
    try:
        yield
    except Exception:  # boundary: tool - a run must end well whatever its host's code does
        if stop is not None and stop.is_set:
            raise Cancelled(stop.reason) from None
        _log.warning("%s", sentence, exc_info=_log.isEnabledFor(logging.DEBUG))


async def contained(work: Awaitable[T]) -> T:
    """What ``work`` gives; what it raises ends this wait and nothing else.

    A cancellation goes through where it is meant for the task that waits, and so does Ctrl-C.
    """
    try:
        return await work
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as exc:
        waiting = asyncio.current_task()
        if isinstance(exc, asyncio.CancelledError) and waiting and waiting.cancelling():
            raise
        raise RuntimeError(f"{type(exc).__name__} was raised") from exc


async def _decided(
    context: RecoveryContext, failure: Failure, state: RunState, run: Surroundings | None
) -> _Decision:
    """What the policy wants; what the default policy wants where it breaks, takes too long or
    says nothing. ``Cancelled`` where the run is to stop first.

    A policy with ``plan`` and ``action_of`` (see ``triage.recovery``) is awaited, and its plan's
    hint, delay and words are used. It is not asked where only a person may answer.
    """
    policy, clock = context.policy, context.clock
    planning = getattr(policy, "plan", None)
    stop = state.cancellation or CancellationRequest()
    with outlived(f"the recovery policy broke; the default policy answers {failure.kind}", stop):
        if planning is None or is_for_a_person(failure):
            return await contained(_answered(policy, failure, state))
        seconds = min(PLANNING_S, context.time_left(state))
        return await stop.race(within(_planned(policy, failure, state, run), seconds, clock))
    return _Decision(DefaultPolicy().decide(failure, state))


async def _answered(policy: Any, failure: Failure, state: RunState) -> _Decision:
    """The action without a plan."""
    if hasattr(policy, "plan"):
        return _Decision(Action(policy.action_of(None, failure, state)))
    return _Decision(Action(policy.decide(failure, state)))


async def _planned(
    policy: Any, failure: Failure, state: RunState, run: Surroundings | None
) -> _Decision:
    plan = await policy.plan(failure, state, None if run is None else run.known())
    action = Action(policy.action_of(plan, failure, state))
    match plan:
        case Retry(hint=hint, inject=inject, delay=delay):
            given = "; ".join(f"{name} = {value}" for name, value in (inject or {}).items())
            known = f"Known: {given}." if given else None
            return _Decision(action, plan, _in_words(hint, known), delay)
        case Replan(hint=hint):
            return _Decision(action, plan, _in_words(hint))
        case Resume(from_subgoal=str(goal)) if goal:
            hint = f"Go on from this part of the plan, which is open: {goal}."
            return _Decision(action, plan, _in_words(hint))
        case Suspend(message=words) | Escalate(message=words) | Abort(reason=words):
            return _Decision(action, plan, words=_in_words(words))
    return _Decision(action, plan)


def _in_words(*said: Any) -> str | None:
    """What a plan says, as it can be told and written down."""
    told: str = encodable(" ".join(map(str, filter(None, said))))
    return told or None


def _gone_back(decision: _Decision, run: Surroundings | None) -> str:
    """What going back did, where the plan is to go back."""
    if not isinstance(decision.plan, Rollback):
        return ""
    try:
        if run is not None:
            return run.go_back(decision.plan.checkpoint_id)
    except LookupError:
        pass
    return "There is no earlier state to go back to; the variables are as they are."


def budget_of(policy: RecoveryPolicy, kind: FailureKind) -> int:
    """How often the policy tries ``kind`` again; the default policy's where it breaks."""
    return int(_asked(policy, lambda asked: int(asked.retry_budget(kind)), f"budget of {kind}"))


def _asked(policy: RecoveryPolicy, ask: Callable[[RecoveryPolicy], float], what: str) -> float:
    """A number of the policy; the default policy's where it breaks."""
    with outlived(f"the recovery policy broke; the default {what} holds"):
        return float(ask(policy))
    return ask(DefaultPolicy())


def _delay(failure: Failure, policy: RecoveryPolicy, attempt: int) -> float:
    if failure.metadata.get(FALLBACK):
        return 0.0
    kind = failure.kind
    wait = _asked(policy, lambda asked: asked.backoff(kind, attempt), f"wait of {kind}")
    delay = min(max(wait, 0.0), MAX_WAIT_S) if wait == wait else MAX_WAIT_S
    asked_for = failure.metadata.get("retry_after_s")
    if isinstance(asked_for, int | float) and delay > 0:
        return max(delay, float(asked_for))
    return delay


async def _pause(delay: float, clock: Clock, state: RunState) -> None:
    if delay <= 0:
        return
    if state.cancellation is None:
        await clock.sleep(delay)
    else:
        try:
            await state.cancellation.race(clock.sleep(delay))
        except Cancelled:
            return  # the loop sees the request at its next phase and says so
    # Waiting is not the model's silence.
    state.last_event_time_s = clock.monotonic()


def narrowing(failure: Failure) -> str:
    """The corrective prompt that narrows the next step."""
    text = _NARROW.get(failure.kind)
    if failure.type is FailureType.HALLUCINATED_STATE:
        text = _CLAIMED
    elif failure.type is FailureType.PLAN_INCOMPLETE or GOAL_DRIFT.explains(failure):
        text = "{explanation}"
    elif "silence_s" in failure.metadata:
        text = _SILENT
    if text is None:
        return (
            f"The last step failed ({failure.explanation}). Pick the smallest next step that "
            "avoids this, or call ask_user or return_unable."
        )
    return text.format(explanation=failure.explanation)


def retry_note(failure: Failure) -> str | None:
    """What a retry should know, where the transcript does not say it already."""
    return _RETRY.get(failure.kind)
