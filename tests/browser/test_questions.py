"""Questions and approvals: each button gives its own answer, also after a restart."""

import re

import pytest
from playwright.sync_api import Locator, expect

from .lab import Lab

pytestmark = pytest.mark.browser

FIVE = ("north", "south", "east", "west", "all of them")


_BROKEN_LINKS = """all => all.map(each => getComputedStyle(each, '::before').content)
    .filter(each => !['none', 'normal', '""'].includes(each))"""


def buttons(cell: Locator) -> Locator:
    """The buttons in the output of ``cell``."""
    return cell.locator(".jp-OutputArea").get_by_role("button")


def answers(cell: Locator) -> list[str]:
    """The answers that the record tells, in order."""
    given = cell.locator(".pk-question-answered").all_inner_texts()
    return [each.partition(" → ")[2].partition(" (you chose)")[0] for each in given]


def waiting(lab: Lab, earlier: int = 0) -> Locator:
    """The cell of a question that waits, behind some that were answered."""
    lab.new_notebook_with(f"asking({earlier + 1})")
    cell = lab.run("%%agent\nplot the sales")
    for each in FIVE[:earlier]:
        cell.get_by_role("button", name=each).click()
    expect(cell.locator(".pk-question-answered")).to_have_count(earlier)
    expect(cell.get_by_role("button", name="west")).to_be_visible()
    lab.wait_until_idle()
    return cell


def test_each_of_five_buttons_gives_its_answer(lab: Lab) -> None:
    lab.new_notebook_with("asking(5)")
    cell = lab.run("%%agent\nplot the sales")
    for asked, choice in enumerate(reversed(FIVE), start=1):
        button = cell.get_by_role("button", name=choice)
        expect(button).to_be_enabled()
        expect(buttons(cell)).to_have_count(len(FIVE) + 1)
        expect(cell.get_by_text("%agent answer --turn 1 NUMBER")).to_be_hidden()
        lab.wait_until_idle()
        if asked == 1:
            lab.picture("question", cell)
        button.click()
        expect(cell.locator(".pk-question-answered")).to_have_count(asked)
    expect(cell.get_by_role("region", name="Result")).to_be_visible()
    expect(buttons(cell)).to_have_count(0)
    expect(cell.locator(".pk-section").first).to_have_class(re.compile("pk-result"))
    assert answers(cell) == list(reversed(FIVE))
    lab.wait_until_idle()
    lab.picture("question-answered", cell)
    assert lab.complaints == []


@pytest.mark.parametrize(("choice", "is_set"), [("Run it", True), ("Don't", False)])
def test_step_waits_for_button(lab: Lab, choice: str, is_set: bool) -> None:
    lab.new_notebook_with("careful()")
    cell = lab.run("%%agent --approve ask\nset a number")
    held = cell.get_by_role("region", name="Step 1", exact=True)
    expect(held).to_contain_text("waiting")
    expect(held).to_contain_text("touched = 1")
    expect(buttons(cell)).to_have_text(["Run it", "Allow this for the rest of the turn", "Don't"])
    lab.wait_until_idle()
    lab.picture("approval", cell)
    before = lab.run("'touched' in globals()")
    expect(before.locator(".jp-OutputArea-output")).to_have_text("False")

    cell.get_by_role("button", name=choice, exact=True).click()
    expect(cell.get_by_role("region", name="Result")).to_be_visible()
    expect(buttons(cell)).to_have_count(0)
    assert answers(cell) == [choice]
    if is_set:  # as the step that ran, in the fold, under the same number
        cell.locator("details.pk-fold").last.evaluate("each => { each.open = true; }")
        expect(held).to_contain_text("touched = 1")
    lab.wait_until_idle()
    lab.picture("approval-allowed" if is_set else "approval-refused", cell)
    after = lab.run("'touched' in globals()")
    expect(after.locator(".jp-OutputArea-output")).to_have_text(str(is_set))
    assert lab.complaints == []


def test_orphaned_question_is_asked_again_by_show(lab: Lab) -> None:
    waiting(lab)
    lab.save()
    lab.restart_kernel()
    lab.reload()

    cell = lab.page.locator(".jp-Notebook .jp-Cell").nth(1)
    expect(cell.get_by_role("region", name="Question")).to_contain_text("Which region")
    expect(cell.get_by_role("button", name="west")).to_have_count(0)
    for told in ("Loading widget", "Error displaying widget"):
        expect(cell.get_by_text(told)).to_be_hidden()
    lab.picture("question-dead", cell)
    lab.run("import players\nplayer = players.asking(0)\n%agent model player")
    shown = lab.run("%agent show")
    again = shown.get_by_role("button", name="west")
    expect(again).to_be_enabled()
    lab.wait_until_idle()
    again.click()
    expect(shown.get_by_role("region", name="Result")).to_be_visible()
    assert answers(shown) == ["west"]
    lab.wait_until_idle()
    lab.picture("question-shown-again", shown)
    # Lab itself complains about the widget whose model went with its kernel.
    assert [each for each in lab.complaints if "widget model not found" not in each] == []


