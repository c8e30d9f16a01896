"""The record of a turn in the outputs of cells.

The view folds events into blocks; here blocks get places. A live place is redrawn, never more
than ten times in any second, and ends in the form that a static one has at once. A block stays in
the place where it was first drawn, so that a turn that goes on elsewhere still corrects what it
said.
"""

import asyncio
import logging
import uuid
from base64 import b64encode
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import groupby
from typing import Any, Protocol

from parsimony_agent.outlet import Outlet
from parsimony_agent.tables import NOTHING, note
from parsimony_agent.widgets.prompt import Bundle, Prompt
from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.events import AgentEvent, RunStarted, ToolEvent
from parsimony_kernel.view.blocks import (
    Block,
    CancelledBlock,
    FigureBlock,
    FooterBlock,
    HandoffBlock,
    PartialBlock,
    ProgressBlock,
    QuestionBlock,
    ResultBlock,
    StepBlock,
)
from parsimony_kernel.view.bundle import VEGALITE_SCHEMA, bundle
from parsimony_kernel.view.fold import fold
from parsimony_kernel.view.html import png_of
from parsimony_kernel.view.run_view import EMPTY, RunView, metadata_of

_log = logging.getLogger(__name__)

# Eight redraws a second at most, which leaves two for the end of a run and for its question.
INTERVAL_S = 0.125
_PACED = 8
# How often the elapsed time is brought up to date.
TICK_S = 1.0
# Displays of a cell, and those that wait for the continuation of a question; JupyterLab folds the
# outputs of a cell behind a button from the fiftieth on.
DISPLAYS = 37
RESERVED = 12
# At the end of a place: what still grows, a control, the footer and the progress line.
_AT_THE_END = 4
# Before them, displays that take four blocks, eight, sixteen and so on.
_SHARED = 8
# What a quiet record says: how the turn ended.
OUTCOMES = (QuestionBlock, ResultBlock, HandoffBlock, PartialBlock, CancelledBlock)


class Mode(Enum):
    """How a record is shown."""

    LIVE = "live"
    STATIC = "static"
    QUIET = "quiet"


def mode_of(said: str, *, has_cell_id: bool) -> Mode:
    """What the setting says; ``auto`` is live where the front end names its cells."""
    if said == "auto":
        return Mode.LIVE if has_cell_id else Mode.STATIC
    return Mode(said)


class Control(Protocol):
    """Something to click. ``state`` is the text that it was closed into, ``None`` while open."""

    state: str | None

    def settle(self, text: str) -> None: ...

    def bundle(self) -> Bundle: ...


@dataclass(frozen=True)
class Shown:
    """A control to draw. ``state`` makes it another item once the control has been closed."""

    control: Control
    state: str | None

    def bundle(self) -> Bundle:
        return self.control.bundle()


@dataclass(frozen=True)
class Note:
    """A sentence of ours below the record, such as why it could not go on."""

    text: str

    def bundle(self) -> Bundle:
        return note(self.text), {}


Item = Block | Shown | Note
Group = tuple[Item, ...]


def arrange(items: Sequence[Item], capacity: int) -> list[Group]:
    """``items`` in at most ``capacity`` displays (6 or more), in order.

    Each has one of its own while there is room. Later ones share: four in one display, then
    eight, then sixteen, so that little is sent again when one is added, and at last all the
    others. A figure shares only the last, and what stands at the end none. An item that others
    come behind changes its display at most once.
    """
    end = len(items)
    while end > 0 and len(items) - end < _AT_THE_END - 1 and _is_kept_at_the_end(items[end - 1]):
        end -= 1
    end = max(0, end - 1)
    most = capacity - _AT_THE_END
    alone = max(0, most - _SHARED)
    groups: list[list[Item]] = []
    for item in items[:end]:
        room = 1 if len(groups) <= alone else 2 ** (len(groups) - alone + 1)
        fits = groups and len(groups[-1]) < room and not (_is_solo(item) or _is_solo(groups[-1][0]))
        if fits or len(groups) == most:
            groups[-1].append(item)
        else:
            groups.append([item])
    return [*map(tuple, groups), *((item,) for item in items[end:])]


def _is_solo(item: Item) -> bool:
    return isinstance(item, Block) and item.solo


