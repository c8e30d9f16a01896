"""Draw the record of a turn into the outputs of cells.

The view folds events into blocks and blocks into a segment, the answer first. Here a segment gets a
place: one output for the answer, one for its chart, one for the work, and one for controls. A live
place is redrawn at most ten times in any second, and ends in the same form that a static one has. A
block stays in the place where it was first drawn, so a turn that continues elsewhere still corrects
its earlier output.
"""

import asyncio
import logging
import sys
import threading
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from parsimony_agent.controls import Control, Prompt
from parsimony_agent.publisher import Bundle, Displays
from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.events import AgentEvent, ToolEvent
from parsimony_kernel.core.redaction import scrubber
from parsimony_kernel.display import StatusLine
from parsimony_kernel.execution.capture import printed_so_far
from parsimony_kernel.view import blocks as bl
from parsimony_kernel.view.blocks import EMPTY, RunView, metadata_of
from parsimony_kernel.view.fold import fold, stream_parts
from parsimony_kernel.view.html import VEGALITE_SCHEMA, record_html, segment_bundles
from parsimony_kernel.view.outline import png_of, progress_of, segment_of

_log = logging.getLogger(__name__)

# At most eight redraws a second, which leaves two for the end of a run and for its question.
INTERVAL_S = 0.125
# How often the elapsed time is updated.
TICK_S = 1.0
# How many lines of what running code prints are shown meanwhile.
PRINTED_LINES = 8
_STOP_IN_TOOLBAR = "Stop: ■ in the toolbar"


class Place:
    """Where one segment of a turn is drawn, with its control, open or closed.

    Args:
        displays: its outputs; ``None`` for a segment that is drawn elsewhere already. Static ones
            get the segment once, when it has ended.
        elsewhere: not under the cell that asked, so the request and the usage are shown too.
    """

    def __init__(self, displays: Displays | None = None, *, elsewhere: bool = False) -> None:
        is_terminal = displays is not None and displays.outlet.is_terminal
        self.is_live = displays is not None and displays.is_live
        self.control: Control | None = None
        self.displays = displays
        # In a terminal, a status line shows the progress.
        self._status = StatusLine(sys.stderr) if is_terminal else None
        self._elsewhere = elsewhere or is_terminal

    def draw(self, blocks: Sequence[bl.Block], *, ended: bool, facts: Mapping[str, Any]) -> None:
        """Draw ``blocks`` in order, with the control.

        Args:
            blocks: the blocks of this place.
            ended: this segment of the run is over.
            facts: what differs from run to run, as metadata.
        """
        if self._status is not None:
            self._status.show("" if ended else progress_of(blocks))
        is_due = self.is_live or (ended and bl.lasting(blocks))
        if self.displays is None or not is_due:
            return
        has_buttons = isinstance(self.control, Prompt) and self.control.state is None
        turn = self.control.turn if isinstance(self.control, Prompt) else 0
        hidden: tuple[type[bl.Block], ...] = () if self._elsewhere else (bl.FooterBlock,)
        if not self.is_live:
            hidden += (bl.ProgressBlock,)
        told = [
            replace(each, turn=turn) if isinstance(each, bl.QuestionBlock) else each
            for each in blocks
            if not isinstance(each, hidden)
        ]
        segment = segment_of(told, echo=self._elsewhere)
        head, figure, (work, about_work) = segment_bundles(segment)
        about_work = {**about_work, **facts} if ended else about_work
        below: list[Bundle] = [(work, about_work)]
        if self.control is not None:
            # Nothing stands between a question and its buttons.
            below.insert(0 if has_buttons else 1, self.control.bundle())
        self.displays.show([head, figure, *below])


