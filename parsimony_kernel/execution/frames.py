"""Summarise tables of any library within fixed size limits.

The cost hardly depends on the number of rows: only the first and last rows are read (missing values
are counted up to ``COUNTED_CELLS``), and a lazy frame is never collected. No library is imported to
recognise a value.
"""

import json
import reprlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any

from parsimony_kernel.core.outputs import ColumnSummary, DataFrameObject, Kind, Spellings
from parsimony_kernel.core.redaction import REDACTED
from parsimony_kernel.execution.inspection import attempt, comes_from, is_a, plain, type_name
from parsimony_kernel.lineage.classes import TABLES, is_missing, package_among
from parsimony_kernel.llm.secrets import is_secret

FULL_COLUMNS = 40
# Columns beyond FULL_COLUMNS are listed by name only.
NAMED_COLUMNS = 240
SAMPLES = 5
SAMPLE_ROWS = 200
CELL_CHARS = 60
# Tables up to this many rows are shown in full.
WHOLE_ROWS = 40
PREVIEW_ROWS = 10
LAST_ROWS = 5
PREVIEW_COLUMNS = 12
# Missing values are not counted in tables with more cells.
COUNTED_CELLS = 2_000_000
SPELLED_ROWS = 100_000
SPELLED_TEXTS = 1_000
MODEL_BYTES = 2048

_WORDS = {
    "string": "str",
    "boolean": "bool",
    "categorical": "category",
    "enum": "category",
    "duration": "timedelta64",
    "unknown": "object",
    "double": "float64",
    "float": "float32",
}


@dataclass(frozen=True)
class _Column:
    """A column: its label, its summary, and its values in the first and last rows."""

    label: str
    summary: ColumnSummary
    first: Sequence[Any] = ()
    last: Sequence[Any] = ()


@dataclass(frozen=True)
class _Head:
    """The summary of a table without its values, and its described columns with them."""

    table: DataFrameObject
    columns: Sequence[_Column]


def frame(value: Any, name: str | None = None, *, preview: bool = True) -> DataFrameObject | None:
    """Summarise a frame, a series or an index; ``None`` for anything else."""
    head = _head(value)
    if head is None:
        return None
    rows = _preview(head) if preview else {}
    sampled = (
        summary.model_copy(update={"samples": _samples(each.label, each.first)})
        for summary, each in zip(head.table.columns, head.columns, strict=True)
    )
    facts = {**dict(head.table), "name": name, "columns": tuple(sampled), **rows}
    return _within(DataFrameObject(**facts), MODEL_BYTES)


def is_frame(value: Any) -> bool:
    """Whether ``frame`` would summarise the value; a cheap check."""
    return comes_from(value, "pandas", "DataFrame", "Series", "Index") or bool(_library(value))


def is_plan(value: Any) -> bool:
    """Whether a value is a lazy table."""
    head = attempt(lambda: _head(value), lambda _: None)
    return head is not None and head.table.rows is None


def in_words(value: Any) -> str:
    """Describe a frame in one line: type, size and first columns."""
    table = frame(value, preview=False)
    if table is None:
        return f"<{type_name(value)}>"
    names = [each.name for each in table.columns[:5]]
    more = ", …" if table.column_count > len(names) else ""
    size = "" if table.rows is None else f"{table.rows:,} row{'s' * (table.rows != 1)}, "
    return f"<{table.library} {type_name(value)}, {size}columns: {', '.join(names)}{more}>"


def _library(value: Any) -> str:
    """Return the library of a table; empty for anything else, and for pandas."""
    return package_among(type(value), TABLES)


def cell(value: Any) -> str:
    """Format one value as text, at most 60 characters."""
    if value is None:
        return ""
    text = attempt(lambda: plain(_text(value)[: 4 * CELL_CHARS]), lambda _: f"<{type_name(value)}>")
    if type(value) is str and text != text.strip():
        text = repr(text)  # who compares with it needs all of it
    text = " ".join(text.split())
    return text if len(text) <= CELL_CHARS else text[: CELL_CHARS - 1] + "…"


