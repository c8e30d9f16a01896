"""Document 000, sentence by sentence: failures, detectors, the funnel and what ends a run."""

import asyncio
import dataclasses
import hashlib
import re
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from parsimony_kernel import Agent
from parsimony_kernel.agent.config import AgentGuardrails
from parsimony_kernel.agent.events import AgentError, Handoff, PartialRunSummary, UserInputRequested
from parsimony_kernel.agent.failure import (
    Action,
    DefaultPolicy,
    Failure,
    FailureKind,
    FailureRaised,
    RecoveryPolicy,
    default_action_for,
    handle_failure,
    loop_signature,
    post_llm,
    post_tool,
    pre_step,
    record_tool_call,
    verify_suspension_token,
)
from parsimony_kernel.agent.renderer import render_for_llm, render_lessons_learned
from parsimony_kernel.agent.state import RunState, SuspensionRecord
from parsimony_kernel.tools import ToolResult

from . import (
    LITELLM_WARNS,
    LOOK,
    SECRET,
    Fields,
    PromptPolicy,
    Provider,
    Reply,
    Run,
    as_object,
    ask,
    collect,
    done,
    fresh_state,
    install,
    only,
    tool_of,
    use,
    whole_body,
    with_ends,
)

pytestmark = pytest.mark.filterwarnings(LITELLM_WARNS)

KINDS_OF = {
    "retry": "transient_provider output_truncated tool_error",
    "ask_user": "ambiguous_input loop_detected iteration_limit time_limit",
    "narrow_scope": "scope_too_large no_progress kernel_invalidated",
    "handoff": "output_refused capability_gap policy_violation",
}
DEFAULTS = {kind: action for action, kinds in KINDS_OF.items() for kind in kinds.split()}
BUDGETS = {"transient_provider": 3, "tool_error": 2, "output_truncated": 1}
TERMINAL = (UserInputRequested, Handoff, PartialRunSummary)
GUARDRAILS = AgentGuardrails()
KINDS = [*FailureKind]


class Always(PromptPolicy):
    """Takes one action whatever happened."""

    def __init__(self, action: Action) -> None:
        self.action = action

    def decide(self, failure: Failure, state: RunState) -> Action:
        """The one action."""
        return self.action


STOP, RETRY = Always(Action.stop), Always(Action.retry)


def small_state(**more: Any) -> RunState:
    return RunState(**{"run_id": "r1", "session_id": "s1", **more})


def failure_of(kind: FailureKind, text: str = "it went wrong", **more: Any) -> Failure:
    return Failure(kind=kind, explanation=text, **more)


async def funnel(failure: Failure, state: RunState, policy: Any = None) -> list[Any]:
    agent = SimpleNamespace(policy=policy or PromptPolicy(), suspension_secret=SECRET)
    return await collect(handle_failure(failure, agent=agent, state=state))


def response(*calls: tuple[str, Any], finish: str | None = None, text: str = "") -> Any:
    return as_object(whole_body(Reply(text=text, calls=calls, finish=finish)))


def tool_call(name: str = "look", arguments: str = "{}") -> Any:
    return SimpleNamespace(id="c1", function=SimpleNamespace(name=name, arguments=arguments))


def in_history(state: RunState, name: str, arguments: Fields, times: int) -> RunState:
    for _ in range(times):
        record_tool_call(state, name, arguments)
    return state


async def broken(x: int = 0) -> ToolResult:
    raise RuntimeError(f"broken at {x}")


# Kinds, actions and the failure.


def test_exactly_thirteen_kinds_and_five_actions() -> None:
    assert {kind.value for kind in FailureKind} == set(DEFAULTS)
    assert {*map(str, Action)} == {"retry", "narrow_scope", "ask_user", "handoff", "stop"}
    assert all(each.name == each.value == f"{each}" for each in (*FailureKind, *Action))


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_its_default_action(kind: FailureKind) -> None:
    assert default_action_for(kind) == Action(DEFAULTS[kind])
    assert failure_of(kind, suggested_action=None).suggested_action is Action(DEFAULTS[kind])


def test_example_failure_prints_as_documented() -> None:
    failure = Failure(
        kind=FailureKind.capability_gap,
        explanation="No connector available for SAP queries",
        blockers=("SAP connector not installed", "Authentication unavailable"),
    )
    assert failure.kind is FailureKind.capability_gap
    assert failure.explanation == "No connector available for SAP queries"
    assert failure.blockers == ("SAP connector not installed", "Authentication unavailable")
    assert failure.suggested_action is Action.handoff


