"""From a transcript to the next step.

The stages are always the same: load, understand, look or ask, keep rows, compute, publish, finish.
Where a turn stands is read off its transcript each time; nothing is remembered between requests.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from parsimony_kernel.llm.offline import codegen, grammar, recovery
from parsimony_kernel.llm.offline.columns import candidates, near_files, near_values
from parsimony_kernel.llm.offline.grammar import (
    Clause,
    Condition,
    Load,
    Mention,
    Publish,
    Statement,
)
from parsimony_kernel.llm.offline.phrases import help_steps
from parsimony_kernel.llm.offline.resolve import (
    STOP,
    Ask,
    CountDistinct,
    Declined,
    Known,
    LookFor,
    Reading,
    Resolver,
    Stopped,
    is_stop,
)
from parsimony_kernel.llm.offline.schema import Table
from parsimony_kernel.llm.offline.transcript import Call, Transcript, missing_name
from parsimony_kernel.llm.offline.words import (
    Token,
    fold,
    is_data_file,
    singular,
    spoken,
    stem_of,
    tokenize,
    word_set,
)

MAX_REQUEST = 2_000
MAX_STATEMENTS = 8
MAX_LOOKED = 8
NOTE = "Note: "
DO_THE_REST = "Do the rest"


@dataclass(frozen=True)
class Step:
    """What to say and which tools to call."""

    text: str
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()


@dataclass(frozen=True)
class Source:
    """A file and the variable that it is read into."""

    path: str
    name: str


@dataclass
class Task:
    """A statement, the table that it is about, and where its rows come from."""

    statement: Statement
    table: str
    base: str = ""
    narrowed: str = ""
    reading: Reading | None = None


@dataclass
class Product:
    """What a statement made."""

    table: str | None
    chart: str | None
    title: str


@dataclass
class _Work:
    """A turn taken apart: sources to load, tasks to do, things to publish after how many tasks."""

    sources: list[Source] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    publishing: list[tuple[Publish, int, str | None]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Planner:
    """Plans one step for one transcript. ``tools`` are the names that may be called."""

    def __init__(self, transcript: Transcript, tools: Sequence[str]) -> None:
        self.transcript = transcript
        self.tools = frozenset(tools)
        self.answers = {a.question: a.reply for a in transcript.asked if a.reply is not None}
        self.notes: list[str] = []

    def step(self) -> Step:
        """The next step."""
        try:
            return self._next()
        except Ask as missing:
            return self._ask(missing)
        except Declined as declined:
            return self._decline(declined)
        except Stopped:
            return self._finish("Stopped, as you said. Nothing more was done.")

    # -- the stages ------------------------------------------------------------------------------

    def _next(self) -> Step:
        transcript = self.transcript
        if any(is_stop(remark) for remark in transcript.remarks):
            raise Stopped
        if not transcript.request:
            raise Declined(
                "The request is empty.", ["there is nothing to do"], help_steps(short=True)
            )
        if len(transcript.request) > MAX_REQUEST:
            raise Declined(
                f"The request has {len(transcript.request):,} characters; the offline model reads "
                f"{MAX_REQUEST:,} at most.",
                ["the request is too long for the offline model"],
                ["Say it shorter, or in several cells.", *help_steps(short=True)],
            )
        if "run_code" not in self.tools:
            raise Declined(
                "There is no tool to run code with.", ["run_code is not among the tools"]
            )
        tokens = tokenize(transcript.request, _odd_names(transcript.files))
        work = self._work(tokens)
        step = self._load(work)
        if step is not None:
            return step
        if not self._computed(work):
            self._check_failures()
            step = self._understand(work) or self._keep(work) or self._compute(work)
            if step is not None:
                return step
        return self._publish(work) or self._finish(self._summary(work))

    # -- taking the request apart ----------------------------------------------------------------

    def _work(self, tokens: Sequence[Token]) -> _Work:
        # Which tables it is about is seen without a schema; only their columns are then read as
        # words of their own. Other tables, such as earlier results, must not lend theirs.
        tables = self._tables()
        about = self._divided(grammar.parse(tokens), tables)
        names = {t.table for t in about.tasks} | {s.name for s in about.sources}
        columns = [c.name for n in names if n in tables for c in tables[n].columns]
        self.notes.clear()
        return self._divided(grammar.parse(tokens, sorted(columns)), tables)

    def _divided(self, parsed: Sequence[Clause], tables: Mapping[str, Table]) -> _Work:
        clauses = self._supported(_merged(parsed), tables)
        work = _Work()
        current: str | None = None
        for clause in clauses:
            match clause:
                case Load():
                    current = self._add_load(clause, work)
                case Statement():
                    current = self._target(clause, current, work, tables)
                    work.tasks.append(Task(clause, current))
                case Publish():
                    work.publishing.append((clause, len(work.tasks), current))
        if len(work.tasks) > MAX_STATEMENTS:
            raise Declined(
                f"The request asks for {len(work.tasks)} things; {MAX_STATEMENTS} at most are "
                "done in one go.",
                ["too many steps in one request"],
                ["Split it into several cells."],
            )
        return work

    def _tables(self) -> dict[str, Table]:
        return self.transcript.tables()

    def _supported(self, clauses: list[Clause], tables: Mapping[str, Table]) -> list[Clause]:
        """The clauses that are understood; the others are declined or, by consent, left out."""
        loads = any(isinstance(c, Load) for c in clauses)
        odd: list[str] = []
        kept: list[Clause] = []
        for clause in clauses:
            strange = [word for word in clause.unsupported if not _is_column(word, tables)]
            if isinstance(clause, Statement) and not strange:
                known = loads or self._has_evidence(clause, tables)
                strange = [] if known else [clause.text]
            if strange:
                odd += strange
            else:
                kept.append(clause)
        useful = [c for c in kept if not isinstance(c, Publish)]
        if not odd and (useful or kept):
            return kept
        shown = spoken(repr(o[:80]) for o in odd[:4]) or repr(self.transcript.request[:80])
        if not useful:
            raise Declined(
                f"The offline model does not know how to do this: {shown}.",
                [f"{o[:80]!r} is outside of what the offline model understands" for o in odd[:4]]
                or ["no request that it knows"],
                help_steps(),
            )
        question = f"I do not know how to do {shown}. Shall I do the rest without it?"
        reply = self.answers.get(question)
        if reply is None:
            raise Ask(question, [DO_THE_REST, STOP])
        if not reply.casefold().startswith(("do", "yes", "ok", "go", "1", "sure", "please")):
            raise Stopped
        self.notes.append(f"Left out, as agreed: {shown}")
        return kept

    def _has_evidence(self, statement: Statement, tables: Mapping[str, Table]) -> bool:
        """Whether anything in it speaks of data rather than of the weather at large."""
        if (
            statement.chart
            or statement.wishes
            or statement.groups
            or statement.rank
            or statement.sort
            or statement.head
            or statement.describe
            or statement.distinct
            or statement.compare
            or statement.files
            or statement.over_time
            or any(c.op or not _all_words(c) for c in statement.conditions)
            or statement.verb == "filter"
        ):
            return True
        words = {singular(w) for w in fold(statement.text)}
        subjects = [*tables, *map(stem_of, self.transcript.files)]
        if any({singular(w) for w in fold(s)} & words for s in subjects):
            return True
        if words & {"data", "dataset", "table", "row", "record", "everything"}:
            return True
        mentions = [*statement.measures, *statement.about]
        pool = [c for table in tables.values() for c in table.columns]
        return any(m.column or candidates(m.text, pool) for m in mentions)

    # -- files -----------------------------------------------------------------------------------

    def _add_load(self, load: Load, work: _Work) -> str:
        paths = [self._file(name, work) for name in load.files]
        name = ""
        if not paths:
            text = " ".join(m.text for m in load.words)
            known = self._named_table(text, list(self._tables()))
            if known is not None and not self._stems_like(text):
                return known
            paths = [self._file_by_words(text, work)]
        for path in paths:
            name = self._add_source(path, work, load.name if len(paths) == 1 else None)
        return name

    def _add_source(self, path: str, work: _Work, given: str | None = None) -> str:
        for source in work.sources:
            if source.path == path:
                return source.name
        done = self._load_calls(path)
        if done:
            name = done[-1].bound[0] if done[-1].bound else ""
            if name:
                work.sources.append(Source(path, name))
                return name
        wanted = (
            codegen.identifier(given, "data")
            if given and not given.isidentifier()
            else given or codegen.name_for_file(path)
        )
        name = codegen.unique(wanted, self._taken(work) - self._reloadable(path, wanted))
        work.sources.append(Source(path, name))
        return name

    def _load_calls(self, path: str) -> list[Call]:
        starts = [f"{codegen.LOAD} {p} as " for p in recovery.other_paths(path, self._folder)]
        return [
            c
            for c in self.transcript.calls
            if c.name == "run_code" and any(c.purpose.startswith(s) for s in starts)
        ]

    @property
    def _folder(self) -> str:
        return self.transcript.working_folder

    def _reloadable(self, path: str, name: str) -> set[str]:
        """The name, if an earlier turn of this model bound it to this very file."""
        table = self._tables().get(name)
        told = f"`{name}` from {path}"
        for text in self.transcript.earlier:
            if told in text and table is not None and f"{table.rows:,} rows" in text:
                return {name}
        return set()

    def _taken(self, work: _Work | None = None) -> set[str]:
        context = {str(v["name"]) for v in self.transcript.variables if v.get("name")}
        sources = {s.name for s in work.sources} if work is not None else set()
        return context | sources

    def _data_files(self) -> list[str]:
        return [f for f in self.transcript.files if is_data_file(f)]

    def _file(self, name: str, work: _Work) -> str:
        files = self._data_files()
        wanted = name.replace("\\", "/").removeprefix("./").casefold()
        exact = [f for f in files if f.casefold() == wanted]
        same = exact or [f for f in files if f.casefold().endswith(f"/{wanted}")]
        if not same:
            base = wanted.rpartition("/")[2]
            same = [f for f in files if f.casefold().rpartition("/")[2] == base]
            if same and "/" in wanted:
                work.notes.append(f"{name!r} is not there; I took {same[0]!r}")
        if len(same) == 1:
            return same[0]
        if same:
            return self._choose_file(f"Which {name!r} do you mean?", same)
        near = near_files(name, files)
        question = f"There is no file {name!r}. Which one do you mean?"
        if question in self.answers:
            return self._choose_file(question, near or files)
        if near and _clearly(name, near):
            work.notes.append(f"There is no {name!r}; I took {near[0]!r}, the nearest name")
            return near[0]
        if near:
            return self._choose_file(question, near)
        if not files or "/" in wanted or wanted.startswith("~"):
            return name
        raise Declined(
            f"There is no file {name!r} here.",
            [f"{name} was not found among {len(files)} data files"],
            [f"Name one of these: {spoken(files[:8], 'or')}."],
        )

    def _choose_file(self, question: str, options: Sequence[str]) -> str:
        reply = self.answers.get(question)
        if reply is None:
            raise Ask(question, list(options)[:8])
        if is_stop(reply):
            raise Stopped
        files = self._data_files()
        near = [f for f in files if f.casefold() == reply.casefold()] or near_files(reply, files)
        if not near:
            raise Declined(
                f"There is no file {reply[:80]!r} either.",
                [f"{reply[:80]} was not found"],
                [f"Name one of these: {spoken(files[:8], 'or')}."],
            )
        return near[0]

    def _stems_like(self, text: str) -> list[str]:
        """The files whose name is, or holds, all these words."""
        words = {singular(w) for w in fold(text)} - _SUBJECTS
        if not words:
            return []
        stems = {f: {singular(w) for w in fold(stem_of(f))} for f in self._data_files()}
        equal = [f for f, s in stems.items() if s == words]
        return equal or [f for f, s in stems.items() if words <= s]

    def _file_by_words(self, text: str, work: _Work) -> str:
        files = self._data_files()
        if not text:
            if len(files) == 1:
                return files[0]
            if not files:
                raise _no_files()
            return self._choose_file("Which file should I load?", files)
        found = self._stems_like(text)
        if len(found) == 1:
            return found[0]
        question = f"Which file do you mean by {text!r}?"
        if found:
            return self._choose_file(question, found)
        near = near_files(text, files)
        if near and _clearly(text, near):
            work.notes.append(f"I took {text!r} to mean the file {near[0]!r}")
            return near[0]
        if not files:
            raise _no_files(text)
        return self._choose_file(question, near or files)

    # -- which table a statement is about --------------------------------------------------------

    def _target(
        self,
        statement: Statement,
        current: str | None,
        work: _Work,
        tables: Mapping[str, Table],
    ) -> str:
        if statement.files:
            return [self._add_source(self._file(f, work), work) for f in statement.files][-1]
        frames = [n for n in self.transcript.all_names if n in self._frames()]
        known = list(dict.fromkeys([*frames, *(s.name for s in work.sources)]))
        named = self._named_table(statement.text, known)
        if named is not None:
            return named
        if current is not None:
            return current
        if statement.refers_back:
            for name in reversed(self.transcript.mine):
                if name in frames:
                    return name
        by_file = self._file_subject(statement, tables, frames)
        if by_file is not None:
            return self._add_source(by_file, work)
        frames = [n for n in frames if n not in self._results()] or frames
        if len(frames) == 1:
            return frames[0]
        if frames:
            return self._choose_table(statement, frames, tables)
        return self._only_file(work)

    def _frames(self) -> set[str]:
        return {
            str(v.get("name")) for v in self.transcript.variables if v.get("type") == "dataframe"
        }

    def _named_table(self, text: str, names: Sequence[str]) -> str | None:
        """The table whose name stands in ``text``, as an identifier or word by word."""
        whole = [n for n in names if re.search(rf"(?<!\w){re.escape(n)}(?!\w)", text)]
        if not whole:
            # What this model named after its content ("mean_wind_by_city") would be found in
            # every request for the same content.
            spoken_of = [n for n in names if n not in self._results()]
            words = " ".join(singular(w) for w in fold(text))
            whole = [
                n
                for n in spoken_of
                if f" {' '.join(singular(w) for w in fold(n))} " in f" {words} "
            ]
        # "cars_japan" says more than "cars".
        return max(whole, key=lambda n: len(fold(n))) if whole else None

    def _results(self) -> set[str]:
        """The names that earlier turns of this model gave to what they computed."""
        told = " ".join(self.transcript.earlier)
        loaded = set(re.findall(r"Loaded `(\w+)` from", told))
        return set(self.transcript.mine) - loaded

    def _file_subject(
        self, statement: Statement, tables: Mapping[str, Table], frames: Sequence[str]
    ) -> str | None:
        before = [tables[name] for name in frames if name in tables]
        columns = {singular(w) for t in before for c in t.columns for w in fold(c.name)}
        words = {singular(w) for w in fold(statement.text)} - _SUBJECTS - columns
        stems = {f: {singular(w) for w in fold(stem_of(f))} for f in self._data_files()}
        whole = [f for f, stem in stems.items() if stem <= words]
        if len(whole) == 1:
            return whole[0]
        if frames:
            return None
        partial = [f for f, stem in stems.items() if stem & words]
        return partial[0] if len(partial) == 1 else None

    def _choose_table(
        self, statement: Statement, frames: Sequence[str], tables: Mapping[str, Table]
    ) -> str:
        question = "Which table do you mean?"
        reply = self.answers.get(question)
        if reply is not None:
            if is_stop(reply):
                raise Stopped
            near = [f for f in frames if f.casefold() == reply.casefold()]
            near = near or near_values(reply, frames, 1)
            if near:
                return near[0]
            raise Declined(
                f"There is no table {reply[:80]!r}.", [f"{reply[:80]!r} is no variable"],
                [f"Name one of {spoken(frames, 'or')}."],
            )  # fmt: skip
        mentions = [*statement.measures, *statement.groups, *statement.about, *statement.color,
                    *statement.against, *(m for w in statement.wishes for m in w.of),
                    *(statement.rank.by if statement.rank else [])]  # fmt: skip
        texts = [m.text for m in mentions if m.unit is None]
        if texts:
            fitting = [
                name
                for name in frames
                if name in tables
                and all(
                    any(m.score >= 90 for m in candidates(t, tables[name].columns)) for t in texts
                )
            ]
            if len(fitting) == 1:
                self.notes.append(f"I used `{fitting[0]}`, the one table with these columns")
                return fitting[0]
            frames = fitting or frames
        raise Ask(question, list(frames)[:8])

    def _only_file(self, work: _Work) -> str:
        files = self._data_files()
        if len(files) == 1:
            work.notes.append(f"No table was named, so I loaded {files[0]!r}, the only data file")
            return self._add_source(files[0], work)
        if not files:
            raise _no_files()
        return self._add_source(
            self._choose_file("There is no table yet. Which file should I load?", files), work
        )

    # -- loading ---------------------------------------------------------------------------------

    def _load(self, work: _Work) -> Step | None:
        calls = []
        for source in work.sources:
            cell = self._load_cell(source)
            if cell is not None:
                calls.append(cell)
        self._restore(work, calls)
        if not calls:
            return None
        self.notes += work.notes
        names = [c.table for c in calls if c.table]
        return self._run(f"I load {spoken(f'`{n}`' for n in names)}.", calls)

    def _load_cell(self, source: Source) -> codegen.Cell | None:
        tried = self._load_calls(source.path)
        alive = [c for c in tried if c.ok and not c.void]
        options = recovery.load_options(source.path, [c for c in tried if c.failed])
        path = self._path(source, tried)
        if alive:
            separator = self._wrong_separator(source, alive)
            if separator is None or f'sep="{separator}"' in alive[-1].code:
                return None
            options = [*[o for o in options if not o.startswith("sep")], f'sep="{separator}"']
            self.notes.append("The file does not separate its values by commas; I read it again")
        if 'encoding="latin-1"' in options:
            self.notes.append(f"{source.path!r} is not UTF-8; I read it as Latin-1")
        return codegen.load(path, source.name, options)

    def _path(self, source: Source, tried: Sequence[Call]) -> str:
        missing = [c for c in tried if c.error_type == "FileNotFoundError"]
        if not missing:
            return source.path
        for path in recovery.other_paths(source.path, self._folder):
            if not any(c.purpose.startswith(f"{codegen.LOAD} {path} as ") for c in missing):
                return path
        near = near_files(source.path, self._data_files())
        near = [f for f in near if f != source.path]
        raise Declined(
            f"The file {source.path!r} was not found.",
            [f"{source.path} does not exist"],
            [f"Did you mean {spoken(near, 'or')}?"] if near else ["Check the name and the folder."],
        )

    def _wrong_separator(self, source: Source, done: Sequence[Call]) -> str | None:
        table = self._tables().get(source.name)
        if table is None or len(table.columns) != 1 or source.path.endswith(("json", "parquet")):
            return None
        if len(done) > 1:
            return None
        name = table.columns[0].name
        return next((s for s in (";", "\\t", "|") if name.count("\t" if "t" in s else s)), None)

    def _restore(self, work: _Work, calls: list[codegen.Cell]) -> None:
        """Variables of the context that have gone are made again from their files."""
        known = {s.name for s in work.sources} | set(self._tables())
        for task in work.tasks:
            name = task.table
            if name in known or name in self.transcript.changed:
                continue
            path = self._restorable(name)
            if any(c.table == name for c in calls):
                continue
            cell = codegen.load(path, name)
            if cell.code in self.transcript.failed_code:
                raise _gone(name)
            calls.append(cell)

    def _restorable(self, name: str) -> str:
        found = [f for f in self._data_files() if codegen.name_for_file(f) == name]
        if len(found) != 1:
            raise _gone(name)
        return found[0]

    # -- understanding ---------------------------------------------------------------------------

    def _understand(self, work: _Work) -> Step | None:
        """Read every task against its table; a step when something must be seen first."""
        tables = self._tables()
        keeps = self._keep_calls()
        wanted: dict[str, list[str]] = {}
        narrowed: dict[str, str] = {}
        for task in work.tasks:
            task.base = narrowed.get(task.table, task.table)
            table = self._sampled(task, tables)
            if table is None:
                return self._run(f"I look at `{task.table}` as it is.", [codegen.look(task.table)])
            hidden = self._unseen(table)
            if hidden:
                cell = codegen.look(task.table, hidden)
                return self._run(f"I look at {len(hidden)} columns of `{task.table}`.", [cell])
            done = keeps[len(self._kept(work))] if len(self._kept(work)) < len(keeps) else None
            known = self._known(work, task, settled=done is not None)
            try:
                task.reading = Resolver(table, known).read(task.statement)
            except LookFor as missing:
                wanted.setdefault(task.table, []).extend(missing.words)
                continue
            if task.reading.keeps:
                task.narrowed = done.bound[0] if done else self._keep_name(task, work)
                if _is_plain(task.statement):
                    narrowed[task.table] = task.narrowed
        for name, words in wanted.items():
            task = next(t for t in work.tasks if t.table == name)
            table = self._sampled(task, tables)
            assert table is not None
            cell = codegen.search(table, list(dict.fromkeys(words)))
            shown = spoken(repr(w[:40]) for w in dict.fromkeys(words))
            return self._run(f"I look where {shown} occurs in `{name}`.", [cell])
        return None

    def _kept(self, work: _Work) -> list[Task]:
        return [t for t in work.tasks if t.narrowed]

    def _sampled(self, task: Task, tables: Mapping[str, Table]) -> Table | None:
        """What is known of the task's table; samples may come from tables made of it."""
        table = tables.get(task.table)
        for other in tables.values():
            if table is not None and other.name != table.name:
                table = table.seen_through(other.columns) if _alike(table, other) else table
        return table

    def _unseen(self, table: Table) -> list[str]:
        """The columns to look at before anything is decided."""
        if table.rows == 0:
            return []
        looked = [
            c.code
            for c in self.transcript.code_calls
            if c.ok and c.purpose == f"{codegen.LOOK} {table.name}" and c.result.get("outputs")
        ]
        hidden = [c for c in table.unseen if not any(codegen.literal(c.name) in x for x in looked)]
        if len(hidden) > MAX_LOOKED:
            # A summary has room for few columns: those that the request may speak of.
            words = {singular(w) for w in fold(self.transcript.request)} | _TIMES
            share = {c.name: _share(c.name, words) for c in hidden}
            needed = 1.0 if looked else 0.5
            hidden = [c for c in hidden if share[c.name] >= needed]
            hidden.sort(key=lambda c: -share[c.name])
        return [c.name for c in hidden if not table.is_doubled(c.name)][:MAX_LOOKED]

    def _nouns(self, work: _Work, task: Task) -> frozenset[str]:
        paths = [s.path for s in work.sources if s.name == task.table]
        paths += [f for f in self._data_files() if codegen.name_for_file(f) == task.table]
        return frozenset(singular(w) for p in paths for w in fold(stem_of(p)))

    def _known(self, work: _Work, task: Task, *, settled: bool) -> Known:
        return Known(
            answers=self.answers,
            values=self._found_values(task.table),
            distinct=self._counted_values(task.narrowed or task.base or task.table),
            nouns=self._nouns(work, task),
            settled=settled,
        )

    def _found_values(self, table: str) -> dict[str, dict[str, list[str]]]:
        """What searches found, by the words that were searched for."""
        found: dict[str, dict[str, list[str]]] = {}
        for call in self.transcript.code_calls:
            if not call.ok or not call.purpose.startswith(f"{codegen.SEARCH} "):
                continue
            if not call.purpose.endswith(f" in {table}"):
                continue
            values = _last_json(call.printed)
            if values is None:
                continue
            held = {k: [str(x) for x in v] for k, v in values.items() if isinstance(v, list)}
            for words in _searched_words(call.code):
                found[words.casefold()] = held
        return found

    def _counted_values(self, table: str) -> dict[str, int]:
        for call in reversed(self.transcript.code_calls):
            if call.ok and call.purpose == f"{codegen.DISTINCT} {table}":
                counts = _last_json(call.printed) or {}
                return {k: v for k, v in counts.items() if isinstance(v, int)}
        return {}

    # -- filters ---------------------------------------------------------------------------------

    def _keep_calls(self) -> list[Call]:
        """The cells that kept rows and worked, in order."""
        calls = [
            c
            for c in self.transcript.code_calls
            if c.purpose.startswith((codegen.KEEP, codegen.KEEP_FIRST)) and c.ok and c.bound
        ]
        return list({c.purpose: c for c in calls}.values())

    def _keep_name(self, task: Task, work: _Work) -> str:
        assert task.reading is not None
        wanted = codegen.filtered_name(task.base, task.reading.keeps)
        mine = set(self.transcript.mine) - {t.table for t in work.tasks}
        taken = (self._taken(work) - mine) | {t.narrowed for t in work.tasks if t.narrowed}
        return codegen.unique(wanted, taken)

    def _keep(self, work: _Work) -> Step | None:
        keeps = {c.bound[0]: c for c in self._keep_calls()}
        self._check_empty(keeps)
        cells = []
        for task in work.tasks:
            if not task.narrowed or task.narrowed in keeps or task.reading is None:
                continue
            first = not _is_plain(task.statement)
            failed = [
                c
                for c in self.transcript.code_calls
                if c.failed and c.bound[:1] == (task.narrowed,)
            ]
            options = recovery.analysis_options(failed, self._day_first(task))
            cell = codegen.keep_rows(
                task.base, task.narrowed, task.reading.keeps, options, first=first
            )
            cells.append(cell)
            self._tell(task.reading.notes)
        if not cells:
            return None
        conditions = spoken(c.purpose.partition(" where ")[2] for c in cells)
        return self._run(f"I keep the rows where {conditions}.", cells)

    def _check_empty(self, keeps: Mapping[str, Call]) -> None:
        for name, call in keeps.items():
            rows = [s.get("rows") for s in call.summaries() if s.get("name") == name]
            if rows and rows[-1] == 0:
                what = call.purpose.partition(" where ")[2]
                raise Declined(
                    f"No row is left: there is none where {what}.",
                    [f"`{name}` is empty, so nothing was computed from it"],
                    ["Widen the filter, or ask to describe the table to see what it holds."],
                )

    def _day_first(self, task: Task) -> frozenset[str]:
        table = self._sampled(task, self._tables())
        if table is None:
            return frozenset()
        resolver = Resolver(table, Known(answers=self.answers))
        unclear = [c for c in table.dates if c.day_first_unclear]
        return frozenset(
            c.name
            for c in unclear
            if resolver.day_question(c) in self.answers and resolver.day_first(c)
        )

    # -- computing -------------------------------------------------------------------------------

    def _result_calls(self) -> list[Call]:
        """The cells that answer, that worked, by their headings, in order."""
        calls = [c for c in self.transcript.code_calls if c.ok and _is_result(c)]
        return list({c.purpose: c for c in calls}.values())

    def _final_keeps(self) -> list[Call]:
        return [c for c in self._keep_calls() if c.purpose.startswith(codegen.KEEP)]

    def _computed(self, work: _Work) -> bool:
        done = len(self._result_calls()) + len(self._final_keeps())
        return done >= len(work.tasks)

    def _compute(self, work: _Work) -> Step | None:
        tables = self._tables()
        cells: list[codegen.Cell] = []
        headings: set[str] = set()
        names: set[str] = set()
        done = {c.purpose: c for c in self._result_calls()}
        for task in work.tasks:
            if task.reading is None or (task.narrowed and _is_plain(task.statement)):
                continue
            base = task.narrowed or task.base
            table = self._sampled(task, tables)
            assert table is not None
            rows = tables[base].rows if base in tables else table.rows
            known = self._known(work, task, settled=True)
            try:
                analysis = Resolver(replace(table, rows=rows), known).decide(task.reading)
            except CountDistinct as missing:
                cell = codegen.count_distinct(base, missing.columns)
                return self._run("I check how often values repeat.", [cell])
            suffix = self._suffix(base)
            heading = f"{analysis.title}{suffix}"
            while heading in headings:
                heading += " again"
            headings.add(heading)
            if heading in done:
                names |= set(done[heading].bound)
                continue
            failed = [c for c in self.transcript.code_calls if c.failed and c.purpose == heading]
            options = replace(
                recovery.analysis_options(failed, self._day_first(task)), title_suffix=suffix
            )
            made = codegen.analyse(
                replace(table, name=base, rows=rows),
                analysis,
                self._unavailable(work) | names,
                options,
                heading,
            )
            names |= {n for n in (made.table, made.chart) if n}
            self._tell(analysis.notes)
            cells.append(made)
        if not cells:
            return None
        return self._run(f"Next: {spoken(_lower(c.purpose) for c in cells)}.", cells)

    def _check_failures(self) -> None:
        """What cannot be mended is said at once, before anything else is looked at."""
        failed: dict[str, list[Call]] = {}
        for call in self.transcript.code_calls:
            if call.ok:
                failed.pop(call.purpose, None)
            elif call.failed and not _is_load(call):
                failed.setdefault(call.purpose, []).append(call)
        for calls in failed.values():
            recovery.analysis_options(calls, frozenset())

    def _unavailable(self, work: _Work) -> set[str]:
        kept = {c.bound[0] for c in self._keep_calls()}
        mine = set(self.transcript.mine) - {t.table for t in work.tasks}
        return (self._taken(work) - mine) | kept | {t.narrowed for t in work.tasks if t.narrowed}

    def _suffix(self, base: str) -> str:
        for call in self._keep_calls():
            if call.bound[0] == base:
                where = call.purpose.partition(" where ")[2]
                return f" ({where})"
        return ""

    # -- publishing ------------------------------------------------------------------------------

    def _products(self, work: _Work) -> list[Product]:
        """What each task made, in the order of the tasks."""
        finals, results = self._final_keeps(), self._result_calls()
        products = []
        for task in work.tasks:
            source = finals if finals and _is_plain(task.statement) else results
            if source:
                products.append(_product(source.pop(0)))
        return products

    def _publish(self, work: _Work) -> Step | None:
        if not work.publishing:
            return None
        products = self._products(work)
        calls: list[tuple[str, dict[str, Any]]] = []
        for publish, after, current in work.publishing:
            for kind, variable, title in self._to_publish(publish, products[:after], current):
                tool = "return_chart" if kind == "chart" else "return_dataset"
                if tool not in self.tools:
                    raise Declined(
                        f"There is no tool to publish a {kind} with; `{variable}` is in the "
                        "notebook.",
                        [f"{tool} is not among the tools"],
                    )
                before = [
                    c
                    for c in self.transcript.calls
                    if c.name == tool and c.arguments.get("variable") == variable
                ]
                if any(c.ok for c in before):
                    continue
                if any(c.failed for c in before):
                    last = before[-1]
                    raise Declined(
                        f"`{variable}` is in the notebook, but publishing it failed.",
                        [f"{last.error_type}: {last.error_text}"[:300]],
                        ["Publish it again in a new request once that is settled."],
                    )
                calls.append((tool, {"variable": variable, "title": title}))
        if not calls:
            return None
        names = spoken(f"`{arguments['variable']}`" for _, arguments in calls)
        return Step(f"I publish {names}.", tuple(calls))

    def _to_publish(
        self, publish: Publish, products: Sequence[Product], current: str | None
    ) -> list[tuple[str, str, str]]:
        named = self._named_variable(publish)
        if named is not None:
            kind = "chart" if named in self.transcript.figures() else "dataset"
            return [(kind, named, publish.title or _spaced(named))]
        kinds = publish.kinds or (
            ["chart"] if products and products[-1].chart is not None else ["dataset"]
        )
        if not products and not publish.kinds and not current and self.transcript.figures():
            kinds = ["chart"]
        found = []
        for kind in kinds:
            made = [
                (p.chart if kind == "chart" else p.table, p.title)
                for p in products
                if (p.chart if kind == "chart" else p.table) is not None
            ]
            chosen = made if publish.every else made[-1:]
            if not chosen:
                chosen = [self._existing(kind, current)]
            for variable, title in chosen:
                assert variable is not None
                found.append((kind, variable, publish.title or title))
        return found

    def _named_variable(self, publish: Publish) -> str | None:
        names = self.transcript.names
        for mention in publish.target:
            for name in names:
                if fold(mention.text) == fold(name):
                    return name
        return None

    def _existing(self, kind: str, current: str | None) -> tuple[str, str]:
        """A variable of before this turn that can be meant."""
        if kind == "dataset" and current is not None:
            return current, _spaced(current)
        names = self.transcript.names
        pool = [n for n in names if n in (
            self.transcript.figures() if kind == "chart" else self._frames())]  # fmt: skip
        mine = [n for n in self.transcript.mine if n in pool]
        if mine or len(pool) == 1:
            name = (mine or pool)[-1]
            return name, _spaced(name)
        if not pool:
            raise Declined(
                f"There is no {kind} to publish.",
                [f"no {kind} was made in this request, and none is in the notebook"],
                ["Ask for one first, for instance 'plot mean price by year and publish it'."],
            )
        question = f"Which {kind} should I publish?"
        reply = self.answers.get(question)
        if reply is None:
            raise Ask(question, pool[:8])
        if is_stop(reply):
            raise Stopped
        near = [n for n in pool if n.casefold() == reply.casefold()] or near_values(reply, pool, 1)
        if not near:
            raise Declined(f"There is no {kind} {reply[:80]!r}.", [f"{reply[:80]} is not there"])
        return near[0], _spaced(near[0])

    # -- ending ----------------------------------------------------------------------------------

    def _summary(self, work: _Work) -> str:
        parts = [self._loaded_text(source) for source in work.sources]
        for call in self._keep_calls():
            parts.append(_told(call))
        for call in self._result_calls():
            parts.append(_told(call))
        for done in self.transcript.calls:
            if done.name in ("return_chart", "return_dataset") and done.ok:
                kind = "chart" if done.name == "return_chart" else "dataset"
                name, title = done.arguments.get("variable"), done.arguments.get("title")
                parts.append(f"Published the {kind} `{name}` as {title!r}.")
        notes = [
            line[len(NOTE) :]
            for text in self.transcript.said
            for line in text.splitlines()
            if line.startswith(NOTE)
        ]
        parts += dict.fromkeys([*notes, *(f"{n}." for n in self.notes if f"{n}." not in notes)])
        return " ".join(p for p in parts if p) or "There was nothing to do."

    def _loaded_text(self, source: Source) -> str:
        table = self._tables().get(source.name)
        if table is None or table.rows is None:
            return f"Loaded `{source.name}` from {source.path}."
        return (
            f"Loaded `{source.name}` from {source.path}: {table.rows:,} rows, "
            f"{len(table.columns)} columns."
        )

    def _tell(self, notes: Sequence[str]) -> None:
        for note in notes:
            if note not in self.notes:
                self.notes.append(note)

    def _run(self, text: str, cells: Sequence[codegen.Cell]) -> Step:
        cells = [self._fresh(cell) for cell in cells]
        told = {line for said in self.transcript.said for line in said.splitlines()}
        new = [f"{NOTE}{n}." for n in self.notes if f"{NOTE}{n}." not in told]
        calls = tuple(("run_code", {"code": c.code, "purpose": c.purpose}) for c in cells)
        return Step("\n".join([text, *new]), calls)

    def _fresh(self, cell: codegen.Cell) -> codegen.Cell:
        """The cell, never with code that failed; raises ``Declined`` when nothing else is left."""
        failed = [c for c in self.transcript.calls if c.failed and c.code == cell.code]
        if not failed:
            return cell
        name = missing_name(failed[-1])
        again = replace(cell, code=f"# Once more, now that {name} is there again.\n{cell.code}")
        if name is None or again.code in self.transcript.failed_code:
            raise recovery.gave_up(failed[-1])
        return again

    def _ask(self, missing: Ask) -> Step:
        if "ask_user" not in self.tools:
            return self._decline(
                Declined(
                    "I need an answer and there is no tool to ask with.",
                    [missing.question],
                    [f"Say it in the request: {spoken(missing.choices, 'or')}."],
                )
            )
        arguments: dict[str, Any] = {"question": missing.question}
        if missing.context:
            arguments["context"] = missing.context
        if missing.choices:
            arguments["choices"] = list(missing.choices)
        return Step("I need to know one thing first.", (("ask_user", arguments),))

    def _decline(self, declined: Declined) -> Step:
        if "return_unable" not in self.tools:
            return Step(" ".join([declined.rationale, *declined.steps]))
        arguments = {
            "rationale": declined.rationale,
            "blockers": list(declined.blockers) or [declined.rationale],
            "suggested_next_steps": list(declined.steps) or help_steps(short=True),
        }
        return Step("I cannot do this.", (("return_unable", arguments),))

    def _finish(self, summary: str) -> Step:
        if "return_done" not in self.tools:
            return Step(summary)
        return Step("That is done.", (("return_done", {"summary": summary}),))


