"""What one cell did to the namespace: names bound, unbound, and changed in place.

Bindings are compared by identity. What changed in place is told by the text of the cell where
that is plain, and by fingerprints where a call may have done it. Nothing here imports anything
heavy, and no code of a person's runs.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from parsimony_kernel.analysis.cell import Cell
from parsimony_kernel.analysis.read import read
from parsimony_kernel.lineage.affected import names_of
from parsimony_kernel.lineage.classes import is_tabular
from parsimony_kernel.lineage.file_access import sources_in
from parsimony_kernel.lineage.kinds.atoms import is_immutable
from parsimony_kernel.lineage.look import Looked
from parsimony_kernel.lineage.may_mutate import changes_through
from parsimony_kernel.lineage.parts import part_at
from parsimony_kernel.lineage.snapshot import Standing, difference


@dataclass(frozen=True)
class CellEffect:
    """What a cell did: names bound anew or changed in place, names gone, sources it names.

    Args:
        reads: the variables that it used, with what its functions used of the notebook.
        asked: other names that it used: imports, builtins, and what there was not.
        in_place: those of ``changed`` that still have the object they had.
        bound: the names that it bound, though perhaps to what they were bound to before.
        modules: the names that it imported, each with what it is bound to.
    """

    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    in_place: tuple[str, ...] = ()
    bound: tuple[str, ...] = ()
    modules: tuple[tuple[str, str], ...] = ()


def observe_cell(
    before: Mapping[str, Any] | Standing,
    after: Mapping[str, Any],
    code: str,
    cwd: Path,
    *,
    looked: Looked | None = None,
    opened: Iterable[str] = (),
    shown: tuple[Any, ...] = (),
) -> tuple[CellEffect, Cell]:
    """What the cell ``code`` did between two snapshots of the visible names.

    A name counts as changed in place when the code plainly changes its object, or when the
    object looks otherwise than in ``looked``; so do all other names of the same object, of the
    same memory, and of what holds it.

    Args:
        before: the visible names before the cell ran, or what ``Looked.keep`` made of them.
        looked: what ``before_cell`` gave; without it only the text is asked.
        shown: what the caller, and nobody else that is unknown here, holds beside this tuple: the
            value that the cell shows.
        opened: absolute paths of the files that were opened for reading meanwhile.
    """
    names = read(code)
    looked = looked or Looked()
    if isinstance(before, Standing):
        before = before.now(after)
    values = looked.values.now(after)
    found = difference(before, after)
    touched, in_place = _touched(names, before, after, looked)
    newly = {name for name in names.called & after.keys() if name in found.changed}
    also, by_argument = changes_through(newly, after)
    handed = names.touched if by_argument else frozenset()
    touched |= _differing(looked, values, names, looked.likely | also | handed)
    through = looked.through | (names.touched if looked.by_argument else frozenset())
    for name in (names.writes & after.keys()) & (through | also):
        if not is_immutable(after[name]):
            touched[id(after[name])] = after[name]
    in_place |= names_of(touched, after, (before, values), looked, shown)
    reads = names.reads | names.mutated | names.reached | looked.reads | in_place
    modules = tuple(
        (name, home)
        for name, home in names.modules
        if name in names.imports
        and name not in after
        and (not looked.namespace or name in looked.namespace)
    )
    return (
        CellEffect(
            changed=tuple(sorted({*found.changed, *in_place})),
            deleted=found.deleted,
            sources=tuple(
                dict.fromkeys((*sources_in(names.literals, cwd), *sources_in(opened, cwd)))
            ),
            reads=tuple(sorted(reads & before.keys())),
            asked=tuple(sorted(reads - before.keys())),
            in_place=tuple(sorted(in_place - set(found.changed))),
            bound=tuple(sorted(names.writes & after.keys())),
            modules=modules,
        ),
        names,
    )


def _differing(
    looked: Looked, values: Mapping[str, Any], names: Cell, likely: Set[str]
) -> dict[int, Any]:
    """The objects that look otherwise than before, and the ``likely`` that were not seen whole."""
    found: dict[int, Any] = {}
    for name, value in values.items():
        if is_immutable(value):  # gone
            continue
        seen = looked.seen.get(name)
        counts = name in likely and not (is_tabular(value) and name in names.reached)
        if seen is None or seen.differs_from(value) or (counts and not seen.is_whole):
            found[id(value)] = value
    return found


def _touched(
    names: Cell, before: Mapping[str, Any], after: Mapping[str, Any], looked: Looked
) -> tuple[dict[int, Any], set[str]]:
    """The objects that the text plainly changes, by id, and the names that lead to them.

    Those that are seen to be the same are not among them. What is bound and is nobody's variable,
    such as the last output, is asked of the namespace.
    """
    others = looked.namespace
    same = {
        name
        for name in {name for name, _ in names.paths}
        if name in before and after.get(name) is before[name] and looked.is_same(name, after[name])
    }
    touched: dict[int, Any] = {}
    roots = set[str]()
    for name, path in names.paths:
        if name in same:
            continue
        stages = [after] if name not in names.stale else [after, before]
        for bindings in stages:
            held = bindings.get(name, others.get(name))
            if is_immutable(held) or (not path and issubclass(type(held), tuple)):
                continue
            if name in after and not is_immutable(after[name]):
                roots.add(name)
            value = part_at(held, path)
            if not is_immutable(value):
                touched[id(value)] = value
    return touched, roots


def stopped_line(error: BaseException | None, namespace: Mapping[str, Any]) -> int:
    """The line of the cell at which ``error`` was raised, as code that ran in ``namespace``; 0
    when its traceback does not tell."""
    place: TracebackType | None = error.__traceback__ if error is not None else None
    while place is not None:
        frame = place.tb_frame
        if frame.f_code.co_name == "<module>" and frame.f_globals is namespace:
            return place.tb_lineno
        place = place.tb_next
    return 0
