"""A variable's inputs are those of the statements that made it, not of its cell."""

import pytest
from watched_notebook import Notebook

from parsimony_kernel.lineage.ledger import OriginLedger
from parsimony_kernel.lineage.why import why

X_AND_Y = "x = 1\ny = 2"


def ledger_of(*cells: str) -> OriginLedger:
    notebook = Notebook()
    for code in cells:
        notebook.cell(code)
    return notebook.ledger


# Cells, the variable, and its inputs with their versions.
CASES: dict[str, tuple[tuple[str, ...], str, dict[str, int]]] = {
    "a name of the same cell": (("x = 1; y = x + 1",), "y", {"x": 1}),
    "each of a pair": ((X_AND_Y, "a, b = x + 2, y + 3"), "a", {"x": 1}),
    "a swapped pair": ((X_AND_Y, "x, y = y, x"), "x", {"y": 1}),
    "a value in between": (("k = 5", "x = k\ny = x + 1\nx = 2"), "y", {"k": 1}),
    "a value in between is not the last one": (("k = 5", "x = k\ny = x + 1\nx = 2"), "x", {}),
    "what it was before": (("x = 1", "x += 1"), "x", {"x": 1}),
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
                          {"contextlib": 1, "x": 1}),
    "a loop": (("x = [1]\nk = 2", "t = 0\nfor i in x:\n    t += i\nu = k"), "t", {"x": 1}),
    "what is changed through a function": (
        ("rows = []\nk = 1\ndef put():\n    rows.append(k)", "put()\nz = 0"), "rows",
        {"k": 1, "put": 1, "rows": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_inputs_of_a_variable(case: str) -> None:
    cells, name, wanted = CASES[case]
    origin = ledger_of(*cells).get(name)
    assert origin is not None
    assert {ref.name: ref.version for ref in origin.inputs} == wanted


@pytest.mark.parametrize(
    ("cells", "stale"),
    [
        (("x = 1; y = x + 1", "x = 42"), {"y": {"x"}, "x": set()}),
        (("x = 1; y = x + 1", "x = 1; y = x + 1"), {"y": set()}),
        ((X_AND_Y, "a, b = x + 2, y + 3", "y = 9"), {"a": set(), "b": {"y"}}),
        (("k = 1\ndef f():\n    return k\ny = f()", "k = 2"), {"y": {"k"}}),
        (("x = 1\ny = x + 1\nz = y * 2", "x = 3"), {"z": {"x"}}),
    ],
)
def test_what_is_stale(cells: tuple[str, ...], stale: dict[str, set[str]]) -> None:
    ledger = ledger_of(*cells)
    assert {name: {ref.name for ref in ledger.stale(name)} for name in stale} == stale


def test_why_names_an_input_of_the_same_cell() -> None:
    told = why(ledger_of("x = 1; y = x + 1", "x = 42"), "y", present={"x", "y"})
    assert [(step.name, step.version) for step in told.steps] == [("y", 1), ("x", 1)]
    assert "made from x version 1; x is at version 2 now" in told.text()


def test_what_did_not_run_went_into_nothing() -> None:
    origin = ledger_of("x = 1\nk = 2", "x.real\ny = x\n1 / 0").get("y")
    assert origin is not None
    assert [ref.name for ref in origin.inputs] == ["x"]
