"""A breaker leaves a failing service alone, and finds out with one probe whether it is back."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.limits.breaker import Breakers, CircuitBreaker, CircuitOpenError, Permit
from parsimony_kernel.testing.clock import ManualClock


def broken(clock: ManualClock, failures: int = 5) -> CircuitBreaker:
    breaker = CircuitBreaker(clock=clock)
    for _ in range(failures):
        breaker.admit().failed()
    return breaker


def state_of(breaker: CircuitBreaker) -> str:
    return breaker.state


def test_failures_in_a_row_open_it_and_a_success_in_between_starts_the_count_anew() -> None:
    breaker = broken(ManualClock(), 4)
    breaker.admit().succeeded()
    for _ in range(4):
        breaker.admit().failed()
    assert (state_of(breaker), breaker.failure_count) == ("closed", 4)
    breaker.admit().failed()
    assert state_of(breaker) == "open"


def test_an_open_breaker_says_when_a_probe_is_let_through() -> None:
    clock = ManualClock()
    breaker = broken(clock)
    clock.advance(45)
    with pytest.raises(CircuitOpenError, match="15 s") as refused:
        breaker.admit()
    assert refused.value.retry_in_s == 15


def test_exactly_one_probe_is_out_at_a_time() -> None:
    clock = ManualClock()
    breaker = broken(clock)
    clock.advance(60)
    assert state_of(breaker) == "half_open"
    probe = breaker.admit()
    with pytest.raises(CircuitOpenError):
        breaker.admit()
    probe.succeeded()
    assert state_of(breaker) == "closed"
    breaker.admit()


def test_a_probe_that_fails_opens_it_for_the_whole_time_again() -> None:
    clock = ManualClock()
    breaker = broken(clock)
    clock.advance(60)
    breaker.admit().failed()
    clock.advance(59)
    assert state_of(breaker) == "open"
    clock.advance(1)
    assert state_of(breaker) == "half_open"


def test_a_probe_that_was_cancelled_frees_its_place() -> None:
    clock = ManualClock()
    breaker = broken(clock)
    clock.advance(60)
    breaker.admit().released()
    breaker.admit().succeeded()
    assert state_of(breaker) == "closed"


@pytest.mark.parametrize("say", [Permit.succeeded, Permit.failed, Permit.released])
def test_a_late_word_of_an_older_call_changes_nothing(say: Callable[[Permit], None]) -> None:
    clock = ManualClock()
    breaker = CircuitBreaker(clock=clock)
    late = breaker.admit()
    for _ in range(5):
        breaker.admit().failed()
    say(late)
    assert state_of(breaker) == "open"
    clock.advance(60)
    breaker.admit()
    say(late)
    with pytest.raises(CircuitOpenError):
        breaker.admit()


def test_only_the_first_word_of_a_permit_counts() -> None:
    breaker = CircuitBreaker(2, clock=ManualClock())
    permit = breaker.admit()
    permit.failed()
    permit.failed()
    permit.succeeded()
    assert (state_of(breaker), breaker.failure_count) == ("closed", 1)


@pytest.mark.parametrize(("threshold", "seconds"), [(0, 60), (-1, 60), (5, 0), (5, float("nan"))])
def test_limits_that_make_no_sense_are_refused(threshold: int, seconds: float) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        CircuitBreaker(threshold, seconds)


def test_each_name_has_one_breaker_of_its_own() -> None:
    breakers = Breakers(ManualClock())
    for _ in range(5):
        breakers.of("a").admit().failed()
    assert (state_of(breakers.of("a")), state_of(breakers.of("b"))) == ("open", "closed")


steps = st.lists(st.sampled_from(["succeeded", "failed", "released", "admit", "wait"]), max_size=40)


@given(steps)
def test_it_is_never_open_for_longer_than_its_time(words: list[str]) -> None:
    clock = ManualClock()
    breaker = CircuitBreaker(2, 10, clock=clock)
    out: list[Permit] = []
    waits: list[float] = []
    for word in words:
        if word == "wait":
            clock.advance(4)
        elif word == "admit":
            try:
                out.append(breaker.admit())
            except CircuitOpenError as refused:
                waits.append(refused.retry_in_s)
        elif out:
            getattr(out.pop(0), word)()
    assert all(0 < wait <= 10 for wait in waits)
    for permit in out:
        permit.released()
    clock.advance(10)
    breaker.admit().succeeded()
    assert state_of(breaker) == "closed"
