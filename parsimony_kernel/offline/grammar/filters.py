"""Rules for conditions: which rows are kept."""

from collections.abc import Sequence
from typing import Any

from parsimony_kernel.offline.grammar.clauses import Condition, Mention
from parsimony_kernel.offline.grammar.items import Item
from parsimony_kernel.offline.grammar.measures import read_by, read_vs
from parsimony_kernel.offline.grammar.reader import Reader
from parsimony_kernel.offline.grammar.rules import KEEP, Phrase, Rule

DROPS = frozenset({"remove", "drop", "exclude", "leave out", "omit"})
# A number right behind these words is a value; behind the others, only a year is.
_PLACED = frozenset({"in", "for", "from", "time"})
_OF_YEARS = frozenset({"only", "drop", "not", "without"})
# What begins a condition of its own behind "or": at once, or behind the name of a column.
_BEGINS = frozenset({"where", "cmp", "comparative", "time", "between", "lacks", "suffix"})
_NAMES = frozenset({"column", "words", "quoted", "unit"})
_COMPARES = _BEGINS - {"where", "suffix"} | {"is", "not"}


def read_or(reader: Reader, item: Item, following: Sequence[Item]) -> None:
    """Of rows to leave out, those before and after "or" are left out.

    Otherwise "or" between conditions is kept as unsupported: they are all to be met.
    """
    kinds = [i.kind for i in following[:2]]
    named = kinds[:1] and kinds[0] in _NAMES and kinds[-1] in _COMPARES
    begins = named or (kinds[:1] and kinds[0] in _BEGINS)
    if item.text.casefold() != "or" or not begins or reader.role != "filter":
        return
    if reader.exclusion:
        reader.close()
        reader.exclude_more()
    else:
        reader.made.unsupported.append(item.text)


def refuse_ranked(reader: Reader, item: Item) -> bool:
    """Whether ``item`` ranks the rows to leave out, which is kept as unsupported."""
    condition = reader.condition
    ranks = reader.exclusion and condition is not None and condition.empty
    if ranks:
        reader.made.unsupported.append(f"leaving out {item.text!r} rows")
    return bool(ranks)


def _where(reader: Reader, item: Item, following: Item | None) -> None:
    if item.text.casefold() == "when" and (following is None or not reader.previous):
        reader.asks_when = True
        return
    if reader.number is not None and reader.previous == "number":
        reader.number, kept = None, reader.number
        reader.open(Condition(word=item.value))
        reader.number = kept
        return
    condition = reader.condition
    if condition is not None and condition.empty and (condition.negated or condition.lacks):
        if condition.leads and condition.word != "without":
            # "drop the rows with …": the condition is said only now
            condition.leads = condition.negated = False
            condition.word = item.value
        return
    kept_number, reader.number = reader.number, None
    reader.open(Condition(word=item.value))
    reader.number = kept_number


def _just(reader: Reader, item: Item, following: Item | None) -> None:
    if following is not None and following.kind == "number" and _is_year(following.value):
        reader.open(Condition(word="only"))
        return
    if following is not None and following.kind in ("where", "cmp", "time", "number"):
        return
    if following is not None and following.kind in ("func", "top", "noun", "super"):
        return
    reader.open(Condition(word="only"))


def _only(reader: Reader, item: Item, following: Item | None) -> None:
    reader.made.verb = "filter"
    reader.open(Condition(word="only"))


def _filter_to(reader: Reader, item: Item, following: Item | None) -> None:
    reader.made.verb = "filter"
    reader.open(Condition(word="only"))


def _not(reader: Reader, item: Item, following: Item | None) -> None:
    condition = reader.condition
    if condition is not None and reader.previous in ("is", "where") and not condition.op:
        condition.negated = True
        return
    if condition is not None and condition.op == "==" and not condition.values:
        condition.negated = True
        return
    left = None
    text = item.text.casefold()
    verb = text.startswith(("is ", "are ", "not"))
    if verb and (following is None or following.kind != "where"):
        left = reader.take_left()
    made = Condition(left=left, op="==" if left else None, negated=True, word="not")
    # "drop the cars that are not from Japan", "drop all cars except from Japan"
    within = reader.exclusion and reader.role == "filter" and (verb or reader.excludes_all)
    if left is not None or within:
        reader.open(made)
        return
    made.word = "drop" if text in DROPS else "without" if text == "without" else "not"
    reader.exclude(made)


def _lacks(reader: Reader, item: Item, following: Item | None) -> None:
    stated = item.text.casefold().startswith(("is ", "are "))
    left = reader.take_left() if stated else None
    reader.open(Condition(op=item.value, values=[left] if left else [], word=item.text))


