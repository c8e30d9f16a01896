"""What containers and other objects hold, a few levels down, and no more than some of it."""

import functools
import gc
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
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
)
from typing import Any

from parsimony_kernel.lineage.objects.frames import MOST_BLOCKS, frames_of
from parsimony_kernel.lineage.objects.immutable import IMMUTABLE, SIMPLE
from parsimony_kernel.lineage.snapshot import is_theirs, module_of

# What looking into containers may take for one cell.
MOST_LOOKED_INTO = 300
DEEPEST = 3
_MOST_OF_ONE = 1_000
_FIRST = slice(None, _MOST_OF_ONE)
_HAS_GC = 1 << 14
_VIEWS: tuple[type, ...] = (MappingProxyType, type({}.keys()), type({}.values()), type({}.items()))
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
        held = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        for cell in value.__closure__ or ():
            try:
                held.append(cell.cell_contents)
            except ValueError:  # not bound yet
                continue
        return held
    if kind is BuiltinFunctionType or kind is MethodType:
        return (value.__self__,)
    if kind is functools.partial or kind is GeneratorType:
        return gc.get_referents(value)
    return parts_in(value)


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


def are_simple(parts: Sequence[Any]) -> bool:
    """Whether all of ``parts`` are plain numbers, strings and the like."""
    return SIMPLE.issuperset(map(id, map(type, parts)))


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
    if is_theirs(kind):
        return _of_object
    module = module_of(kind)
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    if numpy is not None and issubclass(kind, getattr(numpy, "ndarray", ())):
        return _of_array
    if pandas is not None and issubclass(kind, frames_of(pandas)):
        return _of_frame
    if module == "builtins" or module.startswith(_HOLD_NOTHING) or not _has_referents(kind):
        return _of_nothing
    return _of_object


def _has_referents(kind: type) -> bool:
    return bool(type.__dict__["__flags__"].__get__(kind) & _HAS_GC)


def _of_set(value: Any) -> Sequence[Any]:
    return tuple(
        islice((set if issubclass(type(value), set) else frozenset).__iter__(value), _MOST_OF_ONE)
    )


def _of_deque(value: Any) -> Sequence[Any]:
    return tuple(islice(deque.__iter__(value), _MOST_OF_ONE))


def _of_memory(value: Any) -> Sequence[Any]:
    try:
        return (value.obj,)
    except ValueError:  # released
        return ()


def _of_class(value: Any) -> Sequence[Any]:
    if not is_theirs(value):
        return ()
    return tuple(islice(type.__dict__["__dict__"].__get__(value).values(), _MOST_OF_ONE))


def _of_array(value: Any) -> Sequence[Any]:
    numpy = sys.modules["numpy"]
    if not numpy.ndarray.dtype.__get__(value).hasobject:
        return ()
    return tuple(islice(numpy.ndarray.view(value, numpy.ndarray).flat, _MOST_OF_ONE))


def _of_frame(value: Any) -> Sequence[Any]:
    array = sys.modules["numpy"].ndarray
    found: list[Any] = []
    for block in value._mgr.blocks[:MOST_BLOCKS]:
        if type(held := block.values) is array and held.dtype.hasobject:
            found += _of_array(held)
    return found


def _of_list(value: Any) -> Sequence[Any]:
    return list.__getitem__(value, _FIRST)


def _of_dict(value: Any) -> Sequence[Any]:
    return tuple(islice(dict.values(value), _MOST_OF_ONE))


def _of_tuple(value: Any) -> Sequence[Any]:
    return tuple.__getitem__(value, _FIRST)


def _of_nothing(value: Any) -> Sequence[Any]:
    return ()


def _of_object(value: Any) -> Sequence[Any]:
    """What an object refers to, but its class, and modules and functions, which lead anywhere."""
    return [
        each
        for each in gc.get_referents(value)[:_MOST_OF_ONE]
        if not issubclass(type(each), type | ModuleType)
    ]


_BY_KIND: tuple[tuple[Any, Callable[[Any], Sequence[Any]]], ...] = (
    (list, _of_list),
    (dict, _of_dict),
    (tuple, _of_tuple),
    (set | frozenset, _of_set),
    (deque, _of_deque),
    (memoryview, _of_memory),
    (type, _of_class),
    (IMMUTABLE, _of_nothing),
    ((FunctionType, GeneratorType, CoroutineType, FrameType, CodeType), _of_nothing),
    (_VIEWS, _of_object),
)
