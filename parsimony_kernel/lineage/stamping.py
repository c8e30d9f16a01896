"""Stamping: from a cell's code and what it did to the namespace to origins in the ledger.

The same for the user's cells and the agent's. One call per cell, before and after given as
snapshots; nothing here looks at the data.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from parsimony_kernel.lineage.analysis import CellNames, analyse
from parsimony_kernel.lineage.ledger import CellRun, InputRef, OriginLedger, VariableOrigin
from parsimony_kernel.lineage.snapshot import difference

# Values that no code can change in place.
_IMMUTABLE = (bool, int, float, complex, str, bytes, tuple, frozenset, type(None))
_LONGEST_SOURCE = 1_024


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


@dataclass(frozen=True)
class CellEffect:
    """What a cell did: names bound anew or changed in place, names gone, sources it names."""

    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


def observe_cell(
    before: Mapping[str, Any], after: Mapping[str, Any], code: str, cwd: Path
) -> tuple[CellEffect, CellNames]:
    """What the cell ``code`` did between two snapshots of the visible names.

    A name counts as changed in place when the code plainly changes its object; so do all other
    names of the same object.
    """
    names = analyse(code)
    found = difference(before, after)
    touched = {
        id(after[name])
        for name in names.mutated
        if name in after and not issubclass(type(after[name]), _IMMUTABLE)
    }
    in_place = {name for name, value in after.items() if id(value) in touched}
    return (
        CellEffect(
            changed=tuple(sorted({*found.changed, *in_place})),
            deleted=found.deleted,
            sources=sources_in(names.literals, cwd),
        ),
        names,
    )


def stamp_cell(
    ledger: OriginLedger,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    code: str,
    scope: Producer,
    cwd: Path,
    at: str,
) -> CellEffect:
    """Stamp each name that the cell changed with its origin.

    Args:
        before: the visible names before the cell ran, see ``snapshot.visible``.
        after: the same afterwards.
        code: the cell after IPython's transforms.
        cwd: the folder in which it ran; paths are told relative to it.
        at: the time, in ISO 8601.
    """
    effect, names = observe_cell(before, after, code, cwd)
    # Versions as they were when the cell began; 0 for a variable from before anybody looked.
    inputs = tuple(
        InputRef(name=name, version=ledger.version(name))
        for name in sorted((names.reads | names.mutated) & before.keys())
    )
    # A value that equals the old one by identity is no change, but its origin is known only now.
    bound = {name for name in names.writes & after.keys() if not ledger.version(name)}
    sha = hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()
    made = tuple(
        InputRef(name=name, version=ledger.next_version(name))
        for name in sorted({*effect.changed, *bound})
    )
    number = ledger.next_cell_run()
    for ref in made:
        ledger.stamp(
            VariableOrigin(
                name=ref.name,
                version=ref.version,
                actor=scope.actor,
                notebook_path=scope.notebook_path,
                cell_id=scope.cell_id,
                run_id=scope.run_id,
                code=code,
                code_sha=sha,
                inputs=inputs,
                sources=effect.sources,
                at=at,
                cell_run=number,
            )
        )
    ledger.record(
        CellRun(
            number=number,
            actor=scope.actor,
            notebook_path=scope.notebook_path,
            cell_id=scope.cell_id,
            run_id=scope.run_id,
            code=code,
            code_sha=sha,
            reads=inputs,
            made=made,
            sources=effect.sources,
            at=at,
        )
    )
    return effect


def sources_in(literals: tuple[str, ...], cwd: Path) -> tuple[str, ...]:
    """The literals that are addresses or existing files; files below ``cwd`` relative to it."""
    found: dict[str, None] = {}
    for text in literals:
        if not text or len(text) > _LONGEST_SOURCE or "\n" in text or "\0" in text:
            continue
        if text.startswith(("http://", "https://")):
            found.setdefault(text)
            continue
        try:
            path = cwd / Path(text).expanduser()
            if not path.is_file():
                continue
            resolved, base = path.resolve(), cwd.resolve()
        except (OSError, RuntimeError, ValueError):
            continue
        inside = resolved.is_relative_to(base)
        found.setdefault(resolved.relative_to(base).as_posix() if inside else resolved.as_posix())
    return tuple(found)
