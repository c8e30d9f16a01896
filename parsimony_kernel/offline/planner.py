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
from parsimony_kernel.offline.marks import STOP, Ask, Guess, Look, Marks, No, Stopped, table
from parsimony_kernel.offline.query import Query
from parsimony_kernel.offline.reader import Reader
from parsimony_kernel.offline.schema import Table, read_table
from parsimony_kernel.offline.transcript import Call, Transcript, bound_names
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
_VERBS = (
    "plot|draw|chart|graph|show|list|give|describe|summari[sz]e|publish|export|make|write|create|"
    "add|rename|sort|count|compute|calculate|drop|fill|keep|refresh|save|find|tell|load"
)
_LOADING = re.compile(
    "load|read|open|import|the|file|please|data|from|and|table|it|me|show|let's|sheet|of|to|for|in|"
    "with|as|into"
)
# What a thing is published as, where that is no title.
_KINDS = re.compile(
    r"(?i:new|stacked|data ?set|table|report|bar|line|area|chart|plot|graph|csv|excel|xlsx|parquet|"
    r"json|histogram|scatter|box|file|title|titled|called|named|as)s?\b")  # fmt: skip
_IT = re.compile(r"\bpublish (?:it|this|that|them)\b.*? as (?:\w+ )?[CVTPM]\d")
# What a number or a date looks like in text: such a file may be written in another way.
_ODD = re.compile(r"[-$€£ ]*\d[\d.,]*[ ]?[€$£%]?|\d{1,2}[./-]\d{1,2}[./-]\d{4}.*")
_FIX = re.compile(
    r"\s*(?:a cell of this notebook failed\b|(?:please )?(?:fix|mend|repair|debug)\b"
    r"[^.\n]{0,60}\b(?:error|cell|code|bug|exception)\b)",
    re.I,
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
    """What to say and which tools to call next; ``tools`` are the names that may be called."""
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


def examples() -> list[str]:
    """A request for each row of the table of patterns."""
    return [str(row["example"]) for row in table()["row"] if "example" in row]


@dataclass
class _Planner:
    turn: Transcript
    tools: frozenset[str]
    made: list[_Made] = field(default_factory=list)
    loaded: list[tuple[str, Table]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    published: list[str] = field(default_factory=list)
    subject: str = ""

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
        for each in self._originals():
            measures = [c.name for c in each.measures]
            kinds = [c.name for c in each.columns if c.kind == "text" and not c.is_date]
            kinds = [k for k in kinds if not (c := each.column(k)) or not c.is_code] or kinds
            if measures and kinds:
                return [f"mean {measures[0]} by {kinds[0]}", f"top 5 {each.name} by {measures[0]}"]
            return [f"describe {each.name}", f"show the first 5 rows of {each.name}"]
        files = [each for each in self.turn.files if is_data_file(each)][:2]
        return [f"load {each}" for each in files] or examples()[:2]

    # -- the turn ----------------------------------------------------------------------------

    def plan(self) -> str:
        """The summary, once everything is done."""
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
        clause = self._load(clause)
        if not any(t.kind in ("word", "quoted", "number") for t in clause):
            return None
        if not self.turn.tables() and " ".join(t.low for t in clause if t.kind == "word") in (
            "help", "what can you do", "what can it do", "what can i ask"):  # fmt: skip
            self._help()
            return None
        reader, query = self._read(clause, before)
        is_all = query == Query(query.table, "rows", notes=query.notes)
        if is_all and clause[0].low in ("use", "take", "with", "using"):
            self.subject = query.table
        elif query.do == "help":
            self._help()
        elif reader.publishes and not is_all and _IT.search(reader.text):
            raise No("The built-in model can't tell what to publish: put its title in quotes.")
        elif not (reader.publishes and is_all):
            self._compute(query)
        for kind, title, is_new in reader.publishes:
            self._publish(kind, title, query, is_new=is_new)
        return query

    def _help(self) -> None:
        listed = "; ".join([*self._suggestions(), *examples()[9::4]])
        told = f"The built-in rule-based model (no LLM) understands, for example: {listed}."
        self.made.append(_Made("help", told=f"{told} {REAL_MODEL}"))

    def _restore(self) -> None:
        """Load again what has gone with its kernel, where the request is about it."""
        listed = {str(v.get("name")): read_table(v) for v in self.turn.variables}
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
            had = listed.get(name)
            if had is not None and (now.rows, len(now.columns)) != (had.rows, len(had.columns)):
                question = (
                    f"`{name}` had {had.rows:,} rows and {len(had.columns)} columns before it was "
                    f"gone, and {found[0]} has {now.rows:,} and {len(now.columns)}. What now?"
                )
                self._choose(question, ["Go on with the file", STOP])

    def _choose(self, question: str, choices: Sequence[str]) -> str:
        return Marks([], Table("", None, ()), answers=self.turn.answers).choose(question, choices)

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
        if near := self._near(path):
            path = self._choose(f"There is no file {path!r}. Which one do you mean?", near)
        options: dict[str, Any] = {}
        path = self._path(path)
        if path.casefold().endswith(("xlsx", "xls")):
            heads = f"pd.read_excel({literal(path)}, sheet_name=None, nrows=0)"
            of = f'pd.Series(list({heads})).to_json(orient="values")'
            call = self._done(code.looked(of, f"Look which sheets {path} has"))
            listed = json.loads(call.printed or "[]")
            if len(listed) > 1:
                named = [each for each in listed if str(each).casefold() in (said or ())]
                question = f"{path} has several sheets. Which one do you mean?"
                sheet = named[0] if len(named) == 1 else self._choose(question, listed)
                options, name = {"sheet_name": sheet}, name or identifier(sheet)
        name = name or code.name_for_file(path)
        call = self._ran(code.load(path, name, options))
        table = self._table_of(call, name)
        if not path.casefold().endswith(("xlsx", "xls", "parquet", "pq")) and (
            "FileNotFoundError" not in call.error and (table is None or _is_odd(table))
        ):
            call, options = self._read_otherwise(path, name, call)
            table = self._table_of(call, name)
        if table is None:
            raise No(f"{path} cannot be read. {call.error[:300]}" if call.failed else
                     f"{path} was loaded, and what it holds is not a table.")  # fmt: skip
        if len(table.columns) == 1 and any(sep in table.columns[0].name for sep in ";\t|"):
            raise No(f"{path} cannot be read: its header is {table.columns[0].name[:60]!r}.")
        if options.get("encoding"):
            self.notes.append(f"{path} is not UTF-8, so it was read as {options['encoding']}")
        others = [each for each in code.arguments(options) if not each.startswith("encoding")]
        if others:
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
        looked = self._ran(code.sniffed(path))
        try:
            readings = json.loads(looked.printed)
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
        """Where a file lies, as far as the listing tells."""
        low = path.casefold()
        found = [f for f in self.turn.files if f.casefold() in (low,) or
                 f.casefold().endswith("/" + low)]  # fmt: skip
        folder = self.turn.working_folder.strip("/")
        if len(found) == 1:
            return found[0]
        above = f"{'../' * len(folder.split('/'))}{path}" if folder not in ("", ".") else ""
        failed = [c for c in self.turn.calls if "FileNotFoundError" in c.error and path in c.code]
        return above if above and failed else path

    def _near(self, path: str) -> list[str]:
        """The files whose names come near one that is not there."""
        base = path.casefold().rpartition("/")[2]
        names = {f: f.casefold().rpartition("/")[2] for f in self.turn.files if is_data_file(f)}
        if path.startswith(("/", "..", "~")) or base in names.values():
            return []
        return [f for f, other in names.items() if fuzz.ratio(base, other) >= 80][:4]

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

    def _read(self, clause: list[Token], before: Query | None) -> tuple[Reader, Query]:
        tables = self._candidates(clause, before)
        if not tables:
            untold = "The model was not told what is in this notebook."
            nothing = f"There is no table for {self.turn.request[:80]!r}: load a file first."
            raise No(untold if self.turn.kept_back else nothing)
        fit = self._fitting(tables, clause, before)
        # A column of another table may have the name of the one that is named.
        fit = fit or self._fitting(self._originals(), clause, before)
        # The newest that has all that the others have is meant, and said.
        names = [{c.name for c in t.columns} for t in fit]
        wide = [t for t, own in zip(fit, names, strict=True) if all(own >= n for n in names)]
        fit = wide[-1:] or fit
        if len(fit) > 1:
            reader, query = self._read_about(fit[-1], clause, before)
            if reader.publishes and query == Query(query.table, "rows"):
                return reader, query
            name = self._choose("Which table do you mean?", [t.name for t in fit])
            fit = [t for t in fit if t.name == name]
        return self._read_about((fit or tables)[0], clause, before)

    def _fitting(
        self, tables: Sequence[Table], clause: Sequence[Token], before: Query | None
    ) -> list[Table]:
        """The tables that a request can be about, else those about which it leaves a question."""
        fit, asks = list[Table](), list[Table]()
        for each in tables:
            with suppress(No, Guess):
                try:
                    self._read_about(each, clause, before)
                    fit.append(each)
                except Guess:
                    raise
                except (Ask, Stopped):
                    asks.append(each)
        return fit or asks

    def _candidates(self, clause: Sequence[Token], before: Query | None) -> list[Table]:
        known, said = self.turn.tables(), {t.low for t in clause if t.kind in ("word", "quoted")}
        named = [t for t in known.values() if t.name.casefold() in said]
        named = named or [t for t in self._originals() if set(fold(t.name)) <= said]
        subject = self.subject or (before.table if before else "")
        return named[:1] or ([known[subject]] if subject in known else self._originals())

    def _read_about(
        self, about: Table, clause: Sequence[Token], before: Query | None
    ) -> tuple[Reader, Query]:
        said = {t.bare.casefold() for t in clause}
        own = [t.name for t in self._originals()]
        names = [*own, *(n for n in self.turn.tables() if n.casefold() in said and n not in own)]
        known: dict[str, Any] = {}
        while True:
            reader = Reader(
                clause,
                about,
                answers=self.turn.answers,
                known=known,
                tables=names,
                before=lambda: before or self._before(about),
                told=self.told,
            )
            try:
                return reader, reader.read()
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
                    _, query = self._read_about(about, left, query or Query(about.name))
        return query

    def _compute(self, query: Query) -> None:
        about = self.turn.tables().get(query.table)
        assert about is not None
        if query.do == "line" and about.rows and about.rows > 5_000:
            query.notes.append(f"{about.rows:,} points")
        cell = code.write(query, about, sorted(self.taken))
        call = self._done(cell)
        self.taken |= {cell.table, cell.chart} - {""}
        self.notes += query.notes
        if len(self._originals()) > 1 and not self.loaded:
            self.notes.append(f"Used `{about.name}`")
        lines = [line for line in call.printed.splitlines() if line.strip()]
        units = [*cell.units, *[""] * len(lines)]
        told = " ".join(sentence(*each) for each in zip(lines, units, strict=False))
        if not (told or cell.table or cell.chart) and query.do != "head":
            told = f"{query.title}: printed by the step below, and no model is told values here."
        self.made.append(_Made(query.title, cell.table, cell.chart, told, about.name))
        if query.do in ("rows", "derive", "rename", "dropna", "fillna") and cell.table:
            self.subject = cell.table

    # -- afterwards --------------------------------------------------------------------------

    def _latest(self, query: Query, *, chart: bool = False) -> _Made:
        """What is meant by "it": what this turn has made, else what the last one has."""
        made = [m for m in self.made if (m.chart if chart else m.table)]
        if made:
            return made[-1]
        saved = re.findall(r"Saved as ([^.]*)\.", self.told)
        named = re.findall(r"`(\w+)`", saved[-1]) if saved else []
        names = self.turn.figures() if chart else [n for n in named if n in self.turn.tables()]
        names = names or ([query.table] if query.table and not chart else [])
        if not names:
            raise No(f"There is no {'chart' if chart else 'table'} to publish yet.")
        name = names[0] if len(names) == 1 else self._choose("Which one do you mean?", names[::-1])
        title = name.replace("_", " ").strip()
        return _Made(title[:1].upper() + title[1:], *(("", name) if chart else (name, "")))

    def _publish(self, kind: str, title: str, query: Query, *, is_new: bool) -> None:
        match kind:
            case "refresh":
                return self._refresh(title, is_new=is_new)
            case "export":
                name = self._latest(query).table
                path = f"{name}{title}" if title.startswith(".") else title
                path = path if is_data_file(path) else f"{path}.csv"
                self._done(code.export(name, path))
                self.published.append(f"Wrote `{name}` to {path}.")
                return None
        has_chart = any(m.chart for m in self.made) or (not self.made and self.turn.figures())
        as_kind = ("chart" if has_chart else "dataset") if kind in ("", "report") else kind
        made = self._latest(query, chart=as_kind == "chart")
        variable = made.chart if as_kind == "chart" else made.table
        own = made.title if kind == "report" else title or made.title
        self._tool(f"return_{as_kind}", {"variable": variable, "title": own})
        if kind != "report":
            self.published.append(f"Published the {as_kind} {own!r}.")
            return None
        files = [p for p, t in self.loaded if t.name == made.source] or [made.source or variable]
        body = [f"![{for_markdown(own)}](artifact:{variable})", for_markdown(made.told)]
        how = f"The {as_kind} `{variable}` was made from {for_markdown(spoken(files))}."
        body.append(f"## How it was made\n\n{how}")
        text = "\n\n".join(filter(None, body))
        call = self._tool("return_report", {"title": title or own, "body": text, "language": "en"})
        place = call.result.get("page") or call.result.get("path") or ""
        self.published.append(f"Published the report {title or own!r}{f': {place}' * bool(place)}.")
        return None

    def _tool(self, name: str, arguments: dict[str, Any]) -> Call:
        if name not in self.tools:
            raise No(f"There is no tool {name} here.")
        found = [c for c in self.turn.calls if c.name == name and c.arguments == arguments]
        if not found or not found[-1].answer:
            raise _First(name, arguments)
        if not found[-1].ok:
            raise No(found[-1].error[:400])
        return found[-1]

    def _refresh(self, title: str, *, is_new: bool) -> None:
        listed = [str(a.get("title")) for a in self.turn.artifacts]
        if not title and not listed:
            raise No("Nothing is published in this workspace yet.")
        title = title or (
            listed[0] if len(listed) == 1 else self._choose("Which one should I refresh?", listed)
        )
        done = self._tool("refresh", {"artifact": title, "accept_changed_sources": is_new}).result
        changed = "its content has changed" if done.get("changed") else "nothing has changed"
        self.published.append(f"Refreshed the {done.get('kind', 'artifact')} {title!r}: {changed}.")

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
        is_verb = re.fullmatch(f"{_VERBS}|then", following)
        ends = token.text in (";", "\n", ".") or token.low == "then"
        if ends or (token.low in (",", "and") and is_verb):
            yield _titled(clause)
            clause = []
        else:
            clause.append(token)
    yield _titled(clause)


def _titled(clause: list[Token]) -> list[Token]:
    """A clause whose title is quoted: what follows "publish it as" names no column."""
    verbs = [at for at, t in enumerate(clause) if t.low in ("publish", "report")]
    for at in range(verbs[0] + 1 if verbs else len(clause), len(clause)):
        if clause[at].low not in ("as", "titled", "called", "named", "title"):
            continue
        rest = clause[at + 1 :]
        while rest and rest[-1].low in (",", "?", "!", ":", "please", "pls", "thanks"):
            rest.pop()
        title = re.sub(r"(?i)^(the|an?) ", "", " ".join(t.bare for t in rest))
        if title and not _KINDS.match(title):
            odd = [t for t in rest if t.kind in ("quoted", "file") or t.low in (",", "and")]
            if odd and (rest[1:] or rest[0].kind == "file"):
                return clause
            begin, said = verbs[0] + 1, [clause[at], Token("quoted", f'"{title}"')]
            if any(_KINDS.match(t.low) for t in clause[begin:at]):
                return [*clause[:at], *said]
            return [*clause[:begin], *said, *clause[begin:at]]
    return clause


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
    if any(sep in "".join(names) for sep in ";\t|") or any(n.startswith("Unnamed:") for n in names):
        return True
    texts = [c for c in table.columns if c.kind == "text" and c.samples]
    return any(all(map(_ODD.fullmatch, c.samples)) for c in texts)
