"""The button that stops a turn while it runs.

A click may come on another thread and in the middle of a cell: it asks the turn to stop, nothing
else.
"""

from collections.abc import Callable
from inspect import signature
from typing import Any

from parsimony_agent.tables import note
from parsimony_kernel.view.bundle import NOTHING, Bundle

_TOOLTIP = (
    "Stops this turn as soon as what it waits for lets go. What it has done so far stays, and the "
    "record says where it ended."
)


class StopButton:
    """Calls ``on_stop`` for every click until it is settled. Drawn like a prompt."""

    def __init__(self, on_stop: Callable[[], object]) -> None:
        import ipywidgets

        self.state: str | None = None
        self.button = ipywidgets.Button(
            description="Stop",
            tooltip=_TOOLTIP,
            icon="stop",
            layout=ipywidgets.Layout(width="auto"),
        )
        self.button.on_click(lambda _: on_stop() if self.state is None else None)

    def settle(self, text: str) -> None:
        """The turn has ended or asks; from now on the display is ``text``, or looks empty."""
        if self.state is None:
            self.state = text
            self.button.close()

    def bundle(self) -> Bundle:
        """What to show now."""
        if self.state is not None:
            return (note(self.state) if self.state else dict(NOTHING)), {}
        shown = self.button._repr_mimebundle_()
        return {**shown, "text/plain": "Interrupt the kernel to stop this turn."}, {}


def is_heard_mid_cell(shell: Any) -> bool:
    """Whether a click reaches a cell of ``shell`` while that cell awaits.

    ipykernel does so since it dispatches the messages of widgets beside a running cell. Before,
    they come once the cell has ended, or, where the front end opened a subshell for them, on
    another thread; whether it did cannot be seen before the first click.
    """
    dispatch = getattr(getattr(shell, "kernel", None), "dispatch_shell", None)
    return dispatch is not None and "concurrent" in signature(dispatch).parameters
