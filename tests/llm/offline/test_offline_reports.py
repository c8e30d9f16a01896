"""A report shows what was asked for, says what was observed, and can be made again."""

import re
from html import escape
from pathlib import Path

import pytest
from offline_data import WEATHER, cars, copy, done, write_sales
from offline_notebook import Turn
from offline_publishing import PUBLISHING, PublishingNotebook

from parsimony_kernel.agent.evidence import earlier, observed
from parsimony_kernel.artifacts.reports import parse, pinned_in
from parsimony_kernel.gate.claims import unobserved
from parsimony_kernel.gate.observation import Observation

THIRST = "plot mean mpg by origin from cars.json and publish it as a report titled 'Thirst'"


@pytest.fixture
def desk(tmp_path: Path) -> PublishingNotebook:
    copy(tmp_path / "data", "cars.json", "stocks.csv")
    write_sales(tmp_path / "data/sales.csv")
    return PublishingNotebook(tmp_path)


def shows(notebook: PublishingNotebook) -> list[tuple[str, str]]:
    """The kinds and variables that the newest report shows, in order."""
    entry = notebook.store.list()[-1]
    assert entry.kind == "report"
    refs = pinned_in(parse(notebook.store.read(entry.ref)).body)
    found = [notebook.store.latest(ref.kind, ref.logical_id) for ref in refs]
    assert None not in found
    return [(each.kind, each.variable) for each in found if each is not None]


def reported(turn: Turn, title: str, slug: str) -> bool:
    return f"Published the report {title!r}: reports/{slug}.html." in turn.summary


@pytest.mark.parametrize(
    ("request_text", "title", "kinds"),
    [
        (THIRST, "Thirst", ["chart"]),
        ("plot mean mpg by origin from cars.json as a report titled 'Thirst'", "Thirst", ["chart"]),
        ("mean mpg by origin from cars.json, save it as a report called Thirst", "Thirst",
         ["dataset"]),
        ("save the mean mpg by origin from cars.json as a report called 'Thirst'", "Thirst",
         ["dataset"]),
        ("mean mpg by origin from cars.json; write a report called Thirst with the chart and the"
         " table", "Thirst", ["chart", "dataset"]),
        ("plot mean mpg by origin from cars.json and write a report called Cars and prices",
         "Cars and prices", ["chart"]),
        ("write a report called 'Thirst' with a bar chart of mean mpg by origin from cars.json",
         "Thirst", ["chart"]),
        ("give me a report of the mean mpg by origin from cars.json",
         "Mean Miles_per_Gallon by Origin", ["dataset"]),
        ("plot mean mpg by origin from cars.json, plot mean horsepower by origin and make a"
         " report called Two", "Two", ["chart", "chart"]),
        ("plot mean mpg by origin from cars.json, publish the chart as 'A' and publish a report"
         " called 'B' with the chart", "B", ["chart"]),
        ("load cars.json and make a report called 'All'", "All", ["dataset"]),
        ("make a report called 'All' of cars.json", "All", ["dataset"]),
    ],
)  # fmt: skip
async def test_a_report_shows_what_the_request_made(
    desk: PublishingNotebook, request_text: str, title: str, kinds: list[str]
) -> None:
    await done(desk, request_text)
    assert [e.title for e in desk.announced("report")] == [title]
    assert [kind for kind, _ in shows(desk)] == kinds
    assert len({(p["kind"], p["variable"]) for p in desk.turn.published}) == len(kinds)


async def test_what_it_shows_is_published_before_it_and_once(desk: PublishingNotebook) -> None:
    turn = await done(desk, THIRST)
    tools = [name for name, _ in desk.calls if name != "run_code"]
    assert tools == ["return_chart", "return_report", "return_done"]
    assert reported(turn, "Thirst", "thirst")
    assert "Mean Miles_per_Gallon by Origin" in desk.page("thirst")


