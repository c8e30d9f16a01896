"""Render small tables and sentences as mime bundles: text for every front end, HTML where shown.

Every cell is escaped and capped. The text fits a terminal: cells that are too wide are folded.
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
_FONT = "margin:0;word-break:normal;font:var(--jp-code-font-size,1em)/1.4 "
_FONT += "var(--jp-code-font-family,monospace);"
_LINES = f"{_FONT}white-space:pre-wrap;overflow-wrap:break-word;overflow-wrap:anywhere"
_CODE = f"{_FONT}white-space:pre;overflow-x:auto"
_CELL = "text-align:left;white-space:normal;word-break:"
# Longer words, such as paths, may be broken anywhere; shorter ones are kept whole.
_LONG_WORD = 30


def note(text: str) -> dict[str, Any]:
    """Return the bundle of lines of prose; without text, of a blank, which takes no room.

    A blank, since exporters complain about an empty bundle and nbval doesn't read empty text back.
    """
    if not text:
        return {"text/plain": " ", "text/html": " "}
    lines = html_text(text).replace("\n", "<br>")
    return {"text/plain": plain(text), "text/html": f"<p>{lines}</p>"}


def words(text: str, *, title: str = "", is_code: bool = False) -> dict[str, Any]:
    """Return the bundle of lines as they are, in a fold if it has a ``title``.

    It has HTML because front ends turn addresses in plain text into links. Lines of code scroll,
    others wrap.
    """
    text = plain(text).rstrip("\n")
    style = _CODE if is_code else _LINES
    shown = f'<pre style="{style}">{unbroken(html_text(text))}</pre>'
    if title:
        shown = f"<details><summary>{html_text(title)}</summary>{shown}</details>"
    return {"text/plain": f"{title}\n\n{text}" if title else text, "text/html": shown}


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str, widest: int = _WIDEST
) -> dict[str, Any]:
    """Return the bundle of ``rows`` under ``head``.

    Args:
        head: the column titles.
        rows: a text for each column.
        empty: the sentence shown if there are no rows.
        widest: terminal columns after which a cell is cut.
    """
    if not rows:
        return note(empty)
    cells = [[shortened(inline(cell), widest) for cell in row] for row in rows]
    widths = [max(map(wcswidth, column)) for column in zip(head, *cells, strict=True)]
    room = WIDTH - len(_GAP) * (len(widths) - 1)
    while sum(widths) > room and max(widths) > _NARROWEST:
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
    # JupyterLab strips `overflow-wrap:anywhere` from untrusted outputs.
    return "break-all" if max(map(len, cell.split()), default=0) > _LONG_WORD else "normal"


def _lines(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    from parsimony_kernel.view.plain_text import wrapped  # deferred: pydantic

    folded = [wrapped((cell,), width) for cell, width in zip(row, widths, strict=True)]
    for parts in zip_longest(*folded, fillvalue=""):
        padded = (
            part + " " * (width - wcswidth(part)) for part, width in zip(parts, widths, strict=True)
        )
        yield _GAP.join(padded).rstrip()
