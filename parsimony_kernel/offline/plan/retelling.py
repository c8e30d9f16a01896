"""What a statement asks, in words: how a request that goes on from another was taken."""

from collections.abc import Sequence
from typing import Any

from parsimony_kernel.offline.grammar.clauses import Condition, Mention, Rank, Statement, Wish
from parsimony_kernel.offline.lexicon.measures import FUNCTION_WORDS, MONTHS
from parsimony_kernel.offline.lexicon.vocabulary import LEXICON
from parsimony_kernel.offline.words import spoken

_COMPARED = {
    "==": "being", "!=": "not being", ">": "above", ">=": "of at least", "<": "below",
    "<=": "of at most", "between": "between",
}  # fmt: skip
_TIMED = {">": "after", ">=": "since", "<": "before", "<=": "until", "between": "between"}
_CHARTS = {
    None: "", "auto": "as a chart", "histogram": "as a histogram", "heatmap": "as a heat map",
}  # fmt: skip


def retold(statement: Statement) -> str:
    """The statement in words, slot by slot."""
    chart = statement.chart
    asked = [*map(_wish, statement.wishes), *_texts(statement.measures)]
    ways = [
        "describe" if statement.describe else "",
        "compare" if statement.compare else "",
        _missing(statement),
        ("correlation of" if asked else "correlations") if statement.correlation else "",
        "the different values of" if statement.distinct else "",
        _head(statement),
        _ranked(statement.rank),
    ]
    parts = [
        *ways,
        f"of {spoken(asked)}" if asked and statement.head else spoken(asked),
        _after("of", statement.about),
        _after("vs", statement.against),
        "over time" if statement.over_time else "",
        _after("by", statement.groups),
        _after("colored by", statement.color),
        *map(_condition, statement.conditions),
        _after("sorted by", statement.sort),
        {True: "ascending", False: "descending", None: ""}[statement.ascending],
        f"with {statement.bins} bins" if statement.bins else "",
        _CHARTS.get(chart, f"as a {chart} chart"),
        "stacked" if statement.stacked else "",
    ]
    return " ".join(part for part in parts if part)


def _missing(statement: Statement) -> str:
    if statement.missing is None:
        return ""
    filled = f" with {statement.fill}" if statement.fill is not None else ""
    of = " of" if statement.measures or statement.wishes else ""
    return f"{statement.missing} missing values{filled}{of}"


def _head(statement: Statement) -> str:
    if statement.head is None:
        return ""
    side, count = statement.head
    return f"the {'first' if side == 'head' else 'last'} {count} rows"


def _ranked(rank: Rank | None) -> str:
    if rank is None:
        return ""
    side = rank.adjective or ("bottom" if rank.ascending else "top")
    func = FUNCTION_WORDS.get(rank.func, rank.func) if rank.func else ""
    what = [side, str(rank.count or ""), spoken(_texts(rank.entity))]
    by = f"by {' '.join(p for p in (func, spoken(_texts(rank.by))) if p)}"
    return " ".join(p for p in [*what, by if rank.by or func else ""] if p)


def _wish(wish: Wish) -> str:
    return f"{FUNCTION_WORDS.get(wish.func, wish.func)} {spoken(_texts(wish.of))}".strip()


def _after(word: str, mentions: Sequence[Mention]) -> str:
    return f"{word} {spoken(_texts(mentions))}" if mentions else ""


def _texts(mentions: Sequence[Mention]) -> list[str]:
    # "weekly" groups by week
    kinds = {m.text: LEXICON.get((m.text.casefold(),), ("", None))[0] for m in mentions}
    return [m.unit if m.unit and kinds[m.text] == "freq" else m.text for m in mentions]


def _condition(condition: Condition) -> str:
    values = list(map(_value, condition.values))
    left = spoken(_texts([condition.left])) if condition.left else ""
    out = "leaving out " if condition.exclusion or condition.negated else ""
    if condition.lacks:
        state = "missing" if condition.op == "missing" else "present"
        return f"{out or 'where '}{state} {left or spoken(values)}"
    timed = all(isinstance(v, tuple) or _is_year(v) for v in condition.values)
    op = condition.op or ""
    if timed and not left:
        return f"{out}{_TIMED.get(op, '' if out else 'for')} {spoken(values)}".strip()
    if not op and not left:
        return f"{out or 'for '}{spoken(values)}"
    words = [left, _COMPARED.get(op, op), spoken(values)]
    return f"{out or 'with '}{' '.join(w for w in words if w)}"


def _value(value: Any) -> str:
    if isinstance(value, Mention):
        return value.text
    if isinstance(value, tuple):
        names = {number: name for name, number in reversed(MONTHS.items())}
        if value[0] is None:
            return names[value[1]].capitalize()
        return "-".join(f"{part:02d}" for part in value)
    return f"{value}"


def _is_year(value: object) -> bool:
    return isinstance(value, int) and 1000 <= value < 3000
