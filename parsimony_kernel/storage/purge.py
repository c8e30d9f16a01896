"""Emptying what is old in a journal: requests, records and data go, the chain and the count stay.

The rule of the place: what somebody may still need is never touched. That is a turn that runs, a
question that can be answered, and a write of which nobody knows the end.
"""

import math
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from parsimony_kernel.identity import ARTIFACT_FOLDER
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
SELECT run_id FROM turns WHERE {_AGE} < :before AND (
    request != '' OR summary != ''
    OR run_id IN (SELECT run_id FROM events UNION SELECT run_id FROM suspensions)
) ORDER BY rowid
"""
# Entries of a run whose turn is not in the journal.
_STRAY = """
SELECT run_id FROM events WHERE run_id != '' AND run_id NOT IN (SELECT run_id FROM turns)
GROUP BY run_id HAVING MAX(at) < :before
"""
# Runs that go on, with a write of which nobody knows the end, or a question that can be answered
# or is being answered just now. A question without a readable date counts as one.
_NEEDED = """
SELECT run_id FROM turns WHERE status = 'running'
UNION SELECT run_id FROM effects WHERE state != 'committed'
UNION SELECT run_id FROM suspensions JOIN turns USING (run_id)
WHERE status != 'replaced' AND (state != 'consumed' OR status = 'suspended') AND COALESCE(
    julianday(CASE WHEN json_valid(record) THEN json_extract(record, '$.suspended_at') END)
    >= julianday(:asked_after), TRUE)
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
    limits = {"before": before.astimezone(UTC).isoformat(), "asked_after": ""}
    if answerable_s is not None:
        asked_after = journal.clock.now().astimezone(UTC) - timedelta(seconds=answerable_s)
        limits["asked_after"] = asked_after.isoformat()
    if dry_run:
        with journal.database.reading("look through") as db:
            turns, strays, kept = _old(db, limits)
            old = [*turns, *strays]
            return Purged(len(old), sum(_entries(db, run_id) for run_id in old), kept)
    runs, events = set[str](), 0
    while True:
        with journal.database.transaction(synced=True) as db:
            # Per connection, and the connection may be another one each time.
            db.execute("PRAGMA secure_delete = ON")
            turns, strays, kept = _old(db, limits)
            emptied, entries = _empty_some(db, turns or strays)
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


def _old(db: sqlite3.Connection, limits: dict[str, str]) -> tuple[list[str], list[str], int]:
    """The old turns whose content goes, such runs without a turn, and how many turns are kept."""

    def runs(statement: str) -> list[str]:
        return [run_id for (run_id,) in db.execute(statement, limits)]

    needed, old = {*runs(_NEEDED)}, runs(_OLD)
    turns, strays = ([run for run in each if run not in needed] for each in (old, runs(_STRAY)))
    return turns, strays, len(old) - len(turns)


def _entries(db: sqlite3.Connection, run_id: str) -> int:
    """How many entries a run has."""
    found = db.execute("SELECT COUNT(*) FROM events WHERE run_id = ?", (run_id,)).fetchone()
    return int(found[0])


def _empty_some(db: sqlite3.Connection, runs: list[str]) -> tuple[set[str], int]:
    """Empty the first of ``runs``, as far as their entries go into one batch: which they are, and
    how many entries."""
    emptied, entries = set[str](), 0
    for run_id in runs:
        if entries >= _BATCH:
            break
        entries += db.execute(
            "UPDATE events SET run_id = '', body = '' WHERE seq IN "
            "(SELECT seq FROM events WHERE run_id = ? ORDER BY seq LIMIT ?)",
            (run_id, _BATCH - entries),
        ).rowcount
        db.execute("UPDATE turns SET request = '', summary = '' WHERE run_id = ?", (run_id,))
        for table in ("suspensions", "effects", "sent"):
            db.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))
        emptied.add(run_id)
    return emptied, entries


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
