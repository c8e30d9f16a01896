"""What stands in the data is recognised in a request: columns, values, tables, numbers, dates.

Each becomes a mark, a letter with a number, which the rows of ``patterns.toml`` then speak of. What
a mark may stand for is decided where it is used; where that is open, a person says which.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rapidfuzz import fuzz, process

from parsimony_kernel.core.fuzzy import alike
from parsimony_kernel.offline.code import values_like
from parsimony_kernel.offline.patterns import aggregate, keywords, table
from parsimony_kernel.offline.query import MONTHS, Measure, Query
from parsimony_kernel.offline.schema import Column, Table
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
    found = [c for c in choices if c.casefold() == low] or [
        c for c in choices if low and low in c.casefold()
    ]
    if len(found) != 1:
        return choose(answers, f"{reply[:80]!r} is none of the choices. {question}", choices)
    return found[0]


@dataclass
class Marks:
    """One request about one table.

    Args:
        answers: what the person has replied, by question.
        known: what was looked up in the data, by its expression.
        tables: the names of all tables.
        told: what earlier requests came to.
        before: gives the query of the request before, which this one may go on from.
        marks: what the marks stand for, by their text.
        raw: the words and marks as they were written.
        values: values that were found in the data, beyond the samples.
    """

    tokens: Sequence[Token]
    table: Table
    answers: Mapping[str, str]
    known: Mapping[str, Any]
    tables: Sequence[str]
    told: str
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
        match token.kind:
            case "quoted":
                return self.mark("Q", token.bare)
            case "number":
                return self.mark("N", token.number)
            case "date":
                return self.mark("D", token.bare)
            case "sign":
                return "" if token.text in "?.!:" else token.text
        word = token.low
        samples = (each.casefold() for c in self.table.columns for each in c.samples)
        if len(word) > 5 and word not in keywords() and not any(word in each for each in samples):
            near = process.extractOne(word, keywords(), scorer=fuzz.ratio, score_cutoff=88)
            word = near[0] if near and near[0][0] == word[0] else word
        self.raw.setdefault(word, token.text)
        return word

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
            quoted = piece[0].kind == "quoted"
            if is_name and (mark := self._name(text, quoted, behind, at + size)):
                yield mark, size

    def _name(self, text: str, is_quoted: bool, behind: str, end: int) -> str:
        words = fold(text)
        low = " ".join(words)
        exact = [c for c in self.table.columns if _is_name(words, c)]
        is_key = len(words) == 1 and low in keywords() and not is_quoted
        is_key = is_key and not (text.isupper() and len(text) > 1)
        if self._is_rows(words, exact) and not is_key and not is_quoted:
            return self.mark("T", self.table.name, text)
        named = [t for t in self.tables if text.casefold() == t.casefold()]
        if named and not exact:
            return self.mark("T", named[0], text)
        if exact and not (is_key and aggregate(low) and self._is_column(end)):
            return self.mark("C", exact, text)
        parts = table()["parts"].items()
        if found := [p for p, row in parts if re.fullmatch(row.get("words", ""), low)]:
            return self.mark("P", found[-1], text)
        values = self._values_of(text)
        partly = [] if is_key or is_quoted else self._partly(words)
        if is_key:
            values = [p for p in values if p[1] == text and behind.startswith("C")]
        measures = [c.name for c in partly if c.is_measure]
        if values and measures and not aggregate(behind):
            value = f"{values[0][0].name} is {values[0][1]}"
            if self.choose(f"What do you mean by {text!r}?", [value, *measures]) == value:
                measures = []
        if values and not measures:
            return self.mark("V", values, text)
        months = [i for i, m in enumerate(MONTHS, 1) if low in (m.lower(), m[:3].lower())]
        is_month = low != "may" or behind in table()["fillers"]["months"].split()
        if months and self.table.times and is_month:
            return self.mark("M", months[0], text)
        if partly:
            return self.mark("C", partly, text)
        if len(words) == 1 and singular(low) in table()["fillers"]["events"].split():
            self.note(f"Read {text!r} as the rows of {self.table.name}")
            return self.mark("T", self.table.name, text)
        return ""

    def _is_column(self, at: int) -> bool:
        """Whether a column is named from the token there on: then a function stands before it."""
        texts = (" ".join(t.bare for t in self.tokens[at : at + size]) for size in (1, 2, 3))
        folded = list(filter(None, map(fold, texts)))
        return any(_is_name(words, c) for words in folded for c in self.table.columns) or (
            bool(folded) and bool(self._partly(folded[0]))
        )

    def _is_rows(self, words: tuple[str, ...], exact: Sequence[Column]) -> bool:
        """Whether ``words`` are what the rows are called: the table, or what its ids number."""
        mine, named = tuple(map(singular, words)), tuple(map(singular, fold(self.table.name)))
        ids = [c for c in self.table.columns[:1] if c.is_code]
        numbered = [tuple(singular(w) for w in fold(c.name) if w not in _CODES) for c in ids]
        return mine in numbered or (not exact and mine in (named, named[-1:]))

    def _partly(self, words: tuple[str, ...]) -> list[Column]:
        """Find the columns of whose names all ``words`` are a part, or nearly the whole."""
        if any(w in keywords() - {"time"} or w.isdigit() for w in words):
            return []
        mine = canonical(words)
        own = {c: canonical(fold(c.name)) for c in self.table.columns}
        found = [c for c in own if all(any(alike(w, each) for each in own[c]) for w in mine)]
        joined = "".join(words)
        if not found and len(joined) > 4:
            sized = [c for c in own if len(words) in (1, len(fold(c.name)))]
            found = [c for c in sized if fuzz.ratio(joined, "".join(fold(c.name))) >= 84]
        return [c for c in found if canonical(fold(c.name)) == mine] or found

    def _values_of(self, text: str) -> list[tuple[Column, str]]:
        """Find the columns that hold the value ``text``, with the value as they write it."""
        low = text.casefold()
        seen = [(c, sample) for c in self.table.texts for sample in c.samples]
        fit = [p for p in (*seen, *(self.values or ())) if p[1].casefold() in (low, singular(low))]
        return list(dict.fromkeys([*fit, *self._in_twins(text, fit)]))

    def _in_twins(self, text: str, fit: Sequence[tuple[Column, str]]) -> list[tuple[Column, str]]:
        """Find where a value stands, too, in columns that share a word with those of ``fit``: the
        away team beside the home team. A few samples don't tell."""
        own = [c for c, _ in fit]
        words = [word for c in own for word in fold(c.name)]
        twins = {c.name: c for c in self.table.texts if c not in own and c.has_word(words)}
        if not twins:
            return []
        found = self.fetch(values_like(self.table, [text]), f"Look for {text!r}", ())
        low = text.casefold()
        return [(twins[n], v) for n, v in found if n in twins and v.casefold() == low]

    # -- looking and choosing ----------------------------------------------------------------

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
        return choose(self.answers, question, choices)

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
            before = re.findall(rf"{re.escape(said)}([^.]+?)(?:, as before)?\.", self.told)
            if before and before[-1] in names:
                name = before[-1]
                self.note(f"{said}{name}, as before")
            else:
                question = f"Which column of `{self.table.name}` do you mean by {words!r}?"
                name = self.choose(question, names)
        if canonical(fold(words)) != canonical(fold(name)) and not any(
            each.startswith(f"{said}{name}") for each in self.query.notes
        ):
            self.note(f"{said}{name}")
        return self._ordered(self.table.column(name))

    def _ordered(self, column: Column) -> Column:
        """A column of dates like 03/04/2024, once it is known which is the day."""
        if column.dates != "slashes":
            return column
        pairs = [[int(part) for part in each.split("/")[:2]] for each in column.samples]
        begins = any(first > 12 for first, _ in pairs)
        if begins == any(second > 12 for _, second in pairs):
            kinds = [f"{column.samples[0]} begins with the {part}" for part in ("day", "month")]
            question = f"How are the dates of {column.name} written?"
            begins = kinds[0] == self.choose(question, kinds)
        return replace(column, dates="dayfirst=True" if begins else "")

    def time(self, why: str) -> Column:
        """Return the column of dates that is meant."""
        times = self.table.times
        if not times:
            raise No(f"{self.table.name} has no column of dates for {why!r}.")
        said = [c for m in self.marks if m[0] == "C" for c in self.marks[m] if c in times]
        names = list(dict.fromkeys(c.name for c in said or times))
        name = names[0]
        if len(names) > 1:
            name = self.choose(f"Which date do you mean for {why!r}?", names)
        return self._ordered(self.table.column(name))

    def function(self, words: Sequence[str], columns: Sequence[Column]) -> Measure | None:
        """Return the function that words mean, alone or before what is no column, and its column.

        Args:
            columns: those that the request names; a measure among them leaves open what is meant.
        """
        query, numbers, rest = self.query, self.table.measures, " ".join(words[1:])
        first = aggregate(words[0])
        # The group of the highest total: a total, ranked.
        ranked = aggregate(rest) if first in ("max", "min") else ""
        agg = aggregate(singular(" ".join(words))) or ranked
        if agg:
            measured = query.do or query.measures or query.sort or {*columns} & {*numbers}
            if not numbers or measured or (ranked and not (query.groups or columns)):
                return None
            query.ascending = bool(ranked) and first == "min"
            return Measure(agg, self.pick(self.mark("C", numbers, " ".join(words))))
        if not (first and rest and numbers):
            return None
        question = f"`{self.table.name}` has no column {rest!r}. Which one do you mean?"
        column = self.choose(question, [c.name for c in numbers])
        return Measure(first, self.table.column(column))

    def adjective(self, word: str) -> tuple[Column, bool]:
        """Return the column that an adjective measures, and whether it means the low end."""
        fit: dict[Column, bool] = {}
        for nouns, high, low in table()["adjectives"].values():
            if word in (*high.split("|"), *low.split("|")):
                columns = (c for c in self.table.measures if c.has_word(nouns.split()))
                fit |= dict.fromkeys(columns, word in low.split("|"))
        if not fit:
            raise No(f'The built-in model doesn\'t know which column "{word}" is about.')
        column = self.pick(self.mark("C", [*fit], word), "measure")
        notes = self.query.notes
        self.query.notes = [n for n in notes if not n.startswith(f"Read {word!r}")]
        self.note(f'Ranked "{word}" by {column.name}')
        return column, fit[column]


def _is_name(words: tuple[str, ...], column: Column) -> bool:
    mine = [*map(singular, words)]
    own = fold(column.name)
    whole = mine == [*map(singular, own)] or "".join(words) == "".join(own)
    return whole or mine == [*map(singular, fold(column.plain))]
