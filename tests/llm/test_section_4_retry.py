"""The library's retry: which faults, how often, and how long it waits in between."""

import pytest

from parsimony_kernel.patterns.retrying import call_llm_with_retry, with_retry
from parsimony_kernel.testing.clock import ManualClock


class ServiceError(Exception):
    def __init__(self, status_code: int) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code


class Down:
    """A service that raises ``fault`` for ever, the very same object each time."""

    def __init__(self, fault: Exception) -> None:
        self.fault = fault
        self.calls = 0

    async def __call__(self, **_: object) -> str:
        self.calls += 1
        raise self.fault


TRANSIENT = [
    *(ServiceError(status) for status in (429, 500, 502, 503, 504)),
    TimeoutError("no answer"),
    ConnectionResetError("reset by peer"),
    # What its words alone say.
    Exception("429 Too Many Requests"),
    Exception("502"),
    Exception("the request timed out"),
    Exception("the service is temporarily unavailable"),
]
FINAL = [
    *(ServiceError(status) for status in (400, 401, 403, 404, 409, 422)),
    ValueError("the schema is wrong"),
    ImportError("No module named 'client'"),
]


@pytest.mark.parametrize("fault", TRANSIENT, ids=repr)
async def test_weather_is_tried_three_times_and_then_raised_as_it_was(fault: Exception) -> None:
    clock, service = ManualClock(), Down(fault)
    with pytest.raises(type(fault)) as raised:
        await call_llm_with_retry([], call_model_api=service, clock=clock)
    assert raised.value is fault
    assert (service.calls, len(clock.slept)) == (3, 2)


@pytest.mark.parametrize("fault", FINAL, ids=repr)
async def test_everything_else_is_tried_once(fault: Exception) -> None:
    clock, service = ManualClock(), Down(fault)
    with pytest.raises(type(fault)) as raised:
        await call_llm_with_retry([], call_model_api=service, clock=clock)
    assert raised.value is fault
    assert (service.calls, clock.slept) == (1, [])


async def test_each_wait_is_drawn_from_one_second_to_twice_the_last_bound_and_at_most_thirty() -> (
    None
):
    runs: list[list[float]] = []
    for _ in range(200):
        clock = ManualClock()
        with pytest.raises(ServiceError):
            await with_retry(Down(ServiceError(503)), attempts=8, clock=clock)
        runs.append(clock.slept)
    bounds = (2, 4, 8, 16, 30, 30, 30)
    for waits, bound in zip(zip(*runs, strict=True), bounds, strict=True):
        assert all(1 <= wait <= bound for wait in waits)
        assert len(set(waits)) > 20
        assert max(waits) > 0.8 * bound
