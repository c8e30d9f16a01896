"""What a turn did to the variables is told: bindings, and what differs inside them."""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.execution.private import CodeExecutor
from parsimony_kernel.lineage import diff
from parsimony_kernel.lineage.checkpoint import ABSENT
from parsimony_kernel.lineage.diff import Comparison, Diff, of_changes, short


def between(before: Any, after: Any) -> list[str]:
    """What is told of a name that was bound to ``before`` and is to ``after``."""
    return [line.strip() for line in Comparison({}, {}).binding("x", before, after)]


async def ran(setting: str, *steps: str) -> Diff:
    """What is told of a turn that ran ``steps`` after a person's ``setting``."""
    executor = CodeExecutor()
    checkpoints = executor.checkpoints()
    assert (await executor.execute(setting)).error is None
    checkpoints.take()
    for code in steps:
        output = await executor.execute(code)
        assert output.error is None, output.error
        checkpoints.take()
    change = checkpoints.close()
    return Diff() if change is None else of_changes([change])


async def test_a_turn_is_told_by_binding() -> None:
    found = await ran(
        "df = pd.DataFrame({'a': [1, 2, 3]}); rows = [1]; old = 'x'; n = 1; same = 5",
        "df.loc[1, 'a'] = 9; df['b'] = 0",
        "rows.append(2); del old; new = {'k': 1}; n = 2; _private = 1",
    )
    assert found.lines() == [
        "~ df: DataFrame, 3 × 1 → DataFrame, 3 × 2, changed in place",
        "    column added: 'b'",
        "    1 cell changed",
        "      row 1, column 'a': 2 → 9",
        "~ n: 1 → 2",
        "+ new: dict of 1",
        "- old: 'x'",
        "~ rows: list of 1 → list of 2, changed in place",
        "    1 item added",
    ]


async def test_what_is_nested_is_found_through_all_that_holds_it() -> None:
    found = await ran(
        "class Box: pass\nbox = Box()\nbox.df = pd.DataFrame({'a': [1]})\n"
        "d = {'box': [box], 'other': 1}\ndf = box.df",
        "d['box'][0].df.loc[0, 'a'] = 5",
    )
    assert found.lines() == [
        "~ box: Box, changed in place",
        "~ d: dict of 2, changed in place",
        "~ df: DataFrame, 1 × 1, changed in place",
        "    1 cell changed",
        "      row 0, column 'a': 1 → 5",
    ]


async def test_a_value_like_the_one_before_is_bound_anew() -> None:
    found = await ran("df = pd.DataFrame({'a': [1.0, None]})", "df = df.copy()")
    assert found.lines() == ["~ df: DataFrame, 2 × 1, bound anew"]


async def test_what_nobody_knows_is_said_to_be_unknown() -> None:
    found = await ran("lines = iter([1, 2])", "next(lines)")
    assert found.lines() == ["? lines: perhaps changed, for there was no copy"]


async def test_what_a_person_has_thrown_away_since_is_no_longer_there() -> None:
    executor = CodeExecutor()
    checkpoints = executor.checkpoints()
    await executor.execute("df = pd.DataFrame({'a': [1]})")
    checkpoints.take()
    await executor.execute("df = df.assign(b=1)")
    change = checkpoints.close()
    assert change is not None
    await executor.execute("df = 5")
    assert of_changes([change]).lines() == ["~ df: DataFrame, 1 × 1 → no longer there"]


FRAME = pd.DataFrame({"n": [1, 2, 3], "f": [1.0, None, 3.0], "s": ["a", None, "c"]})


def frames(before: Any, after: Any) -> list[str]:
    """What is told inside a frame."""
    return between(before, after)[1:]


# How a frame is changed, and what is told of it.
FRAMES: dict[str, tuple[Callable[[pd.DataFrame], pd.DataFrame], list[str]]] = {
    "nothing": (lambda df: df.copy(), []),
    "a column added": (lambda df: df.assign(z=1), ["column added: 'z'"]),
    "a column gone": (lambda df: df.drop(columns="n"), ["column removed: 'n'"]),
    "a column renamed": (
        lambda df: df.rename(columns={"n": "m"}),
        ["column added: 'm'", "column removed: 'n'"],
    ),
    "another type": (lambda df: df.astype({"n": "float64"}), ["column 'n': int64 → float64"]),
    "a nullable type": (lambda df: df.astype({"n": "Int64"}), ["column 'n': int64 → Int64"]),
    "a categorical": (lambda df: df.astype({"s": "category"}), ["column 's': str → category"]),
    "a cell": (
        lambda df: df.assign(n=[1, 9, 3]),
        ["1 cell changed", "row 1, column 'n': 2 → 9"],
    ),
    "a missing cell filled": (
        lambda df: df.fillna({"f": 2.0, "s": "b"}),
        [
            "2 cells changed",
            "row 1, column 'f': missing → 2.0",
            "row 1, column 's': missing → 'b'",
        ],
    ),
    "a row dropped": (lambda df: df.drop(index=1), ["rows: 0 added, 1 removed"]),
    "a row added": (
        lambda df: pd.concat([df, df.iloc[:1].set_axis([7])]),
        ["rows: 1 added, 0 removed"],
    ),
    "another order": (lambda df: df.iloc[::-1], ["rows in another order"]),
    "a cell beside a dropped row": (
        lambda df: df.drop(index=0).assign(n=[2, 9]),
        ["rows: 0 added, 1 removed", "1 cell changed", "row 2, column 'n': 3 → 9"],
    ),
}


