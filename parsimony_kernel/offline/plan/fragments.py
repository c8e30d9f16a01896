"""Which statements only make sense beside an earlier one, and what their words are in it."""

import re
from collections.abc import Sequence
from dataclasses import replace

from parsimony_kernel.offline.columns import ranked, same_value
from parsimony_kernel.offline.grammar.clauses import Condition, Mention, Statement, Wish
from parsimony_kernel.offline.grammar.items import read_items
from parsimony_kernel.offline.lexicon.vocabulary import LEXICON
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import fold, singular, tokenize

# A column this near is what is meant, as where conditions are read.
NEAR = 86.0
_JOINS = frozenset({"and", "but", "then", "also"})
_NOW = frozenset({"now", "next", "so"})
_REPEATING = frozenset({"again", "and", "comma", "instead", "make", "ref", "show", "skip"})
_CONSENTS = frozenset({"ok", "okay", "alright", "hmm"})
_NARROWS = frozenset({"between", "just", "not", "time", "where"})
_MARKS = ("same", "the same", "what about", "how about", "do ", "repeat", "like before", "redo")


def is_whole(now: Statement) -> bool:
    """Whether it speaks of nothing that came before."""
    if now.describe or now.distinct or now.compare or now.missing or now.correlation:
        return True
    measured = any(w.of for w in now.wishes) or bool(now.measures)
    drawn = now.groups or now.over_time or now.against or (now.chart and measured)
    opens = _opening(now) in _JOINS | _NOW or not now.again
    marked = now.text.casefold().startswith(_MARKS) or now.instead_of
    return bool(measured and drawn and (opens or not marked) and not now.instead_of)


def goes_on(now: Statement, before: Statement, *, names_table: bool) -> bool:
    """Whether ``now`` is said of what ``before`` asked."""
    if now.again:
        return now.head is None or before.head is not None
    if now.files or names_table or now.verb in ("filter", "which"):
        return False
    opening = _opening(now)
    joined = opening in _JOINS | _NOW
    says = [*(w for w in now.wishes if w.of), *now.measures, *now.about, *now.against]
    rank = now.rank
    if rank is not None and (rank.by or rank.entity or rank.implied):
        return False
    if now.head is not None:
        return joined and before.head is not None
    if _is_rows(before):
        asks = now.wishes or now.groups or now.chart or rank or says or now.over_time or now.color
        return joined and bool(now.conditions and before.conditions) and not asks
    if says:
        whole = bool(now.groups or now.chart or now.over_time or rank)
        named = opening in _NOW and (any(w.of for w in now.wishes) or bool(now.verb))
        return joined and not whole and not named
    if any(w.func == "count" for w in now.wishes) and not joined:
        return False
    if now.chart and before.describe:
        return False
    if now.conditions and not (now.wishes or now.groups or now.chart or rank or now.color):
        return joined or now.refers_back or _narrows(now)
    ordered = now.ascending is not None and (before.rank is not None or bool(before.sort))
    return bool(
        now.wishes or now.groups or now.chart or rank or now.color or now.conditions or now.bins
        or now.over_time or now.stacked or ordered
    )  # fmt: skip


def _is_rows(before: Statement) -> bool:
    return before.is_plain or before.head is not None


def _opening(now: Statement) -> str:
    """The first word, or the one behind "ok"."""
    words = [w for w in now.text.casefold().split() if w not in _CONSENTS]
    return words[0] if words else ""


def repeats(now: Statement) -> bool:
    """Whether it names nothing that could change: "the same again"."""
    return not (
        now.conditions or now.measures or now.about or now.wishes or now.groups or now.color
        or now.against or now.sort or now.chart or now.rank or now.head or now.bins or now.files
        or now.over_time or now.stacked or now.ascending is not None
    )  # fmt: skip


def says_only_again(now: Statement) -> bool:
    """Whether every word of it only says that something is done again."""
    return all(item.kind in _REPEATING for item in read_items(tokenize(now.text)))


