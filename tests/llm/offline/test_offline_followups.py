"""A request goes on from the one before: what is named changes, the rest stays, and it is told."""

import pandas as pd
import pytest
from offline_data import cars, done, weather
from offline_notebook import Notebook, Turn, encodings, mark

from parsimony_kernel.offline.codegen.cells import SEARCH
from parsimony_kernel.offline.transcript import told_table


@pytest.fixture
async def seattle(notebook: Notebook) -> Notebook:
    """Weather, and nothing else, in the notebook."""
    await notebook.run("import pandas as pd\nweather = pd.read_csv('data/seattle-weather.csv')")
    return notebook


@pytest.fixture
async def garage(notebook: Notebook) -> Notebook:
    """Cars, and nothing else, in the notebook."""
    await notebook.run("import pandas as pd\ncars = pd.read_json('data/cars.json')")
    return notebook


def made(notebook: Notebook, turn: Turn) -> pd.DataFrame:
    """The table that the last cell of a turn made."""
    name = turn.codes[-1].partition(" = ")[0].splitlines()[-1]
    value = notebook[name]
    assert isinstance(value, pd.DataFrame)
    return value


def months(frame: pd.DataFrame, column: str, func: str = "mean") -> list[float]:
    grouped = frame.groupby(frame["date"].dt.to_period("M"))[column]
    return sorted(round(float(v), 6) for v in grouped.agg(func))


def values(frame: pd.DataFrame) -> list[float]:
    return sorted(round(float(v), 6) for v in frame.iloc[:, -1])


def rounded(numbers: "pd.Series[float]") -> list[float]:
    return sorted(round(float(v), 6) for v in numbers)


# -- one slot changes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        "now by year", "by year", "the same by year", "but by year", "per year instead",
        "what about by year?", "by year instead of month", "can you do it per year?",
        "make it yearly", "same thing but per year", "ok now by year",
    ],
)  # fmt: skip
async def test_another_grouping_takes_the_place_of_the_one_before(
    seattle: Notebook, said: str
) -> None:
    await done(seattle, "mean temp_max by month")
    turn = await done(seattle, said)
    expected = weather().groupby(weather()["date"].dt.year)["temp_max"].mean()
    assert values(made(seattle, turn)) == rounded(expected)
    assert "to mean: mean temp_max by year." in turn.summary


@pytest.mark.parametrize(
    "said",
    [
        "the same for 2013", "and 2013?", "what about 2013", "only 2013", "for 2013",
        "how about 2013?", "show me that for 2013", "now 2013", "repeat that for 2013",
        "2013 instead of 2012",
    ],
)  # fmt: skip
async def test_another_year_takes_the_place_of_the_one_before(seattle: Notebook, said: str) -> None:
    await done(seattle, "mean temp_max by month in 2012")
    turn = await done(seattle, said)
    kept = weather()[weather()["date"].dt.year == 2013]
    assert values(made(seattle, turn)) == months(kept, "temp_max")
    assert "to mean: mean temp_max by month for 2013." in turn.summary


@pytest.mark.parametrize(
    "said",
    [
        "and for temp_min?", "the same for temp_min", "what about temp_min", "temp_min instead",
        "now temp_min", "do the same with temp_min",
        "temp_min instead of temp_max", "how about the min temp_min" [:9] + " temp_min",
    ],
)  # fmt: skip
async def test_another_measure_takes_the_place_of_the_one_before(
    seattle: Notebook, said: str
) -> None:
    await done(seattle, "mean temp_max by month")
    turn = await done(seattle, said)
    assert values(made(seattle, turn)) == months(weather(), "temp_min")


@pytest.mark.parametrize(
    "said", ["median instead", "use median", "and the median?", "median instead of mean"]
)
async def test_another_function_is_taken_of_the_same_column(seattle: Notebook, said: str) -> None:
    await done(seattle, "mean temp_max by month")
    turn = await done(seattle, said)
    assert values(made(seattle, turn)) == months(weather(), "temp_max", "median")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("as a line chart instead", "line"), ("make it a bar chart", "bar"), ("as bars", "bar"),
        ("now as a line chart", "line"), ("plot it as a line", "line"), ("plot it", "line"),
    ],
)  # fmt: skip
async def test_the_same_is_drawn(seattle: Notebook, said: str, kind: str) -> None:
    await done(seattle, "mean temp_max by month")
    turn = await done(seattle, said)
    chart = seattle["mean_temp_max_by_month_chart"]
    assert mark(chart) == kind
    assert encodings(chart)["y"][0] == "mean_temp_max"
    assert "`mean_temp_max_by_month_chart`" in turn.summary


async def test_a_chart_stays_a_chart_until_a_table_is_asked_for(seattle: Notebook) -> None:
    await done(seattle, "bar chart of mean wind by weather")
    assert "wind_by_weather_chart" in (await done(seattle, "only 2012")).codes[-1]
    assert "chart" not in (await done(seattle, "the same as a table")).codes[-1]


