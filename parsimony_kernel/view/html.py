"""Render the record as HTML for a notebook's front end, and a segment as display outputs.

Semantic elements only: no script, handler, link, id or external resource. There are no headings
either, because a front end would list them in the table of contents; a section's title has an ARIA
level for screen readers instead. Mathematics is switched off, since prices are not formulas. No
line is blank: an exporter embeds this in Markdown, where a blank line ends an HTML block, and the
model's text after it would be parsed as Markdown.

The output of lasting blocks is the same for two runs that did the same: recorded notebooks are
compared byte by byte. What differs goes into metadata.
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
from parsimony_kernel.view.plain_text import markdown_of, text_of

HIGHLIGHTED_CHARS = 4_000
# The factor by which characters of pictures count less than words.
PICTURE_WEIGHT = 16

# The Pygments token types that are styled as plain text.
_WITHOUT_LOOK = re.compile(r'<span class="pc-(?:n|nn|na|vm|o|p|w)">([^<]*)</span>')
_PIXELS = re.compile(r'src="data:[^"]*"')


def html_of(sections: Iterable[Section], summary: Sentence = ()) -> str:
    """Return ``sections`` as one element.

    It is a polite live region with the style sheet; or, with a ``summary``, one closed fold below
    such an element.
    """
    template = _template()
    pieces = [str(template.section(each)) for each in sections]
    body = "".join(fit(pieces, lambda note: f'<p class="pk-note">{note}</p>', _weight))
    sheet = "" if summary else style_sheet()
    return unbroken(str(template.record(Markup(body), summary, Markup(sheet))))


def _weight(piece: str) -> int:
    """Return the size of ``piece`` for cutting; pixels weigh little, so that words are kept."""
    # Foreign text cannot match this, since its quotes are escaped.
    pixels = sum(len(each[0]) for each in _PIXELS.finditer(piece))
    return len(piece.encode("utf-8", "replace")) - pixels + pixels // PICTURE_WEIGHT


@cache
def style_sheet() -> str:
    """Return the style sheet of the record, which is readable without it.

    A colour is the front end's first defined variable (JupyterLab's, then VS Code's), else one for
    light and one for dark backgrounds. Sizes are relative to the font, so the record reflows when
    enlarged. The sheet is inside an HTML comment, which CSS permits: GitHub shows the element as
    text, and so shows none of it.
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
    # Deferred: records read as text need no highlighter.
    from pygments import highlight  # type: ignore[import-untyped]
    from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
    from pygments.lexers.python import PythonLexer  # type: ignore[import-untyped]

    form = HtmlFormatter(nowrap=True, classprefix="pc-")
    coloured = highlight(code, PythonLexer(stripnl=False, ensurenl=False), form)
    return Markup(_WITHOUT_LOOK.sub(r"\1", coloured).rstrip("\n"))


# -- outputs, as data by MIME type and metadata

VEGALITE_MIME = "application/vnd.vegalite.v5+json"
_EMBEDDED = tomllib.loads(Path(__file__).with_name("chart.toml").read_text(encoding="utf-8"))
_STOPGAP_SCALE = 0.5
# A chart with a longer specification takes seconds to draw as SVG.
_SVG_CHARS = 200_000
# A colour that is a URL, or an expression that can make one: SVG would load it, a canvas doesn't.
_MAY_LOAD = re.compile(r'(?i)url\(|\\\\|"(?:expr|calculate|signal)":')
VEGALITE_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"

Bundle = tuple[dict[str, Any], dict[str, Any]]
# An output that takes no room: a blank, since exporters complain about an empty bundle and nbval
# doesn't read empty text back.
NOTHING: dict[str, Any] = {"text/plain": " ", "text/html": " "}


def segment_bundles(segment: Segment) -> tuple[Bundle, Bundle, Bundle]:
    """Return the three outputs of a segment: the head, the chart of the answer, the work.

    Each is data and metadata. The head has the style sheet for all.
    """
    return (
        (bundle(segment.head) if segment.head else NOTHING, {}),
        figure_bundle(segment.figure) if segment.figure else (NOTHING, {}),
        (bundle(segment.work, segment.summary) if segment.work else NOTHING, {}),
    )


def record_html(blocks: Sequence[Block]) -> str:
    """Render a whole turn as one piece of HTML."""
    segment = segment_of(blocks)
    shown = [] if segment.figure is None else [outline(segment.figure)]
    work = html_of(segment.work, segment.summary) if segment.work else ""
    return html_of([*segment.head, *shown]) + work


def bundle(sections: Sequence[Section], summary: Sentence = ()) -> dict[str, Any]:
    """Return a display's ``text/plain``, ``text/markdown`` and ``text/html``.

    With a ``summary`` they are in a fold of that title.
    """
    return {
        "text/plain": text_of(sections, summary=summary) or " ",
        "text/markdown": markdown_of(sections, summary) or " ",
        "text/html": html_of(sections, summary),
    }


def figure_bundle(figure: FigureBlock) -> Bundle:
    """Return a chart as its specification and pixels, with its description as ``text/plain``.

    A drawable chart has no Markdown or HTML, which front ends and exporters prefer to a picture; a
    chart that cannot be drawn is described in them.
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
        options = _EMBEDDED if is_ours else {"actions": _EMBEDDED["actions"]}
        # JupyterLab makes a PNG of its own, twice as large as ours, and may save it before ours is
        # there.
        smaller = {} if png else {"scaleFactor": _STOPGAP_SCALE}
        metadata[VEGALITE_MIME] = {"embed_options": options | smaller}
    if png:
        data["image/png"] = png
        metadata["image/png"] = {"alt": inline(alternative(figure))}
    return data, metadata
