"""Which table a statement is about.

In order: a file it names, a table it names, the table that the request has come to, the table
that has the columns it names. Only tables that fit equally well are asked about.
"""

import re
from collections.abc import Sequence

from parsimony_kernel.llm.offline.answers import choose
from parsimony_kernel.llm.offline.codegen.loading import name_for_file
from parsimony_kernel.llm.offline.columns import candidates, near_values, same_value
from parsimony_kernel.llm.offline.grammar.clauses import Mention, Statement
from parsimony_kernel.llm.offline.lexicon.vocabulary import LEXICON
from parsimony_kernel.llm.offline.missing import Declined
from parsimony_kernel.llm.offline.phrases import help_steps
from parsimony_kernel.llm.offline.plan.files import choose_file, file_by_name, no_files, words_of
from parsimony_kernel.llm.offline.plan.sources import add_source
from parsimony_kernel.llm.offline.plan.step import Work
from parsimony_kernel.llm.offline.plan.turn import Turn
from parsimony_kernel.llm.offline.schema import Table
from parsimony_kernel.llm.offline.words import fold, singular, spoken, stem_of

_FITS = 84.0


def target(turn: Turn, statement: Statement, current: str | None, work: Work) -> str:
    """The variable of the table that ``statement`` is about; raises ``Missing``."""
    if statement.files:
        return [add_source(turn, work, file_by_name(turn, f)) for f in statement.files][-1]
    known = list(dict.fromkeys([*turn.frames, *work.made]))
    named = named_table(turn, statement.text, known)
    if named is not None:
        return named
    if current is not None:
        return current
    if statement.refers_back:
        for name in reversed(turn.transcript.mine):
            if name in turn.frames:
                return name
    path = _file_spoken_of(turn, statement)
    if path is not None:
        return add_source(turn, work, path)
    if turn.frames:
        return _pick(turn, statement)
    return _only_file(turn, work)


def named_table(turn: Turn, text: str, names: Sequence[str]) -> str | None:
    """The table whose name stands in ``text``, as an identifier or word by word."""
    whole = [n for n in names if re.search(rf"(?<!\w){re.escape(n)}(?!\w)", text)]
    if not whole:
        words = f" {_plain(text)} "
        whole = [n for n in names if not _is_result(turn, n) and f" {_plain(n)} " in words]
    # "cars_japan" says more than "cars".
    return max(whole, key=lambda n: len(fold(n))) if whole else None


def _plain(text: str) -> str:
    return " ".join(singular(w) for w in fold(text))


def _is_result(turn: Turn, name: str) -> bool:
    """Whether a table is named after its content, as in ``mean_wind_by_city``.

    Any request for the same content has these words and does not mean the table.
    """
    kinds = {LEXICON.get((word,), ("",))[0] for word in fold(name)}
    return name in turn.results or {"func", "by"} <= kinds


def _file_spoken_of(turn: Turn, statement: Statement) -> str | None:
    before = [turn.tables[name] for name in turn.frames if name in turn.tables]
    columns = {singular(w) for t in before for c in t.columns for w in fold(c.name)}
    words = words_of(statement.text) - columns
    stems = {f: {singular(w) for w in fold(stem_of(f))} for f in turn.files}
    whole = [f for f, stem in stems.items() if stem <= words]
    if len(whole) == 1:
        return whole[0]
    if turn.frames:
        return None
    partial = [f for f, stem in stems.items() if stem & words]
    return partial[0] if len(partial) == 1 else None


def _only_file(turn: Turn, work: Work) -> str:
    if not turn.files:
        raise no_files()
    if len(turn.files) == 1:
        turn.tell([f"No table was named, so I loaded {turn.files[0]!r}, the only data file"])
        return add_source(turn, work, turn.files[0])
    question = "There is no table yet. Which file should I load?"
    return add_source(turn, work, choose_file(turn, question, turn.files))


# -- by columns ----------------------------------------------------------------------------------