async def test_colors_bins_and_counts_change_by_themselves(seattle: Notebook) -> None:
    await done(seattle, "scatter temp_max vs wind")
    await done(seattle, "colored by weather")
    assert encodings(seattle["temp_max_vs_wind_chart"])["color"][0] == "weather"
    await done(seattle, "histogram of wind")
    assert len(made(seattle, await done(seattle, "with 30 bins"))) == 30
    await done(seattle, "top 10 days by wind")
    assert len(made(seattle, await done(seattle, "top 3"))) == 3


async def test_groups_that_were_computed_can_be_ranked(garage: Notebook) -> None:
    await done(garage, "mean horsepower by origin")
    means = cars().groupby("Origin")["Horsepower"].mean()
    assert (
        f"Lowest mean Horsepower: {means.idxmin()}"
        in (await done(garage, "and the lowest?")).summary
    )
    assert (
        f"Highest mean Horsepower: {means.idxmax()}"
        in (await done(garage, "and the highest?")).summary
    )


# -- chains --------------------------------------------------------------------------------------


async def test_a_chain_of_requests_changes_one_thing_after_another(seattle: Notebook) -> None:
    for said in ("mean temp_max by month in 2012", "now by week", "and for wind?", "max instead"):
        await done(seattle, said)
    turn = await done(seattle, "what about 2014")
    assert "to mean: maximum wind by week for 2014." in turn.summary
    kept = weather()[weather()["date"].dt.year == 2014]
    assert made(seattle, turn).iloc[:, -1].max() == kept["wind"].max()


async def test_what_only_publishes_is_passed_over(seattle: Notebook) -> None:
    await done(seattle, "mean wind by weather")
    await done(seattle, "publish it as Wind")
    assert len(made(seattle, await done(seattle, "now by year"))) == 4


async def test_a_clause_goes_on_from_the_one_before_it_in_a_request(seattle: Notebook) -> None:
    turn = await done(seattle, "mean temp_max by month and the same for temp_min")
    assert values(made(seattle, turn)) == months(weather(), "temp_min")
    assert {"mean_temp_max_by_month", "mean_temp_min_by_month"} <= seattle.names


async def test_the_table_of_the_request_before_is_kept(notebook: Notebook) -> None:
    await notebook.run("import pandas as pd\nolder = pd.read_json('data/cars.json').head(50)")
    await done(notebook, "load cars.json and show the mean weight by year of it")
    turn = await done(notebook, "the same by origin")
    expected = cars().groupby("Origin")["Weight_in_lbs"].mean()
    assert values(made(notebook, turn)) == rounded(expected)


async def test_the_same_can_be_asked_of_another_table(garage: Notebook) -> None:
    await garage.run("older = cars[cars['Year'] < '1975']")
    await done(garage, "mean weight by origin of cars")
    turn = await done(garage, "the same for older")
    older = cars()[cars()["Year"] < "1975"].groupby("Origin")["Weight_in_lbs"].mean()
    assert values(made(garage, turn)) == rounded(older)


async def test_all_that_is_asked_of_another_table_takes_nothing_over(garage: Notebook) -> None:
    await done(garage, "load stocks.csv and plot the mean price by symbol")
    turn = await done(garage, "what about mean weight by origin in cars")
    assert values(made(garage, turn)) == rounded(cars().groupby("Origin")["Weight_in_lbs"].mean())
    assert "chart" not in turn.codes[-1]


# -- values of columns ---------------------------------------------------------------------------


async def test_a_value_takes_the_place_of_one_of_the_same_column(garage: Notebook) -> None:
    await done(garage, "mean horsepower by year for Japan")
    turn = await done(garage, "what about Europe?")
    kept = cars()[cars()["Origin"] == "Europe"]
    expected = kept.groupby(pd.to_datetime(kept["Year"]).dt.year)["Horsepower"].mean()
    assert values(made(garage, turn)) == rounded(expected)
    assert "to mean: mean horsepower by year for Europe." in turn.summary


async def test_what_is_not_known_of_a_value_is_looked_for_and_not_guessed(garage: Notebook) -> None:
    await done(garage, "mean horsepower by year for ford pinto")
    turn = await done(garage, "what about 'amc hornet'")
    assert sum(p.startswith(f"{SEARCH} ") for p in turn.purposes) == 1
    assert "Name is amc hornet" in turn.purposes[-1]
    assert "pinto" not in turn.purposes[-1]


async def test_conditions_of_other_columns_stand_beside_each_other(garage: Notebook) -> None:
    await done(garage, "mean horsepower by origin since 1975")
    turn = await done(garage, "with 4 cylinders")
    table = cars()
    kept = table[(pd.to_datetime(table["Year"]).dt.year >= 1975) & (table["Cylinders"] == 4)]
    expected = kept.groupby("Origin")["Horsepower"].mean()
    assert values(made(garage, turn)) == rounded(expected)