class TurnRecord:
    """The record of one turn in this process: its view, and the place of each block.

    Drawing only observes: an error in it never ends the run, it is kept in ``trouble``.

    Args:
        place: where new blocks are drawn; volatile blocks move along with it.
        view: what is known of the turn already, drawn in ``place``, or elsewhere if there is none.
        clock: for redraws and the elapsed time.
    """

    def __init__(
        self, place: Place | None = None, *, view: RunView = EMPTY, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.view = view
        self.last_event: AgentEvent | None = None
        self.trouble: Exception | None = None
        # The open or the last prompt: a reloaded page still draws it.
        self.prompt: Prompt | None = None
        self.is_followed = False
        self._clock = clock
        self._drawing = threading.RLock()
        # The monotonic time of the last redraw, in seconds.
        self._drawn_at = -INTERVAL_S
        self._elapsed_s = 0.0
        self._hint = ""
        # The last lines that the running code has printed.
        self._printed = ""
        # Base64 PNGs of charts by identity, once rendered; for exporters.
        self._pixels: dict[str, str] = {}
        self._painting: asyncio.Task[None] | None = None
        self.place = place or Place()
        self._home: dict[str, Place] = {}
        self._claim()

    @property
    def run_id(self) -> str:
        """The id of the run; empty until it has started."""
        return self.view.run_id

    @property
    def can_be_answered(self) -> bool:
        """Whether its question is open, with live controls."""
        return self.prompt is not None and self.prompt.state is None

    def _brought_up_to_date(self, block: bl.Block) -> bl.Block:
        """Return ``block`` with its rendered pixels and, while followed, with the elapsed time."""
        match block:
            case bl.FigureBlock() if pixels := self._pixels.get(block.identity):
                return replace(block, png_base64=pixels)
            case bl.ProgressBlock() if self.is_followed:
                elapsed_s = max(block.elapsed_s, self._elapsed_s)
                return replace(block, elapsed_s=elapsed_s, hint=self._hint)
            case bl.FooterBlock() if self.is_followed:
                return replace(block, elapsed_s=max(block.elapsed_s, self._elapsed_s))
            case bl.StepBlock(state="running", tool_type="code") if self._printed:
                return replace(block, shown=stream_parts("Printed so far", self._printed))
        return block

    def _unpainted(self) -> list[bl.FigureBlock]:
        """Return the charts that have no pixels yet and can have some."""
        return [
            block
            for block in self.view.blocks
            if isinstance(block, bl.FigureBlock)
            and block.spec is not None
            and block.identity not in self._pixels
            and not png_of(block)
        ]

    def paint(self) -> None:
        """Render the pixels of charts that have none yet. Slow; safe on another thread."""
        from parsimony_kernel.artifacts.codecs import render_png  # deferred: pandas

        for figure in self._unpainted():
            drawn, _ = render_png({"$schema": VEGALITE_SCHEMA, **(figure.spec or {})}, scale=1)
            self._pixels[figure.identity] = b64encode(drawn or b"").decode("ascii")

    async def _draw_painted(self) -> None:
        await asyncio.to_thread(self._attempt, self.paint, "has a chart without pixels")
        if not self.is_followed:
            self.draw(ended=True)

    def _claim(self) -> dict[Place, list[bl.Block]]:
        """Return the blocks by place; new ones are assigned to the current place."""
        homes: dict[Place, list[bl.Block]] = {each: [] for each in self._home.values()}
        homes.setdefault(self.place, [])
        for block in map(self._brought_up_to_date, self.view.blocks):
            is_moving = isinstance(block, bl.VOLATILE)
            place = self.place if is_moving else self._home.setdefault(block.key, self.place)
            homes[place].append(block)
        return homes

    def add_prompt(self, prompt: Prompt) -> None:
        """Add ``prompt`` below the current place."""
        self.prompt = self.place.control = prompt
        self.draw(ended=True)

    def settle_prompt(self, text: str = "") -> None:
        """Close the prompt if it is open; its output becomes ``text``.

        Leave ``text`` empty if the record above it says what was answered.
        """
        if self.prompt is not None and self.prompt.state is None:
            self.prompt.settle(text)
            if not self.is_followed:
                self.draw(ended=True)

    def draw(self, *, ended: bool) -> None:
        """Redraw every place; an error is kept in ``trouble``."""
        with self._drawing:
            if ended or self.is_followed:
                self._drawn_at = self._clock.monotonic()
                trouble = self._attempt(lambda: self._draw(ended), "could not be drawn")
                self.trouble = trouble or self.trouble

    def _draw(self, ended: bool) -> None:
        facts = metadata_of(self.view)
        for place, blocks in self._claim().items():
            place.draw(blocks, ended=ended, facts=facts)
        if ended and self.prompt is not None:
            whole = map(self._brought_up_to_date, bl.lasting(self.view.blocks))
            self.prompt.tell(record_html(list(whole)))

    def _delay(self) -> float:
        """Return the seconds until the next redraw is due."""
        return max(0.0, self._drawn_at + INTERVAL_S - self._clock.monotonic())

    def _attempt(self, act: Callable[[], None], otherwise: str) -> Exception | None:
        """Run ``act``, which only observes the run; log and return its error, ``None`` if it has
        none.
        """
        try:
            act()
        except Exception as trouble:  # boundary: subscriber - it has still happened
            # A log may be displayed in a cell, so it must not quote data or models.
            kind = type(trouble).__name__
            _log.error("The record of turn %s %s (%s)", self.run_id, otherwise, kind)
            _log.debug("How that came about", exc_info=trouble)
            return trouble
        return None

    async def follow(
        self,
        events: AsyncIterator[AgentEvent],
        begun: Callable[[], None] = lambda: None,
        stopper: Callable[[], Control | None] = lambda: None,
    ) -> None:
        """Fold and draw ``events`` to their end.

        Redraws are throttled, and a delayed one happens even if no further event comes. Code is
        drawn before it runs, because it may hold the thread. The elapsed time, and what running
        code has printed, are redrawn about once a second: by the event loop, or by a thread while
        code holds the loop. On cancellation the end is not drawn: the caller reads it from the
        journal.

        Args:
            events: the events of one segment of the run.
            begun: called after the first event.
            stopper: called once the run has taken a while; its control is shown until the end.
        """
        clock, base, start = self._clock, self.view.used.elapsed_s, self._clock.monotonic()
        due, gone = asyncio.Event(), threading.Event()
        tasks: list[asyncio.Task[None]] = []
        stop: Control | None = None

        def redraw() -> None:
            due.clear()
            self.draw(ended=False)

        async def draw_what_is_due() -> None:
            while await due.wait():
                while (delay := self._delay()) > 0:
                    await clock.sleep(delay)
                if due.is_set():  # nothing urgent came in between
                    redraw()

        def offer_stop() -> None:
            nonlocal stop
            stop = stopper()
            self._hint = "" if stop or not self.place.is_live else _STOP_IN_TOOLBAR
            if stop is not None:
                self.place.control = stop

        def look() -> None:
            self._elapsed_s = base + clock.monotonic() - start
            if printed := scrubber()(printed_so_far()).splitlines():
                self._printed = "\n".join(printed[-PRINTED_LINES:])

        async def tick() -> None:
            await clock.sleep(TICK_S)
            self._attempt(offer_stop, "has no button to stop it")
            while True:
                look()
                due.set()
                await clock.sleep(TICK_S)

        def tick_while_held() -> None:
            while not gone.wait(TICK_S):
                if clock.monotonic() - self._drawn_at > TICK_S:  # code holds the event loop
                    self._attempt(look, "could not see what was printed")
                    self._hint = "" if stop else _STOP_IN_TOOLBAR
                    self.draw(ended=False)

        self.is_followed, self.last_event, self._elapsed_s = True, None, 0.0
        is_over = is_cancelled = False
        try:
            async for event in events:
                self.last_event = event
                self.view = fold(self.view, event)
                if not tasks:
                    begun()
                    tasks += map(asyncio.create_task, (draw_what_is_due(), tick()))
                    if self.place.is_live:
                        threading.Thread(target=tick_while_held, daemon=True).start()
                match event:
                    case ToolEvent(completed=False, tool_type="code"):
                        # Code may hold the thread while it runs; the person must see it first.
                        self._printed = ""
                        if self.place.is_live:  # a static place draws rarely enough
                            await clock.sleep(self._delay())
                        redraw()
                    case _:
                        due.set()
                        await asyncio.sleep(0)
            is_over = True
        except asyncio.CancelledError:
            is_cancelled = True
            raise
        finally:
            self.is_followed, self._printed = False, ""
            gone.set()
            for task in tasks:
                task.cancel()
            if stop is not None:
                self._attempt(lambda: stop.settle(""), "could not close its button")
            lacks_pixels = is_over and bool(self._unpainted())
            if lacks_pixels and not self.place.is_live:
                await self._draw_painted()
            if self.last_event is not None and not is_cancelled:
                self.draw(ended=True)
            if lacks_pixels and self.place.is_live:
                # The front end has drawn the chart; the pixels are for exporters.
                self._painting = asyncio.create_task(self._draw_painted())
            # Close an unfinished generator now, not when it is collected, to end its turn.
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()
