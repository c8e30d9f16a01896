"""What is known about a table: its columns and what kind of values they hold.

Read from the summaries in the context and in tool results; nothing is looked up anywhere else.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from parsimony_kernel.offline.words import fold, singular

ColumnKind = Literal["number", "date", "date_text", "number_text", "boolean", "text"]

_DATE_SHAPES: tuple[tuple[str, str | None], ...] = (
    (r"\d{4}-\d{1,2}-\d{1,2}([ T]\d{1,2}:\d{2}.*)?", None),
    (r"\d{4}/\d{1,2}/\d{1,2}( \d{1,2}:\d{2}.*)?", None),
    (r"\d{4}-\d{2}", "%Y-%m"),
    (r"[A-Z][a-z]{2} \d{1,2} \d{4}", "%b %d %Y"),
    (r"[A-Z][a-z]{2} \d{1,2}, \d{4}", "%b %d, %Y"),
    (r"\d{1,2} [A-Z][a-z]{2} \d{4}", "%d %b %Y"),
    (r"[A-Z][a-z]{3,8} \d{1,2}, \d{4}", "%B %d, %Y"),
    (r"\d{1,2}-[A-Z][a-z]{2}-\d{4}", "%d-%b-%Y"),
    (r"\d{1,2}\.\d{1,2}\.\d{4}", "%d.%m.%Y"),
    (r"\d{1,2}/\d{1,2}/\d{4}", "slashes"),
    (r"\d{1,2}/\d{1,2}/\d{4} \d{1,2}:\d{2}(:\d{2})?( [AP]M)?", "mixed"),
)
_NUMBER_TEXT = re.compile(r"[$€£]?\s?-?\d{1,3}(,?\d{3})*(\.\d+)?\s?%?")
_MISSING = frozenset({"nan", "none", "nat", "<na>", "null", ""})


@dataclass(frozen=True)
class Column:
    """A column. ``date_format`` is what ``pd.to_datetime`` needs to read its text.

    ``day_first_unclear`` tells that the samples read as dates in two ways.
    """

    name: str
    kind: ColumnKind
    dtype: str = ""
    samples: tuple[str, ...] = ()
    date_format: str | None = None
    day_first_unclear: bool = False

    @property
    def is_date(self) -> bool:
        """Whether it holds dates, also as text."""
        return self.kind in ("date", "date_text")

    @property
    def is_number(self) -> bool:
        """Whether it holds numbers, also as text."""
        return self.kind in ("number", "number_text")

    @property
    def is_text(self) -> bool:
        """Whether it holds names or yes and no."""
        return self.kind in ("text", "boolean")

    @property
    def is_year(self) -> bool:
        """Whole numbers that are years."""
        return (
            self.kind == "number"
            and "int" in self.dtype.lower()
            and "year" in fold(self.name)
            and all(re.fullmatch(r"1[5-9]\d\d|20\d\d", s) for s in self.samples)
        )

    @property
    def is_code(self) -> bool:
        """Numbers that name things, so that their sum or mean says nothing."""
        return bool({"id", "code", "zip", "index"} & set(fold(self.name)))


@dataclass(frozen=True)
class Table:
    """A table by the name of its variable. ``whole`` says that no column is unknown."""

    name: str
    rows: int | None
    columns: tuple[Column, ...]
    whole: bool = True

    def with_columns(self, others: Iterable[Column]) -> "Table":
        """The table with the columns of ``others`` that were not known."""
        known = {c.name for c in self.columns}
        return replace(self, columns=(*self.columns, *(c for c in others if c.name not in known)))

    def column(self, name: str) -> Column | None:
        """The column of that name."""
        return next((c for c in self.columns if c.name == name), None)

    def is_doubled(self, name: str) -> bool:
        """Whether several columns have this very name."""
        return sum(c.name == name for c in self.columns) > 1

    @property
    def dates(self) -> tuple[Column, ...]:
        """Columns that hold dates."""
        return tuple(c for c in self.columns if c.is_date)

    @property
    def years(self) -> tuple[Column, ...]:
        """Columns that hold years as whole numbers."""
        return tuple(c for c in self.columns if c.is_year)

    @property
    def numbers(self) -> tuple[Column, ...]:
        """Columns that can be measured."""
        found = tuple(c for c in self.columns if c.is_number and not c.is_year and not c.is_code)
        return found or tuple(c for c in self.columns if c.is_number)

    @property
    def categories(self) -> tuple[Column, ...]:
        """Columns that can group rows."""
        return tuple(
            c
            for c in self.columns
            if c.is_text or c.is_date or c.is_year or (c.kind == "number" and "int" in c.dtype)
        )

    @property
    def texts(self) -> tuple[Column, ...]:
        """Columns that hold names."""
        return tuple(c for c in self.columns if c.is_text)

    def speaks_of(self, word: str) -> bool:
        """Whether ``word`` is part of the table's own name, and no column or table in it."""
        own = fold(self.name.partition("_with_")[0])
        return singular(word) in {singular(part) for part in own}

    @property
    def unseen(self) -> tuple[Column, ...]:
        """Columns of which too little is known to tell what they hold."""
        return tuple(c for c in self.columns if not c.dtype or (c.kind == "text" and not c.samples))

    def seen_through(self, others: Iterable[Column]) -> "Table":
        """This table; what it does not know of a column, it takes from the like in ``others``."""
        known = {c.name: c for c in others if c.dtype}

        def seen(column: Column) -> Column:
            other = known.get(column.name, column)
            if not column.dtype:
                return other
            return other if not column.samples and other.dtype == column.dtype else column

        return replace(self, columns=tuple(map(seen, self.columns)))


