"""The funnel: one failure, one action."""

from types import SimpleNamespace

import pytest

from parsimony_kernel.agent.cancellation import CancellationRequest
from parsimony_kernel.agent.events import (
    AgentError,
    AgentEvent,
    Handoff,
    PartialRunSummary,
    UserInputRequested,
    is_terminal,
)
from parsimony_kernel.agent.failure import (
    Action,
    DefaultPolicy,
    Failure,
    FailureKind,
    handle_failure,
    verify_suspension_token,
)
from parsimony_kernel.agent.state import RunState
from parsimony_kernel.testing.clock import ManualClock

EVENT_OF = {
    Action.retry: AgentError,
    Action.narrow_scope: AgentError,
    Action.ask_user: UserInputRequested,
    Action.handoff: Handoff,
    Action.stop: PartialRunSummary,
}


def agent(clock: ManualClock | None = None) -> SimpleNamespace:
    return SimpleNamespace(
        policy=DefaultPolicy(), suspension_secret="s", clock=clock or ManualClock()
    )


async def funnel(
    failure: Failure, state: RunState, who: SimpleNamespace | None = None
) -> list[AgentEvent]:
    return [event async for event in handle_failure(failure, agent=who or agent(), state=state)]


@pytest.mark.parametrize("kind", list(FailureKind))
@pytest.mark.parametrize("action", list(Action))
async def test_every_kind_and_action_gives_one_event_and_one_count(
    kind: FailureKind, action: Action
) -> None:
    class Fixed(DefaultPolicy):
        def decide(self, failure: Failure, state: RunState) -> Action:
            assert state.failure_attempts == {}, "the policy sees the counts before this failure"
            return action

    who = agent()
    who.policy = Fixed()
    state = RunState()
    events = await funnel(Failure(kind, "why"), state, who)
    assert [type(event) for event in events] == [EVENT_OF[action]]
    assert state.done is is_terminal(events[0])
    assert state.failure_attempts == {kind: 1}
    assert [lesson.kind for lesson in state.lessons_learned] == [kind]
    if isinstance(events[0], AgentError):
        assert events[0].recoverable
        assert events[0].failure == Failure(kind, "why")


class Stubborn(DefaultPolicy):
    def decide(self, failure: Failure, state: RunState) -> Action:
        return Action.retry


@pytest.mark.parametrize(
    ("metadata", "event"),
    [
        ({"effect": "uncertain"}, UserInputRequested),
        ({"effect": "committed"}, Handoff),
        ({"final": True}, Handoff),
    ],
)
async def test_what_must_not_be_repeated_is_not_whatever_the_policy(
    metadata: dict[str, object], event: type[AgentEvent]
) -> None:
    who = agent()
    who.policy = Stubborn()
    failure = Failure(FailureKind.tool_error, "why", metadata=metadata)
    assert [type(each) for each in await funnel(failure, RunState(), who)] == [event]


async def test_a_model_that_takes_over_is_not_waited_for() -> None:
    clock = ManualClock()
    failure = Failure(
        FailureKind.transient_provider, "429", metadata={"fallback": "b", "retry_after_s": 30}
    )
    (told,) = await funnel(failure, RunState(), agent(clock))
    assert isinstance(told, AgentError)
    assert (told.fallback, told.delay_s, clock.slept) == ("b", 0.0, [])


async def test_a_provider_retry_waits_as_the_policy_says() -> None:
    clock = ManualClock()
    before = clock.monotonic()
    state = RunState()
    await funnel(Failure(FailureKind.transient_provider, "429"), state, agent(clock))
    assert clock.monotonic() - before == 1.0
    await funnel(Failure(FailureKind.transient_provider, "429"), state, agent(clock))
    assert clock.monotonic() - before == 3.0


async def test_retry_after_is_honoured_up_to_a_minute_and_told_beyond() -> None:
    def asking(seconds: float) -> Failure:
        return Failure(FailureKind.transient_provider, "429", metadata={"retry_after_s": seconds})

    clock = ManualClock()
    await funnel(asking(60), RunState(), agent(clock))
    assert clock.slept == [60]
    (ended,) = await funnel(asking(500), RunState(), agent(clock))
    assert isinstance(ended, Handoff)
    assert "500 s" in ended.suggested_next_steps[0]
    assert clock.slept == [60]


async def test_a_stop_ends_the_wait() -> None:
    class Forever(ManualClock):
        async def sleep(self, seconds: float) -> None:
            stop.set("enough")
            await CancellationRequest().wait()

    stop = CancellationRequest()
    state = RunState(cancellation=stop)
    events = await funnel(Failure(FailureKind.transient_provider, "429"), state, agent(Forever()))
    assert len(events) == 1
    assert not state.done


async def test_narrowing_names_the_ways_out_of_a_stall() -> None:
    state = RunState()
    await funnel(Failure(FailureKind.no_progress, "words only"), state)
    assert state.pending_instruction is not None
    for way in ("ask_user", "return_done", "return_unable"):
        assert way in state.pending_instruction


@pytest.mark.parametrize("kind", [FailureKind.scope_too_large, FailureKind.kernel_invalidated])
async def test_narrowing_asks_for_the_smallest_next_step(kind: FailureKind) -> None:
    state = RunState()
    await funnel(Failure(kind, "too {much}"), state)
    assert state.pending_instruction is not None
    assert "smallest next step" in state.pending_instruction
    assert "too {much}" in state.pending_instruction


async def test_a_question_carries_a_record_that_verifies() -> None:
    state = RunState(run_id="r", session_id="s", iteration=7)
    (event,) = await funnel(
        Failure(
            FailureKind.ambiguous_input,
            "two columns fit",
            metadata={"question": "Which?", "choices": ["a", "b"]},
        ),
        state,
    )
    assert isinstance(event, UserInputRequested)
    assert (event.question, event.choices) == ("Which?", ("a", "b"))
    assert verify_suspension_token(record=event.suspension_record, secret="s")
    assert event.suspension_record.iteration_count == 7
    assert event.suspension_record.failure_attempts == {FailureKind.ambiguous_input: 1}


async def test_a_budget_is_a_question_with_a_way_on_and_a_way_out() -> None:
    (event,) = await funnel(Failure(FailureKind.time_limit, "300 s are used"), RunState())
    assert isinstance(event, UserInputRequested)
    assert event.choices == ("Go on", "Stop here")
    assert event.originating_failure_kind is FailureKind.time_limit


async def test_lessons_keep_five_kinds_and_the_newest_of_each() -> None:
    state = RunState()
    kinds = list(FailureKind)[:6]
    for kind in kinds:
        await funnel(Failure(kind, "first"), state)
    await funnel(Failure(kinds[2], "second"), state)
    assert [(f.kind, f.explanation) for f in state.lessons_learned] == [
        (kinds[1], "first"),
        (kinds[3], "first"),
        (kinds[4], "first"),
        (kinds[5], "first"),
        (kinds[2], "second"),
    ]
