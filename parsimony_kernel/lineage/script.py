"""A short script that rebuilds a variable: a backward slice over the statements that ran.

The ledger says which cells made or mutated the needed variables. Their code is kept, except for
top-level statements that provably affect nothing needed. Static analysis decides what can't be
compared: which statements advance an iterator or a random generator. Anything undecidable raises
``SliceError``; no script is guessed.
"""

import builtins
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from parsimony_kernel.analysis import calls
from parsimony_kernel.analysis.cell_names import NOTHING, Call, Cell, Statement
from parsimony_kernel.analysis.parse import TABLE, is_table
from parsimony_kernel.analysis.read import read
from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.lineage.classes import FACTS
from parsimony_kernel.lineage.ledger import FILE, CellRun, OriginLedger
from parsimony_kernel.lineage.why import safe

_FUTURE = "from __future__"
# The initial names of a private namespace, with the code that provides them elsewhere.
SEEDS: Mapping[str, str] = FACTS["seeds"]
_BUILTINS = frozenset(vars(builtins)) | {"__name__", "__builtins__"}
# Stands for the global random generators of libraries.
_RANDOM = "*random"
_TEXT_MAGICS = calls.names("magics", "text")
_STREAMS = calls.STREAM_FUNCTIONS | calls.STREAM_METHODS
_DRAWING = calls.SEEDING_FUNCTIONS | {"sample", "rvs", "fit", "fit_transform", "fit_predict"}
# Modules whose functions draw no random numbers, except those of ``numpy.random``.
_UNDRAWN = calls.VALUE_MODULES - {"random", "sklearn", "scipy"}


class SliceError(SessionError):
    """No script is certain to rebuild the variable."""


def slice_of(ledger: OriginLedger, name: str) -> str:
    """Return a script of top-level statements that rebuilds the current value of ``name``.

    Code that draws random numbers, asks the time or reads external data runs again, so its
    results may differ.

    Args:
        ledger: the provenance of the variables.
        name: the variable to rebuild.

    Raises:
        SliceError: the origin of an input is unknown, a cell failed at a point where its effect
            is unknown, or no order of the cells reproduces the versions.
    """
    origin = ledger.get(name)
    if origin is None or not origin.cell_run:
        raise _unknown(name)
    program = _Program(ledger.cell_runs())
    walk = _Walk(program, ledger, name)
    if walk.missing and program.is_open:
        walk = _Walk(program, ledger, name, keep_open=True)
    elif walk.missing:
        raise _unknown(min(walk.missing))
    chain = [*ledger.ancestry(name)]
    if changed := {ref.name for each in chain for ref in ledger.rewritten(each)}:
        raise SliceError(
            f"{min(changed).removeprefix(FILE)!r} was written again after it was read, so what "
            f"{name!r} was made from is gone: run the cell that reads it again, then the cells "
            "that use it."
        )
    sources = dict.fromkeys(source for each in reversed(chain) for source in each.sources)
    lines = [f"# Rebuilds {name}.", *(f"# Reads {safe(each)}" for each in sources)]
    futures = {each.source for run, _ in walk.kept for each in read(run.code).statements}
    futures = {each for each in futures if each.startswith(_FUTURE)}
    for first in (sorted(futures), sorted(SEEDS[each] for each in walk.seeds)):
        lines += ["", *first] if first else []
    for run, kept in reversed(walk.kept):
        place = f"cell of turn {run.turn}" if run.turn else "cell"
        lines += ["", f"# {place} ({run.actor})", *(each.source for each in kept)]
    return "\n".join(lines) + "\n"


def _unknown(name: str) -> SliceError:
    return SliceError(
        f"Nothing is known of where {name!r} comes from: run the cell that makes {name!r} again, "
        "then the cells that use it."
    )


# What statements do


class _Part(NamedTuple):
    """The effects of a statement, including those of the functions that it may call.

    Args:
        statement: the statement.
        reads: the names that it needs when it runs, including those its functions use.
        binds: the names that it may bind or delete.
        touches: the names whose objects it may mutate; ``*`` stands for all.
        moves: the streams (iterators, random generators) that it advances, each by the
            representative of its group of names.
    """

    statement: Statement
    reads: Set[str]
    binds: Set[str]
    touches: Set[str]
    moves: Set[str]

    @property
    def is_blind(self) -> bool:
        """Whether it may read any name."""
        running = [each for each in self.statement.calls if each.name in calls.RUNS_TEXT]
        many = any(len(each.names) > 1 for each in self.statement.calls)
        return bool(running) and (self.statement.opaque or many)


