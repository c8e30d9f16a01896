"""What objects hold, and which names lead to which objects.

Bounded walks: short ones within the time of a user's cell, and ``Holding``, half a second at most,
for an undo. No code of a person's runs.
"""

import gc
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain, compress, islice
from sys import getrefcount
from types import (
    BuiltinFunctionType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    MappingProxyType,
    MethodType,
    ModuleType,
    TracebackType,
)
from typing import Any

from parsimony_kernel.analysis.values import Steps
from parsimony_kernel.lineage import buffers, classes
from parsimony_kernel.lineage.classes import (
    ATOMS,
    SIMPLE,
    attributes_of,
    is_atomic,
    is_tabular,
    is_theirs,
)
from parsimony_kernel.lineage.copies import COMMON, OUTSIDE, Copies, kind_of, parts_now

# What looking into containers may take for one cell.
MOST_LOOKED_INTO = 300
DEEPEST = 3
_MOST_OF_ONE = 1_000
_CALLABLES = (FunctionType, MethodType, BuiltinFunctionType, GeneratorType, CoroutineType)
# What holds no variable, or leads to everything that there is, as what runs does.
_LEAVES = (str, bytes, int, float, complex, ModuleType, FrameType, TracebackType, CodeType)
_HOLD_NOTHING = tuple(classes.FACTS["packages"]["leaves"].split())
_CONTAINERS: dict[type, Callable[[Any], Iterable[Any]]] = {
    dict: dict.values,
    **{kind: kind.__iter__ for kind in (list, tuple, set, frozenset, deque)},
}
# By the ids of their classes, which may have a hash of their own.
_EXACT = {id(kind): iterate for kind, iterate in _CONTAINERS.items()}
_VIEWS = frozenset(
    map(id, (MappingProxyType, type({}.keys()), type({}.values()), type({}.items())))
)


def parts_in(value: Any) -> Sequence[Any]:
    """What a container or another object holds; the first of many."""
    return () if issubclass(type(value), _CALLABLES) else reachable_from(value)


def reachable_from(value: Any) -> Sequence[Any]:
    """What code can come to from a value: its parts, or what is bound to a callable."""
    if type(value) is list and len(value) <= _MOST_OF_ONE:
        return value
    return tuple(islice(_parts(value), _MOST_OF_ONE))


def _parts(value: Any) -> Iterable[Any]:
    kind = type(value)
    if iterate := _EXACT.get(id(kind)):
        return iterate(value)
    if id(kind) in SIMPLE or issubclass(kind, _LEAVES):
        return ()
    if kind is memoryview:
        return _memory(value)
    # One of the notebook's own classes keeps attributes too.
    if not is_theirs(kind) and (arrays := buffers.arrays_of(value)) is not None:
        held = [buffers.plain_array(array).flat for array in arrays if array.dtype.hasobject]
        return chain.from_iterable(held)
    for base, iterate in _CONTAINERS.items():
        if issubclass(kind, base):
            return iterate(value)
    if kind is FunctionType:
        defaults = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        return (*defaults, *around(value))
    if kind is BuiltinFunctionType or kind is MethodType:
        return (value.__self__,)
    if issubclass(kind, type):
        return type.__dict__["__dict__"].__get__(value).values() if is_theirs(value) else ()
    module = classes.module_of(kind)
    has_parts = id(kind) in _VIEWS or is_theirs(kind) or issubclass(kind, _CALLABLES)
    if not has_parts and (module == "builtins" or module.startswith(_HOLD_NOTHING)):
        return ()
    return classes.referents(value)


def _memory(view: Any) -> Sequence[Any]:
    try:
        return (view.obj,)
    except ValueError:  # released
        return ()


def around(function: Any) -> list[Any]:
    """What the variables around a function hold."""
    return [each for cell in function.__closure__ or () for each in parts_now(cell)]


