"""The context of a turn: the notebook's inventory, instruction files, and earlier turns, capped.

Instruction files (AGENTS.md, PARSIMONY.md) count as the person's words and are only text: they
don't change approval, share mode, budgets or tools. Forgotten turns are shown to nobody, but stay
on disk.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from parsimony_kernel.agent.prompts import notebook_context
from parsimony_kernel.analysis.read import read
from parsimony_kernel.artifacts.publish import environment
from parsimony_kernel.artifacts.store import SHORT_ID
from parsimony_kernel.core import events as ev
from parsimony_kernel.core.conversation import AgentContext, AgentMessage, request_message
from parsimony_kernel.core.outputs import DataFrameObject, PrimitiveObject
from parsimony_kernel.core.text import counted, plural
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.execution.factory import (
    SNAPSHOT_BYTES,
    OutputFactory,
    is_remote,
    rank,
    summarise,
)
from parsimony_kernel.execution.inspection import is_exactly, type_name
from parsimony_kernel.execution.interrupt import CodeGuard, DeadlineReached
from parsimony_kernel.session.home import Home
from parsimony_kernel.session.past import bound_by
from parsimony_kernel.session.share import KEPT_OF_THE_NOTEBOOK, Share, shape_of
from parsimony_kernel.session.turn_values import MENDING
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.journal import TurnRow

_INVENTORY_S = 2.0
_MAX_ARTIFACTS = 20
_DATA_SUFFIXES = frozenset({".csv", ".tsv", ".parquet", ".xlsx", ".xls", ".json", ".jsonl"})
_MAX_FILES = 40
_MAX_ENTRIES = 2_000
# Reserved for the names of variables that don't fit, and first rows of the tables in the request.
_NAMES_BYTES = 1024
_ROWS_BYTES = 2 * 1024
_FIRST_ROWS = 5
# What is code in a request: in backticks, a word in quotes, a call.
_AS_CODE = re.compile(r"`[^`]+`|\"\w+\"|'\w+'|“\w+”|\b\w+(?=\()")
_SCALARS = (str, int, float, bool, type(None))
_TOLD = {
    Share.full: "variables with samples and first rows",
    Share.samples: "variables with samples",
    Share.schema: "variables without values",
}


# Limits for earlier turns: their number, and the characters in total and per part.
MOST_TURNS = 10
MOST_CHARS = 8_000
REQUEST_CHARS = 600
SUMMARY_CHARS = 1_200
CLAUSE_CHARS = 300
CODE_CHARS = 1_500
_CODE = "\n<code_that_ran>\n{}\n</code_that_ran>"
# Most tool calls listed for an unfinished turn.
MOST_CALLS = 5

_TAKEN_BACK = "Undone by the person since: the variables are as they were before this turn."
# Statuses of unfinished turns in words; the turn's last message is appended.
_UNDONE = {
    "suspended": "Not done; it waits for an answer to this question",
    "handed_off": "Not done; it was handed back",
    "stopped": "Not done; it stopped early",
    "cancelled": "Not done; it was cancelled",
    "replaced": "Not done; this is its request again",
}


class TurnContext:
    """What the model of a turn is told of its notebook.

    Args:
        home: The notebook: its variables, data files and artifacts, of which the newest are listed.
        share: The share mode; with ``none`` the inventory only says that it is withheld.
        cell_key: The turn's cell.
        is_reader: Whether an LLM reads it: it gets the date and the versions of libraries. The
            built-in model gets the person's earlier answers.

    Attributes:
        instructions: The instruction files, as read now.
    """

    def __init__(
        self, home: Home, share: Share, cell_key: str = "", *, is_reader: bool = True
    ) -> None:
        self._home, self._share, self._cell_key, self._is_reader = home, share, cell_key, is_reader
        is_withheld = share is Share.none
        self.instructions = () if is_withheld else read_instructions(home.folder, home.workspace)

    @property
    def runs_of_cell(self) -> frozenset[str]:
        """The run ids of the cell's turns."""
        return self._home.journal.runs_of(self._home.history, self._cell_key)

    def opening(
        self, request: str, also: Sequence[str] = ()
    ) -> tuple[AgentContext, tuple[str, ...]]:
        """Return the earlier turns and the inventory, and a line for each part for people.

        Args:
            request: The person's request.
            also: Names that may be rebound, beside those bound by the replaced turn.
        """
        home = self._home
        turns = home.journal.context(home.history, self._cell_key, MOST_TURNS + 1)
        earlier = earlier_turns(turns, home.journal.events, self._share)
        asked = len(earlier) // 2
        inventory, told = self.inventory(request, also)
        newest = max(turns, key=lambda each: each.ordinal, default=None)
        before = home.beginning_of(newest.run_id) if newest else None
        lines = (f"{asked} earlier {plural('request', asked)}",) if asked else ()
        return AgentContext(earlier, inventory), (*lines, *told, *self.instructed(before))

    def inventory(self, request: str = "", also: Sequence[str] = ()) -> tuple[str, tuple[str, ...]]:
        """Render the inventory: a block for the first message, and one line per part for people.

        Variables named in ``request`` come first, then by kind and age.
        """
        home, share = self._home, self._share
        if share is Share.none:
            return notebook_context(kept_back=KEPT_OF_THE_NOTEBOOK[share]), ()
        variables, more = _variables(home.executor, share, request)
        files = data_files(home.folder, request)
        published = [
            {"kind": entry.kind, "title": entry.title, "id": entry.logical_id[:SHORT_ID]}
            for entry in home.artifacts()[-_MAX_ARTIFACTS:]
        ]
        today = f"{home.clock.now():%Y-%m-%d, %a}"
        versions = ", ".join(map(" ".join, environment(("pandas", "altair")).items()))
        context = notebook_context(
            working_folder=home.folder.name,
            files=files,
            variables=variables,
            more_variables=more,
            artifacts=published,
            replaceable=(*bound_by(home.executor, self.runs_of_cell), *also),
            kept_back=KEPT_OF_THE_NOTEBOOK[share],
            answers={} if self._is_reader else home.answers,
            around={"today": today, "versions": versions} if self._is_reader else {},
        )
        names = ", ".join(str(variable["name"]) for variable in variables)
        titles = f"{plural('title', len(published))} of {counted(len(published), 'artifact')}"
        parts = (
            (variables, f"{_TOLD[share]}: {names}"),
            (more, "names of more variables"),
            (files, f"{plural('name', len(files))} of {counted(len(files), 'data file')}"),
            (published, titles),
        )
        return context, tuple(line for part, line in parts if part)

    def instructed(self, before: ev.RunStarted | None) -> tuple[str, ...]:
        """Render one line per instruction file, noting those changed since ``before``."""
        known = before.instructions if before else {}
        changed = ", which has changed since the turn before"
        return tuple(
            f"your instructions in {each.path}"
            f"{'' if known.get(each.path, each.sha) == each.sha else changed}"
            for each in self.instructions
        )


