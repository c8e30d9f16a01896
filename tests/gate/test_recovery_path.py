"""Every combination of error, effect and checkpoint has one way on."""

import itertools

import pytest

from parsimony_kernel.core.kinds import Effect
from parsimony_kernel.patterns.recovery_path import recovery_path

RECONCILE = "reconcile before replay"
RESUME = "resume checkpoint"
RETRY = "retry with backoff"
STOP = "stop or escalate"

# By error: the ways for (effect none, checkpoint invalid and valid), then for a committed effect.
TABLE: dict[str, tuple[str, str, str, str]] = {
    "429": (RETRY, RETRY, STOP, STOP),
    "502": (RETRY, RETRY, STOP, STOP),
    "503": (RETRY, RETRY, STOP, STOP),
    "timeout": (RETRY, RETRY, STOP, STOP),
    "worker_restarted": (STOP, RESUME, STOP, RESUME),
    "400": (STOP, STOP, STOP, STOP),
    "401": (STOP, STOP, STOP, STOP),
    "404": (STOP, STOP, STOP, STOP),
    "schema": (STOP, STOP, STOP, STOP),
    "": (STOP, STOP, STOP, STOP),
}
CASES = [
    (error, effect, valid, TABLE[error][2 * (effect == "committed") + valid])
    for error, effect, valid in itertools.product(TABLE, ("none", "committed"), (False, True))
]


def test_the_lookup_is_retried_and_the_refund_reconciled() -> None:
    assert recovery_path("timeout", "none", False) == "retry with backoff"
    assert recovery_path("timeout", "uncertain", True) == "reconcile before replay"


@pytest.mark.parametrize(("error", "effect", "valid", "way"), CASES)
def test_each_combination_has_its_way(error: str, effect: str, valid: bool, way: str) -> None:
    assert recovery_path(error, effect, valid) == way
    assert recovery_path(error, Effect(effect), valid) == way


@pytest.mark.parametrize(("error", "valid"), list(itertools.product(TABLE, (False, True))))
def test_an_uncertain_effect_is_reconciled_whatever_the_error(error: str, valid: bool) -> None:
    assert recovery_path(error, "uncertain", valid) == RECONCILE
    assert recovery_path(error, Effect.uncertain, valid) == RECONCILE


@pytest.mark.parametrize("error", sorted(set(TABLE) - {"worker_restarted"}))
def test_an_effect_that_nobody_knows_is_never_taken_for_none(error: str) -> None:
    assert recovery_path(error, "maybe", True) == STOP
