"""The sub-commands of ``%agent`` that only report: turns, origins, artifacts, metrics, costs.

Among them are the exact requests that went, or would go, to models. Everything is read from the
session on demand, so it is the same after a restart.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from parsimony_agent.arguments import CELL, CellRequest, command_named, help_text
from parsimony_agent.cell import Session
from parsimony_agent.options import options_of
from parsimony_agent.pending import TurnError
from parsimony_agent.tables import note, table, words
from parsimony_kernel.core.chat import OFFLINE, ModelRequest
from parsimony_kernel.core.conversation import pictures_in, size_of, tokens_of
from parsimony_kernel.core.events import AgentEvent, LLMCallCompleted, RunStarted
from parsimony_kernel.core.text import counted
from parsimony_kernel.doctor.checks import run_checks, to_text
from parsimony_kernel.lineage.checkpoint import PutBack
from parsimony_kernel.metrics import figures
from parsimony_kernel.session.context import is_taken_back
from parsimony_kernel.session.maintenance import RECENT_TURNS, report_of
from parsimony_kernel.session.turn_values import SessionError, resolve_turn
from parsimony_kernel.view.blocks import lasting
from parsimony_kernel.view.escape import fit
from parsimony_kernel.view.fold import replay
from parsimony_kernel.view.outline import WORDS, cost_words
from parsimony_kernel.view.plain_text import record_of

if TYPE_CHECKING:
    from parsimony_agent.magics import AgentMagics, Told
    from parsimony_kernel.storage.journal import TurnRow
    from parsimony_kernel.storage.run_log import SentRequest

_ANY_WORDS = "(your request)"
_SAYS = 600
_PATH = 400
# So many names or files are listed.
NAMED = 12


def history(magics: AgentMagics, turn: str | None = None, **flags: str) -> Told:
    """List the turns, or show one with its record of steps.

    The flag ``from`` names another notebook, by its path in the workspace.
    """
    session, source = magics.session, flags.get("from", "")
    turns: Sequence[TurnRow] = session.turns(source)
    if turn is not None:
        remedy = f"See %agent history{f' --from {source}' if source else ''}."
        where = f"of {source}" if source else "in this notebook"
        turns = [resolve_turn(turns, turn, where=where, remedy=remedy)]
    rows = []
    for each in turns:
        # Local time, to the minute.
        started = f"{datetime.fromisoformat(each.started_at).astimezone():%Y-%m-%d %H:%M}"
        status = WORDS["states"].get(each.status, each.status)
        with suppress(SessionError):  # a damaged entry hides no turn
            status = "undone" if is_taken_back(session.events(each.run_id)) else status
        rows.append((str(each.ordinal), status, each.request or "(purged)", each.model, started))
    head = ("turn", "status", "request", "model", "started")
    none = f"No turns of {source!r} are on record: `jupyter parsimony runs` lists notebooks."
    listed = table(head, rows, empty=none if source else "This notebook has no turns yet.")
    if turn is None:
        return listed
    return [listed, words(record_of(lasting(replay(session.events(turns[0].run_id)).blocks)))]


def why(magics: AgentMagics, name: str) -> Told:
    """Show where a variable comes from: the names and files first, then the code in a fold."""
    found = magics.session.past.why(name)
    head, _, chain = found.text().partition("\n\n")
    if not chain:
        return note(head)
    behind = dict.fromkeys(each.name for each in found.steps if each.name != name)
    behind |= dict.fromkeys(source for each in found.steps for source in each.sources)
    more = " …" if len(behind) > NAMED else "."
    via = f"\nMade from: {', '.join([*behind][:NAMED])}{more}" if behind else ""
    return [note(f"{head}{via}"), words(chain, title="The steps and their code", is_code=True)]


def diff(magics: AgentMagics, turn: str | None = None) -> Told:
    """Show what a turn, the newest by default, changed in the variables."""
    session = magics.session
    number = None if turn is None else resolve_turn(session.turns(), turn).ordinal
    ordinal, found = session.past.diff(number)
    return "\n".join([f"Turn {ordinal}:", *(f"  {line}" for line in found.lines())])


def put_back_words(
    turn: str, back: PutBack, stays: Sequence[str] = (), more: Sequence[str] = (), *, is_redo: bool
) -> dict[str, Any]:
    """Describe the result of an undo or redo of ``turn``: its number and request.

    Says how complete it was and what ``stays``, such as new files, then lists the names by outcome,
    and ``more``.
    """
    done = "re-applied" if is_redo else "undone"
    groups: list[tuple[str, Sequence[str]]] = [
        ("Set again as the turn left them" if is_redo else "Restored", back.restored),
        ("Deleted again" if is_redo else "Removed", back.removed),
        ("Kept, as changed or used since", back.kept),
        ("Perhaps changed (there was no copy)", back.lost),
    ]
    if back:
        other = "%agent undo takes it back" if is_redo else "%agent redo re-applies it"
        stay = "" if is_redo or not stays else f", except {', '.join(stays)}"
        part = f"{' in part' if back.kept else ''}{stay}"
        head = f"{turn} is {done}{part}. {other}."
    else:
        first = "re-applied the turns before it" if is_redo else "undone what came since"
        again = f" It stays on record: try again once you have {first}." if back.kept else ""
        head = f"{turn}: nothing is {done}.{again}"
    lines = [f"{what}: {', '.join(names)}" for what, names in groups if names]
    return note("\n".join([head, *lines, *more]))


def verify(magics: AgentMagics) -> Told:
    """Check that the journal and the published files are intact."""
    return "\n".join(report_of(*magics.session.verify()))


def procedure(magics: AgentMagics, file: str) -> Told:
    """Check a task file, and list which of its rules are enforced and which are reminders."""
    task = magics.session.tools.playbook(file)
    edges = task.procedure.edges if task.procedure is not None else ()
    rows = [
        ("edge", f"{e.action}: {e.source} → {e.target}{f', if {e.guard}' if e.guard else ''}")
        for e in edges
    ]
    if task.contract is not None:
        allowed = task.contract.allowed_tools
        rows += [] if allowed is None else [("tools, enforced", ", ".join(sorted(allowed)))]
        identifiers = task.contract.identifiers.items()
        rows += [("identifier", f"{name} is {value}") for name, value in identifiers]
    rows += [("rule, enforced", rule) for rule in task.rules.in_words()]
    rows += [("a reminder", rule) for rule in task.pinned_constraints]
    return table(("what", "says"), rows, empty="It is valid and has no rules.", widest=_SAYS)


def artifacts(magics: AgentMagics, **flags: bool) -> Told:
    """List what is published; as JSON, with its paths.

    Without times, since a notebook that lists it is compared with its outputs.
    """
    found = magics.session.artifacts()
    if flags:
        facts = (
            {name: getattr(each, name) for name in ("kind", "title", "path")} for each in found
        )
        return json.dumps(list(facts), indent=1, ensure_ascii=False)
    rows = [(each.kind, each.title) for each in found]
    return table(("kind", "title"), rows, empty="Nothing has been published here yet.")


def own_tools(session: Session, magic: str) -> Told:
    """List the user's functions that are tools, and the MCP servers with their state."""
    rows = [(each.name, first_line(each.description)) for each in session.tools.added().values()]
    empty = f"You have no tools yet. {magic} tools add NAME makes your function one."
    mine = table(("tool", "what it does"), rows, empty=empty)
    mcp = [(f"mcp:{name}", line, state) for name, line, state in session.tools.servers.listing()]
    if not mcp:
        return mine
    return [mine, table(("MCP server", "what is started", "state"), mcp, empty="", widest=_PATH)]


