"""The record as HTML for a notebook's front end.

Elements that mean something, no script, no handler, no link, nothing loaded, no id. There are no
headings either, because a front end would put them into the table of contents; the title of a
section says its level to a screen reader. Mathematics is switched off: prices are no formulas.
No line is blank: an exporter puts this into Markdown, where a blank line ends what is HTML, and
what a model wrote behind it would be read as Markdown.
"""

import base64
import re
from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any

from markupsafe import Markup

from parsimony_kernel.core.templates import macros
from parsimony_kernel.view.blocks import FigureBlock
from parsimony_kernel.view.escape import fit, html_text, inline, plain, unbroken
from parsimony_kernel.view.parts import (
    CELL_CHARS,
    Listing,
    Mono,
    Section,
    Sentence,
    Strong,
    words_of,
)

HIGHLIGHTED_CHARS = 8_000
COLOURED_CHARS = 64_000
# By how much less than words the characters of pictures count.
PICTURE_WEIGHT = 16

_PNG = re.compile(r"iVBORw0KGgo[A-Za-z0-9+/]*={0,2}\Z")
_PIXELS = re.compile(r'src="data:[^"]*"')
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def html_of(sections: Iterable[Section], summary: Sentence = (), *, styled: bool = True) -> str:
    """``sections`` as one element, which is a polite live region; or, under a ``summary``, put
    away in one closed fold.

    Args:
        styled: with the style sheet, of which a turn needs one.
    """
    template = _template()
    pieces = [str(template.section(each)) for each in sections]
    body = "".join(fit(pieces, lambda note: f'<p class="pk-note">{note}</p>', _weight))
    sheet = style_sheet() if styled else ""
    return unbroken(str(template.record(Markup(body), summary, Markup(sheet))))


def _weight(piece: str) -> int:
    """How much room ``piece`` takes: pixels weigh little, for words are what must stay."""
    # No foreign text looks like this, since escaping takes its quotes away.
    pixels = sum(len(each[0]) for each in _PIXELS.finditer(piece))
    return len(piece.encode("utf-8", "replace")) - pixels + pixels // PICTURE_WEIGHT


@cache
def style_sheet() -> str:
    """How the record looks. It stands in a comment of HTML, which a style sheet may do: GitHub
    shows the element as text, and then nothing of what is in it."""
    sheet = _COMMENT.sub("", Path(__file__).with_name("record.css").read_text(encoding="utf-8"))
    tight = re.sub(r"\s*([{},:;])\s*", r"\1", " ".join(sheet.split())).replace(";}", "}")
    return f"<style><!-- {tight} --></style>"


def png_of(figure: FigureBlock) -> str | None:
    """The figure's PNG as base64 on one line, when it has one that is one."""
    picture = "".join((figure.png_base64 or "").split())
    return picture if _PNG.match(picture) else None


def picture_source(figure: FigureBlock) -> str:
    """A data address of the figure's pixels, or of its SVG as an image, which runs nothing."""
    png = png_of(figure)
    if png:
        return f"data:image/png;base64,{png}"
    if figure.svg and "<svg" in figure.svg:
        encoded = base64.b64encode(figure.svg.encode("utf-8", "replace")).decode("ascii")
        return f"data:image/svg+xml;base64,{encoded}"
    return ""


@cache
def _template() -> Any:
    return macros(
        "view/record.html.j2",
        cell=lambda text: inline(text)[:CELL_CHARS],
        code=_highlighted,
        inline=inline,
        is_mono=lambda span: isinstance(span, Mono),
        is_strong=lambda span: isinstance(span, Strong),
        kind_of=lambda part: type(part).__name__,
        lines=lambda text: plain(text).split("\n"),
        source_of=picture_source,
        trimmed=lambda text: plain(text).strip("\n"),
        words_of=words_of,
    )


def _highlighted(listing: Listing) -> Markup:
    code = plain(listing.code).strip("\n")
    is_python = listing.language == "python" and len(code) <= HIGHLIGHTED_CHARS
    return Markup(_coloured(code) if is_python else html_text(code))


@lru_cache(maxsize=256)
def _coloured(code: str) -> str:
    # Deferred: a record that is only read as text needs no highlighter.
    from pygments.lexers.python import PythonLexer  # type: ignore[import-untyped]
    from pygments.token import Comment, Keyword, Name, Number, Operator, String  # type: ignore[import-untyped]

    looks = (
        (Keyword.Constant, "number"),
        (Keyword, "keyword"),
        (Operator.Word, "keyword"),
        (Number, "number"),
        (String, "string"),
        (Comment, "comment"),
        (Name.Function, "name"),
        (Name.Class, "name"),
        (Name.Builtin, "keyword"),
        (Name.Decorator, "name"),
    )

    def look(token: Any) -> str:
        return next((name for kind, name in looks if token in kind), "")

    tokens = PythonLexer(stripnl=False, ensurenl=False).get_tokens(code)
    written = []
    for name, run in groupby(tokens, key=lambda each: look(each[0])):
        text = html_text("".join(value for _, value in run))
        written.append(f'<span class="pk-{name}">{text}</span>' if name else text)
    coloured = "".join(written)
    return coloured if len(coloured) <= COLOURED_CHARS else html_text(code)
