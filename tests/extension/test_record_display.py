"""The record in the outputs of cells."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from output_area import OutputArea

from parsimony_agent.pending import Misuse
from parsimony_agent.record_display import (
    OUTCOMES,
    LivePlace,
    Mode,
    Note,
    StaticPlace,
    TurnRecord,
    arrange,
    mode_of,
)
from parsimony_kernel.agent.events import (
    AgentEvent,
    ArtifactPublished,
    LLMCallCompleted,
    RunCompleted,
    RunStarted,
    TextDelta,
    ToolEvent,
)
from parsimony_kernel.testing.clock import ManualClock
from parsimony_kernel.view.blocks import FigureBlock, ProseBlock, lasting
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


async def test_the_final_live_form_equals_the_static_form() -> None:
    live, static = OutputArea(), OutputArea()
    await TurnRecord(LivePlace(live)).follow(stream(RUN))
    await TurnRecord(StaticPlace(static)).follow(stream(RUN))
    blocks = lasting(replay(RUN).blocks)
    assert [display.data for display in static.displays] == [bundle([block])[0] for block in blocks]
    for display in static.displays:
        if "text/html" in display.data:
            assert display.text in live.text
        else:
            assert display.data in [each.data for each in live.displays]


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
    assert [display.data for display in area.displays] == whole[: len(area.displays)]
    await feed.put(*RUN[cut:], None)
    await task
    assert [display.data for display in area.displays] == whole


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


async def test_a_stream_is_drawn_ten_times_a_second_and_its_tail_without_another_event() -> None:
    clock, area, feed = ManualClock(auto=False), OutputArea(), Feed()
    record = TurnRecord(LivePlace(area), clock=clock)
    task = asyncio.create_task(record.follow(feed.stream()))
    await feed.put(STARTED)
    at_start = area.updates
    for number in range(100):
        await feed.put(TextDelta(content=f"w{number} "))
        await pass_time(clock, 0.01)
    assert 9 <= area.updates - at_start <= 11
    await feed.put(TextDelta(content="last"))
    assert "last" not in area.text
    await pass_time(clock, 0.1)
    assert "last" in area.text
    await feed.put(RunCompleted(summary="Done."), None)
    await task
    assert "Done." in area.text


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
    record.go_on_in(LivePlace(area, reserved=3))
    assert [each.text for each in area.displays[shown:]] == ["", "", ""]
    await record.follow(stream(RUN[4:]))
    assert len(area.displays) == shown + 3
    # Two steps, then the chart, then the rest: all of the continuation, in order.
    text = "\n".join(each.text for each in area.displays[shown:])
    assert "x = 1" in text
    assert text.index("x = 1") < text.index("x = 2") < text.index("There it is.")
    assert "x = 1" not in "\n".join(each.text for each in area.displays[:shown])


async def test_what_does_not_fit_into_reserved_displays_stands_in_the_last() -> None:
    area = OutputArea()
    record = TurnRecord(LivePlace(area, reserved=2))
    await record.follow(stream(RUN))
    assert len(area.displays) == 2
    assert "There it is." in area.displays[1].text


async def test_trouble_in_drawing_does_not_end_the_run(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(OutputArea):
        def show(self, *args: object, **kwargs: object) -> None:
            raise OSError("no channel")

    record = TurnRecord(LivePlace(Broken()))
    await record.follow(stream(RUN))
    assert isinstance(record.last_event, RunCompleted)
    assert isinstance(record.trouble, OSError)
    assert "could not be drawn" in caplog.text


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


def test_runs_are_short_and_solo_items_stand_alone() -> None:
    prose = [ProseBlock(key=str(number)) for number in range(8)]
    figure = FigureBlock(key="f", number=1)
    groups = arrange([*prose, figure, prose[0], Note("x"), prose[1]])
    assert [len(group) for group in groups] == [6, 2, 1, 1, 1, 1]
    assert [len(group) for group in arrange([*prose, figure, prose[0]], capacity=2)] == [6, 4]


@pytest.mark.parametrize(
    ("said", "has_cell_id", "mode"),
    [
        ("", True, Mode.LIVE),
        ("", False, Mode.STATIC),
        ("auto", True, Mode.LIVE),
        ("static", True, Mode.STATIC),
        ("LIVE", False, Mode.LIVE),
        ("quiet", True, Mode.QUIET),
    ],
)
def test_the_front_end_decides_how_it_is_shown_unless_the_environment_does(
    said: str, has_cell_id: bool, mode: Mode
) -> None:
    assert mode_of({"PARSIMONY_DISPLAY": said}, has_cell_id=has_cell_id) is mode


def test_another_display_mode_is_refused() -> None:
    with pytest.raises(Misuse, match="PARSIMONY_DISPLAY is 'loud'"):
        mode_of({"PARSIMONY_DISPLAY": "loud"}, has_cell_id=True)
