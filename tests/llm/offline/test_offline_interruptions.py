"""What was lost is made again; what cannot be mended is said."""

import json
from pathlib import Path

import pytest
from offline_data import copy
from offline_notebook import (
    Notebook,
    assistant_message,
    complete,
    encodings,
    model_request,
    tool_message,
)

from parsimony_kernel.agent.prompts import notebook_context
from parsimony_kernel.core.conversation import opening


async def test_what_is_gone_after_a_restart_is_made_again(small: Notebook) -> None:
    await small.ask("load weather.csv and plot the monthly mean temperature")
    assert small.turn.ending == "ask_user"
    turn = await small.reply("temp_max", gone=["weather"])
    assert turn.ending == "return_done", turn
    assert turn.errors == []
    assert sum("read_csv" in code for code in turn.codes) == 2
    assert small["mean_temp_max_by_month"]["mean_temp_max"].notna().any()


LOADED = """
import pandas as pd
seattle_weather = pd.read_csv("data/seattle-weather.csv")
iowa_electricity = pd.read_csv("data/iowa-electricity.csv")
wettest = seattle_weather.nlargest(5, "precipitation")
"""


async def test_a_variable_of_the_notebook_that_has_gone_is_read_again_under_its_name(
    tmp_path: Path,
) -> None:
    copy(tmp_path / "data", "seattle-weather.csv", "iowa-electricity.csv")
    notebook = Notebook(tmp_path)
    await notebook.run(LOADED)
    turn = await notebook.ask("use seattle_weather and plot the weekly mean temperature")
    assert turn.choices == ["temp_max", "temp_min"]
    turn = await notebook.reply("temp_min", gone=["seattle_weather", "iowa_electricity", "wettest"])
    assert turn.ending == "return_done", turn
    assert turn.errors == []
    assert [len(notebook["seattle_weather"]), "seattle_weather_2" in notebook.names] == [
        1461,
        False,
    ]
    assert encodings(notebook["mean_temp_min_by_week_chart"])["y"][0] == "mean_temp_min"
    assert "Loaded `seattle_weather` from data/seattle-weather.csv" in turn.summary


async def test_a_name_of_the_persons_own_is_read_again_from_the_file_it_came_from(
    tmp_path: Path,
) -> None:
    copy(tmp_path, "seattle-weather.csv")
    notebook = Notebook(tmp_path)
    await notebook.ask("load seattle-weather.csv as days")
    await notebook.ask("plot the weekly mean temperature of days")
    turn = await notebook.reply("temp_max", gone=["days"])
    assert turn.ending == "return_done", turn
    assert len(notebook["days"]) == 1461


@pytest.mark.parametrize(("reply", "drawn"), [("Go on with the file", True), ("stop", False)])
async def test_a_file_that_holds_other_rows_than_the_variable_did_is_asked_about(
    tmp_path: Path, reply: str, drawn: bool
) -> None:
    copy(tmp_path, "seattle-weather.csv")
    notebook = Notebook(tmp_path)
    await notebook.run(
        "import pandas as pd\nseattle_weather = pd.read_csv('seattle-weather.csv').head(100)"
    )
    await notebook.ask("plot the weekly mean temperature of seattle_weather")
    turn = await notebook.reply("temp_max", gone=["seattle_weather"])
    assert turn.ending == "ask_user"
    assert "100 rows" in turn.arguments["question"]
    assert "1,461 rows" in turn.arguments["question"]
    turn = await notebook.reply(reply)
    assert turn.ending == "return_done"
    assert ("mean_temp_max_by_week_chart" in notebook.names) is drawn


