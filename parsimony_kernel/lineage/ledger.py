"""The origin of every variable, by name, and how what a cell did is put on record.

One ledger per namespace. It stores values, never the objects themselves; its cost per cell does
not depend on the size of the data, and is the same for the user's cells and the agent's.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Literal, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict

from parsimony_kernel.analysis.calls import ATOMIC_FUNCTIONS, PURE_METHODS
from parsimony_kernel.analysis.cell import Cell, Statement
from parsimony_kernel.analysis.parse import is_table
from parsimony_kernel.analysis.read import read
from parsimony_kernel.lineage.file_access import SourceState
from parsimony_kernel.lineage.observe import CellEffect

_HARMLESS = PURE_METHODS | ATOMIC_FUNCTIONS


class _Fact(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class InputRef(_Fact):
    """A variable that was read, at the version it had then."""

    name: str
    version: int


class _Ran(_Fact):
    """Which code ran, for whom and when.

    Args:
        sources: the files, folders and addresses that the code read, relative to the working
            folder where they lie below it.
        source_states: what the files among them were when the code had ended.
    """

    actor: Literal["user", "agent"]
    notebook_path: str
    cell_id: str
    run_id: str
    code: str
    code_sha: str
    sources: tuple[str, ...] = ()
    source_states: tuple[SourceState, ...] = ()
    at: str = ""


class VariableOrigin(_Ran):
    """Which code made a variable, from what.

    Args:
        version: counts the bindings of the name from 1.
        cell_run: the number of the run of a cell that did it, 0 where none was recorded.
    """

    name: str
    version: int
    inputs: tuple[InputRef, ...] = ()
    cell_run: int = 0


class CellRun(_Ran):
    """One run of one cell.

    Args:
        number: counts the runs of the namespace from 1, in the order in which they ended.
        reads: what it read, at the versions that stood when it began; 0 for a name that nobody is
            known to have bound.
        made: what it bound or changed, at the versions that this gave.
        deleted: the names that it unbound.
        failed: it went no further than the statement at the line ``stopped_at`` of its code, which
            is 0 where that is not known.
    """

    number: int
    reads: tuple[InputRef, ...] = ()
    made: tuple[InputRef, ...] = ()
    deleted: tuple[str, ...] = ()
    failed: bool = False
    stopped_at: int = 0


class Moment(NamedTuple):
    """A state of a namespace: how many runs of cells, and how many returns, came before it."""

    runs: int = 0
    returns: int = 0


# By name, the runs of cells whose work on it was taken back.
TakenBack = Mapping[str, Set[int]]


def _sorted(refs: Iterable[InputRef]) -> tuple[InputRef, ...]:
    return tuple(sorted(refs, key=lambda ref: (ref.name, ref.version)))


class OriginLedger:
    """The current origin per name, and the earlier ones for walking back.

    A version is given once: after going back to an older one, the next binding gets a new number.
    """

    def __init__(self) -> None:
        self._origins: dict[str, list[VariableOrigin]] = {}
        self._cells: list[CellRun] = []
        # Before anything was put back, and after each time; and as each run ended.
        self._taken_back: list[TakenBack] = [{}]
        self._began: list[TakenBack] = []
        # Where a name does not stand at its newest version.
        self._gone_back: dict[str, int] = {}

    def get(self, name: str) -> VariableOrigin | None:
        """The origin of what ``name`` is now, or ``None`` when nothing is known."""
        if name in self._gone_back:
            return self.at_version(InputRef(name=name, version=self._gone_back[name]))
        history = self._origins.get(name)
        return history[-1] if history else None

    def at_version(self, ref: InputRef) -> VariableOrigin | None:
        """The origin that ``ref`` names."""
        history = self._origins.get(ref.name, ())
        # They count from 1 without a gap, see ``stamp``.
        return history[ref.version - 1] if 0 < ref.version <= len(history) else None

    def version(self, name: str) -> int:
        """Which binding of ``name`` is the current one; 0 when it was never seen."""
        current = self.get(name)
        return current.version if current else 0

    def next_version(self, name: str) -> int:
        """The version of the next binding of ``name``."""
        history = self._origins.get(name)
        return history[-1].version + 1 if history else 1

    def stamp(self, origin: VariableOrigin) -> None:
        """Record a new binding. Its version must be the next one."""
        expected = self.next_version(origin.name)
        if origin.version != expected:
            raise ValueError(
                f"{origin.name!r} has {expected - 1} versions, so the next is {expected}, "
                f"not {origin.version}"
            )
        self._origins.setdefault(origin.name, []).append(origin)
        self._gone_back.pop(origin.name, None)

    def record(self, cell: CellRun) -> None:
        """Record a run of a cell, after the stamps of what it made. Its number is the next."""
        if cell.number != self.next_cell_run():
            raise ValueError(f"the next run has number {self.next_cell_run()}, not {cell.number}")
        self._cells.append(cell)
        self._began.append(self._taken_back[-1])

    def next_cell_run(self) -> int:
        """The number of the next run of a cell."""
        return len(self._cells) + 1

    def cell_runs(self) -> tuple[CellRun, ...]:
        """Every run that was recorded, oldest first."""
        return tuple(self._cells)

    def versions(self) -> dict[str, int]:
        """The current version of every name that is known."""
        return {name: self.version(name) for name in self._origins}

    def go_back(self, name: str, version: int) -> None:
        """``name`` is again what it was at ``version``; at 0, something of unknown origin."""
        if name in self._origins:
            self._gone_back[name] = version

    def now(self) -> Moment:
        """The state that the namespace is in."""
        return Moment(len(self._cells), len(self._taken_back) - 1)

    def put_back(self, names: Iterable[str], to: Moment) -> None:
        """``names``, with all that they hold, are again what they were at ``to``."""
        then, since = self._taken_back[to.returns], range(to.runs + 1, len(self._cells) + 1)
        put = {name: {*then.get(name, ()), *since} for name in names}
        self._taken_back.append({**self._taken_back[-1], **put})

    def taken_back(self, number: int | None = None) -> TakenBack:
        """What is taken back now, or was when the run ``number`` ended."""
        return self._taken_back[-1] if number is None else self._began[number - 1]

    def drop(self, name: str) -> None:
        """``name`` is bound no more. Its versions go on counting when it is bound again."""
        self.go_back(name, 0)

    def stale(self, name: str, chain: Sequence[VariableOrigin] = ()) -> tuple[InputRef, ...]:
        """What went into ``name``, all the way, and is now something else or gone.

        Each at the version that went in, sorted. What a run changed together with the variable
        that it made went into it as the run left it.

        Args:
            chain: the ``ancestry`` of ``name``, where the caller has it.
        """
        chain = chain or list(self.ancestry(name))
        runs = {origin.cell_run for origin in chain}
        found = set[InputRef]()
        for origin in chain:
            for ref in origin.inputs:
                current = self.get(ref.name)
                if ref.name in (name, origin.name):
                    continue
                if current is None:
                    if ref.version:
                        found.add(ref)
                elif ref.version != current.version and not (
                    current.cell_run in runs and self._made(current.cell_run, origin.name)
                ):
                    found.add(ref)
        return _sorted(found)

    def _made(self, number: int, name: str) -> bool:
        return 0 < number <= len(self._cells) and any(
            ref.name == name for ref in self._cells[number - 1].made
        )

    def ancestry(self, name: str) -> Iterator[VariableOrigin]:
        """``name``'s origin and those of all that went into it, each once, newest first."""
        current = self.get(name)
        found = [current] if current else []
        seen = {(each.name, each.version) for each in found}
        for origin in found:  # which grows
            yield origin
            for ref in origin.inputs:
                if (key := (ref.name, ref.version)) not in seen:
                    seen.add(key)
                    found += [made] if (made := self.at_version(ref)) else []

    def clear(self) -> None:
        """Forget everything."""
        self._origins.clear()
        self._cells.clear()
        self._began.clear()
        self._taken_back = [{}]
        self._gone_back.clear()


