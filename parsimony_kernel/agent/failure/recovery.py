"""The funnel: the one place where a failure becomes an action.

``decide`` sees the counts as they were; then the failure is counted and remembered; then the
action is carried out. Nothing else in the package retries, narrows, suspends or hands off.
"""

import asyncio
import logging
import math
import re
from collections.abc import AsyncGenerator, Awaitable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, assert_never

from parsimony_kernel.agent.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.agent.events import (
    AgentError,
    AgentEvent,
    Handoff,
    PartialRunSummary,
    UserInputRequested,
)
from parsimony_kernel.agent.failure.causes import is_for_a_person
from parsimony_kernel.agent.failure.corrections import narrowing, retry_note
from parsimony_kernel.agent.failure.keyring import KeyringError
from parsimony_kernel.agent.failure.kinds import Action, Effect, Failure, FailureKind
from parsimony_kernel.agent.failure.policy import DefaultPolicy, RecoveryPolicy
from parsimony_kernel.agent.failure.suspension import build_record
from parsimony_kernel.agent.state import RunState, SuspensionRecord, remember
from parsimony_kernel.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.llm.transcript import encodable
from parsimony_kernel.triage.actions import (
    Abort,
    Escalate,
    RecoveryAction,
    Replan,
    Resume,
    Retry,
    Rollback,
    Suspend,
)
from parsimony_kernel.triage.taxonomy import FailureType, TriageContext

_QUESTIONS = {
    FailureKind.iteration_limit: "The run has used all its steps. Go on with as many again?",
    FailureKind.time_limit: "The run has used all its time. Go on for as long again?",
    FailureKind.loop_detected: "The agent is repeating itself. How should it go on?",
}
_REMEDIES = {
    FailureKind.tool_error: (
        "Say in a new request what to do differently, or mend it in a cell of yours: what the run "
        "has made so far is there."
    ),
    FailureKind.no_progress: "Ask for less at once, say it in other words, or try another model.",
}
LIMITS = frozenset({FailureKind.iteration_limit, FailureKind.time_limit})
_log = logging.getLogger(__name__)

# A person would rather choose another model, or come back, than watch a longer wait.
MAX_WAIT_S = 60.0
# The longest that a strategy thinks, and real seconds in which what is stopped has to end.
PLANNING_S = 30.0
_HEEDED_S = 0.4
T = TypeVar("T")
_NO = re.compile(
    r"^(?:n|no|nope|nein|non|halt|cancel|abort|quit|enough|end|genug|never"
    r"|(?:don.?t|do not)(?! stop))\b",
    re.IGNORECASE,
)
_GO_ON_INDEED = re.compile(r"\b(?:don.?t|do not|not|never) stop\b", re.IGNORECASE)
_STOP = re.compile(r"\bstopp?\b", re.IGNORECASE)
_YES = re.compile(
    r"(?:please,? )?(?:go on|go ahead|yes|yep|y|ok|okay|sure|continue|proceed|more|keep going"
    r"|carry on|ja|weiter|oui|do)\b",
    re.IGNORECASE,
)
_GO_ON = ("Go on", "Stop here")

# Keys of a failure's metadata: the budget that was reached; the model that takes over at once;
# and that nothing is left to be tried.
GUARD, FALLBACK, FINAL = "guard", "fallback", "final"
# And the write of which nobody knows the end.
EFFECT_KEY = "effect_key"
# And the hash of the action that a person is asked to allow.
HELD = "approval"


def ends_here(record: SuspensionRecord, reply: str) -> bool:
    """Whether the answer to a question about a limit, or an uncertain write, is to stop."""
    if record.pending_effect or record.pending_call is not None:
        return _stops(reply)
    about_a_limit = record.originating_failure_kind in LIMITS or bool(record.originating_guard)
    return about_a_limit and declines(reply)


def declines(reply: str) -> bool:
    """Whether the answer to a question about a limit is not to go on."""
    return _NO.search(reply.strip()) is not None or _stops(reply)


def _stops(reply: str) -> bool:
    return _STOP.search(_GO_ON_INDEED.sub("", reply)) is not None


