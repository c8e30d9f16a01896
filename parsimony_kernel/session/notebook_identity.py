"""Which history is a notebook's: that of its name, of the name it had, or none yet.

A notebook that the journal does not know is told by the ids of its cells: those whose turns the
journal has under another name. A copy begins its own history. The rule of the place: looking
changes nothing, and where it is not clear whose history it is, none is taken over.
"""

import json
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise
from pathlib import Path, PurePosixPath
from typing import Any, Final

from parsimony_kernel.storage import durable
from parsimony_kernel.storage.journal import SqliteJournal, TurnRow

# What a notebook is called whose name nobody tells.
NAMELESS: Final = "untitled"
# This process, in the names of what has none.
LIFE: Final = uuid.uuid4().hex[:8]
# Larger ones are not read for their cells.
MAX_BYTES = 64 * 2**20
# Of more files in a folder no other one is looked at.
MAX_FILES = 200

_OF_A_LIFE = re.compile(rf"(?P<name>(?:.*/)?{NAMELESS})#(?P<life>[0-9a-f]{{8}})", re.DOTALL)
_REPEATED = re.compile(r"#\d+\Z")


@dataclass(frozen=True)
class Recognised:
    """What the cells of a notebook tell: a sentence for people, and the history that moves, from
    one name to another. Empty where it has its own history, or none yet."""

    sentence: str = ""
    moves: tuple[str, str] | None = None


# -- names


def name_in(workspace: Path, notebook: Path) -> str:
    """The notebook's name: its path in the workspace, so that two of one file name in different
    folders stay apart."""
    try:
        return notebook.resolve().relative_to(workspace.resolve()).as_posix()
    except ValueError:
        return notebook.resolve().as_posix()


def history_name(name: str, life: str = LIFE) -> str:
    """The name under which the journal keeps the turns of the notebook ``name``.

    Without a name nobody knows which notebook it is: its history is that of one process.
    """
    return f"{name}#{life}" if PurePosixPath(name).name == NAMELESS else name


def plain_name(history: str) -> str:
    """The notebook's name, of the one under which the journal keeps its turns."""
    found = _OF_A_LIFE.fullmatch(history)
    return found["name"] if found else history


def called(history: str) -> str:
    """What people read as the name of the notebook with that history."""
    found = _OF_A_LIFE.fullmatch(history)
    return f"a notebook without a name ({found['life']})" if found else history


# -- cells


def cells_of(path: Path) -> frozenset[str]:
    """The ids of the file's code cells, which are their keys in the journal.

    Empty when there is no such file, or none that can be read as a notebook.
    """
    return frozenset(each["id"] for each in _code_cells(path) if isinstance(each.get("id"), str))


def source_after(path: Path, cell_id: str) -> str:
    """The source of the code cell behind the one with ``cell_id``; empty where there is none."""
    cells = _code_cells(path)
    following = (
        after.get("source")
        for cell, after in pairwise(cells)
        if cell_id and cell.get("id") == cell_id
    )
    source = next(following, "")
    return "".join(map(str, source)) if isinstance(source, list) else str(source or "")


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
    """Recognise the notebook at ``path``, take its history over, and say so in one sentence.

    Empty when there is nothing to say. ``JournalError`` when the journal cannot be read or written.
    """
    found = recognise(journal, workspace, path)
    if found.moves is not None and not journal.move_notebook(*found.moves):
        return ""  # another process was at it meanwhile
    return found.sentence


def recognise(journal: SqliteJournal, workspace: Path, path: Path) -> Recognised:
    """Whose history the notebook at ``path`` goes on with, by its cells.

    One that the journal knows by its name is the same, unless it has none of the cells and exactly
    one other file of its folder has them. Else it was moved where another one with its cells is not
    there any more, and is a copy where that one is. While a process that had turns of the other one
    lives, it goes on under the old name, and nothing is taken from it.

    Raises:
        JournalError: the journal cannot be read.
    """
    name = name_in(workspace, path)
    if PurePosixPath(name).suffix != ".ipynb" or not (names := journal.notebook_names()):
        return Recognised()
    if not (cells := cells_of(path)):
        return Recognised()
    turns_of = cache(journal.turns)  # of all of them only where the name is a new one

    def is_open(other: str) -> bool:
        return any(map(journal.has_process, turns_of(other)))

    if name in names:
        turns = turns_of(name)
        heirs = []
        if not (_current(turns) & cells or is_open(name)):
            files = islice(path.parent.glob("*.ipynb"), MAX_FILES)
            beside = ((name_in(workspace, each), each) for each in files)
            new = ((other, file) for other, file in beside if other not in names)
            heirs = [other for other, file in new if _have_in_common(turns, cells_of(file))]
        if len(heirs) != 1:
            return Recognised()
        return Recognised(
            f"The notebook that had this name before is {heirs[0]!r} now, and its turns went with "
            "it: this one begins without them.",
            (name, heirs[0]),
        )
    known = (each for each in names if not _OF_A_LIFE.fullmatch(each))
    found = [other for other in known if _have_in_common(turns_of(other), cells)]
    if len(found) > 1:
        return Recognised(
            f"This notebook has cells of {', '.join(map(repr, sorted(found)))}, and it is not "
            "clear which of them it was: it begins without their turns."
        )
    for other in found:
        if not is_open(other) and _has_left(workspace / other, path, turns_of(other)):
            return Recognised(
                f"This notebook was moved here from {other!r}, and its turns came along.",
                (other, name),
            )
        return Recognised(
            f"This notebook is a copy of {other!r}: it begins its own history. "
            f"To list the turns of that one: jupyter parsimony runs --notebook {other}"
        )
    return Recognised()


def _has_left(other: Path, path: Path, turns: Sequence[TurnRow]) -> bool:
    """Whether the notebook with these turns is not at ``other`` any more: nothing is there beside
    the one at ``path``, or a notebook with none of their cells."""
    try:
        if other.samefile(path):  # under a name that differs in case, or a second link
            return True
    except (FileNotFoundError, NotADirectoryError):
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
    """The keys of the cells whose turns are not replaced."""
    return frozenset(
        _REPEATED.sub("", turn.cell_key) for turn in turns if turn.status != "replaced"
    )
