"""Small tables and sentences as mime bundles: text for every front end, HTML where it is shown.

Every cell is escaped.
"""

import html
from collections.abc import Sequence
from typing import Any

# A display that takes no room, in JupyterLab measured as zero pixels.
NOTHING: dict[str, Any] = {"text/plain": "", "text/html": ""}
_WIDEST = 60
_CELL = "text-align:left;white-space:normal;overflow-wrap:anywhere"


def _one_line(value: str, width: int) -> str:
    # Control characters would move a terminal's cursor, and one row is one line.
    text = " ".join("".join(c if c.isprintable() else " " for c in value).split())
    return text if len(text) <= width else text[: width - 1] + "…"


def note(text: str) -> dict[str, Any]:
    """The bundle of one sentence."""
    return {"text/plain": text, "text/html": f"<p>{html.escape(text)}</p>"}


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str, widest: int = _WIDEST
) -> dict[str, Any]:
    """The bundle of ``rows`` under ``head``; ``empty`` is what is said when there are none.

    What is longer than ``widest`` characters is cut.
    """
    if not rows:
        return note(empty)
    cells = [[_one_line(cell, widest) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    text = "\n".join(
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *cells)
    )

    def row(tag: str, values: Sequence[str], scope: str = "") -> str:
        return "".join(
            f'<{tag}{scope} style="{_CELL}">{html.escape(value)}</{tag}>' for value in values
        )

    body = "".join(f"<tr>{row('td', each)}</tr>" for each in cells)
    header = row("th", head, ' scope="col"')
    return {
        "text/plain": text,
        "text/html": f"<table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>",
    }
