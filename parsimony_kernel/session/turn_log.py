"""One notebook's turns in the journal: how they begin, wait, go on and are told.

What the journal itself says of its troubles is left to the callers.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime

from parsimony_kernel.agent.failure.suspension import SuspensionConsumed
from parsimony_kernel.core.clock import SYSTEM_CLOCK
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.conversation import AgentMessage
from parsimony_kernel.core.events import RunCancelled, RunStarted
from parsimony_kernel.core.state import HeldCall, SuspensionRecord
from parsimony_kernel.gate.approval import EVERY_STEP, Approval
from parsimony_kernel.session.memory import earlier_turns
from parsimony_kernel.session.share import Share
from parsimony_kernel.session.trouble import TROUBLE
from parsimony_kernel.session.turns import (
    LIMITS,
    PendingQuestion,
    SessionError,
    TurnOptions,
    TurnSummary,
)
from parsimony_kernel.storage.keyring import GRACE_S
from parsimony_kernel.storage.store import PendingRow, SqliteJournal

# A question may wait over a long weekend.
MAX_QUESTION_AGE_S = GRACE_S

_CUT_OFF = "the kernel ended in the middle of the turn"


@contextmanager
def _undone_by(undo: Callable[[], None]) -> Iterator[None]:
    """Call ``undo``, as far as the journal lets it, where the body fails."""
    try:
        yield
    except BaseException:
        with suppress(*TROUBLE):
            undo()
        raise


class TurnLog:
    """The turns of ``notebook`` in ``journal``.

    Args:
        owner: who takes up a question here; no other may, while it is at work.
        connection_file: that of the kernel in which turns run here, if any.
    """

    def __init__(
        self, journal: SqliteJournal, notebook: str, *, owner: str, connection_file: str = ""
    ) -> None:
        self._journal = journal
        self._notebook = notebook
        self._owner = owner
        self._connection_file = connection_file

    def begin(self, run_id: str, *, cell_key: str, request: str, model: str) -> int:
        """Begin a turn, replacing the earlier one of its cell; its number."""
        return self._journal.begin_turn(
            run_id,
            notebook=self._notebook,
            cell_key=cell_key,
            request=request,
            model=model,
            connection_file=self._connection_file,
            pid=os.getpid(),
            alive=is_alive,
        )

    def opening(self, run_id: str) -> AbstractContextManager[None]:
        """What a turn that has begun needs before it runs; where that fails, it is cancelled."""
        return _undone_by(lambda: self._journal.end_turn(run_id, "cancelled"))

    def take_up(self, run_id: str, record: SuspensionRecord, started: RunStarted) -> None:
        """Write down that a claimed question goes on; its single use is spent with that."""
        if not self._journal.consume(record.nonce, self._owner):
            # The lease ran out meanwhile, while this machine slept, and another took it up.
            raise SuspensionConsumed("this question was answered elsewhere meanwhile")
        with _undone_by(lambda: self.wait_on(run_id, record)):
            self._journal.resume_turn(
                run_id,
                connection_file=self._connection_file,
                pid=os.getpid(),
                alive=is_alive,
            )
            self._journal.append(run_id, started)

    def wait_on(self, run_id: str, record: SuspensionRecord) -> None:
        """Nothing ran, so the question waits on."""
        if self._journal.reopen(record.nonce, self._owner):
            self._journal.end_turn(run_id, "suspended", record.pending_question)

    def beginning_of(self, run_id: str) -> RunStarted | None:
        """How the turn began."""
        events = self._journal.events(run_id)
        return next((event for event in events if isinstance(event, RunStarted)), None)

    def turns(self) -> tuple[TurnSummary, ...]:
        """The turns, oldest first."""
        return tuple(
            TurnSummary(
                turn_id=row.run_id,
                ordinal=row.ordinal,
                request=row.request,
                status=row.status,
                model=row.model,
                started_at=row.started_at,
                summary=row.summary,
            )
            for row in self._journal.turns(self._notebook)
        )

    def of_cell(self, cell_key: str) -> frozenset[str]:
        """The ids of the turns of a cell."""
        rows = self._journal.turns(self._notebook)
        return frozenset(row.run_id for row in rows if row.cell_key == cell_key)

    def earlier(self, cell_key: str, share: Share = Share.samples) -> tuple[AgentMessage, ...]:
        """What the newest turns of other cells were asked and came to, oldest first."""
        return earlier_turns(
            self._journal.turns(self._notebook),
            self._journal.events,
            cell_key=cell_key,
            share=share,
        )

    def pending(self, now: datetime) -> tuple[PendingQuestion, ...]:
        """The questions that can still be answered, newest first."""
        return tuple(
            PendingQuestion(
                held="\n".join(held_lines(call)) if (call := row.record.pending_call) else "",
                reaches=_reaches(row.record),
                turn_id=row.turn.run_id,
                ordinal=row.turn.ordinal,
                request=row.turn.request,
                question=row.record.pending_question,
                context=row.record.pending_question_context,
                choices=tuple(row.record.choices),
                asked_at=row.record.suspended_at,
                nonce=row.record.nonce,
            )
            for row in self._waiting(now)
        )

    def question(self, turn_id: str | None, nonce: str | None, now: datetime) -> PendingRow:
        """The question of ``turn_id``, however old, or the newest that can still be answered.

        ``SessionError`` where there is none, or with ``nonce`` not that very one.
        """
        rows = (
            self._waiting(now)
            if turn_id is None
            else list(self._journal.pending(self._notebook, is_at_work))
        )
        if not rows:
            raise SessionError("No question is waiting in this notebook. See %agent history.")
        if turn_id is None:
            return rows[0]
        for row in rows:
            if row.turn.run_id == turn_id:
                if nonce not in (None, row.record.nonce):
                    raise SessionError(
                        "This question was answered already, and the turn asks another one now: "
                        "%agent show draws it."
                    )
                return row
        raise SessionError(
            f"No question is waiting in turn {turn_id!r}. See %agent history for those that are."
        )

    def _waiting(self, now: datetime) -> list[PendingRow]:
        return [
            row
            for row in self._journal.pending(self._notebook, is_at_work)
            if _age_s(row.record, now) <= MAX_QUESTION_AGE_S
        ]


def digest_of(begun: RunStarted) -> str:
    """A hash of what a turn may do: approval, share, budgets, procedure. Its questions seal it."""
    canonical = json.dumps(begun.model_dump(mode="json"), sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def limits_of(begun: RunStarted | None) -> AgentGuardrails:
    """The limits that a turn began with."""
    if begun is None or not begun.max_iterations:
        return AgentGuardrails()
    return AgentGuardrails(**{name: getattr(begun, name) for name in LIMITS})


def options_of(begun: RunStarted | None) -> TurnOptions:
    """What a turn began with, apart from its limits. One that is not on record tells its model
    nothing of the notebook. Raises ``ValueError`` for a mode that does not exist."""
    if begun is None:
        return TurnOptions(share=Share.none, classifier="")
    return TurnOptions(
        effort=begun.effort,
        approve=Approval(begun.approve or Approval.guarded),
        procedure=begun.procedure,
        share=Share(begun.share or Share.samples),
        context=begun.context,
        share_figures=begun.share_figures,
        notebook_cost_usd=begun.notebook_cost_usd,
        classifier=begun.classifier,
    )


def abandon_cut_off(journal: SqliteJournal, notebook: str) -> None:
    """Close the turns of ``notebook`` that ended with their kernel."""
    for run_id in journal.abandon_running(notebook, is_alive):
        journal.append(run_id, RunCancelled(reason=_CUT_OFF))


def _age_s(record: SuspensionRecord, now: datetime) -> float:
    try:
        return (now - datetime.fromisoformat(record.suspended_at)).total_seconds()
    except (ValueError, TypeError):
        return 0.0  # the checks of resuming say what is wrong with it


def owner_of(session_id: str) -> str:
    """The name under which this process claims questions; see ``is_at_work``."""
    return f"{os.getpid()}:{SYSTEM_CLOCK.now().isoformat()}:{session_id}"


def is_at_work(owner: str) -> bool:
    """Whether the process that claimed a question lives; a name of another form says nothing."""
    pid, _, rest = owner.partition(":")
    since = rest.rpartition(":")[0]
    if not pid.isdigit() or not since or int(pid) == os.getpid():
        return True
    return is_alive(int(pid), since)


def is_alive(pid: int, since: str) -> bool:
    """Whether process ``pid`` is the one that ran at ``since``; ids are given again."""
    if pid == os.getpid():
        return False  # a turn of this very process that is still marked running was cut off
    import psutil  # deferred: only asked when another process has a turn here

    try:
        started = float(psutil.Process(pid).create_time())
        ran_at = datetime.fromisoformat(since).timestamp()
    except (psutil.Error, ValueError, OverflowError):
        return False
    return started <= ran_at + 1.0


def held_lines(call: HeldCall) -> list[str]:
    """What is to be allowed, exactly: code by its lines, any other call by its arguments."""
    try:
        given = json.loads(call.arguments)
    except ValueError:
        given = None
    code = given.get("code") if isinstance(given, dict) else None
    return (code if isinstance(code, str) else f"{call.name}({call.arguments})").splitlines()


def _reaches(record: SuspensionRecord) -> bool:
    """Whether the question is to allow something that reaches outside the notebook."""
    call, why = record.pending_call, record.pending_question_context or ""
    return call is not None and not call.asks and why.casefold() != EVERY_STEP
