"""What follows a failed call in a custom agent loop: the path, retries, and a fallback chain.

In a run the funnel retries. Retries are only for calls without side effects, and only for transient
faults: rate limits, timeouts, short outages. A wrong request, a bad key or a missing package is not
retried.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import tenacity
from tenacity.wait import wait_base

from parsimony_kernel.core.causes import PROVIDER_FAULT
from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.error_table import of_provider
from parsimony_kernel.core.redaction import scrub

_log = logging.getLogger(__name__)

_TRANSIENT = frozenset({"429", "502", "503", "timeout"})


def recovery_path(error: str, side_effect_status: str, checkpoint_valid: bool) -> str:
    """Choose one of four recovery paths.

    An uncertain effect takes precedence: however transient the error looks, the source of truth is
    checked before anything is repeated. Any unknown case stops or escalates.

    Args:
        error: a status code as text, ``timeout``, ``worker_restarted`` or any other word.
        side_effect_status: ``none``, ``uncertain`` or ``committed``, as in ``Effect``.
        checkpoint_valid: whether the last checkpoint still matches the real state.

    Returns:
        "reconcile before replay", "resume checkpoint", "retry with backoff" or "stop or escalate".
    """
    if side_effect_status == "uncertain":
        return "reconcile before replay"
    if checkpoint_valid and error == "worker_restarted":
        return "resume checkpoint"
    if side_effect_status == "none" and error in _TRANSIENT:
        return "retry with backoff"
    return "stop or escalate"


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
        retry=tenacity.retry_if_exception(_is_retryable),
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


def _is_retryable(exc: BaseException) -> bool:
    """Whether the same call may succeed a moment later."""
    fault = normalize_provider_error(exc) if isinstance(exc, Exception) else exc
    is_transient = isinstance(fault, RetryableModelError)
    return is_transient and (_asked_by(exc) or 0.0) <= MAX_RETRY_AFTER_S


def _asked_by(exc: BaseException) -> float | None:
    return of_provider(exc)[1].retry_after_s


Strategy = Callable[[str], Awaitable[str | None]]

_UNFOUNDED = frozenset({"direct_generation", "static_fallback"})


@dataclass(kw_only=True, eq=False, repr=False)
class FallbackChain:
    """Chain of ``primary_agent``, ``backup_agent``, ``direct_generation`` and ``static_fallback``.

    The first valid answer wins. A task that needs live data is never answered by a model alone or
    by a fixed text.

    Args:
        primary_agent: the first strategy; any strategy that is ``None`` is skipped.
        backup_agent: the second strategy.
        direct_generation: the model alone, without live data.
        classify: returns the kind of a task, which selects the fixed text.
    """

    FALLBACK_RESPONSES: ClassVar[Mapping[str, str]] = {
        "greeting": "Hello! Only a part of this service works at the moment.",
        "search": "The search does not work at the moment. Try again later.",
    }
    DEFAULT_RESPONSE: ClassVar[str] = (
        "No answer could be had: live data is unavailable right now, and every way to it failed. "
        "Try again later, or ask support."
    )

    primary_agent: Strategy | None = None
    backup_agent: Strategy | None = None
    direct_generation: Strategy | None = None
    classify: Callable[[str], str] = lambda _: "unknown"

    async def execute(self, task: str, requires_live_data: bool = False) -> str:
        """Return the first valid answer, or a text that says there is none and what to do.

        An answer is valid if it has any text. With ``requires_live_data``, the strategies without
        live data are skipped.
        """
        strategies = {
            "primary_agent": self.primary_agent,
            "backup_agent": self.backup_agent,
            "direct_generation": self.direct_generation,
            "static_fallback": self._static_fallback,
        }
        for name, strategy in strategies.items():
            if strategy is None or (requires_live_data and name in _UNFOUNDED):
                continue
            try:
                text = await strategy(task)
            except Exception as exc:  # boundary: tool - the next strategy is the answer to it
                _log.warning("%s failed: %s", name, scrub(f"{type(exc).__name__}: {exc}"))
                continue
            if isinstance(text, str) and text.strip():
                return text
            _log.warning("%s failed: its answer was empty", name)
        return self.DEFAULT_RESPONSE

    async def _static_fallback(self, task: str) -> str | None:
        return self.FALLBACK_RESPONSES.get(self.classify(task))
