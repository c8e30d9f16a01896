"""Figures are counted from events, and from nothing else."""

import json
from typing import Any

import pytest

from parsimony_kernel.core import events as ev
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.core.state import SuspensionRecord
from parsimony_kernel.metrics.figures import (
    Alert,
    Execution,
    Figures,
    alerts_to_text,
    executions,
    fired,
    of_runs,
    to_json,
    to_text,
)

DONE = ev.RunCompleted(summary="done")
HANDED = ev.Handoff(rationale="no key")


def started(**fields: Any) -> ev.RunStarted:
    return ev.RunStarted(run_id="r", request="q", model="m", **fields)


def called(error: str | None = None, **result: Any) -> list[ev.AgentEvent]:
    begun = ev.ToolEvent(tool_name="code", tool_call_id="c")
    envelope = result | ({"error": error} if error else {})
    ended = begun.model_copy(
        update={"completed": True, "ok": error is None and not result, "result": envelope}
    )
    return [begun, ended]


def answered(tokens: int, model: str = "m") -> ev.LLMCallCompleted:
    return ev.LLMCallCompleted(model=model, prompt_tokens=tokens - 1, completion_tokens=1)


def failed(
    kind: FailureKind = FailureKind.transient_provider,
    action: str = "retry",
    fallback: str | None = None,
    **metadata: Any,
) -> ev.AgentError:
    failure = Failure(kind, "it failed", metadata=metadata)
    return ev.AgentError(
        message="it failed", failure=failure, recoverable=True, action=action, fallback=fallback
    )


def asked(kind: FailureKind | None = None, guard: str = "") -> ev.UserInputRequested:
    record = SuspensionRecord(
        run_id="r",
        session_id="s",
        suspension_token="n.t",
        suspended_at="2026-01-01T00:00:00+00:00",
        originating_guard=guard,
    )
    return ev.UserInputRequested(
        question="?", suspension_record=record, originating_failure_kind=kind
    )


def only(*events: ev.AgentEvent) -> Execution:
    (execution,) = executions([started(), *events])
    return execution


HANDED_WITH = ev.Handoff(rationale="x", failure=Failure(FailureKind.loop_detected, "again"))
STOPPED = ev.PartialRunSummary(missing="x")
SPEECH = ev.TextDelta(content="x")


@pytest.mark.parametrize(
    ("field", "events", "count"),
    [
        # Unfinished calls are steps too.
        ("steps", [*called(), *called("action_error"), called()[0]], 3),
        ("tokens", [answered(100), answered(50), answered(7, "other")], {"m": 150, "other": 7}),
        # A limit is needed for a share of it.
        ("budget_share", [answered(10**9)], None),
        # However a loop is answered.
        ("loops", [failed(FailureKind.loop_detected, "narrow_scope")], 1),
        ("loops", [asked(FailureKind.loop_detected)], 1),
        ("loops", [HANDED_WITH], 1),
        # The gate refuses some calls; others it admits, and they fail as they run.
        ("validated", [*called(), *called("unknown_action")], 2),
        ("rejections", called("unknown_action"), {"unknown_action": 1}),
        ("rejections", called("invalid_transition"), {"invalid_transition": 1}),
        ("rejections", called("validation_failed"), {"validation_failed": 1}),
        ("rejections", called("action_error"), {}),
        ("rejections", called("action_timeout"), {}),
        ("validated", called("action_timeout"), 1),
        ("validated", called(stopped=True), 0),
        # Answers to failures are interventions, and ends that the model chose are not.
        ("interventions", called("validation_failed"), {"refusal": 1}),
        ("interventions", [failed(action="retry")], {"retry": 1}),
        ("interventions", [failed(FailureKind.no_progress, "narrow_scope")], {"narrow_scope": 1}),
        ("interventions", [failed(fallback="other")], {"fallback_model": 1}),
        ("interventions", [asked(FailureKind.ambiguous_input)], {"ask_user": 1}),
        ("interventions", [asked(guard="tokens")], {"ask_user": 1}),
        ("interventions", [HANDED_WITH], {"handoff": 1}),
        ("interventions", [STOPPED], {"stop": 1}),
        *(
            ("interventions", [end], {})
            for end in (asked(), HANDED, DONE, ev.RunCancelled(), SPEECH)
        ),
        ("open_breakers", [failed(breaker="open", model="m")], {"m"}),
        ("open_breakers", [failed(model="m")], set()),
        *(("is_safe", [end], True) for end in (DONE, HANDED, asked())),
        *(("is_safe", [end], False) for end in (STOPPED, ev.RunCancelled())),
    ],
)
def test_events_of_an_execution_are_counted(
    field: str, events: list[ev.AgentEvent], count: Any
) -> None:
    assert getattr(only(*events), field) == count