class _Program:
    """The analyzed statements of all runs of a notebook, by the code of their cells.

    Args:
        tracked: the names that runs are known to have made.
        tables: names in queries that were no variables: database tables, perhaps older ones.
        is_open: whether some statement may bind names that static analysis can't see.
    """

    def __init__(self, runs: tuple[CellRun, ...]) -> None:
        self.runs = runs
        cells = {run.code: read(run.code) for run in runs}
        statements = {code: _statements(cell) for code, cell in cells.items()}
        every = [each for its in statements.values() for each in its]
        self.tracked = {ref.name for run in runs for ref in run.made}
        tables = {name for each in every for name in each.reads if is_table(name)}
        self.tables = tables | {name.removeprefix(TABLE) for name in tables}
        self.tables -= {ref.name for run in runs for ref in run.reads if not is_table(ref.name)}
        self.is_open = any(map(_is_open, every))
        self._homes = {**read("\n".join(SEEDS.values())).modules}
        self._defined = set[str]()
        for cell in cells.values():
            self._homes.update(cell.modules)
            self._defined |= cell.defined
        # Functions whose results may vary between calls; each may use those found before.
        self._stateful, known = set[str](), -1
        while known < len(self._stateful):
            known = len(self._stateful)
            for each in (each for each in every if each.later is not NOTHING):
                if each.keeps_state or any(map(self._gives_stream, each.later.calls)):
                    self._stateful |= each.writes
        # By name: the names read by the functions that it may hold, when they run.
        self._used: dict[str, set[str]] = {}
        for each in every:
            for name in each.writes if each.later.reads else ():
                self._used.setdefault(name, set()).update(each.later.reads)
        self._is_seeded = any(
            call.last in calls.SEEDING_FUNCTIONS for each in every for call in each.calls
        )
        # Groups of names whose objects may be identical or share parts, and the groups with a
        # stream: an object that advances when it is read.
        self._groups = _Groups()
        moving = {_RANDOM} if self._is_seeded else set[str]()
        plain = self._homes.keys() | _BUILTINS | (self._defined - self._stateful) | {""}
        for each in every:
            self._relate(each, plain)
            if (each.keeps_state and not each.defines) or any(map(self._gives_stream, each.calls)):
                moving |= each.writes | each.mutated
        self._streams = self.related(moving)
        self._parts = {code: [*map(self._part, its)] for code, its in statements.items()}

    def parts(self, run: CellRun) -> list[_Part]:
        return self._parts[run.code]

    def through(self, names: Iterable[str]) -> set[str]:
        """Return the names that the functions in ``names`` use when they run, transitively."""
        found, pending = set[str](), [name for name in names if name in self._used]
        while pending:
            more = self._used.get(pending.pop(), set()) - found
            found |= more
            pending += more
        return found

    def related(self, names: Iterable[str]) -> set[str]:
        """Return the groups of names that may share objects with ``names``."""
        return {self._groups.of(name) for name in names}

    def streams_of(self, names: Iterable[str]) -> set[str]:
        """Return the streams that ``names`` lead to."""
        return self.related(names) & self._streams

    def _relate(self, statement: Statement, plain: Collection[str]) -> None:
        for name, root in statement.links:
            self._groups.join({name, root.name}.difference(plain))
        for call in statement.calls:
            if not self._is_harmless(call):
                self._groups.join({*call.handed, call.root}.difference(plain))
        if statement.later is not NOTHING:
            self._groups.join(statement.writes | statement.reads.difference(plain))
            if self._is_seeded and any(map(self._draws, statement.calls)):
                self._groups.join({*statement.writes, *statement.mutated, _RANDOM})

    def _part(self, statement: Statement) -> _Part:
        through = self.through(statement.now)
        reads = statement.now | statement.deletes | through
        touches, moves = set[str](), set[str]()
        if not statement.defines:
            reads |= statement.mutated
            touches = {*statement.mutated, *statement.reached}
            for call in statement.calls:
                if not self._is_harmless(call):
                    touches |= call.handed | {call.root} | through
            imports_all = statement.opaque and statement.source.startswith("from ")
            if statement.changes_all or (_is_open(statement) and not imports_all):
                touches.add("*")
            moves = self.streams_of(statement.now | through) if self._streams else moves
            random = self._groups.of(_RANDOM)
            if self._is_seeded and (random in moves or any(map(self._draws, statement.calls))):
                reads |= {_RANDOM}
                moves.add(random)
        touches -= self._homes.keys() | {""}
        binds = statement.writes | statement.deletes
        return _Part(statement, reads, binds, touches, moves)

    def _is_harmless(self, call: Call) -> bool:
        """Return whether a call leaves its arguments and receiver unchanged."""
        if call.last in calls.MUTATES or call.root in self._defined or not call.name:
            return False
        if call.root in self._homes:
            return self._home(call)[0] in calls.VALUE_MODULES
        if call.name == call.root:
            return call.last in calls.HARMLESS and not call.last[:1].isupper()
        return call.last in calls.PURE_METHODS and call.last not in self._defined

    def _home(self, call: Call) -> list[str]:
        """Return the parts of the full name of a call to an imported object."""
        rest = call.name.removeprefix(call.root).lstrip(".")
        return f"{self._homes[call.root]}.{rest}".replace(":", ".").split(".")

    # Streams: objects that advance when they are read

    def _gives_stream(self, call: Call) -> bool:
        """Return whether a call's result may be a stream, or may mutate what it was made from."""
        if call.last in _STREAMS or call.root in self._stateful:
            return True
        if call.root in self._homes:
            return self._home(call)[0] not in calls.VALUE_MODULES or "partial" in call.last
        return call.last in ("partial", "methodcaller")

    def _draws(self, call: Call) -> bool:
        """Return whether a call may draw from, or seed, a library's global random generator."""
        if call.last in calls.SEEDING_FUNCTIONS:
            return True
        if call.last in calls.STREAM_FUNCTIONS:  # they seed their own
            return False
        if call.root not in self._homes or call.name.partition(".")[0] != call.root:
            return call.last in _DRAWING
        path = self._home(call)
        return "random" in path or not _UNDRAWN.issuperset(path[:1])