def _text(value: Any) -> str:
    if is_a(value, str):
        return str.__str__(value)
    if is_a(value, float):
        digits = ".6g" if abs(value) < 10_000 else ".2f"
        return format(value, digits) if abs(value) < 1e15 and value != int(value) else str(value)
    if is_a(value, list, dict, tuple, set, bytes):
        return reprlib.repr(value)
    if is_frame(value):
        return in_words(value)
    return str(value).removesuffix(" 00:00:00")


def _head(value: Any) -> _Head | None:
    if comes_from(value, "pandas", "DataFrame"):
        return _of_pandas(value)
    if comes_from(value, "pandas", "Series"):
        name = value.name
        made = _of_pandas(value.to_frame(name="value" if name is None else name))
        return _as(made, kind="unnamed series" if name is None else "series")
    if comes_from(value, "pandas", "Index"):
        made = _of_pandas(sys.modules["pandas"].DataFrame(index=value), is_index_alone=True)
        return _as(made, kind="index")
    library = _library(value)
    head = _HEADS.get(library, _narwhals_head)(value) if library else None
    return None if head is None else _as(head, library=library)


def _as(head: _Head, **facts: Any) -> _Head:
    return replace(head, table=head.table.model_copy(update=facts))


def _excerpt(
    rows: int | None, columns: Sequence[_Column], names: Sequence[str], count: int
) -> _Head:
    """Build the head of a table from its first columns, the names of more, and their number."""
    table = DataFrameObject(
        rows=rows,
        columns=tuple(each.summary for each in columns),
        more_columns=tuple(map(_column_name, names[len(columns) :])),
        columns_left_out=count - len(names),
    )
    return _Head(table, columns)


def _plan(dtypes: Sequence[tuple[str, str]]) -> _Head:
    """Build the head of a lazy table from the names and dtypes of its columns."""
    columns = [
        _Column(name, ColumnSummary(name=_column_name(name), dtype=dtype))
        for name, dtype in dtypes[:FULL_COLUMNS]
    ]
    return _excerpt(None, columns, [name for name, _ in dtypes[:NAMED_COLUMNS]], len(dtypes))


def _column(label: str, first: Any, last: Any, missing: int | None, **facts: Any) -> _Column:
    """Describe a column by its first and last rows."""
    values = _read(first)
    word = attempt(lambda: _word(first.dtype), lambda _: "unreadable")
    summary = ColumnSummary(
        name=_column_name(label), dtype=_refined(word, values), missing=missing, **facts
    )
    return _Column(label, summary, values, _read(last))


def _of_pandas(table: Any, *, is_index_alone: bool = False) -> _Head:
    rows, is_counted = len(table), table.size <= COUNTED_CELLS
    first, last = table.head(SAMPLE_ROWS), table.tail(LAST_ROWS if rows > WHOLE_ROWS else 0)
    columns = list[_Column]()
    if is_index_alone or _says_something(table.index):
        for (label, level), (_, end) in zip(*map(_levels, (first.index, last.index)), strict=True):
            columns.append(_column(label, level, end, None, is_index=not is_index_alone))
    names = [*(each.label for each in columns), *map(_flat, table.columns[:NAMED_COLUMNS])]
    shown, count = names[len(columns) : FULL_COLUMNS], len(columns) + len(table.columns)
    missing = _null_counts(table.iloc[:, : len(shown)]) if is_counted else [None] * len(shown)
    for at, (label, nulls) in enumerate(zip(shown, missing, strict=True)):
        spellings = attempt(partial(_spellings, table.iloc[:, at]), lambda _: "unchecked")
        values = first.iloc[:, at], last.iloc[:, at]
        columns.append(_column(label, *values, nulls, spellings=spellings))
    return _excerpt(rows, columns, names[:NAMED_COLUMNS], count)


