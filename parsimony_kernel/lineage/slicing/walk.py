"""The backward walk over all that ran: which statements a variable needs.

One pass, from the newest statement to the oldest, by the text: a statement is in when it may bind,
unbind or change something that is needed later. What an undo took back is passed over.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from parsimony_kernel.analysis.cell import Statement
from parsimony_kernel.lineage.ledger import CellRun, Moment, OriginLedger, Return
from parsimony_kernel.lineage.slicing.program import Effect, Program
from parsimony_kernel.lineage.slicing.statements import (
    BUILTINS,
    RANDOM,
    SEEDS,
    binds_whole,
    is_blind,
    is_future,
    is_opaque,
    is_star,
)


class SliceError(Exception):
    """There is no script that surely rebuilds the variable. ``names`` are in the way."""

    def __init__(self, message: str, names: Collection[str] = ()) -> None:
        super().__init__(message)
        self.names = tuple(sorted(names))


class Live:
    """The names whose value is needed at a place of the walk, with the groups of their objects."""

    def __init__(self, program: Program) -> None:
        self.names = set[str]()
        self._groups = Counter[str]()
        self._program = program

    def add(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.names:
                self.names.add(name)
                self._groups.update(self._program.sharing.groups_of(name))

    def discard(self, names: Collection[str]) -> None:
        for name in self.names.intersection(names):
            self.names.remove(name)
            self._groups.subtract(self._program.sharing.groups_of(name))

    def is_touched_by(self, effect: Effect) -> bool:
        """Whether something that is needed may be bound, unbound or changed."""
        return (
            not self.names.isdisjoint(effect.binds)
            or not self.names.isdisjoint(effect.changes)
            or any(self._groups[each] for each in effect.groups)
        )

    def changed_by(self, effect: Effect) -> set[str]:
        """The names whose object may be changed."""
        return {each for each in self.names if self._program.may_change(effect, each)}


class Walk:
    """The walk for one variable.

    Args:
        stars: keep all that binds names that no text tells.
    """

    def __init__(self, program: Program, ledger: OriginLedger, *, stars: bool = False) -> None:
        # The places of the statements that are kept of each run.
        self.kept: dict[int, list[int]] = {}
        # What is found at the beginning: names with an import of their own, those that something
        # kept surely asks for, and the others.
        self.seeds: set[str] = set()
        self.missing: set[str] = set()
        self.unknown: set[str] = set()
        self._program = program
        self._returns = list(ledger.returns())
        self._stars = stars
        self._live = Live(program)
        self._found = set[str]()
        # Names that are passed over until a moment, and those of them that are needed from there.
        self._passed: dict[str, Moment] = {}
        self._waiting: set[str] = set()

    def run(self, name: str) -> None:
        """Find what ``name``, and what its functions use, needs as it is now."""
        self._live.add({name} | self._program.through(frozenset({name})).reads)
        for run in reversed(self._program.runs):
            while self._returns and self._returns[-1].at >= run.number:
                self._arrive(Moment(self._returns[-1].at, len(self._returns)))
                self._go_back(self._returns.pop())
            self._arrive(Moment(run.number, len(self._returns)))
            self._pass(run)
        left = self._live.names - {RANDOM}
        self.seeds = left & SEEDS.keys()
        left -= self.seeds
        self.missing &= left - BUILTINS
        self.unknown = left - self.missing - BUILTINS - self._found - self._program.tracked

    # What an undo took back

    def _go_back(self, back: Return) -> None:
        """What is needed of the names of ``back`` is what they were at its moment."""
        for name in sorted(back.names & self._passed.keys() & self._live.names):
            raise _twice(name)
        names = back.names - self._passed.keys()
        self._passed.update(dict.fromkeys(names, back.to))
        self._waiting |= names & self._live.names
        self._live.discard(names)

    def _arrive(self, now: Moment) -> None:
        reached = {name for name, moment in self._passed.items() if moment >= now}
        self._live.add(reached & self._waiting)
        self._waiting -= reached
        for name in reached:
            del self._passed[name]

    def _must_not_be_passed(self, effect: Effect) -> None:
        for name in sorted(self._waiting & effect.binds):
            raise _twice(name)
        for name in sorted(self._passed):
            if self._program.may_change(effect, name):
                raise SliceError(
                    f"what was done to {name!r} was taken back, and something that is needed may "
                    f"hold the same object: run the cells that use {name!r} again",
                    {name},
                )

    # One run of a cell

    def _pass(self, run: CellRun) -> None:
        made = {ref.name for ref in run.made} & self._live.names
        statements = self._ended(run)
        whole = bool(made) and self._is_whole(run, statements, made)
        own = {name for each in statements for name in each.writes}
        # Under "from __future__ import annotations" a name in an annotation is not asked for.
        is_lenient = any(map(is_future, statements))
        kept = list[int]()
        for index in reversed(range(len(statements))):
            each = statements[index]
            effect = self._program.effect(each)
            is_open = self._stars and (is_star(each) or is_opaque(each))
            if not (whole or is_open or self._live.is_touched_by(effect)):
                continue
            if self._passed:
                self._must_not_be_passed(effect)
            kept.append(index)
            self._live.discard(effect.certain)
            self._live.add(effect.reads)
            self._found |= effect.binds
            self._found -= effect.certain
            self.missing -= effect.binds
            if not is_lenient:
                self.missing |= each.now - own
            if is_blind(each):
                self._live.add(self._program.tracked - self._live.names)
        for ref in run.reads:
            if not ref.version and ref.name in self._live.names and ref.name not in SEEDS:
                raise SliceError(
                    f"{ref.name!r} was bound before its origin was tracked, so what it held cannot "
                    f"be rebuilt: run the cell that makes {ref.name!r} again, then the cells that "
                    "use it",
                    {ref.name},
                )
        if not kept:
            return
        if whole:
            self._found |= made
            self.missing -= made
        kept += [i for i, each in enumerate(statements) if is_future(each) and i not in kept]
        self.kept[run.number] = sorted(kept)

    def _is_whole(self, run: CellRun, statements: Sequence[Statement], made: set[str]) -> bool:
        """Whether something changed ``made`` that no text names."""
        if any(map(is_opaque, statements)):
            return True
        effects = [self._program.effect(each) for each in statements]
        left = made.difference(*(each.binds | each.changes for each in effects))
        left = {
            name
            for name in left
            if not any(self._program.may_change(each, name) for each in effects)
        }
        if left and run.failed:
            raise _stopped(left)
        if left and not statements:
            raise SliceError(
                f"the text of run {run.number}, which made {_told(left)}, is no Python", left
            )
        return bool(left)

    def _ended(self, run: CellRun) -> Sequence[Statement]:
        """The statements of a run that came to their end."""
        statements, stop = self._program.statements(run), run.stopped_at
        if not run.failed:
            return statements
        ended = [each for each in statements if each.lines[1] < stop]
        rest = [each for each in statements[len(ended) :] if not stop or each.lines[0] <= stop]
        is_known = bool(stop) and len(rest) == 1
        if not is_known:
            # What came before a binding that stands has come to its end as well.
            makers = Counter(name for each in statements for name in each.writes)
            sure = {ref.name for ref in run.made if makers[ref.name] == 1}
            count = max((i + 1 for i, each in enumerate(rest) if _binds(each, sure)), default=0)
            ended, rest = ended + rest[:count], rest[count:]
        for each in rest:
            self._must_be_whole(run, each, is_known=is_known)
        return ended

    def _must_be_whole(self, run: CellRun, statement: Statement, *, is_known: bool) -> None:
        """What stopped did some of its work, perhaps on what is needed."""
        effect = self._program.effect(statement)
        hit = self._live.names & effect.binds
        hit = {each for each in hit if self._program.may_show(each, run)}
        if is_known and binds_whole(statement):
            hit.clear()
        if any(self._program.may_show(each, run) for each in effect.changes):
            hit |= self._live.changed_by(effect)
        if hit:
            raise _stopped(hit)


def _binds(statement: Statement, names: Collection[str]) -> bool:
    return binds_whole(statement) and not statement.writes.isdisjoint(names)


def _stopped(names: Collection[str]) -> SliceError:
    name = min(names)
    return SliceError(
        f"a cell stopped with an error where it may have changed {name!r}, and how far it got is "
        f"not known: run the cell that makes {name!r} again",
        {name},
    )


def _twice(name: str) -> SliceError:
    return SliceError(
        f"{name!r} went in twice, once as it is now and once as it was before an undo, "
        "and no order of the cells gives both: run the cells that use it again",
        {name},
    )


def _told(names: Collection[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names))
