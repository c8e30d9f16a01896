"""Tables in a few words, within their caps."""

import json
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from parsimony_kernel.core.outputs import DataFrameObject
from parsimony_kernel.core.redaction import REDACTED
from parsimony_kernel.execution.factory import OutputFactory, summarise
from parsimony_kernel.execution.frames import MODEL_BYTES, SPELLED_ROWS, SPELLED_TEXTS, frame
from parsimony_kernel.view.parts import table_of


def summary(value: Any) -> DataFrameObject:
    table = frame(value, "it")
    assert table is not None
    return table


def size(table: DataFrameObject) -> int:
    return len(json.dumps(table.for_model(), ensure_ascii=False).encode())


DTYPES: list[tuple[Any, str]] = [
    (["a"], "str"),
    ([1], "int64"),
    ([1.5], "float64"),
    ([True], "bool"),
    ([pd.Timestamp("2024-05-01")], "datetime64"),
    ([pd.Timestamp("2024-05-01", tz="Europe/Rome")], "datetime64[Europe/Rome]"),
    ([pd.Timedelta("1h")], "timedelta64"),
    (pd.Categorical(["x"]), "category"),
    ([[1, 2]], "object"),
    (pd.array([1], dtype="Int64"), "int64"),
]


@pytest.mark.parametrize(("values", "dtype"), DTYPES, ids=[dtype for _, dtype in DTYPES])
def test_dtype_has_a_plain_name(values: Any, dtype: str) -> None:
    assert [each.dtype for each in summary(pd.DataFrame({"x": values})).columns] == [dtype]


@pytest.mark.parametrize(
    ("values", "spellings"),
    [
        (["North", "South", None], ""),
        (["North", "north ", "South"], "several"),
        (["North", "", None], "blank"),
        (["North", " ", "north"], "several"),
        ([1, 2, 2], ""),
        ([{"a": 1}, "x"], ""),
        ([f"t{at}" for at in range(SPELLED_TEXTS + 1)], "unchecked"),
        (["North"] * (SPELLED_ROWS + 1), "unchecked"),
    ],
)
def test_spellings_of_one_value_are_noticed(values: list[Any], spellings: str) -> None:
    (column,) = summary(pd.DataFrame({"x": values})).columns
    assert column.spellings == spellings
    assert column.for_model().get("spellings", "") == spellings


def test_samples_are_distinct_nonmissing_first_values() -> None:
    column = [None, "b", "b", "a", float("nan"), *"cdefg"]
    assert summary(pd.DataFrame({"x": column})).columns[0].samples == ("b", "a", "c", "d", "e")


def test_long_cell_is_cut_at_sixty_characters() -> None:
    table = summary(pd.DataFrame({"x": ["y" * 500]}))
    assert len(table.columns[0].samples[0]) == 60
    assert table.preview[0][0].endswith("…")


def test_preview_has_at_most_ten_rows_and_twelve_columns() -> None:
    table = summary(pd.DataFrame(np.zeros((50, 30))))
    assert (len(table.preview), len(table.preview[0]), len(table.preview_columns)) == (10, 12, 12)
    assert (table.rows, table.column_count) == (50, 30)


class Mute:
    def __str__(self) -> str:
        raise ValueError


DAY = pd.to_datetime(["2024-05-01"])[0]
KEYS = pd.Index(["k1", "k2"], name="api_key")
ODD = pd.Index([1, 2.5, (2, "x"), None, DAY, Mute()], dtype=object)
ODD_TEXTS = ("1", "2.5", "2 / x", "None", "2024-05-01", "<Mute>")
HEADED = pd.MultiIndex.from_tuples([("price", "mean")])
PREVIEWS: list[tuple[Any, tuple[str, ...], tuple[tuple[str, ...], ...]]] = [
    # A group's key, the names of a series and the labels of kept rows come first.
    (pd.DataFrame({"k": ["a", "b"], "v": [1, 2]}).groupby("k").mean(), ("k", "v"),
     (("a", "1.0"), ("b", "2.0"))),
    (pd.Series(["x", "y", "x"], name="letter").value_counts(), ("letter", "count"),
     (("x", "2"), ("y", "1"))),
    (pd.DataFrame({"x": [1, 2, 3]}).query("x > 1"), ("index", "x"), (("1", "2"), ("2", "3"))),
    (pd.Series([1, 2]), ("value",), (("1",), ("2",))),
    (pl.Series([4]), ("value",), (("4",),)),
    (pa.record_batch({"n": [1], "m": [2]}), ("n", "m"), (("1", "2"),)),
    (pa.array([1, None]), ("value",), (("1",), ("",))),
    (pa.chunked_array([[1], [None]]), ("value",), (("1",), ("",))),
    # Labels that occur twice, are no text, or can't be read.
    (pd.DataFrame([[1, "a"]], columns=["x", "x"]), ("x", "x"), (("1", "a"),)),
    (pd.DataFrame([[1]], columns=HEADED), ("price / mean",), (("1",),)),
    (pd.DataFrame([range(6)], columns=ODD), ODD_TEXTS, (("0", "1", "2", "3", "4", "5"),)),
    (pd.Series(["a", "b"], name="password", index=KEYS), ("api_key", "password"),
     ((REDACTED, REDACTED),) * 2),
]  # fmt: skip


