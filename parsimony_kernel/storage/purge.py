"""Emptying what is old in a journal: requests, records and data go, the chain and the count stay.

The rule of the place: what somebody may still need is never touched. That is a turn that runs, a
question that can be answered, and a write of which nobody knows the end.
"""

import json
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.keyring import GRACE_S
from parsimony_kernel.storage.store import SqliteJournal

_MAY_LIE = "Purge again later: what was purged may still lie in the file"

# Turns a transaction: who writes meanwhile waits for one, and not for all.
_BATCH = 50
# Bytes that are copied while a turn runs: it waits that long with what it writes.
_MOST_COPIED = 64 * 2**20

_AGE = "COALESCE(NULLIF(ended_at, ''), NULLIF(running_since, ''), started_at)"
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
# Old runs with content, and whether it stays. Entries of a run whose turn is not in the journal are
# those of one in the middle of which the journal was moved away.
_OLD = f"""
SELECT run_id, run_id IN ({_NEEDED}) FROM (
    SELECT run_id FROM turns WHERE {_AGE} < :before AND (
        request != '' OR summary != ''
        OR run_id IN (SELECT run_id FROM events UNION SELECT run_id FROM suspensions)
    )
    UNION ALL SELECT run_id FROM events
    WHERE run_id != '' AND run_id NOT IN (SELECT run_id FROM turns)
    GROUP BY run_id HAVING MAX(at) < :before
)
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


def purge(journal: SqliteJournal, before: datetime, *, dry_run: bool) -> Purged:
    """Empty the turns that ended before ``before``, with their questions, their finished writes
    and what they sent to models.

    Of a turn stay its number, its cell, its status and its times. It can be cut short anywhere,
    run twice at once, and run beside kernels that write; the next one goes on from there.

    Args:
        dry_run: only say what would go.

    Raises:
        JournalError: it cannot be read or written. What was emptied until then is.
    """
    answerable = journal.clock.now().astimezone(UTC) - timedelta(seconds=GRACE_S)
    limits = {"before": before.astimezone(UTC).isoformat(), "asked_after": answerable.isoformat()}
    if dry_run:
        with journal.database.reading("look through") as db:
            old, kept = _old(db, limits)
            counted = "SELECT COUNT(*) FROM events WHERE run_id IN (SELECT value FROM json_each(?))"
            (events,) = db.execute(counted, (json.dumps(old),)).fetchone()
        return Purged(len(old), events, kept)
    turns = events = 0
    while True:
        with journal.database.transaction(synced=True) as db:
            # Per connection, and the connection may be another one each time.
            db.execute("PRAGMA secure_delete = ON")
            old, kept = _old(db, limits)
            events += sum(_emptied(db, run_id) for run_id in old[:_BATCH])
        turns += len(old[:_BATCH])
        if not old:
            return Purged(turns, events, kept, _shrink(journal))


def old_copies(workspace: Path, before: datetime) -> tuple[Path, ...]:
    """The copies of files that an agent wrote over before then: nothing reads them again."""
    return tuple(
        path
        for path in sorted((workspace / ARTIFACT_FOLDER / "replaced").rglob("*"))
        if path.is_file() and not path.is_symlink() and path.stat().st_mtime < before.timestamp()
    )


def _old(db: sqlite3.Connection, limits: dict[str, str]) -> tuple[list[str], int]:
    """The old runs whose content goes, and how many are kept."""
    rows = db.execute(_OLD, limits).fetchall()
    old = [run_id for run_id, is_needed in rows if not is_needed]
    return old, len(rows) - len(old)


def _emptied(db: sqlite3.Connection, run_id: str) -> int:
    """Empty what the journal holds of a run; how many entries that were."""
    db.execute("UPDATE turns SET request = '', summary = '' WHERE run_id = ?", (run_id,))
    for table in ("suspensions", "effects", "sent"):
        db.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))
    emptied = "UPDATE events SET run_id = '', body = '' WHERE run_id = ?"
    return db.execute(emptied, (run_id,)).rowcount


def _shrink(journal: SqliteJournal) -> str:
    """Take the emptied places out of the file and its log; why that could not be done, if so."""
    try:
        with journal.database.reading("shrink") as db:
            folded = _folded(db)
            pages, free, size = (
                db.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_count", "freelist_count", "page_size")
            )
            is_long = (pages - free) * size > _MOST_COPIED
            if is_long and db.execute("SELECT 1 FROM turns WHERE status = 'running'").fetchall():
                return folded or f"{_MAY_LIE}, which is large and isn't copied while a turn runs."
            db.execute("VACUUM")  # pages that were split hold what was in them before
            return _folded(db)
    except JournalError as exc:
        return f"{_MAY_LIE}. {exc}"


def _folded(db: sqlite3.Connection) -> str:
    """Fold the log into the file and cut it to nothing; why that could not be done, if so."""
    is_read = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    return f"{_MAY_LIE}, because another process reads it." if is_read else ""
