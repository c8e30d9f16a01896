"""What a request asks for, with everything decided: real columns, real values, and its words."""

from calendar import month_name
from dataclasses import dataclass, field

from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import slug, spoken

MONTHS = month_name[1:]
_WORDS = {
    "mean": "mean",
    "sum": "total",
    "max": "highest",
    "min": "lowest",
    "std": "standard deviation of",
    "var": "variance of",
    "nunique": "number of different values of",
    "count": "number of",
}
_OPERATORS = {"in": "is", "not in": "is not"}
_TITLES = {
    "histogram": "distribution",
    "box": "spread",
    "describe": "summary",
    "dropna": "complete rows",
    "missing": "missing values",
}


@dataclass(frozen=True)
class Filter:
    """Rows to keep."""

    column: Column
    op: str
    values: tuple[str | int | float | bool, ...] = ()

    def __str__(self) -> str:
        name, is_month = self.column.base.label, self.column.part == "month_name"
        shown = [MONTHS[int(v) - 1] if is_month else str(v) for v in self.values]
        match self.op:
            case "missing" | "present":
                return f"{name} is {'not ' * (self.op == 'present')}missing"
            case "true" | "false":
                return name if self.op == "true" else f"not {name}"
            case "between":
                return f"{name} {shown[0]} to {shown[1]}"
        return f"{name} {_OPERATORS.get(self.op, self.op)} {spoken(shown, 'or')}"


def flagged(column: Column, *, is_so: bool = True) -> Filter:
    """The rows of which a column says that it is so, or not."""
    if column.yes_no:
        return Filter(column, "in", (column.yes_no[not is_so],))
    return Filter(column, "true" if is_so else "false")


@dataclass(frozen=True)
class Measure:
    """A function over a column; without a column, rows are counted. ``q`` is the percentile."""

    agg: str
    column: Column | None = None
    q: float = 0

    @property
    def label(self) -> str:
        """What it is, in words."""
        if self.column is None:
            return "number of rows"
        if self.agg == "nunique" and self.column.part:
            return f"number of {self.column.label}s"
        word = f"{self.q:g}th percentile of" if self.q else _WORDS.get(self.agg, self.agg)
        return f"{word} {self.column.label}"

    @property
    def name(self) -> str:
        """The column that it becomes."""
        if self.column is None:
            return "count"
        word = {"sum": "total", "nunique": "distinct", "quantile": f"p{self.q:g}"}
        return f"{word.get(self.agg, self.agg)}_{slug(self.column.name) or 'rows'}"

    @property
    def call(self) -> str:
        """The method that computes it."""
        return f"quantile({self.q / 100:g})" if self.q else f"{self.agg}()"

    @property
    def unit(self) -> str:
        """The unit of its values."""
        return self.column.unit if self.column and self.agg not in ("nunique", "var") else ""


@dataclass
class Query:
    """One table, chart, number or change. ``do`` says which; the rest are its slots."""

    table: str = ""
    do: str = ""
    filters: list[Filter] = field(default_factory=list)
    any_of: bool = False
    groups: list[Column] = field(default_factory=list)
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
    def side(self) -> str:
        """The end of a ranking that is shown."""
        is_date = self.sort is not None and self.sort.is_date
        ends = ("latest", "earliest") if is_date else ("highest", "lowest")
        return ends[self.ascending]

    @property
    def what(self) -> str:
        """What is computed, in words."""
        columns = self.columns or filter(None, [self.sort])
        text = spoken(m.label for m in self.measures) or spoken(c.label for c in columns)
        unit = self.groups[0].part if self.groups else ""
        rolling = f"{self.rows}-{unit or 'row'} rolling "
        windows = {"growth": "growth of ", "cumulative": "cumulative ", "rolling": rolling}
        return f"{windows.get(self.window, '')}{'share of the ' * self.share}{text}"

    @property
    def title(self) -> str:
        """What it shows, as a heading."""
        text = self._words() + (self.by if self.do != "line" else "")
        return text if text.startswith(self.table) else text[:1].upper() + text[1:]

    def _words(self) -> str:
        names = spoken(c.label for c in self.columns)
        size = f"{self.limit:g}{' %' * self.is_percent}" if self.limit else ""
        match self.do:
            case "aggregate":
                return f"{size} {self.side}: {self.what}" if size and self.groups else self.what
            case "rows" if self.superlative or (self.sort is not None and not size):
                return self.superlative or f"rows sorted by {self.sort.label if self.sort else ''}"
            case "rows" if self.sort is not None:
                return f"{size} {self.side} rows by {self.sort.label}"
            case "rows":
                return names or f"rows of {self.table}"
            case "head":
                return f"the {'last' if self.ascending else 'first'} {size} rows"
            case "scatter":
                return f"{self.columns[1].label} against {self.columns[0].label}"
            case "line":
                return f"{names} over time"
            case "rename":
                return f"{self.table} with {self.text}"
        return f"{_TITLES.get(self.do, self.do)} of {names or self.table}"
