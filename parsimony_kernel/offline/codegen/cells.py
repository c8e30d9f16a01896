"""A cell of code, and what was learned from errors about how to write it.

The headings of the cells are the memory of a run: a transcript is read by them later.
"""

from dataclasses import dataclass

# The headings of the steps, by which a transcript is read later.
LOAD, LOOK, SEARCH, DISTINCT, KEEP, KEEP_FIRST, DERIVE, JOIN = (
    "Load",
    "Look at",
    "Look for",
    "Count the different values in",
    "Keep the rows of",
    "First keep the rows of",
    "Add the column",
    "Join the tables",
)
# What a cell prints that shows the rows where something is missing; there may be none.
INCOMPLETE = "Rows with a missing value"
MAX_POINTS = 5000
MAX_BARS = 30


@dataclass(frozen=True)
class Options:
    """What was learned from errors: how dates and names have to be treated."""

    mixed_dates: bool = False
    text_names: bool = False
    day_first: frozenset[str] = frozenset()
    title_suffix: str = ""


@dataclass(frozen=True)
class Cell:
    """A cell of code: its heading, and the names of what it leaves behind."""

    code: str
    purpose: str
    table: str | None = None
    chart: str | None = None
