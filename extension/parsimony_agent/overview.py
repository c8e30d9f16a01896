"""What ``%agent`` tells of a notebook: its turns and their stories, artifacts, tools and figures.

Everything is read from the session when it is asked for, so it is the same after a restart.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parsimony_agent.sessions import Session
from parsimony_agent.tables import note, table
from parsimony_kernel.core.events import AgentEvent
from parsimony_kernel.core.taxonomy import FailureType
from parsimony_kernel.gate.mermaid import drawn
from parsimony_kernel.lineage.checkpoint import PutBack
from parsimony_kernel.lineage.dependents import warnings
from parsimony_kernel.lineage.picture import draw
from parsimony_kernel.metrics import alerts, figures, prometheus
from parsimony_kernel.session.audit import RECENT_TURNS, report_of
from parsimony_kernel.session.turns import SessionError, resolve_turn
from parsimony_kernel.storage import durable
from parsimony_kernel.view.escape import fenced
from parsimony_kernel.view.history import story, troubles

_STORY_WORDS = 600
_PATH = 400
_CHANGED = "changed or bound anew since, so left"


def history(session: Session) -> list[dict[str, Any]]:
    """The turns, with how often an action was refused and how much failed in the recent ones, and
    where those came from that were not begun in this notebook."""
    turns = session.turns()
    trouble = {each.turn_id: _trouble(session, each.turn_id) for each in turns[-RECENT_TURNS:]}
    rows = [
        (
            str(turn.ordinal),
            turn.status,
            turn.request or "(purged)",
            trouble.get(turn.turn_id, "…"),
            turn.model,
            # To the minute, as people write it.
            turn.started_at[:16].replace("T", " "),
        )
        for turn in turns
    ]
    head = ("turn", "status", "request", "trouble", "model", "started (UTC)")
    listed = table(head, rows, empty="This notebook has no turns yet.")
    return [listed, *map(note, session.origins())]


def _trouble(session: Session, turn_id: str) -> str:
    refused, failed = troubles(story(session.events(turn_id)))
    counted = ((refused, "refused"), (failed, "failed"))
    return ", ".join(f"{number} {what}" for number, what in counted if number)


def turn_story(session: Session, named: str) -> dict[str, Any]:
    """The story of one turn, a line a step. ``SessionError`` when ``named`` means none."""
    turn = resolve_turn(session.turns(), named)
    rows = [
        (line.step, line.what, line.outcome, line.words)
        for line in story(session.events(turn.turn_id))
    ]
    head = ("step", "what", "outcome", "in words")
    return table(head, rows, empty="Nothing of this turn is on record.", widest=_STORY_WORDS)


def why(session: Session, name: str) -> dict[str, Any]:
    """Where a variable comes from, as a drawing and in words."""
    told = session.past.why(name)
    words = told.text()
    return {"text/plain": words, **({"image/svg+xml": draw(told)} if told.steps else {})}


def script(session: Session, name: str) -> dict[str, Any]:
    """A short script that rebuilds a variable. ``SessionError`` where there is none."""
    code = session.past.script(name).code.rstrip()
    return {"text/plain": code, "text/markdown": fenced(code, "python")}


def saved_script(session: Session, name: str, place: Path) -> str:
    """Write that script into a new file, and say so. ``SessionError`` where that cannot be."""
    code = session.past.script(name).code
    try:
        is_made = durable.create(place, code.encode("utf-8", "surrogatepass"))
    except durable.StorageError as exc:
        raise SessionError(str(exc)) from exc
    if not is_made:
        raise SessionError(f"{place.name!r} exists already, and is left as it is: name another.")
    return f"Written into {place.name}: {_lines(code)} that rebuild {name}."


def _lines(code: str) -> str:
    count = code.rstrip().count("\n") + 1
    return "1 line" if count == 1 else f"{count} lines"


def difference(session: Session, named: str | None) -> str:
    """What a turn, the newest by default, did to the variables."""
    ordinal, found = session.past.diff(_ordinal(session, named))
    return "\n".join([f"Turn {ordinal}:", *(f"  {line}" for line in found.lines())])


def undone(session: Session, named: str | None) -> str:
    """Take a turn back, the newest that can be by default, and say what that did."""
    ordinal, back = session.past.undo(_ordinal(session, named))
    return "\n".join(
        [
            _head(back, f"Turn {ordinal}", "taken back"),
            *_put_back(session, ordinal, back, redone=False),
            *(["  New files, published artifacts and what happened outside stay."] if back else []),
        ]
    )


def redone(session: Session, named: str | None) -> str:
    """Do again what was taken back of a turn, and say what that did."""
    ordinal, back = session.past.redo(_ordinal(session, named))
    return "\n".join(
        [
            _head(back, f"What turn {ordinal} did", "done again"),
            *_put_back(session, ordinal, back, redone=True),
        ]
    )


def _head(back: PutBack, turn: str, what: str) -> str:
    """How far it went: all of it, a part, or nothing."""
    if back:
        return f"{turn} is {what}{' in part' if back.kept else ''}."
    return f"Nothing of {turn[:1].lower()}{turn[1:]} is {what}."


def _put_back(session: Session, ordinal: int, back: PutBack, *, redone: bool) -> list[str]:
    whys: dict[str, list[str]] = {}
    for name in back.kept:
        whys.setdefault(back.reasons.get(name, _CHANGED), []).append(name)
    parts: list[tuple[Sequence[str], str]] = [
        (back.restored, "again as the turn left them" if redone else "as before"),
        (back.removed, "deleted again" if redone else "gone again"),
        *((names, why) for why, names in sorted(whys.items())),
        (back.lost, "perhaps changed, for there was no copy"),
    ]
    lines = [f"  {', '.join(names)}: {what}" for names, what in parts if names]
    turns = session.past.ordinals()
    lines += [
        f"  {line}"
        for line in warnings(
            back.dependents, ordinal, removed=back.removed, turns=turns, redone=redone
        )
    ]
    if back.kept and not back:
        first = "the turns before it are done again" if redone else "what came since is taken back"
        lines.append(f"  It stays on record: try again once {first}.")
    return lines


def _ordinal(session: Session, named: str | None) -> int | None:
    return None if named is None else resolve_turn(session.turns(), named).ordinal


def verified(session: Session) -> str:
    """Whether the journal and what is published are as they were written."""
    bad, found = session.verify()
    return "\n".join(report_of(bad, found))


def playbook(session: Session, file: str) -> list[dict[str, Any]]:
    """What the file of a task says: a table, and a drawing where it has states."""
    said = session.playbook(file)
    rows: list[tuple[str, str]] = []
    if said.procedure is not None:
        states, edges = said.procedure.states, said.procedure.edges
        rows.append(("procedure", f"states: {len(states)}, edges: {len(edges)}, each reachable"))
    if said.contract is not None:
        allowed = said.contract.allowed_tools
        rows.append(("tools", "all" if allowed is None else ", ".join(sorted(allowed))))
        identifiers = said.contract.identifiers.items()
        rows += [("identifier", f"{name} is {value}") for name, value in identifiers]
    rows += [("rule, enforced", rule) for rule in said.rules.in_words()]
    rows += [("a reminder", rule) for rule in said.constraints]
    if said.policy is not None:
        rows += [
            (kind.name, getattr(said.policy.stated(kind), "__name__", "a strategy"))
            for kind in FailureType
            if said.policy.stated(kind) is not None
        ]
    shown = [table(("what", "says"), rows, empty="The file says nothing.", widest=_STORY_WORDS)]
    if said.procedure is not None:
        diagram = drawn(said.procedure)
        shown.append({"text/vnd.mermaid": diagram, "text/plain": diagram})
    return shown


def artifacts(session: Session) -> dict[str, Any]:
    """What is published. No times: a notebook that lists it is compared with its outputs."""
    rows = [(each.kind, each.title, each.path) for each in session.artifacts()]
    head = ("kind", "title", "path")
    # A path is there to be copied.
    empty = "Nothing has been published here yet."
    return table(head, rows, empty=empty, widest=_PATH, width=None)


def tools(session: Session, magic: str) -> dict[str, Any]:
    """The functions of the person's that are tools."""
    own = session.tools  # resolved anew, so before what is kept
    kept = session.kept_tools
    rows: list[tuple[str, ...]] = [
        (name, first_line(own[name].description), *([kept.get(name, "")] if kept else []))
        for name in own
    ]
    head = ("tool", "what it does", *(["kept as it was, for"] if kept else []))
    empty = f"No function of yours is a tool. {magic} tools add NAME makes one."
    return table(head, rows, empty=empty)