def levels_of(
    values: Iterable[Any], parts_of: Callable[[Any], Sequence[Any]]
) -> Iterator[list[tuple[int, Sequence[Any]]]]:
    """The ids of containers and objects of the notebook with what they hold, a few levels down."""
    room, seen = MOST_LOOKED_INTO, set[int]()
    level = list(values)
    for _ in range(DEEPEST):
        held = list[tuple[int, Sequence[Any]]]()
        for each in level:
            if room <= 0:
                break
            parts = parts_of(each)
            room -= 1 + len(parts) // 16
            if parts and not classes.are_simple(parts):
                held.append((id(each), [part for part in parts if id(type(part)) not in SIMPLE]))
        yield held
        inside = {id(part): part for _, parts in held for part in parts}
        level = [part for key, part in inside.items() if key not in seen]
        seen |= inside.keys()


def held_by(values: Iterable[Any], parts_of: Callable[[Any], Sequence[Any]]) -> dict[int, Any]:
    """What containers and objects of the notebook hold, a few levels down, by id."""
    return {
        id(part): part
        for held in levels_of(values, parts_of)
        for _, parts in held
        for part in parts
    }


def holds_objects(value: Any) -> bool:
    """Whether ``value`` is an instance of a class, or holds one: what a method may change that the
    text of the code does not name."""
    held = (value, *held_by([value], parts_in).values())
    kinds = (kind_of(each) for each in held if not is_atomic(each))
    return any(kind is not None and kind.is_instance for kind in kinds)


def part_at(value: Any, path: Steps) -> Any:
    """What ``path`` leads to from ``value``; as far as that can be told, without running code."""
    for step in path:
        if step is None or is_tabular(value):
            return value
        try:
            inner = _item(value, step[0]) if isinstance(step, tuple) else attributes_of(value)[step]
        except (AttributeError, LookupError, TypeError):
            return value
        if inner is value:
            return value
        value = inner
    return value


def _item(value: Any, key: Any) -> Any:
    """What a container has itself at ``key``."""
    if issubclass(type(value), dict):
        return dict.get(value, key, value)  # which makes no item that is missing
    base = list if issubclass(type(value), list) else tuple
    return base.__getitem__(value, key)


# Places in objects that are looked at in all: about half a second. What holds many comes last, so
# that it takes nothing from the others. Beyond that a name is not told as one that holds an object;
# the object itself is put back all the same.
MOST_LOOKED_AT = 300_000
_MANY = 1_000


