"""Which names hold an object, whatever they hold it in."""

import sys
from argparse import ArgumentParser
from collections import UserDict, deque
from collections.abc import Callable
from typing import Any

import pytest

from parsimony_kernel.lineage import object_graph
from parsimony_kernel.lineage.object_graph import Holding

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


HOLD: dict[str, Callable[[Any], Any]] = {
    "itself": lambda xs: xs,
    "in containers": lambda xs: [0, (1, {"k": xs})],
    "in a deque": lambda xs: deque([xs]),
    "in an object of a library": lambda xs: UserDict(k=xs),
    "as a method": lambda xs: xs.append,
    "in a generator": lambda xs: (each for each in xs),
    "in a cycle": cyclic,
    "in a namespace that ran": executed,
    "in a deep object of a library": parser_with,
    "behind many lists": lambda xs: [*([n] for n in range(200_000)), xs],
    "behind many numbers": lambda xs: [*range(400_000), xs],
    "among many strings": lambda xs: {**{str(n): n for n in range(100_000)}, "k": xs},
    "among modules": lambda xs: {"sys": sys, "library": vars(sys), "xs": xs},
}
SLOW = [pytest.param("among modules", marks=pytest.mark.slow)]


@pytest.mark.parametrize("how", [*list(HOLD)[:-1], *SLOW])
def test_holders_of_an_object_are_found(how: str) -> None:
    hold = HOLD[how]
    target = [1]
    names = {"it": hold(target), "other": [[1]]}
    assert holders(names, target) == {"it"}


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer objects are looked at in a value, since it takes seconds to reach the usual limit."""
    monkeypatch.setattr(object_graph, "MOST_LOOKED_AT", MOST)


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize(
    "big",
    [[[n] for n in range(MOST + 1)], [[[n]] for n in range(MOST // 2 + 1)]],
    ids=["wide", "deep"],
)
def test_oversized_value_hides_nothing_beside_it(big: list[Any]) -> None:
    target = [1]
    names = {"before": [target], "big": big, "after": {"k": (target,)}}
    holding = Holding(names.values(), most=MOST)
    assert set(holding.holders(names, {id(target): target})) == {"before", "after"}


@pytest.mark.usefixtures("limited")
def test_plain_values_are_never_too_large() -> None:
    target = [1]
    names = {"plain": [*range(3 * MOST), target], "other": [[n] for n in range(9)]}
    holding = Holding(names.values(), most=MOST)
    assert set(holding.holders(names, {id(target): target})) == {"plain"}


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