def test_budget_share_is_used_tokens_of_limit() -> None:
    (limited,) = executions([started(max_tokens=1000), answered(100), answered(9)])
    assert limited.budget_share == pytest.approx(0.109)


def test_stop_after_work_is_intervention_and_answer_that_ends_is_not() -> None:
    assert only(answered(9), STOPPED).interventions == {"stop": 1}
    assert not executions([started(reply="Stop here"), STOPPED])[0].interventions


def test_resumed_run_is_two_executions() -> None:
    run = [started(), answered(10), asked(), started(reply="2019"), answered(20), DONE]
    assert [one.outcome for one in executions(run)] == ["asked", "completed"]
    assert [one.tokens.total() for one in executions(run)] == [10, 20]


def test_empty_sample_has_no_rate() -> None:
    figures = of_runs([])
    assert figures == Figures()
    assert [v for name, v in to_json(figures).items() if name.endswith("_rate")] == [None] * 4
    assert "Loop rate                      –" in to_text(figures)


@pytest.mark.parametrize(
    ("count", "p99"), [(1, 1), (99, 99), (100, 99), (101, 100), (200, 198), (201, 199)]
)
def test_p99_is_nearest_rank(count: int, p99: int) -> None:
    assert of_runs([called() * n for n in range(count, 0, -1)]).p99_steps == p99


def test_run_without_first_event_is_an_execution() -> None:
    assert [one.steps for one in executions([*called(), DONE, *called() * 2, DONE])] == [1, 2]


def test_execution_without_end_counts_as_open() -> None:
    assert of_runs([[started()], [started(), DONE]]).outcomes == {"completed": 1, "open": 1}


EVENTS = [started(max_tokens=1000), answered(900), *called("unknown_action"), *called(), DONE]


def test_table_has_one_line_per_figure() -> None:
    figures = of_runs([EVENTS, [started(), failed(breaker="open", model="m"), HANDED]])
    assert to_text(figures).splitlines() == [
        "Executions                     2 (completed 1, handed_off 1)",
        "Steps                          2 (p99 2)",
        "Tokens                         900 (m 900)",
        "p99 tokens                     900",
        "p99 share of the token budget  90.0%",
        "Loop rate                      0.0% (0 of 2)",
        "Fallback rate                  0.0% (0 of 2)",
        "Interventions                  2 (refusal 1, retry 1)",
        "Recovery rate                  100.0% (2 of 2)",
        "Rejection rate                 50.0% (1 of 2)",
        "Rejections                     1 (unknown_action 1)",
        "Open breakers                  m",
    ]


def test_alerts_are_one_line_with_remedy() -> None:
    alerts = fired(Figures(executions=8, looped=1, open_breakers=("m",)))
    lines = alerts_to_text(alerts).splitlines()
    assert [line.partition(". ")[0] for line in lines] == [
        "loop rate: 0.125 (threshold 0.05)",
        "breaker open: 1 (threshold 0)",
    ]
    strict = Alert("steps", "steps", 0, "Too many steps.")
    assert [alert.name for alert in fired(Figures(steps=1), [strict])] == ["steps"]
    assert fired(Figures(), recovery_baseline=0.9) == ()


def test_figures_are_json() -> None:
    plain = json.loads(json.dumps(to_json(of_runs([EVENTS]))))
    assert plain["outcomes"] == {"completed": 1}
    assert plain["rejections"] == {"unknown_action": 1}
    assert plain["rejection_rate"] == 0.5
    assert plain["p99_budget_share"] == 0.9