def test_failure_is_a_frozen_value_with_documented_fields() -> None:
    plain: Any = failure_of(FailureKind.tool_error)
    assert (plain.blockers, plain.partial_data, dict(plain.metadata)) == ((), None, {})
    assert dataclasses.fields(plain)
    with pytest.raises(dataclasses.FrozenInstanceError):
        plain.explanation = "another"
    blockers: Any = ["b"]
    full = Failure(FailureKind.tool_error, "text", blockers, Action.stop, {"a": 1}, {"m": 1})
    assert (full.blockers, full.suggested_action) == (("b",), Action.stop)
    assert (full.partial_data, dict(full.metadata)) == ({"a": 1}, {"m": 1})
    kind: Any = "tool_timeout"
    with pytest.raises(ValueError, match="tool_timeout"):
        Failure(kind=kind, explanation="x")


@pytest.mark.parametrize(
    ("other", "is_equal"),
    [
        (failure_of(FailureKind.tool_error, metadata={"iteration": 2}), True),
        (failure_of(FailureKind.tool_error, suggested_action=Action.stop), True),
        (failure_of(FailureKind.no_progress), False),
        (failure_of(FailureKind.tool_error, "something else"), False),
        (failure_of(FailureKind.tool_error, blockers=("b",)), False),
    ],
)
def test_kind_explanation_and_blockers_define_equality(other: Failure, is_equal: bool) -> None:
    one = failure_of(FailureKind.tool_error, metadata={"iteration": 1})
    assert (one == other) == (len({one, other}) == 1) == is_equal


def test_failure_survives_json_in_state() -> None:
    failure = failure_of(
        FailureKind.policy_violation,
        blockers=("a", "b"),
        suggested_action=Action.ask_user,
        metadata={"guard": "tokens"},
    )
    state = small_state(lessons_learned=[failure])
    [back] = RunState.model_validate_json(state.model_dump_json()).lessons_learned
    assert back == failure
    assert back.suggested_action is Action.ask_user
    assert dict(back.metadata) == {"guard": "tokens"}


def test_raised_failure_carries_kind_and_explanation() -> None:
    failure = failure_of(FailureKind.scope_too_large, "too much at once")
    with pytest.raises(FailureRaised, match=re.escape("scope_too_large: too much at once")) as info:
        raise FailureRaised(failure)
    assert info.value.failure is failure


# Detectors: before a step.


ELAPSED = {"elapsed_s": 10.0}


@pytest.mark.parametrize(
    ("limits", "state", "kind", "measured"),
    [
        ({}, {}, None, {}),
        ({"max_iterations": 3}, {"iteration": 2}, None, {}),
        ({"max_iterations": 3}, {"iteration": 3}, "iteration_limit", {"iteration": 3}),
        ({"max_iterations": 3}, {"iteration": 4}, "iteration_limit", {"iteration": 4}),
        ({"max_execution_time_s": 300}, {"accumulated_elapsed_s": 200.0}, None, {}),
        ({"max_execution_time_s": 9}, {"accumulated_elapsed_s": 10.0}, "time_limit", ELAPSED),
        ({"stall_threshold_s": 30}, {"silent": 0.0}, None, {}),
        ({"stall_threshold_s": 30}, {"silent": 31.0}, "no_progress", {"silence_s": 31}),
    ],
)
def test_each_limit_fires_at_its_value(
    limits: Fields, state: Fields, kind: str | None, measured: dict[str, float]
) -> None:
    given = {key: value for key, value in state.items() if key != "silent"}
    if "silent" in state:
        given["last_event_time_s"] = time.monotonic() - state["silent"]
    found = pre_step(small_state(**given), AgentGuardrails(**limits))
    assert (found and found.kind) == kind
    if found is not None and "silent" not in state:
        assert {name: found.metadata[name] for name in limits} == limits
    for name, least in measured.items():
        assert found is not None
        assert least <= found.metadata[name] < least + 1


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"iteration": 50, "accumulated_elapsed_s": 999.0}, "iteration_limit"),
        ({"iteration": 50, "silent": True}, "iteration_limit"),
        ({"accumulated_elapsed_s": 999.0, "silent": True}, "time_limit"),
    ],
)
def test_iteration_limit_beats_time_limit_beats_stall(fields: Fields, kind: str) -> None:
    if fields.pop("silent", False):
        fields["last_event_time_s"] = time.monotonic() - 60
    found = pre_step(small_state(**fields), GUARDRAILS)
    assert found is not None
    assert found.kind == kind


