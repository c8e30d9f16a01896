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
from functools import lru_cache
from itertools import groupby
from typing import Any

from parsimony_kernel.view.blocks import Block, FigureBlock, Passage
from parsimony_kernel.view.budget import fit
from parsimony_kernel.view.escape import html_text, inline, plain, unbroken
from parsimony_kernel.view.outline import outline
from parsimony_kernel.view.parts import (
    CELL_CHARS,
    Facts,
    Folded,
    Items,
    Listing,
    Mono,
    Paragraph,
    Part,
    Picture,
    Printed,
    Section,
    Sentence,
    Strong,
    Table,
    Title,
    words_of,
)
from parsimony_kernel.view.style import ROOT, root_style, style
from parsimony_kernel.view.text import numeric_columns

HIGHLIGHTED_CHARS = 8_000
COLOURED_CHARS = 64_000
PICTURES_CHARS = 4 << 20

_PNG = re.compile(r"iVBORw0KGgo[A-Za-z0-9+/]*={0,2}\Z")
_IGNORED_BY_MATHJAX = "mathjax_ignore tex2jax_ignore"
# What changes within the record is told by its one live region, but not these.
_UNTOLD = ' aria-live="off"'


def html_of(blocks: Iterable[Block]) -> str:
    """``blocks`` as one element, which is a polite live region."""
    pieces: list[str] = []
    pictures: list[str] = []
    room = PICTURES_CHARS
    for block in blocks:
        mark = ""
        source = picture_source(block) if isinstance(block, FigureBlock) else ""
        if source and len(source) <= room:
            # Put in after the words were fitted into their budget: pixels have one of their own.
            # No foreign text holds the mark, since escaping takes NUL away.
            mark = f"\x00{len(pictures)}\x00"
            pictures.append(source)
            room -= len(source)
        pieces.append(_section(outline(block), mark))
    body = "".join(fit(pieces, lambda note: f"<p{_look('note')}>{note}</p>"))
    body = re.sub("\x00([0-9]+)\x00", lambda found: pictures[int(found[1])], body)
    look = f'class="{ROOT} {_IGNORED_BY_MATHJAX}"{root_style(body)}'
    return unbroken(f'<div {look} aria-live="polite">{body}</div>')


def _look(*names: str) -> str:
    """The class and the style of an element that looks like ``names``."""
    return f' class="{" ".join(f"pk-{name}" for name in names)}"{style(*names)}'


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


def _section(section: Section, picture: str) -> str:
    looks = ["section", section.kind]
    if section.state:
        looks.append(f"{section.kind}-{section.state}")
    body = "".join(_part(part, section, picture) for part in section.parts)
    return f'<section{_look(*looks)} aria-label="{html_text(section.label)}">{body}</section>'


def _part(part: Part, section: Section, picture: str) -> str:
    match part:
        case Title():
            return _title(part, section)
        case Paragraph():
            look = style("body") if part.tone == "body" else _look(part.tone)
            return f"<p{look}>{_sentence(part.spans)}</p>"
        case Items():
            return _items(part)
        case Listing():
            return _listing(part)
        case Printed():
            label = html_text(f"{part.label}, {section.label}")
            return (
                f"<p{_look('label')}>{html_text(part.label)}</p>"
                f'<pre{_look("out")} tabindex="0" role="group" aria-label="{label}"{_UNTOLD}>'
                f"{_verbatim(part.passage)}</pre>"
            )
        case Table():
            return _table(part)
        case Folded():
            return (
                f"<details{_look('details')}>"
                f"<summary{_look('summary')}>{html_text(part.summary)}</summary>"
                f"<p{_look('note')}>{_sentence((part.passage.head,))}</p>{_omitted(part.passage)}"
                "</details>"
            )
        case Picture():
            if not picture:
                return ""
            alternative = html_text(inline(part.alternative))
            return (
                f"<figure{_look('figure')}>"
                f'<img{_look("image")} src="{picture}" alt="{alternative}"></figure>'
            )
        case Facts():
            return f"<p{style('body')}>{html_text(' · '.join(map(inline, part.facts)))}</p>"