def _is_column(word: str, tables: Mapping[str, Table]) -> bool:
    return any(fold(c.name) == fold(word) for table in tables.values() for c in table.columns)


def _share(name: str, words: Collection[str]) -> float:
    """How much of a name stands in ``words``: 1 is all of it."""
    own = fold(name)
    return sum(singular(w) in words for w in own) / max(len(own), 1)


def _all_words(condition: Condition) -> bool:
    return all(isinstance(value, Mention) for value in condition.values)


def _alike(table: Table, other: Table) -> bool:
    return [c.name for c in table.columns] == [c.name for c in other.columns]


_TIMES = word_set("date day month year time week")
_SUBJECTS = word_set("data dataset table file csv json excel parquet the a of and from in")


def _merged(clauses: Sequence[Clause]) -> list[Clause]:
    """Clauses that only say how to draw what came before are joined to it."""
    merged: list[Clause] = []
    for clause in clauses:
        last = merged[-1] if merged else None
        if isinstance(clause, Statement) and isinstance(last, Statement):
            drawable = last.chart is None and not last.describe and not last.head
            asks = bool(last.wishes or last.groups or last.rank or last.distinct)
            only_groups = bool(last.groups) and not (last.wishes or last.chart or last.rank)
            if last.verb == "group" and only_groups and clause.wishes and not clause.groups:
                clause.groups, clause.text = last.groups, f"{last.text} {clause.text}"
                merged[-1] = clause
                continue
            if clause.bare_chart and drawable and asks and not clause.unsupported:
                last.chart, last.stacked = clause.chart, clause.stacked
                continue
        if isinstance(clause, Publish) and "chart" in clause.kinds and isinstance(last, Statement):
            asks = bool(last.wishes or last.groups or last.rank or last.over_time)
            if last.chart is None and asks:
                last.chart = "auto"
        merged.append(clause)
    return merged


