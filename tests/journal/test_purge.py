"""What is purged is gone from every byte of the journal, and the rest is as it was."""

import itertools
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from parsimony_kernel.core.chat import ModelRequest
from parsimony_kernel.core.events import RunCompleted, RunStarted, TextDelta
from parsimony_kernel.storage import database
from parsimony_kernel.storage import journal as purging
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.journal import Purged, SqliteJournal, old_copies, purge
from parsimony_kernel.storage.run_log import JournalEffects, SentLog, sent_by
from parsimony_kernel.testing.manual_clock import START, ManualClock
from tests.journal.questions import question
from tests.races import Race
from tests.tiers import every

DAY = 86_400.0
CANARY = "kittiwake"
BEFORE = START + timedelta(days=5)
QUESTION = question("a", "n", f"{CANARY} {'x' * 9_000}")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / ".ockham" / "journal.sqlite"


@pytest.fixture
def journal(place: Path, clock: ManualClock) -> Iterator[SqliteJournal]:
    with closing(SqliteJournal(place, clock)) as opened:
        yield opened


def told(journal: SqliteJournal, run_id: str, word: str, *, notebook: str = "n.ipynb") -> None:
    """A finished turn whose every field says ``word``."""
    journal.begin_turn(
        run_id, notebook=notebook, cell_key=f"cell of {run_id}", request=word, model="offline"
    )
    journal.append(run_id, RunStarted(run_id=run_id, request=word, model="offline"))
    journal.append(run_id, TextDelta(content=f"{word} " * 700))
    journal.append(run_id, RunCompleted(summary=word))
    SentLog(journal, run_id).put_down("", "m", ModelRequest([{"content": word}]))
    journal.end_turn(run_id, "done", word)


def aged(journal: SqliteJournal, clock: ManualClock) -> None:
    """Two old turns that say the canary, ten days, and a new one."""
    told(journal, "old1", CANARY)
    told(journal, "old2", CANARY)
    clock.advance(10 * DAY)
    told(journal, "new", "heron")


def found_in(folder: Path, word: str) -> list[str]:
    return [p.name for p in folder.glob("journal.sqlite*") if word.encode() in p.read_bytes()]


def test_only_purged_bytes_go(journal: SqliteJournal, place: Path, clock: ManualClock) -> None:
    aged(journal, clock)
    before = {turn.run_id: turn for turn in journal.turns()}
    kept = journal.events("new")
    assert found_in(place.parent, CANARY)
    done = purge(journal, BEFORE)
    assert (done.turns, done.kept, done.unfinished) == (2, 0, "")
    assert found_in(place.parent, CANARY) == []
    assert found_in(place.parent, "heron")
    assert journal.verify() is None
    assert journal.events("old1") == () == journal.events("old2")
    assert journal.events("new") == kept
    assert [len(sent_by(journal, run)) for run in ("old1", "old2", "new")] == [0, 0, 1]
    after = {turn.run_id: turn for turn in journal.turns()}
    assert after["new"] == before["new"]
    for run_id in ("old1", "old2"):
        was, now = before[run_id], after[run_id]
        assert (now.request, now.summary) == ("", "")
        assert (now.ordinal, now.cell_key, now.status) == (was.ordinal, was.cell_key, was.status)
        assert (now.started_at, now.ended_at) == (was.started_at, was.ended_at)
    assert [turn.run_id for turn in journal.turns()] == ["old1", "old2", "new"]
    ordinal = journal.begin_turn("r", notebook="n.ipynb", cell_key="c", request="?", model="m")
    assert ordinal == 4


def test_younger_entries_stay(journal: SqliteJournal, clock: ManualClock) -> None:
    aged(journal, clock)
    assert purge(journal, START).turns == 0
    assert purge(journal, START + timedelta(days=10)).turns == 2
    assert purge(journal, START + timedelta(days=11)).turns == 1
    assert journal.verify() is None


def test_answerable_question_stays(journal: SqliteJournal, clock: ManualClock, place: Path) -> None:
    journal.begin_turn("a", notebook="n", cell_key="c", request=CANARY, model="m")
    journal.append("a", TextDelta(content=CANARY))
    journal.suspend(QUESTION)
    journal.end_turn("a", "suspended", CANARY)
    clock.advance(7 * DAY)
    left = purge(journal, BEFORE)
    assert (left.turns, left.kept) == (0, 1)
    assert [row.record for row in journal.pending()] == [QUESTION]
    clock.advance(1)
    assert purge(journal, BEFORE).turns == 1
    assert (journal.pending(), found_in(place.parent, CANARY)) == ((), [])


