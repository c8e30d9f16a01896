"""Tables of any library, summarised within stated caps.

The cost does not depend on the number of rows: only the first ones are read, and a lazy frame is
never collected. Nothing is imported to find out what a value is.
"""

import json
import reprlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

from parsimony_kernel.core.outputs import ColumnSummary, DataFrameObject, Kind
from parsimony_kernel.core.redaction import REDACTED
from parsimony_kernel.execution.inspection import attempt, comes_from, is_a, plain, type_name
from parsimony_kernel.lineage.classes import TABLES, is_missing, package_among
from parsimony_kernel.llm.secrets import is_secret

FULL_COLUMNS = 40
# Of more columns only the names are told.
MORE_COLUMNS = 200
SAMPLES = 5
SAMPLE_ROWS = 200
CELL_CHARS = 60
# A table of at most so many rows is shown whole.
WHOLE_ROWS = 40
PREVIEW_ROWS = 10
LAST_ROWS = 5
PREVIEW_COLUMNS = 12
# In a table of more cells those that are missing are not counted.
COUNTED_CELLS = 2_000_000
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
    """A column: its values in the first and the last rows, and how many of all are missing."""

    label: str
    dtype: str
    values: Sequence[Any] = ()
    last: Sequence[Any] = ()
    missing: int | None = None
    is_index: bool = False


@dataclass(frozen=True)
class _Head:
    """A table in little: the first of its columns, the names of ``more``, and how many it has.

    ``rows`` is ``None`` for one that is computed later.
    """

    rows: int | None
    columns: Sequence[_Column]
    more: Sequence[str] = ()
    count: int = 1
    library: str = "pandas"
    kind: Kind = "table"


def frame(value: Any, name: str | None = None, *, preview: bool = True) -> DataFrameObject | None:
    """The summary of a frame, a series or an index; ``None`` for anything else."""
    head = _head(value)
    if head is None:
        return None
    table = DataFrameObject(
        name=name,
        library=head.library,
        kind=head.kind,
        rows=head.rows,
        columns=tuple(
            ColumnSummary(
                name=_column_name(each.label),
                dtype=each.dtype,
                samples=_samples(each),
                missing=each.missing,
                is_index=each.is_index,
            )
            for each in head.columns
        ),
        more_columns=tuple(map(_column_name, head.more)),
        columns_left_out=head.count - len(head.columns) - len(head.more),
        **(_preview(head) if preview else {}),
    )
    return _within(table, MODEL_BYTES)


def is_frame(value: Any) -> bool:
    """Whether ``frame`` would summarise it, asked cheaply."""
    return comes_from(value, "pandas", "DataFrame", "Series", "Index") or bool(_library(value))


def is_plan(value: Any) -> bool:
    """Whether it is a table that is computed later."""
    head = attempt(lambda: _head(value), lambda _: None)
    return head is not None and head.rows is None


def in_words(value: Any) -> str:
    """A frame within another value: its kind, its size and its first columns, in one line."""
    table = frame(value, preview=False)
    if table is None:
        return f"<{type_name(value)}>"
    names = [each.name for each in table.columns[:5]]
    more = ", …" if table.column_count > len(names) else ""
    size = "" if table.rows is None else f"{table.rows:,} row{'s' * (table.rows != 1)}, "
    return f"<{table.library} {type_name(value)}, {size}columns: {', '.join(names)}{more}>"


def _library(value: Any) -> str:
    """The library of a table beside those of pandas; empty for anything else."""
    return package_among(type(value), TABLES)


def cell(value: Any) -> str:
    """One value as text, at most 60 characters."""
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
        return _decimal(value) if abs(value) < 1e15 and value != int(value) else str(value)
    if is_a(value, list, dict, tuple, set, bytes):
        return reprlib.repr(value)
    if is_frame(value):
        return in_words(value)
    return str(value).removesuffix(" 00:00:00")


def _decimal(value: float) -> str:
    """Six digits, and of a large number all that stand before the point."""
    return format(value, ".6g" if abs(value) < 10_000 else ".2f")


def _head(value: Any) -> _Head | None:
    pandas: Any = sys.modules.get("pandas")
    if comes_from(value, "pandas", "DataFrame"):
        return _of_pandas(value)
    if comes_from(value, "pandas", "Series"):
        name = value.name
        made = _of_pandas(value.to_frame(name="value" if name is None else name))
        return replace(made, kind="unnamed series" if name is None else "series")
    if comes_from(value, "pandas", "Index"):
        return _of_pandas(pandas.DataFrame(index=value), is_index_alone=True)
    library = _library(value)
    head = _HEADS.get(library, _narwhals_head)(value) if library else None
    return None if head is None else replace(head, library=library)


