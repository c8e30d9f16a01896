"""Names, labels and buckets of the metrics, the rates from them, and the edge of each alert."""

from typing import Any

import prometheus_client
import pytest
from prometheus_client.parser import text_string_to_metric_families

from parsimony_kernel.core.events import (
    AgentError,
    AgentEvent,
    Handoff,
    LLMCallCompleted,
    PartialRunSummary,
    RunCancelled,
    RunCompleted,
    RunStarted,
    ToolEvent,
)
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.metrics import figures, prometheus
from parsimony_kernel.metrics.alerts import fired
from parsimony_kernel.metrics.prometheus import AgentMetrics

COUNTERS = {
    "loop_detected": ("agent_loops_total", ("agent",)),
    "fallback_triggered": ("agent_fallbacks_total", ("strategy",)),
    "interventions_triggered": ("agent_interventions_total", ("agent", "intervention")),
    "safe_recoveries": ("agent_safe_recoveries_total", ("agent", "intervention")),
    "validation_failures": ("agent_validation_failures_total", ("agent", "reason")),
    "validated_outputs": ("agent_validated_outputs_total", ("agent",)),
}
HISTOGRAMS = {
    "step_count": ("agent_steps_per_run", ("agent",)),
    "token_usage": ("agent_tokens_per_run", ("model",)),
}


def used(metrics: AgentMetrics) -> AgentMetrics:
    """The same, each metric counted once with its labels given by name."""
    for attribute, (_, labels) in COUNTERS.items():
        getattr(metrics, attribute).labels(**dict.fromkeys(labels, "x")).inc()
    for attribute, (_, labels) in HISTOGRAMS.items():
        getattr(metrics, attribute).labels(**dict.fromkeys(labels, "x")).observe(4)
    return metrics


def test_the_exposition_has_exactly_the_metrics_of_the_document_with_their_labels() -> None:
    families = list(text_string_to_metric_families(used(AgentMetrics()).exposition()))
    counted = {
        (sample.name, tuple(sorted(sample.labels)))
        for family in families
        if family.type == "counter"
        for sample in family.samples
    }
    assert counted == set(COUNTERS.values())
    observed = {
        (family.name, tuple(sorted(set(sample.labels) - {"le"})))
        for family in families
        if family.type == "histogram"
        for sample in family.samples
    }
    assert observed == set(HISTOGRAMS.values())


def test_none_of_them_is_in_the_registry_of_the_process_however_many_are_made() -> None:
    made = [used(AgentMetrics()) for _ in range(3)]
    for name, _ in (*COUNTERS.values(), *HISTOGRAMS.values()):
        assert name not in prometheus_client.generate_latest().decode()
    assert len({id(metrics.registry) for metrics in made}) == 3
    assert {
        metrics.registry.get_sample_value("agent_loops_total", {"agent": "x"}) for metrics in made
    } == {1.0}


def buckets(metrics: AgentMetrics, name: str) -> dict[float, float]:
    return {
        float(sample.labels["le"]): sample.value
        for family in text_string_to_metric_families(metrics.exposition())
        for sample in family.samples
        if sample.name == f"{name}_bucket"
    }


def test_steps_fall_into_the_buckets_of_the_document() -> None:
    metrics = AgentMetrics()
    for steps in range(32):
        metrics.step_count.labels("a").observe(steps)
    told = buckets(metrics, "agent_steps_per_run")
    assert list(told) == [1, 3, 5, 8, 10, 15, 20, 30, float("inf")]
    assert list(told.values()) == [2, 4, 6, 9, 11, 16, 21, 31, 32]


@pytest.mark.parametrize("tokens", [1_000, 9_999, 50_000, 80_000, 100_000, 400_000, 1_000_000])
def test_a_run_s_tokens_are_known_to_a_factor_of_two_and_a_half(tokens: int) -> None:
    metrics = AgentMetrics()
    metrics.token_usage.labels("m").observe(tokens)
    told = buckets(metrics, "agent_tokens_per_run")
    at_most = min(bound for bound, count in told.items() if count)
    below = max((bound for bound in told if bound < at_most), default=0)
    assert below < tokens <= at_most < float("inf")
    assert not below or at_most <= 2.5 * below


def test_four_fifths_of_the_usual_budget_is_a_bound_of_the_buckets() -> None:
    metrics = AgentMetrics()
    for tokens in (80_000, 80_001):
        metrics.token_usage.labels("m").observe(tokens)
    assert buckets(metrics, "agent_tokens_per_run")[80_000] == 1


# -- the rates


DONE = RunCompleted(summary="done")
STOPPED = PartialRunSummary(missing="x")


def started(**fields: Any) -> RunStarted:
    return RunStarted(run_id="r", request="q", model="m", **fields)


def called(error: str | None = None) -> list[AgentEvent]:
    begun = ToolEvent(tool_name="code", tool_call_id="c")
    result = {"error": error} if error else {}
    return [begun, begun.model_copy(update={"completed": True, "ok": not error, "result": result})]


def failed(kind: FailureKind, action: str = "retry", **more: Any) -> AgentError:
    failure = Failure(kind, "x", metadata=more.pop("metadata", {}))
    return AgentError(message="x", failure=failure, action=action, recoverable=True, **more)


