"""The record as HTML for a notebook's front end, and a segment as the outputs that displays take.

Elements that mean something, no script, no handler, no link, nothing loaded, no id. There are no
headings either, because a front end would put them into the table of contents; the title of a
section says its level to a screen reader. Mathematics is switched off: prices are no formulas.
No line is blank: an exporter puts this into Markdown, where a blank line ends what is HTML, and
what a model wrote behind it would be read as Markdown.

Nothing differs between two runs that did the same, as long as the blocks are lasting ones: recorded
notebooks are compared byte by byte. What does differ goes into metadata.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from parsimony_kernel.core.templates import macros
from parsimony_kernel.view.blocks import Block, FigureBlock
from parsimony_kernel.view.escape import fit, html_text, inline, plain, unbroken
from parsimony_kernel.view.outline import Segment, alternative, outline, png_of, segment_of
from parsimony_kernel.view.parts import Section, Sentence, Verbatim, words_of
from parsimony_kernel.view.text import markdown_of, text_of

HIGHLIGHTED_CHARS = 4_000
# By how much less than words the characters of pictures count.
PICTURE_WEIGHT = 16

# Of the kinds of tokens that Pygments tells apart, those that look like all text.
_WITHOUT_LOOK = re.compile(r'<span class="pc-(?:n|nn|na|vm|o|p|w)">([^<]*)</span>')
_PIXELS = re.compile(r'src="data:[^"]*"')


def html_of(sections: Iterable[Section], summary: Sentence = (), *, is_first: bool = True) -> str:
    """``sections`` as one element, which is a polite live region and, where it is the first of a
    cell, has the style sheet; or, under a ``summary``, put away in one closed fold, which stands
    below such an element."""
    template = _template()
    pieces = [str(template.section(each)) for each in sections]
    body = "".join(fit(pieces, lambda note: f'<p class="pk-note">{note}</p>', _weight))
    sheet = style_sheet() if is_first and not summary else ""
    return unbroken(str(template.record(Markup(body), summary, Markup(sheet))))


def _weight(piece: str) -> int:
    """How much room ``piece`` takes: pixels weigh little, for words are what must stay."""
    # No foreign text looks like this, since escaping takes its quotes away.
    pixels = sum(len(each[0]) for each in _PIXELS.finditer(piece))
    return len(piece.encode("utf-8", "replace")) - pixels + pixels // PICTURE_WEIGHT


@cache
def style_sheet() -> str:
    """How the record looks; it reads without any of this.

    A colour is the first of the front end's variables that is defined (JupyterLab's, then VS
    Code's), else one for light and one for dark grounds. Sizes are relative to the font, so that
    the record flows anew when it is enlarged. It stands in a comment of HTML, which a style sheet
    may do: GitHub shows the element as text, and then nothing of what is in it.
    """
    sheet = Path(__file__).with_name("record.css").read_text(encoding="utf-8")
    tight = re.sub(r"\s*([{},:;])\s*", r"\1", " ".join(sheet.split())).replace(";}", "}")
    return f"<style><!-- {tight} --></style>"


@cache
def _template() -> Any:
    known = {"code": _highlighted, "inline": inline, "plain": plain, "words_of": words_of}
    return macros("view/record.html.j2", **known)


@lru_cache(maxsize=256)
def _highlighted(part: Verbatim) -> Markup:
    code = plain(part.text).strip("\n")
    if part.language != "python" or len(code) > HIGHLIGHTED_CHARS:
        return Markup(html_text(code))
    # Deferred: a record that is only read as text needs no highlighter.
    from pygments import highlight  # type: ignore[import-untyped]
    from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
    from pygments.lexers.python import PythonLexer  # type: ignore[import-untyped]

    form = HtmlFormatter(nowrap=True, classprefix="pc-")
    coloured = highlight(code, PythonLexer(stripnl=False, ensurenl=False), form)
    return Markup(_WITHOUT_LOOK.sub(r"\1", coloured).rstrip("\n"))


# -- outputs, each its data by MIME type and its metadata

VEGALITE_MIME = "application/vnd.vegalite.v5+json"
_EMBEDDED = tomllib.loads(Path(__file__).with_name("chart.toml").read_text(encoding="utf-8"))
_STOPGAP_SCALE = 0.5
# Of more than this SVG takes seconds to be drawn.
_SVG_CHARS = 200_000
# A colour that is an address, and what can make one up: SVG would load it, a canvas does not.
_MAY_LOAD = re.compile(r'(?i)url\(|\\\\|"(?:expr|calculate|signal)":')
VEGALITE_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"

Bundle = tuple[dict[str, Any], dict[str, Any]]
# An output that takes no room. A blank, since exporters complain about a bundle without anything
# and nbval doesn't read back what is empty.
NOTHING: dict[str, Any] = {"text/plain": " ", "text/html": " "}


def segment_bundles(segment: Segment, *, is_first: bool = True) -> tuple[Bundle, Bundle, Bundle]:
    """The three outputs of a segment: what is read first, the chart that answers, the work.

    Each is its data and its metadata. The first segment of a cell has the style sheet of all.
    """
    return (
        (bundle(segment.head, is_first=is_first) if segment.head else NOTHING, {}),
        figure_bundle(segment.figure) if segment.figure else (NOTHING, {}),
        (bundle(segment.work, segment.summary) if segment.work else NOTHING, {}),
    )


def record_html(blocks: Sequence[Block]) -> str:
    """A whole turn as HTML, for one place that holds all of it."""
    segment = segment_of(blocks)
    shown = [] if segment.figure is None else [outline(segment.figure)]
    work = html_of(segment.work, segment.summary) if segment.work else ""
    return html_of([*segment.head, *shown]) + work


def bundle(
    sections: Sequence[Section], summary: Sentence = (), *, is_first: bool = True
) -> dict[str, Any]:
    """``text/plain``, ``text/markdown`` and ``text/html`` of one display, in a fold that is called
    ``summary`` if it has one."""
    return {
        "text/plain": text_of(sections, summary=summary) or " ",
        "text/markdown": markdown_of(sections, summary) or " ",
        "text/html": html_of(sections, summary, is_first=is_first),
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
        grounds = [each for each in (figure.spec, figure.spec.get("config")) if type(each) is dict]
        text = json.dumps(figure.spec, ensure_ascii=False)
        is_ours = len(text) <= _SVG_CHARS and not _MAY_LOAD.search(text)
        is_ours = is_ours and not any("background" in each for each in grounds)
        told = _EMBEDDED if is_ours else {"actions": _EMBEDDED["actions"]}
        # JupyterLab makes a PNG of its own, twice as large as ours, and may save it before ours is
        # there.
        smaller = {} if png else {"scaleFactor": _STOPGAP_SCALE}
        metadata[VEGALITE_MIME] = {"embed_options": told | smaller}
    if png:
        data["image/png"] = png
        metadata["image/png"] = {"alt": inline(alternative(figure))}
    return data, metadata
