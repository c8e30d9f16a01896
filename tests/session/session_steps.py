"""What tests of a notebook's session begin with."""

from collections.abc import AsyncIterator, Sequence
from types import FunctionType
from typing import Any

from parsimony_kernel.core.chat import Completion
from parsimony_kernel.core.events import (
    AgentEvent,
    RunStarted,
    UserInputRequested,
    is_terminal,
    parse_event,
)
from parsimony_kernel.execution.run_scope import RunScope, run_scope
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.session.turn_values import TurnOptions
from parsimony_kernel.testing.scripted import call

DONE = call("return_done", summary="done")
ASK = call("ask_user", question="Which region?", choices=["north", "south"])


def code(source: str) -> Completion:
    """An answer that runs ``source``."""
    return call("run_code", code=source)


LOAD = code("import pandas as pd\nsales = pd.read_csv('data/sales.csv')")


def assert_well_told(events: Sequence[AgentEvent]) -> None:
    """``AssertionError`` unless the last of ``events`` and no other is terminal, and each can be
    written down and read again."""
    assert [is_terminal(event) for event in events] == [False] * (len(events) - 1) + [True]
    assert [parse_event(event.model_dump(mode="json")) for event in events] == list(events)


async def gather(stream: AsyncIterator[AgentEvent]) -> list[AgentEvent]:
    """The events of a run, which are well told."""
    events = [event async for event in stream]
    assert_well_told(events)
    return events


async def turn(
    session: NotebookSession, request: str = "do it", *, cell: str = "a", **options: Any
) -> list[AgentEvent]:
    """The events of a whole turn with these options."""
    return await gather(session.turn(request, cell_key=cell, options=TurnOptions(**options)))


def bind(session: NotebookSession, **values: Any) -> None:
    """Bind what a cell of the notebook would."""
    for name, value in values.items():
        if isinstance(value, FunctionType):
            value.__module__ = "__main__"
        session.executor.namespace()[name] = value  # type: ignore[attr-defined]


def question(events: Sequence[AgentEvent]) -> UserInputRequested:
    """The question in which ``events`` end."""
    last = events[-1]
    assert isinstance(last, UserInputRequested), last
    return last


def begun(events: Sequence[AgentEvent]) -> RunStarted:
    """How ``events`` begin."""
    first = events[0]
    assert isinstance(first, RunStarted), first
    return first


async def mine(session: NotebookSession, source: str) -> None:
    """Run a cell of the person's."""
    with run_scope(RunScope("", "analysis.ipynb", source, actor="user")):
        assert (await session.executor.execute(source)).error is None
