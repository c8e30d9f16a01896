"""The sub-commands of ``%agent`` that act. Each takes the magics, its words and its flags.

They are named in the tables of ``arguments``; this module is imported when one is called.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from parsimony_agent.arguments import CellRequest
from parsimony_agent.options import options_of
from parsimony_agent.overview import NAMED, first_line, own_tools, put_back_words
from parsimony_agent.pending import Misuse, OneLine, Silent, TurnError, TurnStopped
from parsimony_kernel.artifacts.refresh import in_words
from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.chat import OFFLINE, ChatModel
from parsimony_kernel.core.text import counted
from parsimony_kernel.llm.providers import price_in_words, provider_of, suggestion
from parsimony_kernel.session.context import is_taken_back
from parsimony_kernel.session.share import Share
from parsimony_kernel.session.turn_values import MENDING, resolve_turn
from parsimony_kernel.toolbox.mcp_client import PREFIX
from parsimony_kernel.tools import Tool
from parsimony_kernel.view.escape import inline, plain, shortened
from parsimony_kernel.view.fold import code_that_worked, replay
from parsimony_kernel.view.parts import enumerated, words_of

if TYPE_CHECKING:
    from parsimony_agent.magics import AgentMagics, Told

_MOST_CODE = 8_000
_MOST_WORDS = 2_000
_ON_DISK = (
    "Variables, files and what is published stay as they are. The text stays on this disk until "
    "it is purged: jupyter parsimony purge --older-than 30d"
)
_STOPPED = "Stopped: the server was not started."
_WITHOUT_CODE = ("forgotten", "replaced", "handed_off", "suspended")
Stop = CancellationRequest | None

# -- turns


async def answer(
    magics: AgentMagics, words: str, *, turn: str | None = None, stop: Stop = None
) -> None:
    """Answer a question, the newest by default."""
    await magics.turns.answer(words, turn=turn, stop=stop)


def show(magics: AgentMagics, turn: str | None = None) -> None:
    """Draw a turn again, by default the newest that waits for an answer, else the newest."""
    magics.turns.show(turn)


async def fix(magics: AgentMagics, words: str = "", *, stop: Stop = None) -> None:
    """Run a turn whose request is to fix the notebook's last error; ``words`` add to the request.

    Raises:
        TurnError: no cell has failed.
    """
    error = _last_error()
    if error is None:
        raise TurnError(
            "No cell of this notebook has failed since the kernel started, so there is nothing to "
            f"fix. Run the cell that fails, then {magics.name} fix."
        )
    share = options_of(CellRequest("fix"), magics.settings).share
    request = described(error, words, tells_values=share in (Share.full, Share.samples))
    cell_key = magics.cells.next_turn(f"fix {request}")
    await magics.turns.ask(CellRequest(request), cell_key, stop, elsewhere=True)


def stop(magics: AgentMagics) -> Told:
    """Stop the running turn."""
    stopped = magics.opened is not None and magics.session.stop()
    return "Stopping the turn that is running." if stopped else "No turn is running."


def undo(magics: AgentMagics, turn: str | None = None) -> Told:
    """Undo a turn, by default the newest that can be undone, and describe the result."""
    return _put_back(magics, turn, is_redo=False)


def redo(magics: AgentMagics, turn: str | None = None) -> Told:
    """Re-apply a turn that was undone, and describe the result."""
    return _put_back(magics, turn, is_redo=True)


def _put_back(magics: AgentMagics, named: str | None, *, is_redo: bool) -> Told:
    session = magics.session
    with magics.user_cells.apart():
        number = None if named is None else resolve_turn(session.turns(), named).ordinal
        ordinal, back = session.past.undo(number, redo=is_redo)
    turn = next(each for each in session.turns() if each.ordinal == ordinal)
    made = session.granted[turn.run_id].made if turn.run_id in session.granted else ()
    files = sorted(os.path.relpath(each, session.folder) for each in made if Path(each).is_file())
    stays = [words_of(enumerated([(each,) for each in files], NAMED))] if files else []
    stays += map(words_of, replay(session.events(turn.run_id)).published.values())
    stays += ["effects outside"] * session.past.has_reached(turn.run_id)
    named = f"Turn {ordinal} ({shortened(inline(turn.request), 60)})"
    more = []
    if turn.status == "suspended" and (back or not back.kept):
        more.append(f"Its question {'waits again' if is_redo else 'no longer waits'}.")
        if not is_redo:
            magics.turns.leave(turn.run_id, "The turn was undone.")
    newest = session.turns()[-1]
    is_passed = not (number or is_redo or is_taken_back(session.events(newest.run_id)))
    if is_passed and newest.ordinal > ordinal:
        more.append(f"Turn {newest.ordinal} changed no variables, and stays.")
    return put_back_words(named, back, stays, more, is_redo=is_redo)


def forget(magics: AgentMagics, turn: str) -> Told:
    """Hide a turn from later ones, and say what is kept."""
    session = magics.session
    hidden = resolve_turn(session.turns(), turn)
    session.forget(hidden.run_id)
    magics.turns.leave(hidden.run_id, "The turn was forgotten.")
    asked = "\nIts question no longer waits." if hidden.status == "suspended" else ""
    return (
        f"Turn {hidden.ordinal} is forgotten: hidden from later turns, and what it published is no "
        f"longer listed.{asked}\n{_ON_DISK}"
    )


def reset(magics: AgentMagics, *, yes: bool = False) -> Told:
    """Start afresh: no earlier turns, no added tools, the first model. Only a preview without
    ``yes``.
    """
    session = magics.session
    tools = f"No longer tools: {', '.join(own)}.\n" if (own := session.tools.added()) else ""
    if yes:
        text = f"{counted(session.reset(), 'turn')} forgotten. The model is {session.model_name}."
        return f"{text}\n{tools}{_ON_DISK}"
    would = [turn for turn in session.turns() if turn.status not in ("running", "forgotten")]
    return (
        f"This would forget {counted(len(would), 'turn')} and go back to the model that the "
        f"notebook began with; it is {session.model_name} now.\n"
        f"{tools}{_ON_DISK}\nTo do it: {magics.name} reset --yes"
    )


# -- the model, the tools, artifacts


def model(magics: AgentMagics, name: str = "") -> Told:
    """Show the notebook's model, or set it."""
    session = magics.session
    magics.follow_settings()
    if name:
        session.set_model(chosen_model(name, session.executor.variables()))
    text = f"Model: {session.model_name}"
    if session.model_name == OFFLINE and not name:
        return f"{text}, built-in rules and no LLM. {suggestion(os.environ)}"
    prices = [price_in_words(each) for each in session.model_name.split(", ") if provider_of(each)]
    if not prices:
        return text
    share = magics.settings.told("share")[0]
    return f"{text} ({'; '.join(prices)}). Requests are sent with `--share {share}`."


