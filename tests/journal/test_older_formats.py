"""A journal of an older format is set aside, whole, and a new one begins."""

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from parsimony_kernel.core.events import TextDelta
from parsimony_kernel.session.maintenance import journal_of
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.store import SqliteJournal


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A journal of format 0 with one entry, which a process that was killed left in its log."""
    path, grave = tmp_path / ".ockham" / "journal.sqlite", tmp_path / "killed"
    grave.mkdir()
    with closing(SqliteJournal(path)) as journal:
        with journal.database.transaction() as db:
            db.execute("PRAGMA user_version = 0")
        journal.append("a", TextDelta(content="from before"))
        for each in path.parent.glob("journal.sqlite*"):
            shutil.copy(each, grave)
    for each in path.parent.glob("journal.sqlite*"):
        each.unlink()
    for each in grave.iterdir():
        shutil.move(each, path.parent)
    # What tells the format lies in the file, as where it was made.
    with path.open("r+b") as file:
        file.seek(60)
        file.write(bytes(4))
    return path


def entries(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        count: int = db.execute("SELECT count(*) FROM events").fetchone()[0]
        return count


def test_it_is_kept_with_every_entry_and_the_new_one_is_empty(older: Path) -> None:
    with closing(SqliteJournal(older)) as journal:
        assert "kept whole as 'journal.format-0.sqlite'" in journal.database.notice
        assert entries(older) == 0
        journal.append("b", TextDelta(content="new"))
    assert entries(older.with_name("journal.format-0.sqlite")) == 1
    assert entries(older) == 1
    with closing(SqliteJournal(older)) as journal:
        assert journal.database.notice == ""


def test_a_command_says_that_it_was_set_aside_and_then_reads_the_new_one(older: Path) -> None:
    with pytest.raises(JournalError, match="of an older version"), journal_of(older.parent.parent):
        raise AssertionError("there is nothing to read")
    with journal_of(older.parent.parent) as journal:
        assert journal.turns() == ()


def test_what_stands_under_that_name_already_stays(older: Path) -> None:
    earlier = older.with_name("journal.format-0.sqlite")
    earlier.write_bytes(b"one before")
    SqliteJournal(older).close()
    assert earlier.read_bytes() == b"one before"
    assert entries(older.with_name("journal.format-0.sqlite.2")) == 1


def test_one_that_somebody_has_open_is_left_alone(older: Path) -> None:
    with closing(sqlite3.connect(older)) as holder:
        assert holder.execute("SELECT count(*) FROM events").fetchone() == (1,)
        with pytest.raises(JournalError, match="another process holds it; try again"):
            SqliteJournal(older)
    assert [each.name for each in older.parent.glob("journal.format*")] == []
    assert entries(older) == 1


OPEN = """
import sys
from parsimony_kernel.storage.store import SqliteJournal
from parsimony_kernel.core.events import TextDelta
print("ready", flush=True)
sys.stdin.readline()
try:
    journal = SqliteJournal(sys.argv[1])
except Exception as trouble:
    print(trouble)
    raise SystemExit(1)
journal.append(sys.argv[2], TextDelta(content="new"))
"""


def test_of_many_that_open_it_at_once_one_sets_it_aside(older: Path) -> None:
    openers = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN, str(older), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for each in openers:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    told = [opener.communicate("\n")[0] for opener in openers]
    assert [opener.returncode for opener in openers] == [0] * 4, told
    assert [each.name for each in older.parent.glob("journal.format*")] == [
        "journal.format-0.sqlite"
    ]
    assert entries(older.with_name("journal.format-0.sqlite")) == 1
    assert entries(older) == 4
