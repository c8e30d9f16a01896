"""The agent in Notebook 7: a question is answered by a click, in the cell that asked."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from nbformat import v4
from playwright.sync_api import expect

from .conftest import PICTURES, ROOT
from .lab import TOKEN, Lab, browse, chromium, serve

pytestmark = pytest.mark.browser

CHART = ".vega-embed, .jp-RenderedVegaCommon5, .jp-RenderedImage"
ASK = "%%agent\nload data/seattle-weather.csv and plot the monthly mean temperature"


@pytest.fixture
def notebook_7(tmp_path: Path) -> Iterator[Lab]:
    """Notebook 7 with one agent cell in it."""
    if chromium() is None:
        pytest.skip("no Chromium on this machine: install Debian's package `chromium`")
    with serve(tmp_path / "served", "notebook") as server:
        shutil.copytree(ROOT / "notebooks" / "data", server.root / "data")
        spec = {"name": "parsimony-agent", "display_name": "Parsimony Agent", "language": "python"}
        notebook = v4.new_notebook(
            cells=[v4.new_code_cell(ASK), v4.new_code_cell()], metadata={"kernelspec": spec}
        )
        (server.root / "a.ipynb").write_text(json.dumps(notebook))
        with browse(server, PICTURES, f"/notebooks/a.ipynb?token={TOKEN}") as page:
            page.wait_until_idle()
            page.complaints.clear()  # of settings that this Notebook hasn't loaded, cells or none
            yield page


def test_question_is_answered_by_click(notebook_7: Lab) -> None:
    cell = notebook_7.page.locator(".jp-Notebook .jp-CodeCell").first
    cell.locator(".cm-content").click()
    expect(cell.locator(".parsimony-request")).to_be_visible()  # not coloured as Python
    notebook_7.page.keyboard.press("Shift+Enter")
    button = cell.get_by_role("button", name="temp_max")
    expect(button).to_be_visible()
    notebook_7.wait_until_idle()
    button.click()
    expect(cell.locator(CHART).first).to_be_visible()
    expect(button).to_have_count(0)
    notebook_7.wait_until_idle()
    notebook_7.picture("notebook-7", cell)
    outputs = notebook_7.save()["cells"][0]["outputs"]
    record = " ".join("".join(each["data"]["text/plain"]) for each in outputs)
    assert "temperature → temp_max (you chose)" in " ".join(record.split())
    assert "Highest mean temp max" in record
    assert notebook_7.complaints == []
