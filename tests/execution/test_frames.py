"""Tables in a few words, within their caps."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from parsimony_kernel.execution.frames import MODEL_BYTES, frame
from parsimony_kernel.execution.outputs import DataFrameObject


def summary(value: Any) -> DataFrameObject:
    table = frame(value, "it")
    assert table is not None
    return table


def size(table: DataFrameObject) -> int:
    return len(json.dumps(table.for_model(), ensure_ascii=False).encode())


def test_dtypes_are_told_in_plain_words() -> None:
    table = summary(
        pd.DataFrame(
            {
                "text": ["a"],
                "whole": [1],
                "real": [1.5],
                "flag": [True],
                "when": [pd.Timestamp("2024-05-01")],
                "zoned": [pd.Timestamp("2024-05-01", tz="Europe/Rome")],
                "lasting": [pd.Timedelta("1h")],
                "kind": pd.Categorical(["x"]),
                "mixed": np.array([[1, 2]], dtype=object).tolist(),
                "nullable": pd.array([1], dtype="Int64"),
            }
        )
    )
    assert {each.name: each.dtype for each in table.columns} == {
        "text": "str",
        "whole": "int64",
        "real": "float64",
        "flag": "bool",
        "when": "datetime64",
        "zoned": "datetime64[Europe/Rome]",
        "lasting": "timedelta64",
        "kind": "category",
        "mixed": "object",
        "nullable": "int64",
    }


def test_samples_are_distinct_present_values_of_the_first_rows() -> None:
    column = [None, "b", "b", "a", float("nan"), *"cdefg"]
    assert summary(pd.DataFrame({"x": column})).columns[0].samples == ("b", "a", "c", "d", "e")


def test_a_long_cell_is_cut_at_sixty_characters() -> None:
    table = summary(pd.DataFrame({"x": ["y" * 500]}))
    assert len(table.columns[0].samples[0]) == 60
    assert table.preview[0][0].endswith("…")


def test_the_preview_has_at_most_ten_rows_and_twelve_columns() -> None:
    table = summary(pd.DataFrame(np.zeros((50, 30))))
    assert (len(table.preview), len(table.preview[0]), len(table.preview_columns)) == (10, 12, 12)
    assert (table.rows, table.column_count) == (50, 30)


def test_the_key_of_a_grouped_result_is_its_first_column() -> None:
    grouped = pd.DataFrame({"k": ["a", "b"], "v": [1, 2]}).groupby("k").mean()
    assert [each.name for each in summary(grouped).columns] == ["k", "v"]
    assert summary(grouped).preview == (("a", "1.0"), ("b", "2.0"))


def test_a_series_is_a_table_with_its_index_and_values() -> None:
    counts = pd.Series(["x", "y", "x"], name="letter").value_counts()
    assert summary(counts).preview == (("x", "2"), ("y", "1"))
    assert summary(counts).preview_columns == ("letter", "count")
    assert summary(pd.Series([1, 2])).preview_columns == ("value",)


def test_filtered_rows_do_not_show_their_old_numbers() -> None:
    kept = pd.DataFrame({"x": [1, 2, 3]}).query("x > 1")
    assert summary(kept).preview_columns == ("x",)


def test_columns_with_the_same_or_odd_labels_are_all_there() -> None:
    twice = pd.DataFrame([[1, "a"]], columns=["x", "x"])
    assert [each.dtype for each in summary(twice).columns] == ["int64", "str"]
    levels = pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("price", "mean")]))
    assert [each.name for each in summary(levels).columns] == ["price / mean"]


@pytest.mark.parametrize("columns", [5, 40, 41, 300, 5_000])
def test_the_form_for_a_model_stays_within_two_kibibytes(columns: int) -> None:
    wide = pd.DataFrame([["value " * 9] * columns], columns=[f"column {i}" for i in range(columns)])
    table = summary(wide)
    assert size(table) <= MODEL_BYTES
    assert table.column_count == columns


def test_samples_go_before_columns_and_columns_before_names() -> None:
    many = summary(pd.DataFrame([["value " * 9] * 12], columns=[f"c{i}" for i in range(12)]))
    assert len(many.columns) == 12
    wide = summary(pd.DataFrame([[1.0] * 60], columns=[f"c{i}" for i in range(60)]))
    assert wide.more_columns
    assert not any(each.samples for each in wide.columns)


def test_only_the_first_rows_are_looked_at() -> None:
    class Refusing(str):
        """A value that must not be looked at."""

        __slots__ = ()

        def __str__(self) -> str:
            raise AssertionError("a row far down was read")

    values = np.array(["a"] * 300 + [Refusing("b")] * 5, dtype=object)
    assert summary(pd.DataFrame({"x": values})).rows == 305


def test_an_arrow_table_goes_through_narwhals() -> None:
    table = summary(pa.table({"n": [1, 2], "s": ["a", None]}))
    assert (table.library, table.rows) == ("pyarrow", 2)
    assert [(each.name, each.dtype, each.samples) for each in table.columns] == [
        ("n", "int64", ("1", "2")),
        ("s", "str", ("a",)),
    ]


def test_other_values_are_no_tables() -> None:
    assert frame([1, 2], "x") is None
    assert frame(pd.DataFrame, "x") is None
