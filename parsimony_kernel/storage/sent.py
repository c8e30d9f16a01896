"""The requests that went to models, in the journal's file, each message of a run kept once.

A request is a list of parts by number: what
it has in common with others of its run, in whatever order, is not written again.
"""

import hashlib
import json
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from parsimony_kernel.core.chat import ModelRequest
from parsimony_kernel.storage.database import Database, JournalError, storable

TABLES = """
CREATE TABLE sent (
    run_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at TEXT NOT NULL,
    model TEXT NOT NULL,
    request TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
);
CREATE TABLE sent_parts (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    sha TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (run_id, sha)
);
"""
_LISTS = ("messages", "tools")


@dataclass(frozen=True)
class SentRequest:
    """One request: when it was sent (ISO 8601 in UTC), to which model, and all of it."""

    at: str
    model: str
    request: ModelRequest


def put_down(database: Database, run_id: str, at: str, model: str, request: ModelRequest) -> None:
    """Write down that ``request`` is sent. ``JournalError`` when that cannot be done."""
    try:
        parts = {name: [_text(each) for each in getattr(request, name)] for name in _LISTS}
        rest = {
            each.name: getattr(request, each.name)
            for each in fields(request)
            if each.name not in _LISTS
        }
        written = json.dumps(rest)
    except (TypeError, ValueError, RecursionError) as exc:
        raise JournalError(
            f"A request cannot be put on record ({exc}): report it with this sentence."
        ) from exc
    with database.transaction() as db:
        numbers = {name: [_number(db, run_id, text) for text in parts[name]] for name in _LISTS}
        db.execute(
            "INSERT INTO sent (run_id, seq, at, model, request) VALUES (?, "
            "(SELECT COALESCE(MAX(seq), 0) + 1 FROM sent WHERE run_id = ?), ?, ?, ?)",
            (run_id, run_id, at, storable(model), json.dumps({**json.loads(written), **numbers})),
        )


def sent_by(database: Database, run_id: str) -> tuple[SentRequest, ...]:
    """The requests of a run, in order, their messages and tools as lists.

    ``JournalError`` when they cannot be read.
    """
    with database.reading("read") as db:
        rows = db.execute(
            "SELECT at, model, request FROM sent WHERE run_id = ? ORDER BY seq", (run_id,)
        ).fetchall()
        bodies = dict(
            db.execute("SELECT id, body FROM sent_parts WHERE run_id = ?", (run_id,)).fetchall()
        )
    try:
        return tuple(
            SentRequest(at, model, _request(json.loads(text), bodies)) for at, model, text in rows
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise JournalError(
            f"What was sent in a turn cannot be read from the journal {database.path!r}: it is "
            "damaged. Restore the file from a backup."
        ) from exc


def models_asked(database: Database, run_ids: Collection[str]) -> frozenset[str]:
    """The names of the models to which these runs have sent anything."""
    with database.reading("read") as db:
        rows = db.execute("SELECT DISTINCT run_id, model FROM sent").fetchall()
    return frozenset(model for run_id, model in rows if run_id in run_ids)


def _number(db: sqlite3.Connection, run_id: str, text: str) -> int:
    """The number of a part of this run, which is written if it is new."""
    key = run_id, hashlib.sha256(text.encode()).hexdigest()
    db.execute(
        "INSERT INTO sent_parts (run_id, sha, body) VALUES (?, ?, ?) "
        "ON CONFLICT (run_id, sha) DO NOTHING",
        (*key, text),
    )
    found = db.execute("SELECT id FROM sent_parts WHERE run_id = ? AND sha = ?", key).fetchone()
    return int(found[0])


def _text(part: Any) -> str:
    text = json.dumps(part, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a character, which SQLite does not keep
        return json.dumps(part)
    return text


def _request(written: dict[str, Any], bodies: dict[int, str]) -> ModelRequest:
    def parts(numbers: Iterable[int]) -> Sequence[Any]:
        return [json.loads(bodies[number]) for number in numbers] or ()

    known = {each.name for each in fields(ModelRequest)}
    given = {name: value for name, value in written.items() if name in known}
    return ModelRequest(**{**given, **{name: parts(written[name]) for name in _LISTS}})
