"""What the top-level statements of a notebook do with names, for slices.

The ledger tells which objects a cell changed, whoever else holds them. Text is asked for the rest:
which statements of a cell bind names, which may change anything at all, and which use what moves on
when it is read, such as an iterator or a random generator, whose state nobody can compare.
"""

import builtins
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from parsimony_kernel.analysis.calls import (
    HARMLESS,
    MUTATES,
    PURE_METHODS,
    RUNS_TEXT,
    SEEDING_FUNCTIONS,
    STREAM_FUNCTIONS,
    STREAM_METHODS,
    STREAM_MODULES,
    VALUE_MODULES,
    names,
)
from parsimony_kernel.analysis.cell import NOTHING, Call, Cell, Statement
from parsimony_kernel.analysis.parse import TABLE, is_table
from parsimony_kernel.analysis.read import read
from parsimony_kernel.lineage.classes import FACTS
from parsimony_kernel.lineage.ledger import CellRun

# What a private namespace holds before any code has run, and how to get it elsewhere.
SEEDS: Mapping[str, str] = FACTS["seeds"]
BUILTINS = frozenset(vars(builtins)) | {"__name__", "__builtins__"}
# Stands for the random numbers that libraries keep for all.
RANDOM = "*random"

_TEXT_MAGICS = names("magics", "text")
_DRAWING = frozenset({"sample", "rvs", "fit", "fit_transform", "fit_predict"})
_RANDOM_MODULES = frozenset({"random", "sklearn", "scipy"})


class Effect(NamedTuple):
    """What a statement does.

    Args:
        reads: the names that it needs when it runs, with those that its functions use.
        binds: the names that it may bind or unbind.
        certain: those that it binds for certain.
        touches: the names whose objects it may change.
        moves: the streams that it moves on, each by one of the names that lead to it.
    """

    reads: frozenset[str]
    binds: frozenset[str]
    certain: frozenset[str]
    touches: frozenset[str]
    moves: frozenset[str]


