"""A resolved ranking becomes an analysis: rows where each stands for itself, else groups."""

from parsimony_kernel.offline.analysis import Aggregate, Analysis, Group
from parsimony_kernel.offline.grammar.clauses import Rank
from parsimony_kernel.offline.missing import Declined, not_understood
from parsimony_kernel.offline.resolve.aggregates import (
    aggregated,
    any_measure,
    grouped,
    is_additive,
)
from parsimony_kernel.offline.resolve.mentions import group_by
from parsimony_kernel.offline.resolve.reading import Reading
from parsimony_kernel.offline.resolve.subject import Subject, names_of
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import spoken


def rank_analysis(subject: Subject, rank: Rank, reading: Reading) -> Analysis:
    """Rows, where each stands for itself or nothing groups them; else groups by a function."""
    statement = reading.statement
    entity, by = reading.rank_entity, reading.rank_by
    if reading.wishes and (reading.groups or entity is not None):
        if entity is not None and not reading.groups:
            reading.groups.append(group_by(subject, entity))
        return aggregated(subject, reading)
    measures = [c for c in reading.measures if c != by]
    if by is None and rank.func != "count":
        if len(measures) == 1 and measures[0].is_number:
            by, measures = measures[0], []
        elif entity is not None and entity.is_number:
            by, entity = entity, None
        elif entity is None and not reading.groups and not statement.chart:
            return Analysis("head", limit=rank.count, tail=rank.ascending)
        else:
            by = any_measure(
                subject, reading, "top values", f"rank {entity.name}" if entity else "rank"
            )
    if measures and entity is None:
        entity, measures = measures[0], measures[1:]
    if measures:
        raise not_understood(c.name for c in measures)
    groups = reading.groups or ([group_by(subject, entity)] if entity is not None else [])
    if rank.func == "count" and not groups and by is not None:
        groups, by = [group_by(subject, by)], None
    if rank.func == "count":
        if not groups:
            raise Declined("I do not see what to count.", ["no column is named to count by"])
        reading.groups = groups
        return grouped(reading, [Aggregate("count")], [])
    assert by is not None
    if by.is_text:
        raise Declined(
            f"{by.name!r} holds text and gives no order of size.",
            [f"{by.name!r} is not a measure"],
            [f"Rank by one of {spoken(names_of(subject.table.numbers), 'or')}."],
        )
    # What is one row each is ranked row by row.
    each = entity or (groups[0].column if groups and groups[0].unit == "day" else None)
    each = each if rank.func is None and not is_additive(by) else None
    if not groups or (each is not None and subject.is_unique(each)):
        if statement.chart is not None and entity is None:
            raise Declined(
                "A chart of single rows needs a column that names them.",
                ["no column is named that labels the bars"],
            )
        columns = [c for c in (entity, by) if c is not None] if statement.chart else []
        return Analysis(
            "rows",
            columns=columns,
            sort=by,
            limit=rank.count,
            ascending=rank.ascending,
            chart="bar" if statement.chart else None,
        )
    func, notes = rank.func, []
    if func is None:
        if is_additive(by):
            func = "sum"
            notes.append(f"I ranked by the total of {by.name!r}")
        else:
            func = _rank_function(subject, by, groups[0])
    reading.groups = groups
    return grouped(reading, [Aggregate(func, by)], notes)


def _rank_function(subject: Subject, by: Column, group: Group) -> str:
    options = {
        f"mean {by.name}": "mean",
        f"total {by.name}": "sum",
        f"maximum {by.name}": "max",
        f"minimum {by.name}": "min",
    }
    choice = subject.choose(
        f"Each {group.label} has several rows. By what should I rank them?", list(options)
    )
    return options[choice]
