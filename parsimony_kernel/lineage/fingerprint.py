"""Cheap fingerprints of values, to detect whether a cell mutated them in place.

Small values are read completely, large ones are sampled at 256 points; the cost is bounded
whatever the size. No user code runs: no repr, equality or hash is called.
"""

import functools
import gc
import operator
import sys
from abc import ABCMeta
from array import array
from collections.abc import Collection
from contextlib import suppress
from enum import EnumMeta
from itertools import islice
from types import FunctionType, GeneratorType, ModuleType
from typing import Any

from parsimony_kernel.lineage import classes
from parsimony_kernel.lineage.copies import COMMON_IDS, STATE, around, kind_of

# The budget in steps for one value, and for all values of one cell; a step is under 2 µs.
MOST_STEPS = 250
MOST_STEPS_OF_A_CELL = 300
_POINTS = 256
_WHOLE_BYTES = 32 * 2**10
_MOST_ITEMS = 256
_MOST_WHOLE = 8 * _MOST_ITEMS
_DEEPEST = 4
# Other metaclasses may define a hash or attributes with user code.
_METACLASSES = (type, ABCMeta, EnumMeta)


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
        if classes.ATOM_IDS.issuperset(map(id, map(type, parts))):
            self._alive.append(parts)
            return []
        self._alive.append([each for each in parts if id(type(each)) in classes.ATOM_IDS])
        return [p for p in parts if id(type(p)) in COMMON_IDS or not classes.is_atomic(p)]

    def _inside(self, value: Any) -> Collection[Any]:
        """Return the objects that ``value`` holds, and record its other content."""
        kind = type(value)
        if id(kind) in COMMON_IDS:
            return self._items(value)
        if issubclass(kind, classes.loaded("numpy", "ndarray")):
            return self._array(value)
        if classes.is_frame(kind):
            return self._frame(classes.attributes_of(value))
        if issubclass(kind, classes.loaded("pandas", "Index")):
            return list(value.names)  # its labels are immutable
        if any(kind is each for each in classes.loaded("polars", "DataFrame", "Series")):
            return self._polars(value.to_frame() if hasattr(value, "to_frame") else value)
        if kind is FunctionType:
            self._hold(around(value))  # closure variables, not what their values hold
            kept = (value.__defaults__, value.__kwdefaults__, value.__dict__)
            return [each for each in kept if each]
        known = kind_of(value) if type(kind) in _METACLASSES else None
        if known is None or known.native is STATE:
            return self._opaque(value, kind)
        if known.is_instance:
            self.is_whole = self.is_whole and classes.is_theirs(kind)
            if known.size(value) > 8 * _MOST_WHOLE:
                return self._opaque(value, kind)
        items, fields = known.look(value)
        if isinstance(items, bytearray | array):
            self.is_whole = self.is_whole and len(items) < _WHOLE_BYTES
            self.seen += [len(items), bytes(items[:: len(items) // _WHOLE_BYTES + 1])]
        # A class's member names don't count: copying an instance adds one to its class.
        keys = items if isinstance(items, dict) and known.base is not type else ()
        return [*known.parts(items, fields), *keys]

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
        if classes.module_of(kind) == "builtins" and hasattr(kind, "__length_hint__"):
            self.seen.append(operator.length_hint(value))
        for connection in classes.loaded("sqlite3", "Connection"):
            if issubclass(kind, connection):  # its referents are cursors, new with each query
                self.seen.append(connection.total_changes.__get__(value))
                return ()
        held = gc.get_referents(value)
        if any(type(each) is dict for each in held):
            with suppress(Exception):  # boundary: user object - its class may say what its dict is
                # Attributes count as parts, whether or not the ``__dict__`` was materialized.
                own = classes.attributes_of(value)
                held = [p for each in held for p in (own.values() if each is own else (each,))]
        # Modules and classes lead everywhere.
        held = [each for each in held if not issubclass(type(each), type | ModuleType)]
        return held[:_MOST_WHOLE]

    def _array(self, value: Any) -> Collection[Any]:
        numpy = sys.modules["numpy"]
        if type(value) is not numpy.ndarray:
            self.is_whole = False
            value = classes.plain_array(value)
        self.seen += [value.shape, value.dtype.str, value.dtype.names]
        self._left -= 8
        has_objects = value.dtype.hasobject
        if value.size > _MOST_ITEMS if has_objects else value.nbytes > _WHOLE_BYTES:
            self.is_whole = False
            is_flat = value.flags.c_contiguous or value.flags.f_contiguous
            flat = value.ravel(order="K") if is_flat else value.flat
            value = flat[_positions(value.size)]
        if has_objects:
            return list[Any](value.ravel().tolist())
        self.seen.append(value.tobytes())
        return ()

    def _frame(self, own: dict[str, Any]) -> Collection[Any]:
        """Record the columns and labels of a pandas frame with the attributes ``own``.

        Arrays count by their content: pandas puts equal ones in their place when it likes.
        """
        blocks, axes = own["_mgr"].blocks, own["_mgr"].axes
        self.seen.append([len(blocks), *map(id, axes)])
        parts = [each for name, each in own.items() if name == "_name" or name[0] != "_"]
        parts += [name for axis in axes for name in axis.names]
        for values in (block.values for block in blocks):
            self._left -= 4
            if self._left <= 0:
                self.is_whole = False
                break
            plain = classes.loaded("numpy", "ndarray")
            arrays = [values]
            if not isinstance(values, plain):
                arrays = [each for each in classes.arrays_inside(values) if each is not values]
            self.seen.append(id(getattr(values, "_dtype", None)))
            self.is_whole = self.is_whole and bool(arrays)
            for each in arrays:
                if isinstance(each, plain):
                    parts += self._array(each)
                else:  # it is immutable, and shares its memory
                    self.seen.append(id(each))
                    self._alive.append(each)
        return [*parts, *(own.get("_attrs") or {}).values()]

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


@functools.lru_cache(maxsize=64)
def _positions(size: int) -> Any:
    numpy = sys.modules["numpy"]
    return numpy.linspace(0, size - 1, _POINTS).astype(numpy.intp)
