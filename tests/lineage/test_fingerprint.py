"""Whether a value looks otherwise than before."""

import copy
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from parsimony_kernel.lineage.snapshot import MOST_STEPS, Fingerprint


class Thing:
    def __init__(self) -> None:
        self.items = [1]


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {"a": [1, 2], "s": ["x", "y"], "c": pd.Categorical(["u", "v"]), "i": pd.array([1, None])}
    )


KINDS = ["int64", "string", "Int64", "category", "float32"]


def put(target: Any, key: Any, value: Any) -> None:
    target[key] = value


CHANGES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "an item": (lambda: [1, 2], lambda v: put(v, 0, 9)),
    "a float like another": (lambda: [1.5], lambda v: put(v, 0, v[0] + 1)),
    "an inner item": (lambda: {"a": [[1]]}, lambda v: v["a"][0].append(2)),
    "an order": (lambda: {"a": 1, "b": 2}, lambda v: put(v, "a", v.pop("a"))),
    "a set": (lambda: {1}, lambda v: v.add(2)),
    "a deque": (lambda: deque([1, 2]), lambda v: v.rotate(1)),
    "bytes": (lambda: bytearray(b"ab"), lambda v: put(v, 0, 1)),
    "an end of a long list": (lambda: list(range(10_000)), lambda v: v.append(1)),
    "an array": (lambda: np.arange(5), lambda v: put(v, 3, 9)),
    "a shape": (lambda: np.arange(4), lambda v: setattr(v, "shape", (2, 2))),
    "a strided array": (lambda: np.arange(9)[::2], lambda v: put(v, 1, 9)),
    "objects of an array": (lambda: np.array([[1], 2], object), lambda v: v[0].append(1)),
    "all of a big array": (lambda: np.zeros(100_000), lambda v: v.fill(1)),
    "all of a big strided array": (lambda: np.zeros(100_000)[::2], lambda v: v.fill(1)),
    "a number of a frame": (frame, lambda v: put(v.loc, (0, "a"), 9)),
    "a text of a frame": (frame, lambda v: put(v.loc, (0, "s"), "z")),
    "a category of a frame": (frame, lambda v: put(v.loc, (0, "c"), "v")),
    "a missing number of a frame": (frame, lambda v: put(v.loc, (1, "i"), 2)),
    "a column": (frame, lambda v: put(v, "n", 1)),
    "labels": (frame, lambda v: setattr(v, "columns", list("pqrs"))),
    "an index's name": (frame, lambda v: setattr(v.index, "name", "k")),
    "attrs": (frame, lambda v: put(v.attrs, "k", 1)),
    "a series": (lambda: pd.Series([1, 2]), lambda v: put(v.iloc, 0, 5)),
    "a series' name": (lambda: pd.Series([1]), lambda v: setattr(v, "name", "k")),
    "a polars frame": (lambda: pl.DataFrame({"a": [1]}), lambda v: put(v, (0, "a"), 2)),
    "a polars column": (
        lambda: pl.DataFrame({"a": [1]}),
        lambda v: v.insert_column(0, pl.Series("b", [2])),
    ),
    "an object": (Thing, lambda v: v.items.append(2)),
    "a new attribute": (Thing, lambda v: setattr(v, "more", 1)),
}


@pytest.mark.parametrize("case", CHANGES)
def test_change_is_seen_and_no_change_is_not(case: str) -> None:
    make, change = CHANGES[case]
    value = make()
    before = Fingerprint(value)
    assert not before.differs_from(value)
    change(value)
    assert before.differs_from(value)


@pytest.mark.parametrize(
    "value",
    [[1, "a", None], {"a": [1, {2}]}, np.arange(9), frame(), pd.Series([1]), pd.DataFrame()],
    ids=lambda each: type(each).__name__,
)
def test_small_value_is_fingerprinted_whole(value: Any) -> None:
    assert Fingerprint(value).is_whole


@pytest.mark.parametrize(
    "value",
    [
        np.zeros(1_000_000),
        pd.DataFrame(np.zeros((100_000, 5))),
        [[each] for each in range(100_000)],
        {each: [each] for each in range(100_000)},
        pd.concat([pd.Series([1], dtype=each) for each in KINDS * 20], axis=1),
        np.array([[1]] * 50_000 + [2], object),
    ],
    ids=["array", "frame", "list", "dict", "wide", "objects"],
)  # fmt: skip
def test_cost_is_bounded_and_omissions_reported(value: Any) -> None:
    seen = Fingerprint(value)
    assert not seen.is_whole
    assert seen.taken < 2 * MOST_STEPS
    assert len(seen.seen) < 4 * MOST_STEPS
    assert not seen.differs_from(value)


def test_self_containing_value_terminates() -> None:
    value: list[Any] = [1]
    value.append(value)
    before = Fingerprint(value)
    assert not before.differs_from(value)
    value[0] = 2
    assert before.differs_from(value)


def test_copying_an_instance_is_no_class_change() -> None:
    kind: Any = type("Kind", (), {"__module__": "__main__"})
    held = [kind(), kind]
    seen = Fingerprint(held)
    copy.copy(held[0])  # which adds a name to the class
    assert not seen.differs_from(held)
