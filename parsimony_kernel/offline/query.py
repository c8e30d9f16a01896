"""What a request asks for, with everything decided: real columns, real values, and its words."""

import re
from calendar import month_name
from collections.abc import Sequence
from dataclasses import dataclass, field

from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import fold, slug, spoken

MONTHS = month_name[1:]
# Parts of a calendar that come again: the columns they make, and their words.
CYCLES = {
    "weekday": ("weekday", "day of the week"),
    "month_name": ("month", "month of the year"),
    "hour_name": ("hour", "hour of the day"),
}
_WORDS = {
    "mean": "mean",
    "sum": "total",
    "max": "highest",
    "min": "lowest",
    "std": "standard deviation of",
    "var": "variance of",
    "nunique": "number of different",
    "count": "number of",
}
_UNITS = re.compile(
    r"(?:[ _]|(?<=[a-z])(?= ?\())"
    r"\(?(°?C|kg|mg/kg|g|lbs|km|cm|mm|m²|mins?|minutes|hours|h|seconds|sec|km/h|mph|miles|kWh|EUR|USD"
    r"|[kMB]?[$€£][kMB]?|%)\)?$"
)


def without_unit(name: str) -> str:
    """The name of a column without the unit that it ends with."""
    return _UNITS.sub("", name).strip() or name


def in_words(column: Column) -> str:
    """A column's name as people say it, without its unit."""
    return " ".join(without_unit(column.name).replace("_", " ").split()) or column.name


def unit_of(column: Column) -> str:
    """The unit that a column's name ends with; empty without one."""
    found = _UNITS.search(column.name)
    return found[1] if found and _UNITS.sub("", column.name) else ""


@dataclass(frozen=True)
class Filter:
    """Rows to keep. ``part`` is the part of a date that is compared: a period, a year, a month."""

    column: Column
    op: str
    values: tuple[str | int | float | bool, ...] = ()
    part: str = ""

    def __str__(self) -> str:
        name = in_words(self.column)
        shown = [MONTHS[int(v) - 1] if self.part == "month" else str(v) for v in self.values]
        if self.op in ("missing", "present"):
            return f"{name} is {'not ' * (self.op == 'present')}missing"
        if self.op in ("true", "false"):
            return name if self.op == "true" else f"not {name}"
        if self.op == "between":
            return f"{name} {shown[0]} to {shown[1]}"
        word = {"in": "is", "not in": "is not"}.get(self.op, self.op)
        return f"{name} {word} {spoken(shown, 'or')}"


def flagged(column: Column, *, is_so: bool = True) -> Filter:
    """The rows of which a column says that it is so, or not."""
    if column.yes_no:
        return Filter(column, "in", (column.yes_no[not is_so],))
    return Filter(column, "true" if is_so else "false")


@dataclass(frozen=True)
class Group:
    """What rows are grouped by; ``part`` is the part of a date, empty for the values themselves."""

    column: Column
    part: str = ""

    @property
    def key(self) -> str:
        """The column that it becomes."""
        return "year" if self.part == "year" else CYCLES.get(self.part, (self.column.name, ""))[0]

    @property
    def label(self) -> str:
        """What it is, in words."""
        return CYCLES.get(self.part, ("", self.part))[1] or in_words(self.column)

    @property
    def is_time(self) -> bool:
        """Whether it runs along a time axis."""
        return self.part not in CYCLES and (self.column.is_date or self.column.is_year)

    @property
    def is_ordered(self) -> bool:
        """Whether its values have an order of their own."""
        return self.part in CYCLES or self.is_time or self.column.kind == "number"


