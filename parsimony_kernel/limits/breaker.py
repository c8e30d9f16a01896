"""A circuit breaker: after failures in a row, a service is left alone for a while.

Closed, open, half-open, as Nygard describes it in *Release It!*. Only monotonic time is read.
Each call that is let through holds a permit, and only the permits of the present state count: a
late word of an older call changes nothing, and exactly one probe is out at a time.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, ClassVar, Literal, TypeVar

from parsimony_kernel.clock import SYSTEM_CLOCK, Clock

State = Literal["closed", "open", "half_open"]

FAILURE_THRESHOLD = 5
RESET_TIMEOUT_S = 60.0

T = TypeVar("T")

# Of the client's errors, those that are the service's trouble all the same.
_TROUBLE = frozenset({408, 425, 429})


class CircuitOpenError(Exception):
    """The call was not let through. ``retry_in_s`` is when the next one may be."""

    def __init__(self, retry_in_s: float) -> None:
        super().__init__(f"the circuit is open; a probe is let through in {retry_in_s:.0f} s")
        self.retry_in_s = retry_in_s


def counts_as_failure(exc: Exception) -> bool:
    """Whether ``exc`` speaks against the service.

    It does unless it, or what caused it, has a status that blames the request: 400, 401 and the
    like, but not 408, 425 and 429.
    """
    return not any(
        400 <= status < 500 and status not in _TROUBLE for status in _statuses_along(exc)
    )


def _statuses_along(exc: BaseException | None) -> Iterator[int]:
    seen: set[int] = set()
    while exc is not None and id(exc) not in seen:
        seen.add(id(exc))
        for source in (exc, getattr(exc, "response", None)):
            for name in ("status_code", "status", "code"):
                status = getattr(source, name, None)
                if isinstance(status, int):
                    yield status
        exc = exc.__cause__


class Permit:
    """One call that was let through. The first of its three words counts."""

    def __init__(self, breaker: "CircuitBreaker", epoch: int) -> None:
        self._breaker = breaker
        self._epoch = epoch
        self._told = False

    def succeeded(self) -> None:
        """The service answered."""
        self._tell("succeeded")

    def failed(self) -> None:
        """The service failed in a way that counts: it, and not what it was asked, is at fault."""
        self._tell("failed")

    def released(self) -> None:
        """Nothing was learned about the service: the call was cancelled, or refused as wrong."""
        self._tell("released")

    def _tell(self, word: Literal["succeeded", "failed", "released"]) -> None:
        if not self._told:
            self._told = True
            self._breaker._hear(word, self._epoch)


class CircuitBreaker:
    """Guards one service.

    Args:
        failure_threshold: failures in a row that open it, at least 1.
        reset_timeout: seconds until a probe is let through, more than 0.
        counts: whether an exception that leaves ``call`` speaks against the service.

    ``ValueError`` when they are not.
    """

    CLOSED: ClassVar[State] = "closed"
    OPEN: ClassVar[State] = "open"
    HALF_OPEN: ClassVar[State] = "half_open"

    def __init__(
        self,
        failure_threshold: int = FAILURE_THRESHOLD,
        reset_timeout: float = RESET_TIMEOUT_S,
        *,
        counts: Callable[[Exception], bool] = counts_as_failure,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if failure_threshold < 1 or not reset_timeout > 0:
            raise ValueError(
                "a breaker needs a failure_threshold of at least 1 and a reset_timeout above 0, "
                f"not {failure_threshold!r} and {reset_timeout!r}"
            )
        self.failure_threshold = failure_threshold
        self.reset_timeout = reset_timeout
        self._counts = counts
        self._clock = clock
        self._state: State = "closed"
        self._failures = 0
        self._opened_at = 0.0
        self._probe_is_out = False
        self._epoch = 0

    @property
    def state(self) -> State:
        """``half_open`` from the moment on that a probe would be let through."""
        if self._state == "open" and self._wait_s() == 0.0:
            return "half_open"
        return self._state

    @property
    def failure_count(self) -> int:
        """Failures in a row."""
        return self._failures

    def admit(self) -> Permit:
        """Let a call through. ``CircuitOpenError`` when it must not be made."""
        if self.state == "half_open":
            if self._probe_is_out:
                raise CircuitOpenError(self.reset_timeout)
            self._enter("half_open")
            self._probe_is_out = True
        elif self._state == "open":
            raise CircuitOpenError(self._wait_s())
        return Permit(self, self._epoch)

    async def call(self, func: Callable[..., Awaitable[T]], /, *args: Any, **kwargs: Any) -> T:
        """``await func(*args, **kwargs)`` under a permit.

        ``CircuitOpenError`` when it must not be called. What ``func`` raises passes on as it is;
        a call that is cancelled, or that failed by its own fault, says nothing about the service
        and frees the place of a probe.
        """
        permit = self.admit()
        try:
            result = await func(*args, **kwargs)
        except Exception as exc:
            if self._counts(exc):
                permit.failed()
            raise
        else:
            permit.succeeded()
            return result
        finally:
            permit.released()

    def _hear(self, word: Literal["succeeded", "failed", "released"], epoch: int) -> None:
        if epoch != self._epoch:
            return
        if word == "released":
            self._probe_is_out = False
        elif word == "succeeded":
            self._failures = 0
            if self._state != "closed":
                self._enter("closed")
        else:
            self._failures += 1
            if self._state == "half_open" or self._failures >= self.failure_threshold:
                self._opened_at = self._clock.monotonic()
                self._enter("open")

    def _enter(self, state: State) -> None:
        if self._state != state:
            self._epoch += 1
        self._state = state
        self._probe_is_out = False

    def _wait_s(self) -> float:
        return max(0.0, self._opened_at + self.reset_timeout - self._clock.monotonic())


class Breakers:
    """One breaker a name, made on first need."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._by_name: dict[str, CircuitBreaker] = {}

    def of(self, name: str) -> CircuitBreaker:
        """The breaker of the service ``name``."""
        if name not in self._by_name:
            self._by_name[name] = CircuitBreaker(clock=self._clock)
        return self._by_name[name]
