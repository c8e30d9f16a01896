"""Every combination of error, effect and checkpoint, against a table that is written the other way
round: by the way on, not by the error."""

import itertools

import pytest

from parsimony_kernel.core.kinds import Effect
from parsimony_kernel.patterns.recovery_path import recovery_path

STATUSES = [str(status) for status in range(400, 600)]
WORDS = ["timeout", "worker_restarted", "schema", "auth", "poisoned_context", "Timeout", "", " 429"]
ERRORS = [*STATUSES, *WORDS]
EFFECTS = ["none", "uncertain", "committed", "unknown"]
COMBINATIONS = set(itertools.product(ERRORS, EFFECTS, (False, True)))


def taking(way: str) -> set[tuple[str, str, bool]]:
    return {each for each in COMBINATIONS if recovery_path(*each) == way}


def test_the_four_ways_are_all_there_are() -> None:
    ways = {recovery_path(*each) for each in COMBINATIONS}
    assert ways == {
        "reconcile before replay",
        "resume checkpoint",
        "retry with backoff",
        "stop or escalate",
    }


def test_exactly_the_uncertain_ones_are_reconciled() -> None:
    assert taking("reconcile before replay") == {
        (error, "uncertain", valid) for error in ERRORS for valid in (False, True)
    }


def test_exactly_a_restarted_worker_with_a_valid_checkpoint_resumes() -> None:
    assert taking("resume checkpoint") == {
        ("worker_restarted", effect, True) for effect in EFFECTS if effect != "uncertain"
    }


def test_exactly_four_errors_without_an_effect_are_retried() -> None:
    assert taking("retry with backoff") == {
        (error, "none", valid)
        for error in ("429", "502", "503", "timeout")
        for valid in (False, True)
    }


@pytest.mark.parametrize("effect", list(Effect))
@pytest.mark.parametrize("valid", [False, True])
def test_an_effect_of_a_failure_means_what_its_name_means(effect: Effect, valid: bool) -> None:
    for error in ERRORS:
        assert recovery_path(error, effect, valid) == recovery_path(error, str(effect), valid)
