"""The built-in model: each row of its table, what it computes, and what it refuses."""

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from offline_data import cars, done, weather
from offline_notebook import Notebook, Turn, encodings, mark, spec

from parsimony_kernel.agent.prompts import notebook_context
from parsimony_kernel.execution.factory import summarise
from parsimony_kernel.offline.words import table

TABLES = """
import pandas as pd
cars = pd.read_json("data/cars.json")
cars["Year"] = pd.to_datetime(cars["Year"])
weather = pd.read_csv("data/seattle-weather.csv")
stocks = pd.read_csv("data/stocks.csv")
"""
FILES = Path(__file__).parents[2] / "corpora/requests/files"
ROWS = [row for kind in ("aside", "row") for row in table()[kind].values() if "example" in row]


@pytest.fixture
async def tables(notebook: Notebook) -> Notebook:
    await notebook.run(TABLES)
    return notebook


@pytest.fixture
async def staff(notebook: Notebook) -> Notebook:
    await notebook.run(PEOPLE)
    return notebook


async def to_the_end(notebook: Notebook, request: str) -> Turn:
    """Play, and take the first choice of every question."""
    turn = await notebook.ask(request)
    while turn.ending == "ask_user":
        turn = await notebook.reply(turn.choices[0])
    return turn


@pytest.mark.parametrize("row", ROWS, ids=[row["example"] for row in ROWS])
async def test_every_table_example_is_understood(tables: Notebook, row: dict[str, Any]) -> None:
    if "kind" in row:
        await to_the_end(tables, "plot mean horsepower by origin")
        tables.tools += [{"type": "function", "function": {"name": "return_report"}}]
    turn = await to_the_end(tables, row["example"])
    assert turn.errors == []
    assert turn.ending == "return_done", turn.arguments


def number(turn: Turn) -> float:
    """The one number that a summary says."""
    return float(turn.summary.split(": ")[1].split(" ")[0].rstrip(".").replace(",", ""))


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


async def made(notebook: Notebook, request: str) -> Any:
    """The table that a request makes."""
    return notebook[(await done(notebook, request)).summary.split("Saved as `")[1].split("`")[0]]


async def drawn(notebook: Notebook, request: str) -> Any:
    """The chart that a request draws."""
    names = (await done(notebook, request)).summary.split("`")
    return notebook[next(each for each in names if each.endswith("_chart"))]


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


PEOPLE = """
import pandas as pd
people = pd.DataFrame({
    "department": ["IT", "HR", "IT", "Ops"] * 5,
    "active": [True, False, False, True, True] * 4,
    "hired": pd.date_range("2019-03-01", periods=20, freq="61D"),
    "salary": range(1_000, 3_000, 100),
    "born_year": [1990, 1985, 1999, 1970] * 5,
    "bonus": [None, 5.0, 7.0, None] * 5,
    "rank": ["second", "first", "third", "second"] * 5,
    "clerk": ["May", "Will", "June", "Rose"] * 5,
})
"""


@pytest.mark.parametrize(
    ("request_", "truth"),
    [
        ("how many people are active or in IT", "active or in_it"),
        ("number of active people", "active"),
        ("how many people are not active", "not active"),
        ("total salary in 2019 and 2021", ""),
        ("number of inactive people", ""),
        ("how many unactive people", ""),
        ("mean salary of the top 3 rows", ""),
        ("how many columns", ""),
        ("total salary this month", ""),
        ("box plot of salary by department and active", ""),
        ("rename salary to hired", ""),
        ("total born year", ""),
        ("people with bonus", ""),
        ("how many people have a bonus", ""),
        ("number of people with missing bonus", "bonus != bonus"),
        ("mean salary for active and not active", ""),
        # It isn't clear which of both is left out.
        ("number of people excluding IT and salary above 2000", ""),
        ("number of people excluding IT and active", ""),
        ("number of people excluding active and IT", ""),
        ("number of people not in IT or active", ""),
        ("number of people not in IT and active", ""),
        ("share of total salary above 2000", ""),
        ("share of salary above 2000", ""),
        # A year behind the last month may be of the first, too.
        ("number of people hired in may or june 2020", ""),
        ("number of people hired in may and june 2020", ""),
        # Whose the numbers are isn't clear.
        ("mean salary between 1970 and 1990 born_year", ""),
        ("mean bonus from 1500 to 2000 salary", ""),
        ("second highest salary", ""),
        ("how many people may be active", ""),
        ("number of people without bonus", ""),
        ("how many people have no bonus", ""),
        ("how many people without rank", ""),
        ("number of people hired from 2020-05-01", "hired >= '2020-05-01'"),
        ("number of people hired from 2020-05", "'2020-05-01' <= hired < '2020-06-01'"),
        ("first 5 people after sorting by salary", ""),
        ("sort people by salary then first 5", ""),
        ("departments with the highest salary", ""),
        ("which people have the highest salary", ""),
        ("people with salary over .5", ""),
        ("people by department or active", ""),
        ("total salary over 20 days", ""),
        ("mean salary from March", ""),
        ("department by active", ""),
        ("compare IT and HR", ""),
        ("describe IT and HR", ""),
        ("publish the chart", ""),
        ("publish it as a chart called Pay", ""),
        ("mean salary of people with salary over 10000", ""),
        ("delete people", ""),
        ("how many rows and columns", ""),
        ("list department and salary over 2000", ""),
        ("first person", ""),
        ("how many people have salary above 1.500", ""),
        ("total salary from 2019 to 2020", ""),
        ("/", ""),
    ],
)
async def test_earlier_misreadings_are_right_or_refused(
    staff: Notebook, request_: str, truth: str
) -> None:
    people = staff["people"].assign(in_it=lambda d: d.department == "IT")
    turn = await to_the_end(staff, request_)
    if not truth:
        assert turn.ending == "return_unable"
        return
    assert number(turn) == len(people.query(truth)), turn.summary