def hundred(*unsafe: AgentEvent) -> list[list[AgentEvent]]:
    """A hundred runs in trouble, of which 60 are done, 12 handed over and 28 end ``unsafe``."""
    troubles: list[list[AgentEvent]] = [
        called("validation_failed"),
        [failed(FailureKind.loop_detected, "narrow_scope")],
        [failed(FailureKind.transient_provider)],
        [failed(FailureKind.transient_provider, fallback="other")],
    ]
    ends: list[AgentEvent] = [DONE] * 60 + [Handoff(rationale="x")] * 12
    runs = [[started(), *troubles[n % 4], end] for n, end in enumerate(ends)]
    return runs + [[started(), *troubles[n % 4], *unsafe] for n in range(28)]


@pytest.mark.parametrize("unsafe", [STOPPED, RunCancelled(), None], ids=str)
def test_of_the_document_s_hundred_traces_72_per_cent_recover(unsafe: AgentEvent | None) -> None:
    runs = hundred(*([unsafe] if unsafe else []))
    smooth = [[started(), DONE]] * 30
    assert figures.of_runs(runs + smooth).recovery_rate == 0.72


def test_where_each_trace_has_one_intervention_the_counters_say_so_too() -> None:
    assert prometheus.of_runs(hundred(RunCancelled())).recovery_rate == 0.72


def test_both_ways_of_counting_come_to_the_same_rejection_rate() -> None:
    runs = [[started(), *called() * 49, *called("unknown_action"), DONE]] * 2
    assert figures.of_runs(runs).rejection_rate == 0.02
    assert prometheus.of_runs(runs).validation_rejection_rate == 0.02


# -- the alerts, from events


def share(event: list[AgentEvent], part: int, whole: int) -> list[list[AgentEvent]]:
    """``whole`` runs, ``part`` of which have ``event`` in them."""
    return [[started(), *(event if n < part else []), DONE] for n in range(whole)]


LOOP: list[AgentEvent] = [failed(FailureKind.loop_detected, "narrow_scope")]
FELL: list[AgentEvent] = [failed(FailureKind.transient_provider, fallback="other")]
DOWN: list[AgentEvent] = [failed(FailureKind.transient_provider)]
OPEN: list[AgentEvent] = [
    failed(FailureKind.transient_provider, metadata={"breaker": "open", "model": "m"})
]


def judged(rejected: int, of: int) -> list[list[AgentEvent]]:
    calls = [*called("validation_failed") * rejected, *called() * (of - rejected)]
    # Ten calls a run, each of two events, so that the steps call for nobody.
    return [[started(), *calls[at : at + 20], DONE] for at in range(0, len(calls), 20)]


def stepping(*steps: int) -> list[list[AgentEvent]]:
    return [[started(), *called() * number, DONE] for number in steps]


def spending(tokens: int, *, budget: int = 1_000) -> list[list[AgentEvent]]:
    spent = LLMCallCompleted(model="m", prompt_tokens=tokens, completion_tokens=0)
    return [[started(max_tokens=budget), spent, DONE]]


QUIET: list[tuple[str, list[list[AgentEvent]]]] = [
    ("49 of 1000 loop", share(LOOP, 49, 1_000)),
    ("50 of 1000 loop", share(LOOP, 50, 1_000)),
    ("99 of 1000 fall back", share(FELL, 99, 1_000)),
    ("100 of 1000 fall back", share(FELL, 100, 1_000)),
    ("all take 14 steps", stepping(*[14] * 100)),
    ("all take 15 steps", stepping(*[15] * 100)),
    ("one of a hundred takes 16 steps", stepping(*[15] * 99, 16)),
    ("799 of 1000 tokens", spending(799)),
    ("800 of 1000 tokens", spending(800)),
    ("19 of 1000 actions refused", judged(19, 1_000)),
    ("20 of 1000 actions refused", judged(20, 1_000)),
    ("a failure of a provider whose breaker is closed", share(DOWN, 1, 1_000)),
]
LOUD: list[tuple[str, list[list[AgentEvent]], str]] = [
    ("51 of 1000 loop", share(LOOP, 51, 1_000), "loop rate"),
    ("101 of 1000 fall back", share(FELL, 101, 1_000), "fallback rate"),
    ("two of a hundred take 16 steps", stepping(*[15] * 98, 16, 16), "p99 steps"),
    ("801 of 1000 tokens", spending(801), "token budget"),
    ("21 of 1000 actions refused", judged(21, 1_000), "validation rejection rate"),
    ("one breaker met open", share(OPEN, 1, 1_000), "breaker open"),
]


def of(runs: list[list[AgentEvent]]) -> list[str]:
    return [alert.name for alert in fired(figures.of_runs(runs))]


@pytest.mark.parametrize("runs", [each[1] for each in QUIET], ids=[each[0] for each in QUIET])
def test_up_to_its_threshold_an_alert_is_silent(runs: list[list[AgentEvent]]) -> None:
    assert of(runs) == []


@pytest.mark.parametrize(
    ("runs", "name"), [each[1:] for each in LOUD], ids=[each[0] for each in LOUD]
)
def test_just_above_its_threshold_exactly_one_alert_fires(
    runs: list[list[AgentEvent]], name: str
) -> None:
    assert of(runs) == [name]
