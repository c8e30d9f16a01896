"""What code says about names."""

import pytest

from parsimony_kernel.lineage.analysis import CellNames, analyse


@pytest.mark.parametrize(
    ("code", "reads"),
    [
        ("y = x + 1", {"x"}),
        ("x = 1; y = x", set()),
        ("x += 1", {"x"}),
        ("if a:\n    x = 1\ny = x", {"a", "x"}),
        ("if a:\n    x = 1\nelse:\n    x = 2\ny = x", {"a"}),
        ("for i in rows:\n    total = i\nprint(total)", {"rows", "print", "total"}),
        ("def f(a):\n    b = a\n    return b + c", {"c"}),
        ("def f():\n    global n\n    n = 1", set()),
        ("g = lambda a: a + b", {"b"}),
        ("out = [v * k for v in data if v]", {"data", "k"}),
        ("class C(Base):\n    x = y\n    z = x", {"Base", "y"}),
        ("try:\n    a = 1\nexcept Err as e:\n    print(e)", {"Err", "print"}),
        ("import pandas as pd\npd.read_csv(p)", {"p"}),
        ("match v:\n    case [a, *rest]:\n        print(a, rest)", {"v", "print"}),
        ("async def f():\n    await g()\nawait f()", {"g"}),
        ("@deco\ndef f(): pass", {"deco"}),
        ("df.loc[df.x > 1, 'y'] = z", {"df", "z"}),
    ],
)
def test_reads(code: str, reads: set[str]) -> None:
    assert analyse(code).reads - {"e"} == reads


@pytest.mark.parametrize(
    ("code", "writes"),
    [
        ("a = b = 1", {"a", "b"}),
        ("(a, [b, *c]) = x", {"a", "b", "c"}),
        ("import os.path, json as j\nfrom a import b as c", {"os", "j", "c"}),
        ("for i in x: pass", {"i"}),
        ("with open(p) as f: pass", {"f"}),
        ("def f():\n    local = 1", {"f"}),
        ("def f():\n    global n\n    n = 1", {"f", "n"}),
        ("[(last := v) for v in x]", {"last"}),
        ("x: int = 3\ny: int", {"x"}),
    ],
)
def test_writes(code: str, writes: set[str]) -> None:
    assert analyse(code).writes == writes


@pytest.mark.parametrize(
    ("code", "mutated"),
    [
        ("df['x'] = 1", {"df"}),
        ("df.loc[0, 'x'] = 1", {"df"}),
        ("df.x.y = 1", {"df"}),
        ("df['x'] += 1", {"df"}),
        ("del d['k']", {"d"}),
        ("items.append(1)", {"items"}),
        ("df.dropna(inplace=True)", {"df"}),
        ("df.dropna(inplace=False)", set()),
        ("n += 1", {"n"}),
        ("df.copy()['x'] = 1", set()),
        ("def f(d):\n    d['x'] = 1", set()),
        ("y = df.sort_values('x')", set()),
    ],
)
def test_changes_in_place(code: str, mutated: set[str]) -> None:
    assert analyse(code).mutated == mutated


def test_deletes() -> None:
    assert analyse("del a, b[0]").deletes == {"a"}


def test_literals_leave_out_what_is_only_written_to() -> None:
    code = "df = pd.read_csv('in.csv')\ndf.to_csv('out.csv')\nopen('log', 'w')\nopen('notes')"
    assert analyse(code).literals == ("in.csv", "notes")


@pytest.mark.parametrize("code", ["def (", "\0", "(" * 10_000])
def test_nonsense_has_no_names(code: str) -> None:
    assert analyse(code) == CellNames()