def _says_something(index: Any) -> bool:
    """Whether an index is informative: it has a name, or labels other than the row numbers."""
    is_range = comes_from(index, "pandas", "RangeIndex")
    return not is_range or (index.start, index.step, index.name) != (0, 1, None)


def _levels(index: Any) -> Iterator[tuple[str, Any]]:
    """Yield the levels of an index with their names."""
    # Drop the names to get levels by position: a name may be a number, or occur twice.
    bare = index.rename([None] * index.nlevels if index.nlevels > 1 else None)
    for level, name in enumerate(index.names):
        yield "index" if name is None else _flat(name), bare.get_level_values(level)


def _read(column: Any) -> list[Any]:
    """Return the values of a column, missing ones as ``None``; empty if it can't be read.

    One unreadable column does not hide the others.
    """
    return attempt(
        lambda: [None if is_missing(each) else each for each in column.to_list()], lambda _: []
    )


def _spellings(column: Any) -> Spellings:
    """Whether texts of a column are blank, or differ only in capitals or outer spaces."""
    if column.dtype.kind in "biufcmM":
        return ""
    texts = set[str]()
    for part in (column.iloc[: SPELLED_ROWS // 50], column.iloc[SPELLED_ROWS // 50 : SPELLED_ROWS]):
        # What is no text of Python's own may run code as it is hashed.
        texts.update(each for each in part.to_numpy() if type(each) is str)
        if len(column) > SPELLED_ROWS or len(texts) > SPELLED_TEXTS:
            return "unchecked"
    said = {each for each in texts if each.strip()}
    is_several = len({each.strip().casefold() for each in said}) < len(said)
    return "several" if is_several else "blank" if len(said) < len(texts) else ""


def _null_counts(table: Any) -> list[int | None]:
    return attempt(lambda: [*map(int, table.isna().sum())], lambda _: [None] * len(table.columns))


def _word(dtype: Any) -> str:
    """Return a dtype of pandas or narwhals as one word."""
    text = str(dtype).removesuffix("[pyarrow]").partition("(")[0].lower()
    if text.startswith("datetime"):
        zone = getattr(dtype, "tz", None) or getattr(dtype, "time_zone", None)
        return f"datetime64[{zone}]" if zone else "datetime64"
    if text.startswith("timedelta64"):
        return "timedelta64"
    return _WORDS.get(text, text[:CELL_CHARS])


def _refined(word: str, values: Iterable[Any]) -> str:
    """Refine a dtype: an object column that holds only strings is ``str``."""
    if word != "object":
        return word
    there = [each for each in values if each is not None]
    return "str" if there and all(type(each) is str for each in there) else "object"


def _outline(head: _Head | None) -> _Head | None:
    """Turn the head of an empty table into that of a lazy table with the same columns."""
    if head is None:
        return None
    columns = (each.model_copy(update={"missing": None}) for each in head.table.columns)
    return _as(head, rows=None, columns=tuple(columns))


def _narwhals_head(value: Any) -> _Head | None:
    import narwhals as nw

    native = nw.from_native(value, pass_through=True, allow_series=True)
    if isinstance(native, nw.Series):
        kind: Kind = "series" if native.name else "unnamed series"
        return _as(_of_narwhals(native.alias(native.name or "value").to_frame()), kind=kind)
    return _of_narwhals(native) if isinstance(native, nw.DataFrame | nw.LazyFrame) else None


def _arrow_head(value: Any) -> _Head | None:
    """Read what pyarrow has beside tables: arrays, batches, and what is read later."""
    arrow = sys.modules["pyarrow"]
    if not hasattr(value, "__len__"):  # it is read later
        schema = getattr(value, "projected_schema", None) or value.schema
        return _outline(_narwhals_head(schema.empty_table()))
    columns = [value] if is_a(value, arrow.Array, arrow.ChunkedArray) else None
    return _narwhals_head(arrow.table(columns or value, names=columns and ["value"]))


# Libraries that narwhals doesn't read directly. Nothing is computed: a lazy table gets the columns
# of its plan.
_HEADS: dict[str, Callable[[Any], _Head | None]] = {
    "dask": lambda value: _outline(_head(value._meta)),
    "ibis": lambda value: _narwhals_head(value.as_table()),
    "pyarrow": _arrow_head,
    "pyspark": lambda value: _plan(value.dtypes),
}


def _of_narwhals(native: Any) -> _Head:
    schema = native.collect_schema()
    if not hasattr(native, "shape"):  # it is computed later
        return _plan([(name, _word(dtype)) for name, dtype in schema.items()])
    rows, shown = native.shape[0], list(schema)[:FULL_COLUMNS]
    is_counted = rows * len(shown) <= COUNTED_CELLS
    first, last = native.head(SAMPLE_ROWS), native.tail(LAST_ROWS if rows > WHOLE_ROWS else 0)
    columns = list[_Column]()
    for each in shown:
        missing = attempt(native[each].null_count, lambda _: None) if is_counted else None
        columns.append(_column(each, first[each], last[each], missing))
    return _excerpt(rows, columns, list(schema)[:NAMED_COLUMNS], len(schema))


def _flat(label: Any) -> str:
    """Return a column label as text; the levels of a tuple are joined."""
    if isinstance(label, tuple):
        return " / ".join(each for each in map(_flat, label) if each)
    if is_a(label, str):
        return str.__str__(label)
    return cell(label) if label is not None else "None"


def _column_name(name: str) -> str:
    """Cap a column name. White space stays, since code needs the exact name."""
    text = plain(name[: CELL_CHARS + 1])
    return text if len(text) <= CELL_CHARS else text[: CELL_CHARS - 1] + "…"


def _cell_of(column: str, value: Any) -> str:
    """Format a value of a column; redact it if it looks secret."""
    text = cell(value)
    return REDACTED if is_secret(column, value if is_a(value, int, float) else text) else text


def _samples(label: str, values: Sequence[Any]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for value in values:
        if value is not None:
            found.setdefault(_cell_of(label, value))
            if len(found) == SAMPLES:
                break
    return tuple(found)


def _preview(head: _Head) -> dict[str, Any]:
    rows = head.table.rows
    shown = [] if rows is None else head.columns[:PREVIEW_COLUMNS]
    most = WHOLE_ROWS if (rows or 0) <= WHOLE_ROWS else PREVIEW_ROWS
    return {
        "preview_columns": tuple(cell(each.label) for each in shown),
        "preview": _rows((each.label, each.first[:most]) for each in shown),
        "last_rows": _rows((each.label, each.last) for each in shown),
    }


def _rows(columns: Iterable[tuple[str, Sequence[Any]]]) -> tuple[tuple[str, ...], ...]:
    """Format columns as rows of text; an unreadable column is empty."""
    told = ([_cell_of(label, each) for each in values] for label, values in columns)
    return tuple(zip_longest(*told, fillvalue=""))


def _size(table: DataFrameObject) -> int:
    return len(json.dumps(table.for_model(), ensure_ascii=False).encode())


def _within(table: DataFrameObject, budget: int) -> DataFrameObject:
    """Shrink a table to ``budget`` bytes in the model's form.

    Removes samples first, then full columns, then column names.
    """
    names = (*(each.name for each in table.columns), *table.more_columns)
    samples, full, named = SAMPLES, len(table.columns), len(names)
    # If some names are left out anyway, prefer keeping full columns to listing more names.
    spread = 2 if table.columns_left_out else len(names)
    while _size(table) > budget and named > 1:
        if samples:
            samples -= min(samples, 2)
        elif full > 1 and named <= spread * full:
            full -= max(1, full // 8)
        else:
            named -= max(1, named // 8)
        columns = [
            each.model_copy(update={"samples": each.samples[:samples]})
            for each in table.columns[:full]
        ]
        kept = {"columns": tuple(columns), "more_columns": names[full:named]}
        left_out = {"columns_left_out": table.column_count - named}
        table = table.model_copy(update=kept | left_out)
    return table
