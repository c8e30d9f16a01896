"""Observation of what a cell did to the namespace: names bound, deleted, and mutated in place.

Bindings are compared by identity. Plain mutations are found by static analysis of the cell; values
that a call may have mutated are fingerprinted before the cell and compared after it, within a
budget per cell. Nothing here imports anything heavy, and no user code runs.
"""

import dis
import functools
import gc
import linecache
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from inspect import CO_VARARGS, CO_VARKEYWORDS
from itertools import compress, islice
from pathlib import Path, PosixPath
from sys import getrefcount
from traceback import walk_tb
from types import CodeType, FunctionType, GeneratorType, MappingProxyType, MethodType
from typing import Any

from parsimony_kernel.analysis import calls
from parsimony_kernel.analysis.cell_names import Cell, Names
from parsimony_kernel.analysis.read import read, read_function
from parsimony_kernel.analysis.values import Ref, Text
from parsimony_kernel.lineage import classes
from parsimony_kernel.lineage.classes import is_data, is_immutable, is_tabular, is_theirs
from parsimony_kernel.lineage.copies import COMMON_IDS, around, changes_arguments, is_bound
from parsimony_kernel.lineage.file_access import SourceState, source_state, sources_in
from parsimony_kernel.lineage.object_graph import CALLABLES, MOST_OF_A_CELL, held_by, part_at, walk
from parsimony_kernel.lineage.snapshot import Fingerprint, Snapshot, difference, visible

_MOST_UNNAMED = 64
_STORES = frozenset({"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_ATTR", "DELETE_ATTR"})
_MOST_FUNCTIONS = 200
_WRAPPERS = frozenset(map(id, (MethodType, staticmethod, classmethod, property)))
_RESIZE = "resize"
# The references to an object that only one other holds: by that one, by ``held``, by ``map``.
_ONE_HOLDER = [object()]
_OF_ONE_HOLDER = next(map(getrefcount, {0: _ONE_HOLDER[0]}.values()))


@dataclass(frozen=True)
class Looked:
    """Evidence taken before a cell runs about the values that it could mutate.

    Args:
        namespace: the live namespace, which is also consulted after the cell, for names that are
            no variables (imports, the last output).
        used: the names that the cell uses, also through notebook functions.
        seen: fingerprints of the values, by name.
        values: the values, by weak reference where possible.
        likely: names that count as mutated unless a complete fingerprint shows no change.
        through: names whose objects the notebook functions in reach may mutate, also as arguments.
        before: all bindings. Values that the cell can reach are kept by weak reference, so that
            none stays alive.
        columns_only: frames on which the cell only sets columns, without writing into their
            existing memory.
        files: the state of the files that it names as ones to write.
        by_argument: whether a notebook function in reach may mutate what it is handed.
    """

    namespace: Mapping[str, Any] = field(default_factory=dict)
    used: Set[str] = frozenset()
    seen: Mapping[str, Fingerprint] = field(default_factory=dict)
    values: Snapshot = field(default_factory=lambda: Snapshot({}))
    likely: Set[str] = frozenset()
    through: Set[str] = frozenset()
    before: Snapshot = field(default_factory=lambda: Snapshot({}))
    columns_only: Set[str] = frozenset()
    files: Mapping[str, SourceState] = field(default_factory=dict)
    by_argument: bool = False

    def differing(self, values: Mapping[str, Any]) -> dict[str, bool | None]:
        """Return whether each of ``values`` may differ from what it was; ``None`` if unknown.

        A fingerprint shows a change; only a complete one shows that there is none.
        """
        found = dict[str, bool | None]()
        for name, value in values.items():
            if not is_immutable(value):  # it is not gone
                seen = self.seen.get(name)
                differs = seen is None or seen.differs_from(value)
                found[name] = differs or (False if seen and seen.is_whole else None)
        return found


