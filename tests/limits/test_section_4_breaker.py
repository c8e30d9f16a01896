"""What a breaker counts in, what its names share, and what the defaults mean."""

from datetime import datetime, timedelta

import pytest

from parsimony_kernel.limits.breaker import Breakers, CircuitBreaker, CircuitOpenError
from parsimony_kernel.limits.breaker_store import OwnStore
from parsimony_kernel.testing.clock import ManualClock


class Jumping(ManualClock):
    """A clock whose wall time somebody sets, while its seconds go on."""

    set_by = timedelta()

    def now(self) -> datetime:
        return super().now() + self.set_by


def failed(breaker: CircuitBreaker, times: int = 5) -> None:
    for _ in range(times):
        breaker.admit().failed()


def state_of(breaker: CircuitBreaker) -> str:
    return breaker.state


def wait_of(breaker: CircuitBreaker) -> float:
    with pytest.raises(CircuitOpenError) as refused:
        breaker.admit()
    return refused.value.retry_in_s


@pytest.mark.parametrize("jump", [timedelta(days=365), timedelta(days=-365)])
def test_in_one_process_a_wall_clock_that_is_set_changes_no_wait(jump: timedelta) -> None:
    clock = Jumping()
    breaker = CircuitBreaker(clock=clock)
    failed(breaker)
    clock.set_by = jump
    assert wait_of(breaker) == 60
    clock.advance(59)
    assert wait_of(breaker) == 1
    clock.advance(1)
    breaker.admit().succeeded()
    assert state_of(breaker) == "closed"


def test_a_probe_that_is_never_heard_of_again_holds_its_place_for_five_minutes() -> None:
    clock = ManualClock()
    breaker = CircuitBreaker(clock=clock)
    failed(breaker)
    clock.advance(60)
    dead = breaker.admit()
    clock.advance(299)
    assert wait_of(breaker) == 1
    clock.advance(1)
    alive = breaker.admit()
    dead.succeeded()
    assert state_of(breaker) == "half_open"
    alive.succeeded()
    assert state_of(breaker) == "closed"


def test_how_long_a_silent_probe_holds_its_place_is_the_caller_s_to_say() -> None:
    clock = ManualClock()
    breaker = CircuitBreaker(clock=clock, probe_lease_s=10)
    failed(breaker)
    clock.advance(60)
    breaker.admit()
    clock.advance(10)
    breaker.admit()


def test_breakers_over_one_store_are_one_breaker_by_name() -> None:
    clock = ManualClock()
    store = OwnStore(clock)
    here, there = Breakers(clock, store), Breakers(clock, store)
    failed(here.of("m"), 3)
    failed(there.of("m"), 2)
    assert (here.of("m").state, there.of("m").state, there.of("other").state) == (
        "open",
        "open",
        "closed",
    )
    assert Breakers(clock).of("m").state == "closed"
