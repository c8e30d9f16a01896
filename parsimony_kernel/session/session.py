"""The composition root of a notebook: its agent, its journal, its turns.

One session per notebook and process. It decides which turn begins or goes on and with which
models, keeps two from running at once, and knows nothing of front ends.
"""

import os
import threading
import uuid
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path

from parsimony_kernel.agent.loop import first_request
from parsimony_kernel.agent.resolve import names_in, resolve_models
from parsimony_kernel.artifacts.refresh import NOT_REFRESHED, Refreshed
from parsimony_kernel.artifacts.store import LogEntry
from parsimony_kernel.artifacts.verify import Verification, verify
from parsimony_kernel.core import choices
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.chat import OFFLINE, ChatModel, ModelRequest
from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.events import AgentEvent
from parsimony_kernel.core.state import SuspensionRecord
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.execution.interrupt import stop_running_code
from parsimony_kernel.session.home import Home
from parsimony_kernel.session.maintenance import refresh_watched
from parsimony_kernel.session.turn import MAX_QUESTION_AGE_S, Turn
from parsimony_kernel.session.turn_models import Cassettes, first_notice, require, with_effort
from parsimony_kernel.session.turns import (
    SessionError,
    TurnOptions,
    digest_of,
    options_of,
    sentence,
)
from parsimony_kernel.storage.effects import JournalEffects
from parsimony_kernel.storage.sent import SentRequest, sent_by
from parsimony_kernel.storage.store import PendingRow, TurnRow


