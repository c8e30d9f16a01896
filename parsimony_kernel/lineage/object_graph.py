"""Walk of the object graph: the objects that values hold, and the names that lead to an object.

The walk is bounded: a short one during a user's cell, at most half a second for an undo. No user
code runs.
"""

import gc
import types
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any
from weakref import ref

from parsimony_kernel.analysis.values import Steps
from parsimony_kernel.lineage import classes
from parsimony_kernel.lineage.copies import COMMON_IDS, OUTSIDE, Copies, kind_of, parts_now

# Slots visited per undo: about half a second. Big containers come last, so that they take no
# budget from the others. Past the limit, a name isn't reported as a holder of an object; the
# object itself is restored all the same.
MOST_LOOKED_AT = 300_000
# Slots visited per cell, plus one for each name.
MOST_OF_A_CELL = 1_000
_MANY = 1_000
# Callables are leaves of the walk where only data matters.
CALLABLES: tuple[type, ...] = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
CALLABLES += (types.GeneratorType, types.CoroutineType)


def walk(values: Collection[Any], leaves: tuple[type, ...] = ()) -> "Holding":
    """Return the graph of the objects that ``values`` hold, within the budget of a cell.

    Args:
        leaves: classes whose objects are not walked into.
    """
    return Holding(values, most=MOST_OF_A_CELL + len(values), leaves=leaves)


def held_by(values: Collection[Any], leaves: tuple[type, ...] = ()) -> dict[int, Any]:
    """Return the objects in the ``walk`` over ``values`` that another one holds, by id."""
    return walk(values, leaves).held() if values else {}


def holds_objects(value: Any) -> bool:
    """Return whether ``value`` is, or holds, an instance of a notebook or library class.

    A method may mutate such an object in ways that the code does not show. A weak reference counts
    as the object that it leads to.
    """
    held = walk([value], CALLABLES).objects.values()
    kinds = map(kind_of, held)
    is_weak = any(issubclass(type(each), ref) for each in gc.get_referents(*held))
    return is_weak or any(kind is not None and kind.is_instance for kind in kinds)


def part_at(value: Any, path: Steps) -> Any:
    """Follow ``path`` from ``value`` as far as possible without running code."""
    own = classes.attributes_of
    for step in path:
        if step is None:
            return value
        try:
            inner = _item(value, step[0]) if isinstance(step, tuple) else own(value)[step]
        except (AttributeError, LookupError, TypeError):
            return value
        if inner is value:
            return value
        value = inner
    return value


def _item(value: Any, key: Any) -> Any:
    """Return a container's own item at ``key``, past any override by its class."""
    if issubclass(type(value), dict):
        return dict.get(value, key, value)  # a defaultdict doesn't create the item
    base = list if issubclass(type(value), list) else tuple
    return base.__getitem__(value, key)


