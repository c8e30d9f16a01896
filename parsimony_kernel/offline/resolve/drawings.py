"""A resolved wish for a chart of single rows becomes an analysis; the data choose its kind."""

from parsimony_kernel.offline.analysis import Aggregate, Analysis, Group
from parsimony_kernel.offline.missing import Ask, Declined, not_understood
from parsimony_kernel.offline.resolve.aggregates import any_group, default_aggregate, grouped
from parsimony_kernel.offline.resolve.heat_maps import nothing_to_map
from parsimony_kernel.offline.resolve.mentions import group_by
from parsimony_kernel.offline.resolve.named import named_columns
from parsimony_kernel.offline.resolve.reading import Reading
from parsimony_kernel.offline.resolve.subject import Subject, names_of
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import spoken

# Whole numbers with more values than this are measures, and name no kinds.
_MAX_KINDS = 12


def drawn(subject: Subject, reading: Reading) -> Analysis:
    """The chart of the columns that are named."""
    statement = reading.statement
    measures, against = list(reading.measures), reading.against
    chart = statement.chart or "auto"
    if chart == "heatmap":
        return _heat_map(subject, reading)
    if not measures:
        if chart == "auto" and against is None and reading.color is None:
            options = [*subject.table.numbers, *subject.table.texts]
            question = f"Which column of `{subject.table.name}` should I plot?"
        else:
            options = [*subject.table.numbers]
            question = f"Which column of `{subject.table.name}` should the {chart} chart show?"
        alone = options[0] if len(options) == 1 else None
        answered = alone or subject.answered(question, "the column to plot")
        if answered is None:
            raise Ask(question, names_of(options))
        measures = [answered]
    if against is not None:
        return _against(subject, reading, measures, against, chart)
    if chart == "scatter":
        return _scatter(subject, reading, measures)
    numbers = [c for c in measures if c.is_number]
    others = [c for c in measures if not c.is_number]
    if chart == "histogram" or (chart == "auto" and not numbers):
        if len(measures) > 1:
            raise not_understood(c.name for c in measures[1:])
        return _one(subject, reading, measures[0])
    if others and numbers:
        dated = [c for c in others if c.is_date]
        if dated and len(others) == 1:
            return _line(subject, reading, numbers, dated[0])
        reading.groups += [group_by(subject, c) for c in others]
        reading.measures = numbers
        return default_aggregate(subject, reading)
    if chart == "bar":
        if others:
            return _one(subject, reading, others[0])
        reading.groups.append(any_group(subject, Aggregate("mean", numbers[0])))
        return default_aggregate(subject, reading)
    if statement.over_time or chart == "line":
        return _line(subject, reading, numbers, _x_axis(subject))
    if len(subject.table.dates) == 1:
        date = subject.table.dates[0]
        if len(numbers) != 2 or subject.is_unique(date):
            return _line(subject, reading, numbers, date)
    if len(numbers) == 2:
        return _scatter(subject, reading, numbers)
    if len(numbers) > 2:
        raise Declined(
            "I do not see how to draw these columns together.",
            [f"the request names {spoken(c.name for c in numbers)}"],
            ["Name two of them for a scatter plot, or one for a histogram."],
        )
    return _one(subject, reading, numbers[0])


def _heat_map(subject: Subject, reading: Reading) -> Analysis:
    """The rows counted by two columns."""
    against = [reading.against] if reading.against is not None else []
    sides = [*named_columns(subject, reading), *against]
    if len(sides) != 2 or any(c not in subject.table.categories for c in sides):
        raise nothing_to_map(reading.statement.text)
    measured = [c.name for c in sides if c.is_number and not c.is_year]
    if measured and any(subject.distinct(measured)[name] > _MAX_KINDS for name in measured):
        raise nothing_to_map(reading.statement.text)
    reading.groups += [group_by(subject, c) for c in sides]
    notes = ["No measure was named, so I counted rows"]
    return grouped(reading, [Aggregate("count")], notes)


