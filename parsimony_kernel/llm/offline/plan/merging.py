"""Clauses that say how to draw what came before, or how to group what comes after, are joined."""

from collections.abc import Sequence

from parsimony_kernel.llm.offline.grammar.clauses import Clause, Publish, Report, Statement


def merged_charts(clauses: Sequence[Clause]) -> list[Clause]:
    """Clauses that only say how to draw what came before are joined to it."""
    merged: list[Clause] = []
    for clause in clauses:
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
                last.chart, last.stacked = clause.chart, clause.stacked
                continue
        shown = clause.shows if isinstance(clause, Report) else clause
        if isinstance(shown, Publish) and "chart" in shown.kinds and isinstance(last, Statement):
            asks = bool(last.wishes or last.groups or last.rank or last.over_time)
            drawn = any(isinstance(c, Statement) and c.chart for c in merged)
            if asks and not drawn:
                last.chart = "auto"
        merged.append(clause)
    return merged