def _is_plain(statement: Statement) -> bool:
    """Whether it asks for rows as they are."""
    return not (
        statement.chart
        or statement.wishes
        or statement.groups
        or statement.rank
        or statement.sort
        or statement.describe
        or statement.distinct
        or statement.head
        or statement.over_time
        or statement.against
        or statement.compare
        or any(m.column for m in [*statement.measures, *statement.about])
    )


_STAGES = (codegen.LOOK, codegen.SEARCH, codegen.DISTINCT, codegen.KEEP, codegen.KEEP_FIRST)


def _is_load(call: Call) -> bool:
    return call.purpose.startswith(f"{codegen.LOAD} ") and " as " in call.purpose


def _is_result(call: Call) -> bool:
    return not _is_load(call) and not call.purpose.startswith(tuple(f"{s} " for s in _STAGES))


def _product(call: Call) -> Product:
    names = list(call.bound)
    charts = [n for n in names if re.search(r"_chart(_\d+)?$", n)]
    tables = [n for n in names if n not in charts]
    kinds = {str(s.get("name")): s.get("type") for s in call.summaries()}
    tables = [n for n in tables if kinds.get(n, "dataframe") == "dataframe"]
    title = call.purpose
    if title.startswith(f"{codegen.KEEP} "):
        title = title.removeprefix(f"{codegen.KEEP} the rows of ").replace(" where ", ": ")
    return Product(tables[0] if tables else None, charts[-1] if charts else None, title)


