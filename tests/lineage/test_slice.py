"""A short script that rebuilds a variable."""

import ast
import contextlib
import tomllib
from pathlib import Path
from typing import Any

import pytest
from lineage_desk import USER, Desk

from parsimony_kernel.analysis.read import read
from parsimony_kernel.lineage.ledger import (
    CellRun,
    InputRef,
    OriginLedger,
    VariableOrigin,
    stamp_effect,
)
from parsimony_kernel.lineage.observe import observe_cell
from parsimony_kernel.lineage.script import SEEDS, SliceError, slice_of
from parsimony_kernel.lineage.snapshot import visible


def sliced(desk: Desk, name: str) -> str:
    return slice_of(desk.executor.origin_ledger, name)


def rebuilt(desk: Desk, name: str, folder: Path) -> Any:
    """The value that the script makes where nothing else is."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.chdir(folder):
        exec(sliced(desk, name), names)
    return names[name]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def kept(script: str) -> list[str]:
    """The statements that a script keeps, without the imports at its head."""
    return [each.source for each in read(script[script.index("\n# cell ") :]).statements]


def named(script: str) -> list[str]:
    """The files that a script says it reads."""
    lines = script.splitlines()
    return [each.removeprefix("# Reads ") for each in lines if each.startswith("# Reads ")]


CORPUS = Path(__file__).parents[1] / "corpora" / "slices.toml"
SLICES = tomllib.loads(CORPUS.read_text(encoding="utf-8"))
KEPT: dict[str, dict[str, Any]] = {row["id"]: row for row in SLICES["kept"]}


@pytest.mark.parametrize("cell", SLICES["same"]["roundabout"])
async def test_indirect_change_is_kept(desk: Desk, cell: str, tmp_path: Path) -> None:
    await desk.run(cell)
    assert rebuilt(desk, "x", tmp_path) == desk.names["x"] != []


@pytest.mark.parametrize("is_one_cell", [True, False], ids=["one cell", "a cell each"])
@pytest.mark.parametrize("code", SLICES["same"]["moving"])
async def test_iterator_advance_before_read_is_kept(
    desk: Desk, code: str, is_one_cell: bool, tmp_path: Path
) -> None:
    (tmp_path / "lines.txt").write_text("a\n1\n2\n")
    cells = [code] if is_one_cell else [ast.unparse(each) for each in ast.parse(code).body]
    await desk.run(*cells)
    assert not any(run.failed for run in desk.executor.origin_ledger.cell_runs())
    assert rebuilt(desk, "m", tmp_path) == desk.names["m"]


SHARED = ("x = [1]\nw = [x]", "m = list(w)\nx = 0")
# Cells after which the script makes of ``m`` what it is.
REBUILT = (
    (*SHARED, "list(w)[0].append(5)"),
    (*SHARED, "def put(v):\n    v[0].append(5)\nput(w)"),
    ("list = [5]\ny = list", "del list", "m = list((1,)) + y"),
    # The second run of the cell leaves ``n`` as it found it, with something else in between.
    ("def more():\n    global n\n    n += 1", "n = 2", *["k = [n]\nmore()\nn = 2"] * 2,
     "m = k + [n]"),
    # Two changes cancel out, the second one through a function.
    ("l = [1]\nd = dict(l=l)\ndef g(x):\n    x['l'].append(2)\ndef u(x):\n    x['l'].pop()",
     "g(d); m = len(l); u(d)"),
    ("l = [1]\nd = dict(l=l)\nm = []\ndef g(x, log):\n    x['l'].append(2)\n    log.append(2)\n"
     "def u(x):\n    x['l'].pop()",
     "g(d, m); u(d)", "m.append(len(l))"),
    ("l = [1]\nd = dict(l=l)\nm = []\ndef g(x, log):\n    x['l'].append(2)\n    log.append(2)\n"
     "def u(x):\n    x['l'].pop()",
     "g(d, m); u(d); m.append(len(l))"),
    ("l = [1]\ndef g():\n    l.append(2)\ndef u():\n    l.pop()",
     "g()\nw = [len(l)]\nu()\n"
     "m = w + l"),
)  # fmt: skip


@pytest.mark.parametrize("cells", REBUILT)
async def test_value_is_rebuilt(desk: Desk, cells: tuple[str, ...], tmp_path: Path) -> None:
    for code in cells:
        await desk.mine(code)
    assert rebuilt(desk, "m", tmp_path) == desk.names["m"]


@pytest.mark.parametrize("case", KEPT)
async def test_script_is_minimal(desk: Desk, case: str, tmp_path: Path) -> None:
    row = KEPT[case]
    name = row["name"]
    await desk.run(*row["cells"])
    assert kept(sliced(desk, name)) == row["kept"]
    value = desk.names[name]
    again = rebuilt(desk, name, tmp_path)
    assert callable(value) or repr(again) == repr(value)


async def test_script_names_sources_and_cell_authors(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "cars.csv").write_text("a,b\n1,2\n")
    await desk.run("cars = pd.read_csv('cars.csv')")
    await desk.act("cars['c'] = cars.a + cars.b\nn = len(cars)")
    script = sliced(desk, "cars")
    assert script == (
        "# Rebuilds cars.\n# Reads cars.csv\n\nimport pandas as pd\n\n# cell (user)\n"
        "cars = pd.read_csv('cars.csv')\n\n# cell of turn 3 (agent)\ncars['c'] = cars.a + cars.b\n"
    )
    assert rebuilt(desk, "cars", tmp_path).equals(desk.names["cars"])


async def test_only_needed_sources_are_named(desk: Desk, tmp_path: Path) -> None:
    for name in ("cars", "more", "rest"):
        (tmp_path / f"{name}.csv").write_text("a\n1\n")
    await desk.run("cars = pd.read_csv('cars.csv')\nmore = pd.read_csv('./more.csv')")
    await desk.run("rest = pd.read_csv('re' + 'st.csv')")
    assert named(sliced(desk, "cars")) == ["cars.csv"]
    assert named(sliced(desk, "more")) == ["more.csv"]
    assert named(sliced(desk, "rest")) == ["rest.csv"]


@pytest.mark.parametrize("name", ["pd", "np", "datetime", "timedelta", "timezone"])
async def test_initial_name_gets_its_import(desk: Desk, name: str) -> None:
    await desk.run(f"x = repr({name})")
    assert SEEDS[name] in sliced(desk, "x").splitlines()


async def test_name_of_unknown_origin_is_refused_with_remedy(desk: Desk) -> None:
    await desk.executor.execute("old = [1]")  # nobody's cell
    await desk.run("y = [2]", "new = old + [2]")
    desk.executor.origin_ledger.go_back("y", 0)  # as an undo does with a value that it lost
    await desk.run("z = y + [3]")
    for lost, name in (("old", "new"), ("y", "z")):
        with pytest.raises(SliceError, match=f"'{lost}'.*run the cell that makes '{lost}' again"):
            sliced(desk, name)


async def test_code_after_an_error_is_dropped(desk: Desk, tmp_path: Path) -> None:
    await desk.run("x = [1]\n1 / 0\nx = [2]")
    assert kept(sliced(desk, "x")) == ["x = [1]"]
    assert rebuilt(desk, "x", tmp_path) == [1]


@pytest.mark.parametrize("code", ["x = 1\n1 / 0", "x = []\nx.append(1)\n1 / 0"])
def test_a_cell_that_stopped_nobody_knows_where_is_refused(code: str, tmp_path: Path) -> None:
    ledger, names = OriginLedger(), dict[str, Any]()
    with contextlib.suppress(ZeroDivisionError):
        exec(code, names)
    effect = observe_cell({}, visible(names, {}), code, tmp_path)
    stamp_effect(ledger, effect, code, USER, "", failed=True)
    with pytest.raises(SliceError, match="stopped with an error"):
        slice_of(ledger, "x")


async def test_half_finished_change_is_refused(desk: Desk) -> None:
    await desk.run("x = []", "for i in range(3):\n    x.append(i)\n    1 / (1 - i)")
    with pytest.raises(SliceError, match="stopped with an error"):
        sliced(desk, "x")


async def test_versions_of_a_name_are_never_mixed(desk: Desk) -> None:
    """A turn is undone; what the user made of it stands, and cannot go with the old one."""
    await desk.run("a = [1]")
    change = await desk.change("a = [2]")
    await desk.run("b = a + [3]")
    desk.checkpoints.undo(change)
    await desk.run("c = b + a")
    for name in "cb":
        with pytest.raises(SliceError, match="change of 'a' was undone"):
            sliced(desk, name)
    assert kept(sliced(desk, "a")) == ["a = [1]"]


def test_exec_cell_sees_everything_before(tmp_path: Path) -> None:
    ledger, names = OriginLedger(), dict[str, Any]()
    for code in ("x = 1\nz = 3", "n = 'x'\nexec(f'y = {n} + 1')", "y2 = y"):
        before = visible(names, {})
        exec(code, names)
        effect = observe_cell(before, visible(names, {}), code, tmp_path)
        stamp_effect(ledger, effect, code, USER, "")
    again: dict[str, Any] = {}
    exec(slice_of(ledger, "y2"), again)
    assert again["y2"] == 2


def test_timing_magic_body_is_sliced_like_a_cell() -> None:
    code = "get_ipython().run_cell_magic('time', '', 'a = 1\\nb = 2\\n')\n"
    ledger = OriginLedger()
    who: dict[str, Any] = {
        "actor": "user", "notebook_path": "", "cell_id": "", "run_id": "", "code": code,
        "code_sha": "",
    }  # fmt: skip
    for name in "ab":
        ledger.stamp(VariableOrigin(name=name, version=1, cell_run=1, **who))
    made = tuple(InputRef(name=name, version=1) for name in "ab")
    ledger.record(CellRun(number=1, made=made, **who))
    assert kept(slice_of(ledger, "b")) == ["b = 2"]


@pytest.mark.parametrize(
    "cell",
    [
        "df['month'] = df['day'].dt.month",
        "df['upper'] = df['town'].str.upper().str.title()",
        "df['first'] = df.loc[0, 'town']",
        "df['last'] = df.iloc[-1].town",
    ],
)
async def test_accessor_result_is_a_value_after_undo(desk: Desk, cell: str) -> None:
    load = "df = pd.DataFrame({'day': pd.to_datetime(['2026-01-02']), 'town': ['graz']})"
    await desk.act(load, cell)
    desk.checkpoints.undo(await desk.change("df['town'] = 'x'"))
    script = sliced(desk, "df")
    assert cell in script
    assert "= 'x'" not in script


async def test_script_begins_with_future_imports(desk: Desk, tmp_path: Path) -> None:
    future = "from __future__ import annotations\n"
    await desk.run("n = 1", f"{future}class A:\n    def me(self) -> A: return self", "y = A().me")
    await desk.run(f"{future}def f(x: int): return x", "z = f.__annotations__, n, y()")
    assert rebuilt(desk, "z", tmp_path)[:2] == ({"x": "int"}, 1)
    await desk.run(f"{future}def f(x: Nothing): return x", "y = f(1)")
    with pytest.raises(SliceError, match="'Nothing'"):
        sliced(desk, "y")
