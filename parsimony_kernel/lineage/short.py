"""Values in a few words. No code of a value's own class is run, however it was made."""

import datetime
import decimal
import fractions
import sys
import uuid
from typing import Any

from parsimony_kernel.lineage.classes import is_frame
from parsimony_kernel.lineage.kinds.atoms import is_missing, is_scalar_of_pandas
from parsimony_kernel.lineage.kinds.frames import frame_shape

MOST_CHARS = 60
# Longer numbers are not written out.
_MOST_BITS = 512
_WRITTEN = frozenset(
    {
        bool, int, float, complex, str, bytes, type(None), range, datetime.date, datetime.datetime,
        datetime.time, datetime.timedelta, decimal.Decimal, fractions.Fraction, uuid.UUID,
    }
)  # fmt: skip
_SIZED = frozenset({list, tuple, dict, set, frozenset, bytearray})
_name_of = type.__dict__["__name__"].__get__


def short(value: Any) -> str:
    """``value`` in at most sixty characters."""
    kind = type(value)
    try:
        return cut(_told(value, kind))
    except Exception:  # boundary: user object - what it answers may be anything
        return cut(str(_name_of(kind)))


def cut(text: str) -> str:
    """``text``, shortened where it is too long."""
    return text if len(text) <= MOST_CHARS else text[: MOST_CHARS - 1] + "…"


def _told(value: Any, kind: type) -> str:
    if is_missing(value) and value is not None:
        return "missing"
    if kind is int and value.bit_length() > _MOST_BITS:
        return f"a number of {value.bit_length():,} bits"
    if kind in (str, bytes):
        return repr(value[: MOST_CHARS + 1])
    if kind in _WRITTEN:
        return repr(value)
    if kind in _SIZED:
        return f"{_name_of(kind)} of {len(value):,}"
    if is_frame(kind):
        return f"{_name_of(kind)}, {' × '.join(f'{each:,}' for each in frame_shape(value))}"
    numpy = sys.modules.get("numpy")
    if numpy is not None and kind is numpy.ndarray:
        size = " × ".join(f"{each:,}" for each in value.shape)
        return f"array of {value.dtype.name}, {size or 'one value'}"
    if numpy is not None and issubclass(kind, numpy.generic) and kind.__module__ == "numpy":
        return short(value.item()) if kind is not type(value.item()) else str(_name_of(kind))
    if is_scalar_of_pandas(kind):
        return str(value)
    if kind.__module__.partition(".")[0] in ("polars", "pyarrow") and hasattr(kind, "shape"):
        return f"{_name_of(kind)}, {' × '.join(f'{each:,}' for each in value.shape)}"
    if issubclass(kind, type):
        return f"class {_name_of(value)}"
    return str(_name_of(kind))
