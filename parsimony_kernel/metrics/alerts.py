"""When figures call for a person.

The thresholds are values to start from, not constants of nature: give ``fired`` your own rules
once you know what is usual.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from parsimony_kernel.metrics.figures import Figures


@dataclass(frozen=True)
class Rule:
    """Fires when what is measured is strictly more than ``threshold``.

    ``meaning`` is one sentence on what to look at.
    """

    name: str
    measured: Callable[[Figures], float | None]
    threshold: float
    meaning: str


@dataclass(frozen=True)
class Alert:
    """A rule that fired, with the value that made it."""

    name: str
    value: float
    threshold: float
    meaning: str


RULES: tuple[Rule, ...] = (
    Rule(
        "loop rate",
        lambda figures: figures.loop_rate,
        0.05,
        "The agent goes in circles: the request or the tools are ambiguous, so mend the prompt or "
        "the tools.",
    ),
    Rule(
        "fallback rate",
        lambda figures: figures.fallback_rate,
        0.10,
        "Other models had to take over: look at the records for which model failed, and how.",
    ),
    Rule(
        "p99 steps",
        lambda figures: figures.p99_steps,
        15,
        "Some requests take too many tool calls: give them smaller questions or better tools.",
    ),
    Rule(
        "token budget",
        lambda figures: figures.p99_budget_share,
        0.80,
        "Some requests are about to reach their token budget: share less of the notebook, or "
        "raise the budget.",
    ),
    Rule(
        "validation rejection rate",
        lambda figures: figures.rejection_rate,
        0.02,
        "Too many actions are refused: look at the refusals in the history for the rule that is "
        "broken.",
    ),
    Rule(
        "breaker open",
        lambda figures: len(figures.open_breakers),
        0,
        "A service failed several times in a row and was left alone: find out whether it is down.",
    ),
)


def fired(
    figures: Figures, rules: Sequence[Rule] = RULES, *, recovery_baseline: float | None = None
) -> tuple[Alert, ...]:
    """The alerts that ``figures`` call for, in the order of the rules.

    With ``recovery_baseline``, a recovery rate below it is one more. What cannot be measured does
    not fire.
    """
    alerts = [
        Alert(rule.name, value, rule.threshold, rule.meaning)
        for rule in rules
        if (value := rule.measured(figures)) is not None and value > rule.threshold
    ]
    rate = figures.recovery_rate
    if recovery_baseline is not None and rate is not None and rate < recovery_baseline:
        alerts.append(
            Alert(
                "recovery rate",
                rate,
                recovery_baseline,
                "Fewer failures than usual end in an answer or with a person: look at how those "
                "runs ended.",
            )
        )
    return tuple(alerts)


def to_text(alerts: Sequence[Alert]) -> str:
    """One line an alert, and a line that says so when there is none."""
    lines = [
        f"{alert.name}: {alert.value:.3g} (threshold {alert.threshold:g}). {alert.meaning}"
        for alert in alerts
    ]
    return "\n".join(lines) or "No alerts."
