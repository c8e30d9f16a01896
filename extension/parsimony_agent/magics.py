"""``%%agent`` and ``%agent``: parse what was written and dispatch it.

The functions that IPython calls do nothing more. Everything slow to import is imported when a turn
needs it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from IPython.core.magic import no_var_expand

from parsimony_agent import arguments
from parsimony_agent.arguments import CellRequest
from parsimony_agent.cell import Cells, Session, SessionFactory, working_folder
from parsimony_agent.pending import Misuse, Silent, TurnError, TurnStopped
from parsimony_agent.publisher import Displays, outlet_of
from parsimony_agent.settings import SET_HERE, ParsimonyAgent
from parsimony_agent.tables import note, words
from parsimony_agent.user_cells import UserCells
from parsimony_kernel.core.cancellation import CONSUMER_GONE, CancellationRequest, Cancelled
from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.execution.interrupt import stop_on_sigint
from parsimony_kernel.view.escape import plain

if TYPE_CHECKING:
    from parsimony_agent.turns import Turns


# What a sub-command returns: text, a mime bundle, several of these, or nothing.
Told = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None

_OF_A_TURN = (
    "parsimony_agent.turns",
    "parsimony_kernel.session.session",
    "parsimony_kernel.execution.executor",
)
# An interrupted kernel cancels the cell a few iterations of the event loop later.
_LATE_TURNS = 5


async def _take_late_stop(stop: CancellationRequest) -> None:
    """Set ``stop`` if Stop was pressed between the cell's start and the handler's installation."""
    try:
        for _ in range(_LATE_TURNS):
            await asyncio.sleep(0)
    except asyncio.CancelledError:
        stop.set()
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()


@contextmanager
def _plainly() -> Iterator[None]:
    """Turn the errors of a session into ``TurnError``, which is displayed as one line."""
    try:
        yield
    except SessionError as error:
        raise TurnError(str(error)) from None


def doer(run: str) -> Callable[..., Any]:
    """Return the function that ``run`` names in a command table; the first call imports it."""
    from parsimony_agent import commands, overview

    found: Callable[..., Any] = getattr(commands if hasattr(commands, run) else overview, run)
    return found


@dataclass(eq=False)
class AgentMagics:
    """The magics of one shell, and the state that their sub-commands share.

    Args:
        shell: the IPython shell.
        name: the line magic as it is typed, such as ``%agent``.
        settings: the settings of this shell.
        silence: makes the shell display nothing for errors that end a cell quietly.
        session_factory: opens the session, kept in ``opened``.
    """

    shell: Any
    name: str
    settings: ParsimonyAgent
    silence: Callable[[], None]
    session_factory: SessionFactory

    def __post_init__(self) -> None:
        self.cells = Cells(self.shell)
        self.user_cells = UserCells(self.shell, self.cells)
        self.opened: Session | None = None
        self._turns: Turns | None = None
        self._set_model = ""
        self._of_models: dict[str, str] = {}

    def close(self) -> None:
        """Close the session; a turn that still runs in the background is stopped."""
        if self._turns is not None:
            self._turns.leave_all()
        if self.opened is not None and not self.opened.stop("the extension was unloaded"):
            self.opened.close()
        self._turns = self.opened = None

    @no_var_expand  # type: ignore[untyped-decorator]
    def agent(self, line: str, cell: str | None = None) -> Coroutine[Any, Any, None] | None:
        # The docstring is the help text, set below from the tables.
        return self._command(line) if cell is None else self._cell(line, cell)

    def _cell(self, line: str, body: str) -> Coroutine[Any, Any, None]:
        request = arguments.parse_cell(line, body, f"%{self.name}")
        if "help" in request.flags:
            print(arguments.CELL.parser(f"%{self.name}").format_help())
            return asyncio.sleep(0)
        if not request.text:
            raise Misuse(
                "The request is empty. Write it below the first line:\n"
                + arguments.EXAMPLE.replace("%%agent", f"%{self.name}")
            )
        cell_key = self.cells.next_turn(f"{line}\n{body}")
        if "dry_run" in request.flags:
            with _plainly():
                self.show(doer("preview")(self, request, cell_key))
            return asyncio.sleep(0)
        return self._ask(request, cell_key)

    async def _ask(self, request: CellRequest, cell_key: str) -> None:
        # Give a sign before the slow imports.
        sign = self.displays()
        if sign.is_live:
            sign.say("Starting …")

        try:
            await self.run(lambda turns, stop: turns.ask(request, cell_key, stop, sign))
        finally:
            sign.withdraw()

    def displays(self) -> Displays:
        """Return the displays of the running cell, live if its front end can redraw them."""
        outlet = outlet_of(self.shell)
        mode = self.settings.value("display")
        is_wanted = bool(self.cells.id()) if mode == "auto" else mode == "live"
        return Displays(outlet, is_live=is_wanted and not outlet.is_terminal)

    def _command(self, line: str) -> Coroutine[Any, Any, None] | None:
        command, given = arguments.parse_command(line, self.name)
        do = doer(command.run)
        if command.awaits:

            async def tell(_: Turns, stop: CancellationRequest) -> None:
                self.show(await do(self, **given, stop=stop))

            return self.run(tell)
        with _plainly():
            try:
                self.show(do(self, **given))
            except Silent:
                self.silence()
                raise
        return None

    def show(self, shown: Told) -> None:
        """Show the result of a sub-command. Text is never rendered as a link or as markup."""
        outlet = outlet_of(self.shell)
        for each in (shown,) if isinstance(shown, str | Mapping) else shown or ():
            if not isinstance(each, str):
                outlet.show(each)
            elif outlet.is_terminal:
                print(plain(each).rstrip("\n"))
            else:
                outlet.show(words(each))

    async def run(self, begin: Callable[[Turns, CancellationRequest], Awaitable[None]]) -> None:
        """Open what a turn needs and run ``begin``; Stop ends the cell quietly at any point."""
        self.user_cells.leave_out()
        stop = CancellationRequest()
        try:
            with stop_on_sigint(stop), _plainly():
                await _take_late_stop(stop)
                working_folder()
                for name in _OF_A_TURN:
                    # In a thread, so that the event loop can react to Stop at once.
                    if name not in sys.modules and not stop.is_set:
                        with suppress(Cancelled):
                            await stop.race(asyncio.to_thread(import_module, name))
                if not stop.is_set:
                    _ = self.turns, self.session
                if stop.is_set:
                    outlet_of(self.shell).show(note("Stopped before the turn began."))
                    raise TurnStopped("The cell was stopped before its turn began.")
                await begin(self.turns, stop)
        except Silent:
            # Another extension may have replaced our exception handler since.
            self.silence()
            raise
        except (asyncio.CancelledError, KeyboardInterrupt) as ended:
            # A cancellation that is not Stop's belongs to its caller.
            is_stop = stop.is_set and stop.reason != CONSUMER_GONE
            if isinstance(ended, asyncio.CancelledError) and not is_stop:
                raise
            self.silence()
            raise TurnStopped("The cell was stopped.") from None

    @property
    def session(self) -> Session:
        """The session of this notebook, opened on first use."""
        if self.opened is None:
            with _plainly():
                self.opened = self.session_factory(self.shell)
            self.user_cells.stamp_into(self.opened.executor.origin_ledger)
        return self.opened

    def follow_settings(self) -> None:
        """Apply model settings that changed since. The session itself reads the environment."""
        of_models = self.settings.of_models()
        if of_models != self._of_models:
            self.session.configure(of_models)
            self._of_models = of_models
        model, source = self.settings.told("model")
        if source in SET_HERE and model != self._set_model:
            self.session.set_model(model)
            self._set_model = model

    @property
    def turns(self) -> Turns:
        """The turns that this process displays."""
        if self._turns is None:
            from parsimony_agent.turns import Turns

            self._turns = Turns(self)
        return self._turns


AgentMagics.agent.__doc__ = arguments.help_text(whole=True)