def test_question_of_replaced_turn_is_purged(journal: SqliteJournal, clock: ManualClock) -> None:
    journal.begin_turn("a", notebook="n", cell_key="c", request=CANARY, model="m")
    journal.suspend(QUESTION)
    journal.end_turn("a", "suspended", CANARY)
    journal.begin_turn("b", notebook="n", cell_key="c", request="again", model="m")
    journal.end_turn("b", "done")
    clock.advance(10 * DAY)
    assert purge(journal, BEFORE).turns == 2
    assert [turn.status for turn in journal.turns()] == ["replaced", "done"]


def test_compaction_waits_for_turn(journal: SqliteJournal, clock: ManualClock, place: Path) -> None:
    aged(journal, clock)
    journal._alive = lambda pid, since: pid == 7
    for run, pid in (("r", 7), ("killed", 8)):
        journal.pid = pid
        journal.begin_turn(run, notebook=run, cell_key="c", request="robin", model="m")
    journal.append("r", TextDelta(content="robin"))
    clock.advance(10 * DAY)
    late = START + timedelta(days=15)
    done = purge(journal, late)
    assert (done.turns, done.kept) == (3, 2)
    assert "copied while a turn runs" in done.unfinished
    assert len(journal.events("r")) == 1
    journal.end_turn("r", "done")
    size = place.stat().st_size
    assert purge(journal, late) == Purged(0, 1)
    assert place.stat().st_size < size
    assert found_in(place.parent, CANARY) == []


def test_uncertain_write_stays(journal: SqliteJournal, clock: ManualClock, place: Path) -> None:
    told(journal, "open", "robin")
    told(journal, "ended", CANARY)
    JournalEffects(journal, "open").intend("k1", "send", {"to": "robin"})
    ended = JournalEffects(journal, "ended")
    ended.intend("k2", "send", {"to": CANARY})
    ended.commit("k2", CANARY)
    clock.advance(10 * DAY)
    done = purge(journal, BEFORE)
    assert (done.turns, done.kept) == (1, 1)
    assert found_in(place.parent, CANARY) == []
    standing = JournalEffects(journal, "open").standing("k1")
    assert standing is not None
    assert len(journal.events("open")) == 3


