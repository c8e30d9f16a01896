"""A clause that asks for two tables to be brought together."""

from collections.abc import Sequence

from parsimony_kernel.offline.grammar.clauses import Join, Mention
from parsimony_kernel.offline.grammar.items import Item
from parsimony_kernel.offline.grammar.rules import Phrase

PHRASES: tuple[Phrase, ...] = (
    Phrase(
        "join cars and origins on Origin",
        "brings two tables together, and says what has no match",
        "table",
        (
            "merge cars with origins by Origin",
            "left join cars and origins using Origin",
            "join cars to origins",
        ),
    ),
    Phrase(
        "inner join cars and origins on Origin and plot mean horsepower by continent",
        "goes on with the joined table",
        "bar",
        (
            "inner join cars with origins by Origin, then plot mean horsepower by continent",
            "inner join cars and origins using Origin and draw mean horsepower per continent",
            "inner join of cars and origins on Origin, plot the average horsepower by continent",
        ),
    ),
)
# The kinds of items that only such a clause has a place for.
KINDS: frozenset[str] = frozenset({"join"})

_OPENING = frozenset({"skip", "and", "comma", "show", "make", "load"})
_NAMES = frozenset({"words", "column", "quoted", "file"})
_BEFORE_KEYS = frozenset({"on", "by", "using", "over", "via"})


def read_join(items: Sequence[Item]) -> tuple[Join, list[Item]] | None:
    """The clause and the items that go on from it; none where ``items`` are of another kind."""
    at = next((n for n, i in enumerate(items) if i.kind not in _OPENING), len(items))
    if at == len(items) or items[at].kind != "join":
        return None
    found = Join(how=items[at].value, text=" ".join(i.text for i in items))
    sides, end = _sides(items, at + 1)
    found.left, found.right = sides[:1], sides[1:2]
    found.keys, end = _keys(items, end)
    found.how, end = _way(items, end, found.how)
    rest = list(items[end:])
    while rest and rest[0].kind in ("skip", "and", "comma"):
        rest = rest[1:]
    odd = len(sides) > 2 or (len(sides) == 1 and not _speaks_of_several(items[at + 1 : end]))
    if odd:
        found.unsupported.append(found.text)
    return found, rest


def _speaks_of_several(items: Sequence[Item]) -> bool:
    """Whether one side is what the request has come to: "join it with origins"."""
    return any(i.kind == "ref" for i in items) or any(
        i.text.casefold() in ("with", "to") for i in items[:1]
    )


def _sides(items: Sequence[Item], at: int) -> tuple[list[Mention], int]:
    """The tables that are named, and where the keys begin."""
    sides: list[Mention] = []
    while at < len(items):
        item = items[at]
        if item.kind in _NAMES:
            sides.append(Mention(item.text, quoted=item.kind == "quoted"))
        elif _ends_sides(items, at, sides):
            break
        at += 1
    return sides, at


def _ends_sides(items: Sequence[Item], at: int, sides: Sequence[Mention]) -> bool:
    parts = items[at].kind in ("and", "comma") and len(sides) >= 2
    return (parts and not _is_side(items, at + 1)) or not _links(items[at])


def _is_side(items: Sequence[Item], at: int) -> bool:
    """Whether one more table is named there, and nothing else is asked for."""
    while at < len(items) and items[at].kind == "skip":
        at += 1
    if at >= len(items) or items[at].kind not in _NAMES:
        return False
    following = items[at + 1].text.casefold() if at + 1 < len(items) else "on"
    return following in _BEFORE_KEYS


def _links(item: Item) -> bool:
    """Whether it stands between the names of tables."""
    word = item.text.casefold()
    if item.kind == "skip":
        return word not in ("using", "use")
    return item.kind in ("and", "comma", "to", "of", "noun", "number", "ref") or word in (
        "with",
        "into",
    )


def _keys(items: Sequence[Item], at: int) -> tuple[list[Mention], int]:
    """The columns that are stated: "on a", "by a and b", "on a = b"."""
    begins = at < len(items) and items[at].text.casefold() in _BEFORE_KEYS
    if not begins:
        return [], at
    keys: list[Mention] = []
    end = at = at + 1
    while at < len(items):
        item = items[at]
        if item.kind in {*_NAMES, "unit"}:
            keys.append(Mention(item.text, item.value if item.kind == "column" else None))
            end = at + 1
        elif item.kind == "cmp" and item.value == "==" and len(keys) == 1:
            following = items[at + 1] if at + 1 < len(items) else None
            if following is not None and following.kind in _NAMES:
                other = following.value if following.kind == "column" else None
                keys[0] = Mention(f"{keys[0].text} = {following.text}", other, quoted=True)
                return keys, at + 2
        elif item.kind not in ("skip", "and", "comma", "noun"):
            break
        at += 1
    return keys, end


def _way(items: Sequence[Item], at: int, how: str | None) -> tuple[str | None, int]:
    """The way that is said behind: "as a left join"."""
    end = at
    while end < len(items) and items[end].kind in ("skip", "as", "where"):
        end += 1
    if end < len(items) and items[end].kind == "join" and items[end].value != "join":
        return items[end].value, end + 1
    return (None if how == "join" else how), at
