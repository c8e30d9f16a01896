"""What the ledger answers about runs and versions."""

import pytest
from watched_notebook import Notebook

from parsimony_kernel.lineage.ledger import CellRun


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


def stale(notebook: Notebook, name: str) -> list[tuple[str, int]]:
    return [(ref.name, ref.version) for ref in notebook.ledger.stale(name)]


def refs(run: CellRun) -> tuple[dict[str, int], dict[str, int]]:
    return {r.name: r.version for r in run.reads}, {r.name: r.version for r in run.made}


def test_imports_have_origins_and_are_read(notebook: Notebook) -> None:
    assert refs(notebook.ran("import math\nfrom json import dumps as d")) == (
        {},
        {"d": 1, "math": 1},
    )
    assert refs(notebook.ran("x = math.floor(1.5)")) == ({"math": 1}, {"x": 1})
    assert refs(notebook.ran("import math")) == ({}, {})
    assert refs(notebook.ran("import cmath as math")) == ({}, {"math": 2})


def test_an_import_that_was_not_reached_has_no_origin(notebook: Notebook) -> None:
    run = notebook.ran("1 / 0\nimport math")
    assert (run.failed, run.stopped_at, run.made) == (True, 1, ())


def test_a_cell_that_fails_half_way_made_what_it_made(notebook: Notebook) -> None:
    run = notebook.ran("x = 1\ny = 2\n\n1 / 0\nz = 3")
    assert (run.failed, run.stopped_at, refs(run)[1]) == (True, 4, {"x": 1, "y": 1})


def test_names_that_functions_use_are_read(notebook: Notebook) -> None:
    notebook.cell("k = 2\nrows = []\ndef inner(): return k\ndef outer(): return inner()")
    assert refs(notebook.ran("x = outer()"))[0] == {"inner": 1, "k": 1, "outer": 1}


def test_an_alias_that_was_changed_is_read_at_its_earlier_version(notebook: Notebook) -> None:
    notebook.cell("a = {}\nb = a")
    assert refs(notebook.ran("b['x'] = 1")) == ({"a": 1, "b": 1}, {"a": 2, "b": 2})


def test_a_deleted_name_is_gone_and_counts_on(notebook: Notebook) -> None:
    notebook.cell("a = 1")
    assert notebook.cell("del a").deleted == ("a",)
    assert notebook.ledger.get("a") is None
    assert notebook.ledger.version("a") == 0
    assert refs(notebook.ran("a = 2"))[1] == {"a": 2}


def test_the_same_cell_twice_is_two_runs(notebook: Notebook) -> None:
    first, second = notebook.ran("a = []"), notebook.ran("a = []")
    assert (first.number, second.number) == (1, 2)
    assert refs(second)[1] == {"a": 2}


def test_a_cell_that_made_nothing_is_recorded(notebook: Notebook) -> None:
    notebook.cell("a = 1")
    assert refs(notebook.ran("print(a)")) == ({"a": 1}, {})


def test_what_changed_since_is_stale_all_the_way(notebook: Notebook) -> None:
    for code in ("k = [1]", "df = {'v': k[0]}", "df['w'] = 2", "total = len(df)"):
        notebook.cell(code)
    assert stale(notebook, "total") == []
    notebook.cell("df['z'] = 3")
    assert stale(notebook, "total") == [("df", 2)]
    notebook.cell("k = [5]")
    assert stale(notebook, "df") == [("k", 1)]
    assert stale(notebook, "total") == [("df", 2), ("k", 1)]
    notebook.cell("del k")
    assert stale(notebook, "df") == [("k", 1)]
    assert stale(notebook, "unknown") == []


def test_aliases_that_change_together_are_not_stale(notebook: Notebook) -> None:
    for code in ("a = {}\nb = a", "b['x'] = 1", "a['y'] = 2"):
        notebook.cell(code)
    assert stale(notebook, "a") == stale(notebook, "b") == []
