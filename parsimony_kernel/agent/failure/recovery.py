"""The funnel: the one place where a failure becomes an action.

``decide`` sees the counts as they were; then the failure is counted and remembered; then the
action is carried out. Nothing else in the package retries, narrows, suspends or hands off.
"""

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, Self, TypeVar

from parsimony_kernel.agent.failure.suspension import Secret, build_record
from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.causes import GOAL_DRIFT, is_for_a_person
from parsimony_kernel.core.choices import LIMITS, MORE, Choice, ids_of, labels_of
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
from parsimony_kernel.triage.policy import RecoveryAction, Rollback

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
_CUT_OFF = (
    "Your last answer was cut off at the length limit and none of it was run. Answer again, "
    "shorter: one tool call with less code."
)
_CLAIMED = (
    "{explanation} Go back to the last step whose result you have seen: run the smallest code that "
    "shows what you want to say, or call return_done with only what was shown."
)
_SILENT = "Nothing came for a while ({explanation}). Take the smallest next step with a tool."
_NARROWER = (
    "The last step failed ({explanation}). Pick the smallest next step that avoids this, or call "
    "ask_user or return_unable."
)
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


@dataclass(frozen=True, kw_only=True)
class RecoveryContext:
    """What the funnel knows of an agent. Without ``guardrails`` there is no limit of time.

    Args:
        signing_key: gives the secret that seals a question, and its id. It is asked when there is
            a question, since keys are rotated while a run goes on; may raise ``KeyringError`` or
            ``ValueError``.
    """

    signing_key: Callable[[], tuple[Secret, str]]
    policy: RecoveryPolicy = field(default_factory=DefaultPolicy)
    guardrails: AgentGuardrails = _UNTIMED
    clock: Clock = SYSTEM_CLOCK

    @classmethod
    def of(cls, agent: object) -> Self:
        """Read ``agent``, which may be read already. What it leaves out gets its default;
        ``TypeError`` without what has none."""
        if isinstance(agent, cls):
            return agent

        def unnamed_key() -> tuple[Secret, str]:
            return getattr(agent, "suspension_secret", None) or "", ""

        read = {each.name: getattr(agent, each.name, None) for each in fields(cls)}
        given: dict[str, Any] = {name: value for name, value in read.items() if value is not None}
        return cls(**{"signing_key": unnamed_key, **given})

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
    failure: Failure, *, agent: object, state: RunState
) -> AsyncGenerator[AgentEvent, None]:
    """Answer ``failure`` with exactly one action, yield what happened, and wait where it says so.

    ``agent`` is one that may have no more than ``policy`` and ``suspension_secret``. See
    ``answer``.
    """
    context = RecoveryContext.of(agent)
    event = await answer(failure, context, state)
    yield event
    await pause(event, context, state)


async def answer(
    failure: Failure,
    context: RecoveryContext,
    state: RunState,
    *,
    run: Surroundings | None = None,
    read: Failure | None = None,
) -> AgentEvent:
    """Answer ``failure`` with exactly one action.

    Args:
        failure: what was found.
        context: what there is of the agent.
        state: its counts, lessons, ``pending_instruction`` and ``done`` are updated.
        run: asked for what strategies may know, and to go back; without it nothing can be.
        read: ``failure`` as a model may read it, if that is not all; people read all of it.

    Returns:
        ``AgentError(recoverable=True)`` for retry and narrow_scope, else a terminal event. A retry
        waits for its ``delay_s``; see ``pause``.

    Raises:
        Cancelled: the run is to stop while a strategy thinks; nothing is counted.
    """
    policy = context.policy
    told = read or failure
    decision = await _decided(context, told, state, run)
    action = _permitted(decision.action, failure)
    prior = state.failure_attempts.get(failure.kind, 0)
    if HELD not in failure.metadata:  # what waits for a person has not failed
        state.record_failure_attempt(failure.kind)
        state.lessons_learned = remember(state.lessons_learned, told)
        state.note_recovery(failure.type, decision.strategy or action.value)
    if action not in (Action.retry, Action.narrow_scope):
        state.done = True
        return _ending(action, failure, decision, context, state)
    how: dict[str, Any] = {"budget": 1}
    if action is Action.retry:
        cut_off = _CUT_OFF if failure.kind is FailureKind.output_truncated else None
        state.pending_instruction = decision.hint or cut_off or state.pending_instruction
        how = {
            "budget": budget_of(policy, failure.kind),
            "delay_s": max(_delay(failure, policy, prior), min(decision.delay_s, MAX_WAIT_S)),
            "fallback": failure.metadata.get(FALLBACK),
        }
    else:
        put_back = how["put_back"] = _gone_back(decision, run)
        names = put_back if run is None else run.shared_names(put_back)
        parts = filter(None, (names, decision.hint or _narrowing(told)))
        state.pending_instruction = " ".join(parts)
        if failure.type is FailureType.CONTEXT_OVERFLOW:
            state.compaction += 1
    return AgentError(
        message=failure.explanation,
        failure=failure.without_data(),
        recoverable=True,
        action=action.value,
        attempt=prior + 1,
        strategy=decision.strategy,
        **how,
    )


