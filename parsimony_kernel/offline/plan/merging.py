"""Clauses that say how to draw what came before, or how to group what comes after, are joined.

A report that was asked for before what it shows comes after it.
"""

from collections.abc import Sequence
from itertools import takewhile

from parsimony_kernel.offline.grammar.clauses import (
    Clause,
    Load,
    Publish,
    Report,
    Statement,
)
from parsimony_kernel.offline.words import word_set

_SEVERAL = word_set("them both these those all")


def merged_charts(clauses: Sequence[Clause]) -> list[Clause]:
    """Clauses that only say how to draw what came before are joined to it."""
    merged: list[Clause] = []
    for clause in _in_order(clauses):
        last = merged[-1] if merged else None
        if isinstance(clause, Statement) and isinstance(last, Statement):
            drawable = last.chart is None and not last.describe and not last.head
            asks = bool(last.wishes or last.groups or last.rank or last.distinct)
            only_groups = bool(last.groups) and not (last.wishes or last.chart or last.rank)
            grouping = last.verb == "group" or not last.measures
            if only_groups and grouping and clause.wishes and not clause.groups:
                clause.groups, clause.text = last.groups, f"{last.text} {clause.text}"
                clause.conditions = [*last.conditions, *clause.conditions]
                clause.files = [*last.files, *clause.files]
                merged[-1] = clause
                continue
            if clause.bare_chart and drawable and asks and not clause.unsupported:
                for statement in _meant(merged, clause.text):
                    statement.chart, statement.stacked = clause.chart, clause.stacked
                continue
        shown = clause.shows if isinstance(clause, Report) else clause
        drawn = any(isinstance(c, Statement) and c.chart for c in merged)
        if isinstance(shown, Publish) and "chart" in shown.kinds and not drawn:
            for statement in _meant(merged, "all" if shown.every else ""):
                statement.chart = "auto"
        merged.append(clause)
    return merged


def _meant(merged: Sequence[Clause], said: str) -> list[Statement]:
    """What is to be drawn: the last that can be, or all when ``said`` speaks of several."""
    found: list[Statement] = []
    for clause in reversed(merged):
        if not isinstance(clause, Statement) or clause.chart or clause.describe or clause.head:
            break
        if clause.wishes or clause.groups or clause.rank or clause.distinct or clause.over_time:
            found.append(clause)
    several = _SEVERAL & word_set(said.casefold())
    return found if several else found[:1]


def _in_order(clauses: Sequence[Clause]) -> list[Clause]:
    """``clauses`` with a report that has nothing to show yet behind what follows."""
    loads = list(takewhile(lambda clause: isinstance(clause, Load), clauses))
    rest = list(clauses[len(loads) :])
    report, follows = (rest[0], rest[1:]) if rest else (None, [])
    if not isinstance(report, Report) or report.shows.kinds or report.shows.target:
        return list(clauses)
    shown = all(isinstance(clause, Statement) for clause in follows)
    return [*loads, *follows, report] if shown else list(clauses)
