"""The columns of a frame as it is bound now.

Reads names, types and lengths, never rows.
"""

import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Frame:
    """The column names of a table; ``levels`` are the names of its index, ``rows`` its length."""

    columns: Any
    levels: frozenset[str]
    depth: int
    rows: int
    identity: int

    def has(self, column: str, *, or_level: bool) -> bool:
        """Whether ``column`` is one, or, where the call takes them, names a level of the index."""
        return column in self.columns or (or_level and column in self.levels)

    def names(self) -> list[str]:
        """The names that are text."""
        return list(dict.fromkeys(each for each in self.columns if isinstance(each, str)))


def frame_of(value: Any) -> Frame | None:
    """The columns of a frame of pandas or polars; ``None`` for anything that is not plainly one."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and type(value) is getattr(pandas, "DataFrame", None):
        # Dates and tuples as labels are looked up by rules of their own.
        if type(value.columns) is not pandas.Index:
            return None
        levels = frozenset(each for each in value.index.names if isinstance(each, str))
        return Frame(value.columns, levels, value.index.nlevels, len(value), id(value))
    if polars is not None and type(value) is getattr(polars, "DataFrame", None):
        return Frame(tuple(value.columns), frozenset(), 1, len(value), id(value))
    return None
