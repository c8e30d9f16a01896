"""The funnel: the only place that turns a failure into an action.

``decide`` sees the counts before this failure; then the failure is counted and remembered; then
the action runs. Nothing else in the package retries, narrows, suspends or hands off.
"""

import asyncio
import logging
import math
import tomllib
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from importlib.resources import files
from typing import Any, Protocol, Self, TypeVar

from parsimony_kernel.agent.failure.suspension import Secret, build_record
from parsimony_kernel.core import events as ev
from parsimony_kernel.core import kinds
from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.causes import GOAL_DRIFT, DefaultPolicy, RecoveryPolicy, is_for_a_person
from parsimony_kernel.core.choices import LIMITS, MORE, Choice, ids_of, labels_of
from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.kinds import Action, Effect, Failure, FailureKind, FailureType
from parsimony_kernel.core.state import RunState, remember
from parsimony_kernel.storage.durable import StorageError
from parsimony_kernel.triage.policy import RecoveryAction, Retry, Rollback

# Texts by failure kind: corrections for the model, questions and remedies for people.
_WORDS: dict[str, dict[str, str]] = tomllib.loads(
    (files(__package__) / "words.toml").read_text(encoding="utf-8")
)
_log = logging.getLogger(__name__)

# Rather than wait longer, a person would choose another model or come back later.
MAX_WAIT_S = 60.0
# Time limit of a strategy, and real seconds that cancelled work gets to end.
PLANNING_S = 30.0
_HEEDED_S = 0.4
T = TypeVar("T")

# Keys of a failure's metadata: the exhausted budget; the fallback model that takes over at once;
# and whether nothing is left to try.
GUARD, FALLBACK, FINAL = "guard", "fallback", "final"
# The actions after which the run goes on.
_GOING_ON = (Action.retry, Action.narrow_scope)
_NOWHERE = "There is no earlier state to go back to; the variables are as they are."
_UNTIMED = AgentGuardrails(max_execution_time_s=math.inf)


@dataclass(frozen=True, kw_only=True)
class RecoveryContext:
    """The funnel's view of an agent. Without ``guardrails`` there is no time limit.

    Args:
        signing_key: returns the current secret and its id, or those of a given id. It is called
            for each question, since keys can be rotated during a run. May raise ``StorageError`` or
            ``ValueError``.
    """

    signing_key: Callable[..., tuple[Secret, str]]
    policy: RecoveryPolicy = field(default_factory=DefaultPolicy)
    guardrails: AgentGuardrails = _UNTIMED
    clock: Clock = SYSTEM_CLOCK

    @classmethod
    def of(cls, agent: object) -> Self:
        """Read ``agent``; a context is returned unchanged.

        Missing attributes get their defaults; ``TypeError`` for one without a default.
        """
        if isinstance(agent, cls):
            return agent

        def unnamed_key(_: str = "") -> tuple[Secret, str]:
            return getattr(agent, "suspension_secret", None) or "", ""

        given: dict[str, Any] = {"signing_key": unnamed_key}
        read = {each.name: getattr(agent, each.name, None) for each in fields(cls)}
        return cls(**given | {name: value for name, value in read.items() if value is not None})

    def time_left(self, state: RunState) -> float:
        """Return the seconds left to the run, as a limit for waits: time is checked between steps
        only."""
        elapsed = state.elapsed_seconds(self.clock.monotonic())
        return max(0.0, self.guardrails.max_execution_time_s - elapsed)


class Surroundings(Protocol):
    """The funnel's interface to a run, beside its state."""

    def known(self) -> kinds.TriageContext:
        """Return the facts about the run for a strategy."""

    def go_back(self, checkpoint_id: str | None) -> tuple[str, str]:
        """Restore a checkpoint of the variables, the newest by default.

        Returns a description for people, and the part of it that the model may read. Raises
        ``LookupError`` when there is none.
        """


