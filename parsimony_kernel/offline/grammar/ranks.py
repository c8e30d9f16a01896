"""Rules for order: the first, the top, the most, and sorting."""

from parsimony_kernel.offline.grammar.clauses import Wish
from parsimony_kernel.offline.grammar.items import Item
from parsimony_kernel.offline.grammar.reader import Reader
from parsimony_kernel.offline.grammar.rules import EXTREME, HEAD, Phrase, Rule


def _top(reader: Reader, item: Item, following: Item | None) -> None:
    reader.rank(item.value == "asc")
    reader.role = "entity"


def _head(reader: Reader, item: Item, following: Item | None) -> None:
    reader.made.head = (item.value, 5)


def _adjective(reader: Reader, item: Item, following: Item | None) -> None:
    direction, measures = item.value
    rank = reader.rank(direction == "asc")
    rank.implied, rank.adjective = measures, item.text
    if reader.made.verb == "which" and not rank.entity:
        # "which month is the wettest": what stood before is what is ranked
        rank.entity, reader.made.measures = reader.made.measures, []
    reader.role = "entity"


def _super(reader: Reader, item: Item, following: Item | None) -> None:
    made = reader.made
    if item.value == "common":
        rank = reader.rank(False)
        rank.func = "count"
        if made.measures:
            rank.entity, made.measures = made.measures, []
        reader.role = "entity"
        return
    ascending = item.value == "asc"
    last = made.conditions[-1] if made.conditions else None
    if reader.previous == "where" and last is not None and last.word == "number":
        # "the 5 cars with the highest price": the number counts what is ranked
        made.conditions.pop()
        reader.number = last.values[0]
        made.measures = [*made.measures, last.left] if last.left else made.measures
    after_with = reader.condition is not None and reader.condition.empty
    named = made.measures and (made.verb == "which" or after_with)
    if reader.number is not None or named or reader.previous == "top":
        rank = reader.rank(ascending)
        if made.measures:
            rank.entity, made.measures = made.measures, []
        reader.role = "rank"
    elif made.rank is not None:
        made.rank.ascending = ascending
        reader.role = "rank"
    else:
        reader.close()
        made.wishes.append(Wish("min" if ascending else "max"))
        reader.role = "measure"


def _sort(reader: Reader, item: Item, following: Item | None) -> None:
    reader.sorting = True


def _sort_by(reader: Reader, item: Item, following: Item | None) -> None:
    reader.close()
    reader.role = "sort"


def _direction(reader: Reader, item: Item, following: Item | None) -> None:
    reader.made.ascending = item.value == "asc"


_TOP = Phrase(
    "top 10 cars by horsepower",
    "ranks rows or groups, from the top or bottom",
    "table",
    (
        "the top 10 cars by horsepower",
        "show the top 10 cars by horsepower",
        "10 cars with the highest horsepower",
    ),
)
_MOST = Phrase(
    "the 2 most powerful cars",
    "ranks by the measure that an adjective means",
    "table",
    (
        "show the 2 most powerful cars",
        "list the 2 most powerful cars",
        "what are the 2 most powerful cars?",
    ),
)
_SORT = Phrase(
    "sort cars by horsepower descending",
    "sorts rows",
    "table",
    (
        "sort the cars by horsepower in descending order",
        "order cars by horsepower descending",
        "arrange cars by horsepower from high to low",
    ),
)
_SORTED = Phrase(
    "cars sorted by weight",
    "sorts rows",
    "table",
    (
        "show cars sorted by weight",
        "cars ordered by weight",
        "list the cars in order of weight",
    ),
)

RULES = (
    Rule("head", _head, HEAD),
    Rule("top", _top, _TOP),
    Rule("adjective", _adjective, _MOST),
    Rule("super", _super, EXTREME),
    Rule("sort", _sort, _SORT),
    Rule("direction", _direction, _SORT),
    Rule("sort_by", _sort_by, _SORTED),
)
