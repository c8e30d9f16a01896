"""From a query to the short pandas and altair that a person would write.

Owns the expressions; the cells that they stand in are the templates of ``code.j2``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from textwrap import shorten
from typing import Any

from parsimony_kernel.offline.query import CYCLES, Filter, Group, Measure, Query, in_words, unit_of
from parsimony_kernel.offline.schema import Column, Table
from parsimony_kernel.offline.words import fold, identifier, literal, unique

_PERIODS = {"quarter": "Q", "month": "M", "week": "W", "day": "D", "hour": "h"}
_DAYS = '["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]'


@dataclass(frozen=True)
class Cell:
    """Code, its heading, and the names that it binds: a table and a chart, where there are any.

    Args:
        units: the unit of the value on each line that it prints.
    """

    code: str
    purpose: str
    table: str = ""
    chart: str = ""
    units: tuple[str, ...] = ()


# -- files and looks -----------------------------------------------------------------------------


def load(path: str, name: str, options: dict[str, Any], signed: Sequence[str] = ()) -> Cell:
    """Read a file; ``options`` are more arguments of the reader, ``signed`` its columns of numbers
    with a sign."""
    suffix = path.casefold().rpartition(".")[2]
    first: dict[str, dict[str, Any]]
    first = {"tsv": {"sep": "\t"}, "jsonl": {"lines": True}, "ndjson": {"lines": True}}
    given = {**first.get(suffix, {}), **options}
    readers = {"parquet": "parquet", "pq": "parquet", "xlsx": "excel", "xls": "excel"}
    reader = readers.get(suffix, "json" if "json" in suffix else "csv")
    lines = [f"{name} = pd.read_{reader}({', '.join([literal(path), *arguments(given)])})"]
    for each in signed:
        number = '.str.replace(r"[^\\d.-]", "", regex=True).astype(float)'
        lines.append(f"{name}[{literal(each)}] = {name}[{literal(each)}]{number}")
    code = "\n".join(["import pandas as pd", "", *lines, f"{name}.head()"])
    return Cell(code, f"Load {path} as {name}", name)


def arguments(options: dict[str, Any]) -> list[str]:
    """Options as the arguments of a call."""
    return [f"{name}={literal(value)}" for name, value in options.items()]


def sniffed(path: str) -> Cell:
    """Look how a text file is written."""
    code = f"from parsimony_kernel.execution.reading import sniff\n\nprint(sniff({literal(path)}))"
    return Cell(code, f"Look how {path} is written")


def looked(expression: str, why: str) -> Cell:
    """Print what an expression gives."""
    return Cell("import pandas as pd\n\n" * ("pd." in expression) + f"print({expression})", why)


def values_like(table: Table, words: Sequence[str]) -> str:
    """The expression that finds where the texts of a table have words: pairs as JSON."""
    names = [c.name for c in table.columns if c.kind == "text" and not c.is_date]
    pattern = "|".join(re.escape(each[:-1] if len(each) > 4 else each) for each in words)
    found = f'd["value"].astype(str).str.contains(r{literal(pattern)}, case=False)'
    return (
        f"{table.name}[{literal(names)}].melt().drop_duplicates()\n"
        f'    .loc[lambda d: {found}].head(200).to_json(orient="values", force_ascii=False)'
    )


def export(name: str, path: str) -> Cell:
    """Write a table to a file."""
    calls = {"xlsx": "to_excel({}, index=False)", "parquet": "to_parquet({})"}
    calls["json"] = 'to_json({}, orient="records")'
    call = calls.get(path.casefold().rpartition(".")[2], "to_csv({}, index=False)")
    return Cell(f"{name}.{call.format(literal(path))}", f"Write {name} to {path}", name)


def name_for_file(path: str) -> str:
    """The variable's name for what is read from ``path``."""
    stem = path.replace("\\", "/").rpartition("/")[2]
    return identifier(" ".join(fold(stem.rpartition(".")[0] or stem)))


# -- expressions ---------------------------------------------------------------------------------


def of(table: str, column: Column) -> str:
    """A column of a table, as dates where it holds them as text."""
    text = f"{table}[{literal(column.name)}]"
    if column.dates is None:
        return text
    return f"pd.to_datetime({', '.join(filter(None, (text, column.dates)))})"


def part_of(group: Group, table: str) -> str:
    """What rows are grouped by: a column, or the part of a date."""
    text = of(table, group.column)
    if group.part in _PERIODS:
        return f'{text}.dt.to_period("{_PERIODS[group.part]}").dt.start_time'
    if group.part == "weekday":
        return f"pd.Categorical({text}.dt.day_name(), {_DAYS}, ordered=True)"
    piece = {"year": "year", "month_name": "month", "hour_name": "hour"}.get(group.part)
    return f"{text}.dt.{piece}" if piece else text


