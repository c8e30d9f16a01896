"""A request becomes a query: every word of it is accounted for, or the answer is no.

The rows of ``patterns.toml`` take their words out of the marked request, one after the other, and
set slots. A word that nothing takes is not understood. Where the slots leave something open a
person is asked, and a slot that the query has no use for is a no as well.
"""

import re
from collections.abc import Mapping
from dataclasses import fields

from parsimony_kernel.offline import patterns
from parsimony_kernel.offline.code import masked
from parsimony_kernel.offline.marks import Marks, No, no_if
from parsimony_kernel.offline.schema import Column, Filter, Query, part_of
from parsimony_kernel.offline.words import fold, spoken

_DATED = {"after": ">", "since": ">=", "from": ">=", "before": "<", "until": "<="}
_DATED |= dict.fromkeys(("in", "for", "of", "during", "on"), "==")
_Given = Mapping[str, str]


class Reader(Marks):
    """Reads one request about one table."""

    def read(self) -> Query:
        """Read the query. Raises ``Ask`` and ``No``."""
        no_if(self.table.library, "library", self.table.name, self.table.library)
        self.query = Query(self.table.name)
        self.columns: list[Column] = []
        self.compared: list[Column] = []
        self.text = text = self.marked()
        for pattern, row in patterns.rows():
            text = self._taken(pattern, row, text)
        self._left(text)
        query = self.query
        says = query.do or query.agg or query.groups or query.filters or self.columns
        if query.goes_on or (query.chart and not says):
            self._go_on()
        self._complete()
        self._check(text)
        return query

    # -- patterns ----------------------------------------------------------------------------

    def _taken(self, pattern: re.Pattern[str], row: patterns.Row, text: str) -> str:
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

    def _take(self, given: _Given, row: patterns.Row) -> bool | None:
        """Set the slots that a row and its words name; ``False`` where they are not meant."""
        query = self.query
        if "no" in row:
            raise No(row["no"])
        if "act" in row and getattr(self, f"_{row['act']}")(given) is False:
            return False
        slots = dict(row.get("set", {}))
        slots |= {"agg": "count"} if "rows" in given else {}
        slots |= {"chart": given["chart"]} if "chart" in given else {}
        slots |= {"agg": patterns.aggregate(given["agg"])} if "agg" in given else {}
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
        left = [word for word in text.split() if word not in patterns.filler("words")]
        if unknown := [w for w in left if w not in (*self.marks, "and", "or", *"~,&()/+*-")]:
            self._unknown(unknown)
        for mark in (word for word in left if word in self.marks and word[0] != "T"):
            no_if(mark[0] not in "CP", "unused", self.raw[mark])
            if mark[0] == "P":
                self.query.groups.append(self._part(mark))
            else:
                self.columns.append(self.pick(mark))
        self.query.any_of = self.query.any_of or ("or" in left and len(self.query.filters) > 1)
        no_if("or" in left and (len(self.query.filters) > 2 or "~ and ~" in text), "parts")

    def _unknown(self, words: list[str]) -> None:
        """Ask which column is meant by the one unknown word, else name a word and give up."""
        word = next((each for each in words if each not in patterns.keywords()), words[0])
        numbers, agg = [c.name for c in self.table.measures], patterns.aggregate(words[0])
        is_column = words[1:] == [word] and not (self.query.agg or self.query.columns)
        if agg and is_column and numbers:
            question = f"`{self.table.name}` has no column {word!r}. Which one do you mean?"
            self.query.agg = agg
            self.query.columns = [self.table.column(self.choose(question, numbers))]
        else:
            why = "unused" if word in patterns.keywords() else "unknown"
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
        if column.kind == "date":
            column = part_of(column, *parts) if parts else column
        elif marks:
            what = "numbers" if parts == {"year"} else "dates"
            no_if(column.kind != "number" or what == "dates", "kind", column.name, what)
        op = patterns.operators().get(word) or _DATED.get(word, word)
        self._filter(Filter(column, op, values))
        return None

    def _filter(self, new: Filter) -> None:
        """Add a filter; a column is not to be two values at once."""
        ops = [f.op for f in (*self.query.filters, new) if f.column == new.column]
        no_if(len([op for op in ops if op in ("==", "in")]) > 1, "parts")
        self.query.filters.append(new)

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
        if not query.do:
            query.filters += [Filter(c, "true") for c in bare if c.kind == "boolean"]
            bare = [c for c in bare if c.kind != "boolean"]
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
            query.agg = self._function("do you mean?", "the rows themselves")
            query.columns = numbers if query.agg else []
        else:
            query.columns = query.columns or bare
        query.do = query.do or ("aggregate" if query.agg else "rows")
        if query.do == "aggregate":
            own = {group.base for group in query.groups}
            query.groups = [*(c for c in self.compared if c.base not in own), *query.groups]
            query.ascending = query.ascending or (query.agg == "min" and not query.limit)

    def _function(self, rest: str, *more: str) -> str:
        """The function that a request does not name; empty for what is none."""
        columns = self.query.columns
        if all({*fold(column.name)} & patterns.filler("totals") for column in columns):
            return "sum"
        names = spoken(c.name for c in columns)
        kinds = {"mean": "mean", "total": "sum", "median": "median"}
        options = {f"{word} {names}": agg for word, agg in kinds.items()} | dict.fromkeys(more, "")
        return options[self.choose(f"Which {names} {rest}", list(options))]

    def _aggregated(self, numbers: list[Column], others: list[Column]) -> None:
        """Numbers by groups, or of everything; their shares, and what they come to over time."""
        query = self.query
        if query.window or (query.chart == "line" and not (query.groups or others)):
            # It runs along the time, for each of the other groups.
            query.groups += [] if any(g.is_time for g in query.groups) else [self.time("time")]
            query.groups.sort(key=lambda group: not group.is_time)
        query.groups += [each for each in others if each not in query.groups]
        if query.sort is not None:
            no_if(True, "rank_by", query.groups[0].label, query.sort.name)
        for number in numbers:
            no_if(query.columns or query.agg == "count", "unused", number.name)
        query.columns = query.columns or numbers
        no_if(len(query.columns) > 1, "parts")
        no_if(query.limit and not (query.agg or query.columns), "rank")
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
        is_line = query.chart in ("line", "auto") or [g.kind for g in over if not query.chart] == [
            "date"
        ]
        return bool(over and is_plain and is_line)

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
        query, kinds = self.query, patterns.table()["kinds"]
        most = kinds[query.do].get("columns", len(query.columns))
        no_if(len(query.columns) != most, "draw", most)
        no_if(query.do == "rows" and query.limit and query.sort is None, "rank")
        slots = {slot for kind in kinds.values() for slot in kind["uses"].split()}
        unused = slots.difference(kinds[query.do]["uses"].split())
        no_if(any(getattr(query, slot) for slot in unused), "parts")
        no_if(len(query.groups) > (2 if query.chart else 4), "parts")
        nothing = query.do == "rows" and not (query.columns or query.filters or query.sort)
        shows = re.match(r"(?:show|list|display|print|see|give|get|use|take)\b|T\d+$", self.text)
        no_if(nothing and not (shows or text == "~"), "nothing", self.table.name)
