"""A procedure is checked when it is built: every name in it stands for something."""

from typing import Any

import pytest

from parsimony_kernel.gate.procedure import Edge, Procedure, ProcedureError


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
    ],
)
def test_undefined_name_in_procedure_is_reported(changes: dict[str, Any], said: str) -> None:
    edges = (Edge("pay", "new", "done"),)
    given = {"states": ("new", "done"), "start": "new", "final": ("done",), "edges": edges}
    with pytest.raises(ProcedureError) as caught:
        Procedure("orders", **{**given, **changes})
    assert any(said in problem for problem in caught.value.problems), caught.value.problems