@dataclass(frozen=True)
class Measure:
    """A function over a column, or over two by ``sign``; without a column, rows are counted.

    ``over`` is a part of a date by which it is summed first, or for ``first`` and ``last`` the
    column that orders the rows; ``q`` the percentile.
    """

    agg: str
    column: Column | None = None
    other: Column | None = None
    sign: str = ""
    over: Group | None = None
    q: float = 0

    @property
    def source(self) -> str:
        """The name of the column that the function is over."""
        if self.column is None:
            return ""
        return (
            f"{self.column.name} {self.sign} {self.other.name}" if self.other else self.column.name
        )

    @property
    def label(self) -> str:
        """What it is, in words."""
        what = in_words(self.column) if self.column else "rows"
        if self.other:
            what = f"{what} {self.sign} {in_words(self.other)}"
        if self.agg == "percentile":
            return f"{self.q:g}th percentile of {what}"
        if self.agg == "nunique" and self.over:
            return f"number of {self.over.label}s"
        per = f" per {self.over.label}" if self.over and self.agg not in ("first", "last") else ""
        total = "total " if per and self.column and self.agg != "count" else ""
        return f"{_WORDS.get(self.agg, self.agg)} {total}{what}{per}".strip()

    @property
    def name(self) -> str:
        """The column that it becomes."""
        if self.column is None and not self.over:
            return "count"
        word = {"sum": "total", "nunique": "distinct", "percentile": f"p{self.q:g}"}
        return f"{word.get(self.agg, self.agg)}_{slug(self.source) or 'rows'}"

    @property
    def unit(self) -> str:
        """The unit of its values."""
        counts = self.agg in ("count", "nunique", "ratio", "var") or self.sign == "/"
        return unit_of(self.column) if self.column and not counts else ""


@dataclass
class Query:
    """One table, chart, number or change. ``do`` says which; the rest are its slots."""

    table: str = ""
    do: str = ""
    filters: list[Filter] = field(default_factory=list)
    any_of: bool = False
    groups: list[Group] = field(default_factory=list)
    measures: list[Measure] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)
    sort: Column | None = None
    ascending: bool = False
    limit: float | None = None
    is_percent: bool = False
    chart: str = ""
    color: Column | None = None
    bins: int = 20
    stacked: bool = False
    share: bool = False
    window: str = ""
    agg: str = ""
    rows: int = 0
    text: str = ""
    unit: str = ""
    expression: str = ""
    superlative: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def by(self) -> str:
        """The groups and filters, in words."""
        groups = f" by {spoken(g.label for g in self.groups)}" if self.groups else ""
        return groups + self.where

    @property
    def where(self) -> str:
        """The filters, in words."""
        word = " or " if self.any_of else ", "
        return f" ({word.join(map(str, self.filters))})" if self.filters else ""

    @property
    def what(self) -> str:
        """What is computed, in words."""
        text = spoken(m.label for m in self.measures) or spoken(map(in_words, self.columns))
        if self.window == "rolling":
            is_other = any(m.agg != self.agg for m in self.measures)
            names = spoken(in_words(m.column) for m in self.measures if m.column)
            rolled = f"the {text}" if is_other else names
            return f"{self.rows}-{self.unit or 'row'} rolling {self.agg} of {rolled}"
        window = {"growth": "growth of ", "cumulative": "cumulative "}.get(self.window, "")
        return f"{window}{'share of the ' * self.share}{text}"

    @property
    def title(self) -> str:
        """What it shows, as a heading."""
        text = self._words() + (self.by if self.do != "line" else "")
        return text if text.startswith(self.table) else text[:1].upper() + text[1:]

    def _words(self) -> str:
        names = spoken(map(in_words, self.columns))
        side = "lowest" if self.ascending else "highest"
        size = f"{self.limit:g} %" if self.is_percent else f"{self.limit:g}" if self.limit else ""
        match self.do:
            case "aggregate":
                return f"{size} {side}: {self.what}" if size and self.groups else self.what
            case "rows" if self.sort is not None:
                return f"{size} {side} rows by {in_words(self.sort)}" if size else (
                    f"rows sorted by {in_words(self.sort)}"
                )  # fmt: skip
            case "rows":
                return names or f"rows of {self.table}"
            case "head":
                return f"the {'last' if self.ascending else 'first'} {size} rows"
            case "scatter":
                return f"{in_words(self.columns[1])} against {in_words(self.columns[0])}"
            case "line":
                return f"{names} over time"
            case "derive" | "rename":
                return f"{self.table} with {self.text}"
            case _:
                words = {"histogram": "distribution", "box": "spread", "describe": "summary"}
                words |= {"dropna": "complete rows", "missing": "missing values"}
                return f"{words.get(self.do, self.do)} of {names or self.table}"


def is_part_of(words: Sequence[str], column: Column) -> bool:
    """Whether a column's name has one of the words."""
    return bool(set(fold(column.name)) & set(words))
