"""What was made since from versions of variables that are taken back. Pure: the ledger in, cells
out."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from parsimony_kernel.lineage.ledger import CellRun, InputRef, OriginLedger

_CODE_CHARS = 60
_MOST_TOLD = 8


@dataclass(frozen=True)
class Dependent:
    """A cell that ran on what is taken back.

    ``used`` are the names that it read of what is taken back, ``through`` such as other
    dependents had made of it; ``stands`` the names that it made and that are still what it made.
    """

    cell: CellRun
    used: tuple[str, ...] = ()
    through: tuple[str, ...] = ()
    stands: tuple[str, ...] = ()


def dependents(
    ledger: OriginLedger, undone: Iterable[InputRef], *, after: int = 0, apart_from: str = ""
) -> tuple[Dependent, ...]:
    """The cells that used ``undone``, or what was made of it, oldest first.

    A cell counts while something that it made still stands, or, where it is a person's that made
    nothing, until it runs again.

    Args:
        undone: the versions that stand no more.
        after: only runs with a higher number count.
        apart_from: a run whose own cells do not count.
    """
    gone = {(ref.name, ref.version) for ref in undone}
    derived = set[tuple[str, int]]()
    runs = [run for run in ledger.cell_runs() if run.number > after]
    newest = {(run.notebook_path, run.cell_id): run.number for run in runs if run.cell_id}
    found = []
    for run in runs:
        if apart_from and run.run_id == apart_from:
            continue
        read = {(ref.name, ref.version) for ref in run.reads}
        if read.isdisjoint(gone) and read.isdisjoint(derived):
            continue
        made = {(ref.name, ref.version) for ref in run.made}
        derived |= made
        stands = {name for name, version in made - gone if ledger.version(name) == version}
        is_newest = newest.get((run.notebook_path, run.cell_id), run.number) == run.number
        if stands or (run.actor == "user" and not made and is_newest):
            found.append(
                Dependent(run, _names(read & gone), _names(read & derived), tuple(sorted(stands)))
            )
    return tuple(found)


def warnings(
    found: Collection[Dependent],
    ordinal: int,
    *,
    removed: Collection[str] = (),
    turns: Mapping[str, int] | None = None,
    redone: bool = False,
) -> list[str]:
    """What to tell of ``found`` when the turn ``ordinal`` was taken back, a line each.

    Args:
        removed: the names that are gone with it.
        turns: the numbers of turns, by run.
        redone: the turn was done again, and what stood without it is gone.
    """
    left = f"as it was without turn {ordinal}" if redone else f"as turn {ordinal} left it"
    lines = [
        _warning(each, left, frozenset(removed), turns or {}) for each in list(found)[:_MOST_TOLD]
    ]
    more = len(found) - len(lines)
    return [*lines, f"And {more} more."] if more else lines


def _warning(found: Dependent, left: str, removed: frozenset[str], turns: Mapping[str, int]) -> str:
    if found.cell.actor == "user":
        who = f"Your cell `{_line(found.cell.code)}`"
    elif found.cell.run_id in turns:
        who = f"Turn {turns[found.cell.run_id]}"
    else:
        who = "A later turn"
    if found.used:
        what = f"used {_listed(found.used)} {left}"
    else:
        what = f"used {_listed(found.through)}, made from what stands no more"
    if gone := removed.intersection(found.used):
        return f"{who} {what}: {_listed(sorted(gone))} is gone now."
    if found.cell.actor == "user":
        return f"{who} {what}: run it again."
    return f"{who} {what}: {_listed(found.stands)} still stands on it."


def _line(code: str) -> str:
    words = " ".join(code.split())
    return words if len(words) <= _CODE_CHARS else words[: _CODE_CHARS - 1] + "…"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _names(refs: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    return tuple(sorted({name for name, _ in refs}))
