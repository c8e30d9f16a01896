"""A circuit breaker: after consecutive failures, calls to a service are refused for a while.

Closed, open, half-open, as Nygard describes it in *Release It!*. Each admitted call holds a permit
with the epoch as a fencing token, and each probe starts a new epoch, so that a late report of an
older call changes nothing and exactly one probe is in flight at a time.

The state transitions are pure rules, the same for every store: this process, a journal, Redis. A
store only applies a rule atomically. Processes share no monotonic clock, so a shared store uses
wall time. A time in the future, after a clock was set back, counts as long past: a wait is never
longer than its full length, and a clock that jumps costs at most one early probe.

In Redis, for processes on several hosts, time is the server's, so that hosts agree on it. A change
is an optimistic transaction under ``WATCH``: of two that collide one is committed and the other
retried. Keys expire.
"""

import logging
import math
import threading
import weakref
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from parsimony_kernel.core.causes import PROVIDER_FAULT
from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.error_table import of_provider
from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.core.text import utf8

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import Pipeline

    from parsimony_kernel.storage.database import Database

FAILURE_THRESHOLD = 5
RESET_TIMEOUT_S = 60.0
# The longest a run may take, and so longer than any call in it.
PROBE_LEASE_S = 300.0
# Back-off for an unreachable store in seconds: each attempt may cost a time-out.
RETRY_S = 30.0

State = Literal["closed", "open", "half_open"]
Word = Literal["succeeded", "failed", "released"]
T = TypeVar("T")

_log = logging.getLogger(__name__)

Seconds = Annotated[float, Field(allow_inf_nan=False)]


