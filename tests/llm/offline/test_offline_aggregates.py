"""Aggregates and ranks are those that pandas computes."""

import pandas as pd
import pytest
from offline_data import cars, done, stocks, weather
from offline_notebook import Notebook, encodings


@pytest.mark.parametrize(
    ("request_text", "func"),
    [
        ("average horsepower of cars by origin", "mean"),
        ("mean horsepower per origin in cars.json", "mean"),
        ("group the cars by origin and compute the mean horsepower", "mean"),
        ("what is the avg horsepower for each origin in the cars data?", "mean"),
        ("total horsepower by origin, cars.json", "sum"),
        ("median horsepower across origins of the cars", "median"),
        ("highest horsepower by origin in cars.json", "max"),
        ("cars.json: minimum horsepower by origin", "min"),
    ],
)
async def test_a_measure_is_aggregated_by_a_column(
    notebook: Notebook, request_text: str, func: str
) -> None:
    await done(notebook, request_text)
    word = {"sum": "total"}.get(func, func)
    made = notebook[f"{word}_horsepower_by_origin"].set_index("Origin")[f"{word}_horsepower"]
    expected = cars().groupby("Origin")["Horsepower"].agg(func)
    assert made.to_dict() == pytest.approx(expected.to_dict())


async def test_several_functions_measures_and_groups_come_in_one_table(notebook: Notebook) -> None:
    await done(notebook, "mean and max horsepower by origin and cylinders in cars.json")
    made = notebook["mean_horsepower_and_max_horsepower_by_origin_and_cylinders"]
    expected = cars().groupby(["Origin", "Cylinders"])["Horsepower"].agg(["mean", "max"])
    found = made.set_index(["Origin", "Cylinders"])
    assert found["mean_horsepower"].tolist() == pytest.approx(expected["mean"].tolist())
    assert found["max_horsepower"].tolist() == expected["max"].tolist()


@pytest.mark.parametrize(
    "request_text",
    [
        "how many cars per origin?",
        "count the cars by origin",
        "number of cars for each origin",
        "bar chart of origin counts in cars.json",
        "what are the unique values of origin in cars.json?",
    ],
)
async def test_rows_are_counted(notebook: Notebook, request_text: str) -> None:
    await done(notebook, request_text)
    made = notebook["count_by_origin"].set_index("Origin")["count"]
    assert made.to_dict() == cars()["Origin"].value_counts().to_dict()


@pytest.mark.parametrize(
    "request_text",
    ["how many days had rain per month?", "number of days with rain by month"],
)
async def test_what_is_counted_is_the_value_and_never_all_rows_under_its_name(
    notebook: Notebook, request_text: str
) -> None:
    await done(notebook, "load data/seattle-weather.csv as weather")
    await done(notebook, request_text)
    counted = notebook["count_by_month"]
    weather = notebook["weather"]
    assert counted["count"].sum() == (weather["weather"] == "rain").sum()


async def test_a_number_without_groups_is_printed_and_repeated(notebook: Notebook) -> None:
    turn = await done(notebook, "what is the average horsepower of the cars from Japan?")
    expected = cars().query("Origin == 'Japan'")["Horsepower"].mean()
    assert notebook["mean_horsepower"] == pytest.approx(expected)
    assert str(notebook["mean_horsepower"]) in turn.summary


async def test_how_many_of_a_kind_is_a_count_of_rows(notebook: Notebook) -> None:
    turn = await done(notebook, "how many cars are from Japan?")
    assert notebook["cars_japan_count"] == 79
    assert "79" in turn.summary


