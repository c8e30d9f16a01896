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
        breaker.admit().failed()
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
    permit.failed()
    permit.failed()
    permit.succeeded()
    assert (state_of(breaker), breaker.failure_count) == ("closed", 1)


def test_each_name_has_its_own_breaker() -> None:
    breakers = Breakers(ManualClock())
    for _ in range(5):
        breakers.of("a").admit().failed()
    assert (state_of(breakers.of("a")), state_of(breakers.of("b"))) == ("open", "closed")


def test_probe_holds_slot_for_requested_lease() -> None:
    clock = ManualClock()
    breakers = Breakers(clock)
    for _ in range(5):
        breakers.of("a").admit().failed()
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


async def answer(word: str, *, times: int = 1) -> str:
    return word * times


async def fail(exc: Exception | None = None) -> None:
    raise exc or RuntimeError("down")


async def failing(breaker: CircuitBreaker, times: int, exc: Exception | None = None) -> None:
    for _ in range(times):
        with pytest.raises(type(exc or RuntimeError())):
            await breaker.call(fail, exc)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
async def test_service_errors_count(status: int) -> None:
    breaker = CircuitBreaker(clock=ManualClock())
    await failing(breaker, 5, ServiceError(status))
    assert state_of(breaker) == "open"


def test_status_is_found_in_cause_chain() -> None:
    outer = RuntimeError("wrapped")
    outer.__cause__ = ServiceError(401)
    assert not counts_as_failure(outer)
    outer.__cause__.__cause__ = outer
    assert not counts_as_failure(outer)
    assert counts_as_failure(RuntimeError("no status at all"))
    assert not counts_as_failure(ImportError("No module named 'client'"))