@pytest.mark.parametrize(("value", "columns", "rows"), PREVIEWS)
def test_preview_has_every_label_and_value(
    value: Any, columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]
) -> None:
    assert (summary(value).preview_columns, summary(value).preview) == (columns, rows)


@pytest.mark.parametrize("columns", [5, 40, 41, 300, 5_000])
def test_model_form_is_within_two_kibibytes(columns: int) -> None:
    wide = pd.DataFrame([["value " * 9] * columns], columns=[f"column {i}" for i in range(columns)])
    table = summary(wide)
    assert size(table) <= MODEL_BYTES
    assert table.column_count == columns


def test_other_values_are_no_tables() -> None:
    assert frame([1, 2], "x") is None
    assert frame(pd.DataFrame, "x") is None


def test_polars_frames_are_tables_and_lazy_ones_have_no_rows() -> None:
    data = {"n": [1, None], "l": [[1], [2, 3]], "d": [date(2024, 5, 1)] * 2}
    table = summary(pl.DataFrame(data))
    assert (table.library, table.rows) == ("polars", 2)
    assert [(each.dtype, each.samples) for each in table.columns] == [
        ("int64", ("1",)),
        ("list", ("[1]", "[2, 3]")),
        ("date", ("2024-05-01",)),
    ]
    lazy = summary(pl.LazyFrame(data))
    assert (lazy.rows, lazy.preview) == (None, ())
    assert [each.name for each in lazy.columns] == ["n", "l", "d"]


def test_frame_subclass_is_a_frame() -> None:
    class Mine(pl.DataFrame):
        pass

    class Yours(pd.DataFrame):
        pass

    assert summary(Mine({"a": [1]})).library == "polars"
    assert summary(Yours({"a": [1]})).library == "pandas"


@pytest.mark.parametrize(
    "look",
    [
        lambda value: OutputFactory().convert(value, "x"),
        lambda value: OutputFactory().summary(value, "x"),
        lambda value: OutputFactory().convert([value]),
        lambda value: summarise({"x": value}),
    ],
    ids=["display", "variable", "within another", "namespace"],
)
@pytest.mark.parametrize("make", [lambda column: column, pd.Series.to_frame, pl.from_pandas])
def test_reading_cost_is_independent_of_rows(
    look: Callable[[Any], Any], make: Callable[[Any], Any]
) -> None:
    """A mask of the rows alone, or a copy of them, would take ten megabytes."""
    value = make(pd.Series(np.zeros(10_000_000), name="x"))
    look(value.head(1))  # what is imported for the first of its kind
    tracemalloc.start()
    try:
        look(value)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_column_name_keeps_whitespace() -> None:
    table = summary(pd.DataFrame({" Total  x ": [1], "a\nb": [2]}))
    assert [each.name for each in table.columns] == [" Total  x ", "a\nb"]


@pytest.mark.parametrize(
    ("value", "names", "first"),
    [
        (pd.Series({2019: 1.5, 2020: 2.5}, name="rate"), ("index", "rate"), ("2019", "1.5")),
        (pd.Series([0, 1, 0]).value_counts(), ("index", "count"), ("0", "2")),
        (pd.DataFrame({"p": [0.1, 0.2]}, index=[1, 24]), ("index", "p"), ("1", "0.1")),
        (pd.DataFrame({"v": [5, 6]})[::-1], ("index", "v"), ("1", "6")),
        (pd.DataFrame({"v": [5, 6]}), ("v",), ("5",)),
        (pd.DataFrame({"v": [5]}, index=pd.RangeIndex(1, name="id")), ("id", "v"), ("0", "5")),
    ],
    ids=["years", "counts", "lags", "reversed", "row numbers", "named"],
)
def test_index_is_shown_unless_it_counts_rows(
    value: Any, names: tuple[str, ...], first: tuple[str, ...]
) -> None:
    table = summary(value)
    assert (table.preview_columns, table.preview[0]) == (names, first)