def _variables(
    executor: BaseCodeExecutor, share: Share, request: str
) -> tuple[list[dict[str, Any]], str]:
    """Summarize the variables for the model, and list the names of those that don't fit."""
    # What a cell bound last comes first.
    bound, ledger = dict(reversed(executor.variables().items())), executor.origin_ledger
    named = _named(request, bound)

    def place(name: str) -> tuple[bool, int, int]:
        """Sort key: named in the request, then by kind, newest first.

        Scalars come last, and those with names of one or two letters, as loops leave behind.
        """
        value, origin = bound[name], ledger.get(name)
        kind = 4 + (len(name) <= 2) if is_exactly(value, *_SCALARS) else rank(value)
        return name not in named, kind, 0 if origin is None else -origin.cell_run

    variables = {name: bound[name] for name in sorted(bound, key=place)}
    kept: list[dict[str, Any]] = []

    def tell() -> None:
        reserved = _NAMES_BYTES if share is Share.schema else _ROWS_BYTES
        summarise(variables, budget_bytes=SNAPSHOT_BYTES - reserved, kept=kept)
        if share is not Share.schema:
            _add_rows(kept, variables, variables if share is Share.full else named)

    # Summaries call ``repr`` of user-defined classes, hence the deadline.
    guard = CodeGuard(_INVENTORY_S)
    with suppress(DeadlineReached, KeyboardInterrupt), guard:
        guard.call(tell)
    if variables and not kept:
        name, value = next(iter(variables.items()))
        told = PrimitiveObject(name=name, python_type=type_name(value), text="takes too long")
        kept.append(told.for_model())
    described = {each["name"] for each in kept}
    rest = {name: value for name, value in variables.items() if name not in described}
    return [shape_of(each) for each in kept] if share is Share.schema else kept, _listed(rest)


def _named(request: str, bound: Mapping[str, Any]) -> frozenset[str]:
    """Return the variables that the request names.

    A name that may be an English word, or of one or two letters, counts as such only where it is
    written as code, or is a table's.
    """
    text = request.casefold()
    words, code = (re.findall(r"\w+", each) for each in (text, " ".join(_AS_CODE.findall(text))))

    def is_named(name: str) -> bool:
        is_word = len(name) <= 2 or (name[1:].isalpha() and name[1:].islower())
        return name.casefold() in (code if is_word and rank(bound[name]) else words)

    return frozenset(filter(is_named, bound))


