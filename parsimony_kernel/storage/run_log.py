"""What a run does beyond the notebook, in the journal's file: its writes and its model requests.

The writes are a write-ahead log by idempotency key, shared by every process of a workspace. Of each
request, messages and tools that are new in it are stored in full, and the others as their index in
the previous request of the same run.
"""

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from parsimony_kernel.core.chat import ModelRequest
from parsimony_kernel.core.effects import Inputs, Standing, action_sha
from parsimony_kernel.core.text import utf8
from parsimony_kernel.storage.database import Database

# -- writes

_BEGIN = (
    "INSERT INTO effects (key, run_id, action, inputs, state) VALUES (?, ?, ?, ?, 'intended') "
    "ON CONFLICT (key) DO NOTHING"
)
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
        clean: redacts inputs and answers, as JSON, for the record.
    """

    database: Database
    run_id: str
    clean: Callable[[Any], Any] = lambda value: value

    def standing(self, key: str, action: str = "", inputs: Inputs | None = None) -> Standing | None:
        """Return the recorded state of a write, or ``None`` if it never began.

        With ``inputs``, unfinished writes of the same action and inputs under other keys count
        too; ``may_go_on`` tells that one of them belongs to a running turn.
        """
        with self.database.transaction() as db:
            row = db.execute("SELECT state, answer FROM effects WHERE key = ?", (key,)).fetchone()
            others = () if inputs is None else _open(db, key, action, self._told(action, inputs))
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

    def intend(self, key: str, action: str, inputs: Inputs) -> bool:
        """Record, synced, that the write is about to run; ``False`` if it had begun before."""
        inputs = self._told(action, inputs)
        with self.database.transaction(synced=True) as db:
            others = _open(db, key, action, inputs)
            made = db.execute(_BEGIN, (key, self.run_id, utf8(action), _json(inputs)))
            return made.rowcount == 1 and not others

    def commit(self, key: str, answer: Any) -> None:
        """Record, synced, that the write happened, and its answer."""
        told = _json(self.clean(answer))
        with self.database.transaction(synced=True) as db:
            # Insert if needed: the intent is missing if the journal was removed in between.
            db.execute(_BEGIN, (key, self.run_id, "", "{}"))
            update = "UPDATE effects SET state = 'committed', answer = ? WHERE key = ? OR"
            db.execute(f"{update} ({_SAME_WRITE})", (told, key, key))

    def withdraw(self, key: str) -> None:
        """Record, synced, that the write didn't happen: delete its intent."""
        with self.database.transaction(synced=True) as db:
            db.execute(
                f"DELETE FROM effects WHERE {_SAME_WRITE} AND EXISTS "
                "(SELECT 1 FROM effects WHERE key = ? AND state = 'intended')",
                (key, key),
            )

    def _told(self, action: str, inputs: Inputs) -> Inputs:
        """Redact the inputs of a write; a hash keeps those with different secrets distinct."""
        clean = self.clean(dict(inputs))
        return inputs if clean == inputs else {**clean, "": action_sha(action, inputs)}


def _open(db: sqlite3.Connection, key: str, action: str, inputs: Inputs) -> list[tuple[str, int]]:
    """Return other keys with an unfinished record of this write, and whether its turn runs."""
    return db.execute(
        "SELECT key, EXISTS (SELECT 1 FROM turns WHERE turns.run_id = effects.run_id AND "
        "turns.status = 'running') FROM effects "
        "WHERE state = 'intended' AND action = ? AND inputs = ? AND key <> ?",
        (utf8(action), _json(inputs), key),
    ).fetchall()


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


# -- requests

_LISTS = ("messages", "tools")


@dataclass(frozen=True)
class SentRequest:
    """A complete request, with its time (ISO 8601 in UTC) and its model."""

    at: str
    model: str
    request: ModelRequest


@dataclass(eq=False)
class SentLog:
    """The request log of one run."""

    database: Database
    run_id: str
    _newest: int = 0
    _written: dict[str, list[bytes]] = field(default_factory=dict)

    def put_down(self, at: str, model: str, request: ModelRequest) -> None:
        """Record a request before it is sent; ``JournalError`` if it can't be recorded."""
        with self.database.transaction() as db:
            texts = {name: [*map(_text, getattr(request, name))] for name in _LISTS}
            rest = {name: each for name, each in vars(request).items() if name not in _LISTS}
            newest = db.execute(
                "SELECT COALESCE(MAX(seq), 0) FROM sent WHERE run_id = ?", (self.run_id,)
            ).fetchone()[0]
            # If the journal was replaced meanwhile, there is no previous request to refer to.
            before = self._written if newest == self._newest else {}
            told = {name: _news(before.get(name, []), texts_of) for name, texts_of in texts.items()}
            body = json.dumps(rest | told, default=repr)
            db.execute(
                "INSERT INTO sent (run_id, seq, at, model, request) VALUES (?, ?, ?, ?, ?)",
                (self.run_id, newest + 1, at, utf8(model), body),
            )
        self._newest, self._written = newest + 1, texts


def sent_by(database: Database, run_id: str) -> tuple[SentRequest, ...]:
    """Return the requests of a run, in order, with messages and tools restored.

    ``JournalError`` if they can't be read.
    """
    rows = database.select(
        "SELECT at, model, request FROM sent WHERE run_id = ? ORDER BY seq", run_id
    )
    found, before = list[SentRequest](), dict[str, list[Any]]()
    with database.intact("A model request", ": restore the file from a backup."):
        for at, model, text in rows:
            told = json.loads(text)
            before = {name: _whole(before.get(name, []), told[name]) for name in _LISTS}
            lists = {name: each or () for name, each in before.items()}
            found.append(SentRequest(at, model, ModelRequest(**{**told, **lists})))
    return tuple(found)


def has_asked(database: Database, notebook: str, *, but: str) -> bool:
    """Return whether any model other than ``but`` received a request of this notebook."""
    asked = "SELECT 1 FROM turns JOIN sent USING (run_id) WHERE notebook = ? AND sent.model <> ?"
    return bool(database.select(f"{asked} LIMIT 1", utf8(notebook), but))


def has_reached(database: Database, run_id: str) -> bool:
    """Return whether anything that left the notebook is on record for a run."""
    return bool(database.select("SELECT 1 FROM effects WHERE run_id = ? LIMIT 1", run_id))


def _text(value: Any) -> bytes:
    """Return ``value`` as JSON, with the ``repr`` of what JSON can't represent."""
    try:
        return to_json(value, fallback=repr)
    except ValueError:  # a lone surrogate, which UTF-8 can't encode
        return json.dumps(value, default=repr).encode()


def _news(before: list[bytes], texts: list[bytes]) -> list[Any]:
    """Decode ``texts``, with the index in ``before`` for those that occur there."""
    known = {text: place for place, text in enumerate(before)}
    return [known[text] if text in known else json.loads(text) for text in texts]


def _whole(before: list[Any], told: list[Any]) -> list[Any]:
    return [before[each] if isinstance(each, int) else each for each in told]
