"""From a transcript to the next step: load, look, compute, publish, finish.

Where a turn stands is read off its transcript each time; nothing is remembered between requests.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rapidfuzz import fuzz

from parsimony_kernel.offline.code import Cell, export, load, look, name_for_file, slug_of, write
from parsimony_kernel.offline.marks import STOP, Ask, Guess, Look, No, Stopped
from parsimony_kernel.offline.phrases import REAL_MODEL, examples
from parsimony_kernel.offline.query import Query
from parsimony_kernel.offline.request import Reader
from parsimony_kernel.offline.schema import Table, read_table
from parsimony_kernel.offline.transcript import Call, Transcript, bound_names
from parsimony_kernel.offline.words import Token, fold, is_data_file, spoken, tokenize

MAX_REQUEST = 2_000
_VERBS = (
    "plot|draw|chart|graph|show|list|give|describe|summari[sz]e|publish|export|make|write|create|"
    "add|join|merge|rename|sort|count|compute|calculate|drop|fill|keep|refresh|save|find|tell|load"
)
_NEXT = re.compile(rf"^(?:then|and|,)*(?:{_VERBS})$")
_LOADING = frozenset(
    {
        "load",
        "read",
        "open",
        "import",
        "the",
        "file",
        "please",
        "data",
        "from",
        "and",
        "table",
        "it",
        "me",
        "show",
        "let's",
    }
)
_NUMBER = re.compile(r"(?<![\w.-])-?\d{1,15}(?:\.\d+)?(?:e[+-]?\d+)?(?![\w-]|\.\d)")


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


@dataclass
class _Work:
    """The turn so far."""

    made: list[_Made] = field(default_factory=list)
    loaded: list[tuple[str, Table]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    published: list[str] = field(default_factory=list)
    subject: str = ""
    taken: set[str] = field(default_factory=set)


class _Run(Exception):
    """This has to be run first."""

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell.purpose)
        self.cell = cell


class _Call(Exception):
    """This tool has to be called first."""

    def __init__(self, text: str, name: str, arguments: dict[str, Any]) -> None:
        super().__init__(name)
        self.text, self.name, self.arguments = text, name, arguments


def next_step(turn: Transcript, tools: Sequence[str]) -> Step:
    """What to say and which tools to call next; ``tools`` are the names that may be called."""
    planner = _Planner(turn, frozenset(tools))
    try:
        return planner.finish(planner.plan())
    except _Run as run:
        arguments = {"code": run.cell.code, "purpose": run.cell.purpose}
        return Step("", (("run_code", arguments),))
    except _Call as call:
        return Step("", ((call.name, call.arguments),))
    except Ask as ask:
        return planner.ask(ask)
    except No as no:
        return planner.unable(str(no))
    except Stopped:
        return planner.finish("Stopped, as you said. Nothing more was done.")


class _Planner:
    def __init__(self, turn: Transcript, tools: frozenset[str]) -> None:
        self.turn, self.tools = turn, tools
        self.work = _Work(taken=set(turn.names) - turn.replaceable)

    # -- endings -----------------------------------------------------------------------------

    def finish(self, summary: str) -> Step:
        if "return_done" not in self.tools:
            return Step(summary)
        return Step("", (("return_done", {"summary": summary}),))

    def ask(self, ask: Ask) -> Step:
        if "ask_user" not in self.tools:
            return self.unable(
                f"{ask.question} Say it in the request: {spoken(ask.choices, 'or')}."
            )
        arguments = {"question": ask.question, "choices": list(ask.choices)}
        return Step("", (("ask_user", arguments),))

    def unable(self, why: str) -> Step:
        steps = [*self._suggestions(), REAL_MODEL]
        if "return_unable" not in self.tools:
            return Step(" ".join([why, *steps]))
        arguments = {"rationale": why, "blockers": [why], "suggested_next_steps": steps}
        return Step("", (("return_unable", arguments),))

    def _suggestions(self) -> list[str]:
        """Two requests that would work, of the person's own columns."""
        for table in self._originals():
            measures = [c.name for c in table.measures]
            kinds = [c.name for c in table.columns if c.kind == "text" and not c.is_date]
            if measures and kinds:
                return [
                    f"Try: mean {measures[0]} by {kinds[0]}",
                    f"Try: top 5 {table.name} by {measures[0]}",
                ]
            return [
                f"Try: describe {table.name}",
                f"Try: histogram of {measures[0]}" if measures else f"Try: show {table.name}",
            ]
        files = [each for each in self.turn.files if is_data_file(each)][:2]
        return [f"Try: load {each}" for each in files] or [
            f"Try: {each}" for each in examples()[:2]
        ]

    # -- the turn ----------------------------------------------------------------------------

    def plan(self) -> str:
        """The summary, once everything is done."""
        request = self.turn.request
        if any(
            each.strip().casefold() in ("stop", "cancel", STOP.casefold())
            for each in self.turn.remarks
        ):
            raise Stopped
        if not request:
            raise No("The request is empty.")
        if len(request) > MAX_REQUEST:
            raise No(
                f"The request has {len(request):,} characters; the built-in model reads "
                f"{MAX_REQUEST:,} at most."
            )
        if re.match(
            r"\s*(?:a cell of this notebook failed\b|(?:please )?(?:fix|mend|repair|debug)\b"
            r"[^.\n]{0,60}\b(?:error|cell|code|bug|exception)\b)",
            request,
            re.I,
        ):
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
        reader, query = self._read(clause, before)
        is_all = query == Query(query.table, "rows")
        if is_all and clause[0].text.casefold() in ("use", "take", "with", "using"):
            self.work.subject = query.table
            return None
        nothing = not (
            query.do and (query.do != "rows" or query.columns or query.filters or query.sort)
        )
        if query.do == "help":
            self.work.made.append(_Made("help", told=_help()))
        elif reader is None or not (
            (reader.published or reader.exports or reader.refreshes) and nothing
        ):
            self._compute(query)
        if reader is not None:
            self._after(reader, query)
        return query

    def _restore(self) -> None:
        """Load again what has gone with its kernel, where the request is about it."""
        listed = {str(v.get("name")): read_table(v) for v in self.turn.variables}
        told = " ".join(summary for _, summary in self.turn.earlier)
        for name in sorted(self.turn.gone):
            had = listed.get(name)
            is_meant = name in self.turn.request or not self.turn.tables()
            if not is_meant:
                continue
            found = re.findall(rf"Loaded `{name}` from (\S+):", told)[-1:]
            found = found or [f for f in self.turn.files if name_for_file(f) == name]
            if len(found) != 1 and name not in self.turn.request:
                continue
            if len(found) != 1:
                raise No(f"`{name}` no longer exists: run the cell that makes it, then ask again.")
            self._load_file(found[0], name)
            _, now = self.work.loaded.pop()
            if had is not None and (now.rows, len(now.columns)) != (had.rows, len(had.columns)):
                question = (
                    f"`{name}` had {had.rows:,} rows and {len(had.columns)} columns before it was "
                    f"gone, and {found[0]} has {now.rows:,} and {len(now.columns)}. What now?"
                )
                self._reader().choose(question, ["Go on with the file", STOP])

    def _reader(self) -> Reader:
        """A reader of nothing, for questions."""
        return Reader([], Table("", None, ()), answers=self.turn.answers, values={})

    # -- files -------------------------------------------------------------------------------

    def _load(self, clause: list[Token]) -> list[Token]:
        """Load the files that a clause names; what is left of it."""
        left: list[Token] = []
        at = 0
        while at < len(clause):
            token = clause[at]
            before = [t.text.casefold() for t in left[-2:]]
            is_target = bool(before) and before[-1] in ("to", "as", "into")
            if token.kind != "file" or is_target:
                left.append(token)
                at += 1
                continue
            at += 1
            name = name_for_file(token.bare)
            if at + 1 < len(clause) and clause[at].text.casefold() in ("as", "into"):
                name, at = clause[at + 1].bare, at + 2
            while left and left[-1].text.casefold() in (
                "in",
                "from",
                "of",
                "file",
                "the",
                "load",
                "read",
                "open",
                "import",
                "to",
                "for",
                "with",
            ):
                left.pop()
            self._load_file(token.bare, name)
        words = {t.text.casefold() for t in left if t.kind == "word"}
        return [] if self.work.loaded and words <= _LOADING else left

    def _load_file(self, path: str, name: str) -> None:
        options: list[str] = []
        near = self._near(path)
        if near:
            reader = self._reader()
            meant = reader.choose(f"There is no file {path!r}. Which one do you mean?", near)
            name = name_for_file(meant) if name == name_for_file(path) else name
            path = meant
        paths = self._paths(path)
        table: Table | None = None
        while table is None:
            cell = load(paths[0], name, options)
            call = self._ran(cell)
            if call.ok:
                listed = call.result.get("variables")
                read = map(read_table, listed if isinstance(listed, list) else ())
                table = next((t for t in read if t is not None and t.name == name), None)
                table = table or self.turn.tables().get(name)
                more = _misread(path, table, options) if table else []
                if table is None:
                    raise No(f"{path} was loaded, and what it holds is not a table.")
                if more:
                    options, table = [*options, *more], None
                continue
            more = _options(call, options)
            if "FileNotFoundError" in call.error and len(paths) > 1:
                paths = paths[1:]
            elif more:
                options += more
            else:
                raise No(self._unreadable(path, call))
        if 'encoding="latin-1"' in options:
            self.work.notes.append(f"{path} is not UTF-8, so it was read as Latin-1")
        if others := [each for each in options if "encoding" not in each]:
            self.work.notes.append(f"Read {path} with {', '.join(others)}")
        self.work.loaded.append((path, table))
        self.work.subject = name
        self.work.taken.add(name)

    def _paths(self, path: str) -> list[str]:
        found = [
            f
            for f in self.turn.files
            if f.casefold().endswith("/" + path.casefold()) or f.casefold() == path.casefold()
        ]
        folder = self.turn.working_folder.strip("/")
        above = [f"{'../' * len(folder.split('/'))}{path}"] if folder not in ("", ".") else []
        return list(dict.fromkeys([*(found if len(found) == 1 else []), path, *above]))

    def _near(self, path: str) -> list[str]:
        """The files whose names come near one that is not there."""
        base = path.casefold().rpartition("/")[2]
        names = {f: f.casefold().rpartition("/")[2] for f in self.turn.files if is_data_file(f)}
        if path.startswith(("/", "..", "~")) or base in names.values():
            return []
        return [f for f, other in names.items() if fuzz.ratio(base, other) >= 80][:4]

    def _unreadable(self, path: str, call: Call) -> str:
        if "FileNotFoundError" in call.error:
            return f"There is no file {path!r}."
        return f"{path} cannot be read. {call.error[:300]}"

    # -- code --------------------------------------------------------------------------------

    def _ran(self, cell: Cell) -> Call:
        """The call that ran ``cell``, whatever came of it; raises ``_Run`` until it has run."""
        found = [c for c in self.turn.calls if c.code == cell.code and not c.void]
        if not found or not found[-1].answer:
            raise _Run(cell)
        return found[-1]

    def _done(self, cell: Cell) -> Call:
        call = self._ran(cell)
        if not call.ok:
            raise No(f"{cell.purpose}: {call.error[:300]}")
        return call

    def _originals(self) -> list[Table]:
        """The tables that this model has not computed, as far as can be told."""
        told = " ".join(s for _, s in self.turn.earlier)
        made = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"Saved as ([^.]*)\.", told))))
        made |= {each.table for each in self.work.made if each.table != self.work.subject}
        made |= {n for c in self.turn.calls for n in bound_names(c.code)} - {self.work.subject}
        tables = self.turn.tables().values()
        return [t for t in tables if t.name not in made] or list(tables)

    def _names(self, clause: Sequence[Token]) -> list[str]:
        """The tables that a request may speak of: those of the person, and what it names."""
        said = {t.bare.casefold() for t in clause}
        own = [t.name for t in self._originals()]
        return list(dict.fromkeys([*own, *(n for n in self.turn.tables() if n.casefold() in said)]))

    def _read(self, clause: list[Token], before: Query | None) -> tuple[Reader | None, Query]:
        words = [t.text.casefold() for t in clause if t.kind == "word"]
        tables = self._candidates(words, before)
        if not tables:
            if " ".join(words) in ("help", "what can you do", "what can it do", "what can i ask"):
                return None, Query(do="help")
            if self.turn.kept_back:
                raise No("The model was not told what is in this notebook.")
            raise No(f"There is no table for {self.turn.request[:80]!r}: load a file first.")
        if len(tables) == 1:
            try:
                return self._read_about(tables[0], clause, before)
            except No:
                # A column of another table may have the name of this one.
                tables = self._originals()
                if len(tables) < 2:
                    raise
        fit: list[tuple[Table, tuple[Reader, Query]]] = []
        asks: list[Table] = []
        guesses: list[Table] = []
        looks: list[_Run] = []
        for table in tables:
            try:
                fit.append((table, self._read_about(table, clause, before)))
            except Guess:
                guesses.append(table)
            except (Ask, Stopped):
                asks.append(table)
            except _Run as run:
                looks.append(run)
            except No:
                continue
        if looks and not fit:
            raise looks[0]
        listed = [t for t, _ in fit] or asks or (guesses if len(guesses) == len(tables) else [])
        if not listed:
            return self._read_about(tables[0], clause, before)
        # The newest that has all that the others have is meant, and said.
        names = [{c.name for c in t.columns} for t in listed]
        wide = [t for t, own in zip(listed, names, strict=True) if all(own >= n for n in names)]
        listed = wide[-1:] or listed
        if len(listed) > 1:
            reader = Reader([], listed[0], answers=self.turn.answers, values={})
            name = reader.choose("Which table do you mean?", [t.name for t in listed])
            listed = [t for t in listed if t.name == name]
        return self._read_about(listed[0], clause, before)

    def _candidates(self, words: Sequence[str], before: Query | None) -> list[Table]:
        known = self.turn.tables()
        said = set(map(str, words))
        named = [t for t in known.values() if t.name.casefold() in said]
        named = named or [t for t in self._originals() if set(fold(t.name)) <= said]
        if named:
            return named[:1]
        if self.work.subject in known:
            return [known[self.work.subject]]
        if before is not None and before.table in known:
            return [known[before.table]]
        return self._originals()

    def _read_about(
        self, table: Table, clause: list[Token], before: Query | None
    ) -> tuple[Reader, Query]:
        values: dict[str, list[tuple[str, str]]] | None = None
        while True:
            reader = Reader(
                clause,
                table,
                answers=self.turn.answers,
                values=values,
                tables=self._names(clause),
                before=before or self._before(table, clause),
                told=" ".join(summary for _, summary in self.turn.earlier),
            )
            try:
                return reader, reader.read()
            except Look as wanted:
                values = self._looked(table, wanted.words)

    def _looked(self, table: Table, words: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
        call = self._done(look(table, words))
        try:
            found = json.loads(call.printed)
        except ValueError:
            found = {}
        pairs = [(column, value) for column, listed in found.items() for value in listed]
        return dict.fromkeys(words, pairs)

    def _before(self, table: Table, clause: Sequence[Token]) -> Query | None:
        """The request before, where this one may go on from it."""
        words = {t.text.casefold() for t in clause}
        if not words & {"same", "instead", "now", "and", "what", "how"} or not self.turn.earlier:
            return None
        query: Query | None = None
        for request, _ in self.turn.earlier[-4:]:
            for part in _clauses(tokenize(request, self.turn.files)):
                left = [t for t in part if t.kind != "file"]
                try:
                    query = Reader(
                        left,
                        table,
                        answers=self.turn.answers,
                        values={},
                        tables=self._names(part),
                        before=query,
                    ).read()
                except (Ask, Look, No, Stopped):
                    continue
        return query

    def _compute(self, query: Query) -> None:
        table = self.turn.tables().get(query.table)
        assert table is not None
        if query.do == "line" and table.rows and table.rows > 5_000:
            query.notes.append(f"{table.rows:,} points")
        cell = write(query, table, sorted(self.work.taken))
        call = self._done(cell)
        self.work.taken |= {cell.table, cell.chart} - {""}
        self.work.notes += query.notes
        if len(self._originals()) > 1 and not self.work.loaded:
            self.work.notes.append(f"Used `{table.name}`")
        told = " ".join(_rounded(line) for line in call.printed.splitlines() if line.strip())
        made = _Made(query.title, cell.table, cell.chart, told, table.name)
        self.work.made.append(made)
        if query.do in ("rows", "derive", "rename", "join", "dropna", "fillna") and cell.table:
            self.work.subject = cell.table

    # -- afterwards --------------------------------------------------------------------------

    def _after(self, reader: Reader, query: Query) -> None:
        for path in reader.exports:
            name = self._latest(query).table
            path = path if "." in path[1:] else f"{slug_of(name)}{path}"
            if not is_data_file(path):
                path += ".csv"
            self._done(export(name, path))
            self.work.published.append(f"Wrote `{name}` to {path}.")
        for kind, title in reader.published:
            self._publish(kind, title, query)
        for title, is_new in reader.refreshes:
            self._refresh(title, is_new)

    def _latest(self, query: Query, *, chart: bool = False) -> _Made:
        """What is meant by "it": what this turn has made, else what there is."""
        made = [m for m in self.work.made if (m.chart if chart else m.table)]
        if made:
            return made[-1]
        names = self.turn.figures() if chart else [query.table] if query.table else []
        if not names:
            raise No(f"There is no {'chart' if chart else 'table'} to publish yet.")
        reader = self._reader()
        name = names[0] if len(names) == 1 else reader.choose("Which one do you mean?", names[::-1])
        title = name.replace("_", " ").strip()
        return _Made(title[:1].upper() + title[1:], *(("", name) if chart else (name, "")))

    def _publish(self, kind: str, title: str, query: Query) -> None:
        has_chart = any(m.chart for m in self.work.made) or (
            not self.work.made and self.turn.figures()
        )
        as_kind = ("chart" if has_chart else "dataset") if kind in ("", "report") else kind
        made = self._latest(query, chart=as_kind == "chart")
        variable = made.chart if as_kind == "chart" else made.table
        own = made.title if kind == "report" else title or made.title
        self._tool(
            f"return_{as_kind}", f"Publish `{variable}`.", {"variable": variable, "title": own}
        )
        if kind != "report":
            self.work.published.append(f"Published the {as_kind} {own!r}.")
            return
        body = [f"![{_plain(own)}](artifact:{variable})"]
        body += [_plain(made.told)] if made.told else []
        files = [p for p, t in self.work.loaded if t.name == made.source] or [
            made.source or variable
        ]
        body.append(
            f"## How it was made\n\nThe {as_kind} `{variable}` was made from "
            f"{_plain(spoken(files))}."
        )
        arguments = {"title": title or own, "body": "\n\n".join(body), "language": "en"}
        call = self._tool("return_report", f"Write the report {title or own!r}.", arguments)
        place = call.result.get("page") or call.result.get("path") or ""
        self.work.published.append(
            f"Published the report {title or own!r}{f': {place}' if place else ''}."
        )

    def _tool(self, name: str, text: str, arguments: dict[str, Any]) -> Call:
        if name not in self.tools:
            raise No(f"There is no tool {name} here.")
        found = [c for c in self.turn.calls if c.name == name and c.arguments == arguments]
        if not found or not found[-1].answer:
            raise _Call(text, name, arguments)
        if not found[-1].ok:
            raise No(found[-1].error[:400])
        return found[-1]

    def _refresh(self, title: str, is_new: bool) -> None:
        listed = [str(a.get("title")) for a in self.turn.artifacts]
        if not title:
            if not listed:
                raise No("Nothing is published in this workspace yet.")
            reader = self._reader()
            title = (
                listed[0]
                if len(listed) == 1
                else reader.choose("Which one should I refresh?", listed)
            )
        arguments = {"artifact": title, "accept_changed_sources": is_new}
        done = self._tool("refresh", f"Refresh {title!r}.", arguments).result
        changed = "its content has changed" if done.get("changed") else "nothing has changed"
        self.work.published.append(
            f"Refreshed the {done.get('kind', 'artifact')} {title!r}: {changed}."
        )

    def _summary(self) -> str:
        work, parts = self.work, [made.told or f"{made.title}." for made in self.work.made]
        for path, table in work.loaded:
            columns = "column" if len(table.columns) == 1 else "columns"
            rows = "" if table.rows is None else f"{table.rows:,} rows, "
            parts.append(
                f"Loaded `{table.name}` from {path}: {rows}{len(table.columns)} {columns}."
            )
        for made in work.made:
            names = [
                f"`{each}`"
                for each in (made.table, made.chart)
                if each and each not in self.turn.names
            ]
            if names:
                parts.append(f"Saved as {spoken(names)}.")
        parts += work.published
        parts += [f"{note}." for note in dict.fromkeys(work.notes)]
        return " ".join(each if each.endswith((".", "?", ":")) else f"{each}." for each in parts)


def _clauses(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """The parts of a request that are requests of their own: from one verb to the next."""
    clause: list[Token] = []
    for at, token in enumerate(tokens):
        low = token.text.casefold()
        following = tokens[at + 1].text.casefold() if at + 1 < len(tokens) else ""
        ends = token.text in (";", "\n", ".") or (
            low in ("then", ",") and re.fullmatch(_VERBS, following)
        )
        ends = ends or (low == "and" and re.fullmatch(f"{_VERBS}|then", following))
        if ends:
            yield clause
            clause = []
        else:
            clause.append(token)
    yield clause


def _options(call: Call, given: Sequence[str]) -> list[str]:
    """What to read a file with after an error."""
    tried = " ".join(given)
    if "UnicodeDecodeError" in call.error and "encoding" not in tried:
        return ['encoding="latin-1"']
    if "ParserError" in call.error and "sep=" not in tried:
        return ['sep=";"']
    if "Trailing data" in call.error and "lines" not in tried:
        return ["lines=True"]
    return []


def _misread(path: str, table: Table, given: Sequence[str]) -> list[str]:
    """What to read a file with again, as what came out shows."""
    tried, is_text = " ".join(given), path.casefold().endswith(("csv", "txt", "tsv"))
    if not is_text:
        return []
    joined = "".join(c.name for c in table.columns)
    if "sep=" not in tried and any(sep in joined for sep in ";\t|"):
        found = [sep for sep in (";", "\t", "|") if sep in joined]
        return [f"sep={json.dumps(found[0])}"] if found else []
    texts = [c for c in table.columns if c.kind == "text" and not c.is_date and c.samples]
    commas = [
        c
        for c in texts
        if all(re.fullmatch(r"-?\d{1,3}(?:\.\d{3})*,\d+|-?\d+", s) for s in c.samples)
        and any("," in s for s in c.samples)
    ]
    if commas and "decimal" not in tried and "sep=" in tried:
        thousands = any("." in s for c in commas for s in c.samples)
        return ['decimal=","', *(['thousands="."'] if thousands else [])]
    grouped = [
        c
        for c in texts
        if all(re.fullmatch(r"-?\d{1,3}(?:,\d{3})*(?:\.\d+)?", s) for s in c.samples)
        and any("," in s for s in c.samples)
    ]
    return ['thousands=","'] if grouped and "thousands" not in tried else []


def _rounded(line: str) -> str:
    """A printed line with its numbers as people write them."""

    def told(found: re.Match[str]) -> str:
        value = float(found[0])
        if "." not in found[0] and "e" not in found[0]:
            return f"{int(value):,}" if abs(value) >= 10_000 else found[0]
        if value and abs(value) < 0.001:
            return f"{value:.3g}"
        digits = max(0, 3 - len(str(int(abs(value)))) + 1) if abs(value) >= 1 else 3
        return f"{value:,.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:,.0f}"

    line = re.sub(r"(\d{4}-\d\d-\d\d) 00:00:00", r"\1", " ".join(line.split()))
    return _NUMBER.sub(told, line)


def _plain(text: str) -> str:
    """Text of data for a report, which reads Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>#|!])", r"\\\1", text)


def _help() -> str:
    listed = "; ".join(examples())
    return f"The built-in, rule-based model understands, for example: {listed}. {REAL_MODEL}"
