"""Of which kind an object is, and what a copy of it takes."""

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from types import CellType, FunctionType, SimpleNamespace
from typing import Any

from parsimony_kernel.lineage.kinds.arrays import ARRAY, is_array
from parsimony_kernel.lineage.kinds.atoms import ATOMS, is_atomic
from parsimony_kernel.lineage.kinds.callables import BOUND, BOUND_TYPES, CELL, FUNCTION, is_bound
from parsimony_kernel.lineage.kinds.containers import BYTES, MAPPING, SEQUENCE, SET, TUPLE
from parsimony_kernel.lineage.kinds.frames import FRAME, frame_bytes, is_frame
from parsimony_kernel.lineage.kinds.instances import CLASS, EXTENDED, INSTANCE
from parsimony_kernel.lineage.kinds.kind import Kind

# An object of more than this is not copied: its copy would hold up the cell.
MOST_CONTAINER_BYTES = 16 * 2**20
MOST_ARRAY_BYTES = 64 * 2**20
_MAPPINGS = (dict, OrderedDict, defaultdict, Counter)
_BY_TYPE: dict[type, Kind] = {
    **dict.fromkeys((list, deque), SEQUENCE),
    **dict.fromkeys(_MAPPINGS, MAPPING),
    set: SET,
    bytearray: BYTES,
    tuple: TUPLE,
    **dict.fromkeys(BOUND_TYPES, BOUND),
    FunctionType: FUNCTION,
    CellType: CELL,
    SimpleNamespace: INSTANCE,
}


def kind_of(value: Any) -> Kind | None:
    """How ``value`` is copied; ``None`` for an object that is not."""
    kind = type(value)
    if (known := _BY_TYPE.get(kind)) is not None:
        return known
    if issubclass(kind, tuple):
        return TUPLE
    if is_frame(kind):
        return FRAME
    if is_array(value):
        return ARRAY
    if kind is type:
        return CLASS if value.__module__ == "__main__" else None
    if _is_plain(kind):
        return INSTANCE
    own = next((each for each in kind.__mro__ if each.__module__ != "__main__"), object)
    extended = EXTENDED.get(own)
    return extended if extended is not None and _is_theirs(kind, own) else None


def _is_plain(kind: type) -> bool:
    """Whether all that its instances hold are attributes: classes of the notebook, without
    slots, that derive from nothing else."""
    return bool(kind.__dictoffset__) and all(
        each is object or (each.__module__ == "__main__" and "__slots__" not in vars(each))
        for each in kind.__mro__
    )


def _is_theirs(kind: type, own: type) -> bool:
    """Whether ``kind`` is a class of the notebook that adds attributes to ``own``, no more."""
    return all(each.__module__ == "__main__" or each in (own, object) for each in kind.__mro__)


def bytes_of(value: Any) -> int:
    """About how much memory ``value`` itself takes; no code of its own is asked."""
    kind = type(value)
    if is_frame(kind):
        return frame_bytes(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and kind is numpy.ndarray:
        return int(value.nbytes)
    return sys.getsizeof(value) if kind in _BY_TYPE or kind in ATOMS else 64


def is_opaque(value: Any) -> bool:
    """Whether ``value`` may hold what changes and cannot be looked into, as the variables around
    a function when it is called."""
    if type(value) is FunctionType:
        cells = value.__closure__ or ()
        return not is_atomic(value) and bool(cells)
    return is_bound(value) or (kind_of(value) is None and not is_atomic(value))


def most_bytes(kind: Kind) -> int:
    """The most that one object of a kind may take to be copied."""
    return MOST_ARRAY_BYTES if kind in (ARRAY, FRAME) else MOST_CONTAINER_BYTES
