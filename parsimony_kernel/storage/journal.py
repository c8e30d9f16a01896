"""The journal of a workspace: turns, their events, and pending questions, in one SQLite file.

Rules: events are append-only, each hash-chained to the one before it; exactly one caller can answer
a pending question; and what must survive a crash (a question, an answer, the end of a turn) is
synced before the call returns.
"""

import json
import logging
import os
import sqlite3
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python

from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.events import AgentEvent, RunCancelled, TurnForgotten, parse_event
from parsimony_kernel.core.state import SuspensionRecord
from parsimony_kernel.core.text import utf8
from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.storage.database import Database, JournalError
from parsimony_kernel.storage.keyring import GRACE_S, Keyring
from parsimony_kernel.storage.seal import canonical, link

# Statuses of turns that are hidden from later ones and whose questions are no longer pending.
_GONE = "('forgotten', 'replaced')"
# Whether a question was asked since a time. One without a readable date counts as such.
_ASKED = """COALESCE(
    julianday(CASE WHEN json_valid(record) THEN json_extract(record, '$.suspended_at') END)
    >= julianday({}), TRUE)"""
# The path of the snapshot of an event that has one, as schema.sql indexes them.
_PUBLISHES = "instr(body, '\"artifact_published\"')"
_SNAPSHOT = "CASE WHEN json_valid(body) THEN json_extract(body, '$.path') END"


_log = logging.getLogger(__name__)

_CUT_OFF = "the kernel ended in the middle of the turn"
_UNREADABLE = (
    "The question %r in the journal is damaged, or a newer Parsimony asked it: update Parsimony, "
    "or run its cell again."
)


@dataclass(frozen=True)
class TurnRow:
    """One turn. Times are ISO 8601 in UTC, empty while unknown; ``ordinal`` counts from 1."""

    run_id: str
    notebook: str
    cell_key: str
    ordinal: int
    request: str
    model: str
    status: str
    started_at: str
    ended_at: str = ""
    summary: str = ""
    connection_file: str = ""
    pid: int = 0
    running_since: str = ""


@dataclass(frozen=True)
class PendingRow:
    """A pending question and the turn that asked it."""

    record: SuspensionRecord
    turn: TurnRow


_TURN_COLUMNS = ", ".join(f"turns.{name}" for name in TurnRow.__dataclass_fields__)


def is_alive(pid: int, since: str) -> bool:
    """Return whether process ``pid`` is the one that ran at ``since``; ids are reused."""
    if pid <= 0 or pid == os.getpid():
        return False  # a turn of this process that is still marked running was cut off
    import psutil  # deferred: only needed when another process has a turn here

    try:
        process = psutil.Process(pid)
        ran_at = datetime.fromisoformat(since).timestamp()
        is_dead = process.status() == psutil.STATUS_ZOMBIE
        return not is_dead and float(process.create_time()) <= ran_at + 1.0
    except (psutil.Error, ValueError, OverflowError):
        return False


