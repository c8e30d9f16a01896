"""A run on a pipe, in a terminal and below a cell."""

import io
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import pytest

from parsimony_kernel import display_result, stream_to_display
from parsimony_kernel.core import events as ev
from parsimony_kernel.core.events import AgentResult, collect
from parsimony_kernel.core.kinds import Failure, FailureKind

CODE = ev.ToolEvent(
    tool_name="run_code",
    tool_call_id="c1",
    tool_type="code",
    arguments={"code": "x = 1", "purpose": "Compute"},
)
DONE = CODE.model_copy(
    update={"completed": True, "ok": True, "result": {"output": {"stdout": "hello\n"}}}
)
RUN: list[ev.AgentEvent] = [
    ev.RunStarted(run_id="r", request="count it", model="scripted", max_iterations=50),
    ev.TextDelta(content="I look "),
    ev.TextDelta(content="first."),
    ev.LLMCallCompleted(model="scripted", prompt_tokens=1_200, completion_tokens=34, cost_usd=0.5),
    CODE,
    DONE,
    ev.ArtifactPublished(kind="dataset", logical_id="a", content_sha="b", path="c", title="Counts"),
    ev.RunCompleted(summary="There are 7.", variables=("x",)),
]


async def stream(events: Iterable[ev.AgentEvent]) -> AsyncGenerator[ev.AgentEvent, None]:
    for event in events:
        yield event


class Terminal(io.StringIO):
    """A terminal that remembers."""

    def isatty(self) -> bool:
        return True

    @property
    def screen(self) -> str:
        """What is left to see: a line that was cleared is gone."""
        lines = self.getvalue().split("\n")
        return "\n".join(line.rpartition("\r\x1b[2K")[2] for line in lines)


async def on_a_pipe(events: Iterable[ev.AgentEvent]) -> tuple[str, AgentResult]:
    pipe = io.StringIO()
    result = await stream_to_display(stream(events), file=pipe)
    return pipe.getvalue(), result


async def test_piped_run_is_plain_text_with_artifacts_and_cost_and_its_result_is_returned() -> None:
    text, result = await on_a_pipe(RUN)
    assert "\x1b" not in text
    assert "\r" not in text
    told = ["count it", "There are 7.", "dataset Counts", "I look first.", "| hello", "$0.50"]
    places = [text.find(each) for each in told]
    assert places == sorted(places)
    assert -1 not in places
    assert result == collect(RUN)
    assert result.ok
    assert result.datasets[0].title == "Counts"


async def test_terminal_shows_and_clears_progress() -> None:
    terminal, seen = Terminal(), []

    async def watched() -> AsyncGenerator[ev.AgentEvent, None]:
        for event in RUN:
            yield event
            seen.append(terminal.screen)

    await stream_to_display(watched(), file=terminal)
    assert seen[4].endswith("Step 1 is running: Compute …")
    assert "is running" not in terminal.screen
    assert terminal.screen == (await on_a_pipe(RUN))[0]


async def test_failing_stream_leaves_no_status() -> None:
    terminal, closed = Terminal(), []

    async def failing() -> AsyncGenerator[ev.AgentEvent, None]:
        try:
            yield RUN[0]
            yield CODE
            raise OSError("gone")
        finally:
            closed.append(True)

    with pytest.raises(OSError, match="gone"):
        await stream_to_display(failing(), file=terminal)
    assert closed
    assert "count it" in terminal.screen
    assert "is running" not in terminal.screen


async def test_unencodable_character_is_replaced() -> None:
    raw = io.BytesIO()
    ascii_only = io.TextIOWrapper(raw, encoding="ascii")
    await stream_to_display(stream(RUN), file=ascii_only)
    assert b"Step 1 ? Compute" in raw.getvalue()


async def test_control_characters_reach_no_terminal() -> None:
    terminal = Terminal()
    hostile = "a\x1b]0;title\x07\x1b[2Jb\rc"
    await stream_to_display(stream([RUN[0], ev.TextDelta(content=hostile), RUN[-1]]), file=terminal)
    assert "\x1b]" not in terminal.getvalue()
    assert "\x1b[2J" not in terminal.getvalue()


def shown(result: AgentResult) -> str:
    pipe = io.StringIO()
    display_result(result, file=pipe)
    return pipe.getvalue()


def test_result_shows_outcome_and_cost() -> None:
    text = shown(collect(RUN))
    assert "There are 7." in text
    assert "Published: dataset Counts" in text
    assert "$0.50" in text
    assert "hello" not in text
    assert "count it" not in text


def test_result_without_outcome_shows_last_text() -> None:
    broken = ev.AgentError(
        message="the key is wrong", failure=Failure(FailureKind.capability_gap, "the key is wrong")
    )
    assert "the key is wrong" in shown(collect([RUN[0], broken]))


def test_a_result_made_by_hand_shows_its_words() -> None:
    assert "Two of them." in shown(AgentResult(text="Two of them."))


async def test_cell_run_has_three_displays(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from IPython.core.displaypub import CapturingDisplayPublisher

    published = CapturingDisplayPublisher()
    monkeypatch.setattr(shell, "display_pub", published)
    monkeypatch.setattr(type(shell), "kernel", object(), raising=False)
    await stream_to_display(stream(RUN))
    displays: dict[str, dict[str, Any]] = {}
    for each in published.outputs:
        displays[each["transient"]["display_id"]] = each["data"]
    head, figure, work = (data["text/plain"] for data in displays.values())
    assert "There are 7." in head
    assert figure == " "
    assert work.startswith("1 step")
    assert all("text/html" in data for data in displays.values())