# Detectors: after the model.


@pytest.mark.parametrize(
    ("finish", "kind"),
    [
        ("length", "output_truncated"),
        ("content_filter", "output_refused"),
        ("refusal", "output_refused"),
        ("stop", None),
        ("tool_calls", None),
    ],
)
def test_finish_reason_shows_truncation_and_refusal(finish: str, kind: str | None) -> None:
    answer = response(("look", {}), finish=finish)
    found = post_llm(response=answer, state=small_state(), guardrails=GUARDRAILS)
    assert (found and found.kind) == kind
    if found is not None:
        assert found.metadata["finish_reason"] == finish


def test_refusal_in_message_is_a_refusal() -> None:
    answer = response(text="")
    answer.choices[0].message.refusal = "I will not."
    found = post_llm(response=answer, state=small_state(), guardrails=GUARDRAILS)
    assert found is not None
    assert found.kind is FailureKind.output_refused


@pytest.mark.parametrize(("recorded", "fires"), [(0, False), (4, False), (5, True), (6, True)])
def test_call_reaching_hard_threshold_is_a_loop(recorded: int, fires: bool) -> None:
    state = in_history(small_state(), "look", {"x": 1}, recorded)
    answer = response(("look", {"x": 1}))
    found = post_llm(response=answer, state=state, guardrails=GUARDRAILS)
    assert (found is not None) == fires
    if found is not None:
        assert found.kind is FailureKind.loop_detected
        assert found.metadata["signature"] == loop_signature("look", {"x": 1})
        assert found.metadata["repeat_count"] == recorded + 1
        assert found.metadata["tool_name"] == "look"


@pytest.mark.parametrize(
    ("past", "calls", "is_loop"),
    [
        ({"x": 1}, [{"x": 2}], False),
        ({"x": 1}, [{"x": 2}, {"x": 1}], True),
        # Arguments that are no JSON are compared as text.
        ({"_raw_args": "{broken"}, ["{broken"], True),
    ],
)
def test_any_call_of_an_answer_may_be_the_loop(past: Fields, calls: Any, is_loop: bool) -> None:
    state = in_history(small_state(), "look", past, 9)
    answer = response(*(("look", arguments) for arguments in calls))
    found = post_llm(response=answer, state=state, guardrails=GUARDRAILS)
    assert (found is not None) == is_loop
    if found is not None:
        assert found.kind is FailureKind.loop_detected
        assert found.metadata["signature"] == loop_signature("look", past)


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_truncation_and_refusal_beat_a_loop(finish: str) -> None:
    state = in_history(small_state(), "look", {"x": 1}, 9)
    answer = response(("look", {"x": 1}), finish=finish)
    found = post_llm(response=answer, state=state, guardrails=GUARDRAILS)
    assert found is not None
    assert found.kind is not FailureKind.loop_detected


def test_soft_threshold_detects_nothing() -> None:
    rails = AgentGuardrails(loop_soft_threshold=1, loop_hard_threshold=50)
    state = in_history(small_state(), "look", {"x": 1}, 20)
    answer = response(("look", {"x": 1}))
    assert post_llm(response=answer, state=state, guardrails=rails) is None


def test_signature_is_name_and_hash_of_sorted_json_without_purpose() -> None:
    digest = hashlib.sha256(b'{"a": 1, "b": 2}').hexdigest()[:8]
    assert loop_signature("look", {"b": 2, "a": 1}) == f"look:{digest}"
    assert loop_signature("look", {"b": 2, "a": 1, "_ui_message": "Again"}) == f"look:{digest}"
    assert loop_signature("look", {"x": {1}}) == loop_signature("look", {"x": "{1}"})


def test_recorded_call_is_appended_and_counted() -> None:
    state = in_history(small_state(), "look", {"x": 1}, 2)
    record_tool_call(state, "look", {"x": 2})
    first, second = loop_signature("look", {"x": 1}), loop_signature("look", {"x": 2})
    assert state.tool_call_history == [first, first, second]
    assert state.last_repeat_counts[first] == 2
    assert state.last_repeat_counts[second] == 1


# Detectors: after a tool.


def test_successful_tool_is_no_failure() -> None:
    assert post_tool(ToolResult.from_data({"a": 1}), tool_call(), small_state()) is None


def test_tool_failure_passes_unchanged() -> None:
    failure = failure_of(FailureKind.kernel_invalidated)
    assert post_tool(ToolResult.from_failure(failure), tool_call(), small_state()) == failure


