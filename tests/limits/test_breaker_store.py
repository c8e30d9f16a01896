"""Breakers whose state processes share: one set of rules, and places to keep what they say."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parsimony_kernel.limits.breaker import (
    RETRY_S,
    BreakerStore,
    CircuitBreaker,
    OwnStore,
    Rule,
    SharedOrOwn,
    State,
    StoreError,
    T,
    Word,
)
from parsimony_kernel.limits.redis_store import RedisBreakers
from parsimony_kernel.storage.database import MEMORY
from parsimony_kernel.storage.journal import JournalBreakers, SqliteJournal
from parsimony_kernel.testing.manual_clock import START, ManualClock

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
            return OwnStore(clock)
        if request.param == "redis":
            socket = request.getfixturevalue("redis_socket")
            return RedisBreakers(f"unix://{socket}", clock)
        journal = SqliteJournal(MEMORY)
        request.addfinalizer(journal.close)
        return JournalBreakers(journal, clock)

    return make


Place = Callable[[ManualClock], BreakerStore]


def test_name_may_be_any_text(place: Place) -> None:
    store = place(ManualClock())
    name = "ü 'x'; DROP TABLE breakers \ud800 \0"
    tell(store, "failed", ask(store, name)[0], name)
    assert see(store, name)[1] == 1


def test_clock_set_back_costs_one_probe_and_extends_no_wait() -> None:
    journal = SqliteJournal(MEMORY)
    fail(JournalBreakers(journal, ManualClock(START + timedelta(days=1))))
    store = JournalBreakers(journal, ManualClock())
    assert see(store)[0] == "half_open"
    assert ask(store)[0] is not None
    assert ask(store) == (None, 60)
    journal.close()


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
    own = OwnStore(clock)
    shared: tuple[BreakerStore, ...] = (
        JournalBreakers(journal, clock),
        RedisBreakers(f"unix://{redis_socket}", clock),
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

Opened = tuple[BreakerStore, Callable[[], None]]


# These two go into the programs of the processes as they are written, and so import for themselves.
def in_journal(place: str, clock: Any = None) -> "Opened":
    from parsimony_kernel.core.clock import SYSTEM_CLOCK
    from parsimony_kernel.storage.journal import JournalBreakers, SqliteJournal

    journal = SqliteJournal(place)
    return JournalBreakers(journal, clock or SYSTEM_CLOCK), journal.close


def in_redis(place: str, clock: Any = None) -> "Opened":
    from parsimony_kernel.limits.redis_store import RedisBreakers

    store = RedisBreakers(f"unix://{place}", clock)
    return store, store._client.close


_PROBER = """
from parsimony_kernel.limits.breaker import CircuitBreaker
store, close = opened(place)
wait()
admission = store.change("m", CircuitBreaker(5, 60, probe_lease_s=300).admission)
print("waits" if admission[0] is None else "probes")
close()
"""


class Common:
    """A place that processes share; ``opening`` is how a program opens it."""

    def __init__(self, opened: Callable[..., Opened], path: Path) -> None:
        self.path = path
        self.opening = (
            f"from typing import Any\n{inspect.getsource(opened)}\nopened = {opened.__name__}\n"
        )
        self._opened = opened
        self._stack = ExitStack()

    def opened(self, clock: ManualClock | None = None) -> BreakerStore:
        store, close = self._opened(str(self.path), clock)
        self._stack.callback(close)
        return store

    def close(self) -> None:
        self._stack.close()


@pytest.fixture(params=[in_journal, pytest.param(in_redis, marks=pytest.mark.slow)])
def common(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Common]:
    path = tmp_path / "journal.sqlite"
    if request.param is in_redis:
        path = request.getfixturevalue("redis_socket")
    place = Common(request.param, path)
    yield place
    place.close()


Race = Callable[[str, Path], list[str]]


def test_one_of_eight_processes_probes(common: Common, race: Race) -> None:
    fail(common.opened(ManualClock(LONG_AGO)))
    assert sorted(race(common.opening + _PROBER, common.path)) == ["probes"] + ["waits"] * 7


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
def test_corrupt_state_restarts_with_warning(
    damaged: str, caplog: pytest.LogCaptureFixture
) -> None:
    journal = SqliteJournal(MEMORY)
    store = JournalBreakers(journal, ManualClock())
    fail(store)
    journal.database._db.execute("UPDATE breakers SET state = ?", (damaged,))
    assert ask(store)[0] == 0
    assert "'m' is damaged" in caplog.text
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
    with pytest.raises(StoreError, match="is closed: open it again"):
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
            raise StoreError("The state cannot be reached: check the server.")
        return self._inner.change(name, rule)


def test_unreportable_probe_holds_slot_for_its_lease() -> None:
    clock = ManualClock()
    shared = OwnStore(clock)
    patchy = Patchy(shared)
    store = SharedOrOwn(patchy, clock)
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


def test_expensive_store_is_skipped_and_warned_once_per_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    patchy = Patchy(OwnStore(clock))
    store = SharedOrOwn(patchy, clock)
    for outage in (1, 2):
        patchy.works = False
        asked = patchy.asked
        fail(store, 2)
        assert patchy.asked == asked + 1
        clock.advance(RETRY_S)
        see(store)
        assert patchy.asked == asked + 2
        patchy.works = True
        clock.advance(RETRY_S)
        assert see(store) == ("closed", 0)
        assert len(caplog.records) == outage
