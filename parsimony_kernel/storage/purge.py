"""Emptying what is old in a journal: requests, records and data go, the chain and the count stay.

The rule of the place: what somebody may still need is never touched. That is a turn that runs, a
question that can be answered, and a write of which nobody knows the end.
"""

import json
import math
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.storage import chain, sent
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.store import SqliteJournal

# Copies that nothing reads again: of files that an agent wrote over, and of broken snapshots.
COPIES = ("replaced", "quarantine")

# Entries a transaction: who writes meanwhile waits for one, and not for all.
_BATCH = 2_000
# Bytes that are copied while a turn runs: it waits that long with what it writes.
_MOST_COPIED = 64 * 2**20

_AGE = "COALESCE(NULLIF(ended_at, ''), NULLIF(running_since, ''), started_at)"
_OLD = f"""
SELECT run_id, status FROM turns WHERE {_AGE} < :before AND (
    request != '' OR summary != ''
    OR EXISTS (SELECT 1 FROM events WHERE events.run_id = turns.run_id)
    OR run_id IN (SELECT run_id FROM suspensions)
) ORDER BY rowid
"""
# Entries of a run whose turn is not in the journal.
_STRAY = """
SELECT run_id FROM events WHERE run_id NOT IN ('', :itself)
AND run_id NOT IN (SELECT run_id FROM turns) GROUP BY run_id HAVING MAX(at) < :before
"""


@dataclass(frozen=True)
class Purged:
    """What went, or would go. ``turns`` and ``events`` are numbers.

    ``kept`` is how many old turns are left because somebody may still need them. ``unfinished``
    is empty, or one sentence: emptied it is, but what was there may still lie in the file.
    """

    turns: int
    events: int
    kept: int = 0
    unfinished: str = ""


@dataclass(frozen=True)
class _Limits:
    """``before`` is ISO 8601 in UTC; a question asked after ``asked_after`` can be answered."""

    before: str
    asked_after: datetime | None


def purge(
    journal: SqliteJournal,
    before: datetime,
    *,
    dry_run: bool,
    answerable_s: float | None = None,
) -> Purged:
    """Empty the turns that ended before ``before``, with their questions, their finished writes
    and what they sent to models.

    Of a turn stay its number, its cell, its status and its times. It can be cut short anywhere,
    run twice at once, and run beside kernels that write; the next one goes on from there.

    Args:
        dry_run: only say what would go.
        answerable_s: the age in seconds up to which a question can be answered; ``None``: any.

    Raises:
        JournalError: it cannot be read or written. What was emptied until then is.
    """
    now = journal.clock.now()
    asked_after = None
    if answerable_s is not None:
        asked_after = datetime.fromtimestamp(now.timestamp() - answerable_s, UTC)
    limits = _Limits(before.astimezone(UTC).isoformat(), asked_after)
    if dry_run:
        with journal.database.reading("look through") as db:
            turns, kept = _old(db, limits)
            old = [*turns, *_strays(db, limits)]
            return Purged(len(old), sum(_entries(db, run_id) for run_id in old), kept)
    runs, events = set[str](), 0
    while True:
        with journal.database.transaction(synced=True) as db:
            # Per connection, and the connection may be another one each time.
            db.execute("PRAGMA secure_delete = ON")
            turns, kept = _old(db, limits)
            at = journal.clock.now().isoformat()
            emptied, entries = _empty_some(db, turns or _strays(db, limits), at)
        runs |= emptied
        events += entries
        if not emptied:
            break
    return Purged(len(runs), events, kept, _shrink(journal))


def old_copies(workspace: Path, before: datetime) -> tuple[Path, ...]:
    """The files below ``.ockham/replaced`` and ``.ockham/quarantine`` put there before then."""
    oldest = before.timestamp()
    return tuple(
        path
        for name in COPIES
        for path in sorted((workspace / ARTIFACT_FOLDER / name).rglob("*"))
        if path.is_file() and not path.is_symlink() and _put_at(path) < oldest
    )


def _put_at(path: Path) -> float:
    """When the file came there, in seconds since 1970; endless for one that is gone by now."""
    try:
        found = path.stat()
    except OSError:
        return math.inf
    return max(found.st_mtime, found.st_ctime)  # what was moved there has the time of its content


