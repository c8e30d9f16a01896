"""The seal of a journal: what another program changes in the file is found."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from parsimony_kernel.core.chat import ModelRequest
from parsimony_kernel.core.events import TextDelta
from parsimony_kernel.storage import seal
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.storage.keyring import Keyring
from parsimony_kernel.storage.run_log import JournalEffects, SentLog

_QUESTION = (
    "INSERT INTO suspensions (nonce, run_id, record) VALUES ('q', 'a', '{\"approve\": \"ask\"}')"
)


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    return Keyring(tmp_path / "keys")


@pytest.fixture
def place(tmp_path: Path, keyring: Keyring) -> Path:
    """A journal with two turns, a question, two writes and two requests."""
    path = tmp_path / ".ockham" / "journal.sqlite"
    with closing(SqliteJournal(path, keyring=keyring)) as journal:
        for run in ("a", "b"):
            journal.begin_turn(run, notebook="n", cell_key=run, request="add", model="m")
            for number in range(3):
                journal.append(run, TextDelta(content=f"{run}{number}"))
            JournalEffects(journal, run).intend(f"key of {run}", "send", {"to": run})
            request = ModelRequest([{"role": "user"}], [])
            SentLog(journal, run).put_down("now", "m", request)
            journal.end_turn(run, "done", "Done.")
        with journal.transaction() as db:
            db.execute(_QUESTION)
        journal.witness("datasets/d/log.jsonl", "ab12")
        assert journal.verify() is None
    return path


def changed(path: Path, script: str) -> None:
    """What another program does to the file."""
    with closing(sqlite3.connect(path)) as db:
        db.executescript(script)


@pytest.fixture
def opened(place: Path, keyring: Keyring) -> Iterator[SqliteJournal]:
    with closing(SqliteJournal(place, keyring=keyring)) as journal:
        yield journal


TAMPERINGS = {
    "a turn that came": (
        "INSERT INTO turns (run_id, notebook, cell_key, ordinal, request, model, status, "
        "started_at) VALUES ('c', 'n', 'c', 9, '', 'm', 'done', '')"
    ),
    "the newest entries, counted down": (
        "DELETE FROM events WHERE seq > 4; UPDATE sqlite_sequence SET seq = 4"
    ),
    "all entries, counted down": "DELETE FROM events; UPDATE sqlite_sequence SET seq = 0",
    "an entry that was emptied": "UPDATE events SET run_id = '', body = '' WHERE seq = 2",
    "a question that came": _QUESTION.replace("'q'", "'r'"),
    "a line of a log that came": "INSERT INTO log_lines VALUES ('l', 'forged')",
    "no text any more": "UPDATE turns SET request = x'ff00' WHERE run_id = 'a'",
    "two rows swapped": (
        "UPDATE turns SET request = CASE run_id WHEN 'a' THEN 'add ' ELSE 'add' END"
    ),
    "the sums": "UPDATE seal SET sums = '{}'",
    "the seal": "UPDATE seal SET mac = 'ab'",
    "that nobody sealed it": "UPDATE seal SET key_id = 'nobody'",
    "that it is new": "UPDATE seal SET key_id = '', sums = '', mac = ''",
    "no seal": "DELETE FROM seal",
    "two seals": "INSERT INTO seal SELECT * FROM seal",
    "no table of seals": "DROP TABLE seal",
}


@pytest.mark.parametrize("script", TAMPERINGS.values(), ids=TAMPERINGS)
def test_foreign_change_stays_found(opened: SqliteJournal, place: Path, script: str) -> None:
    changed(place, script)
    assert opened.verify() is not None
    opened.append("a", TextDelta(content="later"))
    opened.begin_turn("z", notebook="m", cell_key="z", request="more", model="m")
    assert opened.verify() is not None


def test_rebuilt_chain_does_not_fit_seal(opened: SqliteJournal, place: Path) -> None:
    with closing(sqlite3.connect(place, isolation_level=None)) as db:
        rows = db.execute("SELECT run_id, at, body FROM events ORDER BY seq").fetchall()
        db.executescript("DELETE FROM events; DELETE FROM sqlite_sequence")
        for run_id, at, body in rows:
            seal.link(db, run_id, at, body.replace("a1", "lie"))
        assert seal.first_bad(db) is None
    assert opened.verify() == (
        0,
        "the rows of 'events' are not those that were written: 6 are there and 6 were sealed",
    )


def taken_back(journal: SqliteJournal) -> None:
    """A transaction that deletes every turn and fails."""
    try:
        with journal.transaction() as db:
            db.execute("DELETE FROM turns")
            raise ZeroDivisionError
    except ZeroDivisionError:
        assert journal.turns()


def test_honest_use_keeps_the_seal(opened: SqliteJournal, place: Path, keyring: Keyring) -> None:
    with closing(SqliteJournal(place, keyring=keyring)) as other:
        for number in range(5):
            opened.append("a", TextDelta(content=str(number)))
            other.append("b", TextDelta(content=str(number)))
        taken_back(other)
        keyring.rotate()
        other.end_turn("b", "done")
    opened.append("a", TextDelta(content="last"))
    assert opened.verify() is None


def test_journal_without_its_key_is_usable_and_unverified(place: Path, tmp_path: Path) -> None:
    elsewhere = Keyring(tmp_path / "other keys")
    with closing(SqliteJournal(place, keyring=elsewhere)) as journal:
        assert len(journal.turns()) == 2
        journal.append("a", TextDelta(content="from elsewhere"))
        assert (journal.verify() or (1, ""))[1].startswith("the key that sealed it is not here")
        journal.accept({})
        journal.append("a", TextDelta(content="accepted"))
        assert journal.verify() is None


@pytest.mark.parametrize("is_restored", [True, False])
def test_damaged_key_file_stops_a_write_and_its_remedies_work(
    place: Path, keyring: Keyring, tmp_path: Path, is_restored: bool
) -> None:
    file = tmp_path / "keys" / "keys.json"
    whole = file.read_bytes()
    file.write_bytes(whole[:-9])
    with closing(SqliteJournal(place, keyring=keyring)) as journal:
        for act in (lambda: journal.append("a", TextDelta(content="x")), journal.verify):
            with pytest.raises(JournalError, match=r"keys.json' is damaged: restore .* or delete"):
                act()
        file.write_bytes(whole) if is_restored else file.unlink()
        journal.append("a", TextDelta(content="x"))
        if not is_restored:
            assert keyring.current().key_id != json.loads(whole)[-1]["key_id"]
            assert "the key that sealed it is not here" in str(journal.verify())
            journal.accept({})  # as 'jupyter parsimony trust' does
            journal.append("a", TextDelta(content="y"))
        assert journal.verify() is None


def test_journal_without_any_key_says_so(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("a file, where the folder of keys would lie")
    with closing(
        SqliteJournal(tmp_path / "j.sqlite", keyring=Keyring(tmp_path / "keys"))
    ) as journal:
        journal.append("a", TextDelta(content="x"))
        assert (journal.verify() or (1, ""))[1].startswith("nothing seals it")