def mask(each: Filter, table: str) -> str:
    """The condition of a filter."""
    text = of(table, each.column)
    if each.part in ("year", "month"):
        text += f".dt.{each.part}"
    elif each.part:
        text += f'.dt.to_period("{each.part}")'
    first, *more = map(literal, each.values or ("",))
    templates = {
        "true": "{0}",
        "false": "{0} == False",
        "missing": "{0}.isna()",
        "present": "{0}.notna()",
        "between": "({0} >= {1}) & ({0} <= {2})" if each.part else "{0}.between({1}, {2})",
        "in": "{0}.isin({3})" if more else "{0} == {1}",
        "not in": "~{0}.isin({3}) & {0}.notna()",
    }
    template = templates.get(each.op, f"{{0}} {each.op} {{1}}")
    return template.format(text, first, *more[:1] or [""], literal([*each.values]))


def kept(query: Query) -> str:
    """The rows that a query is about."""
    return f"{query.table}[{masks(query)}]" if query.filters else query.table


def masks(query: Query) -> str:
    """The condition of all filters of a query, or of any."""
    each = [mask(one, query.table) for one in query.filters]
    return (" | " if query.any_of else " & ").join(f"({m})" if each[1:] else m for m in each)


# -- the cell of a query -------------------------------------------------------------------------


def write(query: Query, table: Table, taken: Sequence[str]) -> Cell:
    """The cell that answers ``query``; names in ``taken`` are not bound."""
    writer = Writer(query, table, taken)
    body = re.sub(r"\n{2,}", "\n", str(getattr(_templates(), writer.template)(writer))).strip()
    modules = {"math": "math", "alt": "altair as alt", "pd": "pandas as pd"}
    used = [f"import {each}" for key, each in modules.items() if re.search(rf"\b{key}\.", body)]
    names = [name if f"{name} = " in body else "" for name in (writer.name, writer.chart)]
    is_number = writer.template == "numbers" or (query.do == "correlation" and ".iloc" in body)
    code = "\n".join([*used, ""] if used else []) + "\n" * bool(used) + body
    return Cell(code, query.title, "" if is_number else names[0], names[1], writer.units)


@cache
def _templates() -> Any:
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("parsimony_kernel.offline", ".")
    env = Environment(loader=loader, trim_blocks=True, lstrip_blocks=True, autoescape=False)
    env.filters |= {"py": literal, "capital": _capital, "field": _field, "axis": _axis}
    env.filters["title"] = _title
    return env.get_template("code.j2").module


