"""What is going to be computed, with everything decided: real columns, real values.

Values only; ``codegen`` turns them into text.
"""

from dataclasses import dataclass, field
from typing import Literal

from parsimony_kernel.offline.lexicon.measures import FUNCTION_WORDS
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import slug, spoken

Shape = Literal[
    "aggregate", "scalar", "rows", "scatter", "histogram", "line", "describe", "head",
    "missing", "dropna", "fillna", "correlation", "correlations",
]  # fmt: skip


MONTH_NAMES = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_TIMES = {
    "==": "is in {}",
    "!=": "is not in {}",
    ">": "is after {}",
    ">=": "is from {} on",
    "<": "is before {}",
    "<=": "is up to {}",
}


@dataclass(frozen=True)
class Keep:
    """Rows to keep. ``part`` is the part of a date that is compared: year, month or none.

    ``beside`` marks values that stood beside the measure, of which further ones are added.
    """

    column: Column
    op: str
    values: tuple[str | int | float, ...]
    part: str | None = None
    beside: bool = False

    def __str__(self) -> str:
        shown = [str(v).removesuffix(" 23:59:59") for v in self.values]
        name = self.column.name
        if self.part == "month":
            name, shown = f"the month of {name}", [MONTH_NAMES[int(v) - 1] for v in self.values]
        match self.op:
            case "missing" | "present":
                return f"{name} is {'' if self.op == 'missing' else 'not '}missing"
            case "==" if self.part == "month":
                return f"{name} is {shown[0]}"
            case op if self.column.is_date and op in _TIMES:
                return f"{name} {_TIMES[op].format(shown[0])}"
            case "between" if shown[0] == shown[1]:
                return f"{name} is {shown[0]}"
            case "between":
                return f"{name} is from {shown[0]} to {shown[1]}"
            case "in":
                return f"{name} is {spoken(shown, 'or')}"
            case "not in":
                return f"{name} is not {spoken(shown, 'or')}"
            case _:
                return f"{name} {self.op} {shown[0]}"


@dataclass(frozen=True)
class Except:
    """Rows to leave out: those that meet all of ``keeps``. Missing values meet nothing."""

    keeps: tuple[Keep, ...]

    def __str__(self) -> str:
        return f"not ({' and '.join(map(str, self.keeps))})"


@dataclass(frozen=True)
class Aggregate:
    """A function over a column; ``count`` has none and counts rows."""

    func: str
    column: Column | None = None

    @property
    def name(self) -> str:
        """The column that it becomes."""
        if self.column is None:
            return "count"
        word = {"sum": "total", "nunique": "distinct"}.get(self.func, self.func)
        return f"{word}_{slug(self.column.name) or 'value'}"

    @property
    def label(self) -> str:
        """What it is, in words."""
        if self.column is None:
            return "number of rows"
        return f"{FUNCTION_WORDS[self.func]} {self.column.name}"


@dataclass(frozen=True)
class Group:
    """What rows are grouped by; ``unit`` is the part of a date, ``None`` the values themselves."""

    column: Column
    unit: str | None = None

    @property
    def label(self) -> str:
        """What it is, in words."""
        words = {"month_name": "month of the year", "weekday": "day of the week"}
        return words.get(self.unit or "", self.unit or self.column.name)

    @property
    def is_time(self) -> bool:
        """Whether it runs along a time axis."""
        if self.unit is None:
            return self.column.is_date or self.column.is_year
        return self.unit not in ("weekday", "month_name", "hour_of_day")


@dataclass
class Analysis:
    """One table, chart or number.

    ``method`` is the way of a correlation and what fills missing values; ``words`` are its heading
    where the rest does not say it.
    """

    shape: Shape
    aggregates: list[Aggregate] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)
    x: Column | None = None
    color: Column | None = None
    chart: str | None = None
    limit: int | None = None
    ascending: bool = False
    descending: bool = False
    sort: Column | None = None
    bins: int = 20
    tail: bool = False
    stacked: bool = False
    method: str | float | None = None
    words: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        """What it shows, as a heading."""
        text = self._words()
        # A title that begins with a column's name keeps the name as it is.
        begins_with_name = self.shape in ("rows", "scatter", "line") and self.columns
        return text if begins_with_name else _capital(text)

    def _words(self) -> str:
        names = [c.name for c in self.columns]
        match self.shape:
            case "aggregate":
                what = spoken(a.label for a in self.aggregates)
                text = f"{what} by {spoken(g.label for g in self.groups)}"
                if self.limit is not None:
                    side = "lowest" if self.ascending else "highest"
                    text = f"{text}, the {self.limit} {side}" if self.limit > 1 else text
                return text
            case "scalar":
                return spoken(a.label for a in self.aggregates)
            case "rows":
                by = f" by {self.sort.name}" if self.sort is not None else ""
                if self.limit is not None:
                    side = "lowest" if self.ascending else "highest"
                    if self.limit == 1 and self.sort is not None:
                        return f"the row with the {side} {self.sort.name}"
                    return f"the {self.limit} {side} rows{by}"
                return f"{spoken(names) if names else 'rows'}{f' sorted{by}' if by else ''}"
            case "scatter":
                return f"{names[1]} against {names[0]}"
            case "histogram":
                return f"distribution of {names[0]}"
            case "line":
                return f"{spoken(names)} over time"
            case "describe":
                return f"summary of {spoken(names)}" if names else "summary"
            case "missing" | "dropna" | "fillna" | "correlation" | "correlations":
                return self.words
            case "head":
                return f"the {'last' if self.tail else 'first'} {self.limit} rows"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
