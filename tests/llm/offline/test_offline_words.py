"""Words that could be several things: a table or its column, a value or none, a word for rows."""

from pathlib import Path

import pandas as pd
import pytest
from offline_data import DATA, cars, copy, done
from offline_notebook import Notebook, encodings

PEOPLE = "name,age,sex\nA,10,m\nB,20,f\nC,,f\n"


@pytest.fixture
def wheat(tmp_path: Path) -> Notebook:
    copy(tmp_path / "data", "wheat.json")
    return Notebook(tmp_path)


@pytest.fixture
def airports(tmp_path: Path) -> Notebook:
    copy(tmp_path, "airports.csv")
    return Notebook(tmp_path)


@pytest.fixture
def people(tmp_path: Path) -> Notebook:
    (tmp_path / "people.csv").write_text(PEOPLE, encoding="utf-8")
    return Notebook(tmp_path)


# -- a table and its column ----------------------------------------------------------------------


@pytest.mark.parametrize("measures", ["wages and wheat", "wheat and wages", "wheat, wages"])
async def test_a_name_of_table_and_column_is_a_column_in_a_list(
    wheat: Notebook, measures: str
) -> None:
    await done(wheat, f"load data/wheat.json and plot {measures} by year")
    made = next(wheat[n] for n in wheat.names if n.endswith("_by_year"))
    told = pd.read_json(DATA / "wheat.json").groupby("year")[["wages", "wheat"]].mean()
    assert made.set_index("year")["mean_wheat"].tolist() == told["wheat"].tolist()
    assert made["mean_wages"].tolist()[0] == told["wages"].tolist()[0]


async def test_a_name_of_table_and_column_alone_in_a_chart_is_the_column(wheat: Notebook) -> None:
    await done(wheat, "load data/wheat.json and plot wheat by year")
    assert encodings(wheat["mean_wheat_by_year_chart"])["y"][0] == "mean_wheat"


async def test_a_name_of_table_and_column_before_a_column_is_the_table(wheat: Notebook) -> None:
    await done(wheat, "load data/wheat.json and plot the wheat wages by year")
    assert "mean_wages_by_year" in wheat.names


# -- no rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_text",
    [
        "plot a by b in hdr.csv",
        "mean a by b in hdr.csv",
        "top 3 a in hdr.csv",
        "show the first 5 rows of hdr.csv",
    ],
)
async def test_a_table_without_rows_is_said_to_be_empty(tmp_path: Path, request_text: str) -> None:
    (tmp_path / "hdr.csv").write_text("a,b\n", encoding="utf-8")
    notebook = Notebook(tmp_path)
    turn = await notebook.ask(request_text)
    assert turn.ending == "return_unable", turn
    assert "no rows in `hdr` from hdr.csv" in turn.arguments["rationale"]
    assert notebook.names == {"hdr"}


async def test_rows_of_a_table_without_rows_are_counted(tmp_path: Path) -> None:
    (tmp_path / "hdr.csv").write_text("a,b\n", encoding="utf-8")
    turn = await done(Notebook(tmp_path), "how many rows are in hdr.csv?")
    assert "Number of rows: 0" in turn.summary


async def test_a_result_without_rows_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "gaps.csv").write_text("a,b\n1,\n2,\n", encoding="utf-8")
    turn = await Notebook(tmp_path).ask("plot mean a by b in gaps.csv and publish it")
    assert turn.ending == "return_unable", turn
    assert "no rows in `mean_a_by_b`" in turn.arguments["rationale"]
    assert turn.published == []


# -- no value ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_text",
    [
        "how many airports have no city?",
        "how many airports without a city?",
        "how many missing values in city?",
        "how many airports where city is missing?",
    ],
)
async def test_missing_values_are_counted(airports: Notebook, request_text: str) -> None:
    turn = await done(airports, f"load airports.csv. {request_text}")
    missing = pd.read_csv(DATA / "airports.csv")["city"].isna().sum()
    assert airports["airports_no_city_count"] == missing > 0
    assert f"Number of rows (city is missing): {missing}" in turn.summary


async def test_no_missing_value_is_the_answer_none(people: Notebook) -> None:
    turn = await done(people, "how many people have no name in people.csv?")
    assert people["people_no_name_count"] == 0
    assert "(name is missing): 0" in turn.summary


async def test_no_value_of_no_column_is_declined(airports: Notebook) -> None:
    turn = await airports.ask("how many airports have no runway in airports.csv?")
    assert turn.ending == "return_unable"
    assert "'runway'" in turn.arguments["rationale"]


# -- a word for the rows -------------------------------------------------------------------------


async def test_a_plural_after_of_the_that_is_nothing_else_means_the_rows(people: Notebook) -> None:
    turn = await done(people, "load people.csv and compute the average age of the victims")
    assert people["mean_age"] == 15
    assert "I took 'victims' to mean the rows of people" in turn.summary


@pytest.mark.parametrize("some", ["women", "Dutch", "girls"])
async def test_a_word_for_some_of_the_rows_is_never_all_of_them(
    people: Notebook, some: str
) -> None:
    turn = await people.ask(f"load people.csv and compute the average age of the {some}")
    assert turn.ending == "ask_user"
    assert "mean_age" not in people.names


# -- ranks ---------------------------------------------------------------------------------------


async def test_the_ranked_column_follows_the_label(notebook: Notebook) -> None:
    await done(notebook, "load data/cars.json and show the top 3 cars by horsepower")
    made = notebook["cars_highest_horsepower"]
    assert list(made.columns)[:2] == ["Name", "Horsepower"]
    assert set(made.columns) == set(cars().columns)
    assert made["Horsepower"].tolist() == cars()["Horsepower"].nlargest(3).tolist()


async def test_the_highest_value_is_told_with_its_date(notebook: Notebook) -> None:
    turn = await done(notebook, "load data/stocks.csv. highest price of AAPL and when?")
    assert "Mar 1 2010 223.02" in turn.summary