def _listed(variables: Mapping[str, Any]) -> str:
    """List the names of variables behind their types, as many as fit."""
    text = before = ""
    for at, (name, value) in enumerate(variables.items()):
        kind = value.type if is_remote(value) else type_name(value)
        told = f", {name}" if kind == before else f"{'; ' if text else ''}{kind}: {name}"
        if len((text + told).encode()) > _NAMES_BYTES:
            return f"{text}; and {len(variables) - at:,} more"
        text, before = text + told, kind
    return text


def _add_rows(
    summaries: Sequence[dict[str, Any]], variables: Mapping[str, Any], named: Collection[str]
) -> None:
    """Add first rows of the tables in ``named`` while there is room."""
    room = SNAPSHOT_BYTES - len(json.dumps(summaries, ensure_ascii=False).encode())
    room -= _NAMES_BYTES if len(summaries) < len(variables) else 0
    factory = OutputFactory()
    for summary in summaries:
        name = summary["name"]
        if summary.get("type") != "dataframe" or name not in named:
            continue
        table = factory.convert(variables[name], name)
        rows = table.first_rows(_FIRST_ROWS) if isinstance(table, DataFrameObject) else []
        room -= len(json.dumps(rows, ensure_ascii=False).encode())
        if room < 0:
            return
        if rows:
            summary["rows_begin"] = rows


def data_files(folder: Path, request: str = "") -> tuple[str, ...]:
    """Return at most 40 data files in ``folder`` and one level below, as relative paths.

    A file that ``request`` names may be of any kind, and a folder that it names of any level.
    """
    found: list[str] = []
    seen = 0
    named = {each.strip(".") for each in re.findall(r"[\w.-]+", request)}
    for place, folders, names in os.walk(folder):  # passes over what cannot be read
        is_top = Path(place) == folder
        # A folder such as sales.parquet is one table.
        tables = [each for each in folders if Path(each).suffix.lower() in _DATA_SUFFIXES]
        deeper = {each for each in folders if is_top or each in named}
        folders[:] = sorted(e for e in deeper.difference(tables) if not e.startswith((".", "_")))
        for name in sorted([*names, *tables]):
            seen += 1
            if seen > _MAX_ENTRIES or len(found) >= _MAX_FILES:
                return tuple(found)
            is_data = name in named or Path(name).suffix.lower() in _DATA_SUFFIXES
            if is_data and not name.startswith("."):
                found.append((Path(place) / name).relative_to(folder).as_posix())
    return tuple(found)


# -- instructions

INSTRUCTION_FILES = ("AGENTS.md", "PARSIMONY.md")
MAX_INSTRUCTIONS_BYTES = 8 * 1024


@dataclass(frozen=True)
class Written:
    """An instruction file: path in the workspace, text as sent (capped), SHA-256 of all of it."""

    path: str
    text: str
    sha: str

    @property
    def block(self) -> str:
        """The text as appended to the system prompt."""
        return f'<instructions from="{self.path}">\n{self.text.strip()}\n</instructions>'


def read_instructions(folder: Path, workspace: Path) -> tuple[Written, ...]:
    """Read the nearest instruction file of each name, from ``folder`` up to ``workspace``.

    Unreadable or blank files, and links out of the workspace, are skipped.
    """
    root, here = workspace.resolve(), folder.resolve()
    places = [each for each in (here, *here.parents) if each.is_relative_to(root)]
    found: list[Written] = []
    for name in INSTRUCTION_FILES:
        there = (each for place in places if (each := _read_instruction(place / name, root)))
        found += islice(there, 1)
    return tuple(found)


def _read_instruction(path: Path, root: Path) -> Written | None:
    try:
        if not path.resolve(strict=True).is_relative_to(root):
            return None
        content = path.read_bytes()
    except OSError:
        return None
    text = content[:MAX_INSTRUCTIONS_BYTES].decode("utf-8", "replace")
    if len(content) > MAX_INSTRUCTIONS_BYTES:
        text = f"{text}\n… the rest is left out: {MAX_INSTRUCTIONS_BYTES // 1024} KB are read."
    sha = hashlib.sha256(content).hexdigest()
    return Written(path.relative_to(root).as_posix(), text, sha) if text.strip() else None


# -- earlier turns