@pytest.mark.parametrize("how", FRAMES)
def test_what_differs_between_two_frames(how: str) -> None:
    change, wanted = FRAMES[how]
    assert frames(FRAME, change(FRAME)) == wanted


CELLS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.binary(max_size=2)
)


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8))
def test_cells_are_counted_as_one_by_one(pairs: list[tuple[Any, Any]]) -> None:
    def same(one: Any, other: Any) -> bool:
        if one is None or (isinstance(one, float) and one != one):
            return other is None or (isinstance(other, float) and bool(other != other))
        numbers = {type(one), type(other)} <= {int, float}
        return bool((numbers or type(one) is type(other)) and one == other)

    before, after = (pd.Series(list(each), dtype=object) for each in zip(*pairs, strict=True))
    count = sum(not same(*pair) for pair in pairs)
    told = [f"{count:,} cell{'s' * (count > 1)} changed"] if count else []
    assert frames(before, after)[:1] == told


def test_duplicate_labels_are_compared_by_place() -> None:
    before = pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"], index=[0, 0])
    after = pd.DataFrame([[1, 2], [3, 9]], columns=["a", "a"], index=[0, 0])
    assert frames(before, after)[1:] == ["row 0, column 'a': 4 → 9"]
    assert frames(before, after.iloc[:1]) == [
        "The rows cannot be matched, so their cells are not compared."
    ]


def test_a_table_of_many_rows_in_another_order_is_not_told_as_changed() -> None:
    before = pd.DataFrame({"a": np.arange(600_000)})
    cannot = ["The rows cannot be matched, so their cells are not compared."]
    assert frames(before, before.iloc[::-1]) == cannot
    assert frames(before, before.assign(b=1)) == ["column added: 'b'"]


@pytest.mark.parametrize("tz", [None, "UTC"])
def test_times_and_missing_times_are_compared(tz: str | None) -> None:
    before = pd.Series(pd.to_datetime(["2020-01-01", None, "2020-01-03"])).dt.tz_localize(tz)
    after = before.copy()
    assert not frames(before, after)
    after.iloc[1] = pd.Timestamp("2021-01-01", tz=tz)
    assert frames(before, after)[0] == "1 cell changed"


def test_labels_of_several_levels_are_matched() -> None:
    index = pd.MultiIndex.from_product([["a", "b"], [1, 2]])
    before = pd.DataFrame({"x": range(4)}, index=index)
    found = frames(before, before.drop(index=("a", 2)).assign(x=[0, 2, 9]))
    assert found[:2] == ["rows: 0 added, 1 removed", "1 cell changed"]
    assert found[2].startswith("row tuple of 2, ")


def test_what_shares_its_memory_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diff, "MOST", 200)
    before = pd.DataFrame({"a": np.zeros(10_000), "b": ["x"] * 10_000})
    after = before.copy(deep=False)
    after["c"] = 1
    assert frames(before, after) == ["column added: 'c'"]


def test_too_much_is_not_compared_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """And never said to be equal; the limit is shared by all variables."""
    monkeypatch.setattr(diff, "MOST", 200)
    before = pd.DataFrame({"n": np.zeros(30_000)})
    too_many = ["The other cells are too many to compare."]
    assert frames(before, before + 1) == too_many
    assert frames(before, before.copy(deep=True)) == too_many
    small = pd.DataFrame({"n": np.zeros(15_000)})
    compare = Comparison({}, {})
    first, second = (compare.binding(name, small, small + 1) for name in "ab")
    assert first[1] == "    15,000 cells changed"
    assert second[-1] == f"    {too_many[0]}"
    assert between(list(range(1_000)), [*range(1_000), 5])[1:] == ["Not compared: it is too big."]


