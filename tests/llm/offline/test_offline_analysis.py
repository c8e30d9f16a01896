"""Requests in, frames and charts out: what the offline model computes is right."""

import random
import shutil
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from offline_notebook import Notebook, Turn, encodings, mark, spec

_PACKAGE = find_spec("vega_datasets")
assert _PACKAGE is not None
assert _PACKAGE.origin is not None
DATA = Path(_PACKAGE.origin).parent / "_data"


@pytest.fixture
def notebook(tmp_path: Path) -> Notebook:
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("cars.json", "seattle-weather.csv", "stocks.csv"):
        shutil.copy(DATA / name, folder / name)
    draw = random.Random(7)
    rows = ["Order Date,Region,Product,Units,Unit Price,Revenue"]
    for _ in range(300):
        units, price = draw.randint(1, 20), draw.choice([9.5, 20, 45.25])
        date = f"2023-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d}"
        region = draw.choice(["North", "South", "East", "West"])
        product = draw.choice(["Desk", "Chair", "Lamp"])
        rows.append(f"{date},{region},{product},{units},{price},{units * price}")
    (folder / "sales.csv").write_text("\n".join(rows), encoding="utf-8")
    return Notebook(tmp_path)


def cars() -> pd.DataFrame:
    return pd.read_json(DATA / "cars.json")


def weather() -> pd.DataFrame:
    return pd.read_csv(DATA / "seattle-weather.csv", parse_dates=["date"])


def stocks() -> pd.DataFrame:
    return pd.read_csv(DATA / "stocks.csv", parse_dates=["date"], date_format="%b %d %Y")


async def done(notebook: Notebook, request: str, *replies: str) -> Turn:
    """Play to the end; every code that was sent must have worked."""
    turn = await notebook.ask(request)
    for reply in replies:
        assert turn.ending == "ask_user", turn
        turn = await notebook.reply(reply)
    assert turn.errors == []
    assert turn.ending == "return_done", turn
    return turn


# -- loading and looking -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_text", "name"),
    [
        ("load data/cars.json", "cars"),
        ("Load cars.json", "cars"),
        ("please open the cars data", "cars"),
        ("read 'data/cars.json' as autos", "autos"),
        ("import cars", "cars"),
        ("load crs.json", "cars"),
    ],
)
async def test_a_file_is_loaded_under_its_stem_or_the_name_that_is_given(
    notebook: Notebook, request_text: str, name: str
) -> None:
    turn = await done(notebook, request_text)
    pd.testing.assert_frame_equal(notebook[name], cars())
    assert "406 rows" in turn.summary


async def test_several_files_are_loaded_in_one_request(notebook: Notebook) -> None:
    await done(notebook, "load stocks.csv and seattle-weather.csv")
    assert {"stocks", "seattle_weather"} <= notebook.names


@pytest.mark.parametrize("kind", ["parquet", "xlsx", "jsonl", "tsv"])
async def test_every_format_is_read(notebook: Notebook, kind: str) -> None:
    frame = pd.DataFrame({"town": ["Rome", "Oslo"], "people": [3, 1]})
    path = notebook.folder / f"towns.{kind}"
    match kind:
        case "parquet":
            frame.to_parquet(path)
        case "xlsx":
            frame.to_excel(path, index=False)
        case "jsonl":
            frame.to_json(path, orient="records", lines=True)
        case _:
            frame.to_csv(path, sep="\t", index=False)
    await done(notebook, f"load towns.{kind} and show the mean people by town")
    assert notebook["mean_people_by_town"]["mean_people"].tolist() == [3, 1]


async def test_a_table_that_is_there_is_used_without_loading(notebook: Notebook) -> None:
    await notebook.run("import pandas as pd\ndf = pd.DataFrame({'a': ['x', 'y'], 'b': [1, 2]})")
    turn = await done(notebook, "mean b by a")
    assert not any("read_" in code for code in turn.codes)
    assert notebook["mean_b_by_a"]["mean_b"].tolist() == [2, 1]


async def test_the_one_table_with_the_columns_is_chosen_among_several(notebook: Notebook) -> None:
    await notebook.run(
        "import pandas as pd\n"
        "left = pd.DataFrame({'team': ['x', 'y'], 'goals': [1, 2]})\n"
        "right = pd.DataFrame({'town': ['r', 's'], 'people': [5, 6]})"
    )
    await done(notebook, "total people by town")
    assert notebook["total_people_by_town"]["total_people"].tolist() == [6, 5]


