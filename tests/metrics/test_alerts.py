"""Figures beyond a threshold call for a person, and figures on it do not."""

import dataclasses
from typing import Any

import pytest

from parsimony_kernel.metrics.alerts import RULES, Rule, fired, to_text
from parsimony_kernel.metrics.figures import Figures

CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("loop rate", {"executions": 100, "looped": 5}, {"executions": 100, "looped": 6}),
    ("fallback rate", {"executions": 100, "fell_back": 10}, {"executions": 100, "fell_back": 11}),
    ("p99 steps", {"p99_steps": 15}, {"p99_steps": 16}),
    ("token budget", {"p99_budget_share": 0.8}, {"p99_budget_share": 0.81}),
    (
        "validation rejection rate",
        {"validated": 100, "rejections": {"unknown_action": 1, "validation_failed": 1}},
        {"validated": 100, "rejections": {"unknown_action": 1, "validation_failed": 2}},
    ),
    ("breaker open", {"open_breakers": ()}, {"open_breakers": ("m",)}),
]


@pytest.mark.parametrize(("name", "on_it", "beyond"), CASES)
def test_an_alert_fires_strictly_beyond_its_threshold(
    name: str, on_it: dict[str, Any], beyond: dict[str, Any]
) -> None:
    assert fired(Figures(**on_it)) == ()
    (alert,) = fired(Figures(**beyond))
    assert alert.name == name
    assert alert.value > alert.threshold


def test_the_thresholds_are_those_of_the_table() -> None:
    assert {rule.name: rule.threshold for rule in RULES} == {
        "loop rate": 0.05,
        "fallback rate": 0.10,
        "p99 steps": 15,
        "token budget": 0.80,
        "validation rejection rate": 0.02,
        "breaker open": 0,
    }
    assert [case[0] for case in CASES] == [rule.name for rule in RULES]


def test_each_alert_says_in_one_sentence_what_to_look_at() -> None:
    assert all(rule.meaning.endswith(".") and ". " not in rule.meaning for rule in RULES)


def test_what_cannot_be_measured_does_not_fire() -> None:
    assert fired(Figures(), recovery_baseline=0.9) == ()


def test_a_recovery_rate_below_the_baseline_fires_and_one_on_it_does_not() -> None:
    figures = Figures(intervened=100, recovered=72)
    assert fired(figures, recovery_baseline=0.72) == ()
    (alert,) = fired(figures, recovery_baseline=0.73)
    assert (alert.name, alert.value) == ("recovery rate", 0.72)
    assert fired(figures) == ()


def test_the_rules_can_be_one_s_own() -> None:
    strict = Rule("steps", lambda figures: figures.steps, 0, "Too many steps.")
    assert [alert.name for alert in fired(Figures(steps=1), [strict])] == ["steps"]


def test_rules_are_values() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        RULES[0].threshold = 1  # type: ignore[misc]


def test_alerts_are_told_one_a_line() -> None:
    alerts = fired(Figures(executions=8, looped=1, open_breakers=("m",)))
    lines = to_text(alerts).splitlines()
    assert [line.partition(". ")[0] for line in lines] == [
        "loop rate: 0.125 (threshold 0.05)",
        "breaker open: 1 (threshold 0)",
    ]
    assert to_text(()) == "No alerts."