def _told(call: Call) -> str:
    """A finished cell as a sentence: what it is, under which names, and what it printed."""
    product = _product(call)
    if not _is_result(call):
        kept = re.search(r"Rows kept: (\d+) of (\d+)", "\n".join(call.printed))
        of = f": {int(kept.group(1)):,} of {int(kept.group(2)):,}" if kept else ""
        what = call.purpose.partition(" rows of ")[2]
        return f"`{product.table}` holds the rows of {what}{of}."
    made = []
    rows = {str(s.get("name")): s.get("rows") for s in call.summaries()}
    if product.table is not None:
        count = rows.get(product.table)
        noun = "row" if count == 1 else "rows"
        made.append(f"`{product.table}`{f' ({count:,} {noun})' if isinstance(count, int) else ''}")
    if product.chart is not None:
        made.append(f"chart `{product.chart}`")
    if not made:
        made += [f"`{name}`" for name in call.bound]
    shown = rows.get(product.table or "")
    lines = [" ".join(line.split())[:200] for line in call.printed[:4] if line.strip()]
    cut = f".head({codegen.MAX_BARS}))" in call.code
    if cut and isinstance(shown, int) and shown > codegen.MAX_BARS:
        lines.append(f"The chart shows the first {codegen.MAX_BARS} of {shown:,} bars")
    text = f"{call.purpose}: {spoken(made)}" if made else call.purpose
    return f"{text}. {'; '.join(lines)}." if lines else f"{text}."