class Writer:
    """What the templates ask for."""

    def __init__(self, query: Query, table: Table, taken: Sequence[str]) -> None:
        self.q, self.table, self.source, self.taken = query, table, kept(query), taken
        self.columns = [c.name for c in query.columns]
        self.picked = f"[{literal(self.columns)}]" * bool(self.columns)
        self.keys = [g.key for g in query.groups]
        self.most = "nsmallest" if query.ascending else "nlargest"
        self.template = query.do
        self.units: tuple[str, ...] = ()
        self.steps: list[str] = []
        prepare = getattr(self, f"_{query.do}", None)
        told = query.title if query.table in query.title else f"{query.table} {query.title}"
        words = (prepare() if prepare else "") or told
        values = [v for f in query.filters for v in f.values][:3]
        self.name = unique(identifier(" ".join(map(str, (words, *values)))), taken)
        self.chart = unique(f"{self.name}_chart", taken)
        side = "lowest" if query.ascending else "highest"
        what = query.what.removeprefix(f"{side} ")
        self.side = (query.superlative or f"{side} {what}") + query.where

    # -- groups and numbers ----------------------------------------------------------------------

    def _aggregate(self) -> str:
        query, measures = self.q, self.q.measures
        if not query.groups:
            self.template = "numbers"
            self.numbers = [self._number(m) for m in measures]
            self.units = tuple("%" if query.share else m.unit for m in measures)
            return ""
        first, value = measures[0], measures[0].name
        self.steps = self._assigned()
        if first.agg in ("first", "last") and first.over:
            self.steps.append(f".sort_values({literal(first.over.key)})")
        self.steps += self._reduced()
        percent = query.share or query.window == "growth"
        if query.window:
            value = f"{query.window}_{value}"
            self.steps.append(f".assign({value}=lambda d: {self._along(first.name)})")
        elif query.share:
            if not query.filters:
                total = f'100 * d["{value}"] / d["{value}"].sum()'
                self.steps.append(f".assign(share_percent=lambda d: {total})")
            value = "share_percent"
        if query.limit:
            self.steps.append(f".{self.most}({query.limit:g}, {literal(value)})")
        elif not query.groups[0].is_ordered and not query.window:
            self.steps.append(f".sort_values({literal(value)}, ascending={query.ascending})")
        self.value, self.units = value, ("%" if percent else first.unit,)
        self.is_wide = bool(percent or query.window or measures[1:]) and not (
            query.share and query.filters
        )
        self._bars(value, [m.name for m in measures])
        words = f"{query.window} {'share ' * query.share}{' and '.join(m.name for m in measures)}"
        return f"{words} by {' and '.join(g.label for g in query.groups)}"

    def _assigned(self) -> list[str]:
        """The columns that have to be made first: parts of dates, and measures of two columns."""
        orders = [m.over for m in self.q.measures if m.over and m.agg in ("first", "last")]
        made = {
            group.key: part_of(group, "d")
            for group in (*self.q.groups, *orders)
            if group.part or group.column.dates is not None
        }
        for m in self.q.measures:
            if m.column and m.other and m.agg != "ratio":
                made[m.source] = f"{of('d', m.column)} {m.sign} {of('d', m.other)}"
        each = {k: f"lambda d: {v}" for k, v in made.items()}
        if all(k.isidentifier() for k in each):
            return [f".assign({', '.join(f'{k}={v}' for k, v in each.items())})"] if made else []
        return [f".assign(**{{{', '.join(f'{literal(k)}: {v}' for k, v in each.items())}}})"]

    def _reduced(self) -> list[str]:
        """From the groups to a table."""
        query, first = self.q, self.q.measures[0]
        is_category = any(g.part == "weekday" or g.column.dtype == "category" for g in query.groups)
        keys = literal(self.keys[0] if len(self.keys) == 1 else self.keys)
        grouped = f".groupby({keys}{', observed=True' * is_category})"
        if query.share and query.filters:
            self.source = f"{query.table}.assign(kept={masks(query)})"
            return [f'{grouped}["kept"]', ".mean()", ".mul(100)",
                    '.reset_index(name="share_percent")']  # fmt: skip
        if len(query.measures) > 1:
            every = (
                f"{m.name}=({literal(m.source or self.table.columns[0].name)}, "
                f"{literal('size' if m.agg == 'count' else m.agg)})"
                for m in query.measures
            )
            return [grouped, f".agg({', '.join(every)})", ".reset_index()"]
        reset = f".reset_index(name={literal(first.name)})"
        if first.column is None:
            return [grouped, ".size()", reset]
        if first.agg == "ratio" and first.other:
            a, b = literal(first.column.name), literal(first.other.name)
            ratio = f".pipe(lambda d: d[{a}] / d[{b}])"
            return [grouped, f"[[{a}, {b}]].sum()", ratio, reset]
        return [f"{grouped}[{literal(first.source)}]", f".{_call(first)}", reset]

    def _along(self, value: str) -> str:
        query, of_value = self.q, f"d[{literal(value)}]"
        call = {"cumulative": "cumsum()", "growth": "pct_change().mul(100)"}.get(query.window, "")
        if query.window == "rolling":
            call = f"rolling({query.rows}).{query.agg}()"
        if len(self.keys) > 1:
            by = f"d.groupby({literal(self.keys[1])})[{literal(value)}]"
            return f"{by}.transform(lambda v: v.{call})"
        return f"{of_value}.{call}"

    def _number(self, m: Measure) -> tuple[str, str, str]:
        """The name of one number, its expression, and its words."""
        query, source, over = self.q, self.source, m.over
        values = of(source, m.column) if m.column else source
        if query.share:
            part = f"len({source}) / len({query.table})"
            if m.column:
                part = f"{values}.sum() / {of(query.table, m.column)}.sum()"
            name = unique(identifier(shorten(f"share {query.by}", 50, placeholder="")), self.taken)
            return name, f"100 * {part}", f"{query.what}{query.by}"
        if m.agg == "ratio" and m.other:
            value = f"{values}.sum() / {of(source, m.other)}.sum()"
        elif m.other is not None:
            value = f"({values} {m.sign} {of(source, m.other)}).{m.agg}()"
        elif over and m.agg in ("first", "last"):
            order = f"{source}{''.join(self._assigned())}.sort_values({literal(over.key)})"
            at = 0 if m.agg == "first" else -1
            value = f"{order}[{literal(m.source)}].dropna().iloc[{at}]"
        elif over and m.agg == "nunique":
            value = f"{part_of(over, source)}.nunique()"
        elif over:
            total = "sum" if m.column else "size"
            value = f"{values}.groupby({part_of(over, source)}).{total}().{m.agg}()"
        else:
            value = f"{values}.{_call(m)}" if m.column else f"len({source})"
        name = unique(identifier(shorten(f"{m.name}{query.by}", 50, placeholder="")), self.taken)
        return name, value, f"{query.superlative or m.label}{query.by}"

    # -- rows and charts ---------------------------------------------------------------------------

    def _rows(self) -> str:
        query, sort = self.q, self.q.sort
        self.named: list[str] = []
        if sort is not None and sort.dates is not None:
            self.steps.append(f".assign(**{{{literal(sort.name)}: lambda d: {of('d', sort)}}})")
        if sort is not None and query.limit:
            size = f"{query.limit:g}"
            if query.is_percent:
                size = f"math.ceil(len({self.source}) * {size} / 100)"
            ties = ', keep="all"' * (query.limit == 1)
            self.steps.append(f".{self.most}({size}, {literal(sort.name)}{ties})")
            if query.limit == 1 and not query.columns:
                kinds = [c.name for c in self.table.columns if c.kind == "text" and not c.is_date]
                self.named, self.units = [*kinds[:1], sort.name], (unit_of(sort),)
                query.superlative = query.superlative or query.title
        elif sort is not None:
            self.steps.append(f".sort_values({literal(sort.name)}, ascending={query.ascending})")
        self.steps += [self.picked] * bool(self.picked)
        by = f" by {sort.name}" if sort else ""
        return f"{query.table}{by} {' '.join(self.columns)}"

    def _plain(self) -> str:
        """A chart of the rows themselves, of the columns that it uses."""
        query = self.q
        hues = [query.color] if query.color else []
        hues = hues or [g.column for g in query.groups if not g.is_time and query.do != "box"]
        self.colour = _axis(hues[0], "Color", "N") if hues else ""
        used = [*(g.column for g in query.groups), *hues[:1], *query.columns]
        self.data = f"{self.source}[{literal(list(dict.fromkeys(c.name for c in used)))}]"
        if query.do == "line":
            self.value, self.units = self.columns[0], (unit_of(query.columns[0]),)
            self.steps = [*self._assigned(), f".sort_values({literal(self.keys[0])})"]
        return query.title

    _histogram = _box = _scatter = _line = _plain

    def _bars(self, value: str, names: list[str]) -> None:
        """A table of groups as a chart: along time, or as bars by rank."""
        query, first = self.q, self.q.groups[0]
        self.kind = query.chart if query.chart != "auto" else "line" if first.is_time else "bar"
        self.shown, self.hue = value, self.keys[1] if len(self.keys) > 1 else ""
        self.name = "{table}"
        is_period = first.column.is_date and first.is_time and first.part != "year"
        years = first.is_time and self.kind != "bar"
        self.along = "T" if is_period else "Q" if years else "O" if first.is_ordered else "N"
        self.scale = ', axis=alt.Axis(format="d"), scale=alt.Scale(zero=False)' * (
            self.along == "Q"
        )
        self.scale += ", sort=None" * (first.part in CYCLES)
        self.order = literal("x" if query.ascending else "-x")
        self._values = names if len(names) > 1 and not self.hue and not query.window else []
        if self._values:
            self.shown, self.hue = "reading", "measure"

    @property
    def melted(self) -> str:
        """The table that a chart of groups is drawn from; several measures become one."""
        if not self._values:
            return self.name
        melted = f'{literal(self._values)}, var_name="measure", value_name="reading"'
        return f"{self.name}.melt({literal(self.keys[0])}, {melted})"


def _call(m: Measure) -> str:
    return f"quantile({m.q / 100:g})" if m.agg == "percentile" else f"{m.agg}()"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _title(column: Column) -> str:
    unit = unit_of(column)
    return literal(_capital(in_words(column)) + (f" ({unit})" if unit else ""))


def _field(name: str, kind: str) -> str:
    """A field of a chart; Vega reads dots, brackets and quotes in it as a path unless escaped."""
    if not re.fullmatch(r"[^\W_][\w \-]*", name):
        name = re.sub(r"([.:\[\]\\'\"])", r"\\\1", name)
    return literal(f"{name}:{kind}")


def _axis(column: Column, channel: str, kind: str, zero: bool = True) -> str:
    more = ', axis=alt.Axis(format="d", tickMinStep=1)' * column.is_year
    more += ", scale=alt.Scale(zero=False)" * (not zero and kind != "T")
    return f"alt.{channel}({_field(column.name, kind)}, title={_title(column)}{more})"