async def test_from_a_year_may_be_in_it_or_since(staff: Notebook) -> None:
    turn = await staff.ask("number of people hired from 2020")
    assert turn.choices == ["in 2020", "since 2020"]
    turn = await staff.reply("since 2020")
    assert number(turn) == (staff["people"].hired.dt.year >= 2020).sum()


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        # The first rows of what was sorted in another request, or of the table.
        (["sort people by salary descending", "show the first 3 rows"], "say it in full"),
        (["sort people by salary descending", "show the first 3 rows of people"], "of people."),
        (["sort people by salary and show the first 3 rows"], "first 3 rows of rows_sorted"),
        (["plot mean salary by rank", "predict it", "publish it"], "made no table"),
        (["plot mean salary by rank", "how many people", "publish it"], "made no table"),
        (["plot mean salary by rank", "publish it"], "Published the chart"),
        (["lod staff.csv"], "load staff.csv"),
        (["keep active people", "then predict salary"], "`mean salary by"),
        (["median salary by rank, then predict it"], "Saved as `median_salary_by_rank`"),
        (["bonus by clerk predicted"], "`mean bonus by clerk`"),
    ],
)
async def test_what_goes_on_from_another_request(
    staff: Notebook, requests: list[str], said: str
) -> None:
    for request in requests:
        turn = await staff.ask(request)
    assert said in f"{turn.arguments}"


async def test_table_is_at_hand_after_many_requests(staff: Notebook) -> None:
    for size in range(1, 26):
        await done(staff, f"top {size} people by salary")
        staff.earlier = staff.earlier[-20:]
    assert "Mean salary: 1,950" in (await done(staff, "mean salary")).summary


async def test_table_with_the_column_is_meant(staff: Notebook) -> None:
    await staff.run("pay = people.rename(columns={'salary': 'base salary'})")
    assert "Used `people`." in (await done(staff, "mean salary by rank")).summary


PUPILS = """
import pandas as pd
marks = pd.DataFrame({"Pupil": ["Mark", "Ann", "Bo"] * 2, "Mark": [1, 2, 3] * 2})
"""


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ("mean Mark where Pupil is Mark", "(Pupil is Mark): 1."),
        ("average Mark of Mark", "(Pupil is Mark): 1."),
        ("mean Mark by Pupil", "Highest mean Mark: Bo, 3."),
        ("Mark", "say 'Pupil is Mark', or 'by Mark' or 'mean Mark'"),
    ],
)
async def test_word_that_is_a_column_and_a_value_can_be_said(
    notebook: Notebook, request_: str, said: str
) -> None:
    await notebook.run(PUPILS)
    assert said in f"{(await notebook.ask(request_)).arguments.values()}".replace("\\'", "'")


async def test_values_set_side_by_side_are_not_pooled_in_a_chart(staff: Notebook) -> None:
    chart = await drawn(staff, "histogram of salary for IT and HR")
    assert encodings(chart)["color"][0] == "department"


async def test_year_of_another_thing_is_named(notebook: Notebook) -> None:
    await notebook.run("import pandas as pd")
    await notebook.run("firms = pd.DataFrame({'founded': [1999, None, 1999], 'sales': [5, 7, 3]})")
    turn = await done(notebook, "total sales by year")
    assert "Highest total sales: 1999, 8." in turn.summary
    assert "Read 'year' as founded." in turn.summary


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


async def test_named_table_is_exported_and_published(staff: Notebook) -> None:
    await done(staff, "mean salary by department")
    turn = await done(staff, "publish people as a dataset")
    assert [p["title"] for p in turn.published] == ["People"]
    assert "Wrote `people`" in (await done(staff, "export people to csv")).summary


async def test_each_named_file_is_loaded(notebook: Notebook) -> None:
    turn = await done(notebook, "load data/cars.json and data/stocks.csv")
    for name in ("cars", "stocks"):
        assert f"Loaded `{name}`" in turn.summary