def _last_json(lines: Sequence[str]) -> dict[str, Any] | None:
    for line in reversed(lines):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    return None


def _searched_words(code: str) -> list[str]:
    found = re.search(r"^# Searched for: (.*)$", code, re.MULTILINE)
    try:
        words = json.loads(found.group(1)) if found else []
    except ValueError:
        return []
    return [str(w) for w in words]


def _clearly(name: str, near: Sequence[str]) -> bool:
    """Whether the first of the near files stands alone and is but a slip away."""
    wanted = fold(stem_of(name))
    best = fold(stem_of(near[0]))
    return len(near) == 1 and near_values("".join(wanted), ["".join(best)]) != []


def _odd_names(files: Sequence[str]) -> list[str]:
    """Files whose names are not one plain word: they are looked for in the text as they are."""
    bases = [f.rpartition("/")[2] for f in files if is_data_file(f)]
    return [n for n in [*files, *bases] if is_data_file(n) and re.search(r"[^\w.\-/]", n)]


def _gone(name: str) -> Declined:
    return Declined(
        f"The variable `{name}` no longer exists, and I do not know how it was made.",
        [f"`{name}` is gone"],
        [f"Run the cell that makes `{name}`, then ask again."],
    )


def _no_files(text: str = "") -> Declined:
    asked = f" that could be {text!r}" if text else ""
    return Declined(
        f"There is no table in the notebook and no data file{asked} in its folder.",
        ["no data to work on"],
        ["Put a CSV, Parquet, Excel or JSON file beside the notebook, or load a table.",
         "Then try for instance: 'load data/cars.csv'"],
    )  # fmt: skip


def _spaced(name: str) -> str:
    text = name.replace("_", " ")
    return text[:1].upper() + text[1:]


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == "" else text
