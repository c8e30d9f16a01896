"""How frames and series of polars are copied and set back.

Their columns are shared until one is written to, so that a copy takes no room, and a column whose
memory begins where it did has not changed.
"""

import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any


def is_polars(kind: type) -> bool:
    """Whether values of ``kind`` are frames or series of polars."""
    polars = sys.modules.get("polars")
    return polars is not None and kind in (polars.DataFrame, polars.Series)


@dataclass(frozen=True)
class PolarsKind:
    """A frame or a series."""

    def size(self, value: Any) -> int:
        return 0

    def copy(self, value: Any) -> Any:
        return value.clone()

    def same(self, value: Any, held: Any) -> bool:
        if value.shape != held.shape:
            return False
        one, other = _columns(value), _columns(held)
        return all(map(_same_series, one, other))

    def set_back(self, value: Any, held: Any) -> Any:
        inner = "_s" if type(value) is sys.modules["polars"].Series else "_df"
        setattr(value, inner, getattr(held.clone(), inner))
        return value

    def parts(self, held: Any) -> Collection[Any]:
        return ()


POLARS = PolarsKind()


def _columns(value: Any) -> list[Any]:
    return [value] if type(value) is sys.modules["polars"].Series else value.get_columns()


def _same_series(one: Any, other: Any) -> bool:
    if one.name != other.name or one.dtype != other.dtype:
        return False
    place = _place(one)
    return bool(place == _place(other) if place else one.equals(other))


def _place(series: Any) -> Any:
    """Where its values begin and end in memory, where they are plain and lie in one piece."""
    try:
        return series._get_buffer_info()
    except Exception:  # boundary: user object - polars tells of plain values in one piece only
        return None