@pytest.mark.parametrize("error", [RuntimeError("broken"), TimeoutError("over 600 s")])
def test_tool_exception_or_deadline_is_tool_error(error: Exception) -> None:
    found = post_tool(ToolResult.from_exception(error), tool_call("look"), small_state())
    assert found is not None
    assert found.kind is FailureKind.tool_error
    assert found.metadata["tool_name"] == "look"


@pytest.mark.parametrize(
    "detect",
    [
        lambda state: pre_step(state, AgentGuardrails(max_iterations=1)),
        lambda state: post_llm(
            response=response(("look", {"x": 1})), state=state, guardrails=GUARDRAILS
        ),
        lambda state: post_tool(ToolResult.from_exception(ValueError("x")), tool_call(), state),
    ],
)
def test_detectors_change_nothing(detect: Callable[[RunState], Failure | None]) -> None:
    state = in_history(small_state(iteration=3), "look", {"x": 1}, 9)
    before = state.model_dump_json()
    assert detect(state) is not None
    assert state.model_dump_json() == before


# The policy.


def test_default_policy_is_a_recovery_policy() -> None:
    assert isinstance(DefaultPolicy(), RecoveryPolicy)


def test_policy_is_a_protocol_of_three_methods() -> None:
    class Mine:
        def retry_budget(self, kind: FailureKind) -> int:
            return 0

        def backoff(self, kind: FailureKind, attempt: int) -> float:
            return 0.0

        def decide(self, failure: Failure, state: RunState) -> Action:
            return Action.stop

    assert isinstance(Mine(), RecoveryPolicy)
    assert not isinstance(object(), RecoveryPolicy)


@pytest.mark.parametrize("kind", KINDS)
def test_policy_has_documented_budget_backoff_and_actions(kind: FailureKind) -> None:
    policy, attempts = DefaultPolicy(), (0, 1, 4, 5, 5000)
    assert policy.retry_budget(kind) == BUDGETS.get(kind, 0)
    waits = [1.0, 2.0, 16.0, 30.0, 30.0] if kind == "transient_provider" else [0.0] * 5
    assert [policy.backoff(kind, attempt) for attempt in attempts] == waits
    assert policy.decide(failure_of(kind), small_state()) is default_action_for(kind)
    stopping = failure_of(kind, suggested_action=Action.stop)
    assert policy.decide(stopping, small_state()) is Action.stop


@pytest.mark.parametrize("kind", [FailureKind(name) for name in BUDGETS])
def test_retry_becomes_handoff_after_its_budget(kind: FailureKind) -> None:
    policy, state = DefaultPolicy(), small_state()
    decided = []
    for _ in range(BUDGETS[kind] + 1):
        decided.append(policy.decide(failure_of(kind), state))
        state.record_failure_attempt(kind)
    assert decided == [Action.retry] * BUDGETS[kind] + [Action.handoff]


@pytest.mark.parametrize("kind", [one for one in KINDS if DEFAULTS[one] == "narrow_scope"])
def test_second_narrowing_strike_is_a_handoff(kind: FailureKind) -> None:
    policy, state = DefaultPolicy(), small_state()
    assert policy.decide(failure_of(kind), state) is Action.narrow_scope
    state.record_failure_attempt(kind)
    assert state.failure_attempts[kind] == 1
    assert policy.decide(failure_of(kind, "again"), state) is Action.handoff


@pytest.mark.parametrize("kind", [one for one in KINDS if DEFAULTS[one] == "ask_user"])
def test_asking_kind_keeps_asking(kind: FailureKind) -> None:
    state = small_state(failure_attempts={kind: 4})
    assert DefaultPolicy().decide(failure_of(kind), state) is Action.ask_user


def test_strikes_are_counted_per_kind() -> None:
    state = small_state(failure_attempts={FailureKind.scope_too_large: 5})
    decided = DefaultPolicy().decide(failure_of(FailureKind.no_progress), state)
    assert decided is Action.narrow_scope


# The funnel.

