"""The turns that this process displays: started in a cell, drawn again, resumed.

A turn resumes where its question was asked if a button was clicked, else in the cell that answers.
Every task is owned by a cell or a click handler, which sees its errors.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

from parsimony_agent import tables
from parsimony_agent.arguments import CellRequest
from parsimony_agent.cell import locate
from parsimony_agent.controls import Control, Prompt, StopButton, in_loop, is_heard_mid_cell
from parsimony_agent.options import check_target, options_of
from parsimony_agent.pending import QuestionPending, QuestionUnanswered, TurnError, TurnStopped
from parsimony_agent.publisher import Displays
from parsimony_agent.record_display import Place, TurnRecord
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.events import AgentEvent, RunCancelled, UserInputRequested, collect
from parsimony_kernel.core.state import SuspensionRecord
from parsimony_kernel.session.notebook_identity import source_after
from parsimony_kernel.session.turn_values import SessionError, resolve_turn
from parsimony_kernel.view.blocks import StepBlock, lasting
from parsimony_kernel.view.fold import replay
from parsimony_kernel.view.plain_text import record_of

_STOPPED = "stopped by the user"
_log = logging.getLogger(__name__)


class Turns:
    """Run turns in cells and after clicks, and keep the state needed to resume them."""

    def __init__(self, magics: Any, clock: Clock = SYSTEM_CLOCK) -> None:
        # The magics give access to the session, the cells, the settings and the displays.
        self._magics, self._shell, self._clock = magics, magics.shell, clock
        self._records: dict[str, TurnRecord] = {}
        self._turn_of_cell: dict[str, str] = {}
        # By id of the answering cell: its words, the key of the cell that asked, the turn's run id.
        self._answer_of_cell: dict[str, tuple[str, str, str]] = {}
        # The variable that takes a turn's result (``-o``), by run id.
        self._outs: dict[str, str] = {}
        atexit.register(self._end)

    async def ask(
        self,
        request: CellRequest,
        cell_key: str,
        stop: CancellationRequest | None = None,
        sign: Displays | None = None,
        *,
        elsewhere: bool = False,
    ) -> None:
        """Run the turn of an agent cell and draw its record there, in place of ``sign``.

        Args:
            request: the parsed cell.
            cell_key: the key of this turn of the cell.
            stop: set if Stop was pressed before the session listened.
            sign: the displays that show "Starting …".
            elsewhere: the request is not the text of the cell, so the record repeats it.

        Raises:
            TurnError: the turn cannot start.
            QuestionPending: it waits for an answer; fails the cell so that queued cells do not run.
            TurnStopped: it was stopped; fails the cell as well.
        """
        self._magics.follow_settings()
        place = Place(sign or self._magics.displays(), elsewhere=elsewhere)
        record = TurnRecord(place, clock=self._clock)
        session = self._magics.session
        options = options_of(request, self._magics.settings)
        if out := request.flags.get("out", ""):
            check_target(out, self._shell.user_ns, f"%{self._magics.name}")

        def begun() -> None:
            self.leave(self._turn_of_cell.get(cell_key, ""), "The cell was run again.")
            self._turn_of_cell[cell_key] = record.run_id
            self._records[record.run_id] = record
            self._outs[record.run_id] = out

        events = session.turn(request.text, cell_key=cell_key, options=options, stop=stop)
        await self._follow(record, events, begun)
        self._end_cell(record)

    async def answer(
        self,
        words: str,
        *,
        turn: str | None = None,
        here: bool = False,
        stop: CancellationRequest | None = None,
    ) -> None:
        """Answer a question and draw how the turn continues; raises the same errors as ``ask``.

        Args:
            words: the number of a choice, or free text.
            turn: which turn to answer; the newest that waits by default.
            here: continue where the question is displayed, if this process still displays it, and
                give the caller the continuation as one display. Otherwise it continues in the
                running cell.
            stop: set if Stop was pressed before the session listened.
        """
        displays, session = self._magics.displays(), self._magics.session
        pending, cell = session.pending(), self._magics.cells.id()
        last_words, asked_in, answered = self._answer_of_cell.get(cell, ("", "", ""))
        newest = self._turn_of_cell.get(asked_in, answered)
        again = newest in (answered, *(each.turn.run_id for each in pending))
        # The cell that asked was run again, as by Run All, and didn't ask again: the earlier choice
        # holds. Never answer another cell's question instead: the same number may allow its code.
        is_none = (last_words == words and not again) or (session.answers and not pending)
        if turn is None and is_none:
            name = self._magics.name
            why = f"Nothing to answer: no question waits. {name} show draws the last turn."
            displays.outlet.show(tables.note(why))
            return
        if turn is not None:
            named = resolve_turn(session.turns(), turn).run_id
            pending = tuple(each for each in pending if each.turn.run_id == named)
        if not pending:
            name = self._magics.name
            which = "No turn waits" if turn is None else f"Turn {turn} does not wait"
            remedy = "see %s history" if turn is None else f"%s show {turn} draws it"
            raise TurnError(f"{which} for an answer; {remedy % name}.")
        question = pending[0].record
        record = self._records.get(question.run_id)
        if record is None:
            record = TurnRecord(view=replay(session.events(question.run_id)), clock=self._clock)
        known = {block.key for block in record.view.blocks}
        stays = here and record.can_be_answered

        def begun() -> None:
            if cell:
                began = {run_id: key for key, run_id in self._turn_of_cell.items()}
                asker = began.get(question.run_id, "")
                self._answer_of_cell[cell] = words, asker, question.run_id
            self._records[question.run_id] = record
            if stays:
                record.settle_prompt()
            else:
                record.place = Place() if here else Place(displays)
                record.settle_prompt("The turn continues in the cell that answered.")

        events = session.resume(words, turn_id=question.run_id, nonce=question.nonce, stop=stop)
        await self._follow(record, events, begun)
        if not here:
            self._end_cell(record)
            return
        if stays:
            self._prompt(record)
        new = tuple(block for block in record.view.blocks if block.key not in known)
        displays.outlet.show(tables.words(record_of(lasting(new))))

    def show(self, named: str | None) -> None:
        """Draw a turn in the running cell, with a live prompt if it waits for an answer.

        By default the newest that waits for one, else the newest.
        """
        session = self._magics.session
        waiting = [each.turn.run_id for each in session.pending() if named is None]
        run_id = waiting[0] if waiting else resolve_turn(session.turns(), named).run_id
        place = Place(displays := self._magics.displays(), elsewhere=True)
        record = TurnRecord(place, view=replay(session.events(run_id)), clock=self._clock)
        if not place.is_live:
            record.paint()
        record.draw(ended=True)
        if run_id in self._records and self._records[run_id].is_followed:
            return
        asking = [each.record for each in session.pending() if each.turn.run_id == run_id]
        if asking and record.place.is_live and self._is_attended():
            self.leave(run_id, "The question is shown again in another cell.")
            self._records[run_id] = record
            self._prompt(record, asking[0])
        if asking and (lost := session.lost(asking[0])):
            if record.prompt is not None:
                record.prompt.say(lost)
            else:
                displays.outlet.show(tables.note(lost))

    def leave_all(self) -> None:
        """Close every open prompt, since nothing listens to it any more."""
        atexit.unregister(self._end)
        for turn_id in tuple(self._records):
            self.leave(turn_id, "")

    def _end(self) -> None:
        """Take open prompts away at an orderly exit of the kernel; the card says how to answer.

        Widgets get no message, since the page may have discarded them.
        """
        for record in self._records.values():
            if record.prompt is not None and record.can_be_answered:
                record.prompt.state = ""
                record.draw(ended=True)

    def _is_attended(self) -> bool:
        """Return whether a person could press a button.

        Batch runs send no cell ids and do not allow input.
        """
        request = self._magics.cells.parent().get("content") or {}
        return bool(self._magics.cells.id()) or bool(request.get("allow_stdin"))

    async def _follow(
        self,
        record: TurnRecord,
        events: AsyncIterator[AgentEvent],
        begun: Callable[[], None] = lambda: None,
        *,
        in_cell: bool = True,
    ) -> None:
        def stopper() -> Control | None:
            if not record.place.is_live or (in_cell and not is_heard_mid_cell(self._shell)):
                return None
            return StopButton(self._magics.session.stop)

        try:
            await record.follow(events, begun, stopper)
        except asyncio.CancelledError:
            # The stream was cut off; the journal has the end.
            if record.last_event is not None:
                events_kept = self._magics.session.events(record.run_id)
                record.view = replay(events_kept)
                record.draw(ended=True)
                # Pressing Stop repeatedly interrupts the kernel too, which cancels the cell.
                match events_kept:
                    case [*_, RunCancelled(reason=why)] if why.startswith(_STOPPED):
                        raise TurnStopped("The turn was stopped.") from None
            raise
        finally:
            # The result so far, if the cell asked for one (``-o``).
            if name := self._outs.get(record.run_id):
                self._shell.user_ns[name] = collect(self._magics.session.events(record.run_id))
            # Only a turn that waits for an answer is needed later.
            if record.last_event and not isinstance(record.last_event, UserInputRequested):
                self._records.pop(record.run_id, None)
        if record.trouble is not None:
            trouble, record.trouble = record.trouble, None
            raise TurnError(
                f"The turn has ended, but its record could not be drawn "
                f"({type(trouble).__name__}). {self._magics.name} show draws it again."
            )

    def _end_cell(self, record: TurnRecord) -> None:
        """Add the prompt below the record, and raise if the cells queued behind must not run."""
        match record.last_event:
            case UserInputRequested() if record.place.is_live and self._is_attended():
                self._prompt(record)
                if not self._next_cell_answers():
                    raise QuestionPending("The agent asks; cells queued behind it were not run.")
            case UserInputRequested():
                if self._magics.settings.value("on_question") == "raise":
                    raise QuestionUnanswered(
                        "The agent asks, and nobody answers; the question is in the record above."
                    )
            case RunCancelled():
                raise TurnStopped("The turn was stopped; cells queued behind it were not run.")

    def _next_cell_answers(self) -> bool:
        """Return whether the notebook's next cell answers, so that the run may go on."""
        source = source_after(locate(self._shell), self._magics.cells.id())
        return source.lstrip().startswith(f"{self._magics.name} answer")

    def _prompt(self, record: TurnRecord, question: SuspensionRecord | None = None) -> None:
        """Add a prompt where the record is drawn, if its turn waits for an answer."""
        asked = question or getattr(record.last_event, "suspension_record", None)
        if asked is None:
            return
        steps = (block for block in record.view.blocks if isinstance(block, StepBlock))
        is_approval = any(step.state == "waiting" for step in steps)
        rows = self._magics.session.pending()
        prompt = Prompt(
            asked.choices,
            in_loop(lambda reply: self._answered(record, prompt, reply, asked)),
            free_words=not (is_approval and asked.choices),
            magic=self._magics.name,
            turn=next((row.turn.ordinal for row in rows if row.record.nonce == asked.nonce), 0),
        )
        record.add_prompt(prompt)

    async def _answered(
        self, record: TurnRecord, prompt: Prompt, reply: str, asked: SuspensionRecord
    ) -> None:
        """Resume a turn after a click, where its question is drawn.

        Nobody awaits this, so every error is drawn or logged.
        """
        try:
            events = self._magics.session.resume(reply, turn_id=asked.run_id, nonce=asked.nonce)
            await self._follow(record, events, record.settle_prompt, in_cell=False)
            self._prompt(record)
        except TurnStopped:
            return  # the record says it
        except Exception as error:  # boundary: front end - a click
            sentence = str(error)
            if not isinstance(error, TurnError | SessionError):
                # A log may be displayed in a cell, so it must not quote data or models.
                _log.error("Turn %s broke off (%s)", record.run_id, type(error).__name__)
                _log.debug("How that came about", exc_info=error)
                sentence = f"The turn broke off ({type(error).__name__}: {error})."
            if prompt.state is None and not self._is_over(asked):
                prompt.reopen(sentence)
            else:
                prompt.settle(sentence)
                record.draw(ended=True)

    def _is_over(self, question: SuspensionRecord) -> bool:
        """Return whether the question is known to be closed; ``False`` if that cannot be read."""
        try:
            pending = self._magics.session.pending()
        except (TurnError, SessionError):
            return False
        return question.nonce not in (each.record.nonce for each in pending)

    def leave(self, turn_id: str, why: str) -> None:
        """Close the open prompt of a turn, if it has one, and say ``why`` in its place."""
        record = self._records.pop(turn_id, None)
        if record is not None:
            record.settle_prompt(why)
