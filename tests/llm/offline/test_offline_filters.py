"""Conditions keep the rows that pandas keeps."""

import pandas as pd
import pytest
from offline_data import cars, done, weather
from offline_notebook import Notebook


@pytest.mark.parametrize(
    ("request_text", "query"),
    [
        ("keep only the cars from Japan", "Origin == 'Japan'"),
        ("show cars where origin is Japan", "Origin == 'Japan'"),
        ("cars.json where Origin == 'Japan'", "Origin == 'Japan'"),
        ("filter the cars to Japan and Europe", "Origin in ['Japan', 'Europe']"),
        ("cars that are not from Japan", "Origin != 'Japan'"),
        ("exclude the USA from cars.json", "Origin != 'USA'"),
        ("cars with horsepower above 150", "Horsepower > 150"),
        ("cars with more than 150 horsepower", "Horsepower > 150"),
        ("cars with horsepower of at least 150", "Horsepower >= 150"),
        ("cars with horsepower of 150 or more", "Horsepower >= 150"),
        ("show cars with horsepower < 60", "Horsepower < 60"),
        ("cars with horsepower between 100 and 120", "100 <= Horsepower <= 120"),
        ("cars with 8 cylinders", "Cylinders == 8"),
        ("show the 8 cylinder cars", "Cylinders == 8"),
        (
            "cars from Japan with horsepower over 100 and weight below 2800",
            "Origin == 'Japan' and Horsepower > 100 and Weight_in_lbs < 2800",
        ),
        ("cars heavier than 4500", "Weight_in_lbs > 4500"),
    ],
)
async def test_rows_are_kept_by_values_and_numbers(
    notebook: Notebook, request_text: str, query: str
) -> None:
    await done(notebook, request_text)
    kept = [n for n in notebook.names if n.startswith("cars_")]
    assert len(kept) == 1
    pd.testing.assert_frame_equal(notebook[kept[0]], cars().query(query))
    pd.testing.assert_frame_equal(notebook["cars"], cars())


@pytest.mark.parametrize(
    ("request_text", "query"),
    [
        ("show the days in 2012", "date.dt.year == 2012"),
        ("rows from 2013 to 2014", "2013 <= date.dt.year <= 2014"),
        ("weather days after 2014", "date.dt.year > 2014"),
        ("weather days since 2014", "date.dt.year >= 2014"),
        ("weather days before June 2012", "date < '2012-06-01'"),
        ("weather days in June 2012", "date.dt.year == 2012 and date.dt.month == 6"),
        ("weather days in December", "date.dt.month == 12"),
        ("weather days between 2012-03-05 and 2012-03-09", "'2012-03-05' <= date <= '2012-03-09'"),
        ("weather days after 2015-12-29", "date > '2015-12-29'"),
        ("weather days with snow in 2013", "weather == 'snow' and date.dt.year == 2013"),
    ],
)  # fmt: skip
async def test_rows_are_kept_by_time(notebook: Notebook, request_text: str, query: str) -> None:
    await notebook.ask("load seattle-weather.csv")
    await done(notebook, request_text)
    kept = [n for n in notebook.names if n.startswith("seattle_weather_")]
    assert len(kept) == 1
    assert notebook[kept[0]].index.tolist() == weather().query(query).index.tolist()


async def test_an_empty_result_is_said_and_nothing_is_computed_from_it(notebook: Notebook) -> None:
    turn = await notebook.ask("mean mpg by origin for cars with horsepower above 900")
    assert turn.ending == "return_unable"
    assert "mean_miles_per_gallon_by_origin" not in notebook.names


@pytest.mark.parametrize(
    ("request_text", "query"),
    [
        ("how many cars have more than 6 cylinders?", "Cylinders > 6"),
        ("how many cars from Japan have more than 4 cylinders?",
         "Origin == 'Japan' and Cylinders > 4"),
        ("how many cars from Europe have horsepower above 100?",
         "Origin == 'Europe' and Horsepower > 100"),
    ],
)  # fmt: skip
async def test_no_condition_is_lost_beside_another(
    notebook: Notebook, request_text: str, query: str
) -> None:
    await done(notebook, "load cars.json")
    await done(notebook, request_text)
    assert next(notebook[n] for n in notebook.names if n.endswith("_count")) == len(
        cars().query(query)
    )


@pytest.mark.parametrize(
    ("request_text", "query"),
    [
        ("how many days in 2015 had fog?", "date.dt.year == 2015 and weather == 'fog'"),
        ("how many days of 2014 had rain?", "date.dt.year == 2014 and weather == 'rain'"),
        ("how many fog days between 2012 and 2013?", "date.dt.year <= 2013 and weather == 'fog'"),
    ],
)
async def test_a_time_and_a_value_are_both_conditions(
    notebook: Notebook, request_text: str, query: str
) -> None:
    await done(notebook, "load seattle-weather.csv")
    await done(notebook, request_text)
    counts = [notebook[n] for n in notebook.names if n.endswith("_count")]
    assert counts == [len(weather().query(query))]