def _ending(
    action: Action,
    failure: Failure,
    decision: "_Decision",
    context: RecoveryContext,
    state: RunState,
) -> AgentEvent:
    metadata, words = failure.metadata, decision.words or failure.explanation
    if action is Action.ask_user:
        is_limit = failure.kind in LIMITS or metadata.get(GUARD)
        question = decision.words or metadata.get("question") or _QUESTIONS.get(failure.kind)
        return suspend(
            context,
            state,
            question=question or failure.explanation,
            context=failure.explanation,
            choices=metadata.get("choices") or (MORE if is_limit else ()),
            kind=failure.kind,
            originating_guard=metadata.get(GUARD, ""),
            pending_effect=metadata.get(EFFECT_KEY, ""),
        )
    if action is Action.stop:
        plan = metadata.get("remedy")
        return PartialRunSummary(missing=words, learned_facts=learned(state), next_step_plan=plan)
    return Handoff(
        rationale=words,
        blockers=failure.blockers or (failure.explanation,),
        suggested_next_steps=tuple(filter(None, (_remedy(failure),))),
        failure=failure.without_data(),
    )


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
    choices: Iterable[Choice | str] = (),
    kind: FailureKind | None = None,
    **because: str,
) -> UserInputRequested | Handoff:
    """Seal the state and give the event that carries the question; ``because`` are fields of the
    record.

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
            pending_question_context=context,
            choices=offered,
            choice_ids=ids_of(asked),
            originating_failure_kind=kind,
            key_id=key_id,
            **because,
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
    hint: str = ""
    delay_s: float = 0.0
    words: str = ""

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
    policy: Any = context.policy
    plans = hasattr(policy, "plan")
    waits = plans and not is_for_a_person(failure)

    async def decided() -> _Decision:
        if not plans:
            return _Decision(Action(policy.decide(failure, state)))
        known = run.known() if waits and run is not None else None
        plan = await policy.plan(failure, state, known) if waits else None
        return _as_planned(plan, Action(policy.action_of(plan, failure, state)))

    stop = state.cancellation or CancellationRequest()
    with outlived(f"the recovery policy broke; the default policy answers {failure.kind}", stop):
        if not waits:
            return await contained(decided())
        seconds = min(PLANNING_S, context.time_left(state))
        return await stop.race(within(decided(), seconds, context.clock))
    return _Decision(DefaultPolicy().decide(failure, state))


def _as_planned(plan: RecoveryAction | None, action: Action) -> _Decision:
    """``action``, with what ``plan`` says, as it can be told and written down."""

    def said(name: str) -> Any:
        return getattr(plan, name, None)

    given = "; ".join(f"{name} = {value}" for name, value in (said("inject") or {}).items())
    goal = said("from_subgoal")
    hints = (
        said("hint"),
        given and f"Known: {given}.",
        goal and f"Go on from this part of the plan, which is open: {goal}.",
    )
    return _Decision(
        action,
        plan,
        hint=encodable(" ".join(map(str, filter(None, hints)))),
        delay_s=said("delay") or 0.0,
        words=encodable(str(said("message") or said("reason") or "")),
    )


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
    return int(_number_of(policy, f"budget of {kind}", lambda asked: int(asked.retry_budget(kind))))


def _number_of(policy: RecoveryPolicy, what: str, ask: Callable[[RecoveryPolicy], float]) -> float:
    with outlived(f"the recovery policy broke; the default {what} holds"):
        return float(ask(policy))
    return ask(DefaultPolicy())


def _delay(failure: Failure, policy: RecoveryPolicy, attempt: int) -> float:
    kind, asked_for = failure.kind, failure.metadata.get("retry_after_s")
    if failure.metadata.get(FALLBACK):
        return 0.0
    wait = _number_of(policy, f"wait of {kind}", lambda asked: asked.backoff(kind, attempt))
    delay = MAX_WAIT_S if math.isnan(wait) else min(max(wait, 0.0), MAX_WAIT_S)
    if isinstance(asked_for, int | float) and delay > 0:
        return max(delay, float(asked_for))
    return delay


async def pause(event: AgentEvent, context: RecoveryContext, state: RunState) -> None:
    """Wait as long as a retry says and the run has time; a stop ends the wait, and the run says so
    at its next phase."""
    delay = min(event.delay_s if isinstance(event, AgentError) else 0.0, context.time_left(state))
    if delay <= 0:
        return
    with suppress(Cancelled):
        stop = state.cancellation or CancellationRequest()
        await stop.race(context.clock.sleep(delay))
        # Waiting is not the model's silence.
        state.last_event_time_s = context.clock.monotonic()


def _narrowing(failure: Failure) -> str:
    """The corrective prompt that narrows the next step."""
    text = _NARROW.get(failure.kind, _NARROWER)
    if failure.type is FailureType.HALLUCINATED_STATE:
        text = _CLAIMED
    elif failure.type is FailureType.PLAN_INCOMPLETE or GOAL_DRIFT.explains(failure):
        text = "{explanation}"
    elif "silence_s" in failure.metadata:
        text = _SILENT
    return text.format(explanation=failure.explanation)