def first_line(description: str) -> str:
    """Return the first line of a tool's description."""
    return description.partition("\n")[0]


def metrics(magics: AgentMagics) -> Told:
    """Show the metrics of the recent turns, and the alerts they trigger."""
    session = magics.session
    recent = [session.events(turn.run_id) for turn in session.turns()[-RECENT_TURNS:]]
    return figures.report(figures.of_runs(recent))


def doctor(magics: AgentMagics) -> Told:
    """Check what the agent needs, and say how to fix what is missing."""
    magics.follow_settings()
    environ = {**os.environ, **magics.settings.of_models()}
    return to_text(run_checks(environ, model=magics.session.model_name))


def usage(magics: AgentMagics, topic: str = "") -> Told:
    """Show the short help, the help of a sub-command or of a cell's flags, or the whole help."""
    name = magics.name
    if topic == "flags":
        return CELL.parser(f"%{name}").format_help()
    if topic in ("", "all"):
        return help_text(name[1:], whole=bool(topic))
    return command_named(topic, name).parser(f"{name} {topic}").format_help()


def cost(magics: AgentMagics) -> Told:
    """Show the model usage of each turn, replaced ones included, and the sum."""
    session = magics.session
    turns = [(turn, _calls(session.events(turn.run_id))) for turn in session.turns()]
    whole = [each for _, calls in turns for each in calls]
    rows = [_row(str(turn.ordinal), turn.model, each) for turn, each in turns]
    rows += [_row("all", "", whole)] * (len(rows) > 1)
    head = ("turn", "model", "calls", "tokens in", "cached", "tokens out", "cost", "time")
    return table(head, rows, empty="No turn of this notebook has asked a model yet.")


def _calls(events: Iterable[AgentEvent]) -> list[LLMCallCompleted]:
    return [event for event in events if isinstance(event, LLMCallCompleted)]


