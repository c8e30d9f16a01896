"""A request for several charts is done chart by chart; what is one chart stays one."""

import itertools
import re
from pathlib import Path

import pandas as pd
import pytest
from offline_data import DATA, cars, copy, done
from offline_notebook import Notebook, encodings, mark, spec
from offline_publishing import PublishingNotebook

from parsimony_kernel.offline.codegen.cells import (
    DISTINCT,
    KEEP,
    KEEP_FIRST,
    LOOK,
    SEARCH,
)
from parsimony_kernel.offline.grammar.clauses import Report, Statement
from parsimony_kernel.offline.grammar.request import parse
from parsimony_kernel.offline.words import tokenize

COLUMNS = list(cars().columns)
BY_ORIGIN = "mean horsepower by origin"
BY_YEAR = "mean acceleration by year"
COUNTED = "number of cars by cylinders"


@pytest.fixture
def desk(tmp_path: Path) -> PublishingNotebook:
    copy(tmp_path / "data", "cars.json")
    return PublishingNotebook(tmp_path)


async def results(folder: Path, *requests: str) -> list[tuple[str, str]]:
    """What requests come to, one after the other in a notebook: headings with their code."""
    folder.mkdir()
    copy(folder, "cars.json")
    notebook = Notebook(folder)
    await notebook.run("import pandas as pd\ncars = pd.read_json('cars.json')")
    found = []
    for request in requests:
        turn = await done(notebook, request)
        steps = zip(turn.purposes, turn.codes, strict=True)
        looks = (f"{LOOK} ", f"{SEARCH} ", f"{DISTINCT} ")
        found += [step for step in steps if not step[0].startswith(looks)]
    return found


def statements(request: str) -> list[Statement]:
    return [c for c in parse(tokenize(request), COLUMNS) if isinstance(c, Statement)]


def drawn(notebook: Notebook, chart: str) -> pd.DataFrame:
    """The rows that a chart draws."""
    return pd.DataFrame(next(iter(spec(notebook[chart])["datasets"].values())))


@pytest.mark.parametrize(
    ("request_text", "single"),
    [
        (f"plot {BY_ORIGIN} and {BY_YEAR}", [f"plot {BY_ORIGIN}", f"plot {BY_YEAR}"]),
        (f"plot both {BY_ORIGIN} and {BY_YEAR}", [f"plot {BY_ORIGIN}", f"plot {BY_YEAR}"]),
        (f"two charts: {BY_ORIGIN} and {BY_YEAR}", [f"plot {BY_ORIGIN}", f"plot {BY_YEAR}"]),
        (f"show me 2 charts, one of {BY_ORIGIN} and one of {BY_YEAR}",
         [f"plot {BY_ORIGIN}", f"plot {BY_YEAR}"]),
        (f"three charts:\n1. {BY_ORIGIN}\n2. {BY_YEAR}\n3. {COUNTED}",
         [f"plot {BY_ORIGIN}", f"plot {BY_YEAR}", f"plot {COUNTED}"]),
        (f"plot:\n- {BY_ORIGIN}\n- {BY_YEAR}\n", [f"plot {BY_ORIGIN}", f"plot {BY_YEAR}"]),
        (f"charts: {BY_ORIGIN}; {BY_YEAR}", [f"plot {BY_ORIGIN}", f"plot {BY_YEAR}"]),
        (f"{BY_ORIGIN}, {BY_YEAR}, plot both", [f"plot {BY_ORIGIN}", f"plot {BY_YEAR}"]),
        (f"{BY_ORIGIN} as bars and {BY_YEAR} as a line",
         [f"{BY_ORIGIN} as bars", f"{BY_YEAR} as a line"]),
        (f"plot {BY_ORIGIN}, {COUNTED} and a histogram of weight",
         [f"plot {BY_ORIGIN}", f"plot {COUNTED}", "histogram of weight"]),
        ("histograms of horsepower, weight and acceleration with 30 bins",
         ["histogram of horsepower with 30 bins", "histogram of weight with 30 bins",
          "histogram of acceleration with 30 bins"]),
        ("plot a histogram for each of horsepower and weight",
         ["histogram of horsepower", "histogram of weight"]),
        ("histograms for horsepower and weight",
         ["histogram of horsepower", "histogram of weight"]),
        ("bar charts of mean horsepower and weight by origin",
         [f"bar chart of {BY_ORIGIN}", "bar chart of mean weight by origin"]),
        ("separate plots for the mean and the max of horsepower by origin",
         [f"plot {BY_ORIGIN}", "plot max horsepower by origin"]),
        ("plot mean horsepower and mean weight by origin in separate charts",
         [f"plot {BY_ORIGIN}", "plot mean weight by origin"]),
        ("charts of mean horsepower by origin and by cylinders",
         [f"plot {BY_ORIGIN}", "plot mean horsepower by cylinders"]),
        ("scatter horsepower vs weight and acceleration vs weight colored by origin",
         ["scatter horsepower vs weight colored by origin",
          "scatter acceleration vs weight colored by origin"]),
        ("scatter plots of horsepower vs weight and acceleration",
         ["scatter horsepower vs weight", "scatter horsepower vs acceleration"]),
        ("plot yearly mean horsepower and mean weight by origin",
         ["plot yearly mean horsepower", "plot mean weight by origin"]),
        (f"plot {BY_ORIGIN} and weight by origin",
         [f"plot {BY_ORIGIN}", "plot weight by origin"]),
        (f"plot {BY_ORIGIN}, weight by year", [f"plot {BY_ORIGIN}", "plot weight by year"]),
        (f"two charts: {BY_ORIGIN} and weight by year",
         [f"plot {BY_ORIGIN}", "plot mean weight by year"]),
        (f"{BY_ORIGIN} and {BY_YEAR}", [BY_ORIGIN, BY_YEAR]),
        (f"top 5 cars by weight and {BY_ORIGIN}", ["top 5 cars by weight", BY_ORIGIN]),
        (f"{BY_ORIGIN}, {BY_YEAR} and mean weight", [BY_ORIGIN, BY_YEAR, "mean weight"]),
    ],
)  # fmt: skip
async def test_several_charts_are_those_of_several_requests(
    tmp_path: Path, request_text: str, single: list[str]
) -> None:
    together = await results(tmp_path / "together", request_text)
    assert together == await results(tmp_path / "single", *single)
    assert len(together) == len(single) > 1


