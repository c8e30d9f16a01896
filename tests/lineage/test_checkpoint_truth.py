"""What is not named as perhaps changed is as it was, however code got at it."""

from pathlib import Path

import pytest
from lineage_desk import Desk

from parsimony_kernel.lineage.checkpoint import PutBack


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.mark.parametrize(
    ("setting", "code"),
    [
        ("class Bag(list): pass\nb = Bag([1, 2])", "print(len(b))"),
        ("from dataclasses import dataclass\n@dataclass(slots=True)\nclass P:\n    x: list",
         "q = P([1])"),
    ],
)  # fmt: skip
async def test_what_changes_nothing_that_was_there_is_not_named(
    desk: Desk, setting: str, code: str
) -> None:
    await desk.run(setting)
    number = desk.checkpoints.take()
    await desk.act(code)
    assert not desk.checkpoints.put_back(number, keep_new=True).lost


# A person's cell, the agent's, the person's later one, and what must stand after the undo.
LATER = {
    "in a list of a dict": (
        "d = {'k': [1]}", "d['k'].append('agent')", "d['k'].append('mine')",
        "d", {"k": [1, "agent", "mine"]},
    ),
    "an attribute of an object in a list": (
        "class O: pass\no = O()\no.qty = 1\norders = [o]", "orders[0].qty = 2",
        "orders[0].qty = 900", "o.qty", 900,
    ),
    "through a function": (
        "rows = [1]\ndef add(x): rows.append(x)", "rows.append('agent')", "add('mine')",
        "rows", [1, "agent", "mine"],
    ),
    "through an alias": (
        "d = {'k': [1]}", "d['k'].append('agent')", "inner = d['k']\ninner.append('mine')",
        "d", {"k": [1, "agent", "mine"]},
    ),
    "a column through a function": (
        "df = pd.DataFrame({'a': [1]})\ndef label(f): f['b'] = 2", "df['a'] = 5", "label(df)",
        "list(df.columns)", ["a", "b"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LATER)
async def test_what_the_person_did_since_is_never_undone(desk: Desk, case: str) -> None:
    setting, agents, mine, probe, wanted = LATER[case]
    await desk.run(setting)
    desk.checkpoints.take()
    await desk.act(agents)
    change = desk.checkpoints.close()
    assert change is not None
    await desk.run(mine)
    back = desk.checkpoints.undo(change)[0]
    assert back.kept
    assert await desk.ask(probe) == await desk.ask(repr(wanted))


async def test_an_object_that_cannot_be_compared_breaks_nothing(desk: Desk) -> None:
    await desk.act(
        "class Evil:\n    def __eq__(self, other): raise RuntimeError('no')\n"
        "    __hash__ = None\ndf = pd.DataFrame({'o': [1]}, dtype=object)",
    )
    number = desk.checkpoints.take()
    await desk.act("df['o'] = [Evil()]; xs = [Evil()]; xs.append(Evil())")
    assert "df" in desk.checkpoints.put_back(number, keep_new=True).restored
    await desk.act("df['o'] = [Evil()]")
    change = desk.checkpoints.close()
    assert change is not None
    assert "df" in desk.checkpoints.undo(change)[0].restored
    assert await desk.ask("df['o'].tolist()") == await desk.ask("[1]")


async def test_two_runs_on_one_executor_do_not_meet(desk: Desk) -> None:
    await desk.run("rows = [1]")
    other = desk.executor.checkpoints()
    number = desk.checkpoints.take()
    other.take()
    await desk.act("rows.append(2)")
    other.close()
    assert desk.checkpoints.put_back(number) == PutBack(restored=("rows",))


async def test_the_same_big_array_is_copied_for_the_first_and_the_newest_only(desk: Desk) -> None:
    await desk.run("a = np.zeros(5_000_000)")
    first = desk.checkpoints.take()
    for step in range(1, 8):
        number = desk.checkpoints.take()
        await desk.act(f"a[0] = {step}")
    assert desk.checkpoints.put_back(number).lost == ()
    assert await desk.ask("float(a[0])") == await desk.ask("6.0")
    assert desk.checkpoints.put_back(first).lost == ()
    assert await desk.ask("float(a[0])") == await desk.ask("0.0")


async def test_what_is_bound_no_more_is_not_kept_without_end(desk: Desk) -> None:
    first = desk.checkpoints.take()
    taken = []
    for _ in range(7):
        await desk.act("big = np.empty(30_000_000)")  # 240 MB that nobody touches
        taken.append(desk.checkpoints.take())
    assert [number in desk.checkpoints for number in taken] == [False] * 6 + [True]
    assert desk.checkpoints.put_back(first) == PutBack(removed=("big",))
