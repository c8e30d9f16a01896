"""The record in the outputs of cells."""

import asyncio
import io
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from parsimony_agent.controls import Control
from parsimony_agent.publisher import Displays
from parsimony_agent.record_display import Place, TurnRecord
from parsimony_kernel.core import events as ev
from parsimony_kernel.execution.capture import Capture, capturing
from parsimony_kernel.execution.factory import OutputFactory
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.view.blocks import lasting
from parsimony_kernel.view.fold import replay
from parsimony_kernel.view.html import NOTHING, segment_bundles
from parsimony_kernel.view.outline import segment_of
from tests.extension.output_area import OutputArea

CHART = {"mark": "bar", "data": {"values": [{"a": 1}]}, "encoding": {"x": {"field": "a"}}}


def live(area: OutputArea, **where: Any) -> Place:
    return Place(Displays(area), **where)


def static(area: OutputArea, **where: Any) -> Place:
    return Place(Displays(area, is_live=False), **where)


async def settle() -> None:
    """Let everything that can run, run."""
    for _ in range(20):
        await asyncio.sleep(0)


def step(number: int, *, done: bool) -> ev.ToolEvent:
    return ev.ToolEvent(
        tool_name="run_code",
        tool_call_id=f"c{number}",
        tool_type="code",
        completed=done,
        arguments={"code": f"x = {number}"},
        ok=True if done else None,
        result={"requested": "run_code", "result": {}} if done else None,
    )


def figure_published(number: int) -> ev.ArtifactPublished:
    return ev.ArtifactPublished(
        kind="chart",
        logical_id="l",
        content_sha="s",
        path=f".ockham/charts/{number}.vl.json",
        title=f"Chart {number}",
        figure={**CHART, "title": f"Chart {number}"},
    )


STARTED = ev.RunStarted(run_id="r1", request="plot it", model="scripted")
ANSWERED = ev.LLMCallCompleted(model="scripted", prompt_tokens=10, completion_tokens=2)
RUN: list[ev.AgentEvent] = [
    STARTED,
    ev.TextDelta(content="I look "),
    ev.TextDelta(content="at it."),
    ANSWERED,
    step(1, done=False),
    step(1, done=True),
    ANSWERED,
    step(2, done=False),
    figure_published(1),
    step(2, done=True),
    ANSWERED,
    ev.RunCompleted(summary="There it is.", variables=("x",)),
]


async def stream(events: Sequence[ev.AgentEvent]) -> AsyncIterator[ev.AgentEvent]:
    for event in events:
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


class Playing:
    """A turn that is drawn while a test feeds it events and moves its clock."""

    def __init__(
        self,
        place: Callable[[OutputArea], Place],
        stopper: Callable[[], Control | None] = lambda: None,
    ) -> None:
        self.clock = ManualClock(auto=False)
        self.area = TimedArea(self.clock)
        self._events: asyncio.Queue[ev.AgentEvent | None] = asyncio.Queue()
        record = TurnRecord(place(self.area), clock=self.clock)
        self._task = asyncio.create_task(record.follow(self._stream(), stopper=stopper))

    async def put(self, *events: ev.AgentEvent) -> None:
        for event in events:
            self._events.put_nowait(event)
        await settle()

    async def pass_time(self, seconds: float) -> None:
        await settle()
        self.clock.advance(seconds)
        await settle()

    async def end(self, *events: ev.AgentEvent) -> None:
        """Put the last events, by default that it is done."""
        await self.put(*events or [ev.RunCompleted(summary="Done.")])
        self._events.put_nowait(None)
        await self._task

    async def _stream(self) -> AsyncIterator[ev.AgentEvent]:
        while (event := await self._events.get()) is not None:
            yield event


def most_in_a_second(moments: Sequence[float]) -> int:
    return max(sum(start <= each < start + 1.0 for each in moments) for start in moments)


class Button(Control):
    """Something to click, without a front end."""

    widget = SimpleNamespace(_repr_mimebundle_=dict)
    instead = "BUTTON"


VEGA = "application/vnd.vegalite.v5+json"


def of_segment(events: Sequence[ev.AgentEvent]) -> list[dict[str, Any]]:
    return [data for data, _ in segment_bundles(segment_of(lasting(replay(events).blocks)))]


