"""The record of a turn in the outputs of cells.

The view folds events into blocks; here blocks get places. A live place is redrawn, at most ten
times a second, and ends in the form that a static one has at once. A block stays in the place
where it was first drawn, so that a turn that goes on elsewhere still corrects what it said.
"""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from parsimony_agent.outlet import Outlet
from parsimony_agent.pending import Misuse
from parsimony_agent.tables import NOTHING, note
from parsimony_agent.widgets.prompt import Prompt
from parsimony_kernel.agent.events import AgentEvent, RunStarted, ToolEvent
from parsimony_kernel.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.view.blocks import (
    Block,
    CancelledBlock,
    FigureBlock,
    HandoffBlock,
    PartialBlock,
    QuestionBlock,
    ResultBlock,
    StepBlock,
)
from parsimony_kernel.view.bundle import bundle
from parsimony_kernel.view.fold import fold
from parsimony_kernel.view.run_view import EMPTY, RunView, metadata_of

_log = logging.getLogger(__name__)

INTERVAL_S = 0.1
# Displays that wait for the continuation of a question; JupyterLab folds the outputs of a cell
# behind a button from the fiftieth on.
RESERVED = 12
_BLOCKS_IN_A_GROUP = 6
# What a quiet record says: how the turn ended.
OUTCOMES = (QuestionBlock, ResultBlock, HandoffBlock, PartialBlock, CancelledBlock)


class Mode(Enum):
    """How a record is shown."""

    LIVE = "live"
    STATIC = "static"
    QUIET = "quiet"


def mode_of(environ: Mapping[str, str], *, has_cell_id: bool) -> Mode:
    """What ``PARSIMONY_DISPLAY`` says, else live where the front end names its cells."""
    said = environ.get("PARSIMONY_DISPLAY", "").strip().lower()
    if not said or said == "auto":
        return Mode.LIVE if has_cell_id else Mode.STATIC
    try:
        return Mode(said)
    except ValueError:
        raise Misuse(
            f"PARSIMONY_DISPLAY is {said!r}; it takes auto, live, static or quiet."
        ) from None


