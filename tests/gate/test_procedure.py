"""A procedure is checked when it is built, and only its edges can be walked."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.gate.procedure import (
    Edge,
    Guard,
    Procedure,
    ProcedureError,
)
from parsimony_kernel.tools import Tools, tool

EDGES = (
    Edge("take_order", "new", "ordered"),
    Edge("pay", "ordered", "paid", "has_items"),
    Edge("fulfill", "paid", "done"),
    Edge("cancel", "ordered", "done"),
)
STATES = ("new", "ordered", "paid", "done")


def orders(
    edges: tuple[Edge, ...] = EDGES,
    states: tuple[str, ...] = STATES,
    start: str = "new",
    final: tuple[str, ...] = ("done",),
    has_items: Guard = lambda: True,
) -> Procedure:
    return Procedure("orders", states, start, final, edges, {"has_items": has_items})


@tool
async def take_order() -> None:
    """Take an order."""


@tool
async def pay() -> None:
    """Pay."""


@tool
async def fulfill() -> None:
    """Fulfill."""


@tool
async def cancel() -> None:
    """Cancel."""


@tool
async def look() -> None:
    """A tool that no edge names."""


OWN = Tools([take_order, pay, fulfill, cancel, look])
TOOLS = OWN + termination_tools()
ENDING = tuple(termination_tools())


def problems_of(build: Callable[[], object]) -> str:
    with pytest.raises(ProcedureError) as caught:
        build()
    assert caught.value.problems
    return "\n".join(caught.value.problems)


NAME = st.text(min_size=1, max_size=20).filter(lambda name: bool(name.strip()))


@given(first=NAME, second=NAME, action=NAME)
def test_no_name_is_syntax_in_a_drawing(first: str, second: str, action: str) -> None:
    if first == second:
        return
    procedure = Procedure("p", (first, second), first, (second,), (Edge(action, first, second),))
    lines = procedure.mermaid().splitlines()
    assert len(lines) == 6
    for text in (lines[1].split('"')[1], lines[2].split('"')[1], lines[4].split(" : ", 1)[1]):
        assert not set(text) & set("\"'<>{}[]():%\\`|\n") - {"'"}
    assert [line.count('"') for line in lines] == [0, 2, 2, 0, 0, 0]