def unpictured(area: OutputArea) -> list[dict[str, Any]]:
    """What the outputs show that is compared: all but the pixels of charts."""
    return [
        {kind: data for kind, data in display.data.items() if kind != "image/png"} or NOTHING
        for display in area.displays
    ]


async def painted(record: TurnRecord) -> None:
    """Wait for the pixels that come once a live turn has ended."""
    if record._painting is not None:
        await record._painting


async def test_live_and_static_outputs_are_identical() -> None:
    drawn, once = OutputArea(), OutputArea()
    record = TurnRecord(live(drawn))
    await record.follow(stream(RUN))
    await TurnRecord(static(once)).follow(stream(RUN))
    assert unpictured(drawn) == unpictured(once) == of_segment(RUN)
    await painted(record)
    assert [each.data for each in drawn.displays] == [each.data for each in once.displays]
    assert [each.metadata for each in drawn.displays] == [each.metadata for each in once.displays]


async def test_live_chart_is_drawn_by_frontend_then_gets_png() -> None:
    area = OutputArea()
    record = TurnRecord(live(area))
    await record.follow(stream(RUN))
    _, chart, _ = area.displays
    assert set(chart.data) == {VEGA, "text/plain"}
    await painted(record)
    assert chart.data["image/png"].startswith("iVBORw0KGgo")
    assert "text/html" not in chart.data


@pytest.mark.parametrize("cut", range(1, len(RUN)))
async def test_static_emits_nothing_until_segment_ends(cut: int) -> None:
    turn = Playing(static)
    await turn.put(*RUN[:cut])
    await turn.pass_time(0.1)
    assert turn.area.displays == []
    await turn.end(*RUN[cut:])
    assert turn.area.updates == 0
    assert [display.display_id for display in turn.area.displays] == [None] * 3


async def test_chart_turn_is_under_80_kilobytes() -> None:
    area = OutputArea()
    rows = [{"month": f"20{12 + at // 12}-{at % 12 + 1:02}", "m": at * 37 % 29} for at in range(48)]
    line = {
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {"field": "month", "type": "temporal"},
            "y": {"field": "m", "type": "quantitative"},
        },
    }
    sized = {**line, "data": {"values": rows}, "width": 520, "height": 320, "title": "Chart 1"}
    chart = figure_published(1).model_copy(update={"figure": sized})
    events = [each if not isinstance(each, ev.ArtifactPublished) else chart for each in RUN]
    await TurnRecord(static(area)).follow(stream(events))
    outputs = [{"data": each.data, "metadata": each.metadata} for each in area.displays]
    assert len(json.dumps(outputs)) < 80_000


async def test_stream_is_drawn_steadily() -> None:
    turn = Playing(live)
    await turn.put(STARTED)
    for number in range(200):
        await turn.put(ev.TextDelta(content=f"w{number} "))
        await turn.pass_time(0.01)
    assert 7 <= most_in_a_second(turn.area.moments) <= 10
    assert all(after - before < 0.2 for before, after in pairwise(turn.area.moments))
    await turn.put(ev.TextDelta(content="last"))
    assert "last" not in turn.area.text
    await turn.pass_time(0.2)
    assert "last" in turn.area.text
    await turn.end()
    assert "Done." in turn.area.text


async def test_updates_are_at_most_ten_a_second() -> None:
    clock = ManualClock()
    area = TimedArea(clock)
    unseen = []

    async def steps() -> AsyncIterator[ev.AgentEvent]:
        yield STARTED
        for number in range(1, 41):
            yield step(number, done=False)
            if f"x = {number}" not in area.text:
                unseen.append(number)
            clock.advance(0.001)
            yield step(number, done=True)
            yield ANSWERED
        yield ev.RunCompleted(summary="There it is.")

    record = TurnRecord(live(area), clock=clock)
    await record.follow(steps())
    record.place.control = Button()
    record.draw(ended=True)
    assert unseen == []
    assert most_in_a_second(area.moments) <= 10
    assert clock.monotonic() < 6
    assert "x = 40" in area.text
    assert "There it is." in area.text


async def test_code_does_not_wait_where_nothing_redraws() -> None:
    clock = ManualClock()
    events = [STARTED, *(step(each, done=done) for each in range(40) for done in (False, True))]
    await TurnRecord(static(OutputArea()), clock=clock).follow(stream(events))
    assert clock.monotonic() == 0


