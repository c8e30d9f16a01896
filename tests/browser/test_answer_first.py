"""The answer, and the beginning of what shows it, stand within the first 400 pixels of a turn."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from .lab import Lab

pytestmark = pytest.mark.browser

FIRST_PX = 400
WIDE_PX, NARROW_PX = 1200, 700
SEEN_PX = 200
# Where the answer ends and what shows it begins and ends, from the top of the cell's output.
_MEASURE = """root => {
    const top = root.getBoundingClientRect().top;
    const place = selector => {
        const seen = [...root.querySelectorAll(selector)].filter(
            each => !each.closest('details:not([open])') && each.getBoundingClientRect().height > 0
        );
        if (seen.length === 0) return null;
        const box = seen[0].getBoundingClientRect();
        return [box.top - top, box.bottom - top];
    };
    return {
        answer: place('.pk-section p, .jp-OutputArea-output pre, .jp-OutputArea-output p'),
        shown: place('.pk-table, .vega-embed, .jp-RenderedImage img'),
        open: root.querySelectorAll('details[open]').length,
        folds: root.querySelectorAll('details.pk-fold').length,
    };
}"""

SHOWN = ".pk-table, .vega-embed svg.marks, .vega-embed canvas, .jp-RenderedImage img"
_FILLS = "all => [...new Set(all.map(each => getComputedStyle(each).fill))]"


def measured(cell: Locator) -> dict[str, Any]:
    found: dict[str, Any] = cell.locator(".jp-OutputArea").first.evaluate(_MEASURE)
    return found


def assert_answer_first(cell: Locator, *, shows: bool) -> None:
    if shows:  # a chart is drawn again where its pixels, a theme or a width come
        expect(cell.locator(SHOWN).locator("visible=true").first).to_be_visible()
    found = measured(cell)
    if found["answer"] is not None:  # a table may be all of it
        assert found["answer"][1] <= FIRST_PX
    assert found["answer"] or found["shown"]
    assert found["open"] == 0
    assert found["folds"] <= 2  # of the question, and of what came after it
    assert (found["shown"] is not None) is shows
    if shows:
        begins, ends = found["shown"]
        assert min(ends, FIRST_PX) - begins >= min(SEEN_PX, ends - begins)


def saved_size(lab: Lab, cell: Locator) -> int:
    """How many bytes the outputs of ``cell`` have in the file, saved now."""
    place = cell.evaluate(
        "cell => [...document.querySelectorAll('.jp-Notebook .jp-Cell')].indexOf(cell)"
    )
    return len(json.dumps(lab.save()["cells"][place]["outputs"]))


def turns(lab: Lab) -> Iterator[tuple[str, Locator, bool]]:
    """Ten turns: their names, their cells, and whether a table or a chart shows the answer."""
    lab.new_notebook_with("averaging()")
    cell = lab.run("%%agent\nmean net_generation by source and year")
    expect(cell.locator(".pk-result")).to_be_visible()
    yield "run", cell, True

    lab.run("%agent model offline")
    cell = lab.run("%%agent\nload data/seattle-weather.csv and plot the monthly mean temperature")
    button = cell.get_by_role("button", name="temp_max")
    expect(button).to_be_visible()
    tops = [each.bounding_box() for each in (button, cell.locator("summary"))]
    assert tops[0] is not None
    assert tops[1] is not None
    assert tops[0]["y"] < tops[1]["y"]  # nothing stands between a question and its buttons
    yield "question", cell, False
    button.click()
    expect(cell.locator(".vega-embed")).to_be_visible()
    yield "chart", cell, True

    lab.run("player = players.publishing()\n%agent model player")
    cell = lab.run("%%agent\npublish the sales")
    expect(cell.locator(".pk-result")).to_contain_text("report Sales report")
    cell.get_by_role("link", name="reports/sales_report.html").click()
    expect(lab.page.frame_locator("iframe").get_by_text("South sold")).to_be_visible()
    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.close()")
    yield "report", cell, False

    lab.run("player = players.troubled()\n%agent model player")
    cell = lab.run("%%agent\nadd up the sales")
    expect(cell.locator(".pk-result")).to_be_visible()
    expect(cell.locator(".pk-notes").first).to_contain_text("Retried once")
    yield "recovery", cell, False

    lab.run("player = players.reaching()\n%agent model player")
    cell = lab.run("%%agent\nfetch the rates")
    expect(cell.get_by_role("button", name="Don't")).to_be_visible()
    expect(cell.locator(".pk-code")).to_contain_text("▸ subprocess.run")
    # The question, the code and the buttons are seen at once.
    bottom = cell.get_by_role("button", name="Don't").bounding_box()
    top = cell.locator(".jp-OutputArea").first.bounding_box()
    assert bottom is not None
    assert top is not None
    assert bottom["y"] + bottom["height"] - top["y"] <= FIRST_PX
    yield "approval", cell, False
    cell.get_by_role("button", name="Don't").click()
    expect(cell.locator(".pk-result, .pk-partial, .pk-handoff")).to_be_visible()

    lab.run("%agent model offline")
    cell = lab.run("%%agent\nmake me a sandwich")
    expect(cell.locator(".pk-handoff")).to_be_visible()
    yield "refusal", cell, False

    cell = lab.run("%agent why seattle_weather")
    expect(cell.locator(".jp-OutputArea-output").first).to_contain_text("comes from")
    expect(cell.get_by_text("read_csv")).to_be_hidden()
    yield "why", cell, False

    cell = lab.run("%agent undo 2")
    expect(cell.locator(".jp-OutputArea-output")).to_contain_text("seattle_weather")
    yield "undo", cell, False

    cell = lab.run("%agent show 1")
    expect(cell.locator(".pk-result")).to_be_visible()
    yield "shown", cell, True


def test_answer_of_ten_turns_is_first_and_saved_small(lab: Lab) -> None:
    sizes = {}
    lab.look_through(WIDE_PX)
    for name, cell, shows in turns(lab):
        lab.wait_until_idle()
        at_once = saved_size(lab, cell)
        for theme in ("Dark", "Light"):
            lab.use_theme(f"JupyterLab {theme}")
            lab.picture(f"turn-{name}-{theme.lower()}", cell)
        if name == "chart":  # the chart was drawn again, with its pixels, in the dark
            expect(cell.locator("svg.marks text").first).to_be_visible()
            fills = cell.locator("svg.marks text").evaluate_all(_FILLS)
            assert len(fills) == 1
        lab.toggle_file_browser()
        lab.look_through(NARROW_PX)
        lab.picture(f"turn-{name}-{NARROW_PX}", cell)
        if name != "approval":
            assert_answer_first(cell, shows=shows)
        lab.look_through(WIDE_PX)
        lab.toggle_file_browser()
        if name != "approval":
            assert_answer_first(cell, shows=shows)
        sizes[name] = max(at_once, saved_size(lab, cell))
    large = {"chart": 80_000, "shown": 30_000}
    assert [(name, size) for name, size in sizes.items() if size > large.get(name, 25_000)] == []
    for is_foreign in lab.reopened():
        again = lab.page.locator(".jp-Notebook .jp-Cell").nth(1)
        expect(again.get_by_text("net_generation").first).to_be_visible()
        lab.picture(f"turn-reopened-{'untrusted' if is_foreign else 'trusted'}-light", again)
        assert_answer_first(again, shows=True)
        if is_foreign:  # the last: Lab itself complains where it closes a page of another theme
            lab.use_theme("JupyterLab Dark")
            lab.picture("turn-reopened-untrusted-dark", again)
    assert lab.complaints == []
