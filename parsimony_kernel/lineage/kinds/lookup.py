"""Of which kind an object is, and what a copy of it takes."""

import sys
from collections import deque
from itertools import islice
from types import FunctionType
from typing import Any

from parsimony_kernel.lineage.classes import is_frame, is_theirs
from parsimony_kernel.lineage.kinds.atoms import ATOMS, is_atomic
from parsimony_kernel.lineage.kinds.frames import FRAME, POLARS, frame_bytes, is_polars
from parsimony_kernel.lineage.kinds.instances import CLASS, InstanceKind, instance_kind
from parsimony_kernel.lineage.kinds.plain import ARRAY, BY_TYPE, TUPLE, Kind, is_array, is_bound

_SAMPLED = 50
_DEEPEST = 3
COMMON = frozenset({list, dict, tuple, set, deque})


def kind_of(value: Any) -> Kind | None:
    """How ``value`` is copied; ``None`` for an object that is not."""
    kind: Any = type(value)
    if (known := BY_TYPE.get(kind)) is not None:
        return known
    if issubclass(kind, type):
        return CLASS if is_theirs(value) else None
    if issubclass(kind, tuple) and not kind.__dictoffset__:
        return TUPLE
    if is_frame(kind):
        return FRAME
    if is_polars(kind):
        return POLARS
    if is_array(value) and (value.dtype.kind == "O" or not value.dtype.hasobject):
        return ARRAY
    return instance_kind(kind)


def holds_objects(value: Any) -> bool:
    """Whether ``value`` is an instance of a class, or a container with one among the first of
    what it holds: what a method may change that the text of the code does not name."""
    level = [value]
    for _ in range(_DEEPEST):
        deeper: list[Any] = []
        for each in level:
            kind = None if type(each) in ATOMS else kind_of(each)
            if isinstance(kind, InstanceKind) and not is_atomic(each):
                return True
            if type(each) in COMMON:
                deeper += islice(each.values() if isinstance(each, dict) else each, _SAMPLED)
        level = deeper[:_SAMPLED]
    return False


def bytes_of(value: Any) -> int:
    """About how much memory ``value`` itself takes; no code of its own is asked."""
    kind = type(value)
    if is_frame(kind):
        return frame_bytes(value)
    if is_array(value):
        return int(value.nbytes)
    return sys.getsizeof(value) if kind in BY_TYPE or kind in ATOMS else 64


def is_opaque(value: Any) -> bool:
    """Whether ``value`` may change in ways that nobody sees: an object of a library, or what holds
    one as the variables around a function do."""
    if is_atomic(value):
        return False
    if type(value) is FunctionType:
        return bool(value.__closure__)
    kind = kind_of(value)
    return kind is None or kind is POLARS or is_of_library(kind) or is_bound(value)


def is_of_library(kind: Kind | None) -> bool:
    """Whether a kind is that of instances of a class that is not the notebook's."""
    return isinstance(kind, InstanceKind) and kind.own is None