class Holding:
    """What ``values`` hold, and what that holds in turn.

    Args:
        copies: objects that hold what they held when they were copied; the others are looked at
            as they are.
        apart_from: ids of objects that are not looked into.

    ``objects`` are those that were looked into, by id.
    """

    def __init__(
        self,
        values: Iterable[Any],
        copies: Copies | None = None,
        apart_from: Collection[int] = (),
    ) -> None:
        self.objects: dict[int, Any] = {}
        self._parts: dict[int, list[int]] = {}
        self._copies = copies or Copies()
        self._apart_from = apart_from
        left, few, many = MOST_LOOKED_AT, deque[Any](), deque[Any]()

        def add(parts: Iterable[Any]) -> None:
            for part in self._new(parts):
                is_big = type(part) in COMMON and len(part) > _MANY
                (many if is_big else few).append(part)

        add(values)
        while few or many:
            value = (few or many).popleft()
            parts = self._parts_of(value)
            if len(parts) <= left:
                left -= len(parts)
                self._parts[id(value)] = list(map(id, parts))
                add(parts)

    def holders(self, names: Mapping[str, Any], targets: Mapping[int, Any]) -> dict[str, set[int]]:
        """The ids of ``targets`` that each of ``names`` holds, for those that hold any."""
        if not targets:
            return {}
        parts = dict(self._parts)
        for key, more in self._views_of(targets).items():
            parts[key] = [*parts.get(key, ()), *more]
        leads = _leading_to(targets, parts)
        found = {}
        for name, value in names.items():
            if id(value) not in leads:
                continue
            seen, pending = {id(value)}, [id(value)]
            while pending:
                more = [
                    each
                    for each in parts.get(pending.pop(), ())
                    if each in leads and each not in seen
                ]
                seen.update(more)
                pending += more
            found[name] = seen & targets.keys()
        return found

    def _new(self, parts: Iterable[Any]) -> Iterator[Any]:
        """Those of ``parts`` that are to be looked into and were not yet."""
        for part in self._holding_any(list(parts)):
            key, kind = id(part), type(part)
            if key in self.objects or key in self._apart_from:
                continue
            if kind not in COMMON and key not in self._copies.by_id:
                is_outside = classes.package_of(kind) in OUTSIDE and kind_of(part) is None
                # What runs leads to all that runs, the looking itself included.
                if is_outside or kind in (FrameType, TracebackType) or is_atomic(part):
                    continue
            self.objects[key] = part
            yield part

    def _holding_any(self, parts: list[Any]) -> Iterator[Any]:
        """``parts`` without runs of containers that hold nothing but plain values."""
        for start in range(0, len(parts), _MANY):
            run = parts[start : start + _MANY]
            if (
                COMMON.issuperset(map(type, run))
                and ATOMS.issuperset(map(type, gc.get_referents(*run)))
                and self._copies.by_id.keys().isdisjoint(map(id, run))
            ):
                self.objects.update(zip(map(id, run), run, strict=True))
            else:
                yield from run

    def _parts_of(self, value: Any) -> list[Any]:
        """What may change of what an object holds, or has the memory of."""
        copy = self._copies.by_id.get(id(value))
        held = _now_held(value) if copy is None else copy.parts
        keys = copy.held.items if copy and isinstance(copy.held.items, dict) else ()
        found = [part for part in (*held, *keys) if type(part) not in ATOMS]
        base = value.base if buffers.is_array(value) else None
        return found if base is None else [*found, base]

    def _views_of(self, targets: Mapping[int, Any]) -> dict[int, list[int]]:
        """The ids of targets by that of arrays that lie in their memory, or have it in theirs."""
        views = defaultdict[int, list[int]](list)
        if not (changed := [value for value in targets.values() if buffers.is_array(value)]):
            return views
        sharing = defaultdict[int, list[Any]](list)
        for value in filter(buffers.is_array, self.objects.values()):
            sharing[id(buffers.owner(value))].append(value)
        for value in changed:
            for other in sharing[id(buffers.owner(value))]:
                if other is not value and buffers.overlap(value, other):
                    views[id(other)].append(id(value))
        return views


def _now_held(value: Any) -> Iterable[Any]:
    """What ``value`` holds now; of a function not the namespace, which leads everywhere."""
    is_looked_into = type(value) is FunctionType or buffers.has_memory(type(value))
    kind = kind_of(value) if is_looked_into else None
    return gc.get_referents(value) if kind is None else kind.parts(kind.look(value))


def _leading_to(targets: Mapping[int, Any], parts: dict[int, list[int]]) -> set[int]:
    """The ids of ``targets`` and of all that leads to them."""
    found, known = set(targets), 0
    while known < len(found):
        known = len(found)
        # What holds something was mostly seen before that, so one round finds nearly all.
        for key in reversed(parts):
            if not found.isdisjoint(parts[key]):
                found.add(key)
    return found


# The names that lead to objects that changed: their own, those of their memory and of holders

_LAST_OUTPUTS = ("_", "__", "___")


