"""A breaker leaves a failing service alone, and finds out with one probe whether it is back."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.limits.breaker import (
    Breakers,
    CircuitBreaker,
    CircuitOpenError,
    Permit,
    counts_as_failure,
)
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


def test_a_probe_holds_its_place_for_the_lease_that_is_asked_for() -> None:
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


async def test_a_call_gives_what_the_function_gives() -> None:
    breaker = CircuitBreaker(clock=ManualClock())
    assert await breaker.call(answer, "ab", times=2) == "abab"
    assert breaker.state == CircuitBreaker.CLOSED


async def test_the_names_of_the_states_and_limits_are_those_of_the_document() -> None:
    breaker = CircuitBreaker()
    assert (breaker.CLOSED, breaker.OPEN, breaker.HALF_OPEN) == ("closed", "open", "half_open")
    assert (breaker.failure_threshold, breaker.reset_timeout) == (5, 60.0)


async def test_five_failing_calls_open_it_and_the_sixth_is_not_made() -> None:
    clock = ManualClock()
    breaker = CircuitBreaker(clock=clock)
    await failing(breaker, 5)
    assert (state_of(breaker), breaker.failure_count) == ("open", 5)
    made: list[str] = []

    async def note() -> None:
        made.append("made")

    with pytest.raises(CircuitOpenError):
        await breaker.call(note)
    assert made == []
    clock.advance(60)
    await breaker.call(note)
    assert (made, state_of(breaker), breaker.failure_count) == (["made"], "closed", 0)


async def test_what_a_call_raises_passes_on_as_it_was() -> None:
    breaker = CircuitBreaker(clock=ManualClock())
    raised = ServiceError(503)
    with pytest.raises(ServiceError) as seen:
        await breaker.call(fail, raised)
    assert seen.value is raised


async def test_while_a_probe_is_out_no_other_call_is_made() -> None:
    clock = ManualClock()
    breaker = CircuitBreaker(clock=clock)
    await failing(breaker, 5)
    clock.advance(60)
    probed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    started = asyncio.Event()

    async def slow() -> str:
        started.set()
        return await probed

    probe = asyncio.ensure_future(breaker.call(slow))
    await started.wait()
    for _ in range(3):
        with pytest.raises(CircuitOpenError):
            await breaker.call(answer, "x")
    probed.set_result("back")
    assert await probe == "back"
    assert await breaker.call(answer, "x") == "x"


async def test_a_probe_call_that_is_cancelled_frees_its_place() -> None:
    clock = ManualClock()
    breaker = CircuitBreaker(clock=clock)
    await failing(breaker, 5)
    clock.advance(60)
    started = asyncio.Event()

    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    probe = asyncio.ensure_future(breaker.call(hang))
    await started.wait()
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    assert state_of(breaker) == "half_open"
    await breaker.call(answer, "x")
    assert state_of(breaker) == "closed"


@pytest.mark.parametrize("fails", [False, True])
async def test_a_late_end_of_an_older_call_changes_nothing(fails: bool) -> None:
    clock = ManualClock()
    breaker = CircuitBreaker(clock=clock)
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    started = asyncio.Event()

    async def slow() -> None:
        started.set()
        await ended

    late = asyncio.ensure_future(breaker.call(slow))
    await started.wait()
    await failing(breaker, 5)
    clock.advance(30)
    ended.set_exception(RuntimeError("late")) if fails else ended.set_result(None)
    await asyncio.wait({late})
    assert (late.exception() is not None) == fails
    assert state_of(breaker) == "open"
    clock.advance(30)
    assert state_of(breaker) == "half_open"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_a_request_that_was_wrong_does_not_count(status: int) -> None:
    clock = ManualClock()
    breaker = CircuitBreaker(clock=clock)
    await failing(breaker, 10, ServiceError(status))
    assert (state_of(breaker), breaker.failure_count) == ("closed", 0)
    await failing(breaker, 5)
    clock.advance(60)
    await failing(breaker, 1, ServiceError(status))
    await breaker.call(answer, "the probe's place is free")
    assert state_of(breaker) == "closed"


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
async def test_the_service_s_own_trouble_counts(status: int) -> None:
    breaker = CircuitBreaker(clock=ManualClock())
    await failing(breaker, 5, ServiceError(status))
    assert state_of(breaker) == "open"


def test_a_status_is_found_along_the_causes() -> None:
    outer = RuntimeError("wrapped")
    outer.__cause__ = ServiceError(401)
    assert not counts_as_failure(outer)
    outer.__cause__.__cause__ = outer
    assert not counts_as_failure(outer)
    assert counts_as_failure(RuntimeError("no status at all"))
    assert not counts_as_failure(ImportError("No module named 'client'"))


async def test_which_exceptions_count_is_the_caller_s_to_say() -> None:
    breaker = CircuitBreaker(
        2, clock=ManualClock(), counts=lambda exc: isinstance(exc, ConnectionError)
    )
    await failing(breaker, 5, RuntimeError("not this"))
    assert state_of(breaker) == "closed"
    await failing(breaker, 2, ConnectionError("this"))
    assert state_of(breaker) == "open"
