"""A request becomes a query: every word of it is accounted for, or the answer is no.

The rows of ``patterns.toml`` take their words out of the marked request, one after the other, and
set slots. What is left over is looked for in the data; if it is not there, the request is not
understood. Where the slots leave something open a person is asked, and a slot that the query has
no use for is a no as well.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rapidfuzz import fuzz

from parsimony_kernel.offline.code import Writer, values_like
from parsimony_kernel.offline.marks import MOST, STOP, Marks, No
from parsimony_kernel.offline.patterns import aggregate, fillers, keywords, rows, table
from parsimony_kernel.offline.query import Filter, Measure, Query, flagged
from parsimony_kernel.offline.schema import Column, part_of
from parsimony_kernel.offline.words import canonical, fold, literal, spoken

IN_PARTS = "The built-in model can't bring this together: ask in parts."
_Given = Mapping[str, str]
_Row = Mapping[str, Any]


class _Again(Exception):
    """Values were found in the data: read again, with them."""


class Reader(Marks):
    """Reads one request about one table."""

    def read(self) -> Query:
        """Read the query. Raises ``Ask``, ``Look``, ``No`` and ``Stopped``."""
        try:
            return self._read()
        except _Again:
            return self._read()

    def _read(self) -> Query:
        if library := self.table.library:
            raise No(
                f"{self.table.name} is a table of {library}, and the built-in model computes with "
                "pandas: convert it in a cell first."
            )
        self.query, self.marks = Query(self.table.name), {}
        self.columns: list[Column] = []
        self.goes_on = self.compares = False
        self.text = text = self.marked()
        for pattern, row in rows():
            text = self._taken(pattern, row, text)
        self._left(text)
        if self.goes_on or (self.query.chart and not self._says()):
            self._go_on()
        self._complete()
        self._check(text)
        return self.query

    def _says(self) -> bool:
        query = self.query
        return bool(query.do or query.measures or query.groups or query.filters or self.columns)

    # -- patterns ----------------------------------------------------------------------------

    def _taken(self, pattern: re.Pattern[str], row: _Row, text: str) -> str:
        act = getattr(self, f"_{row.get('act', 'apply')}")
        at = 0
        while at <= len(text) and (found := pattern.search(text, at)) is not None:
            # A name that stands for one slot in several branches is numbered.
            given = {re.sub(r"\d$", "", k): v for k, v in found.groupdict().items() if v}
            took = act(given, row, found[0]) if found[0].strip() else False
            if took is False:
                at = found.end() + 1
                continue
            # An act may name the part of what was found that it has taken.
            begin, end = found.span(took or 0)
            text = f"{text[:begin].rstrip()} ~ {text[end:].lstrip()}".strip()
            at = 0
        return text

    def _left(self, text: str) -> None:
        """Account for what no pattern took."""
        runs: list[list[str]] = [[]]
        for word in text.split():
            if word in self.marks:
                self._bare(word)
            elif word in fillers():
                continue
            elif word not in ("and", "or", *"~,&()/+*-"):
                runs[-1].append(word)
                continue
            runs.append([])
        if unknown := [run for run in runs if run]:
            self._unknown(unknown)
        if re.search(r"(?<![^ ])or(?![^ ])", text) and len(self.query.filters) > 1:
            if len(self.query.filters) > 2 or "~ and ~" in text:
                raise No(IN_PARTS)
            self.query.any_of = True

    def _bare(self, mark: str) -> None:
        match mark[0]:
            case "C":
                self.columns.append(self.pick(mark))
            case "P":
                self.query.groups.append(self._part(mark))
            case "N" | "D" | "Q" | "M":
                raise No(f'The built-in model doesn\'t know what "{self.raw[mark]}" is for here.')

    def _unknown(self, runs: Sequence[Sequence[str]]) -> None:
        """Look for words in the data, else ask whether they are the rows, else name one."""
        if self.values is None and self.table.texts:
            grams = [
                re.sub(r"[^\w ]", "", " ".join(run[i : i + n]))
                for run in runs
                for n in range(min(4, len(run)), 0, -1)
                for i in range(len(run) - n + 1)
            ]
            why = f"Look for {spoken(map(repr, grams[:3]), 'or')}"
            found = self.fetch(values_like(self.table, grams[:12]), why, ())
            names = {c.name for c in self.table.texts}
            self.values = [(self.table.column(n), value) for n, value in found if n in names]
            raise _Again
        words, query = [word for run in runs for word in run], self.query
        if len(runs) == 1 and (measure := self.function(words, self.columns)):
            query.measures.append(measure)
            return
        word = next((each for each in words if each not in keywords()), words[0])
        said, known = self.raw.get(word, word), f"Read {word!r} as the rows of {self.table.name}"
        is_noun = words == [word] and word not in keywords()
        is_superlative = is_noun and f"{query.superlative or '~'} {word}" in self.text
        plural = word.endswith("s") and (query.filters or query.limit or query.measures)
        if not is_superlative and not (is_noun and plural):
            values = dict.fromkeys(v for _, v in self.values or () if v.casefold() != word)
            near = [v for v in values if fuzz.partial_ratio(word, v.casefold()) > 80]
            hint = f" Did you mean {spoken(map(repr, near), 'or')}?" if 0 < len(near) < 4 else ""
            what = f'what "{said}" is for here' if word in keywords() else f'"{said}"'
            raise No(f"The built-in model doesn't know {what}.{hint}")
        if known not in self.told and not is_superlative:
            self.choose(f"What are {said!r}?", [f"the rows of {self.table.name}", STOP])
        self.note(known)

    # -- the acts of the rows ------------------------------------------------------------------

    def _apply(self, given: _Given, row: _Row, words: str) -> None:
        """Set the slots that a row and its words name."""
        query, slots = self.query, dict(row.get("set", {}))
        if "no" in row:
            raise No(row["no"])
        if query.do and "do" in slots:
            raise No(IN_PARTS)
        if "kind" in given:
            query.chart = given["kind"]
        for slot, value in slots.items():
            setattr(query, slot, getattr(query, slot) or value)
        if "n" in given:
            setattr(query, row["slot"], int(self.marks[given["n"]]))
        if "cs" in given:
            is_chart = slots.get("chart") or query.do == "correlation"
            query.columns = self._all(given["cs"], "measure" if is_chart else "")
            # What is plotted against what: the first goes up.
            query.columns = query.columns[:: -1 if query.do == "scatter" else 1]
        if "color" in given:
            query.color = self.pick(given["color"], "group")
        if "sort" in given:
            query.sort, query.ascending = self.pick(given["sort"]), "down" not in given
        if "agg" in given:
            query.agg = aggregate(given["agg"])
        if "unit" in given:
            query.groups.append(self._part(given["unit"]))
        if "text" in given:
            query.text = " ".join(self.raw.get(each, each) for each in given["text"].split())
        query.measures += [Measure("count")] * ("count" in row)

    def _all(self, text: str, want: str = "") -> list[Column]:
        return [self.pick(mark, want) for mark in re.findall(r"C\w\d+", text)]

    def _part(self, mark: str) -> Column:
        """The part of a date that a mark stands for, as a column."""
        part = self.marks[mark]
        column = self.time(self.raw[mark])
        if column.is_year and part != "year":
            raise No(f"{self.table.name} has years and no dates, so there is no {part!r}.")
        return column if column.is_year else part_of(column, part)

    def _groups(self, text: str) -> list[Column]:
        marks = re.findall(r"C\w\d+|P\d+", text)
        return [self.pick(m, "group") if m[0] == "C" else self._part(m) for m in marks]

    def _size(self, given: _Given) -> float:
        return float(self.marks[given["n"]]) if "n" in given else 1

    def _again(self, given: _Given, row: _Row, words: str) -> bool | None:
        if ("agg" in given and not self.goes_on) or (before := self.before()) is None:
            return False
        self.goes_on = True
        if agg := aggregate(given.get("agg", "")):
            self.query.measures = [replace(m, agg=agg) for m in before.measures]
        return None

    def _difference(self, given: _Given, row: _Row, words: str) -> None:
        pair = (self.pick(given["a"]), self.pick(given["b"]))
        name, agg = f"{pair[0].name} - {pair[1].name}", aggregate(given.get("agg", ""))
        options = {f"the mean of {name}": "mean", f"the total of {name}": "sum"}
        agg = agg or options[self.choose(f"What is {name}?", list(options))]
        column = Column(name, "number", made_of=pair, how="{0} - {1}")
        self.query.measures.append(Measure(agg, column))

    def _measure(self, given: _Given, row: _Row, words: str) -> None:
        q = float(self.marks[given["n"]]) if "n" in given else 0
        names = re.split(r" ?, ?(?:and )?| and ", given.get("agg", ""))
        for column in self._all(given["cs"], "measure"):
            aggs = (aggregate(name) or "quantile" for name in names)
            self.query.measures += [Measure(agg, column, q) for agg in aggs]

    def _number(self, given: _Given, row: _Row, words: str) -> bool | None:
        """How many of a column: those that are so, or how many different ones."""
        mark = given["c"]
        column = self._part(mark) if mark[0] == "P" else self.pick(mark, "group")
        if column.is_cycle:
            return False
        measure, said = Measure("nunique", column), self.raw[mark]
        if column.is_flag:
            self.query.filters.append(flagged(column))
            measure = Measure("count")
        elif mark[0] == "C" and canonical(fold(said)) != canonical(fold(column.name)):
            options = [f"the rows of {self.table.name}", f"different values of {column.name}"]
            if self.choose(f"What are {said!r}?", options) == options[0]:
                measure = Measure("count")
        self.query.measures.append(measure)
        return None

    def _rank(self, given: _Given, row: _Row, words: str) -> None:
        """The first rows or groups by a column."""
        query = self.query
        query.ascending, query.is_percent = "low" in given, "percent" in given
        query.limit = self._size(given)
        query.groups = self._groups(given.get("g", "")) or query.groups
        if "v" in given:
            self._values({"v": given["v"]}, row, "")
        if "rows" in given:
            query.measures.append(Measure("count"))
        elif "c" in given:
            column = self.pick(given["c"], "measure" if query.groups else "")
            if query.groups:
                self._rank_groups(column, aggregate(given.get("agg", "")))
            elif column.is_measure:
                query.sort = column
            else:
                query.groups = [column]

    def _rank_groups(self, column: Column, agg: str = "") -> None:
        """Rank groups by a function of a column, or the rows by the column."""
        query, name = self.query, column.name
        if not column.is_measure:
            raise No(f"The built-in model can't rank {query.groups[0].label} by {name}.")
        options = {f"total {name}": "sum", f"mean {name}": "mean", f"{name} of a single row": ""}
        agg = agg or ("sum" if adds_up(column) else "")
        question = f"By what should I rank {query.groups[0].label}?"
        agg = agg or options[self.choose(question, list(options))]
        query.sort = None
        if agg:
            query.measures.append(Measure(agg, column))
        else:
            query.groups, query.sort = [], column

    def _latest(self, given: _Given, row: _Row, words: str) -> None:
        """The rows with the newest, or the oldest, date; or what a column is there."""
        query, low = self.query, "low" in given
        column = self.pick(given["c"]) if "c" in given else None
        if column is not None and column.is_date:
            query.measures.append(Measure("min" if low else "max", column))
            return
        query.sort, query.ascending, query.limit = self.time(words), low, self._size(given)
        if column is not None:
            query.columns = [column]
            query.superlative = f"{'earliest' if low else 'latest'} {column.label}"

    def _missing(self, given: _Given, row: _Row, words: str) -> None:
        op = "present" if "there" in given else "missing"
        self.query.filters.append(Filter(self.pick(given["c"]), op))

    def _flag(self, given: _Given, row: _Row, words: str) -> None:
        self.query.filters.append(flagged(self.pick(given["c"]), is_so=False))

    def _unit(self, given: _Given, column: Column) -> None:
        """A unit behind a number must be the column's own."""
        if said := self.raw.get(given.get("unit", ""), given.get("unit", "")):
            number = f"{self.marks[given['a']]:g} {said}"
            if not column.has_word([said]):
                raise No(f'{column.name} does not say that it is in {said}, as "{number}" is.')

    def _keep(self, given: _Given, row: _Row, words: str) -> bool | None:
        column = self.pick(given["c"])
        if column.is_date:
            return False
        if column.kind != "number":
            raise No(f"{column.name} holds no numbers to compare.")
        self._unit(given, column)
        ops = {word: op for op, words in table()["operators"].items() for word in words.split("|")}
        values = tuple(self.marks[given[name]] for name in "ab" if name in given)
        self.query.filters.append(Filter(column, row.get("op") or ops[given["op"]], values))
        return None

    def _adjective(self, given: _Given, row: _Row, words: str) -> None:
        query = self.query
        query.sort, query.ascending = self.adjective(given["adjective"])
        query.limit = self._size(given) if "n" in given else query.limit or 1
        query.superlative = given["adjective"]

    def _months(self, given: _Given, row: _Row, words: str) -> None:
        """Keep rows from one month to another, of a year or of every year."""
        first, last = (self.marks[given[name]] for name in "ab")
        column = self.time(words)
        if first > last or column.is_year:
            raise No(f"The built-in model can't tell which months {column.name} should be in.")
        kept = Filter(part_of(column, "month_name"), "in", tuple(range(first, last + 1)))
        if "n" in given:
            span = tuple(f"{self.marks[given['n']]}-{month:02}" for month in (first, last))
            kept = Filter(part_of(column, "M"), "between", span)
        self.query.filters.append(kept)

    def _dated(self, given: _Given, row: _Row, words: str) -> bool | str | None:
        """Keep rows by a year, a month, a day, or a span of them."""
        own = [c for c in self.marks[given["c"]] if c.is_date or c.is_year] if "c" in given else []
        ops = {"after": ">", "since": ">=", "from": ">=", "before": "<", "until": "<=", "by": "<="}
        op = row.get("op") or ops.get(given.get("op", ""), "in")
        marks = [given[name] for name in "ab" if name in given]
        values = [self.marks[mark] for mark in marks]
        is_number = bool(marks) and marks[0][0] == "N"
        if is_number and not all(v == int(v) and 1500 <= v <= 2100 for v in values):
            return False
        if "m" in given and op != "in":
            return False
        column = own[0] if own else self.time(self.raw[(marks or [given["m"]])[0]])
        if "m" in given:
            month = self.marks[given["m"]]
            self._keep_either(Filter(part_of(column, "month_name"), "in", (month,)))
        part = "year" if is_number else "M" if marks and str(values[0]).count("-") == 1 else "D"
        if column.is_year:
            values = [int(str(v)[:4]) for v in values]
        if marks:
            kept = column if column.is_year else part_of(column, part)
            self._keep_either(Filter(kept, op, tuple(values)))
        return "when" if "c" in given and not own else None

    def _keep_either(self, new: Filter) -> None:
        """Add a filter; what is to be two values at once is meant to be either of them."""
        for old in self.query.filters:
            if (old.column, old.op, new.op) == (new.column, "in", "in"):
                self.query.filters.remove(old)
                new = replace(new, values=(*old.values, *new.values))
                self.compares = True
                break
        self.query.filters.append(new)

    def _values(self, given: _Given, row: _Row, words: str) -> bool | str | None:
        marks = re.findall(r"[VQN]\d+", given["v"])
        op, owners = "not in" if "not" in given else "in", self.marks.get(given.get("c", ""), [])
        if marks[0][0] != "V":
            column = self.pick(given["c"])
            if marks[0][0] == "N" and column.kind != "number":
                return False
            self._keep_either(Filter(column, op, tuple(self.marks[m] for m in marks)))
            return None
        meant: dict[Column, list[str]] = {}
        for mark in marks:
            pairs = [p for p in self.marks[mark] if p[0] in owners] or self.marks[mark]
            names = list(dict.fromkeys(c.name for c, _ in pairs))
            if len(names) > 1:
                question = f"{pairs[0][1]!r} stands in several columns. Which one?"
                name = self.choose(question, names)
                pairs = [p for p in pairs if p[0].name == name]
            meant.setdefault(pairs[0][0], []).append(pairs[0][1])
        either = bool(re.search(r"V\d+ (?:, )?or ", given["v"]))
        self.query.any_of = self.query.any_of or (len(meant) > 1 and either)
        for column, values in meant.items():
            self._keep_either(Filter(column, op, tuple(values)))
            self.compares = self.compares or (len(values) > 1 and not either)
        return "v" if owners and not any(column in owners for column in meant) else None

    def _group(self, given: _Given, row: _Row, words: str) -> None:
        for group in self._groups(given["g"]) if "g" in given else [self.time(words)]:
            if group.is_measure and group.dtype.startswith("float"):
                raise No(f"{group.name} is a measure with many values: it makes no groups.")
            self.query.groups += [group] if group not in self.query.groups else []
        self.query.measures += [Measure("count")] * ("count" in row)

    # -- what the slots come to ----------------------------------------------------------------

    def _go_on(self) -> None:
        """Take from the request before what this one does not say anew."""
        query, before = self.query, self.before()
        if before is None:
            return
        numbers = [c for c in self.columns if c.is_measure]
        if numbers and before.measures and not query.measures:
            query.measures = [Measure(before.measures[0].agg, each) for each in numbers]
            self.columns = [c for c in self.columns if c not in numbers]
        said = {f.column.base for f in query.filters}
        query.filters += [f for f in before.filters if f.column.base not in said]
        if not query.groups and not [c for c in self.columns if not c.is_measure]:
            query.groups = list(before.groups)
        query.do = query.do or (before.do if not (query.measures or before.measures) else "")
        slots = "measures columns chart window agg rows color sort share stacked limit ascending"
        for name in slots.split():
            setattr(query, name, getattr(query, name) or getattr(before, name))

    def _complete(self) -> None:
        """Decide what the slots come to, and ask where that is open."""
        query = self.query
        used = {c.base for c in (*query.groups, *(f.column for f in query.filters))}
        bare = [c for c in self.columns if not (c.is_date and c in used)]
        if not query.do:
            query.filters += [flagged(c) for c in bare if c.is_flag]
            bare = [c for c in bare if not c.is_flag]
        numbers = [c for c in bare if c.is_measure]
        others = [c for c in bare if not c.is_measure]
        if query.do:
            query.columns = query.columns or bare
        elif query.window or query.share:
            self._with_measures(numbers, others)
        elif query.measures or query.groups or query.superlative:
            self._grouped(numbers, others)
        elif query.chart and (numbers or (self.table.measures and not others)):
            self._charted(numbers, others)
        elif numbers and query.filters and query.sort is None and not others:
            self._functions(numbers, "do you mean?", "the rows themselves")
        else:
            # What the rows are named by means all of them.
            bare = [] if bare == [*self.table.columns[:1]] and query.filters else bare
            query.columns = query.columns or bare
        if self.compares and query.measures:
            for each in [f for f in query.filters if f.op == "in" and len(f.values) > 1]:
                if each.column.base not in {g.base for g in query.groups}:
                    query.groups.insert(0, each.column)
        if query.color is not None and query.measures and query.color not in query.groups:
            query.groups.append(query.color)
        if query.measures and query.measures[0].agg == "min" and not query.limit:
            query.ascending = True
        if not re.search("different|distinct|unique", self.text):
            own = [Measure("nunique", group) for group in query.groups]
            query.measures = [Measure("count") if m in own else m for m in query.measures]
        query.do = query.do or ("aggregate" if query.measures else "rows")
        if query.sort is not None and query.superlative.startswith(("latest", "earliest")):
            self._ties(query.sort, "min" if query.ascending else "max")

    def _ties(self, time: Column, side: str) -> None:
        """Several rows may be the last: a person says whether all are meant."""
        dates = time.of(Writer(self.query, self.table, ()).source)
        word = self.query.superlative.partition(" ")[0]
        expression = f"int(({dates} == {dates}.{side}()).sum())"
        count = self.fetch(expression, f"Look how many rows are the {word}")
        if count > 1:
            each = f"that of each {self.table.texts[0].name}" if self.table.texts else "all of them"
            self.choose(f"{count} rows are the {word}. Which do you mean?", [each, STOP])

    def _functions(self, numbers: Sequence[Column], rest: str, *more: str) -> None:
        """Ask for the function of numbers that a request does not name."""
        names = spoken(c.name for c in numbers)
        kinds = {"mean": "mean", "total": "sum", "median": "median"}
        options = {f"{word} {names}": agg for word, agg in kinds.items()} | dict.fromkeys(more, "")
        agg = "sum" if all(map(adds_up, numbers)) else (
            options[self.choose(f"Which {names} {rest}", list(options))]
        )  # fmt: skip
        self.query.measures = [Measure(agg, each) for each in numbers if agg]

    def _grouped(self, numbers: list[Column], others: list[Column]) -> None:
        """Numbers by groups, or of everything."""
        query = self.query
        query.groups += [each for each in others if each not in query.groups]
        if query.measures:
            if numbers:
                raise No(f'The built-in model doesn\'t know what to do with "{numbers[0].name}".')
            if query.sort in [m.column for m in query.measures]:
                query.sort = None
            if query.filters and any(m.column and m.column.part for m in query.measures):
                raise No("The built-in model can't tell what to count here: rows, or times?")
        elif query.sort or (numbers and query.limit):
            if query.groups:
                self._rank_groups(query.sort or numbers[0])
        elif query.limit:
            options_ = {"the number of rows": Measure("count")}
            for column in self.table.measures[: MOST - 1]:
                options_[f"total {column.name}"] = Measure("sum", column)
            question = f"By what should I rank {spoken(g.label for g in query.groups)}?"
            query.measures = [options_[self.choose(question, list(options_))]]
        elif numbers:
            self._per_group(numbers)
        else:
            query.measures = [Measure("count")]

    def _per_group(self, numbers: list[Column]) -> None:
        query = self.query
        over = [g for g in query.groups if g.is_time and not g.part]
        is_line = query.chart in ("line", "auto") or (over and over[0].is_date)
        if over and len(numbers) == 1 and is_line and query.chart != "bar":
            query.do, query.columns, query.chart = "line", numbers, "line"
            query.groups = [*over, *(g for g in query.groups if g not in over)]
            return
        self._functions(numbers, f"of each {query.groups[0].label}?")

    def _charted(self, numbers: list[Column], others: list[Column]) -> None:
        """A chart of numbers without a group: along time, or how they are spread."""
        query = self.query
        if not numbers:
            numbers = [self.pick(self.mark("C", self.table.measures, query.table))]
            if query.chart == "auto" and self.table.times and not self.table.texts:
                query.chart = "line"
        query.groups = [self.time("line"), *others] if query.chart == "line" else others
        if query.groups:
            self._per_group(numbers)
        elif query.chart == "auto":
            query.do, query.columns = "histogram", numbers
        else:
            raise No("The built-in model needs a group for bars: say 'by' and a column.")

    def _with_measures(self, numbers: list[Column], others: list[Column]) -> None:
        """Shares and windows."""
        query = self.query
        open_share = others and (query.groups or query.filters or " T" in f" {self.text}")
        if query.share and (
            query.window
            or open_share
            or len(others) > 1
            or (len(query.filters) > 1 and not query.any_of)
            or (query.filters and any(m.agg not in ("count", "sum") for m in query.measures))
            or (query.filters and query.groups and (numbers or query.measures))
            or not (others or query.groups or query.filters)
        ):
            raise No("The built-in model can't tell the share of what: name one column, and 'by'.")
        if query.measures and numbers:
            raise No(f'The built-in model doesn\'t know what to do with "{numbers[0].name}".')
        query.groups += [each for each in others if each not in query.groups]
        if query.window == "rolling":
            self._rolls(numbers)
        elif query.window == "growth" and numbers:
            self._functions(numbers, "grows?")
        elif not query.measures:
            query.measures = [Measure("sum", each) for each in numbers] or [Measure("count")]
        if query.window and not any(g.is_time for g in query.groups):
            query.groups.insert(0, self.time(query.window))
        if query.window:
            # It runs along the time, for each of the other groups.
            query.groups.sort(key=lambda group: not group.is_time)

    def _rolls(self, numbers: list[Column]) -> None:
        """Over rows that follow one another in time; else a person says what a period comes to."""
        query = self.query
        if not numbers:
            raise No("The built-in model can't tell what to roll: name a column of numbers.")
        times = [g for g in query.groups if g.is_time] or [self.time("rolling")]
        query.groups = [times[0], *(g for g in query.groups if not g.is_time)]
        source, time = Writer(query, self.table, ()).source, times[0]
        keys, key = literal([g.name for g in query.groups]), time.of(source)
        several = f"{source}.assign(**{{{literal(time.name)}: {key}}}).duplicated({keys}).any()"
        if self.fetch(f"int({several})", f"Look whether a {time.label} has several rows"):
            raise No(f"A {time.label} has several rows, so there is nothing to roll over.")
        periods = key.removesuffix(".dt.start_time")
        last, first = (f"p.{end}(){'.ordinal' * (periods != key)}" for end in ("max", "min"))
        gaps = f"int((lambda p: {last} - {first} + 1 - p.nunique())({periods}))"
        if time.part and self.fetch(gaps, f"Look whether each {time.label} has a row"):
            raise No(f"Not each {time.label} has a row: ask for a {query.rows} row rolling value.")
        query.measures = [Measure(query.agg, each) for each in numbers]

    def _check(self, text: str) -> None:
        """Every slot is of use, and something was asked."""
        query = self.query
        uses = table()["uses"][query.do].split()
        slots = {slot for listed in table()["uses"].values() for slot in listed.split()}
        most = {"histogram": 1, "box": 1, "scatter": 2, "line": 1}.get(query.do)
        if most is not None and len(query.columns) != most:
            raise No(f"The built-in model can't tell what to draw: name {most} column of numbers.")
        if query.do == "rows" and query.limit and query.sort is None:
            raise No("The built-in model doesn't know by what to rank: say 'by' and a column.")
        if any(getattr(query, slot) for slot in slots.difference(uses)) or (
            len(query.groups) > (2 if query.chart else 4) or (query.chart and query.measures[1:])
        ):
            raise No(IN_PARTS)
        nothing = query.do == "rows" and not (query.columns or query.filters or query.sort)
        shows = re.match(r"(?:show|list|display|print|see|give|get|use|take)\b|T\d+$", self.text)
        if nothing and not (shows or text == "~"):
            raise No(f"The built-in model doesn't know what to do with {self.table.name} here.")


def adds_up(column: Column) -> bool:
    """Whether a sum of the column says something, as its name tells."""
    return column.has_word(table()["fillers"]["totals"].split())
