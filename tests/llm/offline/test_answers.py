"""The built-in model: each row of its table, what it computes, draws and publishes."""

from typing import Any

import pandas as pd
import pytest
from offline_data import HIVES, ROWS, STOCK, cars, done, drawn, made, number, to_the_end, weather
from offline_notebook import Notebook, encodings, mark, spec


@pytest.mark.parametrize("row", ROWS, ids=[row["example"] for row in ROWS])
async def test_every_table_example_is_understood(tables: Notebook, row: dict[str, Any]) -> None:
    if "kind" in row:
        await to_the_end(tables, "plot mean horsepower by origin")
        tables.tools += [{"type": "function", "function": {"name": "return_report"}}]
    turn = await to_the_end(tables, row["example"])
    assert turn.errors == []
    assert turn.ending == "return_done", turn.arguments


CARS = cars()


WEATHER = weather()


NUMBERS = [
    ("how many cars are there?", len(CARS)),
    ("number of cars from Japan", (CARS.Origin == "Japan").sum()),
    ("average horsepower", CARS.Horsepower.mean()),
    ("what is the highest weight of the cars from Europe?",
     CARS[CARS.Origin == "Europe"].Weight_in_lbs.max()),
    ("how many different origins are there?", CARS.Origin.nunique()),
    ("90th percentile of horsepower", CARS.Horsepower.quantile(0.9)),
    ("median weight of cars with horsepower above 100",
     CARS[CARS.Horsepower > 100].Weight_in_lbs.median()),
    ("how many cars have horsepower between 75 and 100?",
     CARS.Horsepower.between(75, 100).sum()),
    ("number of cars that are not from Japan", (CARS.Origin != "Japan").sum()),
    ("how many cars in 1975-01", (CARS.Year == "1975-01-01").sum()),
    ("number of cars since 1980-01", (CARS.Year >= "1980-01-01").sum()),
    ("how many cars before 1976-01-01", (CARS.Year < "1976-01-01").sum()),
    ("how many cars in January 1975", (CARS.Year == "1975-01-01").sum()),
    ("number of cars since jan. 1980", (CARS.Year >= "1980-01-01").sum()),
    ("how many cars from january 1975 to March 1976",
     CARS.Year.between("1975-01-01", "1976-03-31").sum()),
    ("how many readings with missing horsepower in cars", CARS.Horsepower.isna().sum()),
    ("how many cars from Japan or with horsepower above 200",
     ((CARS.Origin == "Japan") | (CARS.Horsepower > 200)).sum()),
]  # fmt: skip


@pytest.mark.parametrize(("request_", "truth"), NUMBERS, ids=[r for r, _ in NUMBERS])
async def test_single_number(tables: Notebook, request_: str, truth: float) -> None:
    turn = await done(tables, request_)
    assert number(turn) == pytest.approx(float(truth), rel=0.002), turn.summary


def by(column: str, value: str, how: str) -> pd.Series:
    found: pd.Series = CARS.groupby(column)[value].agg(how)
    return found


GROUPS = [
    ("mean horsepower by origin", by("Origin", "Horsepower", "mean")),
    ("total weight per origin", by("Origin", "Weight_in_lbs", "sum")),
    ("compare the mean horsepower of Japan and Europe",
     by("Origin", "Horsepower", "mean").drop("USA")),
    ("which origin has the highest mean horsepower?",
     by("Origin", "Horsepower", "mean").nlargest(1)),
    ("share of the cars by origin", 100 * CARS.Origin.value_counts(normalize=True)),
    ("number of cars from Japan and Europe", CARS.Origin.value_counts().drop("USA")),
]  # fmt: skip


@pytest.mark.parametrize(("request_", "truth"), GROUPS, ids=[r for r, _ in GROUPS])
async def test_group_table(tables: Notebook, request_: str, truth: pd.Series) -> None:
    found = (await made(tables, request_)).set_index("Origin").iloc[:, -1]
    assert found.sort_index().tolist() == pytest.approx(truth.sort_index().tolist())