def before_cell(code: str, namespace: Mapping[str, Any]) -> Looked:
    """Fingerprint the values that ``code``, which is about to run, could mutate implicitly.

    Args:
        code: the cell after IPython's transforms.
        namespace: the live namespace; it must be the same object that the cell runs in.
    """
    names = read(code)
    reach = Reach(namespace, names.reads | names.called)
    # Names whose parts are mutated, or may be by a call through another name for such a part.
    reached = names.reached | names.linked(names.called) - names.called
    maybe = reached | names.touched | names.called
    maybe |= {
        each for each in names.reads & namespace.keys() if _changes_when_read(namespace[each])
    }
    if names.opaque:
        maybe |= {name for name in namespace if type(name) is str and not name.startswith("_")}
    called = {name: namespace[name] for name in maybe & namespace.keys()}
    graph = walk(called.values())
    held = graph.held()
    holds_none = graph.is_whole and not held
    del graph  # which refers to them, too
    reach.run(each for each in (*held.values(), *called.values()) if _is_function(each))
    through, by_argument = reach.changes()
    maybe |= (named_inside := _named(held, namespace))
    if by_argument:
        through |= names.touched
    likely = names.reached | through | (named_inside if by_argument else set())
    if reach.functions:
        maybe |= reach.used
    # A part that only running code can resolve (a property) may be any object held by the root.
    unknown = [
        namespace[name]
        for name, path in names.paths
        if name in namespace and path and part_at(namespace[name], path) is namespace[name]
    ]
    maybe |= _named(held_by(unknown, CALLABLES), namespace)
    roots = likely | {name for name, path in names.paths if None in path}
    if not (holds_none and roots & namespace.keys() <= called.keys()):
        around = held_by([namespace[name] for name in roots if name in namespace], CALLABLES)
        likely |= _named(around, namespace)
    # The objects that bound methods and closures in reach of the cell hold.
    functions = () if holds_none else called.values()
    bound = [each for each in functions if is_bound(each) or type(each) is FunctionType]
    own = {id(part): part for value in bound for part in held_by([value]).values()}
    # Plain mutations come last: they count anyway, and a fingerprint can only clear them.
    order = (likely, maybe - likely - names.mutated, names.mutated - likely)
    named = {
        name: namespace[name]
        for some in order
        for name in sorted(some & namespace.keys())
        if not is_immutable(namespace[name])
    }
    first = {name: value for name, value in named.items() if name not in order[-1]}
    # Calls with arguments, or paths unknown to static analysis, may mutate unnamed parts.
    parts = own | held if by_argument or reached or names.defined else own
    known = set(map(id, first.values()))
    unnamed = {
        f"{key}": value  # a name that no variable has
        for key, value in islice(parts.items(), _MOST_UNNAMED)
        if key not in known and not is_immutable(value)
    }
    looked_at = first | unnamed | named
    seen = Fingerprint.of(looked_at)
    values = {name: value for name, value in looked_at.items() if name in likely | seen.keys()}
    likely |= seen.keys() & set(map(str, own))
    is_told = not (reach.functions or own or names.opaque or names.reached or names.changes_inside)
    resizes = _RESIZE in code or reach.says(_RESIZE)
    own_names = names.reads | names.mutated | names.touched | names.writes | names.deletes
    own_names |= reach.used
    before = Snapshot(namespace, [*namespace] if names.opaque else own_names, resizes=resizes)
    kept = Snapshot(values, values.keys(), resizes=resizes)
    columns_only = names.mutated if is_told else set[str]()
    to_write = _handed(names, namespace, calls.WRITES_FILES)
    files = {path: source_state(path, Path()) for path in to_write}
    return Looked(
        namespace, reach.used, seen, kept, likely, through, before, columns_only, files, by_argument
    )


def _named(held: Mapping[int, Any], namespace: Mapping[str, Any]) -> set[str]:
    """Return the names bound to one of the objects ``held``, by id."""
    if id(namespace) not in held:  # else it may be that one holder itself
        counts = zip(held, map(getrefcount, held.values()), strict=True)
        held = {key: held[key] for key, n in counts if n > _OF_ONE_HOLDER}
    bound = _bound_to(held, namespace)
    return {name for name in bound if type(name) is str and not is_immutable(namespace[name])}


def _is_function(value: Any) -> bool:
    """Return whether ``value`` is a notebook function or a generator."""
    return type(value) is GeneratorType or (type(value) is FunctionType and not is_immutable(value))


