"""One notebook's turns in the journal: how they begin, are written, wait and go on.

What the journal itself says of its troubles is left to the callers.
"""

import os
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime

from parsimony_kernel.agent.failure.suspension import SuspensionConsumed
from parsimony_kernel.artifacts.publish import LiveName
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.events import (
    AgentEvent,
    Handoff,
    LLMCallCompleted,
    PartialRunSummary,
    RunCancelled,
    RunCompleted,
    RunStarted,
    TextDelta,
    ToolEvent,
    UserInputRequested,
    is_terminal,
)
from parsimony_kernel.core.kinds import FailureKind
from parsimony_kernel.core.state import SuspensionRecord
from parsimony_kernel.execution.interrupt import stop_on_sigint
from parsimony_kernel.llm.cassette import CassetteMiss
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.session.inventory import Written
from parsimony_kernel.session.turns import SessionError, TurnOptions
from parsimony_kernel.storage.keyring import GRACE_S
from parsimony_kernel.storage.store import PendingRow, SqliteJournal

# A question may wait over a long weekend.
MAX_QUESTION_AGE_S = GRACE_S

_ASK_AGAIN = "The question waits on: answer it again then, with %agent answer."
# Kinds of failure that pass, so that a question whose answer met one waits on.
_PASSING = (FailureKind.capability_gap, FailureKind.transient_provider)

# How a turn stands that an event has ended, and the field with the words for it.
_ENDS: Mapping[type[AgentEvent], tuple[str, str]] = {
    RunCompleted: ("done", "summary"),
    UserInputRequested: ("suspended", "question"),
    Handoff: ("handed_off", "rationale"),
    PartialRunSummary: ("stopped", "missing"),
}


@contextmanager
def _undone_by(undo: Callable[[], None]) -> Iterator[None]:
    """Call ``undo``, as far as the journal lets it, where the body fails."""
    try:
        yield
    except BaseException:
        with suppress(SessionError):
            undo()
        raise


@dataclass
class Running:
    """A turn that runs."""

    run_id: str
    cell_key: str
    ordinal: int = 0
    secrets: Secrets = field(default_factory=Secrets)
    options: TurnOptions = field(default_factory=TurnOptions)
    # The question that it goes on from.
    asked: SuspensionRecord | None = None
    seen: set[LiveName] = field(default_factory=set)
    instructions: tuple[Written, ...] = ()
    # Whether a model reads words: the one that is built in has no use for a date.
    is_reader: bool = True
    cancellation: CancellationRequest = field(default_factory=CancellationRequest)