def earlier_turns(
    rows: Sequence[TurnRow],
    events_of: Callable[[str], Sequence[ev.AgentEvent]],
    share: Share = Share.samples,
) -> tuple[AgentMessage, ...]:
    """Render the turns that a new one builds on as chat messages, oldest first.

    Each turn is a request and an answer. A completed turn gives its summary, and its request is
    followed by the code that ran. An unfinished one gives a clause, and the calls of the user's
    tools that worked. An undone one says so. The cell's own previous turn is left out unless it was
    cut off after such calls. Beyond ``MOST_CHARS`` characters, code of the oldest turns is left out
    first, then the oldest turns; the first message tells which.

    Args:
        rows: The turns, as ``SqliteJournal.context`` returns them.
        events_of: Returns the events of a turn by its id; if they can't be read, the turn's row
            alone is used.
        share: ``schema`` reduces each turn to its request and status; ``none`` gives no messages.
    """
    if share is Share.none:
        return ()
    told: list[tuple[str, str, str]] = []
    room, keeps, left_out = MOST_CHARS, share is Share.schema, 0
    for row in reversed(rows):
        events: Sequence[ev.AgentEvent] = ()
        with suppress(JournalError):
            events = events_of(row.run_id)
        ended = any(isinstance(event, ev.RunCompleted) for event in events)
        # Nothing else records what this cell's tools did before its kernel died.
        if row.status == "replaced" and (ended or not _done_by_tools(events)):
            continue
        request, answer = _asked(row, keeps=keeps), _came_to(row, events, keeps=keeps)
        size = len(request) + len(answer)
        if size > room or len(told) == MOST_TURNS:
            left_out = row.ordinal
            break
        room -= size
        told.append((request, "" if keeps else _code_of(row, events), answer))
    messages: list[AgentMessage] = []
    for request, code, answer in told:
        room -= len(_CODE)
        if kept := _beginning(code, min(CODE_CHARS, room)):
            request += _CODE.format(kept)
        room -= len(kept)
        messages = [AgentMessage("user", request), AgentMessage("assistant", answer), *messages]
    if messages and left_out:
        before = f"(Left out: turn{f's 1 to {left_out}' if left_out > 1 else ' 1'}.)"
        messages[0] = AgentMessage("user", f"{messages[0].content}\n{before}")
    return tuple(messages)


def _asked(row: TurnRow, *, keeps: bool) -> str:
    """Render a turn's request."""
    # An error's message is not the person's own text, and may quote data.
    asked = MENDING if keeps and row.request.startswith(MENDING) else row.request
    return str(request_message(_cut(asked, REQUEST_CHARS))["content"])


def _code_of(row: TurnRow, events: Sequence[ev.AgentEvent]) -> str:
    """Return the successful code of a turn that is done and not undone."""
    if row.status != "done" or is_taken_back(events):
        return ""
    codes = [event for event in _worked(events) if event.tool_name == "run_code"]
    return "\n\n".join(str(each.arguments.get("code", "")).strip() for each in codes)


def _beginning(code: str, most: int) -> str:
    """Return the first statements of ``code`` that fit: they import and read files."""
    if len(code) <= most or most < CLAUSE_CHARS:
        return code if len(code) <= most else ""
    lines, kept = code.split("\n"), ""
    for statement in read(code).statements:
        text = "\n".join(lines[: statement.lines[1]])
        if len(text) > most - 2:
            break
        kept = text
    return f"{kept}\n…" if kept else _cut(code, most)


def _came_to(row: TurnRow, events: Sequence[ev.AgentEvent], *, keeps: bool) -> str:
    if is_taken_back(events):
        return _TAKEN_BACK
    if row.status == "done":
        return "Done." if keeps else _cut(row.summary, SUMMARY_CHARS) or "Done."
    if keeps:
        return f"{_UNDONE.get(row.status, row.status)}."
    # The model reads names in backticks as results of the turn; a question may name others.
    why = _cut(" ".join(row.summary.replace("`", "'").split()), CLAUSE_CHARS)
    told = f"{_UNDONE.get(row.status, row.status)}{f': {why}' if why else '.'}"
    done = _done_by_tools(events)
    return f"{told}\nDone before that, and not to be done again:\n{done}" if done else told


def _worked(events: Sequence[ev.AgentEvent]) -> list[ev.ToolEvent]:
    return [event for event in events if isinstance(event, ev.ToolEvent) and event.ok]


def _done_by_tools(events: Sequence[ev.AgentEvent]) -> str:
    """List the successful calls of the user's own tools, one line each, newest last."""
    answers = {
        event.tool_call_id: event.content
        for event in events
        if isinstance(event, ev.ToolResultObserved)
    }
    calls = [event for event in _worked(events) if event.tool_type == "function"]
    lines = (
        f"{each.tool_name} {json.dumps(each.arguments, ensure_ascii=False)}: "
        f"{' '.join(answers.get(each.tool_call_id, 'ok').split())}"
        for each in calls[-MOST_CALLS:]
    )
    return "\n".join(_cut(line, CLAUSE_CHARS) for line in lines)


def is_taken_back(events: Sequence[ev.AgentEvent]) -> bool:
    """Whether the turn was undone after it ended, and not redone."""
    ends = (e for e in reversed(events) if isinstance(e, ev.TurnTakenBack) or ev.is_terminal(e))
    newest = next(ends, None)
    return isinstance(newest, ev.TurnTakenBack) and not newest.redone


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 2].rstrip()} …"
