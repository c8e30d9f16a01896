"""A resolved statement that aggregates becomes an analysis: counts, totals, means, by groups.

A function that was not named is chosen only where one is right, and that is noted.
"""

from collections.abc import Sequence

from parsimony_kernel.offline.analysis import Aggregate, Analysis, Group
from parsimony_kernel.offline.lexicon.measures import ADDITIVE
from parsimony_kernel.offline.lexicon.vocabulary import LEXICON
from parsimony_kernel.offline.missing import Ask, Declined, not_understood
from parsimony_kernel.offline.resolve.heat_maps import heat_map_groups
from parsimony_kernel.offline.resolve.mentions import group_by
from parsimony_kernel.offline.resolve.reading import Reading
from parsimony_kernel.offline.resolve.subject import Subject, bare_reply, names_of
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import canonical, fold, spoken


def aggregated(subject: Subject, reading: Reading) -> Analysis:
    """The functions that were named, over columns and groups."""
    statement = reading.statement
    aggregates: list[Aggregate] = []
    notes: list[str] = []
    for func, columns in reading.wishes:
        if func == "count":
            aggregates += _counts(subject, reading, columns)
            continue
        chosen = columns or reading.measures
        if not chosen:
            chosen = [any_measure(subject, reading, func)]
        for column in chosen:
            if func != "nunique" and not column.is_number:
                column = _numeric_instead(subject, column, func)
            aggregates.append(Aggregate(func, column))
    aggregates = list(dict.fromkeys(aggregates))
    if not aggregates:
        return counted(subject, reading, reading.groups[0].column)
    extra = [c for c in reading.measures if all(c != a.column for a in aggregates)]
    if extra and not reading.groups and all(a.column is None for a in aggregates):
        reading.groups += [group_by(subject, c) for c in extra]
        extra = []
    if extra and all(a.column is not None for a in aggregates):
        extra_texts = [c for c in extra if c.is_text]
        if extra_texts and not reading.groups:
            reading.groups += [group_by(subject, c) for c in extra_texts]
            notes.append(f"I grouped by {spoken(c.name for c in extra_texts)}")
            extra = [c for c in extra if not c.is_text]
    if extra and all(a.column is not None for a in aggregates):
        raise not_understood(c.name for c in extra)
    if not reading.groups:
        if statement.chart is not None:
            reading.groups.append(any_group(subject, aggregates[0]))
        else:
            return Analysis("scalar", aggregates=aggregates, notes=notes)
    return grouped(reading, aggregates, notes)


def _numeric_instead(subject: Subject, column: Column, func: str) -> Column:
    kind = "dates" if column.is_date else "text"
    question = f"{column.name!r} holds {kind}. Which column should I take the {word_for(func)} of?"
    answered = subject.answered(question, f"the {word_for(func)}")
    if answered is None:
        raise Ask(question, names_of(subject.table.numbers))
    return answered


def _counts(subject: Subject, reading: Reading, columns: Sequence[Column]) -> list[Aggregate]:
    if not columns:
        return [Aggregate("count")]
    column = columns[0]
    if any(g.column == column for g in reading.groups):
        return [Aggregate("count")]
    if not reading.groups and (reading.statement.chart is not None or not column.is_number):
        each = f"the rows for each {column.name}"
        distinct = f"the different values of {column.name}"
        if (
            reading.statement.chart is not None
            or subject.choose(f"What should I count: {each}, or {distinct}?", [each, distinct])
            == each
        ):
            reading.groups.append(group_by(subject, column))
            return [Aggregate("count")]
        return [Aggregate("nunique", column)]
    options = {"the rows": Aggregate("count")}
    if column.is_number:
        options[f"the total of {column.name}"] = Aggregate("sum", column)
    options[f"the different values of {column.name}"] = Aggregate("nunique", column)
    question = f"How should I count {column.name!r}?"
    return [options[subject.choose(question, list(options))]]


def counted(subject: Subject, reading: Reading, column: Column) -> Analysis:
    """The rows for each value of a column."""
    reading.groups = reading.groups or [group_by(subject, column)]
    return grouped(reading, [Aggregate("count")], [])


def default_aggregate(subject: Subject, reading: Reading) -> Analysis:
    """A function where none was named: a total where that says something, else a mean."""
    measures = [
        c
        for c in reading.measures
        if c.is_number and all(c.name != g.column.name for g in reading.groups)
    ]
    texts = [c for c in reading.measures if not c.is_number]
    only = subject.table.numbers
    if (
        not measures
        and not texts
        and len(only) == 1
        and (reading.statement.compare or any(k.beside for k in reading.keeps))
    ):
        measures = list(only)
    if texts and not measures:
        reading.groups = [*reading.groups, *(group_by(subject, c) for c in texts)]
        notes = ["No measure was named, so I counted rows"]
        return grouped(reading, [Aggregate("count")], notes)
    if texts:
        raise not_understood(c.name for c in texts)
    if not reading.groups:
        reading.groups.append(any_group(subject, Aggregate("mean", measures[0])))
    if not measures:
        notes = ["No measure was named, so I counted rows"]
        return grouped(reading, [Aggregate("count")], notes)
    aggregates, notes = [], []
    for column in measures:
        func = "sum" if is_additive(column) else "mean"
        aggregates.append(Aggregate(func, column))
        notes.append(f"No function was named, so I took the {word_for(func)} of {column.name!r}")
    return grouped(reading, aggregates, notes)


