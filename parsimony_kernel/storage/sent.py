"""The log of model requests in the journal's file, delta-encoded.

For each request, messages and tools that are new in it are stored in full, and the others as
their index in the previous request of the same run.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from parsimony_kernel.core.chat import ModelRequest
from parsimony_kernel.core.text import utf8
from parsimony_kernel.storage.database import Database

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
