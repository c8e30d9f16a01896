"""Files that are missing, odd or misspelt are never replaced in silence."""

from pathlib import Path

import pytest
from offline_notebook import Notebook


async def test_a_missing_file_is_asked_about_with_the_nearest_names(tmp_path: Path) -> None:
    for name in ("sales_2020.csv", "sales_2021.csv"):
        (tmp_path / name).write_text("a,b\n1,2\n")
    notebook = Notebook(tmp_path)
    turn = await notebook.ask("load sales_2022.csv")
    assert turn.ending == "ask_user"
    assert sorted(turn.choices) == ["sales_2020.csv", "sales_2021.csv"]
    turn = await notebook.reply("sales_2021.csv")
    assert "sales_2021" in notebook.names


async def test_a_file_that_resembles_none_is_named_in_the_refusal(small: Notebook) -> None:
    turn = await small.ask("load unicorns.parquet")
    assert turn.ending == "return_unable"
    assert "unicorns.parquet" in turn.arguments["rationale"]


async def test_a_listed_file_that_is_gone_is_named_in_the_refusal(small: Notebook) -> None:
    small.more_files.append("ghost.csv")
    turn = await small.ask("load ghost.csv")
    assert turn.ending == "return_unable"
    assert "ghost.csv" in turn.arguments["rationale"]


async def test_an_empty_file_is_said_to_be_empty(tmp_path: Path) -> None:
    (tmp_path / "void.csv").write_text("")
    turn = await Notebook(tmp_path).ask("load void.csv and plot it")
    assert turn.ending == "return_unable"
    assert "empty" in turn.arguments["rationale"]


async def test_a_file_that_is_not_utf_8_is_read_as_latin_1_and_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "towns.csv").write_bytes("town,people\nMünchen,3\nKöln,1\n".encode("latin-1"))
    notebook = Notebook(tmp_path)
    turn = await notebook.ask("load towns.csv and show the total people by town")
    assert turn.ending == "return_done"
    assert notebook["total_people_by_town"]["town"].tolist() == ["München", "Köln"]
    assert "Latin-1" in turn.summary


@pytest.mark.parametrize("separator", [";", "|"])
async def test_another_separator_is_noticed(tmp_path: Path, separator: str) -> None:
    text = "town,people\nRome,3\nOslo,1\n".replace(",", separator)
    (tmp_path / "towns.csv").write_text(text)
    notebook = Notebook(tmp_path)
    turn = await notebook.ask("load towns.csv and show the total people by town")
    assert turn.ending == "return_done"
    assert notebook["total_people_by_town"]["total_people"].tolist() == [3, 1]


async def test_ragged_lines_are_not_dropped_in_silence(tmp_path: Path) -> None:
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n3,4,5,6\n7,8\n")
    turn = await Notebook(tmp_path).ask("load ragged.csv")
    assert turn.ending == "return_unable"
    assert "ragged.csv" in turn.arguments["rationale"]


async def test_a_file_name_with_blanks_is_understood(tmp_path: Path) -> None:
    (tmp_path / "my towns 2020.csv").write_text("town,people\nRome,3\n")
    notebook = Notebook(tmp_path)
    await notebook.ask("load my towns 2020.csv")
    assert "my_towns_2020" in notebook.names


@pytest.mark.parametrize("request_text", ["load okk.csv", "describe okk.csv", "load the okk data"])
async def test_a_near_miss_is_a_question_and_never_a_substitution(
    tmp_path: Path, request_text: str
) -> None:
    (tmp_path / "ok.csv").write_text("a,b\n1,2\n")
    notebook = Notebook(tmp_path)
    turn = await notebook.ask(request_text)
    assert (turn.ending, turn.choices, turn.codes) == ("ask_user", ["ok.csv"], [])
    turn = await notebook.reply("yes")
    assert turn.ending == "return_done"
    assert len(notebook["ok"]) == 1


@pytest.mark.parametrize(
    "name", ["My_Towns.csv", "my-towns.csv", "other/my towns.csv", "my towns.xlsx", "MyTowns.csv"]
)
async def test_another_folder_case_format_or_blank_is_the_same_name(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "my towns.csv").write_text("town,people\nRome,3\n")
    notebook = Notebook(tmp_path)
    turn = await notebook.ask(f"load '{name}'")
    assert turn.ending == "return_done", turn
    assert "my towns.csv" in turn.summary


@pytest.mark.parametrize("form", ["{}", "'{}'"])
async def test_an_absolute_path_is_read_as_it_is_written(tmp_path: Path, form: str) -> None:
    for folder, people in (("here", 1), ("there", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "towns.csv").write_text(f"town,people\nRome,{people}\n")
    notebook = Notebook(tmp_path / "here")
    await notebook.ask(f"load {form.format(tmp_path / 'there/towns.csv')}")
    assert notebook["towns"]["people"].tolist() == [2]
