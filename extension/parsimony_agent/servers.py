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
from parsimony_agent.publisher import outlet_of
from parsimony_kernel.session.turns import sentence
from parsimony_kernel.storage.durable import StorageError
from parsimony_kernel.toolbox.mcp_servers import Server, ServerError
from parsimony_kernel.tools import Tool
from parsimony_kernel.view.bundle import Bundle
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
    """
    server = magics.session.servers.find(name)
    if not (yes or server.is_allowed):
        asked = f"This starts a program with your rights: {inline(server.line)}"
        if server.url:
            asked = f"This connects to {inline(server.line)}"
        by_hand = f"To allow it from now on: {magics.name} tools --yes add mcp:{name}"
        if magics.turns.can_be_clicked():
            magics.show(asked)
            Consent(magics, server, by_hand)
            raise QuestionPending("A server waits for a yes; cells queued behind it were not run.")
        takes_input = getattr(getattr(magics.shell, "kernel", None), "_allow_stdin", False)
        read = input if takes_input else reader()
        if read is None:
            raise TurnError(f"{asked}\n{by_hand}")
        if read(f"{asked}\nStart it? yes or no: ").strip().casefold() not in ("y", "yes"):
            return _DECLINED
    server.allow()
    print(f"Starting {name} …", flush=True)
    starting = magics.session.servers.start(name)
    try:
        return tools_in_words(starting.result().values())
    except KeyboardInterrupt:
        print(_STOPPED)
        raise TurnStopped(_STOPPED) from None
    finally:
        starting.cancel()


def tools_in_words(tools: Iterable[Tool]) -> str:
    """A line for each tool."""
    lines = (f"Tool: {each.name}. {first_line(each.description)}" for each in tools)
    return "\n".join(map(str.rstrip, lines))


class Consent:
    """Asks with buttons whether ``server`` may be started, and starts it behind the cell."""

    def __init__(self, magics: AgentMagics, server: Server, by_hand: str) -> None:
        self._servers, self._server, self._by_hand = magics.session.servers, server, by_hand
        self._outlet, self._loop = outlet_of(magics.shell), asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        choices = ("Start it", "Don't start it")
        self._prompt = Prompt(choices, self._hear, free_words=False, magic=magics.name)
        data, metadata = self._prompt.bundle()
        self._place = self._show(({**data, "text/plain": by_hand}, metadata))

    def _hear(self, reply: str) -> None:
        # Perhaps on another thread, perhaps inside a cell: the loop takes it from here.
        self._loop.call_soon_threadsafe(self._go_on, reply == "1")

    def _go_on(self, is_yes: bool) -> None:
        if is_yes:
            self._task = self._loop.create_task(self._start())
        else:
            self._settle(_DECLINED)

    async def _start(self) -> None:
        """Nobody awaits this: all is shown."""
        try:
            self._server.allow()  # what was shown, whatever the file says by now
            starting = self._servers.start(self._server.name)
        except (ServerError, StorageError) as error:
            self._settle(sentence(str(error)))
            return
        stop = StopButton(starting.cancel, "Stops the start of this server.")
        place = self._show(stop.bundle())
        try:
            tools = await asyncio.wrap_future(starting)
            self._settle(f"Started. Its tools: {', '.join(tools)}.")
        except ServerError as error:
            self._settle(sentence(str(error)))
        except asyncio.CancelledError:
            self._settle(_STOPPED)
        finally:
            stop.settle("")
            self._show(stop.bundle(), place)

    def _settle(self, text: str) -> None:
        self._prompt.settle(text)
        self._show(self._prompt.bundle(), self._place)

    def _show(self, bundle: Bundle, place: str = "") -> str:
        display_id = place or uuid.uuid4().hex
        self._outlet.show(*bundle, display_id=display_id, update=bool(place))
        return display_id
