"""How arrays of numpy are copied and set back, and which arrays are one place in memory."""

import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

ARRAYS_INSIDE = ("_pa_array", "_ndarray", "_codes", "_data", "_mask", "_left", "_right")


def is_array(value: Any) -> bool:
    """Whether ``value`` is an array of numpy whose items are objects or hold none."""
    numpy = sys.modules.get("numpy")
    if numpy is None or type(value) is not numpy.ndarray:
        return False
    return value.dtype.kind == "O" or not value.dtype.hasobject


@dataclass(frozen=True)
class ArrayKind:
    def size(self, value: Any) -> int:
        return int(value.nbytes)

    def copy(self, value: Any) -> Any:
        return value.copy()

    def same(self, value: Any, held: Any) -> bool:
        return bool(
            value.shape == held.shape and value.dtype == held.dtype and _same_bytes(value, held)
        )

    def set_back(self, value: Any, held: Any) -> Any:
        if value.size == held.size and value.dtype == held.dtype and value.flags.writeable:
            if value.shape != held.shape:
                value.shape = held.shape
            value[...] = held
            return value
        return held.copy()

    def parts(self, held: Any) -> Collection[Any]:
        parts: Collection[Any] = held.ravel().tolist() if held.dtype.kind == "O" else ()
        return parts


ARRAY = ArrayKind()


def _same_bytes(one: Any, other: Any) -> bool:
    """Whether two arrays of one shape and type hold the same bytes; of objects, the same ones."""
    if one.flags.c_contiguous and other.flags.c_contiguous and one.dtype.kind != "O":
        return memoryview(one.reshape(-1).view("u1")) == memoryview(other.reshape(-1).view("u1"))
    return bool(one.tobytes() == other.tobytes())


def same_memory(one: Any, other: Any) -> bool:
    """Whether two arrays of numpy or pandas are the same place in memory."""
    if one is other:
        return True
    numpy = sys.modules["numpy"]
    if isinstance(one, numpy.ndarray) and isinstance(other, numpy.ndarray):
        return bool(one.__array_interface__ == other.__array_interface__)
    if type(one) is not type(other) or not hasattr(one, "dtype") or one.dtype is not other.dtype:
        return False
    inside = [name for name in ARRAYS_INSIDE if hasattr(one, name) and hasattr(other, name)]
    return bool(inside) and all(
        same_memory(getattr(one, name), getattr(other, name)) for name in inside
    )
