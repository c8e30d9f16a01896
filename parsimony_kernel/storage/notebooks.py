"""Where a notebook's turns come from when the file was moved or copied.

Both are entries of the chain about the journal itself. A notebook that was moved has its turns
under its new name. A copy has turns of its own, and sees those that its parent had then, each with
the status that it had: what waited or ran goes on in the parent alone.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from parsimony_kernel.storage import chain

_MOVED, _FORKED = "moved", "forked"
_OPEN: Final = frozenset({"running", "suspended"})


@dataclass(frozen=True)
class Moved:
    """It was called ``from_`` before."""

    from_: str


@dataclass(frozen=True)
class Forked:
    """It is a copy of ``from_``, made when the newest turn there was number ``at``.

    ``turns`` are the runs that it sees of it, with the status of each.
    """

    from_: str
    at: int
    turns: Mapping[str, str]


Origin = Moved | Forked


def origins(db: sqlite3.Connection) -> Mapping[str, tuple[Origin, ...]]:
    """What became of each notebook that was moved or is a copy, by its name now, oldest first."""
    known: dict[str, tuple[Origin, ...]] = {}
    for _, content in chain.notes(db):
        match _read(content):
            case (name, Moved() as moved):
                known[name] = (*known.pop(moved.from_, ()), moved)
            case (name, Forked() as forked):
                known[name] = (*known.get(name, ()), forked)
    return known


def inherited(found: Sequence[Origin]) -> dict[str, str]:
    """The runs that a notebook with these origins sees of others, and their status."""
    return {
        run_id: status
        for origin in found
        if isinstance(origin, Forked)
        for run_id, status in origin.turns.items()
    }


def newest_inherited(found: Sequence[Origin]) -> int:
    """The number of the newest turn that such a notebook sees of others; 0 without one."""
    return max((origin.at for origin in found if isinstance(origin, Forked)), default=0)


def move(db: sqlite3.Connection, old: str, new: str, at: str) -> None:
    """Give the turns of ``old`` to ``new``, inside the caller's transaction."""
    db.execute("UPDATE turns SET notebook = ? WHERE notebook = ?", (new, old))
    chain.note(db, at, _MOVED, {"notebook": new, "from": old})


def fork(
    db: sqlite3.Connection,
    parent: str,
    child: str,
    at: str,
    *,
    newest: int,
    turns: Mapping[str, str],
) -> None:
    """Let ``child`` see ``turns`` of ``parent``, inside the caller's transaction."""
    seen = {run: "cancelled" if status in _OPEN else status for run, status in turns.items()}
    content = {"notebook": child, "from": parent, "at": newest, "turns": seen}
    chain.note(db, at, _FORKED, content)


def _read(content: Mapping[str, Any]) -> tuple[str, Origin] | None:
    try:
        name, parent = str(content["notebook"]), str(content["from"])
        if content["kind"] == _MOVED:
            return name, Moved(parent)
        turns = {str(run): str(status) for run, status in content["turns"].items()}
        return name, Forked(parent, int(content["at"]), turns)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
