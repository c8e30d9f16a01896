"""Columns that are computed from others: the numbers are those that pandas gives."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from offline_data import cars, copy, done, weather
from offline_notebook import Notebook

from parsimony_kernel.offline.grammar.clauses import Mention
from parsimony_kernel.offline.grammar.expressions import Operation, read_expression
from parsimony_kernel.offline.grammar.items import read_items
from parsimony_kernel.offline.words import tokenize

A, B, C = (Mention(name) for name in "xyz")


@pytest.fixture
async def notebook(tmp_path: Path) -> Notebook:
    copy(tmp_path / "data", "cars.json", "seattle-weather.csv")
    made = Notebook(tmp_path)
    await made.run(
        "import pandas as pd\n"
        "cars = pd.read_json('data/cars.json')\n"
        "weather = pd.read_csv('data/seattle-weather.csv')"
    )
    return made


def new_column(notebook: Notebook, table: str) -> pd.Series:
    """The column that ``table`` has and what it was made of has not."""
    return notebook[table].iloc[:, -1]


@pytest.mark.parametrize(
    ("request_text", "table"),
    [
        ("add a column spread = temp_max - temp_min", "weather_with_spread"),
        ("spread = temp_max-temp_min", "weather_with_spread"),
        ("create a new column spread as temp_max minus temp_min", "weather_with_spread"),
        ("add the difference between temp_max and temp_min as spread", "weather_with_spread"),
        ("compute temp_max - temp_min and call it spread", "weather_with_spread"),
        ("add a column called spread with temp_max - temp_min to weather", "weather_with_spread"),
        ("difference of max temp and min temp", "weather_with_max_temp_less_min_temp"),
    ],
)
async def test_a_difference_is_a_new_column(
    notebook: Notebook, request_text: str, table: str
) -> None:
    await done(notebook, request_text)
    expected = weather().temp_max - weather().temp_min
    assert np.allclose(new_column(notebook, table), expected)
    assert list(notebook["weather"].columns) == list(weather().columns)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("(temp_max + temp_min) / 2", lambda w: (w.temp_max + w.temp_min) / 2),
        ("(temp_max+temp_min)/2", lambda w: (w.temp_max + w.temp_min) / 2),
        ("temp_max + temp_min / 2", lambda w: w.temp_max + w.temp_min / 2),
        ("temp_max - temp_min - wind", lambda w: w.temp_max - w.temp_min - w.wind),
        ("temp_max - (temp_min - wind)", lambda w: w.temp_max - (w.temp_min - w.wind)),
        ("temp_max / (temp_min * wind)", lambda w: w.temp_max / (w.temp_min * w.wind)),
        ("-wind + 1,000", lambda w: 1000 - w.wind),
        ("wind * -2", lambda w: w.wind * -2),
        ("wind -2", lambda w: w.wind - 2),
        ("wind times 20%", lambda w: w.wind * 0.2),
        ("wind plus temp_max", lambda w: w.wind + w.temp_max),
        ("sqrt(wind)", lambda w: w.wind**0.5),
        ("abs(temp_min - 5)", lambda w: (w.temp_min - 5).abs()),
        ("log10 of wind", lambda w: np.log10(w.wind)),
        ("the square root of wind", lambda w: w.wind**0.5),
    ],
)
async def test_arithmetic_is_that_of_pandas(
    notebook: Notebook, said: str, expected: Callable[[Any], Any]
) -> None:
    await done(notebook, f"add a column made = {said}")
    values = expected(weather()).replace([np.inf, -np.inf], np.nan)
    assert np.allclose(new_column(notebook, "weather_with_made"), values, equal_nan=True)


@pytest.mark.parametrize(
    ("said", "tree"),
    [
        ("x - y - z", Operation("-", Operation("-", A, B), C)),
        ("x - y * z", Operation("-", A, Operation("*", B, C))),
        ("(x - y) * z", Operation("*", Operation("-", A, B), C)),
        ("ratio of x to y", Operation("/", A, B)),
        ("difference between x and y", Operation("-", A, B)),
        ("product of x and y", Operation("*", A, B)),
        ("x divided by y", Operation("/", A, B)),
    ],
)
def test_products_come_before_sums(said: str, tree: object) -> None:
    found = read_expression(read_items(tokenize(said), list("xyz")), formula=True)
    assert found is not None
    assert str(found[0]).replace("column='x'", "column=None").replace(
        "column='y'", "column=None"
    ).replace("column='z'", "column=None") == str(tree)


@pytest.mark.parametrize(
    "said", ["(x - y", "x -", "x ** y", "x * / y", "5 - 3", "difference between x", ""]
)
def test_what_is_no_arithmetic_is_no_expression_of_several_columns(said: str) -> None:
    found = read_expression(read_items(tokenize(f"{said} by month"), ["x", "y"]), formula=True)
    assert found is None or isinstance(found[0], Mention)


async def test_a_division_by_zero_and_a_logarithm_of_it_have_no_value(notebook: Notebook) -> None:
    turn = await done(notebook, "add a column ratio_of_rain = wind / precipitation")
    dry = int((weather().precipitation == 0).sum())
    assert new_column(notebook, "weather_with_ratio_of_rain").isna().sum() == dry
    assert f"Rows without a value: {dry}" in turn.summary
    await done(notebook, "add a column rain_log = log of precipitation")
    assert new_column(notebook, "weather_with_rain_log").isna().sum() == dry


async def test_arithmetic_stands_where_a_column_could(notebook: Notebook) -> None:
    await done(notebook, "mean difference between temp_max and temp_min by weather")
    table = notebook["mean_temp_max_less_temp_min_by_weather"]
    expected = weather().assign(d=lambda w: w.temp_max - w.temp_min).groupby("weather").d.mean()
    assert np.allclose(table.set_index("weather").iloc[:, 0].sort_index(), expected)


async def test_rows_are_kept_and_ranked_by_what_is_computed(notebook: Notebook) -> None:
    await done(notebook, "days where temp_max - temp_min > 15")
    spread = weather().temp_max - weather().temp_min
    kept = [n for n in notebook.names if n.endswith("_filtered")]
    assert len(notebook[kept[0]]) == (spread > 15).sum() > 0
    await done(notebook, "top 5 cars by horsepower / Weight_in_lbs")
    found = [n for n in notebook.names if n.startswith("cars_with") and "highest" in n]
    power = (cars().Horsepower / cars().Weight_in_lbs).nlargest(5)
    assert np.allclose(notebook[found[0]]["horsepower_per_weight_in_lbs"], power)


async def test_it_is_the_column_that_was_just_added(notebook: Notebook) -> None:
    request = "power = Horsepower / Weight_in_lbs and plot it by origin"
    await done(notebook, request)
    expected = (cars().Horsepower / cars().Weight_in_lbs).groupby(cars().Origin).mean()
    table = notebook["mean_power_by_origin"].set_index("Origin")["mean_power"].sort_index()
    assert np.allclose(table, expected)
    assert "mean_power_by_origin_chart" in notebook.names
    await done(notebook, "power = Horsepower / Weight_in_lbs and show the top 5 cars by it")
    assert any("highest_power" in name for name in notebook.names)


async def test_a_later_request_knows_the_new_column(notebook: Notebook) -> None:
    await done(notebook, "add a column power = Horsepower / Weight_in_lbs")
    await done(notebook, "mean power by origin")
    assert "mean_power" in notebook["mean_power_by_origin"].columns
    await done(notebook, "plot power by origin")
    assert "mean_power_by_origin_chart" in notebook.names


async def test_several_columns_are_added_one_after_the_other(notebook: Notebook) -> None:
    await done(
        notebook, "add a column a1 = temp_max - temp_min and b1 = a1 * 2, mean b1 by weather"
    )
    spread = (weather().temp_max - weather().temp_min) * 2
    table = notebook["mean_b1_by_weather"].set_index("weather")["mean_b1"].sort_index()
    assert np.allclose(table, spread.groupby(weather().weather).mean())


@pytest.mark.parametrize(
    ("said", "factor"),
    [("wind to km/h", 3.6), ("wind from mph to km/h", 1.609344), ("wind into knots", 1.943844)],
)
async def test_a_unit_that_is_not_known_is_asked_for(
    notebook: Notebook, said: str, factor: float
) -> None:
    turn = await notebook.ask(f"convert {said}")
    if "from" not in said:
        assert turn.ending == "ask_user"
        assert "m/s" in turn.choices
        turn = await notebook.reply("m/s")
    assert turn.ending == "return_done"
    unit = "knots" if "knots" in said else "km_h"
    assert np.allclose(new_column(notebook, f"weather_with_wind_{unit}"), weather().wind * factor)


async def test_a_unit_in_the_name_of_a_column_is_known(notebook: Notebook) -> None:
    await done(notebook, "mean Weight_in_lbs in kg by origin")
    expected = (cars().Weight_in_lbs * 0.45359237).groupby(cars().Origin).mean()
    table = next(notebook[n] for n in notebook.names if n.startswith("mean_weight"))
    assert np.allclose(table.set_index("Origin").iloc[:, 0].sort_index(), expected)


async def test_degrees_of_several_columns_are_converted_each(notebook: Notebook) -> None:
    turn = await done(notebook, "plot temp_max and temp_min in Fahrenheit by year")
    table = next(notebook[n] for n in notebook.names if n.startswith("mean_temp_max_fahrenheit")
                 and not n.endswith("_chart"))  # fmt: skip
    yearly = weather().groupby(weather().date.dt.year)[["temp_max", "temp_min"]].mean()
    assert np.allclose(table.iloc[:, -2:], yearly * 9 / 5 + 32)
    assert "I took 'temp_max' to be in degrees Celsius" in turn.summary


async def test_the_time_between_two_dates_is_in_days(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path)
    await notebook.run(
        "import pandas as pd\n"
        "orders = pd.DataFrame({'ordered': ['2024-01-01', '2024-02-01'],"
        " 'shipped': ['2024-01-03', '2024-02-11'], 'price': ['$1,000', '$20']})"
    )
    turn = await done(notebook, "add a column delay = shipped - ordered")
    assert list(notebook["orders_with_delay"]["delay"]) == [2, 10]
    assert "in days" in turn.summary
    await done(notebook, "add a column taxed = price * 2")
    assert list(notebook["orders_with_taxed"]["taxed"]) == [2000, 40]
    turn = await notebook.ask("add a column odd = shipped * 2")
    assert turn.ending == "return_unable"


@pytest.mark.parametrize(
    "request_text",
    [
        "add a column foo",
        "add a column heavy = Weight_in_lbs > 3000",
        "difference between Japan and Europe",
        "add a column x = Origin * 2",
        "add a column x = Horsepower - nonsense",
        "add a column x = Horsepower * 2 for Japan",
        "convert Miles_per_Gallon to km",
        "convert Weight_in_lbs to lbs",
        "mean Horsepower/Weight_in_lbs by origin",
        "what is the difference between mean horsepower of Japan and Europe",
        "convert cars to parquet",
    ],
)
async def test_what_cannot_be_computed_is_declined(notebook: Notebook, request_text: str) -> None:
    before = notebook.names
    turn = await notebook.ask(request_text)
    assert turn.ending == "return_unable", turn
    assert notebook.names == before


async def test_a_name_that_is_taken_is_asked_about(notebook: Notebook) -> None:
    request = "add a column temp_max = temp_max * 2 to weather"
    await done(notebook, request, "call it new_temp_max")
    made = notebook["weather_with_new_temp_max"]
    assert np.allclose(made["new_temp_max"], made["temp_max"] * 2)
    await done(notebook, request, "replace temp_max")
    assert np.allclose(notebook["weather_with_temp_max"]["temp_max"], weather().temp_max * 2)


@pytest.mark.parametrize(
    "request_text",
    [
        "add a column chart of mean horsepower by origin",
        "mean horsepower - by origin",
        "- mean horsepower by origin",
        "mean horsepower (all cars) by origin",
    ],
)
async def test_a_dash_or_a_bracket_alone_is_no_arithmetic(
    notebook: Notebook, request_text: str
) -> None:
    await done(notebook, request_text)
    assert "mean_horsepower_by_origin" in notebook.names
    assert not [n for n in notebook.names if "_with_" in n]


async def test_a_variable_called_like_numpy_is_left_alone(notebook: Notebook) -> None:
    await notebook.run("np = 7")
    await done(notebook, "add a column wind_log = log of wind")
    assert notebook["np"] == 7
    assert "wind_log" in notebook["weather_with_wind_log"].columns
