"""What the rows of ``patterns.toml`` do: each takes its words and sets slots of the query."""

import itertools
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any

from parsimony_kernel.offline.marks import (
    Look,
    Marks,
    No,
    aggregate,
    table,
)
from parsimony_kernel.offline.query import CYCLES, Group, Measure
from parsimony_kernel.offline.schema import Column
from parsimony_kernel.offline.words import fold, literal, spoken


class Rows(Marks):
    """The methods that the table names by ``do``. One that gives ``False`` takes no words."""

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
        agg = aggregate(found["agg"])
        self.query.measures = [replace(m, agg=agg) for m in self.before.measures]
        return None

    def _window(self, kind: str, rows: int = 0) -> None:
        self.query.window, self.query.rows = kind, rows

    def _rolling(self, found: re.Match[str], row: Mapping[str, Any]) -> None:
        query = self.query
        self._window("rolling", int(self._number(found["n"])))
        query.text = aggregate(found["agg"])
        query.unit = str(self.marks[found["unit"]]) if found["unit"] else "row"

    def _rolls(self) -> None:
        """Over rows, where each is a day if days were said; else over days, if that is meant."""
        query, unit = self.query, self.query.unit
        time = self._time(unit)
        if unit == "row" or _spacing(time) == unit:
            return
        rows, periods = f"{query.rows} rows", f"{query.rows} {unit}s, by the total of each {unit}"
        question = f"{time.name} is not one {unit} after another. Over what?"
        if self.choose(question, [rows, periods]) == periods:
            query.groups.append(self._part(unit))
        else:
            query.unit = "row"

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

    def _per_period(self, found: re.Match[str], row: Mapping[str, Any]) -> bool | None:
        said = found["part"]
        part = str(self.marks.get(said) or {"daily": "day", "annual": "year"}.get(said, said[:-2]))
        if part in CYCLES:
            return False
        column = self._pick(found["c"], "measure")
        total = f"the mean of the totals of each {part}"
        each = f"the mean of {column.name} for each {part}"
        chosen = self.choose(
            f"What is the {found[0].split()[0]} {column.name} of a {part}?", [total, each]
        )
        if chosen == total:
            self._time(part)
            self.query.measures.append(Measure("mean", column, over=part))
        else:
            self.query.groups.append(self._part(part))
            self.query.measures.append(Measure("mean", column))
        return None

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
            self.query.measures.append(Measure(aggregate(found["agg"]), column))
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
            self.query.measures.append(Measure(aggregate(found["agg"]), column))
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
                self.query.measures.append(Measure(aggregate(word), column))
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

    def _by_which(self, column: Column) -> Measure:
        group = spoken(g.label for g in self.query.groups)
        options = {f"total {column.name}": "sum", f"mean {column.name}": "mean"}
        chosen = self.choose(f"By what should I rank {group}?", list(options))
        return Measure(options[chosen], column)


def _spacing(column: Column) -> str:
    """The part of a date by which the first values follow one another, if it is always the same."""
    if not all(re.fullmatch(r"\d{4}[-/]\d\d[-/]\d\d", each) for each in column.samples):
        return ""
    days = [date.fromisoformat(each.replace("/", "-")) for each in column.samples]
    gaps = {(b - a).days for a, b in itertools.pairwise(days)}
    sizes = {"day": {1}, "week": {7}, "month": {28, 29, 30, 31}, "year": {365, 366}}
    return next((part for part, size in sizes.items() if gaps and gaps <= size), "")
