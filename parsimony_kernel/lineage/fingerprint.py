"""Cheap fingerprints of values, to see whether a cell changed them in place.

Small values are looked at whole, large ones at 256 points; the cost has a bound that does not
depend on the size. No code of a person's runs: nothing is asked for its repr, equality or hash.
"""

import functools
import gc
import operator
import sys
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from types import BuiltinFunctionType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

from parsimony_kernel.lineage.classes import is_frame, is_theirs, loaded, module_of
from parsimony_kernel.lineage.kinds.atoms import ATOM_IDS
from parsimony_kernel.lineage.kinds.plain import arrays_inside
from parsimony_kernel.lineage.parts import around

# Steps that looking at one value may take, and at those of one cell; a step is under 2 µs.
MOST_STEPS = 250
MOST_STEPS_OF_A_CELL = 300
_POINTS = 256
_WHOLE_BYTES = 32 * 2**10
_MOST_ITEMS = 256
_MOST_WHOLE = 8 * _MOST_ITEMS
_DEEPEST = 4
_MOST_BLOCKS = 32
_LEAVES = (ModuleType, FunctionType, BuiltinFunctionType, type, range, slice)
_CONSTANT_MODULES = (
    "pandas._libs.", "pyarrow.", "datetime", "decimal", "fractions", "uuid", "pathlib", "re",
    "zoneinfo", "numpy.dtypes", "pandas.core.dtypes.", "pandas.core.indexes.", "polars.datatypes",
    "polars.series", "polars.expr", "polars.lazyframe",
)  # fmt: skip
_bases_of = type.__dict__["__mro__"].__get__
_PLAIN_BASES = ("builtins", "abc", "collections", "collections.abc", "enum", "typing", "types")


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """What was seen of a value within so many steps.

    ``is_whole`` says that it was all there is to see, ``taken`` how many steps it took.
    """

    seen: tuple[Any, ...]
    is_whole: bool
    steps: int
    taken: int

    def differs_from(self, value: Any) -> bool:
        """Whether ``value`` looks otherwise."""
        return fingerprint(value, self.steps).seen != self.seen


def fingerprint(value: Any, steps: int = MOST_STEPS) -> Fingerprint:
    """What can be seen of ``value`` within ``steps``."""
    look = _Look(steps)
    try:
        look.at(value, 0)
    except Exception:  # boundary: user object - it may be anything
        look.is_whole = False
    return Fingerprint(tuple(look.seen), look.is_whole, steps, steps - look.steps)


class _Same:
    """Equal to what looked at the very same object. Keeps it alive only where it must."""

    __slots__ = ("_get",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: Any) -> None:
        self._get: Callable[[], Any]
        try:
            self._get = weakref.ref(value)
        except TypeError:
            self._get = lambda: value

    def __eq__(self, other: object) -> bool:
        mine = self._get()
        return isinstance(other, _Same) and mine is not None and mine is other._get()


class _Items:
    """Equal to what holds the very same objects in the same order."""

    __slots__ = ("_items",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = tuple(items)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Items)
            and len(self._items) == len(other._items)
            and all(map(operator.is_, self._items, other._items))
        )


_CONTAINERS: tuple[tuple[Any, tuple[Any, ...]], ...] = (
    (OrderedDict, (OrderedDict.__iter__, dict.values)),
    (dict, (dict.__iter__, dict.values)),
    *((base, (base.__iter__,)) for base in (list, tuple, set, deque)),
)


