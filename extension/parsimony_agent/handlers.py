"""The sub-commands of ``%agent``: each takes the desk, its words and its flags, and tells.

Each is named in the table of ``arguments``, and imported only when one of them is called.
"""

from traitlets import TraitError

from parsimony_agent import overview
from parsimony_agent.arguments import help_text
from parsimony_agent.cell import working_folder
from parsimony_agent.desk import Desk, Told
from parsimony_agent.pending import TurnStopped
from parsimony_agent.sessions import chosen_model
from parsimony_agent.settings import SETTINGS
from parsimony_agent.tables import table
from parsimony_kernel.artifacts.refresh import in_words
from parsimony_kernel.core.cancellation import Cancelled
from parsimony_kernel.core.chat import OFFLINE
from parsimony_kernel.doctor import examine
from parsimony_kernel.llm.credentials import provider_of
from parsimony_kernel.llm.providers import price_in_words, suggestion

_SAYS = 400


async def answer(desk: Desk, words: str, *, turn: str | None = None, here: bool = False) -> None:
    await desk.turns.answer(words, turn=turn, here=here, stop=desk.stop)


def show(desk: Desk, named: str | None = None) -> None:
    desk.turns.show(named)


def history(desk: Desk, named: str | None = None) -> Told:
    if named is None:
        return overview.history(desk.session)
    return overview.turn_story(desk.session, named)


def model(desk: Desk, name: str = "") -> Told:
    session = desk.session
    desk.follow_settings()
    if name:
        session.set_model(chosen_model(name, session.executor.variables()))
    told = f"Model: {session.model_name}"
    if session.model_name == OFFLINE and not name:
        return f"{told}, built-in rules and no LLM. {suggestion(desk.environ)}"
    prices = [price_in_words(each) for each in session.model_name.split(", ") if provider_of(each)]
    if not prices:
        return told
    share = desk.settings.told("share")[0]
    return f"{told} ({'; '.join(prices)}). Requests are sent with `--share {share}`."


def artifacts(desk: Desk) -> Told:
    return overview.artifacts(desk.session)


def tools(desk: Desk, do: str = "", name: str = "") -> Told:
    session = desk.session
    if do == "add":
        added = session.add_tool(name)
        return f"Tool: {added.name}. {overview.first_line(added.description)}".rstrip()
    if do == "remove":
        session.remove_tool(name)
        return f"{name} is no tool any more."
    return overview.tools(session, desk.magic)


def why(desk: Desk, name: str) -> Told:
    return overview.why(desk.session, name)


def script(desk: Desk, name: str, file: str = "") -> Told:
    if file:
        return overview.saved_script(desk.session, name, working_folder() / file)
    return overview.script(desk.session, name)


def diff(desk: Desk, named: str | None = None) -> Told:
    return overview.difference(desk.session, named)


def undo(desk: Desk, named: str | None = None) -> Told:
    session = desk.session
    desk.user_cells.settle()
    said = overview.undone(session, named)
    desk.user_cells.begin_anew()
    return said


def redo(desk: Desk, named: str | None = None) -> Told:
    session = desk.session
    desk.user_cells.settle()
    said = overview.redone(session, named)
    desk.user_cells.begin_anew()
    return said


async def refresh(desk: Desk, name: str, *, accept: bool = False, allow: bool = False) -> Told:
    print(f"Making {name!r} again in a clean kernel …", flush=True)
    try:
        done = desk.session.refresh(name, accept=accept, allow=allow)
        return in_words(await desk.stop.race(done))
    except Cancelled:
        raise TurnStopped("Stopped: nothing was published.") from None


def verify(desk: Desk) -> Told:
    return overview.verified(desk.session)


def procedure(desk: Desk, file: str) -> Told:
    return overview.playbook(desk.session, file)


def next_actions(desk: Desk) -> Told:
    return overview.next_actions(desk.session, desk.magic)


def config(desk: Desk) -> Told:
    rows = []
    for setting in SETTINGS:
        try:
            value, source = desk.settings.told(setting.name)
        except TraitError as wrong:
            value, source = "", str(wrong)
        rows.append((setting.name, value, source, setting.help))
    listed = table(("setting", "value", "from", "what it does"), rows, empty="", widest=_SAYS)
    return [listed, "To set one: %config ParsimonyAgent.budget = 0.50"]


def doctor(desk: Desk) -> Told:
    desk.follow_settings()
    environ = {**desk.environ, **desk.settings.of_models()}
    found = examine(working_folder(), environ, model=desk.session.model_name)
    rows = [
        (
            "ok" if each.ok else "to mend",
            each.name,
            ". ".join(filter(None, (each.says, each.remedy))),
        )
        for each in found
    ]
    return table(("", "what", "says"), rows, empty="", widest=_SAYS)


def metrics(desk: Desk, form: str = "") -> Told:
    return overview.exposition(desk.session) if form else overview.metrics(desk.session)


def stop(desk: Desk) -> Told:
    stopped = desk.is_open() and desk.session.stop()
    return "Stopping the turn that is running." if stopped else "No turn is running."


def usage(desk: Desk) -> Told:
    return help_text(desk.magic.lstrip("%"))