@pytest.mark.parametrize("deed", ["delete", "Lösche die Datei"])
async def test_no_file_is_loaded_for_a_deed_that_is_refused(notebook: Notebook, deed: str) -> None:
    turn = await to_the_end(notebook, f"load data/cars.json and {deed} data/stocks.csv")
    assert "never deletes or changes files" in turn.arguments["rationale"]
    assert deed.split()[0] in turn.arguments["rationale"]
    assert turn.codes == []


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
        (
            "growth of total precipitation by year",
            "Highest growth of total precipitation (none behind a gap): 2014, 48.89 %",
        ),
        (
            "cumulative precipitation by month",
            "Highest cumulative total precipitation: 2015-12, 4,426",
        ),
        ("share of the cars by origin", "Highest share of the number of rows: USA, 62.56 %"),
        (
            "top 3 cars by horsepower for USA",
            "Highest Horsepower (Origin is USA): pontiac grand prix, 230. "
            "More rows tie with the last of these. Rows: 3 of 406.",
        ),
        (
            "top 3 stocks by price with price over 5000",
            "Highest price (price > 5000): none. Rows: 0",
        ),
        ("show stocks", "Rows of stocks."),
        (
            "7 day rolling mean of temp_max",
            "Highest 7-day rolling mean temp max: 2015-07-06, 32.21",
        ),
    ],
)
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
        ("plot total precipitation by month", "", "temporal"),
    ],
)
async def test_time_bars_have_room_and_lines_follow_time(
    tables: Notebook, request_: str, x: str, kind: str
) -> None:
    axis = spec(await drawn(tables, request_))["encoding"]["x"]
    assert (axis.get("timeUnit", ""), axis["type"]) == (x, kind)


async def test_last_integer_bin_holds_one(tables: Notebook) -> None:
    bins = spec(await drawn(tables, "histogram of cylinders"))["encoding"]["x"]["bin"]
    assert (bins["extent"], bins["minstep"]) == ([3, 9], 1)


@pytest.mark.parametrize(
    ("request_", "variable"),
    [
        ("publish it", "mean_horsepower_by_year"),
        ("publish the table", "mean_horsepower_by_year"),
    ],
)
async def test_the_newest_is_published(tables: Notebook, request_: str, variable: str) -> None:
    plots = ("plot mean horsepower by origin", "plot mean wind by weather")
    for request in (*plots, "mean horsepower by year"):
        await done(tables, request)
    (published,) = (await done(tables, request_)).published
    assert published["variable"] == variable


DELAYS = """
import pandas as pd
runs = pd.DataFrame({
    "line": ["S1", "S2", "S1", "S2"],
    "delay (min)": [12, 3, 40, None],
    "late": ["yes", "no", "Yes", "no"],
    "load (t)": [20, 35, 30, 5],
    "track": ["east", "East", "east", " West"],
    "shift": ["high", "low", "low", "high"],
    "start": pd.to_datetime(
        ["2022-01-01 08:10", "2022-01-02 08:20", "2023-01-01 09:00", "2023-05-01 08:00"]
    ),
})
"""


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        (["mean delay"], "Mean delay: 18.33 min."),
        # Values that differ in capitals or outer spaces alone are one.
        (["number of runs where track is east"], "Number of rows (track is east or East): 3."),
        (["number of runs from WEST"], "Number of rows (track is West): 1."),
        (["how many runs are late"], "Number of rows (late is yes): 2."),
        (["number of runs by late"], "Highest number of rows: Yes, 2. no, 2."),
        (["number of runs by track"], "Highest number of rows: east, 3."),
        (["how many different tracks"], "Number of different values of track: 2."),
        (
            ["share of the late runs by track"],
            "Highest share of rows within each track (late is yes): east, 66.67 %.",
        ),
        (["total load by track"], "Highest total load: east, 85 t."),
        (["which line has the fewest runs in 2022"], "Lowest number of rows of those with any ("),
        (['mean "load (t)" by line'], "Highest mean load: S1, 25 t."),
        (["correlation of load and delay"], "Correlation of load and delay: "),
        (["how many runs by hour of the day"], "Highest number of rows: 8, 3"),
        (["delay above 10"], "Rows (delay > 10): 2 of 4."),
        (["mean delay without low shift"], "Mean delay (shift is not low): 12 min."),
        (["show the first few rows"], "The first 5 rows of runs."),
    ],
)
async def test_what_strangers_ask(notebook: Notebook, requests: list[str], said: str) -> None:
    await notebook.run(DELAYS)
    for request in requests:
        turn = await notebook.ask(request)
    assert turn.summary.startswith(said)


