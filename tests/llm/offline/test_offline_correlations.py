"""How columns go together: correlations as pandas computes them."""

import numpy as np
import pandas as pd
import pytest
from offline_data import cars, done, weather
from offline_notebook import Notebook, encodings, mark, spec

MEASURES = [
    "Miles_per_Gallon", "Cylinders", "Displacement", "Horsepower", "Weight_in_lbs",
    "Acceleration",
]  # fmt: skip


@pytest.fixture
async def loaded(notebook: Notebook) -> Notebook:
    await notebook.run("import pandas as pd\ncars = pd.read_json('data/cars.json')")
    return notebook


@pytest.mark.parametrize(
    ("request_text", "method"),
    [
        ("correlation between horsepower and acceleration", "pearson"),
        ("correlate horsepower with acceleration", "pearson"),
        ("how are horsepower and acceleration correlated?", "pearson"),
        ("is horsepower correlated with acceleration", "pearson"),
        ("horsepower vs acceleration correlation", "pearson"),
        ("pearson correlation of horsepower and acceleration", "pearson"),
        ("spearman correlation between horsepower and acceleration", "spearman"),
        ("correlation of horsepower and acceleration using spearman", "spearman"),
        ("rank correlation of horsepower with acceleration", "spearman"),
    ],
)
async def test_two_columns_have_one_correlation(
    loaded: Notebook, request_text: str, method: str
) -> None:
    turn = await done(loaded, request_text)
    both = cars()[["Horsepower", "Acceleration"]]
    expected = both.corr(method=method).iloc[0, 1]
    assert loaded["correlation_horsepower_acceleration"] == pytest.approx(expected)
    assert str(loaded["correlation_horsepower_acceleration"]) in turn.summary
    assert f"Rows with both values: {len(both.dropna())} of {len(both)}" in turn.summary


async def test_a_correlation_is_of_the_rows_that_are_kept(loaded: Notebook) -> None:
    await done(loaded, "correlation between horsepower and acceleration for the cars from Japan")
    frame = cars().query("Origin == 'Japan'")
    made = loaded["correlation_horsepower_acceleration"]
    assert made == pytest.approx(frame["Horsepower"].corr(frame["Acceleration"]))


async def test_a_correlation_is_computed_within_groups(loaded: Notebook) -> None:
    await done(loaded, "correlation between horsepower and acceleration by origin")
    made = loaded["correlation_by_origin"].set_index("Origin")
    for origin, frame in cars().groupby("Origin"):
        both = frame[["Horsepower", "Acceleration"]].dropna()
        expected = both["Horsepower"].corr(both["Acceleration"])
        assert made.loc[origin, "correlation"] == pytest.approx(expected)
        assert made.loc[origin, "rows"] == len(both)


async def test_a_correlation_is_computed_within_years(notebook: Notebook) -> None:
    await done(notebook, "correlation between wind and temp_max by year in seattle-weather.csv")
    frame = weather()
    made = notebook["correlation_by_year"].set_index("year")["correlation"]
    expected = {y: f["wind"].corr(f["temp_max"]) for y, f in frame.groupby(frame["date"].dt.year)}
    assert made.to_dict() == pytest.approx(expected)


@pytest.mark.parametrize(
    "request_text",
    ["correlation matrix", "correlations of cars", "correlations between all columns of cars"],
)
async def test_every_measure_is_correlated_with_every_other(
    loaded: Notebook, request_text: str
) -> None:
    turn = await done(loaded, request_text)
    made = loaded["cars_correlations"].set_index("column")
    expected = cars()[MEASURES].corr()
    assert list(made.columns) == list(made.index) == MEASURES
    assert np.allclose(made.to_numpy(), expected.to_numpy())
    off = expected.where(~np.eye(len(MEASURES), dtype=bool)).abs().max().max()
    assert f"Cylinders Displacement {off:.6f}" in turn.summary


async def test_only_the_columns_that_are_named_are_correlated(loaded: Notebook) -> None:
    await done(loaded, "correlate horsepower, cylinders and displacement")
    made = loaded["cars_correlations"].set_index("column")
    expected = cars()[["Horsepower", "Cylinders", "Displacement"]].corr()
    pd.testing.assert_frame_equal(made, expected, check_names=False)


