"""What a turn did to the variables is told: bindings, and the shape of tables."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from lineage_desk import Desk

from parsimony_kernel.lineage.checkpoint import ABSENT
from parsimony_kernel.lineage.diff import line_of, of_changes, short


def between(before: Any, after: Any) -> str:
    """What is told of a name that was bound to ``before`` and is to ``after``."""
    return line_of("x", (before, after), {}, {})


# A person's setting, the steps of a turn, and what is told of it.
TOLD: dict[str, tuple[str, tuple[str, ...], list[str]]] = {
    "by binding": (
        "df = pd.DataFrame({'a': [1, 2, 3]}); rows = [1]; old = 'x'; n = 1; same = 5",
        (
            "df.loc[1, 'a'] = 9; df['b'] = 0",
            "rows.append(2); del old; new = {'k': 1}; n = 2; _private = 1",
        ),
        [
            "~ df: DataFrame, 3 × 1 → DataFrame, 3 × 2, changed in place",
            "~ n: 1 → 2",
            "+ new: dict of 1",
            "- old: 'x'",
            "~ rows: list of 1 → list of 2, changed in place",
        ],
    ),
    "through every holder": (
        "class Box: pass\nbox = Box()\nbox.df = pd.DataFrame({'a': [1]})\n"
        "d = {'box': [box], 'other': 1}\ndf = box.df",
        ("d['box'][0].df.loc[0, 'a'] = 5",),
        [
            "~ box: Box, changed in place",
            "~ d: dict of 2, changed in place",
            "~ df: DataFrame, 1 × 1, changed in place",
        ],
    ),
    "an equal value": (
        "df = pd.DataFrame({'a': [1.0, None]})",
        ("df = df.copy()",),
        ["~ df: DataFrame, 2 × 1, bound anew"],
    ),
    "what is not known": (
        "lines = iter([1, 2])",
        ("next(lines)",),
        ["? lines: perhaps changed (there was no copy)"],
    ),
}


@pytest.mark.parametrize("how", TOLD)
async def test_turn_is_described(how: str) -> None:
    setting, steps, lines = TOLD[how]
    desk = Desk()
    await desk.mine(setting)
    await desk.turn("t", *steps)
    assert desk.changes.diff("t").lines() == lines


async def test_discarded_value_is_gone() -> None:
    desk = Desk()
    await desk.mine("df = pd.DataFrame({'a': [1]})")
    change = await desk.change("df = df.assign(b=1)")
    await desk.mine("df = 5; import gc; gc.collect()")
    assert of_changes([change]).lines() == ["~ df: DataFrame, 1 × 1 → no longer there"]


FRAME = pd.DataFrame({"n": [1, 2, 3], "f": [1.0, None, 3.0], "s": ["a", None, "c"]})


def test_frame_replaced_by_other_type_is_described() -> None:
    assert between(FRAME, 5) == "~ x: DataFrame, 3 × 3 → 5"
    assert between(FRAME["n"], FRAME["n"] + 1) == "~ x: Series, 3, bound anew"
    added = pl.from_pandas(FRAME.assign(b=1))
    assert between(pl.from_pandas(FRAME), added) == "~ x: DataFrame, 3 × 3 → DataFrame, 3 × 4"


class Hostile:
    """Every question that it is asked is a failure."""

    def _no(self, *args: Any, **named: Any) -> Any:
        raise SystemError("asked")

    __eq__ = __hash__ = __repr__ = __len__ = __iter__ = __bool__ = _no
    __getattribute__ = __str__ = __format__ = _no


class Key:
    """It can be told from others by its identity alone."""

    def _no(self, *args: Any) -> Any:
        raise SystemError("asked")

    __eq__ = __repr__ = __bool__ = _no
    __hash__ = object.__hash__


class HostileFrame(pd.DataFrame):
    def _no(self, *args: Any) -> Any:
        raise SystemError("asked")

    __len__ = __getitem__ = _no
    shape = property(_no)


def looped() -> list[Any]:
    loop: list[Any] = [1]
    loop.append(loop)
    return loop


def deep(levels: int) -> list[Any]:
    nested: list[Any] = []
    for _ in range(levels):
        nested = [nested]
    return nested


HOSTILE: dict[str, Callable[[], Any]] = {
    "an object": Hostile,
    "in a list": lambda: [1, Hostile()],
    "in a dict": lambda: {"a": Hostile()},
    "as a key": lambda: {Key(): 1},
    "in a set": lambda: {Key()},
    "in a column": lambda: pd.DataFrame({"a": pd.Series([Hostile(), 1], dtype=object)}),
    "in an index": lambda: pd.DataFrame({"a": [1]}, index=pd.Index([Key()], dtype=object)),
    "as a label": lambda: pd.DataFrame([[1]], columns=pd.Index([Key()], dtype=object)),
    "a frame": lambda: HostileFrame({"a": [1]}),
    "in an array": lambda: np.array([Key(), 1], dtype=object),
    "in a frozenset": lambda: frozenset([Key()]),
    "in a slice": lambda: slice(Key(), None),
    "a loop": looped,
    "a deep nest": lambda: deep(50_000),
    "a long text": lambda: "x" * 10_000_000,
    "a huge number": lambda: 10**100_000,
    "a class": lambda: type("C", (), {}),
    "control characters": lambda: ["\x1b[31m\n"],
    "a huge list": lambda: list(range(3_000_000)),
    "nan": lambda: [float("nan"), pd.NA, pd.NaT, np.float64("nan")],
    "a lone surrogate": lambda: "\ud800",
}


@pytest.mark.parametrize("other", ["the same kind", "nothing", "a frame", "itself"])
@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_values_break_nothing(what: str, other: str) -> None:
    before = HOSTILE[what]()
    after: Any = {"the same kind": HOSTILE[what], "nothing": lambda: None}.get(
        other, lambda: FRAME if other == "a frame" else before
    )()
    lines = [between(before, after), between(ABSENT, before)]
    assert max(map(len, lines)) < 300
    assert not any(char in line for line in lines for char in "\x1b\n")


def test_value_descriptions_are_short() -> None:
    assert short("x" * 1_000).startswith("'xxx")
    assert len(short("x" * 1_000)) == 60
    assert len(short(10**1_000)) == 60
    assert short(np.float64(1.5)) == "1.5"
    assert short(np.zeros((2, 3))) == "array of float64, 2 × 3"
    assert short(pd.Timestamp("2020-01-02")) == "2020-01-02 00:00:00"
    assert short(int) == "class int"