async def test_its_body_holds_what_was_observed_and_where_it_comes_from(
    desk: PublishingNotebook,
) -> None:
    await done(desk, THIRST)
    call = desk.called("return_report")[0]
    means = cars().groupby("Origin")["Miles_per_Gallon"].mean()
    lead, figure, said, heading, made = call["body"].split("\n\n")
    assert lead == "Shown here: Mean Miles\\_per\\_Gallon by Origin."
    assert f"{means.idxmax()} {means.max():.6f}" in said.partition("when this was written: ")[2]
    assert figure.endswith("](artifact:mean_miles_per_gallon_by_origin_chart)")
    assert heading == "## How it was made"
    assert f"data/cars.json ({len(cars())} rows, {cars().shape[1]} columns then)" in made
    assert call["language"] == "en"


@pytest.mark.parametrize(
    "request_text",
    [
        THIRST,
        "plot revenue by region over time from sales.csv and make a report of the charts",
        "load stocks.csv and make a report called 'Prices 1,234'",
    ],
)
async def test_its_summary_passes_the_check_of_claims(
    desk: PublishingNotebook, request_text: str
) -> None:
    turn = await done(desk, request_text)
    before = desk.messages[:-1]
    seen = Observation(
        list(observed(before)), frozenset(desk.names), earlier=earlier(before), published=True
    )
    assert unobserved(turn.summary, seen) == []


async def test_numbers_without_a_table_are_told_in_words(desk: PublishingNotebook) -> None:
    await done(desk, "mean horsepower from cars.json and publish it as a report called Power")
    assert desk.turn.published == []
    assert str(round(cars()["Horsepower"].mean(), 4)) in desk.page("power")
    assert shows(desk) == []


async def test_charts_of_earlier_turns_are_shown_with_their_titles_and_files(
    desk: PublishingNotebook,
) -> None:
    await done(desk, "plot mean mpg by origin from cars.json and publish the chart as 'Thirst'")
    await done(desk, "plot mean horsepower by origin of cars")
    turn = await done(desk, "make a report of the charts called Both")
    assert [name for _, name in shows(desk)] == [
        "mean_miles_per_gallon_by_origin_chart",
        "mean_horsepower_by_origin_chart",
    ]
    assert turn.published[0]["title"] == "Thirst"
    assert desk.called("return_report")[-1]["body"].count("from data/cars.json") == 2


async def test_of_what_a_person_made_the_source_is_looked_up(desk: PublishingNotebook) -> None:
    await desk.run("import pandas as pd\nbooked = pd.read_csv('data/sales.csv').head(9)")
    await done(desk, "write a report of booked")
    assert shows(desk) == [("dataset", "booked")]
    assert "from data/sales.csv." in desk.called("return_report")[0]["body"]


async def test_a_table_that_changed_since_it_was_loaded_is_not_said_to_be_its_file(
    desk: PublishingNotebook,
) -> None:
    await done(desk, "load cars.json")
    await desk.run("cars = cars[cars.Origin == 'Japan']")
    await done(desk, "plot mean mpg by year of cars and publish it as a report called Japan")
    body = desk.called("return_report")[0]["body"]
    assert "cars.json" not in body
    assert "from `cars`." in body


async def test_the_same_request_again_is_the_same_report(desk: PublishingNotebook) -> None:
    await done(desk, THIRST)
    first = desk.announced("report")[0]
    desk.earlier.clear()
    desk.replaceable = sorted(desk.names)
    turn = await done(desk, THIRST)
    again = desk.announced("report")[1]
    assert (again.logical_id, again.content_sha) == (first.logical_id, first.content_sha)
    assert again.reused
    assert reported(turn, "Thirst", "thirst")
    assert [p.name for p in (desk.folder / "reports").iterdir()] == ["thirst.html"]


@pytest.mark.parametrize("title", ["booked", "Booked"])
async def test_something_else_of_the_same_name_is_not_shown_in_its_place(
    desk: PublishingNotebook, title: str
) -> None:
    await desk.run("import pandas as pd\nbooked = pd.read_csv('data/sales.csv').head(9)")
    await done(desk, f"load stocks.csv and publish it as a dataset called '{title}'")
    await done(desk, "write a report of booked called 'Orders'")
    assert shows(desk) == [("dataset", "booked")]


