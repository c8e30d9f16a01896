"""Cheap fingerprints of values, to detect whether a cell mutated them in place.

Small values are read completely, large ones are sampled at 256 points; the cost is bounded
whatever the size. No user code runs: no repr, equality or hash is called.
"""

import enum
import functools
import operator
import sys
from abc import ABCMeta
from array import array
from collections.abc import Collection
from itertools import islice
from types import FunctionType, GeneratorType
from typing import Any

from parsimony_kernel.lineage.buffers import arrays_inside, plain_array
from parsimony_kernel.lineage.classes import (
    ATOM_IDS,
    is_atomic,
    is_frame,
    is_theirs,
    loaded,
    module_of,
    referents,
)
from parsimony_kernel.lineage.copies import COMMON_IDS, STATE, kind_of
from parsimony_kernel.lineage.object_graph import around

# The budget in steps for one value, and for all values of one cell; a step is under 2 µs.
MOST_STEPS = 250
MOST_STEPS_OF_A_CELL = 300
_POINTS = 256
_WHOLE_BYTES = 32 * 2**10
_MOST_ITEMS = 256
_MOST_WHOLE = 8 * _MOST_ITEMS
_DEEPEST = 4
_MOST_BLOCKS = 32
# Other metaclasses may define a hash or attributes with user code.
_METACLASSES = (type, ABCMeta, enum.EnumMeta)


