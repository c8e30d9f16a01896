"""What one cell did to the namespace: names bound, unbound, and changed in place.

Bindings are compared by identity. What changed in place is told by the text of the cell where
that is plain; what a call may have changed is fingerprinted before the cell and compared after,
within limits for one cell. Nothing here imports anything heavy, and no code of a person's runs.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from itertools import compress, islice
from pathlib import Path, PosixPath
from types import FunctionType, GeneratorType, TracebackType
from typing import Any

from parsimony_kernel.analysis.calls import ATOMIC_FUNCTIONS, PURE_METHODS, READS_FILES
from parsimony_kernel.analysis.cell import Cell
from parsimony_kernel.analysis.read import read
from parsimony_kernel.analysis.values import Ref, Text
from parsimony_kernel.lineage.classes import is_immutable, is_tabular, is_theirs
from parsimony_kernel.lineage.copies import is_bound
from parsimony_kernel.lineage.file_access import SourceState, source_state, sources_in
from parsimony_kernel.lineage.fingerprint import (
    MOST_STEPS,
    MOST_STEPS_OF_A_CELL,
    Fingerprint,
)
from parsimony_kernel.lineage.may_mutate import Reach
from parsimony_kernel.lineage.object_graph import CALLABLES, held_by, names_of, part_at
from parsimony_kernel.lineage.snapshot import Snapshot, difference

_MOST_UNNAMED = 64
_RESIZE = "resize"
# What these names call runs no function that an object holds.
_HARMLESS = PURE_METHODS | ATOMIC_FUNCTIONS


@dataclass(frozen=True)
class Looked:
    """What was seen before a cell ran of the values that it could change.

    Args:
        namespace: the live one, which is asked again afterwards for what was imported.
        names: what the text of the cell says.
        used: the names that it uses, through functions of the notebook too.
        seen: fingerprints of the values, by name.
        values: the values, which are kept weakly.
        likely: the names that count as changed unless all of them was seen and is the same.
        through: the names whose objects its functions change.
        by_argument: whether one of these changes what it is handed.
        resizes: whether it may resize arrays.
        columns_only: the frames with which it does nothing that writes into the memory they have.
    """

    namespace: Mapping[str, Any] = field(default_factory=dict)
    names: Cell = field(default_factory=Cell)
    used: Set[str] = frozenset()
    seen: Mapping[str, Fingerprint] = field(default_factory=dict)
    values: Snapshot = field(default_factory=lambda: Snapshot({}))
    likely: Set[str] = frozenset()
    through: Set[str] = frozenset()
    by_argument: bool = False
    resizes: bool = False
    columns_only: Set[str] = frozenset()

    def is_same(self, name: str, value: Any) -> bool:
        """Whether ``value``, which ``name`` had before and has now, is seen not to have changed."""
        seen = self.seen.get(name)
        if seen is None or not seen.is_whole or issubclass(type(value), type | FunctionType):
            return False
        return not seen.differs_from(value)

    def keep(self, bindings: Mapping[str, Any]) -> Snapshot:
        """``bindings``, such as those that stood before, for as long as the cell runs."""
        names = self.names
        used = self.used | names.reads | names.mutated | names.touched | names.writes
        used = bindings.keys() if names.opaque else used | names.deletes
        return Snapshot(bindings, used, resizes=self.resizes)


def before_cell(code: str, namespace: Mapping[str, Any]) -> Looked:
    """Look at what ``code``, which is about to run, could change without saying so.

    Args:
        code: the cell after IPython's transforms.
        namespace: the live namespace; hand over the same object that the cell runs in.
    """
    names = read(code)
    reach = Reach(namespace, names.reads | names.called)
    # Names whose parts are changed, or may be by what the cell calls by a name of its own.
    reached = names.reached | _linked(names)
    maybe = reached | names.touched | names.called
    maybe |= {
        each for each in names.reads & namespace.keys() if _changes_when_read(namespace[each])
    }
    if names.opaque:
        maybe |= {name for name in namespace if type(name) is str and not name.startswith("_")}
    called = [namespace[name] for name in maybe if name in namespace]
    held = held_by(called)
    # Such as ``len(steps)`` and ``df.head()`` call none of the functions that objects hold.
    are_called = any(call.last not in _HARMLESS for call in names.calls)
    inside = [each for each in (*held.values(), *called) if _is_function(each)]
    reach.run(inside, are_called=are_called)
    through, by_argument = reach.changes()
    likely = names.reached | through
    maybe |= _named(held, namespace)
    if by_argument:
        likely |= names.touched | _named(held, namespace)
    if reach.functions:
        maybe |= reach.used
    # A part that only running code tells, such as a property gives, may be any of what is held.
    unknown = [
        namespace[name]
        for name, path in names.paths
        if name in namespace and path and part_at(namespace[name], path) is namespace[name]
    ]
    maybe |= _named(held_by(unknown, CALLABLES), namespace)
    roots = likely | {name for name, path in names.paths if None in path}
    around = held_by([namespace[name] for name in roots if name in namespace], CALLABLES)
    likely |= _named(around, namespace)
    # The objects on which its methods and functions are called.
    bound = [each for each in called if is_bound(each) or type(each) is FunctionType]
    own = {id(part): part for value in bound for part in held_by([value]).values()}
    # What the text plainly changes comes last: it may be seen not to have changed.
    order = (likely, maybe - likely - names.mutated, names.mutated - likely)
    named = {
        name: namespace[name]
        for some in order
        for name in sorted(some & namespace.keys())
        if not is_immutable(namespace[name])
    }
    first = {name: value for name, value in named.items() if name not in order[-1]}
    # What a name is handed to, or a way that no text tells, may change what only parts hold.
    parts = own | held if by_argument or reached or names.defined else own
    known = set(map(id, first.values()))
    unnamed = {
        f"{key}": value  # a name that no variable has
        for key, value in islice(parts.items(), _MOST_UNNAMED)
        if key not in known and not is_immutable(value)
    }
    looked_at = first | unnamed | named
    seen, left = dict[str, Fingerprint](), MOST_STEPS_OF_A_CELL
    for name, value in looked_at.items():
        if left > 0:
            seen[name] = Fingerprint(value, min(left, MOST_STEPS))
            left -= seen[name].taken
    values = {name: value for name, value in looked_at.items() if name in likely | seen.keys()}
    likely |= seen.keys() & set(map(str, own))
    is_told = not (reach.functions or own or names.opaque or names.reached or names.changes_inside)
    resizes = _RESIZE in code or reach.says(_RESIZE)
    return Looked(
        namespace,
        names,
        reach.used,
        seen,
        Snapshot(values, values.keys(), resizes=resizes),
        likely & values.keys(),
        through,
        by_argument,
        resizes,
        names.mutated if is_told else frozenset(),
    )


def _named(held: Mapping[int, Any], namespace: Mapping[str, Any]) -> set[str]:
    """The names bound to one of ``held``, which is by id."""
    if not held:
        return set()
    bound = compress(namespace.items(), map(held.__contains__, map(id, namespace.values())))
    return {name for name, value in bound if type(name) is str and not is_immutable(value)}


def _linked(names: Cell) -> set[str]:
    """The names that those which a cell calls are bound to a part of, by way of others too."""
    found, pending = set[str](), list(names.called)
    while pending:
        called = pending.pop()
        more = {root.name for name, root in names.links if name == called} - found
        found |= more
        pending += more
    return found


def _is_function(value: Any) -> bool:
    """Whether ``value`` is a function or a generator of the notebook."""
    return type(value) is GeneratorType or (type(value) is FunctionType and not is_immutable(value))


def _changes_when_read(value: Any) -> bool:
    kind = type(value)
    return issubclass(kind, defaultdict) or is_theirs(kind)


@dataclass(frozen=True)
class CellEffect:
    """What a cell did: names bound anew or changed in place, names gone, sources it names.

    Args:
        reads: the variables that it used, with what its functions used of the notebook.
        asked: other names that it used, which may be tables of a database.
        in_place: those of ``changed`` that still have the object they had.
        bound: the names that it bound, though perhaps to what they were bound to before.
        files: what those of ``sources`` that are paths were when it had ended.
    """

    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    in_place: tuple[str, ...] = ()
    bound: tuple[str, ...] = ()
    files: tuple[SourceState, ...] = ()


def observe_cell(
    before: Mapping[str, Any] | Snapshot,
    after: Mapping[str, Any],
    code: str,
    cwd: Path,
    *,
    looked: Looked | None = None,
    opened: Iterable[str] = (),
    shown: tuple[Any, ...] = (),
) -> CellEffect:
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
    if isinstance(before, Snapshot):
        before = before.now(after)
    values = looked.values.now(after)
    found = difference(before, after)
    touched, in_place = _touched(names, before, after, looked)
    newly = names.called & after.keys() & {*found.changed}
    also, by_argument = Reach(after, newly).changes()
    handed = names.touched if by_argument else frozenset()
    touched |= _differing(looked, values, names, looked.likely | also | handed)
    through = looked.through | (names.touched if looked.by_argument else frozenset())
    for name in (names.writes & after.keys()) & (through | also):
        if not is_immutable(after[name]):
            touched[id(after[name])] = after[name]
    in_place |= names_of(
        touched, after, (before, values), looked.namespace, shown, looked.columns_only
    )
    reads = names.reads | names.mutated | names.reached | looked.used | in_place
    paths_handed = tuple(_handed(names, after))
    sources = (*sources_in(names.literals, cwd, paths_handed), *sources_in(opened, cwd))
    paths = (source for source in dict.fromkeys(sources) if "://" not in source)
    return CellEffect(
        changed=tuple(sorted({*found.changed, *in_place})),
        deleted=found.deleted,
        sources=tuple(dict.fromkeys(sources)),
        reads=tuple(sorted(reads & before.keys())),
        asked=tuple(sorted(reads - before.keys())),
        in_place=tuple(sorted(in_place - set(found.changed))),
        bound=tuple(sorted(names.writes & after.keys())),
        files=tuple(source_state(path, cwd) for path in paths),
    )


def _handed(names: Cell, bound: Mapping[str, Any]) -> Iterator[str]:
    """The paths that calls such as ``read_parquet``, which may read many files, are handed."""
    for path in (call.args[0] for call in names.calls if call.last in READS_FILES and call.args):
        parts = path.parts if isinstance(path, Text) else [path]
        texts = [bound.get(each.name) if isinstance(each, Ref) else each for each in parts]
        if all(type(each) in (str, PosixPath) for each in texts):
            yield "".join(map(str, texts))


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
        for name in names.mutated & before.keys()
        if after.get(name) is before[name] and looked.is_same(name, after[name])
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