@pytest.mark.parametrize(
    "request_text",
    [
        "mean horsepower and mean weight by origin",
        "mean horsepower by origin and mean weight by origin",
        "plot mean horsepower and mean weight by year",
        "bar chart of mean horsepower by origin and mean weight by origin",
        "plot mean horsepower by year and mean weight by year in one chart",
        "plot horsepower and weight over time",
        "plot the mean, min and max of horsepower by year",
        "mean mpg by origin and cylinders for each year",
        "plot mean horsepower by origin and year",
        "plot mean horsepower by year for Japan and USA",
        "histogram of horsepower for Japan and Europe",
        "plot mean horsepower by year where acceleration is over 10 and weight is under 3000",
        "plot mean horsepower by year for cars with weight between 2000 and 3000",
        "mean weight by origin and mean horsepower",
        "mpg by origin and weight by origin",
        "number of cars by year and origin as a stacked bar chart",
    ],
)
def test_what_is_one_table_or_chart_stays_one(request_text: str) -> None:
    assert len(statements(request_text)) == 1


def test_a_list_of_any_length_has_a_clause_for_each_member() -> None:
    names = ["Horsepower", "Weight_in_lbs", "Acceleration", "Displacement"]
    for count, separator in itertools.product(range(1, 5), (", ", " and ", ", and ", " & ")):
        listed = separator.join(names[:count])
        found = statements(f"histograms of {listed}")
        assert [[m.column for m in s.measures] for s in found] == [[n] for n in names[:count]]
        assert {s.chart for s in found} == {"histogram"}
        assert not any(s.unsupported for s in found)


async def test_each_chart_shows_its_own_numbers(notebook: Notebook) -> None:
    await done(notebook, "plot mean horsepower by origin and max weight by cylinders, cars.json")
    frame = cars()
    means = drawn(notebook, "mean_horsepower_by_origin_chart")
    assert means.set_index("Origin")["mean_horsepower"].to_dict() == pytest.approx(
        frame.groupby("Origin")["Horsepower"].mean().to_dict()
    )
    highest = drawn(notebook, "max_weight_in_lbs_by_cylinders_chart")
    assert highest.set_index("Cylinders")["max_weight_in_lbs"].to_dict() == pytest.approx(
        frame.groupby("Cylinders")["Weight_in_lbs"].max().to_dict()
    )


