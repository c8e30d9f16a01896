"""A page that is loaded again in the middle of a turn loses nothing of it."""

import pytest
from playwright.sync_api import expect

from .lab import Lab, Server

pytestmark = pytest.mark.browser


def test_page_reloaded_in_mid_turn_loses_nothing(lab: Lab, server: Server) -> None:
    lab.new_notebook_with("live()")
    cell = lab.run("%%agent\nadd up the sales")
    server.give_cue()
    first = cell.get_by_role("region", name="Step 1", exact=True)
    expect(first.get_by_role("cell", name="north")).to_be_visible()
    lab.save()
    lab.reload(is_idle=False)
    server.give_cue()
    server.give_cue()
    lab.wait_until_idle()
    # The kernel has gone on without the page, and the record is whole.
    shown = lab.run("%agent show")
    expect(shown.get_by_role("region", name="Result")).to_contain_text("The sales are 7 in all.")
    expect(shown.locator("details.pk-fold > summary")).to_contain_text("2 steps")
    expect(lab.run("print(total)").locator(".jp-OutputArea-output")).to_have_text("7\n")
    saved = lab.save()["cells"]
    assert "The sales are 7 in all." in "".join(saved[2]["outputs"][0]["data"]["text/plain"])
    assert lab.complaints == []
