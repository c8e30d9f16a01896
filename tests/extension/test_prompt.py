"""The buttons below a question, and the one that stops a turn."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from ipywidgets.widgets.widget import _instances as live_widgets

from parsimony_agent.controls import Prompt, StopButton, is_heard_mid_cell
from parsimony_kernel.core.cancellation import CancellationRequest
from tests.extension.output_area import click

WIDGET = "application/vnd.jupyter.widget-view+json"
CHOICES = ("by year", "by <b>origin</b>", "by maker", "by weight", "all of it")


@pytest.fixture
def replies() -> list[str]:
    """What was answered."""
    return []


@pytest.fixture
def prompt(replies: list[str]) -> Prompt:
    return Prompt(CHOICES, replies.append)


@pytest.mark.parametrize("number", range(1, 6))
def test_each_button_sends_its_choice(prompt: Prompt, replies: list[str], number: int) -> None:
    button = prompt.buttons[number - 1]
    assert button.description == CHOICES[number - 1]
    assert button.tooltip == f"Answer: {CHOICES[number - 1]}"
    click(button)
    assert replies == [str(number)]
    assert (button.button_style == "primary") is (number == 1)


def test_second_click_does_nothing(prompt: Prompt, replies: list[str]) -> None:
    prompt.field.value = "words"
    click(prompt.buttons[1])
    assert all(each.disabled for each in (*prompt.buttons, prompt.field, prompt.send))
    click(prompt.buttons[1])
    click(prompt.buttons[2])
    click(prompt.send)
    assert replies == ["2"]


def test_concurrent_clicks_are_one(prompt: Prompt, replies: list[str]) -> None:
    start = threading.Barrier(8)

    def press(number: int) -> None:
        start.wait()
        prompt.take(str(number))

    threads = [threading.Thread(target=press, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(replies) == 1


def test_text_is_sent_by_button_and_enter_but_not_empty() -> None:
    for send in (
        lambda prompt: click(prompt.send),
        lambda prompt: prompt.field._handle_custom_msg({"event": "submit"}, []),
    ):
        replies: list[str] = []
        prompt = Prompt((), replies.append)
        assert prompt.buttons == []
        send(prompt)
        prompt.field.value = "  "
        send(prompt)
        assert replies == []
        prompt.field.value = " by $year$ "
        send(prompt)
        assert replies == ["by $year$"]


def test_unusable_reply_reopens_prompt_with_reason(prompt: Prompt, replies: list[str]) -> None:
    click(prompt.buttons[0])
    prompt.reopen("Turn 1 costs $5 or <b>$6</b>.")
    assert not prompt.buttons[0].disabled
    assert prompt.said == '<p role="status">Turn 1 costs $5 or &lt;b&gt;$6&lt;/b&gt;.</p>'
    assert prompt.widget.children[-1].value == prompt.said
    click(prompt.buttons[3])
    assert replies == ["1", "4"]


def test_settled_prompt_is_text(prompt: Prompt, replies: list[str]) -> None:
    assert WIDGET in prompt.bundle()[0]
    prompt.settle("Answered: by <b>origin</b>")
    data, _ = prompt.bundle()
    assert set(data) == {"text/plain", "text/html"}
    assert data["text/html"] == "<p>Answered: by &lt;b&gt;origin&lt;/b&gt;</p>"
    prompt.take("1")
    assert replies == []


def controls(box: Any) -> list[Any]:
    """What can have the focus in ``box``, in the order of Tab."""
    if hasattr(box, "children"):
        return [each for child in box.children for each in controls(child)]
    return [box] if hasattr(box, "disabled") else []


def typesets(widget: Any) -> bool:
    """Whether a front end draws mathematics in what ``widget`` says."""
    return widget._model_name in ("LabelModel", "HTMLMathModel")


def test_focus_order_and_labels(prompt: Prompt) -> None:
    assert controls(prompt.widget) == [*prompt.buttons, prompt.field, prompt.send]
    assert all(each.tooltip for each in controls(prompt.widget))
    assert prompt.field.description == "Or in your own words:"
    assert Prompt((), lambda _: None).field.description == "Your answer:"


def test_foreign_text_is_cleaned() -> None:
    prompt = Prompt(("a\nb\x1b[2J\u202ec" + "x" * 500,), lambda _: None)
    label, tooltip = prompt.buttons[0].description, prompt.buttons[0].tooltip
    assert label.startswith("a b\ufffdcx")
    assert len(label) < len(tooltip) < 500
    assert not {"\n", "\x1b", "\u202e"} & {*label, *tooltip}
    assert not any(map(typesets, prompt.widget.children))


@pytest.mark.parametrize(
    ("magic", "turn", "shown"),
    [("%agent", 4, "%agent show 4"), ("%parsimony", 0, "%parsimony show")],
)
def test_undrawable_widget_says_what_draws_it(magic: str, turn: int, shown: str) -> None:
    data, _ = Prompt(CHOICES, lambda _: None, magic=magic, turn=turn).bundle()
    assert data["text/plain"] == f"To draw this again and keep it, run {shown} in a cell."


def test_page_that_draws_no_updates_shows_continuation_in_widget() -> None:
    prompt = Prompt(CHOICES, lambda _: None, turn=4)
    click(prompt.buttons[0])
    prompt.settle("")
    assert prompt.bundle()[0]["text/plain"] == " "
    (shown,) = prompt.widget.children
    assert "Going on" in shown.value
    prompt.tell("<p>There it is.</p>")
    how = "To draw this again and keep it, run %agent show 4 in a cell."
    told = f"Not saved in the notebook yet. {how}"
    assert shown.value == f"<p>There it is.</p><p>{told}</p>"
    assert shown.comm is not None


def test_reloaded_page_gets_states_of_all_widgets_after_an_answer() -> None:
    before = {*live_widgets}
    Prompt(CHOICES, lambda _: None).settle("")
    left = [live_widgets[each] for each in live_widgets.keys() - before]
    assert left
    assert all(each.get_state() for each in left)


# The button that stops a turn.


def test_stop_button_describes_itself() -> None:
    button = StopButton(lambda: None)
    assert button.widget.description == "Stop"
    assert "Stops this turn" in button.widget.tooltip
    data, _ = button.bundle()
    assert WIDGET in data
    assert data["text/plain"] == "Interrupt the kernel to stop this turn."


def test_settled_stop_button_is_gone_and_late_click_ignored() -> None:
    request = CancellationRequest()
    button = StopButton(request.set)
    button.settle("")
    click(button.widget)
    assert not request.is_set
    data, _ = button.bundle()
    assert not any(each.strip() for each in data.values())


def test_settled_stop_button_is_hidden_at_once_and_closed_when_no_page_can_be_drawing_it() -> None:
    first, *others = [StopButton(lambda: None) for _ in range(21)]
    first.settle("")
    assert first.widget.comm is not None
    assert first.widget.layout.display == "none"
    for button in others:
        button.settle("")
    assert first.widget.comm is None


def test_no_kernel_hears_no_click() -> None:
    assert not is_heard_mid_cell(SimpleNamespace())
    assert not is_heard_mid_cell(SimpleNamespace(kernel=None))
