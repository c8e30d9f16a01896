"""Purging old turns from a journal: requests, records and data go; the chain stays intact.

Rule: anything that may still be needed is never touched: running turns, questions that can still
be answered, and writes whose outcome is unknown.
"""

import json
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.journal import SqliteJournal
from parsimony_kernel.storage.keyring import GRACE_S

_MAY_LIE = "Purge again later: what was purged may still lie in the file"

# Turns per transaction: a concurrent writer waits for one batch, not for the whole purge.
_BATCH = 50

_AGE = "COALESCE(NULLIF(ended_at, ''), NULLIF(running_since, ''), started_at)"
# Running runs, runs with a write whose outcome is unknown, and runs with a question that can be
# answered. A question without a readable date counts as answerable.
_NEEDED = """
SELECT run_id FROM turns WHERE status = 'running'
UNION SELECT run_id FROM effects WHERE state != 'committed'
UNION SELECT run_id FROM suspensions JOIN turns USING (run_id)
WHERE status != 'replaced' AND state = 'pending' AND COALESCE(
    julianday(CASE WHEN json_valid(record) THEN json_extract(record, '$.suspended_at') END)
    >= julianday(:asked_after), TRUE)
"""
# Old runs with content, and whether it is needed. Entries of a run without a turn in this journal
# come from a run during which the journal was moved away.
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
# Those of a batch that nobody resumed or asked meanwhile. The whole journal isn't looked through.
_STILL_OLD = (
    "SELECT value FROM json_each(:batch) LEFT JOIN turns ON run_id = value "
    f"WHERE value NOT IN ({_NEEDED}) AND COALESCE({_AGE} < :before, TRUE)"
)


@dataclass(frozen=True)
class Purged:
    """The number of turns that a purge emptied.

    ``kept`` counts old turns that were left because they may still be needed. ``unfinished`` is
    empty, or one sentence: the rows are emptied, but their old bytes may still be in the file.
    """

    turns: int
    kept: int = 0
    unfinished: str = ""


def purge(journal: SqliteJournal, before: datetime) -> Purged:
    """Empty the turns that ended before ``before``, with their questions, finished writes and
    model requests.

    A turn keeps its number, cell, status and times. A purge can be interrupted anywhere, run twice
    at once, and run beside kernels that write; the next purge continues the work.

    Args:
        journal: the journal to purge.
        before: turns that ended earlier are emptied.

    Raises:
        JournalError: it can't be read or written. Batches done until then stay purged.
    """
    answerable = journal.clock.now().astimezone(UTC) - timedelta(seconds=GRACE_S)
    limits = {"before": before.astimezone(UTC).isoformat(), "asked_after": answerable.isoformat()}
    with journal.database.reading("look through") as db:
        rows = db.execute(_OLD, limits).fetchall()
    old = [run_id for run_id, is_needed in rows if not is_needed]
    emptied = 0
    for start in range(0, len(old), _BATCH):
        with journal.database.transaction(synced=True) as db:
            # A setting of the connection, which may have been reopened.
            db.execute("PRAGMA secure_delete = ON")
            batch = json.dumps(old[start : start + _BATCH])
            still = db.execute(_STILL_OLD, {**limits, "batch": batch}).fetchall()
            for (run_id,) in still:
                _empty(db, run_id)
        emptied += len(still)
    return Purged(emptied, len(rows) - emptied, _shrink(journal))


def old_copies(workspace: Path, before: datetime) -> tuple[Path, ...]:
    """Return the backup copies, older than ``before``, of files that an agent overwrote."""
    return tuple(
        path
        for path in sorted((workspace / ARTIFACT_FOLDER / "replaced").rglob("*"))
        if path.is_file() and not path.is_symlink() and path.stat().st_mtime < before.timestamp()
    )


def _empty(db: sqlite3.Connection, run_id: str) -> None:
    """Empty the content of a run."""
    db.execute("UPDATE turns SET request = '', summary = '' WHERE run_id = ?", (run_id,))
    for table in ("suspensions", "effects", "sent"):
        db.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))
    db.execute("UPDATE events SET run_id = '', body = '' WHERE run_id = ?", (run_id,))


def _shrink(journal: SqliteJournal) -> str:
    """Vacuum the file and truncate its log; return why that failed, or ``""``."""
    try:
        runs = any(map(journal.has_process, journal.running()))  # a dead one is no hindrance
        with journal.database.reading("shrink") as db:
            if not runs:
                db.execute("VACUUM")  # split pages still contain old bytes
            # Moves the log into the file.
            is_read = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    except JournalError as exc:
        return f"{_MAY_LIE}. {exc}"
    if is_read:
        return f"{_MAY_LIE}, because another process reads it."
    return f"{_MAY_LIE}, which isn't copied while a turn runs." if runs else ""
