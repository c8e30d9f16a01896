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

from parsimony_kernel.offline.code import of, values_like
from parsimony_kernel.offline.complete import IN_PARTS, Completion, adds_up
from parsimony_kernel.offline.marks import STOP, Guess, No, aggregate, keywords, rows, table
from parsimony_kernel.offline.query import (
    CYCLES,
    Filter,
    Group,
    Measure,
    Query,
    flagged,
    is_part_of,
)
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import canonical, fold, spoken

_Given = Mapping[str, str]
_Row = Mapping[str, Any]


class Reader(Completion):
    """Reads one request about one table."""

    def read(self) -> Query:
        """The query. Raises ``Ask``, ``Look``, ``No`` and ``Stopped``."""
        try:
            return self._read()
        except _Found as found:
            owned = [(self.table.column(name), value) for name, value in found.pairs]
            self.values = [(column, value) for column, value in owned if column is not None]
            return self._read()

    def _read(self) -> Query:
        self._start()
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
                raise No(IN_PARTS)
            self.query.any_of = True

    def _bare(self, mark: str) -> None:
        match mark[0]:
            case "C":
                self.columns.append(self.pick(mark))
            case "P" if mark in self.units:
                raise No(f'The built-in model doesn\'t know what "{self.units[mark]}" is for here.')
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
            found = self.fetch(values_like(self.table, grams[:12]), why, ())
            raise _Found([[*pair] for pair in found])
        word, rest = runs[0][0], " ".join(runs[0][1:])
        query, is_noun = self.query, not rest and len(runs) == 1 and word not in keywords()
        is_superlative = is_noun and f"{query.superlative or '~'} {word}" in self.text
        said, measures = self.raw.get(word, word), [c.name for c in self.table.measures]
        if rest and aggregate(word) and measures and len(runs) == 1:
            question = f"`{self.table.name}` has no column {rest!r}. Which one do you mean?"
            column = self.table.column(self.choose(question, measures, Guess))
            query.measures.append(Measure(aggregate(word), column))
        elif is_superlative or (
            is_noun and word.endswith("s") and (query.filters or query.limit or query.measures)
        ):
            # What the rows are called: a person must say so, once, unless a superlative is of them.
            known = f"Read {word!r} as the rows of {self.table.name}"
            if known not in self.told and not is_superlative:
                self.choose(f"What are {said!r}?", [f"the rows of {self.table.name}", STOP])
            self.note(known)
        else:
            values = dict.fromkeys(v for _, v in self.values or () if v.casefold() != word)
            near = [v for v in values if fuzz.partial_ratio(word, v.casefold()) > 80]
            hint = f" Did you mean {spoken(map(repr, near), 'or')}?" if 0 < len(near) < 4 else ""
            raise No(f'The built-in model doesn\'t know "{said}".{hint}')

    # -- the acts of the rows ------------------------------------------------------------------

    def _all(self, text: str, want: str = "") -> list[Column]:
        return [self.pick(mark, want) for mark in re.findall(r"C\d+", text)]

    def _groups(self, text: str) -> list[Group]:
        return [
            Group(self.pick(mark, "group")) if mark[0] == "C" else self._part(self.marks[mark])
            for mark in re.findall(r"[CP]\d+", text)
        ]

    def _title(self, words: str) -> str:
        return " ".join(self.raw.get(each, each) for each in words.split())

    def _apply(self, given: _Given, row: _Row, words: str) -> None:
        """Set the slots that a row and its words name."""
        query = self.query
        if query.do and "do" in row:
            raise No(IN_PARTS)
        kind = given.get("kind") or query.chart or row.get("chart", "")
        query.do, query.chart = row.get("do", query.do), kind
        query.window = row.get("window", query.window)
        query.share = query.share or "share" in row
        query.stacked = query.stacked or "stacked" in row
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
        if ("agg" in given and not self.goes_on) or (before := self.before()) is None:
            return False
        self.goes_on = True
        if agg := aggregate(given.get("agg", "")):
            self.query.measures = [replace(m, agg=agg) for m in before.measures]
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
        if column.is_flag:
            self.query.filters.append(flagged(column))
            measure = Measure("count")
        elif canonical(fold(said)) != canonical(fold(column.name)):
            rows_ = f"the rows of {self.table.name}"
            options = [rows_, f"different values of {column.name}"]
            if self.choose(f"What are {said!r}?", options) == rows_:
                measure = Measure("count")
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
        total = f"the mean of the totals of each {group.label}"
        each = f"the mean of each {group.label}"
        if column is None or adds_up(column) or total == self.choose(
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
        if "v" in given:
            self._values({"v": given["v"]}, row, "")
        if "rows" in given:
            query.measures.append(Measure("count"))
        elif "c" in given:
            column = self.pick(given["c"], "measure" if query.groups else "")
            agg = aggregate(given.get("agg", ""))
            if re.search("best|worst", words):
                query.ascending ^= self.is_low_best(column)
            if query.groups:
                self._rank_groups(column, agg)
            elif column.is_measure:
                query.sort = column
            else:
                query.groups = [Group(column)]
        elif not query.groups and (found := re.search("best|worst", words)):
            query.sort, _ = self.adjective(found[0])
        return None

    def _missing(self, given: _Given, row: _Row, words: str) -> bool | None:
        columns, filters = self.marks[given["c"]], self.query.filters
        if "closed" in row and any(c.is_flag for c in columns):
            filters.append(flagged(self.pick(given["c"]), is_so=False))
            return None
        # What is "closed" is a date that is not there yet.
        if any(c.is_flag for c in columns) or (
            "closed" in row and not any(c.is_date for c in columns)
        ):
            return False
        column = self.pick(given["c"])
        if column.kind == "number" and re.match("no |without ", words):
            options = [f"{column.name} is missing", f"{column.name} is 0"]
            said = " ".join(self.raw.get(each, each) for each in words.split())
            if options[1] == self.choose(f"What does {said!r} mean?", options):
                filters.append(Filter(column, "in", (0,)))
                return None
        filters.append(Filter(column, "present" if "there" in given else "missing"))
        return None

    def _months(self, given: _Given, row: _Row, words: str) -> bool | None:
        """Keep rows from one month to another, of a year or of every year."""
        first, last = (self.marks[given[name]] for name in "ab")
        year = self.marks.get(given.get("n", ""))
        if first > last or self.time(words).is_year:
            return False
        column = self.time(words)
        if year is None:
            months = tuple(range(first, last + 1))
            self.query.filters.append(Filter(column, "in", months, "month"))
        else:
            span = tuple(f"{year}-{month:02}" for month in (first, last))
            self.query.filters.append(Filter(column, "between", span, "M"))
        return None

    def _newest(self, given: _Given, row: _Row, words: str) -> None:
        """The rows with the newest, or the oldest, date."""
        self.query.sort, self.query.ascending = self.time(words), "low" in given
        self.query.limit = self.marks[given["n"]] if "n" in given else 1

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
        said = self.raw.get(given.get("unit", ""), given.get("unit", ""))
        if said and not is_part_of([said], column):
            raise No(f"{column.name} does not say that it is in {said}.")
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


class _Found(Exception):
    """These columns and values were found in the data: read again, with them."""

    def __init__(self, pairs: list[list[str]]) -> None:
        super().__init__(*pairs)
        self.pairs = pairs
