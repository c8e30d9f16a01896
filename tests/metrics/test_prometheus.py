"""The metrics of document 003, counted from events and told in Prometheus' text format."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from parsimony_kernel.cli.main import main
from parsimony_kernel.core.events import (
    AgentError,
    AgentEvent,
    Handoff,
    LLMCallCompleted,
    PartialRunSummary,
    RunCompleted,
    RunStarted,
    ToolEvent,
)
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.metrics.prometheus import AgentMetrics, of_runs
from parsimony_kernel.storage.store import SqliteJournal
from parsimony_kernel.storage.workspace import journal_path

START = RunStarted(run_id="r", request="q", model="m")
DONE = RunCompleted(summary="done")


def called(error: str | None = None) -> list[AgentEvent]:
    begun = ToolEvent(tool_name="code", tool_call_id="c")
    result = {"error": error} if error else {}
    update = {"completed": True, "ok": error is None, "result": result}
    return [begun, begun.model_copy(update=update)]


def failed(kind: FailureKind, action: str, fallback: str | None = None) -> AgentError:
    return AgentError(
        message="x", failure=Failure(kind, "x"), action=action, recoverable=True, fallback=fallback
    )


def samples(metrics: AgentMetrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """What the text says, without the moments of creation."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.exposition())
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


RUN: list[AgentEvent] = [
    START,
    LLMCallCompleted(model="m", prompt_tokens=4_000, completion_tokens=500),
    *called(),
    *called("unknown_action"),
    failed(FailureKind.loop_detected, "narrow_scope"),
    failed(FailureKind.transient_provider, "retry", fallback="n"),
    LLMCallCompleted(model="n", prompt_tokens=70, completion_tokens=7),
    *called(),
    DONE,
]


def test_a_run_is_counted_with_the_names_and_labels_of_the_document() -> None:
    told = samples(of_runs([RUN], agent="a"))
    agent = ("agent", "a")
    counted = {key: value for key, value in told.items() if "per_run" not in key[0]}
    assert counted == {
        ("agent_loops_total", (agent,)): 1,
        ("agent_fallbacks_total", (("strategy", "fallback_model"),)): 1,
        ("agent_interventions_total", (agent, ("intervention", "refusal"))): 1,
        ("agent_interventions_total", (agent, ("intervention", "narrow_scope"))): 1,
        ("agent_interventions_total", (agent, ("intervention", "fallback_model"))): 1,
        ("agent_safe_recoveries_total", (agent, ("intervention", "refusal"))): 1,
        ("agent_safe_recoveries_total", (agent, ("intervention", "narrow_scope"))): 1,
        ("agent_safe_recoveries_total", (agent, ("intervention", "fallback_model"))): 1,
        ("agent_validation_failures_total", (agent, ("reason", "unknown_action"))): 1,
        ("agent_validated_outputs_total", (agent,)): 3,
    }
    assert told["agent_steps_per_run_sum", (agent,)] == 3
    assert told["agent_tokens_per_run_sum", (("model", "m"),)] == 4_500
    assert told["agent_tokens_per_run_sum", (("model", "n"),)] == 77


def bounds(metrics: AgentMetrics, name: str) -> list[float]:
    found = {dict(labels)["le"] for (sample, labels) in samples(metrics) if sample == name}
    return sorted(float(bound) for bound in found)


def test_steps_have_the_document_s_buckets_and_tokens_have_buckets_of_their_scale() -> None:
    metrics = of_runs([RUN])
    assert bounds(metrics, "agent_steps_per_run_bucket")[:-1] == [1, 3, 5, 8, 10, 15, 20, 30]
    tokens = bounds(metrics, "agent_tokens_per_run_bucket")[:-1]
    assert tokens[0] >= 1_000
    assert tokens[-1] >= 100_000
    assert 80_000 in tokens


