"""Snapshots of the bindings of a namespace, and fingerprints of the values, to see what differs.

A snapshot is shallow: it holds the objects and compares them by identity, so its cost depends on
the number of names and never on the size of the data. A fingerprint shows whether a cell mutated a
value in place: small values are read completely, large ones are sampled at 256 points, so its cost
is bounded too. No code of the objects runs: no repr, equality or hash is called.
"""

import functools
import gc
import operator
import sys
import weakref
from abc import ABCMeta
from array import array
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from enum import EnumMeta
from itertools import chain, compress, islice, repeat
from types import BuiltinFunctionType, FunctionType, GeneratorType, ModuleType
from typing import Any

from parsimony_kernel.lineage import classes
from parsimony_kernel.lineage.copies import COMMON_IDS, STATE, around, kind_of

_ABSENT = object()
_IMPORTABLE = (ModuleType, type, FunctionType, BuiltinFunctionType)
# Stands for a value that is gone. No value in a namespace is identical to it.
GONE: Any = range(0)
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


class Snapshot:
    """A snapshot of bindings that keeps no large object alive, for a cell's run or for an undo.

    It uses weak references where possible. NumPy refuses to resize an array that has references,
    even weak ones, so an array that may be resized is remembered by its id.
    """

    def __init__(
        self, bindings: Mapping[str, Any], used: Collection[str] = (), *, resizes: bool = False
    ) -> None:
        """Take a snapshot of ``bindings``.

        Args:
            bindings: the objects by name.
            used: the names that the cell can reach; the objects of others are held strongly.
            resizes: whether the cell may resize arrays.
        """
        self._bindings: dict[str, Any] = dict(bindings)
        self._weak: dict[str, Callable[[], Any]] = {}
        self._ids: dict[str, int] = {}
        for name in used:
            value = bindings.get(name)
            kind = type(value)
            if resizes and issubclass(kind, classes.loaded("numpy", "ndarray")):
                self._ids[name] = id(value)
            # An import that is loaded anew is no variable that was deleted.
            elif _is_weak(kind) and not (issubclass(kind, _IMPORTABLE) and _is_imported(value)):
                self._weak[name] = weakref.ref(value)
            else:
                continue
            self._bindings[name] = GONE

    def now(self, namespace: Mapping[str, Any]) -> dict[str, Any]:
        """Return the bindings, held strongly from now on; dead objects become ``GONE``.

        Args:
            namespace: the current bindings, to find objects remembered by id.
        """
        found = self._bindings
        found.update(self._alive())
        if self._ids:
            present = {id(value): value for value in namespace.values()}
            found.update({name: present.get(key, GONE) for name, key in self._ids.items()})
        return found

    def look(self) -> dict[str, Any]:
        """Return the bindings, without keeping their objects alive any longer."""
        return self._bindings | self._alive()

    def _alive(self) -> dict[str, Any]:
        found = {name: get() for name, get in self._weak.items()}
        return {name: value for name, value in found.items() if value is not None}


def _is_weak(kind: type) -> bool:
    is_weak = bool(type.__dict__["__weakrefoffset__"].__get__(kind))
    return is_weak and not issubclass(kind, ModuleType)


def visible(namespace: Mapping[str, Any], hidden: Mapping[str, Any]) -> dict[str, Any]:
    """Return the bindings that a person made: no private names, no imports, nothing in ``hidden``.

    Imports are modules, and functions and classes of other modules. A name in ``hidden`` is
    visible once it is bound to another object. Keys that are no identifiers are no variables.
    """
    return {
        name: value
        for name, value in dict(namespace).items()  # a copy, as threads may bind names
        if type(name) is str
        and name[:1] != "_"
        and name.isidentifier()
        and hidden.get(name, _ABSENT) is not value
        and not (issubclass(type(value), _IMPORTABLE) and _is_imported(value))
    }


def _is_imported(value: Any) -> bool:
    if issubclass(type(value), ModuleType):
        return True
    module = classes.module_of(value) if issubclass(type(value), type) else value.__module__
    return module is None or (type(module) is str and module not in ("", "__main__"))


def difference(
    before: Mapping[str, Any], after: Mapping[str, Any], hidden: Mapping[str, Any]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Compare all bindings before and after a cell by identity.

    Returns:
        The variables that are new or bound to another object, and the deleted ones, each sorted.
    """
    # Mostly a cell leaves the names as they are, and new ones come last.
    is_longer = [*after][: len(before)] == [*before]
    held = before.values() if is_longer else map(before.get, after, repeat(_ABSENT))
    is_other = map(operator.is_not, after.values(), chain(held, repeat(_ABSENT)))
    other = [*compress(after, is_other)]
    changed = visible({name: after[name] for name in other}, hidden)
    gone = other if is_longer else {*other, *(before.keys() - after.keys())}
    deleted = visible({name: before[name] for name in before.keys() & gone}, hidden).keys()
    return tuple(sorted(changed)), tuple(sorted(deleted - changed.keys()))


# Fingerprints


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

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "dict[str, Fingerprint]":
        """Return the fingerprints of the first of ``values``, within the budget of a cell."""
        seen, left = dict[str, Fingerprint](), MOST_STEPS_OF_A_CELL
        for name, value in values.items():
            if left > 0:
                seen[name] = cls(value, min(left, MOST_STEPS))
                left -= seen[name].taken
        return seen

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
        return known.parts(items, fields)

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
        plain = classes.loaded("numpy", "ndarray")
        self.seen.append([len(blocks), *map(id, axes)])
        parts = [each for name, each in own.items() if name == "_name" or name[0] != "_"]
        parts += [name for axis in axes for name in axis.names]
        for values in (block.values for block in blocks):
            self._left -= 4
            if self._left <= 0:
                self.is_whole = False
                break
            inner = (each for each in classes.arrays_inside(values) if each is not values)
            arrays = [values] if isinstance(values, plain) else [*inner]
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
