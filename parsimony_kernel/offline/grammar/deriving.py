"""A clause that asks for a column that is computed from others.

Either it says so ("add a column x = a - b", "x = a / b", "convert a to km/h"), or arithmetic stands
in a question where a column could; the question is then about the new column.
"""

from collections.abc import Sequence
from typing import Any

from parsimony_kernel.offline.grammar.clauses import Derive, Mention
from parsimony_kernel.offline.grammar.expressions import (
    Converted,
    Function,
    Operation,
    leaves,
    read_expression,
    signs,
)
from parsimony_kernel.offline.grammar.items import Item
from parsimony_kernel.offline.grammar.rules import Phrase
from parsimony_kernel.offline.words import fold, slug

PHRASES: tuple[Phrase, ...] = (
    Phrase(
        "add a column power = Horsepower / Weight_in_lbs to cars",
        "computes a column from others, in a table of its own",
        "table",
        (
            "add the column power as Horsepower divided by Weight_in_lbs to cars",
            "add a column called power that is Horsepower divided by Weight_in_lbs to cars",
            "power = Horsepower / Weight_in_lbs",
            "create a new column called power as the ratio of Horsepower to Weight_in_lbs",
        ),
    ),
    Phrase(
        "mean difference between temp_max and price by month",
        "computes with columns where a column could stand: differences, ratios, products, logs",
        "table",
        (
            "average of temp_max - price per month",
            "monthly mean of temp_max minus price",
            "mean difference of temp_max and price for each month",
        ),
    ),
    Phrase(
        "mean temp_max in Fahrenheit by month",
        "converts degrees, speeds, lengths and weights",
        "table",
        (
            "average temp_max in degrees Fahrenheit per month",
            "convert temp_max to Fahrenheit and show the mean temp_max_fahrenheit by month",
            "monthly mean of temp_max from Celsius to Fahrenheit",
        ),
    ),
)
# The kinds of items that only such a clause has a place for.
KINDS: frozenset[str] = frozenset(
    {"derived", "arith", "function", "convert", "in_unit", "from_unit"}
)

_NEW = frozenset({"new", "calculated", "computed", "derived", "extra", "another"})
_OPENING = frozenset({"skip", "and", "comma", "show", "make"})
_NAMES = frozenset({"words", "column", "quoted"})
# Words that are not said for the sign: "a minus b" must not read as the name of its result.
_SIGN_NAMES = {"+": "added", "-": "less", "*": "x", "/": "per"}


def read_derive(items: Sequence[Item]) -> tuple[Derive, list[Item]] | None:
    """The clause and the items that go on from it; none where ``items`` are of another kind."""
    return _read_stated(items) or _read_inline(items)


# -- said to be a column -------------------------------------------------------------------------


def _read_stated(items: Sequence[Item]) -> tuple[Derive, list[Item]] | None:
    at = _after_opening(items)
    stated = at is not None
    if at is None:
        at = next((n for n, i in enumerate(items) if i.kind not in _OPENING), len(items))
    name, start = _name_before(items, at, stated=stated)
    if start is None:
        if not stated:
            return None
        start = _skipped(items, at, ("skip", "where", "as", "is", "called"))
    found = read_expression(items[start:], formula=True)
    if found is None or (not stated and not _is_computed(found[0])):
        if not stated:
            return None
        return Derive(text=_text(items)), []
    tree, used = found
    if name is None and not _is_computed(tree):
        return Derive(text=_text(items)), []
    end = start + used
    if name is None:
        name, end = _name_behind(items, end)
    derive = Derive(name or name_of(tree), tree, text=_text(items))
    rest = _further(items[end:])
    if rest:
        return derive, rest
    _read_place(derive, items[end:])
    return derive, []


def _after_opening(items: Sequence[Item]) -> int | None:
    """Where "add a new column" ends; none if it does not stand there."""
    at = 0
    verbs = 0
    while at < len(items) and (
        items[at].kind in _OPENING or items[at].text.casefold() in {*_NEW, "define", "insert"}
    ):
        verbs += items[at].kind == "make" or items[at].text.casefold() in {
            *_NEW,
            "define",
            "insert",
        }
        at += 1
    named = at < len(items) and items[at].kind == "noun"
    return (
        at + 1 if verbs and named and items[at].text.casefold() in ("column", "columns") else None
    )


def _name_before(items: Sequence[Item], at: int, *, stated: bool) -> tuple[str | None, int | None]:
    """The name in "x = …" or, after "a column", in "x as …"; and where the rest begins."""
    at = _skipped(items, at, ("called", "skip"))
    links = ("as", "is", "where", "of", "derived", "function") if stated else ()
    if 0 < at < len(items) and items[at].text == "=" and items[at - 1].text.isidentifier():
        # a name that is a word with another meaning: "made = a - b"
        return items[at - 1].text, at + 1
    if at + 1 >= len(items) or items[at].kind not in _NAMES:
        return None, None
    link = items[at + 1]
    if link.kind == "cmp" and link.value == "==":
        return items[at].text, at + 2
    if link.kind in ("derived", "function") and stated:
        return items[at].text, at + 1
    if stated and (link.kind == "comma" or link.text.casefold() in ("that is", "which is")):
        return items[at].text, at + 2
    skipped = _skipped(items, at + 1, ("skip",))
    if skipped < len(items) and items[skipped].kind in links and not items[at + 1].before:
        behind = items[skipped]
        kept = behind.kind in ("derived", "function")
        return items[at].text, skipped if kept else skipped + 1
    return None, None


