"""The sub-commands of ``%agent`` that do something: each takes the magics, its words and flags.

Each is named in the table of ``arguments``; this is imported when one of them is called.
"""

from __future__ import annotations

import linecache
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parsimony_agent.arguments import CellRequest
from parsimony_agent.cell import working_folder
from parsimony_agent.options import options_of
from parsimony_agent.overview import own_tools, put_back_words
from parsimony_agent.pending import Misuse, OneLine, Silent, TurnError, TurnStopped
from parsimony_agent.servers import add_server, tools_in_words
from parsimony_agent.sessions import chosen_model
from parsimony_kernel.artifacts.refresh import in_words
from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.chat import OFFLINE
from parsimony_kernel.core.text import counted
from parsimony_kernel.llm.credentials import provider_of
from parsimony_kernel.llm.providers import price_in_words, suggestion
from parsimony_kernel.session.share import Share
from parsimony_kernel.session.turns import MENDING, SessionError, resolve_turn
from parsimony_kernel.storage import durable
from parsimony_kernel.toolbox.mcp_servers import PREFIX
from parsimony_kernel.view.escape import html_text, plain, shortened, unbroken
from parsimony_kernel.view.history import CodeStep, code_that_worked

if TYPE_CHECKING:
    from parsimony_agent.magics import AgentMagics, Told

_MOST_CODE = 8_000
_MOST_WORDS = 2_000
_ON_DISK = (
    "Variables, files and what is published stay as they are. The text stays on this disk until "
    "it is purged: jupyter parsimony purge --older-than 30d"
)
Stop = CancellationRequest | None

# -- turns


async def answer(
    magics: AgentMagics,
    words: str,
    *,
    turn: str | None = None,
    here: bool = False,
    stop: Stop = None,
) -> None:
    """Answer a question, the newest by default."""
    await magics.turns.answer(words, turn=turn, here=here, stop=stop)


def show(magics: AgentMagics, turn: str | None = None) -> None:
    """Draw a turn again."""
    magics.turns.show(turn)


async def fix(magics: AgentMagics, words: str = "", *, stop: Stop = None) -> None:
    """Run a turn whose request is to fix the error that the notebook showed last.

    ``words`` say more of what is wanted. ``TurnError`` when no cell has failed.
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
    """Stop the turn that is running."""
    stopped = magics.opened is not None and magics.session.stop()
    return "Stopping the turn that is running." if stopped else "No turn is running."


def undo(magics: AgentMagics, turn: str | None = None) -> Told:
    """Undo a turn, the newest that can be by default, and say what that did."""
    return _put_back(magics, turn, is_redo=False)


def redo(magics: AgentMagics, turn: str | None = None) -> Told:
    """Re-apply a turn that was undone, and say what that did."""
    return _put_back(magics, turn, is_redo=True)


def _put_back(magics: AgentMagics, named: str | None, *, is_redo: bool) -> str:
    session = magics.session
    with magics.user_cells.apart():
        number = None if named is None else resolve_turn(session.turns(), named).ordinal
        ordinal, back = (session.past.redo if is_redo else session.past.undo)(number)
        return put_back_words(ordinal, back, is_redo=is_redo)


def forget(magics: AgentMagics, turn: str) -> Told:
    """Hide a turn from later ones, and say what stays."""
    session = magics.session
    hidden = resolve_turn(session.turns(), turn)
    session.forget(hidden.run_id)
    return "\n".join(
        [
            f"Turn {hidden.ordinal} is forgotten: hidden from later turns, and what it published "
            "is no longer listed.",
            *(["Its question no longer waits."] if hidden.status == "suspended" else []),
            _ON_DISK,
        ]
    )


def reset(magics: AgentMagics, *, yes: bool = False) -> Told:
    """Begin anew: no earlier turns, no own tools, the first model. Without ``yes``, say so only."""
    session = magics.session
    tools = tuple(session.tools)
    if yes:
        told = f"{counted(session.reset(), 'turn')} forgotten. The model is {session.model_name}."
        return "\n".join([told, *_taken_away("No longer tools", tools), _ON_DISK])
    would = [turn for turn in session.turns() if turn.status not in ("running", "forgotten")]
    return "\n".join(
        [
            f"This would forget {counted(len(would), 'turn')} and go back to the model that the "
            f"notebook began with; it is {session.model_name} now.",
            *_taken_away("Would no longer be tools", tools),
            _ON_DISK,
            f"To do it: {magics.name} reset --yes",
        ]
    )


def _taken_away(what: str, tools: tuple[str, ...]) -> list[str]:
    return [f"{what}: {', '.join(tools)}."] if tools else []


# -- the model, the tools, artifacts


def model(magics: AgentMagics, name: str = "") -> Told:
    """Show the notebook's model, or set it."""
    session = magics.session
    magics.follow_settings()
    if name:
        session.set_model(chosen_model(name, session.executor.variables()))
    told = f"Model: {session.model_name}"
    if session.model_name == OFFLINE and not name:
        return f"{told}, built-in rules and no LLM. {suggestion(magics.environ)}"
    prices = [price_in_words(each) for each in session.model_name.split(", ") if provider_of(each)]
    if not prices:
        return told
    share = magics.settings.told("share")[0]
    return f"{told} ({'; '.join(prices)}). Requests are sent with `--share {share}`."


