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
_DATES: tuple[tuple[str, str], ...] = (
    (r"\d{4}-\d{1,2}-\d{1,2}([ T]\d{1,2}:\d{2}.*)?", ""),
    (r"\d{4}/\d{1,2}/\d{1,2}( \d{1,2}:\d{2}.*)?", ""),
    (r"\d{4}-\d{2}", 'format="%Y-%m"'),
    (r"[A-Z][a-z]{2} \d{1,2},? \d{4}", 'format="mixed"'),
    (r"\d{1,2}[ -][A-Z][a-z]{2}[ -]\d{4}", 'format="mixed"'),
    (r"[A-Z][a-z]{3,8} \d{1,2}, \d{4}", 'format="mixed"'),
    (r"\d{1,2}\.\d{1,2}\.\d{4}( \d{1,2}:\d{2}.*)?", "dayfirst=True"),
    (r"\d{1,2}/\d{1,2}/\d{4}( \d{1,2}:\d{2}.*)?", "slashes"),
)
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
    def is_date(self) -> bool:
        """Whether it holds dates, also as text."""
        return self.kind == "date" or self.dates is not None

    @property
    def is_year(self) -> bool:
        """Whole numbers that are years."""
        years = all(re.fullmatch(r"1[5-9]\d\d|20\d\d", each) for each in self.samples)
        return self.kind == "number" and "year" in fold(self.name) and years

    @property
    def is_measure(self) -> bool:
        """Numbers of which a sum or a mean says something."""
        codes = {"id", "code", "zip", "index", "year", "no", "nr"}
        is_code = bool(codes & set(fold(self.name)[-1:])) or self._counts_up
        return self.kind == "number" and not is_code

    @property
    def _counts_up(self) -> bool:
        """Whether it numbers the rows."""
        first = self.samples[0] if len(self.samples) > 3 else ""
        return first.isdigit() and self.samples == tuple(
            str(int(first) + n) for n in range(len(self.samples))
        )


@dataclass(frozen=True)
class Table:
    """A table by the name of its variable."""

    name: str
    rows: int | None
    columns: tuple[Column, ...]

    def column(self, name: str) -> Column | None:
        """The column of that name."""
        return next((each for each in self.columns if each.name == name), None)

    @property
    def measures(self) -> tuple[Column, ...]:
        """Columns that can be measured."""
        return tuple(each for each in self.columns if each.is_measure)

    @property
    def times(self) -> tuple[Column, ...]:
        """Columns that hold dates."""
        return tuple(each for each in self.columns if each.is_date)


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
    return Table(str(name or summary.get("name") or ""), whole, (*known, *extra))


def _column(name: str, dtype: str, samples: Any) -> Column:
    listed = samples if isinstance(samples, list | tuple) else ()
    seen = tuple(each for each in map(str, listed) if each.strip().casefold() not in _MISSING)
    low = dtype.lower()
    if low.startswith(("datetime", "date", "timestamp")):
        return Column(name, "date", dtype, seen)
    if "bool" in low:
        return Column(name, "boolean", dtype, seen)
    if re.match(r"u?int|float|double|decimal|number", low):
        return Column(name, "number", dtype, seen)
    dates = next((d for shape, d in _DATES if seen and all(re.fullmatch(shape, s) for s in seen)),
                 None)  # fmt: skip
    if dates == "slashes":
        parts = [tuple(map(int, each.split("/")[:2])) for each in seen]
        day_first = any(first > 12 for first, _ in parts)
        month_first = any(second > 12 for _, second in parts)
        dates = "dayfirst=True" if day_first else "" if month_first else "slashes"
    return Column(name, "text", dtype, seen, dates)
