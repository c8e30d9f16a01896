"""The origin of every variable, by name.

One ledger per namespace. It stores values, never the objects themselves, and its cost per stamp
does not depend on the size of the data.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Set
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from parsimony_kernel.lineage.file_access import size_and_change


class _Fact(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class InputRef(_Fact):
    """A variable that was read, at the version it had then."""

    name: str
    version: int


class SourceState(_Fact):
    """What a source was when a cell that read it had ended: its size in bytes and the time of its
    last change.

    Without them it was no file, or is known to have changed since. What changes a file while the
    cell runs, or keeps its size and that time, is not seen by it.
    """

    path: str
    size_bytes: int | None = None
    mtime_ns: int | None = None


def source_state(source: str, folder: Path) -> SourceState:
    """What the file ``source``, relative to ``folder``, is now."""
    size, changed = size_and_change(source, folder)
    return SourceState(path=source, size_bytes=size, mtime_ns=changed)


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


class Return(NamedTuple):
    """Names that were put back, after ``at`` runs, to what they were at a moment before."""

    names: frozenset[str]
    at: int
    to: Moment


class OriginLedger:
    """The current origin per name, and the earlier ones for walking back.

    A version is given once: after going back to an older one, the next binding gets a new number.
    """

    def __init__(self) -> None:
        self._origins: dict[str, list[VariableOrigin]] = {}
        self._cells: list[CellRun] = []
        self._returns: list[Return] = []
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
        return Moment(len(self._cells), len(self._returns))

    def put_back(self, names: Iterable[str], to: Moment) -> None:
        """``names``, with all that they hold, are again what they were at ``to``."""
        self._returns.append(Return(frozenset(names), len(self._cells), to))

    def returns(self) -> tuple[Return, ...]:
        """What was put back, oldest first."""
        return tuple(self._returns)

    def drop(self, name: str) -> None:
        """``name`` is bound no more. Its versions go on counting when it is bound again."""
        self.go_back(name, 0)

    def stale(self, name: str) -> tuple[InputRef, ...]:
        """What went into ``name``, all the way, and is now something else or gone.

        Each at the version that went in, sorted. What a run changed together with the variable
        that it made went into it as the run left it.
        """
        chain = list(self.ancestry(name))
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
        return tuple(sorted(found, key=lambda ref: (ref.name, ref.version)))

    def _made(self, number: int, name: str) -> bool:
        return 0 < number <= len(self._cells) and any(
            ref.name == name for ref in self._cells[number - 1].made
        )

    def stale_since(self, after: int, gone: Set[str]) -> tuple[str, ...]:
        """The variables that stand, all the way, on something of ``gone`` that is no more, of those
        that runs of cells with a higher number than ``after`` made; sorted."""
        behind = set[InputRef]()
        for made in (ref for run in self._cells[after:] for ref in run.made):
            origin = self.at_version(made)
            if origin is not None and any(
                ref in behind or (ref.name in gone and ref.version != self.version(ref.name))
                for ref in origin.inputs
            ):
                behind.add(made)
        names = {ref.name for ref in behind if ref.version == self.version(ref.name)}
        return tuple(sorted(names - gone))

    def ancestry(self, name: str) -> Iterator[VariableOrigin]:
        """``name``'s origin and those of all that went into it, each once, newest first."""
        current = self.get(name)
        pending = deque([current] if current else [])
        seen: set[tuple[str, int]] = set()
        while pending:
            origin = pending.popleft()
            if (origin.name, origin.version) in seen:
                continue
            seen.add((origin.name, origin.version))
            yield origin
            pending.extend(
                found for ref in origin.inputs if (found := self.at_version(ref)) is not None
            )

    def clear(self) -> None:
        """Forget everything."""
        self._origins.clear()
        self._cells.clear()
        self._returns.clear()
        self._gone_back.clear()