def _changes_when_read(value: Any) -> bool:
    kind = type(value)
    return issubclass(kind, defaultdict) or is_theirs(kind)


@dataclass(frozen=True)
class CellEffect:
    """The effect of a cell on the namespace.

    Args:
        changed: names rebound or mutated in place.
        deleted: names that are gone.
        sources: files and addresses that the cell names or opened, each with the numbers of the
            statements that read it, else of those that name it; -1 stands for another thread.
        reads: variables that it used, also through notebook functions.
        asked: other names that it used, which may be database tables.
        in_place: names in ``changed`` that still have the same object.
        bound: names that it bound, perhaps to the same object as before.
        files: the state of the paths in ``sources`` after the cell ended.
        written: the files that it wrote.
        fixed: names in ``changed`` whose objects nothing can mutate.
        data: other names in ``changed`` whose objects only the code's own plain mutations change:
            tables and other data, if no notebook function in reach may mutate what it is handed.
    """

    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    sources: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    reads: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    in_place: tuple[str, ...] = ()
    bound: tuple[str, ...] = ()
    files: tuple[SourceState, ...] = ()
    written: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    data: tuple[str, ...] = ()


def observe_cell(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    code: str,
    cwd: Path,
    *,
    looked: Looked | None = None,
    opened: Mapping[str, Collection[int]] = MappingProxyType({}),
    written: Mapping[str, bool] = MappingProxyType({}),
    shown: tuple[Any, ...] = (),
    hidden: Mapping[str, Any] = MappingProxyType({}),
) -> CellEffect:
    """Return the effect of the cell ``code``, given all bindings before and after it.

    A name counts as mutated in place when the code plainly mutates its object, or when the
    object's fingerprint differs from the one in ``looked``. So do all other names of the same
    object, of arrays on the same memory, and of objects that hold it.

    Args:
        before: the bindings before the cell ran.
        after: the bindings now.
        code: the cell after IPython's transforms.
        cwd: the working folder, for relative paths.
        looked: the result of ``before_cell``; without it, only static analysis is used.
        opened: absolute paths of the files opened for reading meanwhile, each with the lines of
            the cell that were running, see ``Watch``.
        written: those opened for writing, each with whether it was read before.
        shown: the cell's result, to which the caller holds one more reference. References are
            counted, so there must be no others.
        hidden: the namespace's own bindings, which are no variables.
    """
    names = read(code)
    looked = looked or Looked()
    values = looked.values.now(after)
    rebound, deleted = difference(before, after, hidden)
    differing = looked.differing(values)
    touched, roots = _touched(names, before, after, looked.namespace, differing)
    newly = names.called & after.keys() & {*rebound}
    also, by_argument = Reach(after, newly).changes()
    also |= names.touched if by_argument else set()
    likely = looked.likely | also
    for name, differs in differing.items():
        is_told = is_tabular(values[name]) and name in names.reached
        if differs or (differs is None and name in likely and not is_told):
            touched[id(values[name])] = values[name]
    for name in (names.writes & after.keys()) & (looked.through | also):
        if not is_immutable(after[name]):
            touched[id(after[name])] = after[name]
    touched |= {id(after[name]): after[name] for name in roots}
    used = names.reads | names.mutated | names.reached | looked.used
    to_find = used | names.writes | values.keys()
    in_place = _names_of(touched, to_find, looked, (after, before, values), shown, hidden)
    used |= in_place
    reads = visible({each: before[each] for each in used & before.keys()}, hidden).keys()
    bound = visible({each: after[each] for each in names.writes & after.keys()}, hidden)
    sources, read_by = _sources(names, after, opened, cwd)
    rewritten = {*sources_in((path for path, was_read in written.items() if was_read), cwd)}
    to_write = _handed(names, after, calls.WRITES_FILES)  # to calls that may not have run
    rewrote = (path for path in to_write if looked.files.get(path) != source_state(path, cwd))
    states = (
        SourceState(path) if path in rewritten else source_state(path, cwd)
        for path in sources
        if "://" not in path
    )
    changed = sorted({*rebound, *in_place})
    handed = () if by_argument or looked.by_argument else names.touched & {*changed}
    return CellEffect(
        changed=tuple(changed),
        deleted=deleted,
        sources={source: tuple(sorted(numbers)) for source, numbers in sources.items()},
        reads=tuple(sorted(reads)),
        asked=tuple(sorted(used - reads)),
        in_place=tuple(sorted(in_place - {*rebound})),
        bound=tuple(sorted(bound)),
        files=tuple(replace(each, is_read=each.path in read_by) for each in states),
        written=sources_in((*written, *rewrote), cwd),
        fixed=tuple(name for name in changed if is_immutable(after[name])),
        data=tuple(name for name in handed if is_data(after[name])),
    )


