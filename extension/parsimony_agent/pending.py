"""The exceptions that end an agent cell, and the hook that keeps the silent ones silent.

A cell must raise to stop Run All; what it raises is displayed as one line or not at all, never as a
traceback of ours.
"""

import textwrap
from typing import Any

# Columns that fit into a cell of a window 700 pixels wide.
_WIDTH = 72


class OneLine(Exception):
    """An error displayed as its own text, without a traceback, through ``_render_traceback_``."""

    label = "Parsimony Agent"

    def _render_traceback_(self) -> list[str]:
        return [f"{self.label}: {self}"]


class Misuse(OneLine):
    """A magic with invalid syntax or arguments; nothing was run."""

    label = "UsageError"

    def _render_traceback_(self) -> list[str]:
        # Front ends break the lines of an error in the middle of words.
        fold = textwrap.TextWrapper(_WIDTH, break_long_words=False, break_on_hyphens=False).fill
        return ["\n".join(map(fold, super()._render_traceback_()[0].split("\n")))]


class TurnError(OneLine):
    """A turn could not start or continue."""


class QuestionUnanswered(OneLine):
    """A turn waits for an answer in an unattended run."""


class Silent(Exception):
    """Fails the cell, so that queued cells do not run, and displays nothing."""

    def _render_traceback_(self) -> list[str]:
        return []


class QuestionPending(Silent):
    """The turn of this cell waits for an answer; its record says so."""


class TurnStopped(Silent):
    """The turn of this cell was stopped; its record says so."""


class SilentStop:
    """Make IPython display nothing for ``Silent``, whatever other handlers are installed.

    IPython has one slot for custom exception handlers. The previous handler still gets every other
    exception, and ``uninstall`` restores it unless ours has been replaced since.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._handler: Any = None
        self._before: tuple[tuple[type[BaseException], ...], Any] = ((), None)

    def _is_installed(self) -> bool:
        return self._handler is not None and self._shell.CustomTB is self._handler

    def install(self) -> None:
        """Take the slot, unless we have it already."""
        if self._is_installed():
            return
        shell = self._shell
        before = (tuple(shell.custom_exceptions), shell.CustomTB)

        def handle(shell: Any, etype: Any, value: Any, tb: Any, tb_offset: Any = None) -> Any:
            if isinstance(value, Silent):
                # The reply quotes this attribute; it must not hold an older error's traceback.
                shell._last_traceback = None
                return None
            return before[1](etype, value, tb, tb_offset=tb_offset)

        shell.set_custom_exc((Silent, *before[0]), handle)
        self._before, self._handler = before, shell.CustomTB

    def uninstall(self) -> None:
        """Restore the previous handler."""
        if self._is_installed():
            self._shell.custom_exceptions, self._shell.CustomTB = self._before
        self._handler = None