# Putting a cell on record


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
    failed: bool = False,
    stopped_at: int = 0,
) -> None:
    """Stamp what a cell is known to have done.

    Args:
        code: the cell after IPython's transforms.
        at: the time, in ISO 8601.
        failed: it ended with an error.
        stopped_at: the line of ``code`` at which, see ``Cell.left_at``.
    """
    # Versions as they were when the cell began; 0 for a variable from before anybody looked.
    known = {name for name in effect.asked if ledger.version(name)}
    reads = {*effect.reads, *known}
    inputs = tuple(InputRef(name=name, version=ledger.version(name)) for name in sorted(reads))
    # A value that equals the old one by identity is no change, but its origin is known only now.
    bound = {name for name in effect.bound if not ledger.version(name)}
    sha = hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
    cell = read(code)
    tables = filter(is_table, cell.writes | cell.mutated)  # which its queries make or change
    made = tuple(
        InputRef(name=name, version=ledger.next_version(name))
        for name in sorted({*effect.changed, *bound, *tables})
    )
    derived = _derived(cell, inputs, made, effect.in_place, stopped_at)
    number = ledger.next_cell_run()
    ran: dict[str, Any] = {
        "actor": scope.actor,
        "notebook_path": scope.notebook_path,
        "cell_id": scope.cell_id,
        "run_id": scope.run_id,
        "code": code,
        "code_sha": sha,
        "sources": effect.sources,
        "source_states": effect.files,
        "at": at,
    }
    for ref in made:
        its = derived[ref.name]
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


