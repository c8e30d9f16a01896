"""Who owns the memory of arrays and frames, and whether it is shared or written to."""

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from sys import getrefcount
from typing import Any

from parsimony_kernel.lineage.classes import is_frame, loaded
from parsimony_kernel.lineage.parts import MOST_BLOCKS, arrays_of_frame

_MOST_COMPARED = 32 * 2**10


def has_memory(kind: type) -> bool:
    """Whether a value of ``kind`` is an array or made of arrays."""
    arrays = loaded("numpy", "ndarray")
    return bool(arrays) and (issubclass(kind, (*arrays, memoryview)) or is_frame(kind))


def owners(value: Any) -> Sequence[int]:
    """The ids of what owns the memory of an array or a frame."""
    if not has_memory(type(value)):
        return ()
    arrays = arrays_of_frame(value) if is_frame(type(value)) else [value]
    return [id(owner(each)) for each in arrays]


def owner(value: Any) -> Any:
    """What owns the memory of an array."""
    arrays = loaded("numpy", "ndarray")
    value = value.obj if type(value) is memoryview else value
    while issubclass(type(value), arrays) and (base := value.base) is not None:
        value = base
    return value.obj if type(value) is memoryview else value


def contents_of(values: Iterable[Any]) -> Iterator[tuple[Callable[[], Any], bytes]]:
    """The small arrays that have the memory of the frames among ``values``, and their bytes."""
    for value in values:
        for array in map(owner, arrays_of_frame(value) if is_frame(type(value)) else ()):
            if (
                type(array) in loaded("numpy", "ndarray")
                and not array.dtype.hasobject
                and array.nbytes <= _MOST_COMPARED
            ):
                yield weakref.ref(array), array.tobytes()


def is_still(array: Any, content: bytes) -> bool:
    """Whether an array, if it is still there, has these bytes."""
    return array is not None and array.tobytes() == content


def shares_memory(value: Any, touched: Mapping[int, Any]) -> bool:
    """Whether two arrays of one owner overlap; what is no array does, as far as can be told."""
    arrays = loaded("numpy", "ndarray")
    if not issubclass(type(value), arrays):
        return True
    return any(
        not issubclass(type(each), arrays) or sys.modules["numpy"].may_share_memory(each, value)
        for each in touched.values()
        if not set(owners(each)).isdisjoint(owners(value))
    )


def may_share(value: Any) -> bool:
    """Whether something else may have the memory of an object that nothing else holds."""
    if not is_frame(type(value)):
        return has_memory(type(value)) and tuple(owners(value)) != (id(value),)
    blocks = value._mgr.blocks
    return len(blocks) > MOST_BLOCKS or not all(map(_is_own, blocks))


def _is_own(block: Any) -> bool:
    """Whether the array of a frame's block, if it is one, is nobody else's."""
    box, arrays = [block.values], loaded("numpy", "ndarray")
    if type(box[0]) not in arrays:
        return True
    while box[0] is not None:
        # One reference is that of the box, one that of the call, one the block's or the view's.
        if type(box[0]) not in arrays or getrefcount(box[0]) > 3:
            return False
        box[0] = box[0].base
    return True
