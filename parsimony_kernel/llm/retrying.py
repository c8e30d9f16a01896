"""Trying a call again, for loops of one's own; in a run this is the funnel's.

For calls without an effect only. What is tried again is weather: limits of the rate, timeouts,
short outages. A request that is wrong, a key, a missing package stay what they are.
"""

import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import tenacity
from tenacity.wait import wait_base

from parsimony_kernel.agent.failure.kinds import FailureKind
from parsimony_kernel.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.llm.faults import TABLE, translate
from parsimony_kernel.llm.redaction import scrub

_log = logging.getLogger(__name__)

ATTEMPTS = 3
MIN_WAIT_S = 1.0
MAX_WAIT_S = 30.0
# Who asks for more is not waited for: a caller that can wait so long knows better what to do.
MAX_RETRY_AFTER_S = 120.0
TIMEOUT_S = 30

# Whatever their text says, the next attempt would raise them again.
_MISTAKES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    NotImplementedError,
    SyntaxError,
    TypeError,
)

T = TypeVar("T")


class RetryableModelError(Exception):
    """A fault that may be gone a moment later."""


class RateLimitExceeded(RetryableModelError):
    """Too many requests, or tokens, in too short a time."""


class UpstreamTimeout(RetryableModelError):
    """No answer in time."""


class UpstreamUnavailable(RetryableModelError):
    """Down, restarting, overloaded or unreachable."""


def normalize_provider_error(exc: Exception) -> Exception:
    """The retryable fault that ``exc`` is, or ``exc`` itself.

    Statuses, classes and causes come first; the text is read only where they say nothing.
    """
    if isinstance(exc, RetryableModelError):
        return exc
    failure = translate(exc)
    text = str(exc)
    if failure.kind is FailureKind.transient_provider:
        names = " ".join(each.__name__ for each in type(exc).__mro__)
        fault = _fault_of_status(failure.metadata.get("status_code")) or _fault_in(names)
        return (fault or UpstreamUnavailable)(text)
    if failure.metadata.get("remedy") != TABLE[-1].remedy or isinstance(exc, _MISTAKES):
        return exc
    named = _fault_in(text)
    return exc if named is None else named(text)


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
        asked = _retry_after(retry_state)
        return seconds if asked is None else max(seconds, asked + seconds - MIN_WAIT_S)


def _tell(retry_state: tenacity.RetryCallState) -> None:
    exc = _exception(retry_state)
    _log.warning("attempt %d failed: %s", retry_state.attempt_number, scrub(str(exc)))


def _exception(retry_state: tenacity.RetryCallState) -> BaseException | None:
    return None if retry_state.outcome is None else retry_state.outcome.exception()


def _retry_after(retry_state: tenacity.RetryCallState) -> float | None:
    exc = _exception(retry_state)
    return None if exc is None else _asked_by(exc)


def _is_long(exc: BaseException) -> bool:
    return (_asked_by(exc) or 0.0) > MAX_RETRY_AFTER_S


def _asked_by(exc: BaseException) -> float | None:
    seconds: Any = translate(exc).metadata.get("retry_after_s")
    return float(seconds) if isinstance(seconds, int | float) else None


_Fault = type[RetryableModelError]

_BY_STATUS: dict[int, _Fault] = {
    408: UpstreamTimeout,
    429: RateLimitExceeded,
    500: UpstreamUnavailable,
    502: UpstreamUnavailable,
    503: UpstreamUnavailable,
    504: UpstreamTimeout,
}

_STATUS_WORD = r"(?:http(?:[/ ]\d(?:\.\d)?)?|status(?: code)?|error(?: code)?|code|returned|got)"
_STATUS = re.compile(rf"(?i)\b{_STATUS_WORD}\W{{0,3}}([45]\d\d)\b|^\W*([45]\d\d)\W*$")
_SAID_STATUS = re.compile(r"(?i)^\W*([45]\d\d)\W+(?=[a-z])")

# Words that mean one thing only, then words that are also said of a request that is wrong.
_CLEAR: tuple[tuple[re.Pattern[str], _Fault], ...] = (
    (re.compile(r"(?i)too many requests|rate[ _-]?limit"), RateLimitExceeded),
    (re.compile(r"(?i)gateway time-?out|\btimed[ -]out\b|time-?out"), UpstreamTimeout),
    (
        re.compile(
            r"(?i)bad gateway|service (?:is )?(?:temporarily )?unavailable|temporarily unavailable"
            r"|internal server error|\boverloaded\b|connection (?:was )?(?:reset|aborted|refused)"
        ),
        UpstreamUnavailable,
    ),
)
_WRONG = re.compile(
    r"(?i)\b(?:in)?valid\b|\bunauthori[sz]ed\b|\bforbidden\b|\bbad request\b|\bmust (?:be|not)\b"
    r"|\bnot found\b|\bunexpected keyword\b|\bunknown\b|\bmissing\b|\bincorrect\b|\bno such\b"
)
# Numbers that hardly anything else is called by; 500 may be a count of anything.
_BARE = re.compile(r"(?<![\w.,$#-])(429|502|503|504)(?![\w%-]|[.,]\d)")
_COUNTED = re.compile(r"(?i)\b(?:order|row|line|id|number|no\.?|port|page|item|record)\W{0,3}\d{3}")


def _fault_of_status(status: object) -> _Fault | None:
    if not isinstance(status, int):
        return None
    return _BY_STATUS.get(status, UpstreamUnavailable if status >= 500 else None)


def _fault_in(text: str) -> _Fault | None:
    stated = _STATUS.search(text)
    if stated is not None:
        return _fault_of_status(int(stated[1] or stated[2]))
    opening = _SAID_STATUS.match(text)
    if opening is not None and opening[1].startswith("4") and int(opening[1]) not in _BY_STATUS:
        return None
    if _WRONG.search(text) and opening is None:
        return None
    for pattern, fault in _CLEAR:
        if pattern.search(text):
            return fault
    bare = _BARE.search(text)
    if bare is None or _COUNTED.search(text) or _WRONG.search(text):
        return None
    return _BY_STATUS[int(bare[1])]
