"""Widgets beside a record: the answers to a question, and Stop.

A click may arrive on another thread and while a cell runs, so it only takes the reply, disables the
controls and passes the reply on, or requests the stop. Widgets are for input; they show the record
only on a reloaded page without our Lab extension, which draws nothing else.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from inspect import signature
from typing import Any

from parsimony_agent.publisher import Bundle
from parsimony_agent.tables import note
from parsimony_kernel.view.escape import html_text, inline, shortened

# A front end marks widgets without a kernel by broken links. The record's style sheet hides them,
# and the buttons, by this class.
_CLASS = "parsimony-record-controls"
# A button has a margin of 2 px on each side.
_WITHIN = "calc(100% - 4px)"
_LABEL_COLUMNS = 120
_TOOLTIP_COLUMNS = 400
# A page that is still loading the widget manager reports an error if a button's model is closed
# before it is drawn. So hidden buttons are closed after some further turns.
_settled: deque[Any] = deque()
_SETTLED_KEPT = 20
_STOP_TOOLTIP = "Stops this turn; what it has done so far stays, and the record says where it ended"


class Control:
    """A clickable control: open while ``state`` is ``None``, then closed with that text.

    It is drawn through ``bundle``, which changes whenever ``state`` does. ``widget`` is drawn while
    it is open, ``instead`` is its text where widgets are not.
    """

    state: str | None = None
    widget: Any
    instead: str

    def settle(self, text: str) -> None:
        """Close it; from now on the display is ``text``, or a blank."""
        self.state = text

    def bundle(self) -> Bundle:
        """Return what to display now."""
        if self.state is not None:
            return note(self.state), {}
        return {**self.widget._repr_mimebundle_(), "text/plain": self.instead}, {}


class Prompt(Control):
    """The controls of one question.

    Args:
        choices: their labels, a button each.
        on_reply: takes the number of a choice or the typed words; one reply at most until
            ``reopen``.
        free_words: whether words can be typed.
        magic: the line magic that draws the question again where no widget is drawn.
        turn: the number of the turn that asks.
    """

    def __init__(
        self,
        choices: Sequence[str],
        on_reply: Callable[[str], None],
        *,
        free_words: bool = True,
        magic: str = "%agent",
        turn: int = 0,
    ) -> None:
        import ipywidgets as widgets

        self._on_reply, self.turn, show = on_reply, turn, f"{magic} show {turn or ''}".rstrip()
        # Acquired by the first reply, or when the question is closed.
        self._taken = threading.Lock()
        # The question above says how to answer without buttons.
        self.instead = f"To draw this again and keep it, run {show} in a cell."
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
        # HTML, because a Label typesets mathematics, and prices have dollar signs.
        self._note = widgets.HTML(layout={"display": "none"})
        row = {"flex_flow": "row wrap", "align_items": "center", "max_width": "60em"}
        rows = [self.buttons, [self.field, self.send] if free_words else []]
        self._rows = [widgets.Box(each, layout=row) for each in rows if each]
        self.widget = widgets.VBox([*self._rows, self._note]).add_class(_CLASS)

    @property
    def said(self) -> str:
        """The markup of the note below the controls."""
        return str(self._note.value)

    def _entered(self, _widget: Any, content: dict[str, Any], _buffers: Any) -> None:
        if content.get("event") == "submit":
            self.take(self.field.value)

    def _enable(self, enabled: bool) -> None:
        for control in (*self.buttons, self.field, self.send):
            control.disabled = not enabled

    def say(self, text: str) -> None:
        """Show ``text`` below the controls."""
        self._show(f'<p role="status">{html_text(inline(text))}</p>')

    def _show(self, markup: str) -> None:
        self._note.value, self._note.layout.display = markup, ""

    def take(self, reply: str) -> None:
        """Pass ``reply`` on, unless it is empty or another reply came first."""
        if not reply.strip():
            self.say("Type an answer, or choose one.")
        elif self._taken.acquire(blocking=False):
            self._enable(False)
            self.say("Going on…")
            self._on_reply(reply.strip())

    def reopen(self, why: str) -> None:
        """Show ``why`` the reply could not be used and enable the controls again."""
        self._taken.release()
        self.say(why)
        self._enable(True)

    def settle(self, text: str) -> None:
        """Close the question.

        A reloaded page without our Lab extension draws the widget but no later updates of displays,
        so the outcome is shown in the widget too, by ``tell``.
        """
        self._taken.acquire(blocking=False)
        super().settle(text)
        self._show(note(text)["text/html"] if text else self.said)
        self.widget.children = [self._note]
        # The rows first: a row with closed buttons has no state, and a page that is reloaded would
        # wait for the states of all widgets.
        for widget in (*self._rows, *self.buttons, self.field, self.send):
            widget.close()

    def tell(self, markup: str) -> None:
        """Show the outcome in the closed widget; ``markup`` is HTML with foreign text escaped."""
        markup += f"<p>Not saved in the notebook yet. {html_text(self.instead)}</p>"
        if self._taken.locked() and self.state == "":  # not where the kernel ends
            self._show(markup)


class StopButton(Control):
    """A button that calls ``on_stop`` for every click until it is settled."""

    instead = "Interrupt the kernel to stop this turn."

    def __init__(self, on_stop: Callable[[], object]) -> None:
        import ipywidgets as widgets

        self.widget = widgets.Button(
            description="Stop", tooltip=_STOP_TOOLTIP, icon="stop", layout={"width": "auto"}
        ).add_class(_CLASS)
        self.widget.on_click(lambda _: on_stop() if self.state is None else None)

    def settle(self, text: str) -> None:
        """Remove the button: the turn has ended or waits for an answer."""
        super().settle(text)
        self.widget.layout.display = "none"
        _settled.append(self.widget)
        if len(_settled) > _SETTLED_KEPT:
            _settled.popleft().close()


def in_loop(act: Callable[[str], Coroutine[Any, Any, None]]) -> Callable[[str], None]:
    """Return a callback that runs ``act`` in the current event loop.

    A click may call it on another thread or while a cell runs.
    """
    loop = asyncio.get_running_loop()
    # The loop keeps only weak references to tasks.
    done: list[Future[None]] = []
    return lambda reply: done.append(asyncio.run_coroutine_threadsafe(act(reply), loop))


def is_heard_mid_cell(shell: Any) -> bool:
    """Return whether a click reaches ``shell`` while one of its cells awaits.

    Newer versions of ipykernel dispatch widget messages concurrently with a running cell. In older
    ones they arrive after the cell has ended, or on another thread if the front end opened a
    subshell for them, which cannot be known before the first click.
    """
    dispatch = getattr(getattr(shell, "kernel", None), "dispatch_shell", None)
    return dispatch is not None and "concurrent" in signature(dispatch).parameters
