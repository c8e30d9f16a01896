"""A namespace goes back to an earlier state: bindings, and what was changed in place."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from lineage_desk import Desk

from parsimony_kernel.lineage import copies
from parsimony_kernel.lineage.checkpoint import Checkpoints, PutBack
from parsimony_kernel.lineage.ledger import OriginLedger


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_overwritten_import_is_restored(desk: Desk) -> None:
    await desk.act("import json")
    number = desk.checkpoints.take()
    await desk.act("json = 5; pd = 6")
    desk.checkpoints.put_back(number)
    assert await desk.act("json.dumps(pd.DataFrame().to_dict())") == ""


@pytest.mark.parametrize(
    ("setting", "code", "lost"),
    [
        ("text = 'x'; lines = iter([1, 2])", "big[0] = 1; lines.state = 1", ("big", "lines")),
        ("lines = iter([1, 2])", "total = big.sum(); first = next(lines)", ("lines",)),
        ("def f(a):\n    a[0] = 1", "f(big)", ("big",)),
    ],
)
async def test_uncopied_changes_are_named(
    desk: Desk, setting: str, code: str, lost: tuple[str, ...]
) -> None:
    await desk.act(f"big = np.zeros(1000)\n{setting}")
    desk.checkpoints._room = copies.Room(bytes=100)
    number = desk.checkpoints.take()
    await desk.act(code)
    assert desk.checkpoints.put_back(number).lost == lost


@pytest.mark.parametrize(
    ("setting", "code", "named"),
    [
        ("import logging; log = logging.getLogger('a')", "log.setLevel(10)", "log"),
        ("import logging; log = logging.getLogger('a')", "log.info(1)", ""),
        ("import types; own = types.ModuleType('own')", "own.size = 5", "own"),
        ("import numpy as np", "np.append([1], 2); np.char.add(['a'], ['b'])", ""),
        ("import sys", "sys.path.append('a'); sys.path.pop()", "sys"),
        ("import collections.abc as abc", "abc.Sized.register(type('A', (), {}))", "abc"),
        ("import abc\nclass A(abc.ABC): pass", "A.register(type('B', (), {}))", "A"),
        ("import abc\nclass A(abc.ABC): pass", "@A.register\nclass B: pass", "A"),
        ("import abc\nclass A(abc.ABC): pass", "A.size = 5", ""),
        (
            "import typing\nclass A(typing.NamedTuple): n: int",
            "def f(n): return A(n)\nb = f(1)",
            "",
        ),
    ],
)
async def test_shared_setting_is_named(desk: Desk, setting: str, code: str, named: str) -> None:
    await desk.act(setting)
    desk.checkpoints.take()
    told = (await desk.executor.execute(code)).stderr
    assert told == (f"Undo can't restore {named}: it is shared by all code.\n" if named else "")


async def test_read_only_array_is_writable_again(desk: Desk) -> None:
    await desk.act("a = np.arange(3)")
    number = desk.checkpoints.take()
    await desk.act("a[0] = 5; a.flags.writeable = False")
    assert desk.checkpoints.put_back(number).restored == ("a",)
    assert desk.ask("(a.flags.writeable, a.tolist())") == desk.ask("(True, [0, 1, 2])")


async def test_object_of_a_class_without_a_module_is_handed_on(desk: Desk) -> None:
    await desk.act("import math; odd = type('Odd', (), {'__module__': None})()")
    number = desk.checkpoints.take()
    await desk.act("try:\n    math.floor(odd)\nexcept TypeError:\n    told = 1")
    assert not desk.checkpoints.put_back(number).lost
    assert "told" not in desk.names


async def test_read_only_big_value_takes_no_space(desk: Desk) -> None:
    await desk.act("big = list(range(400_000)); rows = [1]")
    number = desk.checkpoints.take()
    before = desk.checkpoints._room.bytes
    await desk.act("total = sum(big)")
    assert desk.checkpoints._room.bytes == before
    await desk.act("rows.append(2); big.append(1)")
    assert desk.checkpoints.put_back(number).restored == ("big", "rows")
    assert len(desk.names["big"]) == 400_000


@pytest.mark.parametrize(
    "code", ["made = pd.DataFrame({'a': [1]})", "def made(): pass", "class made: pass"]
)
async def test_undo_keeps_no_new_object_alive(code: str) -> None:
    import gc
    import weakref

    desk = Desk()
    change = await desk.change(code)
    alive = weakref.ref(desk.names["made"])
    await desk.act("del made")
    for _ in range(3):  # a class lies in a cycle, of which one pass may leave some
        gc.collect()
    assert alive() is None
    assert desk.checkpoints.undo(change)[0] == PutBack(kept=("made",))


def test_copies_of_a_run_share_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    namespace: dict[str, Any] = {"a": np.zeros(100), "b": np.zeros(100)}
    checkpoints = Checkpoints(lambda: namespace, lambda: namespace, OriginLedger())
    checkpoints._room = copies.Room(bytes=1000)
    checkpoints.take()
    checkpoints.protect("a[0] = 1")
    checkpoints.take()
    checkpoints.protect("b[0] = 1")
    namespace["b"][0] = 1
    assert checkpoints.put_back(0).lost == ("b",)


def test_frame_copy_costs_nothing() -> None:
    room = copies.Room(bytes=1_000)
    held = copies.Copies()
    frame = pd.DataFrame({"a": np.zeros(1_000_000)})
    lazily = int(pd.__version__.partition(".")[0]) >= 3
    assert held.keep(frame, room) is (copies.Kept.YES if lazily else copies.Kept.NO_ROOM)


def test_no_user_code_runs() -> None:
    ran: list[str] = []

    class Watch:
        def __eq__(self, other: object) -> bool:
            ran.append("eq")
            return True

        def __deepcopy__(self, memo: Any) -> "Watch":
            ran.append("copy")
            return self

        __hash__ = object.__hash__

    Watch.__module__ = "__main__"
    namespace: dict[str, Any] = {"xs": [Watch()], "w": Watch(), "o": SimpleNamespace()}
    checkpoints = Checkpoints(lambda: namespace, lambda: namespace, OriginLedger())
    checkpoints.take()
    checkpoints.protect("xs.append(1); w.x = 1; o.y = 1")
    namespace["xs"].append(1)
    namespace["w"].x = 1
    assert checkpoints.put_back(0).restored == ("w", "xs")
    assert ran == []


# A person's cell, the agent's, the person's later one, and what must stand after the undo.
NESTED = ("d = {'k': [1]}", "d['k'].append('agent')")
LATER = {
    "in a list of a dict": (*NESTED, "d['k'].append('mine')", "d['k']", [1, "agent", "mine"]),
    "an attribute of an object in a list": (
        "class O: pass\no = O()\no.qty = 1\norders = [o]", "orders[0].qty = 2",
        "orders[0].qty = 900", "o.qty", 900,
    ),
    "through a function": (
        "rows = [1]\ndef add(x): rows.append(x)", "rows.append('agent')", "add('mine')",
        "rows", [1, "agent", "mine"],
    ),
    "through an alias": (*NESTED, "x = d['k']\nx.append('mine')", "d['k']", [1, "agent", "mine"]),
    "a column through a function": (
        "df = pd.DataFrame({'a': [1]})\ndef label(f): f['b'] = 2", "df['a'] = 5", "label(df)",
        "list(df.columns)", ["a", "b"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LATER)
async def test_users_later_changes_are_kept(desk: Desk, case: str) -> None:
    setting, agents, mine, probe, wanted = LATER[case]
    await desk.run(setting)
    change = await desk.change(agents)
    await desk.run(mine)
    back = desk.checkpoints.undo(change)[0]
    assert back.kept
    assert desk.ask(probe) == desk.ask(repr(wanted))


async def test_incomparable_object_breaks_nothing(desk: Desk) -> None:
    await desk.act(
        "class Evil:\n    def __eq__(self, other): raise RuntimeError('no')\n"
        "    __hash__ = None\ndf = pd.DataFrame({'o': [1]}, dtype=object)"
    )
    number = desk.checkpoints.take()
    await desk.act("df['o'] = [Evil()]; xs = [Evil()]; xs.append(Evil())")
    assert "df" in desk.checkpoints.put_back(number, keep_new=True).restored
    await desk.act("df['o'] = [Evil()]")
    change = desk.checkpoints.close()
    assert change is not None
    assert "df" in desk.checkpoints.undo(change)[0].restored
    assert desk.ask("df['o'].tolist()") == desk.ask("[1]")


async def test_two_runs_on_one_executor_are_isolated(desk: Desk) -> None:
    await desk.run("rows = [1]")
    other = desk.executor.checkpoints()
    number = desk.checkpoints.take()
    other.take()
    await desk.act("rows.append(2)")
    other.close()
    assert desk.checkpoints.put_back(number) == PutBack(restored=("rows",))


async def test_big_array_is_copied_for_first_and_newest_only(desk: Desk) -> None:
    await desk.run("a = np.zeros(5_000_000)")
    first = desk.checkpoints.take()
    for step in range(1, 8):
        number = desk.checkpoints.take()
        await desk.act(f"a[0] = {step}")
    assert desk.checkpoints.put_back(number).lost == ()
    assert desk.ask("float(a[0])") == desk.ask("6.0")
    assert desk.checkpoints.put_back(first).lost == ()
    assert desk.ask("float(a[0])") == desk.ask("0.0")


async def test_unbound_object_is_not_kept_forever(desk: Desk) -> None:
    first = desk.checkpoints.take()
    taken = []
    for _ in range(7):
        await desk.act("big = np.empty(30_000_000)")  # 240 MB that nobody touches
        taken.append(desk.checkpoints.take())
    assert [number in desk.checkpoints for number in taken] == [False] * 6 + [True]
    assert desk.checkpoints.put_back(first) == PutBack(removed=("big",))