async def test_groups_that_tie_are_all_told(notebook: Notebook) -> None:
    await notebook.run("import pandas as pd\nshop = pd.DataFrame({'city': list('AB'), 'cost': 5})")
    turn = await done(notebook, "which city has the highest total cost")
    assert turn.summary.startswith("Highest total cost: A, 5. B, 5.")


async def test_growth_behind_a_gap_or_from_zero_is_none(notebook: Notebook) -> None:
    await notebook.run(
        "import pandas as pd\n"
        "days = ['2023-12-01', '2024-01-01', '2024-02-01', '2024-04-01', '2024-05-01']\n"
        "shop = pd.DataFrame({'day': pd.to_datetime(days), 'revenue': [0.0, 1.0, 2.0, 8.0, 10.0]})"
    )
    found = await made(notebook, "growth of total revenue by month")
    assert [round(each) for each in found["growth_total_revenue"].dropna()] == [100, 25]
    await notebook.run("years = pd.DataFrame({'year': [1840, 1842, 1843], 'wrecks': [1, 3, 6]})")
    found = await made(notebook, "growth of total wrecks by year in years")
    assert [round(each) for each in found["growth_total_wrecks"].dropna()] == [100]


async def test_growth_is_per_group(tables: Notebook) -> None:
    found = await made(tables, "growth of total price by symbol and year")
    assert found[found["year"] == 2000]["growth_total_price"].isna().all()
    of = found[found["symbol"] == "IBM"]
    assert of["growth_total_price"].tolist()[1:] == pytest.approx(
        of["total_price"].pct_change().mul(100).tolist()[1:]
    )


async def test_chart_kind_is_no_title(tables: Notebook) -> None:
    turn = await done(tables, "publish the mean horsepower by origin as a bar chart")
    assert [(p["kind"], p["title"]) for p in turn.published] == [
        ("chart", "Mean Horsepower by Origin")
    ]


async def test_two_months_are_compared(tables: Notebook) -> None:
    found = await made(tables, "compare the total precipitation of January and February")
    months = WEATHER.groupby(pd.to_datetime(WEATHER.date).dt.month).precipitation.sum()
    assert found.set_index("month").iloc[:, -1].to_dict() == pytest.approx(months[:2].to_dict())


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ("growth of total precipitation by year",
         "Highest growth of total precipitation (none behind a gap): 2014, 48.89 %"),
        ("cumulative precipitation by month",
         "Highest cumulative total precipitation: 2015-12, 4,426"),
        ("share of the cars by origin", "Highest share of the number of rows: USA, 62.56 %"),
        (
            "top 3 cars by horsepower for USA",
            "Highest Horsepower (Origin is USA): pontiac grand prix, 230. "
            "More rows tie with the last of these. Rows: 3 of 406.",
        ),
        ("top 3 stocks by price with price over 5000",
         "Highest price (price > 5000): none. Rows: 0"),
        ("show stocks", "Rows of stocks."),
        ("7 day rolling mean of temp_max",
         "Highest 7-day rolling mean temp max: 2015-07-06, 32.21"),
    ],
)  # fmt: skip
async def test_answer_says_what_its_number_is(tables: Notebook, request_: str, words: str) -> None:
    assert (await done(tables, request_)).summary.startswith(words)


ROWS_KEPT = [
    ("top 10 cars by horsepower", 10),
    ("keep only the cars from Japan", (CARS.Origin == "Japan").sum()),
    ("cars after 1980", (CARS.Year.dt.year > 1980).sum()),
    ("cars from 1975 to 1980", CARS.Year.dt.year.between(1975, 1980).sum()),
]


@pytest.mark.parametrize(("request_", "rows"), ROWS_KEPT, ids=[r for r, _ in ROWS_KEPT])
async def test_row_filter(tables: Notebook, request_: str, rows: int) -> None:
    turn = await done(tables, request_)
    assert f": {rows} of 406" in turn.summary


