"""The exceptions that end an agent cell, and the hook that keeps the silent ones silent.

A cell that stops Run All has to raise; what it raises shows one line or nothing, never a
traceback of ours.
"""

import textwrap
from typing import Any

# Of a line, in columns: what a cell holds in a window of 700 pixels.
_WIDTH = 72


class OneLine(Exception):
    """Shown as its own text, without a traceback. IPython asks ``_render_traceback_``."""

    label = "Parsimony Agent"

    def _render_traceback_(self) -> list[str]:
        return [f"{self.label}: {self}"]


class Misuse(OneLine):
    """A magic was written in a way that cannot be run; nothing was run."""

    label = "UsageError"

    def _render_traceback_(self) -> list[str]:
        # Front ends break the lines of an error anywhere, in the middle of words too.
        fold = textwrap.TextWrapper(_WIDTH, break_long_words=False, break_on_hyphens=False).fill
        return ["\n".join(map(fold, super()._render_traceback_()[0].split("\n")))]


class TurnError(OneLine):
    """A turn could not begin or go on."""


class QuestionUnanswered(OneLine):
    """A turn waits for an answer and nobody is there to give it."""


class Silent(Exception):
    """Fails the cell, so that queued cells do not run, and shows nothing."""

    def _render_traceback_(self) -> list[str]:
        return []


class QuestionPending(Silent):
    """The turn of this cell waits for an answer, which its record says."""


class TurnStopped(Silent):
    """The turn of this cell was stopped, which its record says."""


class SilentStop:
    """Makes IPython show nothing at all for ``Silent``, whatever else is installed.

    IPython has one slot for custom exception handlers. What was in it is asked for everything
    that is not ours, and is put back by ``uninstall`` unless somebody has replaced us meanwhile.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._handler: Any = None
        self._before: tuple[tuple[type[BaseException], ...], Any] = ((), None)

    def _is_installed(self) -> bool:
        return self._handler is not None and self._shell.CustomTB is self._handler

    def install(self) -> None:
        """Take the slot, if it is not ours already."""
        if self._is_installed():
            return
        shell = self._shell
        before = (tuple(shell.custom_exceptions), shell.CustomTB)

        def handle(shell: Any, etype: Any, value: Any, tb: Any, tb_offset: Any = None) -> Any:
            if isinstance(value, Silent):
                # The reply quotes this attribute: an older error's traceback must not be in it.
                shell._last_traceback = None
                return None
            return before[1](etype, value, tb, tb_offset=tb_offset)

        shell.set_custom_exc((Silent, *before[0]), handle)
        self._before, self._handler = before, shell.CustomTB

    def uninstall(self) -> None:
        """Put back what was in the slot."""
        if self._is_installed():
            self._shell.custom_exceptions, self._shell.CustomTB = self._before
        self._handler = None
