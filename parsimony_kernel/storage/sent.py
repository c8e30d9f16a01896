"""The log of model requests in the journal's file, delta-encoded.

For each request, messages and tools that are new in it are stored in full, and the others as
their index in the previous request of the same run.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from parsimony_kernel.core.chat import ModelRequest
from parsimony_kernel.storage.database import Database, JournalError, storable

TABLE = """
CREATE TABLE sent (
    run_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at TEXT NOT NULL,
    model TEXT NOT NULL,
    request TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
);
"""
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
                (self.run_id, newest + 1, at, storable(model), body),
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
    try:
        for at, model, text in rows:
            told = json.loads(text)
            before = {name: _whole(before.get(name, []), told[name]) for name in _LISTS}
            lists = {name: each or () for name, each in before.items()}
            found.append(SentRequest(at, model, ModelRequest(**{**told, **lists})))
    except (LookupError, TypeError, ValueError) as exc:
        raise JournalError(
            f"What was sent in a turn cannot be read from the journal {database.path!r}: it is "
            "damaged. Restore the file from a backup."
        ) from exc
    return tuple(found)


def models_asked(database: Database, run_ids: Collection[str]) -> frozenset[str]:
    """Return the names of the models that received requests of these runs."""
    rows = database.select("SELECT DISTINCT run_id, model FROM sent")
    return frozenset(model for run_id, model in rows if run_id in run_ids)


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
