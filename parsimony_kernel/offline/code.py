"""A table, a query about it, and the short pandas and altair that answer it.

Tables are read from the summaries in the context and in tool results, and from nothing else. Owns
the expressions; the cells that they stand in are the templates of ``code.j2``.
"""

import re
from calendar import month_name
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader

from parsimony_kernel.offline import words

Arguments = dict[str, Any]
_UNIT = re.compile(words.table()["spellings"]["unit"])
_KIND = re.compile("(?P<date>date|timestamp)|(?P<boolean>bool)|(?P<number>u?int|float|decimal)")


@dataclass(frozen=True)
class Column:
    """A column of a table, or one that code computes from others.

    Args:
        kind: ``number``, ``year``, ``date``, ``boolean``, ``text``, or ``cycle`` for a part of the
            calendar that comes again.
        made_of: the columns that it is computed from, by the template ``how``: the parts of a
            difference, the date of a part, the text of a date.
        part: the part of a date that it is, by its row in the table of patterns.
    """

    name: str
    kind: str
    dtype: str = ""
    samples: tuple[str, ...] = ()
    missing: int = 0
    made_of: tuple["Column", ...] = ()
    how: str = ""
    part: str = ""

    def of(self, frame: str) -> str:
        """Write the expression of its values in ``frame``."""
        if self.made_of:
            return self.how.format(*(each.of(frame) for each in self.made_of))
        return f"{frame}[{words.literal(self.name)}]"

    @property
    def flags(self) -> tuple[tuple[str, ...], ...]:
        """Its words for yes, and for no, as they are spelled; empty where it holds others."""
        if self.kind == "boolean":
            return (("true",), ("false",))
        seen = {each: each.strip().casefold() for each in self.samples if self.kind == "text"}
        pairs = (p for p in words.table()["spellings"]["flags"] if {*seen.values()} == {*p})
        return tuple(tuple(e for e in seen if seen[e] == word) for word in next(pairs, ()))

    @property
    def base(self) -> "Column":
        """The column of dates that it is a part of, else itself."""
        return self.made_of[0] if self.part else self

    @property
    def plain(self) -> str:
        """Its name without the unit."""
        return _UNIT.sub("", self.name)

    @property
    def unit(self) -> str:
        """The unit that its name ends with; empty without one."""
        found = _UNIT.search(self.name)
        return found[1] if found and not self.part else ""

    @property
    def label(self) -> str:
        """What it is, in words."""
        if self.part:
            return str(words.table()["parts"][self.part].get("label", self.part))
        return " ".join(self.plain.replace("_", " ").split()) or self.name

    @property
    def is_time(self) -> bool:
        """Whether it runs along a time axis."""
        return self.kind in ("date", "year")

    @property
    def is_code(self) -> bool:
        """Whether it names or numbers things, by its name."""
        return bool(words.filler("codes") & {*words.fold(self.name)[-1:]})

    @property
    def is_measure(self) -> bool:
        """Numbers of which a sum or a mean says something."""
        is_year = "year" in words.fold(self.name)[-1:]
        return self.kind == "number" and not self.is_code and not is_year


def part_of(column: Column, part: str) -> Column:
    """The part of a date as a column."""
    row = words.table()["parts"][part]
    name, kind = row.get("key", column.name), "cycle" if "label" in row else "date"
    return Column(name, kind, made_of=(column,), how=row["code"], part=part)


@dataclass(frozen=True)
class Table:
    """A table by the name of its variable; ``rows`` are ``None`` where they were not counted,
    ``library`` is empty for pandas."""

    name: str
    rows: int | None
    columns: tuple[Column, ...]
    library: str = ""

    @property
    def texts(self) -> list[Column]:
        """Columns of words."""
        return [each for each in self.columns if each.kind == "text"]

    @property
    def times(self) -> list[Column]:
        """Columns that hold dates, else those that hold years."""
        dates = [each for each in self.columns if each.kind == "date"]
        return dates or [each for each in self.columns if each.kind == "year"]


def read_table(summary: Mapping[str, Any]) -> Table | None:
    """Read the table that a summary describes; ``None`` when it is not one."""
    listed, rows = summary.get("columns"), summary.get("rows")
    is_table = summary.get("type") == "dataframe" and not summary.get("kind")
    if not (is_table and isinstance(listed, list)):
        return None
    # What indexes the rows is no column.
    columns = [_column(each) for each in listed if not each.get("index")]
    columns += [Column(str(each), "text") for each in summary.get("more_columns") or ()]
    name, library = str(summary.get("name") or ""), str(summary.get("library") or "")
    return Table(name, rows if isinstance(rows, int) else None, tuple(columns), library)


