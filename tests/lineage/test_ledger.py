"""What the ledger answers about runs and versions."""

from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.execution.run_scope import RunScope
from parsimony_kernel.lineage.ledger import CellRun, OriginLedger
from parsimony_kernel.lineage.snapshot import visible
from parsimony_kernel.lineage.stamp import before_cell, observe_cell, stamp_effect, stopped_line

SCOPE = RunScope(run_id="r", notebook_path="nb.ipynb", cell_id="c", actor="user")


class Notebook:
    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.ledger = OriginLedger()

    def cell(self, code: str) -> CellRun:
        before, looked = visible(self.names, {}), before_cell(code, self.names)
        error: BaseException | None = None
        try:
            exec(code, self.names)
        except Exception as exc:
            error = exc
        effect, _ = observe_cell(before, visible(self.names, {}), code, Path.cwd(), looked=looked)
        stamp_effect(
            self.ledger,
            effect,
            code,
            SCOPE,
            "",
            cwd=Path.cwd(),
            failed=error is not None,
            stopped_at=stopped_line(error, self.names),
        )
        return self.ledger.cell_runs()[-1]

    def stale(self, name: str) -> list[tuple[str, int]]:
        return [(ref.name, ref.version) for ref in self.ledger.stale(name)]


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


def refs(run: CellRun) -> tuple[dict[str, int], dict[str, int]]:
    return {r.name: r.version for r in run.reads}, {r.name: r.version for r in run.made}


def test_imports_have_origins_and_are_read(notebook: Notebook) -> None:
    assert refs(notebook.cell("import math\nfrom json import dumps as d")) == (
        {},
        {"d": 1, "math": 1},
    )
    assert refs(notebook.cell("x = math.floor(1.5)")) == ({"math": 1}, {"x": 1})
    assert refs(notebook.cell("import math")) == ({}, {})
    assert refs(notebook.cell("import cmath as math")) == ({}, {"math": 2})


def test_an_import_that_was_not_reached_has_no_origin(notebook: Notebook) -> None:
    run = notebook.cell("1 / 0\nimport math")
    assert (run.failed, run.stopped_at, run.made) == (True, 1, ())


def test_a_cell_that_fails_half_way_made_what_it_made(notebook: Notebook) -> None:
    run = notebook.cell("x = 1\ny = 2\n\n1 / 0\nz = 3")
    assert (run.failed, run.stopped_at, refs(run)[1]) == (True, 4, {"x": 1, "y": 1})


def test_names_that_functions_use_are_read(notebook: Notebook) -> None:
    notebook.cell("k = 2\nrows = []\ndef inner(): return k\ndef outer(): return inner()")
    assert refs(notebook.cell("x = outer()"))[0] == {"inner": 1, "k": 1, "outer": 1}


def test_an_alias_that_was_changed_is_read_at_its_earlier_version(notebook: Notebook) -> None:
    notebook.cell("a = {}\nb = a")
    assert refs(notebook.cell("b['x'] = 1")) == ({"a": 1, "b": 1}, {"a": 2, "b": 2})


def test_a_deleted_name_is_gone_and_counts_on(notebook: Notebook) -> None:
    notebook.cell("a = 1")
    assert notebook.cell("del a").deleted == ("a",)
    assert notebook.ledger.get("a") is None
    assert notebook.ledger.version("a") == 0
    assert refs(notebook.cell("a = 2"))[1] == {"a": 2}


def test_the_same_cell_twice_is_two_runs(notebook: Notebook) -> None:
    first, second = notebook.cell("a = []"), notebook.cell("a = []")
    assert (first.number, second.number) == (1, 2)
    assert refs(second)[1] == {"a": 2}


def test_a_cell_that_made_nothing_is_recorded(notebook: Notebook) -> None:
    notebook.cell("a = 1")
    assert refs(notebook.cell("print(a)")) == ({"a": 1}, {})


def test_what_changed_since_is_stale_all_the_way(notebook: Notebook) -> None:
    for code in ("k = [1]", "df = {'v': k[0]}", "df['w'] = 2", "total = len(df)"):
        notebook.cell(code)
    assert notebook.stale("total") == []
    notebook.cell("df['z'] = 3")
    assert notebook.stale("total") == [("df", 2)]
    notebook.cell("k = [5]")
    assert notebook.stale("df") == [("k", 1)]
    assert notebook.stale("total") == [("df", 2), ("k", 1)]
    notebook.cell("del k")
    assert notebook.stale("df") == [("k", 1)]
    assert notebook.stale("unknown") == []


def test_aliases_that_change_together_are_not_stale(notebook: Notebook) -> None:
    for code in ("a = {}\nb = a", "b['x'] = 1", "a['y'] = 2"):
        notebook.cell(code)
    assert notebook.stale("a") == notebook.stale("b") == []
