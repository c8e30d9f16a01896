"""When figures call for a person.

The thresholds are values to start from, not constants of nature: give ``fired`` your own rules
once you know what is usual.
"""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

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


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
RULES: tuple[Rule, ...] = tuple(
    Rule(name, attrgetter(row["measured"]), row["threshold"], row["meaning"])
    for name, row in _TABLE.items()
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
