"""The statements of every run of a notebook, and what its functions do, all the way."""

import functools
from collections.abc import Iterator

from parsimony_kernel.lineage.ledger import CellRun
from parsimony_kernel.lineage.slicing.effects import Later, vocabulary
from parsimony_kernel.lineage.slicing.sharing import Sharing
from parsimony_kernel.lineage.slicing.statements import Statement, statements_of
from parsimony_kernel.lineage.slicing.vocabulary import defines


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
        self.tracked = {ref.name for run in runs for ref in run.made}
        self.sets_path = any("sys" in {name for name, _ in each.touched} for each in everything)
        self.through = functools.lru_cache(maxsize=None)(self._through)

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

    def reads(self, statement: Statement) -> frozenset[str]:
        extra = {"sys"} if statement.is_import and self.sets_path else frozenset()
        return statement.reads | self.through(statement.reads).reads | extra

    def touched(self, statement: Statement) -> Iterator[tuple[str, bool]]:
        yield from statement.touched
        for name in self.through(statement.reads).touched:
            yield name, True

    def maybe_writes(self, statement: Statement) -> frozenset[str]:
        return statement.writes | self.through(statement.reads).writes
