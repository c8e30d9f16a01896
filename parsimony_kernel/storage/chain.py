"""The chain of a journal's entries: each is sealed to the one before it.

The rule of the place: an entry is never taken out, moved or changed. What it says may be emptied,
and then a later entry says so with a digest of all that stays of the emptied ones.
"""

import hashlib
import json
import sqlite3
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

GENESIS: Final = "0" * 64
# Whose entries are about the journal itself. No run has this id.
ITSELF: Final = "journal"
_EMPTIED = "emptied"
_CHANGED = "the entry was changed after it was written"

Range = tuple[int, int]


def canonical(value: Any) -> str:
    """``value`` as JSON, in the one spelling that is sealed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def append(db: sqlite3.Connection, run_id: str, at: str, body: str) -> None:
    """Append an entry, inside the caller's transaction."""
    last = db.execute("SELECT hash FROM events ORDER BY seq DESC LIMIT 1").fetchone()
    prev = last[0] if last else GENESIS
    db.execute(
        "INSERT INTO events (run_id, at, body, prev, hash) VALUES (?, ?, ?, ?, ?)",
        (run_id, at, body, prev, _link(prev, run_id, at, body)),
    )


def note(db: sqlite3.Connection, at: str, kind: str, content: dict[str, Any]) -> None:
    """Append an entry about the journal itself, inside the caller's transaction."""
    append(db, ITSELF, at, canonical({**content, "kind": kind}))


def notes(db: sqlite3.Connection) -> Iterator[tuple[int, dict[str, Any]]]:
    """The entries about the journal itself, oldest first; those that cannot be read are passed
    over, and ``first_bad`` names them."""
    rows = db.execute(
        "SELECT seq, CAST(body AS BLOB) FROM events WHERE run_id = ? ORDER BY seq", (ITSELF,)
    )
    for seq, body in rows.fetchall():
        try:
            content = json.loads(body)
        except (ValueError, TypeError):
            continue
        if isinstance(content, dict):
            yield seq, content


def empty(db: sqlite3.Connection, seqs: Sequence[int], at: str) -> None:
    """Empty the entries ``seqs`` and say so in a new one, inside the caller's transaction.

    Of an entry stay its number, its time and its place in the chain.
    """
    if not seqs:
        return
    ranges = _ranges(sorted(seqs))
    digest = hashlib.sha256()
    for first, last in ranges:
        for row in db.execute(
            "SELECT seq, at, hash FROM events WHERE seq BETWEEN ? AND ? ORDER BY seq",
            (first, last),
        ):
            digest.update(_remains(*row))
    db.executemany(
        "UPDATE events SET run_id = '', body = '' WHERE seq = ?", [(seq,) for seq in seqs]
    )
    note(db, at, _EMPTIED, {"ranges": ranges, "sha256": digest.hexdigest()})


@dataclass
class _Emptying:
    """An entry that says which ones were emptied, and the digest of what is found of them."""

    seq: int
    ranges: tuple[Range, ...]
    sha256: str
    found: Any = field(default_factory=hashlib.sha256)


class _Emptyings:
    """All of them, asked by the number of an entry."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.all = [
            each for seq, content in notes(db) if (each := _emptying(seq, content)) is not None
        ]
        covers = sorted((pair, number) for number, e in enumerate(self.all) for pair in e.ranges)
        self._ranges = [pair for pair, _ in covers]
        self._numbers = [number for _, number in covers]

    def of(self, seq: int) -> _Emptying | None:
        at = bisect_right(self._ranges, (seq, float("inf"))) - 1
        if at < 0 or seq > self._ranges[at][1]:
            return None
        found = self.all[self._numbers[at]]
        return found if found.seq > seq else None


def first_bad(db: sqlite3.Connection) -> tuple[int, str] | None:
    """The first entry that is not as it was written, and what is wrong with it."""
    emptyings = _Emptyings(db)
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
        emptying = emptyings.of(seq)
        if emptying is not None:
            emptying.found.update(_remains(seq, at, own))
        is_emptied = emptying is not None and not run_id and not body
        if not is_emptied and _link(prev, run_id, at, body) != own:
            return seq, _CHANGED
        prev = own
    counted = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'events'").fetchone()
    if counted is not None and counted[0] != seq:
        return seq + 1, "the entry is missing"
    for emptying in emptyings.all:
        if emptying.found.hexdigest() != emptying.sha256:
            return emptying.ranges[0][0], _CHANGED
    return None


def _emptying(seq: int, content: dict[str, Any]) -> _Emptying | None:
    if content.get("kind") != _EMPTIED:
        return None
    try:
        ranges = tuple((int(first), int(last)) for first, last in content["ranges"])
        return _Emptying(seq, ranges, str(content["sha256"])) if ranges else None
    except (KeyError, TypeError, ValueError):
        return None


def _remains(seq: int, at: str, own: str) -> bytes:
    """What stays of an emptied entry."""
    return canonical([seq, at, own]).encode("ascii")


def _ranges(seqs: Sequence[int]) -> list[Range]:
    """Rising numbers as first and last of those that follow one another."""
    ranges: list[Range] = []
    for seq in seqs:
        if ranges and ranges[-1][1] == seq - 1:
            ranges[-1] = (ranges[-1][0], seq)
        else:
            ranges.append((seq, seq))
    return ranges


def _link(prev: str, run_id: str, at: str, body: str) -> str:
    return hashlib.sha256(canonical([prev, run_id, at, body]).encode("ascii")).hexdigest()
