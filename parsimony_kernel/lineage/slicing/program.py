"""The statements of every run of a notebook, and what its functions do, all the way."""

import functools
from dataclasses import dataclass
from typing import NamedTuple

from parsimony_kernel.analysis.calls import SEEDING_FUNCTIONS
from parsimony_kernel.analysis.cell import NOTHING, Statement
from parsimony_kernel.analysis.read import read
from parsimony_kernel.lineage.ledger import CellRun
from parsimony_kernel.lineage.slicing.statements import (
    BUILTINS,
    RANDOM,
    Sharing,
    carried,
    draws,
    gives_streams,
    is_opaque,
    is_star,
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


_NEVER = Later()


class Effect(NamedTuple):
    """What a statement does to names: those that it reads, that it may bind or unbind, that it
    binds for certain, and whose object it may change, with the groups of what these share."""

    reads: frozenset[str]
    binds: frozenset[str]
    certain: frozenset[str]
    changes: frozenset[str]
    groups: frozenset[str]


class Program:
    """The statements of every run, and what their functions do."""

    def __init__(self, runs: tuple[CellRun, ...]) -> None:
        self.runs = runs
        cells = {run.code: read(run.code) for run in runs}
        self.known = vocabulary(cells.values())
        self._of_code = {code: statements_of(cell) for code, cell in cells.items()}
        self._every = [each for statements in self._of_code.values() for each in statements]
        self.sharing = Sharing()
        self._makers: dict[str, list[Statement]] = {}
        for each in self._every:
            self.sharing.add(each, self.known)
            for name in each.writes:
                self._makers.setdefault(name, []).append(each)
        self._seeds = any(
            call.last in SEEDING_FUNCTIONS for each in self._every for call in each.calls
        )
        self.through = functools.lru_cache(maxsize=None)(self._through)
        self.tracked = {ref.name for run in runs for ref in run.made}
        self._effects: dict[int, Effect] = {}

    def has_stars(self) -> bool:
        """Whether something may bind names that no text tells."""
        return any(is_star(each) or is_opaque(each) for each in self._every)

    def statements(self, run: CellRun) -> tuple[Statement, ...]:
        return self._of_code[run.code]

    def _through(self, names: frozenset[str]) -> Later:
        """What the functions that ``names`` hold do when they run, all the way."""
        if names.isdisjoint(self._holders):
            return _NEVER
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
                if later is NOTHING:
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
        users: dict[str, list[Statement]] = {}
        pending = list[Statement]()
        for each in self._every:
            for name in carried(each, self.known):
                users.setdefault(name, []).append(each)
            if each.later is not NOTHING:
                pending.append(each)
        holders = set[str]()
        while pending:
            for name in pending.pop().writes - holders:
                holders.add(name)
                pending += users.get(name, ())
        return frozenset(holders)

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

    def effect(self, statement: Statement) -> Effect:
        """What ``statement`` does, with the functions that it may call."""
        found = self._effects.get(id(statement))
        if found is None:
            found = self._effects[id(statement)] = self._effect(statement)
        return found

    def _effect(self, statement: Statement) -> Effect:
        through = self.through(statement.now)
        reads = statement.now | statement.deletes | through.reads
        touched = set(touched_now(statement, self.known))
        moved = set[str]()
        if not statement.defines:
            reads |= statement.mutated
            touched |= {(name, True) for name in through.touched}
            moved = {
                name
                for name in (used(statement) | through.reads) - self.known.homes.keys() - BUILTINS
                if self.is_moving(name)
            }
        if self._seeds and (
            RANDOM in through.reads or any(draws(each, self.known) for each in statement.calls)
        ):
            reads |= {RANDOM}
            moved |= set() if statement.defines else {RANDOM}
        else:
            reads -= {RANDOM}
        touched |= {(name, True) for name in moved}
        return Effect(
            reads,
            statement.writes | statement.deletes | through.writes,
            statement.certain,
            frozenset(name for name, _ in touched),
            frozenset().union(*(self.sharing.groups_changed(*each) for each in touched)),
        )

    def may_change(self, effect: Effect, name: str) -> bool:
        """Whether what is done may change the object of ``name``, or what it holds."""
        return name in effect.changes or not effect.groups.isdisjoint(self.sharing.groups_of(name))

    def may_show(self, name: str, run: CellRun) -> bool:
        """Whether the ledger leaves it open that ``run`` bound or changed ``name``."""
        return (
            name not in self.tracked
            or name in run.deleted
            or self.is_moving(name)
            or any(ref.name == name for ref in run.made)
        )