def _derived(
    cell: Cell,
    before: Collection[InputRef],
    made: Collection[InputRef],
    in_place: Collection[str],
    stopped_at: int,
) -> dict[str, tuple[InputRef, ...]]:
    """What went into each variable that one run of a cell made, sorted.

    Args:
        before: what the cell read, through its functions too, as it stood when the cell began.
        made: what the cell made.
        in_place: those of ``made`` that have their object from before.
        stopped_at: the line at which it stopped with an error, 0 where it did not.
    """
    old, new = ({ref.name: {ref} for ref in refs} for refs in (before, made))
    ran = [each for each in cell.statements if not stopped_at or each.lines[0] <= stopped_at]
    makes = [_made_by(each) for each in ran]
    # How many statements have yet to make each name.
    left = Counter(name for names in makes for name in names)
    # What only the functions that ran have used; it went into all that calls made.
    own = {name for each in ran for name in each.reads | each.mutated}
    through = {ref for ref in before if ref.name not in own}
    # What went into the names so far, and what functions and classes among them use.
    inputs: dict[str, set[InputRef]] = {}
    uses: dict[str, Set[str]] = {}

    def given_by(names: Iterable[str]) -> set[InputRef]:
        """What reading ``names`` gives to who reads them."""
        found, pending, seen = set[InputRef](), list(names), set[str]()
        while pending:
            if (name := pending.pop()) in seen:
                continue
            seen.add(name)
            if name not in inputs:
                found |= old.get(name, set())
            else:
                found |= new[name] if name in new and not left[name] else inputs[name]
            pending += uses.get(name, ())
        return found

    for each, names in zip(ran, makes, strict=True):
        by_calls = through if each.calls else set[InputRef]()
        if each.defines:  # what is used in there is looked up when it runs
            found = {name: {*by_calls} for name in names}
            uses |= dict.fromkeys(names, each.reads)
        else:
            found = {name: given_by(each.inputs_of(name)) | by_calls for name in names}
        for name, its in found.items():
            if name not in each.certain or name in each.mutated:
                its |= inputs.get(name, old.get(name, set()))
            elif not each.defines:
                uses.pop(name, None)
            inputs[name] = its
        left.subtract(names)

    def inputs_of(name: str) -> set[InputRef]:
        if name not in inputs:
            return set[InputRef]().union(*old.values())  # no statement says it made it
        found = (inputs[name] | given_by(uses.get(name, ()))) - new[name]
        return found | old.get(name, set()) if name in in_place else found

    return {name: _sorted(inputs_of(name)) for name in new}


def _made_by(statement: Statement) -> Set[str]:
    """What ``statement`` makes or changes, and what a call in it may change."""
    made = statement.writes | statement.mutated | statement.reached
    if any(call.last not in _HARMLESS for call in statement.calls):
        return made | statement.touched
    return made
