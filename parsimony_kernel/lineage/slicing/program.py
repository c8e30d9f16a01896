"""The statements of every run of a notebook, and what its functions do, all the way."""

import functools
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from parsimony_kernel.analysis.calls import SEEDING_FUNCTIONS
from parsimony_kernel.analysis.cell import Names, Statement
from parsimony_kernel.lineage.ledger import CellRun
from parsimony_kernel.lineage.slicing.statements import (
    BUILTINS,
    RANDOM,
    Sharing,
    carried,
    draws,
    gives_streams,
    statements_of,
    touched_now,
    used,
    vocabulary,
)


@dataclass(frozen=True)
class Later:
    """What functions do when they run: the names that they read, bind and may change."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    touched: frozenset[str] = frozenset()


class Program:
    """The statements of every run, and what their functions do."""

    def __init__(self, runs: tuple[CellRun, ...]) -> None:
        self.runs = runs
        codes = tuple(dict.fromkeys(run.code for run in runs))
        self.known = vocabulary(codes)
        self._of_code = {code: statements_of(code) for code in codes}
        self._every = [each for statements in self._of_code.values() for each in statements]
        self.sharing = Sharing()
        self._makers: dict[str, list[Statement]] = {}
        for each in self._every:
            self.sharing.add(each, self.known)
            for name in each.writes:
                self._makers.setdefault(name, []).append(each)
        self.tracked = {ref.name for run in runs for ref in run.made}
        self._seeds = any(
            call.last in SEEDING_FUNCTIONS for each in self._every for call in each.calls
        )
        self.through = functools.lru_cache(maxsize=None)(self._through)
        self._unseen: dict[int, frozenset[str]] = {}
        # The names that a statement may change and the groups of what they share, by its id.
        self._touched: dict[int, frozenset[tuple[str, bool]]] = {}
        self._changed: dict[int, tuple[set[str], set[str]]] = {}

    def run(self, number: int) -> CellRun:
        return self.runs[number - 1]

    def statements(self, run: CellRun) -> tuple[Statement, ...]:
        return self._of_code[run.code]

    def ran(self, run: CellRun) -> tuple[Statement, ...]:
        """The statements of a run that ended, or all of them where that is not known."""
        statements = self.statements(run)
        if run.failed and run.stopped_at:
            return tuple(each for each in statements if each.lines[1] < run.stopped_at)
        return statements

    def _through(self, names: frozenset[str]) -> Later:
        """What the functions that ``names`` hold do when they run, all the way."""
        reads, writes, touched = set[str](), set[str](), set[str]()
        seen, pending = set[str](), list(names)
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            if name not in self._holders:
                continue
            for each in self._makers.get(name, ()):
                pending += carried(each, self.known)
                later = each.later
                if later == Names():
                    continue
                reads |= later.reads
                writes |= later.writes
                touched |= later.may_mutate | later.touched | later.receivers
                if any(draws(call, self.known) for call in later.calls):
                    reads.add(RANDOM)
                pending += later.reads
        return Later(
            frozenset(reads), frozenset(writes), frozenset(touched - self.known.homes.keys())
        )

    @functools.cached_property
    def _holders(self) -> frozenset[str]:
        """The names that hold a function, or something that does."""
        holders = {
            name
            for name, makers in self._makers.items()
            if any(each.later != Names() for each in makers)
        }
        while True:
            more = {
                name
                for name, makers in self._makers.items()
                if name not in holders
                and any(not holders.isdisjoint(carried(each, self.known)) for each in makers)
            }
            if not more:
                return frozenset(holders)
            holders |= more

    @functools.cached_property
    def _moving_groups(self) -> frozenset[str]:
        """The groups of names of which one may hold what moves on when it is used."""
        found = set[str]()
        for each in self._every:
            gives = any(gives_streams(call, self.known) for call in each.calls)
            bound = any(root.path and isinstance(root.path[-1], str) for _, root in each.links)
            if gives or bound or (each.keeps_state and not each.defines):
                for name in each.writes | each.mutated:
                    found |= self.sharing.groups_of(name)
        return frozenset(found)

    def is_moving(self, name: str) -> bool:
        """Whether ``name`` may hold what moves on when it is used."""
        return not self._moving_groups.isdisjoint(self.sharing.groups_of(name))

    def made(self, run: CellRun) -> set[str]:
        """The names that a run bound or changed, by the ledger and by what no ledger tells."""
        return {ref.name for ref in run.made} | self.unseen(run)

    def unseen(self, run: CellRun) -> frozenset[str]:
        """The names that a run may have changed without a sign of it in the ledger.

        What moves on when it is read, what a function of that very cell changes, and what shares a
        part with something that a call changed below its top.
        """
        if run.number not in self._unseen:
            ran = self.ran(run)
            made = frozenset(ref.name for ref in run.made)
            defined = {name for each in ran if each.later != Names() for name in each.writes}
            self._unseen[run.number] = frozenset(
                name
                for each in ran
                for name in self._unseen_of(each, made, not defined.isdisjoint(each.reads))
            )
        return self._unseen[run.number]

    def _unseen_of(self, statement: Statement, made: frozenset[str], is_new: bool) -> Iterator[str]:
        hidden = made - statement.mutated
        touched = {
            (name, is_deep)
            for name, is_deep in self.touched(statement)
            if is_new or (is_deep and name in hidden)
        } | {(name, True) for name in self.moved(statement)}
        for name, is_deep in touched:
            yield from {name} & {*self.tracked, RANDOM}
            for group in self.sharing.groups_changed(name, is_deep):
                yield from self._tracked_in.get(group, ())

    @functools.cached_property
    def _tracked_in(self) -> dict[str, list[str]]:
        """The variables whose object, or what it holds, is in a group."""
        found: dict[str, list[str]] = {}
        for name in self.tracked:
            for group in self.sharing.groups_of(name):
                found.setdefault(group, []).append(name)
        return found

    def reads(self, statement: Statement) -> frozenset[str]:
        own = statement.now | (statement.mutated if not statement.defines else frozenset())
        found = own | statement.deletes | self.through(statement.now).reads
        if self._seeds and any(draws(each, self.known) for each in statement.calls):
            found |= {RANDOM}
        return found if self._seeds else found - {RANDOM}

    def touched(self, statement: Statement) -> frozenset[tuple[str, bool]]:
        """The names whose object a statement may change, with whether below its top."""
        if id(statement) not in self._touched:
            found = set(touched_now(statement, self.known))
            if not statement.defines:
                found |= {(name, True) for name in self.through(statement.now).touched}
            self._touched[id(statement)] = frozenset(found)
        return self._touched[id(statement)]

    def moved(self, statement: Statement) -> frozenset[str]:
        """The names of what a statement moves on by using it."""
        if statement.defines:
            return frozenset()
        names = used(statement) | self.through(statement.now).reads
        found = {
            name for name in names - self.known.homes.keys() - BUILTINS if self.is_moving(name)
        }
        return frozenset(found | ({RANDOM} & self.reads(statement)))

    def changed(self, statement: Statement, among: Collection[str]) -> set[str]:
        """The names ``among`` these that a statement may change, by itself or through others."""
        if id(statement) not in self._changed:
            touched = {*self.touched(statement)}
            touched |= {(name, True) for name in self.moved(statement)}
            groups = set[str]().union(*(self.sharing.groups_changed(*each) for each in touched))
            self._changed[id(statement)] = {name for name, _ in touched}, groups
        names, groups = self._changed[id(statement)]
        return {
            each
            for each in among
            if each in names or not groups.isdisjoint(self.sharing.groups_of(each))
        }

    def maybe_writes(self, statement: Statement) -> frozenset[str]:
        return statement.writes | self.through(statement.now).writes
