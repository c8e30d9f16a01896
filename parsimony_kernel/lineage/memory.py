"""Who owns the memory of arrays and frames, and whether it is shared or written to."""

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from sys import getrefcount
from typing import Any

from parsimony_kernel.lineage.classes import is_frame, loaded
from parsimony_kernel.lineage.parts import MOST_BLOCKS, arrays_of_frame

_MOST_COMPARED = 32 * 2**10


def owners(value: Any) -> Sequence[int]:
    """The ids of what owns the memory of an array or a frame."""
    look = owners_of_kind(type(value))
    return look(value) if look is not None else ()


def owners_of_kind(kind: type) -> Callable[[Any], Sequence[int]] | None:
    """How the memory of a value of ``kind`` is told, ``None`` where it has none of its own."""
    for array in loaded("numpy", "ndarray"):
        if is_frame(kind):
            return lambda value: [
                id(owner(held, array))
                for block in value._mgr.blocks[:MOST_BLOCKS]
                if type(held := block.values) is array
            ]
        if issubclass(kind, (array, memoryview)):
            return lambda value: (id(owner(value, array)),)
    return None


def owner(value: Any, array: Any) -> Any:
    """What owns the memory of an array; ``array`` is the class of those."""
    value = value.obj if type(value) is memoryview else value
    while issubclass(type(value), array) and (base := value.base) is not None:
        value = base
    return value.obj if type(value) is memoryview else value


def contents_of(values: Iterable[Any]) -> Iterator[tuple[Callable[[], Any], bytes]]:
    """The small arrays that have the memory of the frames among ``values``, and their bytes."""
    for array in loaded("numpy", "ndarray"):
        for held in (each for value in values for each in arrays_of_frame(value, array)):
            own = owner(held, array)
            if type(own) is array and not own.dtype.hasobject and own.nbytes <= _MOST_COMPARED:
                yield weakref.ref(own), own.tobytes()


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
        return owners_of_kind(type(value)) is not None and tuple(owners(value)) != (id(value),)
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
