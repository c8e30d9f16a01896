"""From a query to the short pandas and altair that a person would write.

Owns the expressions; the cells that they stand in are the templates of ``code.j2``.
"""

import re
from calendar import month_name
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader

from parsimony_kernel.offline.schema import Query, Table
from parsimony_kernel.offline.words import fold, identifier, literal, singular, spoken, unique
from parsimony_kernel.offline.words import table as patterns

_READERS = {"parquet": "parquet", "pq": "parquet", "xlsx": "excel", "xls": "excel"}
_READERS |= dict.fromkeys(("json", "jsonl", "ndjson"), "json")
_IMPORTS = {
    r"math\.": "import math",
    r"json\.": "import json",
    r"alt\.": "import altair as alt",
    r"pd\.": "import pandas as pd",
    r"readings_of\(": "from parsimony_kernel.execution.reading import readings_of",
}


@dataclass(frozen=True)
class Cell:
    """Code, its heading, and the names that it binds: a table and a chart, where there are any.

    Args:
        unit: that of the value that it prints first.
        told: what it came to, in words, once it has run.
    """

    code: str
    purpose: str
    table: str = ""
    chart: str = ""
    unit: str = ""
    told: str = ""

    @property
    def arguments(self) -> dict[str, Any]:
        """Those of the tool that runs it."""
        return {"code": self.code, "purpose": self.purpose}


def load(path: str, name: str, options: dict[str, Any], signed: Sequence[str] = ()) -> Cell:
    """Read a file; ``options`` are more arguments of the reader, ``signed`` its columns of numbers
    with a sign."""
    suffix = path.casefold().rpartition(".")[2]
    given = {**({"lines": True} if suffix in ("jsonl", "ndjson") else {}), **options}
    body = _templates().load(path, name, _READERS.get(suffix, "csv"), arguments(given), signed)
    return Cell(_with_imports(str(body)), f"Load {path} as {name}", name)


def arguments(options: dict[str, Any]) -> list[str]:
    """Write options as the arguments of a call."""
    return [f"{name}={literal(value)}" for name, value in options.items()]


def looked(expression: str, why: str) -> Cell:
    """Print what an expression gives, as JSON."""
    return Cell(_with_imports(f"print({expression})"), why)


def sniffed(path: str) -> str:
    """The expression that says how a text file is written."""
    return f"json.dumps([vars(each) for each in readings_of({literal(path)})])"


def sheets(path: str) -> str:
    """The expression that lists the sheets of a workbook."""
    heads = f"pd.read_excel({literal(path)}, sheet_name=None, nrows=0)"
    return f'pd.Series(list({heads})).to_json(orient="values")'


def values_like(table: Table, words: Sequence[str]) -> str:
    """The expression that finds which texts of a table are among ``words``: pairs as JSON."""
    pattern = "|".join(f"{re.escape(singular(each))}(?:e?s)?" for each in words)
    return str(_templates().values_like(table, pattern)).strip()


def export(name: str, path: str) -> Cell:
    """Write a table to a CSV or Excel file."""
    kind = "csv" if path.casefold().endswith("csv") else "excel"
    return Cell(f"{name}.to_{kind}({literal(path)}, index=False)", f"Write {name} to {path}", name)


def write(query: Query, table: Table, taken: Sequence[str]) -> Cell:
    """Write the cell that answers ``query``; names in ``taken`` are not bound."""
    templates = _templates()
    title = str(templates.title(query))
    title = title if title.startswith(query.table) else _capital(title)
    name = unique(identifier(title), taken)
    chart = unique(f"{name}_chart", taken)
    said = {f.column for f in query.filters}
    kinds = [c.name for c in table.texts if c not in said]
    given = {"name": name, "chart": chart, "title": title, "kinds": kinds}
    kind = "number" if query.do == "aggregate" and not query.groups else query.do
    body = str(getattr(templates, kind)(query, given))
    names = [each if f"{each} = " in body else "" for each in (name, chart)]
    unit = str(templates.unit(query))
    return Cell(_with_imports(body), title, names[0] * (kind != "number"), names[1], unit)


def _with_imports(body: str) -> str:
    body = re.sub(r"\n\s*\n", "\n", body).strip()
    imports = [line for used, line in _IMPORTS.items() if re.search(rf"\b{used}", body)]
    return "\n".join([*imports, "", body] if imports else [body])


@cache
def _templates() -> Any:
    loader = PackageLoader("parsimony_kernel.offline", ".")
    env = Environment(loader=loader, trim_blocks=True, lstrip_blocks=True, autoescape=False)
    env.filters |= {"py": literal, "field": _field}
    env.filters |= {"capital": _capital, "spoken": spoken, "assigned": _assigned}
    env.filters |= {"masked": masked, "slug": lambda name: "_".join(fold(name))[:40].strip("_")}
    env.filters["names"] = lambda columns: list(dict.fromkeys(c.name for c in columns))
    env.filters["month"] = month_name.__getitem__
    env.globals |= patterns()
    return env.get_template("code.j2").module


def masks(query: Query) -> str:
    """The condition of all filters of a query, or of any."""
    conditions = []
    for each in query.filters:
        column, values = each.column.of(query.table), [*map(literal, each.values), "", ""]
        op = "==" if each.op == "in" and len(each.values) == 1 else each.op
        how: str = patterns()["filters"].get(op, ["", f"{{0}} {op} {{1}}"])[1]
        conditions.append(how.format(column, values[0], values[1], literal([*each.values])))
    joined = conditions if len(conditions) == 1 else [f"({each})" for each in conditions]
    return (" | " if query.any_of else " & ").join(joined)


def masked(query: Query) -> str:
    """The table of a query with the rows that it keeps."""
    return f"{query.table}[{masks(query)}]" if query.filters else query.table


def _assigned(query: Query) -> str:
    """Make the columns first that are computed from others."""
    used = [c for c in (*query.groups, *query.columns) if c.made_of or c.dates is not None]
    made = {c.name: f"lambda d: {c.of('d')}" for c in used}
    if all(map(str.isidentifier, made)):
        pairs = ", ".join(f"{name}={value}" for name, value in made.items())
        return f".assign({pairs})" * bool(made)
    pairs = ", ".join(f"{literal(name)}: {value}" for name, value in made.items())
    return f".assign(**{{{pairs}}})"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _field(name: str, kind: str) -> str:
    """A field of a chart; Vega reads dots, brackets and quotes in it as a path unless escaped."""
    if not re.fullmatch(r"[^\W_][\w \-]*", name):
        name = re.sub(r"([.:\[\]\\'\"])", r"\\\1", name)
    return literal(f"{name}:{kind}")