def _title(part: Title, section: Section) -> str:
    is_quiet = section.kind in ("request", "reply")
    name = f"<strong{_look('name-brand' if is_quiet else 'name')}>{html_text(inline(part.name))}"
    detail, state = inline(part.detail), inline(part.state)
    look = _look("title", "title-quiet") if is_quiet else _look("title")
    failed = "state-failed" if section.state == "failed" else "state"
    return (
        f'<p{look} role="heading" aria-level="4">{name}</strong>'
        + (f" <span{_look('detail')}>{html_text(detail)}</span>" if detail else "")
        + (f" <em{_look(failed)}>{html_text(state)}</em>" if state else "")
        + "</p>"
    )


def _sentence(spans: Sentence) -> str:
    written = []
    for span in spans:
        match span:
            case Mono():
                written.append(f"<code>{html_text(inline(span.text))}</code>")
            case Strong():
                written.append(f"<strong>{html_text(span.text)}</strong>")
            case str():
                written.append(html_text(span))
    return "".join(written).strip("\n").replace("\n", "<br>")


def _items(part: Items) -> str:
    tag = "ol" if part.ordered else "ul"
    items = "".join(
        f"<li{_look('chosen')}>{_sentence(item)} (your answer)</li>"
        if index == part.chosen
        else f"<li>{_sentence(item)}</li>"
        for index, item in enumerate(part.items)
    )
    return f"<{tag}{_look('list')}>{items}</{tag}>"


def _listing(part: Listing) -> str:
    code = plain(part.passage.head).strip("\n")
    python = part.language == "python" and len(code) <= HIGHLIGHTED_CHARS
    written = _highlighted(code) if python else html_text(code)
    opened = "" if part.folded else " open"
    label = html_text(part.label)
    return (
        f"<details{_look('details')}{opened}>"
        f"<summary{_look('summary')}>{label}, {part.lines}</summary>"
        f'<pre{_look("code")} tabindex="0" role="group" aria-label="{label}"{_UNTOLD}>'
        f"<code{_look('bare')}>{written}</code></pre>{_omitted(part.passage)}</details>"
    )


@lru_cache(maxsize=256)
def _highlighted(code: str) -> str:
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
        written.append(f"<span{style(f'token-{name}')}>{text}</span>" if name else text)
    coloured = "".join(written)
    return coloured if len(coloured) <= COLOURED_CHARS else html_text(code)


def _verbatim(passage: Passage) -> str:
    head = html_text(plain(passage.head).strip("\n"))
    if not passage.omitted:
        return head
    tail = html_text(plain(passage.tail).strip("\n"))
    return f"{head}\n<em>… {passage.omitted:,} characters left out …</em>\n{tail}".rstrip("\n")


def _omitted(passage: Passage) -> str:
    if not passage.omitted:
        return ""
    return f"<p{_look('note')}>… {passage.omitted:,} more characters left out …</p>"


def _table(table: Table) -> str:
    look = ["-number" if numeric else "" for numeric in numeric_columns(table)]
    head = "".join(
        f'<th scope="col"{style("head" + look[at])}>{html_text(inline(name)[:CELL_CHARS])}</th>'
        for at, name in enumerate(table.columns)
    )
    rows = "".join(
        f"<tr{style('row-even') if number % 2 else ''}>"
        + "".join(
            f"<td{style('cell' + look[at])}>{html_text(inline(cell)[:CELL_CHARS])}</td>"
            for at, cell in enumerate(row[: len(table.columns)])
        )
        + "</tr>"
        for number, row in enumerate(table.rows)
    )
    note = f"<p{_look('note')}>{html_text(table.note)}</p>" if table.note else ""
    label = html_text(inline(words_of(table.caption)))
    return (
        f'<div{_look("scroll")} role="region" aria-label="{label}" tabindex="0"{_UNTOLD}>'
        f"<table{_look('table')}><caption{_look('caption')}>{_sentence(table.caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{note}"
    )