class Program:
    """The statements of every run of a notebook."""

    def __init__(self, runs: tuple[CellRun, ...]) -> None:
        self.runs = runs
        cells = {run.code: read(run.code) for run in runs}
        self._of_code = {code: _statements(cell) for code, cell in cells.items()}
        self._every = [each for statements in self._of_code.values() for each in statements]
        self.tracked = {ref.name for run in runs for ref in run.made}
        # What queries name that was no variable: tables of databases, some of them older.
        tables = {name for each in self._every for name in each.reads if is_table(name)}
        self.tables = tables | {name.removeprefix(TABLE) for name in tables}
        self.tables -= {ref.name for run in runs for ref in run.reads if not is_table(ref.name)}
        self._homes = dict(read("\n".join(SEEDS.values())).modules)
        self._defined = set[str]()
        for cell in cells.values():
            self._homes.update(cell.modules)
            self._defined |= cell.defined
        # Functions that may give something else each time, and those that change nothing.
        self._stateful, self._harmless = set[str](), set[str]()
        self._learn([each for each in self._every if each.later is not NOTHING])
        # What the functions that a name may hold read when they run.
        self._used: dict[str, set[str]] = {}
        for each in self._every:
            for name in each.writes if each.later.reads else ():
                self._used.setdefault(name, set()).update(each.later.reads)
        self._is_seeded = any(
            call.last in SEEDING_FUNCTIONS for each in self._every for call in each.calls
        )
        # Names whose objects may be one, or hold a part of each other, and those that lead to what
        # moves on when it is read.
        self._related = Groups()
        moving = {RANDOM} if self._is_seeded else set[str]()
        for each in self._every:
            self._relate(each)
            moving |= each.writes | each.mutated if self._makes_stream(each) else set()
        self._streams = self.related(moving)
        self._effects: dict[int, Effect] = {}

    def has_stars(self) -> bool:
        """Whether something may bind names that no text tells."""
        return any(is_star(each) or is_opaque(each) for each in self._every)

    def statements(self, run: CellRun) -> tuple[Statement, ...]:
        return self._of_code[run.code]

    def through(self, names: Iterable[str]) -> set[str]:
        """What the functions that ``names`` hold use when they run, all the way."""
        found, pending = set[str](), [name for name in names if name in self._used]
        while pending:
            more = self._used.get(pending.pop(), set()) - found
            found |= more
            pending += more
        return found

    def streams_of(self, names: Iterable[str]) -> set[str]:
        """The streams that ``names`` lead to."""
        return self.related(names) & self._streams

    def related(self, names: Iterable[str]) -> set[str]:
        """The groups of names that may share objects with ``names``."""
        return {self._related.of(name) for name in names}

    def _relate(self, statement: Statement) -> None:
        plain = self._homes.keys() | BUILTINS | (self._defined - self._stateful) | {""}
        linked = [{name, root.name} for name, root in statement.links]
        handed = [
            {*call.handed, call.root} for call in statement.calls if not self._is_harmless(call)
        ]
        for each in (*linked, *handed):
            self._related.join(each - plain)
        if statement.later is not NOTHING:
            self._related.join(statement.writes | (statement.reads - plain))
            if self._is_seeded and any(map(self._draws, statement.calls)):
                self._related.join({*statement.writes, *statement.mutated, RANDOM})

    def effect(self, statement: Statement) -> Effect:
        """What ``statement`` does, with the functions that it may call."""
        found = self._effects.get(id(statement))
        if found is None:
            found = self._effects[id(statement)] = self._effect(statement)
        return found

    def _effect(self, statement: Statement) -> Effect:
        through = self.through(statement.now)
        touches, moves = set[str](), set[str]()
        reads = statement.now | statement.deletes | through
        if not statement.defines:
            reads |= statement.mutated
            touches = {*statement.mutated, *statement.reached}
            for call in statement.calls:
                if not self._is_harmless(call):
                    touches |= call.handed | {call.root} | through
            if is_opaque(statement) or statement.changes_all:
                touches.add("*")
            if self._streams:
                moves = self.streams_of(statement.now | through)
            if self._is_seeded:
                random = self._related.of(RANDOM)
                if random in moves or any(map(self._draws, statement.calls)):
                    reads |= {RANDOM}
                    moves.add(random)
        return Effect(
            frozenset(reads),
            statement.writes | statement.deletes,
            statement.certain,
            frozenset(touches - self._homes.keys() - {""}),
            frozenset(moves),
        )

    # What functions do

    def _learn(self, functions: Sequence[Statement]) -> None:
        """A function is harmless until it, or one that it calls, is not."""
        for each in functions:
            self._harmless |= each.writes & self._defined
        is_new = True
        while is_new:
            known = len(self._stateful), len(self._harmless)
            for each in functions:
                calls = each.later.calls
                if each.keeps_state or any(map(self._gives_stream, calls)):
                    self._stateful |= each.writes
                changes = each.keeps_state or each.later.may_mutate or each.later.writes
                if changes or not all(map(self._is_harmless, calls)):
                    self._harmless -= each.writes
            is_new = known != (len(self._stateful), len(self._harmless))

    def _is_harmless(self, call: Call) -> bool:
        """Whether a call leaves what it is handed as it is."""
        if call.name in self._harmless:
            return True
        if call.last in MUTATES or call.root in self._defined or not call.name:
            return False
        if call.root in self._homes:
            return self._home(call).partition(".")[0] in VALUE_MODULES
        if call.name == call.root:
            return call.last in HARMLESS and not call.last[:1].isupper()
        return call.last in PURE_METHODS and call.last not in self._defined

    def _home(self, call: Call) -> str:
        """The full name of a call of an import, or of a method of what that gives."""
        rest = call.name.removeprefix(call.root).lstrip(".")
        return f"{self._homes[call.root]}.{rest}".replace(":", ".")

    # What moves on when it is read

    def _makes_stream(self, statement: Statement) -> bool:
        gives = any(map(self._gives_stream, statement.calls))
        return gives or (statement.keeps_state and not statement.defines)

    def _gives_stream(self, call: Call) -> bool:
        """Whether what a call gives may move on when it is read, or change what it was made of."""
        if call.last in STREAM_FUNCTIONS | STREAM_METHODS or call.root in self._stateful:
            return True
        if call.root in self._homes:
            module = self._home(call).partition(".")[0]
            return module in STREAM_MODULES or module not in VALUE_MODULES or "partial" in call.last
        return call.last in ("partial", "methodcaller")

    def _draws(self, call: Call) -> bool:
        """Whether a call may take, or set, the random numbers that a library keeps for all."""
        if call.last in SEEDING_FUNCTIONS:
            return True
        if call.last in STREAM_FUNCTIONS:
            return False
        if call.root not in self._homes or call.name.partition(".")[0] != call.root:
            return call.last in _DRAWING
        path = self._home(call).split(".")
        return "random" in path or path[0] in _RANDOM_MODULES or path[0] not in VALUE_MODULES


class Groups:
    """Names in groups that only grow together."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def of(self, name: str) -> str:
        """The name that stands for the group of ``name``."""
        while (above := self._above.setdefault(name, name)) != name:
            name = above
        return name

    def join(self, names: Iterable[str]) -> None:
        """Put ``names`` into one group."""
        first, *others = sorted({self.of(name) for name in names}) or [""]
        for other in others:
            self._above[other] = first


def _statements(cell: Cell) -> tuple[Statement, ...]:
    """The statements of a cell, with those of magics that run Python in place of the magics."""
    if not cell.magics:
        return cell.statements
    return tuple(inner for each in cell.statements for inner in _of_magic(each))


def _of_magic(statement: Statement) -> Iterator[Statement]:
    match statement.magics:
        case (magic, *_) if (
            magic.name in _TEXT_MAGICS
            and statement.source.startswith("get_ipython().run_")
            and not (magic.body and magic.text)
            and (inner := _statements(read(magic.body or magic.text)))
        ):
            yield from (replace(each, lines=statement.lines) for each in inner)
        case _:
            yield statement


def is_opaque(statement: Statement) -> bool:
    """Whether it may bind or change names that its text does not tell."""
    return (statement.opaque or statement.changes_any) and not is_star(statement)


def is_blind(statement: Statement) -> bool:
    """Whether it may read any name."""
    return any(each.name in RUNS_TEXT and each.name != "" for each in statement.calls) and (
        statement.opaque or any(len(each.names) > 1 for each in statement.calls)
    )


def is_star(statement: Statement) -> bool:
    """Whether it imports all that a module has."""
    return statement.source.startswith("from ") and statement.opaque


def is_future(statement: Statement) -> bool:
    """Whether it is an import that has to stand first."""
    return statement.source.startswith("from __future__")


def binds_whole(statement: Statement) -> bool:
    """Whether it, if it raises, has bound and changed nothing."""
    return statement.rebinds and not statement.mutated
