"""The kinds of parts that a section of the record is made of, and a model's prose as such.

A string in a part may be foreign; whoever writes it escapes it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from parsimony_kernel.view.blocks import FigureBlock, Passage

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
Tone = Literal["body", "words", "note"]


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
    tone: Tone = "body"


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
    chart: FigureBlock


Part = Title | Paragraph | Items | Listing | Printed | Table | Folded | Picture


@dataclass(frozen=True)
class Section:
    """One block in words. ``label`` is its name for a screen reader."""

    kind: str
    label: str
    parts: tuple[Part, ...]
    state: str = ""


def note(*spans: Span) -> Paragraph:
    """A paragraph that is read second."""
    return Paragraph(spans, "note")


# A line that begins a heading or is an item of a list, else words.
_LINE = re.compile(
    r"^(?: *[-*+•] +(?P<bulleted>\S.*)| *\d{1,3}[.)] +(?P<numbered>\S.*)"
    r"|#{1,6} +(?P<heading>\S.*))$"
)
_FENCED = re.compile(
    r"^ {0,3}(?P<fence>`{3,}+|~{3,}+) {0,3}(?P<language>[A-Za-z0-9+-]{0,20})[^`\n]*+\n"
    r"(?P<body>.*?)(?:^[^\S\n]*(?P=fence)[`~]*[^\S\n]*(?:\n|\Z)|\Z)",
    re.MULTILINE | re.DOTALL,
)
# Of more parts than these, text is one paragraph: so many small ones are no prose.
_PARTS = 120

_MARKS = re.compile(r"`([^`\n]{1,200})`|\*\*([^*\n]{1,300})\*\*")


def written(text: str) -> tuple[Part, ...]:
    """A model's prose: of its Markdown the plain part (lists, headings, code, emphasis) is kept.

    Links, images and markup are not among it and stay the characters that they are.
    """
    text = text.replace("\r\n", "\n")
    parts: list[Part] = []
    at = 0
    for found in _FENCED.finditer(text):
        parts += _prose(text[at : found.start()])
        at = found.end()
        if found["body"].strip():
            language = found["language"] or "text"
            label = "Text" if language == "text" else "Code"
            parts.append(Listing(Passage(found["body"].removesuffix("\n")), label, language))
    parts += _prose(text[at:])
    return tuple(parts) if len(parts) <= _PARTS else (Paragraph((text,)),)


def _prose(text: str) -> Iterator[Part]:
    """Paragraphs, headings and lists; between the items of a list may be blank lines."""
    kind = ""
    runs: list[tuple[str, list[str]]] = []
    for line in text.split("\n"):
        found = _LINE.match(line)
        if found is None and not line.strip():
            kind = kind if kind in ("bulleted", "numbered") else ""
            continue
        before, kind = kind, found.lastgroup or "" if found else "words"
        if kind != before or kind == "heading":
            runs.append((kind, []))
        runs[-1][1].append(found[kind] if found else line.strip())
    for kind, lines in runs:
        if kind == "words":
            yield Paragraph(spans_of("\n".join(lines)))
        elif kind == "heading":
            yield Paragraph((Strong(lines[0].rstrip(" #")),))
        else:
            yield Items(tuple(map(spans_of, lines)), is_ordered=kind == "numbered")


def spans_of(text: str) -> Sentence:
    """One sentence, with what it marks as code or as strong."""
    spans: list[Span] = []
    at = 0
    for mark in _MARKS.finditer(text):
        spans.append(text[at : mark.start()])
        spans.append(Mono(mark[1]) if mark[1] is not None else Strong(mark[2]))
        at = mark.end()
    return tuple(span for span in (*spans, text[at:]) if span)
