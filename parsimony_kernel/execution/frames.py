"""Tables of any library, summarised within stated caps.

The cost does not depend on the number of rows: only the first ones are read, and a lazy frame is
never collected. Nothing is imported to find out what a value is.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from parsimony_kernel.execution.inspection import (
    attempt,
    class_package,
    comes_from,
    is_a,
    plain,
    type_name,
)
from parsimony_kernel.execution.outputs import ColumnSummary, DataFrameObject

FULL_COLUMNS = 40
NAMED_COLUMNS = 240
SAMPLES = 5
SAMPLE_ROWS = 200
CELL_CHARS = 60
PREVIEW_ROWS = 10
PREVIEW_COLUMNS = 12
MODEL_BYTES = 2048

# Packages whose frames narwhals reads. Asked by the name of the value's module.
_NARWHALS = frozenset(
    {"polars", "pyarrow", "modin", "cudf", "dask", "duckdb", "ibis", "pyspark", "sqlframe"}
)

_WORDS = {
    "string": "str",
    "str": "str",
    "boolean": "bool",
    "categorical": "category",
    "enum": "category",
    "duration": "timedelta64",
    "unknown": "object",
}


@dataclass(frozen=True)
class _Head:
    """The first rows of a table, as plain values.

    ``names`` may be the first of ``count`` columns, ``dtypes`` and ``values`` of ``names``.
    """

    library: str
    rows: int | None
    count: int
    names: Sequence[str]
    dtypes: Sequence[str]
    values: Sequence[Sequence[Any]] = field(default_factory=tuple)


def frame(value: Any, name: str | None = None, *, preview: bool = True) -> DataFrameObject | None:
    """The summary of a frame, a series or an index; ``None`` for anything else."""
    head = _head(value)
    if head is None:
        return None
    table = DataFrameObject(
        name=name,
        library=head.library,
        rows=head.rows,
        columns=tuple(
            ColumnSummary(
                name=cell(column),
                dtype=dtype,
                samples=_samples(head.values[position]) if head.values else (),
            )
            for position, (column, dtype) in enumerate(zip(head.names, head.dtypes, strict=False))
        ),
        more_columns=tuple(cell(each) for each in head.names[FULL_COLUMNS:]),
        columns_left_out=head.count - len(head.names),
        **(_preview(head) if preview else {}),
    )
    return _within(table, MODEL_BYTES)


def is_frame(value: Any) -> bool:
    """Whether ``frame`` would summarise it, asked cheaply."""
    if comes_from(value, "pandas", "DataFrame", "Series", "Index"):
        return True
    return class_package(type(value)) in _NARWHALS and type_name(value) in (
        "DataFrame", "LazyFrame", "Series", "Table", "DuckDBPyRelation",
    )  # fmt: skip


def cell(value: Any) -> str:
    """One value as text, at most 60 characters."""
    if value is None:
        return ""
    text = attempt(lambda: plain(_text(value)), lambda _: f"<{type_name(value)}>")
    text = " ".join(text[: 4 * CELL_CHARS].split())
    return text if len(text) <= CELL_CHARS else text[: CELL_CHARS - 1] + "…"


def _text(value: Any) -> str:
    if type(value) is str:
        return value
    if is_a(value, float):
        return format(value, ".6g") if abs(value) < 1e15 and value != int(value) else str(value)
    if is_a(value, list, dict, tuple, set, bytes):
        import reprlib

        return reprlib.repr(value)
    text = str(value)
    return text.removesuffix(" 00:00:00")


def _head(value: Any) -> _Head | None:
    pandas = sys.modules.get("pandas")
    if comes_from(value, "pandas", "DataFrame"):
        return _pandas_head(pandas, value.head(SAMPLE_ROWS), len(value))
    if comes_from(value, "pandas", "Series"):
        head = value.head(SAMPLE_ROWS)
        title = "value" if value.name is None else value.name
        return _pandas_head(pandas, head.to_frame(name=title), len(value))
    if comes_from(value, "pandas", "Index"):
        head = value[:SAMPLE_ROWS].to_frame(index=False)
        return _pandas_head(pandas, head, len(value))
    return _narwhals_head(value) if is_frame(value) else None


def _pandas_head(pandas: Any, head: Any, rows: int) -> _Head:
    index, count = head.index, len(head.columns)
    names = [_flat(each) for each in head.columns[:NAMED_COLUMNS]]
    columns = [head.iloc[:, position] for position in range(min(count, FULL_COLUMNS))]
    if any(each is not None for each in index.names) or not (
        isinstance(index, pandas.RangeIndex) or _is_integer(index)
    ):
        # An index with a name or with labels says what the rows are: it is the first column.
        levels = [index.get_level_values(level) for level in range(index.nlevels)]
        labels = [
            "index" if each is None else _flat(each)
            for each in index.names
        ]  # fmt: skip
        names, count = [*labels, *names], count + len(labels)
        columns = [*levels, *columns][:FULL_COLUMNS]
    return _Head(
        library="pandas",
        rows=rows,
        count=count,
        names=names,
        dtypes=[_refined(_pandas_word(each), each) for each in columns],
        values=[[None if _is_null(each) else each for each in column] for column in columns],
    )


def _is_integer(index: Any) -> bool:
    return getattr(index.dtype, "kind", "") in "iu"


def _pandas_word(column: Any) -> str:
    text = str(column.dtype)
    if text.startswith("datetime64"):
        _, _, zone = text.rstrip("]").partition(",")
        return f"datetime64[{zone.strip()}]" if zone else "datetime64"
    if text.startswith("timedelta64"):
        return "timedelta64"
    if text.endswith("[pyarrow]"):
        text = text.removesuffix("[pyarrow]")
        text = {"double": "float64", "float": "float32"}.get(text, text)
    return _WORDS.get(text.lower(), text[:CELL_CHARS].lower())


def _refined(word: str, column: Iterable[Any]) -> str:
    """Object columns that hold only text are text."""
    if word != "object":
        return word
    there = [each for each in column if not _is_null(each)]
    return "str" if there and all(type(each) is str for each in there) else "object"


def _is_null(value: Any) -> bool:
    if value is None:
        return True
    # NaN and NaT differ from themselves; pandas.NA will not say, nor will users' objects.
    return attempt(lambda: bool(value != value), lambda _: type_name(value) == "NAType")


def _narwhals_head(value: Any) -> _Head | None:
    import narwhals as nw

    native = nw.from_native(value, pass_through=True, allow_series=True)
    if isinstance(native, nw.Series):
        native = native.head(SAMPLE_ROWS + 1).alias(native.name or "value").to_frame()
        rows: int | None = len(value)
    elif isinstance(native, nw.DataFrame):
        rows = native.shape[0]
    elif isinstance(native, nw.LazyFrame):
        rows = None
    else:
        return None
    schema = native.collect_schema()
    names = list(schema)[:NAMED_COLUMNS]
    full = names[:FULL_COLUMNS]
    values: list[list[Any]] = []
    if isinstance(native, nw.DataFrame):
        head = native.head(SAMPLE_ROWS)
        values = [
            [None if _is_null(each) else each for each in head[column].to_list()] for column in full
        ]
    return _Head(
        library=class_package(type(value)),
        rows=rows,
        count=len(schema),
        names=names,
        dtypes=[_narwhals_word(schema[each]) for each in full],
        values=values,
    )


def _narwhals_word(dtype: Any) -> str:
    word = type(dtype).__name__.lower() if not isinstance(dtype, type) else dtype.__name__.lower()
    if word == "datetime":
        zone = getattr(dtype, "time_zone", None)
        return f"datetime64[{zone}]" if zone else "datetime64"
    return _WORDS.get(word, word)


def _flat(label: Any) -> str:
    """A column's label as text; the levels of a tuple joined."""
    if isinstance(label, tuple):
        return " / ".join(str(each) for each in label if str(each))
    return str(label)


