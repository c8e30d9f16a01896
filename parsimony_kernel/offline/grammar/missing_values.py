"""Rules for missing values: to count, drop and fill them."""

from collections.abc import Sequence

from parsimony_kernel.offline.grammar.items import Item
from parsimony_kernel.offline.grammar.reader import Reader
from parsimony_kernel.offline.grammar.rules import Phrase, Rule
from parsimony_kernel.offline.lexicon.missing_values import says_anywhere

_BEFORE_A_FILLING = frozenset({"with", "by", "using", "as", "to"})
_FUNCTIONS = frozenset({"mean", "median", "min", "max"})
_WORDS: dict[str, str | float] = {
    "zero": 0,
    "zeros": 0,
    "zeroes": 0,
    "previous": "forward",
    "preceding": "forward",
    "last": "forward",
    "before": "forward",
    "next": "backward",
    "following": "backward",
    "after": "backward",
    "mode": "common",
}
_AROUND = frozenset({"skip", "noun"})
_KNOWN = frozenset({"known", "valid", "seen", "observed", "it"})


def cut_filling(reader: Reader, items: Sequence[Item]) -> Sequence[Item]:
    """``items`` without what missing values are to be filled with, which ``reader`` keeps.

    Text that is to be filled in stands in quotes there.
    """
    if all(item.kind != "fill" for item in items):
        return items
    kept = [i for n, i in enumerate(items) if not _says_missing(items, n)]
    for at, item in enumerate(kept):
        if item.text.casefold().split()[0] in _BEFORE_A_FILLING:
            found, end = _filling(kept, at + 1)
            if found is not None:
                reader.made.fill = found
                return [*kept[:at], *_after(reader, kept, end)]
    return kept


def _says_missing(items: Sequence[Item], at: int) -> bool:
    """Whether the word only repeats that what is missing is filled: "fill the gaps of …"."""
    item = items[at]
    missing = item.text.casefold() == "missing" or says_anywhere(item.text)
    if item.kind != "lacks" or not missing:
        return False
    following = [i for i in items[at + 1 :] if i.kind not in _AROUND]
    return not following or following[0].kind not in ("column", "words", "quoted", "unit")


def _filling(items: Sequence[Item], at: int) -> tuple[str | float | None, int]:
    """What is filled in, and where the words for it end."""
    while at < len(items) and _fills(items[at]) is None and items[at].kind in _AROUND:
        at += 1
    if at == len(items):
        return None, at
    found, at = _fills(items[at]), at + 1
    while at < len(items) and (items[at].kind in _AROUND or items[at].text.casefold() in _KNOWN):
        at += 1
    if at < len(items) and items[at].kind == "time" and items[at].text.casefold() in _WORDS:
        at += 1
    return found, at


def _fills(item: Item) -> str | float | None:
    low = item.text.casefold()
    match item.kind:
        case "number":
            return float(item.value) if isinstance(item.value, float) else int(item.value)
        case "func" if item.value in _FUNCTIONS:
            return str(item.value)
        case "super" if item.value == "common":
            return "common"
        case "quoted":
            return f'"{item.text}"'
        case "words" if " " not in low and low not in _WORDS:
            return f'"{item.text}"'
        case "noun" | "column" | "func" | "lacks":
            return None
        case _:
            return _WORDS.get(low.split()[0])


def _after(reader: Reader, items: Sequence[Item], end: int) -> list[Item]:
    """What follows a filling: "the mean horsepower" only says once more what is filled."""
    rest = list(items[end:])
    told = {i.text.casefold() for i in items[:end] if i.kind in ("column", "words", "quoted")}
    if rest and rest[0].kind in ("column", "words", "quoted"):
        again = rest.pop(0)
        if again.text.casefold() not in told:
            reader.made.unsupported.append(again.text)
    return rest


def _missing(reader: Reader, item: Item, following: Item | None) -> None:
    if reader.made.missing is not None:
        reader.made.unsupported.append(item.text)
        return
    condition = reader.condition
    open_yet = condition is not None and (condition.empty or condition.negated)
    if (open_yet and item.value == "count") or reader.exclusion:
        reader.made.unsupported.append(item.text)
    reader.made.missing = item.value
    reader.close()
    reader.role = "measure"


def _fill(reader: Reader, item: Item, following: Item | None) -> None:
    made = reader.made
    if made.missing is not None or (item.value and made.fill is not None):
        made.unsupported.append(item.text)
        return
    made.missing, made.fill = "fill", item.value or made.fill
    reader.close()
    reader.role = "measure"


_COUNTED = Phrase(
    "missing values per column in cars",
    "counts the missing values of each column",
    "table",
    (
        "count the missing values of cars",
        "how many missing values are in cars?",
        "which columns of cars have missing values?",
        "are there any nulls in cars?",
    ),
)
_DRAWN = Phrase(
    "plot the missing values per column of cars",
    "draws the missing values of each column",
    "bar",
    (
        "bar chart of missing values by column in cars",
        "missing values per column of cars as a bar chart",
        "draw the missing values for each column of cars",
    ),
)
_DROPPED = Phrase(
    "drop rows with missing values from cars",
    "keeps the rows that miss nothing",
    "table",
    (
        "remove the rows of cars with missing values",
        "cars without missing values",
        "keep only the complete rows of cars",
        "cars with no missing values",
    ),
)
_FILLED = Phrase(
    "fill missing horsepower with the mean",
    "fills what is missing: mean, median, a value, the most common, the one before",
    "table",
    (
        "fill in missing values of horsepower with the average",
        "replace missing horsepower by the mean",
        "impute horsepower with its mean",
        "fill missing values in horsepower using the mean horsepower",
    ),
)

RULES: tuple[Rule, ...] = (
    Rule("missing", _missing, _COUNTED, (_DRAWN, _DROPPED)),
    Rule("fill", _fill, _FILLED),
)