@pytest.mark.parametrize(
    ("request_text", "freq", "func"),
    [
        ("monthly mean temp_max from the seattle weather", "MS", "mean"),
        ("average temp_max by month, seattle-weather.csv", "MS", "mean"),
        ("weekly maximum of temp_max in seattle-weather.csv", "W", "max"),
        ("quarterly median temp_max of the seattle weather", "QS", "median"),
        ("resample seattle-weather.csv to daily mean temp_max", "D", "mean"),
    ],
)
async def test_time_is_resampled(
    notebook: Notebook, request_text: str, freq: str, func: str
) -> None:
    turn = await done(notebook, request_text)
    made = next(notebook[n] for n in notebook.names if n.startswith(f"{func}_temp_max_by_"))
    expected = weather().resample(freq, on="date")["temp_max"].agg(func)
    assert made[f"{func}_temp_max"].tolist() == pytest.approx(expected.tolist())
    assert made["date"].tolist() == expected.index.tolist()
    assert turn.published == []


async def test_years_are_whole_numbers(notebook: Notebook) -> None:
    await done(notebook, "yearly total precipitation in seattle-weather.csv")
    made = notebook["total_precipitation_by_year"].set_index("year")["total_precipitation"]
    frame = weather()
    expected = frame.groupby(frame["date"].dt.year)["precipitation"].sum()
    assert made.to_dict() == pytest.approx(expected.to_dict())


async def test_weekdays_stand_in_the_order_of_the_calendar(notebook: Notebook) -> None:
    await done(notebook, "mean temp_max by weekday in seattle-weather.csv")
    made = notebook["mean_temp_max_by_day_of_the_week"]
    assert made["weekday"].tolist()[0] == "Monday"
    assert made["weekday"].tolist()[-1] == "Sunday"


async def test_values_beside_the_measure_are_filters(notebook: Notebook) -> None:
    await done(notebook, "average price of AAPL by year in stocks.csv")
    frame = stocks().query("symbol == 'AAPL'")
    expected = frame.groupby(frame["date"].dt.year)["price"].mean()
    made = notebook["mean_price_by_year"].set_index("year")["mean_price"]
    assert made.to_dict() == pytest.approx(expected.to_dict())


async def test_compared_values_are_put_side_by_side(notebook: Notebook) -> None:
    await done(notebook, "compare the mean price of AAPL and MSFT in stocks.csv")
    expected = stocks().groupby("symbol")["price"].mean()[["AAPL", "MSFT"]]
    made = notebook["mean_price_by_symbol"].set_index("symbol")["mean_price"]
    assert made.to_dict() == pytest.approx(expected.to_dict())


@pytest.mark.parametrize(
    "request_text",
    [
        "top 4 cars by horsepower",
        "show the 4 cars with the highest horsepower",
        "the 4 most powerful cars",
    ],
)
async def test_the_top_rows(notebook: Notebook, request_text: str) -> None:
    await done(notebook, request_text)
    expected = cars().nlargest(4, "Horsepower")["Name"].tolist()
    assert notebook["cars_highest_horsepower"]["Name"].tolist() == expected


async def test_the_bottom_rows(notebook: Notebook) -> None:
    await done(notebook, "bottom 5 days by temp_min in seattle-weather.csv")
    made = notebook["seattle_weather_lowest_temp_min"]
    assert made["temp_min"].tolist() == weather().nsmallest(5, "temp_min")["temp_min"].tolist()


async def test_groups_are_ranked_by_the_total_of_what_adds_up(notebook: Notebook) -> None:
    await done(notebook, "top 2 regions by revenue in sales.csv")
    frame = pd.read_csv(notebook.folder / "data/sales.csv")
    expected = frame.groupby("Region")["Revenue"].sum().nlargest(2)
    made = notebook["total_revenue_by_region"].set_index("Region")["total_revenue"]
    assert made.to_dict() == pytest.approx(expected.to_dict())
    assert made.index.tolist() == expected.index.tolist()


async def test_what_does_not_add_up_is_asked_about(notebook: Notebook) -> None:
    turn = await notebook.ask("top 2 symbols by price in stocks.csv")
    assert turn.ending == "ask_user"
    assert "mean price" in turn.choices
    await notebook.reply("mean price")
    expected = stocks().groupby("symbol")["price"].mean().nlargest(2)
    assert notebook["mean_price_by_symbol"]["symbol"].tolist() == expected.index.tolist()


