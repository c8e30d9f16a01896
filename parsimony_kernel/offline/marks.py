"""What stands in the data is recognised in a request: columns, values, tables, numbers, dates.

Each becomes a mark, a letter with a number, which the rows of ``patterns.toml`` then speak of. What
a mark may stand for is decided where it is used; where that is open, a person says which.
"""

import re
from calendar import month_name
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rapidfuzz import fuzz

from parsimony_kernel.core.choices import MORE, Choice, read
from parsimony_kernel.core.fuzzy import alike
from parsimony_kernel.offline.code import values_like
from parsimony_kernel.offline.patterns import aggregate, filler, keywords, table
from parsimony_kernel.offline.schema import CODES, Column, Query, Table, part_of
from parsimony_kernel.offline.transcript import Transcript
from parsimony_kernel.offline.words import Token, canonical, fold, singular, spoken

MOST = 4
_MONTHS = [name.lower() or "-" for name in month_name]


@dataclass(eq=False)
class Ask(Exception):
    """A person must say which."""

    question: str
    choices: Sequence[str]


class No(Exception):
    """It cannot be done; the text says why, in one line."""


def no_if(is_so: object, why: str, *about: object) -> None:
    """Refuse with the sentence ``why`` of the table of patterns, where something is so."""
    if is_so:
        raise No(table()["no"][why].format(*about))


def choose(answers: Mapping[str, str], question: str, choices: Sequence[str]) -> str:
    """Return the choice that the person made.

    Args:
        answers: what the person has replied, by question.

    Raises:
        Ask: until there is a reply that is one of the choices.
        No: when the reply is to stop.
    """
    if len(choices) > MOST:
        question = f"{question} (of {len(choices)})"
    reply = answers.get(question)
    if reply is None:
        raise Ask(question, choices[:MOST])
    low = reply.strip().casefold().rstrip(".!")
    found = [c for c in choices if c.casefold() == low]
    found = found or [c for c in choices if low and low in c.casefold()]
    no_if(not found and read(reply, MORE) is Choice.stop, "stopped")
    if len(found) != 1:
        return choose(answers, f"{reply[:80]!r} is none of the choices. {question}", choices)
    return found[0]


