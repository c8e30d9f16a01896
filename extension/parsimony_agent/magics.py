"""``%%agent`` and ``%agent``: what is written there, and who does it.

The functions that IPython calls parse and dispatch, nothing more. Everything that costs time to
import stands behind the session and is imported when a turn needs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from IPython.core.magic import no_var_expand

from parsimony_agent.arguments import (
    EXAMPLE,
    AnswerRequest,
    Command,
    help_text,
    parse_answer,
    parse_cell,
    split_command,
)
from parsimony_agent.cell import Cells, working_folder
from parsimony_agent.outlet import outlet_of
from parsimony_agent.pending import Misuse, Silent, TurnError, TurnStopped
from parsimony_agent.sessions import Session, SessionFactory, open_in
from parsimony_agent.tables import note, table
from parsimony_agent.user_cells import UserCells
from parsimony_kernel.agent.cancellation import CancellationRequest
from parsimony_kernel.execution.interrupt import stop_on_sigint

if TYPE_CHECKING:
    from parsimony_agent.turns import Turns


# A kernel that was interrupted cancels the cell some turns of the loop later.
_LATE_TURNS = 5


async def _nothing() -> None:
    """What a cell awaits that has nothing to wait for."""


async def _take_late_stop(stop: CancellationRequest) -> None:
    """Set ``stop`` if Stop was pressed after the cell began and before it was listened for."""
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
    """Turn what a session refuses into one line."""
    try:
        yield
    except Exception as error:
        from parsimony_kernel.notebook.turns import SessionError

        if isinstance(error, SessionError):
            raise TurnError(str(error)) from None
        raise


# What is told of how turns go is told of recent ones.
_RECENT_TURNS = 200


class AgentMagics:
    """The magics of one shell, under ``name``. The session is opened when it is first needed."""

    def __init__(
        self,
        shell: Any,
        *,
        name: str = "agent",
        session_factory: SessionFactory = open_in,
        environ: Mapping[str, str],
        silence: Callable[[], None] = lambda: None,
    ) -> None:
        self._shell = shell
        self._name = name
        self._silence = silence
        self._session_factory = session_factory
        self._environ = environ
        self._cells = Cells(shell)
        self.user_cells = UserCells(shell, self._cells)
        self._session: Session | None = None
        self._turns: Turns | None = None

    def close(self) -> None:
        """Let go of the session; a turn that is running behind the cells is stopped."""
        if self._turns is not None:
            self._turns.leave_all()
        if self._session is not None and not self._session.stop("the extension was unloaded"):
            self._session.close()
        self._turns = self._session = None

    @no_var_expand  # type: ignore[untyped-decorator]
    def agent(self, line: str, cell: str | None = None) -> Coroutine[Any, Any, None] | None:
        # The docstring is the help; it is set below, from the tables.
        return self._command(line) if cell is None else self._cell(line, cell)

    def _cell(self, line: str, body: str) -> Coroutine[Any, Any, None]:
        request = parse_cell(line, body, f"%%{self._name}")
        if request.help:
            print(help_text(self._name))
            return _nothing()
        if not request.text:
            example = EXAMPLE.replace("%%agent", f"%%{self._name}")
            raise Misuse(
                f"The request is empty. Say below the first line what you want:\n{example}"
            )
        cell_now = self._cells.next_turn(f"{line}\n{body}")
        return self._run(lambda turns, stop: turns.ask(request, cell_now, stop))

    def _command(self, line: str) -> Coroutine[Any, Any, None] | None:
        command, rest = split_command(line, f"%{self._name}")
        if command is None:
            with _plainly():
                self._status()
            return None
        if command.name == "answer":
            answer = parse_answer(rest, f"%{self._name}")
            return self._run(lambda turns, stop: turns.answer(answer, stop))
        self._refuse_surplus(command, rest)
        do: dict[str, Callable[[str], None]] = {
            "show": lambda named: self._needed_turns().show(named or None),
            "history": lambda _: self._history(),
            "model": self._model,
            "artifacts": lambda _: self._artifacts(),
            "tools": self._tools,
            "next": lambda _: self._next(),
            "metrics": lambda _: self._metrics(),
            "stop": lambda _: self._stop(),
            "help": lambda _: print(help_text(self._name)),
        }
        with _plainly():
            do[command.name](rest)
        return None

    async def answer_here(self, turn_id: str, reply: str) -> None:
        """Answer for a caller outside the notebook; see ``parsimony_agent.answer_here``."""
        request = AnswerRequest(words=reply, turn=turn_id, here=True)
        await self._run(lambda turns, stop: turns.answer(request, stop))

    async def _run(self, begin: Callable[[Turns, CancellationRequest], Awaitable[None]]) -> None:
        """Open what a turn needs and run it; Stop ends the cell quietly all the while."""
        self.user_cells.leave_out()
        stop = CancellationRequest()
        try:
            try:
                with stop_on_sigint(stop), _plainly():
                    await _take_late_stop(stop)
                    working_folder()
                    turns = None if stop.is_set else self._needed_turns()
                    if turns is not None and not stop.is_set:
                        self._needed_session()
                    if turns is None or stop.is_set:
                        outlet_of(self._shell).show(note("Stopped before the turn began."))
                        raise TurnStopped("The cell was stopped before its turn began.")
                    await begin(turns, stop)
            except asyncio.CancelledError:
                # Somebody else's cancellation is theirs to see.
                if not stop.is_set:
                    raise
                raise TurnStopped("The cell was stopped.") from None
            except KeyboardInterrupt:
                raise TurnStopped("The cell was stopped.") from None
        except Silent:
            # Whoever set a handler of exceptions since we did took the place of ours.
            self._silence()
            raise

    def _refuse_surplus(self, command: Command, rest: str) -> None:
        most = 1 if command.synopsis else 0
        if len(rest.split()) > most:
            takes = f"at most one word, {command.synopsis}" if most else "nothing"
            raise Misuse(f"%{self._name} {command.name} takes {takes}, and got {rest!r}.")

    def _needed_session(self) -> Session:
        if self._session is None:
            with _plainly():
                self._session = self._session_factory(self._shell)
            self.user_cells.stamp_into(self._session.executor.origin_ledger)
        return self._session

    def _needed_turns(self) -> Turns:
        if self._turns is None:
            from parsimony_agent.turns import Turns

            self._turns = Turns(
                self._shell,
                self._needed_session,
                self._cells,
                magic=f"%{self._name}",
                environ=self._environ,
            )
        return self._turns

    def _status(self) -> None:
        session = self._needed_session()
        turns, waiting = len(session.turns()), len(session.pending())
        print(f"Model {session.model_name}, {turns} turn{'' if turns == 1 else 's'} here", end="")
        print(f", {waiting} waiting for an answer: %{self._name} answer" if waiting else "", end="")
        print(f". %{self._name} help says more.\n\n{help_text(self._name)}")

    def _history(self) -> None:
        rows = [
            (str(turn.ordinal), turn.status, turn.request, turn.model, _minute(turn.started_at))
            for turn in self._needed_session().turns()
        ]
        head = ("turn", "status", "request", "model", "started (UTC)")
        outlet_of(self._shell).show(table(head, rows, empty="This notebook has no turns yet."))

    def _artifacts(self) -> None:
        # No times: a notebook that lists what it published is compared with its saved outputs.
        rows = [(each.kind, each.title, each.path) for each in self._needed_session().artifacts()]
        head = ("kind", "title", "path")
        # A path is there to be copied.
        data = table(head, rows, empty="Nothing has been published here yet.", widest=400)
        outlet_of(self._shell).show(data)

    def _tools(self, name: str) -> None:
        session = self._needed_session()
        if name:
            added = session.add_tool(name)
            print(f"Tool: {added.name}. {added.description.partition(chr(10))[0]}".rstrip())
            return
        rows = [(each.name, each.description.partition("\n")[0]) for each in session.tools.values()]
        empty = f"No function of yours is a tool. %{self._name} tools NAME makes one."
        outlet_of(self._shell).show(table(("tool", "what it does"), rows, empty=empty))

    def _next(self) -> None:
        session = self._needed_session()
        turns = session.turns()
        events = session.events(turns[-1].turn_id) if turns else ()
        answers = [result for event in events if (result := getattr(event, "result", None))]
        actions = answers[-1].get("valid_next_actions", ()) if answers else ()
        if session.pending():
            print(f"The run waits for an answer: %{self._name} answer")
        elif actions:
            print("May be done next: " + ", ".join(map(str, actions)))
        else:
            print("Nothing: no run of this notebook can go on.")

    def _metrics(self) -> None:
        from parsimony_kernel.metrics import alerts, figures  # deferred: few cells ask for them

        session = self._needed_session()
        recent = [session.events(turn.turn_id) for turn in session.turns()[-_RECENT_TURNS:]]
        counted = figures.of_runs(recent)
        print(figures.to_text(counted))
        if fired := alerts.fired(counted):
            print(f"\n{alerts.to_text(fired)}")

    def _model(self, name: str) -> None:
        session = self._needed_session()
        if name:
            session.set_model(name)
        print(f"Model: {session.model_name}")

    def _stop(self) -> None:
        stopped = self._session is not None and self._session.stop()
        print("Stopping the turn that is running." if stopped else "No turn is running.")


def _minute(timestamp: str) -> str:
    """An ISO timestamp to the minute, as people write it."""
    return timestamp[:16].replace("T", " ")


AgentMagics.agent.__doc__ = help_text()
