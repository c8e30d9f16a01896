"""A request becomes a query: every word of it is accounted for, or the answer is no.

What stands in the data is recognised first: columns, values, tables, numbers, dates. Each becomes a
mark, a letter with a number, and the rows of ``patterns.toml`` take the marks and words out of the
request, one row after the other, and set slots. A word that nothing takes is not understood. Where
a mark or the slots leave something open a person is asked, and a slot that the query has no use for
is a no as well.
"""

import re
from calendar import month_name
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from parsimony_kernel.core.fuzzy import alike
from parsimony_kernel.offline import words as english
from parsimony_kernel.offline.code import masked, values_like
from parsimony_kernel.offline.schema import CODES, Column, Filter, Query, Table, part_of
from parsimony_kernel.offline.transcript import No, Transcript, no_if
from parsimony_kernel.offline.words import Token, canonical, fold, singular, spoken

_DATED = {"after": ">", "since": ">=", "from": ">=", "before": "<", "until": "<="}
_DATED |= dict.fromkeys(("in", "for", "of", "during", "on"), "==")
_Given = Mapping[str, str]
_MONTHS = [name.lower() or "-" for name in month_name]


@dataclass
class Reader:
    """Reads one request about one table.

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
    compared: list[Column] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)
    either: bool = False

    def read(self) -> Query:
        """Read the query. Raises ``Ask`` and ``No``."""
        no_if(self.table.library, "library", self.table.name, self.table.library)
        self.query = Query(self.table.name)
        self.text = text = self.marked()
        for pattern, row in english.rows():
            text = self._taken(pattern, row, text)
        self._left(text)
        query = self.query
        says = query.do or query.agg or query.groups or query.filters or self.columns
        if query.goes_on or (query.chart and not says):
            self._go_on()
        self._complete()
        self._check(text)
        return query

    # -- marks -------------------------------------------------------------------------------

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
        others = english.keywords() | {name.casefold() for name in self.turn.tables()}
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
            kinds = {"m": "is_measure", "t": "is_time", "b": "is_flag"}
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
        is_name = is_quoted or (text.isupper() and len(text) > 1)
        is_key = low in english.keywords() and not is_name
        is_other = not exact and text.casefold() in map(str.casefold, self.turn.tables())
        if is_other or (self._is_rows(words, exact) and not is_key and not is_quoted):
            return self.mark("T", self.table.name, text)
        # The total of a column, where a column is called total as well.
        if exact and not (is_key and english.aggregate(low) and self._columns_of(fold(after))):
            return self.mark("C", exact, text)
        parts = english.table()["parts"].items()
        if found := [p for p, row in parts if re.fullmatch(row.get("words", ""), low)]:
            return self.mark("P", found[-1], text)
        same = (text.casefold(), singular(text.casefold()))
        values = [pair for pair in self.values if pair[1].casefold() in same]
        if is_key:
            values = [p for p in values if p[1] == text and behind.startswith("C")]
        partly = [] if is_key or is_quoted else self._columns_of(words)
        measures = [c.name for c in partly if c.is_measure]
        is_both = values and measures and not english.aggregate(behind)
        no_if(is_both, "value", text, spoken(c.name for c, _ in values[:1]), spoken(measures))
        if values and not measures:
            return self.mark("V", values, text)
        month = next((i for i, m in enumerate(_MONTHS) if low in (m, m[:3])), 0)
        is_date = self.table.times[:1] and self.table.times[0].kind == "date"
        if month and is_date and (low != "may" or behind in english.filler("months")):
            return self.mark("V", [(part_of(self.time(text), "month_name"), month)], text)
        if partly:
            return self.mark("C", partly, text)
        return ""

    def _is_rows(self, words: tuple[str, ...], exact: Sequence[Column]) -> bool:
        """Whether ``words`` are what the rows are called: the table, or what its ids number."""
        mine, named = tuple(map(singular, words)), tuple(map(singular, fold(self.table.name)))
        ids = [fold(c.name) for c in self.table.columns[:1] if c.is_code]
        numbered = [tuple(singular(w) for w in each if w not in CODES) for each in ids]
        return mine in numbered or (not exact and mine in (named, named[-1:]))

    def _columns_of(self, words: tuple[str, ...]) -> list[Column]:
        """Find the columns of whose names all ``words`` are a part, or nearly the whole."""
        if not words or any(w in english.keywords() - {"time"} or w.isdigit() for w in words):
            return [c for c in self.table.columns if _is_name(words, c)]
        mine = canonical(words)
        own = {c: canonical(fold(c.name)) for c in self.table.columns}
        found = [c for c in own if all(any(alike(w, each) for each in own[c]) for w in mine)]
        return [c for c in found if own[c] == mine] or found

    # -- looking and choosing ----------------------------------------------------------------

    def pick(self, mark: str, want: str = "") -> Column:
        """Return the column that is meant, of those that a mark may stand for."""
        listed: list[Column] = self.marks[mark]
        words = self.raw[mark]
        fit = {
            "measure": [c for c in listed if c.kind in ("number", "boolean")],
            "group": [c for c in listed if not c.is_measure] or listed,
        }.get(want, listed)
        no_if(not fit, "kind", spoken(c.name for c in listed), "numbers")
        question = f"Which column of `{self.table.name}` do you mean by {words!r}?"
        column = self.one_of(question, fit)
        if canonical(fold(words)) != canonical(fold(column.name)):
            again = ", as before" if self.turn.holds(question) else ""
            self.query.notes.append(f"Read {words!r} as {column.name}{again}")
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
        return self.table.column(names[0] if len(names) == 1 else self.turn.choose(question, names))

    # -- patterns ----------------------------------------------------------------------------

    def _taken(self, pattern: re.Pattern[str], row: english.Row, text: str) -> str:
        at = 0
        while at <= len(text) and (found := pattern.search(text, at)) is not None:
            # A name that stands for one slot in several branches is numbered.
            given = {re.sub(r"\d$", "", k): v for k, v in found.groupdict().items() if v}
            if not found[0].strip() or self._take(given, row) is False:
                at = found.end() + 1
                continue
            text = f"{text[: found.start()].rstrip()} ~ {text[found.end() :].lstrip()}".strip()
            at = 0
        return text

    def _take(self, given: _Given, row: english.Row) -> bool | None:
        """Set the slots that a row and its words name; ``False`` where they are not meant."""
        query = self.query
        if "no" in row:
            raise No(row["no"])
        if "act" in row and getattr(self, f"_{row['act']}")(given) is False:
            return False
        slots = dict(row.get("set", {}))
        slots |= {"agg": "count"} if "rows" in given else {}
        slots |= {"chart": given["chart"]} if "chart" in given else {}
        slots |= {"agg": english.aggregate(given["agg"])} if "agg" in given else {}
        no_if(any(slots.get(slot) and getattr(query, slot) for slot in ("do", "agg")), "parts")
        for slot, value in slots.items():
            setattr(query, slot, getattr(query, slot) or value)
        if "n" in given:
            setattr(query, row.get("number", "limit"), self.marks[given["n"]])
        query.ascending = query.ascending or "low" in given
        if "act" not in row:
            self._set(given)
        return None

    def _set(self, given: _Given) -> None:
        query = self.query
        marks = re.findall(r"C\w\d+", given.get("cs", ""))
        is_drawn = query.agg not in ("", "nunique") or query.do in ("histogram", "box", "scatter")
        query.columns += [self.pick(mark, "measure" if is_drawn else "") for mark in marks]
        # What is plotted against what: the first goes up.
        query.columns = query.columns[:: -1 if query.do == "scatter" and marks else 1]
        query.groups += [self.time("over time")] if "time" in given else []
        if "text" in given:
            query.text = " ".join(self.raw.get(each, each) for each in given["text"].split())
        if "sort" in given:
            query.sort, query.ascending = self.pick(given["sort"]), "down" not in given
        for group in self._groups(given.get("g", "") + given.get("unit", "")):
            is_many = group.is_measure and group.dtype.startswith("float")
            no_if(is_many, "measure", group.name)
            query.groups += [group] if group not in query.groups else []

    def _left(self, text: str) -> None:
        """Account for what no pattern took."""
        left = [word for word in text.split() if word not in english.filler("words")]
        if unknown := [w for w in left if w not in (*self.marks, "and", "or", *"~,&()/+*-")]:
            self._unknown(unknown)
        for mark in (word for word in left if word in self.marks and word[0] != "T"):
            no_if(mark[0] not in "CP", "unused", self.raw[mark])
            if mark[0] == "P":
                self.query.groups.append(self._part(mark))
            else:
                self.columns.append(self.pick(mark))
        self.either = "or" in left
        no_if(self.either and "~ and ~" in text, "parts")

    def _unknown(self, words: list[str]) -> None:
        """Ask which column is meant by the one unknown word, else name a word and give up."""
        word = next((each for each in words if each not in english.keywords()), words[0])
        numbers, agg = [c.name for c in self.table.measures], english.aggregate(words[0])
        is_column = words[1:] == [word] and not (self.query.agg or self.query.columns)
        if agg and is_column and numbers:
            question = f"`{self.table.name}` has no column {word!r}. Which one do you mean?"
            self.query.agg = agg
            self.query.columns = [self.table.column(self.turn.choose(question, numbers))]
        else:
            why = "unused" if word in english.keywords() else "unknown"
            no_if(True, why, self.raw.get(word, word))

    # -- the acts of the rows ------------------------------------------------------------------

    def _groups(self, text: str) -> list[Column]:
        marks = re.findall(r"C\w\d+|P\d+", text)
        return [self.pick(m, "group") if m[0] == "C" else self._part(m) for m in marks]

    def _part(self, mark: str) -> Column:
        """The part of a date that a mark stands for, as a column."""
        column, part = self.time(self.raw[mark]), self.marks[mark]
        no_if(column.is_year and part != "year", "part", self.table.name, part)
        return column if column.is_year else part_of(column, part)

    def _difference(self, given: _Given) -> None:
        pair = (self.pick(given["a"]), self.pick(given["b"]))
        name = f"{pair[0].name} - {pair[1].name}"
        self.query.columns.append(Column(name, "number", made_of=pair, how="({0} - {1})"))
        if "agg" not in given:
            self.query.agg = self._function("do you mean?")

    def _rank(self, given: _Given) -> None:
        """The first rows or groups by a column."""
        query = self.query
        query.limit = query.limit or 1
        query.groups = self._groups(given.get("g", "")) or query.groups
        if "v" in given:
            self._values({"v": given["v"]})
        if "c" in given:
            column = self.pick(given["c"], "measure" if query.groups else "")
            if query.groups:
                query.columns.append(column)
            elif column.is_measure:
                query.sort = column
            else:
                query.groups = [column]

    def _keep(self, given: _Given) -> bool | None:
        """Keep rows by a number, a year, a month, a day, or a span of them."""
        marks = [given[name] for name in "ab" if name in given]
        values = tuple(self.marks[mark] for mark in marks)
        column = self.pick(given["c"]) if "c" in given else self.time(self.raw[marks[0]])
        word = given.get("op", "between")
        # How much of a date is given: its year, its month or its day.
        parts = {"year" if m[0] == "N" else "MD"[self.marks[m].count("-") - 1] for m in marks}
        is_year = parts != {"year"} or all(1500 <= each <= 2100 for each in values)
        if column.is_time and (len(parts) > 1 or not is_year):
            return False
        if "b" in given and not column.is_time and self.table.times and is_year:
            # "total sales from 2022 to 2023" may be about the time; one of dates always is.
            question = f"Which column is from {values[0]} to {values[-1]}?"
            times = self.table.times
            if parts != {"year"} or self.one_of(question, [column, *times]).is_time:
                return False
        if column.kind == "date":
            column = part_of(column, *parts) if parts else column
        elif marks:
            what = "numbers" if parts == {"year"} else "dates"
            no_if(column.kind != "number" or what == "dates", "kind", column.name, what)
        op = english.operators().get(word) or _DATED.get(word, word)
        self._filter(Filter(column, op, values))
        return None

    def _filter(self, new: Filter) -> None:
        """Add a filter; a column is not to be two values at once."""
        ops = [f.op for f in (*self.query.filters, new) if f.column == new.column]
        no_if(len([op for op in ops if op in ("==", "in")]) > 1, "parts")
        self.query.filters.append(new)

    def _unless(self, given: _Given) -> None:
        self._filter(Filter(self.pick(given["c"]), "false"))

    def _values(self, given: _Given) -> bool | None:
        """Keep the rows with a value, or drop them; several set side by side are groups."""
        marks = re.findall(r"V\d+", given["v"])
        owners = self.marks.get(given.get("c", ""), [])
        meant: dict[Column, list[str]] = {}
        for mark in marks:
            pairs = dict(p for p in self.marks[mark] if p[0] in owners or not owners)
            if not pairs:
                return False
            column = next(iter(pairs))
            if len(pairs) > 1:
                question = f"{pairs[column]!r} stands in several columns. Which one?"
                column = self.one_of(question, list(pairs))
            meant.setdefault(column, []).append(pairs[column])
        either = bool(re.search(r"V\d+ (?:, )?or ", given["v"]))
        self.query.any_of = self.query.any_of or (len(meant) > 1 and either)
        for column, values in meant.items():
            self._filter(Filter(column, "not in" if "not" in given else "in", tuple(values)))
            self.compared += [column] if len(values) > 1 and not (either or "not" in given) else []
        return None

    # -- what the slots come to ----------------------------------------------------------------

    def _go_on(self) -> None:
        """Take from the request before what this one does not say anew."""
        query, before = self.query, self.before()
        no_if(before is None and query.goes_on, "before")
        if before is None:
            return
        no_if(before.any_of and query.filters, "parts")
        query.columns = query.columns or [c for c in self.columns if c.is_measure]
        query.groups = query.groups or [c for c in self.columns if not c.is_measure]
        self.columns = []
        said = {f.column.base for f in query.filters}
        query.filters += [f for f in before.filters if f.column.base not in said]
        for slot in {each.name for each in fields(Query)} - {"notes", "filters"}:
            setattr(query, slot, getattr(query, slot) or getattr(before, slot))
        # What groups come to is decided anew.
        query.do = query.do.replace("aggregate", "")

    def _complete(self) -> None:
        """Decide what the slots come to, and ask where that is open."""
        query = self.query
        used = {c.base for c in (*query.groups, *(f.column for f in query.filters))}
        bare = [c for c in self.columns if (c.is_measure or c not in used) and c != query.sort]
        # What the rows are named by means all of them.
        bare = [] if bare == [*self.table.columns[:1]] and query.filters else bare
        query.filters += [Filter(c, "true") for c in bare if c.kind == "boolean"]
        bare = [c for c in bare if c.kind != "boolean"]
        query.any_of = query.any_of or (self.either and len(query.filters) > 1)
        no_if(self.either and len(query.filters) > 2, "parts")
        no_if(query.do and query.columns and bare, "unused", *(c.name for c in bare[:1]))
        numbers = [c for c in bare if c.is_measure]
        others = [c for c in bare if not c.is_measure]
        is_drawn = query.chart == "line" or (query.chart and others)
        if query.do:
            query.columns = query.columns or bare
        elif query.agg or query.groups or query.window or query.share or is_drawn:
            self._aggregated(numbers, others)
        elif query.chart:
            no_if(query.chart != "auto", "chart")
            query.do, query.columns = "histogram", numbers
        elif numbers and query.filters and query.sort is None and not others:
            query.columns = numbers
            query.agg = self._function("do you mean?")
        else:
            query.columns = query.columns or bare
        query.do = query.do or ("aggregate" if query.agg else "rows")
        if query.do == "aggregate":
            own = {group.base for group in query.groups}
            query.groups = [*(c for c in self.compared if c.base not in own), *query.groups]
            query.ascending = query.ascending or (query.agg == "min" and not query.limit)

    def _function(self, rest: str) -> str:
        """The function that a request does not name."""
        columns = self.query.columns
        if all({*fold(column.name)} & english.filler("totals") for column in columns):
            return "sum"
        names = spoken(c.name for c in columns)
        kinds = {"mean": "mean", "total": "sum", "median": "median"}
        options = {f"{word} {names}": agg for word, agg in kinds.items()}
        return options[self.turn.choose(f"Which {names} {rest}", list(options))]

    def _aggregated(self, numbers: list[Column], others: list[Column]) -> None:
        """Numbers by groups, or of everything; their shares, and what they come to over time."""
        query = self.query
        if query.window or (query.chart == "line" and not (query.groups or others)):
            # It runs along the time, for each of the other groups.
            query.groups += [] if any(g.is_time for g in query.groups) else [self.time("time")]
            query.groups.sort(key=lambda group: not group.is_time)
        query.groups += [each for each in others if each not in query.groups]
        no_if(query.sort is not None, "parts")
        for number in numbers:
            no_if(query.columns or query.agg == "count", "unused", number.name)
        query.columns = query.columns or numbers
        no_if(len(query.columns) > 1, "parts")
        no_if(query.limit and not (query.agg or query.columns), "rank")
        no_if(query.limit and not query.groups, "parts")
        if query.window == "rolling":
            self._check_rolling()
        elif not query.columns:
            query.agg = query.agg or "count"
            no_if(query.agg != "count", "parts")
        elif not query.agg and (query.share or query.window == "cumulative"):
            query.agg = "sum"
        elif not query.agg and self._is_line():
            query.do, query.chart = "line", "line"
            query.groups.sort(key=lambda group: not group.is_time)
        elif not query.agg:
            column = query.columns[0]
            no_if(not column.is_measure, "compute", column.name)
            query.agg = self._function(f"of each {query.groups[0].label}?")
        if query.share:
            self._check_share(others)
        if query.columns == query.groups and not re.search("different|distinct|unique", self.text):
            query.agg, query.columns = "count", []

    def _is_line(self) -> bool:
        """Whether numbers are drawn as they are, along dates of which each is a group."""
        query = self.query
        over = [g for g in query.groups if g.is_time and not g.part][:1]
        is_plain = not (query.window or query.limit)
        is_day = not query.chart and [group.kind for group in over] == ["date"]
        is_line = query.chart in ("line", "auto") or is_day
        if not (over and is_plain and is_line):
            return False
        if query.chart or "over time" in self.text:
            return True
        # Several rows of one time are no line: what they come to is asked, or summed.
        names = [group.name for group in query.groups]
        look = f"int({masked(query)}.duplicated({english.literal(names)}).any())"
        return bool(self.look(look, f"Look whether each {spoken(names)} has one row") != 1)

    def _check_share(self, others: list[Column]) -> None:
        """Of what it is the share must be clear."""
        query, kept, groups = self.query, len(self.query.filters), len(self.query.groups)
        is_open = (
            query.window
            or query.agg not in ("count", "sum")
            or not (groups or kept)
            or (kept > 1 and not query.any_of)
            or (kept and groups)
            or (others and (groups > 1 or kept or " T" in f" {self.text}"))
        )
        no_if(is_open, "share")

    def _check_rolling(self) -> None:
        """A rolling value needs one row for each time, and no day missing between."""
        query, time = self.query, self.query.groups[0]
        is_odd = not query.columns or query.groups[1:] or time.part not in ("", "day")
        no_if(is_odd, "rolling")
        times = time.of(masked(query))
        gaps = f" or ({times}.max() - {times}.min()).days >= len({times})" * bool(time.part)
        look = f"int({times}.duplicated().any(){gaps})"
        has_gaps = self.look(look, f"Look whether each {time.label} has one row") != 0
        no_if(has_gaps, "gaps", time.label)

    def _check(self, text: str) -> None:
        """Every slot is of use, and something was asked."""
        query, kinds = self.query, english.table()["kinds"]
        most = kinds[query.do].get("columns", len(query.columns))
        no_if(len(query.columns) != most, "draw", most)
        no_if(query.do == "rows" and query.limit and query.sort is None, "rank")
        slots = {slot for kind in kinds.values() for slot in kind["uses"].split()}
        unused = slots.difference(kinds[query.do]["uses"].split())
        no_if(any(getattr(query, slot) for slot in unused), "parts")
        no_if(len(query.groups) > (2 if query.chart else 4), "parts")
        no_if(query.chart and query.do == "aggregate" and not query.groups, "chart")
        is_drawn = query.do in ("histogram", "box", "scatter")
        is_undrawn = query.groups[1:] or any(g.is_time or g.made_of for g in query.groups)
        no_if(is_drawn and is_undrawn, "parts")
        no_if(query.do == "rename" and query.text in [c.name for c in self.table.columns], "parts")
        nothing = query.do == "rows" and not (query.columns or query.filters or query.sort)
        shows = re.match(r"(?:show|list|display|print|see|give|get|use|take)\b|T\d+$", self.text)
        no_if(nothing and not (shows or text == "~"), "nothing", self.table.name)


def _is_name(words: tuple[str, ...], column: Column) -> bool:
    mine, own = [*map(singular, words)], fold(column.name)
    names = ([*map(singular, own)], [*map(singular, fold(column.plain))])
    return bool(words) and (mine in names or "".join(words) == "".join(own))