def _is(reader: Reader, item: Item, following: Item | None) -> None:
    if following is None or following.kind not in (
        "words",
        "column",
        "quoted",
        "number",
        "not",
    ):
        return
    left = reader.take_left()
    if left is not None:
        word = reader.condition.word if reader.condition is not None else ""
        reader.open(Condition(left=left, op="==", word=word))


def _cmp(reader: Reader, item: Item, following: Item | None) -> None:
    if item.text.casefold() == "over" and following is not None:
        # "over 150" compares; "over the months" and "over year" name the x axis.
        if following.kind == "unit":
            read_by(reader, item, following)
            return
        if following.kind in ("column", "words", "quoted"):
            read_vs(reader, item, following)
            return
    left = reader.take_left()
    if item.value == "==" and left is None:
        reader.made.unsupported.append(item.text)
        return
    keep, reader.number = reader.number, None
    negated = item.value == "!="
    reader.open(Condition(left=left, op="==" if negated else item.value, negated=negated))
    reader.number = keep


def _comparative(reader: Reader, item: Item, following: Item | None) -> None:
    op, measure = item.value
    if reader.fresh is None and reader.condition is not None and reader.condition.op is None:
        reader.condition = None
    reader.open(Condition(left=Mention(measure), op=op))


def _time(reader: Reader, item: Item, following: Item | None) -> None:
    # "temp_max after 2014" measures temp_max; "where date after 2014" compares date.
    mention = reader.fresh[1] if reader.fresh is not None else None
    compared = reader.role == "filter" or item.text.casefold().startswith("is ")
    named = mention is not None and (mention.column is not None or mention.unit is not None)
    left = reader.take_left() if compared and named else None
    reader.open(Condition(left=left, op=item.value, word="time"))


def _between(reader: Reader, item: Item, following: Item | None) -> None:
    made = reader.made
    year = following is not None and (
        following.kind == "date"
        or (following.kind == "number" and 1000 <= float(following.value) < 3000)
    )
    measured = reader.role == "measure" and bool(made.wishes or made.chart)
    fresh = reader.fresh[1] if reader.fresh is not None else None
    named = fresh is not None and (fresh.column is not None or fresh.unit is not None)
    if following is not None and following.kind in ("number", "date"):
        left = None if year and (measured or not named) else reader.take_left()
        reader.open(Condition(left=left, op="between"))
    elif following is not None and following.kind == "column":
        read_by(reader, item, following)
    elif following is not None and following.kind == "words":
        reader.open(Condition())


def _to(reader: Reader, item: Item, following: Item | None) -> None:
    if reader.condition is not None and reader.condition.values:
        reader.condition.op = "between"


def _suffix(reader: Reader, item: Item, following: Item | None) -> None:
    last = reader.condition or (reader.made.conditions[-1] if reader.made.conditions else None)
    if last is not None and following is not None and following.kind == "number":
        # "below 80 or above 200": it begins a comparison of the same column
        read_or(reader, Item("and", None, item.text.split()[0], item.start), [item])
        reader.open(Condition(left=last.left, op=item.value.removesuffix("=")))
        return
    if last is not None and last.values:
        last.op = item.value


def _date(reader: Reader, item: Item, following: Item | None) -> None:
    parts = tuple(int(p) for p in str(item.value).split("-"))
    reader.value(parts)


def _number(reader: Reader, item: Item, following: Item | None) -> None:
    made, condition = reader.made, reader.condition
    if reader.role == "filter" and condition is not None:
        if condition.values and _lacks_year(condition.values[-1]):
            condition.values[-1] = (int(item.value), *condition.values[-1][1:])
            return
        if following is not None and following.text.casefold() in ("bins", "bin", "buckets"):
            reader.number = item.value
            return
        if following is not None and following.kind in ("super", "adjective"):
            reader.number = item.value
            return
        alone = len(condition.values) == 1 and isinstance(condition.values[0], Mention)
        if alone and condition.op is None and not 1000 <= item.value < 3000:
            # "with a horsepower of 150"
            condition.left, condition.op = condition.values.pop(), "=="
        reader.value(item.value)
        placed = _PLACED | _OF_YEARS if _is_year(item.value) else _PLACED
        if condition.op is None and condition.word not in placed:
            reader.number = item.value
        return
    if made.compare and _is_year(item.value) and reader.previous == "compare":
        # "compare 2012 and 2013"
        reader.open(Condition(word="in", values=[item.value]))
        return
    if made.head is not None and reader.previous == "head":
        made.head = (made.head[0], int(item.value))
        return
    after_rank = reader.previous in ("adjective", "super") and made.rank is not None
    if made.rank is not None and (
        reader.previous == "top" or (after_rank and made.rank.count == 0)
    ):
        made.rank.count = int(item.value)
        return
    if following is not None and following.kind == "suffix":
        listed = reader.target() if reader.role != "about" else reader.made.measures
        if not listed and reader.made.measures:
            listed = reader.made.measures
        if listed:
            reader.open(Condition(left=listed.pop(), op=">=", values=[item.value]))
            return
    reader.number = item.value


