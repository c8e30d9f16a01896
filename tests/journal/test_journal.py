"""The journal on a real disk, with real processes."""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from parsimony_kernel.core.events import (
    AgentError,
    RunCancelled,
    RunStarted,
    TextDelta,
    ToolEvent,
    UserInputRequested,
)
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.storage import database
from parsimony_kernel.storage.database import JournalError, set_aside
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.storage.keyring import GRACE_S
from parsimony_kernel.testing.manual_clock import ManualClock
from tests.journal.questions import question
from tests.races import Race

AGAIN = RunStarted(run_id="a", request="again", model="offline")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["file", "memory"])
def journal(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> Iterator[SqliteJournal]:
    path = tmp_path / ".ockham" / "journal.sqlite" if request.param == "file" else ":memory:"
    opened = SqliteJournal(path, clock)
    opened.connection_file, opened.pid = "kernel-1.json", 17
    opened._alive = lambda pid, _since: pid == 2
    yield opened
    opened.close()


def _begin(journal: SqliteJournal, run_id: str, cell: str = "", notebook: str = "n.ipynb") -> int:
    told = {"cell_key": cell or run_id, "request": f"request of {run_id}", "model": "offline"}
    return journal.begin_turn(run_id, notebook=notebook, **told)


# -- turns


def test_turns_are_numbered_per_notebook_in_order(journal: SqliteJournal) -> None:
    assert [_begin(journal, "a"), _begin(journal, "b")] == [1, 2]
    assert _begin(journal, "c", notebook="other.ipynb") == 1
    assert [turn.run_id for turn in journal.turns("n.ipynb")] == ["a", "b"]
    assert [turn.run_id for turn in journal.turns()] == ["a", "b", "c"]


def test_turn_begins_and_ends(journal: SqliteJournal, clock: ManualClock) -> None:
    _begin(journal, "a")
    clock.advance(5)
    journal.end_turn("a", "done", "all is well")
    (done,) = journal.turns()
    assert (done.status, done.request, done.model) == ("done", "request of a", "offline")
    assert (done.summary, done.connection_file, done.pid) == ("all is well", "kernel-1.json", 17)
    assert done.started_at == "2026-01-01T00:00:00+00:00"
    assert done.ended_at == "2026-01-01T00:00:05+00:00"


def test_rerun_cell_replaces_its_turn(journal: SqliteJournal) -> None:
    _begin(journal, "a", cell="cell")
    _begin(journal, "x", cell="cell", notebook="other.ipynb")
    journal.suspend(question("a", "n"))
    assert _begin(journal, "b", cell="cell") == 2
    journal.end_turn("a", "done", "late")
    assert journal.resume_turn("n", AGAIN) is False
    statuses = {turn.run_id: turn.status for turn in journal.turns()}
    assert statuses == {"a": "replaced", "b": "running", "x": "running"}


def test_turn_of_dead_process_is_cancelled(journal: SqliteJournal) -> None:
    for run_id, pid in (("dead", 1), ("unknown", 0), ("done", 1), ("alive", 2)):
        journal.pid = pid
        journal.begin_turn(run_id, notebook="n", cell_key=run_id, request="", model="")
    journal.end_turn("done", "done")
    journal.abandon_running("n")
    journal.abandon_running("n")
    assert journal.events("dead") == (
        RunCancelled(reason="the kernel ended in the middle of the turn"),
    )
    assert journal.events("alive") == journal.events("done") == ()
    assert {turn.run_id: turn.status for turn in journal.turns("n")} == {
        "dead": "cancelled",
        "alive": "running",
        "unknown": "cancelled",
        "done": "done",
    }


# -- events


def test_events_round_trip_in_order(journal: SqliteJournal) -> None:
    events = [
        RunStarted(run_id="a", request="größe\0 \u202e", model="offline"),
        TextDelta(content="x" * 100_000),
        ToolEvent(tool_name="t", tool_call_id="1", arguments={"k": [1, {"n": None}]}),
        AgentError(message="m", failure=Failure(FailureKind.tool_error, "e", ("b",))),
        UserInputRequested(question="q", choices=("1", "2"), suspension_record=question("a", "n")),
    ]
    for event in events:
        journal.append("a", event)
        journal.append("b", TextDelta(content="other"))
    assert list(journal.events("a")) == events
    assert journal.events("nobody") == ()
    assert journal.verify() is None


def test_live_object_in_event_is_kept_as_text(journal: SqliteJournal) -> None:
    failure = Failure(FailureKind.tool_error, "e", partial_data=threading.Lock())
    journal.append("a", AgentError(message="m", failure=failure))
    (event,) = journal.events("a")
    assert isinstance(event, AgentError)
    assert event.failure is not None
    assert "lock" in event.failure.partial_data


def test_threads_append_to_one_chain(journal: SqliteJournal) -> None:
    def write(name: str) -> None:
        for number in range(25):
            journal.append(name, TextDelta(content=str(number)))

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [str(number) for number in range(25)]
    for name in "abcd":
        assert [getattr(e, "content", "") for e in journal.events(name)] == expected
    assert journal.verify() is None


# -- questions


def test_pending_questions_come_newest_first(journal: SqliteJournal) -> None:
    for run_id in ("a", "b"):
        _begin(journal, run_id)
        journal.suspend(question(run_id, f"nonce-{run_id}"))
    pending = journal.pending("n.ipynb")
    assert [row.turn.run_id for row in pending] == ["b", "a"]
    assert pending[1].record == question("a", "nonce-a")
    assert journal.pending("other.ipynb") == ()
    assert len(journal.pending()) == 2


@pytest.mark.parametrize(
    ("asked_at", "is_answerable"),
    [
        ("2026-01-01T00:00:00+00:00", True),
        ("2026-01-01T09:00:00.000001+09:00", True),
        ("2025-12-31T23:59:59.9+00:00", False),
        ("2026-01-01T08:59:59+09:00", False),
        ("2999-01-01T00:00:00Z", True),
        ("soon", True),
        ("", True),
    ],
)
def test_old_question_is_no_longer_answerable(
    journal: SqliteJournal, clock: ManualClock, asked_at: str, is_answerable: bool
) -> None:
    _begin(journal, "a")
    journal.suspend(question("a", "n").model_copy(update={"suspended_at": asked_at}))
    clock.advance(GRACE_S)  # the clock begins at 2026-01-01
    assert len(journal.pending()) == 1
    assert len(journal.pending("n.ipynb", answerable=True)) == is_answerable
    assert journal.pending("other.ipynb", answerable=True) == ()


def test_question_is_answered_once_with_its_turn(journal: SqliteJournal) -> None:
    _begin(journal, "a")
    journal.suspend(question("a", "n"))
    journal.end_turn("a", "suspended", "Which?")
    assert journal.resume_turn("unknown", AGAIN) is False
    journal.connection_file, journal.pid = "kernel-2.json", 18
    assert journal.resume_turn("n", AGAIN) is True
    (turn,) = journal.turns()
    assert (turn.status, turn.ended_at, turn.connection_file) == ("running", "", "kernel-2.json")
    assert turn.pid == 18
    assert journal.events("a") == (AGAIN,)
    journal.suspend(question("a", "n"))
    assert journal.resume_turn("n", AGAIN) is False
    assert (journal.pending(), len(journal.events("a"))) == ((), 1)
    journal.reopen("n")
    assert [row.record for row in journal.pending()] == [question("a", "n")]


def test_question_stays_where_its_turn_cannot_run_again(journal: SqliteJournal) -> None:
    _begin(journal, "a")
    journal.suspend(question("a", "n"))
    journal.end_turn("a", "suspended")
    journal.pid = 2
    journal.begin_turn("b", notebook="n.ipynb", cell_key="b", request="", model="")
    journal.pid = 18
    with pytest.raises(JournalError, match="running in another kernel"):
        journal.resume_turn("n", AGAIN)
    assert len(journal.pending()) == 1
    assert (journal.turns()[0].status, journal.events("a")) == ("suspended", ())


def test_one_of_eight_processes_answers(tmp_path: Path, race: Race) -> None:
    path = tmp_path / "journal.sqlite"
    with closing(SqliteJournal(path)) as journal:
        _begin(journal, "a")
        journal.suspend(question("a", "n"))
        journal.end_turn("a", "suspended")
        assert sorted(race(_ANSWERER, path)) == ["lost"] * 7 + ["won"]
        assert (journal.pending(), len(journal.events("a"))) == ((), 1)


_ANSWERER = """
from parsimony_kernel.core.events import RunStarted
from parsimony_kernel.storage.journal import SqliteJournal
journal = SqliteJournal(place)
wait()
again = RunStarted(run_id="a", request="again", model="offline")
print("won" if journal.resume_turn("n", again) else "lost")
"""


_OPENER = """
from parsimony_kernel.core.events import TextDelta
from parsimony_kernel.storage.journal import SqliteJournal
wait()
journal = SqliteJournal(place)
for number in range(20):
    journal.append(me, TextDelta(content=str(number)))
journal.close()
print("done")
"""


def test_eight_processes_open_one_new_journal(tmp_path: Path, race: Race) -> None:
    path = tmp_path / ".ockham" / "journal.sqlite"
    assert race(_OPENER, path) == ["done"] * 8
    journal = SqliteJournal(path)
    assert journal.verify() is None
    expected = [str(number) for number in range(20)]
    for number in range(8):
        events = journal.events(f"n{number}")
        assert [getattr(event, "content", "") for event in events] == expected
    journal.close()


# -- damage


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A journal of five entries, closed."""
    path = tmp_path / "journal.sqlite"
    journal = SqliteJournal(path)
    for number in range(5):
        journal.append("a", TextDelta(content=f"entry number {number}"))
    journal.close()
    return path


def _change(path: Path, statement: str) -> None:
    """What another program does to the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(statement)


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("DELETE FROM events WHERE seq = 2", (2, "the entry is missing")),
        ("DELETE FROM events WHERE seq = 5", (5, "the entry is missing")),
        ("DELETE FROM events WHERE seq = 1", (1, "the entry is missing")),
        (
            "UPDATE events SET run_id = 'b' WHERE seq = 4",
            (4, "the entry was changed after it was written"),
        ),
        (
            "UPDATE events SET prev = hash WHERE seq = 4",
            (4, "the entry does not follow the one before it"),
        ),
    ],
)
def test_altered_chain_is_found(written: Path, statement: str, finding: tuple[int, str]) -> None:
    _change(written, statement)
    with closing(SqliteJournal(written)) as journal:
        assert journal.verify() == finding


