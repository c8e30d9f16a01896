"""The kinds of parts that a section of the record is made of, as values.

A string in a part may be foreign; whoever writes it escapes it.
"""

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


def words_of(sentence: Sentence) -> str:
    """``sentence`` as text alone."""
    return "".join(span if isinstance(span, str) else span.text for span in sentence)


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
    """A list. ``chosen`` is the index of the item that was picked."""

    items: tuple[Sentence, ...]
    ordered: bool = False
    chosen: int | None = None


@dataclass(frozen=True)
class Listing:
    """Code, under the ``label`` that names it where it is put away."""

    passage: Passage
    label: str = "Code"
    folded: bool = False
    language: str = "python"

    @property
    def lines(self) -> str:
        """Its length in words."""
        count = self.passage.head.strip("\n").count("\n") + 1
        words = "1 line" if count == 1 else f"{count:,} lines"
        return f"more than {words}" if self.passage.omitted else words


@dataclass(frozen=True)
class Printed:
    """Text that code wrote, under a label."""

    label: str
    passage: Passage


@dataclass(frozen=True)
class Table:
    """Rows of text under column names."""

    caption: Sentence
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Folded:
    """Text that is there but put away, under a summary."""

    summary: str
    passage: Passage


@dataclass(frozen=True)
class Picture:
    """A chart: its pixels when there are some, and the words that stand for them."""

    figure: FigureBlock
    alternative: str


@dataclass(frozen=True)
class Facts:
    """Short facts side by side."""

    facts: tuple[str, ...]


Part = Title | Paragraph | Items | Listing | Printed | Table | Folded | Picture | Facts


@dataclass(frozen=True)
class Section:
    """One block in words."""

    kind: str
    label: str
    parts: tuple[Part, ...]
    state: str = ""
