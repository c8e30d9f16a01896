"""A rule of the grammar: the kind of item, what it does to a statement, and a phrase that shows it.

No rule is without its phrase: what the model says it understands is read off these.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from parsimony_kernel.llm.offline.grammar.items import Item
from parsimony_kernel.llm.offline.grammar.reader import Reader

Made = Literal[
    "variable", "table", "view", "number", "line", "bar", "scatter", "histogram",
    "published dataset", "published chart", "published report", "refreshed",
]  # fmt: skip


@dataclass(frozen=True)
class Phrase:
    """A request as a person would write it, what comes of it, and the kind of result."""

    example: str
    does: str
    makes: Made


@dataclass(frozen=True)
class Rule:
    """What an item of ``kind`` means. ``apply`` gets the item and the next one that matters."""

    kind: str
    apply: Callable[[Reader, Item, Item | None], None]
    phrase: Phrase
    more: tuple[Phrase, ...] = ()


# Phrases that show rules of several modules.
HEAD = Phrase("show the first 10 rows of cars", "shows rows", "view")
KEEP = Phrase("keep only the cars from Japan", "keeps the rows with a value", "table")
MEAN = Phrase(
    "average horsepower of the cars by origin",
    "groups and aggregates: mean, total, median …",
    "table",
)
EXTREME = Phrase(
    "which origin has the highest mean horsepower?", "finds the extreme group", "table"
)
