"""Turns are taken back, done again and told, as often as a person likes."""

from typing import Any

import pandas as pd
import pytest
from lineage_desk import Desk

from parsimony_agent.overview import put_back_words
from parsimony_kernel.execution.executor import NotebookExecutor
from parsimony_kernel.lineage.checkpoint import PutBack
from parsimony_kernel.session import past as limits
from parsimony_kernel.session.past import Past
from parsimony_kernel.storage.journal import SqliteJournal


@pytest.fixture(params=["private", "notebook"])
def desk(request: pytest.FixtureRequest, shell: Any) -> Desk:
    if request.param == "private":
        return Desk()
    shell.user_ns["pd"] = pd
    return Desk(executor=NotebookExecutor(shell))


async def test_redo_keeps_later_changes(desk: Desk) -> None:
    await desk.mine("a = 1; b = [1]; c = [1]")
    await desk.turn("t", "a = 2; b.append(2); c.append(2); d = 5")
    desk.undo("t")
    await desk.mine("b.append('mine'); d = 'mine'")
    assert desk.redo("t") == PutBack(restored=("a", "c"), kept=("b", "d"))
    assert (desk["a"], desk["b"], desk["c"], desk["d"]) == (2, [1, "mine"], [1, 2], "mine")
    assert desk.undo("t") == PutBack(restored=("a", "c"))
    assert (desk["a"], desk["b"], desk["c"], desk["d"]) == (1, [1, "mine"], [1], "mine")
    assert desk.redo("t") == PutBack(restored=("a", "c"))


async def test_impossible_undo_is_an_error_and_changes_nothing(desk: Desk) -> None:
    await desk.turn("t", "a = 1")
    for refused in (lambda: desk.redo("t"), lambda: desk.undo("u"), lambda: desk.redo("u")):
        with pytest.raises(KeyError):
            refused()
    desk.undo("t")
    with pytest.raises(KeyError):
        desk.undo("t")
    with pytest.raises(KeyError):
        desk.changes.diff("t")
    assert not desk.changes.runs()
    assert desk.changes.runs(undone=True) == ("t",)
    desk.redo("t")
    assert desk.changes.runs() == ("t",)
    assert not desk.changes.runs(undone=True)


async def test_two_turns_undo_and_redo_in_order(desk: Desk) -> None:
    await desk.turn("one", "a = [1]")
    await desk.turn("two", "a.append(2); b = a")
    desk.undo("two")
    desk.undo("one")
    assert "a" not in desk.names
    assert desk.redo("two").kept == ("a", "b")
    assert desk.changes.runs(undone=True) == ("one", "two")
    desk.redo("one")
    assert desk["a"] == [1]
    assert desk.redo("two").restored == ("a", "b")
    assert desk["a"] == desk["b"] == [1, 2]


ALIASES = ("d2 = df", "frames = {'a': df}", "def show(): return df", "d2 = df; d3 = [d2]")


@pytest.mark.parametrize("alias", ALIASES)
async def test_users_alias_does_not_block_undo(desk: Desk, alias: str) -> None:
    await desk.mine("df = pd.DataFrame({'x': [1]})")
    await desk.turn("t", "df['x'] = df.x * 2")
    await desk.mine(alias)
    held = desk["df"]
    for _ in range(2):
        back = desk.undo("t")
        assert "df" in back.restored
        assert not back.kept
        assert desk["df"] is held
        assert held["x"].tolist() == [1]
        assert "df" in desk.redo("t").restored
        assert held["x"].tolist() == [2]


async def test_new_objects_holding_each_other_stay_together(desk: Desk) -> None:
    await desk.mine("import matplotlib\nmatplotlib.use('agg')\nimport matplotlib.pyplot as plt")
    await desk.turn("t", "fig, ax = plt.subplots(); other = 1")
    await desk.mine("ax.plot([1, 2])")
    try:
        assert desk.undo("t") == PutBack(removed=("other",), kept=("ax", "fig"))
        assert len(desk["fig"].axes[0].lines) == 1
    finally:
        await desk.mine("plt.close('all')")


OPAQUE = {
    "a file in memory": ("import io\nmade = io.StringIO()", "print('mine', file=made)"),
    "a closure": (
        "def maker():\n    kept = []\n    def add(x): kept.append(x)\n    return add\n"
        "made = maker()",
        "made(1)",
    ),
    "a view of memory": ("made = memoryview(bytearray(3))", "made[0] = 1"),
    "a partial": ("import functools\nmade = functools.partial([].append)", "made(1)"),
}


@pytest.mark.parametrize(("agents", "mine"), OPAQUE.values(), ids=OPAQUE.keys())
async def test_used_new_opaque_object_is_kept(desk: Desk, agents: str, mine: str) -> None:
    await desk.turn("t", f"{agents}\nother = 1")
    await desk.mine(mine)
    back = desk.undo("t")
    assert "made" in back.kept
    assert "other" in back.removed
    assert "made" in desk.names