def tools(magics: AgentMagics, do: str = "", name: str = "", *, yes: bool = False) -> Told:
    """List the tools, or add or remove one. An MCP server is started only where the person has said
    yes to its command line, now by ``yes`` or when asked, or before."""
    session = magics.session
    if do and not name:
        raise Misuse(f"{magics.name} tools {do} needs the name of a function, or mcp:SERVER.")
    if do == "add" and name.startswith(PREFIX):
        return add_server(magics, name.removeprefix(PREFIX), yes=yes)
    if do == "add":
        return tools_in_words([session.tools.add(name)])
    if do == "remove":
        session.tools.remove(name)
        return f"{name} is no longer a tool."
    return own_tools(session, magics.name)


async def refresh(
    magics: AgentMagics, name: str, *, accept: bool = False, allow: bool = False, stop: Stop = None
) -> Told:
    """Make a published artifact again in a clean kernel."""
    print(f"Making {name!r} again in a clean kernel …", flush=True)
    try:
        done = magics.session.refresh(name, accept=accept, allow=allow)
        return in_words(await (stop or CancellationRequest()).race(done))
    except Cancelled:
        raise TurnStopped("Stopped: nothing was published.") from None


# -- code


def code(
    magics: AgentMagics, turn: str | None = None, *, cells: bool = False, to: str = ""
) -> Told:
    """Show the code that worked in a turn, the newest by default.

    With ``cells`` it is put into the next cell too, with ``to`` written into a new notebook, a
    cell for each step. ``TurnError`` when no code of the turn worked.
    """
    shown = resolve_turn(magics.session.turns(), turn)
    steps = code_that_worked(magics.session.events(shown.run_id))
    if not steps:
        raise TurnError(
            f"No code of turn {shown.ordinal} worked; {magics.name} history {shown.ordinal} tells "
            "what happened."
        )
    if to:
        return _written(working_folder() / to, steps)
    whole = "\n\n".join(step.with_heading() for step in steps) + "\n"
    if cells:
        # A kernel can hand over one cell; editors and `jupytext` split it at its headings.
        magics.shell.set_next_input(whole)
    return _shown(whole)


def _shown(source: str) -> dict[str, Any]:
    return {
        "text/plain": plain(source).rstrip("\n"),
        "text/html": f"<pre>{unbroken(html_text(source))}</pre>",
    }


def _written(place: Path, steps: tuple[CodeStep, ...]) -> str:
    import nbformat  # deferred: few ask for a file

    if place.suffix != ".ipynb":
        raise TurnError(f"{place.name!r} is no notebook: give it a name that ends with .ipynb.")
    document = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(step.with_heading()) for step in steps]
    )
    for number, cell in enumerate(document.cells, start=1):
        cell["id"] = f"step-{number}"
    _create(place, nbformat.writes(document).encode("utf-8", "replace"))
    return f"Written into {place.name}: {counted(len(steps), 'cell')}."


def script(magics: AgentMagics, name: str, file: str = "") -> Told:
    """Show a short script that rebuilds a variable, or write it into a new file."""
    source = magics.session.past.script(name).code
    if not file:
        return _shown(source.rstrip())
    place = working_folder() / file
    _create(place, source.encode("utf-8", "surrogatepass"))
    lines = counted(source.rstrip().count("\n") + 1, "line")
    return f"Written into {place.name}: {lines} that rebuild {name}."


def _create(place: Path, content: bytes) -> None:
    """Write a file that is not there yet. ``SessionError`` where that cannot be."""
    try:
        is_made = durable.create(place, content)
    except durable.StorageError as exc:
        raise SessionError(str(exc)) from exc
    if not is_made:
        raise SessionError(f"{place.name!r} exists already, and is left as it is: name another.")


# -- what failed last


def _last_error() -> BaseException | None:
    # Python 3.12 renamed it; IPython sets both where they are.
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return error if isinstance(error, BaseException) and not _is_ours(error) else None


def _is_ours(error: BaseException) -> bool:
    return isinstance(error, OneLine | Silent)


def described(error: BaseException, words: str = "", *, tells_values: bool = True) -> str:
    """The request: what failed, where, and the code that it went through.

    The words of an error can hold values from the data: without ``tells_values`` only its type is
    told.
    """
    parts = [
        f"{MENDING} Mend it, so that it does what it was meant to do, run the mended code, and say "
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
        # Its own words name a file that stands for the cell.
        return f"{type(error).__name__}: {error.msg}"
    return "".join(traceback.format_exception_only(type(error), error)).strip()


def _fenced(code: str) -> str:
    return f"```python\n{code[:_MOST_CODE].rstrip()}\n```"


def _cells_of(error: BaseException) -> list[tuple[str, int]]:
    """Where in cells the error went through, from the outermost: the cell's code and the line."""
    found: list[tuple[str, int]] = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") == "__main__":
            found.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename:
        found = [(error.filename, error.lineno or 1)]
    return [(source, line) for name, line in found if (source := _source(name))]


def _source(name: str) -> str:
    """The text of the cell that is called ``name``; empty where that is a file, as of ``%run``."""
    # A kernel calls its cells like files of a temporary folder, and writes none.
    return "" if Path(name).exists() else "".join(linecache.getlines(name))
