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

from parsimony_kernel.offline import code
from parsimony_kernel.offline.code import Cell
from parsimony_kernel.offline.marks import STOP, Ask, Look, No, Stopped, choose
from parsimony_kernel.offline.patterns import asides, examples, keywords
from parsimony_kernel.offline.query import Query
from parsimony_kernel.offline.reader import Reader
from parsimony_kernel.offline.schema import Table, read_table
from parsimony_kernel.offline.transcript import Call, Transcript, bound_names
from parsimony_kernel.offline.words import (
    Token,
    canonical,
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
_VERBS = re.compile(
    "plot|draw|chart|graph|show|list|give|describe|summari[sz]e|publish|export|make|write|create|"
    "add|rename|sort|count|compute|calculate|drop|fill|keep|refresh|save|find|tell|load|then"
)
_LOADING = re.compile(
    "load|read|open|import|the|file|please|data|from|and|table|it|me|show|let's|sheet|of|to|for|in|"
    "with|as|into"
)
_IT = re.compile(
    r"(?i)(?:the |,|and )*(?:it|this|that|them|charts?|plot|graph|table|results?|data)?"
)
# What a number or a date looks like in text: such a file may be written in another way.
_ODD = re.compile(r"[-$€£ ]*\d[\d.,]*[ ]?[€$£%]?|\d{1,2}[./-]\d{1,2}[./-]\d{4}.*")
_SEPARATORS = re.compile(r"[;\t|]")
_FIX = re.compile(
    r"(?i)\s*(?:a cell of this notebook failed|(?:please )?(?:fix|mend|repair|debug))\b"
)


@dataclass(frozen=True)
class Step:
    """What to say and which tools to call."""

    text: str
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()


@dataclass
class _Made:
    """What a clause came to."""

    title: str
    table: str = ""
    chart: str = ""
    told: str = ""
    source: str = ""


class _First(Exception):
    """This tool has to be called first."""

    def __init__(self, name: str, arguments: dict[str, Any]) -> None:
        super().__init__(name)
        self.call = (name, arguments)


def next_step(turn: Transcript, tools: Sequence[str]) -> Step:
    """Decide what to say and which tools to call next; only ``tools`` may be called."""
    planner = _Planner(turn, frozenset(tools))
    try:
        return planner.finish(planner.plan())
    except _First as first:
        return Step("", (first.call,))
    except Ask as ask:
        return planner.ask(ask)
    except No as no:
        return planner.unable(str(no))
    except Stopped:
        return planner.finish("Stopped, as you said. Nothing more was done.")


@dataclass
class _Planner:
    turn: Transcript
    tools: frozenset[str]
    made: list[_Made] = field(default_factory=list)
    loaded: list[tuple[str, Table]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    published: list[str] = field(default_factory=list)
    subject: str = ""
    about: str = ""

    def __post_init__(self) -> None:
        self.taken = set(self.turn.names) - self.turn.replaceable
        self.told = " ".join(summary for _, summary in self.turn.earlier)

    # -- endings -----------------------------------------------------------------------------

    def finish(self, summary: str) -> Step:
        if "return_done" not in self.tools:
            return Step(summary)
        return Step("", (("return_done", {"summary": summary}),))

    def ask(self, ask: Ask) -> Step:
        if "ask_user" not in self.tools:
            choices = spoken(ask.choices, "or")
            return self.unable(f"{ask.question} Please say it in full: {choices}.")
        return Step("", (("ask_user", {"question": ask.question, "choices": [*ask.choices]}),))

    def unable(self, why: str) -> Step:
        steps = [*(f"`{each}`" for each in self._suggestions()), REAL_MODEL]
        if "return_unable" not in self.tools:
            return Step(" ".join([why, *steps]))
        arguments = {"rationale": why, "blockers": [why], "suggested_next_steps": steps}
        return Step("", (("return_unable", arguments),))

    def _suggestions(self) -> list[str]:
        """Two requests that would work, of the person's own columns."""
        about = self.turn.tables().get(self.about or self.subject)
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
        if _FIX.match(request):
            raise No("Fixing code takes a model that reads and writes Python.")
        if "run_code" not in self.tools:
            raise No("There is no tool to run code with.")
        before: Query | None = None
        self._restore()
        for clause in _clauses(tokenize(request, self.turn.files)):
            before = self._do(clause, before) or before
        return self._summary()

    def _do(self, clause: list[Token], before: Query | None) -> Query | None:
        text = " ".join(t.text for t in clause)
        found = ((kind, pattern.fullmatch(text)) for pattern, kind in asides())
        kind, aside = next(((kind, match) for kind, match in found if match), ("", None))
        if kind == "help":
            self._help()
            return None
        if aside:
            rest = aside.groupdict().get("rest") or ""
            clause = [] if _IT.fullmatch(rest) else tokenize(rest, self.turn.files)
        clause, query = self._load(clause), None
        if any(t.kind in ("word", "quoted", "number") for t in clause):
            query = self._read(clause, before)
            is_all = query == Query(query.table, "rows", notes=query.notes)
            if is_all and clause[0].low in ("use", "take", "with", "using"):
                self.subject = query.table
            elif not (aside and is_all):
                self._compute(query)
        if aside:
            self._publish(kind, aside.groupdict(), query.table if query else self.subject)
        return query

    def _help(self) -> None:
        listed = "; ".join([*self._suggestions(), *examples()[9::4]])
        told = f"The built-in rule-based model (no LLM) understands, for example: {listed}."
        self.made.append(_Made("help", told=f"{told} {REAL_MODEL}"))

    def _restore(self) -> None:
        """Load again what has gone with its kernel, where the request is about it."""
        for name in sorted(self.turn.gone):
            is_said = name in self.turn.request
            if not is_said and self.turn.tables():
                continue
            found = re.findall(rf"Loaded `{name}` from (\S+):", self.told)[-1:]
            found = found or [f for f in self.turn.files if code.name_for_file(f) == name]
            if len(found) != 1 and is_said:
                raise No(f"`{name}` no longer exists: run the cell that makes it, then ask again.")
            if len(found) != 1:
                continue
            self._load_file(found[0], name)
            _, now = self.loaded.pop()
            listed = (read_table(v) for v in self.turn.variables if v.get("name") == name)
            had = next(listed, None)
            if had is not None and (now.rows, len(now.columns)) != (had.rows, len(had.columns)):
                raise No(f"{found[0]} has changed since `{name}` was loaded: load it again.")

    def _choose(self, question: str, choices: Sequence[str]) -> str:
        return choose(self.turn.answers, question, choices)

    # -- files -------------------------------------------------------------------------------

    def _load(self, clause: list[Token]) -> list[Token]:
        """Load the files that a clause names; what is left of it."""
        left, files = _apart(clause)
        for path, name in files:
            self._load_file(path, name, said={t.low for t in clause})
        names = {t.name.casefold() for _, t in self.loaded}
        words = {t.low for t in left if t.kind == "word"} - names
        return [] if self.loaded and all(map(_LOADING.fullmatch, words)) else left

    def _load_file(self, path: str, name: str, said: set[str] | None = None) -> None:
        path = self._path(path)
        options: dict[str, Any] = {}
        is_binary = path.casefold().endswith(("xlsx", "xls", "parquet", "pq"))
        if path.casefold().endswith(("xlsx", "xls")):
            heads = f"pd.read_excel({literal(path)}, sheet_name=None, nrows=0)"
            of = f'pd.Series(list({heads})).to_json(orient="values")'
            listed = json.loads(
                self._done(code.looked(of, f"Look which sheets {path} has")).printed
            )
            if len(listed) > 1:
                named = [each for each in listed if str(each).casefold() in (said or ())]
                question = f"{path} has several sheets. Which one do you mean?"
                sheet = named[0] if len(named) == 1 else self._choose(question, listed)
                options, name = {"sheet_name": sheet}, name or identifier(sheet)
        name = name or code.name_for_file(path)
        call = self._ran(code.load(path, name, options))
        table = self._table_of(call, name)
        is_found = "FileNotFoundError" not in call.error
        if is_found and not is_binary and (table is None or _is_odd(table)):
            call, options = self._read_otherwise(path, name, call)
            table = self._table_of(call, name)
        if table is None:
            raise No(f"{path} cannot be read. {call.error[:300]}" if call.error else
                     f"{path} was loaded, and what it holds is not a table.")  # fmt: skip
        if len(table.columns) == 1 and _SEPARATORS.search(table.columns[0].name):
            raise No(f"{path} cannot be read: its header is {table.columns[0].name[:60]!r}.")
        if options.get("encoding"):
            self.notes.append(f"{path} is not UTF-8, so it was read as {options['encoding']}")
        if others := code.arguments({k: v for k, v in options.items() if k != "encoding"}):
            self.notes.append(f"Read {path} with {', '.join(others)}")
        self.loaded.append((path, table))
        self.subject = name
        self.taken.add(name)

    def _table_of(self, call: Call, name: str) -> Table | None:
        listed = call.result.get("variables") if call.ok else ()
        read = map(read_table, listed if isinstance(listed, list) else ())
        found = next((t for t in read if t is not None and t.name == name), None)
        return found or (self.turn.tables().get(name) if call.ok else None)

    def _read_otherwise(self, path: str, name: str, call: Call) -> tuple[Call, dict[str, Any]]:
        """Read a text file again as it is written, where that is not as pandas expects."""
        if "json" in path.casefold().rpartition(".")[2]:
            options: dict[str, Any] = {"lines": True} if "Trailing data" in call.error else {}
            return (self._ran(code.load(path, name, options)) if options else call), options
        try:
            readings = json.loads(self._ran(code.sniffed(path)).printed)
        except ValueError:
            return call, {}
        says = [each["says"] for each in readings]
        chosen = readings[0]
        if len(readings) > 1:
            says_so = self._choose(f"{path} can be read in {len(says)} ways. Which one?", says)
            chosen = readings[says.index(says_so)]
        options, signed = chosen["options"], chosen["signed"]
        if not options and not signed:
            return call, {}
        if signed:
            self.notes.append(f"Read {spoken(signed)} as numbers, without their signs")
        return self._ran(code.load(path, name, options, signed)), options

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
        folder = self.turn.working_folder.strip("/")
        above = f"{'../' * len(folder.split('/'))}{path}" if folder not in ("", ".") else ""
        failed = [c for c in self.turn.calls if "FileNotFoundError" in c.error and path in c.code]
        return above if above and failed else path

    # -- code --------------------------------------------------------------------------------

    def _ran(self, cell: Cell) -> Call:
        """The call that ran ``cell``, whatever came of it; raises ``_First`` until it has run."""
        found = [c for c in self.turn.calls if c.code == cell.code and not c.void]
        if not found or not found[-1].answer:
            raise _First("run_code", {"code": cell.code, "purpose": cell.purpose})
        return found[-1]

    def _done(self, cell: Cell) -> Call:
        call = self._ran(cell)
        if not call.ok:
            raise No(f"{cell.purpose}: {call.error[:300]}")
        return call

    def _originals(self) -> list[Table]:
        """The tables that this model has not computed, as far as can be told."""
        made = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"Saved as ([^.]*)\.", self.told))))
        made |= {n for c in self.turn.calls for n in bound_names(c.code)}
        made -= {self.subject, *(t.name for _, t in self.loaded)}
        tables = self.turn.tables().values()
        return [t for t in tables if t.name not in made] or list(tables)

    def _about(self, clause: Sequence[Token], before: Query | None) -> Table:
        """Choose the table that a request is about: named, in hand, or whose names it says most."""
        known, said = self.turn.tables(), {t.low for t in clause if t.kind in ("word", "quoted")}
        subject = self.subject or (before.table if before else "")
        words = set(canonical(w for t in clause for w in fold(t.bare))) - keywords()
        named = [t for t in known.values() if t.name.casefold() in said]
        named = named or [t for t in self._originals() if set(fold(t.name)) <= said]
        pool = named[:1] or ([known[subject]] if subject in known else [])
        rest = words - {w for each in pool[:1] for w in canonical(fold(each.name))}
        most = max((each.knows(rest) for each in self._originals()), default=0)
        if not pool or (most and not pool[0].knows(rest)):
            # A column of another table may have the name of the one that is named.
            pool = [each for each in self._originals() if each.knows(rest) == most]
        if pool[1:]:
            # One that leaves a question is not meant where another leaves none.
            fits = [self._fits(each, clause, before) for each in pool]
            pool = [each for each, fit in zip(pool, fits, strict=True) if fit == max(fits)]
            pool = pool if max(fits) else pool[-1:]
        if not pool:
            untold = "The model was not told what is in this notebook."
            nothing = f"There is no table for {self.turn.request[:80]!r}: load a file first."
            raise No(untold if self.turn.kept_back else nothing)
        # The newest that has all that the others have is meant, and said.
        names = {t.name: {c.name for c in t.columns} for t in pool}
        wide = [t for t in pool if all(names[t.name] >= each for each in names.values())]
        if wide:
            return wide[-1]
        name = self._choose("Which table do you mean?", [t.name for t in pool])
        return known[name]

    def _fits(self, about: Table, clause: Sequence[Token], before: Query | None) -> int:
        """Whether a request can be about a table: 2, with a question 1, or 0."""
        try:
            self._read_about(about, clause, before)
        except No:
            return 0
        except (Ask, Stopped):
            return 1
        return 2

    def _read(self, clause: Sequence[Token], before: Query | None) -> Query:
        about = self._about(clause, before)
        self.about = about.name
        return self._read_about(about, clause, before)

    def _read_about(self, about: Table, clause: Sequence[Token], before: Query | None) -> Query:
        known: dict[str, Any] = {}
        while True:
            reader = Reader(
                clause, about, self.turn.answers, known, [*self.turn.tables()], self.told,
                lambda: before or (None if self.loaded else self._before(about)),
            )  # fmt: skip
            try:
                return reader.read()
            except Look as look:
                call = self._done(code.looked(look.expression, look.why))
                known[look.expression] = None
                with suppress(ValueError):
                    known[look.expression] = json.loads(call.printed)

    def _before(self, about: Table) -> Query | None:
        """The request before, where this one may go on from it."""
        query: Query | None = None
        names = {name.casefold() for name in self.turn.tables()}
        for request, _ in self.turn.earlier[-4:]:
            for part in _clauses(tokenize(request, self.turn.files)):
                left, _ = _apart(part)
                words = {t.low for t in left if t.kind == "word"} - names
                if all(map(_LOADING.fullmatch, words)):
                    continue
                with suppress(Ask, No, Stopped):
                    # The first of them goes on from nothing.
                    query = self._read_about(about, left, query or Query(about.name))
        return query

    def _compute(self, query: Query) -> None:
        about = self.turn.tables()[query.table]
        cell = code.write(query, about, sorted(self.taken))
        call = self._done(cell)
        self.taken |= {cell.table, cell.chart} - {""}
        self.notes += query.notes
        if len(self._originals()) > 1 and about.name != self.subject:
            self.notes.append(f"Used `{about.name}`")
        printed = re.sub(r"Empty DataFrame\nColumns: .*\nIndex: .*", "none", call.printed)
        lines = [line for line in printed.splitlines() if line.strip()]
        measured = [m.column for m in query.measures if m.column]
        for each in (*query.groups, *query.columns, *measured):
            for period, cut in {"month": r"(\d{4}-\d\d)-01", "year": r"(\d{4})-01-01"}.items():
                if each.is_date and period in (each.part, each.name.casefold()):
                    lines = [re.sub(rf"{cut}(?: 00:00:00)?", r"\1", line) for line in lines]
        units = [*cell.units, *[""] * len(lines)]
        told = " ".join(sentence(*each) for each in zip(lines, units, strict=False))
        if not (told or cell.table or cell.chart) and query.do != "head":
            told = f"{query.title}: see the step below."
        self.made.append(_Made(query.title, cell.table, cell.chart, told, about.name))
        if query.do in ("rows", "rename", "dropna") and cell.table:
            self.subject = cell.table

    # -- afterwards --------------------------------------------------------------------------

    def _latest(self, table: str, *, chart: bool = False) -> _Made:
        """What is meant by "it": what this turn has made, else what the last one has."""
        if made := [m for m in self.made if (m.chart if chart else m.table)]:
            return made[-1]
        saved = re.findall(r"Saved as ([^.]*)\.", self.told)[-1:]
        named = re.findall(r"`(\w+)`", "".join(saved))
        names = self.turn.figures() if chart else [n for n in named if n in self.turn.tables()]
        names = names or ([table] if table and not chart else [])
        if not names:
            raise No(f"There is no {'chart' if chart else 'table'} to publish yet.")
        name = names[0] if len(names) == 1 else self._choose("Which one do you mean?", names[::-1])
        title = name.replace("_", " ").strip().capitalize()
        return _Made(title, chart=name) if chart else _Made(title, name)

    def _publish(self, kind: str, given: dict[str, str | None], table: str) -> None:
        """Publish what was made as ``kind``, or write it to a file."""
        title = re.sub(r"(?i)^(the|an?) ", "", (given.get("title") or "").strip("\"'“”‘’`"))
        if kind == "file":
            name, suffix = self._latest(table).table, given.get("suffix") or "csv"
            path = title or f"{name}.{suffix.casefold().replace('excel', 'xlsx')}"
            path = path if "." in path else f"{path}.csv"
            if not is_data_file(path) or re.search("chart|plot|graph", given.get("rest") or ""):
                raise No("The built-in model writes tables, to CSV, Excel, Parquet or JSON files.")
            self._done(code.export(name, path))
            self.published.append(f"Wrote `{name}` to {path}.")
            return
        has_chart = any(m.chart for m in self.made) or (not self.made and self.turn.figures())
        as_kind = kind if kind == "dataset" else "chart" if has_chart else "dataset"
        made = self._latest(table, chart=as_kind == "chart")
        variable = made.chart if as_kind == "chart" else made.table
        own = made.title if kind == "report" else title or made.title
        self._tool(f"return_{as_kind}", {"variable": variable, "title": own})
        if kind != "report":
            self.published.append(f"Published the {as_kind} {own!r}.")
            return
        files = [p for p, t in self.loaded if t.name == made.source] or [made.source or variable]
        body = [f"![{for_markdown(own)}](artifact:{variable})", for_markdown(made.told)]
        how = f"The {as_kind} `{variable}` was made from {for_markdown(spoken(files))}."
        body.append(f"## How it was made\n\n{how}")
        text = "\n\n".join(filter(None, body))
        call = self._tool("return_report", {"title": title or own, "body": text, "language": "en"})
        place = call.result.get("page") or call.result.get("path") or ""
        self.published.append(f"Published the report {title or own!r}{f': {place}' * bool(place)}.")

    def _tool(self, name: str, arguments: dict[str, Any]) -> Call:
        if name not in self.tools:
            raise No(f"There is no tool {name} here.")
        found = [c for c in self.turn.calls if c.name == name and c.arguments == arguments]
        if not found or not found[-1].answer:
            raise _First(name, arguments)
        if not found[-1].ok:
            raise No(found[-1].error[:400])
        return found[-1]

    def _summary(self) -> str:
        parts = [made.told or f"{made.title}." for made in self.made]
        for path, each in self.loaded:
            columns = f"{len(each.columns)} column{'s' * (len(each.columns) != 1)}"
            rows = "" if each.rows is None else f"{each.rows:,} row{'s' * (each.rows != 1)}, "
            parts.append(f"Loaded `{each.name}` from {path}: {rows}{columns}.")
        for made in self.made:
            names = [f"`{n}`" for n in (made.table, made.chart) if n and n not in self.turn.names]
            parts += [f"Saved as {spoken(names)}."] if names else []
        parts += [*self.published, *(f"{note}." for note in dict.fromkeys(self.notes))]
        return " ".join(each if each.endswith((".", "?", ":")) else f"{each}." for each in parts)


def _clauses(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """The parts of a request that are requests of their own: from one verb to the next."""
    clause: list[Token] = []
    for at, token in enumerate(tokens):
        following = tokens[at + 1].low if at + 1 < len(tokens) else ""
        ends = token.text in (";", "\n", ".") or token.low == "then"
        if ends or (token.low in (",", "and") and _VERBS.fullmatch(following)):
            yield clause
            clause = []
        else:
            clause.append(token)
    yield clause


def _apart(clause: Sequence[Token]) -> tuple[list[Token], list[tuple[str, str]]]:
    """A clause without its loading, and the files to load with the names they are given."""
    left, files, at = list[Token](), list[tuple[str, str]](), 0
    while at < len(clause):
        token = clause[at]
        at += 1
        if token.kind != "file" or (left and left[-1].low in ("to", "as", "into")):
            left.append(token)
            continue
        name = ""
        if at + 1 < len(clause) and clause[at].low in ("as", "into"):
            name, at = clause[at + 1].bare, at + 2
        while left and _LOADING.fullmatch(left[-1].low):
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