STOCK = """
import pandas as pd
stock = pd.DataFrame({
    "type": ["return", "out", "in", "return", "both", "in"],
    "size": ["M", "m", "L", "M", "L", "m"],
    "last": [3, 1, 2, 6, 5, 4],
    "total": [10.0, 20.0, 30.0, 40.0, 50.0, 60.0],
    "paid": [None, 2.0, None, 4.0, 5.0, 6.0],
    "shelf": ["A", "B", "A", "B", "C", "C"],
    "kind": ["Entry", "Tour", "Entry", "Cafe", "Cafe", "Tour"],
    "insured": [True, False, None, True, False, None],
    "open": ["yes", "no", "yes", "no", "yes", "no"],
    "guest_id": [201, 201, 202, 203, 203, 204],
    "year": [2021, 2022, 2021, 2022, 2021, 2022],
    "booked": pd.to_datetime(
        ["2022-01-01", "2022-05-01", "2021-01-01", "2021-02-01", "2023-01-01", "2023-01-01"]
    ),
})
"""


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        # A word of the request that is a value or a column as well.
        ("return the top 3 rows by total", "'return' may be of type, or a word"),
        ("mean total for both shelves", "'both' may be of type, or a word"),
        ("total stock by shelf", "'total' may be of total, or a word"),
        ("paid over 5 M", "'M' may be of size, or a word"),
        ('total "total" by shelf', "Highest total: C, 110."),
        ("rows with type return", "Rows (type is return): 2 of 6."),
        ("show the last 2 rows", "The last 2 rows of stock."),
        ("how many m", "Number of rows (size is M or m): 4."),
        ("mean total for entry", "'entry' may be a value of kind, or a word"),
        ("mean total where kind is entry", "Mean total (kind is Entry): 20."),
        ("how many records", "Number of rows: 6."),
        ("!insured", 'The built-in model can\'t use "!"'),
        ("return is no", "The built-in model can't tell which column"),
        # A column of True and False with gaps between them.
        ("how many insured", "Number of rows (insured): 2."),
        ("how many rows are not insured", "Number of rows (not insured): 2."),
        ("number of rows per month by booked", "Highest number of rows: 2023-01, 2."),
        ("mean last by last", "Highest mean last: 6, 6."),
        # Ids are ranked only by their name.
        ("top 2 guests", "guests may mean its rows or an amount"),
        ("guests under 203", "guests may mean its rows or an amount"),
        ("guest_id under 203", "Rows (guest id < 203): 3 of 6."),
        # Groups that tie are all there, and one without a value has no total.
        ("top 1 shelf by number of rows", "Highest number of rows: A, 2. B, 2. C, 2."),
    ],
)
async def test_word_that_may_be_misread(notebook: Notebook, request_: str, said: str) -> None:
    await notebook.run(STOCK)
    turn = await notebook.ask(request_)
    assert (turn.summary or turn.arguments["rationale"]).startswith(said)


async def test_year_beside_a_date_is_a_question(notebook: Notebook) -> None:
    await notebook.run(STOCK)
    assert (await notebook.ask("total paid in 2022")).choices == ["booked", "year"]
    assert number(await notebook.reply("year")) == 12


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


async def test_file_with_spaces_in_its_name_is_loaded(notebook: Notebook) -> None:
    (notebook.folder / "my sales 2024.csv").write_text("city,amount\nOslo,5\nBergen,7\n", "utf-8")
    turn = await done(notebook, "load my sales 2024.csv and total amount by city")
    assert "from my sales 2024.csv: 2 rows" in turn.summary
    assert "Bergen, 7" in turn.summary


async def test_in_behind_a_column_is_no_value_of_another(notebook: Notebook) -> None:
    await notebook.run(
        "import pandas as pd\n"
        "stock = pd.DataFrame({'qty': [5, -3, 7], 'type': ['in', 'out', 'in'],"
        " 'town': ['York', 'York', 'Hull']})"
    )
    assert (await done(notebook, "total qty in York")).summary == "Total qty (town is York): 2."


async def test_suggestions_come_from_existing_data(notebook: Notebook) -> None:
    said = (await done(notebook, "what can you do?")).summary
    assert said.startswith("You can ask here, for example: `load data/cars.json` and `load")
    understood = {row["example"].rstrip("?") for row in ROWS}
    assert understood.issuperset(table()["no"]["examples"].split("`")[1::2])
    await notebook.run(TABLES)
    said = (await done(notebook, "what can you do?")).summary
    assert said.startswith("You can ask here, for example: `mean Miles_per_Gallon by")


@pytest.mark.parametrize(
    ("file", "request_", "suggested"),
    [
        ("crossings", "busiest route in Oslo", "mean passengers by "),
        ("crossings", "cheapest fare to Oslo", 'top 5 crossings by "Fare (EUR)"'),
        ("patients", "total bill per clinic, by post", "mean bill by clinic"),
        ("orders", "draw a pie of qty", 'by "customer type"'),
        ("weblog", "how many hacker by country", "mean status by "),
    ],
)
async def test_suggestions_are_about_the_columns_and_work(
    notebook: Notebook, file: str, request_: str, suggested: str
) -> None:
    shutil.copy(FILES / f"{file}.csv", notebook.folder)
    await done(notebook, f"load {file}.csv")
    steps = (await notebook.ask(request_)).arguments["suggested_next_steps"][:2]
    assert suggested in " ".join(steps)
    for each in steps:
        await done(notebook, each.strip("`"))


@pytest.mark.parametrize(
    ("request_", "choice"),
    [
        ("gap between temp_max and temp_min", "mean temp_max - temp_min"),
        ("plot the mean temperature by month", "temp_max"),
        ("horsepower by origin", "mean Horsepower"),
        ("which origin has the highest weight", "highest Weight_in_lbs"),
    ],
)
async def test_two_readings_are_a_question(tables: Notebook, request_: str, choice: str) -> None:
    turn = await tables.ask(request_)
    assert turn.ending == "ask_user"
    assert choice in turn.choices
    assert len(turn.choices) <= 4
    assert (await tables.reply(choice)).ending in ("return_done", "ask_user")


# Suggestions about these tables; many refusals make the same ones.
TRIED: set[str] = set()


