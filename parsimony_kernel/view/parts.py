"""The kinds of parts in a section of the record, and the parsers of a model's prose and of tables.

A string in a part may be foreign; the writer escapes it.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from statistics import median
from typing import Any, Literal

from parsimony_kernel.core.outputs import DataFrameObject
from parsimony_kernel.core.text import counted
from parsimony_kernel.view.escape import cut, cut_each

CELL_CHARS = 60
# Limits for one table. All rows are shown where the limit would save only a few.
ROWS = 10
_FEW = 5
COLUMNS = 40
# The limit for variables in one line.
NAMED = 24


@dataclass(frozen=True)
class Mono:
    """Machine text in a sentence, in a monospaced font: a path, a name, a command."""

    text: str


@dataclass(frozen=True)
class Link(Mono):
    """The path of a report's page, relative to the notebook, which a front end can open."""


@dataclass(frozen=True)
class Strong:
    """Emphasised text in a sentence."""

    text: str


Span = str | Mono | Strong
Sentence = tuple[Span, ...]
Tone = Literal["body", "words", "note", "note pk-how", "note pk-cut"]


def words_of(sentence: Sentence) -> str:
    """Return the text of ``sentence`` without its markup."""
    return "".join(span if isinstance(span, str) else span.text for span in sentence)


def enumerated(sentences: Sequence[Sentence], most: int) -> Sentence:
    """Join the first ``most`` of ``sentences`` by commas, and say how many more there are."""
    spans = [span for sentence in sentences[:most] for span in (", ", *sentence)][1:]
    more = len(sentences) - most
    return (*spans, f" and {more:,} more") if more > 0 else tuple(spans)


@dataclass(frozen=True)
class Title:
    """The first line of a section: its kind, its subject, and its state."""

    name: str
    detail: str = ""
    state: str = ""


@dataclass(frozen=True)
class Paragraph:
    """Sentences; newlines in them are kept."""

    spans: Sentence
    tone: Tone = "body"


@dataclass(frozen=True)
class Items:
    """A list."""

    items: tuple[Sentence, ...]
    is_ordered: bool = False
    start: int = 1


