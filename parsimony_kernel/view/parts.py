"""The kinds of parts that a section of the record is made of, and a model's prose as such.

A string in a part may be foreign; whoever writes it escapes it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from parsimony_kernel.view.blocks import Passage

CELL_CHARS = 60


@dataclass(frozen=True)
class Mono:
    """Text of a machine within a sentence: a path, a name, a command."""

    text: str


@dataclass(frozen=True)
class Strong:
    """Text that stands out within a sentence."""

    text: str


Span = str | Mono | Strong
Sentence = tuple[Span, ...]


def words_of(sentence: Sentence) -> str:
    """``sentence`` as text alone."""
    return "".join(span if isinstance(span, str) else span.text for span in sentence)


def enumerated(sentences: Sequence[Sentence], most: int) -> Sentence:
    """The first ``most`` of ``sentences`` between commas, and how many more there are."""
    spans: list[Span] = []
    for position, sentence in enumerate(sentences[:most]):
        spans += (", ", *sentence) if position else sentence
    if len(sentences) > most:
        spans.append(f" and {len(sentences) - most:,} more")
    return tuple(spans)


@dataclass(frozen=True)
class Title:
    """The first line of a section: what it is, what of it, and how it stands."""

    name: str
    detail: str = ""
    state: str = ""


@dataclass(frozen=True)
class Paragraph:
    """Sentences. Newlines within stay."""

    spans: Sentence
    tone: Literal["body", "words", "note"] = "body"


@dataclass(frozen=True)
class Items:
    """A list."""

    items: tuple[Sentence, ...]
    is_ordered: bool = False


@dataclass(frozen=True)
class Listing:
    """Code; ``label`` names it for a screen reader."""

    passage: Passage
    label: str = "Code"
    language: str = "python"


@dataclass(frozen=True)
class Printed:
    """Text that code wrote, under a label."""

    label: str
    passage: Passage


@dataclass(frozen=True)
class Table:
    """Rows of text under column names.

    ``numeric`` says of each column whether it holds numbers, ``is_captioned`` whether the caption
    is read by everybody or by a screen reader alone, ``note`` what is not shown.
    """

    caption: Sentence
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    note: str = ""
    is_captioned: bool = True


@dataclass(frozen=True)
class Folded:
    """Text that is there but put away, under a summary."""

    summary: str
    passage: Passage


@dataclass(frozen=True)
class Picture:
    """Where a chart stands, and the words that stand for it."""

    alternative: str


Part = Title | Paragraph | Items | Listing | Printed | Table | Folded | Picture


@dataclass(frozen=True)
class Section:
    """One block in words."""

    kind: str
    label: str
    parts: tuple[Part, ...]
    state: str = ""


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