def _samples(values: Sequence[Any]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for value in values:
        if value is not None:
            found.setdefault(cell(value))
            if len(found) == SAMPLES:
                break
    return tuple(found)


def _preview(head: _Head) -> dict[str, Any]:
    shown = head.values[:PREVIEW_COLUMNS]
    rows = min((len(column) for column in shown), default=0)
    return {
        "preview_columns": tuple(cell(each) for each in head.names[: len(shown)]),
        "preview": tuple(
            tuple(cell(column[row]) for column in shown) for row in range(min(rows, PREVIEW_ROWS))
        ),
    }


def _size(table: DataFrameObject) -> int:
    return len(json.dumps(table.for_model(), ensure_ascii=False).encode())


def _within(table: DataFrameObject, budget: int) -> DataFrameObject:
    """Fewer samples, then fewer columns in full, then fewer names, until the model's form fits."""
    for samples in (3, 1, 0):
        if _size(table) <= budget:
            return table
        columns = tuple(
            each.model_copy(update={"samples": each.samples[:samples]}) for each in table.columns
        )
        table = table.model_copy(update={"columns": columns})
    while len(table.columns) > 1 and (excess := _size(table) - budget) > 0:
        # What a column in full costs beyond its bare name, about.
        fewer = max(0, len(table.columns) - max(1, excess // 45))
        moved = tuple(each.name for each in table.columns[fewer:])
        table = table.model_copy(
            update={
                "columns": table.columns[:fewer],
                "more_columns": moved + table.more_columns,
            }
        )
    while table.more_columns and (excess := _size(table) - budget) > 0:
        dropped = min(len(table.more_columns), max(1, excess // (CELL_CHARS + 4)))
        table = table.model_copy(
            update={
                "more_columns": table.more_columns[:-dropped],
                "columns_left_out": table.columns_left_out + dropped,
            }
        )
    return table
