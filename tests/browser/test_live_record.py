"""The record while a turn runs, and what stays of it."""

from statistics import median
from typing import Any

import pytest
from playwright.sync_api import expect

from .lab import Lab, Server
from .probes import moved, seconds_to_first_output, watch_frames

pytestmark = pytest.mark.browser


STILL_PX = 24
FIRST_SIGN_S = 0.25


def kept(cell: dict[str, Any]) -> list[str]:
    """The texts of a saved cell that say something."""
    texts = ["".join(output["data"]["text/plain"]) for output in cell["outputs"]]
    return [text for text in texts if text.strip()]


def test_live_turn_ends_as_saved(lab: Lab, server: Server) -> None:
    lab.new_notebook_with("live()")
    cell = lab.run("%%agent\nadd up the sales")
    progress = cell.get_by_role("region", name="Progress")
    expect(progress).to_contain_text("…")
    watch_frames(cell)
    stop = cell.get_by_role("button", name="Stop")
    expect(stop).to_be_visible()
    # A widget's messages make the kernel idle for a moment.
    lab.page.wait_for_timeout(1500)
    expect(progress.get_by_text("cut off")).to_be_hidden()
    expect(progress).not_to_contain_text("toolbar")
    lab.picture("live-1-waiting", cell)

    server.give_cue()
    first = cell.get_by_role("region", name="Step 1", exact=True)
    expect(first).to_contain_text("pd.DataFrame")
    expect(first.get_by_role("cell", name="north")).to_be_visible()
    expect(stop).to_be_visible()
    lab.page.wait_for_timeout(200)

    server.give_cue()
    second = cell.get_by_role("region", name="Step 2", exact=True)
    # What it prints is there before it has ended.
    expect(second.get_by_text("fold 1")).to_be_visible()
    expect(second).not_to_contain_text("In all: 7")
    lab.picture("live-1b-printing", cell)
    expect(second).to_contain_text("In all: 7")
    server.give_cue()
    expect(cell.get_by_role("region", name="Result")).to_contain_text("The sales are 7 in all.")
    lab.wait_until_idle()
    expect(progress).to_have_count(0)
    expect(stop).to_have_count(0)
    expect(cell.locator("details.pk-fold > summary")).to_contain_text("2 steps")
    frames, pixels = moved(cell)
    assert frames > 20
    assert pixels < STILL_PX
    lab.picture("live-2-done", cell)

    # What was drawn bit by bit and what is saved say the same.
    saved = kept(lab.save()["cells"][1])
    assert saved[0].startswith("The sales are 7 in all.")
    assert saved[1].startswith("2 steps")
    assert lab.complaints == []


def test_first_sign_is_as_fast_as_print(lab: Lab) -> None:
    took: dict[str, list[float]] = {"print(1)": [], "%%agent\nmake me a sandwich": []}
    for _ in range(3):
        for source, seconds in took.items():
            seconds.append(seconds_to_first_output(lab, source))
            lab.close_all()
    printed, agent = map(median, took.values())
    print(f"first output: print {printed:.3f} s, the agent {agent:.3f} s")
    assert agent - printed <= FIRST_SIGN_S


def test_streamed_text_stays_after_stop(lab: Lab) -> None:
    lab.new_notebook_with("mumbling()")
    cell = lab.run("%%agent\nadd up the sales")
    said = cell.get_by_text("The sales rise in spring,")
    expect(said).to_be_visible()
    expect(cell.get_by_role("button", name="Stop")).to_be_visible()
    lab.interrupt()
    expect(cell.get_by_role("region", name="Stopped")).to_contain_text("by the user")
    lab.wait_until_idle()
    cell.locator("details").evaluate_all("all => all.forEach(each => { each.open = true; })")
    expect(said).to_be_visible()
    lab.picture("stopped-in-words", cell)
    assert any("The sales rise in spring," in text for text in kept(lab.save()["cells"][1]))
    assert lab.complaints == []


@pytest.mark.parametrize("how", ["the button", "the interrupt of Lab"])
def test_stopped_turn_says_so_and_keeps_variables(lab: Lab, how: str) -> None:
    lab.new_notebook_with("stuck()")
    lab.server.give_cue()
    cell = lab.run("%%agent\nkeep a number")
    queued = lab.run("queued = True")
    expect(cell.get_by_role("region", name="Step 1", exact=True)).to_contain_text("kept = 42")
    stop = cell.get_by_role("button", name="Stop")
    expect(stop).to_be_visible()
    if how == "the button":
        stop.click()
    else:
        lab.interrupt()
    stopped = cell.get_by_role("region", name="Stopped")
    expect(stopped).to_contain_text("by the user")
    lab.wait_until_idle()
    expect(stop).to_have_count(0)
    expect(cell.get_by_role("region", name="Progress")).to_have_count(0)
    # Nothing red, and what was queued behind it has not run.
    expect(cell.locator("[data-mime-type='application/vnd.jupyter.stderr']")).to_have_count(0)
    expect(queued.locator(".jp-OutputArea-output")).to_have_count(0)
    lab.picture(f"stopped-by-{how.split()[-1].lower()}", cell)

    after = lab.run("kept, 'queued' in globals()")
    expect(after.locator(".jp-OutputArea-output")).to_contain_text("(42, False)")
    assert lab.complaints == []


def test_turn_whose_kernel_died_says_in_the_file_that_it_was_cut_off(lab: Lab) -> None:
    lab.new_notebook_with("mumbling()")
    lab.run("import os, threading; threading.Timer(8, os._exit, [9]).start()")
    cell = lab.run("%%agent\nadd up the sales")
    progress = cell.get_by_role("region", name="Progress")
    expect(progress).to_contain_text("Writing …")
    expect(progress.get_by_text("cut off")).to_be_hidden()
    lab.picture("running", cell)
    dialog = lab.page.locator(".jp-Dialog", has_text="Kernel Restarting")
    dialog.get_by_role("button", name="Ok").click()
    expect(progress.get_by_text("Writing …")).to_have_count(0)
    expect(progress.get_by_text("the turn was cut off here")).to_be_visible()
    lab.picture("cut-off", cell)
    assert "the turn was cut off here" in str(lab.save()["cells"][2]["outputs"])