class SqliteJournal(Database):
    """A journal in one SQLite file, safe for concurrent processes and threads.

    Every method may raise ``JournalError``.

    Args:
        path: the file, created with its folder if missing, or ``":memory:"``.
        clock: the time of entries.
        keyring: the keys that seal it; the user's by default.

    Attributes:
        connection_file: of the kernel that runs the turns begun here, if any.
        pid: the process that runs them: this one.

    Raises:
        JournalError: the folder isn't writable, or the file isn't a journal of this program.
    """

    def __init__(
        self, path: Path | str, clock: Clock = SYSTEM_CLOCK, *, keyring: Keyring | None = None
    ) -> None:
        super().__init__(path, keyring or Keyring())
        self.clock = clock
        self.connection_file, self.pid = "", os.getpid()
        self._alive: Callable[[int, str], bool] = is_alive

    # -- turns

    def begin_turn(
        self, run_id: str, *, notebook: str, cell_key: str, request: str, model: str
    ) -> int:
        """Record a new turn as running in this process; return its ordinal in the notebook.

        Earlier turns of the same notebook and cell become ``replaced``, unless they are forgotten.
        ``JournalError`` if another live process is running a turn of the notebook.
        """
        with self.transaction() as db:
            self._refuse_beside_another(notebook)
            db.execute(
                "UPDATE turns SET status = 'replaced' "
                f"WHERE notebook = ? AND cell_key = ? AND status NOT IN {_GONE}",
                (utf8(notebook), utf8(cell_key)),
            )
            ordinal, now = _newest(db, utf8(notebook)) + 1, self._now()
            texts = run_id, notebook, cell_key, request, model, self.connection_file
            db.execute(
                "INSERT INTO turns (run_id, notebook, cell_key, request, model, connection_file, "
                "ordinal, status, started_at, running_since, pid) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, 'running', ?, ?, ?)",
                (*map(utf8, texts), ordinal, now, now, self.pid),
            )
        return ordinal

    def resume_turn(self, nonce: str, started: AgentEvent) -> bool:
        """Record that a turn runs again, in this process; this answers its question; synced.

        All of it is recorded or nothing, so that a process killed here leaves the question pending.
        Return whether the question was pending: of all callers exactly one runs the turn again.
        Replaced and forgotten turns stay so. ``JournalError`` as for ``begin_turn``.
        """
        with self.transaction(synced=True) as db:
            found = db.execute(
                "SELECT run_id, notebook FROM suspensions JOIN turns USING (run_id) "
                f"WHERE nonce = ? AND state = 'pending' AND status NOT IN {_GONE}",
                (nonce,),
            ).fetchone()
            if found is None:
                return False
            run_id, notebook = found
            self._refuse_beside_another(notebook)
            db.execute("UPDATE suspensions SET state = 'consumed' WHERE nonce = ?", (nonce,))
            db.execute(
                "UPDATE turns SET status = 'running', ended_at = '', connection_file = ?, pid = ?, "
                "running_since = ? WHERE run_id = ?",
                (utf8(self.connection_file), self.pid, self._now(), run_id),
            )
            link(db, run_id, self._now(), _body(started))
        return True

    def _refuse_beside_another(self, notebook: str) -> None:
        """Raise if another live process is running a turn of this notebook."""
        for turn in self.running(notebook):
            if self.has_process(turn):
                raise JournalError(
                    f"Turn {turn.ordinal} of this notebook is running in another kernel (process "
                    f"{turn.pid}): wait for it, or stop it there."
                )

    def end_turn(self, run_id: str, status: str, summary: str = "") -> None:
        """Record how a turn ended; synced. Replaced and forgotten turns keep their status."""
        self.write(
            f"UPDATE turns SET status = CASE WHEN status IN {_GONE} THEN status ELSE ? END, "
            "summary = ?, ended_at = ? WHERE run_id = ?",
            *(status, utf8(summary), self._now(), run_id),
            synced=True,
        )

    def turns(self, notebook: str | None = None) -> tuple[TurnRow, ...]:
        """Return the turns of one notebook or of all, oldest first."""
        if notebook is None:
            return self._turns("TRUE ORDER BY rowid")
        return self._turns("notebook = ? ORDER BY rowid", utf8(notebook))

    def running(self, notebook: str | None = None) -> tuple[TurnRow, ...]:
        """Return the turns, of one notebook or of all, that are running or were cut off."""
        name = None if notebook is None else utf8(notebook)
        return self._turns("status = 'running' AND notebook = COALESCE(?, notebook)", name)

    def context(self, notebook: str, cell_key: str, most: int) -> tuple[TurnRow, ...]:
        """Return the turns that a turn of this cell builds on, oldest first.

        They are the newest ``most`` of the notebook's other cells that have ended and aren't
        replaced, forgotten or purged, and as the last the newest of the cell that was replaced.
        """
        cell = utf8(notebook), utf8(cell_key)
        return self._turns(
            "rowid IN (SELECT * FROM (SELECT rowid FROM turns WHERE notebook = ? AND cell_key <> ? "
            "AND status NOT IN ('forgotten', 'replaced', 'running') AND request <> '' "
            "ORDER BY ordinal DESC LIMIT ?) "
            "UNION SELECT * FROM (SELECT rowid FROM turns WHERE notebook = ? AND cell_key = ? "
            "AND status = 'replaced' ORDER BY ordinal DESC LIMIT 1)) "
            "ORDER BY status = 'replaced', rowid",
            *(*cell, most, *cell),
        )

    def _turns(self, which: str, *arguments: Any) -> tuple[TurnRow, ...]:
        rows = self.select(f"SELECT {_TURN_COLUMNS} FROM turns WHERE {which}", *arguments)
        return tuple(TurnRow(*row) for row in rows)

    def runs_of(self, notebook: str, cell_key: str) -> frozenset[str]:
        """Return the run ids of a cell's turns."""
        found = self._turns("notebook = ? AND cell_key = ?", utf8(notebook), utf8(cell_key))
        return frozenset(turn.run_id for turn in found)

    def notebook_names(self) -> tuple[str, ...]:
        """Return the names of all notebooks with turns, sorted."""
        rows = self.select("SELECT DISTINCT notebook FROM turns ORDER BY notebook")
        return tuple(name for (name,) in rows)

    def move_notebook(self, old: str, new: str) -> bool:
        """Move the turns of notebook ``old`` to ``new``; synced.

        Return ``False`` and change nothing if ``old`` has no turns or ``new`` has some.
        """
        before, after = utf8(old), utf8(new)
        with self.transaction(synced=True) as db:
            if _newest(db, after) or not _newest(db, before):
                return False
            db.execute("UPDATE turns SET notebook = ? WHERE notebook = ?", (after, before))
        return True

    def forget(self, notebook: str, run_ids: Collection[str]) -> tuple[str, ...]:
        """Mark these turns of ``notebook`` as forgotten; synced. Their content is kept.

        Their questions are no longer pending. Return the marked runs; running turns and turns
        forgotten before are skipped.
        """
        marked = []
        with self.transaction(synced=True) as db:
            for run_id in run_ids:
                found = db.execute(
                    "UPDATE turns SET status = 'forgotten' WHERE run_id = ? AND notebook = ? "
                    "AND status NOT IN ('running', 'forgotten')",
                    (run_id, utf8(notebook)),
                )
                if found.rowcount:
                    link(db, run_id, self._now(), _body(TurnForgotten()))
                    marked.append(run_id)
        return tuple(marked)

    def has_process(self, turn: TurnRow) -> bool:
        """Return whether the process that last ran the turn is alive and not this one."""
        return self._alive(turn.pid, turn.running_since)

    def abandon_running(self, notebook: str | None = None) -> None:
        """Cancel turns, of one notebook or of all, that a dead process left running."""
        dead = [turn for turn in self.running(notebook) if not self.has_process(turn)]
        with self.transaction() as db:
            for turn in dead:
                found = db.execute(
                    "UPDATE turns SET status = 'cancelled', ended_at = ? "
                    "WHERE run_id = ? AND status = 'running' AND pid = ?",
                    (self._now(), turn.run_id, turn.pid),
                )
                if found.rowcount:
                    link(db, turn.run_id, self._now(), _body(RunCancelled(reason=_CUT_OFF)))

    # -- events

    def append(self, run_id: str, event: AgentEvent) -> None:
        """Append an event to the chain."""
        body, at = _body(event), self._now()
        with self.transaction() as db:
            link(db, run_id, at, body)

    def events(self, run_id: str) -> tuple[AgentEvent, ...]:
        """Return the events of a run, in order."""
        rows = self.select("SELECT seq, body FROM events WHERE run_id = ? ORDER BY seq", run_id)
        found = list[AgentEvent]()
        remedy = ": check the whole with 'jupyter parsimony verify', and restore it from a backup."
        for seq, body in rows:
            with self.intact(f"Entry {seq}", remedy):
                found.append(parse_event(json.loads(body)))
        return tuple(found)

    def hidden(self, published: Collection[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        """Return those snapshots, as (run, path), whose turn is replaced or forgotten.

        A snapshot that another turn published too isn't hidden.
        """
        rows = self.select(
            "WITH made (run, path) AS (SELECT json_extract(value, '$[0]'), "
            "json_extract(value, '$[1]') FROM json_each(?)) "
            f"SELECT run, path FROM made JOIN turns ON run_id = run WHERE status IN {_GONE} "
            f"AND NOT EXISTS (SELECT * FROM events JOIN turns USING (run_id) WHERE {_PUBLISHES} "
            f"AND {_SNAPSHOT} = path AND status NOT IN {_GONE})",
            json.dumps([*published]),
        )
        return frozenset(map(tuple, rows))

    def witness(self, log: str, seal: str) -> None:
        """Record that the log of an artifact has a line with this digest.

        This lets a check find lines that were removed or rewritten. ``log`` is the log's path in
        the workspace.
        """
        self.write("INSERT OR IGNORE INTO log_lines VALUES (?, ?)", utf8(log), seal)

    def witnessed(self) -> Mapping[str, frozenset[str]]:
        """Return the recorded line digests of each artifact log, by its path."""
        rows = self.select("SELECT log, json_group_array(seal) FROM log_lines GROUP BY log")
        return {log: frozenset(json.loads(seals)) for log, seals in rows}

    def accept(self, lines: Mapping[str, Collection[str]]) -> None:
        """Accept the journal as it is: seal its rows with the current key; synced.

        Args:
            lines: line digests by artifact log; they replace all recorded ones.
        """
        rows = [(utf8(log), seal) for log, seals in lines.items() for seal in seals]
        with self.transaction(synced=True) as db:
            db.execute("DELETE FROM log_lines")
            db.executemany("INSERT INTO log_lines VALUES (?, ?)", rows)
            self.seal.renew()

    def verify(self) -> tuple[int, str] | None:
        """Check the chain and the seal: ``None``, or the first bad entry and what is wrong with it.

        The entry is 0 if the chain is sound but the seal doesn't match or its key is missing.
        """
        with self.reading("check") as db:
            db.execute("BEGIN")  # a consistent snapshot, whatever others write meanwhile
            try:
                return self.seal.problem()
            finally:
                db.execute("ROLLBACK")

    # -- suspensions

    def suspend(self, record: SuspensionRecord) -> None:
        """Store a question until it is answered; synced. A known nonce is left unchanged."""
        # The no-op update forces a page write: without one nothing is synced, and an earlier
        # writer of this question may have been killed before its sync.
        self.write(
            "INSERT INTO suspensions (nonce, run_id, record) VALUES (?, ?, ?) "
            "ON CONFLICT (nonce) DO UPDATE SET nonce = excluded.nonce",
            *(record.nonce, record.run_id, canonical(record.model_dump(mode="json"))),
            synced=True,
        )

    def pending(
        self, notebook: str | None = None, *, answerable: bool = False
    ) -> tuple[PendingRow, ...]:
        """Return the pending questions, newest first, except of replaced or forgotten turns.

        With ``answerable``, those that are too old to be answered are left out.
        """
        since = self.answerable_since() if answerable else None
        rows = self.select(
            # CROSS and + keep SQLite from walking all turns, or all questions in their order.
            f"SELECT suspensions.nonce, suspensions.record, {_TURN_COLUMNS} FROM suspensions "
            "CROSS JOIN turns ON turns.run_id = suspensions.run_id "
            f"WHERE turns.status NOT IN {_GONE} AND "
            "turns.notebook = COALESCE(?, turns.notebook) AND state = 'pending' "
            f"AND {_ASKED.format('?')} ORDER BY +suspensions.rowid DESC",
            *(None if notebook is None else utf8(notebook), since),
        )
        pending: list[PendingRow] = []
        for nonce, text, *turn in rows:
            try:
                record = SuspensionRecord.model_validate(json.loads(text))
            except (TypeError, ValueError):  # it must not hide the others
                _log.warning(_UNREADABLE, nonce)
                continue
            pending.append(PendingRow(record, TurnRow(*turn)))
        return tuple(pending)

    def reopen(self, nonce: str) -> None:
        """Make a question pending again whose answer had no effect; synced."""
        self.write("UPDATE suspensions SET state = 'pending' WHERE nonce = ?", nonce, synced=True)

    def withdraw(self, run_id: str, *, again: bool = False) -> None:
        """Withdraw a turn's pending question, or with ``again`` ask it once more; synced."""
        to, since = ("pending", "withdrawn") if again else ("withdrawn", "pending")
        update = "UPDATE suspensions SET state = ? WHERE state = ? AND run_id = ?"
        self.write(update, to, since, run_id, synced=True)

    def answerable_since(self) -> str:
        """Return the time at which the oldest question was asked that can still be answered."""
        return (self.clock.now().astimezone(UTC) - timedelta(seconds=GRACE_S)).isoformat()

    def news(self) -> str:
        """Return a notice about the journal itself for the user, once; empty without one."""
        told, self.notice = self.notice, ""
        return told

    def _now(self) -> str:
        return self.clock.now().isoformat()


def _body(event: AgentEvent) -> str:
    # Tools and failures may carry any object: keep the repr of what JSON can't represent.
    return canonical(to_jsonable_python(event, fallback=repr))


def _newest(db: sqlite3.Connection, notebook: str) -> int:
    """Return the ordinal of a notebook's newest turn; 0 without one."""
    found = db.execute("SELECT MAX(ordinal) FROM turns WHERE notebook = ?", (notebook,)).fetchone()
    return int(found[0] or 0)


# -- purging

# Requests, records and data of old turns go; the chain stays intact. What may still be needed is
# never touched: running turns, answerable questions, and writes whose outcome is unknown.

_MAY_LIE = "Purge again later: what was purged may still lie in the file"

# Turns per transaction: a concurrent writer waits for one batch, not for the whole purge.
_BATCH = 50

_AGE = "COALESCE(NULLIF(ended_at, ''), NULLIF(running_since, ''), started_at)"
# Running runs, runs with a write whose outcome is unknown, and runs with a question that can be
# answered.
_NEEDED = f"""
SELECT run_id FROM turns WHERE status = 'running'
UNION SELECT run_id FROM effects WHERE state != 'committed'
UNION SELECT run_id FROM suspensions JOIN turns USING (run_id)
WHERE status NOT IN {_GONE} AND state = 'pending' AND {_ASKED.format(":asked_after")}
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
    asked_after = journal.answerable_since()
    limits = {"before": before.astimezone(UTC).isoformat(), "asked_after": asked_after}
    with journal.reading("look through") as db:
        rows = db.execute(_OLD, limits).fetchall()
    old = [run_id for run_id, is_needed in rows if not is_needed]
    emptied, kept = 0, len(rows)
    for start in range(0, len(old), _BATCH):
        with journal.transaction(synced=True) as db:
            # A setting of the connection, which may have been reopened.
            db.execute("PRAGMA secure_delete = ON")
            batch = json.dumps(old[start : start + _BATCH])
            still = db.execute(_STILL_OLD, {**limits, "batch": batch}).fetchall()
            emptied += sum([_empty(db, run_id) for (run_id,) in still])
        kept -= len(still)
    return Purged(emptied, kept, _shrink(journal))


def old_copies(workspace: Path, before: datetime) -> tuple[Path, ...]:
    """Return the backup copies, older than ``before``, of files that an agent overwrote."""
    return tuple(
        path
        for path in sorted((workspace / ARTIFACT_FOLDER / "replaced").rglob("*"))
        if path.is_file() and not path.is_symlink() and path.stat().st_mtime < before.timestamp()
    )


def _empty(db: sqlite3.Connection, run_id: str) -> bool:
    """Empty the content of a run; return whether it had any."""
    before, emptied = db.total_changes, "UPDATE turns SET request = '', summary = ''"
    db.execute(f"{emptied} WHERE run_id = ? AND request || summary <> ''", (run_id,))
    for table in ("suspensions", "effects", "sent"):
        db.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))
    db.execute("UPDATE events SET run_id = '', body = '' WHERE run_id = ?", (run_id,))
    return db.total_changes > before


def _shrink(journal: SqliteJournal) -> str:
    """Vacuum the file and truncate its log; return why that failed, or ``""``."""
    try:
        runs = any(map(journal.has_process, journal.running()))  # a dead one is no hindrance
        with journal.reading("shrink") as db:
            if not runs:
                db.execute("VACUUM")  # split pages still contain old bytes
            # Moves the log into the file.
            is_read = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    except JournalError as exc:
        return f"{_MAY_LIE}. {exc}"
    if is_read:
        return f"{_MAY_LIE}, because another process reads it."
    return f"{_MAY_LIE}, which isn't copied while a turn runs." if runs else ""
