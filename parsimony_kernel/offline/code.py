"""From a query to the short pandas and altair that a person would write.

Owns the expressions; the cells that they stand in are the templates of ``code.j2``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from textwrap import shorten
from typing import Any

from parsimony_kernel.offline.patterns import table as patterns
from parsimony_kernel.offline.query import Filter, Query
from parsimony_kernel.offline.schema import Column, Table
from parsimony_kernel.offline.words import fold, identifier, literal, unique

_READERS = {"parquet": "parquet", "pq": "parquet", "xlsx": "excel", "xls": "excel"}
_LINES = ("jsonl", "ndjson")
_WINDOWS = {"cumulative": "cumsum()", "growth": "pct_change().mul(100)"}


@dataclass(frozen=True)
class Cell:
    """Code, its heading, and the names that it binds: a table and a chart, where there are any.

    Args:
        unit: that of the value that it prints first.
    """

    code: str
    purpose: str
    table: str = ""
    chart: str = ""
    unit: str = ""


# -- files and looks -----------------------------------------------------------------------------


def load(path: str, name: str, options: dict[str, Any], signed: Sequence[str] = ()) -> Cell:
    """Read a file; ``options`` are more arguments of the reader, ``signed`` its columns of numbers
    with a sign."""
    suffix = path.casefold().rpartition(".")[2]
    reader = _READERS.get(suffix, "json" if "json" in suffix else "csv")
    given = arguments({**({"lines": True} if suffix in _LINES else {}), **options})
    lines = [f"{name} = pd.read_{reader}({', '.join([literal(path), *given])})"]
    for each in map(literal, signed):
        number = '.str.replace(r"[^\\d.-]", "", regex=True).astype(float)'
        lines.append(f"{name}[{each}] = {name}[{each}]{number}")
    code = "\n".join(["import pandas as pd", "", *lines, f"{name}.head()"])
    return Cell(code, f"Load {path} as {name}", name)


def arguments(options: dict[str, Any]) -> list[str]:
    """Write options as the arguments of a call."""
    return [f"{name}={literal(value)}" for name, value in options.items()]


def sniffed(path: str) -> Cell:
    """Look how a text file is written."""
    told = f"print(json.dumps([vars(each) for each in readings_of({literal(path)})]))"
    code = f"import json\n\nfrom parsimony_kernel.execution.reading import readings_of\n\n{told}"
    return Cell(code, f"Look how {path} is written")


def looked(expression: str, why: str) -> Cell:
    """Print what an expression gives."""
    return Cell("import pandas as pd\n\n" * ("pd." in expression) + f"print({expression})", why)


def values_like(table: Table, words: Sequence[str]) -> str:
    """The expression that finds where the texts of a table have words: pairs as JSON."""
    pattern = "|".join(re.escape(each[:-1] if len(each) > 4 else each) for each in words)
    found = f'd["value"].astype(str).str.contains({literal(pattern)}, case=False)'
    return (
        f"{table.name}[{literal([c.name for c in table.texts])}].melt().drop_duplicates()\n"
        f'    .loc[lambda d: {found}].head(200).to_json(orient="values", force_ascii=False)'
    )


def export(name: str, path: str) -> Cell:
    """Write a table to a CSV or Excel file."""
    kind = "csv" if path.casefold().endswith("csv") else "excel"
    return Cell(f"{name}.to_{kind}({literal(path)}, index=False)", f"Write {name} to {path}", name)


def name_for_file(path: str) -> str:
    """The variable's name for what is read from ``path``."""
    stem = path.replace("\\", "/").rpartition("/")[2]
    return identifier(" ".join(fold(stem.rpartition(".")[0] or stem)))


# -- the cell of a query -------------------------------------------------------------------------


def write(query: Query, table: Table, taken: Sequence[str]) -> Cell:
    """Write the cell that answers ``query``; names in ``taken`` are not bound."""
    writer = _Writer(query, table, taken)
    body = re.sub(r"\n\s*\n", "\n", str(getattr(_templates(), writer.template)(writer))).strip()
    modules = {"math": "math", "alt": "altair as alt", "pd": "pandas as pd"}
    used = [f"import {each}" for key, each in modules.items() if re.search(rf"\b{key}\.", body)]
    names = [name if f"{name} = " in body else "" for name in (writer.name, writer.chart)]
    is_number = writer.template == "number" or (query.do == "correlation" and ".iloc" in body)
    code = "\n".join([*used, ""] if used else []) + "\n" * bool(used) + body
    return Cell(code, query.title, "" if is_number else names[0], names[1], writer.unit)


@cache
def _templates() -> Any:
    from jinja2 import Environment, PackageLoader

    loader = PackageLoader("parsimony_kernel.offline", ".")
    env = Environment(loader=loader, trim_blocks=True, lstrip_blocks=True, autoescape=False)
    env.filters |= {"py": literal, "capital": _capital, "field": _field, "axis": _axis}
    env.filters["title"] = _title
    return env.get_template("code.j2").module


