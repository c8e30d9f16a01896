"""The record as GitHub's Markdown, for exports.

No headings: a front end would put them into the notebook's table of contents. No raw HTML and no
link. What is foreign is escaped, code stands in fences that are longer than any within.
"""

import re
from collections.abc import Iterable

from parsimony_kernel.view import parts as pt
from parsimony_kernel.view.escape import fenced, fit, markdown_code, markdown_inline, plain

_WITHIN_PARAGRAPH = re.compile(r"(?<=[^\n])\n(?=[^\n])")
_LINE_START = re.compile("^", re.MULTILINE)


def markdown_of(sections: Iterable[pt.Section], summary: pt.Sentence = ()) -> str:
    """``sections`` as Markdown, under a ``summary`` if there is one."""
    pieces = [_sentence(summary), *map(_section, sections)]
    return "\n\n".join(fit([piece for piece in pieces if piece], lambda note: f"*{note}*"))


def _section(section: pt.Section) -> str:
    return "\n\n".join(written for part in section.parts if (written := _part(part)))


def _part(part: pt.Part) -> str:
    match part:
        case pt.Title():
            rest = [markdown_inline(each) for each in (part.detail, part.state) if each.strip()]
            return " · ".join([f"**{markdown_inline(part.name)}**", *rest])
        case pt.Paragraph():
            return _sentence(part.spans, quoted=part.tone == "words")
        case pt.Items():
            return "\n".join(
                ("1. " if part.is_ordered else "- ") + (_sentence(item).replace("\n", " ") or "\\-")
                for item in part.items
            )
        case pt.Listing():
            return fenced(part.code, part.language)
        case pt.Printed():
            return f"{part.label}:\n\n{fenced(part.text, 'text')}"
        case pt.Table():
            return _table(part)
        case pt.Folded():
            text = _sentence((part.text,), quoted=True)
            return f"> {part.summary}:\n{text}" if text else ""
        case pt.Picture():
            return ""


def _sentence(spans: pt.Sentence, *, quoted: bool = False) -> str:
    """``spans`` with hard breaks at their newlines; blank lines end a paragraph."""
    lines = "".join(map(_escaped, spans)).split("\n")
    text = "\n".join(line.strip() for line in lines).strip("\n")
    text = _WITHIN_PARAGRAPH.sub("  \n", text)
    return _LINE_START.sub("> ", text) if quoted and text else text


def _escaped(span: pt.Span) -> str:
    match span:
        case pt.Mono():
            return markdown_code(span.text)
        case pt.Strong():
            strong = markdown_inline(span.text)
            after = " " if span.text.endswith(" ") else ""
            return f"**{strong}**{after}" if strong else ""
        case str():
            return "\n".join(map(_within, plain(span).split("\n")))


def _within(line: str) -> str:
    """``line`` escaped, its outer spaces kept: other spans stand beside it."""
    if not line.strip():
        return " " if line else ""
    before = " " if line[0].isspace() else ""
    after = " " if line[-1].isspace() else ""
    return before + markdown_inline(line) + after


def _table(table: pt.Table) -> str:
    written = [_sentence(table.caption).replace("\n", " ")] if table.is_captioned else []
    lines = [
        _row(map(markdown_inline, table.columns)),
        _row("---:" if numeric else "---" for numeric in table.numeric),
        *(_row(markdown_inline(cell[: pt.CELL_CHARS]) for cell in row) for row in table.rows),
    ]
    written.append("\n".join(lines))
    if table.note:
        written.append(f"*{markdown_inline(table.note)}*")
    return "\n\n".join(written)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
