"""Tables of any library, summarised within stated caps.

The cost does not depend on the number of rows: only the first ones are read, and a lazy frame is
never collected. Nothing is imported to find out what a value is.
"""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any

from parsimony_kernel.core.outputs import ColumnSummary, DataFrameObject, Kind
from parsimony_kernel.core.redaction import REDACTED
from parsimony_kernel.execution.inspection import attempt, comes_from, is_a, plain, type_name
from parsimony_kernel.lineage.classes import TABLES, is_missing, package_among
from parsimony_kernel.llm.secrets import is_secret

FULL_COLUMNS = 40
NAMED_COLUMNS = 240
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
    "str": "str",
    "boolean": "bool",
    "categorical": "category",
    "enum": "category",
    "duration": "timedelta64",
    "unknown": "object",
}


@dataclass(frozen=True)
class _Column:
    """The values of a column in the first and the last rows, and how many of all are missing."""

    dtype: str
    values: Sequence[Any] = ()
    last: Sequence[Any] = ()
    missing: int | None = None


@dataclass(frozen=True)
class _Head:
    """A table in little. ``names`` may be the first of ``count`` columns, and ``columns`` those of
    the first of ``names``. The first ``levels`` of them are the index.
    """

    rows: int | None
    count: int
    names: Sequence[str]
    columns: Sequence[_Column]
    levels: int = 0
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
                name=_column_name(label),
                dtype=column.dtype,
                samples=_samples(label, column.values),
                missing=column.missing,
                is_index=position < head.levels,
            )
            for position, (label, column) in enumerate(zip(head.names, head.columns, strict=False))
        ),
        more_columns=tuple(_column_name(each) for each in head.names[FULL_COLUMNS:]),
        columns_left_out=head.count - len(head.names),
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
    """The library of a table that is not of pandas; empty for anything else."""
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
    if type(value) is str:
        return value
    if is_a(value, float):
        return _decimal(value) if abs(value) < 1e15 and value != int(value) else str(value)
    if is_a(value, list, dict, tuple, set, bytes):
        import reprlib

        return reprlib.repr(value)
    if is_frame(value):
        return in_words(value)
    if is_a(value, str):
        return str.__str__(value)
    return str(value).removesuffix(" 00:00:00")


def _decimal(value: float) -> str:
    """Six digits, and of a large number all that stand before the point."""
    return format(value, ".6g" if abs(value) < 10_000 else ".2f")


def _head(value: Any) -> _Head | None:
    pandas = sys.modules.get("pandas")
    if comes_from(value, "pandas", "DataFrame"):
        return _pandas_head(pandas, value)
    if comes_from(value, "pandas", "Series"):
        name = value.name
        made = _pandas_head(pandas, value.to_frame(name="value" if name is None else name))
        return replace(made, kind="unnamed series" if name is None else "series")
    if comes_from(value, "pandas", "Index"):
        columns, labels = _levels(value[:SAMPLE_ROWS])
        last = _levels(value[-LAST_ROWS:])[0] if len(value) > WHOLE_ROWS else []
        return _Head(len(value), len(labels), labels, _of_pandas(columns, last))
    library = _library(value)
    head = _HEADS.get(library, _narwhals_head)(value) if library else None
    return None if head is None else replace(head, library=library)


def _pandas_head(pandas: Any, value: Any) -> _Head:
    rows, count = len(value), len(value.columns)
    labels, columns = _pandas_columns(pandas, value.head(SAMPLE_ROWS))
    last: list[Any] = []
    if rows > WHOLE_ROWS:
        last = _pandas_columns(pandas, value.tail(LAST_ROWS))[1]
    missing: list[int] = []
    if rows * count <= COUNTED_CELLS:
        missing = attempt(
            lambda: list(map(int, value.iloc[:, :FULL_COLUMNS].isna().sum())), lambda _: []
        )
    names = [*labels, *(_flat(each) for each in value.columns[:NAMED_COLUMNS])]
    read = _of_pandas(columns, last, [*([None] * len(labels)), *missing])
    return _Head(rows, count + len(labels), names[:NAMED_COLUMNS], read, len(labels))


def _pandas_columns(pandas: Any, part: Any) -> tuple[list[str], list[Any]]:
    """The labels of the index and the columns of ``part``. An index with a name or with labels
    says what the rows are: it is the first of the columns."""
    index = part.index
    columns = [part.iloc[:, each] for each in range(min(len(part.columns), FULL_COLUMNS))]
    if all(each is None for each in index.names) and (
        isinstance(index, pandas.RangeIndex) or _is_integer(index)
    ):
        return [], columns
    levels, labels = _levels(index)
    return labels, [*levels, *columns][:FULL_COLUMNS]


def _levels(index: Any) -> tuple[list[Any], list[str]]:
    """The levels of an index as columns, and their names."""
    labels = ["index" if each is None else _flat(each) for each in index.names]
    # Without names a level is found by its position only; a name may be a number, or be there
    # twice.
    bare = index.rename([None] * index.nlevels if index.nlevels > 1 else None)
    return [bare.get_level_values(level) for level in range(index.nlevels)], labels


