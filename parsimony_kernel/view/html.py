"""The record as HTML for a notebook's front end.

Elements that mean something, no script, no handler, no link, nothing loaded, no id. There are no
headings either, because a front end would put them into the table of contents; the title of a
section says its level to a screen reader. Mathematics is switched off: prices are no formulas.
"""

import base64
import re
from collections.abc import Iterable
from functools import lru_cache

from parsimony_kernel.view.blocks import Block, FigureBlock, Passage
from parsimony_kernel.view.budget import fit
from parsimony_kernel.view.escape import html_text, inline, plain
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
)
from parsimony_kernel.view.style import ROOT, sheet_for
from parsimony_kernel.view.text import numeric_columns

HIGHLIGHTED_CHARS = 8_000
PICTURES_CHARS = 4 << 20

_PNG = re.compile(r"iVBORw0KGgo[A-Za-z0-9+/]*={0,2}\Z")
_IGNORED_BY_MATHJAX = "mathjax_ignore tex2jax_ignore"


def html_of(blocks: Iterable[Block]) -> str:
    """``blocks`` as one element with its own scoped style sheet."""
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
    body = "".join(fit(pieces, lambda note: f'<p class="pk-note">{note}</p>'))
    body = re.sub("\x00([0-9]+)\x00", lambda found: pictures[int(found[1])], body)
    return f'<div class="{ROOT} {_IGNORED_BY_MATHJAX}"><style>{sheet_for(body)}</style>{body}</div>'


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
    classes = f"pk-{section.kind}" + (f" pk-{section.state}" if section.state else "")
    live = ' role="status" aria-live="polite"' if section.live else ""
    body = "".join(_part(part, picture) for part in section.parts)
    return (
        f'<section class="{classes}" aria-label="{html_text(section.label)}"{live}>{body}</section>'
    )


def _part(part: Part, picture: str) -> str:
    match part:
        case Title():
            name = f"<strong>{html_text(inline(part.name))}</strong>"
            detail = inline(part.detail)
            state = inline(part.state)
            return (
                f'<p class="pk-title" role="heading" aria-level="4">{name}'
                + (f' <span class="pk-detail">{html_text(detail)}</span>' if detail else "")
                + (f' <em class="pk-state">{html_text(state)}</em>' if state else "")
                + "</p>"
            )
        case Paragraph():
            tone = "" if part.tone == "body" else f' class="pk-{part.tone}"'
            return f"<p{tone}>{_sentence(part.spans)}</p>"
        case Items():
            return _items(part)
        case Listing():
            return _listing(part)
        case Printed():
            return (
                f'<p class="pk-label">{html_text(part.label)}</p>'
                f'<pre class="pk-out">{_verbatim(part.passage)}</pre>'
            )
        case Table():
            return _table(part)
        case Folded():
            return (
                f"<details><summary>{html_text(part.summary)}</summary>"
                f'<p class="pk-note">{_sentence((part.passage.head,))}</p>{_omitted(part.passage)}'
                "</details>"
            )
        case Picture():
            if not picture:
                return f'<p class="pk-note">{_sentence((part.alternative,))}</p>'
            alternative = html_text(inline(part.alternative))
            return f'<figure><img src="{picture}" alt="{alternative}"></figure>'
        case Facts():
            facts = " ".join(
                f'<span class="pk-fact">{html_text(fact)}</span>' for fact in part.facts
            )
            return f"<p>{facts}</p>"


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
        f'<li class="pk-chosen">{_sentence(item)} (your answer)</li>'
        if index == part.chosen
        else f"<li>{_sentence(item)}</li>"
        for index, item in enumerate(part.items)
    )
    return f"<{tag}>{items}</{tag}>"


def _listing(part: Listing) -> str:
    code = plain(part.passage.head).strip("\n")
    python = part.language == "python" and len(code) <= HIGHLIGHTED_CHARS
    written = _highlighted(code) if python else html_text(code)
    block = f'<pre class="pk-code highlight"><code>{written}</code></pre>{_omitted(part.passage)}'
    if part.folded is None:
        return block
    opened = "" if part.folded else " open"
    lines = code.count("\n") + 1
    return f"<details{opened}><summary>Code, {lines:,} lines</summary>{block}</details>"


@lru_cache(maxsize=256)
def _highlighted(code: str) -> str:
    # Deferred: a record that is only read as text needs no highlighter.
    from pygments import highlight  # type: ignore[import-untyped]
    from pygments.formatters.html import HtmlFormatter  # type: ignore[import-untyped]
    from pygments.lexers.python import PythonLexer  # type: ignore[import-untyped]

    written: str = highlight(
        code, PythonLexer(stripnl=False, ensurenl=False), HtmlFormatter(nowrap=True)
    )
    return written


def _verbatim(passage: Passage) -> str:
    head = html_text(plain(passage.head).strip("\n"))
    if not passage.omitted:
        return head
    tail = html_text(plain(passage.tail).strip("\n"))
    return f"{head}\n<em>… {passage.omitted:,} characters left out …</em>\n{tail}".rstrip("\n")


def _omitted(passage: Passage) -> str:
    if not passage.omitted:
        return ""
    return f'<p class="pk-note">… {passage.omitted:,} more characters left out …</p>'


def _table(table: Table) -> str:
    right = numeric_columns(table)
    number = [' class="pk-number"' if numeric else "" for numeric in right]
    head = "".join(
        f'<th scope="col"{number[at]}>{html_text(inline(name)[:CELL_CHARS])}</th>'
        for at, name in enumerate(table.columns)
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td{number[at]}>{html_text(inline(cell)[:CELL_CHARS])}</td>"
            for at, cell in enumerate(row[: len(table.columns)])
        )
        + "</tr>"
        for row in table.rows
    )
    note = f'<p class="pk-note">{html_text(table.note)}</p>' if table.note else ""
    return (
        '<div class="pk-scroll" role="region" aria-label="Table" tabindex="0"><table>'
        f"<caption>{_sentence(table.caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>{note}"
    )