def read_table(summary: Mapping[str, Any], name: str | None = None) -> Table | None:
    """The table that a summary describes; ``None`` when it is not one."""
    columns = summary.get("columns")
    if summary.get("type") != "dataframe" or not isinstance(columns, list):
        return None
    rows = summary.get("rows")
    entries = [c for c in columns if isinstance(c, dict) and "name" in c]
    more = summary.get("more_columns")
    extra = [str(m) for m in more] if isinstance(more, list) else []
    known = [_column(str(c["name"]), str(c.get("dtype", "")), c.get("samples")) for c in entries]
    return Table(
        name=name or str(summary.get("name") or ""),
        rows=rows if isinstance(rows, int) else None,
        columns=(*known, *(Column(each, "number") for each in extra)),
    )


def _column(name: str, dtype: str, samples: Any) -> Column:
    listed = samples if isinstance(samples, list | tuple) else ()
    seen = tuple(s for s in map(str, listed) if s.strip().casefold() not in _MISSING)
    low = dtype.lower()
    if "datetime" in low or low.startswith(("date", "timestamp", "period")):
        return Column(name, "date", dtype, seen)
    if "bool" in low:
        return Column(name, "boolean", dtype, seen)
    if re.match(r"u?int|float|double|decimal|number", low):
        return Column(name, "number", dtype, seen)
    if seen:
        for shape, form in _DATE_SHAPES:
            if all(re.fullmatch(shape, s) for s in seen):
                return _dated(name, dtype, seen, form)
        if all(_NUMBER_TEXT.fullmatch(s) for s in seen) and any(len(s) > 1 for s in seen):
            return Column(name, "number_text", dtype, seen)
    return Column(name, "text", dtype, seen)


def _dated(name: str, dtype: str, samples: tuple[str, ...], form: str | None) -> Column:
    unclear = False
    if form == "slashes":
        parts = [tuple(int(p) for p in s.split("/")[:2]) for s in samples]
        if any(p[0] > 12 for p in parts):
            form = "%d/%m/%Y"
        elif any(p[1] > 12 for p in parts):
            form = "%m/%d/%Y"
        else:
            form, unclear = "%m/%d/%Y", True
    return Column(name, "date_text", dtype, samples, form, unclear)