def test_the_document_s_class_is_used_by_hand_as_it_is_printed() -> None:
    metrics = AgentMetrics()
    metrics.step_count.labels(agent="a").observe(4)
    metrics.loop_detected.labels(agent="a").inc()
    metrics.fallback_triggered.labels(strategy="backup").inc()
    metrics.validation_failures.labels(agent="a", reason="schema").inc()
    metrics.token_usage.labels(model="m").observe(1_170)
    for _ in range(100):
        metrics.interventions_triggered.labels(agent="a", intervention="retry").inc()
        metrics.validated_outputs.labels(agent="a").inc()
    for _ in range(72):
        metrics.safe_recoveries.labels(agent="a", intervention="retry").inc()
    assert metrics.recovery_rate == 0.72
    assert metrics.validation_rejection_rate == 0.01


def test_of_nothing_there_is_no_rate() -> None:
    metrics = AgentMetrics()
    assert (metrics.recovery_rate, metrics.validation_rejection_rate) == (None, None)


def test_it_can_be_made_twice_and_neither_counts_for_the_other() -> None:
    first, second = AgentMetrics(), AgentMetrics()
    first.loop_detected.labels("a").inc()
    assert "agent_loops_total{" not in second.exposition()


def test_it_registers_where_it_is_told_to() -> None:
    registry = CollectorRegistry()
    AgentMetrics(registry).loop_detected.labels("a").inc()
    assert registry.get_sample_value("agent_loops_total", {"agent": "a"}) == 1


def test_counters_go_up_while_a_run_goes_on_and_distributions_when_it_ends() -> None:
    metrics = AgentMetrics()
    observe = metrics.observer("a")
    for event in [START, *called("unknown_action")]:
        observe(event)
    name = "agent_steps_per_run_count"
    assert metrics.validation_rejection_rate == 1
    assert metrics.registry.get_sample_value(name, {"agent": "a"}) is None
    observe(Handoff(rationale="x"))
    assert metrics.registry.get_sample_value(name, {"agent": "a"}) == 1
    assert metrics.recovery_rate == 1


def test_an_observer_counts_each_execution_of_its_run_anew() -> None:
    again = START.model_copy(update={"reply": "go on"})
    told = samples(of_runs([[*RUN, again, *called(), DONE]], agent="a"))
    assert told["agent_steps_per_run_count", (("agent", "a"),)] == 2
    assert told["agent_steps_per_run_sum", (("agent", "a"),)] == 4
    assert told["agent_loops_total", (("agent", "a"),)] == 1


def test_an_observer_needs_no_first_event_to_tell_executions_apart() -> None:
    told = samples(of_runs([[*called(), DONE, *called(), DONE]], agent="a"))
    assert told["agent_steps_per_run_bucket", (("agent", "a"), ("le", "1.0"))] == 2


@pytest.mark.parametrize("end", [PartialRunSummary(missing="x"), None])
def test_what_did_not_end_safely_is_no_recovery(end: AgentEvent | None) -> None:
    retried = failed(FailureKind.tool_error, "retry")
    metrics = of_runs([[START, *called(), retried, *([end] if end else [])]])
    assert metrics.recovery_rate == 0


def test_two_runs_at_the_same_time_do_not_mix() -> None:
    metrics = AgentMetrics()
    one, other = metrics.observer("a"), metrics.observer("b")
    one(START)
    other(START)
    for event in called() + called():
        one(event)
    other(DONE)
    one(DONE)
    told = samples(metrics)
    assert told["agent_steps_per_run_sum", (("agent", "a"),)] == 2
    assert told["agent_steps_per_run_sum", (("agent", "b"),)] == 0


def test_the_command_line_gives_the_text_of_a_journal_s_turns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = SqliteJournal(journal_path(tmp_path))
    for run_id in ("r1", "r2"):
        journal.begin_turn(run_id, notebook="a.ipynb", cell_key=run_id, request="q", model="m")
        for event in (START, *called("unknown_action"), *called(), DONE):
            journal.append(run_id, event)
    journal.close()
    assert main(["metrics", "--prometheus", "--folder", str(tmp_path)]) == 0
    told = {
        sample.name: sample.value
        for family in text_string_to_metric_families(capsys.readouterr().out)
        for sample in family.samples
    }
    assert told["agent_steps_per_run_sum"] == 4
    assert told["agent_validated_outputs_total"] == 4
    assert told["agent_validation_failures_total"] == 2
    with pytest.raises(SystemExit):
        main(["metrics", "--prometheus", "--json"])
