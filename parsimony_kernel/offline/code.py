"""From a query to the short pandas and altair that a person would write.

Owns the expressions; the cells that they stand in are the templates of ``code.j2``.
"""

import re
from calendar import month_name
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader

from parsimony_kernel.offline.schema import Query, Table
from parsimony_kernel.offline.words import fold, identifier, literal, singular, spoken, unique
from parsimony_kernel.offline.words import table as patterns


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


def load(path: str, name: str, options: Mapping[str, Any], signed: Sequence[str] = ()) -> Cell:
    """Read a file; ``options`` are more arguments of the reader, ``signed`` its columns of numbers
    with a sign."""
    suffix = path.casefold().rpartition(".")[2]
    given = {**({"lines": True} if suffix in ("jsonl", "ndjson") else {}), **options}
    readers = patterns()["readers"].items()
    reader = next((name for name, ends in readers if suffix in ends.split("|")), "csv")
    body = text("load", path, name, reader, arguments(given), signed)
    return Cell(_with_imports(body), f"Load {path} as {name}", name)


def arguments(options: Mapping[str, Any]) -> list[str]:
    """Write options as the arguments of a call."""
    return [f"{name}={literal(value)}" for name, value in options.items()]


def looked(expression: str, why: str) -> Cell:
    """Print what an expression gives, as JSON."""
    return Cell(_with_imports(f"print({expression})"), why)


def write(query: Query, table: Table, taken: Sequence[str]) -> Cell:
    """Write the cell that answers ``query``; names in ``taken`` are not bound."""
    title = text("title", query)
    title = title if title.startswith(query.table) else _capital(title)
    name = unique(identifier(title), taken)
    chart = unique(f"{name}_chart", taken)
    said = {f.column for f in query.filters}
    kinds = [c.name for c in table.texts if c not in said]
    given = {"name": name, "chart": chart, "title": title, "kinds": kinds}
    kind = "number" if query.do == "aggregate" and not query.groups else query.do
    body = text(kind, query, given)
    made, drawn = (each if f"{each} = " in body else "" for each in (name, chart))
    return Cell(_with_imports(body), title, made * (kind != "number"), drawn, text("unit", query))


def text(macro: str, *about: Any) -> str:
    """Fill in one of the templates."""
    return str(getattr(_templates(), macro)(*about)).strip()


def _with_imports(body: str) -> str:
    body = re.sub(r"\n\s*\n", "\n", body).strip()
    modules = patterns()["imports"].items()
    imports = [line for used, line in modules if re.search(rf"\b{re.escape(used)}", body)]
    return "\n".join([*imports, "", body] if imports else [body])


@cache
def _templates() -> Any:
    loader = PackageLoader("parsimony_kernel.offline", ".")
    env = Environment(loader=loader, trim_blocks=True, lstrip_blocks=True, autoescape=False)
    env.filters |= {"py": literal, "field": _field, "capital": _capital, "spoken": spoken}
    env.filters |= {"singular": singular, "escaped": re.escape, "month": month_name.__getitem__}
    env.filters["slug"] = lambda name: "_".join(fold(name))[:40].strip("_")
    env.filters["names"] = lambda columns: list(dict.fromkeys(c.name for c in columns))
    env.tests["identifier"] = str.isidentifier
    env.globals |= patterns()
    return env.get_template("code.j2").module


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _field(name: str, kind: str, unit: str = "") -> str:
    """A field of a chart; Vega reads dots, brackets and quotes in it as a path unless escaped."""
    if not re.fullmatch(r"[^\W_][\w \-]*", name):
        name = re.sub(r"([.:\[\]\\'\"])", r"\\\1", name)
    return literal(f"{unit}({name}):{kind}" if unit else f"{name}:{kind}")
