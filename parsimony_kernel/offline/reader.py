"""A request becomes a query: every word of it is accounted for, or the answer is no.

The rows of ``patterns.toml`` take their words out of the marked request, one after the other, and
set slots. What is left over is looked for in the data; if it is not there, the request is not
understood. Where the slots leave something open a person is asked, and a slot that the query has
no use for is a no as well.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

from rapidfuzz import fuzz

from parsimony_kernel.offline.code import masked
from parsimony_kernel.offline.marks import Marks, No
from parsimony_kernel.offline.patterns import (
    Row,
    aggregate,
    filler,
    keywords,
    operators,
    rows,
    table,
)
from parsimony_kernel.offline.query import Filter, Query, flagged
from parsimony_kernel.offline.schema import Column, part_of
from parsimony_kernel.offline.words import canonical, fold, spoken

IN_PARTS = "The built-in model can't bring this together: ask in parts."
NO_RANK = "The built-in model doesn't know by what to rank: say 'by' and a column."
_DATED = {"after": ">", "since": ">=", "from": ">=", "before": "<", "until": "<=", "by": "<="}
_YEARS = frozenset(map(str, range(1500, 2101)))
_Given = Mapping[str, str]


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
        self.compares = False
        self.text = text = self.marked()
        for pattern, row in rows():
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

    def _taken(self, pattern: re.Pattern[str], row: Row, text: str) -> str:
        at = 0
        while at <= len(text) and (found := pattern.search(text, at)) is not None:
            # A name that stands for one slot in several branches is numbered.
            given = {re.sub(r"\d$", "", k): v for k, v in found.groupdict().items() if v}
            took = self._take(given, row) if found[0].strip() else False
            if took is False:
                at = found.end() + 1
                continue
            # An act may name the part of what was found that it has taken.
            begin, end = found.span(took or 0)
            text = f"{text[:begin].rstrip()} ~ {text[end:].lstrip()}".strip()
            at = 0
        return text

    def _take(self, given: _Given, row: Row) -> bool | str | None:
        """Set the slots that a row and its words name; ``False`` where they are not meant."""
        if "no" in row:
            raise No(row["no"])
        took: bool | str | None = None
        if "act" in row and (took := getattr(self, f"_{row['act']}")(given)) is False:
            return False
        said = {"chart": given["chart"]} if "chart" in given else {}
        said |= {"agg": aggregate(given["agg"])} if "agg" in given else {}
        said |= {row.get("number", "limit"): self.marks[given["n"]]} if "n" in given else {}
        slots = row.get("set", {})
        if any(getattr(self.query, slot) for slot in {"do", "agg"} & {*slots, *said}):
            raise No(IN_PARTS)
        for slot, value in said.items():
            setattr(self.query, slot, value)
        for slot, value in slots.items():
            setattr(self.query, slot, getattr(self.query, slot) or value)
        self.query.ascending = self.query.ascending or "low" in given
        if "act" not in row:
            self._set(given)
        return took

    def _set(self, given: _Given) -> None:
        query = self.query
        marks = re.findall(r"C\w\d+", given.get("cs", ""))
        is_drawn = query.agg or query.do in ("histogram", "box", "scatter", "correlation")
        query.columns += [self.pick(mark, "measure" if is_drawn else "") for mark in marks]
        # What is plotted against what: the first goes up.
        query.columns = query.columns[:: -1 if query.do == "scatter" and marks else 1]
        query.groups += [self._part(given["unit"])] if "unit" in given else []
        query.groups += [self.time("over time")] if "time" in given else []
        if "text" in given:
            query.text = " ".join(self.raw.get(each, each) for each in given["text"].split())
        if "color" in given:
            query.color = self.pick(given["color"], "group")
        if "sort" in given:
            query.sort, query.ascending = self.pick(given["sort"]), "down" not in given
        for group in self._groups(given.get("g", "")):
            if group.is_measure and group.dtype.startswith("float"):
                raise No(f"{group.name} is a measure with many values: it makes no groups.")
            query.groups += [group] if group not in query.groups else []

    def _left(self, text: str) -> None:
        """Account for what no pattern took."""
        runs: list[list[str]] = [[]]
        for word in text.split():
            if word in self.marks:
                self._bare(word)
            elif word in filler("words"):
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
        """Look for words in the data, else name one that is not there."""
        if self.values is None and self.table.texts:
            grams = [
                re.sub(r"[^\w ]", "", " ".join(run[i : i + n]))
                for run in runs
                for n in range(min(4, len(run)), 0, -1)
                for i in range(len(run) - n + 1)
            ]
            self.values = self._found(grams[:12], f"Look for {spoken(map(repr, grams[:3]), 'or')}")
            raise _Again
        words = [word for run in runs for word in run]
        word = next((each for each in words if each not in keywords()), words[0])
        said = self.raw.get(word, word)
        numbers, taken = [c.name for c in self.table.measures], self.query.agg or self.query.columns
        if aggregate(words[0]) and words[-1] == word and numbers and not taken:
            question = f"`{self.table.name}` has no column {word!r}. Which one do you mean?"
            self.query.columns = [self.table.column(self.choose(question, numbers))]
            self.query.agg = aggregate(words[0])
            return
        what = f'what "{said}" is for here' if word in keywords() else f'"{said}"'
        values = dict.fromkeys(value for _, value in self.values or ())
        near = [v for v in values if fuzz.partial_ratio(word, v.casefold()) > 80]
        hint = f" Did you mean {spoken(map(repr, near), 'or')}?" if 0 < len(near) < 4 else ""
        raise No(f"The built-in model doesn't know {what}.{hint}")

    # -- the acts of the rows ------------------------------------------------------------------

    def _groups(self, text: str) -> list[Column]:
        marks = re.findall(r"C\w\d+|P\d+", text)
        return [self.pick(m, "group") if m[0] == "C" else self._part(m) for m in marks]

    def _part(self, mark: str) -> Column:
        """The part of a date that a mark stands for, as a column."""
        return self._part_of(self.time(self.raw[mark]), self.marks[mark])

    def _part_of(self, column: Column, part: str) -> Column:
        if column.is_year and part != "year":
            raise No(f"{self.table.name} has years and no dates, so there is no {part!r}.")
        return column if column.is_year else part_of(column, part)

    def _difference(self, given: _Given) -> None:
        pair = (self.pick(given["a"]), self.pick(given["b"]))
        name = f"{pair[0].name} - {pair[1].name}"
        self.query.columns.append(Column(name, "number", made_of=pair, how="({0} - {1})"))
        if "agg" not in given:
            self.query.agg = self._function("do you mean?")

    def _number(self, given: _Given) -> bool | None:
        """How many of a column: those that are so, or how many different ones."""
        mark = given["c"]
        column = self._part(mark) if mark[0] == "P" else self.pick(mark, "group")
        if column.is_cycle:
            return False
        is_named = mark[0] == "P" or canonical(fold(self.raw[mark])) == canonical(fold(column.name))
        if column.is_flag:
            self.query.filters.append(flagged(column))
        elif not is_named and "different" not in given:
            raise No(f"Say 'different' before {column.name} to count its values, or count rows.")
        else:
            self.query.columns.append(column)
        self._aggregate("count" if column.is_flag else "nunique")
        return None

    def _aggregate(self, agg: str) -> None:
        if self.query.agg:
            raise No(IN_PARTS)
        self.query.agg = agg

    def _rank(self, given: _Given) -> None:
        """The first rows or groups by a column."""
        query = self.query
        query.limit = 1
        query.groups = self._groups(given.get("g", "")) or query.groups
        if "v" in given:
            self._values({"v": given["v"]})
        if "rows" in given:
            self._aggregate("count")
        elif "c" in given:
            column = self.pick(given["c"], "measure" if query.groups else "")
            if query.groups:
                query.columns.append(column)
            elif column.is_measure:
                query.sort = column
            else:
                query.groups = [column]

    def _latest(self, given: _Given) -> None:
        """The rows with the newest, or the oldest, date; or what a column is there."""
        query = self.query
        column = self.pick(given["c"]) if "c" in given else None
        if column is not None and column.is_date:
            query.columns.append(column)
            self._aggregate("min" if "low" in given else "max")
            return
        query.sort, query.limit = self.time("the latest"), 1
        if column is not None:
            query.columns = [column]
            query.superlative = f"{'earliest' if 'low' in given else 'latest'} {column.label}"

    def _adjective(self, given: _Given) -> None:
        query = self.query
        query.sort, query.ascending = self.adjective(given["adjective"])
        query.limit, query.superlative = query.limit or 1, given["adjective"]

    def _missing(self, given: _Given) -> None:
        op = "present" if "there" in given else "missing"
        self.query.filters.append(Filter(self.pick(given["c"]), op))

    def _keep(self, given: _Given) -> bool | None:
        column = self.pick(given["c"])
        if column.is_date:
            return False
        if column.kind != "number":
            raise No(f"{column.name} holds no numbers to compare.")
        unit = self.raw.get(given.get("unit", ""), given.get("unit", ""))
        if unit and not column.has_word([unit]):
            number = f"{self.marks[given['a']]:g} {unit}"
            raise No(f'{column.name} does not say that it is in {unit}, as "{number}" is.')
        values = tuple(self.marks[given[name]] for name in "ab" if name in given)
        op = operators()[given["op"]] if "op" in given else "between"
        self.query.filters.append(Filter(column, op, values))
        return None

    def _dated(self, given: _Given) -> bool | str | None:
        """Keep rows by a year, a month, a day, or a span of them."""
        own = [c for c in self.marks[given["c"]] if c.is_time] if "c" in given else []
        op = "between" if "b" in given else _DATED.get(given.get("op", ""), "in")
        marks = [given[name] for name in "ab" if name in given]
        values = tuple(self.marks[mark] for mark in marks)
        parts = {"year" if m[0] == "N" else "MD"[str(self.marks[m]).count("-") - 1] for m in marks}
        is_no_year = "year" in parts and not _YEARS.issuperset(map(str, values))
        if is_no_year or len(parts) > 1 or ("m" in given and op != "in"):
            return False
        column = own[0] if own else self.time(self.raw[[*marks, given.get("m", "")][0]])
        if "m" in given:
            month = Filter(self._part_of(column, "month_name"), "in", (self.marks[given["m"]],))
            self._keep_either(month)
        for part in parts:
            self._keep_either(Filter(self._part_of(column, part), op, values))
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

    def _values(self, given: _Given) -> bool | str | None:
        marks = re.findall(r"[VQN]\d+|C\w\d+", given["v"])
        op, owners = "not in" if "not" in given else "in", self.marks.get(given.get("c", ""), [])
        if marks[0][0] == "C":
            self.query.filters.append(flagged(self.pick(marks[0]), is_so=False))
            return None
        if marks[0][0] != "V":
            column = self.pick(given["c"])
            if marks[0][0] == "N" and column.kind != "number":
                return False
            self._keep_either(Filter(column, op, tuple(self.marks[m] for m in marks)))
            return None
        meant: dict[Column, list[str]] = {}
        for mark in marks:
            pairs = [p for p in self.marks[mark] if p[0] in owners] or self.marks[mark]
            question = f"{pairs[0][1]!r} stands in several columns. Which one?"
            column = self.one_of(question, [column for column, _ in pairs])
            meant.setdefault(column, []).append(dict(pairs)[column])
        either = bool(re.search(r"V\d+ (?:, )?or ", given["v"]))
        self.query.any_of = self.query.any_of or (len(meant) > 1 and either)
        for column, values in meant.items():
            self._keep_either(Filter(column, op, tuple(values)))
            self.compares = self.compares or (len(values) > 1 and not either)
        return "v" if owners and not any(column in owners for column in meant) else None

    # -- what the slots come to ----------------------------------------------------------------

    def _go_on(self) -> None:
        """Take from the request before what this one does not say anew."""
        query, before = self.query, self.before()
        if before is None and not query.goes_on:
            return
        if before is None:
            raise No("There is no request before this one to go on from.")
        if before.any_of and query.filters:
            raise No(IN_PARTS)
        query.columns = query.columns or [c for c in self.columns if c.is_measure]
        query.groups = query.groups or [c for c in self.columns if not c.is_measure]
        self.columns = []
        said = {f.column.base for f in query.filters}
        query.filters += [f for f in before.filters if f.column.base not in said]
        for slot in {each.name for each in fields(Query)} - {"notes", "filters"}:
            setattr(query, slot, getattr(query, slot) or getattr(before, slot))
        # What groups come to is decided anew.
        query.do = "" if query.do == "aggregate" else query.do

    def _complete(self) -> None:
        """Decide what the slots come to, and ask where that is open."""
        query = self.query
        used = {c.base for c in (*query.groups, *(f.column for f in query.filters))}
        bare = [c for c in self.columns if not (c.is_date and c in used) and c != query.sort]
        if not query.do:
            query.filters += [flagged(c) for c in bare if c.is_flag]
            bare = [c for c in bare if not c.is_flag]
        numbers = [c for c in bare if c.is_measure]
        others = [c for c in bare if not c.is_measure]
        is_ranked = others and query.superlative and not query.columns
        if query.do:
            query.columns = query.columns or bare
        elif query.agg or query.groups or query.window or query.share or is_ranked or (
            query.chart and (others or query.chart == "line")
        ):  # fmt: skip
            self._aggregated(numbers, others)
        elif query.chart:
            if query.chart != "auto":
                raise No("The built-in model needs a group for that chart: say 'by' and a column.")
            query.do, query.columns = "histogram", numbers
        elif numbers and query.filters and query.sort is None and not others:
            query.columns = numbers
            query.agg = self._function("do you mean?", "the rows themselves")
            query.columns = numbers if query.agg else []
        else:
            # What the rows are named by means all of them.
            bare = [] if bare == [*self.table.columns[:1]] and query.filters else bare
            query.columns = query.columns or bare
        query.do = query.do or ("aggregate" if query.agg else "rows")
        if query.do == "aggregate":
            compared = [f.column for f in query.filters if f.op == "in" and len(f.values) > 1]
            own = {group.base for group in query.groups}
            more = [c for c in compared if self.compares and c.base not in own]
            colors = [query.color] if query.color and query.color not in query.groups else []
            query.groups = [*more, *query.groups, *colors]
            query.ascending = query.ascending or (query.agg == "min" and not query.limit)
        if query.superlative.startswith(("latest", "earliest")) and query.sort is not None:
            dates = query.sort.of(masked(query))
            end = f"{dates}.{'min' if query.ascending else 'max'}()"
            if self.fetch(f"int(({dates} == {end}).sum())", f"Count the rows of {end}") > 1:
                raise No("Several rows have that date: say which is meant, or ask for 'rows'.")

    def _function(self, rest: str, *more: str) -> str:
        """The function that a request does not name; empty for what is none."""
        columns = self.query.columns
        if all(column.has_word([*filler("totals")]) for column in columns):
            return "sum"
        names = spoken(c.name for c in columns)
        kinds = {"mean": "mean", "total": "sum", "median": "median"}
        options = {f"{word} {names}": agg for word, agg in kinds.items()} | dict.fromkeys(more, "")
        return options[self.choose(f"Which {names} {rest}", list(options))]

    def _aggregated(self, numbers: list[Column], others: list[Column]) -> None:
        """Numbers by groups, or of everything; their shares, and what they come to over time."""
        query = self.query
        if query.share:
            self._check_share(numbers, others)
        if query.window or (query.chart == "line" and not (query.groups or others)):
            # It runs along the time, for each of the other groups.
            query.groups += [] if any(g.is_time for g in query.groups) else [self.time("time")]
            query.groups.sort(key=lambda group: not group.is_time)
        query.groups += [each for each in others if each not in query.groups]
        if query.groups and query.sort is not None:
            if not query.sort.is_measure:
                label = query.groups[0].label
                raise No(f"The built-in model can't rank {label} by {query.sort.name}.")
            numbers = [*numbers, *({query.sort} - {*query.columns})]
            query.sort = None
        if numbers and (query.columns or query.agg == "count"):
            raise No(f'The built-in model doesn\'t know what to do with "{numbers[0].name}".')
        query.columns = query.columns or numbers
        if len(query.columns) > 1:
            raise No(IN_PARTS)
        if query.filters and any(c.part for c in query.columns):
            raise No("The built-in model can't tell what to count here: rows, or times?")
        if query.limit and not (query.agg or query.columns):
            raise No(NO_RANK)
        if query.window == "rolling":
            self._check_rolling()
        elif not query.columns:
            query.agg = query.agg or "count"
        elif not query.agg and (query.share or query.window == "cumulative"):
            query.agg = "sum"
        elif not query.agg and self._is_line():
            query.do, query.chart = "line", "line"
            query.groups.sort(key=lambda group: not group.is_time)
        elif not query.agg:
            if not query.columns[0].is_measure:
                raise No(f"The built-in model can't compute with {query.columns[0].name}.")
            query.agg = self._function(f"of each {query.groups[0].label}?")
        if query.columns == query.groups and not re.search("different|distinct|unique", self.text):
            query.agg, query.columns = "count", []

    def _is_line(self) -> bool:
        """Whether numbers are drawn as they are, along dates of which each is a group."""
        query = self.query
        over = [g for g in query.groups if g.is_time and not g.part]
        is_line = query.chart in ("line", "auto") or (over and over[0].is_date and not query.chart)
        return bool(over and is_line and not (query.window or query.limit))

    def _check_share(self, numbers: list[Column], others: list[Column]) -> None:
        """Of what it is the share must be clear."""
        query = self.query
        kept, of = len(query.filters), bool(numbers or query.columns or query.agg)
        if (
            query.window
            or len(others) > 1
            or (others and (query.groups or kept or " T" in f" {self.text}"))
            or (kept > 1 and not query.any_of)
            or (kept and query.agg not in ("", "count", "sum"))
            or (kept and query.groups and of)
            or not (others or query.groups or kept)
        ):
            raise No("The built-in model can't tell the share of what: name one column, and 'by'.")

    def _check_rolling(self) -> None:
        """A rolling value needs one row for each time, and none missing between."""
        query = self.query
        if not query.columns or query.groups[1:]:
            raise No("The built-in model rolls a column of numbers over all rows, by date.")
        time = query.groups[0]
        values = time.of(masked(query))
        periods = values.removesuffix(".dt.start_time")
        ends = [f"p.{end}(){'.ordinal' * (periods != values)}" for end in ("max", "min")]
        rows = f" or {' - '.join(ends)} + 1 > len(p)" if time.part else ""
        look = f"int((lambda p: not p.is_unique{rows})({periods}))"
        if self.fetch(look, f"Look whether each {time.label} has one row"):
            raise No(f"Not each {time.label} has one row, so there is nothing to roll over.")

    def _check(self, text: str) -> None:
        """Every slot is of use, and something was asked."""
        query, kinds = self.query, table()["kinds"]
        most = kinds[query.do].get("columns", len(query.columns))
        if len(query.columns) != most:
            raise No(f"The built-in model can't tell what to draw: name {most} column of numbers.")
        if query.do == "rows" and query.limit and query.sort is None:
            raise No(NO_RANK)
        slots = {slot for kind in kinds.values() for slot in kind["uses"].split()}
        unused = slots.difference(kinds[query.do]["uses"].split())
        if any(getattr(query, slot) for slot in unused) or (
            len(query.groups) > (2 if query.chart else 4)
        ):
            raise No(IN_PARTS)
        nothing = query.do == "rows" and not (query.columns or query.filters or query.sort)
        shows = re.match(r"(?:show|list|display|print|see|give|get|use|take)\b|T\d+$", self.text)
        if nothing and not (shows or text == "~"):
            raise No(f"The built-in model doesn't know what to do with {self.table.name} here.")