class Shared(BaseModel):
    """The state of one breaker; times are seconds on the store's clock.

    ``failures`` counts consecutive failures; ``probe_at`` is the start of the probe in flight.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    state: State = "closed"
    failures: Annotated[int, Field(ge=0)] = 0
    epoch: Annotated[int, Field(ge=0)] = 0
    opened_at: Seconds = 0.0
    probe_at: Seconds | None = None


Rule = Callable[[Shared, float], tuple[Shared, T]]


class BreakerStore(Protocol):
    """Stores the state of breakers by name."""

    def change(self, name: str, rule: Rule[T]) -> T:
        """Apply ``rule`` to the state of ``name`` and the current time, atomically.

        ``rule`` is pure and may be called more than once; its last answer is returned.
        ``SessionError`` if the state can't be changed.
        """


def parse(text: str | bytes | None) -> Shared:
    """Parse a stored state; without one, or if it is damaged, the breaker starts anew."""
    with suppress(ValidationError):
        return Shared.model_validate_json(text or "{}")
    return Shared()


# -- the breaker


class CircuitOpenError(Exception):
    """The call was refused. ``retry_in_s`` is the time in seconds until one may be admitted."""

    def __init__(self, retry_in_s: float) -> None:
        super().__init__(f"the circuit is open; a probe is let through in {retry_in_s:.0f} s")
        self.retry_in_s = retry_in_s


def counts_as_failure(exc: Exception) -> bool:
    """Return whether ``exc`` counts as a failure of the service.

    It does, unless the request or its sender is at fault: 400, 401, a missing package.
    """
    row, _ = of_provider(exc)
    return row is None or row.cause_of_provider is PROVIDER_FAULT


@dataclass(eq=False)
class Permit:
    """One admitted call. Only its first report counts."""

    breaker: "CircuitBreaker"
    epoch: int
    _told: bool = False

    def report(self, word: Word) -> None:
        """Report that the service answered (``succeeded``) or ``failed``, see
        ``counts_as_failure``, or no outcome: the call was cancelled, or rejected as invalid
        (``released``).
        """
        if not self._told:
            self._told = True
            self.breaker._hear(word, self.epoch)


@dataclass(eq=False)
class CircuitBreaker:
    """A circuit breaker for one service.

    Args:
        failure_threshold: consecutive failures that open it.
        reset_timeout: seconds until a probe is admitted.
        probe_lease_s: seconds after which a silent probe is given up and another one admitted;
            longer than a call may take, so that only a dead probe loses its lease.
        store: the store of the state; this process by default.
        name: the name of the state in the store.
        clock: the time of the default store and of ``last_failure_time``.
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
    # Monotonic time of the last failure reported to this object; 0.0 before the first.
    last_failure_time: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._store = self.store or Breakers(self.clock)

    @property
    def state(self) -> State:
        """The current state; ``half_open`` as soon as a probe would be admitted."""
        return self._store.change(self.name, self.look)[0]

    @property
    def failure_count(self) -> int:
        """The number of consecutive failures."""
        return self._store.change(self.name, self.look)[1]

    def admit(self) -> Permit:
        """Admit a call and return its permit; ``CircuitOpenError`` if it must not be made."""
        epoch, wait_s = self._store.change(self.name, self.admission)
        if epoch is None:
            raise CircuitOpenError(wait_s)
        return Permit(self, epoch)

    async def call(self, func: Callable[..., Awaitable[T]], /, *args: Any, **kwargs: Any) -> T:
        """Await ``func(*args, **kwargs)`` under a permit and return its result.

        ``CircuitOpenError`` if the call is refused. Exceptions of ``func`` pass through unchanged.
        A call that is cancelled, or fails by its own fault, reports no outcome and frees the place
        of the probe.
        """
        permit = self.admit()
        try:
            result = await func(*args, **kwargs)
        except Exception as exc:
            if counts_as_failure(exc):
                permit.report("failed")
            raise
        else:
            permit.report("succeeded")
            return result
        finally:
            permit.report("released")

    def _hear(self, word: Word, epoch: int) -> None:
        if word == "failed":
            self.last_failure_time = self.clock.monotonic()
        self._store.change(self.name, partial(self.hear, word, epoch))

    # -- the rules, which are pure

    def admission(self, shared: Shared, now: float) -> tuple[Shared, tuple[int | None, float]]:
        """The rule that admits or refuses a call.

        It answers with the epoch of the permit, or ``None`` if the call must wait, and the wait in
        seconds. A probe whose lease has expired no longer blocks the next one.
        """
        wait = self._wait_s(shared, now)
        if wait > 0:
            return shared, (None, wait)
        if shared.state != "closed":
            probing = {"state": "half_open", "epoch": shared.epoch + 1, "probe_at": now}
            shared = shared.model_copy(update=probing)
        return shared, (shared.epoch, 0.0)

    def hear(self, word: Word, epoch: int, shared: Shared, now: float) -> tuple[Shared, None]:
        """The rule that applies the report of a call admitted in ``epoch``."""
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
        """The rule that reads the state and the consecutive failures without a transition.

        The state is ``half_open`` as soon as a probe would be admitted.
        """
        is_due = shared.state == "open" and self._wait_s(shared, now) == 0.0
        return shared, ("half_open" if is_due else shared.state, shared.failures)

    def _wait_s(self, shared: Shared, now: float) -> float:
        since = shared.opened_at if shared.state == "open" else shared.probe_at
        if since is None or since > now:
            return 0.0
        length = self.reset_timeout if shared.state == "open" else self.probe_lease_s
        return min(max(0.0, since + length - now), self.reset_timeout)


@dataclass(eq=False)
class Breakers:
    """The breakers of a process by service name.

    Their state is in the ``shared`` store, and in this process without one or, for ``RETRY_S``, if
    it is unreachable: a broken guard must not stop the calls that it guards.

    Args:
        clock: the time of the back-off, and of this process's own state.
        shared: the store to use.
    """

    clock: Clock = SYSTEM_CLOCK
    shared: BreakerStore | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _own: dict[str, Shared] = field(default_factory=dict, init=False)
    # Monotonic time, in seconds, from which the shared store is asked.
    _ask_at: float = field(default=0.0, init=False)

    def of(self, name: str, *, probe_lease_s: float = PROBE_LEASE_S) -> CircuitBreaker:
        """Return the breaker of the service ``name``; its calls take less than ``probe_lease_s``
        seconds."""
        return CircuitBreaker(store=self, name=name, probe_lease_s=probe_lease_s)

    def change(self, name: str, rule: Rule[T]) -> T:
        """Apply ``rule`` as a ``BreakerStore`` does; a ``SessionError`` is logged, never raised."""
        now = self.clock.monotonic()
        if self.shared is not None and now >= self._ask_at:
            try:
                return self.shared.change(name, rule)
            except SessionError as exc:
                _log.warning("%s Until then every process counts for itself.", exc)
                self._ask_at = now + RETRY_S
        with self._lock:
            self._own[name], answer = rule(self._own.get(name, Shared()), self.clock.monotonic())
        return answer