@pytest.mark.parametrize(
    ("request_", "word"),
    [
        ("predict horsepower with a random forest", "predict"),
        ("mean horsepower by customer", "customer"),
        ("horsepower per weight by origin", "which ratio"),
        ("average weekly precipitation", "of totals"),
        ("average precipitation per week", "of totals"),
        ("7 week rolling mean of temp_max", "over rows or days"),
        ("only the top 3 origins", "by what to rank"),
        ("mean customer churn by origin", "customer"),
        ("last price", "last"),
        ("total precipitation from January to March", "a span"),
        ("top 3 origins by mean number of cars", "by mean"),
        ("share of the top 3 cars by horsepower", "the share of what"),
        ("top 3 cars by horsepower per year", "ask in parts"),
        ("top 3 cars by horsepower sorted by weight", "ask in parts"),
        ("share of the number of cars from Japan and Europe", "the share of what"),
        ("bar chart of mean horsepower", "needs a group"),
        ("tell me the growth rate", '"growth"'),
        ("mean horsepower by origin and save the chart as 'power.png'", "writes tables"),
        ("7 day rolling mean of price for symbol IBM", "not each day has one row"),
        ("cluster the cars", "cluster"),
        ("share of the cars from Japan after 1980", "the share of what"),
        ("share of weight after 1980 by origin", "the share of what"),
        ("make me a sandwich", "me"),
        ("growth of weight by origin", "ask in parts"),
        ("mean horsepower of them", "them"),
        ("please delete the rows of cars", "never deletes"),
        ("top 3 cars by horsepower by origin and year", "ask in parts"),
        ("fix the error in this cell", "reads and writes Python"),
        ("most common origin by year", "within groups"),
        ("most popular cylinders", "among numbers"),
        ("number of cars by hour of day", "no times of day"),
        ("number of Japan and chevrolet citation", "ask in parts"),
        ("how many cars are Japan or USA, chevrolet citation", "ask in parts"),
        ("mean horsepower not Japan, chevrolet citation", "ask in parts"),
        ("weight over 1.5k", '"1.5k"'),
        ("heaviest horsepower", "heaviest"),
        ("cheapest car", "cheapest"),
        ("top 10 % of cars by horsepower", "a percentage of the rows"),
        ("lowest and highest weight by origin", '"lowest"'),
        ("mean horsepower and total weight by origin", "ask in parts"),
        ("number of cars by hour", "'hour of the day'"),
        ("mean horsepower 1976 vs 1980", '"vs"'),
        ("mean horsepower by origin, ascending", '"ascending"'),
        ("how many A cars", '"A"'),
        ("latest car", '"latest"'),
        ("missing values in cars", '"missing values"'),
        ("remove duplicates", "never deletes or changes files"),
        ("load https://example.org/cars.csv", "no web addresses"),
        ("weight above 3000 kg", '"kg"'),
        ("how many cars in january 1", "as in 2024-03"),
        ("number of cars since Jan 1, 1980", "as in 2024-03"),
        ("mean horsepower Q1 1976", '"Q1"'),
        ("average by origin", "what to do with cars"),
    ],
)
async def test_unknown_word_is_named(tables: Notebook, request_: str, word: str) -> None:
    turn = await tables.ask(request_)
    assert turn.ending == "return_unable"
    assert word in turn.arguments["rationale"] or word == "me"
    for each in {*turn.arguments["suggested_next_steps"][:2]} - TRIED:
        TRIED.add(each)
        assert (await tables.ask(each.strip("`"))).ending != "return_unable"


@pytest.mark.parametrize(
    ("text", "options", "types"),
    [
        (
            "a;b\n1,5;x\n2.000,25;y\n",
            "sep=';', decimal=',', thousands='.'.",
            "float64",
        ),
        ("a|b\n1.5|x\n", "sep='|'.", "float64"),
        ('a,b\n"1,500",x\n"2,000",y\n', "thousands=','.", "int64"),
        ("a,b\n1.5,x\n", "", "float64"),
    ],
)
async def test_file_dialect_is_detected_and_told(
    small: Notebook, text: str, options: str, types: str
) -> None:
    (small.folder / "data.csv").write_text(text)
    turn = await done(small, "load data.csv")
    assert str(small["data"]["a"].dtype) == types
    assert ("Read data.csv with" in turn.summary) == bool(options)
    assert options in turn.summary


@pytest.mark.parametrize(
    ("text", "total"),
    [
        ("a;b\n27,24 €;x\n1.000,10 €;y\n", 1027.34),
        ("a;b\n-3,3 %;x\n4,4 %;y\n", 1.1),
        ('a,b\n"$1,200.50",x\n$3.00,y\n', 1203.5),
    ],
)
async def test_numbers_with_a_sign_keep_their_decimals(
    small: Notebook, text: str, total: float
) -> None:
    (small.folder / "data.csv").write_text(text)
    await done(small, "load data.csv")
    assert small["data"]["a"].sum() == pytest.approx(total)


async def test_ambiguous_date_is_asked_about(small: Notebook) -> None:
    (small.folder / "sales.csv").write_text("day,amount\n03/04/2024,1\n05/06/2024,2\n")
    turn = await small.ask("total amount by month in sales.csv")
    assert turn.choices == ["03/04/2024 begins with the day", "03/04/2024 begins with the month"]
    turn = await small.reply(turn.choices[0])
    made = small[turn.summary.split("Saved as `")[1].split("`")[0]]
    assert [f"{each:%B}" for each in made["day"][made["total_amount"] > 0]] == ["April", "June"]