def _row(turn: str, model: str, calls: Sequence[LLMCallCompleted]) -> tuple[str, ...]:
    tokens = ((each.prompt_tokens, each.cached_tokens, each.completion_tokens) for each in calls)
    counts = (len(calls), *(map(sum, zip(*tokens, strict=True)) if calls else (0, 0, 0)))
    priced = [each.cost_usd for each in calls if each.cost_usd is not None]
    is_unknown = calls and not priced
    price = cost_words(None if is_unknown else sum(priced), partial=len(priced) < len(calls))
    seconds = sum(each.duration_s for each in calls)
    return (turn, model, *(f"{each:,}" for each in counts), price, f"{seconds:.0f} s")


# -- what goes to models


def preview(magics: AgentMagics, request: CellRequest, cell_key: str) -> str:
    """Return the first request that the turn of ``request`` would send."""
    magics.follow_settings()
    session = magics.session
    options = options_of(request, magics.settings)
    sent = session.preview(request.text, cell_key=cell_key, options=options)
    # The rest of the message on the wire is the provider's format.
    head = f"Nothing is sent now. {request.flags.get('model') or session.model_name} would get "
    head += f"{counted(len(sent.messages), 'message')} and {counted(len(sent.tools), 'tool')}:"
    return "\n\n".join([head, *request_parts(sent)])


def context(magics: AgentMagics, words: str = _ANY_WORDS, **flags: Any) -> Told:
    """Show what a turn with these words would send, under the cell flags in ``flags``."""
    return preview(magics, CellRequest(words, flags), "")


def sent(magics: AgentMagics, turn: str | None = None, *, request: int | None = None) -> Told:
    """Show the requests that a turn sent to models: a line for each, and one of them in full.

    The full one is the last, or number ``request``. Each request repeats the one before, unless it
    was shortened.

    Raises:
        TurnError: there is no such turn or request.
    """
    session = magics.session
    found = resolve_turn(session.turns(), turn)
    requests = session.sent(found.run_id)
    if not requests:
        return note(
            f"No request of turn {found.ordinal} is on record: none was sent (a recording "
            "may have answered), or it was purged."
        )
    number = request or len(requests)
    if number > len(requests):
        raise TurnError(
            f"Turn {found.ordinal} has {counted(len(requests), 'request')}: there is no "
            f"request {number}."
        )
    begun = (each for each in session.events(found.run_id) if isinstance(each, RunStarted))
    share = next((f", --share {each.share}" for each in begun if each.share), "")
    head = f"Turn {found.ordinal}{share}: {counted(len(requests), 'request')}."
    if all(each.model == OFFLINE for each in requests):
        head += f" Nothing left this machine: {OFFLINE} is the model that is built in."
    lines = [_sent_line(each, asked) for each, asked in enumerate(requests, start=1)]
    parts = request_parts(requests[number - 1].request)
    if request is None:
        parts = fit(parts, lambda said: f"({said}; --request {number} shows it whole.)")
    title = f"Request {number} exactly as sent; {magics.name} sent --request N shows another."
    return [words("\n".join([head, *lines])), words("\n\n".join(parts), title=title)]


def _sent_line(number: int, asked: SentRequest) -> str:
    request, at = asked.request, asked.at[:19].replace("T", " ")
    told = "".join(map(_json, (*request.messages, *request.tools)))
    size = len(told.encode("utf-8", "surrogatepass"))
    return (
        f"Request {number}, {at} UTC, to {asked.model}: "
        f"{counted(len(request.messages), 'message')}, {counted(len(request.tools), 'tool')}, "
        f"{counted(size, 'byte')}"
    )


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# -- one request as text


def request_parts(request: ModelRequest) -> list[str]:
    """Return the messages of ``request`` and its tools, character for character."""
    tools = literal("\n".join(["── tools ──", *map(_json, request.tools)]))
    return [*map(message_words, request.messages), tools]


def message_words(message: Mapping[str, Any]) -> str:
    """Return one message, character for character, under its role."""
    rest = {name: value for name, value in message.items() if name not in ("role", "content")}
    content: Any = message.get("content") or ""
    if pictures := list(map(_picture_words, pictures_in(message))):
        content = "\n".join([*(part["text"] for part in content if "text" in part), *pictures])
    text = content if isinstance(content, str) else _json(content)
    rest_said = _json(rest) if rest else ""
    return literal("\n".join(filter(None, (f"── {message.get('role')} ──", text, rest_said))))


def _picture_words(png_base64: str) -> str:
    """Describe a picture by its size in pixels, tokens and bytes, and its digest."""
    png = base64.b64decode(png_base64)
    width, height = size_of(png)
    return (
        f"[picture: PNG of {width} × {height} pixels, about {tokens_of(png_base64):,} tokens, "
        f"{len(png):,} bytes, sha256 {hashlib.sha256(png).hexdigest()}]"
    )


def literal(text: str) -> str:
    """Escape invisible characters, and those that change how the rest looks, as Python does."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )
