"""Where the state of breakers is kept, and the rules by which it changes.

The rules are pure and one for all places: this process, a journal, Redis. A store does no more
than apply a rule in one step. Whoever is let through gets the epoch as a fencing token, every
probe a new one, so that a word from an epoch that has passed changes nothing.

Processes share no monotonic clock, so a shared store counts in wall time and mistrusts it: a
moment that lies in the future, because a clock was set back, becomes now. A wait is therefore
never longer than its full length, and a clock that jumps ahead costs one probe too early.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock

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


@dataclass(frozen=True)
class Terms:
    """When a breaker opens, for how many seconds, and for how many a probe holds its place: the
    rules by which its state changes.

    ``probe_lease_s`` must be longer than a call may take: only the place of a dead probe is to
    be given away.
    """

    failure_threshold: int
    reset_timeout_s: float
    probe_lease_s: float

    def admit(self, shared: Shared, now: float) -> tuple[Shared, tuple[int | None, float]]:
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
            return max(0.0, shared.opened_at + self.reset_timeout_s - now)
        if shared.probe_at is None:
            return 0.0
        left = max(0.0, shared.probe_at + self.probe_lease_s - now)
        return min(left, self.reset_timeout_s)


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


class OwnStore:
    """The state in this process alone, in monotonic time."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._by_name: dict[str, Shared] = {}

    def change(self, name: str, rule: Rule[T]) -> T:
        with self._lock:
            shared, answer = rule(self._by_name.get(name, Shared()), self._clock.monotonic())
            self._by_name[name] = shared
        return answer


# More than any store counts epochs.
_APART = 2**64


def _apart(rule: Rule[T]) -> Rule[T]:
    """``rule`` as one that sees epochs which no store of its own has."""

    def shifted(shared: Shared, now: float) -> tuple[Shared, T]:
        seen = shared.model_copy(update={"epoch": shared.epoch + _APART})
        after, answer = rule(seen, now)
        return after.model_copy(update={"epoch": after.epoch - _APART}), answer

    return shifted


class SharedOrOwn:
    """A shared store, and another one for as long as that one cannot be reached.

    A guard that is out of order must not stop what it guards. The permits of the other store are
    of epochs that the shared one never has, and the other way round, so that a word on one
    changes nothing there; a probe's place falls to its lease.

    Args:
        shared: the store that is to serve.
        clock: of the wait below, and of this process's own state.
        instead: what serves meanwhile; this process's own state unless given.
        meanwhile: how that is told, in the one warning of an outage.
        retry_s: seconds before a store that was not reached is tried again, for one that may
            cost a time-out each time.
    """

    def __init__(
        self,
        shared: BreakerStore,
        clock: Clock = SYSTEM_CLOCK,
        *,
        instead: BreakerStore | None = None,
        meanwhile: str = "every process counts for itself",
        retry_s: float = 0.0,
    ) -> None:
        self._shared = shared
        self._clock = clock
        self._instead = instead or OwnStore(clock)
        self._meanwhile = meanwhile
        self._retry_s = retry_s
        self._missed_at: float | None = None

    def change(self, name: str, rule: Rule[T]) -> T:
        now = self._clock.monotonic()
        if self._missed_at is None or now - self._missed_at >= self._retry_s:
            try:
                answer = self._shared.change(name, rule)
                self._missed_at = None
                return answer
            except StoreError as exc:
                if self._missed_at is None:
                    _log.warning("%s Until then %s.", exc, self._meanwhile)
                self._missed_at = now
        return self._instead.change(name, _apart(rule))
