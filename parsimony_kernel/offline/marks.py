"""What stands in the data is recognised in a request: columns, values, tables, numbers, dates.

Each becomes a mark, a letter with a number, which the rows of ``patterns.toml`` then speak of. What
a mark may stand for is decided where it is used; where that is open, a person says which.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from rapidfuzz import fuzz, process

from parsimony_kernel.core.fuzzy import alike
from parsimony_kernel.offline.code import values_like
from parsimony_kernel.offline.query import MONTHS, Query, is_part_of, unit_of, without_unit
from parsimony_kernel.offline.schema import Column, Table
from parsimony_kernel.offline.words import Token, canonical, fold, literal, singular, spoken

STOP = "Stop here"
MOST = 4
_CODES = frozenset({"id", "no", "nr", "code", "number"})


class Ask(Exception):
    """A person must say which."""

    def __init__(self, question: str, choices: Sequence[str]) -> None:
        super().__init__(question)
        self.question, self.choices = question, tuple(choices)


class Guess(Ask):
    """A person must say which column, for the one that was named is not there."""


class Look(Exception):
    """This expression must be looked up in the data first."""

    def __init__(self, expression: str, why: str) -> None:
        super().__init__(expression)
        self.expression, self.why = expression, why


class No(Exception):
    """It cannot be done; the text says why, in one line."""


class Stopped(Exception):
    """The person said to stop."""


# -- the table of patterns -----------------------------------------------------------------------


@cache
def table() -> Mapping[str, Any]:
    """The table of patterns."""
    text = files("parsimony_kernel.offline").joinpath("patterns.toml").read_text("utf-8")
    return tomllib.loads(text)


@cache
def rows() -> list[tuple[re.Pattern[str], Mapping[str, Any]]]:
    """The rows of the table, with what their braces mean put in."""
    operators = {k: "|".join(map(_escaped, v.split("|"))) for k, v in table()["operators"].items()}
    adjectives = [w for _, *sides in table()["adjectives"].values() for w in _split(sides)]
    macros = {
        "the": "(?:(?:the|a|an|its|their|all|my|each) )*",
        "agg": f"(?:{'|'.join(table()['words'].values())})",
        "op": f"(?:{'|'.join(operators.values())})",
        "comparative": f"(?:{'|'.join(w for w in adjectives if not w.endswith('st'))})",
        "superlative": f"(?:{'|'.join(w for w in adjectives if not w.endswith('er'))})",
        **{each: rf"{each}\d+" for each in "CVNTQFPDM"},
        **{f"{e}s": rf"{e}\d+(?: (?:,|and|or|&|, and|, or) (?:the )?{e}\d+)*" for e in "CV"},
        "Gs": r"[CP]\d+(?: (?:,|and|&|, and|by|, by) (?:the |by )*[CP]\d+)*",
    }
    found = []
    for row in table()["row"]:
        text = re.sub(r"\{(\w+)\}", lambda m: macros[m[1]], row["re"])
        found.append((re.compile(rf"(?<![^ ])(?:{text})(?![^ ])"), row))
    return found


def _split(sides: Sequence[str]) -> list[str]:
    return [word for side in sides for word in side.split("|") if word]


def _escaped(word: str) -> str:
    return word if word.replace(" ", "").isalpha() else re.escape(word)


@cache
def fillers() -> frozenset[str]:
    """Words that say nothing of their own."""
    return frozenset(table()["fillers"]["words"].split())


@cache
def keywords() -> frozenset[str]:
    """The words that the patterns are made of: no part of a name is guessed from them."""
    texts = [row["re"] for row in table()["row"]]
    texts += [w for part in ("words", "parts", "operators") for w in table()[part].values()]
    texts += [words for row in table()["adjectives"].values() for words in row[1:]]
    plain = re.sub(r"\(\?P<\w+>|\{\w+\}|\\\w", " ", " ".join(texts))
    whole = re.findall(r"[a-z]{2,}", plain.replace("?", "") + " " + re.sub(r"\w\?", "", plain))
    return frozenset(whole) | fillers()


def aggregate(word: str) -> str:
    """The function that a word names; empty for any other word."""
    word = {"in total": "total", "on average": "average"}.get(word.strip(), word.strip())
    found = (name for name, words in table()["words"].items() if re.fullmatch(words, word))
    return next(found, "")


# -- marks ---------------------------------------------------------------------------------------


class Marks:
    """One request about one table.

    Args:
        answers: what the person has replied, by question.
        known: what was looked up in the data, by its expression.
        tables: the names of all tables.
        before: gives the query of the request before, which this one may go on from.
        told: what earlier requests came to.
    """

    def __init__(
        self,
        tokens: Sequence[Token],
        about: Table,
        *,
        answers: Mapping[str, str],
        known: Mapping[str, Any] | None = None,
        tables: Sequence[str] = (),
        before: Callable[[], Query | None] = lambda: None,
        told: str = "",
    ) -> None:
        self.tokens, self.table, self.answers = tokens, about, answers
        self.known, self.tables, self.before, self.told = known or {}, tables, before, told
        self.query = Query(about.name)
        # What the marks stand for, by their text, and the words as they were written.
        self.marks: dict[str, Any] = {}
        self.raw: dict[str, str] = {}
        # Parts of a date that follow a number, and may be its unit.
        self.units: dict[str, str] = {}
        self.values: list[tuple[Column, str]] | None = None

    def marked(self) -> str:
        """The request with its marks."""
        said: list[str] = []
        at = 0
        while at < len(self.tokens):
            found = next(self._names_at(at, said), None)
            if found is not None:
                said.append(found[0])
                at += found[1]
                continue
            said.append(self._plain(self.tokens[at]))
            at += 1
        return " ".join(filter(None, said))

    def _plain(self, token: Token) -> str:
        match token.kind:
            case "quoted":
                return self.mark("Q", token.bare)
            case "number":
                return self.mark("N", token.number)
            case "file" | "date":
                return self.mark(token.kind[0].upper(), token.bare)
            case "sign":
                return {";": "~", "\n": "~"}.get(token.text, token.text.strip("?.!:"))
        word = token.low
        if len(word) > 5 and word not in keywords() and not self._is_value(word):
            near = process.extractOne(word, keywords(), scorer=fuzz.ratio, score_cutoff=88)
            word = near[0] if near and near[0][0] == word[0] else word
        self.raw.setdefault(word, token.text)
        return word

    def _is_value(self, word: str) -> bool:
        samples = (s.casefold() for c in self.table.columns for s in c.samples)
        return any(word in each for each in samples)

    def mark(self, letter: str, value: Any, words: str = "") -> str:
        """A new mark for ``value``, which the request calls ``words``."""
        mark = f"{letter}{len(self.marks) + 1}"
        self.marks[mark] = value
        self.raw[mark] = words or str(value)
        return mark

    def _names_at(self, at: int, said: Sequence[str]) -> Iterator[tuple[str, int]]:
        """Marks for the names that begin with the token there, longest first, with their length."""
        for size in range(min(5, len(self.tokens) - at), 0, -1):
            piece = self.tokens[at : at + size]
            kinds = {each.kind for each in piece}
            text = " ".join(each.bare for each in piece)
            if [each.text for each in piece[1::2]] == ["-"] * (size // 2) and size % 2 == 1 < size:
                if values := self._values_of(text.replace(" - ", "-")):
                    yield self.mark("V", values, text), size
                continue
            is_name = not kinds - ({"word", "number"} if size > 1 else {"word", "quoted"})
            if not is_name or kinds == {"number"}:
                continue
            if mark := self._name(piece, said[-1] if said else "", at + size):
                yield mark, size

    def _name(self, piece: Sequence[Token], behind: str, end: int) -> str:
        text = " ".join(each.bare for each in piece)
        words, is_quoted = fold(text), piece[0].kind == "quoted"
        low = " ".join(words)
        if is_quoted and behind in ("as", "titled", "called", "named", "title", "to", "into"):
            return ""
        is_key = len(words) == 1 and low in keywords() and not is_quoted
        is_key = is_key and not (text.isupper() and len(text) > 1)
        exact = [c for c in self.table.columns if _is_name(words, c.name)]
        if self._is_rows(words) and not is_key and not is_quoted:
            return self.mark("T", self.table.name, text)
        named = [t for t in self.tables if low == t.casefold() or words == fold(t)]
        if named and not exact:
            return self.mark("T", named[0], text)
        if exact and not (is_key and aggregate(low) and self._is_column(end)):
            return self.mark("C", exact, text)
        parts = [p for p, w in table()["parts"].items() if re.fullmatch(w, text.casefold())]
        if parts:
            mark = self.mark("P", parts[-1], text)
            if behind.startswith("N"):
                self.units[mark] = f"{self.raw[behind]} {text}"
            return mark
        values = self._values_of(text)
        partly = [] if is_key or is_quoted else self._partly(piece, words)
        if partly and values and aggregate(behind) and any(c.is_measure for c in partly):
            values = []
        if is_key:
            values = [p for p in values if p[1] == text and behind.startswith("C")]
        if values and (measures := [c.name for c in partly if c.is_measure]):
            value = f"{values[0][0].name} is {values[0][1]}"
            if self.choose(f"What do you mean by {text!r}?", [value, *measures]) != value:
                values = []
        if values:
            return self.mark("V", values, text)
        months = [i for i, m in enumerate(MONTHS, 1) if low in (m.lower(), m[:3].lower())]
        is_month = low != "may" or behind in table()["fillers"]["months"].split()
        if months and self.table.times and is_month:
            return self.mark("M", months[0], text)
        if partly:
            return self.mark("C", partly, text)
        if len(words) == 1 and singular(low) in table()["events"]["words"].split():
            self.note(f"Read {text!r} as the rows of {self.table.name}")
            return self.mark("T", self.table.name, text)
        return ""

    def _is_column(self, at: int) -> bool:
        """Whether a column is named from the token there on: then a function stands before it."""
        pieces = (self.tokens[at : at + size] for size in (1, 2, 3))
        folded = [fold(" ".join(t.bare for t in piece)) for piece in pieces if piece]
        return any(_is_name(w, c.name) for w in folded for c in self.table.columns) or (
            bool(folded) and bool(self._partly(self.tokens[at : at + 1], folded[0]))
        )

    def _is_rows(self, words: tuple[str, ...]) -> bool:
        """Whether ``words`` are what the rows are called: the table, or what its ids number."""
        mine = tuple(map(singular, words))
        table = tuple(map(singular, fold(self.table.name)))
        first = self.table.columns[0] if self.table.columns else None
        id_of = tuple(w for w in fold(first.name) if w not in _CODES) if first else ()
        if first and first.is_code and id_of and mine == tuple(map(singular, id_of)):
            return len(words) == len(id_of)
        named = any(_is_name(words, c.name) for c in self.table.columns)
        return not named and mine in (table, table[-1:])

    def _partly(self, piece: Sequence[Token], words: tuple[str, ...]) -> list[Column]:
        """The columns of whose names all ``words`` are a part, or nearly the whole."""
        if any(w in keywords() - {"time"} for w in words) or any(t.kind != "word" for t in piece):
            return []
        mine, said = canonical(words), table()["units"]
        own = {c: (*canonical(fold(c.name)), *said.get(unit_of(c), "").split())
               for c in self.table.columns}  # fmt: skip
        found = [c for c in own if all(any(alike(w, each) for each in own[c]) for w in mine)]
        joined = "".join(words)
        if not found and len(joined) > 4:
            near = [
                (fuzz.ratio(joined, "".join(fold(c.name))), c)
                for c in self.table.columns
                if len(words) in (1, len(fold(c.name)))
            ]
            found = [c for score, c in near if score >= 84]
        same = [c for c in found if canonical(fold(c.name)) == mine]
        return same or found

    def _values_of(self, text: str) -> list[tuple[Column, str]]:
        low = text.casefold()
        listed = (words.split() for words in table()["same"].values())
        same: list[str] = next((words for words in listed if low in words), [])
        seen = [
            (column, sample)
            for column in self.table.columns
            if column.kind == "text" and not column.is_date
            for sample in column.samples
        ]
        fit = [p for p in (*seen, *(self.values or ())) if p[1].casefold() in (low, singular(low))]
        fit = fit or [p for p in seen if p[1].casefold() in same and _is_of_sexes(p[0])]
        fit += self._in_twins(text, fit)
        return list(dict.fromkeys(fit))

    def _in_twins(self, text: str, fit: Sequence[tuple[Column, str]]) -> list[tuple[Column, str]]:
        """Where a value stands, too, in columns that share a word with those of ``fit``: the away
        team beside the home team. A few samples don't tell."""
        own = [c for c, _ in fit]
        words = {word for c in own for word in fold(c.name)}
        twins = {c.name: c for c in self.table.columns if c not in own and c.kind == "text"
                 and not c.is_date and is_part_of([*words], c)}  # fmt: skip
        if not own or not twins:
            return []
        found = self.fetch(values_like(self.table, [text]), f"Look for {text!r}", ())
        low = text.casefold()
        return [(twins[n], v) for n, v in found if n in twins and v.casefold() == low]

    # -- looking and choosing ----------------------------------------------------------------

    def fetch(self, expression: str, why: str, otherwise: Any = None) -> Any:
        """What an expression gives on the data; raises ``Look`` until that is known.

        Where the values are kept from the model it is ``otherwise``, and without that a no.
        """
        if expression not in self.known:
            raise Look(expression, why)
        value = self.known[expression]
        if value is None and otherwise is None:
            raise No("That depends on values of the data, which the model is not shown here.")
        return otherwise if value is None else value

    def choose(self, question: str, choices: Sequence[str], kind: type[Ask] = Ask) -> str:
        """The choice that the person made; raises ``Ask`` until one was."""
        if len(choices) > MOST:
            question = f"{question} (of {len(choices)})"
        reply = self.answers.get(question)
        if reply is None:
            raise kind(question, choices[:MOST])
        low = reply.strip().casefold().rstrip(".!")
        if low in ("stop", STOP.casefold(), "no", "cancel", "never mind"):
            raise Stopped
        found = [c for c in choices if c.casefold() == low] or [
            c for c in choices if low and low in c.casefold()
        ]
        if len(found) != 1:
            return self.choose(f"{reply[:80]!r} is none of the choices. {question}", choices)
        return found[0]

    def note(self, text: str) -> None:
        """Say what has changed the meaning, once."""
        self.query.notes += [text] if text not in self.query.notes else []

    def pick(self, mark: str, want: str = "") -> Column:
        """The column that is meant, of those that a mark may stand for."""
        listed: list[Column] = self.marks[mark]
        words = self.raw[mark]
        fit = {
            "measure": [c for c in listed if c.kind in ("number", "boolean")],
            "group": [c for c in listed if not c.is_measure] or listed,
        }.get(want, listed)
        if not fit:
            raise No(f"{spoken(c.name for c in listed)} holds no numbers.")
        chosen = fit[0]
        if len(fit) > 1:
            before = re.findall(rf"Read {re.escape(repr(words))} as ([^.]+?)(?:, as before)?\.",
                                self.told)  # fmt: skip
            names = [c.name for c in fit]
            if before and before[-1] in names:
                name = before[-1]
                self.note(f"Read {words!r} as {name}, as before")
            else:
                question = f"Which column of `{self.table.name}` do you mean by {words!r}?"
                name = self.choose(question, names)
            chosen = next(c for c in fit if c.name == name)
        if canonical(fold(words)) != canonical(fold(chosen.name)) and not any(
            each.startswith(f"Read {words!r} as {chosen.name}") for each in self.query.notes
        ):
            self.note(f"Read {words!r} as {chosen.name}")
        return self._ordered(chosen)

    def _ordered(self, column: Column) -> Column:
        """A column of dates like 03/04/2024, once it is known which is the day."""
        if column.dates != "slashes":
            return column
        dates = f"{self.table.name}[{literal(column.name)}]"
        first, second = (
            self.fetch(
                f'{dates}.dropna().str.split("/").str[{at}].astype(int).max()',
                f"Look which part of {column.name} is the day",
            )
            for at in (0, 1)
        )
        begins = first > 12 if (first > 12) != (second > 12) else None
        if begins is None:
            sample = column.samples[0]
            days, months = f"{sample} begins with the day", f"{sample} begins with the month"
            begins = days == self.choose(f"How are the dates of {column.name} written?",
                                         [days, months])  # fmt: skip
        return replace(column, dates="dayfirst=True" if begins else "")

    def time(self, why: str) -> Column:
        """The column of dates that is meant."""
        times = self.table.times
        if not times:
            raise No(f"{self.table.name} has no column of dates for {why!r}.")
        said = [c for m in self.marks if m[0] == "C" for c in self.marks[m] if c in times]
        listed = list(dict.fromkeys(said)) or times
        name = listed[0].name
        if len(listed) > 1:
            name = self.choose(f"Which date do you mean for {why!r}?", [c.name for c in listed])
        return self._ordered(next(c for c in listed if c.name == name))

    def adjective(self, word: str) -> tuple[Column, bool]:
        """The column that an adjective measures, and whether it means the low end."""
        fit: dict[Column, bool] = {}
        for nouns, *sides in table()["adjectives"].values():
            if word in _split(sides):
                columns = (c for c in self.table.measures if is_part_of(nouns.split(), c))
                fit |= dict.fromkeys(columns, word in sides[1].split("|"))
        if not fit:
            raise No(f'The built-in model doesn\'t know which column "{word}" is about.')
        column = self.pick(self.mark("C", [*fit], word), "measure")
        notes = self.query.notes
        self.query.notes = [n for n in notes if not n.startswith(f"Read {word!r}")]
        self.note(f'Ranked "{word}" by {column.name}')
        return column, fit[column]

    def is_low_best(self, column: Column) -> bool:
        """Whether the best of a column is its lowest value; a person says so, but of ratings."""
        if is_part_of(table()["adjectives"]["good"][0].split(), column):
            return False
        options = [f"the highest {column.name}", f"the lowest {column.name}"]
        return self.choose(f"Which {column.name} is best?", options) == options[1]


def _is_of_sexes(column: Column) -> bool:
    """Whether a column holds words for men and women, or their letters."""
    known = {word for words in table()["same"].values() for word in words.split()}
    return {each.casefold() for each in column.samples} <= known


def _is_name(words: tuple[str, ...], name: str) -> bool:
    mine = [*map(singular, words)]
    own = fold(name)
    whole = mine == [*map(singular, own)] or "".join(words) == "".join(own)
    return whole or mine == [*map(singular, fold(without_unit(name)))]
