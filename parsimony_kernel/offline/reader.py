"""A request becomes a query: every word of it is accounted for, or the answer is no.

The rows of ``patterns.toml`` take their words out of the marked request, one after the other, and
set slots. What is left over is looked for in the data; if it is not there, the request is not
understood. A slot that the query has no use for is a no as well.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rapidfuzz import fuzz

from parsimony_kernel.offline.code import kept, of, part_of, values_like
from parsimony_kernel.offline.marks import MOST, STOP, Ask, Marks, No, aggregate, rows, table
from parsimony_kernel.offline.query import CYCLES, Filter, Group, Measure, Query
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import canonical, fold, literal, spoken

_IN_PARTS = "The built-in model can't bring this together: ask in parts."
_CHARTS = ("histogram", "box", "scatter", "line")
_Given = Mapping[str, str]
_Row = Mapping[str, Any]


class Reader(Marks):
    """Reads one request about one table.

    ``publishes`` is what is to be published: its kind, its title or file, and whether of new data.
    """

    def read(self) -> Query:
        """The query. Raises ``Ask``, ``Look``, ``No`` and ``Stopped``."""
        try:
            return self._read()
        except _Found as found:
            owned = [(self.table.column(name), value) for name, value in found.pairs]
            self.values = [(column, value) for column, value in owned if column is not None]
            return self._read()

    def _read(self) -> Query:
        self.query, self.marks = Query(self.table.name), {}
        self.columns: list[Column] = []
        self.goes_on = self.compares = False
        self.publishes: list[tuple[str, str, bool]] = []
        self.text = text = self.marked()
        for pattern, row in rows():
            text = self._taken(pattern, row, text)
        self._left(text)
        self._complete()
        self._check(text)
        return self.query

    # -- patterns ----------------------------------------------------------------------------

    def _taken(self, pattern: re.Pattern[str], row: _Row, text: str) -> str:
        act = getattr(self, f"_{row.get('act', 'apply')}")
        at = 0
        while at <= len(text) and (found := pattern.search(text, at)) is not None:
            # A name that stands for one slot in several branches is numbered.
            given = {re.sub(r"\d$", "", k): v for k, v in found.groupdict().items() if v}
            took = act(given, row.get("set", {}), found[0]) if found[0].strip() else False
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
        fillers = table()["fillers"]["words"].split()
        for word in text.split():
            if word in self.marks:
                self._bare(word)
            elif word in fillers:
                continue
            elif word not in ("and", "or", "then", *"~,&()/+*-"):
                runs[-1].append(word)
                continue
            runs.append([])
        if unknown := [run for run in runs if run]:
            self._unknown(unknown)
        if re.search(r"(?<![^ ])or(?![^ ])", text) and len(self.query.filters) > 1:
            if len(self.query.filters) > 2 or "~ and ~" in text:
                raise No(_IN_PARTS)
            self.query.any_of = True

    def _bare(self, mark: str) -> None:
        match mark[0]:
            case "C":
                self.columns.append(self.pick(mark))
            case "P":
                self.query.groups.append(self._part(self.marks[mark]))
            case "N" | "D" | "Q" | "M" | "F":
                raise No(f'The built-in model doesn\'t know what "{self.raw[mark]}" is for here.')

    def _unknown(self, runs: Sequence[Sequence[str]]) -> None:
        """Look for words in the data, else ask what they are, else name one."""
        if self.values is None and any(
            c.kind == "text" and not c.is_date for c in self.table.columns
        ):
            grams = [
                re.sub(r"[^\w ]", "", " ".join(run[i : i + n]))
                for run in runs
                for n in range(min(4, len(run)), 0, -1)
                for i in range(len(run) - n + 1)
            ]
            why = f"Look for {spoken(map(repr, grams[:3]), 'or')}"
            found = self.fetch(values_like(self.table, grams[:12]), why)
            raise _Found([[*pair] for pair in found or ()])
        word, rest = runs[0][0], " ".join(runs[0][1:])
        said, measures = self.raw.get(word, word), [c.name for c in self.table.measures]
        if rest and aggregate(word) and measures and len(runs) == 1:
            question = f"`{self.table.name}` has no column {rest!r}. Which one do you mean?"
            try:
                column = self.table.column(self.choose(question, measures))
            except Ask as ask:
                raise Ask(ask.question, ask.choices, is_guess=True) from None
            self.query.measures.append(Measure(aggregate(word), column))
        elif not rest and len(runs) == 1 and word.endswith("s") and (
            self.query.filters or self.query.limit or self.query.measures
        ):  # fmt: skip
            # What the rows are called: a person must say so, once.
            known = f"Read {word!r} as the rows of {self.table.name}"
            if known not in self.told:
                self.choose(f"What are {said!r}?", [f"the rows of {self.table.name}", STOP])
            self.note(known)
        else:
            near = [v for _, v in self.values or () if fuzz.partial_ratio(word, v.casefold()) > 80]
            hint = f" Did you mean {spoken(map(repr, near[:3]), 'or')}?" if near else ""
            raise No(f'The built-in model doesn\'t know "{said}".{hint}')

    # -- the acts of the rows ------------------------------------------------------------------

    def _all(self, text: str, want: str = "") -> list[Column]:
        return [self.pick(mark, want) for mark in re.findall(r"C\d+", text)]

    def _groups(self, text: str) -> list[Group]:
        return [
            Group(self.pick(mark, "group")) if mark[0] == "C" else self._part(self.marks[mark])
            for mark in re.findall(r"[CP]\d+", text)
        ]

    def _part(self, part: str) -> Group:
        column = self.time(part)
        if column.is_year and part != "year":
            raise No(f"{self.table.name} has years and no dates, so there is no {part!r}.")
        return Group(column, "" if column.is_year else part)

    def _title(self, words: str) -> str:
        return " ".join(self.raw.get(each, each) for each in words.split())

    def _apply(self, given: _Given, row: _Row, words: str) -> None:
        """Set the slots that a row and its words name."""
        query = self.query
        if query.do and "do" in row:
            raise No(_IN_PARTS)
        kind = given.get("kind") or query.chart or row.get("chart", "")
        query.do, query.chart = row.get("do", query.do), kind
        query.window = row.get("window", query.window)
        query.share, query.stacked = (
            query.share or "share" in row,
            query.stacked or "stacked" in row,
        )
        self.compares = self.compares or "compares" in row
        if "cs" in given:
            columns = self._all(given["cs"], row.get("want", ""))
            query.columns = columns[::-1] if "turned" in row else columns
        if "color" in given:
            query.color = self.pick(given["color"], "group")
        if "sort" in given:
            query.sort, query.ascending = self.pick(given["sort"]), "down" not in given
        if "slot" in row:
            setattr(query, row["slot"], int(self.marks[given["n"]]) if "n" in given else row["n"])
        if "agg" in given:
            query.agg = aggregate(given["agg"])
        if "text" in given:
            query.text = self._title(given["text"])
        query.ascending = query.ascending or "low" in row
        query.unit = str(self.marks[given["unit"]]) if "unit" in given else query.unit
        query.measures += [Measure("count")] * ("count" in row)

    def _fill(self, given: _Given, row: _Row, words: str) -> None:
        self._apply(given, row, words)
        plain = {"zero": "0", "mean": "mean", "median": "median"}.get(given["how"])
        self.query.text = plain or literal(self.marks[given["how"]])

    def _derive(self, given: _Given, row: _Row, words: str) -> None:
        self._apply(given, row, words)
        parts = (
            of("d", self.pick(word, "measure"))
            if word[0] == "C"
            else str(self.marks.get(word, word))
            for word in given["expression"].split()
        )
        self.query.expression = " ".join(parts)

    def _publish(self, given: _Given, row: _Row, words: str) -> None:
        suffix = {"excel": "xlsx"}.get(given.get("suffix", ""), given.get("suffix", ""))
        title = self._title(given.get("title", "")) or f".{suffix}" * bool(suffix)
        self.publishes.append((row["kind"], title, "new" in given))

    def _again(self, given: _Given, row: _Row, words: str) -> bool | None:
        if self.before is None or ("agg" in given and not self.goes_on):
            return False
        self.goes_on = True
        if agg := aggregate(given.get("agg", "")):
            self.query.measures = [replace(m, agg=agg) for m in self.before.measures]
        return None

    def _pair(self, given: _Given, row: _Row, words: str) -> bool | None:
        if any(not c.is_measure for side in "ab" for c in self.marks[given[side]]):
            return False
        a, b = self.pick(given["a"], "measure"), self.pick(given["b"], "measure")
        both, sign, agg = f"{a.name} {row['sign']} {b.name}", row["sign"], given.get("agg", "")
        options = {f"the mean of {both}": "mean", f"the total of {both}": "sum"}
        if sign == "/":
            options = {
                f"total {a.name} / total {b.name}": "ratio",
                f"the mean of {both} in each row": "mean",
            }
        if sign == "/" or not agg:
            agg = options[self.choose(f"What is {both}?", list(options))]
        self.query.measures.append(Measure(aggregate(agg) or agg, a, b, sign))
        return None

    def _measure(self, given: _Given, row: _Row, words: str) -> None:
        q = self.marks[given["n"]] if "n" in given else 0
        names = re.split(r" ?, ?(?:and )?| and ", given.get("agg", ""))
        for column in self._all(given["cs"], "measure"):
            self.query.measures += [
                Measure(row.get("agg") or aggregate(name), column, q=q) for name in names
            ]

    def _number(self, given: _Given, row: _Row, words: str) -> bool | None:
        """How many of a column: those that are so, or how many different ones."""
        column, said = self.pick(given["c"], "group"), self.raw[given["c"]]
        if column.is_measure:
            return False
        measure = Measure("nunique", column)
        if column.kind == "boolean":
            self.query.filters.append(Filter(column, "true"))
            measure = Measure("count")
        elif canonical(fold(said)) != canonical(fold(column.name)):
            rows_ = f"the rows of {self.table.name}"
            options = [rows_, f"different values of {column.name}"]
            measure = (
                Measure("count")
                if self.choose(f"What are {said!r}?", options) == rows_
                else measure
            )
        self.query.measures.append(measure)
        return None

    def _periods(self, given: _Given, row: _Row, words: str) -> bool | None:
        part = self.marks[given["over"]]
        if part in CYCLES:
            return False
        group = self._part(part)
        over = group if group.part else None
        self.query.measures.append(Measure("nunique", group.column, over=over))
        return None

    def _per_period(self, given: _Given, row: _Row, words: str) -> bool | None:
        over, mark = given["over"], given["c"]
        is_rows = mark[0] != "C"
        fits = over[0] == "P" or any(c.is_year for c in self.marks[over])
        if not fits or self.raw[over] in CYCLES or not (
            is_rows or any(c.is_measure for c in self.marks[mark])
        ):  # fmt: skip
            return False
        group = self._groups(over)[0]
        column = None if is_rows else self.pick(mark, "measure")
        total, each = (
            f"the mean of the totals of each {group.label}",
            f"the mean of each {group.label}",
        )
        if column is None or _adds_up(column) or total == self.choose(
            f"What is the average {column.name} of a {group.label}?", [total, each]
        ):  # fmt: skip
            self.query.measures.append(Measure("mean", column, over=group))
        else:
            self.query.groups.append(group)
            self.query.measures.append(Measure("mean", column))
        return None

    def _rank(self, given: _Given, row: _Row, words: str) -> bool | None:
        """The first rows or groups by a column."""
        query = self.query
        query.ascending, query.is_percent = "low" in given, "is_percent" in row
        query.limit = self.marks[given["n"]] if "n" in given else 1
        query.groups = self._groups(given.get("g", "")) or query.groups
        if "rows" in given:
            query.measures.append(Measure("count"))
        elif "c" in given:
            column = self.pick(given["c"], "measure" if query.groups else "")
            agg = aggregate(given.get("agg", ""))
            if query.groups:
                self._rank_groups(column, agg)
            elif column.is_measure:
                query.sort = column
            else:
                query.groups = [Group(column)]
        return None

    def _rank_groups(self, column: Column, agg: str = "") -> None:
        """Rank groups by a function of a column, or the rows by the column."""
        query = self.query
        options = {"total": "sum", "mean": "mean"}
        options = {f"{word} {column.name}": how for word, how in options.items()}
        options[f"{column.name} of a single row"] = ""
        agg = agg or ("sum" if _adds_up(column) else "")
        question = f"By what should I rank {query.groups[0].label}?"
        agg = agg or options[self.choose(question, list(options))]
        query.sort = None
        if agg:
            query.measures.append(Measure(agg, column))
        else:
            query.groups, query.sort = [], column

    def _missing(self, given: _Given, row: _Row, words: str) -> bool | None:
        columns = self.marks[given["c"]]
        is_done = "closed" in row  # a date that is not there yet
        if is_done and not any(c.is_date for c in columns):
            return False
        if any(c.kind == "boolean" for c in columns) or (
            re.match("no |without ", words) and any(c.kind == "number" for c in columns)
        ):
            return False
        op = "present" if "there" in given else "missing"
        self.query.filters.append(Filter(self.pick(given["c"]), op))
        return None

    def _keep(self, given: _Given, row: _Row, words: str) -> bool | None:
        column = self.pick(given["c"])
        if column.is_date:
            return False
        if column.kind != "number":
            raise No(f"{column.name} holds no numbers to compare.")
        listed = table()["operators"].items()
        op = next((o for o, w in listed if given.get("op") in w.split("|")), "")
        op = row.get("op") or op or (">=" if "more" in given else "<=")
        values = tuple(self.marks[given[name]] for name in "ab" if name in given)
        self.query.filters.append(Filter(column, op, values))
        return None

    def _adjective(self, given: _Given, row: _Row, words: str) -> None:
        column, is_low = self.adjective(given["adjective"])
        query, number = self.query, self.marks.get(given.get("n", ""))
        if " than " in words:
            query.filters.append(Filter(column, "<" if is_low else ">", (number or 0,)))
        else:
            query.sort, query.ascending = column, is_low
            query.limit, query.superlative = number or query.limit or 1, given["adjective"]

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
            self._keep_either(Filter(column, "in", (self.marks[given["m"]],), "month"))
        part = "year" if is_number else "M" if marks and str(values[0]).count("-") == 1 else "D"
        if column.is_year:
            values, part = [int(str(v)[:4]) for v in values], ""
        if marks:
            self._keep_either(Filter(column, op, tuple(values), part))
        return "when" if "c" in given and not own else None

    def _keep_either(self, new: Filter) -> None:
        """Add a filter; what is to be two values at once is meant to be either of them."""
        for old in self.query.filters:
            if (old.column, old.part, old.op, new.op) == (new.column, new.part, "in", "in"):
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

    def _group(self, given: _Given, row: _Row, words: str) -> bool | None:
        groups = [Group(self.time(words))] if "time" in row else self._groups(given["g"])
        for group in groups:
            if group.column.is_measure and group.column.dtype.startswith("float"):
                raise No(f"{group.column.name} is a measure with many values: it makes no groups.")
            self.query.groups += [group] if group not in self.query.groups else []
        self.query.measures += [Measure("count")] * ("count" in row)
        return None

    def _at_the_end(self, given: _Given, row: _Row, words: str) -> None:
        column, last = self.pick(given["c"]), "last" in given
        if column.is_date:
            self.query.measures.append(Measure("max" if last else "min", column))
        else:
            over = Group(self.time(words))
            self.query.measures.append(Measure("last" if last else "first", column, over=over))

    # -- the whole -----------------------------------------------------------------------------

    def _complete(self) -> None:
        """Decide what the slots come to, and ask where that is open."""
        query = self.query
        slots = (query.do, query.measures, query.groups, query.filters, self.columns)
        if self.before and (self.goes_on or (query.chart and not any(slots))):
            self._go_on(self.before)
        times = {g.column for g in query.groups} | {f.column for f in query.filters}
        times |= {m.over.column for m in query.measures if m.over}
        bare = [c for c in self.columns if not (c.is_date and c in times)]
        if not query.do:
            query.filters += [Filter(c, "true") for c in bare if c.kind == "boolean"]
            bare = [c for c in bare if c.kind != "boolean"]
        numbers = [c for c in bare if c.is_measure]
        others = [Group(c) for c in bare if not c.is_measure]
        if query.do:
            query.columns = query.columns or bare
        elif query.window or query.share:
            self._with_measures(numbers, others)
        elif query.measures or query.groups or query.superlative:
            self._grouped(numbers, others)
        elif query.chart and numbers:
            self._charted(numbers, others)
        elif numbers and query.filters and query.sort is None and not others:
            self._functions(numbers, "do you mean?", "the rows themselves")
        else:
            # What the rows are named by means all of them.
            query.columns = [] if bare == [*self.table.columns[:1]] and query.filters else bare
        if self.compares and query.measures:
            for each in [f for f in query.filters if f.op == "in" and len(f.values) > 1]:
                if each.column not in [g.column for g in query.groups]:
                    part = {"month": "month_name"}.get(each.part, each.part)
                    query.groups.insert(0, Group(each.column, part))
        if query.color is not None and query.measures:
            query.groups += [Group(query.color)] if Group(query.color) not in query.groups else []
        self._ends()
        query.do = query.do or ("aggregate" if query.measures else "rows")

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
            len(query.groups) > (2 if query.chart else 4)
        ):
            raise No(_IN_PARTS)
        nothing = query.do == "rows" and not (query.columns or query.filters or query.sort)
        shows = re.match(r"(?:show|list|display|print|see|give|get|use|take)\b|T\d+$", self.text)
        if nothing and not (shows or self.publishes or text == "~"):
            raise No(f"The built-in model doesn't know what to do with {self.table.name} here.")

    def _functions(self, numbers: Sequence[Column], rest: str, *more: str) -> None:
        """The function of numbers that a request does not name."""
        names = spoken(c.name for c in numbers)
        kinds = {"mean": "mean", "total": "sum", "median": "median"}
        options = {f"{word} {names}": agg for word, agg in kinds.items()} | dict.fromkeys(more, "")
        agg = "sum" if all(map(_adds_up, numbers)) else (
            options[self.choose(f"Which {names} {rest}", list(options))]
        )  # fmt: skip
        self.query.measures = [Measure(agg, each) for each in numbers if agg]

    def _grouped(self, numbers: list[Column], others: list[Group]) -> None:
        """Numbers by groups, or of everything."""
        query = self.query
        query.groups += [each for each in others if each not in query.groups]
        if query.measures:
            if numbers:
                raise No(f'The built-in model doesn\'t know what to do with "{numbers[0].name}".')
            if query.sort in [m.column for m in query.measures]:
                query.sort = None
            is_days = [m for m in query.measures if m.agg == "nunique" and m.over]
            if is_days and query.filters:
                each = f"different {is_days[0].over.label}s" if is_days[0].over else ""
                if self.choose("Count what?", [each, "rows"]) == "rows":
                    query.measures = [Measure("count")]
        elif query.sort or (numbers and query.limit):
            if query.groups:
                self._rank_groups(query.sort or numbers[0])
        elif query.limit:
            options = {"the number of rows": Measure("count")}
            for column in self.table.measures[: MOST - 1]:
                options[f"total {column.name}"] = Measure("sum", column)
            question = f"By what should I rank {spoken(g.label for g in query.groups)}?"
            query.measures = [options[self.choose(question, list(options))]]
        elif numbers:
            self._per_group(numbers)
        else:
            query.measures = [Measure("count")]

    def _per_group(self, numbers: list[Column]) -> None:
        query = self.query
        over = [g for g in query.groups if g.is_time and g.part == ""]
        is_line = query.chart in ("line", "auto") or (over and over[0].column.is_date)
        if over and len(numbers) == 1 and is_line and query.chart != "bar":
            query.do, query.columns, query.chart = "line", numbers, "line"
            query.groups = [*over, *(g for g in query.groups if g not in over)]
            return
        self._functions(numbers, f"of each {query.groups[0].label}?")

    def _charted(self, numbers: list[Column], others: list[Group]) -> None:
        """A chart of numbers without a group: along time, or how they are spread."""
        query = self.query
        query.groups = others
        if query.chart == "line":
            query.groups = [Group(self.time("line")), *others]
        if query.groups:
            self._per_group(numbers)
        elif query.chart == "auto":
            query.do, query.columns = "histogram", numbers
        else:
            raise No("The built-in model needs a group for bars: say 'by' and a column.")

    def _with_measures(self, numbers: list[Column], others: list[Group]) -> None:
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
        if not query.measures:
            query.measures = [Measure("sum", each) for each in numbers] or [Measure("count")]
        query.groups += [each for each in others if each not in query.groups]
        if query.window == "rolling":
            self._rolls()
        elif query.window and not any(g.is_time for g in query.groups):
            query.groups.insert(0, Group(self.time(query.window)))

    def _rolls(self) -> None:
        """Over rows that follow one another in time; else a person says what a period comes to."""
        query = self.query
        key = self._part(query.unit) if query.unit else Group(self.time("rolling"))
        if not any(m.column for m in query.measures):
            raise No("The built-in model can't tell what to roll: name a column of numbers.")
        query.groups = [g for g in query.groups if not g.is_time]
        several = query.groups or self.fetch(
            f"int({part_of(key, kept(query))}.duplicated().any())",
            f"Look whether a {key.label} has several rows",
        )
        agg = query.agg
        if several:
            total, mean = f"by the total of each {key.label}", f"by the mean of each {key.label}"
            question = f"A {key.label} has several rows. Roll over {query.rows} how?"
            agg = "sum" if self.choose(question, [total, mean]) == total else "mean"
        query.groups.insert(0, key)
        query.measures = [replace(m, agg=agg) for m in query.measures]

    def _ends(self) -> None:
        """The last value, where several rows are the last."""
        query = self.query
        for m in [m for m in query.measures if m.over and m.agg in ("first", "last")]:
            assert m.over is not None
            time, source = of(kept(query), m.over.column), kept(query)
            side = "max" if m.agg == "last" else "min"
            expression = f"int(({time} == {time}.{side}()).sum())"
            if query.groups:
                keys = [g.column.name for g in query.groups] + [m.over.column.name]
                expression = f"int({source}.duplicated({literal(keys)}).any()) + 1"
            count = self.fetch(expression, f"Look how many rows are the {m.agg}")
            kinds = [c for c in self.table.columns if c.kind == "text" and not c.is_date]
            if count > 1 and (query.groups or not kinds):
                raise No(f"Several rows are the {m.agg}, so there is no {m.agg} value.")
            if count > 1:
                options = [f"that of each {c.name}" for c in kinds[: MOST - 1]]
                question = f"{count} rows are the {m.agg}. Which {m.label}?"
                chosen = self.choose(question, options if options[1:] else [*options, STOP])
                query.groups = [Group(kinds[options.index(chosen)])]
                self._ends()

    def _go_on(self, before: Query) -> None:
        """Take from the request before what this one does not say anew."""
        query = self.query
        numbers = [c for c in self.columns if c.is_measure]
        if numbers and before.measures and not query.measures:
            query.measures = [Measure(before.measures[0].agg, each) for each in numbers]
            self.columns = [c for c in self.columns if c not in numbers]
        said = {f.column.name for f in query.filters}
        query.filters += [f for f in before.filters if f.column.name not in said]
        if not query.groups and not [c for c in self.columns if not c.is_measure]:
            query.groups = list(before.groups)
        query.do = query.do or (before.do if not (query.measures or before.measures) else "")
        kept_slots = "measures columns chart window agg rows color sort share stacked limit unit"
        for name in kept_slots.split():
            setattr(query, name, getattr(query, name) or getattr(before, name))
        query.ascending = query.ascending or before.ascending


class _Found(Exception):
    """These columns and values were found in the data: read again, with them."""

    def __init__(self, pairs: list[list[str]]) -> None:
        super().__init__(*pairs)
        self.pairs = pairs


def _adds_up(column: Column) -> bool:
    """Whether a sum of the column says something, as its name tells."""
    return bool(set(fold(column.name)) & set(table()["measures"]["total"].split()))
