"""Which turns of a journal are meant by a notebook's name."""

from collections.abc import Sequence
from pathlib import PurePath

from parsimony_kernel.cli.parser import nearest
from parsimony_kernel.session.turns import SessionError
from parsimony_kernel.storage.store import TurnRow

_LISTED = 5
REMEDY = "List them with: jupyter parsimony runs"


def of_notebook(turns: Sequence[TurnRow], named: str | None) -> list[TurnRow]:
    """The turns of one notebook, or all where none is named.

    A notebook goes by its path in the workspace, or by its file name where that is one only.
    Raises ``SessionError`` when it is none or several.
    """
    if named is None:
        return list(turns)
    known = sorted({turn.notebook for turn in turns})
    name = PurePath(named).name
    found = [each for each in known if each == PurePath(named).as_posix()]
    found = found or [each for each in known if PurePath(each).name == name]
    if len(found) == 1:
        return [turn for turn in turns if turn.notebook == found[0]]
    if found:
        raise SessionError(
            f"{named!r} may be {_listed([repr(each) for each in found])}: give the whole path."
        )
    raise SessionError(
        f"No turn of a notebook {named!r} is on record here.{nearest(named, known)} {REMEDY}"
    )


def _listed(names: Sequence[str]) -> str:
    more = [f"{len(names) - _LISTED} more"] if len(names) > _LISTED else []
    return ", ".join([*names[:_LISTED], *more])