def mask(each: Filter, table: str) -> str:
    """The condition of a filter."""
    column, values = each.column.of(table), [*map(literal, each.values), "", ""]
    template = patterns()["filters"].get(each.op, ["", f"{{0}} {each.op} {{1}}"])[1]
    if each.op == "in" and len(each.values) == 1:
        template = "{0} == {1}"
    return str(template).format(column, values[0], values[1], literal([*each.values]))


def masks(query: Query) -> str:
    """The condition of all filters of a query, or of any."""
    each = [mask(one, query.table) for one in query.filters]
    return (" | " if query.any_of else " & ").join(f"({m})" if each[1:] else m for m in each)


def masked(query: Query) -> str:
    """The table of a query with the rows that it keeps."""
    return f"{query.table}[{masks(query)}]" if query.filters else query.table


class _Writer:
    """What the templates ask for."""

    def __init__(self, query: Query, table: Table, taken: Sequence[str]) -> None:
        self.q, self.table, self.taken = query, table, taken
        self.source = masked(query)
        self.columns = [c.name for c in query.columns]
        self.picked = f"[{literal(self.columns)}]" * bool(self.columns)
        self.keys = [g.name for g in query.groups]
        self.most = "nsmallest" if query.ascending else "nlargest"
        self.template = query.do
        self.unit = query.unit if query.do == "aggregate" else ""
        words = query.title if query.table in query.title else f"{query.table} {query.title}"
        match query.do:
            case "aggregate" if query.groups:
                words = self._grouped()
            case "aggregate":
                words = self._number()
            case "rows":
                words = self._rows()
            case "histogram" | "box" | "scatter" | "line":
                words = self._plain()
        values = [v for f in query.filters for v in f.values][:3]
        said = (words,) if self.template == "number" else (words, *values)
        self.name = unique(identifier(" ".join(map(str, said))), taken)
        self.chart = unique(f"{self.name}_chart", taken)
        what = query.what.removeprefix(f"{query.side} ")
        self.side = (query.superlative or f"{query.side} {what}") + query.where

    def _grouped(self) -> str:
        query = self.q
        # Of each group, the share that the filters keep.
        self.is_part = bool(query.share and query.filters)
        if self.is_part:
            self.source = f"{query.table}.assign(kept={masks(query)})"
        self.value = f"{query.window}_{query.measure}" if query.window else query.measure
        self.value = "share_percent" if query.share else self.value
        self.is_wide = bool(query.window or (query.share and not self.is_part))
        self.is_category = any(g.part == "weekday" or g.dtype == "category" for g in query.groups)
        self.along = _WINDOWS.get(query.window, f"rolling({query.rows}).{query.agg}()")
        self._bars()
        words = f"{query.window} {'share ' * query.share}{query.measure}"
        return f"{words} by {' and '.join(g.label for g in query.groups)}"

    @property
    def assigned(self) -> str:
        """Make the columns first that are computed from others."""
        used = [*self.q.groups, *self.q.columns]
        made = {c.name: f"lambda d: {c.of('d')}" for c in used if c.made_of or c.dates is not None}
        if all(name.isidentifier() for name in made):
            pairs = ", ".join(f"{name}={value}" for name, value in made.items())
            return f".assign({pairs})" * bool(made)
        pairs = ", ".join(f"{literal(name)}: {value}" for name, value in made.items())
        return f".assign(**{{{pairs}}})"

    def _number(self) -> str:
        """One number: its expression, and its words."""
        query, self.template = self.q, "number"
        column = query.columns[0] if query.columns else None
        self.value = f"{column.of(self.source)}.{query.call}" if column else f"len({self.source})"
        if query.share:
            whole = f"{column.of(query.table)}.sum()" if column else f"len({query.table})"
            self.value = f"100 * {self.value} / {whole}"
        words = f"{'share' if query.share else query.measure}{query.where}"
        return shorten(words, 50, placeholder="")

    def _rows(self) -> str:
        query, sort = self.q, self.q.sort
        self.named: list[str] = []
        if sort is not None and query.limit:
            self.size = f"{query.limit:g}"
            if query.is_percent:
                self.size = f"math.ceil(len({self.source}) * {self.size} / 100)"
            said = {f.column for f in query.filters}
            kinds = [c for c in self.table.texts if c not in said][: 1 if query.limit == 1 else 2]
            shown = query.columns or [*kinds, sort]
            if query.columns and query.limit == 1:
                shown = [*kinds, *shown] if all(c.is_measure for c in shown) else shown
                self.picked = f"[{literal([c.name for c in shown])}]"
                query.superlative = query.superlative or query.title
            if not query.columns or query.limit == 1:
                self.named, self.unit = [c.name for c in shown], shown[-1].unit
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
            self.value, self.unit = self.columns[0], query.columns[0].unit
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
