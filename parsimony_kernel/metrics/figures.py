"""Figures of runs, computed from their events, and the alerts that they fire.

This module alone defines what each figure counts. The unit is an execution: from a person's request
or answer to a terminal event or the next ``RunStarted``. A run that asks a question and continues
after the answer is two executions.

The alerts' thresholds are starting values: pass rules of your own to ``fired`` once you know what
is usual.
"""

import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from parsimony_kernel.core import events as ev
from parsimony_kernel.core.kinds import GUIDANCE, Failure, FailureKind

Outcome = Literal["completed", "asked", "handed_off", "stopped", "cancelled"]

# The only fallback strategy of a run: switching to another model.
FALLBACK_MODEL = "fallback_model"


@dataclass
class Execution:
    """The counts of one execution so far.

    Attributes:
        steps: started tool calls.
        tokens: prompt and answer tokens together, by model.
        token_budget: the token limit, ``None`` without one.
        loops: the number of detected loops.
        interventions: responses to failures: ``refusal``, ``retry``, ``narrow_scope``,
            ``fallback_model``, ``ask_user``, ``handoff`` or ``stop``.
        validated: actions judged by the gate.
        rejections: actions refused by the gate, by the refusal's wire name.
        open_breakers: models skipped because their breaker was open.
        outcome: ``None`` before a terminal event.
        is_answer: whether it began with a person's answer.
    """

    steps: int = 0
    tokens: Counter[str] = field(default_factory=Counter)
    token_budget: int | None = None
    loops: int = 0
    interventions: Counter[str] = field(default_factory=Counter)
    validated: int = 0
    rejections: Counter[str] = field(default_factory=Counter)
    open_breakers: set[str] = field(default_factory=set)
    outcome: Outcome | None = None
    is_answer: bool = False

    @property
    def is_safe(self) -> bool:
        """Whether it ended in a safe answer or a clean handoff to a person."""
        return self.outcome in ("completed", "asked", "handed_off")

    @property
    def budget_share(self) -> float | None:
        """The share of the token limit that this execution has used; ``None`` without a limit."""
        return ratio(self.tokens.total(), self.token_budget or 0)

    def add(self, event: ev.AgentEvent) -> None:
        """Count the next event of this execution."""
        match event:
            case ev.RunStarted():
                self.token_budget, self.is_answer = event.max_tokens, event.reply is not None
            case ev.ToolEvent(completed=False):
                self.steps += 1
            case ev.ToolEvent():
                self._add_result(event)
            case ev.LLMCallCompleted():
                self.tokens[event.model] += event.prompt_tokens + event.completion_tokens
            case ev.AgentError():
                self._fail(event.failure, FALLBACK_MODEL if event.fallback else event.action)
            case ev.RunCompleted():
                self.outcome = "completed"
            case ev.UserInputRequested():
                self.outcome = "asked"
                kind = event.originating_failure_kind
                self.loops += kind is FailureKind.loop_detected
                # Without a failure or a guard, it is the model's own question.
                if kind is not None or event.suspension_record.originating_guard:
                    self.interventions["ask_user"] += 1
            case ev.Handoff():
                self.outcome = "handed_off"
                self._fail(event.failure, "handoff" if event.failure else None)
            case ev.PartialRunSummary():
                self.outcome = "stopped"
                # An answer after which nothing ran: the person chose to end the run.
                if not self.is_answer or self.steps or self.tokens:
                    self.interventions["stop"] += 1
            case ev.RunCancelled():
                self.outcome = "cancelled"

    def _add_result(self, event: ev.ToolEvent) -> None:
        result = event.result or {}
        if result.get("stopped") or "waiting" in result:
            return
        self.validated += 1
        failure = event.failure
        self.loops += failure is not None and failure.kind is FailureKind.loop_detected
        error = str(result.get("error"))
        if error in GUIDANCE:
            self.rejections[error] += 1
            self.interventions["refusal"] += 1

    def _fail(self, failure: Failure | None, response: str | None) -> None:
        if response:
            self.interventions[response] += 1
        if failure is not None:
            self.loops += failure.kind is FailureKind.loop_detected
            if failure.metadata.get("breaker") == "open":
                self.open_breakers.add(str(failure.metadata.get("model", "")))


def executions(events: Iterable[ev.AgentEvent]) -> tuple[Execution, ...]:
    """Split the events of one run into executions, in order; undo and forget events are skipped."""
    found: list[Execution] = []
    for event in events:
        if isinstance(event, ev.TurnTakenBack | ev.TurnForgotten):
            continue
        if not found or found[-1].outcome is not None or isinstance(event, ev.RunStarted):
            found.append(Execution())
        found[-1].add(event)
    return tuple(found)


@dataclass(frozen=True)
class Figures:
    """Totals over executions. Rates are between 0 and 1, or ``None`` without any cases.

    Attributes:
        loop_rate, fallback_rate: the share of executions with a loop or a fallback.
        recovery_rate: the share of executions with an intervention that ended safely.
        rejection_rate: the share of judged actions that the gate refused.
        p99_steps, p99_tokens, p99_budget_share: the 99th percentile over executions.
    """

    executions: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    steps: int = 0
    tokens: Mapping[str, int] = field(default_factory=dict)
    looped: int = 0
    fell_back: int = 0
    intervened: int = 0
    recovered: int = 0
    interventions: Mapping[str, int] = field(default_factory=dict)
    validated: int = 0
    rejections: Mapping[str, int] = field(default_factory=dict)
    open_breakers: tuple[str, ...] = ()
    p99_steps: int | None = None
    p99_tokens: int | None = None
    p99_budget_share: float | None = None

    @property
    def loop_rate(self) -> float | None:
        return ratio(self.looped, self.executions)

    @property
    def fallback_rate(self) -> float | None:
        return ratio(self.fell_back, self.executions)

    @property
    def breakers_open(self) -> int:
        return len(self.open_breakers)

    @property
    def recovery_rate(self) -> float | None:
        return ratio(self.recovered, self.intervened)

    @property
    def rejection_rate(self) -> float | None:
        return ratio(sum(self.rejections.values()), self.validated)