def _old(db: sqlite3.Connection, limits: _Limits) -> tuple[list[str], int]:
    """The old turns whose content goes, and how many others somebody may still need."""
    needed = {*_waiting(db, limits), *_unknown_writes(db)}
    rows = db.execute(_OLD, {"before": limits.before}).fetchall()
    going = [run for run, status in rows if status != "running" and run not in needed]
    return going, len(rows) - len(going)


def _strays(db: sqlite3.Connection, limits: _Limits) -> list[str]:
    """The runs without a turn whose entries go."""
    found = db.execute(_STRAY, {"before": limits.before, "itself": chain.ITSELF}).fetchall()
    needed = {*_unknown_writes(db)}
    return [run for (run,) in found if run not in needed]


def _waiting(db: sqlite3.Connection, limits: _Limits) -> Iterator[str]:
    """The runs whose question can still be answered, or is being answered just now."""
    for run_id, record in db.execute(
        "SELECT suspensions.run_id, record FROM suspensions "
        "JOIN turns ON turns.run_id = suspensions.run_id WHERE turns.status != 'replaced' "
        "AND (state != 'consumed' OR turns.status = 'suspended')"
    ):
        if (
            limits.asked_after is None
            or _asked_at(record, limits.asked_after) >= limits.asked_after
        ):
            yield run_id


def _asked_at(record: str, unknown: datetime) -> datetime:
    try:
        return datetime.fromisoformat(json.loads(record)["suspended_at"]).astimezone(UTC)
    except (ValueError, TypeError, KeyError, OverflowError):
        return unknown


def _unknown_writes(db: sqlite3.Connection) -> Iterator[str]:
    yield from (run for (run,) in db.execute(_INTENDED))


_INTENDED = "SELECT DISTINCT run_id FROM effects WHERE state != 'committed'"


def _entries(db: sqlite3.Connection, run_id: str) -> int:
    """How many entries a run has."""
    found = db.execute("SELECT COUNT(*) FROM events WHERE run_id = ?", (run_id,)).fetchone()
    return int(found[0])


def _empty_some(db: sqlite3.Connection, runs: list[str], at: str) -> tuple[set[str], int]:
    """Empty the first of ``runs``, as far as their entries go into one batch: which they are, and
    how many entries."""
    emptied, seqs = set[str](), list[int]()
    for run_id in runs:
        room = _BATCH - len(seqs)
        if room <= 0:
            break
        rows = db.execute(
            "SELECT seq FROM events WHERE run_id = ? ORDER BY seq LIMIT ?", (run_id, room)
        ).fetchall()
        seqs += [seq for (seq,) in rows]
        _blank(db, run_id)
        emptied.add(run_id)
    chain.empty(db, seqs, at)
    return emptied, len(seqs)


def _blank(db: sqlite3.Connection, run_id: str) -> None:
    """Empty what a run has beside its entries."""
    db.execute("UPDATE turns SET request = '', summary = '' WHERE run_id = ?", (run_id,))
    db.execute("DELETE FROM suspensions WHERE run_id = ?", (run_id,))
    db.execute("DELETE FROM effects WHERE run_id = ?", (run_id,))
    sent.forget(db, run_id)


def _shrink(journal: SqliteJournal) -> str:
    """Take the emptied places out of the file and its log; why that could not be done, if so."""
    try:
        with journal.database.reading("shrink") as db:
            folded = _folded(db)
            if (
                _is_long(db)
                and db.execute("SELECT 1 FROM turns WHERE status = 'running'").fetchall()
            ):
                return folded or (
                    "What was purged may still lie in the file, which is large and is not copied "
                    "while a turn runs: purge again later."
                )
            db.execute("VACUUM")  # pages that were split hold what was in them before
            return _folded(db)
    except JournalError as exc:
        return f"What was purged may still lie in the file; purge again later. {exc}"


def _is_long(db: sqlite3.Connection) -> bool:
    pages, free, size = (
        db.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return bool((pages - free) * size > _MOST_COPIED)


def _folded(db: sqlite3.Connection) -> str:
    """Fold the log into the file and cut it to nothing."""
    if db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        return (
            "What was purged may still lie in the file, because another process reads it: purge "
            "again later."
        )
    return ""
