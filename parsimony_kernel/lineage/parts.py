"""What containers and other objects hold, a few levels down, and no more than some of it.

No code of a person's runs.
"""

import functools
import gc
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

from parsimony_kernel.analysis.roots import Steps
from parsimony_kernel.lineage.classes import is_frame, is_tabular, is_theirs, loaded, module_of
from parsimony_kernel.lineage.kinds.atoms import SIMPLE, are_simple
from parsimony_kernel.lineage.kinds.plain import BY_TYPE

# What looking into containers may take for one cell.
MOST_LOOKED_INTO = 300
DEEPEST = 3
MOST_BLOCKS = 64
_MOST_OF_ONE = 1_000
_FIRST = slice(None, _MOST_OF_ONE)
_HAS_GC = 1 << 14
_LEAVES = (
    str, bytes, int, float, complex, MethodType, BuiltinFunctionType, ModuleType,
    FunctionType, GeneratorType, CoroutineType, FrameType, CodeType,
)  # fmt: skip
# What these packages make holds no variable, or leads to everything that there is.
_HOLD_NOTHING = (
    "numpy.", "pandas._libs.", "pandas.core.indexes.", "pandas.core.arrays.",
    "pandas.core.dtypes.", "pyarrow.", "polars.", "re", "pathlib", "parsimony_", "IPython.",
    "ipykernel.", "asyncio.", "_asyncio", "threading", "_thread", "concurrent.", "weakref",
)  # fmt: skip


def parts_in(value: Any) -> Sequence[Any]:
    """What a container or another object holds; the first of many."""
    return parts_of_kind(type(value))(value)


def reachable_from(value: Any) -> Sequence[Any]:
    """What code can come to from a value: its parts, or what is bound to a callable."""
    kind = type(value)
    if kind is FunctionType:
        defaults = (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values())
        return (*defaults, *around(value))
    if kind is BuiltinFunctionType or kind is MethodType:
        return (value.__self__,)
    if kind is functools.partial or kind is GeneratorType:
        return gc.get_referents(value)
    return parts_in(value)


def around(function: Any) -> list[Any]:
    """What the variables around a function hold."""
    held = map(BY_TYPE[CellType].copy, function.__closure__ or ())  # nothing where not bound yet
    return [each for found in held for each in found]


def held_by(
    values: Iterable[Any], parts_of: Callable[[Any], Sequence[Any]], room: int = MOST_LOOKED_INTO
) -> dict[int, Any]:
    """What containers and objects of the notebook hold, a few levels down, by id."""
    found: dict[int, Any] = {}
    level: Sequence[Any] = list(values)
    for _ in range(DEEPEST):
        deeper: list[Any] = []
        for each in level:
            parts = parts_of(each)
            room -= 1 + len(parts) // 16
            if parts and not are_simple(parts):
                deeper += [
                    part for part in parts if id(type(part)) not in SIMPLE and id(part) not in found
                ]
            if room <= 0:
                break
        found.update(zip(map(id, deeper), deeper, strict=True))
        level = deeper
        if not level or room <= 0:
            break
    return found


def can_hold(kind: type) -> bool:
    """Whether a value of ``kind`` may hold anything."""
    return parts_of_kind(kind) is not _of_nothing


def parts_of_kind(kind: type) -> Callable[[Any], Sequence[Any]]:
    """How what a value of ``kind`` holds is told."""
    if id(kind) in SIMPLE:
        return _of_nothing
    for base, look in _BY_KIND:
        if issubclass(kind, base):
            return look
    module = module_of(kind)
    if module in ("", "__main__"):
        return _of_object
    if issubclass(kind, loaded("numpy", "ndarray")):
        return _of_array
    if is_frame(kind):
        return _of_frame
    has_referents = type.__dict__["__flags__"].__get__(kind) & _HAS_GC
    if module == "builtins" or module.startswith(_HOLD_NOTHING) or not has_referents:
        return _of_nothing
    return _of_object


def _first(iterate: Callable[[Any], Iterable[Any]]) -> Callable[[Any], Sequence[Any]]:
    return lambda value: tuple(islice(iterate(value), _MOST_OF_ONE))


def _of_nothing(value: Any) -> Sequence[Any]:
    return ()


def _of_memory(value: Any) -> Sequence[Any]:
    try:
        return (value.obj,)
    except ValueError:  # released
        return ()


def _of_class(value: Any) -> Iterable[Any]:
    return type.__dict__["__dict__"].__get__(value).values() if is_theirs(value) else ()


def _items_of_array(value: Any) -> Iterable[Any]:
    array: Any = sys.modules["numpy"].ndarray
    plain = array.view(value, array)
    return plain.flat if plain.dtype.hasobject else ()


def arrays_of_frame(value: Any, array: Any) -> list[Any]:
    """The arrays, of the class ``array``, of a frame or a series of pandas; none of another."""
    if not is_frame(type(value)):
        return []
    held = (block.values for block in value._mgr.blocks[:MOST_BLOCKS])
    return [each for each in held if type(each) is array]


def _of_frame(value: Any) -> Sequence[Any]:
    (array,) = loaded("numpy", "ndarray")
    return [part for each in arrays_of_frame(value, array) for part in _of_array(each)]


def _of_object(value: Any) -> Sequence[Any]:
    """What an object refers to, but its class, and modules and functions, which lead anywhere."""
    return [
        each
        for each in gc.get_referents(value)[:_MOST_OF_ONE]
        if not issubclass(type(each), type | ModuleType)
    ]


_of_array = _first(_items_of_array)
# The first that fits counts.
_BY_KIND: tuple[tuple[Any, Callable[[Any], Sequence[Any]]], ...] = (
    (list, lambda value: list.__getitem__(value, _FIRST)),
    (dict, _first(dict.values)),
    (tuple, lambda value: tuple.__getitem__(value, _FIRST)),
    (set, _first(set.__iter__)),
    (frozenset, _first(frozenset.__iter__)),
    (deque, _first(deque.__iter__)),
    (memoryview, _of_memory),
    (type, _first(_of_class)),
    (_LEAVES, _of_nothing),
    ((MappingProxyType, type({}.keys()), type({}.values()), type({}.items())), _of_object),
)


def part_at(value: Any, path: Steps) -> Any:
    """What ``path`` leads to from ``value``; as far as that can be told, without running code."""
    for step in path:
        kind = type(value)
        if step is None or is_tabular(value):
            return value
        if isinstance(step, tuple):
            key = step[0]
            if issubclass(kind, dict) and dict.__contains__(value, key):
                value = dict.__getitem__(value, key)
            elif (
                issubclass(kind, list | tuple)
                and type(key) is int
                and -len(held := _items(value)) <= key < len(held)
            ):
                value = held[key]
            else:
                return value
        else:
            inner = _attribute(value, step)
            if inner is value:
                return value
            value = inner
    return value


def _attribute(value: Any, name: str) -> Any:
    """What an instance has itself as ``name``; else ``value``."""
    kind = type(value)
    if issubclass(kind, type | ModuleType):
        return value
    for owner in type.__dict__["__mro__"].__get__(kind):
        defined = type.__dict__["__dict__"].__get__(owner).get(name)
        if type(defined) is MemberDescriptorType:
            try:
                return defined.__get__(value)
            except AttributeError:  # not set
                return value
        if type(defined) is property or (defined is not None and not is_theirs(owner)):
            return value
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return value
    return attributes.get(name, value) if type(attributes) is dict else value


def _items(value: Any) -> Any:
    return (list if issubclass(type(value), list) else tuple).__getitem__(value, slice(None))
