"""Names that are in use already: the person's stay, this model's own are bound again."""

from pathlib import Path

import pandas as pd
import pytest
from offline_data import cars, copy, done
from offline_notebook import Notebook, encodings

OWN_DF = "import pandas as pd\ndf = pd.DataFrame({'q': [1]})"
MONTHLY = "load data/seattle-weather.csv as w and plot the monthly mean wind"


@pytest.mark.parametrize(("reply", "name"), [("overwrite df", "df"), ("call it df_2", "df_2")])
async def test_a_name_that_is_asked_for_and_taken_is_a_question(
    notebook: Notebook, reply: str, name: str
) -> None:
    await notebook.run(OWN_DF)
    turn = await notebook.ask("load data/cars.json as df and describe it")
    assert turn.ending == "ask_user"
    assert turn.choices == ["overwrite df", "call it df_2"]
    turn = await notebook.reply(reply)
    assert turn.ending == "return_done", turn
    assert len(notebook[name]) == len(cars())
    assert list(notebook["df"].columns) == (["q"] if name == "df_2" else list(cars().columns))


async def test_a_name_with_a_number_is_explained(notebook: Notebook) -> None:
    await notebook.run("cars = 'mine'\nmean_horsepower_by_origin = 'mine too'")
    turn = await done(notebook, "load data/cars.json and plot the mean horsepower by origin")
    assert "There is a variable 'cars' already, so I loaded 'data/cars.json' as" in turn.summary
    assert "There is a variable 'mean_horsepower_by_origin' already" in turn.summary
    assert (notebook["cars"], notebook["mean_horsepower_by_origin"]) == ("mine", "mine too")
    assert len(notebook["mean_horsepower_by_origin_2"]) == 3


async def test_variables_named_like_modules_stay(notebook: Notebook) -> None:
    await notebook.run("pd, alt, json, pandas = 3, 'x', [1], 'y'")
    await done(notebook, "load data/stocks.csv and plot the monthly mean price of AAPL and MSFT")
    assert [notebook[n] for n in ("pd", "alt", "json", "pandas")] == [3, "x", [1], "y"]
    assert encodings(notebook["mean_price_by_month_and_symbol_chart"])["color"][0] == "symbol"


async def test_a_table_named_like_a_module_is_worked_on(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path)
    await notebook.run(
        "import pandas\npd = pandas.DataFrame({'day': ['2020-01-01', '2020-02-01'], 'sun': [1, 2]})"
    )
    await done(notebook, "plot the monthly mean sun in pd")
    assert notebook["mean_sun_by_month"]["mean_sun"].tolist() == [1, 2]
    assert isinstance(notebook["pd"], pd.DataFrame)


async def test_the_same_request_three_times_makes_the_names_once(notebook: Notebook) -> None:
    names = {"w", "mean_wind_by_month", "mean_wind_by_month_chart"}
    for _ in range(3):
        await done(notebook, MONTHLY)
        assert notebook.names == names


async def test_names_of_a_replaced_turn_are_bound_again(notebook: Notebook) -> None:
    await done(notebook, MONTHLY)
    for _ in range(2):
        notebook.earlier = []
        notebook.replaceable = sorted(notebook.names)
        turn = await done(notebook, MONTHLY)
        assert "already" not in turn.summary
        assert notebook.names == {"w", "mean_wind_by_month", "mean_wind_by_month_chart"}


async def test_a_variable_that_was_only_used_is_not_bound_again(notebook: Notebook) -> None:
    await notebook.run(
        "import pandas as pd\n"
        "mean_b_by_a = pd.DataFrame({'a': ['x', 'y'], 'b': [1, 2]})\n"
        "other = pd.DataFrame({'c': ['x', 'y'], 'd': [1, 2]})"
    )
    before = notebook["mean_b_by_a"]
    for _ in range(2):
        await done(notebook, "mean b by a")
        assert notebook["mean_b_by_a"] is before
    assert notebook["mean_b_by_a_2"]["mean_b"].tolist() == [2, 1]


async def test_a_table_named_like_a_file_comes_before_one_made_of_it(tmp_path: Path) -> None:
    copy(tmp_path / "data", "seattle-weather.csv")
    notebook = Notebook(tmp_path)
    await notebook.run(
        "import pandas as pd\nseattle_weather = pd.read_csv('data/seattle-weather.csv')\n"
        "hot = seattle_weather[seattle_weather.temp_max > 30]"
    )
    turn = await done(notebook, "which month has the most precipitation?")
    assert "2015-12-01" in turn.summary


async def test_a_filter_before_does_not_take_over_the_next_question(notebook: Notebook) -> None:
    await done(notebook, "load data/seattle-weather.csv")
    await done(notebook, "days where temp_max is above 30")
    notebook.earlier = []
    turn = await done(notebook, "which month has the most precipitation?")
    assert "2015-12-01" in turn.summary
