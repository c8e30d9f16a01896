"""Whole turns of a notebook in this process: a real journal on disk, a model that is scripted."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from parsimony_kernel.core import events as ev
from parsimony_kernel.core.clock import Clock
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.execution.code_cell import NAME_PREFIX
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.gate.approval import Approval
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.session.turn_values import SessionError, TurnOptions
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.testing.scripted import ScriptedModel, Step, call
from parsimony_kernel.tools import Tool, Tools
from parsimony_kernel.view.blocks import lasting
from parsimony_kernel.view.fold import replay
from parsimony_kernel.view.plain_text import record_of
from tests.session.session_steps import gather

DONE = call("return_done", summary="ok")
CELL = "a"
# Real seconds after which a run that should have ended counts as hanging.
_HANGING_S = 30.0


class Notebook:
    """A notebook in ``folder``, as its kernels see it one after the other.

    ``requests`` are what the models of all of them were sent; ``close`` ends them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._sessions: list[NotebookSession] = []
        self._models: list[ScriptedModel] = []

    def open(
        self,
        *steps: Step,
        tools: Sequence[Tool] = (),
        executor: BaseCodeExecutor | None = None,
        clock: Clock | None = None,
    ) -> NotebookSession:
        """A kernel's session whose model answers by ``steps``."""
        model = ScriptedModel(steps)
        session = NotebookSession(
            executor=executor or CodeExecutor(cwd=str(self.folder)),
            notebook="analysis.ipynb",
            folder=self.folder,
            model=model,
            environ={},
            clock=clock or ManualClock(),
        )
        session.tools.added = lambda: Tools(tools)  # type: ignore[method-assign]
        self._models.append(model)
        self._sessions.append(session)
        return session

    @property
    def requests(self) -> list[list[dict[str, Any]]]:
        return [list(request.messages) for model in self._models for request in model.requests]

    @property
    def disk(self) -> bytes:
        """Every byte of every file in the folder."""
        files = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return b"\n".join(path.read_bytes() for path in files)

    def close(self) -> None:
        for session in self._sessions:
            session.close()


async def turn(
    session: NotebookSession, request: str = "do it", *, cell: str = CELL, **options: Any
) -> list[ev.AgentEvent]:
    """A whole turn; without ``approve`` nobody is asked to allow anything."""
    chosen = TurnOptions(**{"approve": Approval.auto, **options})
    return await told(session.turn(request, cell_key=cell, options=chosen))


async def answered(session: NotebookSession, reply: str) -> list[ev.AgentEvent]:
    """The turn that goes on with the person's answer."""
    return await told(session.resume(reply))


async def told(stream: AsyncIterator[ev.AgentEvent]) -> list[ev.AgentEvent]:
    """The events of a run segment, which are well told and leave no task."""
    before = asyncio.all_tasks()
    async with asyncio.timeout(_HANGING_S):
        events = await gather(stream)
    assert [task for task in asyncio.all_tasks() - before if not task.done()] == []
    return events


def shown(events: Sequence[ev.AgentEvent]) -> str:
    """What a person reads of ``events``."""
    return record_of(lasting(replay(events).blocks))


def begun(events: Sequence[ev.AgentEvent], name: str) -> int:
    """How often the tool ``name`` was called."""
    return sum(
        isinstance(event, ev.ToolEvent) and not event.completed and event.tool_name == name
        for event in events
    )


def assert_stopped_well(session: NotebookSession, events: Sequence[ev.AgentEvent]) -> None:
    """``AssertionError`` unless the run stopped, said why in words, and the journal has it all."""
    last = events[-1]
    assert isinstance(last, ev.Handoff | ev.UserInputRequested), last
    why = last.rationale if isinstance(last, ev.Handoff) else last.context or last.question
    assert why.strip()
    assert "Traceback (most recent call last)" not in why
    summary = session.turns()[-1]
    assert summary.status == ("handed_off" if isinstance(last, ev.Handoff) else "suspended")
    assert session.events(summary.run_id)[-1] == last
    assert session.journal.verify() is None


async def refusal_of(answer: AsyncIterator[ev.AgentEvent]) -> str:
    """What a session says instead of going on."""
    try:
        events = await told(answer)
    except SessionError as error:
        return str(error)
    raise AssertionError(f"it went on and ended with {events[-1]!r}")


def running_code() -> list[str]:
    """The functions of agent code that are on the stack of any thread of this process now."""
    found: list[str] = []
    for stack in sys._current_frames().values():
        frame = stack
        while frame is not None:
            if frame.f_code.co_filename.startswith(NAME_PREFIX):
                found.append(frame.f_code.co_name)
            frame = frame.f_back  # type: ignore[assignment]
    return found


def threads_of(name: str) -> list[threading.Thread]:
    """The threads that go by ``name`` and live."""
    return [each for each in threading.enumerate() if each.name == name]


async def ended(threads: Sequence[threading.Thread]) -> None:
    """Wait for ``threads``; ``AssertionError`` when one does not end."""
    for thread in threads:
        await asyncio.to_thread(thread.join, _HANGING_S)
        assert not thread.is_alive(), thread