# -- two readings --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "said", "choices"),
    [
        (
            "mean wind by month", "also by weather",
            ["mean wind by month and weather", "mean wind by weather"],
        ),
        (
            "mean wind by month",
            "and temp_min?",
            ["mean wind and mean temp_min by month", "mean temp_min by month"],
        ),
        (
            "mean wind by weather since 2013", "before 2015",
            [
                "mean wind by weather before 2015",
                "mean wind by weather since 2013 before 2015",
            ],
        ),
        (
            "scatter temp_max vs wind", "what about temp_min?",
            [
                "temp_min vs wind as a scatter chart", "temp_max vs temp_min as a scatter chart",
            ],
        ),
        (
            "compare 2012 and 2013 by mean wind", "and 2014?",
            [
                "compare mean wind for 2012, 2013 and 2014", "compare mean wind for 2014",
            ],
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("index", [0, 1])
async def test_what_can_be_taken_in_two_ways_is_asked(
    seattle: Notebook, before: str, said: str, choices: list[str], index: int
) -> None:
    await done(seattle, before)
    turn = await seattle.ask(said)
    assert turn.ending == "ask_user"
    assert turn.codes == []
    assert turn.choices == choices
    turn = await seattle.reply(choices[index])
    assert turn.ending == "return_done"
    assert f"to mean: {choices[index]}." in turn.summary


async def test_an_answer_holds_for_the_requests_that_go_on_from_it(seattle: Notebook) -> None:
    await done(seattle, "mean wind by month")
    turn = await done(seattle, "also by weather", "mean wind by month and weather")
    seattle.earlier += [
        {"role": "user", "content": "<request>\nalso by weather\n</request>"},
        {"role": "assistant", "content": turn.summary},
    ]
    turn = await done(seattle, "only 2012")
    assert "to mean: mean wind by month and weather for 2012." in turn.summary


# -- what does not go on -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said", ["the same for 2012", "and for temp_min?", "what about 2013", "now by week", "again"]
)
@pytest.mark.parametrize("before", ["", "load stocks.csv"])
async def test_the_rest_of_nothing_is_declined(seattle: Notebook, before: str, said: str) -> None:
    if before:
        await done(seattle, "mean wind by month")
        await done(seattle, before)
    turn = await seattle.ask(said)
    assert turn.ending == "return_unable"
    assert turn.codes == []
    assert "does not say what to compute" in turn.arguments["rationale"]


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("how many days by weather", "what about wind"),
        ("mean wind by month", "by year instead of weather"),
        ("mean wind by month", "only those above 4"),
        ("mean wind by month", "for all years"),
        ("describe weather", "now by month"),
        ("mean wind by month", "what about missing values?"),
        ("mean wind by month", "the same table"),
        ("show the first 10 rows", "as a bar chart instead"),
        ("scatter temp_max vs wind", "median instead"),
    ],
)
async def test_what_has_no_place_in_the_request_before_is_declined(
    seattle: Notebook, before: str, said: str
) -> None:
    await done(seattle, before)
    turn = await seattle.ask(said)
    assert turn.ending == "return_unable", turn
    assert turn.codes == []


@pytest.mark.parametrize(
    "said",
    [
        "now mean wind by weather", "and plot mean wind by weather", "mean wind by weather again",
        "now show the mean wind by weather instead", "what about mean wind by weather"[11:],
    ],
)  # fmt: skip
async def test_a_whole_request_takes_nothing_over(seattle: Notebook, said: str) -> None:
    await done(seattle, "median temp_max by month in 2012")
    turn = await done(seattle, said)
    expected = weather().groupby("weather")["wind"].mean()
    assert values(made(seattle, turn)) == rounded(expected)
    assert "to mean:" not in turn.summary


@pytest.mark.parametrize("said", ["cars of the same origin", "all cars but Japan"])
async def test_words_that_carry_over_are_never_dropped(garage: Notebook, said: str) -> None:
    await done(garage, "mean horsepower by origin")
    turn = await garage.ask(said)
    assert turn.ending != "return_done"
    assert turn.codes == []


async def test_rows_that_are_named_are_kept_as_they_are(garage: Notebook) -> None:
    await done(garage, "mean horsepower by origin")
    turn = await done(garage, "only the cars from Japan")
    assert len(made(garage, turn)) == int((cars()["Origin"] == "Japan").sum())


def test_the_table_of_a_request_is_read_off_its_summary() -> None:
    assert told_table("Loaded `cars` from data/cars.json: 406 rows, 9 columns.") == "cars"
    assert (
        told_table("Mean a: `b` (2 rows). I used `cars`, the table that has these columns.")
        == "cars"
    )
    assert told_table("Mean wind by month: `mean_wind_by_month` (48 rows).") is None


async def test_what_it_was_taken_for_is_told_once(garage: Notebook) -> None:
    await done(garage, "mean horsepower by year for Japan")
    turn = await done(garage, "for Europe, as a bar chart")
    notes = {line for said in turn.said for line in said.splitlines() if "to mean:" in line}
    assert len(notes) == 1