class NotebookSession:
    """A notebook's turns: those of the file ``notebook``, which lies in ``folder``.

    Args:
        model: what answers, else ``PARSIMONY_MODEL``, else the embedded offline model.
        connection_file: that of the kernel in which turns run, if any.

    Raises:
        SessionError: the workspace's journal or the key folder cannot be written.
    """

    def __init__(
        self,
        *,
        executor: BaseCodeExecutor,
        notebook: str,
        folder: Path,
        model: str | ChatModel | None = None,
        environ: Mapping[str, str] = os.environ,
        clock: Clock = SYSTEM_CLOCK,
        connection_file: str = "",
    ) -> None:
        self.home = home = Home(executor, notebook, folder, environ, clock, connection_file)
        self.executor, self.workspace, self.notebook = executor, home.workspace, home.notebook
        self.tools, self.past, self._journal = home.tools, home.past, home.journal
        model = model or environ.get("PARSIMONY_MODEL", "").strip() or OFFLINE
        self._model = self._first_model = model
        self._cassettes = Cassettes(self.notebook, folder, home.environ)

    @property
    def model_name(self) -> str:
        """The model of the next turn, by its own name where an alias is set."""
        if not isinstance(self._model, str):
            return self._model.name
        with suppress(ValueError):  # said when a turn begins
            return ", ".join(names_in(self._model, self.home.environ)) or self._model
        return self._model

    def set_model(self, model: str | ChatModel) -> None:
        """Use ``model`` from the next turn on. ``SessionError`` if it cannot work, or in a turn."""
        self.home.must_be_free()
        if not self._cassettes.only_replay:
            require(model, self.home.environ)
        self._model = model

    @contextmanager
    def lent(self, model: ChatModel) -> Iterator[None]:
        """Let ``model`` answer in place of the notebook's own for as long as the context lasts.

        Its turns are neither recorded to a cassette nor replayed from one. ``SessionError`` in a
        turn.
        """
        self.home.must_be_free()
        usual = self._model, self._cassettes
        self._model, self._cassettes = model, Cassettes(self.notebook, self.home.folder, {})
        try:
            yield
        finally:
            self._model, self._cassettes = usual

    def configure(self, variables: Mapping[str, str]) -> None:
        """Set what holds for every model, by the names of the environment's variables."""
        self.home.environ.maps[0] = dict(variables)

    async def turn(
        self,
        request: str,
        *,
        cell_key: str,
        options: TurnOptions | None = None,
        stop: CancellationRequest | None = None,
    ) -> AsyncGenerator[AgentEvent, None]:
        """Run ``request`` as the turn of cell ``cell_key``, replacing that cell's earlier turn,
        until ``stop``.

        Every event is in the journal before it is yielded; the last one is terminal. Raises
        ``SessionError`` before anything ran.
        """
        chosen, home = options or TurnOptions(), self.home
        if not request.strip():
            raise SessionError(
                "The request is empty. Say what you want below %%agent, for example: "
                "load data/cars.csv and show the mean mileage by origin"
            )
        run_id = uuid.uuid4().hex
        models = self._cassettes.models(
            run_id,
            request,
            cell_key,
            model=self._model,
            named=chosen.model,
            effort=chosen.effort,
            chosen=chosen.cassette,
        )
        home.must_be_free()
        notice = first_notice(models, chosen.share, home.journal, home.history)
        if chosen.asked_by:
            notice = f"Asked by {chosen.asked_by}. {notice}".rstrip()
        turn = Turn(home, models, run_id, cell_key, chosen, stop=stop)
        async with aclosing(turn.run(partial(turn.begin, request, notice))) as events:
            async for event in events:
                yield event

    def preview(
        self, request: str, *, cell_key: str = "", options: TurnOptions | None = None
    ) -> ModelRequest:
        """What a turn would ask its model first. Nothing is sent, written or taken back.

        ``SessionError`` when such a turn could not begin, or in a turn.
        """
        chosen, home = options or TurnOptions(), self.home
        home.must_be_free()
        environ = with_effort(home.environ, chosen.effort)
        models = resolve_models(chosen.model or self._model, environ)
        turn = Turn(home, models, uuid.uuid4().hex, cell_key, chosen)
        return first_request(*turn.preview(request))

    async def resume(
        self,
        reply: str,
        *,
        turn_id: str | None = None,
        nonce: str | None = None,
        stop: CancellationRequest | None = None,
    ) -> AsyncGenerator[AgentEvent, None]:
        """Answer the question of ``turn_id``, or the newest one, and go on.

        A number picks that choice. With ``nonce`` only that very question is answered, not a
        later one of the turn. The turn goes on telling as much of the notebook as it began with.
        Raises ``SessionError`` before anything ran: no such question, an empty answer, a record
        that is expired, altered, or answered before.
        """
        home = self.home
        home.must_be_free()
        row = self._question(turn_id, nonce)
        record = row.record
        if not record.seal:
            raise SessionError(
                "The question was never sealed, so it cannot be trusted. Run the cell again."
            )
        begun = home.beginning_of(record.run_id)
        if begun is None or digest_of(begun) != record.begun:
            raise SessionError(
                "What this turn may do was changed in the journal after it began; nothing was run. "
                "Run the cell again."
            )
        try:
            answer, choice = choices.resolve(reply, record.choices, record.choice_ids)
        except ValueError as exc:
            raise SessionError(str(exc)) from exc
        # The model that asked goes on, unless the session has it under the same name already.
        asked_by = record.model_id or self.model_name
        try:
            models = self._cassettes.models(
                record.run_id,
                row.turn.request,
                row.turn.cell_key,
                model=self._model if asked_by == self.model_name else asked_by,
                effort=begun.effort,
                goes_on=True,
            )
            options, cell_key = options_of(begun), row.turn.cell_key
            turn = Turn(home, models, record.run_id, cell_key, options, asked=row, stop=stop)
            goes_on = partial(turn.go_on, answer, choice, begun)
            async with aclosing(turn.run(goes_on)) as events:
                async for event in events:
                    yield event
        except ValueError as exc:  # the checks of resuming, and a mode that does not exist
            raise SessionError(sentence(str(exc))) from exc

    @property
    def has_answers(self) -> bool:
        """Whether a choice holds that the built-in model was told, so that it isn't asked again."""
        return bool(self.home.answers)

    def pending(self) -> tuple[PendingRow, ...]:
        """The questions that can still be answered in this notebook, newest first."""
        now, rows = self.home.clock.now(), self._journal.pending(self.home.history)
        return tuple(row for row in rows if _age_s(row.record, now) <= MAX_QUESTION_AGE_S)

    def _question(self, turn_id: str | None, nonce: str | None) -> PendingRow:
        """The question of ``turn_id``, however old, or the newest that can still be answered.

        ``SessionError`` where there is none, or with ``nonce`` not that very one.
        """
        rows = self._journal.pending(self.home.history) if turn_id else self.pending()
        if not rows:
            raise SessionError("No question is waiting in this notebook. See %agent history.")
        row = next((each for each in rows if turn_id in (None, each.turn.run_id)), None)
        if row is None:
            raise SessionError(
                f"No question is waiting in turn {turn_id!r}. See %agent history for those that "
                "are."
            )
        if turn_id is not None and nonce not in (None, row.record.nonce):
            raise SessionError(
                "This question was answered already, and the turn asks another one now: "
                "%agent show draws it."
            )
        return row

    def turns(self, notebook: str = "") -> tuple[TurnRow, ...]:
        """This notebook's turns, or those of another of the workspace, oldest first."""
        return self._journal.turns(notebook or self.home.history)

    def events(self, turn_id: str) -> tuple[AgentEvent, ...]:
        """What happened in a turn, from the journal."""
        return self._journal.events(turn_id)

    def sent(self, turn_id: str) -> tuple[SentRequest, ...]:
        """What a turn has sent to its models, request by request; nothing for one that was
        replayed from a recording."""
        return sent_by(self._journal.database, turn_id)

    def artifacts(self) -> tuple[LogEntry, ...]:
        """What is published in the workspace, newest snapshot of each, oldest first."""
        return self.home.artifacts()

    def verify(self) -> tuple[tuple[int, str] | None, Verification]:
        """The first entry of the journal that is not as it was written, if one is, and what was
        found of everything published."""
        return self._journal.verify(), verify(self.home.store, self._journal.witnessed())

    async def refresh(self, name: str, *, accept: bool = False, allow: bool = False) -> Refreshed:
        """Make a published artifact again, in a clean kernel; see ``artifacts.refresh``. Only with
        ``allow`` may its code reach outside.

        ``SessionError`` when there is none of that name, it cannot be made again, or in a turn.
        """
        self.home.must_be_free()
        effects, publisher = JournalEffects(self._journal.database, "refresh"), self.home.publisher
        try:
            return await refresh_watched(publisher, name, effects, accept=accept, allow=allow)
        except NOT_REFRESHED as exc:
            raise SessionError(sentence(str(exc))) from exc

    def forget(self, turn_id: str) -> None:
        """Tell later turns nothing of this one; variables, files and the text on the disk stay.
        ``SessionError`` where there is none, it is forgotten already, or in a turn."""
        self.home.must_be_free()
        if not self._journal.forget(self.home.history, (turn_id,)):
            raise SessionError("That turn is forgotten already, or runs. See %agent history.")

    def reset(self) -> int:
        """Forget every turn, take the person's tools away and have the first model again; how many
        turns. ``SessionError`` in a turn."""
        self.home.must_be_free()
        runs = [row.run_id for row in self.turns()]
        forgotten = self._journal.forget(self.home.history, runs)
        self.tools.close()
        self.home.answers.clear()
        self._model = self._first_model
        return len(forgotten)

    def stop(self, reason: str = "stopped by the user") -> bool:
        """Stop the running turn, from any thread. ``False`` when none runs."""
        running = self.home.running
        if running is None:
            return False
        running.cancellation.set(reason)
        if threading.current_thread() is not threading.main_thread():
            stop_running_code()
        return True

    def close(self) -> None:
        """Release the journal, and end the servers."""
        self.tools.close()
        self._journal.close()


def _age_s(record: SuspensionRecord, now: datetime) -> float:
    try:
        return (now - datetime.fromisoformat(record.suspended_at)).total_seconds()
    except (ValueError, TypeError):
        return 0.0  # the checks of resuming say what is wrong with it
