"""Tokens become items: words with a meaning of their own, names of columns, and the rest.

Schema-free but for one thing: names of columns, where they are known, are read as one word.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.offline.lexicon.entries import Entry
from parsimony_kernel.offline.lexicon.ranks import ADJECTIVES
from parsimony_kernel.offline.lexicon.vocabulary import LEXICON, LONGEST
from parsimony_kernel.offline.words import Token, fold, singular


@dataclass
class Item:
    """A word or words with their meaning: ``kind`` names the rule, ``value`` is for it.

    ``before`` holds the signs of arithmetic that stand in front of it, as they were written.
    """

    kind: str
    value: Any
    text: str
    start: int = 0
    before: str = ""


_EXPLICIT = frozenset(
    {"by", "func", "of", "vs", "color", "sort_by", "plot", "kind", "fill", "correlation"}
)


_NEEDS_PLACE = frozenset(
    {
        "func", "freq", "unit", "by", "where", "of", "to", "cmp", "time", "between", "ref", "is",
        "not", "as", "head", "top", "noun", "direction", "suffix",
    }
)  # fmt: skip


_CONNECTS = frozenset({"and", "by", "per", "for", "over", "in", "from"})


_COMPARES = frozenset({"is", "above", "below", "between", "over", "under", "after", "before"})


def read_items(tokens: Sequence[Token], columns: Iterable[str] = ()) -> list[Item]:
    """The items of a request; ``columns`` are the names that count as one word."""
    known: dict[tuple[str, ...], str] = {}
    for column in columns:
        known.setdefault(fold(column), column)
        known.setdefault(tuple(map(singular, fold(column))), column)
    known.pop((), None)
    return _items(tokens, known)


def _items(tokens: Sequence[Token], columns: Mapping[tuple[str, ...], str]) -> list[Item]:
    items: list[Item] = []
    longest = min(max((len(k) for k in columns), default=1), 8)
    at = 0
    while at < len(tokens):
        item, used = _item(tokens, at, columns, longest, items)
        item.before = tokens[at].before
        at += used
        last = items[-1] if items else None
        divided = "/" in item.before and any(i.text == "=" for i in items)
        joined = item.kind == "words" and not (divided or is_computed(item.before))
        if joined and last is not None and last.kind == "words":
            last.text = f"{last.text} {item.text}"
        else:
            items.append(item)
    return items


def is_computed(before: str) -> bool:
    """Whether signs part words like a formula: "a - b" does, and "follow-up" does not."""
    return bool(set("(*×÷^") & set(before)) or (before != before.strip() and bool(before.strip()))


def _item(
    tokens: Sequence[Token],
    at: int,
    columns: Mapping[tuple[str, ...], str],
    longest: int,
    before: Sequence[Item],
) -> tuple[Item, int]:
    token = tokens[at]
    if token.kind == "quoted":
        column = columns.get(fold(token.bare))
        return Item("quoted", column, token.bare, token.start), 1
    if token.kind == "op":
        op = {"=": "==", "≥": ">=", "≤": "<=", "≠": "!=", "<>": "!="}.get(token.text, token.text)
        return Item("cmp", op, token.text, token.start), 1
    if token.kind == "comma":
        return Item("comma" if token.text == "," else "and", None, token.text, token.start), 1
    column, length = _column_at(tokens, at, columns, longest)
    if token.kind == "word":
        entry, used = _entry_at(tokens, at)
        if column is not None and (
            entry is None
            or length > used
            or (length == used and _is_column_here(entry[0], tokens, at, used, before))
        ):
            text = " ".join(t.text for t in tokens[at : at + length])
            return Item("column", column, text, token.start), length
        if entry is not None:
            text = " ".join(t.text for t in tokens[at : at + used])
            return Item(entry[0], entry[1], text, token.start), used
        return Item("words", None, token.text, token.start), 1
    if column is not None and token.kind != "number":
        return Item("column", column, token.text, token.start), length
    if token.kind == "number":
        return Item("number", token.number, token.text, token.start), 1
    return Item(token.kind, token.bare, token.bare, token.start), 1


def _column_at(
    tokens: Sequence[Token], at: int, columns: Mapping[tuple[str, ...], str], longest: int
) -> tuple[str | None, int]:
    found: tuple[str | None, int] = (None, 0)
    words: tuple[str, ...] = ()
    for count, token in enumerate(tokens[at : at + longest], start=1):
        if token.kind not in ("word", "number"):
            break
        words += fold(token.text if token.text != token.text.upper() else token.low)
        name = columns.get(words) or columns.get(tuple(map(singular, words)))
        if name is not None:
            found = (name, count)
    return found


def _entry_at(tokens: Sequence[Token], at: int) -> tuple[Entry | None, int]:
    words: list[str] = []
    for token in tokens[at : at + LONGEST]:
        if token.kind != "word":
            break
        words.append(token.low)
    for length in range(len(words), 0, -1):
        phrase = tuple(words[:length])
        if phrase in LEXICON:
            return LEXICON[phrase], length
        if phrase in ADJECTIVES:
            return ("adjective", ADJECTIVES[phrase]), length
    whole = tokens[at].text.casefold()
    if (whole,) in LEXICON:
        return LEXICON[(whole,)], 1
    return None, 0


def _parts_sides(before: str) -> bool:
    """Whether there is a sign between two sides of a formula, and not a bracket alone."""
    return is_computed(before) and bool(set("-−*×/÷") & set(before))


def _is_column_here(
    kind: str, tokens: Sequence[Token], at: int, used: int, before: Sequence[Item]
) -> bool:
    previous = next((i for i in reversed(before) if i.kind not in ("skip",)), None)
    following = tokens[at + used] if at + used < len(tokens) else None
    if _parts_sides(tokens[at].before) or (following and _parts_sides(following.before)):
        return True
    if kind in ("skip", "and"):
        # A column called "a" is one where nothing follows that the article could belong to.
        alone = following is None or following.kind != "word" or following.low in _CONNECTS
        return kind == "skip" and alone and bool(previous and previous.kind in _EXPLICIT)
    if kind in _NEEDS_PLACE:
        compared = following is not None and (following.kind == "op" or following.low in _COMPARES)
        listed = (
            previous is not None
            and previous.kind in ("and", "comma")
            and len(before) > 1
            and before[-2].kind == "column"
        )
        named = previous is not None and (
            previous.kind in _EXPLICIT or previous.text.casefold() == "over"
        )
        return compared or listed or named
    return previous is not None and previous.kind not in ("stop",)