def first_line(description: str) -> str:
    """What a tool does, in one line."""
    return description.partition("\n")[0]


def next_actions(session: Session, magic: str) -> str:
    """What the newest turn may do next."""
    running = [turn for turn in session.turns()[-1:] if turn.status == "running"]
    events = session.events(running[0].turn_id) if running else ()
    answers = [result for event in events if (result := getattr(event, "result", None))]
    actions = answers[-1].get("valid_next_actions", ()) if answers else ()
    if session.pending():
        return f"The run waits for an answer: {magic} answer"
    if actions:
        return "May be done next: " + ", ".join(map(str, actions))
    return "Nothing: no run of this notebook can go on."


def metrics(session: Session) -> str:
    """How the recent turns went, in figures, and the alerts that they call for."""
    counted = figures.of_runs(_recent(session))
    fired = alerts.fired(counted)
    return "\n\n".join([figures.to_text(counted), *([alerts.to_text(fired)] if fired else [])])


def exposition(session: Session) -> str:
    """The metrics of the recent turns in Prometheus' text format."""
    return prometheus.of_runs(_recent(session)).exposition()


def _recent(session: Session) -> list[tuple[AgentEvent, ...]]:
    return [session.events(turn.turn_id) for turn in session.turns()[-RECENT_TURNS:]]
