"""A namespace goes back to an earlier state: bindings, and what was changed in place."""

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


CHANGES = (
    "df['z'] = 1",
    "df.loc[0, 'a'] = 9",
    "df.at[1, 'a'] = 9",
    "same['z'] = 1",
    "index['df']['z'] = 1",
    "df._update_inplace(df.iloc[:1])",
    "df.columns = ['q']",
    "df = df.assign(z=1)",
    "del df",
    "column.iloc[0] = 7",
    "numbers[0] = 9",
    "numbers.fill(3)",
    "rows.append(3)",
    "rows[1].append(3)",
    "pair[0].append(3)",
    "rows *= 2",
    "index['nested']['k'] = 2",
    "index.clear()",
    "seen.add(2)",
    "raw[0] = 0",
    "queue.append(2)",
    "holder.value = 3",
    "holder.value.append(2)",
    "def f():\n    rows.append(9)\n    df['f'] = 1\nf()",
    "def g(frame):\n    frame['g'] = 1\ng(df)",
    "df['z'] = 1; rows.clear(); seen.pop(); numbers *= 0; del column, raw",
)
STATEMENTS = st.lists(st.sampled_from(CHANGES), min_size=1, max_size=4)


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


@pytest.mark.parametrize(
    ("setting", "code", "lost"),
    [
        ("text = 'x'; lines = iter([1, 2])", "big[0] = 1; lines.state = 1", ("big", "lines")),
        ("lines = iter([1, 2])", "total = big.sum(); first = next(lines)", ("lines",)),
        ("def f(a):\n    a[0] = 1", "f(big)", ("big",)),
    ],
)
async def test_what_may_have_changed_without_a_copy_is_named(
    desk: Desk, setting: str, code: str, lost: tuple[str, ...]
) -> None:
    await desk.act(f"big = np.zeros(1000)\n{setting}")
    desk.checkpoints._room = copies.Room(bytes=100)
    number = desk.checkpoints.take()
    await desk.act(code)
    assert desk.checkpoints.put_back(number).lost == lost


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
