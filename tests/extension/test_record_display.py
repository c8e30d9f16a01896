"""The record in the outputs of cells."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from output_area import OutputArea

from parsimony_agent.record_display import (
    DISPLAYS,
    OUTCOMES,
    RESERVED,
    Control,
    Item,
    LivePlace,
    Mode,
    Note,
    StaticPlace,
    TextPlace,
    TurnRecord,
    arrange,
    mode_of,
)
from parsimony_kernel.core.events import (
    AgentEvent,
    ArtifactPublished,
    Heartbeat,
    LLMCallCompleted,
    RunCompleted,
    RunStarted,
    TextDelta,
    ToolEvent,
)
from parsimony_kernel.testing.clock import ManualClock
from parsimony_kernel.view.blocks import (
    FigureBlock,
    FooterBlock,
    ProgressBlock,
    ProseBlock,
    RequestBlock,
    StepBlock,
    lasting,
)
from parsimony_kernel.view.bundle import bundle
from parsimony_kernel.view.fold import replay

CHART = {"mark": "bar", "data": {"values": [{"a": 1}]}, "encoding": {"x": {"field": "a"}}}


async def settle() -> None:
    """Let everything that can run, run."""
    for _ in range(20):
        await asyncio.sleep(0)


async def pass_time(clock: ManualClock, seconds: float) -> None:
    await settle()
    clock.advance(seconds)
    await settle()


def step(number: int, *, done: bool) -> ToolEvent:
    return ToolEvent(
        tool_name="run_code",
        tool_call_id=f"c{number}",
        tool_type="code",
        completed=done,
        arguments={"code": f"x = {number}"},
        ok=True if done else None,
        result={"requested": "run_code", "result": {}} if done else None,
    )


def figure_published(number: int) -> ArtifactPublished:
    return ArtifactPublished(
        kind="chart",
        logical_id="l",
        content_sha="s",
        path=f".ockham/charts/{number}.vl.json",
        title=f"Chart {number}",
        figure={**CHART, "title": f"Chart {number}"},
    )


STARTED = RunStarted(run_id="r1", request="plot it", model="scripted")
ANSWERED = LLMCallCompleted(model="scripted", prompt_tokens=10, completion_tokens=2)
RUN: list[AgentEvent] = [
    STARTED,
    TextDelta(content="I look "),
    TextDelta(content="at it."),
    ANSWERED,
    step(1, done=False),
    step(1, done=True),
    ANSWERED,
    step(2, done=False),
    figure_published(1),
    step(2, done=True),
    ANSWERED,
    RunCompleted(summary="There it is.", variables=("x",)),
]


async def stream(events: Sequence[AgentEvent]) -> AsyncIterator[AgentEvent]:
    for event in events:
        yield event


class Feed:
    """An event stream that a test feeds by hand."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[AgentEvent | None] = asyncio.Queue()

    async def put(self, *events: AgentEvent | None) -> None:
        for event in events:
            self._queue.put_nowait(event)
        await settle()

    async def stream(self) -> AsyncIterator[AgentEvent]:
        while (event := await self._queue.get()) is not None:
            yield event


