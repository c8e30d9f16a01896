"""Arithmetic with columns, read from items. It is a tree of values and is never evaluated here.

Products come before sums, as in school; what follows "difference between" or "ratio of" is one
side each.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from parsimony_kernel.offline.grammar.clauses import Mention
from parsimony_kernel.offline.grammar.items import Item, is_computed

_BY_NAME = {"log": "log", "ln": "log", "log10": "log10", "sqrt": "sqrt", "abs": "abs"}
_SIGNS = {"-": "-", "−": "-", "–": "-", "*": "*", "×": "*", "/": "/", "÷": "/", "(": "(",
          ")": ")"}  # fmt: skip
_RANK = {"+": 1, "-": 1, "*": 2, "/": 2}
# A longer expression is none that a person would type.
_MOST = 100
_OPERANDS = frozenset({"words", "column", "quoted", "number"})
# Words with other meanings that can be names of columns.
_OTHERS = frozenset({"skip", "unit", "noun", "kind", "ref"})


@dataclass(frozen=True)
class Operation:
    """Two sides and what is done with them: plus, minus, times, divided by, as signs."""

    sign: str
    left: Any
    right: Any


@dataclass(frozen=True)
class Function:
    """A function of one value: log, log10, sqrt, abs."""

    name: str
    of: Any


@dataclass(frozen=True)
class Converted:
    """A value in another ``unit``; no ``source`` is a unit that was not said."""

    of: Any
    unit: str
    source: str | None = None


@dataclass(frozen=True)
class _Piece:
    """A sign, or an item; ``end`` is the number of items up to it, it included."""

    sign: str
    item: Item | None
    end: int


class _NoExpression(Exception):
    """What stands there is no arithmetic."""


def signs(tree: Any) -> Iterator[str]:
    """What is done in an expression: its signs and functions."""
    match tree:
        case Operation(sign=sign, left=left, right=right):
            yield sign
            yield from signs(left)
            yield from signs(right)
        case Function(of=of) | Converted(of=of):
            yield ""
            yield from signs(of)


def leaves(tree: Any) -> Iterator[Any]:
    """The columns and numbers of an expression, from left to right."""
    match tree:
        case Operation(left=left, right=right):
            yield from leaves(left)
            yield from leaves(right)
        case Function(of=of) | Converted(of=of):
            yield from leaves(of)
        case _:
            yield tree


def read_expression(
    items: Sequence[Item], *, formula: bool, plus: bool = True
) -> tuple[Any, int] | None:
    """The expression that ``items`` begin with, and of how many items it is.

    A ``formula`` follows "=" or a name: there, signs need no room around them. ``plus`` says that
    "+" adds; it can also stand for "and".
    """
    reader = _Expression(list(islice(_pieces(items, formula=formula, plus=plus), _MOST)))
    try:
        tree = reader.sum(0)
    except _NoExpression:
        return None
    named = any(isinstance(leaf, Mention) for leaf in leaves(tree))
    return (tree, reader.end) if named and reader.depth == 0 and reader.at < _MOST else None


class _Expression:
    """A reader of items, sign by sign; ``end`` is how many items it has used."""

    def __init__(self, pieces: Sequence[_Piece]) -> None:
        self.pieces = pieces
        self.at, self.end, self.depth = 0, 0, 0

    def peek(self) -> _Piece:
        """The next piece; one without an item and sign is the end."""
        return self.pieces[self.at] if self.at < len(self.pieces) else _Piece("", None, 0)

    def take(self) -> _Piece:
        """The next piece, used."""
        piece = self.peek()
        self.at += 1
        self.end = max(self.end, piece.end)
        return piece

    def sum(self, rank: int) -> Any:
        """Sides joined by signs of at least ``rank``."""
        left = self.operand()
        while True:
            sign = self.peek().sign
            if _RANK.get(sign, 0) <= rank:
                return left
            self.take()
            left = Operation(sign, left, self.sum(_RANK[sign]))

    def operand(self) -> Any:
        """One value, with what is said behind it of its unit."""
        value = self.value()
        source: str | None = None
        while (item := self.peek().item) is not None and item.kind in ("from_unit", "in_unit"):
            following = self.pieces[self.at + 1].item if self.at + 1 < len(self.pieces) else None
            more = following is not None and following.kind == "in_unit"
            if item.kind == "from_unit" and not more:
                return value
            self.take()
            if item.kind == "from_unit":
                source = item.value
            else:
                value, source = Converted(value, item.value, source), None
        return value

    def value(self) -> Any:
        """A column, a number, a function of one, or what stands in brackets."""
        piece = self.take()
        item = piece.item
        if piece.sign == "-":
            value = self.operand()
            if not isinstance(value, int | float):
                return Operation("*", -1, value)
            return -value
        if piece.sign == "(":
            self.depth += 1
            tree = self.sum(0)
            if self.peek().sign == ")":
                self.take()
            elif self.peek().item is not None:
                raise _NoExpression
            self.depth -= 1
            return tree
        if item is None:
            raise _NoExpression
        if item.kind == "derived":
            return self.sides(item)
        if item.kind == "function":
            return Function(item.value, self.operand())
        if item.kind == "words" and item.text.casefold() in _BY_NAME and self.peek().sign == "(":
            return Function(_BY_NAME[item.text.casefold()], self.value())
        if item.kind == "func" and item.value in ("min", "max") and self._follows("words"):
            words = self.take().item
            assert words is not None
            return Mention(f"{item.text} {words.text}")
        if item.kind == "number":
            return item.value / 100 if item.text.endswith("%") else item.value
        if item.kind in _OPERANDS or (item.kind in _OTHERS and self._is_beside_sign()):
            column = item.value if item.kind in ("column", "quoted") else None
            return Mention(item.text, column, quoted=item.kind == "quoted")
        raise _NoExpression

    def sides(self, item: Item) -> Operation:
        """Both sides of a difference, a ratio or a product."""
        left = self.sum(0)
        link = self.take().item
        links = ("to", "and", "comma", "vs") if item.value == "/" else ("and", "comma")
        if link is None or link.kind not in links:
            raise _NoExpression
        return Operation(item.value, left, self.sum(1))

    def _is_beside_sign(self) -> bool:
        """Whether what was taken last is next to a sign: "ordered - shipped" names columns."""
        before = self.pieces[self.at - 2].sign if self.at > 1 else ""
        return before in _RANK or self.peek().sign in _RANK

    def _follows(self, kind: str) -> bool:
        item = self.peek().item
        return item is not None and item.kind == kind


def _pieces(items: Sequence[Item], *, formula: bool, plus: bool) -> Iterator[_Piece]:
    for index, item in enumerate(items):
        signs = "".join(item.before.split())
        if index == 0 and not formula:
            signs = "(" * signs.count("(")
        elif signs and not (formula or _is_sign(items[index - 1], item)):
            # "and/or", "follow-up": no arithmetic
            return
        if item.kind not in ("in_unit", "from_unit"):
            for sign in signs:
                yield _Piece(_SIGNS.get(sign, "?"), None, index)
        text = item.text.casefold()
        if item.kind == "skip" and text in ("the", "a", "an"):
            continue
        if item.kind == "arith":
            yield _Piece(item.value, None, index + 1)
        elif item.kind == "words" and "times" in text.split():
            yield from _times(item, index)
        elif plus and (text == "+" or (formula and item.kind == "and" and text == "plus")):
            yield _Piece("+", None, index + 1)
        elif item.kind == "number" and item.text.startswith("-") and index:
            yield _Piece("-", None, index)
            yield _Piece("", Item("number", -item.value, item.text), index + 1)
        else:
            yield _Piece("", item, index + 1)


def _times(item: Item, index: int) -> Iterator[_Piece]:
    """The sides of "a times b", which is one item where the columns are not known yet."""
    for part in re.split(r"\b(times)\b", item.text, flags=re.IGNORECASE):
        if part.casefold() == "times":
            yield _Piece("*", None, index + 1)
        elif part.strip():
            yield _Piece("", Item("words", None, part.strip()), index + 1)


def _is_sign(before: Item, item: Item) -> bool:
    """Whether what parts two items is arithmetic: "a - b", "a*b", and "a-b" where both are known.

    "a/b" can be a list as well.
    """
    minus = item.before.strip() in ("-", "−") and before.kind == item.kind == "column"
    return minus or ")" in item.before or is_computed(item.before)