def names_of(
    touched: Mapping[int, Any],
    after: Mapping[str, Any],
    earlier: tuple[Mapping[str, Any], ...],
    namespace: Mapping[str, Any],
    shown: tuple[Any, ...],
    columns_only: Set[str],
) -> set[str]:
    """The names of these objects, of their memory, and of what holds them.

    Args:
        touched: the objects, by id.
        after: what names are bound to now.
        earlier: other mappings that hold what they were bound to.
        namespace: the live namespace, with IPython's outputs.
        shown: what the caller holds besides: the value that the cell shows.
        columns_only: frames of which the cell did nothing but set columns, by name.
    """
    if not touched:
        return set()
    found = set(compress(after, map(touched.__contains__, map(id, after.values()))))
    is_alone = all(
        buffers.is_alone(each) for each in touched.values() if buffers.has_memory(type(each))
    )
    if is_alone and _are_only_bound(touched, found, (after, *earlier), namespace, shown):
        return found
    kinds = list(map(id, map(type, after.values())))
    distinct = dict(zip(kinds, map(type, after.values()), strict=True))
    columns = {id(after[name]) for name in columns_only & found}
    columns -= {id(after[name]) for name in found - columns_only}
    written = defaultdict[int, list[tuple[Any, int]]](list)
    for key, value in touched.items():
        # One by one: classes may be compared by code of a person's.
        is_frame = any(type(value) is each for each in classes.loaded("pandas", "DataFrame"))
        # A column that is set is no write into memory where frames are copied lazily.
        if not (key in columns and is_frame and classes.copies_lazily()):
            for array, record in buffers.blocks_of(value):
                written[id(buffers.owner(array))].append((array, record))
    if written:
        owning = {key for key, kind in distinct.items() if buffers.has_memory(kind)}
        found |= {
            name
            for (name, value), kind in zip(after.items(), kinds, strict=True)
            if kind in owning and _is_written(value, written)
        }
    holding = {
        key
        for key, kind in distinct.items()
        if key not in SIMPLE and not issubclass(kind, (*_LEAVES, *_CALLABLES))
    }
    holders = [
        (name, parts)
        for (name, value), kind in zip(after.items(), kinds, strict=True)
        if kind in holding
        and name not in found
        and (parts := reachable_from(value))
        and not classes.are_simple(parts)
    ]
    changed = touched.keys() | written.keys() | {id(after[name]) for name in found}
    leading = _lead_to_one_of(changed, [parts for _, parts in holders])
    return found | {name for name, parts in holders if not leading.isdisjoint(map(id, parts))}


def _is_written(value: Any, written: Mapping[int, Sequence[tuple[Any, int]]]) -> bool:
    """Whether some memory of ``value`` was written to: by its owner, arrays in it, each with the
    record by which pandas has copied first what another frame shares."""
    arrays = buffers.arrays_of(value) or ()
    if written.keys().isdisjoint(id(buffers.owner(array)) for array in arrays):
        return False
    return any(
        buffers.overlap(array, other)
        for array, record in buffers.blocks_of(value)
        for other, its in written.get(id(buffers.owner(array)), ())
        if not record or record != its
    )


def _are_only_bound(
    touched: Mapping[int, Any],
    names: Collection[str],
    snapshots: Iterable[Mapping[str, Any]],
    namespace: Mapping[str, Any],
    held: tuple[Any, ...],
) -> bool:
    """Whether nothing holds these objects but their names and IPython's outputs.

    Told by the number of references, without a look at what else there is.
    """
    bindings = {id(each): each for each in (namespace, *snapshots) if type(each) is dict}
    outputs = namespace.get("_oh")
    if type(outputs) is not dict:
        outputs = {}
    for key in touched:
        shown = [f"_{number}" for number, each in outputs.items() if id(each) == key]
        known = len(shown) + sum(
            id(each.get(name)) == key
            for each in bindings.values()
            for name in (*names, *shown, *_LAST_OUTPUTS)
        )
        known += 2 * sum(id(each) == key for each in held)
        # One reference is that of ``touched``, one that of the call.
        if getrefcount(touched[key]) - 2 > known:
            return False
    return True


def _lead_to_one_of(changed: Set[int], groups: Sequence[Sequence[Any]]) -> set[int]:
    """``changed`` and the ids of what holds one of them, a few levels down in ``groups``.

    Of each group as many are looked into as of the others.
    """
    leading = set(changed)
    share = slice(None, max(MOST_LOOKED_INTO // max(len(groups), 1), 1))
    inside = {
        id(part): part for parts in groups for part in parts[share] if id(type(part)) not in SIMPLE
    }
    for held in reversed(list(levels_of(inside.values(), parts_in))):
        leading |= {key for key, parts in held if not leading.isdisjoint(map(id, parts))}
    return leading
