"""Tables as people read them: ten rows at most, and one format for each column."""

import math
import re
from collections.abc import Sequence

from parsimony_kernel.core.outputs import DataFrameObject
from parsimony_kernel.core.text import counted
from parsimony_kernel.view.parts import Mono, Sentence, Table
from parsimony_kernel.view.run_view import ARGUMENT_CHARS, cut, cut_each

ROWS = 10
COLUMNS = 40

_NUMBER = re.compile(r"-?\d+(?:\.(\d+))?(?:e[+-]?\d+)?\Z", re.ASCII)
_OF_NUMBERS = re.compile(r"u?int|float|decimal|number", re.IGNORECASE)
_MISSING = frozenset({"", "nan", "NaN", "<NA>", "None", "NaT"})
# Whole numbers that name something are not grouped: 98101 is no amount.
_IDENTIFIER = re.compile(r"(?:\b|_)(?:ids?|years?|zip|postcode|code|phone)\Z", re.IGNORECASE)
_GROUPED_FROM = 10_000
_MOST_DECIMALS = 6


def table_of(frame: DataFrameObject, *, is_captioned: bool = True) -> Table:
    """``frame`` as a table; one without a preview as a list of its columns."""
    rows = "rows not counted" if frame.rows is None else counted(frame.rows, "row")
    size = f"{rows}, {counted(frame.column_count, 'column')}"
    name = cut(frame.name or "", ARGUMENT_CHARS)
    caption: Sentence = (Mono(name), f": {size}") if name else (size,)
    if not frame.preview_columns:
        listed = frame.columns[:COLUMNS]
        told = tuple(cut_each((each.name, each.dtype, ", ".join(each.samples))) for each in listed)
        head = ("column", "type", "for example")
        more = _more(0, frame.column_count - len(listed))
        return Table(caption, head, told, (False,) * 3, more, is_captioned)
    names = frame.preview_columns[:COLUMNS]
    shown = [cut_each(row[: len(names)]) for row in frame.preview[:ROWS]]
    shown = [(*row, *("",) * (len(names) - len(row))) for row in shown]
    dtypes = {column.name: column.dtype for column in frame.columns}
    columns = [
        format_column(name, dtypes.get(name, ""), cells)
        for name, cells in zip(names, zip(*shown, strict=True), strict=False)
    ]
    return Table(
        caption,
        cut_each(names),
        tuple(zip(*(cells for cells, _ in columns), strict=True)),
        tuple(is_numeric for _, is_numeric in columns) or (False,) * len(names),
        _more((frame.rows or len(shown)) - len(shown), frame.column_count - len(names)),
        is_captioned,
    )


def _more(rows: int, columns: int) -> str:
    left_out = [(rows, "more row"), (columns, "more column")]
    told = ", ".join(counted(number, noun) for number, noun in left_out if number > 0)
    return told and f"… {told}"


def format_column(name: str, dtype: str, cells: Sequence[str]) -> tuple[list[str], bool]:
    """The cells of one column in one format, and whether they are numbers.

    Amounts have as many decimals as tell them apart, the same for all; whole numbers have none,
    also where some are missing. What is text stays as it is.
    """
    known = [cell for cell in cells if cell not in _MISSING]
    matches = [_NUMBER.match(cell) for cell in known]
    if not known or not all(matches):
        return list(cells), False
    if not _OF_NUMBERS.match(dtype):
        return list(cells), True
    values = [float(cell) for cell in known]
    if not all(map(math.isfinite, values)):
        return list(cells), True
    written = max(len(match[1] or "") for match in matches if match)
    has_exponent = any("e" in cell for cell in known)
    decimals = _decimals(values, 99 if has_exponent else written)
    is_whole = all(value == int(value) for value in values)
    groups = not is_whole or (
        max(map(abs, values)) >= _GROUPED_FROM and not _IDENTIFIER.search(name)
    )
    form = f"{',' if groups else ''}.{decimals}f"
    return ["–" if cell in _MISSING else format(float(cell), form) for cell in cells], True


def _decimals(values: Sequence[float], written: int) -> int:
    """How many decimals tell ``values`` apart, which are ``written`` with so many."""
    largest = max(map(abs, values))
    if all(value == int(value) for value in values):
        return 0
    if written <= 2:
        return written
    decimals = 0 if largest >= 1000 else 1 if largest >= 100 else 2 if largest >= 1 else 3
    while decimals < _MOST_DECIMALS and any(v and not round(v, decimals) for v in values):
        decimals += 1
    return decimals