async def handle_failure(
    failure: Failure, *, agent: object, state: RunState
) -> AsyncGenerator[ev.AgentEvent, None]:
    """Answer ``failure`` with exactly one action, yield its event, and wait before a retry.

    ``agent`` needs only ``policy`` and ``suspension_secret``. See ``answer``.
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
) -> ev.AgentEvent:
    """Answer ``failure`` with exactly one action.

    Args:
        failure: the detected failure.
        context: the agent's policy, limits, key and clock.
        state: its counts, lessons, ``pending_instruction`` and ``done`` are updated.
        run: supplies facts for strategies and restores checkpoints; neither works without it.
        read: the part of ``failure`` that the model may read, all by default; people read all.

    Returns:
        ``AgentError(recoverable=True)`` for retry and narrow_scope, else a terminal event. A retry
        waits for its ``delay_s``; see ``pause``.

    Raises:
        Cancelled: the run was stopped while a strategy was deciding; nothing is counted.
    """
    kind, shown = failure.kind, read or failure
    wanted, plan, correction = await _decided(context, shown, state, run)
    action = _permitted(wanted, failure)
    strategy, words = plan.name if plan else "", correction if action is wanted else ""
    prior = state.failure_attempts.get(kind, 0)
    if kinds.HELD not in failure.metadata:  # waiting for approval is no failure
        state.record_failure_attempt(kind)
        state.lessons_learned = remember(state.lessons_learned, shown)
        state.note_recovery(failure.type, strategy or action.value)
    if action not in _GOING_ON:
        state.done = True
        return _ending(action, failure, words, context, state)
    how: dict[str, Any] = {"budget": 1}
    if action is Action.retry:
        cut_off = kind is FailureKind.output_truncated and _WORDS["corrections"][kind]
        state.pending_instruction = words or cut_off or state.pending_instruction
        planned = min(plan.delay, MAX_WAIT_S) if isinstance(plan, Retry) else 0.0
        how = {
            "budget": budget_of(context.policy, kind),
            "delay_s": max(_delay(failure, context.policy, prior), planned),
            "fallback": failure.metadata.get(FALLBACK),
        }
    else:
        how["put_back"], put_back = _gone_back(plan, run)
        state.pending_instruction = f"{put_back} {words or _correction(shown)}".strip()
        if failure.type is FailureType.CONTEXT_OVERFLOW:
            state.compaction += 1
    return ev.AgentError(
        message=failure.explanation,
        failure=failure.without_data(),
        recoverable=True,
        action=action.value,
        attempt=prior + 1,
        strategy=strategy,
        **how,
    )


def _ending(
    action: Action, failure: Failure, words: str, context: RecoveryContext, state: RunState
) -> ev.AgentEvent:
    """Build the terminal event for ``action``: a question, a partial summary or a handoff."""
    metadata, kind = failure.metadata, failure.kind
    if action is Action.ask_user:
        is_limit = kind in LIMITS or metadata.get(GUARD)
        question = words or metadata.get("question") or _WORDS["questions"].get(kind)
        return suspend(
            context,
            state,
            question=question or failure.explanation,
            context=failure.explanation,
            choices=metadata.get("choices") or (MORE if is_limit else ()),
            kind=kind,
            originating_guard=metadata.get(GUARD, ""),
            pending_effect=metadata.get(kinds.EFFECT_KEY, ""),
        )
    words = words or failure.explanation
    if action is Action.stop:
        plan, facts = metadata.get("remedy"), learned(state)
        return ev.PartialRunSummary(missing=words, learned_facts=facts, next_step_plan=plan)
    return ev.Handoff(
        rationale=words,
        blockers=failure.blockers or (failure.explanation,),
        suggested_next_steps=tuple(filter(None, (_remedy(failure),))),
        failure=failure.without_data(),
    )


def learned(state: RunState) -> tuple[str, ...]:
    """Return the lessons of a run that stops early: its earlier failures, without limits."""
    return tuple(
        lesson.explanation for lesson in state.lessons_learned if lesson.kind not in LIMITS
    )


def suspend(
    run: RecoveryContext,
    state: RunState,
    *,
    question: str,
    context: str | None = None,
    choices: Sequence[Choice | str] = (),
    kind: FailureKind | None = None,
    **because: str,
) -> ev.UserInputRequested | ev.Handoff:
    """Seal the state and return the event with the question, or a handoff if it can't be sealed.

    ``because`` sets other fields of the record. An unsealed question could not be answered.
    """
    asked: dict[str, Any] = {"choices": labels_of(choices), "originating_failure_kind": kind}
    try:
        secret, key_id = run.signing_key()
        record = build_record(
            state,
            secret=secret or "",
            now=run.clock.now(),
            elapsed_s=state.elapsed_seconds(run.clock.monotonic()),
            question=question,
            pending_question_context=context,
            choice_ids=ids_of(choices),
            key_id=key_id,
            **asked,
            **because,
        )
    except (StorageError, ValueError) as problem:
        return ev.Handoff(
            rationale=f"There is a question, and it cannot be put in a way that lasts: {question}",
            blockers=(str(problem),),
        )
    return ev.UserInputRequested(
        question=question, context=context, suspension_record=record, **asked
    )


def _permitted(action: Action, failure: Failure) -> Action:
    """Apply the rules that override every policy: never repeat an effect that may have happened,
    and never retry a final failure."""
    if action not in _GOING_ON:
        return action
    if failure.effect is Effect.uncertain:
        return Action.ask_user
    if failure.effect is Effect.committed or failure.metadata.get(FINAL) or asks_for_long(failure):
        return Action.handoff
    return action


def asks_for_long(failure: Failure) -> bool:
    """Whether the provider asks for a wait longer than ``MAX_WAIT_S``, with no fallback model."""
    asked = failure.metadata.get("retry_after_s")
    is_long = isinstance(asked, int | float) and not asked <= MAX_WAIT_S
    return is_long and not failure.metadata.get(FALLBACK)


def _remedy(failure: Failure) -> str | None:
    if asks_for_long(failure):
        seconds = failure.metadata["retry_after_s"]
        wait = f"for {seconds:.0f} s" if math.isfinite(seconds) else "to be left alone"
        return f"The provider asks {wait}: try again then, or choose another model."
    return failure.metadata.get("remedy") or _WORDS["remedies"].get(failure.kind)


async def within(work: Awaitable[T], seconds: float, clock: Clock) -> T:
    """Await a host's ``work``; ``TimeoutError`` when it takes longer than ``seconds``.

    The work runs in its own task; a task that ignores its cancellation is abandoned.
    """
    task = asyncio.ensure_future(contained(work))
    limit = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, limit}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise TimeoutError(f"no answer within {seconds:g} s")
    finally:
        task.cancel()
        limit.cancel()
        ends = asyncio.gather(task, limit, return_exceptions=True)
        await asyncio.wait({ends}, timeout=_HEEDED_S)


async def contained(work: Awaitable[T]) -> T:
    """Await ``work``, turning ``SystemExit``, ``CancelledError`` and the like into
    ``RuntimeError``; ``KeyboardInterrupt`` passes.

    ``work`` must run in its own task or never wait, so that no cancellation of the run is lost.
    """
    try:
        return await work
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as exc:
        raise RuntimeError(f"{type(exc).__name__} was raised") from exc


@contextmanager
def outlived(sentence: str, stop: CancellationRequest | None = None) -> Iterator[None]:
    """Run a host's code; if it raises, log ``sentence`` and continue after the ``with``.

    Raises ``Cancelled`` instead if ``stop`` is set by then.
    """
    try:
        yield
    except Exception:  # boundary: tool - a run must end well whatever its host's code does
        if stop is not None and stop.is_set:
            raise Cancelled(stop.reason) from None
        _log.warning("%s", sentence, exc_info=_log.isEnabledFor(logging.DEBUG))


async def _decided(
    context: RecoveryContext, failure: Failure, state: RunState, run: Surroundings | None
) -> tuple[Action, RecoveryAction | None, str]:
    """Ask the policy for an action.

    Returns the action, its plan, and the plan's text. Falls back to the default policy if the
    policy raises, times out or returns no action. A policy with ``plan`` and ``action_of`` (see
    ``triage.policy``) is awaited, unless only a person may answer. Raises ``Cancelled``
    when the run is stopped first.
    """
    policy: Any = context.policy
    stop = state.cancellation or CancellationRequest()

    async def decided() -> tuple[Action, RecoveryAction | None, str]:
        return Action(policy.decide(failure, state)), None, ""

    async def planned() -> tuple[Action, RecoveryAction | None, str]:
        plan = await policy.plan(failure, state, run and run.known())
        action = Action(policy.action_of(plan, failure, state))
        is_own = plan is not None and plan.carried_out_by is action
        return action, plan, plan.words if is_own else ""

    with outlived(f"the recovery policy broke; the default policy answers {failure.kind}", stop):
        if not hasattr(policy, "plan") or is_for_a_person(failure):
            return await contained(decided())
        seconds = min(PLANNING_S, context.time_left(state))
        return await stop.race(within(planned(), seconds, context.clock))
    return DefaultPolicy().decide(failure, state), None, ""


def _gone_back(plan: RecoveryAction | None, run: Surroundings | None) -> tuple[str, str]:
    """Carry out a rollback if that is the plan; describe it for people and for the model."""
    if not isinstance(plan, Rollback):
        return "", ""
    with suppress(LookupError):
        if run is not None:
            return run.go_back(plan.checkpoint_id)
    return _NOWHERE, _NOWHERE


def budget_of(policy: RecoveryPolicy, kind: FailureKind) -> int:
    """The policy's retry budget for ``kind``; the default policy's if it raises."""
    return int(_number_of(policy, f"budget of {kind}", lambda asked: int(asked.retry_budget(kind))))


def _number_of(policy: RecoveryPolicy, what: str, ask: Callable[[RecoveryPolicy], float]) -> float:
    with outlived(f"the recovery policy broke; the default {what} holds"):
        return float(ask(policy))
    return ask(DefaultPolicy())


def _delay(failure: Failure, policy: RecoveryPolicy, attempt: int) -> float:
    """Return the back-off before a retry, in seconds: none before a fallback model answers; if the
    policy waits, at least as long as the provider asks for."""
    kind, asked_for = failure.kind, failure.metadata.get("retry_after_s")
    if failure.metadata.get(FALLBACK):
        return 0.0
    wait = _number_of(policy, f"wait of {kind}", lambda asked: asked.backoff(kind, attempt))
    delay = max(0.0, min(MAX_WAIT_S, wait))  # in this order, NaN gives the maximum
    return max(delay, asked_for) if delay and isinstance(asked_for, int | float) else delay


async def pause(event: ev.AgentEvent, context: RecoveryContext, state: RunState) -> None:
    """Wait for the delay of a retry, at most as long as the run has time.

    A stop ends the wait; the run reports it in its next phase.
    """
    asked_for = event.delay_s if isinstance(event, ev.AgentError) else 0.0
    if (delay := min(asked_for, context.time_left(state))) <= 0:
        return
    with suppress(Cancelled):
        stop = state.cancellation or CancellationRequest()
        await stop.race(context.clock.sleep(delay))
        # Back-off doesn't count as the model's silence.
        state.last_event_time_s = context.clock.monotonic()


def _correction(failure: Failure) -> str:
    """Return the prompt that narrows the next step."""
    known, name = _WORDS["corrections"], str(failure.kind)
    if failure.type is FailureType.HALLUCINATED_STATE:
        name = "unobserved"
    elif failure.type is FailureType.PLAN_INCOMPLETE or GOAL_DRIFT.explains(failure):
        name = "as_explained"
    elif "silence_s" in failure.metadata:
        name = "silence"
    return known.get(name, known["otherwise"]).format(explanation=failure.explanation)