def tools(magics: AgentMagics, do: str = "", name: str = "", *, yes: bool = False) -> Told:
    """List the tools, or add or remove one.

    An MCP server is started only if the person has approved its command line, by ``yes`` now or
    earlier.
    """
    session = magics.session
    if do and not name:
        raise Misuse(f"{magics.name} tools {do} needs the name of a function, or mcp:SERVER.")
    if do == "add" and name.startswith(PREFIX):
        return _add_server(magics, name.removeprefix(PREFIX), yes=yes)
    if do == "add":
        return _tools_in_words([session.tools.add(name)])
    if do == "remove":
        session.tools.remove(name)
        return f"{name} is no longer a tool."
    return own_tools(session, magics.name)


async def refresh(magics: AgentMagics, name: str, stop: Stop = None, **flags: bool) -> Told:
    """Rebuild a published artifact in a clean kernel; the flags are those of the session."""
    name = re.sub(r"""^(["'])(.+)\1$""", r"\2", name)
    print(f"Making {name!r} again in a clean kernel …", flush=True)
    try:
        done = magics.session.refresh(name, **flags)
        return in_words(await (stop or CancellationRequest()).race(done))
    except Cancelled:
        raise TurnStopped("Stopped: nothing was published.") from None


# -- a model of the person's, and MCP servers


def chosen_model(name: str, variables: Mapping[str, Any]) -> str | ChatModel:
    """Resolve ``name`` to a model: the name of one, or the model object in that variable.

    A known model name always means that model, whatever variables exist. Any other name means a
    variable, if there is one.

    Raises:
        TurnError: the variable holds no model, or one whose name cannot be displayed.
    """
    if name not in variables or name == OFFLINE or provider_of(name) is not None:
        return name
    value = variables[name]
    called = _model_name(value)
    if called is None:
        raise TurnError(
            f"The variable {name!r} is of type {type(value).__name__}, not a model. Name a model, "
            "such as openai/gpt-5, or a variable whose object has a name and a stream method."
        )
    if not called.isprintable() or not called.strip() or "," in called:
        raise TurnError(
            f"The model in the variable {name!r} is named {called[:60]!a}: let its name be "
            "printable text of one line without a comma."
        )
    return cast("ChatModel", value)


def _model_name(value: Any) -> str | None:
    """Return the name of the model object ``value``; ``None`` if it is not one."""
    try:
        # Check the class: a frame has its columns as attributes, and a proxy has any.
        is_model = not isinstance(value, type) and callable(getattr(type(value), "stream", None))
        name = value.name if is_model else None
    except Exception:  # boundary: user object - its attributes
        return None
    return name if isinstance(name, str) else None