@dataclass(frozen=True)
class Verbatim:
    """Verbatim text under a label: code in its ``language``, or printed output."""

    label: str
    text: str
    language: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of text under column names.

    ``numeric`` says for each column whether it holds numbers, ``is_captioned`` whether the caption
    is visible or only for screen readers, ``note`` what is not shown, and ``names`` which variables
    it may be.
    """

    caption: Sentence
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    note: str = ""
    is_captioned: bool = True
    names: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Picture:
    """A chart: the address of its pixels, and its alternative text."""

    alternative: str
    source: str


Part = Title | Paragraph | Items | Verbatim | Table | Picture


@dataclass(frozen=True)
class Section:
    """The parts of one block. ``label`` is its name for screen readers."""

    kind: str
    label: str
    parts: tuple[Part, ...]
    state: str = ""


def note(*spans: Span) -> Paragraph:
    """Return a paragraph of secondary importance."""
    return Paragraph(spans, "note")


def names_note(label: str, names: Sequence[str]) -> tuple[Paragraph, ...]:
    """Return a note that lists ``names`` after ``label``; nothing without names."""
    return (note(label, *enumerated([(Mono(each),) for each in names], NAMED)),) if names else ()


_BLOCKS = ["fence", "heading", "hr", "list", "table"]
_LANGUAGE = re.compile(r"[A-Za-z0-9+-]{0,20}")
# Text with more tokens of Markdown than this becomes one paragraph, since it is not prose.
_TOKENS = 1_500

_WORDS = r"(?:`[^`\n]{1,200}`|[^*`\n]){1,300}"
# Code, emphasis, and a link or image, of which the words stay. 2*3*4, a/*/*.b and f[0](x) are none.
_MARKS = re.compile(
    r"`(?P<code>[^`\n]{1,200})`"
    rf"|(?<![A-Za-z0-9_*])\*{{2,3}}(?! )(?P<strong>{_WORDS})(?<! )\*{{2,3}}"
    rf"|(?<![\w*\\])\*(?=[\w`\"'“(])(?P<italic>{_WORDS})(?<![\s/\\])\*(?![\w*])"
    r"|(?<![\w\])])!?\[(?P<link>[^\[\]\n]{1,300})\]"
    r"\((?:[a-z]+:|[/#.]|[a-zA-Z][\w/-]*\.[a-z])[^()\s]{0,500}(?: \"[^\"\n]*\")?\)"
)


@lru_cache(maxsize=64)
def written(text: str) -> tuple[Part, ...]:
    """Parse a model's prose, keeping simple Markdown: lists, tables, headings, code, emphasis.

    Other markup is kept as literal characters.
    """
    # Deferred: a turn that only asks or fails shows no prose.
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

    tokens = MarkdownIt("zero").enable(_BLOCKS).parse(text)
    if len(tokens) > _TOKENS:
        return (Paragraph((text,)),)
    return tuple(part for each in SyntaxTreeNode(tokens).children for part in _parts_of(each))


def _parts_of(block: Any) -> Iterator[Part]:
    """Yield the parts of a ``SyntaxTreeNode`` of markdown-it."""
    match block.type:
        case "fence":
            if body := block.content.removesuffix("\n"):
                language = _LANGUAGE.findall(block.info.strip())[0] or "text"
                yield Verbatim("Text" if language == "text" else "Code", body, language)
        case "table":
            rows = [each.children for each in block.walk() if each.type == "tr"]
            head, *body = (tuple(map(_words_in, cells)) for cells in rows)
            numeric = (
                all(map(_AMOUNT.match, cells)) for _, *cells in zip(head, *body, strict=True)
            )
            yield Table(("Table",), head, tuple(body), tuple(numeric), is_captioned=False)
        case "bullet_list" | "ordered_list":
            yield from _lists_of(block)
        case "heading":
            yield Paragraph((Strong(_words_in(block)),))
        case "paragraph":
            yield Paragraph(spans_of(block.children[0].content))


def _words_in(block: Any) -> str:
    return words_of(spans_of(block.children[0].content))


def _lists_of(block: Any) -> Iterator[Part]:
    """Yield a list. What is in an item beside its words comes after it, then the numbers go on."""
    start, items = int(block.attrs.get("start", 1)), list[Sentence]()
    for item in block.children:
        inner = [each for each in item.children if each.type != "paragraph"]
        words = [each.children[0].content for each in item.children if each not in inner]
        items.append(spans_of("\n".join(words)))
        if inner or item is block.children[-1]:
            yield Items(tuple(items), block.type == "ordered_list", start)
            start, items = start + len(items), []
        for each in inner:
            yield from _parts_of(each)


def spans_of(text: str) -> Sentence:
    """Parse one sentence with its code and strong spans."""
    spans, at = list[Span](), 0
    for found in _MARKS.finditer(text):
        kind = found.lastgroup or ""
        inner = (Mono(found[kind]),) if kind == "code" else spans_of(found[kind])
        spans += [text[at : found.start()]]
        spans += [Strong(words_of(inner))] if kind == "strong" else inner
        at = found.end()
    return tuple(filter(None, (*spans, text[at:])))


# -- tables: the first rows of a long one, and one number format per column

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?\Z", re.ASCII)
_AMOUNT = re.compile(r"[-−+]?[$€£]?[\d.,]+ ?%?\Z")
_OF_NUMBERS = re.compile(r"u?int|float|decimal|number", re.IGNORECASE)
_MISSING = frozenset({"", "nan", "NaN", "<NA>", "None", "NaT"})
# Identifiers are not grouped by thousands: 98101 may be a postal code.
_NUMBERED = "order|invoice|customer|account|item|part|serial|case"
_IDENTIFIER = re.compile(
    rf"(?:\b|_)(?:ids?|(?:{_NUMBERED})[ _.]?no|years?|zip|postcode|code|phone)\Z", re.IGNORECASE
)
_GROUPED_FROM = 10_000
_MOST_DECIMALS = 6


def table_of(frame: DataFrameObject) -> Table:
    """Return ``frame`` as a table; without a preview, as a list of its columns."""
    frame = _without_row_numbers(frame)
    rows = "rows not counted" if frame.rows is None else counted(frame.rows, "row")
    size = f"{rows}, {counted(frame.column_count, 'column')}"
    if frame.kind != "table":
        size = f"{frame.kind}, {rows.replace('row', 'value')}"
    caption: Sentence = (Mono(cut(frame.name, 400)), f": {size}") if frame.name else (size,)
    if not frame.preview_columns:
        listed = frame.columns[:COLUMNS]
        told = ((each.name, each.dtype, ", ".join(each.samples)) for each in listed)
        cells = tuple(cut_each(each, CELL_CHARS) for each in told)
        more = _more(0, frame.column_count - len(listed))
        return Table(caption, ("column", "type", "for example"), cells, (False,) * 3, more)
    names = frame.preview_columns[:COLUMNS]
    total = frame.rows or len(frame.preview)
    most = ROWS if total >= ROWS + _FEW else total
    shown = [cut_each(row[: len(names)], CELL_CHARS) for row in frame.preview[:most]]
    dtypes = {column.name: column.dtype for column in frame.columns if not column.is_index}
    columns = [
        format_column(name, dtypes.get(name, ""), cells)
        for name, *cells in zip_longest(names, *shown, fillvalue="")
    ]
    return Table(
        caption,
        cut_each(names, CELL_CHARS),
        tuple(zip(*(cells for cells, _ in columns), strict=True)),
        tuple(is_numeric for _, is_numeric in columns),
        _more(total - len(shown), frame.column_count - len(names)),
    )


def _without_row_numbers(frame: DataFrameObject) -> DataFrameObject:
    """Drop the unnamed index of a sorted table: the numbers of its rows, in another order."""
    labels, first = [row[0] for row in frame.preview if row], frame.columns[:1]
    unnamed = [c for c in first if c.is_index and c.name == "index" and _OF_NUMBERS.match(c.dtype)]
    if frame.kind != "table" or not unnamed or len(labels) != frame.rows:
        return frame
    if {*labels} != {*map(str, range(len(labels)))}:
        return frame
    names, preview = frame.preview_columns[1:], tuple(row[1:] for row in frame.preview)
    kept = {"columns": frame.columns[1:], "preview_columns": names, "preview": preview}
    return frame.model_copy(update=kept)


def _more(rows: int, columns: int) -> str:
    left_out = [(rows, "more row"), (columns, "more column")]
    told = ", ".join(counted(number, noun) for number, noun in left_out if number > 0)
    return told and f"… {told}"


def format_column(name: str, dtype: str, cells: Sequence[str]) -> tuple[list[str], bool]:
    """Format the cells of one column alike, and return whether they are numbers.

    Amounts all get as many decimals as distinguish them; whole numbers get none, even if some are
    missing. Text is unchanged.
    """
    known = [cell for cell in cells if cell not in _MISSING]
    if not known or not all(map(_NUMBER.match, known)):
        return list(cells), False
    values = [float(cell) for cell in known]
    if not _OF_NUMBERS.match(dtype) or not all(map(math.isfinite, values)):
        return list(cells), True
    form = f",.{_decimals(known, values)}f"
    if all(map(float.is_integer, values)):
        is_amount = max(map(abs, values)) >= _GROUPED_FROM and not _IDENTIFIER.search(name)
        form = ",.0f" if is_amount else ".0f"
    return ["–" if cell in _MISSING else format(float(cell), form) for cell in cells], True


def _decimals(known: Sequence[str], values: Sequence[float]) -> int:
    """Return the decimals that distinguish ``values``, whose texts are ``known``.

    A single large one among them, such as a count above means, doesn't take them away.
    """
    written = max(len(cell.partition(".")[2]) for cell in known)
    if written <= 2 and not any("e" in cell for cell in known):
        return written
    size = median([abs(each) for each in values if each] or [0])
    decimals = 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 1 else 3
    while decimals < _MOST_DECIMALS and any(v and not round(v, decimals) for v in values):
        decimals += 1
    return decimals