def _one(subject: Subject, reading: Reading, column: Column) -> Analysis:
    if column.is_number and not column.is_year:
        if reading.color is not None:
            raise Declined(
                "A histogram is drawn in one colour.", ["colour by column in a histogram"]
            )
        return Analysis(
            "histogram",
            columns=[column],
            chart="histogram",
            bins=min(max(reading.statement.bins or 20, 1), 200),
        )
    reading.groups.append(group_by(subject, column))
    reading.statement.chart = "auto"
    return grouped(reading, [Aggregate("count")], [])


def _x_axis(subject: Subject) -> Column:
    if subject.table.dates or subject.table.years:
        return subject.time_column()
    question = f"Which column of `{subject.table.name}` should run along the x axis?"
    answered = subject.answered(question, "the x axis")
    if answered is None:
        raise Ask(question, names_of(subject.table.numbers))
    return answered


def _against(
    subject: Subject, reading: Reading, measures: list[Column], against: Column, chart: str
) -> Analysis:
    if against.is_date:
        return _line(subject, reading, measures, against)
    if against.is_number and measures[0].is_number and chart != "bar":
        return _scatter(subject, reading, [against, measures[0]])
    groups, numbers = ([against], measures) if measures[0].is_number else (measures[:1], [against])
    reading.groups += [group_by(subject, c) for c in groups]
    reading.measures = numbers
    return default_aggregate(subject, reading)


def _scatter(subject: Subject, reading: Reading, columns: list[Column]) -> Analysis:
    if len(columns) == 1:
        question = (
            f"Which column of `{subject.table.name}` should {columns[0].name!r} be set against?"
        )
        answered = subject.answered(question, "the other axis")
        if answered is None:
            options = [c for c in subject.table.numbers if c != columns[0]]
            raise Ask(question, names_of(options))
        columns = [answered, columns[0]]
    if len(columns) > 2:
        raise not_understood(c.name for c in columns[2:])
    return Analysis("scatter", columns=columns, color=reading.color, chart="scatter")


def _line(subject: Subject, reading: Reading, measures: list[Column], x: Column) -> Analysis:
    if not x.is_date and not x.is_year and x.is_text:
        reading.groups.append(group_by(subject, x))
        reading.measures = measures
        return default_aggregate(subject, reading)
    if x.is_date:
        subject.day_order(x)
    texts = [c.name for c in subject.table.texts]
    color, notes = reading.color, []
    if color is not None or len(measures) > 1:
        return Analysis("line", columns=measures, x=x, color=color, chart="line")
    if not texts and not x.is_year and subject.table.rows is None:
        return Analysis("line", columns=measures, x=x, chart="line")
    counts = subject.distinct([x.name, *texts[:10]])
    rows = subject.table.rows or 0
    if counts[x.name] >= rows:
        return Analysis("line", columns=measures, x=x, chart="line")
    # Several rows share a date: one line through all of them would be nonsense.
    entities = [t for t in texts[:10] if 1 < counts[t] <= 12 and counts[t] * counts[x.name] >= rows]
    if len(entities) == 1:
        color = subject.table.column(entities[0])
        notes.append(f"I drew one line per {entities[0]}, since its rows share their dates")
        return Analysis("line", columns=measures, x=x, color=color, chart="line", notes=notes)
    options = {f"mean {measures[0].name} per {x.name}": ""} | {
        f"one line per {name}": name for name in entities
    }
    if len(options) == 1:
        notes.append(f"Several rows share a {x.name}, so I took the mean of {measures[0].name!r}")
        choice = next(iter(options))
    else:
        choice = subject.choose(
            f"Several rows of `{subject.table.name}` share a {x.name}. What should I draw?",
            list(options),
        )
    if options[choice]:
        color = subject.table.column(options[choice])
        return Analysis("line", columns=measures, x=x, color=color, chart="line")
    reading.groups = [Group(x)]
    reading.statement.chart = "line"
    return grouped(reading, [Aggregate("mean", measures[0])], notes)
