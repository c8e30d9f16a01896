"""The write-ahead log of side effects, by idempotency key, in the journal's file.

It is shared by every process of a workspace.
"""

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.core.effects import Standing
from parsimony_kernel.core.text import utf8
from parsimony_kernel.storage.database import Database

# Unfinished records, of any run, of the same action and inputs as the one under a key.
_SAME_WRITE = (
    "state = 'intended' AND (action, inputs) = (SELECT action, inputs FROM effects WHERE key = ?)"
)

_UNKNOWN = ", so it is not known whether it happened: look for yourself, then run the cell again."


@dataclass(eq=False)
class JournalEffects:
    """The writes of one run. Every method may raise ``JournalError``.

    Args:
        database: the journal's file.
        run_id: the run that the records belong to.
        told: maps an action and its inputs to the inputs as recorded.
        answered: maps an answer to the answer as recorded.
    """

    database: Database
    run_id: str
    told: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] = lambda action, inputs: inputs
    answered: Callable[[Any], Any] = lambda answer: answer

    def standing(
        self, key: str, action: str = "", inputs: Mapping[str, Any] | None = None
    ) -> Standing | None:
        """Return the recorded state of a write, or ``None`` if it never began.

        With ``inputs``, unfinished writes of the same action and inputs under other keys count
        too; ``may_go_on`` tells that one of them belongs to a running turn.
        """
        with self.database.transaction() as db:
            row = db.execute("SELECT state, answer FROM effects WHERE key = ?", (key,)).fetchone()
            others = () if inputs is None else _open(db, key, action, self.told(action, inputs))
        if row is None and not others:
            return None
        state, answer = row or ("intended", "null")
        with self.database.intact("The record of a write", _UNKNOWN):
            if state == "committed":
                return Standing("committed", json.loads(answer))
            if state != "intended":
                raise ValueError(state)
            keys = tuple(str(other) for other, _ in others)
            return Standing("intended", others=keys, may_go_on=any(runs for _, runs in others))

    def intend(self, key: str, action: str, inputs: Mapping[str, Any]) -> bool:
        """Record, synced, that the write is about to run; ``False`` if it had begun before."""
        inputs = self.told(action, inputs)
        with self.database.transaction(synced=True) as db:
            others = _open(db, key, action, inputs)
            made = db.execute(
                "INSERT INTO effects (key, run_id, action, inputs, state) "
                "VALUES (?, ?, ?, ?, 'intended') ON CONFLICT (key) DO NOTHING",
                (key, self.run_id, utf8(action), _json(inputs)),
            )
            return made.rowcount == 1 and not others

    def commit(self, key: str, answer: Any) -> None:
        """Record, synced, that the write happened, and its answer."""
        told = _json(self.answered(answer))
        with self.database.transaction(synced=True) as db:
            # Insert if needed: the intent is missing if the journal was removed in between.
            db.execute(
                "INSERT INTO effects (key, run_id, action, inputs, state, answer) "
                "VALUES (?, ?, '', '{}', 'committed', ?) "
                "ON CONFLICT (key) DO UPDATE SET state = excluded.state, answer = excluded.answer",
                (key, self.run_id, told),
            )
            update = f"UPDATE effects SET state = 'committed', answer = ? WHERE {_SAME_WRITE}"
            db.execute(update, (told, key))

    def withdraw(self, key: str) -> None:
        """Record, synced, that the write didn't happen: delete its intent."""
        with self.database.transaction(synced=True) as db:
            db.execute(
                f"DELETE FROM effects WHERE {_SAME_WRITE} AND EXISTS "
                "(SELECT 1 FROM effects WHERE key = ? AND state = 'intended')",
                (key, key),
            )


def _open(
    db: sqlite3.Connection, key: str, action: str, inputs: Mapping[str, Any]
) -> list[tuple[str, int]]:
    """Return other keys with an unfinished record of this write, and whether its turn runs."""
    return db.execute(
        "SELECT key, EXISTS (SELECT 1 FROM turns WHERE turns.run_id = effects.run_id AND "
        "turns.status = 'running') FROM effects "
        "WHERE state = 'intended' AND action = ? AND inputs = ? AND key <> ?",
        (utf8(action), _json(inputs), key),
    ).fetchall()


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
