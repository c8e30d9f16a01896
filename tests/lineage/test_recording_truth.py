"""What a cell really changed is among what was recorded, however it did it."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from looks import look
from watched_notebook import Notebook

from parsimony_kernel.lineage.snapshot import visible


def contents(notebook: Notebook) -> dict[str, Any]:
    return {name: look(value) for name, value in visible(notebook.names, {}).items()}


CORPUS = Path(__file__).parents[1] / "corpora" / "recorded.toml"
CASES: dict[str, dict[str, Any]] = {
    row["id"]: row for row in tomllib.loads(CORPUS.read_text(encoding="utf-8"))["cell"]
}


class Shell:
    """Runs the text of a magic in the namespace."""

    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names

    def run_line_magic(self, name: str, line: str) -> None:
        text = line.removeprefix("-n 1 -r 1 ")
        exec(text, self._names if name != "timeit" else dict(self._names))

    def run_cell_magic(self, name: str, line: str, body: str) -> None:
        exec(body, self._names)
        if name == "capture":
            self._names[line] = "captured"


@pytest.fixture
def notebook() -> Notebook:
    notebook = Notebook()
    shell = Shell(notebook.names)
    notebook.names["get_ipython"] = lambda: shell
    notebook.names["get_ipython"].__module__ = "IPython"
    return notebook


@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("case", CASES)
def test_every_change_is_recorded_with_few_extras(notebook: Notebook, case: str) -> None:
    row = CASES[case]
    notebook.cell(row.get("before", ""))
    before = contents(notebook)
    effect = notebook.cell(row["cell"])
    after = contents(notebook)
    really = {name for name in after if after[name] != before.get(name)}
    recorded = set(effect.changed)
    assert really <= recorded
    assert recorded - really == set(row.get("too", ()))
    assert set(effect.deleted) == before.keys() - after.keys()
    made = {ref.name for ref in notebook.ledger.cell_runs()[-1].made}
    assert recorded <= made


def test_last_output_hides_no_view_of_a_changed_array(notebook: Notebook) -> None:
    notebook.cell("import numpy as np\na = np.arange(4)\nv = a[1:]")
    notebook.names["_"] = notebook.names["_3"] = notebook.names["a"]
    notebook.names["_oh"] = {3: notebook.names["a"]}
    assert notebook.cell("np.add(a, 1, out=a)").changed == ("a", "v")