def _is_kept_at_the_end(item: Item) -> bool:
    return item.volatile if isinstance(item, Block) else isinstance(item, Shown)


def _rendered(group: Group) -> Bundle:
    """``group`` as one display: as it is when it is one item, else its texts and its HTML."""
    if not group:
        return NOTHING, {}
    parts: list[Bundle] = []
    for is_block, run in groupby(group, key=lambda item: isinstance(item, Block)):
        if is_block:
            parts.append(bundle([item for item in run if isinstance(item, Block)]))
        else:
            parts += [item.bundle() for item in run if not isinstance(item, Block)]
    if len(parts) == 1:
        return parts[0]
    texts = [str(data.get("text/plain", "")) for data, _ in parts]
    return {
        "text/plain": "\n\n".join(text for text in texts if text.strip()),
        "text/html": "".join(str(data.get("text/html", "")) for data, _ in parts),
    }, {}


def _told(group: Group, facts: Mapping[str, Any]) -> Bundle:
    data, metadata = _rendered(group)
    return data, {**metadata, **facts}


class Place(Protocol):
    """Somewhere in an output area where items are drawn.

    ``redraws`` says that it shows what may still change.
    """

    @property
    def redraws(self) -> bool: ...

    def draw(self, items: Sequence[Item], *, ended: bool, facts: Mapping[str, Any]) -> None:
        """Show ``items``, all that belong here.

        ``ended`` says that this segment of the run is over; ``facts`` are what differs from run
        to run, as metadata.
        """


class LivePlace:
    """Displays that are redrawn: new ones as needed, or only those that are ``reserved``.

    Output that comes after a cell has ended cannot add a display to it, it can only replace one;
    so a continuation needs displays that were emitted, looking empty, while the cell ran. What a
    display shows is sent only when it is another than before. The facts go with the footer.
    """

    redraws = True

    def __init__(self, outlet: Outlet, reserved: int | None = None) -> None:
        self._outlet = outlet
        self._capacity = reserved or DISPLAYS
        self._ids: list[str] = []
        self._drawn: list[tuple[Group, Bundle]] = []
        for _ in range(reserved or 0):
            self._add((), {})

    def _add(self, group: Group, facts: Mapping[str, Any]) -> None:
        shown = _told(group, facts)
        self._ids.append(uuid.uuid4().hex)
        self._drawn.append((group, shown))
        self._outlet.show(*shown, display_id=self._ids[-1])

    def _replace(self, position: int, group: Group, facts: Mapping[str, Any]) -> None:
        before, shown_before = self._drawn[position]
        if group == before and not facts:
            return
        shown = _told(group, facts)
        self._drawn[position] = (group, shown)
        if shown != shown_before:
            self._outlet.show(*shown, display_id=self._ids[position], update=True)

    def draw(self, items: Sequence[Item], *, ended: bool, facts: Mapping[str, Any]) -> None:
        groups = arrange(items, self._capacity)
        groups += [()] * (len(self._ids) - len(groups))
        for position, group in enumerate(groups):
            has_footer = any(isinstance(item, FooterBlock) for item in group)
            given = facts if ended and has_footer else {}
            if position < len(self._ids):
                self._replace(position, group, given)
            else:
                self._add(group, given)


def _is_settled(block: Block) -> bool:
    """Whether ``block`` stays as it is while the run goes on behind it."""
    match block:
        case StepBlock():
            return block.state != "running"
        case FigureBlock():
            # A chart that was displayed may be published later, and then says so.
            return block.published is not None
    return True


def _is_held(item: Item) -> bool:
    """Whether ``item`` is what a person is asked to allow."""
    return isinstance(item, StepBlock) and item.state == "waiting"


def _identity(item: Item) -> Hashable:
    match item:
        case Block():
            return item.key
        case Shown():
            return id(item.control)
        case Note():
            return item


def _pictured(item: Item) -> Item:
    """A chart with its pixels, for exporters, which draw no specification."""
    if not isinstance(item, FigureBlock) or item.spec is None or png_of(item):
        return item
    from parsimony_kernel.artifacts.codecs import render_png  # deferred: pandas

    drawn, _ = render_png({"$schema": VEGALITE_SCHEMA, **item.spec})
    if drawn is None:
        return item
    return replace(item, png_base64=b64encode(drawn).decode("ascii"))