EVENTS: dict[Action, tuple[type, bool]] = {
    Action.retry: (AgentError, False),
    Action.narrow_scope: (AgentError, False),
    Action.ask_user: (UserInputRequested, True),
    Action.handoff: (Handoff, True),
    Action.stop: (PartialRunSummary, True),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("action", [*Action])
async def test_each_action_yields_its_event_and_ending(action: Action, kind: FailureKind) -> None:
    state, failure = fresh_state(), failure_of(kind)
    [event] = await funnel(failure, state, Always(action))
    expected, ends = EVENTS[action]
    assert isinstance(event, expected)
    assert bool(state.done) is ends
    assert (state.failure_attempts, state.lessons_learned) == ({kind: 1}, [failure])
    if isinstance(event, AgentError):
        assert (event.recoverable, event.failure, bool(event.message)) == (True, failure, True)


async def test_policy_decides_before_attempt_is_counted() -> None:
    seen: list[int] = []

    class Watching(PromptPolicy):
        def decide(self, failure: Failure, state: RunState) -> Action:
            seen.append(state.failure_attempts.get(failure.kind, 0))
            return super().decide(failure, state)

    state = fresh_state()
    for _ in range(3):
        await funnel(failure_of(FailureKind.tool_error), state, Watching())
    assert seen == [0, 1, 2]


async def test_retry_waits_as_policy_says() -> None:
    asked: list[FailureKind] = []

    class Counting(PromptPolicy):
        def backoff(self, kind: FailureKind, attempt: int) -> float:
            asked.append(kind)
            return 0.0

    await funnel(failure_of(FailureKind.transient_provider), fresh_state(), Counting())
    assert asked == [FailureKind.transient_provider]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("no_progress", ("ask_user", "return_done", "return_unable")),
        ("scope_too_large", ("smallest next step",)),
        ("kernel_invalidated", ("smallest next step",)),
        ("tool_error", None),
    ],
)
async def test_narrowing_sets_instruction_and_retry_none(
    kind: str, told: tuple[str, ...] | None
) -> None:
    state = fresh_state()
    await funnel(failure_of(FailureKind(kind)), state)
    if told is None:
        assert state.pending_instruction is None
    else:
        assert [each for each in told if each not in str(state.pending_instruction)] == []


@pytest.mark.parametrize(
    "kind", ["ambiguous_input", "loop_detected", "iteration_limit", "time_limit"]
)
async def test_kinds_needing_a_person_suspend_with_verifiable_record(kind: str) -> None:
    [event] = await funnel(failure_of(FailureKind(kind)), fresh_state())
    assert isinstance(event, UserInputRequested)
    assert event.question
    assert event.originating_failure_kind == kind
    assert event.suspension_record.originating_failure_kind == kind
    assert verify_suspension_token(record=event.suspension_record, secret=SECRET)


async def test_suspension_counts_its_failure() -> None:
    state = fresh_state()
    failure = failure_of(FailureKind.ambiguous_input)
    [event] = await funnel(failure, state)
    resumed = RunState.from_suspension(event.suspension_record, files=None, code_executor=None)
    assert resumed.lessons_learned == [failure]
    assert resumed.failure_attempts == {FailureKind.ambiguous_input: 1}


@pytest.mark.parametrize("kind", ["capability_gap", "output_refused", "policy_violation"])
async def test_handoff_carries_blockers_and_asks_nothing(kind: str) -> None:
    failure = failure_of(FailureKind(kind), "cannot", blockers=("no connector", "no key"))
    [event] = await funnel(failure, fresh_state())
    assert isinstance(event, Handoff)
    assert list(event.blockers) == ["no connector", "no key"]
    assert "cannot" in event.rationale
    assert isinstance(event.suggested_next_steps, list | tuple)
    assert not hasattr(event, "question")
    assert not hasattr(event, "suspension_record")


@pytest.mark.parametrize("kind", ["no_progress", "tool_error", "output_truncated"])
async def test_escalated_failure_hands_off_with_blockers(kind: str) -> None:
    state = fresh_state(failure_attempts={FailureKind(kind): 3})
    [event] = await funnel(failure_of(FailureKind(kind)), state)
    assert isinstance(event, Handoff)
    assert event.blockers


async def test_stop_reports_missing_and_learned() -> None:
    state = fresh_state()
    [event] = await funnel(failure_of(FailureKind.time_limit, "out of time"), state, STOP)
    assert event.missing
    assert isinstance(event.learned_facts, list | tuple | str)
    assert hasattr(event, "next_step_plan")
    assert not hasattr(event, "blockers")


async def test_repeats_and_strikes_are_counted_separately() -> None:
    state = in_history(fresh_state(), "look", {"x": 1}, 2)
    await funnel(failure_of(FailureKind.tool_error), state)
    assert state.last_repeat_counts == {loop_signature("look", {"x": 1}): 2}
    assert state.failure_attempts == {FailureKind.tool_error: 1}