def _name_behind(items: Sequence[Item], end: int) -> tuple[str | None, int]:
    """The name in "… as x", "… called x", "… and call it x", and where it ends."""
    at = _skipped(items, end, ("skip", "and", "comma"))
    if at < len(items) and items[at].text.casefold() in ("call", "name"):
        at = _skipped(items, at + 1, ("ref",))
    elif at < len(items) and items[at].kind in ("as", "called") and at == end:
        at = _skipped(items, at + 1, ("called",))
    else:
        return None, end
    if at < len(items) and items[at].kind in _NAMES and _ends(items, at + 1):
        return items[at].text, at + 1
    return None, end


def _ends(items: Sequence[Item], at: int) -> bool:
    return at >= len(items) or items[at].kind in ("and", "comma", "by", "to", "where")


def _further(items: Sequence[Item]) -> list[Item]:
    """The items of what is asked for next: ", y = a + b", ", mean y by month"."""
    at = _skipped(items, 0, ("and", "comma", "skip"))
    parted = any(i.kind in ("and", "comma") for i in items[:at])
    return list(items[at:]) if parted else []


def _read_place(derive: Derive, items: Sequence[Item]) -> None:
    """The table that is named behind: "to the weather table", "in cars"."""
    places = [i for i in items if i.kind in _NAMES or i.kind == "file"]
    derive.words = [Mention(i.text, i.value, quoted=i.kind == "quoted") for i in places]
    linked = not places or (bool(items) and items[0].kind in ("to", "where", "of", "skip"))
    odd = [
        i
        for i in items
        if i.kind not in {*_NAMES, "file", "skip", "noun", "ref", "to", "where", "of"}
    ]
    if odd or not linked or len(places) > 1:
        derive.unsupported.append(_text(items))


# -- where a column could stand ------------------------------------------------------------------


def _read_inline(items: Sequence[Item]) -> tuple[Derive, list[Item]] | None:
    for at, item in enumerate(items):
        if item.kind not in {*_NAMES, "number", "derived", "function"}:
            continue
        if at and _is_list_or_ratio(items[at - 1], item):
            return Derive(text=f"{items[at - 1].text}/{item.text}"), []
        converted = _list_in_unit(items, at)
        found = converted or read_expression(items[at:], formula=False)
        if found is not None and set(signs(found[0])) == {"+"} and "(" not in item.before:
            found = read_expression(items[at:], formula=False, plus=False)
        if found is None or not _is_computed(found[0]) or _is_year(found[0]):
            continue
        tree, used = found
        if converted is None and _is_shared(items, at, tree):
            continue
        name, end = _name_behind(items, at + used)
        wanted = name or name_of(tree)
        before = [i for i in items[:at] if i.kind != "convert"]
        rest = [*before, Item("column", wanted, wanted, item.start), *items[end:]]
        derive = Derive(wanted, tree, text=_text(items))
        return derive, rest if _asks(rest) else []
    return None


def _is_list_or_ratio(before: Item, item: Item) -> bool:
    """Whether it reads "a/b", which can be a ratio, and both."""
    return item.before == "/" and before.kind == item.kind == "column"


def _list_in_unit(items: Sequence[Item], at: int) -> tuple[Any, int] | None:
    """The first of several columns before "in fahrenheit": each of them is meant."""
    end = at + 1
    while end + 1 < len(items) and items[end].kind in ("and", "comma", "skip"):
        end += 1
        if items[end].kind in ("column", "words"):
            end += 1
    unit = items[end] if end < len(items) else None
    if end == at + 1 or unit is None or unit.kind != "in_unit" or items[at].kind not in _NAMES:
        return None
    if items[at].text.endswith(f"_{slug(unit.value)}"):
        return None
    return Converted(Mention(items[at].text, items[at].value), unit.value), 1


def _is_shared(items: Sequence[Item], at: int, tree: Any) -> bool:
    """Whether "and" before a converted column could mean that others are converted, too."""
    before = [i for i in items[:at] if i.kind != "skip"]
    beside = len(before) > 1 and before[-1].kind in ("and", "comma") and before[-2].kind in _NAMES
    if not isinstance(tree, Converted) or not beside:
        return False
    return not before[-2].text.endswith(f"_{slug(tree.unit)}")


def _asks(items: Sequence[Item]) -> bool:
    """Whether more is asked than for the column itself."""
    return sum(i.kind not in {*_OPENING, "noun", "ref"} for i in items) > 1


# -- what all share ------------------------------------------------------------------------------


def name_of(tree: Any) -> str:
    """A name for what has none: ``temp_max_less_temp_min``."""
    match tree:
        case Mention():
            return slug(tree.column or tree.text)
        case Operation(sign=sign, left=left, right=right):
            if sign == "*" and left == -1:
                return f"minus_{name_of(right)}"[:60]
            return f"{name_of(left)}_{_SIGN_NAMES[sign]}_{name_of(right)}"[:60].strip("_")
        case Function(name=name, of=of):
            return f"{name}_{name_of(of)}"[:60].strip("_")
        case Converted(of=of, unit=unit):
            return f"{name_of(of)}_{slug(unit)}"[:60].strip("_")
        case _:
            return "_".join(fold(str(tree)))


def _is_computed(tree: Any) -> bool:
    return isinstance(tree, Operation | Function | Converted)


def _is_year(tree: Any) -> bool:
    """Whether it reads "wind - 2012": a dash before a year, and no difference."""
    return any(isinstance(leaf, int) and 1900 <= leaf <= 2100 for leaf in leaves(tree))


def _skipped(items: Sequence[Item], at: int, kinds: Sequence[str]) -> int:
    while at < len(items) and items[at].kind in kinds:
        at += 1
    return at


def _text(items: Sequence[Item]) -> str:
    return " ".join(i.text for i in items)
