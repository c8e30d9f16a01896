"""What the slots of a request come to: its function, its groups, its chart.

Where that is open a person is asked; where a slot is of no use to the query, the answer is no.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from parsimony_kernel.offline.code import kept, of, part_of
from parsimony_kernel.offline.marks import MOST, STOP, Marks, No, table
from parsimony_kernel.offline.query import Group, Measure, Query, flagged
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import fold, literal, spoken

IN_PARTS = "The built-in model can't bring this together: ask in parts."


class Completion(Marks):
    """The query that the slots of a request come to."""

    text = ""
    goes_on = compares = False

    def _start(self) -> None:
        self.query, self.marks = Query(self.table.name), {}
        self.columns: list[Column] = []
        self.goes_on = self.compares = False
        # What is to be published: its kind, its title or file, and whether of new data.
        self.publishes: list[tuple[str, str, bool]] = []

    def _complete(self) -> None:
        """Decide what the slots come to, and ask where that is open."""
        query = self.query
        if library := self.table.library:
            raise No(
                f"{self.table.name} is a table of {library}, and the built-in model computes with "
                "pandas: convert it in a cell first."
            )
        slots = (query.do, query.measures, query.groups, query.filters, self.columns)
        goes_on = self.goes_on or (query.chart and not any(slots))
        if goes_on and (before := self.before()) is not None:
            self._go_on(before)
        times = {g.column for g in query.groups} | {f.column for f in query.filters}
        times |= {m.over.column for m in query.measures if m.over}
        bare = [c for c in self.columns if not (c.is_date and c in times)]
        if not query.do:
            query.filters += [flagged(c) for c in bare if c.is_flag]
            bare = [c for c in bare if not c.is_flag]
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
        if query.measures and query.measures[0].agg == "min" and not query.limit:
            query.ascending = True
        if not re.search("different|distinct|unique", self.text):
            own = [Measure("nunique", g.column) for g in query.groups if not g.part]
            query.measures = [Measure("count") if m in own else m for m in query.measures]
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
            raise No(IN_PARTS)
        nothing = query.do == "rows" and not (query.columns or query.filters or query.sort)
        shows = re.match(r"(?:show|list|display|print|see|give|get|use|take)\b|T\d+$", self.text)
        if nothing and not (shows or self.publishes or text == "~"):
            raise No(f"The built-in model doesn't know what to do with {self.table.name} here.")

    def _functions(self, numbers: Sequence[Column], rest: str, *more: str) -> None:
        """The function of numbers that a request does not name."""
        names = spoken(c.name for c in numbers)
        kinds = {"mean": "mean", "total": "sum", "median": "median"}
        options = {f"{word} {names}": agg for word, agg in kinds.items()} | dict.fromkeys(more, "")
        agg = "sum" if all(map(adds_up, numbers)) else (
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

    def _part(self, part: str) -> Group:
        column = self.time(part)
        if column.is_year and part != "year":
            raise No(f"{self.table.name} has years and no dates, so there is no {part!r}.")
        return Group(column, "" if column.is_year else part)

    def _rank_groups(self, column: Column, agg: str = "") -> None:
        """Rank groups by a function of a column, or the rows by the column."""
        query = self.query
        name = column.name
        options = {f"total {name}": "sum", f"mean {name}": "mean", f"{name} of a single row": ""}
        agg = agg or ("sum" if adds_up(column) else "")
        question = f"By what should I rank {query.groups[0].label}?"
        agg = agg or options[self.choose(question, list(options))]
        query.sort = None
        if agg:
            query.measures.append(Measure(agg, column))
        else:
            query.groups, query.sort = [], column


def adds_up(column: Column) -> bool:
    """Whether a sum of the column says something, as its name tells."""
    return bool(set(fold(column.name)) & set(table()["measures"]["total"].split()))
