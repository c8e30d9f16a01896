"""Files are loaded, tables are found, rows are shown."""

import pandas as pd
import pytest
from offline_data import cars, done
from offline_notebook import Notebook


@pytest.mark.parametrize(
    ("request_text", "name"),
    [
        ("load data/cars.json", "cars"),
        ("Load cars.json", "cars"),
        ("please open the cars data", "cars"),
        ("read 'data/cars.json' as autos", "autos"),
        ("import cars", "cars"),
        ("load cars.csv", "cars"),
        ("load other/Cars.JSON", "cars"),
    ],
)
async def test_a_file_is_loaded_under_its_stem_or_the_name_that_is_given(
    notebook: Notebook, request_text: str, name: str
) -> None:
    turn = await done(notebook, request_text)
    pd.testing.assert_frame_equal(notebook[name], cars())
    assert "406 rows" in turn.summary


async def test_several_files_are_loaded_in_one_request(notebook: Notebook) -> None:
    await done(notebook, "load stocks.csv and seattle-weather.csv")
    assert {"stocks", "seattle_weather"} <= notebook.names


@pytest.mark.parametrize("kind", ["parquet", "xlsx", "jsonl", "tsv"])
async def test_every_format_is_read(notebook: Notebook, kind: str) -> None:
    frame = pd.DataFrame({"town": ["Rome", "Oslo"], "people": [3, 1]})
    path = notebook.folder / f"towns.{kind}"
    match kind:
        case "parquet":
            frame.to_parquet(path)
        case "xlsx":
            frame.to_excel(path, index=False)
        case "jsonl":
            frame.to_json(path, orient="records", lines=True)
        case _:
            frame.to_csv(path, sep="\t", index=False)
    await done(notebook, f"load towns.{kind} and show the mean people by town")
    assert notebook["mean_people_by_town"]["mean_people"].tolist() == [3, 1]


@pytest.mark.parametrize(
    "request_text",
    ["describe cars", "summarise cars.json", "give me an overview of the cars data"],
)
async def test_describing_gives_a_summary_of_every_column(
    notebook: Notebook, request_text: str
) -> None:
    await done(notebook, request_text)
    summary = notebook["cars_summary"]
    assert summary.loc["Horsepower", "mean"] == pytest.approx(cars()["Horsepower"].mean())
    assert summary.shape[0] == 9


async def test_the_first_rows_are_shown(notebook: Notebook) -> None:
    turn = await done(notebook, "show the first 7 rows of stocks.csv")
    assert turn.codes[-1] == "stocks.head(7)"


async def test_what_is_kept_back_is_not_said_to_be_missing(notebook: Notebook) -> None:
    notebook.kept_back = "All of the notebook is kept in it (--share none)."
    turn = await notebook.ask("mean temp_max by month")
    assert turn.ending == "return_unable"
    assert "not all of the notebook is shared" in turn.arguments["rationale"]
    assert "no data file in its folder" not in turn.arguments["rationale"]