@pytest.mark.parametrize(
    "request_text",
    [
        "plot mean horsepower by cylinders and mean weight by year for Japan",
        "for Japan, plot mean horsepower by cylinders and mean weight by year",
        "plot mean horsepower by cylinders for Japan. plot mean weight by year for Japan",
    ],
)
async def test_a_condition_said_once_goes_with_each_and_rows_are_kept_once(
    tmp_path: Path, request_text: str
) -> None:
    copy(tmp_path, "cars.json")
    notebook = Notebook(tmp_path)
    turn = await done(notebook, f"load cars.json. {request_text}")
    assert len([p for p in turn.purposes if p.startswith((KEEP, KEEP_FIRST))]) == 1
    frame = cars().query("Origin == 'Japan'")
    years = pd.to_datetime(frame["Year"]).dt.year
    by_year = drawn(notebook, "mean_weight_in_lbs_by_year_chart")
    assert by_year.set_index("year")["mean_weight_in_lbs"].to_dict() == pytest.approx(
        frame.groupby(years)["Weight_in_lbs"].mean().to_dict()
    )
    by_cylinders = drawn(notebook, "mean_horsepower_by_cylinders_chart")
    assert by_cylinders.set_index("Cylinders")["mean_horsepower"].to_dict() == pytest.approx(
        frame.groupby("Cylinders")["Horsepower"].mean().to_dict()
    )


async def test_conditions_of_their_own_stay_with_their_charts(notebook: Notebook) -> None:
    turn = await done(
        notebook,
        "plot mean weight by year for Japan and mean weight by year for Europe from cars.json",
    )
    assert [p for p in turn.purposes if p.startswith("Mean")] == [
        "Mean Weight_in_lbs by year (Origin is Japan)",
        "Mean Weight_in_lbs by year (Origin is Europe)",
    ]


async def test_a_list_is_drawn_as_was_said_at_its_head(notebook: Notebook) -> None:
    await done(notebook, "line chart of mean mpg by year and mean weight by cylinders, cars.json")
    charts = [name for name in notebook.names if name.endswith("_chart")]
    assert {mark(notebook[name]) for name in charts} == {"line"}
    assert sorted(encodings(notebook[name])["x"][0] for name in charts) == ["Cylinders", "year"]


@pytest.mark.parametrize(
    ("request_text", "said"),
    [
        (f"three charts: {BY_ORIGIN} and {BY_YEAR}", "three charts"),
        (f"2 charts:\n- {BY_ORIGIN}\n- {BY_YEAR}\n- {COUNTED}", "2 charts"),
        ("separate charts of mean horsepower by year for each origin", "separate charts"),
    ],
)
async def test_a_number_of_charts_that_does_not_fit_is_asked_about(
    desk: PublishingNotebook, request_text: str, said: str
) -> None:
    await desk.run("import pandas as pd\ncars = pd.read_json('data/cars.json')")
    turn = await desk.ask(request_text)
    assert turn.ending == "ask_user"
    assert f"'{said}'" in turn.arguments["question"]
    assert not [name for name in desk.names if name.endswith("_chart")]


@pytest.mark.parametrize("said", ["one chart per origin", "a plot for each origin", "faceted"])
async def test_a_chart_for_each_value_is_declined(desk: PublishingNotebook, said: str) -> None:
    turn = await desk.ask(f"mean horsepower by year from cars.json, {said}")
    assert turn.ending != "return_done"
    assert not [name for name in desk.names if name.endswith("_chart")]


async def test_all_charts_are_published_when_all_are_meant(desk: PublishingNotebook) -> None:
    await done(desk, f"load cars.json. {BY_ORIGIN} and {BY_YEAR}; publish the charts")
    assert [p["variable"] for p in desk.turn.published] == [
        "mean_horsepower_by_origin_chart",
        "mean_acceleration_by_year_chart",
    ]