async def test_between_tables_that_fit_alike_the_person_chooses(notebook: Notebook) -> None:
    await notebook.run(
        "import pandas as pd\n"
        "left = pd.DataFrame({'team': ['x', 'y'], 'goals': [1, 2]})\n"
        "right = pd.DataFrame({'team': ['x', 'y'], 'goals': [7, 8]})"
    )
    turn = await notebook.ask("total goals by team")
    assert turn.ending == "ask_user"
    assert sorted(turn.choices) == ["left", "right"]
    await notebook.reply("right")
    assert notebook["total_goals_by_team"]["total_goals"].tolist() == [8, 7]


@pytest.mark.parametrize(
    "request_text",
    ["describe cars", "summarise cars.json", "give me an overview of the cars data"],
)
async def test_describing_gives_a_summary_of_every_column(
    notebook: Notebook, request_text: str
) -> None:
    await done(notebook, request_text)
    summary = notebook["cars_summary"]
    assert summary.loc["Horsepower", "mean"] == pytest.approx(cars()["Horsepower"].mean())
    assert summary.shape[0] == 9


async def test_the_first_rows_are_shown(notebook: Notebook) -> None:
    turn = await done(notebook, "show the first 7 rows of stocks.csv")
    assert turn.codes[-1] == "stocks.head(7)"


# -- filters -------------------------------------------------------------------------------------


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


# -- aggregates ----------------------------------------------------------------------------------


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


# -- ranks ---------------------------------------------------------------------------------------


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


# -- charts --------------------------------------------------------------------------------------


async def test_time_is_drawn_as_a_line(notebook: Notebook) -> None:
    await done(notebook, "plot mean mpg by year for Japan from cars.json")
    chart = notebook["mean_miles_per_gallon_by_year_chart"]
    assert mark(chart) == "line"
    assert encodings(chart)["x"] == ("year", "quantitative")
    assert encodings(chart)["y"] == ("mean_miles_per_gallon", "quantitative")
    frame = cars().query("Origin == 'Japan'")
    expected = frame.groupby(pd.to_datetime(frame["Year"]).dt.year)["Miles_per_Gallon"].mean()
    drawn = next(iter(spec(chart)["datasets"].values()))
    assert {row["year"]: row["mean_miles_per_gallon"] for row in drawn} == pytest.approx(
        expected.to_dict()
    )


@pytest.mark.parametrize(
    "request_text",
    [
        "plot price over date as a line colored by symbol, stocks.csv",
        "plot price over time colored by symbol in stocks.csv",
        "line chart of price vs date from stocks.csv, one line per symbol",
    ],
)
async def test_an_x_axis_can_be_named(notebook: Notebook, request_text: str) -> None:
    await done(notebook, request_text)
    assert encodings(notebook["price_over_time_chart"]) == {
        "x": ("date", "temporal"),
        "y": ("price", "quantitative"),
        "color": ("symbol", "nominal"),
    }


@pytest.mark.parametrize(
    "request_text",
    [
        "plot mean horsepower by origin from cars.json",
        "load cars.json, compute the mean horsepower by origin and plot it",
        "load cars.json. mean horsepower by origin, as a bar chart",
        "bar chart of average horsepower per origin in cars.json",
    ],
)
async def test_categories_are_drawn_as_bars(notebook: Notebook, request_text: str) -> None:
    await done(notebook, request_text)
    chart = notebook["mean_horsepower_by_origin_chart"]
    assert mark(chart) == "bar"
    assert encodings(chart)["x"][0] == "mean_horsepower"
    assert encodings(chart)["y"] == ("Origin", "nominal")


async def test_two_groupings_of_time_give_a_line_each(notebook: Notebook) -> None:
    await done(notebook, "line chart of monthly mean price by symbol from stocks.csv")
    found = encodings(notebook["mean_price_by_month_and_symbol_chart"])
    assert found["x"] == ("date", "temporal")
    assert found["color"] == ("symbol", "nominal")


async def test_rows_that_share_their_dates_give_a_line_per_group(notebook: Notebook) -> None:
    turn = await done(notebook, "load stocks.csv and plot price over time")
    found = encodings(notebook["price_over_time_chart"])
    assert found["color"] == ("symbol", "nominal")
    assert "one line per symbol" in turn.summary


