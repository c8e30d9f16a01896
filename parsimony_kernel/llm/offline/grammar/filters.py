"""Rules for conditions: which rows are kept."""

from typing import Any

from parsimony_kernel.llm.offline.grammar.clauses import Condition, Mention
from parsimony_kernel.llm.offline.grammar.items import Item
from parsimony_kernel.llm.offline.grammar.measures import read_by, read_vs
from parsimony_kernel.llm.offline.grammar.reader import Reader
from parsimony_kernel.llm.offline.grammar.rules import KEEP, Phrase, Rule


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
        return
    kept_number, reader.number = reader.number, None
    reader.open(Condition(word=item.value))
    reader.number = kept_number


def _just(reader: Reader, item: Item, following: Item | None) -> None:
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
    verb = item.text.casefold().startswith(("is ", "are ", "not"))
    if verb and (following is None or following.kind != "where"):
        left = reader.take_left()
    word = "without" if item.text.casefold() == "without" else "not"
    reader.open(Condition(left=left, op="==" if left else None, negated=True, word=word))
    if reader.condition is not None:
        reader.condition.negated = True


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
        if condition.op is None and condition.word not in ("in", "for", "from", "time"):
            reader.number = item.value
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


def _lacks_year(value: Any) -> bool:
    return isinstance(value, tuple) and value[0] is None


_JUST = Phrase("just the cars from Europe", "keeps the rows with a value", "table")
_TO = Phrase("filter to Japan", "keeps the rows with a value", "table")
_NOT = Phrase("cars that are not from Japan", "leaves the rows with a value out", "table")
_IS = Phrase("cars where origin is Japan", "compares a column with a value", "table")
_LACKS = Phrase(
    "cars where horsepower is not missing", "keeps or counts rows with or without a value", "table"
)
_NUMBERS = Phrase(
    "cars with horsepower above 75 and weight below 3000", "keeps rows by numbers", "table"
)
_SUFFIX = Phrase("cars with horsepower of 80 or more", "keeps rows by numbers", "table")
_BETWEEN = Phrase("cars with horsepower between 75 and 100", "keeps rows in a range", "table")
_HEAVIER = Phrase("cars heavier than 2300", "compares by the measure that is meant", "table")
_AFTER = Phrase("cars after 1976", "keeps rows by year, month or date", "table")
_FROM_TO = Phrase("show the cars from 1975 to 1980", "keeps rows in a span of time", "table")
_SINCE = Phrase("cars since 1978-01-01", "keeps rows by year, month or date", "table")

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
