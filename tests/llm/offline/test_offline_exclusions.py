"""Rows are left out exactly where the same words would keep them."""

import re
from pathlib import Path

import pandas as pd
import pytest
from offline_data import done
from offline_notebook import Notebook

from parsimony_kernel.offline.grammar import filters
from parsimony_kernel.offline.transcript import bound_names

CARS = (
    "Name,Miles_per_Gallon,Horsepower,Weight_in_lbs,Year,Origin\n"
    "a,18,160,2900,1975-01-01,USA\nb,30,80,2000,1978-01-01,Japan\n"
    "c,25,95,2400,1981-01-01,Europe\nd,33,,2100,1975-01-01,Japan\n"
    "e,33,90,,1979-01-01,\nf,16,70,2950,,USA\ng,21,150,2950,1977-01-01,Japan\n"
)
VERBS = (
    r"^(?:(?:keep only|keep|select|just|only|filter to|filter for|restrict to|narrow down to|show|"
    r"drop) )*(?:the )?"
)
# What the phrases of the grammar say of the rows, without the verb in front.
SAID = tuple(
    dict.fromkeys(
        re.sub(VERBS, "", example)
        for rule in filters.RULES
        for phrase in (rule.phrase, *rule.more)
        for example in (phrase.example, *phrase.paraphrases)
    )
)


@pytest.fixture
async def table(tmp_path: Path) -> Notebook:
    (tmp_path / "cars.csv").write_text(CARS)
    notebook = Notebook(tmp_path)
    await notebook.run("import pandas as pd\ncars = pd.read_csv('cars.csv')")
    return notebook


async def rows(notebook: Notebook, request: str) -> pd.DataFrame:
    """The rows that a request makes of the table."""
    turn = await done(notebook, request)
    frame = notebook[bound_names(turn.codes[-1])[-1]]
    assert isinstance(frame, pd.DataFrame)
    return frame


@pytest.mark.parametrize("said", SAID)
async def test_dropping_and_keeping_take_the_rows_apart(table: Notebook, said: str) -> None:
    kept = await rows(table, f"keep {said}")
    dropped = await rows(table, f"drop {said}")
    assert 0 < len(kept) < len(table["cars"])
    pd.testing.assert_frame_equal(pd.concat([kept, dropped]).sort_index(), table["cars"])


@pytest.mark.parametrize(
    ("request_text", "names"),
    [
        ("remove the cars from Japan", "acef"),
        ("drop cars from Japan", "acef"),
        ("remove cars where origin is Japan", "acef"),
        ("drop cars that are not from Japan", "bdg"),
        ("exclude Japan and Europe", "aef"),
        ("drop cars with horsepower above 90", "bdef"),
        ("drop the rows with missing horsepower", "abcefg"),
        ("remove rows where horsepower is missing", "abcefg"),
        ("exclude cars with no horsepower", "abcefg"),
        ("drop cars with horsepower", "d"),
        ("cars without missing horsepower", "abcefg"),
        ("cars without horsepower", "d"),
        ("drop cars from Japan with horsepower above 90", "abcdef"),
        ("drop cars with horsepower below 80 or above 140", "bcde"),
        ("cars except Japan with horsepower above 90", "ac"),
        ("drop all cars except from Japan", "bdg"),
        ("drop cars from Japan or with horsepower above 140", "cef"),
        ("drop cars with horsepower below 80 or weight above 2920", "abcde"),
        ("drop rows where origin is not Japan", "bdg"),
        ("cars where not missing horsepower", "abcefg"),
        ("drop the cars in 1975", "bcefg"),
        ("only 1975", "ad"),
    ],
)
async def test_what_is_left_out_is_left_out(table: Notebook, request_text: str, names: str) -> None:
    assert "".join((await rows(table, request_text))["Name"]) == names


@pytest.mark.parametrize("words", ["excluding", "without", "except"])
async def test_rows_are_left_out_of_what_is_computed(table: Notebook, words: str) -> None:
    before = table.names
    await done(table, f"mean weight by origin {words} the cars from Japan")
    made = [table[n] for n in table.names - before if n.startswith("mean_")]
    assert [sorted(frame["Origin"]) for frame in made] == [["Europe", "USA"]]


@pytest.mark.parametrize(
    "request_text",
    [
        "drop the 2 heaviest cars",
        "remove the first 3 rows of cars",
        "drop cars with the highest horsepower",
        "cars except the heaviest",
        "cars with horsepower below 80 or above 140",
        "cars with horsepower below 80 or weight above 2920",
        "drop the cars",
        "drop Name and cars from Japan",
    ],
)
async def test_what_cannot_be_left_out_is_not_kept_instead(
    table: Notebook, request_text: str
) -> None:
    before = table.names
    turn = await table.ask(request_text)
    assert turn.ending in ("return_unable", "ask_user")
    assert table.names == before


@pytest.mark.parametrize("kind", ["Int64", "Float64"])
async def test_missing_values_of_every_type_survive_a_drop(table: Notebook, kind: str) -> None:
    await table.run(f"cars['Horsepower'] = cars['Horsepower'].astype('{kind}')")
    assert "".join((await rows(table, "drop cars with horsepower above 90"))["Name"]) == "bdef"