class Shown:
    """What a person reads of the turns "1" and on."""

    def __init__(self, desk: Desk) -> None:
        self.journal = SqliteJournal(":memory:")
        for run in ("1", "2"):
            self.journal.begin_turn(run, notebook="n", cell_key=run, request="", model="m")
        past = Past(desk.executor, self.journal, "n", must_be_free=lambda: None)
        past.changes = desk.changes
        self.past = past

    def undo(self, named: str | None = None) -> list[str]:
        return self._said(self.past.undo(int(named) if named else None), is_redo=False)

    def redo(self, named: str | None = None) -> list[str]:
        return self._said(self.past.undo(int(named) if named else None, redo=True), is_redo=True)

    def _said(self, done: tuple[int, PutBack], *, is_redo: bool) -> list[str]:
        turn, back = f"Turn {done[0]} (add it)", done[1]
        told: str = put_back_words(turn, back, is_redo=is_redo)["text/plain"]
        return told.splitlines()


async def test_undone_part_is_reported_truthfully(desk: Desk) -> None:
    shown = Shown(desk)
    await desk.mine("x = 1")
    await desk.turn("1", "x = x + 1")
    await desk.turn("2", "x = x * 10")
    left, stays = "Kept, as changed or used since: x", "It stays on record: try again once you have"
    assert shown.undo("1") == [
        f"Turn 1 (add it): nothing is undone. {stays} undone what came since.",
        left,
    ]
    assert shown.journal.events("1") == ()
    for number in (2, 1):
        assert shown.undo() == [
            f"Turn {number} (add it) is undone. %agent redo re-applies it.",
            "Restored: x",
        ]
    assert shown.redo("2") == [
        f"Turn 2 (add it): nothing is re-applied. {stays} re-applied the turns before it.",
        left,
    ]
    assert shown.redo()[0] == "Turn 1 (add it) is re-applied. %agent undo takes it back."
    assert shown.redo()[0] == "Turn 2 (add it) is re-applied. %agent undo takes it back."
    written = shown.journal.select("SELECT run_id FROM events ORDER BY seq")
    assert [run_id for (run_id,) in written] == ["2", "1", "1", "2"]
    assert desk["x"] == 20


async def test_unused_new_opaque_object_is_removed(desk: Desk) -> None:
    await desk.turn("t", "import io\nmade = io.StringIO()\nmade.write('agent')", "made.seek(0)")
    await desk.mine("other = 1")
    assert desk.undo("t") == PutBack(removed=("made",))


async def test_turns_imports_stay_silently(desk: Desk) -> None:
    await desk.turn("t", "import json as j\nfrom collections import OrderedDict\nx = j.dumps(1)")
    assert [*desk.changes.diff("t")] == ["x"]
    assert desk.undo("t") == PutBack(removed=("x",))
    await desk.mine("y = j.dumps(2), OrderedDict")
    await desk.turn("u", "import math")
    assert "u" not in desk.changes.runs()


async def test_versions_stay_unique_across_undo_and_redo(desk: Desk) -> None:
    ledger = desk.executor.origin_ledger
    await desk.mine("a = [1]")
    await desk.turn("t", "a.append(2)", "a = [3]; b = a")
    newest = ledger.version("a")
    desk.undo("t")
    assert ledger.version("a") == 1
    desk.redo("t")
    origin = ledger.get("a")
    assert origin is not None
    assert (origin.version, origin.code.strip()) == (newest, "a = [3]; b = a")
    await desk.mine("a = 5")
    assert ledger.version("a") == newest + 1


async def test_oldest_turns_are_forgotten(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_TURNS", 2)
    for number in range(3):
        await desk.turn(f"t{number}", f"a = {number}")
    assert list(desk.changes.runs()) == ["t1", "t2"]
    desk.undo("t2")
    assert [list(desk.changes.runs()), list(desk.changes.runs(undone=True))] == [["t1"], ["t2"]]
    monkeypatch.setattr(limits, "MOST_BYTES", 10_000)
    await desk.mine("big = bytearray(100_000)")
    await desk.turn("t3", "big = None")
    assert list(desk.changes.runs()) == ["t3"]
    assert desk.undo("t3").restored == ("big",)


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        ("total = df.sum()", 0),
        ("df['z'] = 1.0", 0),
        ("df.iloc[0, 0] = 1.0", 0),
        ("df[:] = 1.0", 32_000),
    ],
)
async def test_turn_keeps_only_its_own_memory(desk: Desk, code: str, kept: int) -> None:
    await desk.mine("import numpy as np\ndf = pd.DataFrame(np.zeros((1000, 4)))")
    await desk.turn("t", code)
    size = sum(change.size for change in desk.changes._by_run["t"].changes)
    assert kept <= size < kept + 1_000