class TimedArea(OutputArea):
    """An output area that knows when each display was sent anything."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self.sent: dict[str | None, list[float]] = {}
        self._clock = clock

    def show(
        self,
        data: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
        *,
        display_id: str | None = None,
        update: bool = False,
    ) -> None:
        super().show(data, metadata, display_id=display_id, update=update)
        self.sent.setdefault(display_id, []).append(self._clock.monotonic())

    @property
    def moments(self) -> list[float]:
        """When anything was sent, in seconds."""
        return sorted({moment for moments in self.sent.values() for moment in moments})

    @property
    def messages(self) -> int:
        return sum(map(len, self.sent.values()))


def most_in_a_second(moments: Sequence[float]) -> int:
    return max(sum(start <= each < start + 1.0 for each in moments) for start in moments)


class Button:
    """Something to click, without a front end."""

    state: str | None = None

    def settle(self, text: str) -> None:
        self.state = text

    def bundle(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"text/plain": "BUTTON" if self.state is None else self.state}, {}


def unpictured(area: OutputArea) -> list[dict[str, Any]]:
    """What the displays show that is compared: all but the pixels of charts."""
    return [
        {kind: data for kind, data in display.data.items() if kind != "image/png"}
        for display in area.displays
    ]


async def test_a_static_chart_comes_with_its_pixels_and_a_live_one_is_drawn_by_its_front_end() -> (
    None
):
    live, static = OutputArea(), OutputArea()
    await TurnRecord(LivePlace(live)).follow(stream(RUN))
    await TurnRecord(StaticPlace(static)).follow(stream(RUN))
    charts = [
        [each for each in area.displays if "application/vnd.vegalite.v5+json" in each.data]
        for area in (live, static)
    ]
    assert [len(each) for each in charts] == [len(charts[0])] * 2
    assert charts[0]
    assert not any("image/png" in each.data for each in charts[0])
    assert all(each.data["image/png"].startswith("iVBORw0KGgo") for each in charts[1])


async def test_the_final_live_form_equals_the_static_form() -> None:
    live, static = OutputArea(), OutputArea()
    await TurnRecord(LivePlace(live)).follow(stream(RUN))
    await TurnRecord(StaticPlace(static)).follow(stream(RUN))
    blocks = lasting(replay(RUN).blocks)
    assert unpictured(static) == [bundle([block])[0] for block in blocks]
    *shown, footer = [each.data for each in live.displays if each.text]
    assert shown == unpictured(static)
    assert "model calls" in footer["text/plain"]


async def test_a_chart_has_a_display_of_its_own_with_its_own_mime() -> None:
    area = OutputArea()
    await TurnRecord(LivePlace(area)).follow(stream(RUN))
    charts = [each for each in area.displays if "application/vnd.vegalite.v5+json" in each.data]
    assert len(charts) == 1
    assert "text/html" not in charts[0].data


async def test_static_emits_each_block_once_in_order_and_never_updates() -> None:
    area, feed, clock = OutputArea(), Feed(), ManualClock(auto=False)
    record = TurnRecord(StaticPlace(area), clock=clock)
    task = asyncio.create_task(record.follow(feed.stream()))
    seen = []
    for event in RUN:
        await feed.put(event)
        await pass_time(clock, 0.1)
        seen.append(list(area.texts))
    await feed.put(None)
    await task
    for earlier, later in zip(seen, [*seen[1:], area.texts], strict=True):
        assert later[: len(earlier)] == earlier
    assert area.updates == 0
    assert all(display.display_id is None for display in area.displays)
    # Before the end, what was settled had been emitted already.
    assert len(seen[-2]) >= 3


@pytest.mark.parametrize("cut", range(1, len(RUN)))
async def test_what_static_emitted_early_is_what_the_whole_run_says(cut: int) -> None:
    area, feed, clock = OutputArea(), Feed(), ManualClock(auto=False)
    record = TurnRecord(StaticPlace(area), clock=clock)
    task = asyncio.create_task(record.follow(feed.stream()))
    await feed.put(*RUN[:cut])
    await pass_time(clock, 0.1)
    whole = [bundle([block])[0] for block in lasting(replay(RUN).blocks)]
    assert unpictured(area) == whole[: len(area.displays)]
    await feed.put(*RUN[cut:], None)
    await task
    assert unpictured(area) == whole


async def test_volatile_facts_are_metadata_of_the_last_static_display() -> None:
    area = OutputArea()
    await TurnRecord(StaticPlace(area)).follow(stream(RUN))
    assert area.displays[-1].metadata["parsimony"]["prompt_tokens"] == 30
    assert "30" not in area.displays[-1].text
    assert "parsimony" not in area.displays[0].metadata


async def test_quiet_shows_how_the_turn_ended_and_nothing_else() -> None:
    area = OutputArea()
    await TurnRecord(StaticPlace(area, OUTCOMES)).follow(stream(RUN))
    assert len(area.texts) == 1
    assert "There it is." in area.text


async def test_a_stream_is_drawn_at_a_steady_pace_and_its_tail_without_another_event() -> None:
    clock, feed = ManualClock(auto=False), Feed()
    area = TimedArea(clock)
    record = TurnRecord(LivePlace(area), clock=clock)
    task = asyncio.create_task(record.follow(feed.stream()))
    await feed.put(STARTED)
    for number in range(200):
        await feed.put(TextDelta(content=f"w{number} "))
        await pass_time(clock, 0.01)
    assert 7 <= most_in_a_second(area.moments) <= 10
    assert all(after - before < 0.2 for before, after in pairwise(area.moments))
    await feed.put(TextDelta(content="last"))
    assert "last" not in area.text
    await pass_time(clock, 0.2)
    assert "last" in area.text
    await feed.put(RunCompleted(summary="Done."), None)
    await task
    assert "Done." in area.text


async def test_fast_steps_are_drawn_at_most_ten_times_in_any_second_each_before_it_runs() -> None:
    clock = ManualClock()
    area = TimedArea(clock)
    unseen = []

    async def steps() -> AsyncIterator[AgentEvent]:
        yield STARTED
        for number in range(1, 41):
            yield step(number, done=False)
            if f"x = {number}" not in area.text:
                unseen.append(number)
            clock.advance(0.001)
            yield step(number, done=True)
            yield ANSWERED
        yield RunCompleted(summary="There it is.")

    record = TurnRecord(LivePlace(area), clock=clock)
    await record.follow(steps())
    record.add_control(Button())
    record.draw(ended=True)
    assert unseen == []
    assert most_in_a_second(area.moments) <= 10
    assert clock.monotonic() < 6
    assert "x = 40" in area.text
    assert "There it is." in area.text


async def test_a_few_fast_steps_wait_for_nothing() -> None:
    clock = ManualClock()
    await TurnRecord(LivePlace(OutputArea()), clock=clock).follow(stream(RUN))
    assert clock.monotonic() == 0


async def test_where_nothing_can_be_redrawn_code_does_not_wait_to_be_shown() -> None:
    clock = ManualClock()
    events = [STARTED, *(step(each, done=done) for each in range(40) for done in (False, True))]
    await TurnRecord(StaticPlace(OutputArea()), clock=clock).follow(stream(events))
    assert clock.monotonic() == 0


async def test_the_time_goes_on_once_a_second_while_a_model_or_code_is_waited_for() -> None:
    clock, feed = ManualClock(auto=False), Feed()
    area = TimedArea(clock)
    record = TurnRecord(LivePlace(area), clock=clock)
    task = asyncio.create_task(record.follow(feed.stream()))
    await feed.put(STARTED.model_copy(update={"max_execution_time_s": 300.0}))
    sent = area.messages
    seen = []
    for _ in range(5):
        await pass_time(clock, 1.0)
        seen.append(area.text)
    for second, text in enumerate(seen, start=1):
        assert f"{second}.0 s of 300 s" in text
        assert f"{second} s" in text.splitlines()[-1]
    # The footer and the progress line, nothing else.
    assert area.messages - sent == 10
    await feed.put(Heartbeat(model="scripted", silent_s=5.0), RunCompleted(summary="Done."), None)
    await task
    assert clock.sleepers == 0


async def test_in_the_end_the_time_is_what_the_run_has_told() -> None:
    clock, feed, area = ManualClock(auto=False), Feed(), OutputArea()
    record = TurnRecord(LivePlace(area), clock=clock)
    task = asyncio.create_task(record.follow(feed.stream()))
    await feed.put(STARTED)
    await pass_time(clock, 1.0)
    assert "1.0 s" in area.text
    await feed.put(ANSWERED.model_copy(update={"duration_s": 0.5}), RunCompleted(summary="."), None)
    await task
    assert "0.5 s" in area.text


async def test_a_new_block_sends_itself_and_what_moves_behind_it_and_nothing_before() -> None:
    clock = ManualClock(auto=False)
    area, feed = TimedArea(clock), Feed()
    record = TurnRecord(LivePlace(area), clock=clock)
    task = asyncio.create_task(record.follow(feed.stream()))
    await feed.put(STARTED, step(1, done=False), step(1, done=True))
    await pass_time(clock, 0.2)
    before, sent = list(area.sent.items()), area.messages
    await feed.put(step(2, done=False))
    await pass_time(clock, 0.2)
    assert area.messages - sent == 3
    assert [area.sent[display] for display, _ in before[:2]] == [sent for _, sent in before[:2]]
    await feed.put(None)
    await task


async def test_the_button_to_stop_stands_there_only_while_a_long_run_goes_on() -> None:
    clock, feed, area = ManualClock(auto=False), Feed(), OutputArea()
    offered: list[Control] = []

    def stopper() -> Control:
        offered.append(Button())
        return offered[-1]

    record = TurnRecord(LivePlace(area), clock=clock)
    task = asyncio.create_task(record.follow(feed.stream(), stopper=stopper))
    await feed.put(STARTED)
    await pass_time(clock, 0.9)
    assert offered == []
    await pass_time(clock, 0.2)
    assert area.texts.count("BUTTON") == 1
    await feed.put(step(1, done=False), step(1, done=True))
    await pass_time(clock, 3.0)
    assert area.texts.count("BUTTON") == 1
    assert len(offered) == 1
    await feed.put(RunCompleted(summary="Done."), None)
    await task
    assert offered[0].state == ""
    assert "BUTTON" not in area.text


async def test_a_run_goes_on_without_a_button_that_cannot_be_made(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    clock, feed, area = ManualClock(auto=False), Feed(), OutputArea()

    def stopper() -> Control:
        raise RuntimeError("https://evil.example")

    record = TurnRecord(LivePlace(area), clock=clock)
    task = asyncio.create_task(record.follow(feed.stream(), stopper=stopper))
    await feed.put(STARTED)
    await pass_time(clock, 1.0)
    await pass_time(clock, 1.0)
    assert "2.0 s" in area.text
    await feed.put(RunCompleted(summary="Done."), None)
    await task
    assert "has no button to stop it (RuntimeError)" in caplog.text
    assert "evil" not in caplog.text


async def test_only_what_changed_is_drawn_again() -> None:
    area = OutputArea()
    record = TurnRecord(LivePlace(area))
    await record.follow(stream(RUN))
    drawn = area.updates
    record.draw(ended=True)
    assert area.updates == drawn


async def test_a_reserved_place_only_updates_and_looks_empty_until_then() -> None:
    area = OutputArea()
    record = TurnRecord(LivePlace(area))
    await record.follow(stream(RUN[:4]))
    shown = len(area.displays)
    record.go_on_in(LivePlace(area, RESERVED))
    assert [each.text for each in area.displays[shown:]] == [""] * RESERVED
    await record.follow(stream(RUN[4:]))
    assert len(area.displays) == shown + RESERVED
    # All of the continuation, in order.
    text = "\n".join(each.text for each in area.displays[shown:])
    assert "x = 1" in text
    assert text.index("x = 1") < text.index("x = 2") < text.index("There it is.")
    assert "x = 1" not in "\n".join(each.text for each in area.displays[:shown])


async def test_what_does_not_fit_into_reserved_displays_shares_some() -> None:
    area = OutputArea()
    record = TurnRecord(LivePlace(area, reserved=6))
    await record.follow(stream(RUN))
    assert len(area.displays) == 6
    order = [area.text.index(words) for words in ("I look", "x = 1", "x = 2", "There it is.")]
    assert order == sorted(order)


async def test_a_long_run_keeps_within_its_displays_and_is_all_there() -> None:
    area = OutputArea()
    events = [STARTED, *(step(each, done=done) for each in range(1, 100) for done in (False, True))]
    record = TurnRecord(LivePlace(area), clock=ManualClock())
    await record.follow(stream([*events, RunCompleted(summary="There it is.")]))
    assert len(area.displays) <= DISPLAYS
    assert DISPLAYS + RESERVED < 50
    order = [area.text.index(f"x = {number}\n") for number in range(1, 100)]
    assert order == sorted(order)


async def test_trouble_in_drawing_does_not_end_the_run_and_its_words_are_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    class Broken(OutputArea):
        def show(self, *args: object, **kwargs: object) -> None:
            raise OSError("no channel to https://evil.example")

    record = TurnRecord(LivePlace(Broken()))
    await record.follow(stream(RUN))
    assert isinstance(record.last_event, RunCompleted)
    assert isinstance(record.trouble, OSError)
    assert "could not be drawn (OSError)" in caplog.text
    assert "evil" not in caplog.text


async def test_a_cancelled_record_closes_its_stream() -> None:
    closed = []

    async def endless() -> AsyncIterator[AgentEvent]:
        try:
            yield STARTED
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    record = TurnRecord(LivePlace(OutputArea()))
    task = asyncio.create_task(record.follow(endless()))
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed == [True]
    assert not record.is_followed


FOOTER, PROGRESS = FooterBlock(key="footer"), ProgressBlock(key="progress", activity="x")


def _prose(number: int) -> ProseBlock:
    return ProseBlock(key=f"prose-{number}")


def _with_figures(number: int) -> ProseBlock | FigureBlock:
    return FigureBlock(key=f"figure-{number}", number=number) if number % 3 == 0 else _prose(number)


@pytest.mark.parametrize("capacity", [6, RESERVED, DISPLAYS])
@pytest.mark.parametrize("made", [_prose, _with_figures])
def test_items_keep_their_order_and_the_display_in_which_others_came_behind_them(
    capacity: int, made: Callable[[int], ProseBlock | FigureBlock]
) -> None:
    stood: dict[object, list[int]] = {}
    for count in (*range(1, 60), *range(60, 300, 7)):
        items: list[Item] = [*map(made, range(count)), FOOTER, PROGRESS]
        groups = arrange(items, capacity)
        assert [item for group in groups for item in group] == items
        assert len(groups) <= capacity
        assert [len(group) for group in groups[-3:]] == [1, 1, 1]
        for position, group in enumerate(groups):
            for item in group:
                stood.setdefault(item, []).append(position)
    for stands, positions in stood.items():
        if stands not in (FOOTER, PROGRESS):
            assert len(set(positions[1:])) <= 1


def test_each_item_has_a_display_while_there_is_room() -> None:
    items: list[Item] = [*map(_prose, range(25)), Note("x"), FOOTER]
    assert arrange(items, DISPLAYS) == [(item,) for item in items]


def test_a_figure_shares_no_display_while_there_is_room() -> None:
    figure = FigureBlock(key="f", number=1)
    items: list[Item] = [*map(_prose, range(40)), figure, *map(_prose, range(40, 80))]
    assert (figure,) in arrange(items, DISPLAYS)


async def test_a_terminal_is_told_once_in_the_end_what_the_run_used() -> None:
    area = OutputArea()
    record = TurnRecord(TextPlace(area))
    await record.follow(stream(RUN))
    static = [bundle([block])[0] for block in lasting(replay(RUN).blocks)]
    assert unpictured(area)[:-1] == static
    assert "3 model calls" in area.displays[-1].text
    record.draw(ended=True)
    assert len(area.displays) == len(static) + 1


def test_quiet_shows_what_is_to_be_allowed_and_still_how_it_ended() -> None:
    area = OutputArea()
    place = StaticPlace(area, OUTCOMES)
    request = RequestBlock(key="request-0", words="plot it")
    held = StepBlock(key="step-1", number=1, tool="run_code", purpose="look", state="waiting")
    outcome = replay([STARTED, RunCompleted(summary="There it is.")]).blocks[1]
    place.draw([request, held], ended=True, facts={})
    assert len(area.texts) == 1
    assert "look" in area.text
    allowed = StepBlock(key="step-1", number=1, tool="run_code", purpose="look", state="done")
    place.draw([request, allowed, outcome], ended=True, facts={})
    assert len(area.texts) == 2
    assert "There it is." in area.texts[1]


@pytest.mark.parametrize(
    ("said", "has_cell_id", "mode"),
    [
        ("auto", True, Mode.LIVE),
        ("auto", False, Mode.STATIC),
        ("static", True, Mode.STATIC),
        ("live", False, Mode.LIVE),
        ("quiet", True, Mode.QUIET),
    ],
)
def test_the_front_end_decides_how_it_is_shown_unless_the_setting_does(
    said: str, has_cell_id: bool, mode: Mode
) -> None:
    assert mode_of(said, has_cell_id=has_cell_id) is mode


async def test_the_charts_of_a_continuation_are_drawn_as_charts() -> None:
    area = OutputArea()
    events: list[AgentEvent] = [STARTED]
    for number in range(1, 5):
        events += [
            TextDelta(content=f"Chart {number} is next."),
            step(2 * number, done=False),
            step(2 * number, done=True),
            ANSWERED,
            step(2 * number + 1, done=False),
            figure_published(number),
            step(2 * number + 1, done=True),
        ]
    record = TurnRecord(LivePlace(area, RESERVED), clock=ManualClock())
    await record.follow(stream([*events, RunCompleted(summary="There they are.")]))
    assert len(area.displays) == RESERVED
    charts = [each for each in area.displays if "application/vnd.vegalite.v5+json" in each.data]
    assert len(charts) >= 3
    assert "Chart 4" in area.text
