"""The ``plan`` tool, with which the model lists the parts of a request."""

from pydantic import BaseModel, ConfigDict

from parsimony_kernel.tools import tool

MAX_PARTS = 20


class Plan(BaseModel):
    """Parts of a request in order, and the parts that are done."""

    model_config = ConfigDict(frozen=True)

    parts: tuple[str, ...]
    done: tuple[str, ...] = ()


@tool(tool_type="plan", effect="none")
async def plan(parts: list[str], done: list[str] | None = None) -> Plan:
    """Only for a request of more than two parts: say them before working on it.

    Call it again with `done`, or with other parts. The run cannot end with return_done while one is
    open.
    """
    named = [part.strip() for part in parts if part.strip()]
    if not named or len(named) > MAX_PARTS:
        raise ValueError(f"a plan has 1 to {MAX_PARTS} parts, each a few words")
    finished = [part.strip() for part in done or ()]
    for part in finished:
        if part not in named:
            raise ValueError(f"{part!r} is no part of this plan: {'; '.join(named)}")
    return Plan(parts=tuple(dict.fromkeys(named)), done=tuple(dict.fromkeys(finished)))
