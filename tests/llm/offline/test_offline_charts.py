"""Charts draw what was asked for, with the right marks and axes."""

import random

import pandas as pd
import pytest
from offline_data import cars, done
from offline_notebook import Notebook, encodings, mark, spec


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


async def test_values_that_are_named_side_by_side_are_drawn_apart(notebook: Notebook) -> None:
    turn = await done(notebook, "plot the yearly maximum price of GOOG and AAPL in stocks.csv")
    found = encodings(notebook["max_price_by_year_and_symbol_chart"])
    assert found["color"] == ("symbol", "nominal")
    assert "I kept GOOG and AAPL apart" in turn.summary


async def test_the_highest_point_is_that_of_all_rows_also_where_few_are_drawn(
    notebook: Notebook,
) -> None:
    lines = [
        f"2000-01-01 {n // 3600:02d}:{n // 60 % 60:02d}:{n % 60:02d},{n % 7}" for n in range(9000)
    ]
    lines[4001] = lines[4001].partition(",")[0] + ",99"
    (notebook.folder / "fine.csv").write_text("at,level\n" + "\n".join(lines))
    turn = await done(notebook, "plot level over time from fine.csv")
    assert "99" in turn.summary
    assert notebook["level_over_time"]["level"].max() < 99


async def test_the_only_column_there_is_to_draw_is_drawn_without_a_question(
    small: Notebook,
) -> None:
    await small.run("import pandas as pd\none = pd.DataFrame({'length': [1.5, 2.5, 4.0, 4.5]})")
    turn = await done(small, "plot one")
    assert [n for n in small.names if n.endswith("_chart")]
    assert turn.ending == "return_done"
