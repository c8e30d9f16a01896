"""Which turns of a journal are meant: by notebook, by number, by the beginning of an id."""

from collections.abc import Sequence
from pathlib import PurePath

from parsimony_kernel.commands.parser import nearest
from parsimony_kernel.journal.store import TurnRow
from parsimony_kernel.notebook.turns import SessionError

ID_CHARS = 8

_LISTED = 5
_REMEDY = "List them with: jupyter parsimony runs"


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
        f"No turn of a notebook {named!r} is on record here.{nearest(named, known)} {_REMEDY}"
    )


def resolve(turns: Sequence[TurnRow], named: str | None) -> TurnRow:
    """The turn that ``named`` means: a number, the beginning of an id, or the newest.

    Raises ``SessionError`` when it is none or several.
    """
    if not turns:
        raise SessionError("No turn is on record here. Name another folder with --folder.")
    if named is None:
        return turns[-1]
    numbered = [turn for turn in turns if str(turn.ordinal) == named]
    found = numbered or [turn for turn in turns if turn.run_id.startswith(named)]
    if len(found) == 1:
        return found[0]
    if numbered:
        told = [f"{turn.run_id[:ID_CHARS]} of {turn.notebook!r}" for turn in numbered]
        raise SessionError(
            f"Several notebooks have a turn {named}: name one with --notebook, or give the "
            f"beginning of the id ({_listed(told)})."
        )
    if found:
        told = [turn.run_id[: len(named) + 4] for turn in found]
        raise SessionError(
            f"{len(found)} turns have ids that begin with {named!r}, so give more of it: "
            f"{_listed(told)}."
        )
    known = [name for turn in turns for name in (str(turn.ordinal), turn.run_id[:ID_CHARS])]
    raise SessionError(f"No turn goes by {named!r}.{nearest(named[:ID_CHARS], known)} {_REMEDY}")


def _listed(names: Sequence[str]) -> str:
    more = [f"{len(names) - _LISTED} more"] if len(names) > _LISTED else []
    return ", ".join([*names[:_LISTED], *more])