def _column(label: str, first: Any, last: Any, missing: int | None) -> _Column:
    """A column by its first and its last rows."""
    values = _read(first)
    word = attempt(lambda: _word(first.dtype), lambda _: "unreadable")
    return _Column(label, _refined(word, values), values, _read(last), missing)


def _of_pandas(table: Any, *, is_index_alone: bool = False) -> _Head:
    rows, is_counted = len(table), table.size <= COUNTED_CELLS
    first, last = table.head(SAMPLE_ROWS), table.tail(LAST_ROWS if rows > WHOLE_ROWS else 0)
    columns = list[_Column]()
    if is_index_alone or _says_something(table.index):
        for (label, level), (_, end) in zip(*map(_levels, (first.index, last.index)), strict=True):
            made = _column(label, level, end, None)
            columns.append(replace(made, is_index=not is_index_alone))
    levels, labels = len(columns), [*map(_flat, table.columns[: FULL_COLUMNS + MORE_COLUMNS])]
    shown = labels[: FULL_COLUMNS - levels]
    missing = _null_counts(table.iloc[:, : len(shown)]) if is_counted else [None] * len(shown)
    for at, (label, count) in enumerate(zip(shown, missing, strict=True)):
        columns.append(_column(label, first.iloc[:, at], last.iloc[:, at], count))
    more = labels[len(columns) - levels :]
    return _Head(rows, columns, more[:MORE_COLUMNS], levels + len(table.columns))


def _says_something(index: Any) -> bool:
    """Whether an index has a name or labels, and so says what the rows are."""
    is_numbered = getattr(index.dtype, "kind", "") in "iu"
    return not is_numbered or any(each is not None for each in index.names)


def _levels(index: Any) -> Iterator[tuple[str, Any]]:
    """The levels of an index with their names."""
    # Without names a level is found by its position only; a name may be a number, or be there
    # twice.
    bare = index.rename([None] * index.nlevels if index.nlevels > 1 else None)
    for level, name in enumerate(index.names):
        yield "index" if name is None else _flat(name), bare.get_level_values(level)


def _read(column: Any) -> list[Any]:
    """The values of a column, missing ones as ``None``.

    Of one that cannot be read there are none: it hides no other.
    """
    return attempt(
        lambda: [None if is_missing(each) else each for each in column.to_list()], lambda _: []
    )


def _null_counts(table: Any) -> list[int | None]:
    return attempt(lambda: [*map(int, table.isna().sum())], lambda _: [None] * len(table.columns))


def _word(dtype: Any) -> str:
    """A type of pandas or narwhals in one word."""
    text = str(dtype).removesuffix("[pyarrow]").partition("(")[0].lower()
    if text.startswith("datetime"):
        zone = getattr(dtype, "tz", None) or getattr(dtype, "time_zone", None)
        return f"datetime64[{zone}]" if zone else "datetime64"
    if text.startswith("timedelta64"):
        return "timedelta64"
    return _WORDS.get(text, text[:CELL_CHARS])


def _refined(word: str, values: Iterable[Any]) -> str:
    """Object columns that hold only text are text."""
    if word != "object":
        return word
    there = [each for each in values if each is not None]
    return "str" if there and all(type(each) is str for each in there) else "object"


def _outline(head: _Head | None) -> _Head | None:
    """The columns of a table that is not computed, from an empty one with the same columns."""
    if head is None:
        return None
    columns = [replace(each, values=(), last=(), missing=None) for each in head.columns]
    return replace(head, rows=None, columns=columns)


def _narwhals_head(value: Any) -> _Head | None:
    import narwhals as nw

    native = nw.from_native(value, pass_through=True, allow_series=True)
    if isinstance(native, nw.Series):
        kind: Kind = "series" if native.name else "unnamed series"
        return replace(_of_narwhals(native.alias(native.name or "value").to_frame()), kind=kind)
    return _of_narwhals(native) if isinstance(native, nw.DataFrame | nw.LazyFrame) else None


