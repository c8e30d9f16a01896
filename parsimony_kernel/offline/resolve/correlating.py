"""What is asked of how columns go together, once every word is resolved."""

from parsimony_kernel.offline.analysis import Analysis
from parsimony_kernel.offline.grammar.correlating import UNSAID
from parsimony_kernel.offline.missing import Declined
from parsimony_kernel.offline.resolve.named import named_columns
from parsimony_kernel.offline.resolve.reading import Reading
from parsimony_kernel.offline.resolve.subject import Subject, names_of
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import spoken

_MAX_COLUMNS = 40
_CHARTS = {
    "pair": {"auto": "scatter", "scatter": "scatter"},
    "one": {"auto": "bar", "bar": "bar"},
    "matrix": {"auto": "heatmap", "heatmap": "heatmap"},
}


def correlation_analysis(subject: Subject, reading: Reading) -> Analysis | None:
    """The correlation of columns; none where the statement asks for none."""
    asked = reading.statement.correlation
    if asked is None:
        return None
    _alone(reading)
    against = [reading.against] if reading.against is not None else []
    columns = list(dict.fromkeys([*named_columns(subject, reading), *against]))
    for column in columns:
        _check(subject, column)
    method = "pearson" if asked == UNSAID else asked
    way = "" if asked == UNSAID else f"{asked} "
    chart = reading.statement.chart
    if reading.groups:
        return _by_groups(subject, reading, columns, method, way)
    if len(columns) == 2 and chart != "heatmap":
        x, y = columns
        return Analysis(
            "correlation",
            columns=columns,
            method=method,
            chart=_chart("pair", chart),
            words=f"{way}correlation of {x.name} and {y.name}",
        )
    if len(columns) == 1:
        others = [c for c in _measures(subject) if c != columns[0]]
        if not others:
            raise _too_few(subject)
        return Analysis(
            "correlations",
            columns=[*columns, *others],
            x=columns[0],
            method=method,
            chart=_chart("one", chart),
            words=f"{way}correlations with {columns[0].name}",
        )
    named = spoken(c.name for c in columns) if columns else "all measures"
    columns = columns or _measures(subject)
    if len(columns) < 2:
        raise _too_few(subject)
    return Analysis(
        "correlations",
        columns=columns,
        method=method,
        chart=_chart("matrix", chart),
        words=f"{way}correlations of {named}",
    )


def _by_groups(
    subject: Subject, reading: Reading, columns: list[Column], method: str, way: str
) -> Analysis:
    by = spoken(g.label for g in reading.groups)
    if len(columns) != 2 or reading.statement.chart is not None:
        raise Declined(
            "Within groups I correlate two measures, as a table.",
            [f"the request groups by {by}"],
            ["Name two measures, as in 'correlation between A and B by C'."],
        )
    x, y = columns
    return Analysis(
        "correlation",
        columns=columns,
        groups=reading.groups,
        method=method,
        words=f"{way}correlation of {x.name} and {y.name} by {by}",
    )


def _measures(subject: Subject) -> list[Column]:
    table = subject.table
    columns = [c for c in table.numbers if c.dtype]
    doubled = any(table.is_doubled(c.name) for c in columns)
    if not table.whole or len(columns) > _MAX_COLUMNS or doubled:
        raise Declined(
            f"`{table.name}` has too many columns to correlate every one with every other.",
            [f"`{table.name}` has {len(table.columns)} columns"],
            ["Name the columns, as in 'correlation matrix of A, B and C'."],
        )
    return columns


def _check(subject: Subject, column: Column) -> None:
    subject.checked(column)
    if column.is_number:
        return
    held = "dates" if column.is_date else "text"
    others = spoken(names_of(subject.table.numbers), "or")
    raise Declined(
        f"{column.name!r} holds {held}, and only numbers are correlated.",
        [f"{column.name!r} is not a column of numbers"],
        [
            f"Name columns of numbers: {others}.",
            f"Or compare groups, as in 'mean … by {column.name}'.",
        ],
    )


def _too_few(subject: Subject) -> Declined:
    return Declined(
        f"`{subject.table.name}` has too few columns of numbers to correlate.",
        ["a correlation needs two columns of numbers"],
    )


def _chart(of: str, chart: str | None) -> str | None:
    if chart is None:
        return None
    if chart not in _CHARTS[of]:
        fits = spoken({"heatmap": "heat map"}.get(c, f"{c} chart") for c in {*_CHARTS[of].values()})
        raise Declined(
            f"These correlations are not drawn as a {chart} chart.",
            [f"a {chart} chart of correlations"],
            [f"Ask for a {fits}."],
        )
    return _CHARTS[of][chart]


def _alone(reading: Reading) -> None:
    """Raise ``Declined`` where more is asked than a correlation."""
    statement = reading.statement
    if (
        reading.wishes
        or statement.rank
        or statement.describe
        or statement.distinct
        or statement.head
        or statement.over_time
        or reading.color
        or reading.sort
    ):
        raise Declined(
            f"I do not see which correlation {statement.text!r} asks for.",
            ["the request asks for more than how columns go together"],
            [
                "Say it in a request of its own: 'correlation between A and B', "
                "'correlations with A' or 'correlation matrix'."
            ],
        )
