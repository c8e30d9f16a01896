"""The button that stops a turn."""

from types import SimpleNamespace

from parsimony_agent.controls import StopButton, is_heard_mid_cell
from parsimony_kernel.core.cancellation import CancellationRequest
from tests.extension.output_area import click

WIDGET = "application/vnd.jupyter.widget-view+json"


def test_button_describes_itself() -> None:
    button = StopButton(lambda: None)
    assert button.widget.description == "Stop"
    assert "Stops this turn" in button.widget.tooltip
    data, _ = button.bundle()
    assert WIDGET in data
    assert data["text/plain"] == "Interrupt the kernel to stop this turn."


def test_settled_button_is_gone_and_late_click_ignored() -> None:
    request = CancellationRequest()
    button = StopButton(request.set)
    button.settle("")
    click(button.widget)
    assert not request.is_set
    data, _ = button.bundle()
    assert not any(each.strip() for each in data.values())


def test_settled_button_is_hidden_at_once_and_closed_when_no_page_can_be_drawing_it() -> None:
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
