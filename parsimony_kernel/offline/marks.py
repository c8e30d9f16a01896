"""What stands in the data is recognised in a request: columns, values, tables, numbers, dates.

Each becomes a mark, a letter with a number, which the rows of ``patterns.toml`` then speak of. What
a mark may stand for is decided where it is used; where that is open, a person says which.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rapidfuzz import fuzz

from parsimony_kernel.core.fuzzy import alike
from parsimony_kernel.offline.code import values_like
from parsimony_kernel.offline.patterns import aggregate, filler, keywords, table
from parsimony_kernel.offline.query import MONTHS, Query
from parsimony_kernel.offline.schema import Column, Table
from parsimony_kernel.offline.transcript import Transcript
from parsimony_kernel.offline.words import Token, canonical, fold, singular, spoken

STOP = "Stop here"
MOST = 4
_CODES = frozenset({"id", "no", "nr", "code", "number"})


@dataclass(eq=False)
class Ask(Exception):
    """A person must say which."""

    question: str
    choices: Sequence[str]


@dataclass(eq=False)
class Look(Exception):
    """This expression must be looked up in the data first."""

    expression: str
    why: str


class No(Exception):
    """It cannot be done; the text says why, in one line."""


class Stopped(Exception):
    """The person said to stop."""


def choose(answers: Mapping[str, str], question: str, choices: Sequence[str]) -> str:
    """Return the choice that the person made.

    Args:
        answers: what the person has replied, by question.

    Raises:
        Ask: until there is a reply that is one of the choices.
        Stopped: when the reply is to stop.
    """
    if len(choices) > MOST:
        question = f"{question} (of {len(choices)})"
    reply = answers.get(question)
    if reply is None:
        raise Ask(question, choices[:MOST])
    low = reply.strip().casefold().rstrip(".!")
    if low in ("stop", STOP.casefold(), "no", "cancel", "never mind"):
        raise Stopped
    found = [c for c in choices if c.casefold() == low]
    found = found or [c for c in choices if low and low in c.casefold()]
    if len(found) != 1:
        return choose(answers, f"{reply[:80]!r} is none of the choices. {question}", choices)
    return found[0]


@dataclass
class Marks:
    """One request about one table.

    Args:
        turn: what is known of the notebook, and what the person has replied.
        known: what was looked up in the data, by its expression.
        before: gives the query of the request before, which this one may go on from.
        marks: what the marks stand for, by their text.
        raw: the words and marks as they were written.
        values: values that were found in the data, beyond the samples.
    """

    tokens: Sequence[Token]
    table: Table
    turn: Transcript
    known: Mapping[str, Any]
    before: Callable[[], Query | None]
    query: Query = field(default_factory=Query)
    marks: dict[str, Any] = field(default_factory=dict)
    raw: dict[str, str] = field(default_factory=dict)
    values: list[tuple[Column, str]] | None = None

    def marked(self) -> str:
        """Write the request with its marks."""
        said: list[str] = []
        at = 0
        while at < len(self.tokens):
            found = next(self._names_at(at, said[-1] if said else ""), None)
            mark, size = found or (self._plain(self.tokens[at]), 1)
            said.append(mark)
            at += size
        return " ".join(filter(None, said))

    def _plain(self, token: Token) -> str:
        letter = {"quoted": "Q", "number": "N", "date": "D"}.get(token.kind)
        if letter:
            return self.mark(letter, token.number if letter == "N" else token.bare)
        if token.kind == "sign":
            return "" if token.text in "?.!:" else token.text
        self.raw.setdefault(token.low, token.text)
        return token.low

    def mark(self, letter: str, value: Any, words: str = "") -> str:
        """Make a new mark for ``value``, which the request calls ``words``.

        Args:
            letter: its kind. That of a column gets a second letter: whether it is a measure, a
                time, a flag or any other.
        """
        if letter == "C":
            kinds = {"m": "is_measure", "t": "is_time", "f": "is_flag"}
            every = (k for k, name in kinds.items() if all(getattr(c, name) for c in value))
            letter = f"C{next(every, 'k')}"
        mark = f"{letter}{len(self.marks) + 1}"
        self.marks[mark] = value
        self.raw[mark] = words or str(value)
        return mark

    def _names_at(self, at: int, behind: str) -> Iterator[tuple[str, int]]:
        """Mark the names that begin with the token there, longest first, with their length."""
        for size in range(min(5, len(self.tokens) - at), 0, -1):
            piece = self.tokens[at : at + size]
            kinds = {each.kind for each in piece}
            text = " ".join(each.bare for each in piece)
            if [each.text for each in piece[1::2]] == ["-"] * (size // 2) and size % 2 == 1 < size:
                if values := self._values_of(text.replace(" - ", "-")):
                    yield self.mark("V", values, text), size
                continue
            is_name = kinds != {"number"} and kinds <= {"word", "number" if size > 1 else "quoted"}
            after = self.tokens[at + size].bare if at + size < len(self.tokens) else ""
            if is_name and (mark := self._name(text, piece[0].kind == "quoted", behind, after)):
                yield mark, size

    def _name(self, text: str, is_quoted: bool, behind: str, after: str) -> str:
        words = fold(text)
        low = " ".join(words)
        exact = [c for c in self.table.columns if _is_name(words, c)]
        is_key = len(words) == 1 and low in keywords() and not is_quoted
        is_key = is_key and not (text.isupper() and len(text) > 1)
        is_other = not exact and text.casefold() in map(str.casefold, self.turn.tables())
        if is_other or (self._is_rows(words, exact) and not is_key and not is_quoted):
            return self.mark("T", self.table.name, text)
        # The total of a column, where a column is called total as well.
        is_function = is_key and aggregate(low) and self._columns_of(fold(after))
        if exact and not is_function:
            return self.mark("C", exact, text)
        parts = table()["parts"].items()
        if found := [p for p, row in parts if re.fullmatch(row.get("words", ""), low)]:
            return self.mark("P", found[-1], text)
        values = self._values_of(text)
        if is_key:
            values = [p for p in values if p[1] == text and behind.startswith("C")]
        partly = [] if is_key or is_quoted else self._columns_of(words)
        measures = [c.name for c in partly if c.is_measure]
        if values and measures and not aggregate(behind):
            raise No(f"{text!r} is a value of {values[0][0].name}, and {spoken(measures)} is a "
                     "column: say the name of one of them.")  # fmt: skip
        if values and not measures:
            return self.mark("V", values, text)
        months = [i for i, m in enumerate(MONTHS, 1) if low in (m.lower(), m[:3].lower())]
        if months and self.table.times and (low != "may" or behind in filler("months")):
            return self.mark("M", months[0], text)
        if partly:
            return self.mark("C", partly, text)
        if singular(low) in filler("events"):
            self.note(f"Read {text!r} as the rows of {self.table.name}")
            return self.mark("T", self.table.name, text)
        return ""

    def _is_rows(self, words: tuple[str, ...], exact: Sequence[Column]) -> bool:
        """Whether ``words`` are what the rows are called: the table, or what its ids number."""
        mine, named = tuple(map(singular, words)), tuple(map(singular, fold(self.table.name)))
        ids = [c for c in self.table.columns[:1] if c.is_code]
        numbered = [tuple(singular(w) for w in fold(c.name) if w not in _CODES) for c in ids]
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

    def _values_of(self, text: str) -> list[tuple[Column, str]]:
        """Find the columns that hold the value ``text``, with the value as they write it."""
        low = text.casefold()
        seen = [(c, sample) for c in self.table.texts for sample in c.samples]
        fit = [p for p in (*seen, *(self.values or ())) if p[1].casefold() in (low, singular(low))]
        # A few samples don't tell whether a column of the same kind has it too: the away team
        # beside the home team.
        own = {c for c, _ in fit}
        words = [word for c in own for word in fold(c.name)]
        if any(c.has_word(words) for c in self.table.texts if c not in own):
            found = self._found([text], f"Look for {text!r}")
            fit += [p for p in found if p[0].has_word(words) and p[1].casefold() == low]
        return list(dict.fromkeys(fit))

    # -- looking and choosing ----------------------------------------------------------------

    def _found(self, words: Sequence[str], why: str) -> list[tuple[Column, str]]:
        """Look for words in the texts of the table: the columns, and the values that have them."""
        names = {c.name: c for c in self.table.texts}
        found = self.fetch(values_like(self.table, words), why, ())
        return [(names[name], value) for name, value in found if name in names]

    def fetch(self, expression: str, why: str, otherwise: Any = None) -> Any:
        """Return what an expression gives on the data; raises ``Look`` until that is known.

        Where the values are kept from the model it is ``otherwise``, and without that a no.
        """
        if expression not in self.known:
            raise Look(expression, why)
        value = self.known[expression]
        if value is None and otherwise is None:
            raise No("That depends on values of the data, which the model is not shown here.")
        return otherwise if value is None else value

    def choose(self, question: str, choices: Sequence[str]) -> str:
        """Return the choice that the person made; raises ``Ask`` until one was."""
        return choose(self.turn.answers, question, choices)

    def note(self, text: str) -> None:
        """Say what has changed the meaning, once."""
        self.query.notes += [text] if text not in self.query.notes else []

    def pick(self, mark: str, want: str = "") -> Column:
        """Return the column that is meant, of those that a mark may stand for."""
        listed: list[Column] = self.marks[mark]
        words = self.raw[mark]
        fit = {
            "measure": [c for c in listed if c.kind in ("number", "boolean")],
            "group": [c for c in listed if not c.is_measure] or listed,
        }.get(want, listed)
        if not fit:
            raise No(f"{spoken(c.name for c in listed)} holds no numbers.")
        name, said = fit[0].name, f"Read {words!r} as "
        if len(fit) > 1:
            names = [c.name for c in fit]
            before = re.findall(rf"{re.escape(said)}([^.]+?)(?:, as before)?\.", self.turn.told)
            if before and before[-1] in names:
                name = before[-1]
                self.note(f"{said}{name}, as before")
            else:
                question = f"Which column of `{self.table.name}` do you mean by {words!r}?"
                name = self.choose(question, names)
        is_said = any(each.startswith(f"{said}{name}") for each in self.query.notes)
        if canonical(fold(words)) != canonical(fold(name)) and not is_said:
            self.note(f"{said}{name}")
        return self.table.column(name)

    def time(self, why: str) -> Column:
        """Return the column of dates that is meant."""
        times = self.table.times
        if not times:
            raise No(f"{self.table.name} has no column of dates for {why!r}.")
        said = [c for m in self.marks if m[0] == "C" for c in self.marks[m] if c in times]
        return self.one_of(f"Which date do you mean for {why!r}?", said or times)

    def one_of(self, question: str, columns: Sequence[Column]) -> Column:
        """Return the column that is meant, of those that it may be."""
        names = list(dict.fromkeys(c.name for c in columns))
        return self.table.column(names[0] if len(names) == 1 else self.choose(question, names))

    def adjective(self, word: str) -> tuple[Column, bool]:
        """Return the column that an adjective measures, and whether it means the low end."""
        fit: dict[Column, bool] = {}
        for nouns, high, low in table()["adjectives"].values():
            if word in (*high.split("|"), *low.split("|")):
                columns = (c for c in self.table.measures if c.has_word(nouns.split()))
                fit |= dict.fromkeys(columns, word in low.split("|"))
        if not fit:
            raise No(f'The built-in model doesn\'t know which column "{word}" is about.')
        column = self.one_of(f"Which column is {word!r} about?", list(fit))
        self.note(f'Ranked "{word}" by {column.name}')
        return column, fit[column]


def _is_name(words: tuple[str, ...], column: Column) -> bool:
    mine = [*map(singular, words)]
    own = fold(column.name)
    whole = mine == [*map(singular, own)] or "".join(words) == "".join(own)
    return bool(words) and (whole or mine == [*map(singular, fold(column.plain))])