def _pick(turn: Turn, statement: Statement) -> str:
    """The table with the columns that the statement names."""
    originals = [n for n in turn.frames if n not in turn.results]
    pool = originals or turn.frames
    mentions = _mentions(statement)
    if not mentions:
        return pool[0] if len(pool) == 1 else _ask(turn, pool)
    ranks = _ranks([turn.tables[n] for n in turn.frames if n in turn.tables], mentions)
    # What was loaded comes before what was made of it, unless columns of that are named.
    first = max((ranks[n][:2] for n in originals if n in ranks), default=())
    if all(rank[:2] <= first for rank in ranks.values()):
        ranks = {n: rank for n, rank in ranks.items() if n in originals}
    highest = max(ranks.values(), default=())
    best = [n for n, rank in ranks.items() if rank == highest]
    # A table that is called like a file comes before others like it.
    files = {name_for_file(f) for f in turn.files}
    best = [n for n in best if n in files] or best
    if len(best) == 1:
        if len(pool) > 1:
            turn.tell([f"I used `{best[0]}`, the table that has these columns"])
        return best[0]
    if not best and len(pool) == 1:
        return pool[0]
    if not best and any(n not in turn.tables for n in pool):
        return _ask(turn, pool)
    if not best:
        missing = spoken((repr(m.text) for m in mentions[:4]), "or")
        raise Declined(
            f"No table of the notebook has anything called {missing}.",
            [f"the tables are {spoken(f'`{n}`' for n in pool[:6])}"],
            ["Name the table and its columns, or load the file that has them.", *help_steps()],
        )
    return _ask(turn, best)


def _ask(turn: Turn, names: Sequence[str]) -> str:
    return choose(turn.answers, "Which table do you mean?", names[:8])


def _mentions(statement: Statement) -> list[Mention]:
    """What must be a column, a time or a value of the table."""
    rank = statement.rank
    values = [v for c in statement.conditions for v in c.values if isinstance(v, Mention)]
    listed = [
        *statement.measures, *statement.groups, *statement.about, *statement.color,
        *statement.against, *statement.sort, *(m for w in statement.wishes for m in w.of),
        *(rank.by if rank else []), *(rank.entity if rank else []),
        *(c.left for c in statement.conditions if c.left is not None), *values,
    ]  # fmt: skip
    if statement.over_time:
        listed.append(Mention("date", unit="time"))
    return listed


def _ranks(tables: Sequence[Table], mentions: Sequence[Mention]) -> dict[str, tuple[float, ...]]:
    """How tables fit: by columns, then by their very names, then by values that were seen."""
    ranks: dict[str, tuple[float, ...]] = {}
    for table in tables:
        columns = [_column_score(table, m) for m in mentions]
        values = [_value_score(table, m) for m in mentions]
        # Any table with dates knows of time: that alone makes no table the one that is meant.
        scores = list(zip(mentions, columns, values, strict=True))
        named = [c or v for m, c, v in scores if not _is_time(m)]
        if any(named or columns):
            exact = sum(c >= 95 for c in columns)
            ranks[table.name] = (
                sum(c > 0 for c in columns), exact, sum(v for _, c, v in scores if not c),
                sum(columns),
            )  # fmt: skip
    return ranks


def _column_score(table: Table, mention: Mention) -> float:
    """How well a column is what is mentioned: 0 is none, 100 is by that very name."""
    near = candidates(mention.text, table.columns)
    named = max((m.score for m in near if not m.extra), default=0.0)
    if mention.unit is not None:
        return max(named if named >= 90 else 0.0, 95.0 if table.dates or table.years else 0.0)
    if _is_time(mention):
        return max(named, 95.0 if table.dates else 0.0)
    return named if named >= _FITS else max((m.score for m in near), default=0.0)


def _value_score(table: Table, mention: Mention) -> float:
    """How well a value that was seen is what is mentioned."""
    seen = [s for c in table.texts for s in c.samples]
    if any(same_value(mention.text, s) for s in seen):
        return 1.0
    return 0.5 if near_values(mention.text, seen, 1) else 0.0


def _is_time(mention: Mention) -> bool:
    return mention.unit is not None or mention.text.casefold() in ("time", "date")