@pytest.mark.parametrize(
    ("value", "is_shown"),
    [
        (pd.DataFrame({"v": [5, 7, 6]}).sort_values("v"), False),
        (pd.DataFrame({"v": [5, 7, 6]}).nlargest(2, "v"), True),
        (pd.DataFrame({"v": [5, 7]}, index=[2020, 2019]), True),
        (pd.DataFrame({"v": [5, 7]}, index=["1", "0"]), True),
        (pd.Series([0, 1, 1]).value_counts(), True),
    ],
    ids=["sorted", "largest", "years", "text", "counts"],
)
def test_person_reads_labels_but_no_sorted_row_numbers(value: Any, is_shown: bool) -> None:
    table = summary(value)
    assert table.preview_columns[0] == "index"
    shown = table_of(table)
    assert ("index" in shown.columns) is is_shown
    assert len(shown.columns) == len(shown.rows[0]) == 1 + is_shown


def test_index_alone_is_called_an_index() -> None:
    assert summary(pd.date_range("2025-01-01", periods=3)).kind == "index"


def test_unnamed_or_equal_levels_are_named_by_position() -> None:
    for names in (["q", "q"], [1, 0], [None, "q"]):
        index = pd.MultiIndex.from_product([["a"], [1, 2]], names=names)
        labels = tuple("index" if each is None else str(each) for each in names)
        assert summary(index).preview_columns == labels
        assert summary(index).preview == (("a", "1"), ("a", "2"))
        table = summary(pd.DataFrame({"v": [7, 8]}, index=index))
        assert table.preview_columns == (*labels, "v")
        assert table.preview == (("a", "1", "7"), ("a", "2", "8"))


@pytest.mark.parametrize(
    ("value", "rows"),
    [
        (pd.DataFrame(), 0),
        (pd.DataFrame(index=range(3)), 3),
        (pl.DataFrame(), 0),
        (pa.table({}), 0),
        (pd.Series([], dtype=object), 0),
    ],
)
def test_empty_frame_is_an_empty_table(value: Any, rows: int) -> None:
    assert (summary(value).rows, summary(value).preview) == (rows, ())


def test_unreadable_column_hides_no_other() -> None:
    class Broken(pd.arrays.IntegerArray):
        def __iter__(self) -> Iterator[int]:
            raise OSError("gone")

        def tolist(self) -> list[int]:
            raise OSError("gone")

    broken = pd.Series(Broken(np.arange(3), np.zeros(3, dtype=bool)), copy=False)
    table = summary(pd.DataFrame({"b": broken, "x": ["p", "q", "r"]}, copy=False))
    assert [(each.name, each.samples) for each in table.columns] == [
        ("b", ()),
        ("x", ("p", "q", "r")),
    ]
    assert table.preview == (("", "p"), ("", "q"), ("", "r"))


def test_huge_cell_is_cut_cheaply() -> None:
    class Untouchable(list[int]):
        def __eq__(self, other: object) -> bool:
            raise AssertionError("a container was compared")

        __ne__ = __eq__

    values = [Untouchable(range(100_000)), "x" * 10**6, pd.DataFrame({"a": [1]}), {1: 2}]
    table = summary(pd.DataFrame({"v": pd.Series(values, dtype=object)}))
    assert [len(each) <= 60 for each in table.columns[0].samples] == [True] * 4
    assert table.columns[0].samples[2] == "<pandas DataFrame, 1 row, columns: a>"


SECRET_TABLE = {
    "user": ["ada", "bob"],
    "password": ["hunter2", "swordfish"],
    "pinPassword": [12345, 67890],
    "token": ["noun", "9f2c71aa03b44e1d8c"],
    "is_secret": [True, False],
}


@pytest.mark.parametrize("made", [pd.DataFrame, pl.DataFrame, pa.table])
def test_secret_column_values_are_hidden(made: Callable[..., Any]) -> None:
    table = summary(made(SECRET_TABLE))
    assert {each.name: each.samples for each in table.columns} == {
        "user": ("ada", "bob"),
        "password": (REDACTED,),
        "pinPassword": (REDACTED,),
        "token": ("noun", REDACTED),
        "is_secret": ("True", "False"),
    }
    assert table.preview == (
        ("ada", REDACTED, REDACTED, "noun", "True"),
        ("bob", REDACTED, REDACTED, REDACTED, "False"),
    )