@dataclass
class Marks:
    """One request about one table.

    Args:
        turn: what is known of the notebook, and what the person has replied.
        look: gives what an expression comes to on the data, ``None`` where that is kept back.
        before: gives the query of the request before, which this one may go on from.
        marks: what the marks stand for, by their text.
        raw: the words and marks as they were written.
        values: the values that the request may name, each with its column.
    """

    tokens: Sequence[Token]
    table: Table
    turn: Transcript
    look: Callable[[str, str], Any]
    before: Callable[[], Query | None]
    query: Query = field(default_factory=Query)
    marks: dict[str, Any] = field(default_factory=dict)
    raw: dict[str, str] = field(default_factory=dict)
    values: list[tuple[Column, str]] = field(default_factory=list)

    def marked(self) -> str:
        """Write the request with its marks."""
        samples = [(c, sample) for c in self.table.texts for sample in c.samples]
        self.values = list(dict.fromkeys([*samples, *self._looked_up()]))
        said, at = list[str](), 0
        while at < len(self.tokens):
            mark, size = self._named(at, said[-1] if said else "")
            said += [mark] * bool(mark)
            at += size
        return " ".join(said)

    def _looked_up(self) -> list[tuple[Column, str]]:
        """Look for the words in the texts of the table that are nothing else."""
        words = [t.bare if t.kind in ("word", "quoted") else "" for t in self.tokens]
        others = keywords() | {name.casefold() for name in self.turn.tables()}
        unknown = [i for i, word in enumerate(words) if word and word.casefold() not in others]
        unknown = [i for i in unknown if not self._columns_of(fold(words[i]))]
        texts = {c.name: c for c in self.table.texts}
        if not (unknown and texts):
            return []
        pieces = [" ".join(words[at : at + size]) for at in unknown for size in range(1, 5)]
        why = f"Look for {spoken([repr(words[at]) for at in unknown[:3]], 'or')}"
        found = self.look(values_like(self.table, list(dict.fromkeys(pieces))[:60]), why)
        return [(texts[name], value) for name, value in found or () if name in texts]

    def _plain(self, token: Token) -> str:
        if token.kind == "number":
            value = float(token.text.replace(",", ""))
            return self.mark("N", int(value) if value.is_integer() else value, token.text)
        if token.kind in ("quoted", "date"):
            return self.mark(token.kind[0].upper(), token.bare)
        if token.kind == "sign":
            return "" if token.text in "?.!:" else token.text
        self.raw.setdefault(token.low, token.text)
        return token.low

    def mark(self, letter: str, value: Any, words: str = "") -> str:
        """Make a new mark for ``value``, which the request calls ``words``.

        Args:
            letter: its kind. That of a column gets a second letter: whether it is a measure, a
                time or any other.
        """
        if letter == "C":
            kinds = {"m": "is_measure", "t": "is_time"}
            every = (k for k, name in kinds.items() if all(getattr(c, name) for c in value))
            letter = f"C{next(every, 'k')}"
        mark = f"{letter}{len(self.marks) + 1}"
        self.marks[mark] = value
        self.raw[mark] = words or str(value)
        return mark

    def _named(self, at: int, behind: str) -> tuple[str, int]:
        """Mark the longest name that begins with the token there, with its length."""
        for size in range(min(5, len(self.tokens) - at), 0, -1):
            piece = self.tokens[at : at + size]
            kinds = {each.kind for each in piece}
            text = " ".join(each.bare for each in piece)
            is_name = kinds != {"number"} and kinds <= {"word", "number" if size > 1 else "quoted"}
            after = "".join(each.bare for each in self.tokens[at + size : at + size + 1])
            if is_name and (mark := self._name(text, piece[0].kind == "quoted", behind, after)):
                return mark, size
        return self._plain(self.tokens[at]), 1

    def _name(self, text: str, is_quoted: bool, behind: str, after: str) -> str:
        words = fold(text)
        low = " ".join(words)
        exact = [c for c in self.table.columns if _is_name(words, c)]
        is_key = low in keywords() and not is_quoted and not (text.isupper() and len(text) > 1)
        is_other = not exact and text.casefold() in map(str.casefold, self.turn.tables())
        if is_other or (self._is_rows(words, exact) and not is_key and not is_quoted):
            return self.mark("T", self.table.name, text)
        # The total of a column, where a column is called total as well.
        if exact and not (is_key and aggregate(low) and self._columns_of(fold(after))):
            return self.mark("C", exact, text)
        parts = table()["parts"].items()
        if found := [p for p, row in parts if re.fullmatch(row.get("words", ""), low)]:
            return self.mark("P", found[-1], text)
        same = (text.casefold(), singular(text.casefold()))
        values = [pair for pair in self.values if pair[1].casefold() in same]
        if is_key:
            values = [p for p in values if p[1] == text and behind.startswith("C")]
        partly = [] if is_key or is_quoted else self._columns_of(words)
        measures = [c.name for c in partly if c.is_measure]
        is_both = values and measures and not aggregate(behind)
        no_if(is_both, "value", text, spoken(c.name for c, _ in values[:1]), spoken(measures))
        if values and not measures:
            return self.mark("V", values, text)
        month = next((i for i, m in enumerate(_MONTHS) if low in (m, m[:3])), 0)
        is_date = self.table.times[:1] and self.table.times[0].kind == "date"
        if month and is_date and (low != "may" or behind in filler("months")):
            return self.mark("V", [(part_of(self.time(text), "month_name"), month)], text)
        if partly:
            return self.mark("C", partly, text)
        if singular(low) in filler("events"):
            self.query.notes.append(f"Read {text!r} as the rows of {self.table.name}")
            return self.mark("T", self.table.name, text)
        return ""

    def _is_rows(self, words: tuple[str, ...], exact: Sequence[Column]) -> bool:
        """Whether ``words`` are what the rows are called: the table, or what its ids number."""
        mine, named = tuple(map(singular, words)), tuple(map(singular, fold(self.table.name)))
        ids = [fold(c.name) for c in self.table.columns[:1] if c.is_code]
        numbered = [tuple(singular(w) for w in each if w not in CODES) for each in ids]
        return mine in numbered or (not exact and mine in (named, named[-1:]))

    def _columns_of(self, words: tuple[str, ...]) -> list[Column]:
        """Find the columns of whose names all ``words`` are a part, or nearly the whole."""
        if not words or any(w in keywords() - {"time"} or w.isdigit() for w in words):
            return [c for c in self.table.columns if _is_name(words, c)]
        mine = canonical(words)
        own = {c: canonical(fold(c.name)) for c in self.table.columns}
        found = [c for c in own if all(any(alike(w, each) for each in own[c]) for w in mine)]
        joined = "".join(words)
        if not found and len(joined) > 4:
            sized = [c for c in own if len(words) in (1, len(fold(c.name)))]
            found = [c for c in sized if fuzz.ratio(joined, "".join(fold(c.name))) >= 84]
        return [c for c in found if own[c] == mine] or found

    # -- looking and choosing ----------------------------------------------------------------

    def choose(self, question: str, choices: Sequence[str]) -> str:
        """Return the choice that the person made; raises ``Ask`` until one was."""
        return choose(self.turn.answers, question, choices)

    def pick(self, mark: str, want: str = "") -> Column:
        """Return the column that is meant, of those that a mark may stand for."""
        listed: list[Column] = self.marks[mark]
        words, said = self.raw[mark], f"Read {self.raw[mark]!r} as "
        fit = {
            "measure": [c for c in listed if c.kind in ("number", "boolean")],
            "group": [c for c in listed if not c.is_measure] or listed,
        }.get(want, listed)
        no_if(not fit, "kind", spoken(c.name for c in listed), "numbers")
        names = [c.name for c in fit]
        before = re.findall(rf"{re.escape(said)}([^.]+?)(?:, as before)?\.", self.turn.told)
        if len(names) > 1 and before and before[-1] in names:
            self.query.notes.append(f"{said}{before[-1]}, as before")
            return self.table.column(before[-1])
        column = self.one_of(f"Which column of `{self.table.name}` do you mean by {words!r}?", fit)
        if canonical(fold(words)) != canonical(fold(column.name)):
            self.query.notes.append(f"{said}{column.name}")
        return column

    def time(self, why: str) -> Column:
        """Return the column of dates that is meant."""
        times = self.table.times
        no_if(not times, "time", self.table.name, why)
        said = [c for m in self.marks if m[0] == "C" for c in self.marks[m] if c in times]
        return self.one_of(f"Which date do you mean for {why!r}?", said or times)

    def one_of(self, question: str, columns: Sequence[Column]) -> Column:
        """Return the column that is meant, of those that it may be."""
        names = list(dict.fromkeys(c.name for c in columns))
        return self.table.column(names[0] if len(names) == 1 else self.choose(question, names))


def _is_name(words: tuple[str, ...], column: Column) -> bool:
    mine, own = [*map(singular, words)], fold(column.name)
    names = ([*map(singular, own)], [*map(singular, fold(column.plain))])
    return bool(words) and (mine in names or "".join(words) == "".join(own))
