"""Stamping: from what a cell did to the namespace to origins in the ledger.

The same for the user's cells and the agent's. One call per cell; nothing here looks at the data.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable
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
    failed: bool = False,
    stopped_at: int = 0,
) -> None:
    """Stamp what a cell is known to have done.

    Args:
        code: the cell after IPython's transforms.
        at: the time, in ISO 8601.
        failed: it ended with an error.
        stopped_at: the line of ``code`` at which, see ``stopped_line``.
    """
    # Versions as they were when the cell began; 0 for a variable from before anybody looked.
    known = {name for name in effect.asked if ledger.version(name)}
    reads = {*effect.reads, *known}
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
    states = tuple(
        SourceState(path=path, size_bytes=size, mtime_ns=changed)
        for path, size, changed in effect.files
    )
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


def _home(origin: VariableOrigin | None, name: str) -> str:
    """What the code of ``origin`` imports as ``name``."""
    return dict(read(origin.code).modules).get(name, "") if origin is not None else ""


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
        self._before = {ref.name: {ref} for ref in before}
        self._made = {ref.name: {ref} for ref in made}
        self._in_place = in_place
        # What went into the names so far, and what functions and classes among them use.
        self._inputs: dict[str, set[InputRef]] = {}
        self._uses: dict[str, frozenset[str]] = {}
        statements = [
            each for each in cell.statements if not stopped_at or each.lines[0] <= stopped_at
        ]
        makes = [_made_by(each) for each in statements]
        # How many statements have yet to make each name.
        self._left = Counter(name for names in makes for name in names)
        # What only the functions that ran have used; it went into all that calls made.
        own = {name for each in statements for name in each.reads | each.mutated}
        through = {ref for ref in before if ref.name not in own}
        for each, names in zip(statements, makes, strict=True):
            self._run(each, names, through if each.calls else set())

    def _run(self, statement: Statement, names: frozenset[str], through: set[InputRef]) -> None:
        """Follow one statement, which makes ``names``."""
        if not statement.defines:
            found = {name: self._of_all(statement.inputs_of(name)) | through for name in names}
        else:  # what is used in there is looked up when it runs
            found = {name: set(through) for name in names}
            self._uses |= dict.fromkeys(names, statement.reads)
        for name, its in found.items():
            is_new = name in statement.certain and name not in statement.mutated
            if not is_new:
                its |= self._inputs.get(name, self._before.get(name, set()))
            elif not statement.defines:
                self._uses.pop(name, None)
            self._inputs[name] = its
        self._left.subtract(names)

    def _of_all(self, names: Iterable[str]) -> set[InputRef]:
        """What reading ``names`` gives to who reads them."""
        found, pending, seen = set[InputRef](), list(names), set[str]()
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            if name not in self._inputs:
                found |= self._before.get(name, set())
            else:
                is_final = name in self._made and not self._left[name]
                found |= self._made[name] if is_final else self._inputs[name]
            pending += self._uses.get(name, ())
        return found

    def inputs_of(self, name: str) -> tuple[InputRef, ...]:
        """What went into ``name``, sorted."""
        if name not in self._inputs:
            found = set[InputRef]().union(*self._before.values())  # no statement says it made it
        else:
            found = self._inputs[name] | self._of_all(self._uses.get(name, ()))
            found -= self._made[name]
            found |= self._before.get(name, set()) if name in self._in_place else set()
        return tuple(sorted(found, key=lambda ref: (ref.name, ref.version)))


def _made_by(statement: Statement) -> frozenset[str]:
    """What ``statement`` makes or changes, and what a call in it may change."""
    made = statement.writes | statement.mutated | statement.reached
    if any(call.last not in _HARMLESS for call in statement.calls):
        return made | statement.touched | statement.receivers
    return made
