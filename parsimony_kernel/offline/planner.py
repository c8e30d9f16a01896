"""From a transcript to the next step: load, look, compute, publish, finish.

Where a turn stands is read off its transcript each time; nothing is remembered between requests.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rapidfuzz import fuzz

from parsimony_kernel.core.text import counted
from parsimony_kernel.offline import code
from parsimony_kernel.offline.code import Cell
from parsimony_kernel.offline.marks import STOP, Ask, Look, No, Stopped, choose
from parsimony_kernel.offline.patterns import asides, clause, examples
from parsimony_kernel.offline.query import Query
from parsimony_kernel.offline.reader import Reader
from parsimony_kernel.offline.schema import Table, read_table
from parsimony_kernel.offline.transcript import Call, Transcript
from parsimony_kernel.offline.words import (
    Token,
    fold,
    for_markdown,
    identifier,
    is_data_file,
    literal,
    sentence,
    spoken,
    tokenize,
)

MAX_REQUEST = 2_000
REAL_MODEL = (
    "This is the built-in rule-based model (no LLM). For anything else set a model, with its key "
    "in the environment: %agent model openai/gpt-5 (OPENAI_API_KEY), or %%agent --model NAME for "
    "one cell."
)
# What a number or a date looks like in text: such a file may be written in another way.
_ODD = re.compile(r"[-$€£ ]*\d[\d.,]*[ ]?[€$£%]?|\d{1,2}[./-]\d{1,2}[./-]\d{4}.*")
_SEPARATORS = re.compile(r"[;\t|]")


@dataclass(frozen=True)
class Step:
    """What to say, or which tool to call."""

    text: str = ""
    tool: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Made:
    """What a part came to."""

    title: str
    table: str = ""
    chart: str = ""
    told: str = ""
    source: str = ""


@dataclass(eq=False)
class _First(Exception):
    """This tool has to be called first."""

    tool: str
    arguments: dict[str, Any]


def next_step(turn: Transcript, tools: Sequence[str]) -> Step:
    """Decide what to say and which tool to call next; only ``tools`` may be called."""
    planner = _Planner(turn, frozenset(tools))
    try:
        return planner.end("return_done", planner.plan())
    except _First as first:
        return Step("", first.tool, first.arguments)
    except Ask as ask:
        return planner.ask(ask)
    except No as no:
        return planner.unable(str(no))
    except Stopped:
        return planner.end("return_done", "Stopped, as you said. Nothing more was done.")


@dataclass
class _Planner:
    turn: Transcript
    tools: frozenset[str]
    made: list[_Made] = field(default_factory=list)
    loaded: list[tuple[str, Table]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    published: list[str] = field(default_factory=list)
    subject: str = ""
    understood: int = 0

    def __post_init__(self) -> None:
        self.taken = self.turn.taken
        saved = re.findall(r"Saved as ([^.]*)", self.turn.told)
        self.saved = [re.findall(r"`(\w+)`", each) for each in saved]

    # -- endings -----------------------------------------------------------------------------

    def end(self, tool: str, text: str, **arguments: Any) -> Step:
        """Call the tool that ends a turn, or say the same where there is none."""
        return Step("", tool, arguments or {"summary": text}) if tool in self.tools else Step(text)

    def ask(self, ask: Ask) -> Step:
        """Ask the person, where that is possible."""
        if "ask_user" not in self.tools:
            choices = spoken(ask.choices, "or")
            return self.unable(f"{ask.question} Please say it in full: {choices}.")
        return Step("", "ask_user", {"question": ask.question, "choices": [*ask.choices]})

    def unable(self, why: str) -> Step:
        """Say why it cannot be done, and what can."""
        gone = [name for name in sorted(self.turn.gone) if name in self.turn.request]
        why += "".join(f" `{name}` no longer exists: load it again." for name in gone)
        steps = [*(f"`{each}`" for each in self._suggestions()), REAL_MODEL]
        said = " ".join([why, *steps])
        return self.end("return_unable", said, rationale=why, blockers=[why],
                        suggested_next_steps=steps)  # fmt: skip

    def _suggestions(self) -> list[str]:
        """Two requests that would work, of the person's own columns."""
        about = self.turn.tables().get(self.subject)
        for each in filter(None, (about, *self._originals())):
            measures = [c.name for c in each.measures]
            kinds = [c.name for c in sorted(each.texts, key=lambda c: c.is_code)]
            if measures and kinds:
                return [f"mean {measures[0]} by {kinds[0]}", f"top 5 {each.name} by {measures[0]}"]
            return [f"describe {each.name}", f"show the first 5 rows of {each.name}"]
        files = [each for each in self.turn.files if is_data_file(each)][:2]
        return [f"load {each}" for each in files] or examples()[-2:]

    # -- the turn ----------------------------------------------------------------------------

    def plan(self) -> str:
        """Give the summary, once everything is done."""
        request = self.turn.request
        stops = ("stop", "cancel", STOP.casefold())
        if any(each.strip().casefold() in stops for each in self.turn.remarks):
            raise Stopped
        if not request:
            raise No("The request is empty.")
        if len(request) > MAX_REQUEST:
            raise No(f"The request has {len(request):,} characters; the built-in model reads "
                     f"{MAX_REQUEST:,} at most.")  # fmt: skip
        if clause("fix", request):
            raise No("Fixing code takes a model that reads and writes Python.")
        self._restore()
        before: Query | None = None
        for part in _clauses(tokenize(request, self.turn.files)):
            before = self._do(part, before) or before
        return self._summary()

    def _do(self, part: list[Token], before: Query | None) -> Query | None:
        text = " ".join(t.text for t in part)
        found = ((kind, pattern.fullmatch(text)) for pattern, kind in asides())
        kind, aside = next(((kind, match) for kind, match in found if match), ("", None))
        if kind == "help":
            listed = "; ".join([*self._suggestions(), *examples()[9::4]])
            told = f"The built-in rule-based model (no LLM) understands, for example: {listed}."
            self.made.append(_Made("help", told=f"{told} {REAL_MODEL}"))
            return None
        if aside:
            rest = aside.groupdict().get("rest") or ""
            part = [] if clause("it", rest) else tokenize(rest, self.turn.files)
        part, query = self._load(part), None
        if any(t.kind in ("word", "quoted", "number") for t in part):
            query = self._read(part, before)
            is_all = query == Query(query.table, "rows", notes=query.notes)
            if not (is_all and (aside or part[0].low in ("use", "take", "with", "using"))):
                self._compute(query)
        if aside:
            self._publish(kind, aside.groupdict())
        return query

    def _restore(self) -> None:
        """Load again what has gone with its kernel, where the request names it."""
        for name in sorted(name for name in self.turn.gone if name in self.turn.request):
            found = re.findall(rf"Loaded `{name}` from (\S+):", self.turn.told)[-1:]
            found = found or [f for f in self.turn.files if code.name_for_file(f) == name]
            if len(found) == 1:
                self._load_file(found[0], name, set())

    def _choose(self, question: str, choices: Sequence[str]) -> str:
        return choose(self.turn.answers, question, choices)

    # -- files -------------------------------------------------------------------------------

    def _load(self, part: list[Token]) -> list[Token]:
        """Load the files that a part names; what is left of it."""
        left, files = _apart(part)
        for path, name in files:
            self._load_file(self._path(path), name, {t.low for t in part})
        names = {t.name.casefold() for _, t in self.loaded}
        words = {t.low for t in left if t.kind == "word"} - names
        return [] if self.loaded and all(clause("loading", word) for word in words) else left

    def _load_file(self, path: str, name: str, said: set[str]) -> None:
        suffix = path.casefold().rpartition(".")[2]
        options: dict[str, Any] = {}
        if suffix in ("xlsx", "xls"):
            heads = f"pd.read_excel({literal(path)}, sheet_name=None, nrows=0)"
            of = f'pd.Series(list({heads})).to_json(orient="values")'
            look = code.looked(of, f"Look which sheets {path} has")
            listed = json.loads(self._done(self._ran(look)).printed)
            if len(listed) > 1:
                sheets = [each for each in listed if str(each).casefold() in said]
                question = f"{path} has several sheets. Which one do you mean?"
                sheet = sheets[0] if len(sheets) == 1 else self._choose(question, listed)
                options, name = {"sheet_name": sheet}, name or identifier(sheet)
        name = name or code.name_for_file(path)
        call = self._ran(code.load(path, name, options))
        table = self._table_of(call, name)
        is_text = suffix in ("csv", "tsv", "txt") and "FileNotFoundError" not in call.error
        reading = self._sniffed(path) if is_text and (table is None or _is_odd(table)) else {}
        if any(reading.values()):
            call = self._ran(code.load(path, name, **reading))
            table = self._table_of(call, name)
            ways = code.arguments(reading["options"])
            ways += [f"{each} without its sign" for each in reading["signed"]]
            latin = " is not UTF-8" * ("encoding" in reading["options"])
            self.notes.append(f"{path}{latin}: read with {', '.join(ways)}")
        if table is None:
            raise No(f"{path} cannot be read. {call.error[:300]}" if call.error else
                     f"{path} was loaded, and what it holds is not a table.")  # fmt: skip
        if len(table.columns) == 1 and _SEPARATORS.search(table.columns[0].name):
            raise No(f"{path} cannot be read: its header is {table.columns[0].name[:60]!r}.")
        self.loaded.append((path, table))
        self.subject = name
        self.taken.add(name)

    def _table_of(self, call: Call, name: str) -> Table | None:
        told = {t.name: t for t in map(read_table, call.variables) if t is not None}
        return told.get(name) or self.turn.tables().get(name) if call.ok else None

    def _sniffed(self, path: str) -> dict[str, Any]:
        """How a text file is written."""
        try:
            readings = json.loads(self._ran(code.sniffed(path)).printed)
        except ValueError:
            return {}
        says = [each.pop("says") for each in readings]
        if len(says) == 1:
            return dict(readings[0])
        question = f"{path} can be read in {len(says)} ways. Which one?"
        return dict(readings[says.index(self._choose(question, says))])

    def _path(self, path: str) -> str:
        """Find where a file lies, as far as the listing tells; a near miss is a question."""
        low, listed = path.casefold(), [f for f in self.turn.files if is_data_file(f)]
        found = [f for f in listed if f"/{f}".casefold().endswith(f"/{low}")]
        if len(found) == 1:
            return found[0]
        base = low.rpartition("/")[2]
        names = {f: f.casefold().rpartition("/")[2] for f in listed}
        if not path.startswith(("/", "..", "~")) and base not in names.values():
            near = [f for f, other in names.items() if fuzz.ratio(base, other) >= 80]
            if near:
                return self._choose(f"There is no file {path!r}. Which one do you mean?", near)
        return path

    # -- code --------------------------------------------------------------------------------

    def _called(self, tool: str, arguments: dict[str, Any]) -> Call:
        """The call of a tool, whatever came of it; raises ``_First`` until it was answered."""
        if tool not in self.tools:
            raise No(f"There is no tool {tool} here.")
        known = [c for c in self.turn.calls if c.name == tool and c.arguments == arguments]
        answered = [c for c in known[-1:] if c.answer and not c.void]
        if not answered:
            raise _First(tool, arguments)
        return answered[0]

    def _ran(self, cell: Cell) -> Call:
        return self._called("run_code", {"code": cell.code, "purpose": cell.purpose})

    def _done(self, call: Call) -> Call:
        if not call.ok:
            raise No(f"{call.arguments.get('purpose', call.name)}: {call.error[:300]}")
        return call

    def _originals(self) -> list[Table]:
        """The tables that this model has not computed, as far as can be told."""
        made = {name for names in self.saved for name in names}
        made |= {str(v.get("name")) for call in self.turn.calls for v in call.variables}
        made -= {self.subject, *(t.name for _, t in self.loaded)}
        tables = self.turn.tables().values()
        return [t for t in tables if t.name not in made] or list(tables)

    def _read(self, part: Sequence[Token], before: Query | None) -> Query:
        """Read a part about the table that it names, or the one in hand, or one that it fits."""
        known, said = self.turn.tables(), {t.low for t in part if t.kind in ("word", "quoted")}
        subject = self.subject or (before.table if before else "")
        named = [t for t in known.values() if t.name.casefold() in said]
        named = named or [t for t in self._originals() if set(fold(t.name)) <= said]
        first = named[:1] or [t for t in known.values() if t.name == subject]
        others = [t for t in self._originals() if t not in first]
        if not (first or others):
            untold = "The model was not told what is in this notebook."
            nothing = f"There is no table for {self.turn.request[:80]!r}: load a file first."
            raise No(untold if self.turn.context.get("kept_back") else nothing)
        # One that leaves a question is not meant where another leaves none.
        found: list[Query] = []
        left: list[tuple[int, bool, str, Exception]] = []
        for about in (*first, *others):
            try:
                found.append(self._read_about(about, part, before))
            except (Ask, No, Stopped) as no:
                left.append((self.understood, not isinstance(no, No), about.name, no))
            if about in first and (found or left[-1][1]):
                break
        if not found:
            _, _, self.subject, error = max(left, key=lambda each: each[:2])
            raise error
        # The one whose names are said is meant; else the newest that has all that the others have.
        fewest = min(len(query.notes) for query in found)
        fit = {query.table: query for query in found if len(query.notes) == fewest}
        names = {name: {c.name for c in known[name].columns} for name in fit}
        wide = [name for name in fit if all(names[name] >= each for each in names.values())]
        return fit[wide[-1] if wide else self._choose("Which table do you mean?", list(fit))]

    def _read_about(self, about: Table, part: Sequence[Token], before: Query | None) -> Query:
        known: dict[str, Any] = {}
        while True:
            reader = Reader(
                part, about, self.turn, known,
                lambda: before or (None if self.loaded else self._before(about)),
            )  # fmt: skip
            try:
                return reader.read()
            except Look as look:
                call = self._done(self._ran(code.looked(look.expression, look.why)))
                known[look.expression] = None
                with suppress(ValueError):
                    known[look.expression] = json.loads(call.printed)
            finally:
                self.understood = len(reader.marks)

    def _before(self, about: Table) -> Query | None:
        """The request before, where this one may go on from it."""
        query: Query | None = None
        for request, _ in self.turn.earlier[-4:]:
            for part in _clauses(tokenize(request, self.turn.files)):
                left, _ = _apart(part)
                with suppress(Ask, No, Stopped):
                    # The first of them goes on from nothing.
                    query = self._read_about(about, left, query or Query(about.name))
        return query

    def _compute(self, query: Query) -> None:
        about = self.turn.tables()[query.table]
        cell = code.write(query, about, sorted(self.taken))
        call = self._done(self._ran(cell))
        self.taken |= {cell.table, cell.chart} - {""}
        self.notes += query.notes
        if len(self._originals()) > 1 and about.name != self.subject:
            self.notes.append(f"Used `{about.name}`")
        printed = re.sub(r"Empty DataFrame\nColumns: .*\nIndex: .*", "none", call.printed)
        lines = [line for line in printed.splitlines() if line.strip()]
        dates = [c for c in (*query.groups, *query.columns) if c.is_date]
        periods = {each.part or each.name.casefold() for each in dates}
        units = [cell.unit, *[""] * len(lines)]
        told = " ".join(map(sentence, lines, units, [periods] * len(lines)))
        if not (told or cell.table or cell.chart) and query.do != "head":
            told = f"{query.title}: see the step below."
        self.made.append(_Made(query.title, cell.table, cell.chart, told, about.name))
        if query.do in ("rows", "rename", "dropna") and cell.table:
            self.subject = cell.table

    # -- afterwards --------------------------------------------------------------------------

    def _latest(self, *, chart: bool) -> _Made:
        """What is meant by "it": what this turn has made, else what the last one has."""
        if made := [m for m in self.made if (m.chart if chart else m.table)]:
            return made[-1]
        saved = [n for n in (self.saved or [[]])[-1] if n in self.turn.tables()]
        names = self.turn.figures() if chart else saved or [self.subject] * bool(self.subject)
        if not names:
            raise No(f"There is no {'chart' if chart else 'table'} to publish yet.")
        name = names[0] if len(names) == 1 else self._choose("Which one do you mean?", names[::-1])
        title = name.replace("_", " ").strip().capitalize()
        return _Made(title, chart=name) if chart else _Made(title, name)

    def _publish(self, kind: str, given: dict[str, str | None]) -> None:
        """Publish what was made as ``kind``, or write it to a file."""
        title = re.sub(r"(?i)^(the|an?) ", "", (given.get("title") or "").strip("\"'“”‘’`"))
        if kind == "file":
            name = self._latest(chart=False).table
            suffix = (given.get("suffix") or "csv").casefold().replace("excel", "xlsx")
            path = title if "." in title else f"{title or name}.{suffix}"
            is_drawn = re.search("chart|plot|graph", given.get("rest") or "")
            if not path.casefold().endswith((".csv", ".xlsx")) or is_drawn:
                raise No("The built-in model writes tables, to CSV and Excel files.")
            self._done(self._ran(code.export(name, path)))
            self.published.append(f"Wrote `{name}` to {path}.")
            return
        has_chart = any(m.chart for m in self.made) or (not self.made and self.turn.figures())
        as_kind = kind if kind == "dataset" else "chart" if has_chart else "dataset"
        made = self._latest(chart=as_kind == "chart")
        variable = made.chart if as_kind == "chart" else made.table
        own = made.title if kind == "report" else title or made.title
        self._done(self._called(f"return_{as_kind}", {"variable": variable, "title": own}))
        if kind != "report":
            self.published.append(f"Published the {as_kind} {own!r}.")
            return
        files = [p for p, t in self.loaded if t.name == made.source] or [made.source or variable]
        how = f"The {as_kind} `{variable}` was made from {for_markdown(spoken(files))}."
        body = [f"![{for_markdown(own)}](artifact:{variable})", for_markdown(made.told)]
        text = "\n\n".join(filter(None, [*body, f"## How it was made\n\n{how}"]))
        report = {"title": title or own, "body": text, "language": "en"}
        call = self._done(self._called("return_report", report))
        place = call.result.get("page") or call.result.get("path") or ""
        self.published.append(f"Published the report {title or own!r}{f': {place}' * bool(place)}.")

    def _summary(self) -> str:
        parts = [made.told or f"{made.title}." for made in self.made]
        for path, each in self.loaded:
            rows = [] if each.rows is None else [counted(each.rows, "row")]
            size = ", ".join([*rows, counted(len(each.columns), "column")])
            parts.append(f"Loaded `{each.name}` from {path}: {size}.")
        for made in self.made:
            names = [
                f"`{n}`" for n in (made.table, made.chart) if n and n not in self.turn.variables
            ]
            parts += [f"Saved as {spoken(names)}."] if names else []
        parts += [*self.published, *(f"{note}." for note in dict.fromkeys(self.notes))]
        return " ".join(each if each.endswith((".", "?", ":")) else f"{each}." for each in parts)


