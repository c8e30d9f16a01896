"""Which names hold an object, whatever they hold it in."""

import sys
from argparse import ArgumentParser
from collections import UserDict, deque
from typing import Any

import pytest

from parsimony_kernel.lineage import object_graph
from parsimony_kernel.lineage.object_graph import MOST_LOOKED_AT, Holding

MOST = 20_000


def holders(names: dict[str, Any], target: Any) -> set[str]:
    return set(Holding(names.values()).holders(names, {id(target): target}))


def executed(target: Any) -> dict[str, Any]:
    namespace = {"xs": target}
    exec("n = len(xs)", namespace)
    return namespace


def parser_with(target: Any) -> ArgumentParser:
    parser = ArgumentParser()
    parser.set_defaults(xs=target)
    return parser


def cyclic(target: Any) -> list[Any]:
    ring: list[Any] = [target]
    ring.append(ring)
    return ring


@pytest.mark.parametrize(
    "hold",
    [
        lambda xs: xs,
        lambda xs: [0, (1, {"k": xs})],
        lambda xs: deque([xs]),
        lambda xs: UserDict(k=xs),
        lambda xs: xs.append,
        lambda xs: (each for each in xs),
        cyclic,
        executed,
        parser_with,
        lambda xs: [*([n] for n in range(200_000)), xs],
        lambda xs: [*range(400_000), xs],
        lambda xs: dict(zip([*map(str, range(100_000)), "k"], [*range(100_000), xs], strict=True)),
        pytest.param(
            lambda xs: {"sys": sys, "library": vars(sys), "xs": xs}, marks=pytest.mark.slow
        ),
    ],
    ids=[
        "itself", "in containers", "in a deque", "in an object of a library", "as a method",
        "in a generator", "in a cycle", "in a namespace that ran", "in a deep object of a library",
        "behind many lists", "behind many numbers", "among many strings", "among modules",
    ],
)  # fmt: skip
def test_holders_of_an_object_are_found(hold: Any) -> None:
    target = [1]
    names = {"it": hold(target), "other": [[1]]}
    assert holders(names, target) == {"it"}


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer objects are looked at in a value, since it takes seconds to reach the usual limit."""
    monkeypatch.setattr(object_graph, "MOST_LOOKED_AT", MOST)


@pytest.mark.usefixtures("limited")
def test_oversized_value_hides_nothing_beside_it() -> None:
    target = [1]
    big = [[n] for n in range(MOST + 1)]
    names = {"before": [target], "big": big, "after": {"k": (target,)}}
    holding = Holding(names.values(), most=MOST)
    assert set(holding.holders(names, {id(target): target})) == {"before", "after"}


@pytest.mark.usefixtures("limited")
def test_deep_value_hides_nothing_of_others() -> None:
    target = [1]
    deep: list[Any] = [[[n]] for n in range(MOST // 2 + 1)]
    names = {"deep": deep, "after": {"k": (target,)}}
    holding = Holding(names.values(), most=MOST)
    assert set(holding.holders(names, {id(target): target})) == {"after"}


def test_plain_values_are_never_too_large() -> None:
    target = [1]
    names = {"plain": [*range(3 * MOST_LOOKED_AT), target], "other": [[n] for n in range(9)]}
    assert holders(names, target) == {"plain"}


def test_running_frames_are_not_followed() -> None:
    here = ["held by this frame"]
    try:
        raise ValueError
    except ValueError as error:
        names = {"error": error}
        assert holders(names, here) == set()


def test_excluded_objects_are_not_followed() -> None:
    target = [1]
    namespace = {"xs": target}
    names = {"it": namespace, "other": [target]}
    holding = Holding(names.values(), apart_from={id(namespace)})
    assert set(holding.holders(names, {id(target): target})) == {"other"}
