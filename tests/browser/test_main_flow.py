"""A person in JupyterLab: chooses the kernel, asks, answers, and has the results."""

import json
from typing import Any

import pytest
from playwright.sync_api import expect

from .lab import Lab

pytestmark = pytest.mark.browser

ASK = "%%agent\nload data/seattle-weather.csv and plot the monthly mean temperature"
CHART = ".vega-embed, .jp-RenderedVegaCommon5, .jp-RenderedImage"
VEGA = "application/vnd.vegalite.v5+json"


def outputs(saved: dict[str, Any], index: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = saved["cells"][index]["outputs"]
    return found


def texts(saved: dict[str, Any], index: int) -> str:
    return "\n".join(
        "".join(output["data"].get("text/plain", ""))
        for output in outputs(saved, index)
        if "data" in output
    )


def test_an_analysis_with_a_question_and_a_chart(lab: Lab) -> None:
    lab.new_notebook("Parsimony Agent")

    # A question ends the cell, with one button for each choice.
    cell = lab.run(ASK)
    button = cell.get_by_role("button", name="temp_max")
    expect(button).to_be_visible()
    expect(cell.get_by_role("button", name="temp_min")).to_be_visible()
    lab.wait_until_idle()
    lab.picture("question")

    # A click goes on where the cell stopped: the chart appears in the same cell.
    button.click()
    chart = cell.locator(CHART).first
    expect(chart).to_be_visible()
    expect(cell.get_by_text("temp_max", exact=False).first).to_be_visible()
    expect(button).to_have_count(0)
    lab.wait_until_idle()
    lab.picture("answered", cell)

    # The variables are the notebook's.
    names = lab.run(
        "[(name, type(value).__name__) for name, value in sorted(globals().items())"
        " if name.startswith('seattle') or 'Chart' in type(value).__name__]"
    )
    expect(names.locator(".jp-OutputArea-output")).to_contain_text("Chart")
    expect(names.locator(".jp-OutputArea-output")).to_contain_text(
        "('seattle_weather', 'DataFrame')"
    )

    # A chart is published and listed.
    publish = lab.run('%%agent\npublish the chart as "Monthly temperature"')
    expect(publish.get_by_text("Monthly temperature").first).to_be_visible()
    lab.wait_until_idle()
    listed = lab.run("%agent artifacts")
    expect(listed.locator(".jp-OutputArea")).to_contain_text("Monthly temperature")
    lab.picture("run")
    published = list((lab.server.root / ".ockham" / "charts").rglob("*.vl.json"))
    assert len(published) == 1
    assert json.loads(published[0].read_text())["$schema"].startswith("https://vega.github.io/")

    # The saved file reads complete without a kernel.
    saved = lab.save()
    record = texts(saved, 0)
    for expected in ("→ temp_max", "Highest mean temp max", "pd.read_csv"):
        assert expected in record
    assert any(VEGA in output.get("data", {}) for output in outputs(saved, 0))
    kinds = {out["output_type"] for cell in saved["cells"] for out in cell.get("outputs", ())}
    assert "error" not in kinds

    assert lab.complaints == []
