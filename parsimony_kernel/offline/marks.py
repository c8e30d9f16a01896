"""What stands in the data is recognised in a request: columns, values, tables, numbers, dates.

Each becomes a mark, a letter with a number, which the patterns then speak of. Where a mark may
stand for several things, a person says which.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from rapidfuzz import fuzz

from parsimony_kernel.core.fuzzy import alike
from parsimony_kernel.offline.query import MONTHS, Filter, Group, Query
from parsimony_kernel.offline.schema import Column, Table
from parsimony_kernel.offline.words import Token, canonical, fold, singular, spoken

STOP = "Stop here"
MOST = 4
TOGETHER = "The built-in model can't tell which conditions belong together: ask for one at a time."


class Ask(Exception):
    """A person must say which."""

    def __init__(self, question: str, choices: Sequence[str]) -> None:
        super().__init__(question)
        self.question, self.choices = question, tuple(choices)


class Guess(Ask):
    """A person must say which column, for the one that was named is not there."""


class Look(Exception):
    """The data must be searched for these words."""

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__(*words)
        self.words = tuple(words)


class No(Exception):
    """It cannot be done; ``word`` is what stands in the way."""


class Stopped(Exception):
    """The person said to stop."""


@cache
def table() -> Mapping[str, Any]:
    """The table of patterns."""
    text = files("parsimony_kernel.offline").joinpath("patterns.toml").read_text("utf-8")
    return tomllib.loads(text)


@cache
def rows() -> list[tuple[re.Pattern[str], str, Mapping[str, Any]]]:
    sides = table()["superlatives"].values()
    comparatives = [w for _, up, down in sides for w in f"{up}|{down}".split("|") if w]
    macros = {
        "the": "(?:(?:the|a|an|its|their|all|my|each) )*",
        "agg": f"(?:{'|'.join(table()['words'].values())})",
        "op": f"(?:{'|'.join(_escaped(w) for w in table()['operators'].values())})",
        "comparative": f"(?:{'|'.join(w for w in comparatives if not w.endswith('st'))})",
        "superlative": f"(?:{'|'.join(w for w in comparatives if not w.endswith('er'))})",
        **{each: rf"{each}\d+" for each in "CVNTQFPDM"},
        **{f"{e}s": rf"{e}\d+(?: (?:,|and|or|&|, and|, or) (?:the )?{e}\d+)*" for e in "CVQ"},
        "G": r"[CP]\d+",
        "Gs": r"[CP]\d+(?: (?:,|and|&|, and|by|, by) (?:the |by )*[CP]\d+)*",
    }
    rows = []
    for row in table()["row"]:
        text = re.sub(r"\{(\w+)\}", lambda m: macros[m[1]], row["re"])
        rows.append((re.compile(rf"(?<![^ ])(?:{text})(?![^ ])"), row["do"], row))
    return rows


def _escaped(words: str) -> str:
    return "|".join(
        each if each.isalpha() or " " in each else re.escape(each) for each in words.split("|")
    )


@cache
def _keywords() -> frozenset[str]:
    """The words that the patterns are made of: no part of a name is guessed from them."""
    texts = [row["re"] for row in table()["row"]]
    for section in ("words", "parts", "operators"):
        texts += table()[section].values()
    texts += [words for row in table()["superlatives"].values() for words in row[1:]]
    return frozenset(re.findall(r"[a-z]{2,}", " ".join(texts))) | fillers()


@cache
def fillers() -> frozenset[str]:
    return frozenset(table()["fillers"]["words"].split())


def aggregate(word: str) -> str:
    found = (name for name, words in table()["words"].items() if re.fullmatch(words, word.strip()))
    return next(found, "mean")


class Marks:
    """One request about one table.

    Args:
        answers: what the person has replied, by question.
        values: what was looked for in the data: for each word, the columns and values it names.
        tables: the names of all tables.
        before: the query of the request before, which this one may go on from.
        told: what earlier requests came to.
    """

    def __init__(
        self,
        tokens: Sequence[Token],
        about: Table,
        *,
        answers: Mapping[str, str],
        values: Mapping[str, Sequence[tuple[str, str]]] | None,
        tables: Sequence[str] = (),
        before: Query | None = None,
        told: str = "",
    ) -> None:
        self.table, self.answers, self.values = about, answers, values
        self.tables, self.before, self.told = tables, before, told
        self.query = Query(about.name)
        self.tokens = tokens
        # What the marks stand for, by their text.
        self.marks: dict[str, Any] = {}
        self.raw: dict[str, str] = {}
        self._made = 0
        self.columns: list[Column] = []
        self._goes_on = self._is_chart = self._compares = False
        # What is to be published: its kind, or nothing, and its title, or nothing.
        self.published: list[tuple[str, str]] = []
        self.exports: list[str] = []
        self.refreshes: list[tuple[str, bool]] = []

    # -- marks -------------------------------------------------------------------------------

    def _marked(self) -> str:
        said: list[str] = []
        at = 0
        while at < len(self.tokens):
            token = self.tokens[at]
            found = self._mark_at(at, said)
            if found is not None:
                mark, size = found
                said.append(mark)
                at += size
                continue
            word = token.text.casefold()
            if token.kind == "quoted":
                word = self._mark("Q", token.bare)
            elif token.kind == "number":
                word = self._mark("N", token.number)
            elif token.kind in ("file", "date"):
                word = self._mark(token.kind[0].upper(), token.bare)
            elif token.kind == "word":
                # Written in capitals it is a name, and no word of the language: IT, US.
                word = (
                    token.text
                    if word in fillers() and token.text.isupper() and len(word) > 1
                    else word
                )
                self.raw.setdefault(word, token.text)
            elif word in "?.!:;\n":
                word = "~" if word in ";\n" else ""
            said.append(word)
            at += 1
        return " ".join(filter(None, said))

    def _mark(self, letter: str, value: Any) -> str:
        self._made += 1
        mark = f"{letter}{self._made}"
        self.marks[mark] = value
        return mark

    def _mark_at(self, at: int, said: Sequence[str]) -> tuple[str, int] | None:
        """The mark for the longest name that begins with the token there, and its length."""
        for size in range(min(5, len(self.tokens) - at), 0, -1):
            piece = self.tokens[at : at + size]
            if any(each.kind not in ("word", "quoted", "number") for each in piece):
                continue
            if size > 1 and any(each.kind == "quoted" for each in piece):
                continue
            if all(each.kind == "number" for each in piece):
                continue
            text = " ".join(each.bare for each in piece)
            found = self._name(text, piece, said)
            if found:
                return found, size
        return None

    def _name(self, text: str, piece: Sequence[Token], said: Sequence[str]) -> str:
        if (
            piece[0].kind == "quoted"
            and said
            and said[-1] in ("as", "titled", "called", "named", "title", "to", "into")
        ):
            return ""
        words = fold(text)
        low = " ".join(words)
        is_key = len(words) == 1 and low in _keywords() and piece[0].kind != "quoted"
        is_key = is_key and not (text.isupper() and len(text) > 1)
        whole = [c for c in self.table.columns if _is_name(words, c.name)]
        is_table = any(low == each.casefold() for each in self.tables)
        joins = any(t.text.casefold() in ("join", "merge") for t in self.tokens)
        if is_table and (joins or not whole) and not any(low == c.name.casefold() for c in whole):
            return self._mark("T", next(e for e in self.tables if low == e.casefold()))
        is_function = is_key and any(re.fullmatch(w, low) for w in table()["words"].values())
        behind = said[-1] if said else ""
        if whole and not (is_function and behind not in ("of", "by", "column", "per")):
            return self._mark("C", tuple(whole))
        if any(
            words == fold(each)
            or low == singular("".join(fold(each)))
            or tuple(map(singular, words)) == tuple(map(singular, fold(each)))
            for each in self.tables
        ):
            return self._mark(
                "T",
                next(
                    e
                    for e in self.tables
                    if set(map(singular, words)) == set(map(singular, fold(e)))
                ),
            )
        values = self._values_of(text)
        if values and not (is_key and not (behind and behind[0] == "C")):
            return self._mark("V", values)
        part = next(
            (p for p, w in table()["parts"].items() if re.fullmatch(w, text.casefold())), ""
        )
        if part and part not in ("year", "quarter", "month", "week", "day", "hour"):
            return self._mark("P", part)
        if part and not text.casefold().endswith("ly") and text.casefold() != "annual":
            return self._mark("P", part)
        months = [i for i, m in enumerate(MONTHS, 1) if low in (m.lower(), m[:3].lower())]
        if months and self.table.times and not (low == "may" and piece[0].text == "may"):
            return self._mark("M", months[0])
        if piece[0].kind == "quoted" or any(
            w in _keywords()
            and w not in ("max", "min", "maximum", "minimum", "average", "mean", "total", "rate")
            for w in words
        ):
            return ""
        if any(each.kind == "number" for each in piece):
            return ""
        partly = self._partly(words)
        is_id = bool(partly) and all(map(is_code, partly)) and len(words) == 1
        if is_id and partly[0] == self.table.columns[0]:
            # What has an id is what the rows are, where it is the first column.
            return self._mark("T", self.table.name)
        if partly and not (len(words) == 1 and is_key):
            mark = self._mark("C", tuple(partly))
            self.marks[f"{mark} words"] = text
            return mark
        return ""

    def _partly(self, words: tuple[str, ...]) -> list[Column]:
        """The columns of whose names all ``words`` are a part, or nearly the whole."""
        mine = canonical(words)
        found = [
            c
            for c in self.table.columns
            if all(any(alike(w, each) for each in canonical(fold(c.name))) for w in mine)
        ]
        if not found and sum(map(len, words)) > 4:
            joined = "".join(words)
            near = [(fuzz.ratio(joined, "".join(fold(c.name))), c) for c in self.table.columns]
            found = [c for score, c in near if score >= 84]
        exact = [c for c in found if canonical(fold(c.name)) == mine]
        return exact or found

    def _values_of(self, text: str) -> tuple[tuple[Column, str], ...]:
        low = text.casefold()
        found = dict[tuple[str, str], Column]()
        for column in self.table.columns:
            for sample in column.samples if column.kind == "text" and not column.is_date else ():
                if low == sample.casefold() or singular(low) == sample.casefold():
                    found[column.name, sample] = column
        for name, value in (self.values or {}).get(low, ()):
            owner = self.table.column(name)
            if owner is not None and value.casefold() in (low, singular(low)):
                found[name, value] = owner
        return tuple((column, value) for (_, value), column in found.items())

    # -- choosing ----------------------------------------------------------------------------

    def choose(self, question: str, choices: Sequence[str]) -> str:
        """The choice that the person made; raises ``Ask`` until one was."""
        if len(choices) > MOST:
            question = f"{question} (of {len(choices)})"
        reply = self.answers.get(question)
        if reply is None:
            raise Ask(question, choices[:MOST])
        low = reply.strip().casefold().rstrip(".!")
        if low in ("stop", STOP.casefold(), "no", "cancel", "never mind"):
            raise Stopped
        found = [c for c in choices if c.casefold() == low] or [
            c for c in choices if low and low in c.casefold()
        ]
        if len(found) != 1:
            return self.choose(f"{reply[:80]!r} is none of the choices. {question}", choices)
        return found[0]

    def _pick(self, mark: str, want: str = "") -> Column:
        """The column that is meant, of those that a mark may stand for."""
        listed: Sequence[Column] = self.marks[mark]
        fit = {
            "measure": [c for c in listed if c.kind in ("number", "boolean")],
            "group": [c for c in listed if c.kind != "number"] or list(listed),
        }.get(want, list(listed))
        if not listed:
            raise No("The built-in model doesn't know which column that is about.")
        words = self.marks.get(f"{mark} words", listed[0].name)
        if not fit:
            raise No(f"{spoken(c.name for c in listed)} holds no numbers.")
        if len(fit) == 1:
            chosen = fit[0]
        else:
            question = f"Which column of `{self.table.name}` do you mean by {words!r}?"
            chosen = self.table.column(self.choose(question, [c.name for c in fit])) or fit[0]
        if f"{mark} words" in self.marks and fold(words) != fold(chosen.name):
            note = f"Read {words!r} as {chosen.name}"
            self.query.notes += [note] if note not in self.query.notes and len(fit) == 1 else []
        return self._ordered(chosen)

    def _ordered(self, column: Column) -> Column:
        """A column of dates like 03/04/2024, once the person has said which is the day."""
        if column.dates != "slashes":
            return column
        sample = column.samples[0]
        days, months = f"{sample} begins with the day", f"{sample} begins with the month"
        chosen = self.choose(f"How are the dates of {column.name} written?", [days, months])
        return replace(column, dates="dayfirst=True" if chosen == days else "")

    def _all(self, text: str, want: str = "") -> list[Column]:
        return [self._pick(mark, want) for mark in re.findall(r"C\d+", text or "")]

    def _time(self, why: str) -> Column:
        times = self.table.times or tuple(c for c in self.table.columns if c.is_year)
        if not times:
            raise No(f"{self.table.name} has no column of dates for {why!r}.")
        name = times[0].name
        if len(times) > 1:
            name = self.choose(f"Which date do you mean for {why!r}?", [c.name for c in times])
        return self._ordered(next(c for c in times if c.name == name))

    def _part(self, part: str) -> Group:
        column = self._time(part)
        if column.is_year:
            if part != "year":
                raise No(f"{self.table.name} has years and no dates, so there is no {part!r}.")
            return Group(column)
        return Group(column, part)

    def _groups(self, text: str) -> list[Group]:
        return [
            Group(self._pick(mark, "group")) if mark[0] == "C" else self._part(self.marks[mark])
            for mark in re.findall(r"[CP]\d+", text)
        ]

    def _number(self, mark: str) -> float:
        return float(self.marks[mark])

    def _title(self, word: str | None) -> str:
        return str(self.marks.get(word or "", self.raw.get(word or "", word or "")))

    def _keep(self, column: Column, op: str, *values: Any, part: str = "") -> None:
        self.query.filters.append(Filter(column, op, values, part))


def is_code(column: Column) -> bool:
    return bool({"id", "code", "no", "nr"} & set(fold(column.name)[-1:]))


def _is_name(words: tuple[str, ...], name: str) -> bool:
    own = fold(name)
    same = tuple(map(singular, words)) == tuple(map(singular, own))
    return words == own or same or "".join(words) == "".join(own)
