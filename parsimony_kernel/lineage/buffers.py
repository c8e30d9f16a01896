"""The memory buffers of arrays and frames, and who shares them. Nothing is copied."""

import sys
from collections.abc import Iterable
from sys import getrefcount
from typing import Any

from parsimony_kernel.lineage import classes
from parsimony_kernel.lineage.classes import copies_lazily, is_frame, loaded

_MOST_BLOCKS = 64
_INSIDE = classes.FACTS["arrays"]["inside"].split()


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
    return classes.attributes_of(frame)["_mgr"].blocks


def blocks_of(value: Any) -> list[tuple[Any, int]]:
    """Return the arrays that hold a value's data, each with the id of its reference record.

    In this record, pandas with copy-on-write tracks which frames share a block; 0 if none.
    """
    kind = type(value)
    if not is_frame(kind):
        return [(value, 0)] if has_memory(kind) else []
    is_lazy, blocks = copies_lazily(), _blocks(value)[:_MOST_BLOCKS]
    return [(b.values, id(b.refs) if is_lazy else 0) for b in blocks if is_array(b.values)]


def is_alone(value: Any) -> bool:
    """Return whether no other array or frame shares the memory of ``value``.

    Decided by reference counts: a view holds the owner of its memory, and pandas tracks which
    frames share a block.
    """
    if not is_frame(type(value)):
        return is_array(value) and _is_seen_by_none(value)
    return copies_lazily() and not any(
        block.refs.has_reference()
        # One reference is held by the block, one by the call.
        or (is_array(block.values) and getrefcount(block.values) > 2)
        or (is_array(block.values) and not _is_seen_by_none(block.values))
        for block in _blocks(value)
    )


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


def frame_bytes(frame: Any) -> int:
    """Return the memory of a frame's columns in bytes, without the text of Python strings."""
    return _bytes_of(_blocks(frame))


def unshared_bytes(manager: Any, frame: Any) -> int:
    """Return the bytes that ``manager``, a lazy copy of the one of ``frame``, doesn't share."""
    live = {id(block.refs) for block in _blocks(frame)}
    return _bytes_of(block for block in manager.blocks if id(block.refs) not in live)


def _bytes_of(blocks: Iterable[Any]) -> int:
    return sum(int(getattr(block.values, "nbytes", 0)) for block in blocks)
