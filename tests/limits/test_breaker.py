"""A breaker leaves a failing service alone, and finds out with one probe whether it is back."""

import pytest

from parsimony_kernel.limits.breaker import (
    Breakers,
    CircuitBreaker,
    CircuitOpenError,
    counts_as_failure,
)
from parsimony_kernel.testing.manual_clock import ManualClock


def broken(clock: ManualClock, failures: int = 5) -> CircuitBreaker:
    breaker = CircuitBreaker(clock=clock)
    for _ in range(failures):
        breaker.admit().report("failed")
    return breaker


def state_of(breaker: CircuitBreaker) -> str:
    return breaker.state


def test_open_breaker_tells_next_probe_time() -> None:
    clock = ManualClock()
    breaker = broken(clock)
    clock.advance(45)
    with pytest.raises(CircuitOpenError, match="15 s") as refused:
        breaker.admit()
    assert refused.value.retry_in_s == 15


def test_permit_is_settled_once() -> None:
    breaker = CircuitBreaker(2, clock=ManualClock())
    permit = breaker.admit()
    permit.report("failed")
    permit.report("failed")
    permit.report("succeeded")
    assert (state_of(breaker), breaker.failure_count) == ("closed", 1)


def test_each_name_has_its_own_breaker() -> None:
    breakers = Breakers(ManualClock())
    for _ in range(5):
        breakers.of("a").admit().report("failed")
    assert (state_of(breakers.of("a")), state_of(breakers.of("b"))) == ("open", "closed")


def test_probe_holds_slot_for_requested_lease() -> None:
    clock = ManualClock()
    breakers = Breakers(clock)
    for _ in range(5):
        breakers.of("a").admit().report("failed")
    clock.advance(60)
    breakers.of("a", probe_lease_s=660).admit()
    clock.advance(659)
    with pytest.raises(CircuitOpenError):
        breakers.of("a", probe_lease_s=660).admit()
    clock.advance(1)
    breakers.of("a", probe_lease_s=660).admit()


class ServiceError(Exception):
    """A service's answer with a status."""

    def __init__(self, status_code: int) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code


def wrapped(inner: Exception) -> Exception:
    """An error whose cause chain goes round in a circle."""
    outer = RuntimeError("wrapped")
    outer.__cause__, inner.__cause__ = inner, outer
    return outer


@pytest.mark.parametrize(
    ("exc", "counts"),
    [
        *((ServiceError(status), True) for status in (408, 429, 500, 502, 503, 504)),
        (wrapped(ServiceError(401)), False),
        (RuntimeError("no status at all"), True),
        (ImportError("No module named 'client'"), False),
    ],
)
def test_failure_of_the_service_counts_and_other_faults_do_not(
    exc: Exception, counts: bool
) -> None:
    assert counts_as_failure(exc) is counts