def test_corrupt_entry_is_named_on_read(written: Path) -> None:
    _change(written, "UPDATE events SET body = '{' WHERE seq = 3")
    with (
        closing(SqliteJournal(written)) as journal,
        pytest.raises(JournalError, match=r"Entry 3 in the journal .* is damaged: check"),
    ):
        journal.events("a")


def test_corrupt_question_hides_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "journal.sqlite"
    journal = SqliteJournal(path)
    _begin(journal, "a", cell="one")
    journal.suspend(question("a", "n"))
    _begin(journal, "b", cell="two")
    journal.suspend(question("b", "m"))
    _change(path, "UPDATE suspensions SET record = '{}' WHERE nonce = 'n'")
    assert [row.record.nonce for row in journal.pending()] == ["m"]
    assert "'n'" in caplog.text
    assert "update Parsimony, or run its cell again" in caplog.text
    journal.close()


def _of_format(number: int) -> Callable[[Path], object]:
    def make(path: Path) -> None:
        SqliteJournal(path).close()
        _change(path, f"PRAGMA user_version = {number}")

    return make


@pytest.mark.parametrize(
    ("put", "said"),
    [
        (lambda path: path.write_bytes(b""), "journal --set-aside"),
        (lambda path: path.write_bytes(b"no database, but it is long" * 30), "journal --set-aside"),
        (_of_format(0), "format 0 and this program reads format 7"),
        (_of_format(3), "format 3 and this program reads format 7"),
        (_of_format(99), "format 99 and this program reads format 7"),
        (lambda path: path.symlink_to(path.with_name("elsewhere")), "is a link"),
        (Path.mkdir, "Cannot open the journal"),
        (
            lambda path: path.parent.joinpath("file").write_bytes(b""),
            "a file stands in its place.* set PARSIMONY_WORKSPACE to a folder that can be written",
        ),
    ],
)
def test_foreign_file_is_refused(tmp_path: Path, put: Callable[[Path], object], said: str) -> None:
    path = tmp_path / "journal.sqlite"
    put(path)
    before = {each: each.is_file() and each.read_bytes() for each in tmp_path.iterdir()}
    if (tmp_path / "file").exists():
        path = tmp_path / "file" / ".ockham" / "journal.sqlite"
    with pytest.raises(JournalError, match=said) as caught:
        SqliteJournal(path)
    assert "\n" not in str(caught.value)
    assert {each: each.is_file() and each.read_bytes() for each in tmp_path.iterdir()} == before