def ratio(part: float, whole: float) -> float | None:
    """Return ``part / whole``, or ``None`` if ``whole`` is 0."""
    return part / whole if whole else None


def of_runs(runs: Iterable[Iterable[ev.AgentEvent]]) -> Figures:
    """The figures of runs, each given as its events; unfinished executions count too."""
    each = [one for run in runs for one in executions(run)]
    intervened = [one for one in each if one.interventions]
    return Figures(
        executions=len(each),
        outcomes=_sum(Counter([one.outcome or "open"]) for one in each),
        steps=sum(one.steps for one in each),
        tokens=_sum(one.tokens for one in each),
        looped=sum(one.loops > 0 for one in each),
        fell_back=sum(one.interventions[FALLBACK_MODEL] > 0 for one in each),
        intervened=len(intervened),
        recovered=sum(one.is_safe for one in intervened),
        interventions=_sum(one.interventions for one in each),
        validated=sum(one.validated for one in each),
        rejections=_sum(one.rejections for one in each),
        open_breakers=tuple(sorted({name for one in each for name in one.open_breakers})),
        p99_steps=_p99([one.steps for one in each]),
        p99_tokens=_p99([one.tokens.total() for one in each]),
        p99_budget_share=_p99([s for one in each if (s := one.budget_share) is not None]),
    )


def _sum(counts: Iterable[Counter[str]]) -> dict[str, int]:
    return dict(sorted(sum(counts, Counter[str]()).items()))


def _p99(values: Sequence[Any]) -> Any:
    """Return the 99th percentile by nearest rank, or ``None`` without values."""
    return sorted(values)[-(-len(values) * 99 // 100) - 1] if values else None


def to_json(figures: Figures) -> dict[str, Any]:
    """Return the figures, including the rates, as JSON-compatible data."""
    rates = ("loop_rate", "fallback_rate", "recovery_rate", "rejection_rate")
    return asdict(figures) | {name: getattr(figures, name) for name in rates}


def to_text(figures: Figures) -> str:
    """Render the figures as a text table, one per line."""
    rows = {
        "Executions": _parts(figures.outcomes),
        "Steps": f"{figures.steps:,} (p99 {_shown(figures.p99_steps)})",
        "Tokens": _parts(figures.tokens),
        "p99 tokens": _shown(figures.p99_tokens),
        "p99 share of the token budget": _shown(figures.p99_budget_share, ".1%"),
        "Loop rate": _rate(figures.looped, figures.executions),
        "Fallback rate": _rate(figures.fell_back, figures.executions),
        "Interventions": _parts(figures.interventions),
        "Recovery rate": _rate(figures.recovered, figures.intervened),
        "Rejection rate": _rate(sum(figures.rejections.values()), figures.validated),
        "Rejections": _parts(figures.rejections),
        "Open breakers": ", ".join(figures.open_breakers) or "none",
    }
    width = max(map(len, rows))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows.items())


def _parts(parts: Mapping[str, int]) -> str:
    inside = ", ".join(f"{name} {count:,}" for name, count in parts.items())
    total = f"{sum(parts.values()):,}"
    return f"{total} ({inside})" if inside else total


def _rate(part: int, whole: int) -> str:
    return f"{part / whole:.1%} ({part:,} of {whole:,})" if whole else "–"


def _shown(value: float | None, form: str = ",") -> str:
    return "–" if value is None else format(value, form)


@dataclass(frozen=True)
class Alert:
    """A rule that fires when a figure exceeds a threshold, or an alert that has fired.

    Attributes:
        name: the name of the rule.
        measured: the attribute of ``Figures`` to compare.
        threshold: the value that must be exceeded.
        meaning: one sentence on what to look at.
        value: the measured value of a fired alert; NaN in a rule.
    """

    name: str
    measured: str
    threshold: float
    meaning: str
    value: float = math.nan


_TABLE = tomllib.loads(Path(__file__).with_name("alerts.toml").read_text(encoding="utf-8"))
RULES = tuple(Alert(name, **row) for name, row in _TABLE.items())


def fired(
    figures: Figures, rules: Sequence[Alert] = RULES, *, recovery_baseline: float | None = None
) -> tuple[Alert, ...]:
    """Return the alerts that fire for ``figures``, in the order of the rules.

    With ``recovery_baseline``, a recovery rate below it fires too. Figures that are ``None`` don't
    fire.
    """
    measured = [replace(rule, value=getattr(figures, rule.measured)) for rule in rules]
    alerts = [each for each in measured if (each.value or 0) > each.threshold]
    rate = figures.recovery_rate
    if recovery_baseline is not None and rate is not None and rate < recovery_baseline:
        meaning = "Fewer failures than usual end in an answer or with a person: see how runs ended."
        alerts.append(Alert("recovery rate", "recovery_rate", recovery_baseline, meaning, rate))
    return tuple(alerts)


def alerts_to_text(alerts: Sequence[Alert]) -> str:
    """Render alerts as text, one line each."""
    return "\n".join(
        f"{alert.name}: {alert.value:.3g} (threshold {alert.threshold:g}). {alert.meaning}"
        for alert in alerts
    )


def report(figures: Figures) -> str:
    """Render figures as text, with the alerts that fire for them."""
    return "\n\n".join(filter(None, (to_text(figures), alerts_to_text(fired(figures)))))
