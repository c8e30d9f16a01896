"""Which table a statement is about.

In order: a file it names, a table it names, the table that the request has come to, the table
that has the columns it names. Only tables that fit equally well are asked about.
"""

import re
from collections.abc import Sequence
from itertools import permutations

from parsimony_kernel.offline.answers import choose
from parsimony_kernel.offline.codegen.loading import name_for_file
from parsimony_kernel.offline.columns import candidates, near_values, same_value
from parsimony_kernel.offline.grammar.clauses import Join, Mention, Rank, Statement
from parsimony_kernel.offline.lexicon.vocabulary import LEXICON
from parsimony_kernel.offline.missing import STOP, Declined
from parsimony_kernel.offline.phrases import help_steps
from parsimony_kernel.offline.plan.files import choose_file, file_by_name, no_files, words_of
from parsimony_kernel.offline.plan.preparing import prepare_join
from parsimony_kernel.offline.plan.sources import add_source
from parsimony_kernel.offline.plan.step import Work
from parsimony_kernel.offline.plan.turn import Turn
from parsimony_kernel.offline.resolve.joining import shared
from parsimony_kernel.offline.schema import Table
from parsimony_kernel.offline.words import fold, singular, spoken, stem_of

_FITS = 84.0
_SURE = 90.0


def target(turn: Turn, statement: Statement, current: str | None, work: Work) -> str:
    """The variable of the table that ``statement`` is about; raises ``Missing``."""
    if statement.files:
        return [add_source(turn, work, file_by_name(turn, f)) for f in statement.files][-1]
    known = list(dict.fromkeys([*turn.frames, *work.made]))
    named = named_table(turn, statement.text, known)
    if named is not None and _is_column_of_another(turn, statement, named):
        return _pick(turn, statement)
    if named is not None:
        named = _with_new_columns(named, work)
        _name_new_column(statement, named, work)
        return _joined(turn, statement, work, named) or named
    if current is not None:
        _name_new_column(statement, current, work)
        return current
    if statement.refers_back:
        for name in reversed(turn.transcript.mine):
            if name in turn.frames:
                return name
    path = file_spoken_of(turn, statement)
    if path is not None:
        return add_source(turn, work, path)
    if turn.frames:
        return _joined(turn, statement, work) or _pick(turn, statement)
    return _only_file(turn, work)


def named_table(turn: Turn, text: str, names: Sequence[str]) -> str | None:
    """The table whose name stands in ``text``, as an identifier or word by word."""
    whole = [n for n in names if re.search(rf"(?<!\w){re.escape(n)}(?!\w)", text)]
    if not whole:
        words = f" {_plain(text)} "
        for column in {_plain(c.name) for t in turn.tables.values() for c in t.columns}:
            # "customer id" is a column, and says nothing of a table of customers.
            if " " in column and column not in map(_plain, names):
                words = words.replace(f" {column} ", " | ")
        whole = [n for n in names if not _is_result(turn, n) and f" {_plain(n)} " in words]
    # "cars_japan" says more than "cars".
    return max(whole, key=lambda n: len(fold(n))) if whole else None


def _is_column_of_another(turn: Turn, statement: Statement, name: str) -> bool:
    """Whether ``name`` reads as a column here: "mean spread by weather" where the table `weather`
    has no spread, and another table has both."""
    mentions = [m for m in _mentions(statement) if not _is_time(m)]
    if not any(fold(m.text) == fold(name) for m in mentions):
        return False
    fits = {t.name for t in turn.tables.values() if t.name in turn.frames and all(
        _column_score(t, m) >= _SURE for m in mentions)}  # fmt: skip
    return bool(fits) and name not in fits


def _with_new_columns(name: str, work: Work) -> str:
    """The table ``name`` with the columns that this request has added to it."""
    for prepared in work.preparing:
        if prepared.column is not None and prepared.made_of == (name,):
            name = prepared.name
    return name


def _name_new_column(statement: Statement, current: str, work: Work) -> None:
    """ "Plot it" after a column was added is about the column."""
    last = work.preparing[-1] if work.preparing else None
    if last is None or last.name != current or last.column is None or not statement.refers_back:
        return
    mention = Mention(last.column, last.column)
    asks = statement.chart or statement.wishes or statement.groups or statement.over_time
    named = statement.measures or statement.about or any(w.of for w in statement.wishes)
    if statement.rank is not None or statement.head is not None:
        if re.search(r"\bby (?:it|that|this)\b", statement.text):
            rank = statement.rank or Rank(statement.head[1] if statement.head else 0, False)
            rank.by, statement.rank, statement.head = [*rank.by, mention], rank, None
    elif asks and not named:
        (statement.wishes[-1].of if statement.wishes else statement.measures).append(mention)


def _plain(text: str) -> str:
    return " ".join(singular(w) for w in fold(text))


def _is_result(turn: Turn, name: str) -> bool:
    """Whether a table is named after its content, as in ``mean_wind_by_city``.

    Any request for the same content has these words and does not mean the table.
    """
    kinds = {LEXICON.get((word,), ("",))[0] for word in fold(name)}
    return name in turn.results or {"func", "by"} <= kinds


def file_spoken_of(turn: Turn, statement: Statement) -> str | None:
    """The file that is named by its words; none where several or none could be meant."""
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
        raise no_files(turn)
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


def _joined(turn: Turn, statement: Statement, work: Work, first: str | None = None) -> str | None:
    """Two tables as one, if the columns that are named are in two and the person agrees.

    ``first`` is the table that was named, if one was.
    """
    named = [m for m in _mentions(statement) if not _is_time(m)]
    holding = {
        t.name: [m for m in named if _column_score(t, m) >= _SURE]
        for t in turn.tables.values()
        if t.name in turn.frames
    }
    sure = [m for m in named if any(m in held for held in holding.values())]
    whole = [n for n, held in holding.items() if len(held) == len(sure) and first in (None, n)]
    if whole or len(sure) < 2 - (first in holding) or first not in (None, *holding):
        return None
    measures = [*(m for w in statement.wishes for m in w.of), *statement.measures]
    sure.sort(key=lambda m: m not in measures)
    tables = [turn.tables[n] for n in holding if n not in turn.results]
    offers = [
        (left, right, keys[0][0].name)
        for left, right in permutations(tables, 2)
        if (sure[0] in holding[left.name] if first is None else left.name == first)
        and all(m in holding[left.name] or m in holding[right.name] for m in sure)
        and len(keys := shared(left, right)) == 1
    ]
    if len(offers) != 1:
        return None
    left, right, key = offers[0]
    ours = spoken(m.text for m in sure if m in holding[left.name])
    theirs = spoken(m.text for m in sure if m not in holding[left.name])
    question = (
        f"`{left.name}` has {ours or 'no such column'} and `{right.name}` has {theirs}. "
        f"Shall I join them by {key!r}, which both have?"
    )
    choose(turn.answers, question, ["Yes, join them", STOP])
    clause = Join(keys=[Mention(key, key)], text=statement.text)
    return prepare_join(turn, clause, (left.name, right.name), work)


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