@dataclass(eq=False)
class JournalBreakers:
    """A ``BreakerStore`` in an open journal, shared by every process of a workspace.

    Writes aren't synced: a power cut loses one report about a service, and the next failure
    reports it again. ``clock`` gives wall time.
    """

    journal: "Database"
    clock: Clock = SYSTEM_CLOCK

    def change(self, name: str, rule: Rule[T]) -> T:
        key = utf8(name)
        with self.journal.transaction() as db:
            row = db.execute("SELECT state FROM breakers WHERE name = ?", (key,)).fetchone()
            before = parse(row[0] if row else None)
            # Read the clock under the lock: an earlier reading may precede the stored times.
            after, answer = rule(before, self.clock.now().timestamp())
            if after != before:
                state = after.model_dump_json()
                db.execute("REPLACE INTO breakers VALUES (?, ?)", (key, state))
        return answer


REDIS_URL = "PARSIMONY_REDIS_URL"
PREFIX = "parsimony:breaker:"
# Expiry of an unchanged state, in seconds. Longer than any wait or lease.
KEEP_S = 86_400.0
# Seconds to wait for a hanging server before falling back to this process's own state.
TIMEOUT_S = 0.25


@dataclass(eq=False)
class RedisBreakers:
    """A ``BreakerStore`` on a Redis server, which is contacted on first use.

    ``url`` is an address such as ``redis://host:6379/0``.
    """

    url: str

    def change(self, name: str, rule: Rule[T]) -> T:
        key = (PREFIX + name).encode("utf-8", "replace")

        def step(pipe: "Pipeline") -> T:
            before, (seconds, microseconds) = parse(pipe.get(key)), pipe.time()
            after, answer = rule(before, float(seconds) + float(microseconds) / 1e6)
            pipe.multi()
            if after != before:
                pipe.set(key, after.model_dump_json(), px=math.ceil(KEEP_S * 1000))
            return answer

        try:
            answer: T = cast(Any, self._client).transaction(step, key, value_from_callable=True)
        except Exception as exc:  # settings of an address may break the client anywhere
            # What is said of a wrong address may quote its password.
            why = type(exc).__name__ if isinstance(exc, ValueError) else exc
            raise SessionError(
                f"The breakers' state in Redis cannot be reached ({why}): set {REDIS_URL} to an "
                "address like redis://host:6379/0, install 'parsimony-kernel[remote]', and check "
                "that the server runs and may be written to."
            ) from exc
        return answer

    @cached_property
    def _client(self) -> "Redis":
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        once = Retry(NoBackoff(), 0)
        client = Redis.from_url(
            self.url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=once
        )
        # Otherwise its sockets are left to the garbage collector, which warns of them.
        weakref.finalize(self, client.close)
        return client


def breakers_for(
    environ: Mapping[str, str], journal: "Database", clock: Clock = SYSTEM_CLOCK
) -> Breakers:
    """Create the breakers of a workspace.

    Args:
        environ: may name a shared Redis server in ``PARSIMONY_REDIS_URL``.
        journal: keeps the state without a Redis server.
        clock: the time of this process's own state, the fallback for an unreachable store.
    """
    url = environ.get(REDIS_URL, "").strip()
    return Breakers(clock, RedisBreakers(url) if url else JournalBreakers(journal, clock))
