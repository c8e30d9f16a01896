"""Breakers whose state processes share: one set of rules, and places to keep what they say."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.limits.breaker import (
    RETRY_S,
    Breakers,
    BreakerStore,
    CircuitBreaker,
    JournalBreakers,
    RedisBreakers,
    Rule,
    State,
    T,
    Word,
    counts_as_failure,
)
from parsimony_kernel.storage.database import MEMORY
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.testing.manual_clock import ManualClock

if TYPE_CHECKING:
    from redis import Redis

TERMS = CircuitBreaker(failure_threshold=5, reset_timeout=60, probe_lease_s=300)
LONG_AGO = datetime(1970, 1, 2, tzinfo=UTC)


def ask(store: BreakerStore, name: str = "m") -> tuple[int | None, float]:
    return store.change(name, TERMS.admission)


def tell(store: BreakerStore, word: Word, epoch: int | None, name: str = "m") -> None:
    assert epoch is not None
    store.change(name, partial(TERMS.hear, word, epoch))


def see(store: BreakerStore, name: str = "m") -> tuple[State, int]:
    return store.change(name, TERMS.look)


def fail(store: BreakerStore, times: int = 5) -> None:
    for _ in range(times):
        tell(store, "failed", ask(store)[0])


@pytest.fixture(params=["own", "journal", "redis"])
def place(request: pytest.FixtureRequest) -> Callable[[ManualClock], BreakerStore]:
    def make(clock: ManualClock) -> BreakerStore:
        if request.param == "own":
            return Breakers(clock)
        if request.param == "redis":
            return RedisBreakers(f"unix://{request.getfixturevalue('redis_socket')}")
        journal = SqliteJournal(MEMORY)
        request.addfinalizer(journal.close)
        return JournalBreakers(journal, clock)

    return make


Place = Callable[[ManualClock], BreakerStore]


@dataclass
class At:
    """A store whose time is that of ``clock``, not its own."""

    inner: BreakerStore
    clock: ManualClock

    def change(self, name: str, rule: Rule[T]) -> T:
        now = self.clock.now().timestamp()
        return self.inner.change(name, lambda shared, _: rule(shared, now))


def test_name_may_be_any_text(place: Place) -> None:
    store = place(ManualClock())
    name = "ü 'x'; DROP TABLE breakers \ud800 \0"
    tell(store, "failed", ask(store, name)[0], name)
    assert see(store, name)[1] == 1


history = st.lists(
    st.sampled_from(["ask", "succeeded", "failed", "released", "wait", "jump back", "jump on"]),
    max_size=60,
)


@given(history)
def test_at_most_one_probe_is_out(happens: list[str]) -> None:
    terms = CircuitBreaker(failure_threshold=1, reset_timeout=10, probe_lease_s=30)
    journal = SqliteJournal(MEMORY)
    now = LONG_AGO
    out: list[int] = []
    for what in happens:
        store = JournalBreakers(journal, ManualClock(now))
        if what == "ask":
            before = store.change("m", terms.look)[0]
            admission = store.change("m", terms.admission)
            if admission[0] is None:
                assert 0 < admission[1] <= 10
            else:
                assert before != "open"
                out.append(admission[0])
                if before == "half_open":
                    assert store.change("m", terms.admission)[0] is None
        elif what in ("succeeded", "failed", "released"):
            word: Word = what  # type: ignore[assignment]
            if out:
                store.change("m", partial(terms.hear, word, out.pop(0)))
        else:
            now += timedelta(seconds={"wait": 10, "jump back": -1000, "jump on": 1000}[what])
    store = JournalBreakers(journal, ManualClock(now))
    store.change("m", terms.look)
    after = JournalBreakers(journal, ManualClock(now + timedelta(seconds=30)))
    probe = after.change("m", terms.admission)
    assert probe[0] is not None
    after.change("m", partial(terms.hear, "succeeded", probe[0]))
    assert after.change("m", terms.look) == ("closed", 0)
    journal.close()


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history)
def test_shared_store_matches_single_process(
    redis: "Redis", redis_socket: Path, happens: list[str]
) -> None:
    redis.flushall()
    terms = CircuitBreaker(failure_threshold=2, reset_timeout=10, probe_lease_s=30)
    clock = ManualClock()
    journal = SqliteJournal(MEMORY)
    own = Breakers(clock)
    shared: tuple[BreakerStore, ...] = (
        JournalBreakers(journal, clock),
        At(RedisBreakers(f"unix://{redis_socket}"), clock),
    )
    out: list[int] = []
    for what in happens:
        if what == "ask":
            expected = own.change("m", terms.admission)
            for store in shared:
                admission = store.change("m", terms.admission)
                assert admission[0] == expected[0]
                assert admission[1] == pytest.approx(expected[1])
            out += [expected[0]] if expected[0] is not None else []
        elif what.startswith(("wait", "jump")):
            clock.advance(4)
        elif out:
            word: Word = what  # type: ignore[assignment]
            epoch = out.pop(0)
            for store in (own, *shared):
                store.change("m", partial(terms.hear, word, epoch))
        sight = own.change("m", terms.look)
        assert [store.change("m", terms.look) for store in shared] == [sight, sight]
    journal.close()


# -- processes

_IN_JOURNAL = """
from parsimony_kernel.limits.breaker import JournalBreakers
from parsimony_kernel.storage.journal import SqliteJournal
store = JournalBreakers(SqliteJournal(place))
"""
_IN_REDIS = """
from parsimony_kernel.limits.breaker import RedisBreakers
store = RedisBreakers(f"unix://{place}")
"""
_PROBER = """
from parsimony_kernel.limits.breaker import CircuitBreaker
wait()
admission = store.change("m", CircuitBreaker(5, 60, probe_lease_s=300).admission)
print("waits" if admission[0] is None else "probes")
"""

Race = Callable[[str, Path], list[str]]


def test_one_of_eight_processes_probes(tmp_path: Path, race: Race) -> None:
    path = tmp_path / "journal.sqlite"
    with closing(SqliteJournal(path)) as journal:
        fail(JournalBreakers(journal, ManualClock(LONG_AGO)))
    assert sorted(race(_IN_JOURNAL + _PROBER, path)) == ["probes"] + ["waits"] * 7


@pytest.mark.slow
def test_one_of_eight_processes_probes_by_redis(redis_socket: Path, race: Race) -> None:
    fail(At(RedisBreakers(f"unix://{redis_socket}"), ManualClock(LONG_AGO)))
    assert sorted(race(_IN_REDIS + _PROBER, redis_socket)) == ["probes"] + ["waits"] * 7


# -- the file


def test_state_outlives_process_and_chain_stays_intact(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    first = SqliteJournal(path)
    fail(JournalBreakers(first, ManualClock()))
    first.close()
    second = SqliteJournal(path)
    assert see(JournalBreakers(second, ManualClock())) == ("open", 5)
    assert second.verify() is None
    second.close()


@pytest.mark.parametrize(
    "damaged", ["", "{", '{"state": "ajar"}', '{"opened_at": NaN}', '{"failures": -1}', "[]"]
)
def test_breaker_with_corrupt_state_starts_anew(damaged: str) -> None:
    journal = SqliteJournal(MEMORY)
    store = JournalBreakers(journal, ManualClock())
    fail(store)
    journal._db.execute("UPDATE breakers SET state = ?", (damaged,))
    assert ask(store)[0] == 0
    fail(store)
    assert see(store)[0] == "open"
    journal.close()


def test_removed_journal_is_recreated(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    journal = SqliteJournal(path)
    store = JournalBreakers(journal, ManualClock())
    fail(store)
    for part in tmp_path.iterdir():
        part.unlink()
    assert see(store) == ("closed", 0)
    journal.close()


def test_unwritable_journal_is_one_sentence() -> None:
    journal = SqliteJournal(MEMORY)
    journal.close()
    with pytest.raises(SessionError, match="is closed: open it again"):
        ask(JournalBreakers(journal))


# -- when the shared place is gone


class Patchy:
    """A store that can be reached only while ``works``, and counts how often it was ``asked``."""

    def __init__(self, inner: BreakerStore) -> None:
        self._inner = inner
        self.works = True
        self.asked = 0

    def change(self, name: str, rule: Rule[T]) -> T:
        self.asked += 1
        if not self.works:
            raise SessionError("The state cannot be reached: check the server.")
        return self._inner.change(name, rule)


def test_unreportable_probe_holds_slot_for_its_lease() -> None:
    clock = ManualClock()
    patchy = Patchy(Breakers(clock))
    store = Breakers(clock, patchy)
    fail(store)
    clock.advance(60)
    probe = ask(store)
    patchy.works = False
    tell(store, "succeeded", probe[0])
    patchy.works = True
    clock.advance(RETRY_S)
    assert ask(store)[0] is None
    clock.advance(300)
    assert ask(store)[0] is not None


def test_unreachable_store_rests_and_its_processes_count_for_themselves(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    patchy = Patchy(Breakers(clock))
    patchy.works = False
    store = Breakers(clock, patchy)
    for times in (1, 2):
        fail(store, 2)
        assert (patchy.asked, len(caplog.records)) == (times, times)
        clock.advance(RETRY_S)
    patchy.works = True
    assert see(store) == ("closed", 0)
    patchy.works = False
    assert see(store) == ("closed", 4)


# A breaker leaves a failing service alone, and finds out with one probe whether it is back.


class ServiceError(Exception):
    """A service's answer with a status."""

    def __init__(self, status_code: int) -> None:
        super().__init__(f"status {status_code}")
        self.status_code = status_code


def wrapped(inner: Exception) -> Exception:
    """An error whose cause chain goes round in a circle."""
    outer = RuntimeError("wrapped")
    outer.__cause__, inner.__cause__ = inner, outer
    return outer


@pytest.mark.parametrize(
    ("exc", "counts"),
    [
        *((ServiceError(status), True) for status in (408, 429, 500, 502, 503, 504)),
        (wrapped(ServiceError(401)), False),
        (RuntimeError("no status at all"), True),
        (ImportError("No module named 'client'"), False),
    ],
)
def test_failure_of_the_service_counts_and_other_faults_do_not(
    exc: Exception, counts: bool
) -> None:
    assert counts_as_failure(exc) is counts


def test_permit_is_settled_once() -> None:
    breaker = CircuitBreaker(2, clock=ManualClock())
    permit = breaker.admit()
    permit.report("failed")
    permit.report("failed")
    permit.report("succeeded")
    assert (breaker.state, breaker.failure_count) == ("closed", 1)