def _is_open(statement: Statement) -> bool:
    """Return whether a statement may bind or mutate names that static analysis can't see."""
    return statement.opaque or statement.changes_any


class _Groups:
    """Disjoint groups of names that can only be merged: a union-find structure."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def of(self, name: str) -> str:
        """Return the representative of the group of ``name``."""
        while (above := self._above.setdefault(name, name)) != name:
            name = above
        return name

    def join(self, names: Iterable[str]) -> None:
        """Merge the groups of ``names``."""
        first, *others = sorted({self.of(name) for name in names}) or [""]
        for other in others:
            self._above[other] = first


def _statements(cell: Cell) -> tuple[Statement, ...]:
    """Return the statements of a cell, with magics that run Python replaced by their statements.

    Imports from ``__future__`` are left out: the script begins with them.
    """
    every = chain.from_iterable(map(_of_magic, cell.statements))
    return tuple(each for each in every if not each.source.startswith(_FUTURE))


def _of_magic(statement: Statement) -> Sequence[Statement]:
    magic = next(iter(statement.magics), None)
    is_alone = statement.source.startswith("get_ipython().run_")
    if magic is None or magic.name not in _TEXT_MAGICS or not is_alone:
        return [statement]
    inner = () if magic.body and magic.text else _statements(read(magic.body or magic.text))
    return [replace(each, lines=statement.lines) for each in inner] or [statement]


# The walk


class _Walk:
    """A backward pass over all statements that ran, from the newest to the oldest.

    Undone work is skipped, from the undo back to the moment that it restored.

    Args:
        keep_open: whether to keep all statements whose bindings static analysis can't see.
    """

    def __init__(
        self, program: _Program, ledger: OriginLedger, name: str, *, keep_open: bool = False
    ) -> None:
        # The statements to keep, the newest run first.
        self.kept: list[tuple[CellRun, list[Statement]]] = []
        self._program = program
        self._keep_open = keep_open
        # The names whose value is needed, and those that a kept statement certainly reads.
        self._live = {name} | program.through({name})
        self._asked = set[str]()
        self._found = set[str]()
        # Names whose changes in this run were undone; needed ones are looked for before it.
        self._passed = set[str]()
        undone = ledger.taken_back()
        for run in reversed(program.runs):
            self._passed = {each for each, runs in undone.items() if run.number in runs}
            waiting = self._live & self._passed
            self._live -= waiting
            self._pass(run)
            self._live |= waiting
        self.seeds = self._live & SEEDS.keys()
        left = self._live - self.seeds - self._found - _BUILTINS - {_RANDOM}
        self.missing = (left & self._asked) - program.tables

    def _must_not_be_passed(self, run: CellRun, part: _Part) -> None:
        """Check that a kept statement uses and changes nothing that an undo restored.

        Raises:
            SliceError: it does, so no order of the cells may give what there is now.
        """
        made = {ref.name for ref in run.made} - part.binds if part.touches else set[str]()
        if hit := self._passed & (part.binds | part.reads | part.touches | made):
            name = min(hit)
            raise SliceError(
                f"A change of {name!r} was undone, and something that is needed was made "
                f"with it, or may hold the same object: run the cells that use {name!r} again."
            )

    # One run of a cell

    def _pass(self, run: CellRun) -> None:
        made = {ref.name for ref in run.made} & self._live
        parts = self._ended(run)
        is_in = bool(made) or any(map(self._is_needed, parts))
        if is_in or self._keep_open:
            self._keep(run, parts, made, is_in=is_in)
        for ref in run.reads:
            if not ref.version and ref.name in self._live and ref.name not in SEEDS:
                raise _unknown(ref.name)

    def _keep(self, run: CellRun, parts: Sequence[_Part], made: set[str], *, is_in: bool) -> None:
        """Keep the needed statements of a run.

        Args:
            made: the needed names that the run is known to have made.
            is_in: whether the run contributes anything needed.
        """
        related = self._program.related
        # Names it mutated without binding, and whether static analysis shows which statements did.
        left = made.difference(*(each.binds for each in parts))
        is_told = related(left) <= related(name for each in parts for name in each.touches)
        is_whole = bool(left) and not any(each.touches or each.moves for each in parts)
        if is_whole and (run.failed or not parts):
            raise _stopped(left)
        own = {name for each in parts for name in each.statement.writes}
        kept: list[Statement] = []
        for each in reversed(parts):
            statement = each.statement
            is_open = self._keep_open and _is_open(statement)
            may_change = is_in and self._may_change(each, is_told=is_told)
            if not (is_whole or is_open or may_change or self._is_needed(each)):
                continue
            if self._passed:
                self._must_not_be_passed(run, each)
            kept.insert(0, statement)
            self._found |= each.binds
            self._asked -= each.binds
            self._live -= statement.certain
            self._found -= statement.certain
            self._live |= each.reads
            self._asked |= statement.now - own
            if each.is_blind:
                self._live |= self._program.tracked
        if is_whole:
            self._found |= made
        if kept:
            self.kept.append((run, kept))

    def _is_needed(self, part: _Part) -> bool:
        """Return whether a statement binds a needed name, or advances a needed stream."""
        if not self._live.isdisjoint(part.binds):
            return True
        return bool(part.moves and part.moves & self._program.streams_of(self._live))

    def _may_change(self, part: _Part, *, is_told: bool) -> bool:
        """Return whether a statement may mutate a needed object, other than one fully undone.

        Args:
            is_told: whether static analysis shows which statements mutated the needed objects.
        """
        if part.touches <= self._passed - self._live:
            return False
        if not is_told or "*" in part.touches:
            return True
        related = self._program.related
        return not related(part.touches).isdisjoint(related(self._live))

    def _ended(self, run: CellRun) -> Sequence[_Part]:
        """Return the statements of a run that completed; the one that failed must not matter.

        Raises:
            SliceError: a statement that may have failed halfway may have changed a needed name.
        """
        parts, stop = self._program.parts(run), run.stopped_at
        if not run.failed:
            return parts
        ended = [each for each in parts if each.statement.lines[1] < stop]
        rest = parts[len(ended) :]
        rest = [each for each in rest if not stop or each.statement.lines[0] <= stop]
        made = {ref.name for ref in run.made} | {*run.deleted}
        bound = {name for each in parts for name in each.statement.writes}
        for each in rest:
            is_whole = each.statement.rebinds and not each.statement.mutated
            # Without an effect where it raises, if it is certain that it was this one.
            may = set[str]() if is_whole and stop and len(rest) == 1 else {*each.binds}
            may -= self._program.tracked - made
            may |= (each.touches & made) | (made - bound if each.touches else set())
            streams_of = self._program.streams_of
            may |= {name for name in self._live if streams_of({name}) & each.moves}
            if hit := self._live & may:
                raise _stopped(hit)
        return ended


def _stopped(names: Collection[str]) -> SliceError:
    name = min(names)
    return SliceError(
        f"A cell stopped with an error where it may have changed {name!r}, and how far it got is "
        f"not known: run the cell that makes {name!r} again."
    )
