"""``%agent tools add mcp:NAME``: an MCP server is started once the person has seen its command line
and said yes, by a click, at a prompt or with ``--yes``."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING

from parsimony_agent.asking import reader
from parsimony_agent.controls import Prompt, StopButton
from parsimony_agent.overview import first_line
from parsimony_agent.pending import QuestionPending, TurnError, TurnStopped
from parsimony_agent.publisher import Mime, outlet_of
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
    """Ask with buttons whether ``server`` may be started; a click goes on behind the cell."""
    servers, loop = magics.session.tools.servers, asyncio.get_running_loop()
    outlet = outlet_of(magics.shell)

    def show(data: Mime, metadata: Mime, place: str = "") -> str:
        display_id = place or uuid.uuid4().hex
        outlet.show(data, metadata, display_id=display_id, update=bool(place))
        return display_id

    async def answered(is_yes: bool) -> None:
        """Nobody awaits this: all is shown."""
        told = _DECLINED
        try:
            if is_yes:
                server.allow()  # what was shown, whatever the file says by now
                starting = servers.start(server.name)
                stop = StopButton(starting.cancel, "Stops the start of this server.")
                stops = show(*stop.bundle())
                try:
                    tools = await asyncio.wrap_future(starting)
                finally:
                    stop.settle("")
                    show(*stop.bundle(), stops)
                told = f"Started. Its tools: {', '.join(tools)}."
        except asyncio.CancelledError:
            told = _STOPPED
        except ServerError as error:
            told = sentence(str(error))
        prompt.settle(told)
        show(*prompt.bundle(), asks)

    def hear(reply: str) -> None:
        # Perhaps on another thread, perhaps inside a cell: the loop takes it from here.
        asyncio.run_coroutine_threadsafe(answered(reply == "1"), loop)

    choices = ("Start it", "Don't start it")
    prompt = Prompt(choices, hear, free_words=False, magic=magics.name)
    data, metadata = prompt.bundle()
    asks = show({**data, "text/plain": by_hand}, metadata)
