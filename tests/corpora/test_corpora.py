"""Both corpora are well formed, and large enough to measure with."""

import ast
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Literal

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from .entries import KINDS, Entry, load

REACHING = load("reaching")
HARMLESS = load("harmless")
BOTH = REACHING + HARMLESS


def test_ids_and_cells_are_unique() -> None:
    for values in (
        [entry.id for entry in BOTH],
        [(*entry.before, entry.cell) for entry in BOTH],
    ):
        assert [value for value, count in Counter(values).items() if count > 1] == []


@pytest.mark.parametrize("entry", BOTH, ids=lambda entry: entry.id)
def test_every_cell_compiles(entry: Entry) -> None:
    for cell in [*entry.before, entry.cell]:
        code = TransformerManager().transform_cell(cell)
        compile(code, entry.id, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_reaching_entries_name_kind_and_target() -> None:
    assert [entry.id for entry in REACHING if entry.kind not in KINDS or not entry.target] == []
    assert {entry.kind for entry in REACHING} == KINDS
    assert [entry.id for entry in HARMLESS if entry.kind or entry.target] == []


@pytest.mark.parametrize("name", ["reaching", "harmless"])
def test_at_least_110_entries_run_with_test_extra(
    name: Literal["reaching", "harmless"],
) -> None:
    assert sum(entry.installed for entry in load(name)) >= 110


@pytest.mark.slow
def test_every_harmless_cell_runs(tmp_path: Path) -> None:
    """In one process, with an empty home."""
    home = tmp_path / "home"
    home.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.corpora.bare_shell", tmp_path / "cells"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "HOME": str(home), "MPLBACKEND": "agg"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert [line for line in done.stderr.splitlines() if line.startswith('{"')] == []