class _Look:
    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.seen: list[Any] = []
        self.is_whole = True
        self._known: set[int] = set()

    def at(self, value: Any, depth: int) -> None:
        kind = type(value)
        self.steps -= 1
        if id(kind) in ATOM_IDS:
            self.seen.append(_Items((value,)))
            return
        self.seen.append(id(value))
        if id(value) in self._known:
            return
        self._known.add(id(value))
        if self.steps < 0 or depth > _DEEPEST:
            self.is_whole = False
            return
        for base, ways in _CONTAINERS:
            if issubclass(kind, base):
                self._container(value, base, ways, depth)
                break
        else:
            if issubclass(kind, bytearray):
                self._bytes(value)
            elif not self._of_a_library(value, kind, depth):
                self._object(value, kind, depth)
                return
        if is_theirs(kind):
            self._attributes(value, depth)

    def _container(self, value: Any, base: Any, ways: tuple[Any, ...], depth: int) -> None:
        size = base.__len__(value)
        self.seen.append(size)
        is_whole = size <= _MOST_WHOLE
        self.is_whole = self.is_whole and is_whole
        for way in ways:
            if is_whole:
                items = tuple(way(value))
            elif base in (list, tuple):
                every, last = slice(None, None, size // _MOST_ITEMS + 1), slice(-8, None)
                items = (*base.__getitem__(value, every), *base.__getitem__(value, last))
            else:
                items = tuple(islice(way(value), _MOST_ITEMS))
            self._all(items, depth)

    def _all(self, items: Any, depth: int) -> None:
        """Constants at once, which keeps them alive and no more; the others one by one."""
        self.steps -= len(items) // 40
        if ATOM_IDS.issuperset(map(id, map(type, items))):
            self.seen.append(_Items(items))
            return
        for item in items:
            self.at(item, depth + 1)
            if self.steps < 0:
                self.is_whole = False
                return

    def _bytes(self, value: Any) -> None:
        data = memoryview(value)
        if len(data) <= _WHOLE_BYTES:
            self.seen += [len(data), bytes(data)]
        else:
            self.is_whole = False
            self.seen += [len(data), bytes(data[:: len(data) // _POINTS])]

    # Objects

    def _object(self, value: Any, kind: type, depth: int) -> None:
        if issubclass(kind, type):
            if is_theirs(value) and depth == 0:
                attributes = type.__dict__["__dict__"].__get__(value)
                self.seen += [
                    _Items(attributes),
                    _Items(each for each in attributes.values() if id(type(each)) in ATOM_IDS),
                ]
                for each in attributes.values():
                    if issubclass(type(each), list | dict | set) or is_theirs(type(each)):
                        self.at(each, depth + 1)
                self.is_whole = self.steps > 0  # what else a class holds are its functions
            return
        if issubclass(kind, FunctionType):
            if depth == 0:
                self._function(value)
            return
        if issubclass(kind, _LEAVES) or module_of(kind).startswith(_CONSTANT_MODULES):
            return
        if kind is GeneratorType:
            self.is_whole = False
            self.seen.append(value.gi_frame.f_lasti if value.gi_frame is not None else None)
            return
        if module_of(kind) == "builtins" and hasattr(kind, "__length_hint__"):
            self.seen.append(operator.length_hint(value))
            return
        self._attributes(value, depth)
        if not is_theirs(kind) and kind is not MethodType:
            self.is_whole = False

    def _function(self, value: Any) -> None:
        """What a function keeps from call to call."""
        for each in (value.__defaults__, value.__kwdefaults__, value.__dict__):
            if each:
                self.at(each, 1)
        self.seen.append(_Items(around(value)))

    def _attributes(self, value: Any, depth: int) -> None:
        if not gc.is_tracked(value):
            self.is_whole = self.is_whole and is_theirs(type(value))
            return
        held = [
            each
            for each in gc.get_referents(value)
            if not issubclass(type(each), type) and type(each) is not ModuleType
        ]
        self.seen.append(len(held))
        if len(held) > _MOST_WHOLE or not all(map(_is_plain, _bases_of(type(value)))):
            self.is_whole = False
        self._all(held[:_MOST_WHOLE], depth)

    # Libraries that are loaded

    def _of_a_library(self, value: Any, kind: type, depth: int) -> bool:
        if issubclass(kind, loaded("numpy", "ndarray")):
            self._array(value, _POINTS, depth)
        elif is_frame(kind):
            self._frame(value, depth)
        elif issubclass(kind, loaded("pandas", "Index")):
            self._index(value)
        elif issubclass(kind, loaded("polars", "DataFrame")):
            self._polars(value)
        else:
            return issubclass(kind, loaded("numpy", "generic"))
        return True

    def _array(self, value: Any, points: int, depth: int) -> None:
        numpy = sys.modules["numpy"]
        if type(value) is not numpy.ndarray:
            self.is_whole = False
            value = numpy.ndarray.view(value, numpy.ndarray)
        size = value.size
        self.seen += [value.shape, value.dtype.str, value.dtype.names]
        self.steps -= 8
        if value.dtype.hasobject:
            if size <= _MOST_ITEMS and value.dtype.char == "O":
                self._all(value.ravel().tolist(), depth)
            else:
                self.is_whole = False
                self._all(value.flat[_positions(size, min(points, size))].tolist(), depth)
        elif value.nbytes <= _WHOLE_BYTES:
            self.seen.append(value.tobytes())
        else:
            self.is_whole = False
            if value.flags.c_contiguous or value.flags.f_contiguous:
                flat = value.ravel(order="K")
            else:
                flat = value.flat
            self.seen.append(flat[_positions(size, points)].tobytes())

    def _frame(self, value: Any, depth: int) -> None:
        manager = object.__getattribute__(value, "_mgr")
        for axis in manager.axes:
            self._index(axis)
        blocks = manager.blocks
        self.seen.append(len(blocks))
        if len(blocks) > _MOST_BLOCKS:
            self.is_whole = False
            blocks = blocks[:: len(blocks) // _MOST_BLOCKS + 1]
        points = max(_POINTS // max(len(blocks), 1), 8)
        for block in blocks:
            if type(block.values) in loaded("numpy", "ndarray"):
                self._array(block.values, points, depth)
            else:
                self._extension(block.values, points, depth)
        self.seen.append(_plain(getattr(value, "_name", None)))
        if attrs := getattr(value, "_attrs", None):
            self._container(attrs, dict, (dict.__iter__, dict.values), depth)
        for name, each in object.__getattribute__(value, "__dict__").items():
            if type(name) is str and not name.startswith("_"):
                self.seen.append(name)
                self.at(each, depth + 1)

    def _extension(self, value: Any, points: int, depth: int) -> None:
        self.steps -= 4
        parts = [part for part in arrays_inside(value) if part is not value]
        for part in parts:
            if isinstance(part, loaded("numpy", "ndarray")):
                self._array(part, points, depth)
            else:
                self.seen.append(_Same(part))
        self.seen.append(_Same(getattr(value, "_dtype", Any)))
        self.is_whole = self.is_whole and bool(parts)

    def _index(self, value: Any) -> None:
        """Its labels cannot change; its names can."""
        self.steps -= 4
        names = getattr(value, "_names", None) or [getattr(value, "_name", None)]
        self.seen += [_Same(value), *map(_plain, names)]

    def _polars(self, value: Any) -> None:
        self.steps -= 40
        height, width = value.shape
        self.seen += [height, width, tuple(value.columns), str(value.dtypes)]
        if height * width <= 2_000:
            self.seen.append(repr(value.rows()))
        else:
            self.is_whole = False
            rows = range(0, height, height // 8 + 1)
            self.seen.append(repr([value.row(row) for row in rows]) if width < 200 else "")


@functools.lru_cache(maxsize=64)
def _positions(size: int, points: int) -> Any:
    numpy = sys.modules["numpy"]
    return numpy.linspace(0, max(size - 1, 0), points).astype(numpy.intp)


def _is_plain(kind: type) -> bool:
    """Whether what an object has from this class is all among what it refers to."""
    return is_theirs(kind) or module_of(kind) in _PLAIN_BASES


def _plain(value: Any) -> Any:
    return value if id(type(value)) in ATOM_IDS else id(value)
