"""What a request asks for, with everything decided: real columns, real values, and its words."""

from calendar import month_name
from dataclasses import dataclass, field

from parsimony_kernel.offline.patterns import table as patterns
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import slug, spoken

MONTHS = month_name[1:]


@dataclass(frozen=True)
class Filter:
    """Rows to keep."""

    column: Column
    op: str
    values: tuple[str | int | float | bool, ...] = ()

    def __str__(self) -> str:
        is_month = self.column.part == "month_name"
        shown = [MONTHS[int(v) - 1] if is_month else str(v) for v in self.values]
        words: str = patterns()["filters"].get(self.op, [f"{{0}} {self.op} {{1}}"])[0]
        both = " to " if self.op == "between" else " or "
        return words.format(self.column.base.label, both.join(shown))


def flagged(column: Column, *, is_so: bool = True) -> Filter:
    """The rows of which a column says that it is so, or not."""
    if column.yes_no:
        return Filter(column, "in", (column.yes_no[not is_so],))
    return Filter(column, "true" if is_so else "false")


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
    color: Column | None = None
    share: bool = False
    window: str = ""
    rows: int = 0
    text: str = ""
    superlative: str = ""
    goes_on: bool = False
    notes: list[str] = field(default_factory=list)

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
        label = spoken(c.label for c in self.columns or filter(None, [self.sort]))
        words = patterns()["functions"].get(self.agg, f"{self.agg} {{0}}" if self.agg else "{0}")
        if self.agg == "nunique" and self.columns[0].part:
            words = "number of {0}s"
        unit = self.groups[0].part if self.groups else ""
        rolling = f"{self.rows}-{unit or 'row'} rolling "
        windows = {"growth": "growth of ", "cumulative": "cumulative ", "rolling": rolling}
        window = windows.get(self.window, "") + "share of the " * self.share
        return window + str(words).format(label, self.q)

    @property
    def measure(self) -> str:
        """The name of the column that an aggregate becomes."""
        word = {"sum": "total", "nunique": "distinct", "quantile": f"p{self.q:g}"}
        return f"{word.get(self.agg, self.agg)}_{slug(self.columns[0].name)}" if (
            self.columns
        ) else "count"  # fmt: skip

    @property
    def call(self) -> str:
        """The method that computes it."""
        return f"quantile({self.q / 100:g})" if self.agg == "quantile" else f"{self.agg}()"

    @property
    def unit(self) -> str:
        """The unit of its values."""
        if self.share or self.window == "growth":
            return "%"
        return self.columns[0].unit if self.columns and self.agg not in ("nunique", "var") else ""

    @property
    def title(self) -> str:
        """What it shows, as a heading."""
        by = f" by {spoken(g.label for g in self.groups)}" if self.groups else ""
        text = self._words() + (by if self.do != "line" else "") + self.where
        return text if text.startswith(self.table) else text[:1].upper() + text[1:]

    def _words(self) -> str:
        size = f"{self.limit:g}{' %' * self.is_percent}" if self.limit else ""
        match self.do:
            case "aggregate" if size and self.groups:
                return f"{size} {self.side}: {self.what}"
            case "rows" if self.superlative:
                return self.superlative
            case "rows" if self.sort is not None:
                ranked = f"{size} {self.side} rows by" if size else "rows sorted by"
                return f"{ranked} {self.sort.label}"
        labels = [c.label for c in self.columns]
        names = " against ".join(labels[::-1]) if self.do == "scatter" else spoken(labels)
        title: str = patterns()["kinds"][self.do]["title"]
        end = "last" if self.ascending else "first"
        return title.format(names=names or self.table, table=self.table, text=self.text,
                            what=self.what, end=end, limit=size)  # fmt: skip
