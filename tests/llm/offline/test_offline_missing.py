"""Missing values are counted, dropped and filled as pandas would, and it is said how many."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from offline_data import cars, done
from offline_notebook import Notebook, encodings, mark

CARS = (
    "Name,Horsepower,Cylinders,Origin,Day\n"
    "a,160,8,USA,2012-01-01\nb,,4,Japan,2012-01-02\nc,90,,Europe,\n"
    "d,70,4,,2012-01-04\ne,100,4,Japan,2012-01-05\nf,,,Japan,2012-01-06\n"
)


@pytest.fixture
async def table(tmp_path: Path) -> Notebook:
    (tmp_path / "cars.csv").write_text(CARS)
    notebook = Notebook(tmp_path)
    await notebook.run("import pandas as pd\ncars = pd.read_csv('cars.csv', parse_dates=['Day'])")
    return notebook


@pytest.mark.parametrize(
    "request_text",
    [
        "how many missing values are there?",
        "missing values",
        "any nulls?",
        "show missing values in cars",
        "which columns have NaNs?",
        "whats missing",
        "missing values per column",
        "percentage of missing values",
    ],
)
async def test_missing_values_are_counted_for_each_column(
    table: Notebook, request_text: str
) -> None:
    turn = await done(table, request_text)
    made, frame = table["cars_missing"].set_index("column"), table["cars"]
    assert made["missing"].to_dict() == frame.isna().sum().to_dict()
    assert made["share"].to_dict() == pytest.approx(frame.isna().mean().to_dict())
    assert made["missing"].is_monotonic_decreasing
    assert f"Missing values: {frame.isna().sum().sum()} in 6 rows" in turn.summary


async def test_missing_values_are_counted_among_the_rows_that_are_kept(table: Notebook) -> None:
    await done(table, "missing values by column for the cars from Japan")
    made = table["cars_japan_missing"].set_index("column")["missing"]
    frame = table["cars"].query("Origin == 'Japan'")
    assert made.to_dict() == frame.isna().sum().to_dict()


@pytest.mark.parametrize(
    "request_text",
    ["how many missing values in horsepower", "how many horsepower values are missing"],
)
async def test_missing_values_of_one_column_are_counted(table: Notebook, request_text: str) -> None:
    turn = await done(table, request_text)
    assert re.search(r"\b2\b", turn.summary)
    assert int(table["cars"]["Horsepower"].isna().sum()) == 2


async def test_missing_values_are_drawn_as_bars(table: Notebook) -> None:
    await done(table, "plot missing values per column")
    chart = table["cars_missing_chart"]
    assert mark(chart) == "bar"
    assert encodings(chart)["x"] == ("missing", "quantitative")
    assert encodings(chart)["y"] == ("column", "nominal")


@pytest.mark.parametrize(
    "request_text",
    [
        "drop rows with missing values",
        "remove all rows with missing values",
        "drop missing values",
        "remove nulls from cars",
        "dropna",
        "cars without missing values",
        "cars with no missing values",
        "keep only complete rows",
        "rows that have no nulls",
        "drop incomplete rows",
        "drop rows with missing values in any column",
        "exclude cars with missing values",
    ],
)
async def test_rows_that_miss_something_are_dropped(table: Notebook, request_text: str) -> None:
    turn = await done(table, request_text)
    pd.testing.assert_frame_equal(table["cars_complete"], table["cars"].dropna())
    assert "Rows kept: 2 of 6" in turn.summary


@pytest.mark.parametrize(
    "request_text",
    [
        "show rows with missing values",
        "cars with missing values",
        "drop cars with no missing values",
        "drop rows without missing values",
        "which rows have missing values?",
        "incomplete rows",
    ],
)
async def test_rows_that_miss_something_are_shown(table: Notebook, request_text: str) -> None:
    turn = await done(table, request_text)
    frame = table["cars"]
    pd.testing.assert_frame_equal(table["cars_incomplete"], frame[frame.isna().any(axis=1)])
    assert "Rows with a missing value: 4 of 6" in turn.summary


async def test_that_no_row_misses_anything_is_an_answer(notebook: Notebook) -> None:
    turn = await done(notebook, "show the rows of stocks.csv with missing values")
    assert "Rows with a missing value: 0 of 560" in turn.summary


@pytest.mark.parametrize(
    ("request_text", "value"),
    [
        ("fill missing horsepower with the mean", 105),
        ("impute horsepower using the median", 95),
        ("replace NaN in horsepower with 0", 0),
        ("fill the gaps in horsepower with 12.5", 12.5),
        ("fill horsepower where missing with zero", 0),
        ("fill missing values of horsepower by its maximum", 160),
        ("fill missing horsepower with the mean horsepower", 105),
        ("fill nulls in horsepower with the minimum", 70),
    ],
)
async def test_one_column_is_filled_with_one_value(
    table: Notebook, request_text: str, value: float
) -> None:
    turn = await done(table, request_text)
    frame = table["cars"]
    expected = frame.assign(Horsepower=frame["Horsepower"].fillna(value))
    pd.testing.assert_frame_equal(table["cars_filled"], expected)
    assert "Missing in Horsepower: 2 before, 0 after" in turn.summary


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("forward fill horsepower", [160, 160, 90, 70, 100, 100]),
        ("fill missing horsepower with the previous value", [160, 160, 90, 70, 100, 100]),
        ("backfill horsepower", [160, 90, 90, 70, 100, np.nan]),
        ("fill missing horsepower with the next value", [160, 90, 90, 70, 100, np.nan]),
        ("interpolate horsepower", [160, 125, 90, 70, 100, 100]),
    ],
)
async def test_values_around_a_missing_one_fill_it(
    table: Notebook, request_text: str, expected: list[float]
) -> None:
    turn = await done(table, request_text)
    assert table["cars_filled"]["Horsepower"].tolist() == pytest.approx(expected, nan_ok=True)
    assert "in the order in which they stand" in turn.summary


async def test_every_measure_is_filled_where_no_column_is_named(table: Notebook) -> None:
    turn = await done(table, "fill missing values with the median")
    frame, names = table["cars"], ["Horsepower", "Cylinders"]
    expected = frame.assign(**{n: frame[n].fillna(frame[n].median()) for n in names})
    pd.testing.assert_frame_equal(table["cars_filled"], expected)
    assert "I filled Horsepower and Cylinders" in turn.summary


async def test_a_group_fills_its_own_members(table: Notebook) -> None:
    await done(table, "fill missing horsepower with the mean by origin")
    frame = table["cars"]
    means = frame.groupby("Origin")["Horsepower"].transform("mean")
    pd.testing.assert_series_equal(
        table["cars_filled"]["Horsepower"], frame["Horsepower"].fillna(means)
    )


@pytest.mark.parametrize(
    ("request_text", "value"),
    [
        ("fill missing origin with the most common value", "Japan"),
        ("fill missing origin with unknown", "unknown"),
        ("fill missing origin with 'not known'", "not known"),
    ],
)
async def test_text_is_filled_with_text(table: Notebook, request_text: str, value: str) -> None:
    await done(table, request_text)
    assert table["cars_filled"]["Origin"].tolist() == table["cars"]["Origin"].fillna(value).tolist()


async def test_with_what_to_fill_is_asked(table: Notebook) -> None:
    turn = await table.ask("fill missing horsepower")
    assert turn.ending == "ask_user"
    await table.reply("the median")
    assert table["cars_filled"]["Horsepower"].isna().sum() == 0
    assert table["cars_filled"]["Horsepower"][1] == 95


@pytest.mark.parametrize("kind", ["Int64", "Float64", "category"])
async def test_columns_of_every_type_are_filled(table: Notebook, kind: str) -> None:
    column = "Origin" if kind == "category" else "Horsepower"
    await table.run(f"cars['{column}'] = cars['{column}'].astype('{kind}')")
    how = "elsewhere" if kind == "category" else "12.5"
    await done(table, f"fill missing {column} with {how}")
    assert table["cars_filled"][column].isna().sum() == 0


@pytest.mark.parametrize(
    ("request_text", "name"),
    [
        ("drop rows with missing values and show mean horsepower by origin", "cars_complete"),
        ("fill missing horsepower with 0 and compute the mean horsepower by origin", "cars_filled"),
        ("fill missing horsepower with 0 and plot the mean horsepower by origin", "cars_filled"),
    ],
)
async def test_what_follows_goes_on_from_the_table_that_was_made(
    table: Notebook, request_text: str, name: str
) -> None:
    await done(table, request_text)
    expected = table[name].groupby("Origin")["Horsepower"].mean()
    made = table["mean_horsepower_by_origin"].set_index("Origin")["mean_horsepower"]
    assert made.to_dict() == pytest.approx(expected.to_dict())


async def test_what_follows_may_need_a_count_of_the_table_that_was_made(
    notebook: Notebook,
) -> None:
    await notebook.run("import pandas as pd\ncars = pd.read_json('data/cars.json')")
    await done(
        notebook,
        "drop rows with missing values and plot a heat map of cars by origin and cylinders",
    )
    made = notebook["count_by_origin_and_cylinders"]
    assert made["count"].sum() == len(cars().dropna())


@pytest.mark.parametrize(
    "request_text",
    [
        "drop columns with missing values",
        "drop rows where all values are missing",
        "drop rows that miss everything",
        "rows where all columns have missing values",
        "drop rows with more than 2 missing values",
        "drop cars from Japan with missing values",
        "mean horsepower without missing values",
        "missing values by origin",
        "line chart of the missing values per column",
        "fill missing horsepower with 'x'",
        "fill missing origin with the mean",
        "fill missing origin with 0",
        "fill missing Day with the median",
        "fill missing horsepower with the mean of cylinders",
        "fill missing horsepower with the sum",
        "fill missing horsepower with the mean and cylinders with the median",
        "fill missing horsepower with the mean for the cars from Japan",
        "fill missing horsepower with 0 where cylinders is missing",
        "fill missing horsepower with 0 by origin",
    ],
)
async def test_what_is_not_done_of_missing_values_makes_nothing(
    table: Notebook, request_text: str
) -> None:
    before = table.names
    turn = await table.ask(request_text)
    assert turn.ending in ("return_unable", "ask_user"), turn
    assert table.names == before
