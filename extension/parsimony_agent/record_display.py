"""The record of a turn in the outputs of cells.

The view folds events into blocks and blocks into a segment, the answer first; here that gets a
place: one output for what is read first, one for the chart that answers, one for the work, and one
for what can be clicked. A live place is redrawn, never more than ten times in any second, and ends
in the form that a static one has at once. A block stays in the place where it was first drawn, so
that a turn that goes on elsewhere still corrects what it said.
"""

import asyncio
import logging
import uuid
from base64 import b64encode
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from parsimony_agent.controls import Prompt
from parsimony_agent.publisher import FirstSign, Outlet
from parsimony_agent.tables import note
from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.events import AgentEvent, RunStarted, ToolEvent
from parsimony_kernel.display import StatusLine
from parsimony_kernel.view import blocks as bl
from parsimony_kernel.view.bundle import (
    NOTHING,
    VEGALITE_SCHEMA,
    Bundle,
    record_html,
    segment_bundles,
)
from parsimony_kernel.view.fold import fold
from parsimony_kernel.view.html import png_of
from parsimony_kernel.view.run_view import EMPTY, RunView, metadata_of
from parsimony_kernel.view.segment import Segment, progress_of, segment_of

_log = logging.getLogger(__name__)

# Eight redraws a second at most, which leaves two for the end of a run and for its question.
INTERVAL_S = 0.125
_PACED = 8
# How often the elapsed time is brought up to date.
TICK_S = 1.0
_STOP_IN_TOOLBAR = "Stop: ■ in the toolbar"


class Control(Protocol):
    """Something to click. ``state`` is the text that it was closed into, ``None`` while open."""

    state: str | None

    def settle(self, text: str) -> None: ...

    def bundle(self) -> Bundle: ...


class Place:
    """Somewhere in an output area where a part of a turn is drawn: blocks, sentences of ours below
    them, and the control that can be clicked or was. As it is, it shows nothing: for what stands
    elsewhere already.

    ``redraws`` says that what it shows may still change, ``ticks`` that it shows time go by.
    """

    redraws = ticks = False

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.control: Control | None = None

    def draw(self, blocks: Sequence[bl.Block], *, ended: bool, facts: Mapping[str, Any]) -> None:
        """Show ``blocks``, in their order, and what else belongs here.

        ``ended`` says that this segment of the run is over; ``facts`` are what differs from run
        to run, as metadata.
        """

    def _outputs(self, segment: Segment, notes: Sequence[str]) -> list[Bundle]:
        """What is read first with ``notes`` below it, the chart, the work, and the control."""
        (data, metadata), *rest = segment_bundles(segment)
        for below in map(note, notes):
            plain = "\n\n".join([str(data.get("text/plain", "")), below["text/plain"]])
            markup = str(data.get("text/html", "")) + below["text/html"]
            data = {"text/plain": plain, "text/html": markup}
        return [(data, metadata), *rest, *([self.control.bundle()] if self.control else [])]


class LivePlace(Place):
    """Outputs that are redrawn; what one shows is sent only when it is another than before.

    Args:
        below_question: this goes on from the question above it, once the cell has ended. Output
            that comes then cannot be added, it can only replace some; so all of it is emitted
            now, looking empty.
        elsewhere: not under the cell that asked, so the request and the usage are told.
        sign: an output that is there already, for what is read first.
    """

    redraws = ticks = True

    def __init__(
        self,
        outlet: Outlet,
        *,
        below_question: bool = False,
        elsewhere: bool = False,
        sign: FirstSign | None = None,
    ) -> None:
        super().__init__()
        self._outlet = outlet
        self._sign = sign
        self._is_reply_told = below_question
        self._elsewhere = elsewhere
        self._shown: list[tuple[str, Bundle]] = []
        if below_question:
            self._show([(NOTHING, {})] * 4)

    def draw(self, blocks: Sequence[bl.Block], *, ended: bool, facts: Mapping[str, Any]) -> None:
        can_be_clicked = isinstance(self.control, Prompt) and self.control.state is None
        told: list[bl.Block] = []
        for each in blocks:
            if isinstance(each, bl.QuestionBlock):
                told.append(replace(each, has_buttons=can_be_clicked))
            elif self._elsewhere or not isinstance(each, bl.FooterBlock):
                told.append(each)
        segment = segment_of(told, echo=self._elsewhere, is_reply_told=self._is_reply_told)
        outputs = self._outputs(segment, self.notes)
        if ended:
            data, metadata = outputs[2]
            outputs[2] = data, {**metadata, **facts}
        self._show(outputs)

    def _show(self, outputs: Sequence[Bundle]) -> None:
        if not self._shown and self._sign is not None and (there := self._sign.take()):
            self._shown.append((there, ({}, {})))
        for position, output in enumerate(outputs):
            is_new = position == len(self._shown)
            if is_new:
                self._shown.append((uuid.uuid4().hex, output))
            display_id, before = self._shown[position]
            if is_new or output != before:
                self._shown[position] = display_id, output
                self._outlet.show(*output, display_id=display_id, update=not is_new)


