"""A circuit breaker: after failures in a row, a service is left alone for a while.

Closed, open, half-open, as Nygard describes it in *Release It!*. Each call that is let through
holds a permit with the epoch as a fencing token, every probe a new one, so that a late word of an
older call changes nothing and exactly one probe is out at a time.

The rules are pure and one for all places: this process, a journal, Redis. A store does no more
than apply a rule in one step. Processes share no monotonic clock, so a shared store counts in wall
time and mistrusts it: a moment that lies in the future, because a clock was set back, becomes now.
A wait is therefore never longer than its full length, and a clock that jumps ahead costs one probe
too early.
"""

import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from parsimony_kernel.core.causes import PROVIDER_FAULT
from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.error_table import of_provider

FAILURE_THRESHOLD = 5
RESET_TIMEOUT_S = 60.0
# As long as a run may take, and so longer than any call in it.
PROBE_LEASE_S = 300.0

State = Literal["closed", "open", "half_open"]
Word = Literal["succeeded", "failed", "released"]
T = TypeVar("T")

_log = logging.getLogger(__name__)

Seconds = Annotated[float, Field(allow_inf_nan=False)]


class StoreError(Exception):
    """The shared state cannot be read or written. ``str()`` is one sentence with the remedy."""


class Shared(BaseModel):
    """The state of one breaker; times are seconds on the store's clock.

    ``failures`` counts those in a row; ``probe_at`` is when the probe left that is out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: State = "closed"
    failures: Annotated[int, Field(ge=0)] = 0
    epoch: Annotated[int, Field(ge=0)] = 0
    opened_at: Seconds = 0.0
    probe_at: Seconds | None = None


Rule = Callable[[Shared, float], tuple[Shared, T]]


class BreakerStore(Protocol):
    """Keeps the state of breakers by name."""

    def change(self, name: str, rule: Rule[T]) -> T:
        """Apply ``rule`` to the state of ``name`` and the time, in one step.

        Nobody sees the state in between. ``rule`` is pure and may be asked more than once; what it
        answers last is returned. ``StoreError`` when nothing could be changed.
        """
        ...


def _anchored(shared: Shared, now: float) -> Shared:
    probe_at = None if shared.probe_at is None else min(shared.probe_at, now)
    return shared.model_copy(update={"opened_at": min(shared.opened_at, now), "probe_at": probe_at})


def parse(name: str, text: str | bytes | None) -> Shared:
    """The state that ``text`` holds. One that cannot be read counts as none, and is warned of."""
    if text is None:
        return Shared()
    try:
        return Shared.model_validate_json(text)
    except ValidationError:
        _log.warning("The shared state of the breaker %r is damaged: it starts anew.", name)
        return Shared()


@dataclass(eq=False)
class OwnStore:
    """The state in this process alone, in monotonic time."""

    clock: Clock = SYSTEM_CLOCK
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _by_name: dict[str, Shared] = field(default_factory=dict)

    def change(self, name: str, rule: Rule[T]) -> T:
        with self._lock:
            shared, answer = rule(self._by_name.get(name, Shared()), self.clock.monotonic())
            self._by_name[name] = shared
        return answer


@dataclass(eq=False)
class SharedOrOwn:
    """A shared store, and this process's own for as long as that one cannot be reached.

    A guard that is out of order must not stop what it guards.

    Args:
        shared: the store that is to serve.
        clock: of the wait below, and of this process's own state.
        retry_s: seconds before a store that was not reached is tried again, for one that may
            cost a time-out each time.
    """

    shared: BreakerStore
    clock: Clock = SYSTEM_CLOCK
    _: KW_ONLY
    retry_s: float = 0.0
    _missed_at: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._own = OwnStore(self.clock)

    def change(self, name: str, rule: Rule[T]) -> T:
        now = self.clock.monotonic()
        if self._missed_at is None or now - self._missed_at >= self.retry_s:
            try:
                answer = self.shared.change(name, rule)
                self._missed_at = None
                return answer
            except StoreError as exc:
                if self._missed_at is None:
                    _log.warning("%s Until then every process counts for itself.", exc)
                self._missed_at = now
        return self._own.change(name, rule)


# -- the breaker


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


@dataclass(eq=False)
class Permit:
    """One call that was let through. The first of its three words counts."""

    breaker: "CircuitBreaker"
    epoch: int
    _told: bool = False

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
            self.breaker._hear(word, self.epoch)


@dataclass(eq=False)
class CircuitBreaker:
    """Guards one service.

    Args:
        failure_threshold: failures in a row that open it, at least 1.
        reset_timeout: seconds until a probe is let through, more than 0.
        probe_lease_s: seconds after which the place of a probe that says nothing is free again;
            longer than a call may take, since only the place of a dead one is to be given away.
        store, name: where the state is kept, and under which name; in this process by default.

    ``ValueError`` when they are not.
    """

    CLOSED: ClassVar[State] = "closed"
    OPEN: ClassVar[State] = "open"
    HALF_OPEN: ClassVar[State] = "half_open"

    failure_threshold: int = FAILURE_THRESHOLD
    reset_timeout: float = RESET_TIMEOUT_S
    _: KW_ONLY
    probe_lease_s: float = PROBE_LEASE_S
    store: BreakerStore | None = None
    name: str = ""
    clock: Clock = SYSTEM_CLOCK
    # Monotonic seconds at which this object was told of a failure; 0.0 before that.
    last_failure_time: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if self.failure_threshold < 1 or not self.reset_timeout > 0:
            raise ValueError(
                "a breaker needs a failure_threshold of at least 1 and a reset_timeout above 0, "
                f"not {self.failure_threshold!r} and {self.reset_timeout!r}"
            )
        self._store = self.store or OwnStore(self.clock)

    @property
    def state(self) -> State:
        """``half_open`` from the moment on that a probe would be let through."""
        return self._store.change(self.name, self.look)[0]

    @property
    def failure_count(self) -> int:
        """Failures in a row."""
        return self._store.change(self.name, self.look)[1]

    def admit(self) -> Permit:
        """Let a call through. ``CircuitOpenError`` when it must not be made."""
        epoch, wait_s = self._store.change(self.name, self.admission)
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
            self.last_failure_time = self.clock.monotonic()
        self._store.change(self.name, partial(self.hear, word, epoch))

    # -- the rules, which are pure

    def admission(self, shared: Shared, now: float) -> tuple[Shared, tuple[int | None, float]]:
        """The rule for a call that wants through: the epoch of its permit, ``None`` when it must
        wait, and for how many seconds. A probe's place is free again after its lease."""
        shared = _anchored(shared, now)
        wait = self._wait_s(shared, now)
        if wait > 0:
            return shared, (None, wait)
        if shared.state != "closed":
            probing = {"state": "half_open", "epoch": shared.epoch + 1, "probe_at": now}
            shared = shared.model_copy(update=probing)
        return shared, (shared.epoch, 0.0)

    def hear(self, word: Word, epoch: int, shared: Shared, now: float) -> tuple[Shared, None]:
        """The rule for what a call that was let through in ``epoch`` has to say."""
        if epoch != shared.epoch:
            return shared, None
        if word == "released":
            return shared.model_copy(update={"probe_at": None}), None
        if word == "succeeded":
            return Shared(epoch=shared.epoch + (shared.state != "closed")), None
        failures = shared.failures + 1
        if shared.state == "closed" and failures < self.failure_threshold:
            return shared.model_copy(update={"failures": failures}), None
        return Shared(state="open", failures=failures, epoch=shared.epoch + 1, opened_at=now), None

    def look(self, shared: Shared, now: float) -> tuple[Shared, tuple[State, int]]:
        """The rule that only looks, at the state and the failures in a row: ``half_open`` from the
        moment on that a probe would be let through."""
        shared = _anchored(shared, now)
        is_due = shared.state == "open" and self._wait_s(shared, now) == 0.0
        return shared, ("half_open" if is_due else shared.state, shared.failures)

    def _wait_s(self, shared: Shared, now: float) -> float:
        if shared.state == "open":
            return max(0.0, shared.opened_at + self.reset_timeout - now)
        if shared.probe_at is None:
            return 0.0
        left = max(0.0, shared.probe_at + self.probe_lease_s - now)
        return min(left, self.reset_timeout)


@dataclass(eq=False)
class Breakers:
    """One breaker a name, made on first need. ``store`` is where their state is kept."""

    clock: Clock = SYSTEM_CLOCK
    store: BreakerStore | None = None
    _by_terms: dict[tuple[str, float], CircuitBreaker] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.store = self.store or OwnStore(self.clock)

    def of(self, name: str, *, probe_lease_s: float = PROBE_LEASE_S) -> CircuitBreaker:
        """The breaker of the service ``name``, whose calls take less than ``probe_lease_s``."""
        terms = name, probe_lease_s
        if terms not in self._by_terms:
            self._by_terms[terms] = CircuitBreaker(
                store=self.store, name=name, probe_lease_s=probe_lease_s
            )
        return self._by_terms[terms]