def _add_server(magics: AgentMagics, name: str, *, yes: bool) -> str:
    """Start the MCP server ``name`` and list its tools.

    Raises:
        TurnError: the person has not approved it yet; the message has its command line.
        ServerError: it is unknown or does not start.
        SessionError: a turn is running.
    """
    # Agent code must not add a server, with or without --yes.
    magics.session.tools.must_be_free()
    server = magics.session.tools.servers.find(name)
    if not server.is_allowed:
        if not yes:
            starts = "connects to" if server.url else "starts a program with your rights:"
            raise TurnError(
                f"This {starts} {inline(server.line)}\n"
                f"To allow it from now on: {magics.name} tools --yes add mcp:{name}"
            )
        server.allow()
    print(f"{inline(server.line)}\nStarting {name} …", flush=True)
    starting = magics.session.tools.servers.start(name)
    try:
        return _tools_in_words(starting.result().values())
    except KeyboardInterrupt:
        print(_STOPPED)
        raise TurnStopped(_STOPPED) from None
    finally:
        starting.cancel()


def _tools_in_words(tools: Iterable[Tool]) -> str:
    """Format one line per tool."""
    lines = (f"Tool: {each.name}. {first_line(each.description)}" for each in tools)
    return "\n".join(map(str.rstrip, lines))


# -- code


def code(magics: AgentMagics, turn: str | None = None, *, cells: bool = False) -> Told:
    """Show the code that worked in a turn, by default the newest that has some, or put it into the
    next cell.

    Raises:
        TurnError: no code of the turn worked.
    """
    session = magics.session
    named = resolve_turn(session.turns(), turn)
    # A refused turn has only looked something up, and one that waits has not ended.
    kept = [each for each in reversed(session.turns()) if each.status not in _WITHOUT_CODE]
    wanted = [named] if turn else [*kept, named]
    worked = ((each, code_that_worked(session.events(each.run_id))) for each in wanted)
    shown, steps = next((each for each in worked if each[1]), (named, ()))
    if not steps:
        raise TurnError(
            f"No code of turn {shown.ordinal} worked; {magics.name} history {shown.ordinal} shows "
            "what happened."
        )
    # Editors read `# %%` as the start of a cell.
    headings = (f"# %% {inline(step.purpose) or f'step {step.number}'}" for step in steps)
    parts = (f"{head}\n{step.code.rstrip()}" for head, step in zip(headings, steps, strict=True))
    whole = "\n\n".join(parts) + "\n"
    if cells:
        # A kernel can set only one next cell; editors and `jupytext` split it at the headings.
        magics.shell.set_next_input(whole)
        return f"The code of turn {shown.ordinal} is in the next cell."
    return whole


def script(magics: AgentMagics, name: str) -> Told:
    """Show a short script that rebuilds a variable."""
    return magics.session.past.script(name)


# -- what failed last


def _last_error() -> BaseException | None:
    # Python 3.12 renamed `last_value`; IPython sets both if they exist.
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    is_theirs = isinstance(error, BaseException) and not isinstance(error, OneLine | Silent)
    return error if is_theirs else None


def described(error: BaseException, words: str = "", *, tells_values: bool = True) -> str:
    """Format the request: the error, where it was raised, and the cells it passed through.

    An error's text can quote data: without ``tells_values`` only its type is given.
    """
    parts = [
        f"{MENDING} Fix it, so that it does what it was meant to do, run the fixed code, and say "
        "in a sentence what was wrong.",
        words.strip(),
        f"The error: {shortened(plain(_said(error, tells_values=tells_values)), _MOST_WORDS)}",
    ]
    cells = _cells_of(error)
    if cells:
        code, line = cells[0]
        parts.append(f"The code of the cell, which failed in line {line}:\n{_fenced(code)}")
        within, deepest = cells[-1]
        if within != code:
            parts.append(
                f"It went into another cell, where line {deepest} raised:\n{_fenced(within)}"
            )
    return "\n\n".join(filter(None, parts))


def _said(error: BaseException, *, tells_values: bool) -> str:
    if not tells_values:
        return f"{type(error).__name__} (its words stay in the notebook)"
    if isinstance(error, SyntaxError):
        # The full text names the made-up file of the cell.
        return f"{type(error).__name__}: {error.msg}"
    return "".join(traceback.format_exception_only(type(error), error)).strip()


def _fenced(code: str) -> str:
    return f"```python\n{code[:_MOST_CODE].rstrip()}\n```"


def _cells_of(error: BaseException) -> list[tuple[str, int]]:
    """Return the cells that the error passed through, outermost first, as code and line number."""
    found = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_globals.get("__name__") == "__main__"
    ]
    if isinstance(error, SyntaxError) and error.filename:
        found = [(error.filename, error.lineno or 1)]
    return [(source, line) for name, line in found if (source := _source(name))]


def _source(name: str) -> str:
    """Return the text of the cell called ``name``; empty if it is a real file, as with ``%run``."""
    # A kernel names its cells like temporary files that it never writes.
    return "" if Path(name).exists() else "".join(linecache.getlines(name))