class StaticPlace:
    """Displays that are emitted once, in order, each as soon as it is final.

    Volatile blocks are left out, and so is what is not of a kind in ``only``, but never what the
    person is asked to allow; the facts go into the metadata of the last display, which nobody
    compares.
    """

    redraws = False

    def __init__(self, outlet: Outlet, only: tuple[type[Block], ...] = (Block,)) -> None:
        self._outlet = outlet
        self._only = only
        self._emitted: set[Hashable] = set()

    def draw(self, items: Sequence[Item], *, ended: bool, facts: Mapping[str, Any]) -> None:
        waiting = [
            item
            for item in items
            if not isinstance(item, Block)
            or (not item.volatile and (isinstance(item, self._only) or _is_held(item)))
        ]
        waiting = [item for item in waiting if _identity(item) not in self._emitted]
        if not ended:
            # The last block may still grow.
            settled = 0
            for item in waiting[:-1]:
                if isinstance(item, Block) and not _is_settled(item):
                    break
                settled += 1
            waiting = waiting[:settled]
        for position, item in enumerate(waiting, start=1):
            is_last = ended and position == len(waiting)
            self._outlet.show(*_told((_pictured(item),), facts if is_last else {}))
        self._emitted.update(map(_identity, waiting))


class TextPlace(StaticPlace):
    """Where nobody compares, as at a terminal: what the run has used is said at its end."""

    def __init__(self, outlet: Outlet) -> None:
        super().__init__(outlet)
        self._footer: Block | None = None

    def draw(self, items: Sequence[Item], *, ended: bool, facts: Mapping[str, Any]) -> None:
        footer = next((item for item in items if isinstance(item, FooterBlock)), None)
        if not ended or footer is None or footer == self._footer:
            super().draw(items, ended=ended, facts=facts)
            return
        super().draw(items, ended=ended, facts={})
        self._footer = footer
        data, metadata = bundle([footer])
        self._outlet.show(data, {**metadata, **facts})