# Lessons.


async def test_newer_failure_of_a_kind_replaces_older() -> None:
    state = fresh_state()
    for kind, text in [("tool_error", "one"), ("no_progress", "two"), ("tool_error", "three")]:
        await funnel(failure_of(FailureKind(kind), text), state, RETRY)
    assert [lesson.explanation for lesson in state.lessons_learned] == ["two", "three"]


async def test_only_five_newest_kinds_are_remembered() -> None:
    state = fresh_state()
    for kind in KINDS[:7]:
        await funnel(failure_of(kind), state, RETRY)
    assert [lesson.kind for lesson in state.lessons_learned] == KINDS[2:7]


def test_lessons_render_as_documented() -> None:
    lesson = failure_of(
        FailureKind.tool_error, "Network timeout", blockers=("No internet connection",)
    )
    line = (
        '<failure kind="tool_error" explanation="Network timeout"'
        ' blockers="No internet connection" />'
    )
    rendered = render_lessons_learned([lesson])
    assert line in rendered
    assert rendered.strip().startswith("<lessons_learned>")
    assert rendered.strip().endswith("</lessons_learned>")


def test_lessons_are_in_last_user_message() -> None:
    state = fresh_state(lessons_learned=[failure_of(FailureKind.tool_error, "Network timeout")])
    last = render_for_llm(state, instructions="You analyse.")[-1]
    assert last["role"] == "user"
    root = ElementTree.fromstring(str(last["content"]).strip())
    assert root.tag == "context_addendum"
    [lesson] = root.findall("lessons_learned/failure")
    assert lesson.get("kind") == "tool_error"
    assert lesson.get("explanation") == "Network timeout"


def test_lesson_cannot_escape_its_attribute() -> None:
    text = 'a "quoted" <tag/> & </lessons_learned>'
    root = ElementTree.fromstring(
        render_lessons_learned([failure_of(FailureKind.tool_error, text)]).strip()
    )
    [lesson] = root
    assert lesson.get("explanation") == text


def test_no_lessons_add_nothing() -> None:
    assert "lessons_learned" not in str(render_for_llm(fresh_state(), instructions="You analyse."))


# Guardrails.

RAILS = {
    "max_iterations": 50,
    "max_execution_time_s": 300,
    "llm_timeout_s": 60,
    "tool_timeout_s": 600,
    "stall_threshold_s": 30,
    "stream_heartbeat_s": 20,
    "loop_soft_threshold": 2,
    "loop_hard_threshold": 6,
}


@pytest.mark.parametrize(("name", "value"), RAILS.items())
def test_guardrails_have_documented_defaults(name: str, value: float) -> None:
    assert getattr(AgentGuardrails(), name) == value
    assert getattr(AgentGuardrails(**{name: value + 1}), name) == value + 1


def test_agent_accepts_guardrails_and_policy() -> None:
    rails, policy = AgentGuardrails(max_iterations=7), Always(Action.stop)
    agent = Agent(model="claude-sonnet-4-6", guardrails=rails, policy=policy)
    assert agent.guardrails == rails
    assert agent.policy is policy


# The spine in a run.


def litellm_error(name: str) -> Callable[[], Exception]:
    def made() -> Exception:
        from litellm import exceptions

        said: Fields = {"message": "no", "llm_provider": "openai", "model": "gpt-4o-mini"}
        if name == "APIError":
            said["status_code"] = 500
        error: Exception = getattr(exceptions, name)(**said)
        return error

    return made


async def waits(x: int = 0) -> ToolResult:
    await asyncio.Event().wait()
    return ToolResult.from_data(x)


def story(one: Any) -> str:
    """The failures of a run in order: the kinds that it went on after, and how it ended."""
    told = []
    for event in one.events:
        if isinstance(event, AgentError):
            assert event.recoverable
            assert event.failure is not None
            told.append(str(event.failure.kind))
        elif isinstance(event, UserInputRequested):
            told.append(f"question:{event.originating_failure_kind}")
        elif isinstance(event, TERMINAL):
            lessons = [str(lesson.kind) for lesson in one.state.lessons_learned]
            told.append(f"{event.type}:{lessons[-1] if lessons else None}")
    return " ".join(told)


