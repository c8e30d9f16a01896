"""What to compute and how to draw it, once every word is resolved."""

from parsimony_kernel.offline.analysis import Analysis, Group
from parsimony_kernel.offline.missing import not_understood
from parsimony_kernel.offline.resolve.aggregates import aggregated, counted, default_aggregate
from parsimony_kernel.offline.resolve.correlating import correlation_analysis
from parsimony_kernel.offline.resolve.drawings import drawn
from parsimony_kernel.offline.resolve.heat_maps import check_heat_map
from parsimony_kernel.offline.resolve.mentions import group_by, once
from parsimony_kernel.offline.resolve.missing_values import missing_analysis
from parsimony_kernel.offline.resolve.ranks import rank_analysis
from parsimony_kernel.offline.resolve.reading import Reading
from parsimony_kernel.offline.resolve.subject import Subject
from parsimony_kernel.offline.words import spoken


def decide(subject: Subject, reading: Reading) -> Analysis:
    """What to compute and how to draw it; raises ``Missing``."""
    asked = _asked(reading)
    made = _decide(subject, reading)
    check_heat_map(subject, reading, made)
    whole_rows = made.shape in ("rows", "head", "describe") and not made.columns
    lost = set() if whole_rows and not reading.wishes else asked - _used(made)
    if lost:
        raise not_understood(sorted(lost))
    made.notes = [*reading.notes, *made.notes]
    return made


def _asked(reading: Reading) -> set[str]:
    """The names of the columns that were asked for."""
    single = (reading.against, reading.color, reading.sort, reading.rank_by, reading.rank_entity)
    several = [*(c for _, columns in reading.wishes for c in columns), *reading.measures]
    listed = [*single, *several, *(g.column for g in reading.groups)]
    return {c.name for c in listed if c is not None}


def _used(made: Analysis) -> set[str]:
    """The names of the columns that stand in an analysis; whole rows hold every one."""
    single = (made.x, made.color, made.sort, *(a.column for a in made.aggregates))
    listed = [*single, *made.columns, *(g.column for g in made.groups)]
    return {c.name for c in listed if c is not None}


def _decide(subject: Subject, reading: Reading) -> Analysis:
    statement = reading.statement
    if statement.unsupported:
        raise not_understood(statement.unsupported)
    asked = missing_analysis(subject, reading) or correlation_analysis(subject, reading)
    if asked is not None:
        return asked
    if statement.describe:
        return Analysis("describe", columns=reading.measures)
    if statement.head is not None and not (reading.wishes or reading.groups):
        side, count = statement.head
        return Analysis("head", limit=count, tail=side == "tail", columns=reading.measures)
    if statement.rank is not None:
        return rank_analysis(subject, statement.rank, reading)
    _complete_groups(subject, reading)
    if reading.wishes:
        return aggregated(subject, reading)
    if statement.distinct and reading.measures:
        return counted(subject, reading, reading.measures[0])
    if reading.groups or (statement.compare and reading.measures):
        return default_aggregate(subject, reading)
    if statement.chart is not None or statement.over_time or reading.against is not None:
        return drawn(subject, reading)
    columns = list(reading.measures)
    if reading.sort is not None or columns:
        if columns and reading.sort is not None:
            once(columns, reading.sort)
        if columns and all(c.is_number for c in columns):
            # A number alone does not say what it is of.
            columns = [*subject.table.dates[:1], *subject.table.texts[:1], *columns]
        return Analysis(
            "rows",
            columns=columns,
            sort=reading.sort,
            ascending=bool(statement.ascending) if statement.ascending is not None else False,
        )
    return Analysis("head", limit=5)


def _complete_groups(subject: Subject, reading: Reading) -> None:
    statement = reading.statement
    if statement.compare and not reading.groups:
        several = [k for k in reading.keeps if k.op == "in" and len(k.values) > 1]
        if several:
            reading.groups.append(Group(several[0].column, several[0].part))
            if statement.over_time:
                statement.chart = statement.chart or "auto"
    _keep_apart(reading)
    if reading.wishes or reading.groups:
        if reading.color is not None and all(
            g.column.name != reading.color.name for g in reading.groups
        ):
            reading.groups.append(group_by(subject, reading.color))
        if statement.over_time and not any(g.is_time for g in reading.groups):
            reading.groups.insert(0, group_by(subject, subject.time_column()))
        if reading.against is not None:
            reading.groups.insert(0, group_by(subject, reading.against))


def _keep_apart(reading: Reading) -> None:
    """A chart of "the price of A and B" shows one beside the other."""
    if reading.statement.chart is None or len(reading.groups) != 1 or len(reading.wishes) > 1:
        return
    for keep in reading.keeps:
        grouped = any(g.column == keep.column for g in reading.groups)
        if keep.beside and keep.op == "in" and len(keep.values) > 1 and not grouped:
            reading.groups.append(Group(keep.column))
            reading.notes.append(f"I kept {spoken(map(str, keep.values))} apart")
            return
