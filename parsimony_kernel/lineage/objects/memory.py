"""Who owns the memory of arrays and frames, and whether it is shared or written to."""

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from sys import getrefcount
from typing import Any

from parsimony_kernel.lineage.objects.frames import MOST_BLOCKS, frames_of

_MOST_COMPARED = 32 * 2**10


def owners(value: Any) -> Sequence[int]:
    """The ids of what owns the memory of an array or a frame."""
    look = owners_of_kind(type(value))
    return look(value) if look is not None else ()


def owners_of_kind(kind: type) -> Callable[[Any], Sequence[int]] | None:
    """How the memory of a value of ``kind`` is told, ``None`` where it has none of its own."""
    numpy, pandas = sys.modules.get("numpy"), sys.modules.get("pandas")
    array = getattr(numpy, "ndarray", None)
    if array is None:
        return None
    if issubclass(kind, array):
        return lambda value: (_owner(value, array),)
    if kind is memoryview:
        return lambda value: (_owner(value.obj, array),)
    if pandas is not None and issubclass(kind, frames_of(pandas)):
        return lambda value: _of_blocks(value, array)
    return None


def _of_blocks(value: Any, array: type) -> list[int]:
    return [
        _owner(held, array)
        for block in value._mgr.blocks[:MOST_BLOCKS]
        if type(held := block.values) is array
    ]


def _owner(value: Any, array: type) -> int:
    while issubclass(type(value), array) and (base := value.base) is not None:
        value = base
    return id(value.obj if type(value) is memoryview else value)


def contents_of(values: Iterable[Any]) -> Iterator[tuple[Callable[[], Any], bytes]]:
    """The small arrays that have the memory of the frames among ``values``, and their bytes."""
    pandas, numpy = sys.modules.get("pandas"), sys.modules.get("numpy")
    frames = frames_of(pandas) if pandas is not None else ()
    for value in values:
        if numpy is None or not issubclass(type(value), frames):
            continue
        for block in value._mgr.blocks[:MOST_BLOCKS]:
            array = block.values
            while type(array) is numpy.ndarray and type(array.base) is numpy.ndarray:
                array = array.base
            if (
                type(array) is numpy.ndarray
                and array.base is None
                and not array.dtype.hasobject
                and array.nbytes <= _MOST_COMPARED
            ):
                yield weakref.ref(array), array.tobytes()


def is_still(array: Any, content: bytes) -> bool:
    """Whether an array, if it is still there, has these bytes."""
    return array is not None and array.tobytes() == content


def shares_memory(value: Any, touched: Mapping[int, Any]) -> bool:
    """Whether two arrays of one owner overlap; what is no array does, as far as can be told."""
    numpy = sys.modules["numpy"]
    if not issubclass(type(value), numpy.ndarray):
        return True
    return any(
        not issubclass(type(each), numpy.ndarray) or numpy.may_share_memory(each, value)
        for each in touched.values()
        if not set(owners(each)).isdisjoint(owners(value))
    )


def may_share(value: Any) -> bool:
    """Whether something else may have the memory of an object that nothing else holds."""
    look = owners_of_kind(type(value))
    if look is None:
        return False
    if not issubclass(type(value), frames_of(sys.modules.get("pandas"))):
        return tuple(look(value)) != (id(value),)
    blocks = value._mgr.blocks
    return len(blocks) > MOST_BLOCKS or not all(map(_is_own, blocks))


def _is_own(block: Any) -> bool:
    """Whether the array of a frame's block, if it is one, is nobody else's."""
    box = [block.values]
    array = sys.modules["numpy"].ndarray
    if type(box[0]) is not array:
        return True
    while box[0] is not None:
        # One reference is that of the box, one that of the call, one the block's or the view's.
        if type(box[0]) is not array or getrefcount(box[0]) > 3:
            return False
        box[0] = box[0].base
    return True
