"""A namespace goes back to an earlier state: bindings, and what was changed in place."""

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lineage_desk import Desk

from parsimony_kernel.lineage import copies
from parsimony_kernel.lineage.checkpoint import Checkpoints, PutBack
from parsimony_kernel.lineage.ledger import OriginLedger


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


SETTING = """
import collections
df = pd.DataFrame({"a": [1, 2, 3]})
same = df
column = pd.Series([1.0, 2.0])
numbers = np.arange(4.0)
rows = [1, [2]]
index = {"df": df, "nested": {"k": 1}}
seen = {1}
raw = bytearray(b"ab")
queue = collections.deque([1])
pair = (rows, 0)

class Holder:
    pass

holder = Holder()
holder.value = [1]
"""


def snapshot(desk: Desk) -> dict[str, Any]:
    """What every variable of ``SETTING`` holds, as plain values."""
    return {
        "df": desk.names["df"].to_csv(),
        "same": desk.names["same"] is desk.names["df"],
        "held": desk.names["index"]["df"] is desk.names["df"],
        "column": desk.names["column"].tolist(),
        "numbers": desk.names["numbers"].tolist(),
        "rows": [desk.names["rows"][0], list(desk.names["rows"][1])],
        "nested": dict(desk.names["index"]["nested"]),
        "seen": set(desk.names["seen"]),
        "raw": bytes(desk.names["raw"]),
        "queue": list(desk.names["queue"]),
        "pair": desk.names["pair"][0] is desk.names["rows"],
        "holder": list(desk.names["holder"].value),
    }


CHANGES = {
    "a column is added": "df['z'] = 1",
    "cells are set": "df.loc[0, 'a'] = 9",
    "one cell is set": "df.at[1, 'a'] = 9",
    "an alias is changed": "same['z'] = 1",
    "a frame in a dict is changed": "index['df']['z'] = 1",
    "rows are dropped in place": "df._update_inplace(df.iloc[:1])",
    "columns are renamed": "df.columns = ['q']",
    "a name is bound anew": "df = df.assign(z=1)",
    "a name is deleted": "del df",
    "a series is set": "column.iloc[0] = 7",
    "an array is set": "numbers[0] = 9",
    "an array is filled": "numbers.fill(3)",
    "a list grows": "rows.append(3)",
    "a nested list grows": "rows[1].append(3)",
    "a list in a tuple grows": "pair[0].append(3)",
    "a list is multiplied": "rows *= 2",
    "a dict is updated": "index['nested']['k'] = 2",
    "a dict is cleared": "index.clear()",
    "a set grows": "seen.add(2)",
    "bytes are set": "raw[0] = 0",
    "a deque grows": "queue.append(2)",
    "an attribute is set": "holder.value = 3",
    "a list in an attribute grows": "holder.value.append(2)",
    "a function changes a global": "def f():\n    rows.append(9)\n    df['f'] = 1\nf()",
    "a frame is changed in a function": "def g(frame):\n    frame['g'] = 1\ng(df)",
    "all at once": "df['z'] = 1; rows.clear(); seen.pop(); numbers *= 0; del column, raw",
}


@pytest.mark.parametrize("code", CHANGES.values(), ids=CHANGES.keys())
async def test_what_code_changed_is_as_it_was_twice_and_after_an_undo(
    desk: Desk, code: str
) -> None:
    await desk.act(SETTING)
    before = snapshot(desk)
    number = desk.checkpoints.take()
    for _ in range(2):
        assert await desk.act(code) == ""
        back = desk.checkpoints.put_back(number)
        assert back.restored
        assert not back.lost
        assert snapshot(desk) == before
    await desk.act(code)
    change = desk.checkpoints.close()
    assert change is not None
    back = desk.checkpoints.undo(change)[0]
    assert back.restored
    assert not back.kept
    assert snapshot(desk) == before


STATEMENTS = st.lists(st.sampled_from(sorted(CHANGES.values())), min_size=1, max_size=4)