def _arrow_head(value: Any) -> _Head | None:
    """Columns of one name are told apart by position: narwhals takes each name once."""
    import narwhals as nw

    arrow = sys.modules["pyarrow"]
    if not hasattr(value, "__len__"):  # it is read later
        schema = getattr(value, "projected_schema", None) or value.schema
        return _outline(_arrow_head(schema.empty_table()))
    if is_a(value, arrow.Array, arrow.ChunkedArray):
        value = arrow.table([value], names=["value"])
    elif is_a(value, arrow.RecordBatch):
        value = arrow.Table.from_batches([value])
    names = value.column_names
    native = nw.from_native(value.rename_columns([str(each) for each in range(len(names))]))
    return _of_narwhals(native, names)


def _spark_head(value: Any) -> _Head:
    columns = [_Column(name, dtype) for name, dtype in value.dtypes]
    more = [each.label for each in columns[FULL_COLUMNS:]]
    return _Head(None, columns[:FULL_COLUMNS], more[:MORE_COLUMNS], len(columns))


# Of what is read in another way than by narwhals. Nothing is computed: what is not there yet has
# the columns of the plan.
_HEADS: dict[str, Callable[[Any], _Head | None]] = {
    "dask": lambda value: _outline(_head(value._meta)),
    "ibis": lambda value: _narwhals_head(value.as_table()),
    "pyarrow": _arrow_head,
    "pyspark": _spark_head,
}


def _of_narwhals(native: Any, names: Sequence[str] = ()) -> _Head:
    """``names`` are those of the columns as the person knows them, where they are others."""
    schema = native.collect_schema()
    labels, more = list(names or schema), list(names or schema)[FULL_COLUMNS:][:MORE_COLUMNS]
    shown = list(zip(labels, schema, strict=True))[:FULL_COLUMNS]
    if not hasattr(native, "shape"):  # it is computed later
        plan = [_Column(label, _word(schema[each])) for label, each in shown]
        return _Head(None, plan, more, len(labels))
    rows = native.shape[0]
    is_counted = rows * len(shown) <= COUNTED_CELLS
    first, last = native.head(SAMPLE_ROWS), native.tail(LAST_ROWS if rows > WHOLE_ROWS else 0)
    columns = list[_Column]()
    for label, each in shown:
        missing = attempt(native[each].null_count, lambda _: None) if is_counted else None
        columns.append(_column(label, first[each], last[each], missing))
    return _Head(rows, columns, more, len(labels))


def _flat(label: Any) -> str:
    """A column's label as text; the levels of a tuple joined."""
    if isinstance(label, tuple):
        return " / ".join(each for each in map(_flat, label) if each)
    if is_a(label, str):
        return str.__str__(label)
    return cell(label) if label is not None else "None"


def _column_name(name: str) -> str:
    """White space stays, since who writes code with the name needs all of it."""
    text = plain(name[: CELL_CHARS + 1])
    return text if len(text) <= CELL_CHARS else text[: CELL_CHARS - 1] + "…"


def _cell_of(column: str, value: Any) -> str:
    """A value of a column as text, unless it is to be kept secret there."""
    text = cell(value)
    return REDACTED if is_secret(column, value if is_a(value, int, float) else text) else text


def _samples(column: _Column) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for value in column.values:
        if value is not None:
            found.setdefault(_cell_of(column.label, value))
            if len(found) == SAMPLES:
                break
    return tuple(found)


def _preview(head: _Head) -> dict[str, Any]:
    shown = head.columns[:PREVIEW_COLUMNS]
    first = WHOLE_ROWS if (head.rows or 0) <= WHOLE_ROWS else PREVIEW_ROWS
    return {
        "preview_columns": tuple(cell(each.label) for each in shown if head.rows is not None),
        "preview": _rows((each.label, each.values[:first]) for each in shown),
        "last_rows": _rows((each.label, each.last) for each in shown),
    }


def _rows(columns: Iterable[tuple[str, Sequence[Any]]]) -> tuple[tuple[str, ...], ...]:
    """Rows of text. A column that could not be read is empty."""
    told = ([_cell_of(label, each) for each in values] for label, values in columns)
    return tuple(zip_longest(*told, fillvalue=""))


def _size(table: DataFrameObject) -> int:
    return len(json.dumps(table.for_model(), ensure_ascii=False).encode())


def _within(table: DataFrameObject, budget: int) -> DataFrameObject:
    """Fewer samples, then fewer columns in full, then fewer names, until the model's form fits."""
    names = (*(each.name for each in table.columns), *table.more_columns)
    samples, full, named = SAMPLES, len(table.columns), len(names)
    # Where not all names are told anyway, some columns are told in full instead.
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
        table = table.model_copy(
            update={
                "columns": tuple(columns),
                "more_columns": names[full:named],
                "columns_left_out": table.column_count - named,
            }
        )
    return table
