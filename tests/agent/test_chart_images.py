"""Charts as pictures: to models that see, once, small, and never at the price of the run."""

import base64
import io
from collections.abc import Iterable
from typing import Any

import pytest
from PIL import Image

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.agent.chart_images import drawn, picture_messages
from parsimony_kernel.agent.prompts import observed, persons_words
from parsimony_kernel.agent.renderer import IncrementalRenderer
from parsimony_kernel.core.conversation import pictures_in, sent_to, size_of
from parsimony_kernel.core.events import RunCompleted
from parsimony_kernel.core.outputs import FigureObject
from parsimony_kernel.core.state import RunState
from parsimony_kernel.limits.budget import tokens_in
from parsimony_kernel.llm.transcript import repair
from parsimony_kernel.testing.provider import HttpError, LoopbackProvider, Step
from parsimony_kernel.testing.scripted import call
from tests.llm.dialects import WARNINGS

pytestmark = WARNINGS

DRAW = """\
import altair as alt
import pandas as pd
data = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
alt.Chart(data, title="Two bars").mark_bar().encode(x="a", y="b")
"""
DONE = call("return_done", summary="There it is.")


def figure(width: int, height: int, title: str = "") -> FigureObject:
    """A picture of one grey."""
    file = io.BytesIO()
    Image.new("L", (width, height), 128).save(file, "PNG")
    pixels = base64.b64encode(file.getvalue()).decode()
    return FigureObject(library="matplotlib", title=title, png_base64=pixels)


async def bodies(script: Iterable[Step], model: str = "openai/gpt-5") -> list[dict[str, Any]]:
    """The messages of each request of a run that ends well."""
    with LoopbackProvider(script) as server:
        agent = Agent({"model": model, "api_key": "k-123456", "api_base": server.url})
        events = [event async for event in agent.run("draw it")]
        assert isinstance(events[-1], RunCompleted)
        server.assert_exhausted()
    return [request.body for request in server.requests]


def shown(body: dict[str, Any]) -> list[str]:
    return [each for message in body["messages"] for each in pictures_in(message)]


@pytest.mark.parametrize(("model", "sees"), [("openai/gpt-5", 1), ("openai/gpt-3.5-turbo", 0)])
async def test_vision_model_is_shown_the_chart(model: str, sees: int) -> None:
    _, drew, again = await bodies(
        [call("run_code", code=DRAW), call("run_code", code="1 + 1"), DONE], model
    )
    assert len(shown(drew)) == len(shown(again)) == sees
    if sees:
        at = [message["role"] for message in drew["messages"]].index("tool") + 1
        text, _ = drew["messages"][at]["content"]
        assert text["text"].startswith("The chart 'Two bars' as drawn (picture ")
        assert again["messages"][: at + 1] == drew["messages"][: at + 1]


@pytest.mark.parametrize(
    "refusal",
    [
        "Invalid content type. image_url is only supported by certain models.",
        "unknown variant `image_url`, expected `text`",
        "This is not a multimodal model",
    ],
)
async def test_refused_picture_is_dropped_and_run_continues(refusal: str) -> None:
    draw = call("run_code", code=DRAW)
    draw_more = call("run_code", code=DRAW.replace("3, 4", "5, 6"))
    script: list[Step] = [draw, HttpError(400, refusal), draw_more, DONE]
    _, refused, without, later = await bodies(script)
    assert (len(shown(refused)), shown(without), shown(later)) == (1, [], [])


@pytest.mark.parametrize(
    ("size", "told"),
    [((640, 480), (640, 480)), ((3_000, 1_500), (1_024, 512)), ((2, 4_000), (1, 1_024))],
)
def test_picture_is_at_most_1024_pixels_a_side(size: Any, told: Any) -> None:
    small = drawn(figure(*size))
    assert small is not None
    assert size_of(small) == told


@pytest.mark.parametrize(
    "broken",
    [
        FigureObject(),
        FigureObject(png_base64="no base64!"),
        FigureObject(png_base64="aGVsbG8="),
        FigureObject(spec={"mark": "no mark", "data": 3}),
    ],
)
def test_undrawable_chart_is_skipped(broken: FigureObject) -> None:
    assert picture_messages([broken], []) == []


def test_same_chart_is_shown_once() -> None:
    (first,) = picture_messages([figure(4, 4), figure(4, 4)], [])
    assert picture_messages([figure(4, 4)], [{"role": "user", "content": "go"}, first]) == []


def test_picture_cost_follows_pixels() -> None:
    (message,) = picture_messages([figure(750, 1_000)], [])
    (sent,) = sent_to([message], sees=True)
    assert tokens_in([message], []) == pytest.approx(1_000, abs=20)
    assert tokens_in([sent], []) == pytest.approx(1_000, abs=40)


def test_picture_carries_no_metadata_text() -> None:
    """A chart's title is data: it allows no host, and supports no figure of an answer."""
    (message,) = picture_messages([figure(4, 4, title="see https://example.org 42")], [])
    told = [{"role": "user", "content": "<request>\ngo\n</request>"}, message]
    assert "example" not in persons_words(told)
    assert not any("42" in each for each in observed(told)[1])


def test_old_picture_is_dropped_with_its_results() -> None:
    (message,) = picture_messages([figure(4, 4)], [])
    result = {"role": "tool", "tool_call_id": "a", "content": "x" * 9_000}
    messages = [{"role": "user", "content": "go"}, message, *[result] * 3]
    rendered = IncrementalRenderer().render(RunState(messages=messages), most=20_000)
    assert rendered[1]["content"] == f"{message['content']}: older, no longer shown"
    assert not any(pictures_in(rendered[1]))
    assert repair([message]) == [message]
