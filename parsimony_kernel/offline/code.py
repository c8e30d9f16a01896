"""What the messages of a request say, a query about a table of them, and the code that answers it.

Tables are read from the summaries in the context and in tool results, and from nothing else.
Reading never fails: whatever is odd or shortened is simply not known. The expressions stand here,
the cells in the templates of ``code.j2``.
"""

import json
import re
from calendar import month_name
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader

from parsimony_kernel.core.conversation import request_in
from parsimony_kernel.core.fuzzy import alike
from parsimony_kernel.offline import words

Arguments = dict[str, Any]
_UNIT = re.compile(words.table()["spellings"]["unit"])
_KIND = re.compile("(?P<date>date|timestamp)|(?P<boolean>bool)|(?P<number>u?int|float|decimal)")


@dataclass(frozen=True)
class Column:
    """A column of a table, or one that code computes from others.

    Args:
        kind: ``number``, ``year``, ``date``, ``boolean``, ``text``, ``nested`` for lists and
            dictionaries, or ``cycle`` for a part of the calendar that comes again.
        made_of: the columns that it is computed from, by the template ``how``: the parts of a
            difference, the date of a part, the text of a date, the spellings of a text.
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
    def flags(self) -> Sequence[str]:
        """Its words for yes and for no; empty where it holds others."""
        if self.kind == "boolean":
            return ("true", "false")
        seen = {each.strip("' ").casefold() for each in self.samples if self.kind == "text"}
        return next((pair for pair in words.table()["spellings"]["flags"] if {*pair} == seen), ())

    @property
    def base(self) -> "Column":
        """The column of dates that it is a part of, or of texts as spelled; else itself."""
        return self.made_of[0] if self.made_of and (self.part or self.kind == "text") else self

    @property
    def plain(self) -> str:
        """Its name without the unit."""
        return self.name if self.how.startswith("(") else _UNIT.sub("", self.name)

    @property
    def unit(self) -> str:
        """The unit that its name ends with; empty without one."""
        units = {each.unit for each in self.made_of} if self.how.startswith("(") else set()
        found = None if units else _UNIT.search(self.name)
        return found[1] if found and not self.part else units.pop() if len(units) == 1 else ""

    @property
    def label(self) -> str:
        """What it is, in words."""
        if self.part:
            return str(words.table()["parts"][self.part].get("label", self.part))
        return " ".join(self.plain.replace("_", " ").split()) or self.name

    def looks(self, kind: str) -> bool:
        """Whether its texts look as a clause of the table of patterns says."""
        texts = [e for e in self.samples if re.search(r"\d", e)] * (self.kind in ("text", "date"))
        return bool(texts) and all(words.clause(kind, each) for each in texts)

    @property
    def is_calendar(self) -> bool:
        """Whether it names months, quarters or weeks."""
        return self.kind == "text" and self.name.casefold() in words.table()["parts"]

    @property
    def is_midnight(self) -> bool:
        """Whether its dates tell no time of the day."""
        return all(":" not in each or " 00:00" in each for each in self.samples)

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

    @property
    def letter(self) -> str:
        """What its mark says: a measure, yes or no, a time, or any other."""
        return "m" if self.is_measure else "b" if self.flags else "t" if self.is_time else "k"


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

    def called(self, text: str) -> list[Column]:
        """Find the columns of that name, else those called so without their unit, in any number."""
        stem = words.stem(text)
        found = [c for c in self.columns if stem and stem in map(words.stem, (c.name, c.plain))]
        return [c for c in found if c.name.casefold() == text.casefold()] or found

    def nearly(self, name: tuple[str, ...]) -> list[Column]:
        """Find the columns of whose names all words are a part, or nearly the whole."""
        others = words.keywords() - {"time", "rate"}
        if not name or any(w in others or w.isdigit() for w in name):
            return self.called(" ".join(name))
        mine = words.canonical(name)
        own = {c: words.canonical(words.fold(c.name)) for c in self.columns}
        found = [c for c in own if all(any(alike(w, each) for each in own[c]) for w in mine)]
        return [c for c in found if own[c] == mine] or found

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
    seen = tuple(each for each in samples if each.strip("' ").casefold() not in missing)
    found = _KIND.match(dtype.lower())
    kind = str(found.lastgroup) if found else "text"
    is_year = all(re.fullmatch(r"(?:1[5-9]|20)\d\d(?:\.0)?", each) for each in seen)
    is_year &= bool(words.filler("years") & {*words.fold(name)})
    kind = "year" if kind == "number" and is_year else kind
    is_nested = dtype == "object" and "".join(seen).startswith(("[", "{"))
    kind = "nested" if is_nested else kind
    is_text = kind == "text" and seen and not dtype.startswith("period")
    shapes = words.table()["dates"].items() if is_text else ()
    how = next((how for shape, how in shapes if all(re.fullmatch(shape, s) for s in seen)), "")
    column = Column(name, kind, dtype, seen, int(summary.get("missing") or 0))
    kind = "date" if how else kind
    if dtype == "object" and seen and {*seen} <= {"True", "False"}:  # with gaps between them
        kind, how = "boolean", '{0}.astype("boolean")'
    if dtype.startswith("datetime64["):  # charts draw the times of a zone in that of the reader
        how = "{0}.dt.tz_localize(None)"
    if kind == "text" and (summary.get("spellings") or not seen):
        how = words.table()["spellings"]["one"]
    return replace(column, kind=kind, made_of=(column,), how=how) if how else column


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

    def keep(self, new: Filter) -> None:
        """Add a filter; a column is not to be two values at once."""
        column = new.column
        if column.kind == "text" and new.op in ("true", "false"):
            is_told = new.op == "false" and column.missing
            self.notes += [f"Rows without {column.label} are left out"] * bool(is_told)
            word = column.flags[new.op == "false"]
            same = tuple(each for each in column.samples if each.casefold() == word)
            new = Filter(column, "said", (word,)) if column.made_of else Filter(column, "in", same)
        if column.kind == "text" and "missing" not in new.op:
            new = replace(new, column=column.base)
        ops = [f.op for f in (*self.filters, new) if f.column == new.column]
        no_if(len(ops) > 1 and not {*ops} <= {">", ">=", "<", "<="}, "parts")
        self.filters.append(new)


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


def load(path: str, name: str, reading: Mapping[str, Any]) -> Arguments:
    """Read a file; a ``reading`` has more arguments of the reader as ``options``, and ``signed``
    columns of numbers with a sign."""
    given = reading["options"], reading.get("signed", ())
    body = text("load", path, path.casefold().rpartition(".")[2], name, *given)
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


_CONTEXT, _CHANGES, _REQUEST = "<notebook_context>", "<notebook_changes>", "<request>"
_MOST = 4  # choices of a question
_ASIDE = ("<context_addendum>", _CHANGES, _CONTEXT)


@dataclass(eq=False)
class Unclear(Exception):
    """A person must say which of ``choices``; without any, ``text`` says why it cannot be done."""

    text: str
    choices: Sequence[str] = ()


def no_if(is_so: object, why: str, *about: object) -> None:
    """Refuse with the sentence ``why`` of the table of patterns, where something is so."""
    if is_so:
        raise Unclear(words.table()["no"][why].format(*about))


def no_text(column: Column) -> None:
    """Refuse a column whose texts are numbers, or have another order than that of their letters."""
    is_text = column.kind == "text"
    no_if(is_text and column.looks("number"), "text", column.name, "numbers")
    no_if(column.is_calendar or (is_text and column.looks("amount")), "compute", column.name)


@dataclass(frozen=True)
class Answer:
    """What came of a tool call: its error, and what it told.

    Args:
        error: the kind of the error and its text; empty when there was none.
        result: what code printed as ``stdout``.
        variables: those that it tells of, by name.
    """

    error: str
    result: Mapping[str, Any]
    variables: Mapping[str, Mapping[str, Any]]


def key(tool: str, arguments: Mapping[str, Any]) -> str:
    """Name a call: its answer stands under this."""
    return json.dumps([tool, arguments], sort_keys=True)


@dataclass
class Transcript:
    """The turn, read.

    Args:
        calls: the answers of tools, by ``key``; without those whose variables have gone.
        replies: what the person said, by the question.
        changed: the variables that were changed while a question waited.
        told: what the earlier requests came to.
        last: what the request before came to.
    """

    request: str = ""
    context: Mapping[str, Any] = field(default_factory=dict)
    calls: dict[str, Answer] = field(default_factory=dict)
    replies: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    changed: list[str] = field(default_factory=list)
    told: str = ""
    last: str = ""

    @property
    def variables(self) -> dict[str, Mapping[str, Any]]:
        """The notebook's variables by name, less those that have gone."""
        listed = self.context.get("variables") or ()
        return {str(v["name"]): v for v in listed if v["name"] not in self.gone}

    @property
    def made(self) -> dict[str, Mapping[str, Any]]:
        """The variables that this turn has made."""
        return {name: v for call in self.calls.values() for name, v in call.variables.items()}

    def choose(self, question: str, choices: Sequence[str], *, holds: bool = False) -> str:
        """Return the choice that the person made in this turn or, where it ``holds``, before.

        A choice holds only for a question with the words and the table that it is about.

        Raises:
            Unclear: until there is a reply that is one of the choices.
        """
        reply = self.replies.get(question)
        before = (self.context.get("answers") or {}).get(question, "") if holds else ""
        said = (before if reply is None else reply).strip()
        fit, low = [each for each in choices if said == each], said.casefold()
        fit = fit or [e for e in choices if low in (e.casefold(), *e.casefold().split())]
        if len(fit) == 1:
            return fit[0]
        if reply is None:
            raise Unclear(question, choices[:_MOST])
        no_if(low in ("stop", "no", "cancel"), "stopped")
        return self.choose(f"{reply[:80]!r} is none of the choices. {question}", choices)

    def tables(self) -> dict[str, Table]:
        """What is known of the tables that exist; later answers win."""
        told = map(read_table, (self.variables | self.made).values())
        return {each.name: each for each in told if each and each.name and each.columns}


