"""Stamping: from what a cell did to the namespace to origins in the ledger.

The same for the user's cells and the agent's. One call per cell; nothing here looks at the data.
"""

import hashlib
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

from parsimony_kernel.analysis.read import read
from parsimony_kernel.lineage.derivation import Derivation
from parsimony_kernel.lineage.file_access import sources_in
from parsimony_kernel.lineage.ledger import (
    CellRun,
    InputRef,
    OriginLedger,
    SourceState,
    VariableOrigin,
    source_state,
)
from parsimony_kernel.lineage.look import Looked, before_cell
from parsimony_kernel.lineage.observing import CellEffect, observe_cell, stopped_line

__all__ = [
    "CellEffect", "Looked", "Producer", "before_cell", "observe_cell", "sources_in",
    "stamp_effect", "stopped_line",
]  # fmt: skip


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
        for name in sorted({*effect.changed, *bound, *imported})
    )
    derivation = Derivation(read(code), inputs, made, effect.in_place, stopped_at)
    states = _states(effect.sources, cwd, at)
    number = ledger.next_cell_run()
    run = CellRun(
        number=number,
        actor=scope.actor,
        notebook_path=scope.notebook_path,
        cell_id=scope.cell_id,
        run_id=scope.run_id,
        code=code,
        code_sha=sha,
        reads=inputs,
        made=made,
        deleted=effect.deleted,
        sources=effect.sources,
        source_states=states,
        at=at,
        failed=failed,
        stopped_at=stopped_at,
    )
    for ref in made:
        ledger.stamp(
            VariableOrigin(
                name=ref.name,
                version=ref.version,
                actor=run.actor,
                notebook_path=run.notebook_path,
                cell_id=run.cell_id,
                run_id=run.run_id,
                code=code,
                code_sha=sha,
                inputs=derivation.inputs_of(ref.name),
                sources=effect.sources,
                source_states=states,
                at=at,
                cell_run=number,
            )
        )
    for name in effect.deleted:
        ledger.drop(name)
    ledger.record(run)


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
