"""What is known about a table: its columns, and what kind of values they hold.

Read from the summaries in the context and in tool results; nothing is looked up anywhere else.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from parsimony_kernel.offline.words import fold

Kind = Literal["number", "date", "boolean", "text"]

# Dates as text: what they look like, and what ``pd.to_datetime`` needs to read them.
_MONTH = r"[A-Z][a-z]{2,8}"
_DATES = (
    (r"\d{4}[-/]\d{1,2}[-/]\d{1,2}([ T]\d{1,2}:\d{2}.*)?", ""),
    (r"\d{4}-\d{2}", 'format="%Y-%m"'),
    (rf"{_MONTH} \d{{1,2}},? \d{{4}}|\d{{1,2}}[ -]{_MONTH}[ -]\d{{4}}", 'format="mixed"'),
    (r"\d{1,2}\.\d{1,2}\.\d{4}( \d{1,2}:\d{2}.*)?", "dayfirst=True"),
    (r"\d{1,2}/\d{1,2}/\d{4}( \d{1,2}:\d{2}.*)?", "slashes"),
)
_YES_NO = ({"yes", "no"}, {"y", "n"}, {"true", "false"})
_MISSING = frozenset({"nan", "none", "nat", "<na>", "null", ""})


@dataclass(frozen=True)
class Column:
    """A column. ``dates`` are the arguments that read its text as dates, ``None`` where it is no
    such text; ``slashes`` where day and month cannot be told apart."""

    name: str
    kind: Kind
    dtype: str = ""
    samples: tuple[str, ...] = ()
    dates: str | None = None

    @property
    def yes_no(self) -> tuple[str, ...]:
        """The text for yes and the one for no, of a column that holds nothing else."""
        low = {each.casefold(): each for each in self.samples}
        is_flag = self.kind == "text" and set(low) in _YES_NO
        ordered = sorted(low, key=lambda each: each[0] not in "yt")
        return tuple(low[each] for each in ordered) if is_flag else ()

    @property
    def is_flag(self) -> bool:
        """Whether it says of each row that something is so, or is not."""
        return self.kind == "boolean" or bool(self.yes_no)

    @property
    def is_date(self) -> bool:
        """Whether it holds dates, also as text."""
        return self.kind == "date" or self.dates is not None

    @property
    def is_year(self) -> bool:
        """Whole numbers that are years."""
        years = all(re.fullmatch(r"1[5-9]\d\d|20\d\d", each) for each in self.samples)
        return self.kind == "number" and "year" in fold(self.name) and years

    @property
    def is_code(self) -> bool:
        """Whether it names or numbers things, by its name or because it counts up."""
        last = fold(self.name)[-1:]
        ends = [re.search(r"(\d+)$", each) for each in self.samples]
        numbers = [int(each[1]) for each in ends if each]
        counts = len(numbers) > 3 and numbers == list(
            range(numbers[0], numbers[0] + len(self.samples))
        )
        is_whole = self.kind == "text" or self.dtype.startswith(("int", "uint"))
        return bool({"id", "code", "zip", "index", "no", "nr"} & set(last)) or (counts and is_whole)

    @property
    def is_measure(self) -> bool:
        """Numbers of which a sum or a mean says something."""
        return self.kind == "number" and not self.is_code and "year" not in fold(self.name)[-1:]


@dataclass(frozen=True)
class Table:
    """A table by the name of its variable; ``rows`` are ``None`` where they were not counted,
    ``library`` is empty for pandas."""

    name: str
    rows: int | None
    columns: tuple[Column, ...]
    library: str = ""

    def column(self, name: str) -> Column | None:
        """The column of that name."""
        return next((each for each in self.columns if each.name == name), None)

    @property
    def measures(self) -> list[Column]:
        """Columns that can be measured."""
        return [each for each in self.columns if each.is_measure]

    @property
    def times(self) -> list[Column]:
        """Columns that hold dates, else those that hold years."""
        dates = [each for each in self.columns if each.is_date]
        return dates or [each for each in self.columns if each.is_year]


def read_table(summary: Mapping[str, Any], name: str = "") -> Table | None:
    """The table that a summary describes; ``None`` when it is not one."""
    columns, rows = summary.get("columns"), summary.get("rows")
    if summary.get("type") != "dataframe" or not isinstance(columns, list):
        return None
    known = [
        _column(str(each["name"]), str(each.get("dtype", "")), each.get("samples"))
        for each in columns
        if isinstance(each, dict) and "name" in each
    ]
    more = summary.get("more_columns")
    extra = [Column(str(each), "text") for each in more] if isinstance(more, list) else []
    whole = rows if isinstance(rows, int) else None
    library = str(summary.get("library") or "")
    return Table(str(name or summary.get("name") or ""), whole, (*known, *extra), library)


def _column(name: str, dtype: str, samples: Any) -> Column:
    listed = samples if isinstance(samples, list | tuple) else ()
    seen = tuple(each for each in map(str, listed) if each.strip().casefold() not in _MISSING)
    low = dtype.lower()
    kinds: tuple[tuple[str, Kind], ...] = (
        ("datetime|date|timestamp", "date"),
        ("bool", "boolean"),
        ("u?int|float|double|decimal|number", "number"),
    )
    kind: Kind = next((kind for words, kind in kinds if re.match(words, low)), "text")
    if kind != "text":
        return Column(name, kind, dtype, seen)
    shapes = (how for shape, how in _DATES if seen and all(re.fullmatch(shape, s) for s in seen))
    return Column(name, "text", dtype, seen, next(shapes, None))
