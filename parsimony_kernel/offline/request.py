"""A request becomes a query: every word of it is accounted for, or the answer is no.

What stands in the data is recognised first (columns, values, tables, numbers, parts of dates) and
set as marks; then the rows of ``patterns.toml`` take their words out, one after the other. A word
that is left over is looked for in the data; if it is not there, the request is not understood.
"""

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from rapidfuzz import fuzz

from parsimony_kernel.core.fuzzy import alike
from parsimony_kernel.offline.query import MONTHS, Filter, Group, Measure, Query
from parsimony_kernel.offline.schema import Column, Table
from parsimony_kernel.offline.words import Token, canonical, fold, literal, singular, spoken

STOP = "Stop here"
_MOST = 4


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
def _rows() -> list[tuple[re.Pattern[str], str, Mapping[str, Any]]]:
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
    return frozenset(re.findall(r"[a-z]{2,}", " ".join(texts))) | _fillers()


@cache
def _fillers() -> frozenset[str]:
    return frozenset(table()["fillers"]["words"].split())


def _aggregate(word: str) -> str:
    found = (name for name, words in table()["words"].items() if re.fullmatch(words, word.strip()))
    return next(found, "mean")


class Reader:
    """Reads one request about one table.

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

    def read(self) -> Query:
        """The query. Raises ``Ask``, ``Look`` and ``No``."""
        text = self._marked()
        for pattern, do, row in _rows():
            text = self._taken(pattern, do, row, text)
        self._left(text)
        return self._whole()

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
                    if word in _fillers() and token.text.isupper() and len(word) > 1
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
        is_id = bool(partly) and all(map(_is_code, partly)) and len(words) == 1
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

    # -- patterns ----------------------------------------------------------------------------

    def _taken(self, pattern: re.Pattern[str], do: str, row: Mapping[str, Any], text: str) -> str:
        act: Callable[[re.Match[str], Mapping[str, Any]], bool | None] = getattr(self, f"_{do}")
        at = 0
        while (found := pattern.search(text, at)) is not None:
            if not found[0].strip() or act(found, row) is False:
                at = found.end() + 1
                if at > len(text):
                    break
                continue
            text = f"{text[: found.start()].rstrip()} ~ {text[found.end() :].lstrip()}".strip()
            at = 0
        return text

    def _left(self, text: str) -> None:
        """Account for what no pattern took."""
        left: list[list[str]] = [[]]
        for word in text.split():
            if word in self.marks:
                self._bare(word)
                left.append([])
            elif word in "~,&()/+*-":
                left.append([])
            elif word == "save" and self.published:
                continue
            elif word not in _fillers() and word not in ("and", "or", "then"):
                left[-1].append(word)
        unknown = [run for run in left if run]
        if not unknown:
            if re.search(r"(?<![^ ])or(?![^ ])", text) and len(self.query.filters) > 1:
                self._either(text)
            return
        if self.values is None and any(c.kind == "text" for c in self.table.columns):
            runs = [re.sub(r"[^\w ]", "", " ".join(run)) for run in unknown]
            grams = [
                " ".join(run[i : i + n])
                for run in map(str.split, runs)
                for n in range(min(4, len(run)), 0, -1)
                for i in range(len(run) - n + 1)
            ]
            raise Look(list(dict.fromkeys(g for g in grams if len(g) > 1))[:24])
        word, rest = unknown[0][0], " ".join(unknown[0][1:])
        if (
            rest
            and self.table.measures
            and any(re.fullmatch(w, word) for w in table()["words"].values())
        ):
            question = f"`{self.table.name}` has no column {rest!r}. Which one do you mean?"
            try:
                name = self.choose(question, [c.name for c in self.table.measures])
            except Ask as ask:
                raise Guess(ask.question, ask.choices) from None
            self.query.measures.append(Measure(_aggregate(word), self.table.column(name)))
            return
        if len(unknown[0]) == 1 and len(unknown) == 1 and word.endswith("s"):
            # What the rows are called: a person must say so.
            rows = f"the rows of {self.table.name}"
            known = f"Read {word!r} as {rows}"
            if known not in self.told:
                self.choose(f"What are {word!r}?", [f"{word} are {rows}", STOP])
            self.query.notes.append(known)
            return
        near = [v for listed in (self.values or {}).values() for _, v in listed]
        near = [v for v in dict.fromkeys(near) if fuzz.partial_ratio(word, v.casefold()) > 80]
        hint = f" Did you mean {spoken(map(repr, near[:3]), 'or')}?" if near else ""
        raise No(f"The built-in model doesn't know {self.raw.get(word, word)!r}.{hint}")

    def _either(self, text: str) -> None:
        """What stands between conditions is "or"."""
        if len(self.query.filters) > 2 or re.search(r"~ and ~", text):
            raise No(
                "The built-in model can't tell which conditions belong together: ask for one "
                "at a time."
            )
        self.query.any_of = True

    def _bare(self, mark: str) -> None:
        match mark[0]:
            case "C":
                self.columns.append(self._pick(mark))
            case "N" | "D":
                raise No(f"The built-in model doesn't know what {self.marks[mark]} is for here.")
            case "Q":
                raise No(f"The built-in model doesn't know {self.marks[mark]!r}.")
            case "P":
                self.query.groups.append(self._part(self.marks[mark]))

    # -- choosing ----------------------------------------------------------------------------

    def choose(self, question: str, choices: Sequence[str]) -> str:
        """The choice that the person made; raises ``Ask`` until one was."""
        if len(choices) > _MOST:
            question = f"{question} (of {len(choices)})"
        reply = self.answers.get(question)
        if reply is None:
            raise Ask(question, choices[:_MOST])
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

    # -- what the rows do ----------------------------------------------------------------------

    def _help(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.query.do = "help"

    def _publish(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.published.append((found["kind"] or "", self._title(found["title"])))

    def _report(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.published.append(("report", self._title(found["title"] or found["later"])))

    def _dataset(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.published.append(("dataset", self._title(found["title"])))

    def _refresh(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.refreshes.append((self._title(found["title"]), bool(found["new"])))

    def _export(self, found: re.Match[str], row: Mapping[str, Any]) -> bool | None:
        suffix = {"excel": "xlsx"}.get(found["kind"] or "", found["kind"])
        self.exports.append(self._title(found["file"]) if found["file"] else f".{suffix}")
        return None

    def _derive(self, found: re.Match[str], row: Mapping[str, Any]) -> bool | None:
        parts = []
        for word in found["expression"].split():
            if word[0] == "C" and word in self.marks:
                column = self._pick(word, "measure")
                parts.append(f"{self.table.name}[{literal(column.name)}]")
            elif word in self.marks and word[0] == "N":
                parts.append(str(self.marks[word]))
            elif word in ("+", "-", "*", "/", "(", ")"):
                parts.append(word)
            else:
                return False
        self.query.do, self.query.text = "derive", self._title(found["name"])
        self.query.expression = " ".join(parts).replace("( ", "(").replace(" )", ")")
        return None

    def _rename(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.query.do, self.query.text = "rename", self._title(found["name"])
        self.query.columns = [self._pick(found["c"])]

    def _join(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.query.do, self.query.other = "join", self.marks[found["two"]]
        self.query.table, self.query.text = self.marks[found["one"]], found["how"] or "left"
        self.query.columns = [self._pick(found["c"])] if found["c"] else []

    def _dropna(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.query.do = "dropna"
        self.query.columns = self._all(found["c"])

    def _fillna(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.query.do, self.query.columns = "fillna", [self._pick(found["c"])]
        self.query.text = {"zero": "0"}.get(
            found["how"], str(self.marks.get(found["how"], found["how"]))
        )

    def _missing(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.query.do = "missing"

    def _describe(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.query.do = "describe"
        self.query.columns = self._all(found.groupdict().get("cs") or "")

    def _drawn(self, do: str, found: re.Match[str]) -> None:
        self.query.do, self.query.chart = do, do
        self.query.columns = self._all(found["cs"], "measure")

    def _correlation(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.query.do = "correlation"
        self.query.columns = self._all(found["cs"], "measure")
        self.query.chart = "heat map" if "heat" in found[0] else ""

    def _histogram(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self._drawn("histogram", found)
        self.query.bins = int(self._number(found["n"])) if found["n"] else 20

    def _box(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self._drawn("box", found)

    def _scatter(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.query.do = self.query.chart = "scatter"
        first, second = self._pick(found["a"], "measure"), self._pick(found["b"], "measure")
        is_versus = re.search(r" (?:vs|versus|against) ", found[0])
        self.query.columns = [second, first] if is_versus else [first, second]

    def _color(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.query.color = self._pick(found["c"] or found["d"], "group")

    def _stacked(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.query.stacked = True

    def _chart(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self._is_chart = True
        self.query.chart = found.groupdict().get("kind") or self.query.chart

    def _again(self, found: re.Match[str], row: Mapping[str, Any]) -> bool | None:
        if self.before is None:
            return False
        self._goes_on = True
        return None

    def _other(self, found: re.Match[str], row: Mapping[str, Any]) -> bool | None:
        if not self._goes_on or self.before is None:
            return False
        agg = _aggregate(found["agg"])
        self.query.measures = [replace(m, agg=agg) for m in self.before.measures]
        return None

    def _window(self, kind: str, rows: int = 0) -> None:
        self.query.window, self.query.rows = kind, rows

    def _rolling(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self._window("rolling", int(self._number(found["n"])))
        self.query.text = _aggregate(found["agg"])

    def _cumulative(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self._window("cumulative")

    def _growth(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self._window("growth")

    def _difference(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        a, b = self._pick(found["a"], "measure"), self._pick(found["b"], "measure")
        self.query.measures.append(Measure("mean", a, b, "-"))
        self.query.notes.append(
            f"The difference is {a.name} - {b.name}, its mean unless you say otherwise"
        )

    def _ratio(self, found: re.Match[str], row: Mapping[str, Any]) -> bool | None:
        if not all(c.is_measure for mark in (found["a"], found["b"]) for c in self.marks[mark]):
            return False
        a, b = self._pick(found["a"], "measure"), self._pick(found["b"], "measure")
        total = f"total {a.name} / total {b.name}"
        each = f"the mean of {a.name} / {b.name} in each row"
        chosen = self.choose(f"What is {a.name} per {b.name}?", [total, each])
        agg = "ratio" if chosen == total else "mean"
        self.query.measures.append(Measure(agg, a, b, "/"))
        return None

    def _share(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.query.share = True
        mark = found["c"]
        if mark and all(c.is_measure for c in self.marks[mark]):
            self.query.measures.append(Measure("sum", self._pick(mark)))
        elif mark:
            self.columns.append(self._pick(mark))

    def _percentile(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        column = self._pick(found["c"], "measure")
        self.query.measures.append(Measure("percentile", column, q=self._number(found["n"])))

    def _per_period(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        part = {"daily": "day", "annual": "year"}.get(found["part"], found["part"][:-2])
        column = self._pick(found["c"], "measure")
        total = f"the mean of the totals of each {part}"
        each = f"the mean of {column.name} for each {part}"
        chosen = self.choose(
            f"What is the {found[0].split()[0]} {found['part']} {column.name}?", [total, each]
        )
        if chosen == total:
            self._time(part)
            self.query.measures.append(Measure("mean", column, over=part))
        else:
            self.query.groups.append(self._part(part))
            self.query.measures.append(Measure("mean", column))

    def _nunique(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.query.measures.append(Measure("nunique", self._pick(found["c"])))

    def _periods(self, found: re.Match[str], row: Mapping[str, Any]) -> bool | None:
        part = self.marks[found["p"]]
        group = self._part(part)
        if part not in ("year", "quarter", "month", "week", "day", "hour") or not group.part:
            return False
        self.query.measures.append(Measure("nunique", group.column, over=part))
        return None

    def _top_groups(self, found: re.Match[str], row: Mapping[str, Any]) -> bool | None:
        self.query.limit = self._number(found["n"])
        self.query.ascending = bool(re.match("bottom|lowest|smallest|worst|least", found[0])) or (
            (found["side"] or "") in ("lowest", "least", "smallest", "fewest")
        )
        self.query.groups = self._groups(found["g"])
        column = self._pick(found["c"], "measure")
        if found["agg"]:
            self.query.measures.append(Measure(_aggregate(found["agg"]), column))
        elif not found["side"] or self.query.groups[0].part:
            self.query.measures.append(self._by_which(column))
        else:
            self.query.measures.append(self._by_which(column))
        return None

    def _unique(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.query.groups = [Group(self._pick(found["c"] or found["d"]))]
        self.query.measures.append(Measure("count"))

    def _common(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.query.groups = [Group(self._pick(found["c"] or found["d"], "group"))]
        self.query.measures.append(Measure("count"))

    def _biggest(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.query.groups, self.query.limit = [Group(self._pick(found["g"], "group"))], 1
        self.query.ascending = bool(found["low"])

    def _extreme(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.query.ascending = found["side"] in ("lowest", "least", "smallest", "fewest")
        self.query.limit = 1
        self.query.groups = self._groups(found["c"])
        if found["rows"]:
            self.query.measures.append(Measure("count"))
            return
        column = self._pick(found["m"], "measure")
        if found["agg"]:
            self.query.measures.append(Measure(_aggregate(found["agg"]), column))
            return
        group = self.query.groups[0].label
        options = {
            f"total {column.name} of each {group}": "sum",
            f"mean {column.name} of each {group}": "mean",
            f"a single row's {column.name}": "",
        }
        agg = options[self.choose(f"By which {column.name} should I rank {group}?", list(options))]
        if agg:
            self.query.measures.append(Measure(agg, column))
        else:
            self.query.groups, self.query.sort = [], column

    def _top(self, found: re.Match[str], row: Mapping[str, Any]) -> bool | None:
        given = found.groupdict()
        query = self.query
        low = given.get("l") or (given.get("side") or "") in ("lowest", "least", "smallest")
        query.ascending = bool(row.get("ascending") or low)
        query.is_percent, query.limit = bool(row.get("percent")), self._number(found["n"])
        if not found["c"]:
            return None
        column = self._pick(found["c"])
        if column.is_measure:
            query.sort = column
        elif query.is_percent:
            return False
        else:
            query.groups.append(Group(column))
        return None

    def _head(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.query.do, self.query.ascending = "head", bool(row.get("ascending"))
        self.query.limit = self._number(found["n"]) if found["n"] else 5

    def _sort(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.query.sort = self._pick(found["c"])
        self.query.ascending = (found["side"] or "") not in (
            "descending",
            "desc",
            "from high to low",
            "highest first",
            "largest first",
            "newest first",
        )

    def _lacking(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self._keep(self._pick(found["c"] or found["d"]), "missing")

    def _present(self, found: re.Match[str], row: Mapping[str, Any]) -> bool | None:
        before = re.search(r"(C\d+)$", found.string[: found.start()].strip())
        if before is None:
            return False
        self._keep(self._pick(before[1]), "present")
        self.marks[before[1]] = ()
        return None

    def _between(self, found: re.Match[str], row: Mapping[str, Any]) -> bool | None:
        column = self._pick(found["c"])
        if column.kind != "number":
            return False
        self._keep(column, "between", self.marks[found["a"]], self.marks[found["b"]])
        return None

    def _compare(self, found: re.Match[str], row: Mapping[str, Any]) -> bool | None:
        given = found.groupdict()
        if given.get("op"):
            op = next(
                o
                for o, w in table()["operators"].items()
                if given["op"] in (x for x in w.split("|"))
            )
        else:
            op = ">=" if given["side"] in ("more", "higher", "above", "older", "over") else "<="
        if any(c.is_date for c in self.marks[found["c"]]):
            return self._date(found["n"], op, self._pick(found["c"]))
        column = self._pick(found["c"], "measure")
        if not (column.is_measure or column.is_year):
            raise No(f"{column.name} numbers the rows, so it is not compared.")
        self._keep(column, op, self.marks[found["n"]])
        return None

    def _adjective(self, word: str) -> tuple[Column, bool]:
        """The column that an adjective measures, and whether it means the low end."""
        for nouns, up, down in table()["superlatives"].values():
            if word in f"{up}|{down}".split("|"):
                fit = [c for c in self.table.measures if set(fold(c.name)) & set(nouns.split())]
                if not fit:
                    raise No(f"The built-in model doesn't know which column {word!r} is about.")
                mark = self._mark("C", tuple(fit))
                self.marks[f"{mark} words"] = word
                return self._pick(mark), word in down.split("|")
        raise No(f"The built-in model doesn't know {word!r}.")

    def _comparative(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        column, is_low = self._adjective(found["adjective"])
        self._keep(column, "<" if is_low else ">", self.marks[found["n"]])

    def _superlative(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        column, self.query.ascending = self._adjective(found["adjective"])
        size = found["n"] or found["n2"]
        self.query.sort, self.query.limit = column, self._number(size) if size else 1

    def _date(self, mark: str, op: str, column: Column | None = None) -> bool:
        """Compare a date column with a date or a year."""
        value = self.marks[mark]
        is_year = mark[0] == "N" and float(value).is_integer() and 1500 <= float(value) <= 2100
        if not is_year and mark[0] == "N":
            return False
        column = column or self._time(str(value))
        if column.is_year:
            self._keep(column, op, int(str(value)[:4]))
        elif is_year:
            self._keep(column, op, int(value), part="year")
        else:
            self._keep(column, op, str(value))
        return True

    def _in_month(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self._keep(self._time("month"), "in", self.marks[found["m"]], part="month")
        if found["n"]:
            self._date(found["n"], "in")

    def _since(self, found: re.Match[str], row: Mapping[str, Any]) -> bool:
        op = {"since": ">=", "from": ">=", "after": ">", "before": "<", "until": "<=", "by": "<="}
        return self._date(found["d"], op[found["op"]])

    def _during(self, found: re.Match[str], row: Mapping[str, Any]) -> bool:
        a, b = found["a"] or found["a2"], found["b"] or found["b2"]
        return self._date(a, ">=") and self._date(b, "<=")

    def _on(self, found: re.Match[str], row: Mapping[str, Any]) -> bool:
        mark = found["d"]
        if mark[0] == "D" and str(self.marks[mark]).count("-") == 1:
            year, month = str(self.marks[mark]).split("-")
            self._keep(self._time("month"), "in", int(year), part="year")
            self._keep(self._time("month"), "in", int(month), part="month")
            return True
        return self._date(mark, "in")

    def _equals(self, found: re.Match[str], row: Mapping[str, Any]) -> bool | None:
        column = self._pick(found["c"])
        values: list[Any] = []
        for mark in re.findall(r"[VQN]\d+", found["v"]):
            if mark[0] == "V":
                own = [v for c, v in self.marks[mark] if c.name == column.name]
                if not own:
                    return False
                values += own[:1]
            elif mark[0] == "Q" and self.values is None:
                raise Look([str(self.marks[mark]).casefold()])
            else:
                values.append(self.marks[mark])
        self._keep(column, "not in" if found["not"] else "in", *values)
        return None

    def _exclude(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        for column, values in self._meant(found["v"]).items():
            self._keep(column, "not in", *values)

    def _comparing(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self._compares = True

    def _meant(self, text: str) -> dict[Column, list[str]]:
        """The values that marks stand for, by column."""
        meant: dict[Column, list[str]] = {}
        for mark in re.findall(r"V\d+", text):
            pairs = self.marks[mark]
            if len({c.name for c, _ in pairs}) > 1:
                value = pairs[0][1]
                names = [c.name for c, _ in pairs]
                name = self.choose(f"{value!r} stands in several columns. Which one?", names)
                pairs = [each for each in pairs if each[0].name == name]
            meant.setdefault(pairs[0][0], []).append(pairs[0][1])
        return meant

    def _values(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        meant = self._meant(found["v"])
        if len(meant) > 1 and re.search(r"V\d+ or ", found["v"]):
            self.query.any_of = True
        for column, values in meant.items():
            same = next(
                (f for f in self.query.filters if f.column == column and f.op == "in"), None
            )
            if same is not None:
                self.query.filters.remove(same)
                values = [*map(str, same.values), *values]
            self._keep(column, "in", *values)
            if len(values) > 1 and re.search(r"V\d+ (?:,|and|&|, and)", found["v"]):
                self._compares = True

    def _group(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        for group in self._groups(found["g"]):
            if group.column.is_measure and group.column.dtype.startswith("float"):
                raise No(
                    f"{group.column.name} is a measure with many values, so it makes no groups."
                )
            if group not in self.query.groups:
                self.query.groups.append(group)

    def _every(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        part = {"daily": "day", "annual": "year"}.get(found["part"], found["part"][:-2])
        self.query.groups.append(self._part(part))

    def _over_time(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.query.groups.append(Group(self._time("over time")))

    def _count(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        self.query.measures.append(Measure("count"))

    def _measure(self, found: re.Match[str], row: Mapping[str, Any]) -> bool | None:
        given = found.groupdict()
        words = given.get("aggs") or given.get("agg") or ""
        aggs = re.split(r" ?, ?(?:and )?| and ", words)
        columns = self._all(found["cs"], "measure")
        for column in columns:
            for word in aggs:
                word = {"in total": "total"}.get(word.strip(), word.strip())
                self.query.measures.append(Measure(_aggregate(word), column))
        return None

    def _at_the_end(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        column = self._pick(found["c"])
        if column.is_date:
            agg = "max" if found["side"] in ("last", "latest") else "min"
            self.query.measures.append(Measure(agg, column))
            return
        time = self._time(found[0])
        agg = "last" if found["side"] in ("last", "latest") else "first"
        self.query.measures.append(Measure(agg, column, over=time.name))

    # -- the whole -----------------------------------------------------------------------------

    def _whole(self) -> Query:
        """The query, once everything has been read."""
        query = self.query
        if self._goes_on and self.before is not None:
            self._go_on(self.before)
        numbers = [c for c in self.columns if c.is_measure]
        others = [c for c in self.columns if not c.is_measure]
        if self._is_chart and not query.chart:
            query.chart = "auto"
        if query.do in ("histogram", "box") and not query.columns:
            query.columns = numbers
        elif query.do:
            query.columns = query.columns or self.columns
        elif query.window or query.share or self._compares:
            self._with_measures(numbers)
        elif (
            numbers
            and query.filters
            and not query.measures
            and not query.groups
            and query.sort is None
        ):
            self._which_number(numbers)
        elif query.measures:
            query.groups += [Group(c) for c in others if Group(c) not in query.groups]
            if numbers:
                raise No(f"The built-in model doesn't know what to do with {numbers[0].name!r}.")
        elif query.groups and query.sort is not None:
            query.measures = [self._by_which(query.sort)]
            query.sort = None
        elif query.groups and numbers and query.limit:
            query.measures = [self._by_which(numbers[0])]
        elif query.groups and numbers:
            self._per_group(numbers)
        elif query.groups and query.limit:
            self._rank_groups()
        elif query.groups:
            query.measures = [Measure("count")]
        elif numbers and query.chart:
            query.do, query.columns = "histogram", numbers
        else:
            query.columns = self.columns
        if self._compares and query.measures:
            for each in [f for f in query.filters if f.op == "in" and len(f.values) > 1]:
                if Group(each.column) not in query.groups:
                    query.groups.insert(0, Group(each.column))
        if query.color is not None and query.do not in ("scatter", "line"):
            query.groups += [Group(query.color)] if Group(query.color) not in query.groups else []
        if not query.do:
            query.do = "aggregate" if query.measures else "rows"
        if query.do == "rows" and query.limit and query.sort is None:
            raise No("The built-in model doesn't know by what to rank: say 'by' and a column.")
        return query

    def _which_number(self, numbers: Sequence[Column]) -> None:
        names = spoken(c.name for c in numbers)
        options = {f"total {names}": "sum", f"mean {names}": "mean", "the rows themselves": ""}
        agg = options[self.choose(f"Which {names} do you mean?", list(options))]
        if agg:
            self.query.measures = [Measure(agg, each) for each in numbers]
        else:
            self.query.columns = self.columns

    def _with_measures(self, numbers: Sequence[Column]) -> None:
        query = self.query
        yes = [c for c in self.columns if c.kind == "boolean"] if query.share else []
        if yes:
            query.filters += [Filter(each, "in", (True,)) for each in yes]
            self.columns = [c for c in self.columns if c not in yes]
        if query.share and numbers:
            raise No(f"The built-in model doesn't know what to do with {numbers[0].name!r} here.")
        agg = "sum" if query.window == "cumulative" else query.text or "sum"
        if not query.measures:
            query.measures = [Measure(agg, each) for each in numbers] or [Measure("count")]
        query.groups += [Group(c) for c in self.columns if not c.is_measure]
        if query.window and not any(g.is_time for g in query.groups):
            query.groups.insert(0, Group(self._time(query.window)))

    def _by_which(self, column: Column) -> Measure:
        group = spoken(g.label for g in self.query.groups)
        options = {f"total {column.name}": "sum", f"mean {column.name}": "mean"}
        chosen = self.choose(f"By what should I rank {group}?", list(options))
        return Measure(options[chosen], column)

    def _rank_groups(self) -> None:
        group = spoken(g.label for g in self.query.groups)
        options = {"the number of rows": Measure("count")}
        for column in self.table.measures[: _MOST - 1]:
            options[f"total {column.name}"] = Measure("sum", column)
        self.query.measures = [
            options[self.choose(f"By what should I rank {group}?", list(options))]
        ]

    def _per_group(self, numbers: Sequence[Column]) -> None:
        query = self.query
        over_time = [g for g in query.groups if g.is_time and g.part in ("", "day")]
        if query.chart and over_time and len(query.groups) <= 2:
            query.do, query.columns = "line", list(numbers)
            rest = [g.column for g in query.groups if g not in over_time]
            query.color = query.color or (rest[0] if rest else None)
            query.groups = over_time
            return
        names = spoken(c.name for c in numbers)
        options = {
            f"mean {names}": "mean",
            f"total {names}": "sum",
            f"median {names}": "median",
            f"highest {names}": "max",
        }
        agg = options[self.choose(f"Which {names} of each {query.groups[0].label}?", list(options))]
        query.measures = [Measure(agg, each) for each in numbers]

    def _go_on(self, before: Query) -> None:
        """Take from the request before what this one does not say anew."""
        query = self.query
        numbers = [c for c in self.columns if c.is_measure]
        if numbers and before.measures and not query.measures:
            query.measures = [Measure(before.measures[0].agg, each) for each in numbers]
            self.columns = [c for c in self.columns if c not in numbers]
        kept = {f.column.name for f in query.filters}
        query.filters += [f for f in before.filters if f.column.name not in kept]
        query.measures = query.measures or list(before.measures)
        if not query.groups and not [c for c in self.columns if not c.is_measure]:
            query.groups = list(before.groups)
        query.columns = query.columns or list(before.columns)
        query.do = query.do or (before.do if not query.measures else "")
        for name in ("chart", "window", "text", "color", "sort"):
            setattr(query, name, getattr(query, name) or getattr(before, name))
        if query.limit is None:
            query.limit, query.ascending = before.limit, before.ascending
        query.share = query.share or before.share


def _is_code(column: Column) -> bool:
    return bool({"id", "code", "no", "nr"} & set(fold(column.name)[-1:]))


def _is_name(words: tuple[str, ...], name: str) -> bool:
    own = fold(name)
    same = tuple(map(singular, words)) == tuple(map(singular, own))
    return words == own or same or "".join(words) == "".join(own)