async def test_elapsed_time_ticks_every_second() -> None:
    turn = Playing(live)
    await turn.put(STARTED.model_copy(update={"max_execution_time_s": 300.0}))
    sent = turn.area.messages
    for second in range(1, 6):
        await turn.pass_time(1.0)
        first = turn.area.text.splitlines()[0]
        assert f"{second} s" in first
        assert "Stop: ■ in the toolbar" in first
    # What is read first, nothing else.
    assert turn.area.messages - sent == 5
    await turn.put(ev.Heartbeat(model="scripted", silent_s=5.0))
    await turn.end()
    assert turn.clock.sleepers == 0


async def test_time_and_output_are_shown_while_code_holds_the_event_loop() -> None:
    clock, has_ticked = ManualClock(auto=False), threading.Event()
    printed = Capture(OutputFactory())

    class Watched(OutputArea):
        def show(self, *bundle: Any, **options: Any) -> None:
            super().show(*bundle, **options)
            if "7 s · Stop: ■ in the toolbar" in self.text:
                assert "50%|####" in self.text
                assert "10%|#" not in self.text
                assert "sk-proj" not in self.text
                has_ticked.set()

    async def events() -> AsyncIterator[ev.AgentEvent]:
        yield STARTED
        clock.advance(1.0)
        yield step(1, done=False)
        with capturing(printed):
            printed.write("stdout", "key: sk-proj-0123")
            printed.write("stderr", "\r 10%|#\r 50%|####")
            clock.advance(6.0)
            assert has_ticked.wait(30)
        yield step(1, done=True)
        yield ev.RunCompleted(summary="Done.")

    area = Watched()
    await TurnRecord(live(area), clock=clock).follow(events())
    assert "Stop" not in area.text


async def test_stop_button_exists_only_during_long_run() -> None:
    offered: list[Control] = []

    def stopper() -> Control:
        offered.append(Button())
        return offered[-1]

    turn = Playing(live, stopper)
    await turn.put(STARTED)
    await turn.pass_time(0.9)
    assert offered == []
    await turn.pass_time(0.2)
    assert turn.area.texts.count("BUTTON") == 1
    await turn.put(step(1, done=False), step(1, done=True))
    await turn.pass_time(3.0)
    assert turn.area.texts.count("BUTTON") == 1
    assert len(offered) == 1
    await turn.end()
    assert offered[0].state == ""
    assert "BUTTON" not in turn.area.text


async def test_run_continues_without_stop_button(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    def stopper() -> Control:
        raise RuntimeError("https://evil.example")

    turn = Playing(live, stopper)
    await turn.put(STARTED)
    await turn.pass_time(1.0)
    await turn.pass_time(1.0)
    assert "2 s" in turn.area.text
    await turn.end()
    assert "has no button to stop it (RuntimeError)" in caplog.text
    assert "evil" not in caplog.text


async def test_only_changes_are_redrawn() -> None:
    area = OutputArea()
    record = TurnRecord(live(area))
    await record.follow(stream(RUN))
    drawn = area.updates
    record.draw(ended=True)
    assert area.updates == drawn


async def test_drawing_error_does_not_end_run(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    class Broken(OutputArea):
        def show(self, *args: object, **kwargs: object) -> None:
            raise OSError("no channel to https://evil.example")

    record = TurnRecord(live(Broken()))
    await record.follow(stream(RUN))
    assert isinstance(record.last_event, ev.RunCompleted)
    assert isinstance(record.trouble, OSError)
    assert "could not be drawn (OSError)" in caplog.text
    assert "evil" not in caplog.text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


async def test_terminal_shows_one_progress_line_and_record_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    area, stderr = OutputArea(), Terminal()
    area.is_terminal = True
    monkeypatch.setattr("sys.stderr", stderr)
    record = TurnRecord(static(area))
    await record.follow(stream(RUN))
    said = stderr.getvalue()
    assert "Step 1 is running" in said
    assert "\n" not in said
    assert said.endswith("\r\x1b[2K")
    head, _, work = area.displays
    assert head.text.splitlines()[0] == "plot it"
    assert "3 model calls" in work.text
    record.draw(ended=True)
    assert len(area.displays) == 3
