"""The metrics of document 003, counted from events and told in Prometheus' text format."""

from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from parsimony_kernel.cli.main import main
from parsimony_kernel.core import events as ev
from parsimony_kernel.core.kinds import FailureKind
from parsimony_kernel.metrics.prometheus import AgentMetrics, of_runs
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.storage.workspace import journal_path
from tests.metrics.test_run_figures import called, failed

START = ev.RunStarted(run_id="r", request="q", model="m")
DONE = ev.RunCompleted(summary="done")


def samples(metrics: AgentMetrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """What the text says, without the moments of creation."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.exposition())
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


RUN: list[ev.AgentEvent] = [
    START,
    ev.LLMCallCompleted(model="m", prompt_tokens=4_000, completion_tokens=500),
    *called(),
    *called("unknown_action"),
    failed(FailureKind.loop_detected, "narrow_scope"),
    failed(fallback="n"),
    ev.LLMCallCompleted(model="n", prompt_tokens=70, completion_tokens=7),
    *called(),
    DONE,
]


def test_run_uses_documented_names_and_labels() -> None:
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
    metrics = of_runs([RUN])
    assert (metrics.recovery_rate, metrics.validation_rejection_rate) == (1, 1 / 3)
    assert told["agent_tokens_per_run_sum", (("model", "m"),)] == 4_500
    assert told["agent_tokens_per_run_sum", (("model", "n"),)] == 77


def test_registry_may_be_given() -> None:
    registry = CollectorRegistry()
    AgentMetrics(registry).loop_detected.labels("a").inc()
    assert registry.get_sample_value("agent_loops_total", {"agent": "a"}) == 1


def test_each_execution_is_counted_and_open_one_has_no_length() -> None:
    again = START.model_copy(update={"reply": "go on"})
    told = samples(of_runs([[*RUN, again, *called(), DONE, *called()]], agent="a"))
    assert told["agent_steps_per_run_count", (("agent", "a"),)] == 2
    assert told["agent_steps_per_run_sum", (("agent", "a"),)] == 4
    assert told["agent_validated_outputs_total", (("agent", "a"),)] == 5
    assert told["agent_loops_total", (("agent", "a"),)] == 1


@pytest.mark.parametrize("end", [ev.PartialRunSummary(missing="x"), None])
def test_unsafe_end_is_no_recovery(end: ev.AgentEvent | None) -> None:
    retried = failed(FailureKind.tool_error, "retry")
    metrics = of_runs([[START, *called(), retried, *([end] if end else [])]])
    assert metrics.recovery_rate == 0


def test_command_prints_journal_metrics(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert main(["metrics", "--prometheus", "--json"]) == 2