class StaticPlace(Place):
    """Outputs that are emitted once, at the end of each segment.

    Volatile blocks are left out; the facts go into the metadata of the last output, which nobody
    compares.

    Args:
        elsewhere: not under the cell that asked, so the request and the usage are told.
        status: a line of a terminal that says meanwhile what is going on.
    """

    redraws = False

    def __init__(
        self, outlet: Outlet, *, elsewhere: bool = False, status: StatusLine | None = None
    ) -> None:
        super().__init__()
        self._outlet, self._elsewhere = outlet, elsewhere
        self._status = status
        self.ticks = status is not None
        self._emitted: set[str] = set()
        self._noted = 0

    def draw(self, blocks: Sequence[bl.Block], *, ended: bool, facts: Mapping[str, Any]) -> None:
        if self._status is not None:
            self._status.show("" if ended else progress_of(blocks))
        if not ended:
            return
        new = [each for each in bl.lasting(blocks) if each.key not in self._emitted]
        notes, self._noted = self.notes[self._noted :], len(self.notes)
        if not new and not notes:
            return
        used = [each for each in blocks if isinstance(each, bl.FooterBlock) and self._elsewhere]
        segment = segment_of([*new, *used], echo=self._elsewhere, is_reply_told=bool(self._emitted))
        self._emitted.update(each.key for each in new)
        outputs = self._outputs(segment, notes)
        last, metadata = outputs[-1]
        for data, told in (*outputs[:-1], (last, {**metadata, **facts})):
            self._outlet.show(data, told)


def pixels_of(figure: bl.FigureBlock) -> str:
    """The PNG of a chart that is a specification, as base64; empty where it cannot be drawn."""
    from parsimony_kernel.artifacts.codecs import render_png  # deferred: pandas

    drawn, _ = render_png({"$schema": VEGALITE_SCHEMA, **(figure.spec or {})}, scale=1)
    return "" if drawn is None else b64encode(drawn).decode("ascii")


class _Pace:
    """When the record may be redrawn, by the times of the last redraws in seconds."""

    def __init__(self) -> None:
        self._drawn: deque[float] = deque(maxlen=_PACED)

    def count(self, now: float) -> None:
        self._drawn.append(now)

    def delay(self, now: float, *, urgent: bool = False) -> float:
        """Seconds from ``now``. What is urgent waits only when a second's redraws are used up."""
        free = float("-inf")
        if len(self._drawn) == _PACED:
            free = self._drawn[0] + 1.0
        if self._drawn and not urgent:
            free = max(free, self._drawn[-1] + INTERVAL_S)
        return max(0.0, free - now)


def _is_about_to_block(event: AgentEvent) -> bool:
    """Whether nothing can be drawn until the next event: code holds the thread while it runs, and
    the person must see what it is."""
    return isinstance(event, ToolEvent) and not event.completed and event.tool_type == "code"


