"""What is known about a table: its columns, what they hold, how code reads them; and a query.

Tables are read from the summaries in the context and in tool results, and from nothing else.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from parsimony_kernel.offline.words import fold, literal, table

_UNIT = re.compile(table()["spellings"]["unit"])
_KIND = re.compile("(?P<date>date|timestamp)|(?P<boolean>bool)|(?P<number>u?int|float|decimal)")
CODES = frozenset({"id", "code", "number", "zip", "index", "no", "nr"})
_MISSING = frozenset({"nan", "none", "nat", "<na>", "null", ""})


@dataclass(frozen=True)
class Column:
    """A column of a table, or one that code computes from others.

    Args:
        kind: ``number``, ``year``, ``date``, ``boolean``, ``text``, or ``cycle`` for a part of the
            calendar that comes again.
        dates: the arguments that read its text as dates, ``None`` where it is no such text.
        made_of: the columns that it is computed from, by the template ``how``.
        part: the part of a date that it is, by its row in the table of patterns.
    """

    name: str
    kind: str
    dtype: str = ""
    samples: tuple[str, ...] = ()
    dates: str | None = None
    made_of: tuple["Column", ...] = ()
    how: str = ""
    part: str = ""

    def of(self, frame: str) -> str:
        """Write the expression of its values in ``frame``."""
        if self.made_of:
            return self.how.format(*(each.of(frame) for each in self.made_of))
        text = f"{frame}[{literal(self.name)}]"
        if self.dates is None:
            return text
        return f"pd.to_datetime({', '.join(filter(None, (text, self.dates)))})"

    @property
    def flags(self) -> tuple[str, ...]:
        """Its words for yes and no; empty where it holds anything else."""
        if self.kind == "boolean":
            return ("true", "false")
        seen = {each.casefold(): each for each in self.samples if self.kind == "text"}
        pairs = (pair.split("=") for pair in table()["spellings"]["flags"].split())
        return next((tuple(seen[each] for each in p) for p in pairs if {*seen} == {*p}), ())

    @property
    def is_computed(self) -> bool:
        """Whether code has to make it before it can use it by its name."""
        return bool(self.made_of) or self.dates is not None

    @property
    def base(self) -> "Column":
        """The column of dates that it is a part of, else itself."""
        return self.made_of[0] if self.part else self

    @property
    def plain(self) -> str:
        """Its name without the unit."""
        return _UNIT.sub("", self.name)

    @property
    def unit(self) -> str:
        """The unit that its name ends with; empty without one."""
        found = _UNIT.search(self.made_of[0].name if self.made_of else self.name)
        return found[1] if found and not self.part else ""

    @property
    def label(self) -> str:
        """What it is, in words."""
        if self.part:
            return str(table()["parts"][self.part].get("label", self.part))
        if self.made_of:
            return " - ".join(each.label for each in self.made_of)
        return " ".join(self.plain.replace("_", " ").split()) or self.name

    @property
    def is_time(self) -> bool:
        """Whether it runs along a time axis."""
        return self.kind in ("date", "year")

    @property
    def is_code(self) -> bool:
        """Whether it names or numbers things, by its name or because it counts up."""
        is_whole = self.kind == "text" or self.dtype.startswith(("int", "uint"))
        ends = [re.search(r"\d+$", each) for each in self.samples if is_whole]
        numbers = [int(each[0]) for each in ends if each]
        counts = len(numbers) == len(ends) > 3 and {b - a for a, b in pairwise(numbers)} == {1}
        return counts or bool(CODES & {*fold(self.name)[-1:]})

    @property
    def is_measure(self) -> bool:
        """Numbers of which a sum or a mean says something."""
        return self.kind == "number" and not self.is_code and "year" not in fold(self.name)[-1:]


def part_of(column: Column, part: str) -> Column:
    """The part of a date as a column."""
    row = table()["parts"][part]
    name, kind = row.get("key", column.name), "cycle" if "label" in row else "date"
    return Column(name, kind, made_of=(column,), how=row["code"], part=part)


@dataclass(frozen=True)
class Table:
    """A table by the name of its variable; ``rows`` are ``None`` where they were not counted,
    ``library`` is empty for pandas."""

    name: str
    rows: int | None
    columns: tuple[Column, ...]
    library: str = ""

    @property
    def measures(self) -> list[Column]:
        """Columns that can be measured."""
        return [each for each in self.columns if each.is_measure]

    @property
    def texts(self) -> list[Column]:
        """Columns of words."""
        return [each for each in self.columns if each.kind == "text"]

    @property
    def times(self) -> list[Column]:
        """Columns that hold dates, else those that hold years."""
        dates = [each for each in self.columns if each.kind == "date"]
        return dates or [each for each in self.columns if each.kind == "year"]


def read_table(summary: Mapping[str, Any]) -> Table | None:
    """Read the table that a summary describes; ``None`` when it is not one."""
    listed, rows = summary.get("columns"), summary.get("rows")
    is_table = summary.get("type") == "dataframe" and not summary.get("kind")
    if not (is_table and isinstance(listed, list)):
        return None
    # What indexes the rows is no column.
    columns = [_column(each) for each in listed if not each.get("index")]
    columns += [Column(str(each), "text") for each in summary.get("more_columns") or ()]
    whole = rows if isinstance(rows, int) else None
    name, library = str(summary.get("name") or ""), str(summary.get("library") or "")
    return Table(name, whole, tuple(columns), library)


def _column(summary: Mapping[str, Any]) -> Column:
    name, dtype = str(summary["name"]), str(summary.get("dtype", ""))
    samples = map(str, summary.get("samples") or ())
    seen = tuple(each for each in samples if each.strip().casefold() not in _MISSING)
    found = _KIND.match(dtype.lower())
    kind = str(found.lastgroup) if found else "text"
    is_year = "year" in fold(name) and all(re.fullmatch(r"1[5-9]\d\d|20\d\d", s) for s in seen)
    kind = "year" if kind == "number" and is_year else kind
    shapes = table()["dates"].items() if kind == "text" and seen else ()
    dates = next((how for shape, how in shapes if all(re.fullmatch(shape, s) for s in seen)), None)
    return Column(name, kind if dates is None else "date", dtype, seen, dates)


@dataclass(frozen=True)
class Filter:
    """Rows to keep."""

    column: Column
    op: str
    values: tuple[str | int | float, ...] = ()


@dataclass
class Query:
    """One table, chart, number or change. ``do`` says which; the rest are its slots.

    Args:
        agg: the function of the one column of an aggregate; ``count`` counts rows.
        q: the percentile, where that is the function.
        columns: those that are computed, drawn, shown or changed.
        rows: the length of a rolling window.
    """

    table: str = ""
    do: str = ""
    filters: list[Filter] = field(default_factory=list)
    any_of: bool = False
    groups: list[Column] = field(default_factory=list)
    agg: str = ""
    q: float = 0
    columns: list[Column] = field(default_factory=list)
    sort: Column | None = None
    ascending: bool = False
    limit: float | None = None
    is_percent: bool = False
    chart: str = ""
    share: bool = False
    window: str = ""
    rows: int = 0
    text: str = ""
    goes_on: bool = False
    notes: list[str] = field(default_factory=list)
