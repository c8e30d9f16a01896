"""The metrics of agents for Prometheus.

Each ``AgentMetrics`` has a registry of its own, so that any number of them live in one process;
no port is opened, the text is given on request.
"""

from collections import Counter as Tally
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from parsimony_kernel.core.events import AgentEvent, LLMCallCompleted, RunStarted, is_terminal
from parsimony_kernel.metrics.figures import Execution, after, ratio

STEP_BUCKETS = (1, 3, 5, 8, 10, 15, 20, 30)
# Up to ten times the default token budget, with its 80 % as a bound.
TOKEN_BUCKETS = (
    *(1_000, 2_500, 5_000, 10_000, 25_000, 50_000),
    *(80_000, 100_000, 250_000, 500_000, 1_000_000),
)

Observer = Callable[[AgentEvent], None]


class AgentMetrics:
    """Counters and histograms of agent runs.

    Every metric may be used by hand, with its labels; ``observer`` does it from events.
    ``registry`` is where they are registered, a new one unless given.
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.step_count = Histogram(
            "agent_steps_per_run",
            "Tool calls of one execution.",
            ["agent"],
            buckets=STEP_BUCKETS,
            registry=self.registry,
        )
        self.loop_detected = self._counter("agent_loops_total", "Repetitions found.", "agent")
        self.fallback_triggered = self._counter(
            "agent_fallbacks_total", "Times that something lesser took over.", "strategy"
        )
        self.interventions_triggered = self._counter(
            "agent_interventions_total", "Answers to a failure.", "agent", "intervention"
        )
        self.safe_recoveries = self._counter(
            "agent_safe_recoveries_total",
            "Answers to a failure whose execution ended safely.",
            "agent",
            "intervention",
        )
        self.validation_failures = self._counter(
            "agent_validation_failures_total", "What the gate refused.", "agent", "reason"
        )
        self.validated_outputs = self._counter(
            "agent_validated_outputs_total", "What the gate judged.", "agent"
        )
        self.cached_tokens = self._counter(
            "agent_cached_tokens_total",
            "Prompt tokens read from a cache, or written.",
            "model",
            "how",
        )
        self.token_usage = Histogram(
            "agent_tokens_per_run",
            "Tokens of one execution, prompt and answer together.",
            ["model"],
            buckets=TOKEN_BUCKETS,
            registry=self.registry,
        )

    def _counter(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(name, meaning, labels, registry=self.registry)

    def observer(self, agent: str = "agent") -> Observer:
        """What to call with each event of one run. Runs at the same time need one each."""
        execution = Execution()

        def observe(event: AgentEvent) -> None:
            nonlocal execution
            before = execution
            execution = after(execution, event)
            if isinstance(event, LLMCallCompleted):
                read, written = event.cached_tokens, event.cache_write_tokens
                for how, tokens in (("read", read), ("written", written)):
                    if tokens:
                        self.cached_tokens.labels(event.model, how).inc(tokens)
            if not isinstance(event, RunStarted):
                self._count(agent, before, execution)
            if is_terminal(event):
                self._conclude(agent, execution)
                execution = Execution()

        return observe

    def _count(self, agent: str, before: Execution, now: Execution) -> None:
        """Count what is new. An execution only grows, so the new ones stand at the end."""
        self.loop_detected.labels(agent).inc(now.loops - before.loops)
        self.validated_outputs.labels(agent).inc(now.validated - before.validated)
        for strategy in now.fallbacks[len(before.fallbacks) :]:
            self.fallback_triggered.labels(strategy).inc()
        for intervention in now.interventions[len(before.interventions) :]:
            self.interventions_triggered.labels(agent, intervention).inc()
        for reason in now.rejections[len(before.rejections) :]:
            self.validation_failures.labels(agent, reason).inc()

    def _conclude(self, agent: str, execution: Execution) -> None:
        self.step_count.labels(agent).observe(execution.steps)
        for model, tokens in execution.tokens.items():
            self.token_usage.labels(model).observe(tokens)
        if execution.is_safe:
            for intervention, times in Tally(execution.interventions).items():
                self.safe_recoveries.labels(agent, intervention).inc(times)

    @property
    def recovery_rate(self) -> float | None:
        """The share of interventions that ended safely; ``None`` when there was none."""
        return ratio(total(self.safe_recoveries), total(self.interventions_triggered))

    @property
    def validation_rejection_rate(self) -> float | None:
        """The share of what was judged that was refused; ``None`` when nothing was judged."""
        return ratio(total(self.validation_failures), total(self.validated_outputs))

    def exposition(self) -> str:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry).decode("utf-8")


def total(counter: Counter) -> float:
    """The sum over all labels."""
    return sum(
        sample.value
        for metric in counter.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
    )


def of_runs(runs: Iterable[Iterable[AgentEvent]], *, agent: str = "agent") -> AgentMetrics:
    """The metrics of runs that are over, each given as its events."""
    metrics = AgentMetrics()
    for run in runs:
        observe = metrics.observer(agent)
        for event in run:
            observe(event)
    return metrics