def _is_year(number: float) -> bool:
    return 1000 <= number < 3000


def _lacks_year(value: Any) -> bool:
    return isinstance(value, tuple) and value[0] is None


_JUST = Phrase(
    "just the cars from Europe",
    "keeps the rows with a value",
    "table",
    (
        "only the cars from Europe",
        "show just the cars from Europe",
        "keep the cars from Europe",
    ),
)
_TO = Phrase(
    "filter to Japan",
    "keeps the rows with a value",
    "table",
    (
        "filter for Japan",
        "restrict to Japan",
        "narrow down to Japan",
    ),
)
_NOT = Phrase(
    "cars that are not from Japan",
    "leaves the rows with a value out",
    "table",
    (
        "cars not from Japan",
        "drop the cars from Japan",
        "all cars except from Japan",
    ),
)
_IS = Phrase(
    "cars where origin is Japan",
    "compares a column with a value",
    "table",
    (
        "cars whose origin is Japan",
        "show the cars where origin equals Japan",
        "select cars where origin is Japan",
    ),
)
_LACKS = Phrase(
    "cars where horsepower is not missing",
    "keeps or counts rows with or without a value",
    "table",
    (
        "cars where horsepower is known",
        "cars without missing horsepower",
        "drop the cars with missing horsepower",
    ),
)
_NUMBERS = Phrase(
    "cars with horsepower above 75 and weight below 3000",
    "keeps rows by numbers",
    "table",
    (
        "cars with horsepower over 75 and weight under 3000",
        "cars where horsepower is above 75 and weight is below 3000",
        "show cars with horsepower > 75 and weight < 3000",
    ),
)
_SUFFIX = Phrase(
    "cars with horsepower of 80 or more",
    "keeps rows by numbers",
    "table",
    (
        "cars with horsepower of at least 80",
        "cars with horsepower >= 80",
        "cars with horsepower of 80 or higher",
    ),
)
_BETWEEN = Phrase(
    "cars with horsepower between 75 and 100",
    "keeps rows in a range",
    "table",
    (
        "show cars with horsepower between 75 and 100",
        "cars where horsepower is between 75 and 100",
        "cars whose horsepower is between 75 and 100",
    ),
)
_HEAVIER = Phrase(
    "cars heavier than 2300",
    "compares by the measure that is meant",
    "table",
    (
        "show the cars heavier than 2300",
        "cars that are heavier than 2300",
        "cars with weight above 2300",
    ),
)
_AFTER = Phrase(
    "cars after 1976",
    "keeps rows by year, month or date",
    "table",
    (
        "show the cars after 1976",
        "only cars after 1976",
        "cars later than 1976",
    ),
)
_FROM_TO = Phrase(
    "show the cars from 1975 to 1980",
    "keeps rows in a span of time",
    "table",
    (
        "cars from 1975 to 1980",
        "cars between 1975 and 1980",
        "keep the cars from 1975 to 1980",
    ),
)
_SINCE = Phrase(
    "cars since 1978-01-01",
    "keeps rows by year, month or date",
    "table",
    (
        "show cars since 1978-01-01",
        "only the cars since 1978-01-01",
        "cars starting from 1978-01-01",
    ),
)

RULES = (
    Rule("where", _where, KEEP),
    Rule("only", _only, KEEP),
    Rule("just", _just, _JUST),
    Rule("filter_to", _filter_to, _TO),
    Rule("not", _not, _NOT),
    Rule("is", _is, _IS),
    Rule("lacks", _lacks, _LACKS),
    Rule("cmp", _cmp, _NUMBERS),
    Rule("number", _number, _NUMBERS),
    Rule("suffix", _suffix, _SUFFIX),
    Rule("between", _between, _BETWEEN),
    Rule("comparative", _comparative, _HEAVIER),
    Rule("time", _time, _AFTER),
    Rule("to", _to, _FROM_TO),
    Rule("date", _date, _SINCE),
)
