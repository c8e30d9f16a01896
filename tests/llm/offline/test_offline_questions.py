"""What can be read in several ways is asked, and the answer holds."""

from pathlib import Path

import pytest
from offline_notebook import Notebook, encodings


@pytest.mark.parametrize(
    ("request_text", "choices"),
    [
        ("plot the temperature from weather.csv", ["temp_max", "temp_min"]),
        ("load weather.csv and plot the monthly mean temperature", ["temp_max", "temp_min"]),
        ("make a chart of the weather", ["temp_max", "temp_min", "wind", "city", "sky"]),
        ("mean humidity by city in weather.csv", ["temp_max", "temp_min", "wind"]),
        ("plot the mean wind of weather.csv", ["date", "city", "sky"]),
        ("average of city in weather.csv", ["temp_max", "temp_min", "wind"]),
    ],
)
async def test_what_can_be_read_in_several_ways_is_asked(
    small: Notebook, request_text: str, choices: list[str]
) -> None:
    turn = await small.ask(request_text)
    assert turn.ending == "ask_user"
    assert turn.choices == choices
    assert not any("groupby" in code or "alt." in code for code in turn.codes)


@pytest.mark.parametrize("reply", ["temp_min", "Temp_Min", "the temp_min column", "min temp"])
async def test_a_choice_or_free_words_answer_a_question(small: Notebook, reply: str) -> None:
    await small.ask("load weather.csv and plot the monthly mean temperature")
    turn = await small.reply(reply)
    assert turn.ending == "return_done"
    assert encodings(small["mean_temp_min_by_month_chart"])["x"] == ("date", "temporal")
    assert sum("read_csv" in code for code in turn.codes) == 1


async def test_an_answer_that_fits_nothing_is_asked_again_and_then_given_up(
    small: Notebook,
) -> None:
    await small.ask("plot the temperature from weather.csv")
    for reply in ("humidity", "the purple one", "zzz"):
        assert small.turn.ending == "ask_user"
        await small.reply(reply)
    assert small.turn.ending == "return_unable"


@pytest.mark.parametrize("reply", ["stop", "Cancel.", "never mind"])
async def test_a_person_may_stop_at_a_question(small: Notebook, reply: str) -> None:
    await small.ask("plot the temperature from weather.csv")
    turn = await small.reply(reply)
    assert turn.ending == "return_done"
    assert not any("alt." in code for code in turn.codes)


async def test_a_value_that_is_nearly_there_is_a_question_and_never_a_guess(
    small: Notebook,
) -> None:
    turn = await small.ask("mean wind in Osloo by sky, weather.csv")
    assert turn.ending == "ask_user"
    assert turn.choices[0] == "city is Oslo"
    turn = await small.reply("city is Oslo")
    assert turn.ending == "return_done"
    assert set(small["weather_oslo"]["city"]) == {"Oslo"}


async def test_a_value_beyond_the_samples_is_looked_up(tmp_path: Path) -> None:
    lines = [f"Town {n},{n}" for n in range(300)]
    (tmp_path / "towns.csv").write_text("town,people\n" + "\n".join(lines), encoding="utf-8")
    notebook = Notebook(tmp_path)
    turn = await notebook.ask("show the rows of towns.csv for 'town 277'")
    assert turn.ending == "return_done"
    assert notebook["towns_town_277"]["people"].tolist() == [277]


async def test_dates_that_read_both_ways_are_asked_about(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("day,visits\n01/02/2020,5\n03/04/2020,7\n")
    notebook = Notebook(tmp_path)
    turn = await notebook.ask("monthly total visits in visits.csv")
    assert turn.choices == ["month first", "day first"]
    await notebook.reply("day first")
    assert notebook["total_visits_by_month"]["day"].dt.month.tolist() == [2, 3, 4]


async def test_the_rest_is_done_only_by_consent(small: Notebook) -> None:
    request = "load weather.csv, plot mean wind by city and email it to Bob"
    turn = await small.ask(request)
    assert (turn.ending, turn.codes) == ("ask_user", [])
    turn = await small.reply("Do the rest")
    assert turn.ending == "return_done"
    assert "'email'" in turn.summary
    assert "mean_wind_by_city_chart" in small.names
