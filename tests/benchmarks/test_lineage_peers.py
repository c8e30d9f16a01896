"""The comparison of lineage and undo: its cases make sense, and the page has its last results."""

import ast
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from benchmarks.lineage_peers.__main__ import HERE, RESULTS, tables
from benchmarks.lineage_peers.in_environment import undo

ROOT = Path(__file__).parents[2]
CASES: dict[str, Any] = tomllib.loads((HERE / "cells.toml").read_text(encoding="utf-8"))


def test_page_shows_last_results() -> None:
    page = (ROOT / "docs" / "explain" / "benchmarks.md").read_text(encoding="utf-8")
    for table in tables(json.loads(RESULTS.read_text(encoding="utf-8")), CASES):
        assert table in page


@pytest.mark.parametrize("part", ["staleness", "slice", "undo"])
def test_every_case_has_a_unique_name_and_compiles(part: str) -> None:
    cases = CASES[part]
    assert len({each["name"] for each in cases}) == len(cases)
    for each in cases:
        for cell in (*each["cells"], each.get("change", ""), each.get("step", "")):
            ast.parse(cell)


def test_unrestored_step_counts_as_lost_unless_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Kernel:
        def cell(self, code: str) -> None: ...
        def value(self, expression: str) -> bool:
            return expression != "bool(wrong)"

    class Tool:
        said = ""

        def step(self, kernel: Kernel, code: str) -> None: ...
        def undo(self, kernel: Kernel) -> str:
            return self.said

    class Opened:
        def __enter__(self) -> Kernel:
            return Kernel()

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr("benchmarks.lineage_peers.in_environment.kernel_with", lambda _: Opened())
    case = {"cells": [], "step": ""}
    tool = Tool()
    assert undo(tool, {**case, "checks": ["right"]})["outcome"] == "back"
    assert undo(tool, {**case, "checks": ["right", "wrong"]})["outcome"] == "lost"
    tool.said = "wrong lost"
    assert undo(tool, {**case, "checks": ["wrong"]})["outcome"] == "said"
