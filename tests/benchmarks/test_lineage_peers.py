"""The comparison of lineage and undo: its cases make sense, and the page has its last results."""

import ast
import json
import tomllib
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.lineage_peers import in_environment
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
    kernel = SimpleNamespace(cell=print, value=lambda expression: expression != "bool(wrong)")
    monkeypatch.setattr(in_environment, "kernel_with", lambda _: nullcontext(kernel))

    def outcome(*checks: str, said: str = "") -> object:
        tool: Any = SimpleNamespace(step=print, undo=lambda _: said)
        return undo(tool, {"cells": [], "step": "", "checks": checks})["outcome"]

    assert outcome("right") == "back"
    assert outcome("right", "wrong") == "lost"
    assert outcome("wrong", said="wrong lost") == "said"