CHARTS = [
    ("plot mean horsepower by origin", "bar", {"x": "mean_horsepower", "y": "origin"}),
    ("mean temp_max by month as a line chart", "line", {"x": "date", "y": "mean_temp_max"}),
    ("mean price by symbol and year as a line chart", "line", {"x": "year", "color": "symbol"}),
    ("histogram of horsepower", "bar", {"x": "horsepower"}),
    ("box plot of horsepower by origin", "boxplot", {"x": "origin", "y": "horsepower"}),
    ("scatter horsepower vs weight colored by origin", "circle",
     {"x": "weight_in_lbs", "y": "horsepower", "color": "origin"}),
    ("line chart of price over date colored by symbol", "line",
     {"x": "date", "y": "price", "color": "symbol"}),
]  # fmt: skip


@pytest.mark.parametrize(("request_", "kind", "fields"), CHARTS, ids=[r for r, *_ in CHARTS])
async def test_chart(tables: Notebook, request_: str, kind: str, fields: dict[str, str]) -> None:
    chart = await drawn(tables, request_)
    found = {channel: field.lower() for channel, (field, _) in encodings(chart).items()}
    assert mark(chart) == kind
    assert {channel: found[channel] for channel in fields} == fields


@pytest.mark.parametrize(
    ("request_", "x", "kind"),
    [
        ("total precipitation by month as a bar chart", "yearmonth", "ordinal"),
        ("total precipitation by quarter as a bar chart", "yearquarter", "ordinal"),
        ("number of cars by year as a bar chart", "year", "ordinal"),
        ("plot total precipitation by month", "yearmonth", "temporal"),
    ],
)
async def test_time_bars_have_room_and_lines_follow_time(
    tables: Notebook, request_: str, x: str, kind: str
) -> None:
    axis = spec(await drawn(tables, request_))["encoding"]["x"]
    assert (axis.get("timeUnit", ""), axis["type"]) == (x, kind)
    # JupyterLab's Vega writes a month once for each tick in it.
    assert kind == "ordinal" or axis["axis"]["tickMinStep"] == 28 * 86_400_000


async def test_last_integer_bin_holds_one(tables: Notebook) -> None:
    bins = spec(await drawn(tables, "histogram of cylinders"))["encoding"]["x"]["bin"]
    assert (bins["extent"], bins["minstep"]) == ([3, 9], 1)


@pytest.mark.parametrize(
    ("request_", "variable"),
    [("publish it", "mean_horsepower_by_year"), ("publish the table", "mean_horsepower_by_year")],
)
async def test_the_newest_is_published(tables: Notebook, request_: str, variable: str) -> None:
    plots = ("plot mean horsepower by origin", "plot mean wind by weather")
    for request in (*plots, "mean horsepower by year"):
        await done(tables, request)
    (published,) = (await done(tables, request_)).published
    assert published["variable"] == variable


async def test_column_that_rows_are_sorted_by_is_shown(notebook: Notebook) -> None:
    await notebook.run(STOCK)
    found = await made(notebook, "show shelf, paid sorted by paid")
    assert list(found.columns) == ["shelf", "paid"]


async def test_group_without_a_value_has_no_total(notebook: Notebook) -> None:
    await notebook.run(STOCK)
    found = await made(notebook, "total paid by shelf")
    assert found.set_index("shelf")["total_paid"].isna().to_dict() == {
        "A": True,
        "B": False,
        "C": False,
    }


async def test_table_is_exported_to_file(tables: Notebook) -> None:
    await done(tables, "mean horsepower by origin and export it to power.xlsx")
    assert len(pd.read_excel(tables.folder / "power.xlsx")) == 3


async def test_column_count_gives_rows(tables: Notebook) -> None:
    found = await made(tables, "count weather by weather")
    assert found.iloc[:, -1].sum() == len(WEATHER)


@pytest.mark.parametrize(
    "request_",
    [
        "share of fed by strain",
        "what % of rows with swarm are fed per strain",
        "% of rows with swarm per strain",
        "share of rows with honey_kg above 95 per hive",
    ],
)
async def test_share_within_groups_is_refused(notebook: Notebook, request_: str) -> None:
    await notebook.run(HIVES)
    assert (await notebook.ask(request_)).ending == "return_unable"
