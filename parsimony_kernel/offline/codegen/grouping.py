"""The keys and functions of an aggregation, as arguments of pandas' ``groupby`` and ``agg``."""

import keyword
from collections.abc import Sequence
from dataclasses import dataclass

from parsimony_kernel.offline.analysis import Aggregate, Group
from parsimony_kernel.offline.codegen.cells import Options
from parsimony_kernel.offline.codegen.conversions import as_dates, values_of
from parsimony_kernel.offline.codegen.python import literal, unique
from parsimony_kernel.offline.words import slug


@dataclass(frozen=True)
class Key:
    """A group as a column of the result: its name and the code that groups by it."""

    name: str
    code: str
    group: Group


def keys_of(
    table: str, groups: Sequence[Group], options: Options, used: set[str]
) -> tuple[list[Key], dict[str, str]]:
    """The keys of ``groups``, and the columns that must be made first."""
    keys: list[Key] = []
    assigned: dict[str, str] = {}
    taken = set(used)
    for group in groups:
        column = group.column
        values = values_of(table, column, options)
        name, code = column.name, literal(column.name)
        if column.is_date:
            dates = as_dates(values, column, options)
            match group.unit:
                case "year" | "weekday" | "month_name" | "hour_of_day":
                    part = {
                        "weekday": "day_name()",
                        "month_name": "month_name()",
                        "hour_of_day": "hour",
                    }
                    name = group.unit
                    while name in taken:
                        name = f"{name}_of_{slug(column.name)}"
                    assigned[name] = f"{dates}.dt.{part.get(group.unit, group.unit)}"
                    code = literal(name)
                case None:
                    if column.kind == "date_text":
                        assigned[name] = dates
                case unit:
                    if column.kind == "date_text":
                        assigned[name] = dates
                    freq = {"hour": "h", "day": "D", "week": "W", "month": "MS", "quarter": "QS"}
                    code = f'pd.Grouper(key={literal(name)}, freq="{freq[unit]}")'
        taken.add(name)
        keys.append(Key(name, code, group))
    return keys, assigned


def aggregate_names(aggregates: Sequence[Aggregate], keys: Sequence[str]) -> list[str]:
    """The aggregates' columns, none of them named as a key."""
    names: list[str] = []
    for aggregate in aggregates:
        names.append(unique(aggregate.name, [*names, *keys]))
    return names


def aggregation(aggregates: Sequence[Aggregate], labels: Sequence[str]) -> str:
    """The call that computes ``aggregates`` under ``labels``."""
    measured = next(a.column for a in aggregates if a.column is not None)
    parts = []
    for aggregate, label in zip(aggregates, labels, strict=True):
        column = aggregate.column or measured
        func = "size" if aggregate.column is None else aggregate.func
        if label.isidentifier() and not keyword.iskeyword(label):
            parts.append(f'{label}=({literal(column.name)}, "{func}")')
        else:
            parts.append(f'**{{{literal(label)}: ({literal(column.name)}, "{func}")}}')
    return f".agg({', '.join(parts)})"


def calendar_order(name: str, column: str, unit: str) -> str:
    """The statement that puts names of days or months in the order of the calendar."""
    calendar = "day_name" if unit == "weekday" else "month_name"
    listed = (
        "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
        if calendar == "day_name"
        else "January February March April May June July August September October November December"
    )
    return (
        f"\n{name} = {name}.sort_values(\n    {literal(column)},\n"
        f"    key=lambda names: names.map({literal(listed)}.split().index),\n"
        "    ignore_index=True,\n)"
    )
