"""What each variable of a cell was made from: the inputs of the statements that made it."""

from collections.abc import Collection, Iterator

from parsimony_kernel.analysis.calls import ATOMIC_FUNCTIONS, PURE_METHODS
from parsimony_kernel.analysis.cell import Cell, Statement
from parsimony_kernel.lineage.ledger import InputRef

_HARMLESS = PURE_METHODS | ATOMIC_FUNCTIONS


class Derivation:
    """The inputs of each variable that one run of a cell made.

    Args:
        before: what the cell read, through its functions too, as it stood when the cell began.
        made: what the cell made.
        in_place: those of ``made`` that have their object from before.
        stopped_at: the line at which it stopped with an error, 0 where it did not.
    """

    def __init__(
        self,
        cell: Cell,
        before: Collection[InputRef],
        made: Collection[InputRef],
        in_place: Collection[str],
        stopped_at: int = 0,
    ) -> None:
        self._statements = [
            each for each in cell.statements if not stopped_at or each.lines[0] <= stopped_at
        ]
        self._before = {ref.name: ref for ref in before}
        self._made = {ref.name: ref for ref in made}
        self._in_place = frozenset(in_place)
        # What only the functions that ran have used; it went into all that calls made.
        own = {name for each in self._statements for name in each.reads | each.mutated}
        self._through = self._before.keys() - own

    def inputs_of(self, name: str) -> tuple[InputRef, ...]:
        """What went into ``name``, sorted."""
        if not list(self._makers(name, len(self._statements))):
            found = set(self._before.values())  # no statement says that it made it
        else:
            found = set(self._of_value(name, len(self._statements), set())) - {self._made.get(name)}
            found |= {self._before[name]} if name in self._in_place & self._before.keys() else set()
        return tuple(sorted(found, key=lambda ref: (ref.name, ref.version)))

    def _makers(self, name: str, end: int) -> Iterator[int]:
        """The statements before ``end`` that made or changed ``name``, the newest first, back to
        the one that gave it a new object."""
        for number in reversed(range(end)):
            each = self._statements[number]
            if name in each.writes | each.mutated | each.reached or _may_change(each, name):
                yield number
            if name in each.certain and name not in each.mutated:
                return

    def _of_value(self, name: str, end: int, seen: set[tuple[str, int]]) -> Iterator[InputRef]:
        """What went into ``name`` as it stands before the statement ``end``."""
        if (name, end) in seen:
            return
        seen.add((name, end))
        is_new = False
        for number in self._makers(name, end):
            each = self._statements[number]
            is_new = name in each.certain
            # The body of a function looks its names up when it runs.
            at = len(self._statements) if each.defines else number
            for read in each.inputs_of(name):
                yield from self._of_read(read, at, seen)
            if each.calls:
                yield from (self._before[other] for other in self._through)
        if name in self._before and not is_new:
            yield self._before[name]

    def _of_read(self, name: str, at: int, seen: set[tuple[str, int]]) -> Iterator[InputRef]:
        """What reading ``name`` in the statement ``at`` gives: itself, where it has a version."""
        makers = list(self._makers(name, at))
        if not makers:
            if name in self._before:
                yield self._before[name]
            return
        if name in self._made and next(self._makers(name, len(self._statements))) == makers[0]:
            yield self._made[name]
        else:
            yield from self._of_value(name, at, seen)
        if at < len(self._statements) and (name, ~at) not in seen:
            seen.add((name, ~at))
            for number in makers:
                if self._statements[number].defines:
                    for read in self._statements[number].reads:
                        yield from self._of_read(read, at, seen)


def _may_change(statement: Statement, name: str) -> bool:
    """Whether a call in ``statement`` may change ``name``."""
    return name in statement.touched | statement.receivers and any(
        call.last not in _HARMLESS for call in statement.calls
    )
