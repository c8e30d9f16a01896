"""From a cell to the origins of its variables, and what the ledger answers about them."""

import math
from pathlib import Path
from typing import Any

import pytest
from watched_notebook import Notebook

from parsimony_kernel.lineage.file_access import sources_in
from parsimony_kernel.lineage.ledger import CellRun, InputRef, VariableOrigin
from parsimony_kernel.lineage.snapshot import visible


@pytest.fixture
def notebook(tmp_path: Path) -> Notebook:
    return Notebook(tmp_path)


def origin(notebook: Notebook, name: str, *cells: str) -> VariableOrigin:
    """Where ``name`` comes from after ``cells``."""
    for code in cells:
        notebook.cell(code)
    found = notebook.ledger.get(name)
    assert found is not None
    return found


def stale(notebook: Notebook, name: str) -> list[tuple[str, int]]:
    return [(ref.name, ref.version) for ref in notebook.ledger.stale(name)]


def refs(run: CellRun) -> tuple[dict[str, int], dict[str, int]]:
    return {r.name: r.version for r in run.reads}, {r.name: r.version for r in run.made}


def test_failing_cell_records_what_it_made(notebook: Notebook) -> None:
    run = notebook.ran("x = 1\ny = 2\n\n1 / 0\nz = 3")
    assert (run.failed, run.stopped_at, refs(run)[1]) == (True, 4, {"x": 1, "y": 1})


def test_changed_alias_is_read_at_earlier_version(notebook: Notebook) -> None:
    notebook.cell("a = {}\nb = a")
    assert refs(notebook.ran("b['x'] = 1")) == ({"a": 1, "b": 1}, {"a": 2, "b": 2})


def test_change_through_the_namespace_itself_is_seen(notebook: Notebook) -> None:
    notebook.cell("\n".join(f"other{n} = [{n}]" for n in range(200)))
    notebook.cell("import pandas as pd\nx = pd.DataFrame({'a': [1, 2]})\nm = globals().get")
    assert notebook.cell("m('x')['b'] = 3").changed == ("x",)


def test_same_cell_twice_is_two_runs(notebook: Notebook) -> None:
    first, second = notebook.ran("a = []"), notebook.ran("a = []")
    assert (first.number, second.number) == (1, 2)
    assert refs(second)[1] == {"a": 2}


def test_staleness_propagates(notebook: Notebook) -> None:
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


def test_input_before_tracking_has_version_zero(notebook: Notebook) -> None:
    notebook.names["old"] = [1]
    assert origin(notebook, "new", "new = old * 2").inputs == (InputRef(name="old", version=0),)


def test_existing_files_and_urls_are_sources(notebook: Notebook) -> None:
    (notebook.cwd / "data").mkdir()
    (notebook.cwd / "data" / "cars.csv").write_text("x")
    cell = "x = ['data/cars.csv', 'data/none.csv', 'https://example.org/a', 'data']"
    assert origin(notebook, "x", cell).sources == ("data/cars.csv", "https://example.org/a")