class Fingerprint:
    """The fingerprint of a value, taken within a budget of steps.

    ``is_whole`` is true if it covers the whole value; ``taken`` is the number of steps used.
    """

    def __init__(self, value: Any, steps: int = MOST_STEPS) -> None:
        self._steps = self._left = steps
        self.seen: list[Any] = []
        # Constants are kept alive, so that their ids aren't reused.
        self._alive: list[Any] = []
        self.is_whole = True
        try:
            self._look(value)
        except Exception:  # boundary: user object - it may be anything
            self.is_whole = False
        self.taken = steps - self._left

    def differs_from(self, value: Any) -> bool:
        """Return whether the fingerprint of ``value`` differs from this one."""
        return Fingerprint(value, self._steps).seen != self.seen

    def _look(self, value: Any) -> None:
        """Record ``value`` and the objects it holds, breadth first."""
        level, known = self._hold([value]), {id(value)}
        for _ in range(_DEEPEST):
            deeper: list[Any] = []
            for each in level:
                if self._left <= 0:
                    self.is_whole = False
                    return
                self._left -= 1
                if found := self._hold(self._inside(each)):
                    deeper += [part for part in found if id(part) not in known]
                    known.update(map(id, found))
            level = deeper
        self.is_whole = self.is_whole and not level

    def _hold(self, parts: Collection[Any]) -> list[Any]:
        """Record the identities of ``parts``, and return those that are mutable."""
        self._left -= len(parts) // 40
        self.seen.append([*map(id, parts)])
        if ATOM_IDS.issuperset(map(id, map(type, parts))):
            self._alive.append(parts)
            return []
        self._alive.append([each for each in parts if id(type(each)) in ATOM_IDS])
        return [each for each in parts if id(type(each)) in COMMON_IDS or not is_atomic(each)]

    def _inside(self, value: Any) -> Collection[Any]:
        """Return the objects that ``value`` holds, and record its other content."""
        kind = type(value)
        if id(kind) in COMMON_IDS:
            return self._items(value)
        if issubclass(kind, loaded("numpy", "ndarray")):
            return self._array(value, _POINTS)
        if is_frame(kind):
            return self._frame(value)
        if module_of(kind).startswith("pandas.core.indexes."):
            return ()  # an index is immutable
        if any(kind is each for each in loaded("polars", "DataFrame", "Series")):
            return self._polars(value.to_frame() if hasattr(value, "to_frame") else value)
        if kind is FunctionType:
            self._hold(around(value))  # closure variables, not what their values hold
            kept = (value.__defaults__, value.__kwdefaults__, value.__dict__)
            return [each for each in kept if each]
        known = kind_of(value) if type(kind) in _METACLASSES else None
        if known is None or known.native is STATE:
            return self._opaque(value, kind)
        if known.is_instance:
            self.is_whole = self.is_whole and is_theirs(kind)
            if known.size(value) > 8 * _MOST_WHOLE:
                return self._opaque(value, kind)
        held = known.look(value)
        items: Any = held.items
        if isinstance(items, bytearray | array):
            self.is_whole = self.is_whole and len(items) < _WHOLE_BYTES
            self.seen += [len(items), bytes(items[:: len(items) // _WHOLE_BYTES + 1])]
        # A class's member names don't count: copying an instance adds one to its class.
        keys = items if isinstance(items, dict) and known.base is not type else ()
        return [*known.parts(held), *keys]

    def _items(self, value: Any) -> Collection[Any]:
        """Return all items, or a sample if there are very many."""
        size = len(value)
        if size <= _MOST_WHOLE:
            return [*value, *value.values()] if type(value) is dict else [*value]
        self.is_whole = False
        self.seen.append(size)
        if isinstance(value, list | tuple):
            return [*value[:: size // _MOST_ITEMS + 1], *value[-8:]]
        ways = (value, value.values()) if isinstance(value, dict) else (value,)
        return [each for way in ways for each in islice(way, _MOST_ITEMS)]

    def _opaque(self, value: Any, kind: type) -> Collection[Any]:
        """Record an iterator's progress, and return the referents of a value that C code hides."""
        self.is_whole = False
        if kind is GeneratorType:
            self.seen.append(value.gi_frame.f_lasti if value.gi_frame is not None else None)
            return ()
        if module_of(kind) == "builtins" and hasattr(kind, "__length_hint__"):
            self.seen.append(operator.length_hint(value))
        for connection in loaded("sqlite3", "Connection"):
            if issubclass(kind, connection):  # its referents are cursors, new with each query
                self.seen.append(connection.total_changes.__get__(value))
                return ()
        return referents(value)[:_MOST_WHOLE]

    def _array(self, value: Any, points: int) -> Collection[Any]:
        numpy = sys.modules["numpy"]
        if type(value) is not numpy.ndarray:
            self.is_whole = False
            value = plain_array(value)
        self.seen += [value.shape, value.dtype.str, value.dtype.names]
        self._left -= 8
        is_small = value.nbytes <= _WHOLE_BYTES and not value.dtype.hasobject
        if is_small or (value.dtype.char == "O" and value.size <= _MOST_ITEMS):
            some = value
        else:
            self.is_whole = False
            is_flat = value.flags.c_contiguous or value.flags.f_contiguous
            flat = value.ravel(order="K") if is_flat else value.flat
            some = flat[_positions(value.size, min(points, value.size))]
        if value.dtype.hasobject:
            return list[Any](some.ravel().tolist())
        self.seen.append(some.tobytes())
        return ()

    def _polars(self, frame: Any) -> Collection[Any]:
        """Record a polars frame by hashes of some rows.

        Its repr would depend on ``polars.Config`` and call the repr of objects in it.
        """
        self._left -= 40
        step = frame.height * frame.width // 2_000 + 1
        can_be_seen = frame.width < 200 and "Object" not in "".join(map(str, frame.dtypes))
        self.is_whole = self.is_whole and can_be_seen and step == 1
        self.seen += [frame.shape, frame.schema]
        if can_be_seen:
            self.seen.append(frame.gather_every(step).hash_rows().to_list())
        return ()

    def _frame(self, value: Any) -> Collection[Any]:
        manager = object.__getattribute__(value, "_mgr")
        blocks, parts = manager.blocks, list[Any]()
        self.seen.append(len(blocks))
        if len(blocks) > _MOST_BLOCKS:
            self.is_whole = False
            blocks = blocks[:: len(blocks) // _MOST_BLOCKS + 1]
        for axis in manager.axes:
            # An index's labels are immutable; its names aren't.
            self._left -= 4
            parts += getattr(axis, "_names", None) or [getattr(axis, "_name", None)]
            self.seen.append(id(axis))
        points = max(_POINTS // max(len(blocks), 1), 8)
        for block in blocks:
            arrays = [block.values]
            if type(block.values) not in loaded("numpy", "ndarray"):
                self._left -= 4
                arrays = [each for each in arrays_inside(block.values) if each is not block.values]
                self.seen.append(id(getattr(block.values, "_dtype", None)))
                self.is_whole = self.is_whole and bool(arrays)
            for each in arrays:
                if isinstance(each, loaded("numpy", "ndarray")):
                    parts += self._array(each, points)
                else:
                    self.seen.append(id(each))
                    self._alive.append(each)  # immutable, and shares its memory
        own = object.__getattribute__(value, "__dict__")
        named = {name: each for name, each in own.items() if name == "_name" or name[0] != "_"}
        return [*parts, *named.values(), *(own.get("_attrs") or {}).values()]


@functools.lru_cache(maxsize=64)
def _positions(size: int, points: int) -> Any:
    numpy = sys.modules["numpy"]
    return numpy.linspace(0, max(size - 1, 0), points).astype(numpy.intp)
