"""Breakers whose state processes share: one set of rules, and places to keep what they say."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.journal.breakers import JournalBreakers
from parsimony_kernel.journal.database import MEMORY
from parsimony_kernel.journal.store import SqliteJournal
from parsimony_kernel.limits.breaker_store import (
    Admission,
    BreakerStore,
    OwnStore,
    Rule,
    SharedOrOwn,
    Sight,
    StoreError,
    T,
    Terms,
    Word,
    admit,
    hear,
    look,
)
from parsimony_kernel.testing.clock import START, ManualClock

TERMS = Terms(failure_threshold=5, reset_timeout_s=60, probe_lease_s=300)
LONG_AGO = datetime(1970, 1, 2, tzinfo=UTC)


def ask(store: BreakerStore, name: str = "m") -> Admission:
    return store.change(name, partial(admit, TERMS))


def tell(store: BreakerStore, word: Word, epoch: int | None, name: str = "m") -> None:
    assert epoch is not None
    store.change(name, partial(hear, TERMS, word, epoch))


def see(store: BreakerStore, name: str = "m") -> Sight:
    return store.change(name, partial(look, TERMS))


def fail(store: BreakerStore, times: int = 5) -> None:
    for _ in range(times):
        tell(store, "failed", ask(store).epoch)


@pytest.fixture(params=["own", "journal"])
def place(request: pytest.FixtureRequest) -> Callable[[ManualClock], BreakerStore]:
    def make(clock: ManualClock) -> BreakerStore:
        if request.param == "own":
            return OwnStore(clock)
        journal = SqliteJournal(MEMORY)
        request.addfinalizer(journal.close)
        return JournalBreakers(journal, clock)

    return make


Place = Callable[[ManualClock], BreakerStore]


def test_five_failures_in_a_row_open_it_and_a_success_between_them_does_not_count_on(
    place: Place,
) -> None:
    store = place(ManualClock())
    fail(store, 4)
    tell(store, "succeeded", ask(store).epoch)
    fail(store, 4)
    assert see(store) == Sight("closed", 4)
    fail(store, 1)
    assert see(store) == Sight("open", 5)
    assert ask(store) == Admission(None, 60)


def test_after_the_wait_one_probe_is_let_through_and_its_success_closes(place: Place) -> None:
    clock = ManualClock()
    store = place(clock)
    fail(store)
    clock.advance(59)
    assert ask(store) == Admission(None, 1)
    clock.advance(1)
    assert see(store).state == "half_open"
    probe = ask(store)
    assert probe.epoch is not None
    assert ask(store) == Admission(None, 60)
    tell(store, "succeeded", probe.epoch)
    assert see(store) == Sight("closed", 0)
    tell(store, "failed", probe.epoch)
    assert see(store) == Sight("closed", 0)


def test_a_probe_that_fails_opens_it_for_the_whole_time_again(place: Place) -> None:
    clock = ManualClock()
    store = place(clock)
    fail(store)
    clock.advance(60)
    tell(store, "failed", ask(store).epoch)
    assert ask(store) == Admission(None, 60)


def test_a_probe_that_fails_opens_it_for_those_too_who_bear_more_failures(place: Place) -> None:
    clock = ManualClock()
    store = place(clock)
    fail(store)
    clock.advance(60)
    patient = Terms(failure_threshold=100, reset_timeout_s=60, probe_lease_s=300)
    probe = store.change("m", partial(admit, patient))
    assert probe.epoch is not None
    store.change("m", partial(hear, patient, "failed", probe.epoch))
    assert see(store).state == "open"


def test_a_probe_that_is_cancelled_frees_its_place_at_once(place: Place) -> None:
    clock = ManualClock()
    store = place(clock)
    fail(store)
    clock.advance(60)
    tell(store, "released", ask(store).epoch)
    assert ask(store).epoch is not None


def test_a_probe_that_dies_frees_its_place_after_its_lease_and_its_late_word_is_nothing(
    place: Place,
) -> None:
    clock = ManualClock()
    store = place(clock)
    fail(store)
    clock.advance(60)
    dead = ask(store)
    clock.advance(299)
    assert ask(store) == Admission(None, 1)
    clock.advance(1)
    second = ask(store)
    assert second.epoch is not None
    for word in ("succeeded", "failed", "released"):
        tell(store, word, dead.epoch)
        assert see(store).state == "half_open"
        assert ask(store).epoch is None
    tell(store, "succeeded", second.epoch)
    assert see(store).state == "closed"


def test_a_call_from_before_it_opened_changes_nothing_when_it_ends(place: Place) -> None:
    clock = ManualClock()
    store = place(clock)
    older = ask(store)
    fail(store)
    tell(store, "succeeded", older.epoch)
    assert see(store).state == "open"


def test_each_name_has_a_state_of_its_own(place: Place) -> None:
    store = place(ManualClock())
    fail(store)
    assert (see(store).state, see(store, "other").state) == ("open", "closed")


def test_a_name_may_be_any_text(place: Place) -> None:
    store = place(ManualClock())
    name = "ü 'x'; DROP TABLE breakers \ud800 \0"
    tell(store, "failed", ask(store, name).epoch, name)
    assert see(store, name).failures == 1


def test_when_the_clock_is_set_back_nobody_waits_longer_than_the_full_time() -> None:
    journal = SqliteJournal(MEMORY)
    ahead = JournalBreakers(journal, ManualClock(START + timedelta(days=1)))
    fail(ahead)
    clock = ManualClock()
    store = JournalBreakers(journal, clock)
    assert ask(store) == Admission(None, 60)
    clock.advance(60)
    probe = ask(store)
    assert probe.epoch is not None
    journal.close()


def test_when_the_clock_is_set_back_a_dead_probe_holds_its_place_for_one_lease() -> None:
    journal = SqliteJournal(MEMORY)
    later = ManualClock(START + timedelta(days=1))
    ahead = JournalBreakers(journal, later)
    fail(ahead)
    later.advance(60)
    assert ask(ahead).epoch is not None
    clock = ManualClock()
    store = JournalBreakers(journal, clock)
    assert ask(store).epoch is None
    clock.advance(300)
    assert ask(store).epoch is not None
    journal.close()


history = st.lists(
    st.sampled_from(["ask", "succeeded", "failed", "released", "wait", "jump back", "jump on"]),
    max_size=60,
)


@given(history)
def test_whatever_happens_one_probe_at_most_is_out_and_no_wait_is_longer_than_its_length(
    happens: list[str],
) -> None:
    terms = Terms(failure_threshold=1, reset_timeout_s=10, probe_lease_s=30)
    journal = SqliteJournal(MEMORY)
    now = LONG_AGO
    out: list[int] = []
    for what in happens:
        store = JournalBreakers(journal, ManualClock(now))
        if what == "ask":
            before = store.change("m", partial(look, terms)).state
            admission = store.change("m", partial(admit, terms))
            if admission.epoch is None:
                assert 0 < admission.retry_in_s <= 10
            else:
                assert before != "open"
                out.append(admission.epoch)
                if before == "half_open":
                    assert store.change("m", partial(admit, terms)).epoch is None
        elif what in ("succeeded", "failed", "released"):
            word: Word = what  # type: ignore[assignment]
            if out:
                store.change("m", partial(hear, terms, word, out.pop(0)))
        else:
            now += timedelta(seconds={"wait": 10, "jump back": -1000, "jump on": 1000}[what])
    store = JournalBreakers(journal, ManualClock(now))
    store.change("m", partial(look, terms))
    after = JournalBreakers(journal, ManualClock(now + timedelta(seconds=30)))
    probe = after.change("m", partial(admit, terms))
    assert probe.epoch is not None
    after.change("m", partial(hear, terms, "succeeded", probe.epoch))
    assert after.change("m", partial(look, terms)) == Sight("closed", 0)
    journal.close()


# -- processes

_PROBER = """
from functools import partial
from parsimony_kernel.journal.breakers import JournalBreakers
from parsimony_kernel.journal.store import SqliteJournal
from parsimony_kernel.limits.breaker_store import Terms, admit
journal = SqliteJournal(place)
store = JournalBreakers(journal)
wait()
admission = store.change("m", partial(admit, Terms(5, 60, 300)))
print("waits" if admission.epoch is None else "probes")
journal.close()
"""

_FAILER = """
from functools import partial
from parsimony_kernel.journal.breakers import JournalBreakers
from parsimony_kernel.journal.store import SqliteJournal
from parsimony_kernel.limits.breaker_store import Terms, admit, hear
journal = SqliteJournal(place)
store = JournalBreakers(journal)
terms = Terms(1000, 60, 300)
wait()
for _ in range(20):
    epoch = store.change("m", partial(admit, terms)).epoch
    store.change("m", partial(hear, terms, "failed", epoch))