def test_file_outside_folder_has_full_path(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x")
    (tmp_path / "nb").mkdir()
    literals = ("../a.csv", "\0", "x" * 5_000, str(tmp_path / "a.csv"))
    assert sources_in(literals, tmp_path / "nb") == ((tmp_path / "a.csv").as_posix(),)


def test_private_names_and_imports_are_no_variables() -> None:
    made = eval("lambda: 0", {"__name__": "__main__"})
    names = {"_x": 1, "math": math, "Path": Path, "sqrt": math.sqrt, "In": [], "f": made, "x": 1}
    hidden = {"In": names["In"]}
    assert list(visible(names, hidden)) == ["f", "x"]
    assert list(visible({**names, "In": [5]}, hidden)) == ["In", "f", "x"]


def test_only_nameable_variables_count() -> None:
    names: dict[Any, Any] = {"a": 1, 7: 1, None: 1, "half \ud800": 1, "two words": 1, "_b": 1}
    assert visible(names, {}) == {"a": 1}


def test_stamping_runs_no_object_code(notebook: Notebook) -> None:
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
def test_class_without_module_is_users(notebook: Notebook, module: str) -> None:
    notebook.cell(
        "class M:\n    def __ne__(self, it): raise SystemExit\n    __eq__ = __ne__\n"
        "class Text(str):\n    def __ne__(self, it): raise SystemExit\n"
        "    __eq__, __hash__ = __ne__, str.__hash__"
    )
    effect = notebook.cell(f"class A: pass\nA.__module__ = {module}")
    assert "A" in effect.changed


# Inputs are those of the statements that made a variable, not of its cell

X_AND_Y = "x = 1\ny = 2"
CONNECTED = (
    "import sqlite3\nname = 't'\ncon = sqlite3.connect(':memory:')\n"
    "con.execute('create table t (x)')\ncon.execute('insert into t values (1)')"
)
QUERY = "{} = list(con.execute('select * from t'))"
READ_SQL = "import pandas as pd\n{} = pd.read_sql('select * from t', con)"
INSERT = "con.execute('insert into ' + name + ' values (2)')"
INC = "n = 0\ndef inc():\n    global n\n    n += 1"
BOTH = "r = []\ndef put(): r.append(1)\ndef both(): put()"

# Cells, the variable, and its inputs with their versions.
CASES: dict[str, tuple[tuple[str, ...], str, dict[str, int]]] = {
    "a name of the same cell": (("x = 1; y = x + 1",), "y", {"x": 1}),
    "each of a pair": ((X_AND_Y, "a, b = x + 2, y + 3"), "a", {"x": 1}),
    "a swapped pair": ((X_AND_Y, "x, y = y, x"), "x", {"y": 1}),
    "a value in between": (("k = 5", "x = k\ny = x + 1\nx = 2"), "y", {"x": 1}),
    "a value that a call may change": (("x = [1]\ny = len(x)\nprint(f(x))",), "y", {"x": 1}),
    "a number handed to a call": (("k = [1]\ndef f(*a): pass", "n = 4\nf(n, k)"), "n", {}),
    "a name bound to the same object": (("x = 1\ny = [x]", "x = 1\ny = [x]"), "y", {"x": 1}),
    "a value in between is not the last one": (("k = 5", "x = k\ny = x + 1\nx = 2"), "x", {}),
    "what it was before": (("x = 1", "x += 1"), "x", {"x": 1}),
    "a version that was read": (("x = [1]", "x = [2]", "y = x + [3]"), "y", {"x": 2}),
    "its own earlier version": (("x = [1]", "y = x + [3]", "y = y * 2"), "y", {"y": 1}),
    "a change in place": (("r = []\nk = 1", "r.append(k)\ns = 2"), "r", {"r": 1, "k": 1}),
    "another statement of the cell": (("k = 1\nj = 2", "a = k\nb = j"), "b", {"j": 1}),
    "the body of a function": (("k = 1", "def f():\n    return k\ny = f()"), "f", {"k": 1}),
    "a function of the same cell": (("k = 1", "def f():\n    return k\ny = f()"), "y",
                                    {"f": 1, "k": 1}),
    "what a function finds when it runs": (("def f():\n    return k\nk = 1\ny = f()",), "y",
                                           {"f": 1, "k": 1}),
    "a function of an earlier cell": (("k = 1\ndef f():\n    return k", "y = f()"), "y",
                                      {"f": 1, "k": 1}),
    "a function in a wrapper": (
        ("import functools\nk = 1\n@functools.cache\ndef f():\n    return k", "y = f()"), "y",
        {"f": 1, "k": 1},
    ),
    "a default": (("k = 1", "def f(x=k):\n    return x\nz = 0"), "f", {"k": 1}),
    "a comprehension": ((X_AND_Y, "a = [x + i for i in range(3)]\nb = y"), "a", {"x": 1}),
    "a walrus": ((X_AND_Y, "a = (b := x) + y\nc = b"), "c", {"b": 1}),
    "a tuple that is returned": (("x = 1\ndef f(v):\n    return v, v", "a, b = f(x)"), "b",
                                 {"f": 1, "x": 1}),
    "a context manager": (("import contextlib\nx = 1",
                           "with contextlib.nullcontext(x) as a:\n    b = a + 1\nc = 0"), "b",
                          {"x": 1}),
    "a loop": (("x = [1]\nk = 2", "t = 0\nfor i in x:\n    t += i\nu = k"), "t", {"x": 1}),
    "what is changed through a function": (
        ("rows = []\nk = 1\ndef put():\n    rows.append(k)", "put()\nz = 0"), "rows",
        {"k": 1, "put": 1, "rows": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_inputs_come_from_making_statements(notebook: Notebook, case: str) -> None:
    cells, name, wanted = CASES[case]
    found = origin(notebook, name, *cells)
    assert {ref.name: ref.version for ref in found.inputs} == wanted


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (("x = 1; y = x + 1", "x = 42"), {"y": {"x"}, "x": set()}),
        (("x = 1; y = x + 1", "x = 1; y = x + 1"), {"y": set()}),
        ((X_AND_Y, "a, b = x + 2, y + 3", "y = 9"), {"a": set(), "b": {"y"}}),
        (("k = 1\ndef f():\n    return k\ny = f()", "k = 2"), {"y": {"k"}}),
        (("x = 1\ny = x + 1\nz = y * 2", "x = 3"), {"z": {"x"}}),
        (("x = 1; y = x + 1; x = 42",), {"y": {"x"}, "x": set()}),
        (("x = 1", "y = x + 1; x = 42"), {"y": {"x"}}),
        (("k = 1", "x = k; y = x + 1; x = 42", "k = 2"), {"y": {"k", "x"}, "x": set()}),
        (("k = 1\ndef f(): return k\ny = f(); k = 2",), {"y": {"k"}}),
        ((INC, "inc()", "m = n"), {"inc": set(), "m": set()}),
        ((BOTH, "both()", "m = len(r)"), {"both": set(), "m": set()}),
        ((f"{INC}\n    return n", "m = inc()", "n = 9"), {"m": {"n"}}),
        # A query changes a connection only if it writes.
        ((CONNECTED, QUERY.format("a"), QUERY.format("b")), {"a": set(), "b": set()}),
        ((CONNECTED, READ_SQL.format("a"), QUERY.format("b")), {"a": set(), "b": set()}),
        ((CONNECTED, QUERY.format("a"), INSERT), {"a": {"con"}}),
        # An input that the same cell changed in place, or along with the variable, is current.
        (("xs = [1]\ntotal = 0\nfor v in xs: total += v\nm = total / 2",), {"m": set()}),
        (("x = [1]; y = len(x); x += [2]",), {"y": set()}),
        (("x = 1; y = 2; x, y = y, x",), {"x": set(), "y": set()}),
        (("x = 1\ny = x + 1\nx = 1 / 0",), {"y": set()}),
        (("a = {}\nb = a", "b['x'] = 1", "a['y'] = 2"), {"a": set(), "b": set()}),
    ],
)
def test_staleness(notebook: Notebook, cells: tuple[str, ...], told: dict[str, set[str]]) -> None:
    for code in cells:
        notebook.cell(code)
    assert {name: {each for each, _ in stale(notebook, name)} for name in told} == told


@pytest.mark.parametrize(
    ("code", "name", "wanted"),
    [
        ("c = pd.merge(a, b)\nd = pd.concat([a, b])", "a", set()),
        ("c = pd.merge(a, b)\nd = pd.concat([a, b])", "d", {"a", "b"}),
        ("X = b.x\nm = LinearRegression().fit(a, X)\nn = m.score(a, X)", "a", set()),
        ("X = b.x\nm = LinearRegression().fit(a, X)\nn = m.score(a, X)", "X", {"b"}),
        ("f = io.StringIO()\nm = {'mean': a.x.mean()}\njson.dump(m, f)", "m", {"a"}),
        ("k = ['a']\nv = [1]\nd = dict(zip(k, v))", "k", set()),
        # Code of the notebook may change it, and what is said plainly does.
        ("def fill(t, r): t['x'] = r.x\nfill(a, b)", "a", {"b", "fill"}),
        ("r = []\nx = [1]\nlist(map(r.append, x))", "r", {"x"}),
        ("w = True\na.dropna(inplace=w)", "a", {"w"}),
    ],
)
def test_library_changes_no_data_that_it_is_handed(
    notebook: Notebook, code: str, name: str, wanted: set[str]
) -> None:
    imports = (
        "import io, json\nimport pandas as pd\nfrom sklearn.linear_model import LinearRegression"
    )
    frames = "a = pd.DataFrame({'x': [1, 2]})\nb = pd.DataFrame({'x': [3, 4]})"
    found = origin(notebook, name, f"{imports}\n{frames}\n{code}")
    assert {ref.name for ref in found.inputs} == wanted


def test_skipped_code_is_no_input(notebook: Notebook) -> None:
    y = origin(notebook, "y", "x = 1\nk = 2", "x.real\ny = x\n1 / 0")
    assert [ref.name for ref in y.inputs] == ["x"]
