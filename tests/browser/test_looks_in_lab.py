"""The record can be read in light and dark, enlarged, in a narrow window and by keyboard."""

from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from .lab import Lab
from .probes import READABLE, contrasts, focused, overflowing

pytestmark = pytest.mark.browser

_COLOUR = "each => getComputedStyle(each).color"
# The menu beside a chart is the front end's, and has no name.
CHART_MENU = ""


def ask(lab: Lab) -> Locator:
    """A cell with something of everything in it, which ends in a question."""
    lab.new_notebook_with("tour()")
    cell = lab.run("%%agent\nwhere does it rain most")
    expect(cell.get_by_role("button", name="January")).to_be_visible()
    lab.wait_until_idle()
    # The fold stands below the buttons, and is drawn after them; the chart's menu is one as well.
    expect(cell.locator("details.pk-fold > summary")).to_be_visible()
    expect(cell.locator("svg.marks")).to_contain_text("Rain in January")
    return cell


def walk(lab: Lab) -> dict[str, Any]:
    """Press Tab; gives what has the focus then."""
    lab.page.keyboard.press("Tab")
    return focused(lab)


def test_record_text_is_readable_in_light_and_dark(lab: Lab) -> None:
    cell = ask(lab)
    output = cell.locator(".jp-OutputArea")
    output.locator("details").evaluate_all("all => all.forEach(each => each.open = true)")
    for theme in ("JupyterLab Light", "JupyterLab Dark"):
        lab.use_theme(theme)
        measured = contrasts(output)
        lab.picture(f"theme-{theme.split()[-1].lower()}", cell)
        assert len(measured) > 60
        assert [each for each in measured if each[0] < READABLE] == []
        assert "Rain in January" in [text for _, text in measured]
    lab.use_theme("JupyterLab Light")
    assert lab.complaints == []


@pytest.mark.parametrize(
    ("first", "is_prose"), [("%%agent --share schema", True), ("x = 1", False)]
)
def test_request_is_not_coloured_as_python(lab: Lab, first: str, is_prose: bool) -> None:
    lab.new_notebook("Parsimony Agent")
    cell = lab.page.locator(".jp-CodeCell").last
    cell.locator(".cm-content").click()
    lab.page.keyboard.insert_text(f"{first}\nload a.csv and plot 'rain' for 12 months in 2013")
    word = cell.locator(".cm-line span", has_text="and")
    expect(word).to_be_visible()
    colours = {cell.locator(".cm-line").last.evaluate(_COLOUR), word.evaluate(_COLOUR)}
    lab.picture("request-prose" if is_prose else "request-python", cell)
    assert (len(colours) == 1) is is_prose
    assert lab.complaints == []


@pytest.mark.parametrize(
    ("width", "zoom", "is_alone"), [(1280, 2, True), (700, 1, True), (700, 1, False)]
)
def test_nothing_is_cut_off_in_narrow_layout(
    lab: Lab, width: int, zoom: int, is_alone: bool
) -> None:
    cell = ask(lab)
    if is_alone:
        lab.toggle_file_browser()
    lab.look_through(width, zoom=zoom)
    expect(cell.get_by_role("button", name="January")).to_be_visible()
    found = overflowing(cell.locator(".jp-OutputArea"))
    lab.picture(f"width-{width}-zoom-{zoom}-{'alone' if is_alone else 'beside-files'}", cell)
    lab.look_through(1280)
    if is_alone:
        lab.toggle_file_browser()
    assert found == []
    assert lab.complaints == []


def test_question_is_answered_by_keyboard(lab: Lab) -> None:
    cell = ask(lab)
    # From the cell itself, as one is after Escape.
    lab.page.keyboard.press("Escape")
    cell.focus()
    tabbed = [walk(lab) for _ in range(16)]
    reached = [each for each in tabbed if each["inOutput"] and each["name"] != CHART_MENU]
    names = [each["name"][:24] for each in reached]
    in_order = ["January", "A choice of several word", "xxxxxxxxxxxxxxxxxxxxxxxx"]
    assert names[: len(in_order)] == in_order
    assert names[-1] == "4 steps · Station, rain,"  # below the buttons
    assert [each["name"] for each in reached if not each["ring"] and each["tag"] != "input"] == []

    # A summary opens by Enter, and a choice is taken by it.
    summary = cell.locator("summary", has_text="4 steps")
    summary.focus()
    lab.page.keyboard.press("Enter")
    expect(cell.get_by_role("group", name="Code of step 1")).to_be_visible()
    first = cell.get_by_role("button", name="January")
    first.focus()
    expect(first).to_be_focused()
    lab.picture("keyboard", cell)
    lab.page.keyboard.press("Enter")
    expect(cell.get_by_role("region", name="Result")).to_be_visible()
    expect(cell.locator(".pk-question-answered")).to_contain_text("→ January (you chose)")
    lab.wait_until_idle()
    # The button is gone; who goes back by Tab goes back from where it stood.
    lab.page.keyboard.press("Shift+Tab")
    assert focused(lab)["inOutput"]

    # What a screen reader is told: landmarks with names, states in words, changes politely.
    cell.locator("details").evaluate_all("all => all.forEach(each => { each.open = true; })")
    told = cell.locator(".jp-OutputArea").first.aria_snapshot()
    for each in (
        'region "Recovery"',
        'heading "Step 2 Find the wettest month failed" [level=4]',
        'table "3 rows, 13 columns"',
        'columnheader "precipitation_01"',
        'region "Question"',
    ):
        assert each in told
    records = cell.locator(".parsimony-record")
    polite = records.evaluate_all("all => all.map(each => each.getAttribute('aria-live'))")
    assert polite[0] == "polite"
    assert set(polite) == {"polite", None}
    assert records.locator("[id]").count() == 0
    assert lab.complaints == []
