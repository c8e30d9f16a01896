"""What a turn's inventory says of the files and tables that its request names."""

import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from parsimony_kernel.core.reading import as_text, variable_in_text
from parsimony_kernel.execution.private import CodeExecutor
from parsimony_kernel.session.inventory import data_files, notebook_in_words
from parsimony_kernel.session.share import Share

ODD = "Umsatz;;\r\nDatum;Filiale;Umsatz\r\n01.01.2025;Köln;1,5\r\n"


def told(folder: Path, request: str, share: Share = Share.samples, **bound: Any) -> dict[str, Any]:
    """The inventory of ``folder``, and of ``bound``, as a model reads it."""
    executor = CodeExecutor()
    executor.namespace().update(bound)
    text, _ = notebook_in_words(
        executor, folder, (), request=request, earlier_turns=0, replaceable=(), share=share
    )
    inventory: dict[str, Any] = json.loads(text.partition("\n")[2].rpartition("\n")[0])
    return inventory


@pytest.mark.parametrize("request_", ["total of umsatz.csv", "Load UMSATZ, please"])
def test_a_file_that_the_request_names_is_told_with_its_first_lines(
    tmp_path: Path, request_: str
) -> None:
    (tmp_path / "umsatz.csv").write_bytes(ODD.encode("cp1252"))
    (tmp_path / "other.csv").write_text("a,b\n")
    assert told(tmp_path, request_)["named_files"] == {
        "umsatz.csv": {"bytes": 53, "first_lines": ODD.splitlines(), "encoding": "cp1252"}
    }


def test_a_table_that_is_loaded_is_meant_and_not_the_file_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "cars.csv").write_text("a,b\n")
    cars = pd.DataFrame({"a": [1]})
    assert "named_files" not in told(tmp_path, "mean of a in cars", cars=cars)
    assert "named_files" in told(tmp_path, "load cars.csv again", cars=cars)


def test_of_json_the_beginning_is_told_without_its_layout(tmp_path: Path) -> None:
    (tmp_path / "cars.json").write_text('[\n  {\n    "a": 1,\n    "b": 2\n  }\n]\n' + " " * 9_000)
    [line] = told(tmp_path, "load cars.json")["named_files"]["cars.json"]["first_lines"]
    assert line == '[ { "a": 1, "b": 2 } ]'


@pytest.mark.parametrize("share", [Share.schema, Share.none])
def test_no_line_of_a_file_is_told_where_no_value_is(tmp_path: Path, share: Share) -> None:
    (tmp_path / "umsatz.csv").write_text(ODD)
    assert "Filiale" not in json.dumps(told(tmp_path, "load umsatz.csv", share))


def test_lines_are_few_and_short_and_a_cut_character_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text("ä" * 100_000 + "\n" + "b\n" * 9)
    (tmp_path / "long.csv").write_text("b\n" * 9)
    named = told(tmp_path, "wide and long")["named_files"]
    assert named["wide.csv"] == {"bytes": 200_019, "first_lines": ["ä" * 160]}
    assert named["long.csv"]["first_lines"] == ["b"] * 4


def test_only_plain_text_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")  # whose opening would wait for a writer
    (tmp_path / "secret").write_text("a key")
    (tmp_path / "link.csv").symlink_to(tmp_path / "secret")
    (tmp_path / "bytes.csv").write_bytes(b"a\0b")
    (tmp_path / "table.parquet").write_bytes(b"PAR1")
    assert "named_files" not in told(tmp_path, "pipe link bytes table")


def test_a_folder_that_is_one_table_is_told_as_one(tmp_path: Path) -> None:
    for part in ("sales.parquet/year=2020", "data/old.parquet"):
        (tmp_path / part).mkdir(parents=True)
        (tmp_path / part / "part-0.parquet").write_bytes(b"PAR1")
    assert data_files(tmp_path) == ("sales.parquet", "data/old.parquet")


@pytest.mark.parametrize("share", [Share.samples, Share.schema])
def test_what_is_no_table_of_pandas_is_called_what_it_is(tmp_path: Path, share: Share) -> None:
    polars = pytest.importorskip("polars")
    tables = {
        "cars": polars.DataFrame({"a": [1]}),
        "carts": pd.DataFrame({"a": [1]}),
        "ages": pd.Series([1], name="age"),
        "years": polars.Series([1]),
    }
    variables = told(tmp_path, "cars", share, **tables)["variables"]
    assert {each["name"]: (each.get("library"), each.get("kind")) for each in variables} == {
        "cars": ("polars", None),
        "carts": (None, None),
        "ages": (None, "series"),
        "years": ("polars", "unnamed series"),
    }


def test_what_the_inventory_tells_of_a_column_is_not_told_again(tmp_path: Path) -> None:
    ages = pd.DataFrame({"full name": ["A B", None, "C"] * 9, "n": range(27), "is_old": 0})
    [variable] = told(tmp_path, "mean of ages", ages=ages)["variables"]
    seen: set[tuple[str, ...]] = set()
    columns = variable_in_text(variable, seen)["columns"]
    assert columns == (
        "full name (str, 9 missing): A B, C; n (int64): 0, 1, 2, 3, 4; is_old (int64): 0"
    )
    assert ("full name", "str", "A B", "C") in seen
    envelope = {"requested": "run_code", "result": {"variables": [variable]}}
    assert "some values" not in as_text(envelope, (), {*seen})
    variable["columns"][1]["samples"] = ["7"]  # of another table
    assert "some values of each column, not rows: n: 7" in as_text(envelope, (), seen)
