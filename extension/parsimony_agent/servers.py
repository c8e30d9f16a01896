"""``%agent tools add mcp:NAME``: an MCP server is started once the person has seen its command line
and said yes, by a click, at a prompt or with ``--yes``."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from parsimony_agent.asking import reader
from parsimony_agent.controls import Prompt, StopButton
from parsimony_agent.overview import first_line
from parsimony_agent.pending import QuestionPending, TurnError, TurnStopped
from parsimony_agent.publisher import Displays, outlet_of
from parsimony_kernel.session.turns import sentence
from parsimony_kernel.toolbox.mcp_servers import Server, ServerError
from parsimony_kernel.tools import Tool
from parsimony_kernel.view.escape import inline

if TYPE_CHECKING:
    from parsimony_agent.magics import AgentMagics

_STOPPED = "Stopped: the server was not started."
_DECLINED = "It was not started."


def add_server(magics: AgentMagics, name: str, *, yes: bool) -> str:
    """Start the server ``name`` and give its tools, or ask whether it may be started.

    Raises:
        QuestionPending: buttons ask; what is clicked goes on with it.
        TurnError: nobody can be asked here.
        ServerError: it is not known, or does not start.
        SessionError: a turn is running.
    """
    # Code that an agent runs adds no server, with or without --yes.
    magics.session.tools.must_be_free()
    server = magics.session.tools.servers.find(name)
    if not server.is_allowed:
        if not yes and not _says_yes(magics, server):
            return _DECLINED
        server.allow()
    print(f"Starting {name} …", flush=True)
    starting = magics.session.tools.servers.start(name)
    try:
        return tools_in_words(starting.result().values())
    except KeyboardInterrupt:
        print(_STOPPED)
        raise TurnStopped(_STOPPED) from None
    finally:
        starting.cancel()


def _says_yes(magics: AgentMagics, server: Server) -> bool:
    starts = "connects to" if server.url else "starts a program with your rights:"
    asked = f"This {starts} {inline(server.line)}"
    by_hand = f"To allow it from now on: {magics.name} tools --yes add mcp:{server.name}"
    if magics.turns.can_be_clicked():
        magics.show(asked)
        _ask(magics, server, by_hand)
        raise QuestionPending("A server waits for a yes; cells queued behind it were not run.")
    takes_input = getattr(getattr(magics.shell, "kernel", None), "_allow_stdin", False)
    read = input if takes_input else reader()
    if read is None:
        raise TurnError(f"{asked}\n{by_hand}")
    return read(f"{asked}\nStart it? yes or no: ").strip().casefold() in ("y", "yes")


def tools_in_words(tools: Iterable[Tool]) -> str:
    """A line for each tool."""
    lines = (f"Tool: {each.name}. {first_line(each.description)}" for each in tools)
    return "\n".join(map(str.rstrip, lines))


def _ask(magics: AgentMagics, server: Server, by_hand: str) -> None:
    """Ask with buttons whether ``server`` may be started; a click goes on behind the cell, and
    what comes of it is shown in the place of the buttons."""
    servers, loop = magics.session.tools.servers, asyncio.get_running_loop()
    place = Displays(outlet_of(magics.shell))

    async def start() -> str:
        server.allow()  # what was shown, whatever the file says by now
        starting = servers.start(server.name)
        stop = StopButton(starting.cancel, "Stops the start of this server.")
        place.show([stop.bundle()])
        try:
            tools = await asyncio.wrap_future(starting)
            return f"Started. Its tools: {', '.join(tools)}."
        except asyncio.CancelledError:
            return _STOPPED
        except ServerError as error:
            return sentence(str(error))
        finally:
            stop.settle("")

    async def answered(reply: str) -> None:
        prompt.settle(await start() if reply == "1" else _DECLINED)
        place.show([prompt.bundle()])

    def hear(reply: str) -> None:
        # Perhaps on another thread, perhaps inside a cell: the loop takes it from here.
        asyncio.run_coroutine_threadsafe(answered(reply), loop)

    choices = ("Start it", "Don't start it")
    prompt = Prompt(choices, hear, free_words=False, magic=magics.name)
    data, metadata = prompt.bundle()
    place.show([({**data, "text/plain": by_hand}, metadata)])