def grouped(reading: Reading, aggregates: list[Aggregate], notes: list[str]) -> Analysis:
    """Aggregates over groups, with the chart that fits them."""
    statement = reading.statement
    groups = list({(g.column.name, g.unit): g for g in reading.groups}.values())
    if len({g.column.name for g in groups}) < len(groups) and any(g.unit is None for g in groups):
        # "by month over time" names one column twice: the coarser reading is meant
        groups = [g for g in groups if g.unit is not None or not g.column.is_date]
    chart = statement.chart
    if chart is not None:
        if len(groups) > 2:
            raise Declined(
                "A chart shows two groupings at most.",
                [f"the request groups by {spoken(g.label for g in groups)}"],
                ["Ask for the table, or name two groupings."],
            )
        if chart == "histogram":
            raise Declined(
                "A histogram shows single values, not groups.",
                [f"the request groups by {spoken(g.label for g in groups)}"],
                ["Ask for a bar chart, or leave the grouping out."],
            )
        if chart == "heatmap":
            groups = heat_map_groups(groups, aggregates[0].label, notes)
        groups = sorted(groups, key=lambda g: not g.is_time)
        if chart in ("auto", "scatter"):
            chart = "line" if groups[0].is_time and chart == "auto" else chart
            chart = "bar" if chart == "auto" else chart
    if chart is not None and len(groups) == 2 and len(aggregates) > 1:
        raise Declined(
            "A chart with two groupings shows one measure.",
            [f"the request names {spoken(a.label for a in aggregates)}"],
            ["Ask for one measure at a time."],
        )
    made = Analysis(
        "aggregate",
        aggregates=aggregates,
        groups=groups,
        chart=chart,
        ascending=aggregates[0].func == "min",
        notes=notes,
    )
    if reading.sort is not None:
        by_group = any(g.column == reading.sort for g in groups)
        if not by_group and all(a.column != reading.sort for a in aggregates):
            raise not_understood([f"sorted by {reading.sort.name}"])
        made.sort = reading.sort if by_group else None
        made.descending = statement.ascending is False
    if statement.ascending is not None:
        made.ascending = statement.ascending
    made.stacked = statement.stacked
    if statement.rank is not None:
        # The extreme of all groups is read off the whole, sorted table.
        made.limit = statement.rank.count if statement.rank.count > 1 else None
        made.ascending = statement.rank.ascending
    return made


def any_measure(subject: Subject, reading: Reading, func: str, what: str = "") -> Column:
    """The measure that was not named: the only one, or the one that the person names."""
    options = subject.table.numbers
    question = (
        f"By which column of `{subject.table.name}` should I {what}?"
        if what
        else f"Which column of `{subject.table.name}` should I take the {word_for(func)} of?"
    )
    answered = subject.answered(question, f"the {word_for(func)}")
    if answered is not None:
        return answered
    if not options:
        raise Declined(
            f"`{subject.table.name}` has no numeric column.", ["there is nothing to measure"]
        )
    if len(options) == 1:
        reading.notes.append(f"No measure was named, so I took {options[0].name!r}, the only one")
        return options[0]
    raise Ask(question, names_of(options))


def any_group(subject: Subject, aggregate: Aggregate) -> Group:
    """The grouping of a chart that names none, asked for."""
    question = f"By which column of `{subject.table.name}` should I draw the {aggregate.label}?"
    reply = bare_reply(subject.known.answers.get(question, "")).casefold().split()
    unit = LEXICON.get(tuple(reply[-1:]), ("", None))
    if len(reply) == 1 and unit[0] == "unit" and subject.table.dates:
        return Group(subject.table.dates[0], unit[1])
    answered = subject.answered(question, "the grouping")
    if answered is not None:
        return group_by(subject, answered)
    raise Ask(question, names_of(subject.table.categories))


def is_additive(column: Column) -> bool:
    """Whether a total of the column says something."""
    return bool(ADDITIVE & set(canonical(fold(column.name)))) and not (
        {"mean", "average", "per", "price", "rate"} & set(fold(column.name))
    )


def word_for(func: str) -> str:
    """A function in words."""
    return {"sum": "total", "nunique": "number of different values"}.get(func, func)
