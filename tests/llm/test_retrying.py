"""Weather is waited out, within limits; everything else is raised at once and as it was."""

import asyncio
from typing import Any

import pytest

from parsimony_kernel.patterns.retrying import (
    MAX_RETRY_AFTER_S,
    RateLimitExceeded,
    RetryableModelError,
    UpstreamTimeout,
    UpstreamUnavailable,
    call_llm_with_retry,
    is_retryable,
    normalize_provider_error,
    with_retry,
)
from parsimony_kernel.testing.manual_clock import ManualClock


class Response:
    def __init__(self, status_code: int, headers: dict[str, str] | None = None) -> None:
        self.status_code = status_code
        self.headers = headers or {}


class ServiceError(Exception):
    def __init__(self, status: int, text: str = "", **headers: str) -> None:
        super().__init__(text or f"status {status}")
        self.response = Response(status, {k.replace("_", "-"): v for k, v in headers.items()})


def caused(outer: Exception, cause: Exception) -> Exception:
    outer.__cause__ = cause
    return outer


class Service:
    """Fails with what it is given, then answers."""

    def __init__(self, *faults: BaseException) -> None:
        self._faults = list(faults)
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self._faults:
            raise self._faults.pop(0)
        return "answer"


RETRYABLE: list[tuple[Exception, type[RetryableModelError]]] = [
    (ServiceError(429), RateLimitExceeded),
    (ServiceError(500), UpstreamUnavailable),
    (ServiceError(502), UpstreamUnavailable),
    (ServiceError(503), UpstreamUnavailable),
    (ServiceError(504), UpstreamTimeout),
    (TimeoutError(), UpstreamTimeout),
    (ConnectionResetError("reset by peer"), UpstreamUnavailable),
    (caused(RuntimeError("wrapped"), ServiceError(503)), UpstreamUnavailable),
    (type("RateLimitError", (Exception,), {})("slow down"), RateLimitExceeded),
    # By their text alone.
    (Exception("429 Too Many Requests"), RateLimitExceeded),
    (Exception("429"), RateLimitExceeded),
    (Exception("Rate limit reached for requests"), RateLimitExceeded),
    (Exception("error code: 429"), RateLimitExceeded),
    (Exception("502"), UpstreamUnavailable),
    (Exception("502 Bad Gateway"), UpstreamUnavailable),
    (Exception("HTTP Error 503: Service Unavailable"), UpstreamUnavailable),
    (Exception("upstream answered with 503"), UpstreamUnavailable),
    (Exception("500 Internal Server Error"), UpstreamUnavailable),
    (Exception("the service is temporarily unavailable"), UpstreamUnavailable),
    (Exception("the model is overloaded"), UpstreamUnavailable),
    (Exception("the read operation timed out"), UpstreamTimeout),
    (Exception("Request timeout"), UpstreamTimeout),
    (Exception("504 Gateway Timeout"), UpstreamTimeout),
    (ValueError("bad response: 429 Too Many Requests"), RateLimitExceeded),
]

FINAL: list[Exception] = [
    *(ServiceError(status) for status in (400, 401, 403, 404, 422)),
    ServiceError(400, "timeout must be positive"),
    ServiceError(401, "rate limit tier of this key is unknown"),
    caused(ConnectionError("client failed"), ImportError("No module named 'x'")),
    Exception("400 Bad Request: timeout must be positive"),
    Exception("status 401: the rate limit of this key"),
    Exception("404"),
    Exception("invalid value for 'timeout'"),
    Exception("order 502 does not exist"),
    Exception("503 is not a valid id"),
    Exception("500 rows were expected"),
    Exception("it costs $502"),
    TypeError("f() got an unexpected keyword argument 'timeout'"),
    KeyError("timeout"),
    AttributeError("no attribute 'rate_limit'"),
    Exception("the schema is wrong"),
    Exception(""),
]


@pytest.mark.parametrize(("exc", "fault"), RETRYABLE, ids=lambda each: repr(each)[:60])
def test_transient_fault_is_recognized(exc: Exception, fault: type[RetryableModelError]) -> None:
    normal = normalize_provider_error(exc)
    assert type(normal) is fault
    assert str(normal) == str(exc)
    assert is_retryable(exc)


@pytest.mark.parametrize("exc", FINAL, ids=lambda each: repr(each)[:60])
def test_permanent_fault_is_unchanged(exc: Exception) -> None:
    assert normalize_provider_error(exc) is exc
    assert not is_retryable(exc)


def test_retryable_fault_is_unchanged() -> None:
    fault = UpstreamTimeout("mine")
    assert normalize_provider_error(fault) is fault


@pytest.mark.parametrize(
    ("fault", "calls"), [(ServiceError(503), 3), (ServiceError(409), 1), (ImportError("x"), 1)]
)
async def test_transient_fault_is_tried_three_times(fault: Exception, calls: int) -> None:
    clock, service = ManualClock(), Service(*[fault] * 3)
    with pytest.raises(type(fault)) as raised:
        await with_retry(service, clock=clock)
    assert raised.value is fault
    assert (service.calls, len(clock.slept)) == (calls, calls - 1)


async def test_waits_have_exponential_jitter_up_to_thirty_seconds() -> None:
    runs = [await waits_of(*[ServiceError(503)] * 7) for _ in range(200)]
    bounds = (2, 4, 8, 16, 30, 30, 30)
    for waits, bound in zip(zip(*runs, strict=True), bounds, strict=True):
        assert all(1 <= wait <= bound for wait in waits)
        assert len(set(waits)) > 20
        assert max(waits) > 0.8 * bound


async def waits_of(*faults: Exception) -> list[float]:
    clock = ManualClock()
    await with_retry(Service(*faults), attempts=len(faults) + 1, clock=clock)
    return clock.slept


async def test_retry_after_is_honoured_with_jitter() -> None:
    firsts = [(await waits_of(ServiceError(429, retry_after="17")))[0] for _ in range(10)]
    assert all(17 <= wait < 47 for wait in firsts)
    assert len(set(firsts)) > 1
    short = await waits_of(ServiceError(429, retry_after="0"))
    assert short[0] >= 1


async def test_retry_after_of_hours_is_not_waited_for() -> None:
    clock = ManualClock()
    fault = ServiceError(429, retry_after=str(MAX_RETRY_AFTER_S + 1))
    with pytest.raises(ServiceError) as raised:
        await with_retry(Service(fault), clock=clock)
    assert raised.value is fault
    assert clock.slept == []


async def test_stop_is_not_retried_and_ends_a_wait() -> None:
    stopped = Service(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await with_retry(stopped, clock=ManualClock())
    assert stopped.calls == 1
    clock, service = ManualClock(auto=False), Service(ServiceError(503))
    waiting = asyncio.ensure_future(with_retry(service, clock=clock))
    await clock.until_asleep()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert service.calls == 1


async def test_key_in_fault_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    await waits_of(ServiceError(503, "down for sk-abcdefghijklmnop"))
    assert "attempt 1 failed" in caplog.text
    assert "abcdefghijklmnop" not in caplog.text


async def test_model_is_called_with_messages_model_and_timeout() -> None:
    asked: list[dict[str, Any]] = []
    service = Service(ServiceError(503))

    async def call_model_api(**given: Any) -> str:
        asked.append(given)
        return await service()

    messages = [{"role": "user", "content": "hello"}]
    answer = await call_llm_with_retry(messages, call_model_api=call_model_api, clock=ManualClock())
    assert answer == "answer"
    assert asked == [{"messages": messages, "model": "primary-model", "timeout_seconds": 30}] * 2