@dataclass(eq=False)
class TurnLog:
    """The turns of ``notebook`` in ``journal``.

    Args:
        owner: who takes up a question here; no other may, while it is at work.
        connection_file: that of the kernel in which turns run here, if any.
        settle: is told the run that is done.
    """

    journal: SqliteJournal
    notebook: str
    owner: str
    connection_file: str = ""
    settle: Callable[[str], None] = lambda run_id: None

    @contextmanager
    def beginning(self, running: Running, *, request: str, model: str) -> Iterator[None]:
        """Begin a turn, replacing the earlier one of its cell, with what it needs before it runs as
        the body; where that fails, it is cancelled."""
        running.ordinal = self.journal.begin_turn(
            running.run_id,
            notebook=self.notebook,
            cell_key=running.cell_key,
            request=request,
            model=model,
            connection_file=self.connection_file,
            pid=os.getpid(),
        )
        with _undone_by(lambda: self.journal.end_turn(running.run_id, "cancelled")):
            yield

    def take_up(self, run_id: str, record: SuspensionRecord, started: RunStarted) -> None:
        """Write down that a claimed question goes on; its single use is spent with that."""
        if not self.journal.consume(record.nonce, self.owner):
            # The lease ran out meanwhile, while this machine slept, and another took it up.
            raise SuspensionConsumed("this question was answered elsewhere meanwhile")
        with _undone_by(lambda: self.wait_on(run_id, record)):
            self.journal.resume_turn(run_id, connection_file=self.connection_file, pid=os.getpid())
            self.journal.append(run_id, started)

    def wait_on(self, run_id: str, record: SuspensionRecord) -> None:
        """Nothing ran, so the question waits on."""
        if self.journal.reopen(record.nonce, self.owner):
            self.journal.end_turn(run_id, "suspended", record.pending_question)

    async def follow(
        self,
        running: Running,
        started: RunStarted,
        stream: AsyncGenerator[AgentEvent, None],
        trace: Callable[[AgentEvent], None],
    ) -> AsyncGenerator[AgentEvent, None]:
        """Yield ``started``, which is written already, and ``stream``, each event journalled
        first; close the turn. ``trace`` is told each event."""
        log = EventWriter(self.journal, running.run_id, running.secrets)
        ended = ran = False
        with stop_on_sigint(running.cancellation):
            try:
                trace(started)
                yield started
                async with aclosing(stream):
                    async for event in stream:
                        # What was begun, an answer must not begin again.
                        ran = ran or isinstance(event, LLMCallCompleted | ToolEvent)
                        waits_on = None if ran or not _came_to_nothing(event) else running.asked
                        if waits_on and isinstance(event, Handoff):
                            steps = (*event.suggested_next_steps, _ASK_AGAIN)
                            event = event.model_copy(update={"suggested_next_steps": steps})
                        if isinstance(event, UserInputRequested):
                            self.journal.suspend(event.suspension_record)
                        log.write(event)
                        if is_terminal(event):
                            ended = True
                            log.end(event)
                        if waits_on:
                            self.wait_on(running.run_id, waits_on)
                        if isinstance(event, RunCompleted):
                            self.settle(running.run_id)
                        trace(event)
                        yield event
            except CassetteMiss:
                running.cancellation.set("the recording has no answer to this request")
                raise
            finally:
                if not ended:
                    # The consumer went away, its task was cancelled, or the journal failed: said
                    # in writing as far as that is possible.
                    running.cancellation.set("the cell was cancelled")
                    cut_short = RunCancelled(reason=running.cancellation.reason)
                    trace(cut_short)
                    with suppress(SessionError):
                        log.write(cut_short)
                    with suppress(SessionError):
                        self.journal.end_turn(running.run_id, "cancelled")

    def beginning_of(self, run_id: str) -> RunStarted | None:
        """How the turn began."""
        events = self.journal.events(run_id)
        return next((event for event in events if isinstance(event, RunStarted)), None)

    def of_cell(self, cell_key: str) -> frozenset[str]:
        """The ids of the turns of a cell."""
        rows = self.journal.turns(self.notebook)
        return frozenset(row.run_id for row in rows if row.cell_key == cell_key)

    def pending(self, now: datetime) -> tuple[PendingRow, ...]:
        """The questions that can still be answered, newest first."""
        rows = self.journal.pending(self.notebook)
        return tuple(row for row in rows if _age_s(row.record, now) <= MAX_QUESTION_AGE_S)

    def question(self, turn_id: str | None, nonce: str | None, now: datetime) -> PendingRow:
        """The question of ``turn_id``, however old, or the newest that can still be answered.

        ``SessionError`` where there is none, or with ``nonce`` not that very one.
        """
        rows = self.pending(now) if turn_id is None else self.journal.pending(self.notebook)
        if not rows:
            raise SessionError("No question is waiting in this notebook. See %agent history.")
        row = next((each for each in rows if turn_id in (None, each.turn.run_id)), None)
        if row is None:
            raise SessionError(
                f"No question is waiting in turn {turn_id!r}. See %agent history for those that "
                "are."
            )
        if turn_id is not None and nonce not in (None, row.record.nonce):
            raise SessionError(
                "This question was answered already, and the turn asks another one now: "
                "%agent show draws it."
            )
        return row


def _came_to_nothing(event: AgentEvent) -> bool:
    """Whether a run that did nothing ended for a reason that passes."""
    failure = event.failure if isinstance(event, Handoff) else None
    return isinstance(event, RunCancelled) or (failure is not None and failure.kind in _PASSING)


@dataclass(eq=False)
class EventWriter:
    """Writes the events of a run down, prose in whole pieces, and nothing of ``secrets``."""

    journal: SqliteJournal
    run_id: str
    secrets: Secrets
    _words: list[str] = field(default_factory=list)

    def write(self, event: AgentEvent) -> None:
        if isinstance(event, TextDelta):
            self._words.append(event.content)
            return
        if self._words:
            words, self._words = "".join(self._words), []
            self.journal.append(self.run_id, TextDelta(content=self.secrets.clean(words)))
        self.journal.append(self.run_id, self.secrets.of_event(event))

    def end(self, event: AgentEvent) -> None:
        """Record how the turn that ``event`` ends came out: its status, and a summary."""
        status, words = _ENDS.get(type(event), ("cancelled", "reason"))
        said = getattr(event, words, "")
        self.journal.end_turn(self.run_id, status, self.secrets.clean(said))


def _age_s(record: SuspensionRecord, now: datetime) -> float:
    try:
        return (now - datetime.fromisoformat(record.suspended_at)).total_seconds()
    except (ValueError, TypeError):
        return 0.0  # the checks of resuming say what is wrong with it
