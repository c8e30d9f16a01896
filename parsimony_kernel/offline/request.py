"""A request becomes a query: every word of it is accounted for, or the answer is no.

What stands in the data is recognised first (columns, values, tables, numbers, parts of dates) and
set as marks; then the rows of ``patterns.toml`` take their words out, one after the other. A word
that is left over is looked for in the data; if it is not there, the request is not understood.
"""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rapidfuzz import fuzz

from parsimony_kernel.offline.marks import (
    MOST,
    STOP,
    TOGETHER,
    Ask,
    Guess,
    Look,
    No,
    aggregate,
    fillers,
    rows,
    table,
)
from parsimony_kernel.offline.query import Filter, Group, Measure, Query
from parsimony_kernel.offline.rows import Rows
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import spoken


class Reader(Rows):
    """Reads one request about one table."""

    def read(self) -> Query:
        """The query. Raises ``Ask``, ``Look`` and ``No``."""
        text = self._marked()
        for pattern, do, row in rows():
            text = self._taken(pattern, do, row, text)
        self._left(text)
        return self._whole()

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
            elif word not in fillers() and word not in ("and", "or", "then"):
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
            self.query.measures.append(Measure(aggregate(word), self.table.column(name)))
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
            raise No(TOGETHER)
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

    # -- the whole -----------------------------------------------------------------------------

    def _whole(self) -> Query:
        """The query, once everything has been read."""
        query = self.query
        if self._goes_on and self.before is not None:
            self._go_on(self.before)
        self._either_value()
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
                if each.column not in [g.column for g in query.groups]:
                    query.groups.insert(0, Group(each.column))
        if query.color is not None and query.do not in ("scatter", "line"):
            query.groups += [Group(query.color)] if Group(query.color) not in query.groups else []
        if not query.do:
            query.do = "aggregate" if query.measures else "rows"
        if query.do == "rows" and query.limit and query.sort is None:
            raise No("The built-in model doesn't know by what to rank: say 'by' and a column.")
        return query

    def _either_value(self) -> None:
        """What is to be two values at once is meant to be either of them."""
        query = self.query
        pairs = [
            (a, b)
            for a, b in itertools.combinations(query.filters, 2)
            if (a.column, a.part, a.op, b.op) == (b.column, b.part, "in", "in")
            and not query.any_of
            and a.values != b.values
        ]
        if not pairs:
            return
        (a, b), *more = pairs
        if more or (a.column.is_date and not a.part):
            raise No(TOGETHER)
        either = replace(a, values=(*a.values, *b.values))
        query.filters = [either, *(f for f in query.filters if f not in (a, b))]
        each = "each by itself"
        if self._compares or self.choose(f"{either}: how?", ["all together", each]) == each:
            query.groups.append(Group(a.column, "month_name" if a.part == "month" else a.part))

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
        if query.share and len(query.filters) > 1 and not query.any_of and not query.base:
            self._share_of()
        if query.share and numbers:
            raise No(f"The built-in model doesn't know what to do with {numbers[0].name!r} here.")
        if query.window == "rolling":
            self._rolls()
        by_total = query.window == "cumulative" or any(g.part for g in query.groups)
        agg = "sum" if by_total else query.text or "sum"
        if not query.measures:
            query.measures = [Measure(agg, each) for each in numbers] or [Measure("count")]
        query.groups += [Group(c) for c in self.columns if not c.is_measure]
        query.groups = list(dict.fromkeys(query.groups))
        if query.window and not any(g.is_time for g in query.groups):
            query.groups.insert(0, Group(self._time(query.window)))

    def _share_of(self) -> None:
        """Of which rows the share of those with two conditions is."""
        query = self.query
        if len(query.filters) > 2:
            raise No(TOGETHER)
        whole = f"of all rows of {self.table.name}"
        options = {f"of the rows where {each}": [each] for each in query.filters}
        query.base = {**options, whole: []}[self.choose("The share of what?", [*options, whole])]

    def _rank_groups(self) -> None:
        group = spoken(g.label for g in self.query.groups)
        options = {"the number of rows": Measure("count")}
        for column in self.table.measures[: MOST - 1]:
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