def _of_pandas(
    columns: Sequence[Any], last: Sequence[Any], missing: Sequence[int | None] = ()
) -> list[_Column]:
    read = []
    for column, end, count in zip_longest(columns, last, missing[: len(columns)]):
        values = _read(partial(iter, column))
        word = attempt(partial(_pandas_word, column), lambda _: "unreadable")
        tail = () if end is None else _read(partial(iter, end))
        read.append(_Column(_refined(word, values), values, tail, count))
    return read


def _read(column: Callable[[], Iterable[Any]]) -> list[Any]:
    """The values of a column, missing ones as ``None``.

    Of one that cannot be read there are none: it hides no other.
    """
    return attempt(lambda: [None if is_missing(each) else each for each in column()], lambda _: [])


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
    return replace(head, rows=None, columns=[_Column(each.dtype) for each in head.columns])


def _narwhals_head(value: Any) -> _Head | None:
    import narwhals as nw

    native = nw.from_native(value, pass_through=True, allow_series=True)
    rows: int | None
    kind: Kind = "table"
    if isinstance(native, nw.Series):
        rows, kind = len(native), "series" if native.name else "unnamed series"
        native = native.alias(native.name or "value").to_frame()
    elif isinstance(native, nw.DataFrame):
        rows = native.shape[0]
    elif isinstance(native, nw.LazyFrame):
        rows = None
    else:
        return None
    schema = native.collect_schema()
    return replace(_of_narwhals(native, schema, list(schema), rows), kind=kind)


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
    return _of_narwhals(native, native.collect_schema(), names, len(value))


def _spark_head(value: Any) -> _Head:
    names, dtypes = ([each[at] for each in value.dtypes] for at in (0, 1))
    return _Head(None, len(names), names[:NAMED_COLUMNS], [*map(_Column, dtypes[:FULL_COLUMNS])])


# Of what is read in another way than by narwhals. Nothing is computed: what is not there yet has
# the columns of the plan.
_HEADS: dict[str, Callable[[Any], _Head | None]] = {
    "dask": lambda value: _outline(_head(value._meta)),
    "ibis": lambda value: _narwhals_head(value.as_table()),
    "pyarrow": _arrow_head,
    "pyspark": _spark_head,
}


def _of_narwhals(native: Any, schema: Any, names: Sequence[str], rows: int | None) -> _Head:
    """``names`` are those of the columns as the person knows them, in the order of ``schema``."""
    columns = [_Column(_narwhals_word(schema[each])) for each in list(schema)[:FULL_COLUMNS]]
    if rows is not None:
        head, tail = native.head(SAMPLE_ROWS), native.tail(LAST_ROWS if rows > WHOLE_ROWS else 0)
        is_counted = rows * len(columns) <= COUNTED_CELLS
        columns = [
            _Column(
                column.dtype,
                _read(partial(_listed, head, name)),
                _read(partial(_listed, tail, name)),
                attempt(partial(_null_count, native, name), lambda _: None) if is_counted else None,
            )
            for name, column in zip(schema, columns, strict=False)
        ]
    return _Head(rows, len(names), names[:NAMED_COLUMNS], columns)


def _listed(part: Any, column: str) -> list[Any]:
    return list(part[column].to_list())


def _null_count(native: Any, column: str) -> int:
    return int(native[column].null_count())


def _narwhals_word(dtype: Any) -> str:
    word = type(dtype).__name__.lower() if not isinstance(dtype, type) else dtype.__name__.lower()
    if word == "datetime":
        zone = getattr(dtype, "time_zone", None)
        return f"datetime64[{zone}]" if zone else "datetime64"
    return _WORDS.get(word, word)


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


def _samples(column: str, values: Sequence[Any]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for value in values:
        if value is not None:
            found.setdefault(_cell_of(column, value))
            if len(found) == SAMPLES:
                break
    return tuple(found)


def _preview(head: _Head) -> dict[str, Any]:
    shown = [*zip(head.names, head.columns, strict=False)][:PREVIEW_COLUMNS]
    is_short = head.rows is not None and head.rows <= WHOLE_ROWS
    first = WHOLE_ROWS if is_short else PREVIEW_ROWS
    return {
        "preview_columns": tuple(cell(name) for name, column in shown if head.rows is not None),
        "preview": _rows([(name, column.values[:first]) for name, column in shown]),
        "last_rows": _rows([(name, column.last) for name, column in shown]),
    }


def _rows(columns: Sequence[tuple[str, Sequence[Any]]]) -> tuple[tuple[str, ...], ...]:
    count = max((len(values) for _, values in columns), default=0)
    return tuple(
        tuple(_cell_of(name, values[row]) if row < len(values) else "" for name, values in columns)
        for row in range(count)
    )


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