async def test_a_report_of_a_variables_own_name_is_made_again(desk: PublishingNotebook) -> None:
    await done(desk, "load stocks.csv and make a report called 'Stocks'")
    await done(desk, "write a report of stocks called 'Stocks'")
    assert shows(desk) == [("dataset", "stocks")]


async def test_a_name_that_is_not_clear_is_given_by_id_in_the_next_try(
    desk: PublishingNotebook,
) -> None:
    for file, title in (("sales", "Orders"), ("stocks", "Prices")):
        await desk.run(f"import pandas as pd\nbooked = pd.read_csv('data/{file}.csv').head(9)")
        await done(desk, f"publish booked as '{title}'")
    await done(desk, "write a report of booked called 'Two'")
    first, second = (re.findall(r"artifact:(\w+)", c["body"]) for c in desk.called("return_report"))
    newest = desk.announced("dataset")[-1]
    assert (first, second) == (["booked"], [newest.logical_id])
    assert "Prices" in desk.page("two")


@pytest.mark.parametrize(
    "name",
    ["![x](artifact:secret)", "{{< include data/odd.csv >}}", "<script>a</script>", "a|`b`*c*"],
)
async def test_what_comes_from_data_is_plain_text(desk: PublishingNotebook, name: str) -> None:
    rows = f'"{name}",n\n"{name}",3\nb,1\nb,2\n'
    (desk.folder / "data/odd.csv").write_text(rows, encoding="utf-8")
    request = f'load odd.csv, mean n by column "{name}" and publish it as a report called Odd'
    await done(desk, request)
    assert len(shows(desk)) == 1
    assert escape(f"Shown here: Mean n by {name}.") in desk.page("odd")


@pytest.mark.parametrize(
    ("request_text", "blocker"),
    [
        ("make a report of the charts", "no chart was made"),
        ("make a report of bananas", "'bananas'"),
        ("report the mean mpg of cars.json", "'report'"),
        ("write a poem", "'write'"),
        ("make a detailed report of the charts", "'a detailed report'"),
    ],
)
async def test_what_cannot_be_reported_is_said_and_nothing_is_published(
    desk: PublishingNotebook, request_text: str, blocker: str
) -> None:
    turn = await desk.ask(request_text)
    assert turn.ending == "return_unable"
    assert blocker in turn.arguments["blockers"][0]
    assert desk.events == []


async def test_what_is_not_understood_of_a_report_is_asked_about(desk: PublishingNotebook) -> None:
    turn = await desk.ask("plot mean mpg by origin from cars.json and make a detailed report")
    assert turn.ending == "ask_user"
    assert "'a detailed report'" in turn.arguments["question"]
    assert desk.calls[-1][0] == "ask_user"
    assert desk.events == []


async def test_a_report_that_is_refused_is_handed_off_with_the_words(tmp_path: Path) -> None:
    (tmp_path / "weather.csv").write_text(WEATHER, encoding="utf-8")
    other = PublishingNotebook(tmp_path, path="other.ipynb")
    await done(other, "load weather.csv and make a report called 'Days'")
    mine = PublishingNotebook(tmp_path)
    turn = await mine.ask("load weather.csv and make a report called 'Days'")
    assert turn.ending == "return_unable"
    assert "other.ipynb" in turn.arguments["blockers"][0]
    assert len(mine.called("return_report")) == 1


async def test_without_the_tool_the_report_is_said_to_be_missing(tmp_path: Path) -> None:
    (tmp_path / "weather.csv").write_text(WEATHER, encoding="utf-8")
    tools = tuple(t for t in PUBLISHING if t not in ("return_report", "refresh"))
    notebook = PublishingNotebook(tmp_path, tools=tools)
    turn = await notebook.ask("load weather.csv and make a report")
    assert turn.arguments["blockers"] == ["return_report is not among the tools"]
    turn = await notebook.ask("refresh 'Days'")
    assert turn.arguments["blockers"] == ["refresh is not among the tools"]