OUTAGE, WORDS = litellm_error("RateLimitError"), Reply("I think so.")
CUT, FILTERED = Reply("The answer is", finish="length"), Reply("", finish="content_filter")
UNABLE = use("return_unable", rationale="No.", blockers=["b"])
LOOKS, SAME = [use("look", x=1), use("look", x=2)], [use("look", x=1)] * 6
BREAKS, WAITS = [use("broken", x=number) for number in range(3)], use("waits")
BROKEN, LATE = {"tools": with_ends(tool_of(broken))}, AgentGuardrails(tool_timeout_s=0.02)
MAY_ACT = {"guardrails": LATE, "tools": with_ends(tool_of(waits))}
HARMLESS = {"guardrails": LATE, "tools": with_ends(tool_of(waits, idempotent=True))}
TWO_STEPS = {"guardrails": AgentGuardrails(max_iterations=2)}
NO_STEP, NO_TIME = fresh_state(iteration=50), fresh_state(accumulated_elapsed_s=301.0)


@pytest.mark.parametrize(
    ("replies", "agent", "told"),
    [
        ([done()], {}, ""),
        ([OUTAGE, done()], {}, "transient_provider"),
        ([litellm_error("ServiceUnavailableError"), done()], {}, "transient_provider"),
        ([litellm_error("APIError"), done()], {}, "transient_provider"),
        ([OUTAGE] * 4, {}, "transient_provider " * 3 + "handoff:transient_provider"),
        ([litellm_error("AuthenticationError")], {}, "handoff:capability_gap"),
        ([WORDS, WORDS], {}, "no_progress handoff:no_progress"),
        ([CUT, CUT], {}, "output_truncated handoff:output_truncated"),
        ([FILTERED], {}, "handoff:output_refused"),
        (BREAKS, BROKEN, "tool_error tool_error handoff:tool_error"),
        ([WAITS, done()], HARMLESS, "tool_error"),
        ([WAITS], MAY_ACT, "question:tool_error"),
        (SAME, {}, "question:loop_detected"),
        (LOOKS, TWO_STEPS, "question:iteration_limit"),
        ([], {"state": NO_STEP}, "question:iteration_limit"),
        ([], {"state": NO_TIME}, "question:time_limit"),
        ([WORDS], {"policy": STOP}, "partial_run_summary:no_progress"),
        ([ask()], {}, "question:None"),
        ([UNABLE], {}, "handoff:None"),
    ],
)
async def test_run_recovers_or_ends_in_one_terminal_event(
    run: Run, replies: list[Any], agent: Fields, told: str
) -> None:
    one = await run(*replies, **agent)
    assert story(one) == told
    assert one.provider.asked == len(replies)
    assert one.state.done


async def test_nudge_appears_in_next_request_only(run: Run) -> None:
    one = await run(Reply("I think so."), use("look", x=1), done())
    nudged = ["return_unable" in str(request["messages"][-1]) for request in one.provider.requests]
    assert nudged == [False, True, False]
    assert one.state.pending_instruction is None