@given(STATEMENTS, STATEMENTS)
async def test_any_sequence_goes_back_to_any_checkpoint(first: list[str], then: list[str]) -> None:
    desk = Desk()
    await desk.act(SETTING)
    states = []
    for code in [*first, *then]:
        try:
            states.append((desk.checkpoints.take(), snapshot(desk)))
        except (KeyError, TypeError, AttributeError):
            break  # a variable of the setting is gone or another thing by now
        await desk.act(code)
    for number, before in reversed(states):
        desk.checkpoints.put_back(number)
        assert snapshot(desk) == before


async def test_new_names_are_removed_or_kept(desk: Desk) -> None:
    number = desk.checkpoints.take()
    await desk.act("x = 1")
    assert desk.checkpoints.put_back(number, keep_new=True) == PutBack(kept=("x",))
    assert "x" in desk.names
    assert desk.checkpoints.put_back(number) == PutBack(removed=("x",))
    assert "x" not in desk.names


async def test_an_import_that_was_overwritten_is_there_again(desk: Desk) -> None:
    await desk.act("import json")
    number = desk.checkpoints.take()
    await desk.act("json = 5; pd = 6")
    desk.checkpoints.put_back(number)
    assert await desk.act("json.dumps(pd.DataFrame().to_dict())") == ""


async def test_nothing_changed_is_nothing_put_back(desk: Desk) -> None:
    await desk.act(SETTING)
    number = desk.checkpoints.take()
    await desk.act("df.a.sum(), rows[0], sorted(seen)")
    assert not desk.checkpoints.put_back(number)
    assert desk.checkpoints.close() is None


