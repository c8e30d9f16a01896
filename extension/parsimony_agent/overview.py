"""The sub-commands of ``%agent`` that only tell: turns and their stories, artifacts, figures,
and what goes to models, to the letter.

Everything is read from the session when it is asked for, so it is the same after a restart.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from traitlets import TraitError

from parsimony_agent.arguments import CellRequest, command_named, help_text
from parsimony_agent.cell import Session, working_folder
from parsimony_agent.options import in_notebook, options_of
from parsimony_agent.pending import TurnError
from parsimony_agent.settings import SETTINGS
from parsimony_agent.tables import note, steps_table, table, words
from parsimony_kernel.core.chat import OFFLINE, ModelRequest
from parsimony_kernel.core.events import RunStarted
from parsimony_kernel.core.pictures import pictures_in, size_of, tokens_of
from parsimony_kernel.core.taxonomy import FailureType
from parsimony_kernel.core.text import counted
from parsimony_kernel.doctor import run_checks, to_text
from parsimony_kernel.lineage.checkpoint import PutBack
from parsimony_kernel.lineage.picture import draw
from parsimony_kernel.metrics import alerts, figures, prometheus
from parsimony_kernel.session.maintenance import RECENT_TURNS, report_of
from parsimony_kernel.session.spending import Used, used
from parsimony_kernel.session.turns import resolve_turn
from parsimony_kernel.view.escape import fit, html_text, plain, unbroken
from parsimony_kernel.view.history import story
from parsimony_kernel.view.outline import cost_words

if TYPE_CHECKING:
    from parsimony_agent.magics import AgentMagics, Told
    from parsimony_kernel.storage.sent import SentRequest

_ANY_WORDS = "(your request)"
_SAYS = 600
_PATH = 400
_CHANGED = "you changed it since"


def history(magics: AgentMagics, turn: str | None = None) -> Told:
    """The turns, with the refusals and failures of the recent ones; or the story of one turn."""
    session = magics.session
    turns = session.turns()
    if turn is not None:
        return steps_table(story(session.events(resolve_turn(turns, turn).run_id)))
    trouble = {each.run_id: _trouble(session, each.run_id) for each in turns[-RECENT_TURNS:]}
    rows = []
    for each in turns:
        # In the person's own time, to the minute.
        started = f"{datetime.fromisoformat(each.started_at).astimezone():%Y-%m-%d %H:%M}"
        told = (each.request or "(purged)", trouble.get(each.run_id, "…"), each.model, started)
        status = "not done" if each.status == "handed_off" else each.status
        rows.append((str(each.ordinal), status, *told))
    head = ("turn", "status", "request", "trouble", "model", "started")
    return table(head, rows, empty="This notebook has no turns yet.")


def _trouble(session: Session, turn_id: str) -> str:
    outcomes = [line.outcome for line in story(session.events(turn_id))]
    counted = ((outcomes.count(what), what) for what in ("refused", "failed"))
    return ", ".join(f"{number} {what}" for number, what in counted if number)


def why(magics: AgentMagics, name: str) -> Told:
    """Where a variable comes from, as a drawing and in words."""
    told = magics.session.past.why(name)
    words = told.text()
    return {"text/plain": words, **({"image/svg+xml": draw(told)} if told.steps else {})}


def diff(magics: AgentMagics, turn: str | None = None) -> Told:
    """What a turn, the newest by default, did to the variables."""
    session = magics.session
    number = None if turn is None else resolve_turn(session.turns(), turn).ordinal
    ordinal, found = session.past.diff(number)
    return "\n".join([f"Turn {ordinal}:", *(f"  {line}" for line in found.lines())])


def put_back_words(ordinal: int, back: PutBack, *, is_redo: bool) -> str:
    """What an undo or a redo of turn ``ordinal`` did: how far it went, a line for each group of
    names, and what follows from it.
    """
    done = "re-applied" if is_redo else "undone"
    head = f"Turn {ordinal} {done}{' in part' if back.kept else ''}."
    if not back:
        head = f"Nothing of turn {ordinal} {done}."
    whys: dict[str, list[str]] = {}
    for name in back.kept:
        whys.setdefault(back.reasons.get(name, _CHANGED), []).append(name)
    groups: list[tuple[str, Sequence[str]]] = [
        ("Set again as the turn left them" if is_redo else "Restored", back.restored),
        ("Deleted again" if is_redo else "Removed", back.removed),
        *((f"Kept ({why})", names) for why, names in sorted(whys.items())),
        ("Perhaps changed, for there was no copy", back.lost),
        ("Now stale, made from it since", back.stale),
    ]
    lines = [f"  {what}: {', '.join(names)}" for what, names in groups if names]
    if back.kept and not back:
        first = "re-applied the turns before it" if is_redo else "undone what came since"
        lines.append(f"  It stays on record: try again once you have {first}.")
    if back and not is_redo:
        lines.append("  New files, published artifacts and what happened outside stay.")
    return "\n".join([head, *lines])


def verify(magics: AgentMagics) -> Told:
    """Whether the journal and what is published are as they were written."""
    return "\n".join(report_of(*magics.session.verify()))


def procedure(magics: AgentMagics, file: str) -> Told:
    """What the file of a task says, part by part."""
    said = magics.session.tools.playbook(file)
    rows: list[tuple[str, str]] = []
    if said.procedure is not None:
        rows.append(("states", ", ".join(said.procedure.states)))
        for edge in said.procedure.edges:
            guard = f", if {edge.guard}" if edge.guard else ""
            rows.append(("edge", f"{edge.action}: {edge.source} → {edge.target}{guard}"))
    if said.contract is not None:
        allowed = said.contract.allowed_tools
        rows.append(("tools", "all" if allowed is None else ", ".join(sorted(allowed))))
        identifiers = said.contract.identifiers.items()
        rows += [("identifier", f"{name} is {value}") for name, value in identifiers]
    rows += [("rule, enforced", rule) for rule in said.rules.in_words()]
    rows += [("a reminder", rule) for rule in said.constraints]
    for kind in FailureType:
        strategy = None if said.policy is None else said.policy.stated(kind)
        if strategy is not None:
            rows.append((kind.name, getattr(strategy, "__name__", "a strategy")))
    return table(("what", "says"), rows, empty="The file says nothing.", widest=_SAYS)


def artifacts(magics: AgentMagics) -> Told:
    """What is published. No times: a notebook that lists it is compared with its outputs."""
    rows = [(each.kind, each.title, each.path) for each in magics.session.artifacts()]
    head = ("kind", "title", "path")
    # A path is there to be copied.
    empty = "Nothing has been published here yet."
    return table(head, rows, empty=empty, widest=_PATH, width=None)


def own_tools(session: Session, magic: str) -> Told:
    """Your functions that are tools, and the MCP servers with what each brings."""
    own = session.tools.added()  # resolved anew, so before what is kept
    kept = session.tools.kept
    rows: list[tuple[str, ...]] = [
        (name, first_line(own[name].description), *([kept.get(name, "")] if kept else []))
        for name in own
    ]
    head = ("tool", "what it does", *(["kept as it was, for"] if kept else []))
    empty = f"No function of yours is a tool. {magic} tools add NAME makes one."
    servers = session.tools.servers.listing()
    if not servers:
        return table(head, rows, empty=empty)
    told = [(f"mcp:{name}", line, state) for name, line, state in servers]
    listed = table(("MCP server", "what is started", "state"), told, empty="", widest=_PATH)
    return [table(head, rows, empty=empty), listed]


def first_line(description: str) -> str:
    """What a tool does, in one line."""
    return description.partition("\n")[0]


def next_actions(magics: AgentMagics) -> Told:
    """What the newest turn may do next."""
    session = magics.session
    running = [turn for turn in session.turns()[-1:] if turn.status == "running"]
    events = session.events(running[0].run_id) if running else ()
    answers = [result for event in events if (result := getattr(event, "result", None))]
    actions = answers[-1].get("valid_next_actions", ()) if answers else ()
    if session.pending():
        return f"The run waits for an answer: {magics.name} answer"
    if actions:
        return "May be done next: " + ", ".join(map(str, actions))
    return "Nothing: no run of this notebook can go on."


def metrics(magics: AgentMagics, form: str = "") -> Told:
    """How the recent turns went, in figures, and the alerts that they call for; or as text for
    Prometheus."""
    session = magics.session
    recent = [session.events(turn.run_id) for turn in session.turns()[-RECENT_TURNS:]]
    if form:
        return prometheus.of_runs(recent).exposition()
    found = figures.of_runs(recent)
    fired = alerts.fired(found)
    return "\n\n".join([figures.to_text(found), *([alerts.to_text(fired)] if fired else [])])


def config(magics: AgentMagics) -> Told:
    """How the agent is set up here, and from where."""
    rows = []
    for name, setting in SETTINGS.items():
        try:
            value, source = magics.settings.told(name)
        except TraitError as wrong:
            value, source = "", str(wrong)
        rows.append((name, value, source, setting.says))
    listed = table(("setting", "value", "from", "what it does"), rows, empty="", widest=_SAYS)
    return [listed, "To set one: %config ParsimonyAgent.budget = 0.50"]


def doctor(magics: AgentMagics) -> Told:
    """What the agent needs, and what to do about what is missing."""
    magics.follow_settings()
    environ = {**magics.environ, **magics.settings.of_models()}
    checks = run_checks(working_folder(), environ, model=magics.session.model_name)
    return to_text(checks)


def usage(magics: AgentMagics, command: str = "") -> Told:
    """The help of both magics, or of one sub-command."""
    if command:
        parser = command_named(command, magics.name).parser(f"{magics.name} {command}")
        return parser.format_help()
    return help_text(magics.name.lstrip("%"))


def cost(magics: AgentMagics) -> Told:
    """What each turn has used of its model, those that were replaced among them, and the sum;
    where the notebook has a budget, what of it is spent."""
    session = magics.session
    turns = [(turn, used(session.events(turn.run_id))) for turn in session.turns()]
    whole = sum((each for _, each in turns), Used())
    rows = [_row(str(turn.ordinal), turn.model, each) for turn, each in turns]
    if len(rows) > 1:
        rows.append(_row("all", "", whole))
    if not whole.cached_tokens:
        rows = [{name: cell for name, cell in row.items() if name != "cached"} for row in rows]
    head = tuple(rows[0]) if rows else ()
    empty = "No turn of this notebook has asked a model yet."
    told = table(head, [tuple(row.values()) for row in rows], empty=empty)
    budget: float | None = magics.settings.value("notebook_budget")
    if budget is None:
        return told
    spent = session.spent_usd()
    said = f"Spent in this notebook: {cost_words(spent) if spent else 'nothing'} of "
    said += f"{cost_words(budget)}, its notebook_budget."
    if whole.unpriced:
        said += " Calls without a known price are not counted."
    if spent >= budget:
        said += " No turn begins until it is raised."
    return [told, note(said)]


def _row(turn: str, model: str, spent: Used) -> dict[str, str]:
    is_unknown = spent.calls > 0 and spent.unpriced == spent.calls
    price = cost_words(None if is_unknown else spent.cost_usd, partial=spent.unpriced > 0)
    return {
        "turn": turn,
        "model": model,
        "calls": f"{spent.calls:,}",
        "tokens in": f"{spent.prompt_tokens:,}",
        "cached": f"{spent.cached_tokens:,}",
        "tokens out": f"{spent.completion_tokens:,}",
        "cost": price,
        "time": f"{spent.seconds:.0f} s",
    }


# -- what goes to models


def preview(
    magics: AgentMagics, request: CellRequest, cell_key: str = "", *, magic: str = ""
) -> str:
    """What the turn of ``request`` would send first. ``magic`` is what errors call it."""
    magics.follow_settings()
    session = magics.session
    chosen = options_of(request, magics.settings)
    options = in_notebook(chosen, session, magics.shell, magic or f"%{magics.name}")
    sent = session.preview(request.text, cell_key=cell_key, options=options)
    return sent_words(sent, request.flags.get("model") or session.model_name)


def context(magics: AgentMagics, words: str = _ANY_WORDS, **told: Any) -> Told:
    """What a turn with these words would send, under the flags of a cell that say what is told."""
    return preview(magics, CellRequest(words, told), magic=f"{magics.name} context")


def sent(magics: AgentMagics, turn: str | None = None, *, request: int | None = None) -> Told:
    """What went to models in a turn: of each request what the one before did not have.

    With the number of a ``request`` that one, whole. ``TurnError`` when there is no such turn or
    request.
    """
    session = magics.session
    found = resolve_turn(session.turns(), turn)
    requests = session.sent(found.run_id)
    if not requests:
        return note(
            f"No request of turn {found.ordinal} is on record: none was sent, as where a recording "
            "answers, or it was purged."
        )
    if request is None:
        begun = (each for each in session.events(found.run_id) if isinstance(each, RunStarted))
        share = next((each.share for each in begun), "")
        return _told(requests, found.ordinal, share, magics.name)
    if request > len(requests):
        raise TurnError(
            f"Turn {found.ordinal} has {counted(len(requests), 'request')}: there is no "
            f"request {request}."
        )
    asked = requests[request - 1]
    return f"{_when(asked)}. {sent_words(asked.request, asked.model)}"


def _told(
    requests: Sequence[SentRequest], ordinal: int, share: str, magic: str
) -> Mapping[str, Any]:
    before = (ModelRequest([]), *(each.request for each in requests))
    pieces, size = [], 0
    for number, (asked, earlier) in enumerate(zip(requests, before, strict=False), start=1):
        request = asked.request
        parts, new = zip(*_new_in(request, earlier, number - 1), strict=True)
        whole = sum(map(_size, (*request.messages, *request.tools)))
        size += whole
        title = (
            f"Request {number}, {_when(asked)}, to {asked.model}: "
            f"{counted(len(request.messages), 'message')}, {counted(len(request.tools), 'tool')}, "
            f"{counted(whole, 'byte')}" + (f", {sum(new):,} of them new" if number > 1 else "")
        )
        pieces.append((title, "\n\n".join(parts)))
    head = f"Turn {ordinal}{f', --share {share}' if share else ''}: "
    head += f"{counted(len(pieces), 'request')}, {counted(size, 'byte')} in all."
    if all(each.model == OFFLINE for each in requests):
        head += f" Nothing left this machine: {OFFLINE} is the model that is built in."

    def left_out(said: str) -> str:
        return f"({said}; {magic} sent --request N {ordinal} shows one request whole.)"

    texts = [f"{title}\n\n{body}" for title, body in pieces]
    blocks = [
        f"<details><summary>{html_text(title)}</summary>{words(body)['text/html']}</details>"
        for title, body in pieces
    ]
    shown = "".join(fit(blocks, lambda said: f"<p>{html_text(left_out(said))}</p>"))
    return {
        "text/plain": plain("\n\n\n".join((head, *fit(texts, left_out)))),
        "text/html": unbroken(f"<div><p>{html_text(head)}</p>{shown}</div>"),
    }


def _new_in(request: ModelRequest, earlier: ModelRequest, number: int) -> Iterator[tuple[str, int]]:
    """The parts of ``request`` in order, each with how much of it is new in bytes.

    What request ``number`` had as well is named, the rest stands to the letter.
    """
    now, then = list(map(_key, request.messages)), list(map(_key, earlier.messages))
    for kind, i, j, start, end in SequenceMatcher(None, then, now, autojunk=False).get_opcodes():
        if kind == "equal":
            yield f"── {_range(start, end)} as in request {number} ──", 0
            continue
        if i < j:
            yield f"── {_range(i, j)} of request {number} left out ──", 0
        for message in request.messages[start:end]:
            yield message_words(message), _size(message)
    if request.tools and list(request.tools) == list(earlier.tools):
        yield f"── tools as in request {number} ──", 0
    else:
        yield _tools_words(request), sum(map(_size, request.tools))


def _range(start: int, end: int) -> str:
    return f"message {end}" if end - start == 1 else f"messages {start + 1} to {end}"


def _key(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _size(value: Mapping[str, Any]) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _when(asked: SentRequest) -> str:
    return f"{asked.at[:19].replace('T', ' ')} UTC"


# -- one request as text


def sent_words(request: ModelRequest, model: str) -> str:
    """A request to the letter: each message with its role, then the tools that it offers.

    What stands around it on the wire is the provider's own.
    """
    head = f"To {model}, {len(request.messages)} messages and {len(request.tools)} tools:"
    return "\n\n".join([head, *map(message_words, request.messages), _tools_words(request)])


def message_words(message: Mapping[str, Any]) -> str:
    """One message to the letter, under its role."""
    rest = {name: value for name, value in message.items() if name not in ("role", "content")}
    content: Any = message.get("content") or ""
    if pictures := list(map(_picture_words, pictures_in(message))):
        content = "\n".join([*(part["text"] for part in content if "text" in part), *pictures])
    said = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    rest_said = json.dumps(rest, ensure_ascii=False) if rest else ""
    return literal("\n".join(filter(None, (f"── {message.get('role')} ──", said, rest_said))))


def _picture_words(png_base64: str) -> str:
    """A picture by its size in pixels, tokens and bytes, and its digest."""
    png = base64.b64decode(png_base64)
    width, height = size_of(png)
    return (
        f"[picture: PNG of {width} × {height} pixels, about {tokens_of(png_base64):,} tokens, "
        f"{len(png):,} bytes, sha256 {hashlib.sha256(png).hexdigest()}]"
    )


def _tools_words(request: ModelRequest) -> str:
    tools = [json.dumps(tool, ensure_ascii=False) for tool in request.tools]
    return literal("── tools ──\n" + "\n".join(tools))


def literal(text: str) -> str:
    """``text`` with what cannot be seen, or changes how the rest looks, as Python escapes it."""
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )
