"""A session whose turns are written down beforehand, for the extension's tests.

A script is a list of segments; each turn and each answer takes the next one. A segment is the
events after ``RunStarted``; an ``asyncio.Event`` among them is waited for.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from parsimony_kernel.artifacts.store import LogEntry
from parsimony_kernel.core import events as ev
from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.chat import ChatModel
from parsimony_kernel.core.state import SuspensionRecord
from parsimony_kernel.execution.interrupt import stop_on_sigint
from parsimony_kernel.lineage.checkpoint import PutBack
from parsimony_kernel.lineage.ledger import OriginLedger
from parsimony_kernel.session.turn_values import SessionError, TurnOptions
from parsimony_kernel.storage.journal import PendingRow, TurnRow
from parsimony_kernel.storage.run_log import SentRequest
from parsimony_kernel.toolbox.mcp_client import Servers
from parsimony_kernel.tools import Tool, Tools, tool

Segment = Sequence[ev.AgentEvent | asyncio.Event]
NO_OPTIONS = TurnOptions()


def asks(question: str, *choices: str, run_id: str = "") -> ev.UserInputRequested:
    """The event of a question."""
    record = SuspensionRecord(
        run_id=run_id,
        session_id="",
        suspension_token=f"{question}.hex",
        suspended_at="2026-01-01T00:00:00Z",
        pending_question=question,
        choices=list(choices),
    )
    return ev.UserInputRequested(question=question, choices=choices, suspension_record=record)


class FakePast:
    """The past of a notebook as far as it is told: what was done is written down beforehand."""

    changes = SimpleNamespace(undone=())

    def __init__(self, session: "FakeSession") -> None:
        self._session = session

    def has_reached(self, run_id: str) -> bool:
        return False

    def undo(self, ordinal: int | None = None, *, redo: bool = False) -> tuple[int, PutBack]:
        if not self._session.by_turn:
            raise SessionError("No turn since this kernel started can be undone.")
        back = PutBack(("prices",), ("total",), ("rate",), ("model",))
        return ordinal or len(self._session.by_turn), back


class FakeTools(dict[str, Tool]):
    """The tools that were added; nothing is started."""

    def __init__(self, session: "FakeSession") -> None:
        super().__init__()
        self._session = session
        self.servers = Servers(Path(), Path(), {})

    def added(self) -> Tools:
        return Tools(self.values())

    def add(self, name: str) -> Tool:
        variables = self._session.variables
        if name not in variables:
            raise SessionError(f"{name!r} is no function of this notebook: define it in a cell.")
        return self.setdefault(name, tool(variables[name]))

    def remove(self, name: str) -> None:
        if name not in self:
            raise SessionError(f"{name!r} is no tool of yours.")
        del self[name]


if TYPE_CHECKING:
    _Session = Any  # as far as it is used, it is one
else:
    _Session = object


class FakeSession(_Session):
    """Keeps what the extension uses of a session; remembers what it was asked."""

    def __init__(self, *segments: Segment) -> None:
        self._segments = list(segments)
        self._cancellation = CancellationRequest()
        self._stop: CancellationRequest | None = None
        self._running = False
        self.model_name = "scripted"
        self.granted: dict[str, Any] = {}
        self.answers: dict[str, str] = {}
        # Of the executor, the extension wants the ledger and the variables.
        self.variables: dict[str, Any] = {}
        self.executor: Any = SimpleNamespace(
            origin_ledger=OriginLedger(), variables=lambda: self.variables
        )
        self.is_closed = False
        self.requests: list[tuple[str, str, TurnOptions]] = []
        self.replies: list[tuple[str, str]] = []
        self.nonces: list[str | None] = []
        self.cancelled_for = "the cell was cancelled"
        self.trouble: Exception | None = None
        self.by_turn: dict[str, list[ev.AgentEvent]] = {}
        self.published: tuple[LogEntry, ...] = ()
        self.past: Any = FakePast(self)
        self.tools: Any = FakeTools(self)
        self.sent_by_turn: dict[str, list[SentRequest]] = {}

    def set_model(self, model: str | ChatModel) -> None:
        name = model if isinstance(model, str) else model.name
        if name.startswith("keyless"):
            raise SessionError(f"The model {name!r} needs a key in KEYLESS_API_KEY.")
        self.model_name = name

    def turn(
        self,
        request: str,
        *,
        cell_key: str,
        options: TurnOptions | None = None,
        stop: CancellationRequest | None = None,
    ) -> AsyncIterator[ev.AgentEvent]:
        self._stop = stop
        self.requests.append((request, cell_key, options or NO_OPTIONS))
        turn_id = f"{len(self.by_turn) + 1}0ab"
        return self._play(turn_id, request, None)

    def resume(
        self,
        reply: str,
        *,
        turn_id: str | None = None,
        nonce: str | None = None,
        stop: CancellationRequest | None = None,
    ) -> AsyncIterator[ev.AgentEvent]:
        self._stop = stop
        self.nonces.append(nonce)
        question = next((each for each in self.pending() if each.turn.run_id == turn_id), None)
        return self._resumed(reply, question, nonce)

    async def _resumed(
        self, reply: str, question: PendingRow | None, nonce: str | None
    ) -> AsyncIterator[ev.AgentEvent]:
        if self.trouble is not None:
            raise self.trouble
        if self._running:
            raise SessionError("A turn is still running in this notebook.")
        if question is None:
            raise SessionError("No question is waiting in this notebook.")
        if nonce is not None and nonce != question.record.nonce:
            raise SessionError("Another question of this turn is waiting.")
        choice = ""
        if reply.isdigit():
            choice = reply
            if not 1 <= int(reply) <= len(question.record.choices):
                raise SessionError(f"There is no choice {reply}.")
            reply = question.record.choices[int(reply) - 1]
        run_id = question.turn.run_id
        self.replies.append((run_id, reply))
        async for event in self._play(run_id, question.turn.request, reply, choice):
            yield event

    async def _play(
        self, turn_id: str, request: str, reply: str | None, choice: str = ""
    ) -> AsyncIterator[ev.AgentEvent]:
        if self._running:
            raise SessionError("A turn is still running in this notebook.")
        if not self._segments:
            raise AssertionError(f"no segment is left for {request!r}, {reply!r}")
        self._running = True
        self._cancellation = self._stop or CancellationRequest()
        stack = ExitStack()
        kept = self.by_turn.setdefault(turn_id, [])
        try:
            # Held over every wait, as the real one does: an idle kernel ignores an interrupt.
            stack.enter_context(stop_on_sigint(self._cancellation))
            started = ev.RunStarted(
                run_id=turn_id, request=request, model="scripted", reply=reply, choice=choice
            )
            kept.append(started)
            yield started
            for step in self._segments.pop(0):
                if isinstance(step, asyncio.Event):
                    try:
                        await self._cancellation.race(step.wait())
                        continue
                    except Cancelled:
                        step = ev.RunCancelled(reason=self._cancellation.reason)
                elif isinstance(step, ev.UserInputRequested):
                    asked = step.suspension_record.model_copy(update={"run_id": turn_id})
                    step = step.model_copy(update={"suspension_record": asked})
                kept.append(step)
                yield step
                if isinstance(step, ev.RunCancelled):
                    return
        except (asyncio.CancelledError, GeneratorExit):
            kept.append(ev.RunCancelled(reason=self.cancelled_for))
            raise
        finally:
            stack.close()
            self._running = False

    def _status(self, events: Sequence[ev.AgentEvent]) -> tuple[str, str]:
        match events[-1]:
            case ev.RunCompleted(summary=summary):
                return "done", summary
            case ev.UserInputRequested(question=question):
                return "suspended", question
            case ev.RunCancelled():
                return "cancelled", ""
        return "running", ""

    def turns(self, notebook: str = "") -> tuple[TurnRow, ...]:
        if self.trouble is not None:
            raise self.trouble
        found = []
        for ordinal, (turn_id, events) in enumerate(self.by_turn.items(), start=1):
            request = next(each.request for each in events if isinstance(each, ev.RunStarted))
            status, summary = self._status(events)
            row = TurnRow(turn_id, "analysis.ipynb", "", ordinal, request, "scripted", status, "")
            found.append(replace(row, started_at="2026-01-01T08:30:00Z", summary=summary))
        return tuple(found)

    def lost(self, record: Any) -> str:
        return ""

    def pending(self) -> tuple[PendingRow, ...]:
        found = []
        for turn in self.turns():
            asked = self.by_turn[turn.run_id][-1]
            if isinstance(asked, ev.UserInputRequested):
                found.append(PendingRow(asked.suspension_record, turn))
        return tuple(reversed(found))

    def events(self, turn_id: str) -> tuple[ev.AgentEvent, ...]:
        return tuple(self.by_turn[turn_id])

    def artifacts(self) -> tuple[LogEntry, ...]:
        if self.trouble is not None:
            raise self.trouble
        return self.published

    def sent(self, turn_id: str) -> tuple[SentRequest, ...]:
        return tuple(self.sent_by_turn.get(turn_id, ()))

    def stop(self, reason: str = "stopped by the user") -> bool:
        if not self._running:
            return False
        self._cancellation.set(reason)
        return True

    def close(self) -> None:
        self.is_closed = True
