"""The buttons below a question."""

import threading
from typing import Any

import pytest

from parsimony_agent.widgets.prompt import Prompt

CHOICES = ("by year", "by <b>origin</b>", "by maker", "by weight", "all of it")


def click(button: Any) -> None:
    """As the front end does it."""
    button._handle_button_msg(button, {"event": "click"}, [])


@pytest.mark.parametrize("number", range(1, 6))
def test_each_button_sends_its_own_choice(number: int) -> None:
    replies: list[str] = []
    prompt = Prompt(CHOICES, replies.append)
    button = prompt.buttons[number - 1]
    assert button.description == f"{number}. {CHOICES[number - 1]}"
    assert button.tooltip == CHOICES[number - 1]
    click(button)
    assert replies == [str(number)]


def test_a_second_click_does_nothing_and_the_first_disables_everything() -> None:
    replies: list[str] = []
    prompt = Prompt(CHOICES, replies.append)
    prompt.field.value = "words"
    click(prompt.buttons[1])
    assert all(each.disabled for each in (*prompt.buttons, prompt.field, prompt.send))
    click(prompt.buttons[1])
    click(prompt.buttons[2])
    click(prompt.send)
    assert replies == ["2"]


def test_clicks_of_many_threads_at_once_are_one() -> None:
    replies: list[str] = []
    prompt = Prompt(CHOICES, replies.append)
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


def test_words_are_sent_by_the_button_and_by_enter_and_empty_ones_are_not() -> None:
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


def test_a_reply_that_cannot_be_used_opens_the_prompt_again_and_says_why() -> None:
    replies: list[str] = []
    prompt = Prompt(CHOICES, replies.append)
    click(prompt.buttons[0])
    prompt.reopen("Turn 1 is still running.")
    assert not prompt.buttons[0].disabled
    assert any(
        getattr(each, "value", "") == "Turn 1 is still running." for each in prompt.box.children
    )
    click(prompt.buttons[3])
    assert replies == ["1", "4"]


def test_settled_it_is_text_and_listens_no_more() -> None:
    replies: list[str] = []
    prompt = Prompt(CHOICES, replies.append)
    assert "application/vnd.jupyter.widget-view+json" in prompt.bundle()[0]
    prompt.settle("Answered: by <b>origin</b>")
    data, _ = prompt.bundle()
    assert set(data) == {"text/plain", "text/html"}
    assert data["text/html"] == "<p>Answered: by &lt;b&gt;origin&lt;/b&gt;</p>"
    prompt.take("1")
    assert replies == []
    prompt.settle("something else")
    assert prompt.bundle()[0]["text/plain"] == "Answered: by <b>origin</b>"
