"""What each variable of a cell was made from: the inputs of the statements that made it."""

from bisect import bisect_left
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
        self._end = len(self._statements)
        # The statements that made or changed each name, and the names that definitions did.
        self._makers: dict[str, list[int]] = {}
        self._defined = set[str]()
        for number, each in enumerate(self._statements):
            made_here = _made_by(each)
            self._defined |= made_here if each.defines else set()
            for name in made_here:
                self._makers.setdefault(name, []).append(number)
        self._before = {ref.name: ref for ref in before}
        self._made = {ref.name: ref for ref in made}
        self._in_place = frozenset(in_place)
        # What only the functions that ran have used; it went into all that calls made.
        own = {name for each in self._statements for name in each.reads | each.mutated}
        self._through = self._before.keys() - own

    def inputs_of(self, name: str) -> tuple[InputRef, ...]:
        """What went into ``name``, sorted."""
        if name not in self._makers:
            found = set(self._before.values())  # no statement says that it made it
        else:
            found = self._of_value(name) - {self._made.get(name)}
            found |= {self._before[name]} if name in self._in_place & self._before.keys() else set()
        return tuple(sorted(found, key=lambda ref: (ref.name, ref.version)))

    def _back(self, name: str, end: int) -> Iterator[int]:
        """The statements before ``end`` that made or changed ``name``, the newest first, back to
        the one that gave it a new object."""
        makers = self._makers.get(name, [])
        for place in reversed(range(bisect_left(makers, end))):
            yield makers[place]
            each = self._statements[makers[place]]
            if name in each.certain and name not in each.mutated:
                return

    def _of_value(self, name: str) -> set[InputRef]:
        """What went into ``name`` as the cell left it."""
        found, seen = set[InputRef](), set[tuple[str, int]]()
        reads = self._of_makers(name, self._end, found, seen)
        while reads:
            name, at = read = reads.pop()
            # ``~at`` for what a name is read as, ``at`` for who made it.
            if (name, ~at) in seen:
                continue
            seen.add((name, ~at))
            newest = next(self._back(name, at), None)
            if newest is None:
                found |= {self._before[name]} if name in self._before else set()
                continue
            if name in self._made and self._makers[name][-1] == newest:
                found.add(self._made[name])
            else:
                reads += self._of_makers(*read, found, seen)
            if at < self._end and name in self._defined:
                reads += [
                    (each, at)
                    for number in self._back(name, at)
                    if self._statements[number].defines
                    for each in self._statements[number].reads
                ]
        return found

    def _of_makers(
        self, name: str, end: int, found: set[InputRef], seen: set[tuple[str, int]]
    ) -> list[tuple[str, int]]:
        """What those who made ``name`` before the statement ``end`` read, and before which."""
        reads: list[tuple[str, int]] = []
        is_new = False
        for number in self._back(name, end):
            if (name, number) in seen:
                return reads
            seen.add((name, number))
            each = self._statements[number]
            is_new = name in each.certain
            # The body of a function looks its names up when it runs.
            at = self._end if each.defines else number
            reads += [(read, at) for read in each.inputs_of(name)]
            if each.calls:
                found.update(self._before[other] for other in self._through)
        if name in self._before and not is_new:
            found.add(self._before[name])
        return reads


def _made_by(statement: Statement) -> frozenset[str]:
    """What ``statement`` makes or changes, and what a call in it may change."""
    made = statement.writes | statement.mutated | statement.reached
    if any(call.last not in _HARMLESS for call in statement.calls):
        return made | statement.touched | statement.receivers
    return made