async def test_a_reply_is_a_choice_or_ends_the_question(small: Notebook) -> None:
    (small.folder / "sales.csv").write_text("day,amount\n03/04/2024,1\n05/06/2024,2\n")
    await small.ask("total amount by month in sales.csv")
    turn = await small.reply("perhaps")
    assert turn.arguments["question"].startswith("'perhaps' is none of the choices.")
    turn = await small.reply("stop")
    assert turn.arguments["rationale"] == "Stopped, as you said."


async def test_equal_tables_are_asked_about(notebook: Notebook) -> None:
    await notebook.run("import pandas as pd")
    await notebook.run("few = pd.DataFrame({'units': [1], 'region': ['N']})\nshop = few * 2")
    assert (await notebook.ask("total units by region")).choices == ["few", "shop"]


async def test_table_is_exported_to_file(tables: Notebook) -> None:
    await done(tables, "mean horsepower by origin and export it to power.xlsx")
    assert len(pd.read_excel(tables.folder / "power.xlsx")) == 3


async def test_two_requests_in_one(notebook: Notebook) -> None:
    turn = await done(notebook, "load data/cars.json as autos and plot mean horsepower by origin")
    assert "Loaded `autos` from data/cars.json: 406 rows, 9 columns, 8 missing in" in turn.summary
    assert len(turn.codes) == 2


@pytest.mark.parametrize(
    "end", ["publish it as wind", "publish as the Wind", "publish it as 'wind'"]
)
async def test_unquoted_title_is_no_column(notebook: Notebook, end: str) -> None:
    request = "load data/seattle-weather.csv as sky, mean wind by weather, and"
    turn = await done(notebook, f"{request} {end}")
    assert [(p["title"].lower(), len(p["value"])) for p in turn.published] == [("wind", 5)]


@pytest.mark.parametrize(
    ("request_", "end"),
    [
        ("what is in data/power.csv?", "Summary of power."),
        ("mean output by year in data/power.csv", "Highest mean output: 2011, 9."),
        ("load data/power.csv and plot output", "`mean output by source`"),
        # It is not loaded before all of the rest is strange.
        ("load data/power.csv and predict it", 'know "predict": say'),
        ("load data/plain.csv and plot it", "needs a group"),
    ],
)
async def test_named_file_is_the_subject(notebook: Notebook, request_: str, end: str) -> None:
    """Beside other tables in memory; its years are told as years."""
    rows = "2010-01-01,wind,4\n2011-01-01,wind,9\n"
    (notebook.folder / "data/power.csv").write_text(f"year,source,output\n{rows}")
    (notebook.folder / "data/plain.csv").write_text("day,a,b\n2010-01-01,1,4\n2010-01-02,2,9\n")
    await notebook.run(TABLES)
    await done(notebook, "mean horsepower by origin")
    assert end in f"{(await notebook.ask(request_)).arguments}"


async def test_settled_table_is_meant(notebook: Notebook) -> None:
    """The months' means have a column whose name holds the words as well."""
    await notebook.run(
        "import pandas as pd\n"
        "everything = pd.read_csv('data/seattle-weather.csv', parse_dates=['date'])\n"
        "weather = everything.assign(month=everything.date.dt.month)\n"
        "warm = weather.groupby('month')[['temp_max']].mean().add_prefix('mean_').reset_index()"
    )
    turn = await done(notebook, "plot mean temp_max by month")
    assert "weather\n" in turn.codes[-1]
    assert "Used `weather`." in turn.summary


async def test_column_count_gives_rows(tables: Notebook) -> None:
    found = await made(tables, "count weather by weather")
    assert found.iloc[:, -1].sum() == len(WEATHER)


async def test_table_that_was_lost_with_its_kernel_is_loaded_again(notebook: Notebook) -> None:
    """Where the request does not load it, its name is not known."""
    then = "plot the weekly mean temperature"
    for request, end in ((f"load data/seattle-weather.csv and {then}", "return_done"),
                         (f"use seattle_weather and {then}", "return_unable")):  # fmt: skip
        notebook.answers.clear()
        notebook.earlier.clear()
        await notebook.ask(request)
        turn = await notebook.reply("temp_max", gone=["seattle_weather"])
        assert turn.ending == end
    assert "No table is at hand for 'use seattle_weather" in turn.arguments["rationale"]


async def test_table_that_was_changed_while_a_question_waited_is_named(notebook: Notebook) -> None:
    await notebook.ask("load data/seattle-weather.csv and plot the weekly mean temperature")
    turn = await notebook.reply("temp_max", changed=["seattle_weather", "other"])
    assert "`seattle_weather` was changed while the question waited." in turn.summary
    assert "other" not in turn.summary


ORDERS = """
import pandas as pd
orders_2023 = pd.DataFrame({
    "order_no": [50001, 50001, 50004, 50009], "country": ["UK", "Spain", "UK", "UK"],
    "unit_price": [9.5, 7.0, 3.0, 1.0], "day": pd.to_datetime(["2023-01-02"] * 4),
})
"""


