"""The record of writes in the journal's file: synced, and shared by every process.

Made on first need, beside the journal's own tables.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal

from parsimony_kernel.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.gate.effects import Standing
from parsimony_kernel.journal.database import Database, JournalError, storable

_TABLE = """
CREATE TABLE IF NOT EXISTS effects (
    key TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    action TEXT NOT NULL,
    inputs TEXT NOT NULL,
    state TEXT NOT NULL,
    answer TEXT NOT NULL DEFAULT 'null',
    at TEXT NOT NULL
)"""

_STATE: dict[str, Literal["intended", "committed"]] = {
    "intended": "intended",
    "committed": "committed",
}


class JournalEffects:
    """The writes of one run. Every method may raise ``JournalError``."""

    def __init__(self, database: Database, run_id: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self._database = database
        self._run_id = run_id
        self._clock = clock

    def standing(self, key: str) -> Standing | None:
        """Where the write stands, or ``None``."""
        with self._database.transaction() as db:
            db.execute(_TABLE)
            row = db.execute("SELECT state, answer FROM effects WHERE key = ?", (key,)).fetchone()
        if row is None:
            return None
        try:
            return Standing(_STATE[row[0]], json.loads(row[1]))
        except (KeyError, TypeError, ValueError) as exc:
            raise JournalError(
                f"The record of a write in the journal {self._database.path!r} is damaged, so it "
                "is not known whether it happened: look for yourself, then run the cell again."
            ) from exc

    def intend(self, key: str, action: str, inputs: Mapping[str, Any]) -> None:
        """Put down, synced, that the write is about to run."""
        with self._database.transaction(synced=True) as db:
            db.execute(_TABLE)
            db.execute(
                "INSERT INTO effects (key, run_id, action, inputs, state, at) "
                "VALUES (?, ?, ?, ?, 'intended', ?) ON CONFLICT (key) DO NOTHING",
                (key, self._run_id, storable(action), _json(inputs), self._now()),
            )

    def commit(self, key: str, answer: Any) -> None:
        """Put down, synced, that the write happened and what it answered."""
        with self._database.transaction(synced=True) as db:
            db.execute(_TABLE)
            # The intent is gone where the journal was taken away in between.
            db.execute(
                "INSERT INTO effects (key, run_id, action, inputs, state, answer, at) "
                "VALUES (?, ?, '', '{}', 'committed', ?, ?) ON CONFLICT (key) DO UPDATE SET "
                "state = excluded.state, answer = excluded.answer, at = excluded.at",
                (key, self._run_id, _json(answer), self._now()),
            )

    def withdraw(self, key: str) -> None:
        """Put down, synced, that the write did not happen."""
        with self._database.transaction(synced=True) as db:
            db.execute(_TABLE)
            db.execute("DELETE FROM effects WHERE key = ? AND state = 'intended'", (key,))

    def _now(self) -> str:
        return self._clock.now().isoformat()


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
