"""The memory buffers of arrays and frames, and who shares them. Nothing is copied."""

import sys
from collections.abc import Iterable
from sys import getrefcount
from typing import Any

from parsimony_kernel.lineage.classes import attributes_of, copies_lazily, is_frame, loaded

_MOST_BLOCKS = 64
_INSIDE = (
    "_pa_array", "_ndarray", "_codes", "_data", "_mask", "_left", "_right", "_sparse_values",
    "_sparse_index",
)  # fmt: skip


def is_array(value: Any) -> bool:
    """Return whether ``value`` is a NumPy array, and not of a subclass."""
    return any(type(value) is each for each in loaded("numpy", "ndarray"))


def plain_array(value: Any) -> Any:
    """Return a view of an array, perhaps of a subclass, as a plain NumPy array."""
    plain = sys.modules["numpy"].ndarray
    return plain.view(value, plain)


def arrays_inside(value: Any) -> Iterable[Any]:
    """Return the arrays inside a pandas extension array."""
    return (each for name in _INSIDE if (each := getattr(value, name, None)) is not None)


def has_memory(kind: type) -> bool:
    """Return whether values of ``kind`` are pandas frames, NumPy arrays or memoryviews."""
    arrays = loaded("numpy", "ndarray")
    return bool(arrays) and (is_frame(kind) or issubclass(kind, (*arrays, memoryview)))


def _blocks(frame: Any) -> Any:
    return attributes_of(frame)["_mgr"].blocks


def arrays_of(value: Any) -> list[Any] | None:
    """Return the arrays that hold a value's data, ``None`` if it is no frame or array."""
    kind = type(value)
    if not is_frame(kind):
        return [value] if has_memory(kind) else None
    plain = sys.modules["numpy"].ndarray
    blocks = _blocks(value)[:_MOST_BLOCKS]
    return [block.values for block in blocks if type(block.values) is plain]


def blocks_of(value: Any) -> list[tuple[Any, int]]:
    """Return the arrays that hold a value's data, each with the id of its reference record.

    In this record, pandas with copy-on-write tracks which frames share a block; 0 if none.
    """
    records: dict[int, int] = {}
    if is_frame(type(value)) and copies_lazily():
        records = {id(block.values): id(block.refs) for block in _blocks(value)[:_MOST_BLOCKS]}
    return [(array, records.get(id(array), 0)) for array in arrays_of(value) or ()]


def is_alone(value: Any) -> bool:
    """Return whether no other array or frame shares the memory of ``value``.

    Decided by reference counts: a view holds the owner of its memory, and pandas tracks which
    frames share a block.
    """
    if not is_frame(type(value)):
        return is_array(value) and _is_seen_by_none(value)
    for block in _blocks(value):
        if block.refs.has_reference():
            return False
        # One reference is held by the block, one by the call.
        is_plain = is_array(block.values)
        if is_plain and (getrefcount(block.values) > 2 or not _is_seen_by_none(block.values)):
            return False
    return copies_lazily()


def _is_seen_by_none(array: Any) -> bool:
    """Return whether nothing but ``array`` holds the owner of its memory."""
    while (base := array.base) is not None:
        # One reference is held by the view, one by this name, one by the call.
        if not is_array(base) or getrefcount(base) > 3:
            return False
        array = base
    return True


def owner(value: Any) -> Any:
    """Return the object that owns the memory of an array or a memoryview."""
    arrays = loaded("numpy", "ndarray")
    value = value.obj if type(value) is memoryview else value
    while isinstance(value, arrays) and (base := value.base) is not None:
        value = base
    return value.obj if type(value) is memoryview else value


def overlap(one: Any, other: Any) -> bool:
    """Return whether two arrays with the same owner may overlap; true if either is no array."""
    arrays = loaded("numpy", "ndarray")
    if not (isinstance(one, arrays) and isinstance(other, arrays)):
        return True
    return bool(sys.modules["numpy"].may_share_memory(one, other))


def same_memory(one: Any, other: Any) -> bool:
    """Return whether two NumPy or pandas arrays are the same view of the same memory."""
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
    """Return the memory of a frame's columns in bytes, without the text of Python strings."""
    return sum(int(getattr(block.values, "nbytes", 0)) for block in _blocks(frame))


def unshared_bytes(manager: Any, frame: Any) -> int:
    """Return the bytes that ``manager``, a lazy copy of the one of ``frame``, doesn't share."""
    live = set[int]().union(*map(_owners, _blocks(frame)))
    blocks = (block for block in manager.blocks if live.isdisjoint(_owners(block)))
    return sum(int(getattr(block.values, "nbytes", 0)) for block in blocks)


def _owners(block: Any) -> set[int]:
    """Return the ids of the objects that own the memory of a block."""
    return {id(owner(each)) for each in (block.values, *arrays_inside(block.values))}
