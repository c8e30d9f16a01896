"""Stamping: from what a cell did to the namespace to origins in the ledger.

The same for the user's cells and the agent's. One call per cell; nothing here looks at the data.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from parsimony_kernel.analysis.calls import ATOMIC_FUNCTIONS, PURE_METHODS
from parsimony_kernel.analysis.cell import Cell, Statement
from parsimony_kernel.analysis.read import read
from parsimony_kernel.lineage.ledger import (
    CellRun,
    InputRef,
    OriginLedger,
    SourceState,
    VariableOrigin,
    source_state,
)
from parsimony_kernel.lineage.observe import CellEffect


class Producer(Protocol):
    """On whose behalf a cell ran. ``execution.run_scope.RunScope`` is one."""

    @property
    def actor(self) -> Literal["user", "agent"]: ...
    @property
    def notebook_path(self) -> str: ...
    @property
    def cell_id(self) -> str: ...
    @property
    def run_id(self) -> str: ...


def stamp_effect(
    ledger: OriginLedger,
    effect: CellEffect,
    code: str,
    scope: Producer,
    at: str,
    *,
    cwd: Path | None = None,
    failed: bool = False,
    stopped_at: int = 0,
) -> None:
    """Stamp what a cell is known to have done.

    Args:
        code: the cell after IPython's transforms.
        at: the time, in ISO 8601.
        failed: it ended with an error.
        stopped_at: the line of ``code`` at which, see ``stopped_line``.
        cwd: the folder in which it ran, right after it has. Without it, that is the folder of the
            process, and it may have been long ago: of a file that was changed after ``at``,
            nothing is known then.
    """
    # Versions as they were when the cell began; 0 for a variable from before anybody looked.
    known = {name for name in effect.asked if ledger.version(name)}
    reads = {*effect.reads, *known}
    reads |= _reads_of_functions(ledger, reads)
    inputs = tuple(InputRef(name=name, version=ledger.version(name)) for name in sorted(reads))
    # A value that equals the old one by identity is no change, but its origin is known only now.
    bound = {name for name in effect.bound if not ledger.version(name)}
    imported = {name for name, home in effect.modules if home != _home(ledger.get(name), name)}
    sha = hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
    made = tuple(
        InputRef(name=name, version=ledger.next_version(name))
        for name in sorted({*effect.changed, *bound, *imported, *effect.tables})
    )
    derivation = Derivation(read(code), inputs, made, effect.in_place, stopped_at)
    states = _states(effect.sources, cwd, at)
    number = ledger.next_cell_run()
    ran: dict[str, Any] = {
        "actor": scope.actor,
        "notebook_path": scope.notebook_path,
        "cell_id": scope.cell_id,
        "run_id": scope.run_id,
        "code": code,
        "code_sha": sha,
        "sources": effect.sources,
        "source_states": states,
        "at": at,
    }
    for ref in made:
        its = derivation.inputs_of(ref.name)
        ledger.stamp(VariableOrigin(**ran, **dict(ref), inputs=its, cell_run=number))
    for name in effect.deleted:
        ledger.drop(name)
    ledger.record(
        CellRun(
            **ran,
            number=number,
            reads=inputs,
            made=made,
            deleted=effect.deleted,
            failed=failed,
            stopped_at=stopped_at,
        )
    )


def _states(sources: Iterable[str], cwd: Path | None, at: str) -> tuple[SourceState, ...]:
    folder = Path() if cwd is None else cwd
    states = [source_state(source, folder) for source in sources if "://" not in source]
    if cwd is not None:
        return tuple(states)
    ended = _nanoseconds(at)
    return tuple(
        SourceState(path=state.path) if ended and (state.mtime_ns or 0) > ended else state
        for state in states
    )


def _nanoseconds(at: str) -> int:
    """``at`` since the epoch; 0 where it is no time."""
    try:
        return int(datetime.fromisoformat(at).timestamp() * 1e6) * 1_000
    except (ValueError, OverflowError, OSError):
        return 0


def _home(origin: VariableOrigin | None, name: str) -> str:
    """What the code of ``origin`` imports as ``name``."""
    return dict(read(origin.code).modules).get(name, "") if origin is not None else ""


def _reads_of_functions(ledger: OriginLedger, names: Iterable[str]) -> set[str]:
    """The names that the functions and classes among ``names`` use, by the code that made them."""
    found = set[str]()
    pending = list(names)
    while pending:
        origin = ledger.get(pending.pop())
        if origin is None or ("def " not in origin.code and "class " not in origin.code):
            continue
        for statement in read(origin.code).statements:
            if origin.name in statement.writes and statement.defines:
                more = {each for each in statement.reads if ledger.version(each)} - found
                found |= more
                pending.extend(more)
    return found


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
