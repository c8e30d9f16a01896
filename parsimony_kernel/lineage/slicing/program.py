"""The statements of every run of a notebook, and what its functions do, all the way."""

import functools
from collections.abc import Collection, Iterator

from parsimony_kernel.lineage.ledger import CellRun
from parsimony_kernel.lineage.slicing.effects import Later, vocabulary
from parsimony_kernel.lineage.slicing.sharing import Sharing
from parsimony_kernel.lineage.slicing.statements import Statement, statements_of
from parsimony_kernel.lineage.slicing.streams import streams
from parsimony_kernel.lineage.slicing.vocabulary import RANDOM, defines


class Program:
    """The statements of every run, and what their functions do."""

    def __init__(self, runs: tuple[CellRun, ...]) -> None:
        self.runs = runs
        codes = dict.fromkeys(run.code for run in runs)
        known = vocabulary(tuple(filter(defines, codes)))
        self.known = known
        told = {code: statements_of(code, known) for code in codes}
        self._of_run = {run.number: told[run.code] for run in runs}
        everything = [each for statements in told.values() for each in statements]
        self.sharing = Sharing(link for each in everything for link in each.links)
        self._later: dict[str, Later] = {}
        self._holds: dict[str, set[str]] = {}
        for each in everything:
            for name in each.writes:
                if each.later is not None:
                    self._later[name] = self._later.get(name, Later()) | each.later
                self._holds.setdefault(name, set()).update(each.carried)
        self.streams = streams(tuple(codes), known)
        self.tracked = {ref.name for run in runs for ref in run.made}
        self.sets_path = any("sys" in {name for name, _ in each.touched} for each in everything)
        self.through = functools.lru_cache(maxsize=None)(self._through)
        self._unseen: dict[int, frozenset[str]] = {}

    def run(self, number: int) -> CellRun:
        return self.runs[number - 1]

    def statements(self, run: CellRun) -> tuple[Statement, ...]:
        return self._of_run[run.number]

    def ran(self, run: CellRun) -> tuple[Statement, ...]:
        """The statements of a run that ended, or all of them where that is not known."""
        statements = self.statements(run)
        if run.failed and run.stopped_at:
            return tuple(each for each in statements if each.lines[1] < run.stopped_at)
        return statements

    def _through(self, names: frozenset[str]) -> Later:
        """What the functions that ``names`` hold do when they run, all the way."""
        found, seen, pending = Later(), set[str](), list(names)
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            pending += self._holds.get(name, ()) if name in self._holders else ()
            later = self._later.get(name)
            if later is not None:
                found |= later
                pending += later.reads
        return found

    @functools.cached_property
    def _holders(self) -> frozenset[str]:
        """The names that hold a function, or something that does."""
        holders = set(self._later)
        while True:
            more = {name for name, held in self._holds.items() if held & holders} - holders
            if not more:
                return frozenset(holders)
            holders |= more

    def made(self, run: CellRun) -> set[str]:
        """The names that a run bound or changed, by the ledger and by what no ledger tells."""
        return {ref.name for ref in run.made} | self.unseen(run)

    def unseen(self, run: CellRun) -> frozenset[str]:
        """The names that a run may have changed without a sign of it in the ledger.

        What moves on when it is read, what a bound method or a function of that very cell changes,
        and what shares a part with something that a call changed below its top.
        """
        if run.number not in self._unseen:
            ran = self.ran(run)
            made = frozenset(ref.name for ref in run.made)
            defined = {name for each in ran if each.later is not None for name in each.writes}
            self._unseen[run.number] = frozenset(
                name
                for each in ran
                for name in self._unseen_of(each, made, not defined.isdisjoint(each.reads))
            )
        return self._unseen[run.number]

    def _unseen_of(self, statement: Statement, made: frozenset[str], is_new: bool) -> Iterator[str]:
        if self.streams.untold:
            yield from self.changed(statement, self.streams.untold)
        hidden = made - statement.changes
        for touched, is_deep in set(self.touched(statement)):
            if is_new or touched in self.streams.handles or (is_deep and touched in hidden):
                for name in self.tracked:
                    if self.sharing.affects(touched, True, name):
                        yield name

    def reads(self, statement: Statement) -> frozenset[str]:
        extra = {"sys"} if statement.is_import and self.sets_path else set()
        found = statement.reads | self.through(statement.reads).reads | extra
        if RANDOM in self.streams.moving:
            return found | (statement.uses.used & {RANDOM})
        return found - {RANDOM}

    def touched(self, statement: Statement) -> Iterator[tuple[str, bool]]:
        yield from statement.touched
        for name in self.through(statement.reads).touched:
            yield name, True

    def moved(self, statement: Statement) -> frozenset[str]:
        """The names of what a statement moves on by using it."""
        used = statement.uses.used | self.through(statement.reads).reads
        return (used & self.streams.moving) | (statement.uses.iterated & self.streams.loose)

    def changed(self, statement: Statement, among: Collection[str]) -> set[str]:
        """The names ``among`` these that a statement may change, by itself or through others."""
        found = set()
        for name, is_deep in self.touched(statement):
            found |= {each for each in among if self.sharing.affects(name, is_deep, each)}
        if moved := self.moved(statement):
            exposed = self.streams.untold.intersection(among)
            for name in moved:
                found |= {each for each in exposed if self.sharing.affects(name, True, each)}
        return found

    def maybe_writes(self, statement: Statement) -> frozenset[str]:
        return statement.writes | self.through(statement.reads).writes
