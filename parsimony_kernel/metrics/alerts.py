"""Alert rules on the figures of runs.

The thresholds are starting values: pass rules of your own to ``fired`` once you know what is usual.
"""

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from parsimony_kernel.metrics import figures as measures
from parsimony_kernel.metrics.figures import Figures


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


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
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


def to_text(alerts: Sequence[Alert]) -> str:
    """Render alerts as text, one line each."""
    return "\n".join(
        f"{alert.name}: {alert.value:.3g} (threshold {alert.threshold:g}). {alert.meaning}"
        for alert in alerts
    )


def report(figures: Figures) -> str:
    """Render figures as text, with the alerts that fire for them."""
    return "\n\n".join(filter(None, (measures.to_text(figures), to_text(fired(figures)))))