async def test_what_cannot_be_copied_is_named(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await desk.act("big = np.zeros(1000); text = 'x'; lines = iter([1, 2])")
    desk.checkpoints._room = copies.Room(bytes=100)
    number = desk.checkpoints.take()
    await desk.act("big[0] = 1; lines.state = 1")
    assert desk.checkpoints.put_back(number).lost == ("big", "lines")


async def test_of_what_is_only_read_an_iterator_alone_is_named(desk: Desk) -> None:
    await desk.act("big = np.zeros(1000); lines = iter([1, 2])")
    desk.checkpoints._room = copies.Room(bytes=100)
    number = desk.checkpoints.take()
    await desk.act("total = big.sum(); first = next(lines)")
    back = desk.checkpoints.put_back(number)
    assert back == PutBack(removed=("first", "total"), lost=("lines",))


async def test_what_a_function_of_the_persons_was_handed_is_named(desk: Desk) -> None:
    await desk.act("big = np.zeros(1000)\ndef f(a):\n    a[0] = 1")
    desk.checkpoints._room = copies.Room(bytes=100)
    number = desk.checkpoints.take()
    await desk.act("f(big)")
    assert desk.checkpoints.put_back(number).lost == ("big",)


async def test_a_big_value_that_is_only_read_takes_no_room(desk: Desk) -> None:
    await desk.act("big = list(range(1_000_000)); rows = [1]")
    room = desk.checkpoints._room
    number = desk.checkpoints.take()
    before = room.bytes
    await desk.act("total = sum(big)")
    assert room.bytes == before
    await desk.act("rows.append(2); big.append(1)")
    assert desk.checkpoints.put_back(number).restored == ("big", "rows")
    assert len(desk.names["big"]) == 1_000_000


async def test_the_ledger_goes_back_and_gives_no_version_twice(desk: Desk) -> None:
    ledger = desk.executor.origin_ledger
    await desk.act("x = [1]")
    number = desk.checkpoints.take()
    await desk.act("x = [2]")
    assert ledger.version("x") == 2
    desk.checkpoints.put_back(number)
    assert ledger.version("x") == 1
    origin = ledger.get("x")
    assert origin is not None
    assert origin.code == "x = [1]"
    await desk.act("x = [3]")
    assert ledger.version("x") == 3


async def test_a_name_that_the_person_changed_since_is_left_by_an_undo(desk: Desk) -> None:
    await desk.act("x = 1; rows = [1]; y = 1")
    desk.checkpoints.take()
    await desk.act("x = 2; rows.append(2); y = 2; z = 3")
    change = desk.checkpoints.close()
    assert change is not None
    await desk.act("x = 5; rows.append(3); del z")
    back = desk.checkpoints.undo(change)[0]
    assert back == PutBack(restored=("y",), kept=("rows", "x", "z"))
    assert (desk.names["x"], desk.names["rows"], desk.names["y"], "z" in desk.names) == (
        5,
        [1, 2, 3],
        1,
        False,
    )


async def test_an_undo_keeps_nothing_alive_that_a_turn_made() -> None:
    import gc
    import weakref

    desk = Desk()
    desk.checkpoints.take()
    await desk.act("made = pd.DataFrame({'a': [1]})")
    alive = weakref.ref(desk.names["made"])
    change = desk.checkpoints.close()
    await desk.act("del made")
    gc.collect()
    assert change is not None
    assert alive() is None
    assert desk.checkpoints.undo(change)[0] == PutBack(kept=("made",))


def test_no_method_of_a_subclass_is_called() -> None:
    class Hostile(pd.DataFrame):
        def copy(self, deep: bool = True) -> Any:
            raise RuntimeError("no")

        def equals(self, other: object) -> bool:
            raise RuntimeError("no")

    frame = Hostile({"a": [1]})
    held = copies.Copies()
    assert held.keep(frame, copies.Room()) is copies.Kept.YES
    frame["b"] = 2
    (copy,) = held.changed().values()
    copy.set_back()
    assert list(frame.columns) == ["a"]


def test_a_cycle_is_copied_once() -> None:
    loop: list[Any] = []
    loop.append(loop)
    held = copies.Copies()
    assert held.keep(loop, copies.Room()) is copies.Kept.YES
    loop.clear()
    for copy in held.by_id.values():
        copy.set_back()
    assert loop[0] is loop


@pytest.mark.parametrize(
    "made",
    [
        lambda: OrderedDict(a=1),
        lambda: defaultdict(list, a=[1]),
        lambda: Counter("aab"),
        lambda: deque([1, 2], maxlen=2),
    ],
)
def test_a_container_keeps_its_class_and_its_ways(made: Callable[[], Any]) -> None:
    value, wanted = made(), made()
    held = copies.Copies()
    assert held.keep(value, copies.Room()) is copies.Kept.YES
    value.clear()
    held.by_id[id(value)].set_back()
    assert value == wanted
    assert type(value) is type(wanted)
    assert getattr(value, "default_factory", None) is getattr(wanted, "default_factory", None)
    assert getattr(value, "maxlen", None) == getattr(wanted, "maxlen", None)


def test_an_array_of_another_shape_is_replaced() -> None:
    namespace: dict[str, Any] = {"a": np.zeros(3)}
    checkpoints = Checkpoints(lambda: namespace, lambda: namespace, OriginLedger())
    checkpoints.take()
    checkpoints.protect("a.resize(5)")
    namespace["a"].resize(5, refcheck=False)
    assert checkpoints.put_back(0).restored == ("a",)
    assert namespace["a"].shape == (3,)


def test_the_copies_of_a_run_have_one_room(monkeypatch: pytest.MonkeyPatch) -> None:
    namespace: dict[str, Any] = {"a": np.zeros(100), "b": np.zeros(100)}
    checkpoints = Checkpoints(lambda: namespace, lambda: namespace, OriginLedger())
    checkpoints._room = copies.Room(bytes=1000)
    checkpoints.take()
    checkpoints.protect("a[0] = 1")
    checkpoints.take()
    checkpoints.protect("b[0] = 1")
    namespace["b"][0] = 1
    assert checkpoints.put_back(0).lost == ("b",)


def test_a_frame_costs_nothing_to_keep() -> None:
    room = copies.Room(bytes=0)
    held = copies.Copies()
    frame = pd.DataFrame({"a": np.zeros(1000)})
    lazily = int(pd.__version__.partition(".")[0]) >= 3
    assert held.keep(frame, room) is (copies.Kept.YES if lazily else copies.Kept.NO_ROOM)


def test_no_code_of_a_persons_runs() -> None:
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
