"""Conversation memory: the earlier turns that a model sees, and the artifacts that are listed.

Rule: forgotten turns are shown to nobody, but stay on disk.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress

from parsimony_kernel.artifacts.store import ArtifactStore, LogEntry
from parsimony_kernel.core import events as ev
from parsimony_kernel.core.conversation import AgentMessage, request_message
from parsimony_kernel.session.share import Share
from parsimony_kernel.session.turn_values import MENDING
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.journal import GONE, SqliteJournal, TurnRow

# Limits for earlier turns: their number, and the characters in total and per part.
MOST_TURNS = 10
MOST_CHARS = 8_000
REQUEST_CHARS = 600
SUMMARY_CHARS = 1_200
CLAUSE_CHARS = 300
CODE_CHARS = 1_500
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


# -- turns


def earlier_turns(
    rows: Sequence[TurnRow],
    events_of: Callable[[str], Sequence[ev.AgentEvent]],
    *,
    cell_key: str,
    share: Share = Share.samples,
) -> tuple[AgentMessage, ...]:
    """Render the newest turns of other cells as chat messages, oldest first.

    Each turn is a request and an answer. A completed turn gives its summary, and its request is
    followed by the code that ran. An unfinished one gives a clause, and the calls of the user's
    tools that worked. An undone one says so. The cell's own previous turn comes last if it was
    cut off after such calls. Forgotten, purged and running turns are left out, and the oldest
    beyond ``MOST_CHARS`` characters.

    Args:
        rows: The turns, oldest first.
        events_of: Returns the events of a turn by its id; if they can't be read, the turn's row
            alone is used.
        cell_key: The cell of the new turn.
        share: ``schema`` reduces each turn to its request and status; ``none`` gives no messages.
    """
    if share is Share.none:
        return ()
    told = [
        row
        for row in rows
        if row.cell_key != cell_key and row.request and row.status in {"done", *_UNDONE} - GONE
    ][-MOST_TURNS:]
    # Nothing else records what this cell's tools did before its kernel died.
    told += [row for row in rows if (row.cell_key, row.status) == (cell_key, "replaced")][-1:]
    messages: list[AgentMessage] = []
    room = MOST_CHARS
    for row in reversed(told):
        events: Sequence[ev.AgentEvent] = ()
        with suppress(JournalError):
            events = events_of(row.run_id)
        ended = any(isinstance(event, ev.RunCompleted) for event in events)
        if row.status == "replaced" and (ended or not _done_by_tools(events)):
            continue
        keeps = share is Share.schema
        request, answer = _asked(row, events, keeps=keeps), _came_to(row, events, keeps=keeps)
        room -= len(request) + len(answer)
        if room < 0:
            break
        messages = [AgentMessage("user", request), AgentMessage("assistant", answer), *messages]
    return tuple(messages)


def _asked(row: TurnRow, events: Sequence[ev.AgentEvent], *, keeps: bool) -> str:
    """Render a turn's request, with the newest successful code that fits in ``CODE_CHARS``."""
    # An error's message is not the person's own text, and may quote data.
    asked = MENDING if keeps and row.request.startswith(MENDING) else row.request
    request = str(request_message(_cut(asked, REQUEST_CHARS))["content"])
    if keeps or row.status != "done" or is_taken_back(events):
        return request
    codes = (
        str(event.arguments.get("code", "")).strip()
        for event in _worked(events)
        if event.tool_name == "run_code"
    )
    code = "\n\n".join(codes)
    if len(code) > CODE_CHARS:
        code = f"… {code[-CODE_CHARS:]}"
    return f"{request}\n<code_that_ran>\n{code}\n</code_that_ran>" if code else request


def _came_to(row: TurnRow, events: Sequence[ev.AgentEvent], *, keeps: bool) -> str:
    if is_taken_back(events):
        return _TAKEN_BACK
    if row.status == "done":
        return "Done." if keeps else _cut(row.summary, SUMMARY_CHARS) or "Done."
    if keeps:
        return f"{_UNDONE[row.status]}."
    # The model reads names in backticks as results of the turn; a question may name others.
    why = _cut(" ".join(row.summary.replace("`", "'").split()), CLAUSE_CHARS)
    told = f"{_UNDONE[row.status]}: {why}" if why else f"{_UNDONE[row.status]}."
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
    is_back = False
    for event in events:
        if isinstance(event, ev.TurnTakenBack):
            is_back = not event.redone
        elif ev.is_terminal(event):
            is_back = False
    return is_back


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 2].rstrip()} …"


# -- artifacts


def published(store: ArtifactStore, journal: SqliteJournal) -> tuple[LogEntry, ...]:
    """Return the newest visible snapshot of each artifact in the workspace, oldest first.

    Snapshots of forgotten turns are hidden, unless another turn published the same one.

    Raises:
        JournalError, StorageError: The journal or a log can't be read.
    """

    def visible(entries: Sequence[LogEntry]) -> list[LogEntry]:
        hidden = journal.hidden([(each.run_id, each.path) for each in entries])
        return [each for each in entries if (each.run_id, each.path) not in hidden]

    newest = [entry for entry in store.list() if entry.kind != "notebook"]
    shown = {entry.ref: [entry] for entry in visible(newest)}
    found: list[LogEntry] = []
    for entry in newest:
        log = shown.get(entry.ref) or visible(store.history(entry.kind, entry.logical_id))
        found += log[-1:]
    return tuple(found)
