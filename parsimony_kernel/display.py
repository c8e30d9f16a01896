"""A run in a terminal, on a pipe or below a cell, by the texts of ``view``.

The record is written once, at the end, the answer first. Meanwhile a terminal has one line that
says what is going on and is taken away again, and a notebook the record so far.
"""

import shutil
import sys
from collections.abc import AsyncIterable, Sequence
from contextlib import AsyncExitStack
from typing import Any, TextIO

from parsimony_kernel.core.events import AgentEvent, AgentResult, collect
from parsimony_kernel.view import blocks as bl
from parsimony_kernel.view.blocks import EMPTY
from parsimony_kernel.view.escape import inline, shortened
from parsimony_kernel.view.fold import fold, replay
from parsimony_kernel.view.html import Bundle, segment_bundles
from parsimony_kernel.view.outline import OUTCOMES, progress_of, segment_of
from parsimony_kernel.view.plain_text import record_of

_WIDTH = 80
_WIDEST = 100
_CLEAR_LINE = "\r\x1b[2K"


async def stream_to_display(
    events: AsyncIterable[AgentEvent], *, file: TextIO | None = None
) -> AgentResult:
    """Show a run while it goes on, such as ``agent.run(message)``, and return what came of it.

    Args:
        events: the events of one run; what closes is closed when this ends.
        file: where to write text; by default below the cell in a notebook, else standard output.
    """
    screen = _screen(file)
    view = EMPTY
    kept: list[AgentEvent] = []
    async with AsyncExitStack() as stack:
        close = getattr(events, "aclose", None)
        if close is not None:
            stack.push_async_callback(close)
        try:
            async for event in events:
                kept.append(event)
                view = fold(view, event)
                screen.update(view.blocks)
        finally:
            screen.end([each for each in view.blocks if not isinstance(each, bl.ProgressBlock)])
    return collect(kept)


def display_result(result: AgentResult, *, file: TextIO | None = None) -> None:
    """Show what came of a run: its charts, its outcome with what was published, and its cost.

    Args:
        result: of ``agent.ask`` or ``stream_to_display``.
        file: as for ``stream_to_display``.
    """
    _screen(file).end(_outcome(result))


def _outcome(result: AgentResult) -> list[bl.Block]:
    view = replay(result.events)
    shown: list[bl.Block] = [
        each for each in view.blocks if isinstance(each, (bl.FigureBlock, *OUTCOMES))
    ]
    if not any(isinstance(each, OUTCOMES) for each in shown):
        shown += view.closed[-1:] or [bl.EndBlock("result", result.text)]
    return [*shown, *(each for each in view.blocks if isinstance(each, bl.FooterBlock))]


def _screen(file: TextIO | None) -> "_Text | _Cell":
    """Where a run is shown."""
    if file is None and _is_notebook():
        return _Cell()
    return _Text(sys.stdout if file is None else file)


def _is_notebook() -> bool:
    """Whether a front end draws what is displayed. IPython is not imported to find out."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def _width_of(file: TextIO) -> int:
    if not file.isatty():
        return _WIDTH
    return min(_WIDEST, shutil.get_terminal_size((_WIDTH, 24)).columns)


class StatusLine:
    """One line of a terminal that is written over, and nothing where ``file`` is none."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._shown = ""

    def show(self, text: str) -> None:
        """Put ``text`` in the place of what stood there; empty takes it away."""
        if text != self._shown and self._file.isatty():
            line = shortened(inline(text), _width_of(self._file) - 1)
            _write(self._file, _CLEAR_LINE + line)
            self._shown = text


def _write(file: TextIO, text: str) -> None:
    encoding = getattr(file, "encoding", None) or "utf-8"
    file.write(text.encode(encoding, "replace").decode(encoding))
    file.flush()


class _Text:
    """A stream of text, a terminal or a pipe. It says what goes on, and has the record at the
    end."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._status = StatusLine(file)

    def update(self, blocks: Sequence[bl.Block]) -> None:
        self._status.show(progress_of(blocks))

    def end(self, blocks: Sequence[bl.Block]) -> None:
        self._status.show("")
        if text := record_of(blocks, _width_of(self._file)):
            _write(self._file, f"{text}\n\n")


class _Cell:
    """The output of a cell: three displays, which are updated."""

    def __init__(self) -> None:
        self._handles: list[Any] = []
        self._shown: list[Bundle] = []

    def update(self, blocks: Sequence[bl.Block]) -> None:
        from IPython.display import display

        for position, output in enumerate(segment_bundles(segment_of(blocks, echo=True))):
            data, metadata = output
            if position == len(self._handles):
                shown = display(data, metadata=metadata, raw=True, display_id=True)
                self._handles.append(shown)
                self._shown.append(output)
            elif output != self._shown[position]:
                self._handles[position].update(data, metadata=metadata, raw=True)
                self._shown[position] = output

    def end(self, blocks: Sequence[bl.Block]) -> None:
        self.update(blocks)