def _column(summary: Mapping[str, Any]) -> Column:
    name, dtype = str(summary["name"]), str(summary.get("dtype", ""))
    samples, missing = map(str, summary.get("samples") or ()), {*words.filler("missing"), ""}
    seen = tuple(each for each in samples if each.strip().casefold() not in missing)
    found = _KIND.match(dtype.lower())
    kind = str(found.lastgroup) if found else "text"
    is_year = all(re.fullmatch(r"(?:1[5-9]|20)\d\d(?:\.0)?", each) for each in seen)
    is_year &= bool(words.filler("years") & {*words.fold(name)})
    kind = "year" if kind == "number" and is_year else kind
    shapes = words.table()["dates"].items() if kind == "text" and seen else ()
    how = next((how for shape, how in shapes if all(re.fullmatch(shape, s) for s in seen)), "")
    column = Column(name, kind, dtype, seen, int(summary.get("missing") or 0))
    return replace(column, kind="date", made_of=(column,), how=how) if how else column


@dataclass(frozen=True)
class Filter:
    """Rows to keep."""

    column: Column
    op: str
    values: tuple[str | int | float, ...] = ()


@dataclass
class Query:
    """One table, chart, number or change. ``do`` says which; the rest are its slots.

    Args:
        agg: the function of the one column of an aggregate; ``count`` counts rows.
        size: the percentile, where that is the function; the rows of a rolling window.
        columns: those that are computed, drawn, shown or changed.
        share: of the ``whole``.
    """

    table: str = ""
    do: str = ""
    filters: list[Filter] = field(default_factory=list)
    any_of: bool = False
    groups: list[Column] = field(default_factory=list)
    agg: str = ""
    size: float = 0
    columns: list[Column] = field(default_factory=list)
    sort: Column | None = None
    ascending: bool = False
    limit: float | None = None
    chart: str = ""
    share: str = ""
    window: str = ""
    text: str = ""
    notes: list[str] = field(default_factory=list)


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


def load(path: str, name: str, options: Mapping[str, Any], signed: Sequence[str] = ()) -> Arguments:
    """Read a file; ``options`` are more arguments of the reader, ``signed`` its columns of numbers
    with a sign."""
    suffix = path.casefold().rpartition(".")[2]
    given = {**({"lines": True} if suffix in ("jsonl", "ndjson") else {}), **options}
    listed = [f"{each}={words.literal(value)}" for each, value in given.items()]
    mark = options.get("decimal", "" if options.get("thousands") == "." else ".")
    body = text("load", path, name, words.READERS[suffix], listed, signed, mark)
    return arguments(body, f"Load {path} as {name}")


def arguments(body: str, purpose: str) -> Arguments:
    """Write those of the tool that runs code: ``body`` below its imports, and its heading."""
    body = re.sub(r"\n\s*\n", "\n", body).strip()
    modules = words.table()["imports"].items()
    imports = [line for used, line in modules if re.search(rf"\b{re.escape(used)}", body)]
    return {"code": "\n".join([*imports, "", body] if imports else [body]), "purpose": purpose}


def write(query: Query, table: Table, taken: Sequence[str]) -> Cell:
    """Write the cell that answers ``query``; names in ``taken`` are not bound."""
    title = text("title", query)
    title = title if title.startswith(query.table) else capital(title)
    name = words.unique(words.identifier(title), taken)
    chart = words.unique(f"{name}_chart", taken)
    kinds = [c.name for c in table.texts if c not in [f.column for f in query.filters]]
    given = {"name": name, "chart": chart, "title": title, "kinds": kinds}
    kind = "number" if query.do == "aggregate" and not query.groups else query.do
    body = text(kind, query, given)
    made, drawn = (each if f"{each} = " in body else "" for each in (name, chart))
    is_table = kind not in ("number", "correlation")
    return Cell(body, title, made * is_table, drawn, text("unit", query))


def text(macro: str, *about: Any) -> str:
    """Fill in one of the templates."""
    return str(getattr(_templates(), macro)(*about)).strip()


@cache
def _templates() -> Any:
    loader = PackageLoader("parsimony_kernel.offline", ".")
    env = Environment(loader=loader, trim_blocks=True, lstrip_blocks=True, autoescape=False)
    env.filters |= {each.__name__: each for each in (capital, words.singular, words.spoken)}
    env.filters |= {"py": words.literal, "field": _field, "escaped": re.escape}
    env.filters |= {"month": month_name.__getitem__, "quoted": words.quoted}
    env.filters["slug"] = lambda name: "_".join(words.fold(name))[:40].strip("_")
    env.filters["names"] = lambda columns: list(dict.fromkeys(c.name for c in columns))
    env.tests["identifier"] = str.isidentifier
    env.globals |= words.table()
    return env.get_template("code.j2").module


def capital(text: str) -> str:
    """Begin ``text`` with a capital."""
    return text[:1].upper() + text[1:]


def _field(name: str, kind: str, unit: str = "") -> str:
    """A field of a chart; Vega reads dots, brackets and quotes in it as a path unless escaped."""
    name = re.sub(r"([.:\[\]\\'\"])", r"\\\1", name)
    return words.literal(f"{unit}({name}):{kind}" if unit else f"{name}:{kind}")
