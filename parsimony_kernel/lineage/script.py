"""A short script that rebuilds a variable: a backward slice over the cells that ran.

The ledger says which cells made or changed what is needed; they are kept whole, less the top-level
statements that provably touch nothing kept. What cannot be told at all is a ``SliceError``. No
script is guessed.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from parsimony_kernel.analysis.cell import Statement
from parsimony_kernel.lineage.ledger import CellRun, Moment, OriginLedger, Return
from parsimony_kernel.lineage.program import (
    BUILTINS,
    RANDOM,
    SEEDS,
    Effect,
    Program,
    binds_whole,
    is_blind,
    is_future,
    is_opaque,
    is_star,
)


class SliceError(Exception):
    """There is no script that surely rebuilds the variable."""


@dataclass(frozen=True)
class Script:
    """A script that rebuilds ``name``.

    ``parts`` are the runs of cells that it holds, each with the statements of it that are in, in
    their order; ``sources`` are the files and addresses that these read.
    """

    name: str
    code: str
    parts: tuple[tuple[CellRun, tuple[Statement, ...]], ...] = ()
    sources: tuple[str, ...] = ()


def slice_of(ledger: OriginLedger, name: str, *, turns: Mapping[str, int] | None = None) -> Script:
    """A script of top-level statements that rebuilds ``name`` as it is now.

    What draws random numbers, asks the time or reads from outside is run again, not repeated.

    Args:
        turns: the number of the turn of each run id, for the comments.

    Raises:
        SliceError: when the origin of something that went in is unknown, or a cell stopped
            where its effect cannot be told, or no order of the cells gives the versions back.
    """
    origin = ledger.get(name)
    if origin is None:
        raise SliceError(
            f"nothing is known of where {name!r} comes from: run the cell that makes it again, "
            "or give a variable that a cell made since tracking began",
        )
    if not origin.cell_run:
        raise SliceError(f"the run of the cell that made {name!r} was not recorded")
    program = Program(ledger.cell_runs())
    walk = _Walk(program, ledger, name)
    if walk.missing and program.has_stars():
        walk = _Walk(program, ledger, name, stars=True)
    elif walk.missing:
        lost = min(walk.missing)
        raise SliceError(
            f"nothing is known of where {lost!r} comes from: run the cell that binds it again, "
            "then the cells that use it",
        )
    return _written(name, walk, program, turns or {})


class _Walk:
    """One pass over all that ran, from the newest statement to the oldest.

    What an undo took back is passed over, from the undo to the moment to which it went back.

    Args:
        stars: keep all that binds names that no text tells.
    """

    def __init__(
        self, program: Program, ledger: OriginLedger, name: str, *, stars: bool = False
    ) -> None:
        # The places of the statements that are kept of each run.
        self.kept: dict[int, list[int]] = {}
        self._program = program
        self._stars = stars
        # The names whose value is needed, and those that a statement kept surely asks for.
        self._live = {name} | program.through({name})
        self._asked = set[str]()
        self._found = set[str]()
        # Names that are passed over until a moment, and those of them that are needed from there.
        self._passed: dict[str, Moment] = {}
        self._waiting = set[str]()
        returns = list(ledger.returns())
        for run in reversed(program.runs):
            while returns and returns[-1].at >= run.number:
                self._arrive(Moment(returns[-1].at, len(returns)))
                self._go_back(returns.pop())
            self._arrive(Moment(run.number, len(returns)))
            self._pass(run)
        self.seeds = self._live & SEEDS.keys()
        left = self._live - self.seeds - self._found - BUILTINS - {RANDOM}
        self.missing = (left & self._asked) - program.tables

    # What an undo took back

    def _go_back(self, back: Return) -> None:
        """What is needed of the names of ``back`` is what they were at its moment."""
        for name in sorted(back.names & self._passed.keys() & self._live):
            raise _twice(name)
        names = back.names - self._passed.keys()
        self._passed.update(dict.fromkeys(names, back.to))
        self._waiting |= names & self._live
        self._live -= names

    def _arrive(self, now: Moment) -> None:
        reached = {name for name, moment in self._passed.items() if moment >= now}
        self._live |= reached & self._waiting
        self._waiting -= reached
        for name in reached:
            del self._passed[name]

    def _must_not_be_passed(self, run: CellRun, effect: Effect) -> None:
        """What is kept must not bind or change what an undo took back."""
        for name in sorted(self._waiting & effect.binds):
            raise _twice(name)
        made = {ref.name for ref in run.made} - effect.binds if effect.touches else set[str]()
        for name in sorted(self._passed.keys() & (made | effect.touches)):
            raise SliceError(
                f"what was done to {name!r} was taken back, and something that is needed may "
                f"hold the same object: run the cells that use {name!r} again",
            )

    # One run of a cell

    def _pass(self, run: CellRun) -> None:
        made = {ref.name for ref in run.made} & self._live
        statements = self._ended(run)
        effects = [self._program.effect(each) for each in statements]
        is_in = bool(made) or any(map(self._is_needed, effects))
        if not is_in and not self._stars:
            self._must_be_tracked(run)
            return
        whole = bool(made) and self._is_whole(run, effects, made)
        is_told = self._is_told(effects, made)
        own = {name for each in statements for name in each.writes}
        # Under "from __future__ import annotations" a name in an annotation is not asked for.
        is_lenient = any(map(is_future, statements))
        kept = list[int]()
        for index in reversed(range(len(statements))):
            each, effect = statements[index], effects[index]
            is_open = self._stars and (is_star(each) or is_opaque(each))
            may_change = is_in and self._may_change(effect, is_told=is_told)
            if not (whole or is_open or may_change or self._is_needed(effect)):
                continue
            if self._passed:
                self._must_not_be_passed(run, effect)
            kept.append(index)
            self._found |= effect.binds
            self._asked -= effect.binds
            self._live -= effect.certain
            self._found -= effect.certain
            self._live |= effect.reads
            if not is_lenient:
                self._asked |= each.now - own
            if is_blind(each):
                self._live |= self._program.tracked
        self._must_be_tracked(run)
        if whole:
            self._found |= made
        if kept:
            kept += [i for i, each in enumerate(statements) if is_future(each) and i not in kept]
            self.kept[run.number] = sorted(kept)

    def _is_needed(self, effect: Effect) -> bool:
        """Whether a statement binds what is needed, or moves it on."""
        if not self._live.isdisjoint(effect.binds):
            return True
        return bool(effect.moves and effect.moves & self._program.streams_of(self._live))

    def _may_change(self, effect: Effect, *, is_told: bool) -> bool:
        """Whether a statement may change something that is needed and not taken back as a whole.

        Args:
            is_told: text tells which statements changed what is needed.
        """
        if effect.touches <= self._passed.keys() - self._live:
            return False
        if not is_told or "*" in effect.touches:
            return True
        related = self._program.related
        return not related(effect.touches).isdisjoint(related(self._live))

    def _is_told(self, effects: Sequence[Effect], made: set[str]) -> bool:
        related = self._program.related
        touched = set[str]().union(*(related(each.touches) for each in effects))
        left = made.difference(*(each.binds for each in effects))
        return related(left) <= touched

    def _must_be_tracked(self, run: CellRun) -> None:
        for ref in run.reads:
            if not ref.version and ref.name in self._live and ref.name not in SEEDS:
                raise SliceError(
                    f"{ref.name!r} was bound before its origin was tracked, so what it held cannot "
                    f"be rebuilt: run the cell that makes {ref.name!r} again, then the cells that "
                    "use it",
                )

    def _is_whole(self, run: CellRun, effects: Sequence[Effect], made: set[str]) -> bool:
        """Whether something changed ``made`` that no text names."""
        left = made.difference(*(each.binds for each in effects))
        if not left or any(each.touches or each.moves for each in effects):
            return False
        if run.failed:
            raise _stopped(left)
        if not effects:
            told = ", ".join(map(repr, sorted(left)))
            raise SliceError(f"the text of run {run.number}, which made {told}, is no Python")
        return True

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
            ended, rest = [*ended, *rest[:count]], rest[count:]
        for each in rest:
            self._must_be_whole(run, each, is_known=is_known)
        return ended

    def _must_be_whole(self, run: CellRun, statement: Statement, *, is_known: bool) -> None:
        """What stopped did some of its work, perhaps on what is needed."""
        effect = self._program.effect(statement)
        made = {ref.name for ref in run.made} | {*run.deleted}
        hit = self._live & effect.touches & made
        if not (is_known and binds_whole(statement)):
            hit |= self._live & effect.binds - (self._program.tracked - made)
        if effect.touches:
            bound = {name for each in self._program.statements(run) for name in each.writes}
            hit |= self._live & (made - bound)
        if effect.moves and not effect.moves.isdisjoint(self._program.streams_of(self._live)):
            hit |= {each for each in self._live if self._program.streams_of({each}) & effect.moves}
        if hit:
            raise _stopped(hit)


def _binds(statement: Statement, names: Collection[str]) -> bool:
    return binds_whole(statement) and not statement.writes.isdisjoint(names)


def _stopped(names: Collection[str]) -> SliceError:
    name = min(names)
    return SliceError(
        f"a cell stopped with an error where it may have changed {name!r}, and how far it got is "
        f"not known: run the cell that makes {name!r} again",
    )


def _twice(name: str) -> SliceError:
    return SliceError(
        f"{name!r} went in twice, once as it is now and once as it was before an undo, "
        "and no order of the cells gives both: run the cells that use it again",
    )


# The text


def _written(name: str, walk: _Walk, program: Program, turns: Mapping[str, int]) -> Script:
    parts = []
    blocks, futures, sources = list[str](), dict[str, None](), dict[str, None]()
    for number in sorted(walk.kept):
        run = program.runs[number - 1]
        every = program.statements(run)
        kept = [every[index] for index in walk.kept[number]]
        futures |= dict.fromkeys(each.source for each in kept if is_future(each))
        plain = tuple(each for each in kept if not is_future(each))
        if plain:
            parts.append((run, plain))
            blocks += ["", f"# {_one_line(_place(run, turns))}", *(each.source for each in plain)]
            sources |= dict.fromkeys(each for each in run.sources if _is_read(each, plain, every))
    head = [f"# Rebuilds {name}.", *(f"# Reads {_one_line(each)}" for each in sources)]
    for first in (futures, sorted(SEEDS[each] for each in walk.seeds)):
        head += ["", *first] if first else []
    return Script(name, "\n".join([*head, *blocks]) + "\n", tuple(parts), tuple(sources))


def _is_read(source: str, kept: Sequence[Statement], every: Sequence[Statement]) -> bool:
    """Whether ``kept`` read ``source``: its text stands there, or nowhere in the cell."""
    naming = [each for each in every if any(_names(text, source) for text in each.literals)]
    return not naming or any(each in kept for each in naming)


def _names(literal: str, source: str) -> bool:
    return literal == source or PurePath(literal).name == PurePath(source).name


def _place(run: CellRun, turns: Mapping[str, int]) -> str:
    if run.run_id in turns:
        return f"cell of turn {turns[run.run_id]} ({run.actor})"
    return f"cell {run.number} ({run.actor})"


def _one_line(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)