def accepts(reply: str) -> bool:
    """Whether the answer to a question about a limit is clearly to go on."""
    return not declines(reply) and _YES.match(reply.strip()) is not None


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
    agent: Any,
    state: RunState,
    run: Surroundings | None = None,
    read: Failure | None = None,
) -> AsyncGenerator[AgentEvent, None]:
    """Answer ``failure`` with exactly one action and yield what happened.

    Args:
        failure: what was found.
        agent: needs ``policy`` and ``suspension_secret``; ``clock`` and ``signing_key()`` are used
            if it has them.
        state: its counts, lessons, ``pending_instruction`` and ``done`` are updated.
        run: asked for what strategies may know, and to go back; without it nothing can be.
        read: ``failure`` as a model may read it, if that is not all; people read all of it.

    Yields ``AgentError(recoverable=True)`` for retry and narrow_scope, else one terminal event.
    ``Cancelled``, and nothing is counted, where the run is to stop while a strategy thinks.
    """
    policy: RecoveryPolicy = agent.policy
    clock: Clock = getattr(agent, "clock", None) or SYSTEM_CLOCK
    told = read or failure
    decision = await _decided(policy, told, agent, state, run)
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
            await _pause(min(delay, _time_left(agent, state, clock)), clock, state)
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
                agent,
                state,
                question=decision.words
                or failure.metadata.get("question")
                or _QUESTIONS.get(failure.kind)
                or failure.explanation,
                context=failure.explanation,
                choices=failure.metadata.get("choices")
                or (_GO_ON if failure.kind in LIMITS or failure.metadata.get(GUARD) else ()),
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
    agent: Any,
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
    clock: Clock = getattr(agent, "clock", None) or SYSTEM_CLOCK
    offered = tuple(str(choice) for choice in choices)
    signing_key = getattr(agent, "signing_key", None)
    try:
        secret, key_id = (agent.suspension_secret, "") if signing_key is None else signing_key()
        record = build_record(
            state,
            secret=secret or "",
            now=clock.now(),
            elapsed_s=state.elapsed_seconds(clock.monotonic()),
            question=question,
            context=context,
            choices=offered,
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
    policy: RecoveryPolicy, failure: Failure, agent: Any, state: RunState, run: Surroundings | None
) -> _Decision:
    """What the policy wants; what the default policy wants where it breaks, takes too long or
    says nothing. ``Cancelled`` where the run is to stop first.

    A policy with ``plan`` and ``action_of`` (see ``triage.recovery``) is awaited, and its plan's
    hint, delay and words are used. It is not asked where only a person may answer.
    """
    planning = getattr(policy, "plan", None)
    clock: Clock = getattr(agent, "clock", None) or SYSTEM_CLOCK
    stop = state.cancellation or CancellationRequest()
    try:
        if planning is None or is_for_a_person(failure):
            return await contained(_answered(policy, failure, state))
        seconds = min(PLANNING_S, _time_left(agent, state, clock))
        return await stop.race(within(_planned(policy, failure, state, run), seconds, clock))
    except Exception:  # a host's code: a run must end well whatever it does
        if stop.is_set:
            raise Cancelled(stop.reason) from None
        _log.warning(
            "the recovery policy broke; the default policy answers %s",
            failure.kind,
            exc_info=_log.isEnabledFor(logging.DEBUG),
        )
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
    delay, words = _manner_of(plan)
    if isinstance(plan, Rollback):
        _worded(plan.checkpoint_id)
    return _Decision(action, plan, _worded(_hint_of(plan)), delay, _worded(words))


def _worded(words: object) -> str | None:
    """Words of a plan as they can be told; ``TypeError`` where they are none."""
    if words is None:
        return None
    if not isinstance(words, str):
        raise TypeError(f"a plan is told in words, not in a {type(words).__name__}")
    told: str = encodable(words)
    return told


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


def _hint_of(plan: RecoveryAction | None) -> str | None:
    match plan:
        case Retry(hint=hint, inject=inject) if inject:
            given = "; ".join(f"{name} = {value}" for name, value in inject.items())
            return " ".join(filter(None, (_worded(hint), f"Known: {given}.")))
        case Retry(hint=hint) | Replan(hint=hint):
            return hint
        case Resume(from_subgoal=goal) if _worded(goal):
            return f"Go on from this part of the plan, which is open: {goal}."
    return None


def _manner_of(plan: RecoveryAction | None) -> tuple[float, str | None]:
    match plan:
        case Retry(delay=delay):
            return delay, None
        case Suspend(message=words) | Escalate(message=words) | Abort(reason=words):
            return 0.0, words or None
    return 0.0, None


def budget_of(policy: RecoveryPolicy, kind: FailureKind) -> int:
    """How often the policy tries ``kind`` again; the default policy's where it breaks."""
    try:
        return int(policy.retry_budget(kind))
    except Exception:  # as above
        _log.warning(
            "the recovery policy broke; the default budget of %s holds",
            kind,
            exc_info=_log.isEnabledFor(logging.DEBUG),
        )
        return DefaultPolicy().retry_budget(kind)


def _backoff(policy: RecoveryPolicy, kind: FailureKind, attempt: int) -> float:
    try:
        delay = float(policy.backoff(kind, attempt))
    except Exception:  # as above
        _log.warning(
            "the recovery policy broke; the default wait of %s holds",
            kind,
            exc_info=_log.isEnabledFor(logging.DEBUG),
        )
        delay = DefaultPolicy().backoff(kind, attempt)
    return min(max(delay, 0.0), MAX_WAIT_S) if delay == delay else MAX_WAIT_S


def _delay(failure: Failure, policy: RecoveryPolicy, attempt: int) -> float:
    if failure.metadata.get(FALLBACK):
        return 0.0
    delay = _backoff(policy, failure.kind, attempt)
    asked_for = failure.metadata.get("retry_after_s")
    if isinstance(asked_for, int | float) and delay > 0:
        return max(delay, float(asked_for))
    return delay


def _time_left(agent: Any, state: RunState, clock: Clock) -> float:
    """Seconds that the run still has; waiting longer would only be found out afterwards."""
    limits = getattr(agent, "guardrails", None)
    if limits is None:
        return math.inf
    elapsed = state.elapsed_seconds(clock.monotonic())
    return max(0.0, float(limits.max_execution_time_s) - elapsed)


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
