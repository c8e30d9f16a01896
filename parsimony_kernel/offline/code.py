"""From a query to the short pandas and altair that a person would write.

Owns the expressions; the cells that they stand in are the templates of ``code.j2``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from textwrap import shorten
from typing import Any

from parsimony_kernel.offline.query import Filter, Measure, Query
from parsimony_kernel.offline.schema import Column, Table
from parsimony_kernel.offline.words import fold, identifier, literal, unique

_MASKS = {
    "true": "{0}",
    "false": "{0} == False",
    "missing": "{0}.isna()",
    "present": "{0}.notna()",
    "in": "{0}.isin({2})",
    "not in": "~{0}.isin({2}) & {0}.notna()",
}


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
    """Write options as the arguments of a call."""
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
    pattern = "|".join(re.escape(each[:-1] if len(each) > 4 else each) for each in words)
    found = f'd["value"].astype(str).str.contains(r{literal(pattern)}, case=False)'
    return (
        f"{table.name}[{literal([c.name for c in table.texts])}].melt().drop_duplicates()\n"
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


# -- the cell of a query -------------------------------------------------------------------------


def write(query: Query, table: Table, taken: Sequence[str]) -> Cell:
    """Write the cell that answers ``query``; names in ``taken`` are not bound."""
    writer = Writer(query, table, taken)
    body = re.sub(r"\n\s*\n", "\n", str(getattr(_templates(), writer.template)(writer))).strip()
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
    env.filters |= {"title": _title, "function": _function}
    return env.get_template("code.j2").module


def mask(each: Filter, table: str) -> str:
    """The condition of a filter."""
    column, values = each.column.of(table), [*each.values, "", ""]
    template = _MASKS.get(each.op, f"{{0}} {each.op} {{1}}")
    if each.op == "in" and len(each.values) == 1:
        template = "{0} == {1}"
    elif each.op == "between":
        is_period = each.column.part
        template = "({0} >= {1}) & ({0} <= {3})" if is_period else "{0}.between({1}, {3})"
    return template.format(column, literal(values[0]), literal([*each.values]), literal(values[1]))


def masks(query: Query) -> str:
    """The condition of all filters of a query, or of any."""
    each = [mask(one, query.table) for one in query.filters]
    return (" | " if query.any_of else " & ").join(f"({m})" if each[1:] else m for m in each)


class Writer:
    """What the templates ask for."""

    def __init__(self, query: Query, table: Table, taken: Sequence[str]) -> None:
        self.q, self.table, self.taken = query, table, taken
        self.source = f"{query.table}[{masks(query)}]" if query.filters else query.table
        self.columns = [c.name for c in query.columns]
        self.picked = f"[{literal(self.columns)}]" * bool(self.columns)
        self.keys = [g.name for g in query.groups]
        self.most = "nsmallest" if query.ascending else "nlargest"
        self.template = query.do
        self.units: tuple[str, ...] = ()
        words = query.title if query.table in query.title else f"{query.table} {query.title}"
        match query.do:
            case "aggregate" if query.groups:
                words = self._grouped()
            case "aggregate":
                self.template = "numbers"
                self.numbers = [self._number(m) for m in query.measures]
                self.units = tuple("%" if query.share else m.unit for m in query.measures)
            case "rows":
                words = self._rows()
            case "histogram" | "box" | "scatter" | "line":
                words = self._plain()
        values = [v for f in query.filters for v in f.values][:3]
        self.name = unique(identifier(" ".join(map(str, (words, *values)))), taken)
        self.chart = unique(f"{self.name}_chart", taken)
        what = query.what.removeprefix(f"{query.side} ")
        self.side = (query.superlative or f"{query.side} {what}") + query.where

    # -- groups and numbers ----------------------------------------------------------------------

    def _grouped(self) -> str:
        query, measures, first = self.q, self.q.measures, self.q.measures[0]
        # Of each group, the share that the filters keep.
        self.is_part = bool(query.share and query.filters)
        if self.is_part:
            self.source = f"{query.table}.assign(kept={masks(query)})"
        self.value = f"{query.window}_{first.name}" if query.window else first.name
        self.value = "share_percent" if query.share else self.value
        self.units = ("%" if query.share or query.window == "growth" else first.unit,)
        self.is_wide = bool(query.window or measures[1:] or (query.share and not self.is_part))
        self.is_category = any(g.part == "weekday" or g.dtype == "category" for g in query.groups)
        calls = {"cumulative": "cumsum()", "growth": "pct_change().mul(100)"}
        self.along = calls.get(query.window, f"rolling({query.rows}).{first.agg}()")
        self._bars()
        words = f"{query.window} {'share ' * query.share}{' and '.join(m.name for m in measures)}"
        return f"{words} by {' and '.join(g.label for g in query.groups)}"

    @property
    def assigned(self) -> str:
        """Make the columns first that are computed from others."""
        used = [*self.q.groups, *(m.column for m in self.q.measures if m.column)]
        made = {c.name: f"lambda d: {c.of('d')}" for c in used if c.made_of or c.dates is not None}
        if all(name.isidentifier() for name in made):
            pairs = ", ".join(f"{name}={value}" for name, value in made.items())
            return f".assign({pairs})" * bool(made)
        pairs = ", ".join(f"{literal(name)}: {value}" for name, value in made.items())
        return f".assign(**{{{pairs}}})"

    def _number(self, m: Measure) -> tuple[str, str, str]:
        """The name of one number, its expression, and its words."""
        query, values = self.q, m.column.of(self.source) if m.column else self.source
        words, label = f"{m.name}{query.by}", query.superlative or m.label
        value = f"{values}.{m.call}" if m.column else f"len({values})"
        if m.column and m.column.made_of and not m.column.part:
            value = f"({values}).{m.call}"
        if query.share:
            words, label = f"share{query.by}", query.what
            whole = f"{m.column.of(query.table)}.sum()" if m.column else f"len({query.table})"
            value = f"100 * {value} / {whole}"
        name = unique(identifier(shorten(words, 50, placeholder="")), self.taken)
        return name, value, f"{label}{query.by}"

    # -- rows and charts ---------------------------------------------------------------------------

    def _rows(self) -> str:
        query, sort = self.q, self.q.sort
        self.named: list[str] = []
        if sort is not None and query.limit:
            self.size = f"{query.limit:g}"
            if query.is_percent:
                self.size = f"math.ceil(len({self.source}) * {self.size} / 100)"
            said = {f.column for f in query.filters}
            kinds = [c for c in self.table.texts if c not in said][: 1 if query.limit == 1 else 2]
            if not query.columns:
                self.named, self.units = [c.name for c in (*kinds, sort)], (sort.unit,)
            elif query.limit == 1:
                shown = query.columns
                if all(each.is_measure for each in query.columns):
                    shown = [*kinds, *query.columns]
                    self.picked = f"[{literal([c.name for c in shown])}]"
                self.named, self.units = [c.name for c in shown], (shown[-1].unit,)
                query.superlative = query.superlative or query.title
        return f"{query.table}{f' by {sort.name}' if sort else ''} {' '.join(self.columns)}"

    def _plain(self) -> str:
        """Draw the rows themselves, by the columns that the chart uses."""
        query = self.q
        groups = query.groups if query.do != "box" else []
        hues = [c for c in (query.color, *groups) if c is not None and not c.is_time][:1]
        self.colour = _axis(hues[0], "Color", "N") if hues else ""
        used = [*query.groups, *hues, *query.columns]
        self.data = f"{self.source}[{literal(list(dict.fromkeys(c.name for c in used)))}]"
        if query.do == "line":
            self.value, self.units = self.columns[0], (query.columns[0].unit,)
        return query.title

    def _bars(self) -> None:
        """Draw a table of groups: along time, or as bars by rank."""
        query, first = self.q, self.q.groups[0]
        self.kind = query.chart if query.chart != "auto" else "line" if first.is_time else "bar"
        self.hue = self.keys[1] if len(self.keys) > 1 else ""
        is_period = first.is_date and first.is_time and first.part != "year"
        years = first.is_time and self.kind != "bar"
        self.type = "T" if is_period else "Q" if years else "O" if first.is_ordered else "N"
        self.scale = ', axis=alt.Axis(format="d"), scale=alt.Scale(zero=False)' * (self.type == "Q")
        self.scale += ", sort=None" * first.is_cycle
        self.order = literal("x" if query.ascending else "-x")


def _function(m: Measure) -> str:
    if m.q:
        return f"lambda v: v.{m.call}"
    return literal("size" if m.agg == "count" else m.agg)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _title(column: Column) -> str:
    return literal(_capital(column.label) + (f" ({column.unit})" if column.unit else ""))


def _field(name: str, kind: str) -> str:
    """A field of a chart; Vega reads dots, brackets and quotes in it as a path unless escaped."""
    if not re.fullmatch(r"[^\W_][\w \-]*", name):
        name = re.sub(r"([.:\[\]\\'\"])", r"\\\1", name)
    return literal(f"{name}:{kind}")


def _axis(column: Column, channel: str, kind: str, zero: bool = True) -> str:
    more = ', axis=alt.Axis(format="d", tickMinStep=1)' * column.is_year
    more += ", scale=alt.Scale(zero=False)" * (not zero and kind != "T")
    return f"alt.{channel}({_field(column.name, kind)}, title={_title(column)}{more})"
