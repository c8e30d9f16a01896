"""A request is taken apart: sources to load, tasks to do, what to publish after how many tasks."""

from collections.abc import Sequence

from parsimony_kernel.llm.offline.grammar.clauses import (
    Clause,
    Load,
    Mention,
    Publish,
    Refresh,
    Report,
    Statement,
)
from parsimony_kernel.llm.offline.grammar.request import parse
from parsimony_kernel.llm.offline.missing import Declined
from parsimony_kernel.llm.offline.plan.files import SUBJECTS, file_by_name, file_by_words
from parsimony_kernel.llm.offline.plan.sources import add_source
from parsimony_kernel.llm.offline.plan.step import Task, Work
from parsimony_kernel.llm.offline.plan.support import supported
from parsimony_kernel.llm.offline.plan.targets import target
from parsimony_kernel.llm.offline.plan.turn import Turn
from parsimony_kernel.llm.offline.words import Token, fold, singular

MAX_STATEMENTS = 8


def divide(turn: Turn, tokens: Sequence[Token]) -> Work:
    """The work of the request; raises ``Missing``."""
    # Which tables it is about is seen without a schema; only their columns are then read as
    # words of their own. Other tables, such as earlier results, must not lend theirs.
    about = _divided(turn, parse(tokens))
    names = {t.table for t in about.tasks} | {s.name for s in about.sources}
    columns = [c.name for n in names if n in turn.tables for c in turn.tables[n].columns]
    turn.notes.clear()
    return _divided(turn, parse(tokens, sorted(columns)))


def _divided(turn: Turn, parsed: Sequence[Clause]) -> Work:
    clauses = supported(turn, _merged(parsed))
    work = Work()
    current: str | None = None
    for clause in clauses:
        match clause:
            case Load():
                current = _add_load(turn, clause, work)
            case Statement():
                current = target(turn, clause, current, work)
                if len(clauses) == 1 or not _only_names(clause, current):
                    work.tasks.append(Task(clause, current))
            case Publish():
                work.publishing.append((clause, len(work.tasks), current))
            case Report():
                work.reports.append((clause, len(work.tasks), current))
            case Refresh():
                work.refreshing.append(clause)
    if len(work.tasks) > MAX_STATEMENTS:
        raise Declined(
            f"The request asks for {len(work.tasks)} things; {MAX_STATEMENTS} at most are "
            "done in one go.",
            ["too many steps in one request"],
            ["Split it into several cells."],
        )
    return work


def _add_load(turn: Turn, load: Load, work: Work) -> str:
    name = ""
    paths = [file_by_name(turn, file) for file in load.files]
    if not paths:
        text = " ".join(m.text for m in load.words)
        if load.name is None:
            for known in turn.frames:
                if _means(text, known):
                    turn.tell([f"`{known}` is in the notebook already, so I used it"])
                    return known
        paths = [file_by_words(turn, text)]
    for path in paths:
        name = add_source(turn, work, path, load.name if len(paths) == 1 else None)
    return name


def _means(text: str, name: str) -> bool:
    """Whether ``text`` is the name of a variable and nothing else."""
    words = [singular(w) for w in fold(text) if w not in SUBJECTS]
    return words == [singular(w) for w in fold(name)]


def _only_names(statement: Statement, table: str) -> bool:
    """Whether it says no more than which table is meant: "use cars and …"."""
    values = [v for c in statement.conditions for v in c.values if isinstance(v, Mention)]
    said = {singular(w) for m in [*statement.measures, *statement.about, *values]
            for w in fold(m.text)} - SUBJECTS  # fmt: skip
    asks = statement.has_structure or statement.verb
    return bool(said) and said <= {singular(w) for w in fold(table)} and not asks


def _merged(clauses: Sequence[Clause]) -> list[Clause]:
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
