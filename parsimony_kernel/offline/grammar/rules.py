"""A rule of the grammar: the kind of item, what it does to a statement, and a phrase that shows it.

No rule is without its phrase: what the model says it understands is read off these.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from parsimony_kernel.offline.grammar.items import Item
from parsimony_kernel.offline.grammar.reader import Reader

Made = Literal[
    "variable", "table", "view", "number", "line", "bar", "scatter", "histogram", "heat map",
    "published dataset", "published chart", "published report", "refreshed",
]  # fmt: skip


@dataclass(frozen=True)
class Phrase:
    """A request as a person would write it, what comes of it, and the kind of result.

    ``paraphrases`` are other ways to say the same: they lead to the same code. ``after`` are the
    requests that it goes on from.
    """

    example: str
    does: str
    makes: Made
    paraphrases: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """What an item of ``kind`` means. ``apply`` gets the item and the next one that matters."""

    kind: str
    apply: Callable[[Reader, Item, Item | None], None]
    phrase: Phrase
    more: tuple[Phrase, ...] = ()


# Phrases that show rules of several modules.
HEAD = Phrase(
    "show the first 10 rows of cars",
    "shows rows",
    "view",
    (
        "the first 10 rows of cars",
        "display the first 10 rows of cars",
        "print the first 10 records of cars",
    ),
)
KEEP = Phrase(
    "keep only the cars from Japan",
    "keeps the rows with a value",
    "table",
    (
        "show only the cars from Japan",
        "select the cars from Japan",
        "cars from Japan",
    ),
)
MEAN = Phrase(
    "average horsepower of the cars by origin",
    "groups and aggregates: mean, total, median …",
    "table",
    (
        "mean horsepower of the cars per origin",
        "what is the average horsepower of the cars for each origin?",
        "average horsepower by origin",
    ),
)
EXTREME = Phrase(
    "which origin has the highest mean horsepower?",
    "finds the extreme group",
    "table",
    (
        "what origin has the highest average horsepower?",
        "which origin has the largest mean horsepower?",
        "find the origin with the highest mean horsepower",
    ),
)
