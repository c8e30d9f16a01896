"""The tool that inspects a variable."""

import keyword
from collections.abc import Iterable
from typing import Any

from parsimony_kernel.core.fuzzy import nearest
from parsimony_kernel.core.outputs import DataFrameObject
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.lineage.ledger import OriginLedger
from parsimony_kernel.tools import Tools, tool

_LOOK_S = 10.0
_SHOWN = 10


def inspection_tools(executor: BaseCodeExecutor) -> Tools:
    """Build ``inspect_variable`` on ``executor``."""

    @tool(effect="none")
    async def inspect_variable(name: str) -> dict[str, Any]:
        """One variable more closely: rows of a table, another value in full up to a cap, and which
        code made it from what.
        """
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(f"{name!r} is no name of a variable: give one name and nothing more")
        variables = executor.variables()
        if name not in variables:
            raise NameError(no_such_variable(name, variables))
        output = await executor.eval(name, timeout_seconds=_LOOK_S)
        answer: dict[str, Any] = {"type": "primitive", "text": "None"}
        for shown in output.shown[:1]:
            answer = shown.with_rows() if isinstance(shown, DataFrameObject) else shown.for_model()
        answer["name"] = name
        return {**answer, **_origin(executor.origin_ledger, name)}

    return Tools([inspect_variable])


def _origin(ledger: OriginLedger, name: str) -> dict[str, Any]:
    origin = ledger.get(name)
    if origin is None:
        return {"origin": "unknown"}
    return {
        "origin": "the person's cell" if origin.actor == "user" else "an agent's cell",
        "code": origin.code[:2_000],
        "made_from": [ref.name for ref in origin.inputs],
        "sources": list(origin.sources),
    }


def no_such_variable(name: str, variables: Iterable[str]) -> str:
    """Render the error for an unknown variable, with the nearest name or some existing ones."""
    known = sorted(variables)
    if likely := nearest(name, known):
        return f"There is no variable {name!r}: did you mean {likely!r}?"
    if not known:
        return f"There is no variable {name!r}: the notebook has none yet, run code first."
    return (
        f"There is no variable {name!r}: the notebook has {', '.join(map(repr, known[:_SHOWN]))}."
    )