class NoPlace:
    """Shows nothing: for what stands elsewhere already."""

    redraws = False

    def draw(self, items: Sequence[Item], *, ended: bool, facts: Mapping[str, Any]) -> None:
        return


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
        self.is_followed = False
        self._clock = clock
        self._pace = _Pace()
        self._elapsed_s = 0.0
        self._place: Place = place or NoPlace()
        self._home: dict[str, Place] = {}
        self._asides: dict[Place, list[tuple[str | None, Shown | Note]]] = {}
        self._claim()

    @property
    def is_live(self) -> bool:
        """Whether what is drawn now can be drawn again."""
        return self._place.redraws

    def _blocks(self) -> Sequence[Block]:
        """The blocks of the view, while it is followed with the time that has gone by."""
        if not self.is_followed:
            return self.view.blocks
        return [
            replace(block, elapsed_s=max(block.elapsed_s, self._elapsed_s))
            if isinstance(block, FooterBlock | ProgressBlock)
            else block
            for block in self.view.blocks
        ]

    def _claim(self) -> dict[Place, list[Block]]:
        """The blocks by place, new ones in the current place."""
        homes: dict[Place, list[Block]] = {place: [] for place in self._home.values()}
        for block in self._blocks():
            if not block.volatile:
                self._home.setdefault(block.key, self._place)
            home = self._home.get(block.key, self._place)
            homes.setdefault(home, []).append(block)
        return homes

    def go_on_in(self, place: Place) -> None:
        """Draw the blocks that are new from now on in ``place``."""
        self._place = place

    def add_prompt(self, prompt: Prompt) -> None:
        """Put ``prompt`` behind what stands in the current place."""
        self.prompt = prompt
        self.add_control(prompt)
        self.draw(ended=True)

    def add_note(self, text: str) -> None:
        """Put a sentence behind what stands in the current place."""
        self._add(Note(text))
        self.draw(ended=True)

    def add_control(self, control: Control) -> None:
        """Put ``control`` behind what stands in the current place, from the next redraw on."""
        self._add(Shown(control, control.state))

    def _add(self, item: Shown | Note) -> None:
        lasting = [block for block in self._claim().get(self._place, ()) if not block.volatile]
        anchor = lasting[-1].key if lasting else None
        self._asides.setdefault(self._place, []).append((anchor, item))

    def settle_prompt(self, text: str = "") -> None:
        """Close the open prompt, if there is one; its display becomes ``text``.

        Empty text is right where the record itself, just above, says what was answered.
        """
        if self.prompt is None:
            return
        prompt, self.prompt = self.prompt, None
        self.settle(prompt, text)
        if not self.is_followed:
            self.draw(ended=True)

    def settle(self, control: Control, text: str = "") -> None:
        """Close ``control``, from the next redraw on."""
        control.settle(text)
        for asides in self._asides.values():
            asides[:] = [
                (anchor, Shown(item.control, item.control.state))
                if isinstance(item, Shown)
                else (anchor, item)
                for anchor, item in asides
            ]

    def _items(self, place: Place, blocks: Sequence[Block]) -> list[Item]:
        """What stands in ``place``, with the open prompt last: so it gets a display that is new."""
        asides: list[tuple[str | None, Shown | Note]] = []
        opened: list[Item] = []
        for anchor, item in self._asides.get(place, []):
            if isinstance(item, Shown) and item.control is self.prompt:
                opened.append(item)
            else:
                asides.append((anchor, item))
        items: list[Item] = [item for anchor, item in asides if anchor is None]
        for block in blocks:
            items.append(block)
            items.extend(item for anchor, item in asides if anchor == block.key)
        return items + opened

    def draw(self, *, ended: bool) -> None:
        """Bring every place up to date."""
        self._pace.count(self._clock.monotonic())
        trouble = self._attempt(lambda: self._draw(ended), "could not be drawn")
        self.trouble = trouble or self.trouble

    def _draw(self, ended: bool) -> None:
        homes = self._claim()
        facts = metadata_of(self.view)
        for place in dict.fromkeys([*homes, *self._asides]):
            place.draw(self._items(place, homes.get(place, [])), ended=ended, facts=facts)

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
        turn, and what waited is drawn then, also when no
        further event comes. Code is drawn before it runs, because it may hold the thread. Where
        something else is waited for, the elapsed time is drawn about once a second.
        """
        clock, base, start = self._clock, self.view.elapsed_s, self._clock.monotonic()
        waiting: asyncio.Task[None] | None = None
        ticking: asyncio.Task[None] | None = None
        stop: Control | None = None

        async def draw_later(delay: float) -> None:
            nonlocal waiting
            await clock.sleep(delay)
            waiting = None
            self.draw(ended=False)

        def draw_soon() -> None:
            nonlocal waiting
            if waiting is not None:
                return
            delay = self._pace.delay(clock.monotonic())
            if delay > 0:
                waiting = asyncio.create_task(draw_later(delay))
            else:
                self.draw(ended=False)

        async def draw_now() -> None:
            nonlocal waiting
            if waiting is not None:
                waiting.cancel()
                waiting = None
            # What is drawn once for all comes seldom enough.
            delay = self._pace.delay(clock.monotonic(), urgent=True) if self.is_live else 0.0
            if delay > 0:
                await clock.sleep(delay)
            self.draw(ended=False)

        def offer_stop() -> None:
            nonlocal stop
            stop = stopper()
            if stop is not None:
                self.add_control(stop)

        def withdraw_stop() -> None:
            if stop is not None:
                self.settle(stop)

        async def tick() -> None:
            await clock.sleep(TICK_S)
            self._attempt(offer_stop, "has no button to stop it")
            while True:
                self._elapsed_s = base + clock.monotonic() - start
                if self.is_live:
                    draw_soon()
                await clock.sleep(TICK_S)

        self.is_followed = True
        self.last_event = None
        self._elapsed_s = 0.0
        try:
            async for event in events:
                if isinstance(event, RunStarted):
                    self.run_id = event.run_id
                self.last_event = event
                self.view = fold(self.view, event)
                if ticking is None:
                    begun()
                    ticking = asyncio.create_task(tick())
                if _is_about_to_block(event):
                    await draw_now()
                else:
                    draw_soon()
        finally:
            self.is_followed = False
            for task in (waiting, ticking):
                if task is not None:
                    task.cancel()
            self._attempt(withdraw_stop, "could not close its button")
            if self.last_event is not None:
                self.draw(ended=True)
            # A generator that was left before its end closes its turn now, not some day.
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()
