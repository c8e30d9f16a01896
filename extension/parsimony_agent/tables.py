"""Small tables and sentences as mime bundles: text for every front end, HTML where it is shown.

Every cell is escaped and capped. The text fits a terminal: what is too wide is folded.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from wcwidth import wcswidth

from parsimony_kernel.view.escape import html_text, inline, plain, shortened, unbroken

WIDTH = 80
_WIDEST = 60
_NARROWEST = 6
_GAP = "  "
_LINES = (
    "white-space:pre-wrap;word-break:normal;overflow-wrap:break-word;overflow-wrap:anywhere;"
    "margin:0;font-family:var(--jp-code-font-family,monospace)"
)
_CELL = "text-align:left;white-space:normal;word-break:"
# A longer word, such as a path, is broken anywhere; others keep their letters together.
_LONG_WORD = 30


def note(text: str) -> dict[str, Any]:
    """The bundle of one sentence. Without words it takes no room: a blank, since exporters complain
    about a bundle without anything and nbval doesn't read back what is empty."""
    if not text:
        return {"text/plain": " ", "text/html": " "}
    return {"text/plain": plain(text), "text/html": f"<p>{unbroken(html_text(text))}</p>"}


def words(text: str) -> dict[str, Any]:
    """The bundle of lines as they stand. A front end makes links of what is merely printed."""
    text = plain(text).rstrip("\n")
    shown = unbroken(html_text(text))
    return {"text/plain": text, "text/html": f'<pre style="{_LINES}">{shown}</pre>'}


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    empty: str,
    widest: int = _WIDEST,
    width: int | None = WIDTH,
) -> dict[str, Any]:
    """The bundle of ``rows`` under ``head``; ``empty`` is what is said when there are none.

    A cell is cut after ``widest`` columns of a terminal. The text is folded to ``width`` of them,
    the widest cells first; ``None`` leaves each row on one line.
    """
    if not rows:
        return note(empty)
    cells = [[shortened(inline(cell), widest) for cell in row] for row in rows]
    widths = [max(map(wcswidth, column)) for column in zip(head, *cells, strict=True)]
    room = (width or 0) - len(_GAP) * (len(widths) - 1)
    while width is not None and sum(widths) > room and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    text = "\n".join(line for row in (head, *cells) for line in _lines(row, widths))

    def row(tag: str, values: Sequence[str], scope: str = "") -> str:
        return "".join(
            f'<{tag}{scope} style="{_CELL}{_breaks(value)}">{html.escape(value)}</{tag}>'
            for value in values
        )

    body = "".join(f"<tr>{row('td', each)}</tr>" for each in cells)
    header = row("th", head, ' scope="col"')
    return {
        "text/plain": text,
        "text/html": f"<table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>",
    }


def _breaks(cell: str) -> str:
    # JupyterLab takes `overflow-wrap:anywhere` out of what is not trusted.
    return "break-all" if max(map(len, cell.split()), default=0) > _LONG_WORD else "normal"


def _lines(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    from parsimony_kernel.view.text import wrapped  # deferred: pydantic

    folded = [wrapped((cell,), width) for cell, width in zip(row, widths, strict=True)]
    for parts in zip_longest(*folded, fillvalue=""):
        padded = (
            part + " " * (width - wcswidth(part)) for part, width in zip(parts, widths, strict=True)
        )
        yield _GAP.join(padded).rstrip()
