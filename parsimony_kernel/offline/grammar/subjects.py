"""Rules for verbs and for what is spoken of: columns, tables, files."""

from parsimony_kernel.offline.grammar.clauses import Mention
from parsimony_kernel.offline.grammar.items import Item
from parsimony_kernel.offline.grammar.reader import Reader
from parsimony_kernel.offline.grammar.rules import EXTREME, HEAD, KEEP, MEAN, Phrase, Rule
from parsimony_kernel.offline.lexicon.measures import MONTHS


def _words(reader: Reader, item: Item, following: Item | None) -> None:
    low = item.text.casefold()
    month = MONTHS.get(low)
    if month and reader.condition is not None and not reader.condition.values:
        reader.condition.values.append((None, month))
        return
    if low in ("bins", "bin", "buckets") and reader.number is not None:
        reader.made.bins, reader.number = int(reader.number), None
        if reader.condition is not None and reader.condition.empty:
            reader.condition = None
        return
    reader.mention(Mention(item.text))


def _column(reader: Reader, item: Item, following: Item | None) -> None:
    reader.mention(Mention(item.text, item.value))


def _quoted(reader: Reader, item: Item, following: Item | None) -> None:
    reader.mention(Mention(item.text, item.value, quoted=True))


def _unit(reader: Reader, item: Item, following: Item | None) -> None:
    reader.fresh = None
    if reader.role == "group":
        reader.mention(Mention(item.text, unit=item.value))
    elif reader.role == "filter" and following is not None and following.kind == "number":
        return
    elif reader.made.head is not None and reader.previous == "number":
        side = "first" if reader.made.head[0] == "head" else "last"
        reader.made.unsupported.append(f"{side} {reader.made.head[1]} {item.text}")
    elif reader.made.wishes and reader.made.wishes[-1].func == "count":
        return
    elif reader.role in ("entity", "rank") or reader.made.distinct or reader.is_subject():
        reader.mention(Mention(item.text, unit=item.value))
    elif following is not None and following.kind in ("where", "cmp", "just", "time"):
        return
    else:
        reader.mention(Mention(item.text, unit=item.value))


def _show(reader: Reader, item: Item, following: Item | None) -> None:
    reader.made.verb = reader.made.verb or "show"


def _describe(reader: Reader, item: Item, following: Item | None) -> None:
    reader.made.describe = True


def _group(reader: Reader, item: Item, following: Item | None) -> None:
    reader.made.verb = reader.made.verb or "group"


def _compare(reader: Reader, item: Item, following: Item | None) -> None:
    reader.made.compare = True


def _distinct(reader: Reader, item: Item, following: Item | None) -> None:
    reader.made.distinct = True


def _which(reader: Reader, item: Item, following: Item | None) -> None:
    if not reader.made.measures and not reader.made.wishes and reader.made.chart is None:
        reader.made.verb = "which"


def _ref(reader: Reader, item: Item, following: Item | None) -> None:
    reader.made.refers_back = True


def _file(reader: Reader, item: Item, following: Item | None) -> None:
    reader.made.files.append(item.text)
    if reader.condition is not None and reader.condition.empty:
        reader.condition = None


_LOOK = Phrase(
    "describe cars",
    "summarises every column",
    "table",
    (
        "summarise cars",
        "give me an overview of cars",
        "summary statistics of cars",
    ),
)
_QUOTED = Phrase(
    'mean of "Horsepower" by origin',
    "takes a quoted name as it is written",
    "table",
    (
        'average "Horsepower" by origin',
        'show the mean "Horsepower" for each origin',
        'mean "Horsepower" per origin',
    ),
)
_UNIT = Phrase(
    "mean temp_max by week",
    "resamples by day, week, month, quarter or year",
    "table",
    (
        "average temp_max per week",
        "weekly mean temp_max",
        "show mean temp_max for each week",
    ),
)
_FILE = Phrase(
    "mean weight by origin in data/cars.csv",
    "loads the file that it names",
    "table",
    (
        "average weight by origin in data/cars.csv",
        "mean weight per origin from data/cars.csv",
        "what is the mean weight for each origin in data/cars.csv?",
    ),
)
_BACK = Phrase(
    "load data/cars.csv and describe it",
    "goes on with what was loaded",
    "table",
    (
        "load data/cars.csv and summarise it",
        "read data/cars.csv, then describe it",
        "open data/cars.csv and give an overview of it",
    ),
)
_DISTINCT = Phrase(
    "unique values of origin",
    "lists the different values, with counts",
    "table",
    (
        "distinct values of origin",
        "show the different values of origin",
        "list the unique origin values",
    ),
)
_COMPARE = Phrase(
    "compare the mean horsepower of Japan and Europe",
    "sets values side by side",
    "table",
    (
        "compare the average horsepower of Japan and Europe",
        "compare mean horsepower for Japan and Europe",
        "compare the mean horsepower of cars from Japan and Europe",
    ),
)
_GROUP = Phrase(
    "group the cars by origin and compute the median weight",
    "groups, then computes",
    "table",
    (
        "group cars by origin and show the median weight",
        "split the cars by origin and calculate the median weight",
        "group the cars by origin, then get the median weight",
    ),
)

RULES = (
    Rule("words", _words, KEEP),
    Rule("column", _column, MEAN),
    Rule("quoted", _quoted, _QUOTED),
    Rule("unit", _unit, _UNIT),
    Rule("show", _show, HEAD),
    Rule("describe", _describe, _LOOK),
    Rule("group", _group, _GROUP),
    Rule("compare", _compare, _COMPARE),
    Rule("distinct", _distinct, _DISTINCT),
    Rule("which", _which, EXTREME),
    Rule("ref", _ref, _BACK),
    Rule("file", _file, _FILE),
)
