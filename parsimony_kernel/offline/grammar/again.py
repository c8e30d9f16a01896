"""Rules for words that carry a request over from the one before."""

from parsimony_kernel.offline.grammar.clauses import Condition
from parsimony_kernel.offline.grammar.items import Item
from parsimony_kernel.offline.grammar.reader import Reader
from parsimony_kernel.offline.grammar.rules import Phrase, Rule

# "the same" opens a clause or stands behind these; anywhere else it speaks of equal values.
_BEFORE = frozenset({"", "and", "again", "instead", "show", "make", "plot", "ref"})
_AT_THE_END = ("again", "once more", "before")
# What "but" may lead to: anything else may be an exception, as in "all but Japan".
_AFTER_BUT = frozenset(
    {
        "again", "as", "by", "color", "func", "freq", "group", "just", "kind", "not", "only",
        "plot", "sort_by", "time", "top", "where",
    }
)  # fmt: skip
_REPLACED = frozenset({"column", "freq", "func", "kind", "number", "quoted", "unit", "words"})


def _again(reader: Reader, item: Item, following: Item | None) -> None:
    if reader.previous not in _BEFORE and not item.text.casefold().endswith(_AT_THE_END):
        reader.made.unsupported.append(item.text)
        return
    reader.made.again = True
    if item.value == "about":
        reader.open(Condition(word="for"))


def _instead(reader: Reader, item: Item, following: Item | None) -> None:
    if item.value == "but":
        if following is None or following.kind not in _AFTER_BUT:
            reader.made.unsupported.append(item.text)
        return
    if item.value == "ok":
        if reader.previous:
            reader.made.unsupported.append(item.text)
        return
    reader.made.again = True
    if reader.number is not None and 1000 <= reader.number < 3000:
        # "2013 instead"
        year, reader.number = reader.number, None
        reader.open(Condition(word="for", values=[year]))
    if item.value != "of":
        return
    if following is None or following.kind not in _REPLACED:
        reader.made.unsupported.append(item.text)
        return
    reader.made.instead_of.append(following.text)
    following.kind = "skip"


_SAME = Phrase(
    "the same for Japan",
    "goes on from the request before",
    "table",
    (
        "what about Japan?",
        "and for Japan?",
        "only Japan",
    ),
    after=("mean horsepower of the cars by year",),
)
_OTHERWISE = Phrase(
    "as a bar chart instead",
    "goes on from the request before, drawn in another way",
    "bar",
    (
        "now as a bar chart",
        "make it a bar chart",
        "the same as a bar chart",
    ),
    after=("mean horsepower of the cars by origin",),
)
_GROUPED = Phrase(
    "now by year",
    "goes on from the request before, grouped in another way",
    "table",
    (
        "what about by year?",
        "by year instead of origin",
        "the same but per year",
    ),
    after=("mean horsepower of the cars by origin",),
)
_MEASURED = Phrase(
    "and for weight?",
    "goes on from the request before, with another measure",
    "table",
    (
        "the same for weight",
        "what about weight?",
        "weight instead",
    ),
    after=("mean horsepower of the cars by origin",),
)

RULES = (
    Rule("again", _again, _SAME, (_GROUPED, _MEASURED)),
    Rule("instead", _instead, _OTHERWISE),
)
