"""The chat model that needs no network: same request, same answer.

From a transcript to the next step: load, look, compute, publish, finish. Where a turn stands is
read off the messages each time; nothing is remembered between requests.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from rapidfuzz import fuzz

from parsimony_kernel.core import chat
from parsimony_kernel.core.text import counted
from parsimony_kernel.execution.csv_dialect import in_words
from parsimony_kernel.offline import code, words
from parsimony_kernel.offline.code import Query, Table, Transcript, Unclear, no_if, read_table
from parsimony_kernel.offline.reader import Reader
from parsimony_kernel.offline.words import Token, clause, is_data_file, spoken, tokenize

MAX_REQUEST = 2_000
REAL_MODEL = words.table()["no"]["model"]
_WHICH = "Which table do you mean?"
_EMPTY = re.compile(r"(?m)Empty DataFrame\nColumns: .*\nIndex: .*|\b(?:nan|NaN|NaT|None|<NA>)$")


@dataclass(eq=False)
class Step(Exception):
    """What to say, or which tool to call; raised where nothing goes on before its answer."""

    text: str = ""
    tool: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)


class OfflineModel:
    """A deterministic, stateless planner behind the protocol of a chat model."""

    # It is no reader of text: the gate's answers come as they are.
    reads_envelopes = True
    name = chat.OFFLINE

    async def estimate_cost_usd(self, prompt_tokens: int, answer_tokens: int) -> float:
        """Nothing: it runs here."""
        return 0.0

    async def stream(
        self, request: chat.ModelRequest
    ) -> AsyncIterator[chat.Delta | chat.Completion]:
        """What there is to say, then the next step as a tool call."""
        tools = frozenset(str(tool.get("function", {}).get("name")) for tool in request.tools)
        step = _Planner(code.read(request.messages), tools).next_step()
        if step.text:
            yield chat.Delta(text=step.text)
        written = json.dumps(step.arguments, ensure_ascii=False)
        # The same for the same request, and unique in a run, since that grows.
        call = chat.ToolCall(f"call_{len(request.messages)}", chat.FunctionCall(step.tool, written))
        calls = [call] if step.tool else []
        yield chat.answer(step.text, calls, model=chat.OFFLINE, cost_usd=0.0)


class _Planner:
    def __init__(self, turn: Transcript, tools: frozenset[str]) -> None:
        self.turn, self.tools = turn, tools
        self.files = list(filter(is_data_file, turn.context.get("files") or ()))
        # What this turn has made keeps its name where the person has changed it meanwhile.
        self.taken = {*turn.variables} - {*(turn.context.get("replaceable") or ()), *turn.made}
        self.named: list[code.Column] = []  # those of the part that was not understood
        # The table in hand, that of the part before, and the rows that it kept.
        self.subject = self.table = self.kept = ""
        self.loaded: list[Table] = []
        self.made: list[code.Cell] = []
        self.part: Sequence[Token] = ()  # the one that was answered last
        # The sentences of the summary, in its order.
        lists = [list[str]() for _ in range(5)]
        self.answers, self.loads, self.saves, self.published, self.notes = lists

    def next_step(self) -> Step:
        """Decide what to say and which tool to call next; only those that there are are called."""
        try:
            return self.end("return_done", self.plan())
        except Step as first:
            return first
        except Unclear as unclear:
            return self.ask(unclear) if unclear.choices else self.unable(unclear.text)

    # -- endings -----------------------------------------------------------------------------

    def end(self, tool: str, text: str, **arguments: Any) -> Step:
        """Call the tool that ends a turn, or say the same where there is none."""
        return Step("", tool, arguments or {"summary": text}) if tool in self.tools else Step(text)

    def ask(self, unclear: Unclear) -> Step:
        """Ask the person, or say what to ask."""
        text = f"{unclear.text} Please say it in full: {spoken(unclear.choices, 'or')}."
        return self.end("ask_user", text, question=unclear.text, choices=[*unclear.choices])

    def unable(self, why: str) -> Step:
        """Say why it cannot be done, and what can."""
        # What a real model takes is said with the first refusal of several in a row.
        is_told = self.turn.last.startswith("Not done; it was ")
        steps = [*(f"`{each}`" for each in self._suggestions()), *[REAL_MODEL][is_told:]]
        steps = [] if "This was not allowed." in why else steps
        why = " ".join([why, *self.answers, *self.loads, *self.saves])
        return self.end("return_unable", " ".join([why, *steps]), rationale=why, blockers=[why],
                        suggested_next_steps=steps)  # fmt: skip

    def _suggestions(self) -> list[str]:
        """Two requests that would work, about the columns that were named, else the first."""
        tables = filter(None, (self.turn.tables().get(self.subject), *self._originals()))
        for each in (table for table in tables if not table.library):
            columns = sorted(each.columns, key=lambda c: c not in self.named)
            groups = sorted(each.texts, key=lambda c: (c not in self.named, len(c.samples)))
            return code.text("suggestions", each.name, columns, groups).splitlines()[:2]
        named = (f'"{each}"' if " " in each else each for each in self.files[:2])
        return [f"load {each}" for each in named] or ["load FILE.csv"]

    # -- the turn ----------------------------------------------------------------------------

    def plan(self) -> str:
        """Give the summary, once everything is done."""
        request = self.turn.request
        no_if(len(request) > MAX_REQUEST, "long", len(request), MAX_REQUEST)
        no_if(clause("fix", request), "fix")
        for each in (f for f in self.files if " " in f and f'"{f}"' not in request):
            request = request.replace(each, f'"{each}"')
        tokens = tokenize(request.rstrip("! \n"))
        no_if(any(t.kind == "web" for t in tokens), "web")
        deeds = [t.text for t in tokens if t.kind == "word" and clause("deeds", t.low)]
        no_if(deeds, "deeds", *deeds[:1])
        for part in _clauses(tokens):
            said = " ".join(t.low for t in part)
            is_drawn = clause("draws", said)
            no_if(clause("change", said) or (is_drawn and not (self.part or self.loaded)), "whole")
            self._do([*self.part, Token("sign", ","), *part] if is_drawn else part)
        told = [*self.answers, *self.loads, *self.saves, *self.published, *self.notes]
        no_if(not told, "empty")
        changed = (each for each in self.turn.changed if each in self.turn.tables())
        told += [f"`{each}` was changed while the question waited." for each in changed]
        return " ".join(dict.fromkeys(told))

    def _do(self, part: list[Token]) -> None:
        text = " ".join(t.text for t in part)
        found = ((kind, pattern.fullmatch(text)) for pattern, kind in words.asides())
        kind, aside = next(((kind, match) for kind, match in found if match), ("", None))
        if kind == "help":
            here = spoken(f"`{each}`" for each in self._suggestions())
            there = words.table()["no"]["examples"]
            self.notes += [f"You can ask here, for example: {here}.", there, REAL_MODEL]
            return
        if aside:
            rest = aside.groupdict().get("rest") or ""
            part = [] if clause("it", rest) else tokenize(rest)
        part = self._load(part)
        if any(t.kind in ("word", "quoted", "number") for t in part):
            query = self._read(part)
            is_more = part[: len(self.part)] == self.part
            self.part, self.table = part, query.table
            # A column may be called as the table is: a file or a snapshot is of the table.
            own = [c for c in query.columns if aside and c.name == query.table]
            is_all = query == Query(query.table, "rows", columns=own, notes=query.notes)
            if is_all and (aside or part[0].low in ("use", "take", "with", "using")):
                self.subject, self.made = query.table, []
            else:
                # "Then" goes on from kept rows; from anything else it may, or not.
                is_on = is_more or query.table == self.kept
                no_if(self.answers and not is_on, "then")
                self._compute(query)
        if aside:
            self._publish(kind, aside.groupdict())

    # -- files -------------------------------------------------------------------------------

    def _load(self, part: list[Token]) -> list[Token]:
        """Load the file that a part names; what is left of it."""
        left, path, name = _apart(part)
        said = [t.low for t in left if t.kind == "word" and not clause("loading", t.low)]
        no_if(path and said and not {*said} & words.keywords(), "load", *said[:1], path)
        while path:
            self._load_file(self._path(path), name)
            left, path, name = _apart(left)
        rest = {t.low for t in left if t.kind != "sign"} - {t.name.casefold() for t in self.loaded}
        return [] if self.loaded and all(clause("loading", word) for word in rest) else left

    def _load_file(self, path: str, name: str) -> None:
        kind = words.table()["spellings"]["files"].get(path.casefold().rpartition(".")[2])
        reading = self._sniffed(path, kind) if kind == "excel" else {"options": {}}
        no_if(name and words.identifier(name) != name.lower(), "unused", name)
        name = name or _named(reading["options"].get("sheet_name", path))
        table, error = self._loaded(path, name, reading)
        # It may be written in another way than pandas expects.
        columns = table.columns if table else ()
        is_odd = any(c.looks("odd") or clause("odd_name", c.name) for c in columns) or not table
        # Whole lines may stand in one column.
        lines = [each for c in columns for each in (c.name, *c.samples)] * (len(columns) == 1)
        is_odd |= any(clause("odd_name", each) for each in lines)
        if kind == "csv" and is_odd and "no such file" not in error:
            reading = self._sniffed(path, kind, name if table else "")
            if any(reading.values()):
                table, error = self._loaded(path, name, reading)
                self.notes.append(f"Read {path} with {in_words(**reading)}.")
        no_if(table is None, "step", f"{path} cannot be read", error[:300] or "It holds no table.")
        assert table is not None
        widths = {len(each.split()) for each in lines}
        is_parted = len(widths) == 1 and min(widths) > 2
        is_parted = is_parted and all(re.search(r" -?\d[\d.,]*$", each) for each in lines[1:])
        is_parted |= bool(lines) and clause("odd_name", lines[0])
        # Under a plain header, lines with separators are texts, or stand below a title.
        is_text = reading["options"].get("skiprows") == 1
        if lines and (is_text if reading["options"] else is_parted):
            self._dropped(name)
            no_if(True, "header", path, lines[0][:60])
        rows = [] if table.rows is None else [counted(table.rows, "row")]
        gaps = [f"{c.missing:,} missing in {c.name}" for c in table.columns if c.missing]
        gaps[3:] = ["more in other columns"] * bool(gaps[3:])
        size = ", ".join([*rows, counted(len(table.columns), "column"), *gaps])
        self.loads.append(f"Loaded `{name}` from {path}: {size}.")
        self.loaded.append(table)
        self.subject = name
        self.taken.add(name)

    def _loaded(self, path: str, name: str, reading: dict[str, Any]) -> tuple[Table | None, str]:
        """The table that a file holds, read in one way, and the error."""
        call = self._called("run_code", code.load(path, name, reading))
        # What the call itself told: the same name may have been loaded in another way since.
        table = read_table(call.variables.get(name, {})) or self.turn.tables().get(name)
        return (None if call.error else table), call.error

    def _dropped(self, name: str) -> None:
        """Delete what was read of a file in a way that is not its own."""
        self._called("run_code", code.arguments(f"del {name}", f"Leave out {name} as it was read"))

    def _sniffed(self, path: str, kind: str, bound: str = "") -> dict[str, Any]:
        """How a text file is written, or which sheet of a workbook is meant.

        Where that is a question, ``bound``, read in one way, is deleted first.
        """
        told = self._looked(code.text(f"{kind}_ways", path), f"Look how {path} is written", path)
        no_if(told is None and kind == "excel", "sheets", path)
        ways = {each.pop("says"): each for each in told or [{"says": "", "options": {}}]}
        many = "has {} sheets" if kind == "excel" else "can be read in {} ways"
        question = f"{path} {many.format(len(ways))}. Which one?"
        if len(ways) > 1:
            if bound:
                self._dropped(bound)
            return dict(ways[self.turn.choose(question, [*ways])])
        return {"options": {}} if kind == "excel" else dict(ways.popitem()[1])

    def _path(self, path: str) -> str:
        """Find where a file lies, as far as the listing tells; a near miss is a question."""
        low, base = path.casefold(), path.casefold().rpartition("/")[2]
        found = [f for f in self.files if f"/{f}".casefold().endswith(f"/{low}")]
        near = [f for f in self.files if fuzz.ratio(base, f.casefold().rpartition("/")[2]) >= 80]
        if near and not (found or path.startswith(("/", "..", "~"))):
            return self.turn.choose(f"There is no file {path!r}. Which one do you mean?", near)
        return found[0] if len(found) == 1 else path

    # -- code --------------------------------------------------------------------------------

    def _called(self, tool: str, arguments: dict[str, Any]) -> code.Answer:
        """What came of the call of a tool; raises ``Step`` until it was answered."""
        no_if(tool not in self.tools, "tool", tool)
        answer = self.turn.calls.get(code.key(tool, arguments))
        if answer is None:
            raise Step("", tool, arguments)
        return answer

    def _done(self, tool: str, arguments: dict[str, Any], what: str = "") -> Mapping[str, Any]:
        """The result of a call; what it is for cannot be done without it."""
        answer = self._called(tool, arguments)
        what = what or arguments.get("purpose", "Publishing")
        no_if(answer.error, "step", what, answer.error[:300])
        return answer.result

    def _looked(self, expression: str, why: str, what: str = "") -> Any:
        """What an expression comes to, as JSON; ``None`` where the model is not told."""
        result = self._done("run_code", code.arguments(f"print({expression})", why), what)
        with suppress(ValueError):
            return json.loads(str(result.get("stdout")))
        return None

    def _originals(self) -> list[Table]:
        """The tables that this model has not computed, as far as can be told."""
        own = {self.subject, *(t.name for t in self.loaded)}
        known, made = self.turn.tables(), self.turn.made
        return [known[n] for n in known if n in own or not (n in made or clause("made", n))]

    def _read(self, part: Sequence[Token]) -> Query:
        """Read a part about the table that it names, or the one in hand, or one that it fits."""
        known, said = self.turn.tables(), {t.low for t in part if t.kind in ("word", "quoted")}
        named = [t for t in known.values() if t.name.casefold() in said]
        named = named or [t for t in self._originals() if set(words.fold(t.name)) <= said]
        at_hand = known.get(self.subject or self.table)
        meant = named[:1] or ([at_hand] if at_hand else self._originals())
        why = "untold" if self.turn.context.get("kept_back") else "table"
        no_if(not meant, why, self.turn.request[:80])
        found: dict[str, Query] = {}
        left: list[tuple[Reader, Unclear]] = []
        for about in meant:
            reader = Reader(part, about, self.turn, self._looked)
            try:
                found[about.name] = reader.read()
            except Unclear as unclear:
                left.append((reader, unclear))
        if not found:
            reader, why_not = max(left, key=lambda e: (len(e[0].marks), bool(e[1].choices)))
            self.subject = reader.table.name
            self.named = [c for m, of in reader.marks.items() if m[0] == "C" for c in of]
            raise why_not
        # One that holds each name as it was said comes first.
        found = {name: query for name, query in found.items() if not query.notes} or found
        # One that has all the columns that the others have is meant.
        names = {name: {c.name for c in known[name].columns} for name in found}
        wide = [name for name in found if all(names[name] >= each for each in names.values())]
        return found[wide[0] if len(wide) == 1 else self.turn.choose(_WHICH, [*found])]

    def _compute(self, query: Query) -> None:
        about = self.turn.tables()[query.table]
        # Rows that were kept or sorted before are not the first of the table.
        is_first = query.do == "head" and "rows_" in self.turn.last and about.name != self.subject
        no_if(is_first and about.name not in {t.text for t in self.part}, "whole")
        cell = code.write(query, about, sorted(self.taken))
        result = self._done("run_code", code.arguments(cell.code, cell.purpose))
        self.taken |= {cell.table, cell.chart} - {""}
        self.notes += code.text("notes", query).splitlines()
        # Rows that were kept, or shown alone, are another table.
        is_kept = bool(re.search(r"(?:first|last) \d+ rows of |Rows(?::| \()", self.turn.told))
        if is_kept or (len(self._originals()) > 1 and about.name != self.subject):
            rows = "all of `{}`, not the rows before" if is_kept and not query.filters else "`{}`"
            self.notes.append(f"Used {rows.format(about.name)}.")
        told = self._told(query, cell, str(result.get("stdout") or ""))
        self.kept = cell.table * (query.do in ("rows", "rename"))
        self.subject = self.kept or self.subject
        self.made.append(replace(cell, told=told))
        self.answers.append(told or f"{cell.purpose}.")
        bound = [n for n in (cell.table, cell.chart) if n and n not in self.turn.variables]
        self.saves += [f"Saved as {spoken(f'`{each}`' for each in bound)}."] if bound else []

    def _told(self, query: Query, cell: code.Cell, printed: str) -> str:
        """What a cell printed, in sentences."""
        printed = _EMPTY.sub("none", printed)
        printed = re.sub(r"(?m)^[ .]+$", "Others too", printed)
        is_none = not (cell.table or cell.chart) and printed.endswith(": none\n")
        why = "compute" if query.do == "correlation" else "kind"
        no_if(is_none, why, *(c.name for c in query.columns[:1]), "values in these rows")
        dates = [c for c in (*query.groups, *query.columns) if c.kind == "date"]
        periods = {each.part or each.name.casefold() for each in dates}
        lines = [*filter(str.strip, printed.splitlines())]
        units = [cell.unit * (": " not in line or line == lines[0]) for line in lines]
        return " ".join(words.sentence(*each, periods) for each in zip(lines, units, strict=True))

    # -- afterwards --------------------------------------------------------------------------

    def _made(self) -> list[code.Cell]:
        """What may be meant by "it": what this turn made, or its table, else the last answer's."""
        known = {name: {"table": name} for name in self.turn.tables()}
        bound = self.turn.variables | self.turn.made
        known |= {name: {"chart": name} for name in bound if bound[name].get("type") == "figure"}
        saved = re.findall(r"Saved as ([^.]*)", self.turn.last)
        names = [self.subject] if self.subject else [n for e in saved for n in e.split("`")[1::2]]
        titles = {n: code.capital(n.removesuffix("_chart").replace("_", " ")) for n in names}
        own = [code.Cell("", titles[n], **known[n]) for n in names if n in known]
        return self.made or own

    def _publish(self, kind: str, given: dict[str, str | None]) -> None:
        """Publish what was made as ``kind``, or write it to a file."""
        title = re.sub(r"(?i)^(the|an?) ", "", (given.get("title") or "").strip("\"'“”‘’`"))
        no_if(re.search(r"[\"'”’] (?:and|then)\b", given.get("title") or ""), "then")
        said = f"{given.get('rest') or ''} {given.get('chart') or ''}"
        is_drawn = kind not in ("dataset", "file") and any(m.chart for m in self._made())
        fit = [m for m in self._made() if (m.chart if is_drawn else m.table)]
        no_if(clause("chart", said) and not is_drawn and kind != "file", "made", "chart")
        no_if(not fit, "made", "table")
        made = fit[-1]
        if kind == "file":
            suffix = (given.get("suffix") or "csv").casefold().replace("excel", "xlsx")
            # A file that is there is overwritten only where its name is said.
            stem = title or words.unique(made.table, [f.rpartition(".")[0] for f in self.files])
            path = title if "." in title else f"{stem}.{suffix}"
            no_if(clause("chart", said) or not path.casefold().endswith((".csv", ".xlsx")), "file")
            body = code.text("export", made.table, path)
            self._done("run_code", code.arguments(body, f"Write {made.table} to {path}"))
            self.published.append(f"Wrote `{made.table}` to {path}.")
            return
        as_kind, variable = ("chart", made.chart) if is_drawn else ("dataset", made.table)
        own = made.purpose if kind == "report" else title or made.purpose
        result = self._done(f"return_{as_kind}", {"variable": variable, "title": own})
        told = f"Published the {as_kind} {own!r}{' (unchanged)' * bool(result.get('reused'))}."
        if kind == "report":
            below = _escaped(" ".join([made.told, *self.notes]))
            body = f"![{_escaped(own)}](artifact:{variable})\n\n{below}"
            result = self._done("return_report", {"title": title or own, "body": body.strip()})
            place = result.get("page") or result.get("path")
            told = f"Published the report {title or own!r}{f': {place}' if place else ''}."
        self.published.append(told)


