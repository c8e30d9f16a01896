"""Which table a request is about, and whether it is about one at all."""

from pathlib import Path

import pytest
from offline_data import copy, done
from offline_notebook import Notebook, encodings

LOADED = """
import pandas as pd
seattle_weather = pd.read_csv("data/seattle-weather.csv")
iowa_electricity = pd.read_csv("data/iowa-electricity.csv")
total_net_generation_by_source = (
    iowa_electricity.groupby("source")["net_generation"].sum()
    .reset_index(name="total_net_generation")
)
"""


@pytest.fixture
async def several(tmp_path: Path) -> Notebook:
    """Three tables, and the files of two of them."""
    copy(tmp_path / "data", "seattle-weather.csv", "iowa-electricity.csv")
    several = Notebook(tmp_path)
    await several.run(LOADED)
    return several


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


# -- by name -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_text",
    [
        "use seattle_weather and plot the weekly mean temp_max",
        "using seattle_weather, plot the weekly mean temp_max",
        "plot the weekly mean temp_max from seattle_weather",
        "load seattle_weather and plot the weekly mean temp_max",
        "take the seattle weather table and plot the weekly mean temp_max",
    ],
)
async def test_a_variable_that_is_named_is_used_though_its_file_is_there(
    several: Notebook, request_text: str
) -> None:
    turn = await done(several, request_text)
    assert len(turn.codes) == 1
    assert "read_csv" not in turn.codes[0]
    assert "seattle_weather_2" not in several.names
    assert encodings(several["mean_temp_max_by_week_chart"])["x"] == ("date", "temporal")


async def test_a_table_with_the_named_column_alone_does_not_take_over(several: Notebook) -> None:
    await done(several, "plot net_generation from iowa_electricity")
    assert encodings(several["net_generation_over_time_chart"])["y"][0] == "net_generation"


# -- by columns ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_text", "name"),
    [
        ("plot net_generation by year and source", "total_net_generation_by_year_and_source"),
        ("total net generation by source", "total_net_generation_by_source_2"),
        ("mean net_generation by year", "mean_net_generation_by_year"),
        ("monthly mean temp_max", "mean_temp_max_by_month"),
        ("mean wind by weather", "mean_wind_by_weather"),
        ("how many days per weather?", "count_by_weather"),
    ],
)
async def test_the_table_is_the_one_that_has_all_the_columns(
    several: Notebook, request_text: str, name: str
) -> None:
    await done(several, request_text)
    assert name in several.names


async def test_the_very_name_of_a_column_decides(several: Notebook) -> None:
    turn = await done(several, "top 1 source by total_net_generation")
    assert "total_net_generation_by_source" in turn.codes[-1]
    assert "Fossil Fuels" in turn.summary


async def test_what_was_loaded_comes_before_what_was_made_of_it(several: Notebook) -> None:
    await done(several, "keep only seattle_weather in 2012")
    turn = await done(several, "mean wind by weather")
    assert "seattle_weather_2012" in several.names
    assert "seattle_weather_2012" not in turn.codes[-1]


# -- about no table ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_text",
    [
        "what is the meaning of life",
        "write me a poem",
        "who won the world cup",
        "who won the world cup in 2018?",
        "how are you",
        "explain quantum physics",
        "what is 2 + 2?",
        "tell me about yourself",
        "how many planets are there",
        "top 10 movies of all time",
        "who is the tallest man in the world",
        "compare love and hate",
        "draw a cat",
        "mean humidity by planet",
    ],
)
async def test_what_is_about_no_table_is_declined_and_not_asked_about(
    several: Notebook, request_text: str
) -> None:
    turn = await several.ask(request_text)
    assert turn.ending == "return_unable", turn
    assert turn.codes == []
    steps = " ".join(turn.arguments["suggested_next_steps"])
    assert "%agent model openai/gpt-5" in steps
    assert "load and join files, add columns" in steps


async def test_a_column_called_life_does_not_answer_for_its_meaning(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path)
    await notebook.run("import pandas as pd\ndf = pd.DataFrame({'life': [1, 2], 'cup': [3, 4]})")
    for request in ("what is the meaning of life", "tell me the meaning of life"):
        assert (await notebook.ask(request)).ending == "return_unable"


@pytest.mark.parametrize(
    ("before", "request_text"),
    [
        ("", "now by week"),
        ("load seattle-weather.csv", "by month"),
        ("mean wind by weather", "by source"),
    ],
)
async def test_a_grouping_of_nothing_is_declined(
    several: Notebook, before: str, request_text: str
) -> None:
    if before:
        await done(several, before)
    turn = await several.ask(request_text)
    assert turn.ending == "return_unable"
    assert "does not say what to compute" in turn.arguments["rationale"]


async def test_a_table_whose_name_is_a_column_of_another_is_read_as_the_column(
    notebook: Notebook,
) -> None:
    await done(notebook, "load data/seattle-weather.csv as weather")
    await done(notebook, "add a column spread = temp_max - temp_min")
    turn = await done(notebook, "mean spread by weather")
    assert "weather_with_spread" in turn.codes[-1]
    assert set(notebook["mean_spread_by_weather"]["weather"]) == set(notebook["weather"]["weather"])