def function_of(query: Query, turn: Transcript) -> str:
    """The function of the one column of ``query``, which a request does not name."""
    column, groups = query.columns[0], query.groups
    no_if(not column.is_measure, "compute", column.name)
    # "Total price" is a total, whether that is the column's name or the function's.
    name = words.fold(column.name)
    is_total = words.aggregate(name[0]) == "sum" or {*name} & words.filler("totals")
    if is_total and not column.made_of:
        return "sum"
    kinds = ("mean", "total", "median", "lowest" if query.ascending else "highest")
    options = [f"{kind} {column.name}" for kind in kinds]
    of = f"of each {groups[0].label}?" if groups else "do you mean?"
    return words.aggregate(turn.choose(f"Which {column.name} {of}", options).partition(" ")[0])


def read(messages: Sequence[Mapping[str, Any]]) -> Transcript:
    """Read what ``messages`` say of the newest turn."""
    turn, context, said, asked = Transcript(), "", list[str](), ""
    answers = {
        m.get("tool_call_id"): _parsed(_text(m)) for m in messages if m.get("role") == "tool"
    }
    for message in messages:
        text, role = _text(message), message.get("role")
        begun = text.startswith((_CONTEXT, _REQUEST)) and f"{_REQUEST}\n" in text
        # Without a notebook, the request is the first message.
        if role == "user" and (begun or not turn.request):
            # Nothing is left of a turn that was undone, refused or handed back.
            kept = [t for t in said if not t.startswith("Undone ")]
            told = " ".join(t for t in kept if not t.startswith("Not done; "))
            request = request_in([message]) or text
            turn, asked = Transcript(request.strip(), told=told, last="".join(kept[-1:])), ""
        elif role == "user" and text.startswith(_CHANGES):
            turn.gone |= {*(_parsed(text).get("gone") or ())}
            turn.changed += _parsed(text).get("changed") or () if turn.calls else ()
            turn.calls = {k: c for k, c in turn.calls.items() if not turn.gone & {*c.variables}}
        elif role == "user" and asked and not text.startswith(_ASIDE):
            turn.replies.setdefault(asked, text.strip())
        for call in message.get("tool_calls") or ():
            arguments = _parsed(call["function"]["arguments"])
            asked = str(arguments.get("question", asked))
            if envelope := answers.get(call["id"]):
                answer = _answer(envelope)
                if turn.gone & {*answer.variables}:  # what failed without them is tried again
                    turn.calls = {k: c for k, c in turn.calls.items() if "NameError" not in c.error}
                turn.calls[key(call["function"]["name"], arguments)] = answer
        context = text if role == "user" and text.startswith(_CONTEXT) else context
        said += [text] * (role == "assistant")
    turn.context = _parsed(context)
    turn.gone -= {*turn.made}
    return turn


def _answer(told: Mapping[str, Any]) -> Answer:
    kind, result = str(told.get("error_type") or ""), told.get("result")
    # An error without a text is one all the same.
    keys = ("error_message", "message", "reason")
    text = next((str(told[key]) for key in keys if told.get(key)), "It failed.")
    text = "There is no such file." if kind == "FileNotFoundError" else text
    # A sentence needs no name of a class before it.
    error = text if text.startswith(kind) or text.endswith(".") else f"{kind}: {text}"
    result = result if isinstance(result, dict) else {}
    variables = {str(v.get("name")): v for v in result.get("variables") or ()}
    return Answer(error if "error" in told else "", result, variables)


def _text(message: Mapping[str, Any]) -> str:
    return str(message.get("content") or "")


def _parsed(text: str) -> dict[str, Any]:
    """The JSON that ``text`` begins with, behind its tag; empty where it is odd or cut."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text, max(text.find("{"), 0))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
