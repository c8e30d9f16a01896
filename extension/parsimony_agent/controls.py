"""What can be clicked beside a record: the answers to a question, and Stop.

A click may come on another thread and in the middle of a cell: it takes the reply, disables the
controls and hands the reply over, or asks the turn to stop, nothing else. Widgets are an aid for
input; they carry the record only on a page that was loaded again, which draws nothing else.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from inspect import signature
from typing import Any

from parsimony_agent.publisher import Bundle
from parsimony_agent.tables import note
from parsimony_kernel.view.escape import html_text, inline, shortened

# A front end marks what has lost its kernel with broken links. The record's style sheet takes them
# away from what has this class, and the buttons with them.
_CLASS = "parsimony-record-controls"
# A button has a margin of two pixels on each side.
_WITHIN = "calc(100% - 4px)"
_LABEL_COLUMNS = 120
_TOOLTIP_COLUMNS = 400
_STOP_TOOLTIP = "Stops this turn; what it has done so far stays, and the record says where it ended"


class Control:
    """Something to click. ``state`` is the text that it was closed into, ``None`` while open. It is
    drawn through ``bundle``, and ``state`` changes whenever that does.

    ``widget`` is what is drawn, ``instead`` its text where no widget is drawn.
    """

    state: str | None = None
    widget: Any
    instead: str

    def settle(self, text: str) -> None:
        """Close it; from now on the display is ``text``, or looks empty."""
        self.state = text

    def bundle(self) -> Bundle:
        """What to show now."""
        if self.state is not None:
            return note(self.state), {}
        return {**self.widget._repr_mimebundle_(), "text/plain": self.instead}, {}


class Prompt(Control):
    """One question's controls. ``on_reply`` gets the number of a choice, or the words typed.

    Without ``free_words`` there is nothing but the choices. ``magic`` is what answers where no
    widget is drawn.
    """

    def __init__(
        self,
        choices: Sequence[str],
        on_reply: Callable[[str], None],
        *,
        free_words: bool = True,
        magic: str = "%agent",
    ) -> None:
        import ipywidgets as widgets

        self._on_reply = on_reply
        # Held once there is a reply, or nobody is asked any more.
        self._taken = threading.Lock()
        count = len(choices)
        how = {0: "WORDS", 1: "1"}.get(count, f"N, a number from 1 to {count}")
        drawn = "buttons" if choices else "field"
        self.instead = f"Answer with {magic} answer {how}; {magic} show draws the {drawn} again."
        fitting = {"width": "auto", "max_width": _WITHIN, "height": "auto", "min_height": "28px"}
        self.buttons = [
            widgets.Button(
                description=shortened(inline(choice), _LABEL_COLUMNS),
                tooltip=f"Answer: {shortened(inline(choice), _TOOLTIP_COLUMNS)}",
                button_style="primary" if number == 1 else "",
                layout=fitting,
            )
            for number, choice in enumerate(choices, start=1)
        ]
        for number, button in enumerate(self.buttons, start=1):
            button.on_click(lambda _, reply=str(number): self.take(reply))
        self.field = widgets.Text(
            description="Or in your own words:" if choices else "Your answer:",
            tooltip="Enter sends these words as the answer",
            style={"description_width": "initial"},
            layout={"width": "auto", "flex": "1 1 20em", "min_width": "0"},
        )
        self.send = widgets.Button(
            description="Send",
            tooltip="Send the words in the field as the answer",
            layout={"width": "auto"},
        )
        self.send.on_click(lambda _: self.take(self.field.value))
        self.field.on_msg(self._entered)
        # HTML, because a label typesets mathematics: prices are no formulas.
        self._note = widgets.HTML(layout={"display": "none"})
        row = {"flex_flow": "row wrap", "align_items": "center", "max_width": "60em"}
        rows = [self.buttons, [self.field, self.send] if free_words else []]
        self.widget = widgets.VBox(
            [*(widgets.Box(each, layout=row) for each in rows if each), self._note]
        ).add_class(_CLASS)

    @property
    def said(self) -> str:
        """The markup of the sentence that stands below the controls."""
        return str(self._note.value)

    def _entered(self, _widget: Any, content: dict[str, Any], _buffers: Any) -> None:
        if content.get("event") == "submit":
            self.take(self.field.value)

    def _enable(self, enabled: bool) -> None:
        for control in (*self.buttons, self.field, self.send):
            control.disabled = not enabled

    def _say(self, text: str) -> None:
        self._show(f'<p role="status">{html_text(inline(text))}</p>')

    def _show(self, markup: str) -> None:
        self._note.value, self._note.layout.display = markup, ""

    def take(self, reply: str) -> None:
        """Hand ``reply`` over, if it says something and nobody was faster."""
        if not reply.strip():
            self._say("Type an answer, or choose one.")
        elif self._taken.acquire(blocking=False):
            self._enable(False)
            self._say("Going on…")
            self._on_reply(reply.strip())

    def reopen(self, why: str) -> None:
        """The reply could not be used: say ``why`` and let the person try again."""
        self._taken.release()
        self._say(why)
        self._enable(True)

    def settle(self, text: str) -> None:
        """The question is closed.

        A page that was loaded again draws the widget and none of the updates of displays, so what
        comes of the answer is told in the widget too: ``tell``.
        """
        self._taken.acquire(blocking=False)
        super().settle(text)
        self._show(note(text)["text/html"] if text else self.said)
        self.widget.children = [self._note]
        for widget in (*self.buttons, self.field, self.send):
            widget.close()

    def tell(self, markup: str) -> None:
        """Show how it went on here, as HTML in which everything foreign is escaped."""
        if self.state == "" and markup != self.said:
            self._show(markup)


class StopButton(Control):
    """Calls ``on_stop`` for every click until it is settled."""

    instead = "Interrupt the kernel to stop this turn."

    def __init__(self, on_stop: Callable[[], object]) -> None:
        import ipywidgets as widgets

        self.widget = widgets.Button(
            description="Stop", tooltip=_STOP_TOOLTIP, icon="stop", layout={"width": "auto"}
        ).add_class(_CLASS)
        self.widget.on_click(lambda _: on_stop() if self.state is None else None)

    def settle(self, text: str) -> None:
        """The turn has ended or asks."""
        super().settle(text)
        self.widget.close()


def in_loop(act: Callable[[str], Coroutine[Any, Any, None]]) -> Callable[[str], None]:
    """What a click calls to have ``act`` done: perhaps on another thread, perhaps inside a cell, so
    the loop that runs now takes it from there."""
    loop = asyncio.get_running_loop()
    # The loop keeps weak references only.
    done: list[Future[None]] = []
    return lambda reply: done.append(asyncio.run_coroutine_threadsafe(act(reply), loop))


def is_heard_mid_cell(shell: Any) -> bool:
    """Whether a click reaches a cell of ``shell`` while that cell awaits.

    ipykernel does so since it dispatches the messages of widgets beside a running cell. Before,
    they come once the cell has ended, or, where the front end opened a subshell for them, on
    another thread; whether it did cannot be seen before the first click.
    """
    dispatch = getattr(getattr(shell, "kernel", None), "dispatch_shell", None)
    return dispatch is not None and "concurrent" in signature(dispatch).parameters
