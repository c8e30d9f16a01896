"""In which memory arrays and frames keep their values, and who shares it. Nothing is copied."""

import sys
from collections.abc import Iterable
from sys import getrefcount
from typing import Any

from parsimony_kernel.lineage.classes import attributes_of, copies_lazily, is_frame, loaded

_MOST_BLOCKS = 64
_INSIDE = ("_pa_array", "_ndarray", "_codes", "_data", "_mask", "_left", "_right")


def is_array(value: Any) -> bool:
    """Whether ``value`` is an array of numpy, and of no class that derives from it."""
    return any(type(value) is each for each in loaded("numpy", "ndarray"))


def plain_array(value: Any) -> Any:
    """An array of a class that derives from numpy's, as one of that."""
    plain = sys.modules["numpy"].ndarray
    return plain.view(value, plain)


def arrays_inside(value: Any) -> Iterable[Any]:
    """The arrays in which one of pandas keeps its values."""
    return (each for name in _INSIDE if (each := getattr(value, name, None)) is not None)


def has_memory(kind: type) -> bool:
    """Whether values of ``kind`` are frames, arrays or views of memory."""
    arrays = loaded("numpy", "ndarray")
    return bool(arrays) and (is_frame(kind) or issubclass(kind, (*arrays, memoryview)))


def _blocks(frame: Any) -> Any:
    return attributes_of(frame)["_mgr"].blocks


def arrays_of(value: Any) -> list[Any] | None:
    """The arrays in which a value has its memory; ``None`` for what is no frame and no array."""
    kind = type(value)
    if not is_frame(kind):
        return [value] if has_memory(kind) else None
    plain = sys.modules["numpy"].ndarray
    blocks = _blocks(value)[:_MOST_BLOCKS]
    return [block.values for block in blocks if type(block.values) is plain]


def blocks_of(value: Any) -> list[tuple[Any, int]]:
    """The arrays in which a value has its memory, each with the id of the record in which pandas,
    which copies before it writes, knows who shares it; 0 without one."""
    records: dict[int, int] = {}
    if is_frame(type(value)) and copies_lazily():
        records = {id(block.values): id(block.refs) for block in _blocks(value)[:_MOST_BLOCKS]}
    return [(array, records.get(id(array), 0)) for array in arrays_of(value) or ()]


def is_alone(value: Any) -> bool:
    """Whether what holds ``value`` is all that can see its memory, told by counting references: a
    view holds what owns its memory, and pandas knows which frames share a block."""
    if not is_frame(type(value)):
        return is_array(value) and _is_seen_by_none(value)
    for block in _blocks(value):
        if block.refs.has_reference():
            return False
        # One reference is that of the block, one that of the call.
        is_plain = is_array(block.values)
        if is_plain and (getrefcount(block.values) > 2 or not _is_seen_by_none(block.values)):
            return False
    return copies_lazily()


def _is_seen_by_none(array: Any) -> bool:
    """Whether nothing but ``array`` holds what owns its memory."""
    while (base := array.base) is not None:
        # One is that of the view, one that of this name, one that of the call.
        if not is_array(base) or getrefcount(base) > 3:
            return False
        array = base
    return True


def owner(value: Any) -> Any:
    """What owns the memory of an array or a view of memory."""
    arrays = loaded("numpy", "ndarray")
    value = value.obj if type(value) is memoryview else value
    while isinstance(value, arrays) and (base := value.base) is not None:
        value = base
    return value.obj if type(value) is memoryview else value


def overlap(one: Any, other: Any) -> bool:
    """Whether two arrays of one owner overlap; what is no array does, as far as can be told."""
    arrays = loaded("numpy", "ndarray")
    if not (isinstance(one, arrays) and isinstance(other, arrays)):
        return True
    return bool(sys.modules["numpy"].may_share_memory(one, other))


def same_memory(one: Any, other: Any) -> bool:
    """Whether two arrays of numpy or pandas are the same place in memory."""
    if one is other:
        return True
    arrays = loaded("numpy", "ndarray")
    if isinstance(one, arrays) and isinstance(other, arrays):
        return bool(one.__array_interface__ == other.__array_interface__)
    if type(one) is not type(other) or not hasattr(one, "dtype") or one.dtype is not other.dtype:
        return False
    pairs = list(zip(arrays_inside(one), arrays_inside(other), strict=False))
    return bool(pairs) and all(same_memory(mine, its) for mine, its in pairs)


def frame_bytes(frame: Any) -> int:
    """The memory of a frame's columns, strings without their text."""
    return sum(int(getattr(block.values, "nbytes", 0)) for block in _blocks(frame))


def unshared_bytes(manager: Any, frame: Any) -> int:
    """The memory in bytes that ``manager``, a lazy copy of that of ``frame``, keeps for itself."""
    live = set[int]().union(*map(_owners, _blocks(frame)))
    blocks = (block for block in manager.blocks if live.isdisjoint(_owners(block)))
    return sum(int(getattr(block.values, "nbytes", 0)) for block in blocks)


def _owners(block: Any) -> set[int]:
    """The ids of the arrays that own the memory of a block."""
    return {id(owner(each)) for each in (block.values, *arrays_inside(block.values))}