@pytest.mark.parametrize(
    "request_",
    [
        "total orders by country",
        "sum of orders",
        "average orders per day",
        "total units by country",
    ],
)
async def test_what_rows_are_called_is_not_added_up(notebook: Notebook, request_: str) -> None:
    await notebook.run(ORDERS)
    turn = await notebook.ask(request_)
    assert turn.ending == "return_unable"


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ("loans per branch", "Highest number of rows: A, 2."),
        ("mean days of the loans", "Mean days: 5."),
        ("libraries by branch", 'know "libraries"'),  # the table's name says whose loans
    ],
)
async def test_rows_are_called_as_the_last_word_of_the_table(
    notebook: Notebook, request_: str, said: str
) -> None:
    await notebook.run(
        "import pandas as pd\n"
        "rows = {'loan': [1, 2, 3], 'branch': list('AAB'), 'days': [3, 5, 7]}\n"
        "library_loans = pd.DataFrame(rows)"
    )
    assert said in f"{(await notebook.ask(request_)).arguments}"


@pytest.mark.parametrize("numbered", ["order_no", "order"])
@pytest.mark.parametrize("request_", ["how many orders", "orders by country"])
async def test_ids_that_repeat_are_no_rows(
    notebook: Notebook, numbered: str, request_: str
) -> None:
    await notebook.run(ORDERS.replace("order_no", numbered))
    turn = await notebook.ask(request_)
    assert turn.ending == "return_unable"


async def test_real_model_is_named_with_the_first_refusal_alone(tables: Notebook) -> None:
    said = [await tables.ask(f"mean customer {word}") for word in ("churn", "value")]
    assert ["%agent model" in f"{turn.arguments}" for turn in said] == [True, False]


async def test_results_whose_turns_are_forgotten_stand_for_no_table(
    tables: Notebook, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tables.ask("cars after 1980")
    await tables.ask("total horsepower by origin")
    tables.earlier = []
    assert "Used `cars`." in (await done(tables, "mean horsepower")).summary
    made = {k: v for k, v in tables.executor.variables().items() if k.startswith("rows_of_")}
    assert made
    cut = notebook_context(files=[], variables=summarise(made)[0], more_variables=1)
    monkeypatch.setattr(tables, "context", lambda: cut)
    turn = await tables.ask("mean horsepower")
    assert turn.ending == "return_unable"


HIVES = """
import pandas as pd
hives = pd.DataFrame({
    "hive": [f"H{n}" for n in (1, 2, 3, 4, 5)] * 2,
    "strain": ["Carnica", "Buckfast"] * 5,
    "honey_kg": [10.0 * n for n in range(1, 11)],
    "reason": ["swarm", None, None, "swarm", "mites"] * 2,
    "fed": ["yes", "no"] * 5,
    "fee": [0, 1] * 5,
    "pest": ["none", "moth"] * 5,
})
"""


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        (["mean honey_kg by strain, then plot it"], "mean_honey_by_strain_2_chart"),
        (["mean honey_kg by strain, then plot it as a line"], "mean_honey_by_strain_2_chart"),
        (["mean honey_kg by strain as a bar chart, then plot it as a line"], "ask in parts"),
        (["mean honey_kg, then plot it"], "needs a group"),
        *((["mean honey_kg by strain", then], "takes each request by itself")
          for then in ("now by fed", "and by fed", "the same, but the median", "median instead",
                       "what about mites", "how about mites", "only Carnica", "for Carnica",
                       "without mites", "how many", "plot it", "as a bar chart")),
    ],
)  # fmt: skip
async def test_only_a_chart_goes_on_in_one_request(
    notebook: Notebook, requests: list[str], said: str
) -> None:
    await notebook.run(HIVES)
    for request in requests:
        turn = await notebook.ask(request)
    assert said in f"{turn.arguments}"


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        (["top 3 hives by honey_kg"], "Rows: 3 of 10."),
        # Groups without a name are left out, and the answer says so.
        (["share of rows by reason"], "Rows without reason are left out."),
        (["mean honey_kg without mites"], "Rows without reason are left out."),
        (["share of rows with reason swarm"], "Rows without reason count as not so."),
        # Where many are the highest all are told.
        (["number of rows by hive"], ": H1, 2. H2, 2. Others too. H4, 2. H5, 2."),
        (["share of rows where reason is missing"], "(reason is missing): 40 %."),
        # Rows that were kept are another table, and stay so.
        (
            ["keep only Carnica", "mean honey_kg by fed", "mean honey_kg"],
            "Used all rows of `hives`.",
        ),
        (["keep only Carnica", "mean honey_kg"], "Mean honey: 55 kg. Used all rows of `hives`."),
        (["keep the last 2 rows", "mean honey_kg"], "Used all rows of `hives`."),
        (["keep the top 2 rows by honey_kg", "mean honey_kg"], "Used all rows of `hives`."),
    ],
)
async def test_what_was_silently_another_thing(
    notebook: Notebook, requests: list[str], said: str
) -> None:
    await notebook.run(HIVES)
    for request in requests:
        turn = await notebook.ask(request)
        if turn.ending == "ask_user":
            turn = await notebook.reply("total honey_kg")
    assert turn.ending == "return_done", turn.arguments
    assert said in turn.summary