@pytest.mark.parametrize(
    "meanwhile",
    [
        "INSERT INTO effects VALUES ('k', 'old2', '', '', 'intended', 'null')",
        f"UPDATE turns SET ended_at = '{BEFORE.isoformat()}' WHERE run_id = 'old2'",
    ],
    ids=["needed", "resumed and ended"],
)
def test_turn_that_is_needed_or_goes_on_meanwhile_stays(
    journal: SqliteJournal, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    aged(journal, clock)
    empty = purging._empty

    def while_another_writes(db: sqlite3.Connection, run_id: str) -> bool:
        db.execute(meanwhile)
        return empty(db, run_id)

    monkeypatch.setattr(purging, "_BATCH", 1)
    monkeypatch.setattr(purging, "_empty", while_another_writes)
    done = purge(journal, BEFORE)
    assert (done.turns, done.kept) == (1, 1)
    assert (journal.events("old1"), len(journal.events("old2"))) == ((), 3)


def test_old_orphans_are_purged(journal: SqliteJournal, clock: ManualClock, place: Path) -> None:
    journal.append("stray", TextDelta(content=CANARY))
    journal.append("half", TextDelta(content="robin"))
    clock.advance(10 * DAY)
    journal.append("half", TextDelta(content="robin"))
    assert purge(journal, BEFORE).turns == 1
    assert found_in(place.parent, CANARY) == []
    assert len(journal.events("half")) == 2


@pytest.mark.parametrize(
    "change", ["body = '', run_id = '' WHERE seq = 8", "at = '2020' WHERE seq = 2"]
)
def test_entry_emptied_without_purge_is_tampering(
    journal: SqliteJournal, place: Path, clock: ManualClock, change: str
) -> None:
    aged(journal, clock)
    purge(journal, BEFORE)
    assert journal.verify() is None
    with closing(sqlite3.connect(place)) as db:
        db.execute(f"UPDATE events SET {change}")
        db.commit()
    assert journal.verify() is not None


def test_blocking_reader_is_reported_and_purge_resumes(
    place: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.01)
    with closing(SqliteJournal(place, clock)) as journal:
        aged(journal, clock)
        with closing(sqlite3.connect(place, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT COUNT(*) FROM turns").fetchone()
            done = purge(journal, BEFORE)
            assert done.turns == 2
            assert "Purge again later" in done.unfinished
        assert found_in(place.parent, CANARY)
        assert purge(journal, BEFORE) == Purged(0, 0)
        assert found_in(place.parent, CANARY) == []


_PURGE = """
from datetime import datetime, timedelta
from parsimony_kernel.core.events import TextDelta
from parsimony_kernel.storage.journal import SqliteJournal, purge
from parsimony_kernel.testing.manual_clock import START, ManualClock
clock = ManualClock()
clock.advance(10 * 86400.0)
journal = SqliteJournal(place, clock)
wait()
if int(me[1:]) % 2:
    print(purge(journal, START + timedelta(days=5)).turns)
else:
    for number in range(40):
        journal.append(me, TextDelta(content=str(number)))
    print(0)
journal.close()
"""


def test_purges_beside_writers_lose_nothing(place: Path, clock: ManualClock, race: Race) -> None:
    with closing(SqliteJournal(place, clock)) as journal:
        for number in range(20):
            told(journal, f"old{number}", CANARY)
    assert sum(map(int, race(_PURGE, place))) == 20
    with closing(SqliteJournal(place, clock)) as journal:
        assert journal.verify() is None
        assert {turn.request for turn in journal.turns()} == {""}
        for writer in ("n0", "n2", "n4", "n6"):
            contents = [getattr(event, "content", "") for event in journal.events(writer)]
            assert contents == [str(number) for number in range(40)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is forked and killed")
@every(9)
def test_purge_killed_anywhere_is_finished_later(
    stride: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "_BATCH", 1)
    for number in itertools.count(1, stride):
        place = tmp_path / str(number) / "journal.sqlite"
        clock = ManualClock()
        with closing(SqliteJournal(place, clock)) as journal:
            aged(journal, clock)
        pid = os.fork()
        if pid == 0:
            _purge_and_die_at(place, clock, number)
        ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with closing(SqliteJournal(place, clock)) as journal:
            assert journal.verify() is None
            assert len(journal.events("new")) == 3
            assert purge(journal, BEFORE).unfinished == ""
            assert journal.verify() is None
            assert found_in(place.parent, CANARY) == []
        if ended == 0:
            assert number > 40
            return
        assert ended == -signal.SIGKILL


def _purge_and_die_at(place: Path, clock: ManualClock, number: int) -> None:
    """In a child: purge, and be killed at the statement of this number."""
    try:
        journal = SqliteJournal(place, clock)
        counted = itertools.count(1)

        def trace(_statement: str) -> None:
            if next(counted) == number:
                os.kill(os.getpid(), signal.SIGKILL)

        journal.connection().set_trace_callback(trace)
        purge(journal, BEFORE)
        os._exit(0)
    finally:
        os._exit(3)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the limit is that of a process")
@pytest.mark.parametrize("most", [0, 4_096, 12_000, 24_000])
def test_purge_without_disk_space_loses_nothing(place: Path, clock: ManualClock, most: int) -> None:
    with closing(SqliteJournal(place, clock)) as journal:
        aged(journal, clock)
    pid = os.fork()
    if pid == 0:
        _purge_within(place, clock, most)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    with closing(SqliteJournal(place, clock)) as journal:
        assert journal.verify() is None
        assert len(journal.events("new")) == 3
        told_of = [bool(turn.request) for turn in journal.turns()]
        assert told_of in ([True, True, True], [False, False, True])
        assert [bool(journal.events(run)) for run in ("old1", "old2", "new")] == told_of
        assert purge(journal, BEFORE).unfinished == ""
        assert found_in(place.parent, CANARY) == []


def _purge_within(place: Path, clock: ManualClock, most: int) -> None:
    """In a child: purge where no file grows beyond ``most`` bytes; 0 when that is told."""
    import resource

    status = 3
    try:
        journal = SqliteJournal(place, clock)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        try:
            status = 0 if purge(journal, BEFORE).unfinished else 4
        except JournalError as exc:
            status = 0 if "again" in str(exc) else 5
    finally:
        os._exit(status)


def test_old_backups_are_purged_and_published_files_kept(tmp_path: Path) -> None:
    for name in ("replaced/a", "replaced/b/c", "datasets/b/d.parquet"):
        path = tmp_path / ".ockham" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
        os.utime(path, (START.timestamp(), START.timestamp()))
    (tmp_path / ".ockham" / "replaced" / "link").symlink_to(tmp_path)
    assert old_copies(tmp_path, START) == ()
    names = [path.name for path in old_copies(tmp_path, START + timedelta(days=1))]
    assert names == ["a", "c"]