def test_frames_of_polars_are_compared() -> None:
    before = pl.DataFrame({"a": [1, 2, None], "s": ["x", "y", "z"]})
    after = before.with_columns(pl.Series("a", [1, 5, None]), pl.lit(1).alias("b"))
    assert frames(before, after) == [
        "column added: 'b'",
        "1 cell changed",
        "row 1, column 'a': 2 → 5",
    ]
    assert between(before, before.head(1))[0] == "~ x: DataFrame, 3 × 2 → DataFrame, 1 × 2"


def test_a_frame_that_becomes_something_else_is_told_in_words() -> None:
    assert between(FRAME, 5) == ["~ x: DataFrame, 3 × 3 → 5"]
    assert between(FRAME["n"], FRAME["n"] + 1)[:2] == ["~ x: Series, 3", "3 cells changed"]


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        ([1, 2, 3], [1, 9, 3], (0, 0, 1)),
        ([1, 2, 3], [1, 2, 3, 4], (1, 0, 0)),
        ([1, 2, 3], [1, 2], (0, 1, 0)),
        ([1], [], (0, 1, 0)),
        ({"a": 1, "b": 2}, {"b": 3, "c": 4}, (1, 1, 1)),
        ({1, 2}, {2, 3, 4}, (2, 1, 0)),
        ({"a": [1, {"k": {1}}]}, {"a": [1, {"k": {2}}]}, (0, 0, 1)),
        ((1, [2]), (1, [3]), (0, 0, 1)),
        (deque([1]), deque([1, 2]), (1, 0, 0)),
        (OrderedDict(a=1), OrderedDict(a=2), (0, 0, 1)),
        (np.arange(4), np.array([0, 9, 2, 9]), (0, 0, 2)),
        (np.array([1.0, np.nan]), np.array([2.0, np.nan]), (0, 0, 1)),
    ],
)
def test_items_are_counted(before: Any, after: Any, counts: tuple[int, int, int]) -> None:
    told = [
        f"{count} item{'s' * (count > 1)} {how}"
        for count, how in sorted(
            zip(counts, ("added", "removed", "changed"), strict=True), key=lambda each: each[1]
        )
        if count
    ]
    assert between(before, after)[1] == ", ".join(told)


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
    def __len__(self) -> int:
        raise SystemError("asked")

    @property
    def shape(self) -> Any:
        raise SystemError("asked")

    def __getitem__(self, key: Any) -> Any:
        raise SystemError("asked")


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
def test_nothing_that_a_variable_holds_breaks_it_or_is_asked(what: str, other: str) -> None:
    before = HOSTILE[what]()
    after: Any = {"the same kind": HOSTILE[what], "nothing": lambda: None}.get(
        other, lambda: FRAME if other == "a frame" else before
    )()
    compare = Comparison({}, {})
    lines = [*compare.binding("x", before, after), *compare.binding("z", ABSENT, before)]
    assert len(lines) <= 20
    assert max(map(len, lines)) < 300
    assert not any(char in line for line in lines for char in "\x1b\n")


def test_values_in_words_are_short() -> None:
    assert short("x" * 1_000).startswith("'xxx")
    assert len(short("x" * 1_000)) == 60
    assert len(short(10**1_000)) == 60
    assert short(np.float64(1.5)) == "1.5"
    assert short(np.zeros((2, 3))) == "array of float64, 2 × 3"
    assert short(pd.Timestamp("2020-01-02")) == "2020-01-02 00:00:00"
    assert short(int) == "class int"


BESIDES = {
    "attrs": ("df = pd.DataFrame({'a': [1]})", "df.attrs['u'] = 1", "~ df: DataFrame, 1 × 1"),
    "attrs of a frame in a list": (
        "xs = [pd.DataFrame({'a': [1]})]", "xs[0].attrs['u'] = 1", "~ xs: list of 1",
    ),
    "labels of rows": (
        "df = pd.DataFrame({'a': [1, 2]})", "df.index = ['p', 'q']", "~ df: DataFrame, 2 × 1",
    ),
    "the order of keys": (
        "from collections import OrderedDict\nod = OrderedDict(a=1, b=2)", "od.move_to_end('a')",
        "~ od: OrderedDict",
    ),
    "a slot": (
        "class S:\n    __slots__ = ('v',)\ns = S()\ns.v = 1", "s.v = 2", "~ s: S",
    ),
    "an attribute of a list": (
        "class S(list): pass\ns = S([1])\ns.v = 1", "s.v = 2", "~ s: S",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("setting", "code", "wanted"), BESIDES.values(), ids=BESIDES.keys())
async def test_what_changed_besides_the_content_is_told(
    setting: str, code: str, wanted: str
) -> None:
    lines = [line.removesuffix(", changed in place") for line in (await ran(setting, code)).lines()]
    assert wanted in lines
