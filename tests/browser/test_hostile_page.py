"""Words of others are shown and nothing else: live, opened again, and opened as somebody else's."""

import pytest
from playwright.sync_api import Locator, expect

from parsimony_kernel.view.html import style_sheet

from .lab import Lab

pytestmark = pytest.mark.browser

# What could be clicked, run or loaded, had it come from words.
_ACTIVE = (
    "a[href], [data-commandlinker-command], [onclick], [onerror], [onload], [onfocus], script, "
    "iframe, object, embed, form, svg[onload], img:not([src^='data:']), style, button, [autofocus]"
)
_MENU = ".vega-actions a, .vega-embed style, .vega-embed form.vega-bindings"


def active(area: Locator) -> list[str]:
    """What in ``area`` is active and neither a widget, the menu of a chart, nor the sheet."""
    found: list[str] = area.evaluate(
        """(root, [active, menu, sheet]) => [...root.querySelectorAll(active)]
            .filter(each => !each.matches(menu) && !each.matches('.jupyter-button'))
            .filter(each => each.outerHTML !== sheet)
            .map(each => each.outerHTML.slice(0, 200))""",
        [_ACTIVE, _MENU, style_sheet()],
    )
    return found


def assert_nothing_happened(lab: Lab) -> None:
    for area in lab.page.locator(".jp-Notebook .jp-OutputArea").all():
        assert active(area) == []
    assert lab.dialogs == []
    assert lab.elsewhere() == []


def test_hostile_turn_runs_loads_and_links_nothing(lab: Lab) -> None:
    lab.new_notebook_with("hostile()")
    lab.watch_commands()
    cell = lab.run(
        "await get_ipython().run_cell_magic('agent', '', players.HOSTILE.replace('\\0', ' '))"
    )
    area = cell.locator(".jp-OutputArea").first
    expect(area.get_by_role("button")).to_have_count(6)
    lab.wait_until_idle()
    expect(area.get_by_role("region", name="Question")).to_be_visible()
    area.locator("details").evaluate_all("all => all.forEach(each => { each.open = true; })")
    expect(area.get_by_role("region", name="Step 3", exact=True)).to_contain_text("failed")
    lab.picture("hostile-live", cell)
    assert_nothing_happened(lab)
    # Each text was shown as text, the command included.
    expect(area.get_by_role("region", name="Question")).to_contain_text(
        "data-commandlinker-command"
    )
    for region in ("Step 1", "Question"):
        area.get_by_role("region", name=region, exact=True).click()

    area.get_by_role("button").nth(3).click()
    expect(area.get_by_role("region", name="I can't do this")).to_be_visible()
    expect(area.locator(".pk-question-answered")).to_contain_text("f> 3")
    lab.wait_until_idle()
    listed = lab.run("%agent artifacts\n%agent history\n%agent sent")
    expect(listed.locator(".jp-OutputArea-output").first).to_be_visible()
    lab.wait_until_idle()
    lab.picture("hostile-answered", cell)
    assert_nothing_happened(lab)
    assert lab.commands_run() == []

    for is_foreign in lab.reopened():
        again = lab.page.locator(".jp-Notebook .jp-Cell").nth(1)
        expect(again.locator(".pk-handoff")).to_be_visible()
        lab.picture("hostile-untrusted" if is_foreign else "hostile-reopened", again)
        assert_nothing_happened(lab)


def test_hostile_text_in_every_event_field_does_nothing(lab: Lab) -> None:
    lab.new_notebook("Parsimony Agent")
    lab.watch_commands()
    count = lab.run(
        "import players\nfrom hostile_run import WORDS, loadable, run_of\nprint(len(WORDS))"
    ).locator(".jp-OutputArea-output")
    expect(count).to_be_visible()
    runs = [f"loadable(run_of(WORDS[{number}]))" for number in range(int(count.inner_text()))]
    # Ten megabytes in each field.
    runs.append("run_of(players.HOSTILE * (10_000_000 // len(players.HOSTILE)))")
    for run in runs:
        cell = lab.run(f"players.draw({run})")
        expect(cell.get_by_text("all drawn")).to_be_visible()
    lab.wait_until_idle()
    drawn = lab.page.locator(".parsimony-record").count()
    assert drawn >= 2 * len(runs)
    assert_nothing_happened(lab)
    assert lab.commands_run() == []

    for _ in lab.reopened():
        expect(lab.page.locator(".parsimony-record")).to_have_count(drawn)
        assert_nothing_happened(lab)
