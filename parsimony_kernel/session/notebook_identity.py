"""Notebook identity: find a notebook's history in the journal after a rename, move or copy.

A notebook with a new name is recognised by its cell ids, if the journal has turns of these cells
under another name. A copy starts its own history. Rule: an ambiguous history is not adopted.
"""

import json
import re
import uuid
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, Final

from parsimony_kernel.storage import durable
from parsimony_kernel.storage.journal import SqliteJournal, TurnRow

# The name of a notebook whose front end doesn't report one.
NAMELESS: Final = "untitled"
# Identifies this process in the history name of an unnamed notebook.
LIFE: Final = uuid.uuid4().hex[:8]
# Larger notebooks are not read for cell ids.
MAX_BYTES = 64 * 2**20

_OF_A_LIFE = re.compile(rf"(?P<name>(?:.*/)?{NAMELESS})#(?P<life>[0-9a-f]{{8}})", re.DOTALL)
_REPEATED = re.compile(r"#\d+\Z")


# -- names


def name_in(workspace: Path, notebook: Path) -> str:
    """Return the notebook's path in the workspace, which is unique unlike its file name.

    A notebook outside of the workspace gets its absolute path.
    """
    path, root = notebook.resolve(), workspace.resolve()
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


def history_name(name: str, life: str = LIFE) -> str:
    """Return the name under which the journal keeps the turns of the notebook ``name``.

    An unnamed notebook can't be identified later, so its history is tied to one process, ``life``.
    """
    return f"{name}#{life}" if PurePosixPath(name).name == NAMELESS else name


def plain_name(history: str) -> str:
    """Return the notebook's name for a history name; the inverse of ``history_name``."""
    found = _OF_A_LIFE.fullmatch(history)
    return found["name"] if found else history


# -- cells


def cells_of(path: Path) -> frozenset[str]:
    """Return the ids of a notebook's code cells, which are their keys in the journal.

    Empty if the file is missing or isn't a readable notebook.
    """
    return frozenset(each["id"] for each in _code_cells(path) if isinstance(each.get("id"), str))


def source_after(path: Path, cell_id: str) -> str:
    """Return the source of the code cell after ``cell_id``; empty if there is none."""
    for cell, after in pairwise(_code_cells(path)):
        if cell_id and cell.get("id") == cell_id:
            source = after.get("source") or ""
            return "".join(map(str, source)) if isinstance(source, list) else str(source)
    return ""


def _code_cells(path: Path) -> list[dict[str, Any]]:
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return []
        document = json.loads(durable.read(path))
    except (OSError, ValueError, RecursionError):
        return []
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list):
        return []
    return [each for each in cells if isinstance(each, dict) and each.get("cell_type") == "code"]


# -- recognising


def adopt(journal: SqliteJournal, workspace: Path, path: Path) -> str:
    """Determine from cell ids which history the notebook at ``path`` continues, and rename it.

    - Known name: its own history, unless it has none of the recorded cells and exactly one other
      file of its folder, unknown to the journal, has them: then the history moves to that file.
    - New name, cells of one known notebook: moved if that notebook is gone, else a copy.
    - While a process with turns of the other notebook is alive, its history stays there.

    Returns:
        One sentence for people; empty if the notebook has its own history, or none yet.

    Raises:
        JournalError: The journal can't be read or written.
    """
    name, names = name_in(workspace, path), journal.notebook_names()
    cells = cells_of(path) if names and PurePosixPath(name).suffix == ".ipynb" else frozenset()
    if not cells:
        return ""
    turns_of = cache(journal.turns)  # of every notebook only if the name is new

    def is_open(other: str) -> bool:
        return any(map(journal.has_process, turns_of(other)))

    if name in names:
        turns = turns_of(name)
        if _current(turns) & cells or is_open(name):
            return ""
        beside = {name_in(workspace, file): file for file in path.parent.glob("*.ipynb")}
        new = beside.keys() - {*names}
        heirs = [other for other in new if _have_in_common(turns, cells_of(beside[other]))]
        if len(heirs) != 1 or not journal.move_notebook(name, heirs[0]):
            return ""
        return (
            f"The notebook that had this name before is {heirs[0]!r} now and keeps its turns: "
            "this one begins without them."
        )
    known = (each for each in names if not _OF_A_LIFE.fullmatch(each))
    found = [other for other in known if _have_in_common(turns_of(other), cells)]
    if not found:
        return ""
    other = found[0]
    has_left = not is_open(other) and _has_left(workspace / other, path, turns_of(other))
    if len(found) == 1 and has_left and journal.move_notebook(other, name):
        return f"This notebook was moved here from {other!r}, and its turns came along."
    return (
        f"This notebook is a copy of {' or '.join(map(repr, found))}: it begins its own history. "
        f"To list the original's turns: jupyter parsimony runs --notebook {other}"
    )


def _has_left(other: Path, path: Path, turns: Sequence[TurnRow]) -> bool:
    """Whether the notebook with these turns has left ``other``.

    True if ``other`` is missing, is the same file as ``path``, or has none of the turns' cells.
    """
    try:
        # The same file has a name that differs only in case, or is another link.
        if not other.exists() or other.samefile(path):
            return True
    except (OSError, ValueError):
        return False
    there = cells_of(other)
    return bool(there) and not there & _current(turns)


def _have_in_common(turns: Sequence[TurnRow], cells: frozenset[str]) -> bool:
    """Whether at least half of the cells that have turns are among ``cells``."""
    keys = _current(turns)
    common = keys & cells
    return bool(common) and 2 * len(common) >= len(keys)


def _current(turns: Sequence[TurnRow]) -> frozenset[str]:
    """Return the cell keys of turns that aren't replaced."""
    return frozenset(
        _REPEATED.sub("", turn.cell_key) for turn in turns if turn.status != "replaced"
    )