async def test_soft_threshold_is_only_logged(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", logger="parsimony_kernel")
    rails = AgentGuardrails(loop_soft_threshold=2, loop_hard_threshold=9)
    one = await run(*[use("look", x=1)] * 3, done(), guardrails=rails)
    said = [line.getMessage() for line in caplog.records if line.name.startswith("parsimony")]
    assert any("look" in line for line in said)
    assert not [event for event in one.events if isinstance(event, (*TERMINAL, AgentError))]


async def test_model_question_has_no_failure(run: Run) -> None:
    one = await run(ask("Which one?", context="Two fit.", choices=["a", "b"]))
    question = only(one.events, UserInputRequested)
    assert question.question == "Which one?"
    assert question.context == "Two fit."
    assert list(question.choices) == ["a", "b"]
    assert question.originating_failure_kind is None
    assert one.state.done


async def test_unable_model_hands_off_with_blockers(run: Run) -> None:
    reason = {"rationale": "There is no connector.", "blockers": ["SAP is not installed"]}
    one = await run(use("return_unable", **reason))
    handoff = only(one.events, Handoff)
    assert "There is no connector." in handoff.rationale
    assert list(handoff.blockers) == ["SAP is not installed"]


async def test_lesson_is_in_requests_after_failure(run: Run) -> None:
    tools = with_ends(tool_of(broken), LOOK)
    one = await run(use("broken", x=1), use("look", x=1), done(), tools=tools)
    told = [
        'kind="tool_error"' in str(request["messages"][-1]) for request in one.provider.requests
    ]
    assert told == [False, True, True]


async def test_strikes_reset_on_progress(run: Run) -> None:
    one = await run(
        Reply("Words."), use("look", x=1), Reply("Words again:"), use("look", x=2), done()
    )
    assert not [event for event in one.events if isinstance(event, TERMINAL)]
    assert one.state.failure_attempts.get(FailureKind.no_progress, 0) == 0


# Budgets across a suspension.


async def suspended(run: Run, **state: Any) -> SuspensionRecord:
    one = await run(state=fresh_state(**state))
    record: SuspensionRecord = only(one.events, UserInputRequested).suspension_record
    return record


def revived(record: SuspensionRecord) -> RunState:
    return RunState.from_suspension(record, files=None, code_executor=None)


async def test_continued_limit_restarts_its_own_count(run: Run) -> None:
    steps = revived(await suspended(run, iteration=50, accumulated_elapsed_s=100.0))
    assert steps.iteration == 0
    assert steps.accumulated_elapsed_s >= 100.0
    late = revived(await suspended(run, iteration=20, accumulated_elapsed_s=301.0))
    assert (late.iteration, late.accumulated_elapsed_s) == (20, 0)


@pytest.mark.parametrize("kind", ["ambiguous_input", "loop_detected"])
async def test_other_question_resets_no_budget(kind: str) -> None:
    state = in_history(fresh_state(iteration=40, accumulated_elapsed_s=250.0), "look", {}, 3)
    state.cumulative_cost_usd, state.cumulative_prompt_tokens = 0.5, 700
    state.cumulative_completion_tokens = 30
    state.record_failure_attempt(FailureKind.tool_error)
    [event] = await funnel(failure_of(FailureKind(kind)), state)
    back = revived(event.suspension_record)
    assert back.iteration == 40
    assert back.accumulated_elapsed_s >= 250.0
    assert (back.cumulative_cost_usd, back.cumulative_prompt_tokens) == (0.5, 700)
    assert back.cumulative_completion_tokens == 30
    assert back.tool_call_history == state.tool_call_history
    assert back.last_repeat_counts == state.last_repeat_counts
    assert back.failure_attempts[FailureKind.tool_error] == 1


async def test_loop_is_remembered_after_resume(run: Run, resumed: Run) -> None:
    one = await run(*[use("look", x=1)] * 3, ask())
    record = only(one.events, UserInputRequested).suspension_record
    again = await resumed(record, "the first", *[use("look", x=1)] * 4)
    question = only(again.events, UserInputRequested)
    assert question.originating_failure_kind is FailureKind.loop_detected


async def test_budget_holds_after_resume(run: Run, resumed: Run) -> None:
    one = await run(ask(), state=fresh_state(iteration=48))
    record = only(one.events, UserInputRequested).suspension_record
    again = await resumed(record, "the first", *[use("look", x=number) for number in range(4)])
    question = only(again.events, UserInputRequested)
    assert question.originating_failure_kind is FailureKind.iteration_limit
    assert again.provider.asked <= 2


# The document's program.


async def test_document_program_asks_and_continues(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    provider = Provider(ask("Which GDP?", choices=["monthly", "yearly"]), done("Here it is."))
    install(monkeypatch, provider)
    agent = Agent(model="claude-sonnet-4-6")
    suspension = None

    async for event in agent.run("Do something underspecified"):
        if isinstance(event, UserInputRequested):
            print(f"Question: {event.question}")
            if event.choices:
                print(f"Choices:  {event.choices}")
            suspension = event.suspension_record
            break
        if isinstance(event, Handoff):
            print(f"Handoff: {event.rationale}")
            for blocker in event.blockers:
                print(f"  - blocked by: {blocker}")
        elif isinstance(event, PartialRunSummary):
            print(f"Missing: {event.missing}")
            print(f"Learned: {event.learned_facts}")

    assert suspension is not None
    reply = "use the monthly series from FRED"
    resumed = await collect(agent.resume(suspension, reply))
    assert not [event for event in resumed if isinstance(event, TERMINAL)]
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "Question: Which GDP?"
    assert said[1].startswith("Choices:")
    assert "'monthly', 'yearly'" in said[1]
    assert reply in str(provider.requests[-1]["messages"])


async def test_document_policy_example_prints_as_stated() -> None:
    policy = DefaultPolicy()
    state = RunState(run_id="r1", session_id="s1")
    failure = Failure(kind=FailureKind.transient_provider, explanation="429 rate limited")
    assert policy.decide(failure, state) is Action.retry
    assert policy.backoff(FailureKind.transient_provider, attempt=1) == 2.0
