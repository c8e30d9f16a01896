"""What a request asks for, with everything decided: real columns, real values."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import slug, spoken

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
# How often the parts of a calendar come again: those that do not run on.
CYCLES = {
    "weekday": "day of the week",
    "month_name": "month of the year",
    "hour_name": "hour of the day",
}
WORDS = {
    "mean": "mean",
    "sum": "total",
    "median": "median",
    "max": "highest",
    "min": "lowest",
    "std": "standard deviation of",
    "var": "variance of",
    "nunique": "number of different",
    "first": "first",
    "last": "last",
    "count": "number of",
}


@dataclass(frozen=True)
class Filter:
    """Rows to keep. ``part`` is the part of a date that is compared."""

    column: Column
    op: str
    values: tuple[str | int | float | bool, ...] = ()
    part: str = ""

    def __str__(self) -> str:
        shown = [MONTHS[int(v) - 1] if self.part == "month" else str(v) for v in self.values]
        name = f"{self.part} of {self.column.name}" if self.part else self.column.name
        if self.op in ("missing", "present"):
            return f"{name} is {'' if self.op == 'missing' else 'not '}missing"
        if self.op == "between":
            return f"{name} is {shown[0]} to {shown[1]}"
        word = {"in": "is", "not in": "is not"}.get(self.op, self.op)
        return f"{name} {word} {spoken(shown, 'or')}"


@dataclass(frozen=True)
class Group:
    """What rows are grouped by; ``part`` is the part of a date, empty for the values themselves."""

    column: Column
    part: str = ""

    @property
    def label(self) -> str:
        """What it is, in words."""
        return CYCLES.get(self.part) or self.part or self.column.name

    @property
    def is_time(self) -> bool:
        """Whether it runs along a time axis."""
        return self.part not in CYCLES and (self.column.is_date or self.column.is_year)


@dataclass(frozen=True)
class Measure:
    """A function over a column, or over two by ``sign``; without a column, rows are counted.

    ``over`` is a part of a date by which it is summed first; ``q`` the percentile.
    """

    agg: str
    column: Column | None = None
    other: Column | None = None
    sign: str = ""
    over: str = ""
    q: float = 0

    @property
    def what(self) -> str:
        """The column, or what is made of two, in words."""
        if self.column is None:
            return "rows"
        return (
            f"{self.column.name} {self.sign} {self.other.name}" if self.other else self.column.name
        )

    @property
    def label(self) -> str:
        """What it is, in words."""
        if self.agg == "percentile":
            return f"{self.q:g}th percentile of {self.what}"
        if self.agg == "nunique" and self.over:
            return f"number of {self.over}s"
        by = "by" if self.agg in ("first", "last") else "per"
        over = f" {by} {self.over}" if self.over else ""
        return f"{WORDS.get(self.agg, self.agg)} {self.what}{over}".strip()

    @property
    def name(self) -> str:
        """The column that it becomes."""
        if self.column is None:
            return "count"
        word = {"sum": "total", "nunique": "distinct", "percentile": f"p{self.q:g}"}
        return f"{word.get(self.agg, self.agg)}_{slug(self.what) or 'value'}"


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
    ascending: bool | None = None
    limit: float | None = None
    is_percent: bool = False
    chart: str = ""
    color: Column | None = None
    bins: int = 20
    stacked: bool = False
    share: bool = False
    base: list[Filter] = field(default_factory=list)
    window: str = ""
    rows: int = 0
    unit: str = "row"
    text: str = ""
    expression: str = ""
    other: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def by(self) -> str:
        """The groups and filters, in words."""
        groups = f" by {spoken(g.label for g in self.groups)}" if self.groups else ""
        word = " or " if self.any_of else ", "
        return groups + (f" ({word.join(map(str, self.filters))})" if self.filters else "")

    @property
    def title(self) -> str:
        """What it shows, as a heading."""
        text = self._words() + (self.by if self.do != "line" else "")
        is_name = self.columns and self.do in ("rows", "line", "scatter")
        return text if is_name else text[:1].upper() + text[1:]

    @property
    def what(self) -> str:
        """What is computed, in words."""
        text = spoken(m.label for m in self.measures)
        is_other = any(m.agg != self.text for m in self.measures)
        window = {
            "growth": "growth of ",
            "cumulative": "cumulative ",
            "rolling": f"{self.rows}-{self.unit} rolling "
            + (f"{self.text} of the " if is_other else ""),
        }.get(self.window, "")
        return window + (f"share of the {text}" if self.share else text)

    def _words(self) -> str:
        names = spoken(c.name for c in self.columns)
        side = "lowest" if self.ascending else "highest"
        size = f"{self.limit:g} %" if self.is_percent else f"{self.limit:g}" if self.limit else ""
        match self.do:
            case "aggregate":
                return f"the {size} {side}: {self.what}" if size and self.groups else self.what
            case "rows" if self.sort is not None:
                by = f"by {self.sort.name}"
                return f"the {size} {side} rows {by}" if size else f"rows sorted {by}"
            case "rows":
                return names or f"rows of {self.table}"
            case "head":
                return f"the {'last' if self.ascending else 'first'} {size} rows"
            case "histogram":
                return f"distribution of {names}"
            case "box":
                return f"spread of {names}"
            case "scatter":
                return f"{self.columns[1].name} against {self.columns[0].name}"
            case "line":
                return f"{names} over time"
            case "correlation":
                return f"correlation of {names}" if names else "correlations"
            case "unique":
                return f"values of {names}"
            case "describe":
                return f"summary of {names or self.table}"
            case _:
                return self.text or f"{self.do} {names or self.table}"


def names_of(columns: Iterable[Column]) -> Sequence[str]:
    """The names of columns."""
    return [each.name for each in columns]