class Holding:
    """The graph of the objects that ``values`` hold, directly or indirectly.

    Args:
        copies: objects to walk as they were when copied; all others are walked as they are now.
        apart_from: ids of objects that are not walked into.
        most: how many slots are visited.
        leaves: classes whose objects are not walked into.

    ``objects`` are the visited objects, by id; ``is_whole`` says that none was left out.
    """

    def __init__(
        self,
        values: Iterable[Any],
        copies: Copies | None = None,
        apart_from: Collection[int] = (),
        *,
        most: int = MOST_LOOKED_AT,
        leaves: tuple[type, ...] = (),
    ) -> None:
        self.objects: dict[int, Any] = {}
        self._parts: dict[int, list[int]] = {}
        self._copies = copies or Copies()
        self._apart_from, self._leaves = apart_from, leaves
        self._most_of_one = _MANY if most < MOST_LOOKED_AT else None
        left, few, many = most, deque[Any](), deque[Any]()

        def add(parts: Iterable[Any]) -> None:
            for part in self._new(parts):
                is_big = id(type(part)) in COMMON_IDS and len(part) > _MANY
                (many if is_big else few).append(part)

        add(values)
        while few or many:
            value = (few or many).popleft()
            if parts := self._parts_of(value, left):
                left -= len(parts)
                self._parts[id(value)] = list(map(id, parts))
                add(parts)
        self.is_whole = left > 0

    def held(self) -> dict[int, Any]:
        """Return the visited objects that another one holds, by id."""
        keys = {key for parts in self._parts.values() for key in parts}
        return {key: self.objects[key] for key in keys & self.objects.keys()}

    def holders(self, names: Mapping[str, Any], targets: Mapping[int, Any]) -> dict[str, set[int]]:
        """Return, for each of ``names`` that holds any of ``targets``, the ids of these targets."""
        if not targets:
            return {}
        self._link_arrays(targets)
        found, leads = {}, self._leading_to(targets)
        for name, value in names.items():
            seen, pending = set[int](), [id(value)]
            while pending:
                key = pending.pop()
                if key in leads and key not in seen:
                    seen.add(key)
                    pending += self._parts.get(key, ())
            if seen:
                found[name] = seen & targets.keys()
        return found

    def _link_arrays(self, targets: Mapping[int, Any]) -> None:
        """Let each array lead to the targets whose memory overlaps its own."""
        changed = [value for value in targets.values() if classes.is_array(value)]
        sharing = defaultdict[int, list[Any]](list)
        for value in filter(classes.is_array, self.objects.values() if changed else ()):
            sharing[id(classes.owner(value))].append(value)
        for value in changed:
            for other in sharing[id(classes.owner(value))]:
                if other is not value and classes.overlap(value, other):
                    self._parts.setdefault(id(other), []).append(id(value))

    def _leading_to(self, targets: Mapping[int, Any]) -> set[int]:
        """Return the ids of ``targets`` and of all objects that lead to them."""
        found, known = set(targets), 0
        while known < len(found):
            known = len(found)
            # Holders were mostly visited before their parts: one reversed pass finds nearly all.
            for key in reversed(self._parts):
                if not found.isdisjoint(self._parts[key]):
                    found.add(key)
        return found

    def _new(self, parts: Iterable[Any]) -> Iterator[Any]:
        """Yield the objects in ``parts`` that still have to be walked into."""
        for part in self._holding_any(list(parts)):
            key, kind = id(part), type(part)
            if key in self.objects or key in self._apart_from:
                continue
            if id(kind) not in COMMON_IDS and key not in self._copies.by_id:
                is_outside = classes.package_of(kind) in OUTSIDE and kind_of(part) is None
                # A frame leads to everything that is running, this walk included.
                is_leaf = issubclass(kind, (types.FrameType, types.TracebackType, *self._leaves))
                if is_outside or is_leaf or classes.is_atomic(part):
                    continue
            self.objects[key] = part
            yield part

    def _holding_any(self, parts: list[Any]) -> Iterator[Any]:
        """Yield ``parts`` without stretches of containers that hold nothing but plain values."""
        for start in range(0, len(parts), _MANY):
            run = parts[start : start + _MANY]
            if (
                COMMON_IDS.issuperset(map(id, map(type, run)))
                and classes.ATOM_IDS.issuperset(map(id, map(type, gc.get_referents(*run))))
                and self._copies.by_id.keys().isdisjoint(map(id, run))
            ):
                self.objects.update(zip(map(id, run), run, strict=True))
            else:
                yield from run

    def _parts_of(self, value: Any, most: int) -> list[Any]:
        """Return the mutable parts of an object, and an array's base; at most ``most`` of them."""
        copy = self._copies.by_id.get(id(value))
        held = _now_held(value, self._most_of_one) if copy is None else copy.parts
        parts = [part for part in held if id(type(part)) not in classes.ATOM_IDS]
        is_array = id(type(value)) not in COMMON_IDS and classes.is_array(value)
        if is_array and value.base is not None:
            parts.append(value.base)
        return parts[:most]


def _now_held(value: Any, most: int | None) -> Iterable[Any]:
    """Return the objects that ``value`` holds now, at most ``most`` of a container or table.

    A function's globals are left out: the namespace leads everywhere.
    """
    kind = type(value)
    if most is not None and id(kind) in COMMON_IDS:
        return islice(value.values() if kind is dict else value, most)
    if classes.has_memory(kind) and kind is not memoryview:
        arrays = (array for array, _ in classes.blocks_of(value) if array.dtype.hasobject)
        cells = chain.from_iterable(classes.plain_array(array).flat for array in arrays)
        if most is not None or not classes.is_frame(kind):
            return islice(cells, most)
        own = classes.attributes_of(value).items()
        return chain(cells, (each for name, each in own if name != "_mgr"))
    if kind is types.FunctionType:
        return parts_now(value)
    return gc.get_referents(value)