@dataclass(frozen=True)
class Asking:
    """A prompt to draw. ``state`` makes it another item once the prompt has changed."""

    prompt: Prompt
    state: str | None
    solo: bool = True

    def bundle(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.prompt.bundle()


@dataclass(frozen=True)
class Note:
    """A sentence of ours below the record, such as why it could not go on."""

    text: str
    solo: bool = True

    def bundle(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return note(self.text), {}


Item = Block | Asking | Note
Group = tuple[Item, ...]


def arrange(items: Sequence[Item], capacity: int | None = None) -> list[Group]:
    """``items`` in displays, in order: solo ones alone, the others in short runs.

    Runs are short so that a change redraws little. With a ``capacity`` the last display takes
    what is left. An item keeps its display while others come behind it.
    """
    groups: list[list[Item]] = []
    for item in items:
        last = groups[-1] if groups else None
        if last and not item.solo and not last[-1].solo and len(last) < _BLOCKS_IN_A_GROUP:
            last.append(item)
        else:
            groups.append([item])
    if capacity is not None and len(groups) > capacity:
        rest = [item for group in groups[capacity - 1 :] for item in group]
        groups = [*groups[: capacity - 1], rest]
    return [tuple(group) for group in groups]


def _rendered(group: Group) -> tuple[dict[str, Any], dict[str, Any]]:
    asides = [item for item in group if not isinstance(item, Block)]
    # When the last place has to hold everything, what the person can act on comes first.
    if asides and (len(asides) == len(group) or asides[-1] is group[-1]):
        return asides[-1].bundle()
    return bundle([item for item in group if isinstance(item, Block)])


class Place(Protocol):
    """Somewhere in an output area where items are drawn."""

    def draw(self, items: Sequence[Item], *, ended: bool, facts: Mapping[str, Any]) -> None:
        """Show ``items``, all that belong here.

        ``ended`` says that this segment of the run is over; ``facts`` are what differs from run
        to run, as metadata.
        """


class LivePlace:
    """Displays that are redrawn: new ones as needed, or only those that are ``reserved``.

    Output that comes after a cell has ended cannot add a display to it, it can only replace one;
    so a continuation needs displays that were emitted, looking empty, while the cell ran.
    """

    def __init__(self, outlet: Outlet, reserved: int | None = None) -> None:
        self._outlet = outlet
        self._capacity = reserved
        self._ids: list[str] = []
        self._drawn: list[Group] = []
        for position in range(reserved or 0):
            self._put(position, ())

    def _put(self, position: int, group: Group) -> None:
        data, metadata = _rendered(group) if group else (NOTHING, {})
        update = position < len(self._ids)
        if not update:
            self._ids.append(uuid.uuid4().hex)
            self._drawn.append(())
        self._outlet.show(data, metadata, display_id=self._ids[position], update=update)
        self._drawn[position] = group

    def draw(self, items: Sequence[Item], *, ended: bool, facts: Mapping[str, Any]) -> None:
        groups = arrange(items, self._capacity)
        groups += [()] * (len(self._ids) - len(groups))
        for position, group in enumerate(groups):
            if position >= len(self._ids) or self._drawn[position] != group:
                self._put(position, group)


def _is_settled(block: Block) -> bool:
    """Whether ``block`` stays as it is while the run goes on behind it."""
    match block:
        case StepBlock():
            return block.state != "running"
        case FigureBlock():
            # A chart that was displayed may be published later, and then says so.
            return block.published is not None
    return True


class StaticPlace:
    """Displays that are emitted once, in order, each as soon as it is final.

    Volatile blocks are left out, and so is what is not of a kind in ``only``; the facts go into
    the metadata of the last display, which nobody compares.
    """

    def __init__(self, outlet: Outlet, only: tuple[type[Block], ...] = (Block,)) -> None:
        self._outlet = outlet
        self._only = only
        self._emitted = 0

    def draw(self, items: Sequence[Item], *, ended: bool, facts: Mapping[str, Any]) -> None:
        lasting = [
            item
            for item in items
            if not isinstance(item, Block) or (isinstance(item, self._only) and not item.volatile)
        ]
        waiting = lasting[self._emitted :]
        if not ended:
            # The last block may still grow.
            settled = 0
            for item in waiting[:-1]:
                if isinstance(item, Block) and not _is_settled(item):
                    break
                settled += 1
            waiting = waiting[:settled]
        for position, item in enumerate(waiting, start=1):
            data, metadata = _rendered((item,))
            if ended and position == len(waiting):
                metadata = {**metadata, **facts}
            self._outlet.show(data, metadata)
        self._emitted += len(waiting)


class NoPlace:
    """Shows nothing: for what stands elsewhere already."""

    def draw(self, items: Sequence[Item], *, ended: bool, facts: Mapping[str, Any]) -> None:
        return


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
        self._place: Place = place or NoPlace()
        self._home: dict[str, Place] = {}
        self._asides: dict[Place, list[tuple[str | None, Asking | Note]]] = {}
        self._claim()

    def _claim(self) -> dict[Place, list[Block]]:
        """The blocks by place, new ones in the current place."""
        homes: dict[Place, list[Block]] = {place: [] for place in self._home.values()}
        for block in self.view.blocks:
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
        self._add(Asking(prompt, prompt.state))

    def add_note(self, text: str) -> None:
        """Put a sentence behind what stands in the current place."""
        self._add(Note(text))

    def _add(self, item: Asking | Note) -> None:
        lasting = [block for block in self._claim().get(self._place, ()) if not block.volatile]
        anchor = lasting[-1].key if lasting else None
        self._asides.setdefault(self._place, []).append((anchor, item))
        self.draw(ended=True)

    def settle_prompt(self, text: str = "") -> None:
        """Close the open prompt, if there is one; its display becomes ``text``.

        Empty text is right where the record itself, just above, says what was answered.
        """
        if self.prompt is None:
            return
        self.prompt.settle(text)
        self._asides = {
            place: [
                (
                    anchor,
                    Asking(item.prompt, item.prompt.state) if isinstance(item, Asking) else item,
                )
                for anchor, item in asides
            ]
            for place, asides in self._asides.items()
        }
        self.prompt = None
        self.draw(ended=True)

    def _items(self, place: Place, blocks: Sequence[Block]) -> list[Item]:
        asides = self._asides.get(place, [])
        items: list[Item] = [item for anchor, item in asides if anchor is None]
        for block in blocks:
            items.append(block)
            items.extend(item for anchor, item in asides if anchor == block.key)
        return items

    def draw(self, *, ended: bool) -> None:
        """Bring every place up to date."""
        try:
            homes = self._claim()
            facts = metadata_of(self.view)
            for place in dict.fromkeys([*homes, *self._asides]):
                place.draw(self._items(place, homes.get(place, [])), ended=ended, facts=facts)
        except Exception as trouble:  # a subscriber: what it cannot show has still happened
            _log.exception("The record of turn %s could not be drawn", self.run_id)
            self.trouble = trouble

    async def follow(
        self, events: AsyncIterator[AgentEvent], begun: Callable[[], None] = lambda: None
    ) -> None:
        """Fold and draw ``events`` to their end; ``begun`` is called once the first has come.

        Drawing waits for ``INTERVAL_S`` after the last time, and what waited is drawn then, also
        when no further event comes. Code is drawn before it runs.
        """
        drawn_at = float("-inf")
        waiting: asyncio.Task[None] | None = None

        def draw() -> None:
            nonlocal drawn_at
            drawn_at = self._clock.monotonic()
            self.draw(ended=False)

        async def draw_later(delay: float) -> None:
            nonlocal waiting
            await self._clock.sleep(delay)
            waiting = None
            draw()

        self.is_followed = True
        self.last_event = None
        try:
            async for event in events:
                if isinstance(event, RunStarted):
                    self.run_id = event.run_id
                is_first = self.last_event is None
                self.last_event = event
                self.view = fold(self.view, event)
                if is_first:
                    begun()
                if _is_about_to_block(event):
                    if waiting is not None:
                        waiting.cancel()
                        waiting = None
                    draw()
                elif waiting is None:
                    delay = drawn_at + INTERVAL_S - self._clock.monotonic()
                    if delay <= 0:
                        draw()
                    else:
                        waiting = asyncio.create_task(draw_later(delay))
        finally:
            self.is_followed = False
            if waiting is not None:
                waiting.cancel()
            if self.last_event is not None:
                self.draw(ended=True)
            # A generator that was left before its end closes its turn now, not some day.
            close = getattr(events, "aclose", None)
            if close is not None:
                await close()
