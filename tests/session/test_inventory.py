"""What a turn's inventory says of the files and tables that its request names."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from parsimony_kernel.core.reading import as_text, variable_in_text
from parsimony_kernel.execution.private import CodeExecutor
from parsimony_kernel.session.inventory import data_files, notebook_in_words
from parsimony_kernel.session.share import Share


def told(folder: Path, request: str, share: Share = Share.samples, **bound: Any) -> dict[str, Any]:
    """The inventory of ``folder``, and of ``bound``, as a model reads it."""
    executor = CodeExecutor()
    executor.namespace().update(bound)
    text, _ = notebook_in_words(
        executor, folder, (), request=request, earlier_turns=0, replaceable=(), share=share
    )
    inventory: dict[str, Any] = json.loads(text.partition("\n")[2].rpartition("\n")[0])
    return inventory


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


def test_a_value_that_the_first_rows_show_is_told_once(tmp_path: Path) -> None:
    ages = pd.DataFrame({"full name": ["A B", None, "C"] * 9, "n": range(27), "is_old": 0})
    ages.loc[7, "is_old"] = 1
    [variable] = told(tmp_path, "mean of ages", ages=ages)["variables"]
    seen: set[tuple[str, ...]] = set()
    columns = variable_in_text(variable, seen)["columns"]
    assert columns == "full name (str, 9 missing); n (int64); is_old (int64): also 1"
    assert ("full name", "str", "A B", "C") in seen
    envelope = {"requested": "run_code", "result": {"variables": [variable]}}
    assert "some values" not in as_text(envelope, (), {*seen})
    variable["columns"][1]["samples"] = ["7"]  # of another table
    assert "some values of each column, not rows: n: 7" in as_text(envelope, (), seen)
    [unnamed] = told(tmp_path, "", ages=ages)["variables"]
    assert variable_in_text(unnamed)["columns"].startswith("full name (str, 9 missing): A B, C; n")