print("done")
journal.close()
"""

# It takes the only place, says so, and hangs until it is killed.
_DOOMED = """
import sys
from datetime import datetime
from functools import partial
from parsimony_kernel.journal.breakers import JournalBreakers
from parsimony_kernel.journal.store import SqliteJournal
from parsimony_kernel.limits.breaker_store import Terms, admit
from parsimony_kernel.testing.clock import ManualClock
clock = ManualClock(datetime.fromisoformat(sys.argv[2]))
store = JournalBreakers(SqliteJournal(sys.argv[1]), clock)
print(store.change("m", partial(admit, Terms(5, 60, 300))).epoch, flush=True)
sys.stdin.readline()
"""


def test_of_eight_processes_one_probes(
    tmp_path: Path, race: Callable[[str, Path], list[str]]
) -> None:
    path = tmp_path / "journal.sqlite"
    journal = SqliteJournal(path)
    fail(JournalBreakers(journal, ManualClock(LONG_AGO)))
    journal.close()
    assert sorted(race(_PROBER, path)) == ["probes"] + ["waits"] * 7


def test_no_failure_of_eight_processes_is_lost(
    tmp_path: Path, race: Callable[[str, Path], list[str]]
) -> None:
    path = tmp_path / "journal.sqlite"
    assert race(_FAILER, path) == ["done"] * 8
    journal = SqliteJournal(path)
    assert see(JournalBreakers(journal)).failures == 160
    journal.close()


def test_a_probe_that_is_killed_frees_its_place_after_its_lease(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    journal = SqliteJournal(path)
    clock = ManualClock()
    store = JournalBreakers(journal, clock)
    fail(store)
    clock.advance(60)
    with subprocess.Popen(
        [sys.executable, "-c", _DOOMED, str(path), clock.now().isoformat()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as doomed:
        assert doomed.stdout is not None
        assert doomed.stdout.readline() == "2\n"
        os.kill(doomed.pid, signal.SIGKILL)
    clock.advance(299)
    assert ask(store).epoch is None
    clock.advance(1)
    assert ask(store).epoch == 3
    journal.close()


# -- the file


def test_the_state_outlives_the_process_and_leaves_the_chain_of_events_whole(
    tmp_path: Path,
) -> None:
    path = tmp_path / "journal.sqlite"
    first = SqliteJournal(path)
    fail(JournalBreakers(first, ManualClock()))
    first.close()
    second = SqliteJournal(path)
    assert see(JournalBreakers(second, ManualClock())) == Sight("open", 5)
    assert second.verify() is None
    second.close()


@pytest.mark.parametrize(
    "damaged", ["", "{", '{"state": "ajar"}', '{"opened_at": NaN}', '{"failures": -1}', "[]"]
)
def test_a_damaged_state_starts_anew_with_a_warning(
    damaged: str, caplog: pytest.LogCaptureFixture
) -> None:
    journal = SqliteJournal(MEMORY)
    store = JournalBreakers(journal, ManualClock())
    fail(store)
    journal.database._db.execute("UPDATE breakers SET state = ?", (damaged,))
    assert ask(store).epoch == 0
    assert "'m' is damaged" in caplog.text
    fail(store)
    assert see(store).state == "open"
    journal.close()


def test_a_journal_that_was_taken_away_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    journal = SqliteJournal(path)
    store = JournalBreakers(journal, ManualClock())
    fail(store)
    for part in tmp_path.iterdir():
        part.unlink()
    assert see(store) == Sight("closed", 0)
    journal.close()


def test_a_journal_that_cannot_be_written_is_a_sentence() -> None:
    journal = SqliteJournal(MEMORY)
    journal.close()
    with pytest.raises(StoreError, match="is closed: open it again"):
        ask(JournalBreakers(journal))


# -- when the shared place is gone


class Patchy:
    """A store that can be reached only while ``works``."""

    def __init__(self, inner: BreakerStore) -> None:
        self._inner = inner
        self.works = True

    def change(self, name: str, rule: Rule[T]) -> T:
        if not self.works:
            raise StoreError("The state cannot be reached: check the server.")
        return self._inner.change(name, rule)


def test_without_the_shared_state_a_process_counts_for_itself_and_warns_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    patchy = Patchy(OwnStore(clock))
    store = SharedOrOwn(patchy, clock)
    patchy.works = False
    fail(store)
    assert see(store).state == "open"
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    patchy.works = True
    assert see(store).state == "closed"


def test_a_probe_whose_word_cannot_be_told_holds_its_place_no_longer_than_its_lease() -> None:
    clock = ManualClock()
    shared = OwnStore(clock)
    patchy = Patchy(shared)
    store = SharedOrOwn(patchy, clock)
    fail(store)
    clock.advance(60)
    probe = ask(store)
    patchy.works = False
    tell(store, "succeeded", probe.epoch)
    patchy.works = True
    assert ask(store).epoch is None
    clock.advance(300)
    assert ask(store).epoch is not None
