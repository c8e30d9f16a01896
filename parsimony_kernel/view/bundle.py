"""A segment as what displays take: MIME data by type.

Nothing here differs between two runs that did the same, as long as the blocks are lasting ones:
recorded notebooks are compared byte by byte. What does differ goes into metadata.
"""

from collections.abc import Sequence
from typing import Any

from parsimony_kernel.view.blocks import Block, FigureBlock
from parsimony_kernel.view.escape import inline
from parsimony_kernel.view.html import html_of, png_of
from parsimony_kernel.view.markdown import markdown_of
from parsimony_kernel.view.outline import alternative, outline
from parsimony_kernel.view.parts import Section, Sentence
from parsimony_kernel.view.segment import Segment, segment_of
from parsimony_kernel.view.text import text_of

VEGALITE_MIME = "application/vnd.vegalite.v5+json"
# What the menu of a chart offers: to save it, and not to send it to an editor on the web.
_MENU = {"actions": {"export": True, "source": False, "compiled": False, "editor": False}}
VEGALITE_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"


Bundle = tuple[dict[str, Any], dict[str, Any]]
# An output that takes no room. A blank, since exporters complain about a bundle without anything
# and nbval doesn't read back what is empty.
NOTHING: dict[str, Any] = {"text/plain": " ", "text/html": " "}


def segment_bundles(segment: Segment) -> tuple[Bundle, Bundle, Bundle]:
    """The three outputs of a segment: what is read first, the chart that answers, the work.

    Each is its data and its metadata.
    """
    nothing: Bundle = (NOTHING, {})
    return (
        (bundle(segment.head), {}) if segment.head else nothing,
        nothing if segment.figure is None else figure_bundle(segment.figure),
        (bundle(segment.work, segment.summary, styled=False), {}) if segment.work else nothing,
    )


def record_html(blocks: Sequence[Block]) -> str:
    """A whole turn as HTML, for one place that holds all of it."""
    segment = segment_of(blocks)
    shown = [] if segment.figure is None else [outline(segment.figure)]
    work = html_of(segment.work, segment.summary, styled=False) if segment.work else ""
    return html_of([*segment.head, *shown]) + work


def bundle(
    sections: Sequence[Section], summary: Sentence = (), *, styled: bool = True
) -> dict[str, Any]:
    """``text/plain``, ``text/markdown`` and ``text/html`` of one display.

    Args:
        summary: what the fold is called in which all of it is put away.
        styled: with the style sheet, of which a turn needs one.
    """
    return {
        "text/plain": text_of(sections, summary=summary) or " ",
        "text/markdown": markdown_of(sections, summary) or " ",
        "text/html": html_of(sections, summary, styled=styled),
    }


def figure_bundle(figure: FigureBlock) -> Bundle:
    """A chart as its specification and its pixels, with the description as ``text/plain``.

    Without the other two, which a front end and an exporter take before a picture; they say what
    cannot be drawn.
    """
    png = png_of(figure)
    if figure.spec is None and not png:
        return bundle([outline(figure)]), {}
    data: dict[str, Any] = {"text/plain": text_of([outline(figure)])}
    metadata: dict[str, Any] = {}
    if figure.spec is not None:
        data[VEGALITE_MIME] = {"$schema": VEGALITE_SCHEMA, **figure.spec}
        metadata[VEGALITE_MIME] = {"embed_options": _MENU}
    if png:
        data["image/png"] = png
        metadata["image/png"] = {"alt": inline(alternative(figure))}
    return data, metadata
