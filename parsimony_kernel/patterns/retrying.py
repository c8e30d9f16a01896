"""Trying a call again, for loops of one's own; in a run this is the funnel's.

For calls without an effect only. What is tried again is weather: limits of the rate, timeouts,
short outages. A request that is wrong, a key, a missing package stay what they are.
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
# Who asks for more is not waited for: a caller that can wait so long knows better what to do.
MAX_RETRY_AFTER_S = 120.0
TIMEOUT_S = 30

T = TypeVar("T")


class RetryableModelError(Exception):
    """A fault that may be gone a moment later."""


class RateLimitExceeded(RetryableModelError):
    """Too many requests, or tokens, in too short a time."""


class UpstreamTimeout(RetryableModelError):
    """No answer in time."""


class UpstreamUnavailable(RetryableModelError):
    """Down, restarting, overloaded or unreachable."""


# By the row of the table of errors; any other weather means that the service is down.
_FAULTS: dict[str, type[RetryableModelError]] = {
    "rate_limit": RateLimitExceeded,
    "no_answer": UpstreamTimeout,
    "deadline": UpstreamTimeout,
}


def normalize_provider_error(exc: Exception) -> Exception:
    """The retryable fault that ``exc`` is, or ``exc`` itself.

    Statuses, classes and causes come first; the text is read only where they say nothing.
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

    Between two attempts it waits 1 to 30 s, at random and longer each time, and never less than
    the provider asked for with ``Retry-After``. ``wait`` replaces the random part.

    Raises what the last attempt raised, as it was. A fault that is not retryable, or whose
    ``Retry-After`` is more than two minutes, is raised at once.
    """
    retrying = tenacity.AsyncRetrying(
        sleep=clock.sleep,
        stop=tenacity.stop_after_attempt(attempts),
        # A multiplier of 1 would make the first wait exactly the minimum, for everybody at once.
        wait=_AsAsked(
            wait or tenacity.wait_random_exponential(multiplier=2, min=MIN_WAIT_S, max=MAX_WAIT_S)
        ),
        retry=tenacity.retry_if_exception(lambda exc: is_retryable(exc) and not _is_long(exc)),
        before_sleep=_tell,
        reraise=True,
    )

    async def attempt() -> T:  # tenacity awaits only what is written as a coroutine function
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


class _AsAsked(wait_base):
    """The provider's ``Retry-After`` and, on top, what the random wait has above its minimum, so
    that those who were told the same do not come back at the same moment."""

    def __init__(self, random: wait_base) -> None:
        self._random = random

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        seconds = self._random(retry_state)
        exc = _exception(retry_state)
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