def _sources(
    cell: Cell, after: Mapping[str, Any], opened: Mapping[str, Collection[int]], cwd: Path
) -> tuple[dict[str, set[int]], dict[str, set[int]]]:
    """Return all sources, and the files among them that were read.

    Each comes with the numbers of its statements in the cell.
    """
    named, read_by = defaultdict[str, set[int]](set), defaultdict[str, set[int]](set)
    for number, each in enumerate(cell.statements or (cell,)):
        for source in sources_in(each.literals, cwd):
            named[source].add(number)
        handed = tuple(_handed(each, after, calls.READS_FILES))
        for source in sources_in(handed, cwd, handed):
            read_by[source].add(number)
    places = [range(each.lines[0], each.lines[1] + 1) for each in cell.statements]
    for path, lines in opened.items():
        for source in sources_in((path,), cwd):
            for line in lines:  # perhaps of several statements
                numbers = [number for number, place in enumerate(places) if line in place]
                read_by[source].update(numbers or (-1,))
    return named | read_by, read_by


def _handed(names: Names, bound: Mapping[str, Any], functions: Set[str]) -> Iterator[str]:
    """Yield the path arguments of calls of ``functions``, such as ``read_parquet``."""
    for path in (call.args[0] for call in names.calls if call.last in functions and call.args):
        parts = path.parts if isinstance(path, Text) else [path]
        texts = [bound.get(each.name) if isinstance(each, Ref) else each for each in parts]
        if all(type(each) in (str, PosixPath) for each in texts):
            yield "".join(map(str, texts))