# -- reports -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_text",
    [
        f"report about the cars with {BY_ORIGIN}, a histogram of weight and mean acceleration",
        f"write a report called Cars:\n- {BY_ORIGIN}\n- a histogram of weight\n- mean acceleration",
        f"write a report titled Cars. Include {BY_ORIGIN}; a histogram of weight;"
        " mean acceleration",
        f"{BY_ORIGIN}, draw a histogram of weight, compute the mean acceleration and publish it"
        " as a report called Cars",
    ],
)
async def test_a_report_has_a_section_for_each_thing_with_what_was_printed(
    desk: PublishingNotebook, request_text: str
) -> None:
    await desk.run("import pandas as pd\ncars = pd.read_json('data/cars.json')")
    await done(desk, request_text)
    (call,) = desk.called("return_report")
    assert call["title"] == "Cars"
    lead, *sections = re.split(r"(?m)^## ", call["body"].replace("\\", ""))
    assert [section.partition("\n")[0] for section in sections] == [
        "Mean Horsepower by Origin", "Distribution of Weight_in_lbs", "How it was made",
    ]  # fmt: skip
    frame = cars()
    means = frame.groupby("Origin")["Horsepower"].mean()
    assert f"{means.idxmax()} {round(means.max(), 6)}" in sections[0]
    assert str(frame["Weight_in_lbs"].median()) in sections[1]
    assert str(frame["Acceleration"].mean()) in lead
    assert re.search(r"Horsepower: |Weight_in_lbs: ", lead) is None
    assert re.findall(r"\d", sections[2].replace("cars", "")) == []


async def test_what_a_report_is_about_is_a_condition_where_data_has_it(
    desk: PublishingNotebook,
) -> None:
    await desk.run("import pandas as pd\ncars = pd.read_json('data/cars.json')")
    await done(desk, f"report about Japan with {BY_YEAR} and a histogram of weight")
    (call,) = desk.called("return_report")
    assert call["title"] == "Japan"
    median = cars().query("Origin == 'Japan'")["Weight_in_lbs"].median()
    assert median != cars()["Weight_in_lbs"].median()
    assert f": {median}." in call["body"]


async def test_a_condition_that_a_report_is_about_goes_with_each_section(
    desk: PublishingNotebook,
) -> None:
    await desk.run("import pandas as pd\ncars = pd.read_json('data/cars.json')")
    await done(
        desk,
        f"report called Heavy about cars with weight over 3000 with {BY_YEAR} and a histogram of"
        " horsepower",
    )
    (call,) = desk.called("return_report")
    assert call["title"] == "Heavy"
    median = cars().query("Weight_in_lbs > 3000")["Horsepower"].median()
    assert median != cars()["Horsepower"].median()
    assert f": {median}." in call["body"]


async def test_what_a_report_is_about_is_asked_where_data_does_not_have_it(
    desk: PublishingNotebook,
) -> None:
    await desk.run("import pandas as pd\ncars = pd.read_json('data/cars.json')")
    turn = await desk.ask(f"report about trucks with {BY_YEAR}")
    assert turn.ending == "ask_user"
    assert "'trucks'" in turn.arguments["question"]
    assert desk.called("return_report") == []


def test_a_report_comes_after_what_it_shows() -> None:
    clauses = parse(tokenize(f"write a report with {BY_ORIGIN} and a histogram of weight"), COLUMNS)
    assert [type(clause) for clause in clauses] == [Statement, Statement, Report]


async def test_charts_and_tables_of_one_cell_have_one_section(desk: PublishingNotebook) -> None:
    await desk.run("import pandas as pd\ncars = pd.read_json('data/cars.json')")
    await done(desk, f"plot {BY_ORIGIN}; write a report called P with the chart and the table")
    (call,) = desk.called("return_report")
    assert call["body"].count("Found when this was written") == 1
    assert call["body"].count("](artifact:") == 2


async def test_data_of_a_public_file_is_drawn_twice(tmp_path: Path) -> None:
    (tmp_path / "weather.csv").write_bytes((DATA / "seattle-weather.csv").read_bytes())
    notebook = Notebook(tmp_path)
    await done(notebook, "line charts of temp_max and wind over time from weather.csv")
    frame = pd.read_csv(tmp_path / "weather.csv")
    for name in ("temp_max", "wind"):
        shown = drawn(notebook, f"{name}_over_time_chart")
        assert sorted(shown[name]) == sorted(frame[name])