@pytest.mark.parametrize(
    "request_text",
    [
        "correlations with mpg",
        "what correlates with miles per gallon",
        "which columns correlate most with mpg?",
    ],
)
async def test_the_others_are_ranked_by_how_they_go_with_one(
    loaded: Notebook, request_text: str
) -> None:
    await done(loaded, request_text)
    made = loaded["correlations_with_miles_per_gallon"].set_index("column")["correlation"]
    expected = cars()[MEASURES].corr()["Miles_per_Gallon"].drop("Miles_per_Gallon")
    assert made.to_dict() == pytest.approx(expected.to_dict())
    assert made.abs().is_monotonic_decreasing


async def test_numbers_that_are_written_as_text_are_correlated(notebook: Notebook) -> None:
    await notebook.run(
        "import pandas as pd\n"
        "deals = pd.DataFrame({'price': ['$1,000', '$2,500', '$1,500'], 'size': [10, 24, 17]})"
    )
    await done(notebook, "correlation between price and size in deals")
    expected = np.corrcoef([1000, 2500, 1500], [10, 24, 17])[0, 1]
    assert notebook["correlation_price_size"] == pytest.approx(expected)


@pytest.mark.parametrize(
    "request_text",
    [
        "correlation heat map",
        "plot the correlation matrix",
        "heatmap of correlations",
        "correlation matrix and heatmap",
    ],
)
async def test_a_matrix_is_drawn_as_a_heat_map(loaded: Notebook, request_text: str) -> None:
    await done(loaded, request_text)
    chart = loaded["cars_correlations_chart"]
    assert mark(chart) == "rect"
    found = encodings(chart)
    assert {found["x"][0], found["y"][0]} == {"other", "column"}
    assert found["color"] == ("correlation", "quantitative")
    assert spec(chart)["encoding"]["color"]["scale"]["domain"] == [-1, 1]
    assert spec(chart)["encoding"]["x"]["sort"] == MEASURES


async def test_a_pair_is_drawn_as_points_beside_its_correlation(loaded: Notebook) -> None:
    turn = await done(loaded, "plot the correlation between horsepower and acceleration")
    assert mark(loaded["acceleration_vs_horsepower_chart"]) == "circle"
    frame = cars()
    assert str(frame["Horsepower"].corr(frame["Acceleration"]))[:12] in turn.summary


async def test_correlations_with_one_column_are_drawn_as_bars(loaded: Notebook) -> None:
    await done(loaded, "bar chart of the correlations with horsepower")
    chart = loaded["correlations_with_horsepower_chart"]
    assert mark(chart) == "bar"
    assert encodings(chart)["x"] == ("correlation", "quantitative")


async def test_columns_that_are_called_like_a_row_or_a_table_are_correlated(
    notebook: Notebook,
) -> None:
    await notebook.run(
        "import pandas as pd\n"
        "sizes = pd.DataFrame({'value': [1, 2, 4], 'number': [3, 1, 5], 'sales': [1, 3, 2]})"
    )
    await done(notebook, "correlation between value and number in sizes")
    assert notebook["correlation_value_number"] == pytest.approx(
        np.corrcoef([1, 2, 4], [3, 1, 5])[0, 1]
    )


@pytest.mark.parametrize(
    "request_text",
    [
        "correlation between month and horsepower",
        "correlation between horsepower and origin",
        "correlation of horsepower and year",
        "top 3 correlations with mpg",
        "mean horsepower correlation",
        "kendall correlation of horsepower and weight",
        "covariance of horsepower and weight",
        "line chart of the correlation between horsepower and weight",
        "correlation matrix by origin",
        "is the correlation between horsepower and weight significant",
        "correlation between horsepower and unicorns",
        "correlation between horsepower and weight over time",
        "spearman correlation of horsepower and weight using pearson",
    ],
)
async def test_what_is_not_correlated_makes_nothing(loaded: Notebook, request_text: str) -> None:
    before = loaded.names
    turn = await loaded.ask(request_text)
    assert turn.ending in ("return_unable", "ask_user"), turn
    assert loaded.names == before
