"""Retries of model calls, for custom agent loops; in a run the funnel retries.

Only for calls without side effects. Transient faults are retried: rate limits, timeouts, short
outages. A wrong request, a bad key or a missing package is not.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import tenacity
from tenacity.wait import wait_base

from parsimony_kernel.core.causes import PROVIDER_FAULT
from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.error_table import of_provider
from parsimony_kernel.core.redaction import scrub

_log = logging.getLogger(__name__)

ATTEMPTS = 3
MIN_WAIT_S = 1.0
MAX_WAIT_S = 30.0
# A longer ``Retry-After`` is raised at once: the caller can plan such a wait better.
MAX_RETRY_AFTER_S = 120.0
TIMEOUT_S = 30

T = TypeVar("T")


class RetryableModelError(Exception):
    """A transient fault."""


class RateLimitExceeded(RetryableModelError):
    """The rate limit of requests or tokens was exceeded."""


class UpstreamTimeout(RetryableModelError):
    """No answer in time."""


class UpstreamUnavailable(RetryableModelError):
    """The service is down, restarting, overloaded or unreachable."""


# Fault by row of the error table; any other transient fault is ``UpstreamUnavailable``.
_FAULTS: dict[str, type[RetryableModelError]] = {
    "rate_limit": RateLimitExceeded,
    "no_answer": UpstreamTimeout,
    "deadline": UpstreamTimeout,
}


def normalize_provider_error(exc: Exception) -> Exception:
    """Convert a provider's exception to a ``RetryableModelError``; return others unchanged.

    Status codes, exception classes and causes are checked first; the message only if they say
    nothing.
    """
    if isinstance(exc, RetryableModelError):
        return exc
    row, _ = of_provider(exc)
    if row is None or row.cause_of_provider is not PROVIDER_FAULT:
        return exc
    return _FAULTS.get(row.name, UpstreamUnavailable)(str(exc))


def is_retryable(exc: BaseException) -> bool:
    """Whether the same call may succeed a moment later."""
    return isinstance(exc, Exception) and isinstance(
        normalize_provider_error(exc), RetryableModelError
    )


async def with_retry(
    call: Callable[[], Awaitable[T]],
    *,
    attempts: int = ATTEMPTS,
    wait: wait_base | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> T:
    """Await ``call()`` until it succeeds, at most ``attempts`` times.

    Between attempts it backs off exponentially with jitter, 1 to 30 s, and at least for the
    provider's ``Retry-After``. ``wait`` replaces the random part.

    Raises the last attempt's exception unchanged. A fault that is not retryable, or whose
    ``Retry-After`` is more than two minutes, is raised at once.
    """
    # A multiplier of 1 would make the first wait exactly the minimum, for everybody at once.
    random = wait or tenacity.wait_random_exponential(multiplier=2, min=MIN_WAIT_S, max=MAX_WAIT_S)
    retrying = tenacity.AsyncRetrying(
        sleep=clock.sleep,
        stop=tenacity.stop_after_attempt(attempts),
        wait=lambda retry_state: _wait_s(random, retry_state),
        retry=tenacity.retry_if_exception(lambda exc: is_retryable(exc) and not _is_long(exc)),
        before_sleep=_tell,
        reraise=True,
    )

    async def attempt() -> T:  # tenacity awaits only coroutine functions
        return await call()

    return await retrying(attempt)


async def call_llm_with_retry(
    messages: Sequence[dict[str, str]],
    model: str = "primary-model",
    *,
    call_model_api: Callable[..., Awaitable[T]],
    clock: Clock = SYSTEM_CLOCK,
) -> T:
    """Ask ``model`` through ``call_model_api(messages=, model=, timeout_seconds=)``, retrying."""
    return await with_retry(
        lambda: call_model_api(messages=messages, model=model, timeout_seconds=TIMEOUT_S),
        clock=clock,
    )


def _wait_s(random: wait_base, retry_state: tenacity.RetryCallState) -> float:
    """Return the provider's ``Retry-After`` plus the random wait's excess over its minimum.

    The jitter keeps clients with the same ``Retry-After`` from coming back at the same moment.
    """
    seconds, exc = random(retry_state), _exception(retry_state)
    asked = None if exc is None else _asked_by(exc)
    return seconds if asked is None else max(seconds, asked + seconds - MIN_WAIT_S)


def _tell(retry_state: tenacity.RetryCallState) -> None:
    exc = _exception(retry_state)
    _log.warning("attempt %d failed: %s", retry_state.attempt_number, scrub(str(exc)))


def _exception(retry_state: tenacity.RetryCallState) -> BaseException | None:
    return None if retry_state.outcome is None else retry_state.outcome.exception()


def _is_long(exc: BaseException) -> bool:
    return (_asked_by(exc) or 0.0) > MAX_RETRY_AFTER_S


def _asked_by(exc: BaseException) -> float | None:
    return of_provider(exc)[1].retry_after_s
