"""Heat maps: a measure by two groupings, each along one side."""

import pytest
from offline_data import cars, done, weather
from offline_notebook import Notebook, encodings, mark, spec


@pytest.fixture
async def loaded(notebook: Notebook) -> Notebook:
    await notebook.run(
        "import pandas as pd\n"
        "weather = pd.read_csv('data/seattle-weather.csv', parse_dates=['date'])"
    )
    return notebook


@pytest.mark.parametrize(
    "request_text",
    [
        "heat map of mean temp_max by month and year",
        "average temp_max by year and month as a heatmap",
        "draw a heatmap of the mean temp_max per month and year",
    ],
)
async def test_months_of_the_year_stand_against_years(loaded: Notebook, request_text: str) -> None:
    turn = await done(loaded, request_text)
    name = next(n for n in loaded.names if n.endswith("_chart"))
    chart, made = loaded[name], loaded[name.removesuffix("_chart")]
    assert mark(chart) == "rect"
    found = encodings(chart)
    assert (found["x"][0], found["y"][0]) == ("month_name", "year")
    assert found["color"] == ("mean_temp_max", "quantitative")
    assert spec(chart)["encoding"]["x"]["sort"][:2] == ["January", "February"]
    frame = weather()
    told = frame.groupby([frame["date"].dt.year, frame["date"].dt.month_name()])["temp_max"].mean()
    assert made.set_index(["year", "month_name"])["mean_temp_max"].to_dict() == pytest.approx(
        told.to_dict()
    )
    assert "I took month to mean the month of the year" in turn.summary


async def test_months_along_time_stand_against_kinds(loaded: Notebook) -> None:
    await done(loaded, "heat map of mean wind by month and weather")
    chart = loaded["mean_wind_by_month_and_weather_chart"]
    assert spec(chart)["encoding"]["x"]["timeUnit"] == "yearmonth"
    assert encodings(chart)["y"] == ("weather", "nominal")


async def test_hours_of_the_day_stand_against_weekdays(notebook: Notebook) -> None:
    await notebook.run(
        "import pandas as pd\n"
        "visits = pd.DataFrame({'at': pd.date_range('2024-01-01', periods=400, freq='5h')})\n"
        "visits['visitors'] = range(400)"
    )
    await done(notebook, "heat map of total visitors by hour and weekday")
    name = next(n for n in notebook.names if n.endswith("_chart"))
    made = notebook[name.removesuffix("_chart")]
    frame = notebook["visits"]
    told = frame.groupby([frame["at"].dt.hour, frame["at"].dt.day_name()])["visitors"].sum()
    found = made.set_index(["hour_of_day", "weekday"])["total_visitors"]
    assert found.to_dict() == told.to_dict()
    assert spec(notebook[name])["encoding"]["y"]["sort"][0] == "Monday"


async def test_rows_are_counted_where_no_measure_is_named(notebook: Notebook) -> None:
    turn = await done(notebook, "heat map of origin and cylinders in cars.json")
    made = notebook["count_by_origin_and_cylinders"].set_index(["Origin", "Cylinders"])["count"]
    assert made.to_dict() == cars().groupby(["Origin", "Cylinders"]).size().to_dict()
    assert "I counted rows" in turn.summary


@pytest.mark.parametrize(
    "request_text",
    [
        "heatmap",
        "heat map of wind",
        "heat map of wind and temp_max",
        "heat map of mean wind by weather",
        "heat map of mean wind by date and weather",
        "heat map of mean wind by day and weather",
        "heat map of mean wind by day and month",
        "heat map of mean wind and mean temp_max by month and weather",
        "heat map of mean wind by month, year and weather",
        "heat map of the 5 windiest days",
    ],
)
async def test_what_is_no_heat_map_draws_nothing(loaded: Notebook, request_text: str) -> None:
    before = loaded.names
    turn = await loaded.ask(request_text)
    assert turn.ending in ("return_unable", "ask_user"), turn
    assert loaded.names == before


async def test_a_side_with_too_many_values_is_declined(notebook: Notebook) -> None:
    turn = await notebook.ask("heat map of mean horsepower by name and origin in cars.json")
    assert turn.ending == "return_unable"
    assert f"Name ({cars()['Name'].nunique()})" in turn.arguments["rationale"]
