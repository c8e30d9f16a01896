"""A saved notebook says the same when it is opened again without its kernel, trusted or not."""

import pytest
from playwright.sync_api import Locator, expect

from .lab import Lab
from .probes import READABLE, contrasts, overflowing
from .test_looks_in_lab import ask

pytestmark = pytest.mark.browser


def words(area: Locator) -> list[str]:
    """The words of a record as they are read, with its folds open."""
    area.locator("details").evaluate_all("all => all.forEach(each => { each.open = true; })")
    texts = area.locator(".parsimony-record section").all_inner_texts()
    # Where no style sheet is taken, other words share a line.
    return " ".join(texts).split()


def test_live_record_reads_the_same_without_kernel(lab: Lab) -> None:
    cell = ask(lab)
    cell.get_by_role("button", name="January").click()
    expect(cell.get_by_role("region", name="Result")).to_be_visible()
    expect(cell.locator(".jp-OutputArea").get_by_role("button")).to_have_count(0)
    lab.wait_until_idle()
    live = words(cell)
    assert len(live) > 100
    for is_foreign in lab.reopened():
        if not is_foreign:
            lab.shut_down_kernel()
        assert lab.is_trusted() is not is_foreign
        again = lab.page.locator(".jp-Notebook .jp-Cell").nth(1)
        expect(again.get_by_text("Finished as asked.")).to_be_visible()
        expect(again.locator(".vega-embed, .jp-RenderedImage img").first).to_be_visible()
        output = again.locator(".jp-OutputArea").first
        lab.picture("reopened-untrusted" if is_foreign else "reopened-trusted", again)
        assert words(again) == live
        assert [each for each in contrasts(output) if each[0] < READABLE] == []
        for width in (1280, 700):
            lab.look_through(width)
            assert overflowing(output) == []
        lab.look_through(1280)
        assert output.locator("script").count() == 0
        # The menu of a chart saves it, and sends it nowhere.
        links = output.locator("a").all_text_contents()
        assert set(links) <= {"Save as SVG", "Save as PNG"}
    assert lab.elsewhere() == []
    assert lab.complaints == []
