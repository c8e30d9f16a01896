"""What a request asks for, with everything decided: real columns and real values."""

from calendar import month_name
from dataclasses import dataclass, field

from parsimony_kernel.offline.patterns import table as patterns
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import fold


@dataclass(frozen=True)
class Filter:
    """Rows to keep."""

    column: Column
    op: str
    values: tuple[str | int | float, ...] = ()

    def __str__(self) -> str:
        words: str = patterns()["filters"].get(self.op, [f"{{0}} {self.op} {{1}}"])[0]
        is_month = self.column.part == "month_name"
        shown = [month_name[int(v)] if is_month else str(v) for v in self.values]
        both = " to " if self.op == "between" else " or "
        return words.format(self.column.base.label, both.join(shown))


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

    @property
    def measure(self) -> str:
        """The name of the column that an aggregate becomes."""
        word = {"sum": "total", "nunique": "distinct", "quantile": f"p{self.q:g}"}
        names = ["_".join(fold(column.name))[:40].strip("_") for column in self.columns[:1]]
        return "_".join([word.get(self.agg, self.agg), *names])

    @property
    def call(self) -> str:
        """The method that computes it."""
        return f"quantile({self.q / 100:g})" if self.agg == "quantile" else f"{self.agg}()"

    @property
    def unit(self) -> str:
        """The unit of the value that is told."""
        if self.share or self.window == "growth":
            return "%"
        is_own = self.do in ("aggregate", "rows", "line") and self.agg not in ("nunique", "var")
        columns = [self.sort] if self.sort else self.columns[:1]
        return columns[0].unit if columns and is_own else ""
