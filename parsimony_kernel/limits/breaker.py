"""A circuit breaker: after failures in a row, a service is left alone for a while.

Closed, open, half-open, as Nygard describes it in *Release It!*. Each call that is let through
holds a permit, and only the permits of the present state count: a late word of an older call
changes nothing, and exactly one probe is out at a time. The rules, and what is known about time,
are the store's.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, ClassVar

from parsimony_kernel.core.causes import PROVIDER_FAULT
from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.error_table import of_provider
from parsimony_kernel.limits.breaker_store import BreakerStore, OwnStore, State, T, Terms, Word

FAILURE_THRESHOLD = 5
RESET_TIMEOUT_S = 60.0
# As long as a run may take, and so longer than any call in it.
PROBE_LEASE_S = 300.0


class CircuitOpenError(Exception):
    """The call was not let through. ``retry_in_s`` is when the next one may be."""

    def __init__(self, retry_in_s: float) -> None:
        super().__init__(f"the circuit is open; a probe is let through in {retry_in_s:.0f} s")
        self.retry_in_s = retry_in_s


def counts_as_failure(exc: Exception) -> bool:
    """Whether ``exc`` speaks against the service.

    It does unless the request or what sends it is to blame: 400, 401, a package that is missing.
    """
    row, _ = of_provider(exc)
    return row is None or row.cause_of_provider is PROVIDER_FAULT


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

    def _tell(self, word: Word) -> None:
        if not self._told:
            self._told = True
            self._breaker._hear(word, self._epoch)


class CircuitBreaker:
    """Guards one service.

    Args:
        failure_threshold: failures in a row that open it, at least 1.
        reset_timeout: seconds until a probe is let through, more than 0.
        probe_lease_s: seconds after which the place of a probe that says nothing is free again;
            longer than a call may take.
        store, name: where the state is kept, and under which name; in this process by default.

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
        probe_lease_s: float = PROBE_LEASE_S,
        store: BreakerStore | None = None,
        name: str = "",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if failure_threshold < 1 or not reset_timeout > 0:
            raise ValueError(
                "a breaker needs a failure_threshold of at least 1 and a reset_timeout above 0, "
                f"not {failure_threshold!r} and {reset_timeout!r}"
            )
        self.failure_threshold = failure_threshold
        self.reset_timeout = reset_timeout
        self._terms = Terms(failure_threshold, reset_timeout, probe_lease_s)
        self._store = store or OwnStore(clock)
        self._name = name
        self._clock = clock
        # Monotonic seconds at which this object was told of a failure; 0.0 before that.
        self.last_failure_time = 0.0

    @property
    def state(self) -> State:
        """``half_open`` from the moment on that a probe would be let through."""
        return self._store.change(self._name, self._terms.look)[0]

    @property
    def failure_count(self) -> int:
        """Failures in a row."""
        return self._store.change(self._name, self._terms.look)[1]

    def admit(self) -> Permit:
        """Let a call through. ``CircuitOpenError`` when it must not be made."""
        epoch, wait_s = self._store.change(self._name, self._terms.admit)
        if epoch is None:
            raise CircuitOpenError(wait_s)
        return Permit(self, epoch)

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
            if counts_as_failure(exc):
                permit.failed()
            raise
        else:
            permit.succeeded()
            return result
        finally:
            permit.released()

    def _hear(self, word: Word, epoch: int) -> None:
        if word == "failed":
            self.last_failure_time = self._clock.monotonic()
        self._store.change(self._name, partial(self._terms.hear, word, epoch))


class Breakers:
    """One breaker a name, made on first need. ``store`` is where their state is kept."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK, store: BreakerStore | None = None) -> None:
        self._store = store or OwnStore(clock)
        self._by_terms: dict[tuple[str, float], CircuitBreaker] = {}

    def of(self, name: str, *, probe_lease_s: float = PROBE_LEASE_S) -> CircuitBreaker:
        """The breaker of the service ``name``, whose calls take less than ``probe_lease_s``."""
        terms = name, probe_lease_s
        if terms not in self._by_terms:
            self._by_terms[terms] = CircuitBreaker(
                store=self._store, name=name, probe_lease_s=probe_lease_s
            )
        return self._by_terms[terms]
