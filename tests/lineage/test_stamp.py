"""From a cell to the origins of its variables."""

import math
from pathlib import Path
from typing import Any

import pytest
from watched_notebook import Notebook

from parsimony_kernel.lineage.file_access import sources_in
from parsimony_kernel.lineage.ledger import InputRef
from parsimony_kernel.lineage.snapshot import difference, visible


@pytest.fixture
def notebook(tmp_path: Path) -> Notebook:
    return Notebook(tmp_path)


def test_a_new_variable_has_version_one_and_says_who_made_it(notebook: Notebook) -> None:
    notebook.cell("x = [1]")
    origin = notebook.ledger.get("x")
    assert origin is not None
    assert (origin.version, origin.actor, origin.notebook_path) == (1, "user", "nb.ipynb")
    assert (origin.cell_id, origin.run_id, origin.code, origin.inputs) == ("c", "r", "x = [1]", ())
    assert len(origin.code_sha) == 64


def test_inputs_are_the_versions_that_were_read(notebook: Notebook) -> None:
    for code in ("x = [1]", "x = [2]", "y = x + [3]", "y = y * 2"):
        notebook.cell(code)
    newest = notebook.ledger.get("y")
    assert newest is not None
    assert newest.inputs == (InputRef(name="y", version=1),)
    assert [each.name for each in notebook.ledger.ancestry("y")] == ["y", "y", "x"]


def test_an_input_from_before_tracking_has_version_zero(notebook: Notebook) -> None:
    notebook.names["old"] = [1]
    notebook.cell("new = old * 2")
    origin = notebook.ledger.get("new")
    assert origin is not None
    assert origin.inputs == (InputRef(name="old", version=0),)


def test_files_that_exist_and_addresses_are_sources(notebook: Notebook) -> None:
    (notebook.cwd / "data").mkdir()
    (notebook.cwd / "data" / "cars.csv").write_text("x")
    notebook.cell("x = ['data/cars.csv', 'data/none.csv', 'https://example.org/a', 'data']")
    origin = notebook.ledger.get("x")
    assert origin is not None
    assert origin.sources == ("data/cars.csv", "https://example.org/a")


def test_a_file_outside_the_folder_is_told_in_full(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x")
    (tmp_path / "nb").mkdir()
    literals = ("../a.csv", "\0", "x" * 5_000, str(tmp_path / "a.csv"))
    assert sources_in(literals, tmp_path / "nb") == ((tmp_path / "a.csv").as_posix(),)


def test_private_names_and_imports_are_nobodys_variables() -> None:
    made = eval("lambda: 0", {"__name__": "__main__"})
    names = {"_x": 1, "math": math, "Path": Path, "sqrt": math.sqrt, "In": [], "f": made, "x": 1}
    hidden = {"In": names["In"]}
    assert list(visible(names, hidden)) == ["f", "x"]
    assert list(visible({**names, "In": [5]}, hidden)) == ["In", "f", "x"]


def test_a_difference_is_by_identity() -> None:
    one, two = [1], [1]
    found = difference({"a": one, "b": one, "c": one}, {"a": one, "b": two, "d": one})
    assert (found.changed, found.deleted) == (("b", "d"), ("c",))


def test_only_what_code_can_name_is_a_variable() -> None:
    names: dict[Any, Any] = {"a": 1, 7: 1, None: 1, "half \ud800": 1, "two words": 1, "_b": 1}
    assert visible(names, {}) == {"a": 1}


def test_no_code_of_an_object_runs_when_its_cell_is_stamped(notebook: Notebook) -> None:
    """Whatever a class does when it is asked: nobody asks it."""
    notebook.cell(
        "import numpy as np\nimport pandas, polars\nasked = []\n"
        "class M(type):\n"
        "    def __getattribute__(cls, name): asked.append(name)\n"
        "    def __eq__(cls, it): asked.append('eq')\n"
        "    def __hash__(cls): asked.append('hash')\n"
        "class A(metaclass=M):\n"
        "    __module__ = '__main__'\n"
        "    def __getattribute__(self, name): asked.append(name)\n"
        "    def __eq__(self, it): asked.append('eq')\n"
        "    def __hash__(self): asked.append('hash')\n"
        "    def append(self, it): pass\n"
        "a = A()\nheld = np.empty(1, object), {'k': a}\nheld[0][0] = a\n"
    )
    del notebook.names["asked"][:]
    effect = notebook.cell("a.x = 1\nb = a\nB = A\nheld[1]['j'] = 1")
    assert effect.changed == ("B", "a", "b", "held")
    assert notebook.names["asked"] == []


@pytest.mark.parametrize("module", ["7", "None", "M()", "Text('numpy')"])
def test_a_class_that_says_no_module_is_a_person_s(notebook: Notebook, module: str) -> None:
    notebook.cell(
        "class M:\n    def __ne__(self, it): raise SystemExit\n    __eq__ = __ne__\n"
        "class Text(str):\n    def __ne__(self, it): raise SystemExit\n"
        "    __eq__, __hash__ = __ne__, str.__hash__"
    )
    effect = notebook.cell(f"class A: pass\nA.__module__ = {module}")
    assert ("A" in effect.changed) is (module != "None")
