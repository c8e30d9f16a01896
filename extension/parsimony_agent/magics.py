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
    RefreshRequest,
    command_named,
    help_text,
    parse_answer,
    parse_cell,
    parse_refresh,
    split_command,
    words_of,
)
from parsimony_agent.cell import Cells, working_folder
from parsimony_agent.outlet import outlet_of
from parsimony_agent.pending import Misuse, Silent, TurnError, TurnStopped
from parsimony_agent.sessions import Session, SessionFactory, chosen_model, open_in
from parsimony_agent.tables import note
from parsimony_agent.user_cells import UserCells
from parsimony_kernel.agent.cancellation import CancellationRequest, Cancelled
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
        if command.name == "refresh":
            return self._refresh(parse_refresh(rest, f"%{self._name}"))
        words = words_of(command, rest, f"%{self._name}")
        do: dict[str, Callable[..., None]] = {
            "show": lambda named=None: self._needed_turns().show(named),
            "history": self._history,
            "model": self._model,
            "artifacts": self._artifacts,
            "tools": self._tools,
            "why": self._why,
            "slice": self._slice,
            "diff": self._diff,
            "verify": self._verify,
            "undo": self._undo,
            "redo": self._redo,
            "procedure": self._procedure,
            "next": self._next,
            "metrics": self._metrics,
            "stop": self._stop,
            "help": lambda: print(help_text(self._name)),
        }
        with _plainly():
            do[command.name](*words)
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

    def _history(self, named: str | None = None) -> None:
        from parsimony_agent import overview  # here and below: what stands behind it is heavy

        session = self._needed_session()
        told = overview.history(session) if named is None else overview.turn_story(session, named)
        outlet_of(self._shell).show(told)

    def _artifacts(self) -> None:
        from parsimony_agent import overview

        outlet_of(self._shell).show(overview.artifacts(self._needed_session()))

    def _tools(self, do: str = "", name: str = "") -> None:
        from parsimony_agent import overview

        session = self._needed_session()
        if do == "add":
            added = session.add_tool(name)
            print(f"Tool: {added.name}. {overview.first_line(added.description)}".rstrip())
        elif do == "remove":
            session.remove_tool(name)
            print(f"{name} is no tool any more.")
        else:
            outlet_of(self._shell).show(overview.tools(session, f"%{self._name}"))

    def _why(self, name: str = "") -> None:
        from parsimony_agent import overview

        self._needs(name, "why", "the name of a variable")
        outlet_of(self._shell).show(overview.why(self._needed_session(), name))

    def _slice(self, name: str = "", file: str = "") -> None:
        from parsimony_agent import overview

        self._needs(name, "slice", "the name of a variable")
        session = self._needed_session()
        if file:
            print(overview.saved_script(session, name, working_folder() / file))
        else:
            outlet_of(self._shell).show(overview.script(session, name))

    def _diff(self, named: str | None = None) -> None:
        from parsimony_agent import overview

        print(overview.difference(self._needed_session(), named))

    def _undo(self, named: str | None = None) -> None:
        from parsimony_agent import overview

        session = self._needed_session()
        self.user_cells.settle()
        said = overview.undone(session, named)
        self.user_cells.begin_anew()
        print(said)

    def _redo(self, named: str | None = None) -> None:
        from parsimony_agent import overview

        session = self._needed_session()
        self.user_cells.settle()
        said = overview.redone(session, named)
        self.user_cells.begin_anew()
        print(said)

    def _verify(self) -> None:
        from parsimony_agent import overview

        print(overview.verified(self._needed_session()))

    def _refresh(self, request: RefreshRequest) -> Coroutine[Any, Any, None]:
        async def refresh(_: Turns, stop: CancellationRequest) -> None:
            session = self._needed_session()
            print(f"Making {request.words!r} again in a clean kernel …", flush=True)
            try:
                done = await stop.race(session.refresh(request.words, accept=request.accept))
            except Cancelled:
                raise TurnStopped("Stopped: nothing was published.") from None
            from parsimony_kernel.artifacts.refresh import in_words  # deferred: it is heavy

            print(in_words(done))

        return self._run(refresh)

    def _needs(self, word: str, command: str, what: str) -> None:
        if not word:
            example = command_named(command)
            assert example is not None
            raise Misuse(f"%{self._name} {command} needs {what}: %{self._name} {example.example}")

    def _procedure(self, file: str = "") -> None:
        from parsimony_agent import overview

        self._needs(file, "procedure", "a file")
        for told in overview.playbook(self._needed_session(), file):
            outlet_of(self._shell).show(told)

    def _next(self) -> None:
        from parsimony_agent import overview

        print(overview.next_actions(self._needed_session(), f"%{self._name}"))

    def _metrics(self, form: str = "") -> None:
        from parsimony_agent import overview

        session = self._needed_session()
        if form:
            print(overview.exposition(session), end="")
        else:
            print(overview.metrics(session))

    def _model(self, name: str = "") -> None:
        session = self._needed_session()
        if name:
            session.set_model(chosen_model(name, session.executor.variables()))
        print(f"Model: {session.model_name}")

    def _stop(self) -> None:
        stopped = self._session is not None and self._session.stop()
        print("Stopping the turn that is running." if stopped else "No turn is running.")


AgentMagics.agent.__doc__ = help_text()
