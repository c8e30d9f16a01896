"""The pictures of the README: ask, click, chart, undo."""

from base64 import b64encode
from pathlib import Path

import pytest
from playwright.sync_api import expect

from .lab import Lab

pytestmark = pytest.mark.browser

MOST_BYTES = 300_000
_PAGE = """<main style="display:grid; grid-template-columns:auto auto; gap:8px 20px; padding:12px;
width:max-content; background:#fff; font:600 15px system-ui; color:#1259a8">
<div>{}</div><div>{}</div></main>"""
_FIGURE = """<p style="margin:6px 0 4px">{}</p>
<img style="border:1px solid #ddd" src="data:image/png;base64,{}">"""


def figure(caption: str, picture: Path) -> str:
    """One picture under its caption, as HTML."""
    return _FIGURE.format(caption, b64encode(picture.read_bytes()).decode())


def test_readme_strip_shows_ask_click_chart_and_undo(lab: Lab) -> None:
    """``docs/images/strip.png`` is a copy of what this makes."""
    lab.new_notebook("Parsimony Agent")
    lab.toggle_file_browser()
    lab.look_through(800)
    cell = lab.run("%%agent\nload data/seattle-weather.csv and plot the monthly mean temperature")
    button = cell.get_by_role("button", name="temp_max")
    expect(button).to_be_enabled()
    lab.wait_until_idle()
    button.hover()
    asked = lab.picture("strip-1", cell)
    button.click()
    expect(cell.locator(".vega-embed svg.marks")).to_be_visible()
    expect(button).to_have_count(0)
    lab.wait_until_idle()
    drawn = lab.picture("strip-2", cell)
    undo = lab.run("%agent undo")
    expect(undo.locator(".jp-OutputArea-output")).to_contain_text("undone")
    lab.wait_until_idle()
    undone = lab.picture("strip-3", undo)
    lab.look_through(1280)
    lab.toggle_file_browser()

    left = figure("1. Ask. It asks back: click", asked) + figure("3. Undo", undone)
    with lab.page.context.new_page() as page:
        page.set_content(
            _PAGE.format(left, figure("2. The answer, its chart, the work folded", drawn))
        )
        strip = lab.pictures / "strip.png"
        page.locator("main").screenshot(path=str(strip))
    assert strip.stat().st_size < MOST_BYTES