def _touched(
    names: Cell,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    others: Mapping[str, Any],
    differing: Mapping[str, bool | None],
) -> tuple[dict[int, Any], set[str]]:
    """Return the objects that the code plainly mutates, by id, and the root names of their paths.

    Objects of names that certainly don't differ are left out. Names that are no variables,
    such as the last output, are looked up among ``others``, the live namespace.
    """
    same = {
        name
        for name in names.mutated & before.keys()
        if differing.get(name) is False
        and after.get(name) is before[name]
        and not issubclass(type(after[name]), type | FunctionType)
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


# The names that lead to mutated objects: their own, those of shared memory, those of holders

_LAST_OUTPUTS = ("_", "__", "___")


def _bound_to(values: Mapping[int, Any], namespace: Mapping[str, Any]) -> Iterator[str]:
    """Return the names in ``namespace`` that are bound to one of ``values``, which are by id."""
    ids = map(id, namespace.values() if values else ())
    return compress(namespace, map(values.__contains__, ids))


def _names_of(
    touched: Mapping[int, Any],
    used: Set[str],
    looked: Looked,
    snapshots: tuple[Mapping[str, Any], ...],
    shown: tuple[Any, ...],
    hidden: Mapping[str, Any],
) -> set[str]:
    """Return the variables of mutated objects, of ones on the same memory, and of their holders.

    Args:
        touched: the mutated objects, by id.
        used: names that the cell uses. Mostly no others lead to these objects.
        looked: the evidence from before the cell, with the live namespace.
        snapshots: the mappings that hold references to the bound objects: the current bindings,
            and others.
        shown: further references held by the caller: the cell's result.
        hidden: the namespace's own bindings, which are no variables.
    """
    if not touched:
        return set()
    after = snapshots[0]
    is_alone = all(
        classes.is_alone(each) for each in touched.values() if classes.has_memory(type(each))
    )
    for names in (used & after.keys(), _bound_to(touched, after)):
        found = {name for name in names if id(after[name]) in touched}
        if is_alone and _are_only_bound(touched, found, snapshots, looked.namespace, shown):
            return {*visible({name: after[name] for name in found}, hidden)}
    after = visible(after, hidden)
    found &= after.keys()
    columns = {id(after[name]) for name in looked.columns_only & found}
    columns -= {id(after[name]) for name in found - looked.columns_only}
    written = defaultdict[int, list[tuple[Any, int]]](list)
    for key, value in touched.items():
        # By identity: a metaclass may define its own ``==``.
        is_frame = any(type(value) is each for each in classes.loaded("pandas", "DataFrame"))
        # With copy-on-write, setting a column doesn't write into existing memory.
        if not (key in columns and is_frame and classes.copies_lazily()):
            for array, record in classes.blocks_of(value):
                written[id(classes.owner(array))].append((array, record))
    if written:
        found |= {name for name, value in after.items() if _is_written(value, written)}
    others = {name: value for name, value in after.items() if name not in found}
    owners = (classes.owner(array) for arrays in written.values() for array, _ in arrays)
    changed = (*touched.values(), *owners, *(after[name] for name in found))
    holders = walk(others.values(), CALLABLES).holders(others, {id(each): each for each in changed})
    return found | holders.keys()


def _is_written(value: Any, written: Mapping[int, Sequence[tuple[Any, int]]]) -> bool:
    """Return whether some memory of ``value`` was written to.

    Args:
        written: by the id of the memory's owner, the written arrays, each with pandas' reference
            record. Blocks with the same record don't count: pandas knows that they share memory
            and copies it before it writes.
    """
    return any(
        classes.overlap(array, other)
        for array, record in classes.blocks_of(value)
        for other, its in written.get(id(classes.owner(array)), ())
        if not record or record != its
    )


def _are_only_bound(
    touched: Mapping[int, Any],
    names: Collection[str],
    snapshots: Iterable[Mapping[str, Any]],
    namespace: Mapping[str, Any],
    held: tuple[Any, ...],
) -> bool:
    """Return whether only their names, IPython's outputs and one another hold these objects.

    Decided by the reference count, without a walk.
    """
    bindings = {id(each): each for each in (namespace, *snapshots) if type(each) is dict}
    outputs = namespace.get("_oh")
    if type(outputs) is not dict:
        outputs = {}
    kinds = ((id(type(each)), each) for each in touched.values())
    small = [each for kind, each in kinds if kind in COMMON_IDS and len(each) <= MOST_OF_A_CELL]
    inside = Counter(filter(touched.__contains__, map(id, gc.get_referents(*small))))
    del kinds, small
    for key in touched:
        shown = [f"_{number}" for number, each in outputs.items() if id(each) == key]
        known = inside[key] + len(shown) + 2 * sum(id(each) == key for each in held)
        said = {*names, *shown, *_LAST_OUTPUTS}  # each once: outputs are among the names too
        known += sum(id(each.get(name)) == key for each in bindings.values() for name in said)
        # One reference is held by ``touched``, one by the call.
        if getrefcount(touched[key]) - 2 > known:
            return False
    return True


def stopped_line(error: BaseException | None, namespace: Mapping[str, Any]) -> int:
    """Return the line of the cell in ``namespace`` at which ``error`` was raised.

    Returns:
        The line, counted from 1, or 0 if the traceback has no frame of the cell.
    """
    for frame, line in walk_tb(error.__traceback__ if error is not None else None):
        if frame.f_code.co_name == "<module>" and frame.f_globals is namespace:
            return line
    return 0


# What code may mutate, by static analysis, itself or through functions that it calls


def suspects(what: Cell, bound: Mapping[str, Any]) -> tuple[Set[str], Set[str]]:
    """Return the names in ``bound`` that the analyzed code ``what`` may mutate.

    Returns:
        The names whose objects it probably mutates, by static analysis, and the others it uses.
    """
    reach = Reach(bound, what.reads | what.may_mutate)
    asked = what.linked(what.may_mutate | what.called | what.receivers)
    held = held_by([bound[name] for name in asked & bound.keys()]).values()
    reach.run(each for each in held if type(each) is FunctionType and not is_immutable(each))
    used = reach.used
    if what.changes_any:
        return bound.keys(), set()
    if what.changes_all or reach.functions or any(changes_arguments(bound[name]) for name in used):
        return used, set()
    likely = {name for name in used if name in what.may_mutate or is_bound(bound[name])}
    return likely, used - likely


class Reach:
    """The names and notebook functions that code can reach in a namespace.

    Args:
        bound: the namespace.
        names: the names that the code uses.

    ``used`` holds these names and, transitively, those used by the functions among them.
    ``functions`` holds these notebook functions, and generators that the code may advance.
    """

    def __init__(self, bound: Mapping[str, Any], names: Iterable[str] = ()) -> None:
        self._bound = bound
        self.used = set[str]()
        self.functions: list[Any] = []
        self._follow(names)

    def run(self, values: Iterable[Any]) -> None:
        """Follow the functions that calling ``values``, or advancing generators, may run."""
        for each in values:
            found = [each] if type(each) is GeneratorType else _functions_of(each)
            self._follow(self._names_of(found))

    def _follow(self, names: Iterable[str]) -> None:
        pending = [*names]
        while pending and len(self.functions) <= _MOST_FUNCTIONS:
            name = pending.pop()
            if name in self._bound and name not in self.used:
                self.used.add(name)
                pending += self._names_of(_functions_of(self._bound[name]))

    def _names_of(self, functions: Iterable[Any]) -> Iterator[str]:
        for each in functions:
            self.functions.append(each)
            yield from _names_in(_code_of(each))

    def says(self, word: str) -> bool:
        """Return whether one of the functions uses ``word`` as a name."""
        return any(word in _names_in(_code_of(each)) for each in self.functions)

    def changes(self) -> tuple[set[str], bool]:
        """Return the names whose objects the functions may mutate.

        The second value is true if a function may mutate its arguments or closure variables.
        """
        found = [_changed_by(_code_of(each)) for each in self.functions]
        names = {name for globals_, _ in found for name in globals_ if name in self._bound}
        return names, any(by_argument for _, by_argument in found)


def _code_of(function: Any) -> CodeType:
    code: CodeType = function.gi_code if type(function) is GeneratorType else function.__code__
    return code


@functools.lru_cache(maxsize=512)
def _changed_by(code: CodeType) -> tuple[Set[str], bool]:
    """Return the global names whose objects a function mutates.

    The second value is true if it mutates the objects of its parameters or closure variables, or of
    its other locals if they may come from a function of the notebook. Without source text, the
    bytecode decides: a store or a mutating name taints every name it uses.
    """
    lines = linecache.cache.get(code.co_filename, ())
    names = None
    if len(lines) > 2:  # its source text
        names = read_function("".join(lines[2]), code.co_firstlineno, code.co_name)
    if names is None:
        stores = any(each.opname in _STORES for each in dis.get_instructions(code))
        changes = stores or not calls.MUTATES.isdisjoint(code.co_names)
        return (frozenset(code.co_names) if changes else frozenset()), changes
    own, changed = {*code.co_varnames}, names.mutated | names.reached
    if code.co_name == "__init__" and code.co_varnames:
        changed -= {code.co_varnames[0]}
    if not names.called - calls.HARMLESS:  # what a method or a library gives is not its argument
        stars = bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
        own = {*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + stars]}
    handed = own.union(code.co_freevars)
    return changed.difference(code.co_varnames, handed), not changed.isdisjoint(handed)


def _functions_of(value: Any) -> Iterator[FunctionType]:
    """Yield the notebook functions that calling ``value``, or one of its methods, may run."""
    pending, seen = [value], set[int]()
    while pending and len(seen) < _MOST_FUNCTIONS:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        kind = type(each)
        if kind is FunctionType:
            if each.__module__ == "__main__":
                yield each
            pending += around(each)
        elif kind is functools.partial:
            pending += [each.func, *each.args, *each.keywords.values()]
        elif id(kind) in _WRAPPERS:
            pending += gc.get_referents(each)
        elif issubclass(kind, type):
            if is_theirs(each):
                pending.extend(type.__dict__["__dict__"].__get__(each).values())
                pending.append(kind)  # a metaclass, whose methods run too
        elif is_theirs(kind):
            pending.append(kind)


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from _names_in(constant)