FLATS = """
import pandas as pd
flats = pd.DataFrame({
    "built": [1930.0, None, 1990.0, 2001.0], "rent": [700.0, 800.0, 900.0, 650.0],
    "listed": pd.to_datetime(["2025-01-02", "2025-03-04", "2025-05-06", "2025-07-08"]),
    "rooms": [1, 2, 2, 3], "part": ["Mitte", "Hafen", "Mitte", "Nord"],
})
"""


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ("flats built before 1950", "Rows (built < 1950): 1 of 4."),
        ("mean rent by year", ["listed", "built"]),
        ("flats since 2000", ["listed", "built"]),
        ("total built", "can't compute that with built"),
        ("total rent where rent above 2000", "holds no values in these rows"),
        ("cumulative mean rent by month", "ask in parts"),
        ("cumulative rent by rooms", "ask in parts"),
        ("total rent by rooms for Mitte and Hafen", "ask in parts"),
        ("number of flats with missing built", "Number of rows (built is missing): 1."),
        ("drop flats with built", 'use "drop with"'),
    ],
)
async def test_years_beside_dates_are_not_taken_for_them(
    notebook: Notebook, request_: str, said: object
) -> None:
    await notebook.run(FLATS)
    turn = await notebook.ask(request_)
    found = turn.choices or f"{turn.arguments}"
    assert found == said if turn.choices else str(said) in found


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ("fed and not fed", "ask in parts"),
        ("share of rows by strain within each hive", "the share of what"),
        # None of it, or none that is known.
        ("mean honey_kg without fee", "may be a missing one, or 0"),
        ("mean honey_kg with no pest", "may be a missing one, or 0"),
        ("how many pests", "Say 'different'"),
        ("mean honey_kg where strain is mites", "strain holds no 'mites': reason does."),
        ("hives where honey_kg is Carnica", "honey_kg holds no 'Carnica': strain does."),
        ("average honey_kg there", '"there"'),
        ("us average honey_kg", '"us"'),
        *((each, "Say 'different'") for each in ("how many hives", "how many hives are Carnica")),
        ("hives per strain", "can't use"),
        ("share of hives with swarm", "can't use"),
        ("overall honey_kg", 'know "overall"'),
        ("how many always", 'know "always"'),
        ("how many ids", 'know "ids"'),
        ("number of not Carnica and Carnica", "ask in parts"),
        # The share within each strain, or that of the whole.
        ("share of swarm by strain", "the share of what"),
        ("share of fed by strain for swarm", "the share of what"),
        ("share of fed by fed", "the share of what"),
        # What some of the rows may be called.
        ("how many swarmers", 'know "swarmers"'),
        ("how many prices", 'know "prices"'),
        ("how many draws", 'know "draws"'),
        ("mean honey_kg of the queens and the drones", 'know "'),
        ("queens in the hives", 'know "queens"'),
    ],
)
async def test_what_has_two_readings_is_asked_in_full(
    notebook: Notebook, request_: str, why: str
) -> None:
    await notebook.run(HIVES)
    turn = await notebook.ask(request_)
    assert turn.ending == "return_unable"
    assert why in turn.arguments["rationale"]


@pytest.mark.parametrize(
    ("request_", "noun", "told"),
    [
        ("queens with honey_kg above 45", "queens", "Rows (honey > 45): 6 of 10."),
        ("top 3 colonies by honey_kg", "colonies", "Rows: 3 of 10."),
        ("number of boxes by fed", "boxes", "number of rows: no, 5."),
    ],
)
async def test_what_the_rows_may_be_called_is_not_guessed(
    notebook: Notebook, request_: str, noun: str, told: str
) -> None:
    await notebook.run(HIVES)
    turn = await notebook.ask(request_)
    assert f'know "{noun}". `hives` has the columns' in turn.arguments["rationale"]
    assert told in (await done(notebook, request_.replace(noun, "rows"))).summary


@pytest.mark.parametrize(
    ("request_", "truth"),
    [
        ("share of fed by strain", {"Carnica": 100, "Buckfast": 0}),
        ("what % of rows with swarm are fed per strain", None),
        ("% of rows with swarm per strain", {"Carnica": 40.0, "Buckfast": 40.0}),
        ("what share of rows are mites by strain as a bar chart", {"Carnica": 20, "Buckfast": 20}),
        ("share of rows with honey_kg above 95 by hive", None),
        ("share of rows with honey_kg above 95 per hive",
         {"H1": 0, "H2": 0, "H3": 0, "H4": 0, "H5": 50}),
    ],
)  # fmt: skip
async def test_share_within_groups_is_of_all_rows_of_the_group(
    notebook: Notebook, request_: str, truth: dict[str, float] | None
) -> None:
    await notebook.run(HIVES)
    if truth is None:
        assert "share of what" in (await notebook.ask(request_)).arguments["rationale"]
        return
    turn = await done(notebook, request_)
    assert "share of rows within each" in turn.summary
    found = notebook[turn.summary.split("Saved as `")[1].split("`")[0]]
    assert dict(found.itertuples(index=False)) == pytest.approx(truth)
