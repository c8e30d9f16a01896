"""A request is taken apart: sources to load, tasks to do, what to publish after how many tasks."""

from collections.abc import Sequence

from parsimony_kernel.offline.grammar.clauses import (
    Clause,
    Derive,
    Join,
    Load,
    Mention,
    Publish,
    Refresh,
    Report,
    Statement,
)
from parsimony_kernel.offline.grammar.request import parse
from parsimony_kernel.offline.missing import Declined
from parsimony_kernel.offline.plan.carrying import carry
from parsimony_kernel.offline.plan.deriving import add_derive
from parsimony_kernel.offline.plan.files import SUBJECTS, file_by_name, file_by_words
from parsimony_kernel.offline.plan.joining import add_join
from parsimony_kernel.offline.plan.merging import merged_charts
from parsimony_kernel.offline.plan.sources import add_source
from parsimony_kernel.offline.plan.step import Task, Work
from parsimony_kernel.offline.plan.support import supported
from parsimony_kernel.offline.plan.targets import target
from parsimony_kernel.offline.plan.turn import Turn
from parsimony_kernel.offline.words import Token, fold, singular

MAX_STATEMENTS = 8


def divide(turn: Turn, tokens: Sequence[Token]) -> Work:
    """The work of the request; raises ``Missing``."""
    # Which tables it is about is seen without a schema; only their columns are then read as
    # words of their own. Other tables, such as earlier results, must not lend theirs.
    about = _divided(turn, parse(tokens))
    names = {t.table for t in about.tasks} | {s.name for s in about.sources}
    names |= {n for p in about.preparing for n in (*p.made_of, p.name)}
    columns = [c.name for n in names if n in turn.tables for c in turn.tables[n].columns]
    columns += [p.column for p in about.preparing if p.column]
    turn.notes.clear()
    return _divided(turn, parse(tokens, sorted(columns)), sorted(columns))


def _divided(turn: Turn, parsed: Sequence[Clause], columns: Sequence[str] = ()) -> Work:
    clauses = supported(turn, carry(turn, merged_charts(parsed), columns))
    work = Work()
    current: str | None = None
    for clause in clauses:
        match clause:
            case Load():
                current = _add_load(turn, clause, work)
            case Derive():
                current = add_derive(turn, clause, current, work)
            case Join():
                current = add_join(turn, clause, current, work)
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
    if (count := len(work.tasks) + len(work.preparing)) > MAX_STATEMENTS:
        raise Declined(
            f"The request asks for {count} things; {MAX_STATEMENTS} at most are done in one go.",
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