def test_blocking_writer_is_named_at_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asked seldom would be starved by others that write all the time."""
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.2)
    path, tries = tmp_path / "journal.sqlite", list[str]()
    with closing(SqliteJournal(path)) as journal, closing(sqlite3.connect(path)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        journal._db.set_trace_callback(tries.append)
        with pytest.raises(JournalError, match="another process holds it; try again"):
            journal.append("a", TextDelta(content="x"))
        assert tries.count("BEGIN IMMEDIATE") > 1  # SQLite itself waits inside of one
        with pytest.raises(JournalError, match="another process holds it; try again"):
            SqliteJournal(path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process is forked")
def test_forked_process_cannot_write_inherited_connection(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.sqlite")
    child = os.fork()
    if not child:
        try:
            journal.append("a", TextDelta(content="from the child"))
        except JournalError as refused:
            os._exit(0 if "before this process was forked" in str(refused) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert journal.events("a") == ()
    journal.close()


def test_closed_journal_says_so(journal: SqliteJournal) -> None:
    journal.close()
    journal.close()
    with pytest.raises(JournalError, match="is closed"):
        journal.turns()


def test_journal_uses_wal_and_syncs_boundaries(tmp_path: Path) -> None:
    statements: list[str] = []
    path = tmp_path / "journal.sqlite"
    journal = SqliteJournal(path)
    _begin(journal, "a")
    journal._db.set_trace_callback(statements.append)

    def last_level() -> str:
        return [s for s in statements if "synchronous" in s][-1]

    journal.append("a", TextDelta(content="x"))
    assert last_level().endswith("NORMAL")
    journal.suspend(question("a", "n"))
    assert last_level().endswith("FULL")
    journal.append("a", TextDelta(content="x"))
    assert last_level().endswith("NORMAL")
    assert journal.resume_turn("n", AGAIN)
    assert last_level().endswith("FULL")
    assert journal._db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    journal.close()


# -- beside a writer, and with the file gone


def test_verify_reads_one_snapshot_beside_writers(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    journal, writer = SqliteJournal(path), SqliteJournal(path)
    journal.append("a", TextDelta(content="first"))
    seen: list[str] = []

    def write(statement: str) -> None:
        seen.append(statement)
        writer.append("b", TextDelta(content="meanwhile"))

    journal._db.set_trace_callback(write)
    assert journal.verify() is None
    assert len(seen) > 3
    journal._db.set_trace_callback(None)
    assert journal.verify() is None
    journal.close()
    writer.close()


def _with_a_log(path: Path) -> SqliteJournal:
    """A journal that is open, with an entry that only its log holds."""
    journal = SqliteJournal(path)
    journal.append("old", TextDelta(content="before"))
    assert path.with_name(path.name + "-wal").stat().st_size
    return journal


@pytest.mark.parametrize("how", ["moved", "deleted", "set aside"])
def test_new_journal_never_meets_old_wal(tmp_path: Path, how: str) -> None:
    """Also while the old one is still open, whose owner hears of it at its next write."""
    path = tmp_path / "journal.sqlite"
    old = _with_a_log(path)
    if how == "moved":
        path.rename(tmp_path / "elsewhere.sqlite")
    elif how == "deleted":
        path.unlink()
    else:
        kept = set_aside(path)
        assert kept is not None
        copy = SqliteJournal(kept)
        assert copy.events("old") == (TextDelta(content="before"),)
        copy.close()
    new = SqliteJournal(path)
    assert new.events("old") == ()
    new.append("new", TextDelta(content="after"))
    old.append("new", TextDelta(content="after"))
    assert "moved or deleted" in old.news()
    assert old.news() == ""
    third = SqliteJournal(path)
    assert len(third.events("new")) == 2
    for journal in (old, new, third):
        assert journal.verify() is None
        journal.close()
    last = SqliteJournal(path)
    assert len(last.events("new")) == 2
    last.close()


def test_no_journal_set_aside_takes_the_place_of_another(tmp_path: Path) -> None:
    path = tmp_path / "my[1].sqlite"
    for _ in range(2):
        SqliteJournal(path).close()
        assert set_aside(path) is not None
    assert len([*tmp_path.glob("*set-aside*.sqlite")]) == 2


def test_set_aside_needs_a_journal(tmp_path: Path) -> None:
    assert set_aside(tmp_path / "journal.sqlite") is None
