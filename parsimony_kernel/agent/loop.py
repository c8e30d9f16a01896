"""The run loop, from a state to a terminal event, and resuming a suspended run.

There is one chokepoint to the model, one funnel for failures, one renderer and one gate for
actions. Every exit is a terminal event. The loop knows nothing of notebooks.
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from parsimony_kernel.agent.failure.recovery import outlived
from parsimony_kernel.agent.failure.suspension import SuspensionConsumed, check_record, check_reply
from parsimony_kernel.agent.hooks import RunContext
from parsimony_kernel.agent.run import Run, snapshot_of
from parsimony_kernel.agent.stream_redaction import redacted
from parsimony_kernel.core import choices
from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.causes import RUN_BROKEN
from parsimony_kernel.core.chat import ModelRequest, StandInError
from parsimony_kernel.core.choices import Choice
from parsimony_kernel.core.events import AgentEvent, Handoff, RunCancelled
from parsimony_kernel.core.kinds import Action, FailureKind
from parsimony_kernel.core.state import RunState, SuspensionRecord
from parsimony_kernel.llm.secrets import Secrets

MAX_SUSPENSION_AGE_S = 86_400
_MAX_SENTENCE = 2_000
# The first version of records that holds the run's terms (contract, rules and procedure).
_TERMS_SINCE = 3

_log = logging.getLogger(__name__)


def first_request(agent: object, state: RunState) -> ModelRequest:
    """Build the first request of ``run_loop`` without sending it."""
    return Run(RunContext.of(agent), state).model_calls.request()


async def run_loop(
    agent: object, state: RunState, *, cancellation: CancellationRequest | None = None
) -> AsyncGenerator[AgentEvent, None]:
    """Run ``state`` and yield its events; the last one is terminal.

    Args:
        agent: an object with ``model_config``. It may also have ``guardrails``, ``policy``,
            ``suspension_secret``, ``instructions`` and ``tools``; defaults fill in the rest. It is
            read once, see ``RunContext``. Without a termination tool it gets the three standard
            ones.
        state: the state to start or continue from.
        cancellation: stops the run; that of ``state`` by default.

    Raises:
        TypeError: an attribute of the agent is missing or has the wrong type; nothing ran.
    """
    context = RunContext.of(agent)
    stop = state.cancellation = cancellation or state.cancellation or CancellationRequest()
    run: Run | None = None
    try:
        run = Run(context, state)
        while not state.done:
            async with aclosing(redacted(run.iterate(), run.secrets)) as events:
                async for event in events:
                    yield event
    except Cancelled as stopped:
        state.done = True
        if run is not None and state.iteration:
            # So that the elapsed time is reported.
            yield snapshot_of(state, context)
        yield RunCancelled(reason=str(stopped) or stop.reason)
    except StandInError:
        raise
    except Exception as exc:  # boundary: tool - a host's hook; the run still says how it ended
        yield _broken(exc, state, Secrets() if run is None else run.secrets)
    finally:
        if run is not None:
            await run.let_fall()
            # Report the changes to variables. An error here can't change how the run ended.
            with outlived("the end of a run could not be told to its host"):
                run.hooks.ended(state, run.progress.end())


async def resume_run(
    agent: object,
    suspension: SuspensionRecord,
    user_reply: str,
    *,
    files: Any = None,
    code_executor: Any = None,
    cancellation: CancellationRequest | None = None,
    max_suspension_age_s: float = MAX_SUSPENSION_AGE_S,
) -> AsyncGenerator[AgentEvent, None]:
    """Resume ``suspension`` with the person's answer; see ``admit`` for the errors."""
    alive = {"files": files, "code_executor": code_executor, "cancellation": cancellation}
    state = admit(agent, suspension, user_reply, max_suspension_age_s, **alive)
    async with aclosing(run_loop(agent, state)) as events:
        async for event in events:
            yield event


def admit(
    agent: object,
    suspension: SuspensionRecord,
    user_reply: str,
    max_suspension_age_s: float,
    **alive: Any,
) -> RunState:
    """Validate a record, claim its single use, and return the state to continue from.

    Checks in this order: empty reply, version, token, age, seal, workspace, answer, terms, single
    use. When one fails, nothing has run.

    Args:
        agent: as for ``run_loop``.
        suspension: the sealed record.
        user_reply: the person's answer.
        max_suspension_age_s: how old the record may be, in seconds.
        alive: the live objects that ``RunState.from_suspension`` takes beside the record.

    Raises:
        ValueError: the answer is empty or none of the possible ones, or the contract, the rules or
            the procedure have changed.
        SuspensionTokenMismatch: the token, the seal or the version is wrong.
        SuspensionExpired: the record is too old, or dated in the future.
        SuspensionElsewhere: the question was asked in another workspace.
        SuspensionConsumed: the question was answered before.
    """
    context = RunContext.of(agent)
    clock, hooks = context.clock, context.hooks
    check_reply(user_reply)
    check_record(
        suspension,
        user_reply,
        secret=context.signing_key(suspension.key_id)[0],
        now=clock.now(),
        max_age_s=max_suspension_age_s,
        workspace=context.workspace,
    )
    chosen = choices.read(user_reply, choices.offered_in(suspension))
    if chosen is None and suspension.originating_guard:
        raise ValueError("this question is about a budget: answer 'Go on' or 'Stop here'")
    if chosen is None and suspension.pending_effect:
        raise ValueError("answer 'It did', 'It did not' or 'Stop here': nothing else is sure")
    if suspension.schema_version >= _TERMS_SINCE and suspension.terms != context.terms:
        raise ValueError(
            "this question was asked under another contract or procedure than there is now; bring "
            "the file back as it was, or run the request again"
        )
    state = RunState.from_suspension(suspension, started_monotonic_s=clock.monotonic(), **alive)
    state.answered = suspension, chosen
    if suspension.originating_failure_kind is FailureKind.loop_detected:
        # The person has decided about the loop, so its counts start again.
        state.last_repeat_counts, state.repetition = {}, []
    secrets = hooks.secrets(context)
    pinned = (*state.pinned_constraints, *map(secrets.clean, context.pinned_constraints))
    state.pinned_constraints = list(dict.fromkeys(pinned))
    state.messages += hooks.news_since(suspension)
    held, is_allowing = state.pending_call, chosen in choices.ALLOWING
    is_button = is_allowing or user_reply.strip() in choices.labels_of(choices.APPROVAL)
    if held is None or not is_button:
        state.messages.append({"role": "user", "content": secrets.clean(user_reply)})
    if held is not None:
        approvals = hooks.approvals(state)
        if chosen is Choice.allow_for_turn and approvals is not None:
            approvals.granted.widened = held.sha
        state.pending_call = held.model_copy(update={"allowed": is_allowing})
    # The claim is last, so that no later check can waste it.
    if not hooks.claim(suspension):
        raise SuspensionConsumed("this question was answered before; nothing was run again")
    return state


def _broken(exc: Exception, state: RunState, secrets: Secrets) -> Handoff:
    """End the run with a handoff that names the exception."""
    _log.debug("the run broke", exc_info=exc)
    state.done = True
    sentence = secrets.clean(f"The run broke: {type(exc).__name__}: {exc}")[:_MAX_SENTENCE]
    failure = RUN_BROKEN.failure(sentence, blockers=(sentence,), action=Action.handoff)
    remedy = "Run the cell again; if it happens again, report it with this sentence."
    return Handoff(
        rationale=sentence, blockers=(sentence,), suggested_next_steps=(remedy,), failure=failure
    )