@pytest.mark.parametrize(("earlier", "is_reloaded"), [(0, True), (1, True), (0, False)])
def test_click_in_page_that_was_loaded_again_ends_in_the_record_and_in_the_file(
    lab: Lab, earlier: int, is_reloaded: bool
) -> None:
    waiting(lab, earlier)
    lab.save()
    if is_reloaded:
        lab.reload()
    else:
        path = lab.path
        lab.close_notebook(ends_kernel=False)
        lab.open_notebook(path)
    cell = lab.page.locator(".jp-Notebook .jp-Cell").nth(1)
    button = cell.get_by_role("button", name="west")
    expect(button).to_be_enabled()
    button.click()
    expect(cell.locator(".pk-result")).to_contain_text("Finished as asked.")
    expect(buttons(cell)).to_have_count(0)
    given = [*FIVE[:earlier], "west"]
    assert answers(cell) == given
    expect(cell.locator(".pk-section").first).to_have_class(re.compile("pk-result"))
    lab.wait_until_idle()
    lab.picture("question-answered-after-reload", cell)
    for _ in lab.reopened():
        again = lab.page.locator(".jp-Notebook .jp-Cell").nth(1)
        expect(again.get_by_text("Finished as asked.")).to_be_visible()
        expect(again.locator(".pk-question-pending")).to_have_count(0)
        assert answers(again) == given


def test_click_after_reload_without_our_lab_extension_shows_record_in_widget(lab: Lab) -> None:
    waiting(lab)
    lab.save()
    lab.page.route("**/parsimony-agent/static/*", lambda route: route.abort(), times=1)
    lab.reload()
    cell = lab.page.locator(".jp-Notebook .jp-Cell").nth(1)
    cell.get_by_role("button", name="west").click()
    expect(cell.locator(".jupyter-widgets .pk-result")).to_contain_text("Finished as asked.")
    # The question, which the page can no longer replace, is seen as one line, below the answer.
    asked = cell.get_by_text("Which region do you mean?").locator("visible=true")
    expect(asked).to_have_count(1)
    shown = cell.locator(".pk-section").locator("visible=true").first
    expect(shown).to_have_class(re.compile("pk-result"))
    lab.wait_until_idle()
    lab.save()
    lab.reload()  # with our extension again, for the tests that share the page


@pytest.mark.parametrize(
    ("is_reloaded", "end"),
    [
        *((False, end) for end in ("restart by menu", "restart by api")),
        *((True, end) for end in ("restart by menu", "restart by api", "shutdown", "kill")),
    ],
)
def test_after_the_end_of_its_kernel_a_card_says_how_to_answer_and_has_no_dead_button(
    lab: Lab, is_reloaded: bool, end: str
) -> None:
    """Lab drops what a kernel says once it is restarting, so the card says it from the start."""
    cell = waiting(lab)
    if is_reloaded:
        lab.save()
        lab.reload()
        cell = lab.page.locator(".jp-Notebook .jp-Cell").nth(1)
        expect(cell.get_by_role("button", name="west")).to_be_enabled()
    if end == "shutdown":
        lab.shut_down_kernel()
    elif end == "kill":
        lab.run("import os; os.kill(os.getpid(), 9)")
        dialog = lab.page.locator(".jp-Dialog", has_text="Kernel Restarting")
        dialog.get_by_role("button", name="Ok").click()
    else:
        lab.restart_kernel(is_by_menu=end == "restart by menu")
    expect(cell.get_by_role("button", name="west")).to_have_count(0)
    assert cell.locator(".jupyter-widgets").evaluate_all(_BROKEN_LINKS) == []
    question = cell.get_by_role("region", name="Question")
    for told in ("north", "%agent answer --turn 1 NUMBER", "%agent show 1"):
        expect(question.get_by_text(told)).to_be_visible()
    expect(question.get_by_text("Kernel restarted?")).to_be_visible()
    lab.picture(f"question-{end.replace(' ', '-')}-{'reloaded' if is_reloaded else 'live'}", cell)
    # Lab itself complains about requests that it cancels, and of widgets that are gone.
    assert [each for each in lab.complaints if "TypeError" in each] == []
