"""The sub-commands of ``%agent`` that only tell: turns and their stories, artifacts, figures.

Everything is read from the session when it is asked for, so it is the same after a restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from traitlets import TraitError

from parsimony_agent.arguments import command_named, help_text
from parsimony_agent.cell import working_folder
from parsimony_agent.settings import SETTINGS
from parsimony_agent.tables import note, steps_table, table
from parsimony_kernel.core.taxonomy import FailureType
from parsimony_kernel.doctor import run_checks
from parsimony_kernel.lineage.checkpoint import PutBack
from parsimony_kernel.lineage.picture import draw
from parsimony_kernel.metrics import alerts, figures, prometheus
from parsimony_kernel.session.maintenance import RECENT_TURNS, report_of
from parsimony_kernel.session.spending import Used, used
from parsimony_kernel.session.turns import resolve_turn
from parsimony_kernel.view.history import story
from parsimony_kernel.view.outline import cost_words

if TYPE_CHECKING:
    from parsimony_agent.magics import AgentMagics, Told
    from parsimony_agent.sessions import Session

_SAYS = 600
_PATH = 400
_CHANGED = "you changed it since"
_USED = ("turn", "model", "calls", "tokens in", "cached", "tokens out", "cost", "time")
_CACHED = _USED.index("cached")


def history(magics: AgentMagics, turn: str | None = None) -> Told:
    """The turns, with the refusals and failures of the recent ones; or the story of one turn."""
    session = magics.session
    turns = session.turns()
    if turn is not None:
        return steps_table(story(session.events(resolve_turn(turns, turn).run_id)))
    trouble = {each.run_id: _trouble(session, each.run_id) for each in turns[-RECENT_TURNS:]}
    rows = [
        (
            str(each.ordinal),
            each.status,
            each.request or "(purged)",
            trouble.get(each.run_id, "…"),
            each.model,
            # To the minute, as people write it.
            each.started_at[:16].replace("T", " "),
        )
        for each in turns
    ]
    head = ("turn", "status", "request", "trouble", "model", "started (UTC)")
    listed = table(head, rows, empty="This notebook has no turns yet.")
    return [listed]


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
    if back:
        head = f"Turn {ordinal} {done}{' in part' if back.kept else ''}."
    else:
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
    if said.policy is not None:
        rows += [
            (kind.name, getattr(said.policy.stated(kind), "__name__", "a strategy"))
            for kind in FailureType
            if said.policy.stated(kind) is not None
        ]
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
    found = run_checks(working_folder(), environ, model=magics.session.model_name)
    rows = [
        (
            "ok" if each.ok else "to fix",
            each.name,
            ". ".join(filter(None, (each.says, each.remedy))),
        )
        for each in found
    ]
    return table(("", "what", "says"), rows, empty="", widest=_SAYS)


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
    rows = [_row(str(turn.ordinal), turn.model, each) for turn, each in turns]
    if len(rows) > 1:
        rows.append(_row("all", "", sum((each for _, each in turns), Used())))
    head: tuple[str, ...] = _USED
    if not any(each.cached_tokens for _, each in turns):
        head, *rows = (each[:_CACHED] + each[_CACHED + 1 :] for each in (_USED, *rows))
    told = table(head, rows, empty="No turn of this notebook has asked a model yet.")
    budget: float | None = magics.settings.value("notebook_budget")
    if budget is None:
        return told
    return [told, note(_of_budget(session.spent_usd(), budget, any(e.unpriced for _, e in turns)))]


def _of_budget(spent: float, budget: float, some_unpriced: bool) -> str:
    said = f"Spent in this notebook: {cost_words(spent) if spent else 'nothing'} of "
    said += f"{cost_words(budget)}, its notebook_budget."
    if some_unpriced:
        said += " Calls without a known price are not counted."
    if spent >= budget:
        said += " No turn begins until it is raised."
    return said


def _row(turn: str, model: str, spent: Used) -> tuple[str, ...]:
    return (
        turn,
        model,
        f"{spent.calls:,}",
        f"{spent.prompt_tokens:,}",
        f"{spent.cached_tokens:,}",
        f"{spent.completion_tokens:,}",
        _price(spent),
        f"{spent.seconds:.0f} s",
    )


def _price(spent: Used) -> str:
    unknown = spent.calls > 0 and spent.unpriced == spent.calls
    return cost_words(None if unknown else spent.cost_usd, partial=spent.unpriced > 0)
