"""The person's variables and column names are left as they are."""

from pathlib import Path

import pandas as pd
import pytest
from offline_notebook import Notebook


async def test_no_variable_of_the_person_is_overwritten_or_changed(small: Notebook) -> None:
    await small.run(
        "import pandas as pd\nweather = 'mine'\nmean_wind_by_city = 'mine too'\n"
        "towns = pd.DataFrame({'city': ['a', 'b'], 'wind': [1, 2]})"
    )
    before = small["towns"].copy()
    await small.ask("load weather.csv")
    assert small["weather"] == "mine"
    assert len(small["weather_2"]) == 4
    await small.ask("mean wind by city in towns")
    assert small["mean_wind_by_city"] == "mine too"
    assert small["mean_wind_by_city_2"]["mean_wind"].tolist() == [2, 1]
    pd.testing.assert_frame_equal(small["towns"], before)


async def test_the_same_request_again_makes_the_same_names(small: Notebook) -> None:
    request = "load weather.csv and plot mean wind by city"
    await small.ask(request)
    names = small.names
    await small.ask(request)
    assert small.names == names


async def test_no_helper_variable_is_left_behind(small: Notebook) -> None:
    await small.ask("load weather.csv, keep only Oslo, then plot the mean wind by sky")
    assert small.names == {
        "weather",
        "weather_oslo",
        "mean_wind_by_sky",
        "mean_wind_by_sky_chart",
    }


@pytest.mark.parametrize(
    "columns",
    [
        ["größe", "menge"],
        ["a 'quoted' name", 'a "double" one'],
        ["back\\slash", "and by"],
        ["dot.ted", "brack[et]"],
        ["class", "lambda"],
        ["colon: here", "100%"],
    ],
)
async def test_odd_column_names_are_written_as_they_are(tmp_path: Path, columns: list[str]) -> None:
    notebook = Notebook(tmp_path)
    group, measure = columns
    await notebook.run(
        "import pandas as pd\n"
        f"df = pd.DataFrame({{{group!r}: ['x', 'y', 'x'], {measure!r}: [1, 2, 4]}})"
    )
    shown = f"`{measure}`" if '"' in measure else f'"{measure}"'
    quoted = f'"{group}"'
    turn = await notebook.ask(f"plot the mean of {shown} by {quoted}")
    assert turn.ending == "return_done", turn
    assert turn.errors == []
    made = next(notebook[n] for n in notebook.names if n != "df" and not n.endswith("_chart"))
    assert made[group].tolist() == ["x", "y"]
    assert made.iloc[:, 1].tolist() == [2.5, 2]


async def test_a_doubled_column_is_declined(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path)
    await notebook.run(
        "import pandas as pd\ndf = pd.DataFrame([['a', 1, 2]], columns=['kind', 'size', 'size'])"
    )
    turn = await notebook.ask("mean size by kind")
    assert turn.ending == "return_unable"
    assert "'size'" in turn.arguments["rationale"]


async def test_an_index_that_looks_like_a_column_is_mended_after_the_error(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path)
    await notebook.run(
        "import pandas as pd\n"
        "df = pd.DataFrame({'price': [1.0, 3.0, 5.0]}, "
        "index=pd.Index(['a', 'b', 'a'], name='shop'))"
    )
    turn = await notebook.ask("mean price by shop")
    assert turn.ending == "return_done", turn
    assert notebook["mean_price_by_shop"].set_index("shop")["mean_price"].to_dict() == {
        "a": 3.0,
        "b": 3.0,
    }


async def test_numbers_written_as_text_are_measured(tmp_path: Path) -> None:
    (tmp_path / "bills.csv").write_text('shop,amount\nA,"$1,200.50"\nB,$80\nA,$10\n')
    notebook = Notebook(tmp_path)
    await notebook.ask("total amount by shop in bills.csv")
    made = notebook["total_amount_by_shop"].set_index("shop")["total_amount"]
    assert made.to_dict() == {"A": 1210.5, "B": 80.0}


async def test_dates_that_change_their_form_are_mended_after_the_error(tmp_path: Path) -> None:
    early = [f"2020-01-{d:02d},1" for d in range(1, 29)] * 9
    (tmp_path / "visits.csv").write_text(
        "day,visits\n" + "\n".join([*early, "Feb 3 2020,5"]), encoding="utf-8"
    )
    notebook = Notebook(tmp_path)
    turn = await notebook.ask("monthly total visits in visits.csv")
    assert turn.ending == "return_done", turn
    assert len(turn.errors) == 1
    assert notebook["total_visits_by_month"]["total_visits"].tolist() == [252, 5]


async def test_many_columns_are_looked_at_before_anything_is_decided(tmp_path: Path) -> None:
    names = [f"reading_of_the_sensor_number_{n}" for n in range(70)]
    lines = [",".join(["2020-01-0" + str(d), "North", *(str(n * d) for n in range(70))])
             for d in (1, 2)]  # fmt: skip
    (tmp_path / "wide.csv").write_text(",".join(["day", "site", *names]) + "\n" + "\n".join(lines))
    notebook = Notebook(tmp_path)
    turn = await notebook.ask("total reading_of_the_sensor_number_5 by site in wide.csv")
    assert turn.ending == "return_done", turn
    made = next(notebook[n] for n in notebook.names if n.startswith("total_"))
    assert made.iloc[0].tolist() == ["North", 15]