def _clauses(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """The parts of a request that are requests of their own: from one verb to the next."""
    part: list[Token] = []
    for at, token in enumerate(tokens):
        following = tokens[at + 1].low if at + 1 < len(tokens) else ""
        ends = token.text in (";", "\n", ".") or token.low == "then"
        if ends or (token.low in (",", "and") and clause("verbs", following)):
            yield part
            part = []
        else:
            part.append(token)
    yield part


def _apart(part: Sequence[Token]) -> tuple[list[Token], list[tuple[str, str]]]:
    """A part without its loading, and the files to load with the names they are given."""
    left, files, at = list[Token](), list[tuple[str, str]](), 0
    while at < len(part):
        token = part[at]
        at += 1
        if token.kind != "file" or (left and left[-1].low in ("to", "as", "into")):
            left.append(token)
            continue
        name = ""
        if at + 1 < len(part) and part[at].low in ("as", "into"):
            name, at = part[at + 1].bare, at + 2
        while left and clause("loading", left[-1].low):
            left.pop()
        files.append((token.bare, name))
    return left, files


def _is_odd(table: Table) -> bool:
    """Whether what was loaded may be written in another way than pandas expects."""
    names = [c.name for c in table.columns]
    if any(_SEPARATORS.search(n) or n.startswith("Unnamed:") for n in names):
        return True
    texts = [c for c in table.columns if c.kind == "text" and c.samples]
    return any(all(map(_ODD.fullmatch, c.samples)) for c in texts)