def _named(path: str) -> str:
    """The variable's name for what is read from ``path``."""
    stem = path.replace("\\", "/").rpartition("/")[2]
    return words.identifier(" ".join(words.fold(stem.rpartition(".")[0] or stem)))


def _clauses(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """The parts of a request that are requests of their own: from one verb to the next."""
    part: list[Token] = []
    for token, following in pairwise([*tokens, Token("sign", "\n")]):
        ends = token.text in (";", "\n", ".", "?")
        ends |= token.low == "then" and (not part or clause("verbs", following.low))
        if ends or (token.low in (",", "and") and clause("verbs", following.low)):
            yield part
            part = []
        else:
            part.append(token)
    yield part


def _apart(part: Sequence[Token]) -> tuple[list[Token], str, str]:
    """A part without its loading, the file to load, and the name that it is given."""
    for at, token in enumerate(part):
        left = list(part[:at])
        if token.kind == "file" and not (left and left[-1].low in ("to", "as", "into")):
            while left and clause("loading", left[-1].low):
                left.pop()
            is_named = at + 2 < len(part) and part[at + 1].low in ("as", "into")
            rest = at + 3 if is_named else at + 1
            return [*left, *part[rest:]], token.bare, part[at + 2].bare if is_named else ""
    return list(part), "", ""


def _escaped(text: str) -> str:
    """Text of data for a report, which reads Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>#|!])", r"\\\1", text)
