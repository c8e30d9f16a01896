"""The turns that this process shows: begun in a cell, shown again, and continued.

A turn goes on where its question was asked, when a button was clicked, or in the cell that
answers. Whatever it does, somebody holds its task and sees its errors.
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
from parsimony_kernel.core.events import AgentEvent, RunCancelled, UserInputRequested
from parsimony_kernel.core.results import collect
from parsimony_kernel.core.state import SuspensionRecord
from parsimony_kernel.session.identity import source_after
from parsimony_kernel.session.turns import SessionError, resolve_turn
from parsimony_kernel.view.blocks import ReplyBlock, StepBlock, lasting
from parsimony_kernel.view.fold import replay
from parsimony_kernel.view.text import record_of

_STOPPED = "stopped by the user"
_log = logging.getLogger(__name__)


class Turns:
    """Runs turns in cells and after clicks, and keeps what is needed to go on with them."""

    def __init__(self, magics: Any, clock: Clock = SYSTEM_CLOCK) -> None:
        # Those of the shell, which know the session, the cells, the settings and where to draw.
        self._magics, self._shell, self._clock = magics, magics.shell, clock
        self._records: dict[str, TurnRecord] = {}
        self._turn_of_cell: dict[str, str] = {}
        # What each cell answered, by its id, and the cell that asked with its turn.
        self._answer_of_cell: dict[str, tuple[str, str, str]] = {}
        # What the results of turns are bound to, by run.
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
        """Run the turn of an agent cell and show it there, in the place of ``sign``.

        ``stop`` says that Stop was pressed before the session listened, ``elsewhere`` that the
        request does not stand in the cell.

        Raises ``TurnError`` when it cannot begin, ``QuestionPending`` and ``TurnStopped`` when
        the cells behind it are not to run.
        """
        self._magics.follow_settings()
        place = Place(sign or self._magics.displays(), elsewhere=elsewhere)
        record = TurnRecord(place, clock=self._clock)
        session = self._magics.session
        options = options_of(request, self._magics.settings)
        if out := request.flags.get("out", ""):
            check_target(out, self._shell.user_ns, f"%{self._magics.name}")

        def begun() -> None:
            self._leave(self._turn_of_cell.get(cell_key, ""), "The cell was run again.")
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
        """Answer a question and show how the turn goes on; raises what ``ask`` raises.

        ``turn`` names which, the newest by default. In the cell that runs now, or, with ``here``,
        where the question stands if this process still has it, and the caller gets the
        continuation as one display.
        """
        displays, session = self._magics.displays(), self._magics.session
        pending, cell = session.pending(), self._magics.cells.id()
        said, asked_in, answered = self._answer_of_cell.get(cell, ("", "", ""))
        newest = self._turn_of_cell.get(asked_in, answered)
        again = newest in (answered, *(each.turn.run_id for each in pending))
        # The cell that asked was run again, as by Run All, and didn't ask again: what was chosen
        # holds. A question of another cell is not meant: the same number may allow its code.
        is_none = (said == words and not again) or (session.has_answers and not pending)
        if turn is None and is_none:
            displays.outlet.show(tables.note("Nothing to answer: it wasn't asked again."))
            return
        if turn is not None:
            named = resolve_turn(session.turns(), turn).run_id
            pending = tuple(each for each in pending if each.turn.run_id == named)
        if not pending:
            which = "No turn waits" if turn is None else f"Turn {turn} does not wait"
            raise TurnError(f"{which} for an answer; see {self._magics.name} history.")
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
                replies = [b.reply for b in record.view.blocks if isinstance(b, ReplyBlock)]
                record.settle_prompt(
                    f"Answered: {replies[-1]}. It goes on in the cell that answered."
                )

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
        """Draw a turn in the cell that runs now, with a live prompt when it asks."""
        session = self._magics.session
        run_id = resolve_turn(session.turns(), named).run_id
        place = Place(self._magics.displays(), elsewhere=True)
        record = TurnRecord(place, view=replay(session.events(run_id)), clock=self._clock)
        if not place.is_live:
            record.paint()
        record.draw(ended=True)
        if run_id in self._records and self._records[run_id].is_followed:
            return
        asking = [each.record for each in session.pending() if each.turn.run_id == run_id]
        if asking and record.place.is_live and self._is_attended():
            self._leave(run_id, "The question is shown again in another cell.")
            self._records[run_id] = record
            self._prompt(record, asking[0])
            record.go_on_below()

    def leave_all(self) -> None:
        """Turn every prompt into text: nobody listens to them any more."""
        atexit.unregister(self._end)
        for turn_id in tuple(self._records):
            self._leave(turn_id, f"To answer: {self._magics.name} answer")

    def _end(self) -> None:
        """The kernel ends in order: prompts become text where displays are still changed. Widgets
        are told nothing, since the page may have let go of them."""
        for record in self._records.values():
            if record.prompt is not None and record.can_be_answered:
                record.prompt.state = f"To answer: {self._magics.name} answer"
                record.draw(ended=True)

    def _is_attended(self) -> bool:
        """Whether somebody could press a button.

        Who runs notebooks in a batch neither names their cells nor takes input for them.
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
            # The journal has how it ended; the stream had no time to say it.
            if record.last_event is not None:
                events_kept = self._magics.session.events(record.run_id)
                record.view = replay(events_kept)
                record.draw(ended=True)
                # Pressed again and again, Stop reaches the kernel too, and that cancels the cell.
                match events_kept:
                    case [*_, RunCancelled(reason=why)] if why.startswith(_STOPPED):
                        raise TurnStopped("The turn was stopped.") from None
            raise
        finally:
            # What the turn came to so far, where its cell asked for that.
            if name := self._outs.get(record.run_id):
                self._shell.user_ns[name] = collect(self._magics.session.events(record.run_id))
            # Only a turn that is asked about later is worth keeping.
            if record.last_event and not isinstance(record.last_event, UserInputRequested):
                self._records.pop(record.run_id, None)
        if record.trouble is not None:
            trouble, record.trouble = record.trouble, None
            raise TurnError(
                f"The turn has ended, but its record could not be drawn "
                f"({type(trouble).__name__}). {self._magics.name} show draws it again."
            )

    def _end_cell(self, record: TurnRecord) -> None:
        """What stands behind the record in its cell, and whether the cells behind it may run."""
        match record.last_event:
            case UserInputRequested() if record.place.is_live and self._is_attended():
                self._prompt(record)
                record.go_on_below()
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
        """Whether the notebook's file goes on with an answer, so that it may run through."""
        source = source_after(locate(self._shell), self._magics.cells.id())
        return source.lstrip().startswith(f"{self._magics.name} answer")

    def _prompt(self, record: TurnRecord, question: SuspensionRecord | None = None) -> None:
        """A turn that asks gets its prompt where it stands."""
        asked = question or getattr(record.last_event, "suspension_record", None)
        if asked is None:
            return
        is_approval = any(
            isinstance(block, StepBlock) and block.state == "waiting"
            for block in record.view.blocks
        )
        prompt = Prompt(
            asked.choices,
            in_loop(lambda reply: self._answered(record, prompt, reply, asked)),
            free_words=not (is_approval and asked.choices),
            magic=self._magics.name,
        )
        record.add_prompt(prompt)

    async def _answered(
        self, record: TurnRecord, prompt: Prompt, reply: str, asked: SuspensionRecord
    ) -> None:
        """Continue after a click, where the question stands. Nobody awaits this: all is shown."""
        try:
            events = self._magics.session.resume(reply, turn_id=asked.run_id, nonce=asked.nonce)
            await self._follow(record, events, record.settle_prompt, in_cell=False)
            self._prompt(record)
        except TurnStopped:
            return  # the record says it
        except Exception as error:  # boundary: front end - a click
            sentence = str(error)
            if not isinstance(error, TurnError | SessionError):
                # A log may end up in a cell, where words of data and models are not to be printed.
                _log.error("Turn %s broke off (%s)", record.run_id, type(error).__name__)
                _log.debug("How that came about", exc_info=error)
                sentence = f"The turn broke off ({type(error).__name__}: {error})."
            if prompt.state is None and not self._is_over(asked):
                prompt.reopen(sentence)
            else:
                prompt.settle(sentence)
                record.draw(ended=True)

    def _is_over(self, question: SuspensionRecord) -> bool:
        """Whether the question is known to wait no more."""
        try:
            pending = self._magics.session.pending()
        except (TurnError, SessionError):
            return False
        return question.nonce not in (each.record.nonce for each in pending)

    def _leave(self, turn_id: str, why: str) -> None:
        record = self._records.pop(turn_id, None)
        if record is not None:
            record.settle_prompt(why)