async def test_two_numbers_are_drawn_as_points(notebook: Notebook) -> None:
    turn = await done(notebook, "scatter horsepower vs weight colored by origin in cars.json")
    chart = notebook["horsepower_vs_weight_in_lbs_chart"]
    assert mark(chart) == "circle"
    assert encodings(chart) == {
        "x": ("Weight_in_lbs", "quantitative"),
        "y": ("Horsepower", "quantitative"),
        "color": ("Origin", "nominal"),
    }
    assert "'weight' to mean the column 'Weight_in_lbs'" in turn.summary


async def test_a_histogram_counts_every_value_once(notebook: Notebook) -> None:
    await done(notebook, "histogram of horsepower with 12 bins from cars.json")
    bins = notebook["horsepower_distribution"]
    assert len(bins) == 12
    assert bins["count"].sum() == cars()["Horsepower"].count()
    assert mark(notebook["horsepower_distribution_chart"]) == "bar"


async def test_two_measures_share_a_chart(notebook: Notebook) -> None:
    await done(notebook, "plot temp_max and temp_min over time from seattle-weather.csv")
    chart = notebook["temp_max_and_temp_min_over_time_chart"]
    assert encodings(chart)["color"] == ("measure", "nominal")


async def test_a_chart_has_a_title_axis_titles_and_tooltips(notebook: Notebook) -> None:
    await done(notebook, "plot mean horsepower by origin from cars.json")
    found = spec(notebook["mean_horsepower_by_origin_chart"])
    assert found["title"]
    assert found["encoding"]["x"]["title"]
    assert found["encoding"]["y"]["title"]
    assert len(found["encoding"]["tooltip"]) == 2


async def test_many_points_are_sampled_the_same_way_each_time(notebook: Notebook) -> None:
    draw = random.Random(1)
    lines = [f"{draw.random():.6f},{draw.random():.6f}" for _ in range(7000)]
    (notebook.folder / "cloud.csv").write_text("across,up\n" + "\n".join(lines))
    turn = await done(notebook, "scatter plot of up against across in cloud.csv")
    first = notebook["up_vs_across"]
    assert len(first) == 5000
    assert "5000 of 7000" in turn.summary
    await notebook.executor.execute(turn.codes[-1])
    pd.testing.assert_frame_equal(notebook["up_vs_across"], first)


async def test_several_charts_come_from_one_request(notebook: Notebook) -> None:
    await done(
        notebook,
        "open seattle-weather.csv; draw a histogram of wind; "
        "draw a line chart of monthly mean temp_max",
    )
    assert {"wind_distribution_chart", "mean_temp_max_by_month_chart"} <= notebook.names


async def test_what_is_kept_first_holds_for_what_follows(notebook: Notebook) -> None:
    await done(notebook, "load sales.csv, keep only the North region, then plot monthly revenue")
    frame = pd.read_csv(notebook.folder / "data/sales.csv").query("Region == 'North'")
    made = notebook["total_revenue_by_month"]
    assert made["total_revenue"].sum() == pytest.approx(frame["Revenue"].sum())


# -- publishing ----------------------------------------------------------------------------------


async def test_only_what_is_asked_for_is_published(notebook: Notebook) -> None:
    turn = await done(notebook, "plot mean horsepower by origin from cars.json")
    assert turn.published == []
    turn = await done(
        notebook, "plot mean mpg by origin from cars.json and publish the chart as 'Thirst'"
    )
    assert [(p["kind"], p["variable"], p["title"]) for p in turn.published] == [
        ("chart", "mean_miles_per_gallon_by_origin_chart", "Thirst")
    ]


@pytest.mark.parametrize(
    ("request_text", "kinds"),
    [
        ("plot mean mpg by origin from cars.json and publish it", ["chart"]),
        ("mean mpg by origin from cars.json, save the result as a dataset", ["dataset"]),
        ("save the mean mpg by origin from cars.json as a dataset called Power", ["dataset"]),
        ("plot mean mpg by origin of cars.json, publish the data and the chart",
         ["dataset", "chart"]),
        ("load cars.json and publish it as a dataset", ["dataset"]),
    ],
)  # fmt: skip
async def test_datasets_and_charts_are_published(
    notebook: Notebook, request_text: str, kinds: list[str]
) -> None:
    turn = await done(notebook, request_text)
    assert [p["kind"] for p in turn.published] == kinds


async def test_what_an_earlier_turn_made_can_be_published(notebook: Notebook) -> None:
    await done(notebook, "plot mean horsepower by origin from cars.json")
    turn = await done(notebook, "publish the chart")
    assert [p["variable"] for p in turn.published] == ["mean_horsepower_by_origin_chart"]
