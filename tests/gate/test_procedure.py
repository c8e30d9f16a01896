"""A procedure is checked when it is built: every name in it stands for something."""

from typing import Any

import pytest

from parsimony_kernel.gate.procedure import Edge, Procedure, ProcedureError


async def later() -> bool:
    return True


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"start": "nwe"}, "start: there is no state 'nwe'; did you mean 'new'?"),
        (
            {"states": ("new", "paid", "done", "stuck")},
            "states: 'stuck' is a dead end; add an edge",
        ),
        ({"final": ("paid",)}, "final: there is no state 'paid'; there are new, done"),
        ({"final": ()}, "final: no state is final"),
        ({"edges": (Edge("pay", "new", "dnoe"),)}, "edge 1, to: there is no state 'dnoe'"),
        ({"edges": (Edge("pay", "new", "done", "has"),)}, "there is no guard 'has'; there is none"),
        ({"guards": {"is_open": later}}, "the guard 'is_open' is no plain function"),
    ],
)
def test_a_name_that_stands_for_nothing_is_told(changes: dict[str, Any], said: str) -> None:
    edges = (Edge("pay", "new", "done", "is_open" if "guards" in changes else None),)
    given = {"states": ("new", "done"), "start": "new", "final": ("done",), "edges": edges}
    with pytest.raises(ProcedureError) as caught:
        Procedure("orders", **{**given, **changes})
    assert any(said in problem for problem in caught.value.problems), caught.value.problems