class TurnRecord:
    """One turn as this process shows it: its view, and where each block of it stands.

    ``view`` is what is known of the turn already: drawn in ``place``, or, without one, standing
    elsewhere. Volatile blocks move along to where the turn goes on. Drawing is an observer:
    trouble in it never ends the run, it is kept in ``trouble``.
    """

    def __init__(
        self,
        place: Place | None = None,
        *,
        run_id: str = "",
        view: RunView = EMPTY,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.view = view
        self.run_id = run_id
        self.last_event: AgentEvent | None = None
        self.trouble: Exception | None = None
        self.prompt: Prompt | None = None
        # What was clicked, which a page that was loaded again still draws.
        self._answered: Prompt | None = None
        self.is_followed = False
        self._clock = clock
        self._pace = _Pace()
        self._elapsed_s = 0.0
        self._hint = ""
        # The pixels of charts by their identity, once they are drawn, for exporters.
        self._pixels: dict[str, str] = {}
        self._painting: asyncio.Task[None] | None = None
        self._place: Place = place or Place()
        self._home: dict[str, Place] = {}
        self._claim()

    @property
    def is_live(self) -> bool:
        """Whether what is drawn now can be drawn again."""
        return self._place.redraws

    def _blocks(self) -> Sequence[bl.Block]:
        """The blocks of the view, with the pixels that are there, and while it is followed with
        the time that has gone by."""
        return list(map(self._brought_up_to_date, self.view.blocks))

    def _brought_up_to_date(self, block: bl.Block) -> bl.Block:
        match block:
            case bl.FigureBlock() if pixels := self._pixels.get(block.identity):
                return replace(block, png_base64=pixels)
            case bl.ProgressBlock() if self.is_followed:
                elapsed_s = max(block.elapsed_s, self._elapsed_s)
                return replace(block, elapsed_s=elapsed_s, hint=self._hint)
            case bl.FooterBlock() if self.is_followed:
                return replace(block, elapsed_s=max(block.elapsed_s, self._elapsed_s))
        return block

    def _unpainted(self) -> list[bl.FigureBlock]:
        """The charts without pixels that can have some."""
        return [
            block
            for block in self.view.blocks
            if isinstance(block, bl.FigureBlock)
            and block.spec is not None
            and block.identity not in self._pixels
            and not png_of(block)
        ]

    def paint(self) -> None:
        """Make the pixels of charts that have none yet. Slow, and safe on another thread."""
        for figure in self._unpainted():
            self._pixels[figure.identity] = pixels_of(figure)

    async def _paint_later(self) -> None:
        await asyncio.to_thread(self._attempt, self.paint, "has a chart without pixels")
        if not self.is_followed:
            self.draw(ended=True)

    def _claim(self) -> dict[Place, list[bl.Block]]:
        """The blocks by place, new ones in the current place."""
        homes: dict[Place, list[bl.Block]] = {each: [] for each in self._home.values()}
        for block in self._blocks():
            if not block.volatile:
                self._home.setdefault(block.key, self._place)
            homes.setdefault(self._home.get(block.key, self._place), []).append(block)
        homes.setdefault(self._place, [])
        return homes

    def go_on_in(self, place: Place) -> None:
        """Draw the blocks that are new from now on in ``place``."""
        self._place = place

    def add_prompt(self, prompt: Prompt) -> None:
        """Put ``prompt`` below what stands in the current place."""
        self.prompt = self._place.control = prompt
        self.draw(ended=True)

    def add_note(self, text: str) -> None:
        """Put a sentence below what stands in the current place."""
        self._place.notes.append(text)
        self.draw(ended=True)

    def settle_prompt(self, text: str = "") -> None:
        """Close the open prompt, if there is one; its output becomes ``text``.

        Empty text is right where the record itself, just above, says what was answered.
        """
        if self.prompt is None:
            return
        prompt, self.prompt = self.prompt, None
        self._answered = prompt
        prompt.settle(text)
        if not self.is_followed:
            self.draw(ended=True)

    def draw(self, *, ended: bool) -> None:
        """Bring every place up to date."""
        self._pace.count(self._clock.monotonic())
        trouble = self._attempt(lambda: self._draw(ended), "could not be drawn")
        self.trouble = trouble or self.trouble

    def _draw(self, ended: bool) -> None:
        facts = metadata_of(self.view)
        for place, blocks in self._claim().items():
            place.draw(blocks, ended=ended, facts=facts)
        if ended and self._answered is not None:
            self._answered.tell(record_html(bl.lasting(self._blocks())))

    def _attempt(self, act: Callable[[], None], otherwise: str) -> Exception | None:
        """Do what only observes the run, which goes on whatever comes of it."""
        try:
            act()
        except Exception as trouble:  # boundary: subscriber - it has still happened
            # A log may end up in a cell, where words of data and models are not to be printed.
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

        ``begun`` is called once the first has come, ``stopper`` once it is clear that this is not
        over in a moment: what it gives stands in the record until the end. Drawing waits for its
        turn, and what waited is drawn then, also when no further event comes. Code is drawn before
        it runs, because it may hold the thread. Where something else is waited for, the elapsed
        time is drawn about once a second.
        """
        clock, base, start = self._clock, self.view.used.elapsed_s, self._clock.monotonic()
        due = asyncio.Event()
        tasks: list[asyncio.Task[None]] = []
        stop: Control | None = None

        def redraw() -> None:
            due.clear()
            self.draw(ended=False)

        async def draw_what_is_due() -> None:
            while await due.wait():
                while (delay := self._pace.delay(clock.monotonic())) > 0:
                    await clock.sleep(delay)
                if due.is_set():  # nothing urgent came in between
                    redraw()

        def offer_stop() -> None:
            nonlocal stop
            stop = stopper()
            if stop is not None:
                self._place.control = stop
            elif self.is_live:
                self._hint = _STOP_IN_TOOLBAR

        def withdraw_stop() -> None:
            if stop is not None:
                stop.settle("")

        async def tick() -> None:
            await clock.sleep(TICK_S)
            self._attempt(offer_stop, "has no button to stop it")
            while True:
                self._elapsed_s = base + clock.monotonic() - start
                if self._place.ticks:
                    due.set()
                await clock.sleep(TICK_S)

        self.is_followed = True
        self.last_event = None
        self._elapsed_s = 0.0
        is_over = False
        try:
            async for event in events:
                if isinstance(event, RunStarted):
                    self.run_id = event.run_id
                self.last_event = event
                self.view = fold(self.view, event)
                if not tasks:
                    begun()
                    tasks += map(asyncio.create_task, (draw_what_is_due(), tick()))
                if _is_about_to_block(event):
                    # What is drawn once for all comes seldom enough.
                    if self.is_live:
                        await clock.sleep(self._pace.delay(clock.monotonic(), urgent=True))
                    redraw()
                else:
                    due.set()
                    await asyncio.sleep(0)
            is_over = True
        finally:
            self.is_followed = False
            for task in tasks:
                task.cancel()
            self._attempt(withdraw_stop, "could not close its button")
            if is_over and not self.is_live and self._unpainted():
                await asyncio.to_thread(self._attempt, self.paint, "has a chart without pixels")
            if self.last_event is not None:
                self.draw(ended=True)
            if is_over and self.is_live and self._unpainted():
                # The front end draws the chart already; this is for exporters.
                self._painting = asyncio.create_task(self._paint_later())
            # A generator that was left before its end closes its turn now, not some day.
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()