async def test_which_group_is_the_extreme_one(notebook: Notebook) -> None:
    turn = await done(notebook, "Which origin has the lowest mean horsepower in cars.json?")
    lowest = cars().groupby("Origin")["Horsepower"].mean().idxmin()
    assert notebook["mean_horsepower_by_origin"]["Origin"].iloc[0] == lowest
    assert str(lowest) in turn.summary


async def test_the_most_common_value(notebook: Notebook) -> None:
    turn = await done(notebook, "which weather is most common in seattle-weather.csv?")
    assert "sun 714" in turn.summary


async def test_rows_are_sorted(notebook: Notebook) -> None:
    await done(notebook, "sort cars.json by horsepower ascending")
    assert notebook["cars_sorted"]["Horsepower"].iloc[0] == cars()["Horsepower"].min()


async def test_the_extreme_part_of_a_year_is_found_among_its_parts(notebook: Notebook) -> None:
    await done(notebook, "load seattle-weather.csv")
    turn = await done(notebook, "which month of the year is the wettest on average?")
    frame = weather()
    means = frame.groupby(frame["date"].dt.month_name())["precipitation"].mean()
    assert f"{means.idxmax()} {means.max():.6f}" in turn.summary


@pytest.mark.parametrize(
    "request_text",
    [
        "what was the highest wind and when?",
        "when was the highest wind?",
        "when was the strongest wind?",
    ],
)
async def test_when_is_answered_by_the_row(notebook: Notebook, request_text: str) -> None:
    await done(notebook, "load seattle-weather.csv")
    await done(notebook, request_text)
    found = notebook["seattle_weather_highest_wind"]
    assert found["wind"].tolist() == [weather()["wind"].max()]


async def test_when_is_declined_where_no_row_answers_it(notebook: Notebook) -> None:
    await done(notebook, "load seattle-weather.csv")
    assert (await notebook.ask("when did the wind exceed 9?")).ending == "return_unable"


async def test_a_comparison_over_time_is_drawn_over_time(notebook: Notebook) -> None:
    await done(notebook, "compare AAPL and MSFT in stocks.csv over time")
    found = encodings(notebook["mean_price_by_date_and_symbol_chart"])
    assert (found["x"], found["color"]) == (("date", "temporal"), ("symbol", "nominal"))


@pytest.mark.parametrize(
    "request_text",
    ["compare temp_max between rain and sun", "how does temp_max differ between rain and sun?"],
)
async def test_what_is_compared_keeps_its_measure(notebook: Notebook, request_text: str) -> None:
    await done(notebook, "load seattle-weather.csv")
    await done(notebook, request_text)
    frame = weather().query("weather in ['rain', 'sun']")
    made = notebook["mean_temp_max_by_weather"].set_index("weather")["mean_temp_max"]
    assert made.to_dict() == pytest.approx(frame.groupby("weather")["temp_max"].mean().to_dict())


@pytest.mark.parametrize(
    "request_text",
    [
        "which cylinders count has the best mean mpg?",
        "show Name and Horsepower of the 3 heaviest cars",
        "cars whose name contains ford",
    ],
)
async def test_a_column_that_has_no_place_is_declined_and_never_dropped(
    notebook: Notebook, request_text: str
) -> None:
    await done(notebook, "load cars.json")
    assert (await notebook.ask(request_text)).ending == "return_unable"


@pytest.mark.parametrize(
    "request_text",
    ["compare 2012 and 2013 by mean temp_max", "compare the mean temp_max of 2012 and 2013"],
)
async def test_years_that_are_compared_stand_side_by_side(
    notebook: Notebook, request_text: str
) -> None:
    await done(notebook, "load seattle-weather.csv")
    await done(notebook, request_text)
    days = weather()
    told = days.groupby(days["date"].dt.year)["temp_max"].mean().loc[[2012, 2013]]
    made = notebook["mean_temp_max_by_year"]
    assert made["year"].tolist() == [2012, 2013]
    assert made["mean_temp_max"].tolist() == pytest.approx(told.tolist())
