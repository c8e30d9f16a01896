"""What a heat map is drawn of: two groupings whose cells can be told apart."""

from collections.abc import Sequence
from dataclasses import replace

from parsimony_kernel.offline.analysis import Analysis, Group
from parsimony_kernel.offline.missing import Declined
from parsimony_kernel.offline.resolve.reading import Reading
from parsimony_kernel.offline.resolve.subject import Subject
from parsimony_kernel.offline.words import spoken

_MAX_SIDE = 60
# Months of a year by years, hours of a day by weekdays.
_PARTS = {"month": "month_name", "hour": "hour_of_day"}
_WHOLE = frozenset({"year", "weekday", "month_name", "hour_of_day"})
_EXAMPLES = [
    "Name a measure and two groupings, as in 'heat map of mean A by B and C'.",
    "Or ask for a 'correlation heat map'.",
]


def heat_map_groups(groups: Sequence[Group], what: str, notes: list[str]) -> list[Group]:
    """The two groupings of a heat map of ``what``; raises ``Declined`` for fewer.

    Of two spans of the same date, the shorter is taken as a part of the other.
    """
    if len(groups) != 2:
        by = spoken(g.label for g in groups)
        raise Declined(
            "A heat map is drawn by two groupings.",
            [f"the request groups by {by} alone"],
            [f"Name a second one, as in 'heat map of {what} by {by} and …'."],
        )
    if groups[0].column != groups[1].column:
        return list(groups)
    found = [replace(g, unit=_PARTS.get(g.unit or "", g.unit)) for g in groups]
    units = {g.unit for g in found}
    if len(units) < 2 or not units <= _WHOLE:
        raise Declined(
            f"I do not draw {groups[0].label} by {groups[1].label} as a heat map.",
            [f"both are parts of {groups[0].column.name!r}"],
            ["Take month by year, hour by weekday, or month by weekday."],
        )
    for before, after in zip(groups, found, strict=True):
        if before != after:
            notes.append(f"I took {before.label} to mean the {after.label}")
    return found


def check_heat_map(subject: Subject, reading: Reading, made: Analysis) -> None:
    """Raise ``Declined`` where a heat map is asked for that cannot be drawn or read."""
    if reading.statement.chart != "heatmap":
        return
    if made.chart != "heatmap" or made.limit is not None:
        raise nothing_to_map(reading.statement.text)
    if made.shape != "aggregate":
        return
    fine = [g.label for g in made.groups if g.column.is_date and g.unit in (None, "day", "hour")]
    counted = [g.column.name for g in made.groups if g.unit is None and not g.column.is_date]
    if counted and not fine:
        counts = subject.distinct(counted)
        fine = [f"{name} ({counts[name]:,})" for name in counted if counts[name] > _MAX_SIDE]
    if fine:
        raise Declined(
            f"A heat map has {_MAX_SIDE} rows or columns at most, and {spoken(fine)} has more.",
            [f"{spoken(fine)} has too many values"],
            ["Group by something coarser: by month or by year, or by a column with few values."],
        )


def nothing_to_map(text: str) -> Declined:
    """What is said where measures or groupings are missing."""
    return Declined(
        "I do not see what the heat map should show.",
        [f"{text!r} names no measure with two groupings"],
        _EXAMPLES,
    )