async def test_a_turn_of_many_steps_survives_that_old_results_are_shortened(
    tmp_path: Path,
) -> None:
    names = [f"reading_of_the_sensor_number_{n}" for n in range(60)]
    lines = [",".join(["day", "site", "kind", *names])]
    for n in range(120):
        site, kind = f"Site {n % 60}", ("wet", "dry")[n % 2]
        day = f"2020-{n // 2 % 12 + 1:02d}-{n // 24 + 1:02d}"
        lines.append(",".join([day, site, kind, *(str(n + m) for m in range(60))]))
    for name in ("wide_a.csv", "wide_b.csv"):
        (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
    notebook = Notebook(tmp_path)
    turn = await notebook.ask(
        "load wide_a.csv and wide_b.csv; "
        "plot reading_of_the_sensor_number_5 over time for dry in wide_a; "
        "top 3 site by reading_of_the_sensor_number_7 in wide_b; publish the chart as 'Dry'"
    )
    assert turn.ending == "ask_user", turn
    assert "mean reading_of_the_sensor_number_7" in turn.choices
    turn = await notebook.reply("mean reading_of_the_sensor_number_7")
    assert turn.ending == "return_done", turn
    assert turn.errors == []
    drawn = next(notebook[n] for n in notebook.names if n.endswith("_over_time"))
    assert len(drawn) == 60
    assert len(notebook.requests) >= 6
    assert "older_result_shortened" in str(notebook.requests[-1].messages)
    assert [p["title"] for p in turn.published] == ["Dry"]
    # Only what was shortened is looked at again.
    once = [p for p in turn.purposes if not p.startswith(("Look", "Count"))]
    assert len(once) == len(set(once))


async def test_a_gone_variable_that_no_file_explains_is_named(tmp_path: Path) -> None:
    notebook = Notebook(tmp_path)
    await notebook.run("import pandas as pd\ndf = pd.DataFrame({'a_x': [1], 'a_y': [2]})")
    await notebook.ask("plot a")
    assert notebook.turn.ending == "ask_user"
    turn = await notebook.reply("a_x", gone=["df"])
    assert turn.ending == "return_unable"
    assert "`df`" in turn.arguments["rationale"]


async def test_a_variable_that_vanished_unannounced_is_made_again_by_other_code(
    small: Notebook,
) -> None:
    await small.ask("load weather.csv and plot the monthly mean temperature")
    await small.executor.execute("del weather")
    turn = await small.reply("temp_max")
    assert turn.ending == "return_done", turn
    assert "NameError" in turn.errors[0]
    assert "mean_temp_max_by_month_chart" in small.names


@pytest.mark.parametrize(
    ("error", "message", "word"),
    [
        ("ModuleNotFoundError", "No module named 'altair'", "%pip install altair"),
        ("MemoryError", "", "MemoryError"),
        ("PermissionError", "[Errno 13] Permission denied: 'weather.csv'", "permission"),
        ("ImportError", "Missing optional dependency 'openpyxl'.", "%pip install openpyxl"),
    ],
)
async def test_what_cannot_be_mended_is_handed_back_with_the_reason(
    error: str, message: str, word: str
) -> None:
    context = notebook_context(working_folder="", files=["weather.csv"], variables=[])
    messages = opening("load weather.csv", context)
    completion, _ = await complete(model_request(messages))
    call = completion.message.tool_calls[0]
    messages += [
        assistant_message([(call.id, call.function.name, call.function.arguments)]),
        tool_message(
            call.id,
            {
                "error": "action_error",
                "requested": "run_code",
                "error_type": error,
                "error_message": message,
                "message": f"{error}: {message}",
            },
        ),
    ]
    ending, _ = await complete(model_request(messages))
    assert ending.message.tool_calls[0].function.name == "return_unable"
    assert word.casefold() in ending.message.tool_calls[0].function.arguments.casefold()


async def test_a_publication_that_fails_is_not_claimed(small: Notebook) -> None:
    turn = await small.ask("load weather.csv, plot mean wind by city and publish the chart")
    assert turn.ending == "return_done"
    # The same transcript, in which the publication was refused.
    messages = [dict(m) for m in small.messages[:-2]]
    content = {"error": "action_error", "requested": "return_chart", "error_type": "OSError",
               "error_message": "disk full", "message": "OSError: disk full"}  # fmt: skip
    messages[-1]["content"] = json.dumps(content)
    completion, _ = await complete(model_request(messages))
    assert completion.message.tool_calls[0].function.name == "return_unable"
    assert "disk full" in completion.message.tool_calls[0].function.arguments
