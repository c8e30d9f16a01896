"""Agent metrics for Prometheus (document 003).

Each ``AgentMetrics`` has its own registry by default, so that a process can have several. No port
is opened: ``exposition`` returns the text.
"""

from collections.abc import Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from parsimony_kernel.core.events import AgentEvent
from parsimony_kernel.metrics.figures import FALLBACK_MODEL, Execution, executions, ratio

STEP_BUCKETS = (1, 3, 5, 8, 10, 15, 20, 30)
# Up to ten times the default token budget, with its 80 % as a bound.
TOKEN_BUCKETS = (
    *(1_000, 2_500, 5_000, 10_000, 25_000, 50_000),
    *(80_000, 100_000, 250_000, 500_000, 1_000_000),
)


class AgentMetrics:
    """Counters and histograms of agent runs, updated by ``count`` or directly with their labels.

    Args:
        registry: where they are registered; a new registry by default.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()

        def counter(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(f"agent_{name}_total", meaning, labels, registry=self.registry)

        def histogram(name: str, meaning: str, label: str, buckets: Sequence[float]) -> Histogram:
            return Histogram(
                f"agent_{name}_per_run", meaning, [label], buckets=buckets, registry=self.registry
            )

        steps, tokens = "Tool calls per execution.", "Tokens of an execution, answers too."
        of_kind = "agent", "intervention"
        self.step_count = histogram("steps", steps, "agent", STEP_BUCKETS)
        self.token_usage = histogram("tokens", tokens, "model", TOKEN_BUCKETS)
        self.loop_detected = counter("loops", "Loops detected.", "agent")
        self.fallback_triggered = counter("fallbacks", "Fallbacks.", "strategy")
        self.interventions_triggered = counter("interventions", "Responses to failures.", *of_kind)
        self.safe_recoveries = counter(
            "safe_recoveries", "Responses in executions that ended safely.", *of_kind
        )
        self.validation_failures = counter(
            "validation_failures", "Actions the gate refused.", "agent", "reason"
        )
        self.validated_outputs = counter("validated_outputs", "Actions the gate judged.", "agent")

    def count(self, execution: Execution, *, agent: str = "agent") -> None:
        """Count an execution; the histograms include it only if it has ended."""
        self.loop_detected.labels(agent).inc(execution.loops)
        self.validated_outputs.labels(agent).inc(execution.validated)
        if fallbacks := execution.interventions[FALLBACK_MODEL]:
            self.fallback_triggered.labels(FALLBACK_MODEL).inc(fallbacks)
        for intervention, times in execution.interventions.items():
            self.interventions_triggered.labels(agent, intervention).inc(times)
            if execution.is_safe:
                self.safe_recoveries.labels(agent, intervention).inc(times)
        for reason, times in execution.rejections.items():
            self.validation_failures.labels(agent, reason).inc(times)
        if execution.outcome is not None:
            self.step_count.labels(agent).observe(execution.steps)
            for model, tokens in execution.tokens.items():
                self.token_usage.labels(model).observe(tokens)

    @property
    def recovery_rate(self) -> float | None:
        """The share of interventions whose execution ended safely; ``None`` without any."""
        return ratio(_total(self.safe_recoveries), _total(self.interventions_triggered))

    @property
    def validation_rejection_rate(self) -> float | None:
        """The share of judged actions that were refused; ``None`` if none was judged."""
        return ratio(_total(self.validation_failures), _total(self.validated_outputs))

    def exposition(self) -> str:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry).decode("utf-8")


def _total(counter: Counter) -> float:
    """Sum a counter over all labels."""
    samples = [sample for metric in counter.collect() for sample in metric.samples]
    return sum(sample.value for sample in samples if sample.name.endswith("_total"))


def of_runs(runs: Iterable[Iterable[AgentEvent]], *, agent: str = "agent") -> AgentMetrics:
    """Compute the metrics of runs, each given as its events."""
    metrics = AgentMetrics()
    for run in runs:
        for execution in executions(run):
            metrics.count(execution, agent=agent)
    return metrics
