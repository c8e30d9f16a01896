"""What is remembered of a notebook's turns: what later ones are told, and what is published.

The rule of the place: what is gone is told to nobody, and stays on the disk.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress

from parsimony_kernel.artifacts.store import ArtifactStore, LogEntry
from parsimony_kernel.core import events as ev
from parsimony_kernel.core.conversation import AgentMessage, request_message
from parsimony_kernel.session.share import Share
from parsimony_kernel.session.turns import MENDING
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.store import GONE, SqliteJournal, TurnRow

# Of earlier turns: how many are told, and the characters of each part and of all together.
MOST_TURNS = 10
MOST_CHARS = 8_000
REQUEST_CHARS = 600
SUMMARY_CHARS = 1_200
CLAUSE_CHARS = 300
CODE_CHARS = 1_500
# How many calls of tools are told of a turn that is not done.
MOST_CALLS = 5

_TAKEN_BACK = "Undone by the person since: the variables are as they were before this turn."
# How a turn that is not done stands, before the words that it ended with.
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
    """What the newest turns of other cells were asked and came to, oldest first.

    Behind them stands what the cell's own turn before did, where that was cut off. A request and an
    answer for each: the summary of a turn that is done, one clause of one that is not, with what
    its tools did all the same, or was taken back. Behind the request stands the code that a turn
    that is done ran. Those that are gone, purged or running are left out, and so are the oldest
    of more than ``MOST_CHARS`` characters.

    Args:
        rows: the turns, oldest first.
        events_of: gives the events of a turn by its id; one whose events cannot be read is told
            by its row.
        share: with ``schema`` a turn is told by its request and by how it stands; with ``none`` no
            turn is told.
    """
    if share is Share.none:
        return ()
    told = [
        row
        for row in rows
        if row.cell_key != cell_key and row.request and row.status in {"done", *_UNDONE} - GONE
    ][-MOST_TURNS:]
    # What the cell did before its kernel died is known to nobody else.
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
    """The request of a turn, with the newest code of it that worked, as there is room for."""
    # The words of an error are no words of the person's.
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
    # Names between backticks are read as what a turn has made; a question has those of others.
    why = _cut(" ".join(row.summary.replace("`", "'").split()), CLAUSE_CHARS)
    told = f"{_UNDONE[row.status]}: {why}" if why else f"{_UNDONE[row.status]}."
    done = _done_by_tools(events)
    return f"{told}\nDone before that, and not to be done again:\n{done}" if done else told


def _worked(events: Sequence[ev.AgentEvent]) -> list[ev.ToolEvent]:
    return [event for event in events if isinstance(event, ev.ToolEvent) and event.ok]


def _done_by_tools(events: Sequence[ev.AgentEvent]) -> str:
    """The calls of the person's tools that worked, a line each, newest last."""
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
    """Whether what the turn did was taken back after its end, and not done again."""
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
    """The newest snapshot of each artifact of the workspace, oldest first, as far as it is nobody's
    who is gone.

    A snapshot of a turn that is gone counts where another turn has published the same.

    Raises:
        JournalError, StorageError: the journal or a log cannot be read.
    """
    newest = [entry for entry in store.list() if entry.kind != "notebook"]
    gone = {row.run_id for row in journal.turns() if row.status in GONE}
    doubtful = [entry for entry in newest if entry.run_id in gone]
    if not doubtful:
        return tuple(newest)
    again = journal.published(min(entry.published_at for entry in doubtful))
    found: list[LogEntry] = []
    for entry in newest:
        is_doubtful = entry.run_id in gone and entry.ref not in again
        log = store.history(entry.kind, entry.logical_id) if is_doubtful else (entry,)
        found += [each for each in log if each.run_id not in gone or each.ref in again][-1:]
    return tuple(found)
