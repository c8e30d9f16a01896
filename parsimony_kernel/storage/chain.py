"""The chain of a journal's entries: each is linked to the one before it.

The rule of the place: an entry is never taken out, moved or changed. What it says may be emptied;
that this was purged and not taken away is for the seal to tell.
"""

import hashlib
import json
import sqlite3
from typing import Any, Final

GENESIS: Final = "0" * 64


def canonical(value: Any) -> str:
    """``value`` as JSON, in the one spelling that is hashed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def append(db: sqlite3.Connection, run_id: str, at: str, body: str) -> None:
    """Append an entry, inside the caller's transaction."""
    last = db.execute("SELECT hash FROM events ORDER BY seq DESC LIMIT 1").fetchone()
    prev = last[0] if last else GENESIS
    db.execute(
        "INSERT INTO events (run_id, at, body, prev, hash) VALUES (?, ?, ?, ?, ?)",
        (run_id, at, body, prev, _link(prev, run_id, at, body)),
    )


def first_bad(db: sqlite3.Connection) -> tuple[int, str] | None:
    """The first entry that is not as it was written, and what is wrong with it.

    An emptied one keeps its number, its time and its place in the chain.
    """
    prev, seq = GENESIS, 0
    for row in db.execute(
        # As bytes: a damaged text need not be UTF-8.
        "SELECT seq, CAST(run_id AS BLOB), CAST(at AS BLOB), CAST(body AS BLOB), "
        "CAST(prev AS BLOB), CAST(hash AS BLOB) FROM events ORDER BY seq"
    ):
        expected, seq = seq + 1, row[0]
        run_id, at, body, before, own = (part.decode("utf-8", "replace") for part in row[1:])
        if seq != expected:
            return expected, "the entry is missing"
        if before != prev:
            return seq, "the entry does not follow the one before it"
        if (run_id or body) and _link(prev, run_id, at, body) != own:
            return seq, "the entry was changed after it was written"
        prev = own
    counted = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchone()
    if counted is not None and counted[0] != seq:
        return seq + 1, "the entry is missing"
    return None


def _link(prev: str, run_id: str, at: str, body: str) -> str:
    return hashlib.sha256(canonical([prev, run_id, at, body]).encode("ascii")).hexdigest()
