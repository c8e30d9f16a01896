"""Blocks as what a display takes: MIME data by type.

Nothing here differs between two runs that did the same, as long as the blocks are lasting ones:
recorded notebooks are compared byte by byte. What does differ goes into metadata.
"""

from collections.abc import Sequence
from typing import Any

from parsimony_kernel.view.blocks import Block, FigureBlock
from parsimony_kernel.view.escape import inline
from parsimony_kernel.view.html import html_of, png_of
from parsimony_kernel.view.markdown import markdown_of
from parsimony_kernel.view.outline import outline
from parsimony_kernel.view.parts import Picture
from parsimony_kernel.view.text import text_of

VEGALITE_MIME = "application/vnd.vegalite.v5+json"
# What the menu of a chart offers: to save it, and not to send it to an editor on the web.
_MENU = {"actions": {"export": True, "source": False, "compiled": False, "editor": False}}
VEGALITE_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"


def bundle(blocks: Sequence[Block]) -> tuple[dict[str, Any], dict[str, Any]]:
    """MIME data and metadata of one display.

    ``text/plain``, ``text/markdown`` and ``text/html``. A figure alone is given as its
    specification and its pixels with the description as ``text/plain``, without the other two:
    a front end and an exporter take HTML or Markdown before a picture.
    """
    if len(blocks) == 1 and isinstance(blocks[0], FigureBlock):
        figure = blocks[0]
        png = png_of(figure)
        if figure.spec is not None or png:
            return _drawn(figure, png)
    data = {
        "text/plain": text_of(blocks) or " ",
        "text/markdown": markdown_of(blocks) or " ",
        "text/html": html_of(blocks),
    }
    return data, {}


def _drawn(figure: FigureBlock, png: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    data: dict[str, Any] = {"text/plain": text_of([figure])}
    metadata: dict[str, Any] = {}
    if figure.spec is not None:
        data[VEGALITE_MIME] = {"$schema": VEGALITE_SCHEMA, **figure.spec}
        metadata[VEGALITE_MIME] = {"embed_options": _MENU}
    if png:
        data["image/png"] = png
        metadata["image/png"] = {"alt": _alternative(figure)}
    return data, metadata


def _alternative(figure: FigureBlock) -> str:
    return next(
        inline(part.alternative) for part in outline(figure).parts if isinstance(part, Picture)
    )
