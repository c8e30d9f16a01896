"""A model's prose, read for the plain part of its Markdown."""

import re

from parsimony_kernel.view.blocks import Passage
from parsimony_kernel.view.parts import (
    Items,
    Listing,
    Mono,
    Paragraph,
    Part,
    Sentence,
    Span,
    Strong,
)

_BULLET = re.compile(r"^ *[-*+•] +(\S.*)$")
_NUMBERED = re.compile(r"^ *\d{1,3}[.)] +(\S.*)$")
_HEADING = re.compile(r"^#{1,6} +(\S.*)$")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,}) {0,3}([A-Za-z0-9+-]{0,20})[^`]*$")
# Behind as many parts, text is one paragraph: so many small ones are no prose.
_PARTS = 120

_MARKS = re.compile(r"`([^`\n]{1,200})`|\*\*([^*\n]{1,300})\*\*")


def written(text: str) -> tuple[Part, ...]:
    """A model's prose: of its Markdown the plain part (lists, headings, code, emphasis) is kept.

    Links, images and markup are not among it and stay the characters that they are.
    """
    parts: list[Part] = []
    lines: list[str] = []
    items: list[Sentence] = []
    ordered = False

    def close() -> None:
        if items:
            parts.append(Items(tuple(items), ordered))
        if lines:
            parts.append(Paragraph(spans_of("\n".join(lines))))
        items.clear()
        lines.clear()

    pending = iter(text.replace("\r\n", "\n").split("\n"))
    for line in pending:
        if len(parts) >= _PARTS:
            lines.extend((line, *pending))
        elif fence := _FENCE.match(line):
            close()
            body = []
            for inner in pending:
                if inner.strip().startswith(fence[1]) and not inner.strip().strip(fence[1][0]):
                    break
                body.append(inner)
            if any(each.strip() for each in body):
                language = fence[2] or "text"
                label = "Text" if language == "text" else "Code"
                parts.append(Listing(Passage("\n".join(body)), label, language=language))
        elif (item := _BULLET.match(line)) or (item := _NUMBERED.match(line)):
            numbered = _BULLET.match(line) is None
            if lines or (items and ordered != numbered):
                close()
            ordered = numbered
            items.append(spans_of(item[1]))
        elif heading := _HEADING.match(line):
            close()
            parts.append(Paragraph((Strong(heading[1].rstrip(" #")),)))
        elif not line.strip():
            if lines:
                close()
        else:
            if items:
                close()
            lines.append(line.strip())
    close()
    return tuple(parts)


def spans_of(text: str) -> Sentence:
    """One sentence, with what it marks as code or as strong."""
    spans: list[Span] = []
    at = 0
    for mark in _MARKS.finditer(text):
        if mark.start() > at:
            spans.append(text[at : mark.start()])
        spans.append(Mono(mark[1]) if mark[1] is not None else Strong(mark[2]))
        at = mark.end()
    if at < len(text):
        spans.append(text[at:])
    return tuple(spans)
