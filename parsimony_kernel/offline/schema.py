"""What is known about a table: its columns, what they hold, and how code reads them.

Read from the summaries in the context and in tool results; nothing is looked up anywhere else.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from parsimony_kernel.offline.patterns import table as patterns
from parsimony_kernel.offline.words import fold, literal

Kind = Literal["number", "date", "boolean", "text"]

_UNIT = re.compile(patterns()["spellings"]["unit"])
_KINDS: tuple[tuple[str, Kind], ...] = (
    ("date|timestamp", "date"),
    ("bool", "boolean"),
    ("u?int|float|double|decimal|number", "number"),
)
_YES_NO = ({"yes", "no"}, {"y", "n"}, {"true", "false"})
_MISSING = frozenset({"nan", "none", "nat", "<na>", "null", ""})


@dataclass(frozen=True)
class Column:
    """A column of a table, or one that code computes from others.

    Args:
        dates: the arguments that read its text as dates, ``None`` where it is no such text.
        made_of: the columns that it is computed from, by the template ``how``.
        part: the part of a date that it is, by its row in the table of patterns.
    """

    name: str
    kind: Kind
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
    def base(self) -> "Column":
        """The column of dates that it is a part of, else itself."""
        return self.made_of[0] if self.part else self

    @property
    def plain(self) -> str:
        """Its name without the unit."""
        return _UNIT.sub("", self.name).strip() or self.name

    @property
    def unit(self) -> str:
        """The unit that its name ends with; empty without one."""
        name = self.made_of[0].name if self.made_of else self.name
        found = _UNIT.search(name)
        return found[1] if found and not self.part and _UNIT.sub("", name) else ""

    @property
    def label(self) -> str:
        """What it is, in words."""
        if self.part:
            return str(patterns()["parts"][self.part].get("label", self.part))
        if self.made_of:
            return " - ".join(each.label for each in self.made_of)
        return " ".join(self.plain.replace("_", " ").split()) or self.name

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
    def is_cycle(self) -> bool:
        """Whether it is a part of the calendar that comes again."""
        return bool(self.part) and "label" in patterns()["parts"][self.part]

    @property
    def is_time(self) -> bool:
        """Whether it runs along a time axis."""
        return (self.is_date or self.is_year) and not self.is_cycle

    @property
    def is_ordered(self) -> bool:
        """Whether its values have an order of their own."""
        return self.is_time or self.is_cycle or self.kind == "number"

    @property
    def is_code(self) -> bool:
        """Whether it names or numbers things, by its name or because it counts up."""
        last = fold(self.name)[-1:]
        ends = [re.search(r"(\d+)$", each) for each in self.samples]
        numbers = [int(each[1]) for each in ends if each]
        steps = {after - before for before, after in pairwise(numbers)}
        counts = len(ends) == len(numbers) > 3 and steps == {1}
        is_whole = self.kind == "text" or self.dtype.startswith(("int", "uint"))
        return bool({"id", "code", "zip", "index", "no", "nr"} & set(last)) or (counts and is_whole)

    @property
    def is_measure(self) -> bool:
        """Numbers of which a sum or a mean says something."""
        return self.kind == "number" and not self.is_code and "year" not in fold(self.name)[-1:]

    def has_word(self, words: Sequence[str]) -> bool:
        """Whether its name has one of the words."""
        return bool(set(fold(self.name)) & set(words))


def part_of(column: Column, part: str) -> Column:
    """The part of a date as a column."""
    row = patterns()["parts"][part]
    name = row.get("key", column.name)
    return Column(name, "date", made_of=(column,), how=row["code"], part=part)


@dataclass(frozen=True)
class Table:
    """A table by the name of its variable; ``rows`` are ``None`` where they were not counted,
    ``library`` is empty for pandas."""

    name: str
    rows: int | None
    columns: tuple[Column, ...]
    library: str = ""

    def column(self, name: str) -> Column:
        """The column of that name."""
        return next(each for each in self.columns if each.name == name)

    @property
    def measures(self) -> list[Column]:
        """Columns that can be measured."""
        return [each for each in self.columns if each.is_measure]

    @property
    def texts(self) -> list[Column]:
        """Columns of words."""
        return [each for each in self.columns if each.kind == "text" and not each.is_date]

    @property
    def times(self) -> list[Column]:
        """Columns that hold dates, else those that hold years."""
        dates = [each for each in self.columns if each.is_date]
        return dates or [each for each in self.columns if each.is_year]


def read_table(summary: Mapping[str, Any]) -> Table | None:
    """Read the table that a summary describes; ``None`` when it is not one."""
    columns, rows = summary.get("columns"), summary.get("rows")
    if summary.get("type") != "dataframe" or not isinstance(columns, list):
        return None
    known = [
        _column(str(each["name"]), str(each.get("dtype", "")), each.get("samples"))
        for each in columns
        if isinstance(each, dict) and "name" in each
    ]
    more = summary.get("more_columns")
    known += [Column(str(each), "text") for each in more] if isinstance(more, list) else []
    whole = rows if isinstance(rows, int) else None
    library = str(summary.get("library") or "")
    return Table(str(summary.get("name") or ""), whole, tuple(known), library)


def _column(name: str, dtype: str, samples: Any) -> Column:
    listed = samples if isinstance(samples, list | tuple) else ()
    seen = tuple(each for each in map(str, listed) if each.strip().casefold() not in _MISSING)
    kind: Kind = next((kind for begins, kind in _KINDS if re.match(begins, dtype.lower())), "text")
    if kind != "text":
        return Column(name, kind, dtype, seen)
    dates = patterns()["dates"].items()
    shapes = (how for shape, how in dates if seen and all(re.fullmatch(shape, s) for s in seen))
    return Column(name, "text", dtype, seen, next(shapes, None))
