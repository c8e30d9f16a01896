"""A run in a terminal, on a pipe or below a cell, by the texts of ``view``.

What is settled is written once and stays: on a pipe it is plain text. A terminal has one more
line, which says what is going on and is taken away again, and a notebook a display that does.
"""

import shutil
import sys
from collections.abc import AsyncIterable, Iterable
from contextlib import AsyncExitStack
from typing import Any, Protocol, TextIO

from parsimony_kernel.core.events import AgentEvent
from parsimony_kernel.core.results import AgentResult, collect
from parsimony_kernel.view.blocks import (
    Artifact,
    Block,
    CancelledBlock,
    FigureBlock,
    FooterBlock,
    HandoffBlock,
    PartialBlock,
    ProgressBlock,
    QuestionBlock,
    ResultBlock,
    StepBlock,
)
from parsimony_kernel.view.bundle import bundle
from parsimony_kernel.view.escape import shortened
from parsimony_kernel.view.fold import fold, replay
from parsimony_kernel.view.run_view import EMPTY, RunView
from parsimony_kernel.view.text import text_of

_WIDTH = 80
_WIDEST = 100
_CLEAR_LINE = "\r\x1b[2K"
_OUTCOMES = (QuestionBlock, ResultBlock, HandoffBlock, PartialBlock, CancelledBlock)


async def stream_to_display(
    events: AsyncIterable[AgentEvent], *, file: TextIO | None = None
) -> AgentResult:
    """Show a run while it goes on, such as ``agent.run(message)``, and return what came of it.

    Args:
        events: the events of one run; what closes is closed when this ends.
        file: where to write text; by default below the cell in a notebook, else standard output.
    """
    screen = _screen(file)
    view, shown = EMPTY, 0
    kept: list[AgentEvent] = []
    async with AsyncExitStack() as stack:
        stack.callback(screen.quiet)
        close = getattr(events, "aclose", None)
        if close is not None:
            stack.push_async_callback(close)
        async for event in events:
            kept.append(event)
            view = fold(view, event)
            settled = _settled(view)
            if settled > shown:
                screen.write(view.closed[shown:settled])
                shown = settled
            screen.status([each for each in view.blocks if isinstance(each, ProgressBlock)])
        screen.write(each for each in view.blocks[shown:] if not isinstance(each, ProgressBlock))
    return collect(kept)


def display_result(result: AgentResult, *, file: TextIO | None = None) -> None:
    """Show what came of a run: its charts, its outcome with what was published, and its cost.

    Args:
        result: of ``agent.ask`` or ``stream_to_display``.
        file: as for ``stream_to_display``.
    """
    _screen(file).write(_outcome(result))


def _settled(view: RunView) -> int:
    """How many of the closed blocks change no more: those before the first step that runs."""
    for index, block in enumerate(view.closed):
        if isinstance(block, StepBlock) and block.state == "running":
            return index
    return len(view.closed)


def _outcome(result: AgentResult) -> list[Block]:
    view = replay(result.events)
    shown: list[Block] = [
        each for each in view.blocks if isinstance(each, (FigureBlock, *_OUTCOMES))
    ]
    if not any(isinstance(each, _OUTCOMES) for each in shown):
        shown += view.closed[-1:] if result.events else [_words(result)]
    return [*shown, *(each for each in view.blocks if isinstance(each, FooterBlock))]


def _words(result: AgentResult) -> ResultBlock:
    """The outcome of a result that was made without events."""
    by_kind = {
        "dataset": result.datasets,
        "chart": result.charts,
        "report": result.reports,
        "notebook": result.scripts,
    }
    artifacts = tuple(
        Artifact(kind, each.title, each.path, each.variable)
        for kind, published in by_kind.items()
        for each in published
    )
    return ResultBlock(key="result", summary=result.text, artifacts=artifacts)


class _Screen(Protocol):
    """Where a run is shown."""

    def write(self, blocks: Iterable[Block]) -> None:
        """Show ``blocks`` for good."""

    def status(self, blocks: list[ProgressBlock]) -> None:
        """Show what is going on in place of what was said of it before."""

    def quiet(self) -> None:
        """Take the status away."""


def _screen(file: TextIO | None) -> _Screen:
    if file is None and _is_notebook():
        return _Cell()
    return _Text(sys.stdout if file is None else file)


def _is_notebook() -> bool:
    """Whether a front end draws what is displayed. IPython is not imported to find out."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


class _Text:
    """A stream of text: a terminal or a pipe."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._is_terminal = file.isatty()
        self._width = _WIDTH
        if self._is_terminal:
            self._width = min(_WIDEST, shutil.get_terminal_size((_WIDTH, 24)).columns)
        self._status = ""

    def write(self, blocks: Iterable[Block]) -> None:
        text = text_of(blocks, self._width)
        if text:
            self.quiet()
            self._put(f"{text}\n\n")

    def status(self, blocks: list[ProgressBlock]) -> None:
        text = shortened(text_of(blocks, self._width), self._width - 1)
        if self._is_terminal and text != self._status:
            self._put(_CLEAR_LINE + text)
            self._status = text

    def quiet(self) -> None:
        if self._status:
            self._put(_CLEAR_LINE)
            self._status = ""

    def _put(self, text: str) -> None:
        encoding = getattr(self._file, "encoding", None) or "utf-8"
        self._file.write(text.encode(encoding, "replace").decode(encoding))
        self._file.flush()


class _Cell:
    """The output of a cell: a display for each block. The status is in the place of the next."""

    def __init__(self) -> None:
        self._handle: Any = None

    def write(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            self._show(*bundle([block]))
            self._handle = None

    def status(self, blocks: list[ProgressBlock]) -> None:
        if blocks:
            self._show(*bundle(blocks))

    def quiet(self) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": " "}, raw=True)
            self._handle = None

    def _show(self, data: dict[str, Any], metadata: dict[str, Any]) -> None:
        """In the place of the status, if there is one."""
        from IPython.display import display

        if self._handle is None:
            self._handle = display(data, metadata=metadata, raw=True, display_id=True)
        else:
            self._handle.update(data, metadata=metadata, raw=True)
