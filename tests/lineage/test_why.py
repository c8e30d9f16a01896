"""Where a variable comes from, in words."""

from pathlib import Path
from textwrap import dedent

import pytest
from lineage_desk import Desk

from parsimony_kernel.lineage.why import MOST_STEPS, Explanation, why


def explained(desk: Desk, name: str) -> Explanation:
    ledger = desk.executor.origin_ledger
    return why(ledger, name, present=desk.names)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    (tmp_path / "cars.csv").write_text("a\n1\n")
    (tmp_path / "more.csv").write_text("a\n2\n")


async def test_chain_is_newest_first(desk: Desk) -> None:
    await desk.run("raw = pd.read_csv('cars.csv')\nextra = 1")
    await desk.act("df = raw.assign(b=2)", "total = int(df.b.sum())\nprint(1)")
    told = explained(desk, "total")
    assert [(step.name, step.version) for step in told.steps] == [
        ("total", 1), ("df", 1), ("raw", 1)
    ]  # fmt: skip
    lines = [line.split(" · ")[0] for line in told.text().splitlines()]
    assert lines == [
        "total comes from 3 steps, newest first.",
        "",
        "total v1  turn 3, step 2",
        "          total = int(df.b.sum())",
        "          made from df v1",
        "df v1     turn 3, step 1",
        "          df = raw.assign(b=2)",
        "          made from raw v1",
        "raw v1    your cell",
        "          raw = pd.read_csv('cars.csv')",
        "          reads cars.csv",
    ]


LOADED = "df = pd.read_csv('more.csv')\ndf['b'] = other"
MANY = "\n".join(["df = [0]", *(f"df.append({number})" for number in range(1, 6))])
BRANCH = "df = [0]\nif df:\n    df = [1]"
LONG = "df = [\n" + "0,\n" * 19
# A cell, and what is told of it.
MADE = {
    "made and changed": (f"df = 0\nother = 1\n{LOADED}", LOADED),
    "many changes": (MANY, MANY),
    "a binding that may not have run": (BRANCH, BRANCH),
    "as it was written": ("df = sum(\n    [\n\t1,\n    ]\n)", "df = sum(\n    [\n    1,\n    ]\n)"),
    "of a very long one the beginning": (LONG + "0,\n" * 11 + "]", f"{LONG}… 12 more lines"),
}


@pytest.mark.parametrize("how", MADE)
async def test_the_statements_that_made_it_are_told(desk: Desk, how: str) -> None:
    cell, code = MADE[how]
    await desk.run(cell)
    details = explained(desk, "df").text().splitlines()[3 : 4 + code.count("\n")]
    assert dedent("\n".join(details)) == code


@pytest.mark.parametrize(
    ("later", "stale", "told"),
    [
        (["a.append(5)", "a = [3]"], [("a", 1)], " Stale: a v1 (now v3).\n"),
        (["del a"], [("a", 1)], " Stale: a v1 (now gone).\n"),
        (["b.append(3)"], [], "b comes from 3 steps, newest first.\n"),
    ],
)
async def test_later_change_shows_both_versions(
    desk: Desk, later: list[str], stale: list[tuple[str, int]], told: str
) -> None:
    await desk.run("a = [1]", "b = a + [2]", *later)
    found = explained(desk, "b")
    assert [(each.name, each.version) for each in found.stale] == stale
    assert told in found.text()
    assert found.text().count("tale") == len(stale)


async def test_what_changed_many_steps_before_is_told(desk: Desk) -> None:
    await desk.run("x0 = [1]", *(f"x{n} = x{n - 1} + [{n}]" for n in range(1, 30)), "x0 = [5]")
    told = explained(desk, "x29")
    assert " Stale: x0 v1 (now v2).\n" in told.text()
    assert told.text().endswith("and 10 earlier steps")


async def test_what_a_library_works_out_when_it_is_asked_is_no_change(desk: Desk) -> None:
    await desk.run(
        "import pandas as pd\ngroups = pd.DataFrame({'k': [1]}).groupby('k')",
        "sizes = groups.size()",
        "groups.groups, groups.ngroups",
    )
    assert not explained(desk, "sizes").stale


async def test_unknown_origin_is_stated(desk: Desk) -> None:
    await desk.executor.execute("old = [1]")  # nobody's cell
    await desk.run("new = old + [2]")
    told = explained(desk, "new")
    assert "? made from old, whose origin is not known" in told.text()
    assert explained(desk, "old").text().startswith("old was bound before origins were tracked")


async def test_unknown_name_suggests_nearest(desk: Desk) -> None:
    await desk.run("prices = [1]\nother = 2")
    told = explained(desk, "Price")
    assert told.steps == ()
    assert told.text() == "There is no variable Price. Did you mean prices?"
    assert explained(desk, "zzz").text() == "There is no variable zzz."


async def test_deleted_variable_is_reported(desk: Desk) -> None:
    await desk.run("a = [1]", "del a")
    assert explained(desk, "a").text() == "a was deleted by your cell."


async def test_a_replaced_value_is_told_as_it_was(desk: Desk) -> None:
    await desk.run("x = 1; y = x + 1; x = 42")
    lines = [line.split(" · ")[0] for line in explained(desk, "y").text().splitlines()]
    assert lines == [
        "y comes from 2 steps, newest first. Stale: x v1 (now v2).",
        "",
        "y v1  your cell",
        "      y = x + 1",
        "      made from x v1",
        "x v1  your cell",
        "      x = 1",
    ]


async def test_imports_are_no_steps(desk: Desk) -> None:
    await desk.run("import math\nfrom math import floor", "x = floor(math.pi)")
    assert [step.name for step in explained(desk, "x").steps] == ["x"]


async def test_long_chain_is_cut_and_counted(desk: Desk) -> None:
    await desk.run("x = [0]", *(f"x = x + [{i}]" for i in range(MOST_STEPS + 4)))
    told = explained(desk, "x")
    assert len(told.steps) == MOST_STEPS
    assert told.text().splitlines()[-1] == "and 5 earlier steps"
    assert f"comes from {MOST_STEPS + 5} steps" in told.text()


async def test_terminal_controls_are_removed(desk: Desk) -> None:
    await desk.run("x = 'a\x1b[2J\u202eb'")
    told = explained(desk, "x").text()
    assert "\x1b" not in told
    assert "\u202e" not in told
    assert "x1b[2J" in told
