"""A question and a journal of a real turn, in which something was changed: each change is refused.

What is changed is not chosen by hand: every leaf of the record, and every column of every sealed
row, is given other values.
"""

import copy
import json
import random
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.agent.failure.suspension import check_record
from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.store import ArtifactStore
from parsimony_kernel.core.state import SuspensionRecord
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.storage.keyring import Keyring
from parsimony_kernel.storage.seal import SEALED
from tests.attack.storm import ask, reply

pytestmark = pytest.mark.exhaustive

CHANGES = 6_000


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    """A journal in which one question was answered, with a letter sent, another waits, and two
    scripts are published."""
    for act in (ask, reply, ask):
        words: list[str] = []
        act(tmp_path)(words.append)
        assert len(words) == 2
    path = tmp_path / ".ockham" / "journal.sqlite"
    with closing(SqliteJournal(path)) as journal:
        publisher = Publisher(ArtifactStore(tmp_path, journal.witness), notebook_path="n.ipynb")
        for title in ("One", "Two"):
            publisher.publish("notebook", "x = 1", title=title, run_id="r")
    return path


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to everything in a record: values, and what holds them."""
    if path:
        yield path
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for key, each in inner:
        yield from leaves(each, (*path, key))


def other(value: Any, chance: random.Random) -> Any:
    """Something else in the place of ``value``, near it or of another kind."""
    choices: list[Any] = [None, "", 0, 1, True, [], {}, "auto", f"{chance.random()}"]
    if isinstance(value, str) and value:
        at = chance.randrange(len(value))
        choices += [value[:at], value + " ", value[:at] + "~" + value[at + 1 :]] * 3
    if isinstance(value, int | float):
        choices += [value + 1, -value - 1, value * 1_000 + 1] * 3
    if isinstance(value, list):
        choices += [[*value, value[-1] if value else "x"], value[1:] or ["x"]] * 3
    if isinstance(value, dict):
        choices += [{**value, "more": "x"}, dict(list(value.items())[1:]) or {"x": 1}] * 3
    return chance.choice([each for each in choices if json.dumps(each) != json.dumps(value)])


def changed(record: dict[str, Any], path: tuple[Any, ...], chance: random.Random) -> str:
    """The record as JSON with something else, or nothing, at ``path``."""
    made = copy.deepcopy(record)
    holder = made
    for key in path[:-1]:
        holder = holder[key]
    if chance.random() < 0.15:
        del holder[path[-1]]
    else:
        holder[path[-1]] = other(holder[path[-1]], chance)
    return json.dumps(made)


def taken(text: str) -> SuspensionRecord | None:
    """The record that ``text`` holds, where it may be resumed."""
    try:
        record = SuspensionRecord.model_validate_json(text)
        check_record(
            record, "ada", secret=Keyring().current().secret, now=datetime.now(UTC), max_age_s=1e6
        )
    except ValueError:
        return None
    return record


def test_record_with_changed_field_is_refused(asked: Path) -> None:
    seed = secrets.randbelow(1_000_000)
    chance = random.Random(seed)
    with closing(SqliteJournal(asked)) as journal:
        (row,) = journal.pending()
    whole = json.loads(row.record.model_dump_json())
    assert taken(json.dumps(whole)) == row.record
    paths = list(leaves(whole))
    refused = same = 0
    for number in range(CHANGES):
        path = paths[number] if number < len(paths) else chance.choice(paths)
        record = taken(changed(whole, path, chance))
        # Another way to write the same value changes nothing of what is resumed.
        same += record == row.record
        refused += record is None
        assert record in (None, row.record), f"seed {seed}: {path} was changed and taken"
    print({"seed": seed, "fields": len(paths), "refused": refused, "written otherwise": same})
    assert refused > 0.9 * CHANGES


def tamperings(journal: Path) -> Iterator[tuple[str, str]]:
    """A change of each column of each sealed table, and rows that go, come or change places."""
    with closing(sqlite3.connect(journal)) as db:
        for table in SEALED:
            rows = [row for (row,) in db.execute(f"SELECT rowid FROM {table}")]
            assert rows, f"nothing is in {table}"
            columns = db.execute(f"PRAGMA table_info({table})").fetchall()
            for _, column, kind, *_ in columns:
                value = f"{column} || 'x'" if kind == "TEXT" else f"{column} + 1000"
                where = f"rowid = {rows[-1]}"
                yield f"{table}.{column}", f"UPDATE {table} SET {column} = {value} WHERE {where}"
            yield f"{table}, last row gone", f"DELETE FROM {table} WHERE rowid = {rows[-1]}"
            yield f"{table}, first row gone", f"DELETE FROM {table} WHERE rowid = {rows[0]}"
            yield f"{table} emptied", f"DELETE FROM {table}"
            yield f"{table} dropped", f"DROP TABLE {table}"
            yield (
                f"{table}, rows counted anew",
                f"UPDATE {table} SET rowid = rowid + 1000 WHERE rowid = {rows[-1]}",
            )


def test_every_journal_tampering_is_found(asked: Path, tmp_path: Path) -> None:
    with closing(SqliteJournal(asked)) as journal:
        assert journal.verify() is None
        journal.select("PRAGMA wal_checkpoint(TRUNCATE)")
    tried = list(tamperings(asked))
    unseen = []
    for name, script in tried:
        copied = tmp_path / "copied.sqlite"
        shutil.copy(asked, copied)
        with closing(sqlite3.connect(copied)) as db:
            db.executescript(script)
        if unharmed(copied):
            unseen.append(name)
        for stray in tmp_path.glob("copied.sqlite*"):
            stray.unlink()
    print({"tamperings": len(tried), "unseen": unseen})
    assert len(tried) >= 24
    # The order of rows that carry no number of their own is nothing that anybody relies on.
    assert [each for each in unseen if not each.endswith("counted anew")] == []


def unharmed(journal: Path) -> bool:
    """Whether a journal passes its own check."""
    try:
        with closing(SqliteJournal(journal)) as opened:
            return opened.verify() is None
    except Exception:  # boundary: it may be refused in any way
        return False