def dangles(now: Statement) -> bool:
    """Whether it can be nothing but the rest of another request, as "and for temp_min?" is."""
    asks = (
        now.verb or now.chart or now.rank or now.head or now.files or now.sort
        or any(w.of or w.func == "count" for w in now.wishes)
    )  # fmt: skip
    return not is_whole(now) and (now.only_groups or now.again or (_joined(now) and not asks))


def _joined(now: Statement) -> bool:
    return _opening(now) in _JOINS


def with_years(now: Statement) -> Statement:
    """ "and 2014?": a year without a place says which rows, beside an earlier request."""
    years = [word for word in now.unsupported if re.fullmatch(r"[12]\d{3}", word)]
    short = not (now.wishes or now.measures or now.groups or now.conditions or now.chart)
    if not years or years != now.unsupported or not short:
        return now
    condition = Condition(word="for", values=[int(y) for y in years])
    return replace(now, unsupported=[], conditions=[condition])


def _narrows(now: Statement) -> bool:
    """Whether it only says which rows: "only Japan", and not "only the rows from Japan"."""
    words = now.text.casefold().split()
    kinds = [LEXICON.get((w,), ("", None))[0] for w in words]
    said = [k for k in kinds if k != "skip"]
    return bool(said) and said[0] in _NARROWS and "noun" not in said


def placed(now: Statement, pool: Sequence[Column], table: str | None) -> Statement:
    """``now`` with its words in their places: "for wind" measures, "what about Japan" keeps rows.

    ``table`` is the one that it names.
    """
    conditions: list[Condition] = []
    measures: list[Mention] = []
    values: list[Mention] = []
    for mention in (*now.measures, *now.about):
        if is_column(mention, pool) or not _names(mention, table):
            (measures if is_column(mention, pool) or not pool else values).append(mention)
    for condition in now.conditions:
        moves = condition.left is None and condition.op is None and not condition.negated
        if moves and condition.word in ("for", "with"):
            columns = [v for v in condition.values if isinstance(v, Mention) and is_column(v, pool)]
            measures += columns
            rest = [v for v in condition.values if v not in columns and not _names(v, table)]
            condition = replace(condition, values=rest)
        if condition.values or condition.left is not None:
            conditions.append(condition)
    if values:
        conditions.append(Condition(word="for", values=list(values)))
    now.measures, now.about, now.conditions = measures, [], conditions
    return now


def without_table(statement: Statement, table: str | None) -> Statement:
    """``statement`` without conditions that only name its table, as "in stocks" does."""
    kept = [
        replace(c, values=[v for v in c.values if not _names(v, table)])
        for c in statement.conditions
    ]
    return replace(statement, conditions=[c for c in kept if c.values or c.left is not None])


def without_words_for(statement: Statement, table: str | None) -> Statement:
    """``statement`` where no measure is a word for the rows of its table: "of cars"."""
    wishes = [Wish(w.func, [m for m in w.of if not _names(m, table)]) for w in statement.wishes]
    return replace(
        statement,
        wishes=wishes,
        measures=[m for m in statement.measures if not _names(m, table)],
        about=[m for m in statement.about if not _names(m, table)],
    )


def is_column(mention: Mention, pool: Sequence[Column]) -> bool:
    """Whether the words name a column rather than a value that was seen."""
    if mention.column is not None:
        return True
    if mention.unit is not None or holders(mention, pool):
        return False
    near = ranked(mention.text, pool)
    return bool(near) and near[0].score >= NEAR and not near[0].extra


def holders(mention: Mention, pool: Sequence[Column]) -> list[str]:
    """The columns in which the words were seen as a value."""
    one = singular(mention.text.casefold())
    return [
        c.name
        for c in pool
        if c.is_text
        and any(same_value(mention.text, s) or singular(s.casefold()) == one for s in c.samples)
    ]


def _names(value: object, table: str | None) -> bool:
    """Whether words name the table."""
    if table is None or not isinstance(value, Mention):
        return False
    return [singular(w) for w in fold(value.text)] == [singular(w) for w in fold(table)]
