"""The requests that went to models, in the journal's file, without repeating what went before.

Of the messages and tools of a request those are kept that are new in it, and of the others their
place in the request before it in its run.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

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
    """One request: when it was sent (ISO 8601 in UTC), to which model, and all of it."""

    at: str
    model: str
    request: ModelRequest


@dataclass(eq=False)
class SentLog:
    """Writes down what one run sends."""

    database: Database
    run_id: str
    _newest: int = 0
    _written: dict[str, list[str]] = field(default_factory=dict)
    # Messages do not change: of the newest request, each with its JSON, by identity.
    _known: dict[int, tuple[Any, str]] = field(default_factory=dict)

    def put_down(self, at: str, model: str, request: ModelRequest) -> None:
        """Write down that ``request`` is sent. ``JournalError`` when that cannot be done."""
        try:
            known, self._known = self._known, {}
            texts = {n: [self._text(each, known) for each in getattr(request, n)] for n in _LISTS}
            rest = json.dumps({k: v for k, v in vars(request).items() if k not in _LISTS})
        except (TypeError, ValueError, RecursionError) as exc:
            raise JournalError(
                f"A request cannot be put on record ({exc}): report it with this sentence."
            ) from exc
        with self.database.transaction() as db:
            newest = db.execute(
                "SELECT COALESCE(MAX(seq), 0) FROM sent WHERE run_id = ?", (self.run_id,)
            ).fetchone()[0]
            # Where the journal was taken away meanwhile, nothing went before.
            before = self._written if newest == self._newest else {}
            told = {name: _news(before.get(name, []), texts_of) for name, texts_of in texts.items()}
            db.execute(
                "INSERT INTO sent (run_id, seq, at, model, request) VALUES (?, ?, ?, ?, ?)",
                (
                    self.run_id,
                    newest + 1,
                    at,
                    storable(model),
                    json.dumps({**json.loads(rest), **told}),
                ),
            )
        self._newest, self._written = newest + 1, texts

    def _text(self, message: Any, known: dict[int, tuple[Any, str]]) -> str:
        """``message`` as JSON."""
        of, text = known.get(id(message), (None, ""))
        if of is not message:
            text = json.dumps(message)
        self._known[id(message)] = message, text
        return text


def sent_by(database: Database, run_id: str) -> tuple[SentRequest, ...]:
    """The requests of a run, in order, their messages and tools as lists.

    ``JournalError`` when they cannot be read.
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
    """The names of the models to which these runs have sent anything."""
    rows = database.select("SELECT DISTINCT run_id, model FROM sent")
    return frozenset(model for run_id, model in rows if run_id in run_ids)


def _news(before: list[str], texts: list[str]) -> list[Any]:
    """``texts`` as values, by their place in ``before`` where they stand there."""
    known = {text: place for place, text in enumerate(before)}
    return [known[text] if text in known else json.loads(text) for text in texts]


def _whole(before: list[Any], told: list[Any]) -> list[Any]:
    return [before[each] if isinstance(each, int) else each for each in told]
