"""A notebook's session: how its turns start, resume and stop.

One session per notebook and process, the composition root of the notebook's agent. It chooses the
models of turns and keeps two turns from running at once. It doesn't depend on a front end.
"""

import threading
import uuid
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from functools import partial

from parsimony_kernel.agent.loop import first_request
from parsimony_kernel.agent.resolve import names_in, resolve_models
from parsimony_kernel.artifacts.refresh import Refreshed
from parsimony_kernel.artifacts.verify import Verification, verify
from parsimony_kernel.core import choices
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.chat import ChatModel, ModelRequest
from parsimony_kernel.core.events import AgentEvent
from parsimony_kernel.execution.interrupt import stop_running_code
from parsimony_kernel.session.home import Home
from parsimony_kernel.session.maintenance import refresh_watched
from parsimony_kernel.session.turn import Turn
from parsimony_kernel.session.turn_models import Models, require, with_effort
from parsimony_kernel.session.turn_values import SessionError, TurnOptions, digest_of, sentence
from parsimony_kernel.storage.journal import PendingRow
from parsimony_kernel.storage.run_log import JournalEffects, SentRequest, sent_by


class NotebookSession(Home):
    """The agent session of one notebook: runs, resumes, lists and stops its turns.

    ``Home`` documents the arguments.
    """

    @property
    def model_name(self) -> str:
        """The name of the next turn's model, with aliases resolved."""
        if not isinstance(self._model, str):
            return self._model.name
        with suppress(ValueError):  # said when a turn begins
            return ", ".join(names_in(self._model, self.environ)) or self._model
        return self._model

    def set_model(self, model: str | ChatModel) -> None:
        """Use ``model`` from the next turn on.

        Raises:
            SessionError: The model can't be used, or a turn is running.
        """
        self.must_be_free()
        if not self._cassettes.only_replay:
            require(model, self.environ)
        self._model = model

    def configure(self, variables: Mapping[str, str]) -> None:
        """Set model settings, keyed by environment variable; they override the environment."""
        self.environ.maps[0] = dict(variables)

    async def turn(
        self,
        request: str,
        *,
        cell_key: str,
        options: TurnOptions | None = None,
        models: Models = (),
        stop: CancellationRequest | None = None,
    ) -> AsyncGenerator[AgentEvent, None]:
        """Run ``request`` as the turn of cell ``cell_key``, replacing that cell's earlier turn.

        Args:
            request: What the person asks for.
            cell_key: The cell's key in the journal.
            options: Permissions, limits and share mode; by default ``TurnOptions()``.
            models: Used instead of the notebook's own; the cassette mode doesn't apply to them.
            stop: Stops the turn.

        Yields:
            Events, each already journalled; the last one is terminal.

        Raises:
            SessionError: The turn can't begin; nothing has run.
        """
        chosen = options or TurnOptions()
        if not request.strip():
            raise SessionError(
                "The request is empty. Say what you want below %%agent, for example: "
                "load FILE.csv and chart the mean of COLUMN by COLUMN"
            )
        run_id = uuid.uuid4().hex
        models = models or self._cassettes.models(run_id, request, cell_key, self._model, chosen)
        turn = Turn(self, models, cell_key, chosen, run_id=run_id, stop=stop)
        async with aclosing(turn.run(partial(turn.begin, request))) as events:
            async for event in events:
                yield event

    def preview(
        self, request: str, *, cell_key: str = "", options: TurnOptions | None = None
    ) -> ModelRequest:
        """Return the first model request of such a turn; nothing is sent, written or undone.

        Raises:
            SessionError: The turn couldn't begin, or another is running.
        """
        chosen = options or TurnOptions()
        self.must_be_free()
        environ = with_effort(self.environ, chosen.effort)
        models = resolve_models(chosen.model or self._model, environ)
        return first_request(*Turn(self, models, cell_key, chosen).preview(request))

    async def resume(
        self,
        reply: str,
        *,
        turn_id: str | None = None,
        nonce: str | None = None,
        models: Models = (),
        stop: CancellationRequest | None = None,
    ) -> AsyncGenerator[AgentEvent, None]:
        """Answer a pending question and resume its turn, with the options it began with.

        Args:
            reply: The answer; a number picks that choice.
            turn_id: The turn that asked; by default that of the newest question.
            nonce: Answer only the question with this nonce, not a later one of the turn.
            models: As for ``turn``.
            stop: Stops the turn.

        Yields:
            Events, each already journalled; the last one is terminal.

        Raises:
            SessionError: There is no such question, the answer is empty, or the suspension record
                is expired, altered or answered already; nothing has run.
        """
        self.must_be_free()
        row = self._question(turn_id, nonce)
        record = row.record
        if not record.seal:
            raise SessionError(
                "The question was never sealed, so it cannot be trusted. Run the cell again."
            )
        begun = self.beginning_of(record.run_id)
        if begun is None or digest_of(begun) != record.begun:
            raise SessionError(
                "What this turn may do was changed in the journal after it began; nothing was run. "
                "Run the cell again."
            )
        # Resume with the model that asked; reuse the session's own if it has the same name.
        asked_by = record.model_id or self.model_name
        model = self._model if asked_by == self.model_name else asked_by
        try:
            answer, choice = choices.resolve(reply, record.choices, record.choice_ids)
            options = TurnOptions.of(begun)
        except ValueError as exc:  # no such choice, or a mode that does not exist
            raise SessionError(sentence(str(exc))) from exc
        cell, request = row.turn.cell_key, row.turn.request
        models = models or self._cassettes.models(
            record.run_id, request, cell, model, options, goes_on=True
        )
        turn = Turn(self, models, cell, options, asked=row, stop=stop)
        async with aclosing(turn.run(partial(turn.go_on, answer, choice, begun))) as events:
            async for event in events:
                yield event

    def pending(self) -> tuple[PendingRow, ...]:
        """Return this notebook's questions that can still be answered, newest first."""
        return self.journal.pending(self.history, answerable=True)

    def _question(self, turn_id: str | None, nonce: str | None) -> PendingRow:
        """Find the question of ``turn_id``, however old, or the newest that isn't expired.

        Raises:
            SessionError: There is none, or the question of ``turn_id`` has another ``nonce``.
        """
        rows = self.journal.pending(self.history, answerable=turn_id is None)
        row = next((each for each in rows if turn_id in (None, each.turn.run_id)), None)
        if row is None:
            raise SessionError("No question is waiting for this answer. See %agent history.")
        if nonce not in (None, row.record.nonce):
            raise SessionError(
                "This question was answered already, and the turn asks another one now: "
                "%agent show draws it."
            )
        return row

    def sent(self, turn_id: str) -> tuple[SentRequest, ...]:
        """Return the requests that a turn sent to its models; none if it was replayed."""
        return sent_by(self.journal, turn_id)

    def verify(self) -> tuple[tuple[int, str] | None, Verification]:
        """Verify the journal and all artifacts.

        Returns:
            The first altered journal entry (number, reason) or ``None``, and the artifacts'
            verification.
        """
        return self.journal.verify(), verify(self.store, self.journal.witnessed())

    async def refresh(
        self, name: str, *, accept: bool = False, allow: bool = False, trust: bool = False
    ) -> Refreshed:
        """Rebuild a published artifact in a clean kernel; see ``artifacts.refresh``.

        Args:
            name: The artifact.
            accept: Publish the result even if it differs.
            allow: Let the code reach outside the notebook.
            trust: Run the code of a workspace that isn't trusted.

        Raises:
            SessionError: There is no such artifact, it can't be rebuilt, or a turn is running.
        """
        self.must_be_free()
        effects, publisher = JournalEffects(self.journal, "refresh"), self.publisher
        return await refresh_watched(
            publisher, name, effects, accept=accept, allow=allow, trust=trust
        )

    def forget(self, turn_id: str) -> None:
        """Hide a turn from later ones; variables, files and the journal's text stay.

        Raises:
            SessionError: There is no such turn, it is hidden already, or a turn is running.
        """
        self.must_be_free()
        if not self.journal.forget(self.history, (turn_id,)):
            raise SessionError("That turn is forgotten already, or runs. See %agent history.")

    def reset(self) -> int:
        """Hide all turns, remove the user's tools and answers, and restore the first model.

        Returns:
            How many turns were hidden.

        Raises:
            SessionError: A turn is running.
        """
        self.must_be_free()
        runs = [row.run_id for row in self.turns()]
        forgotten = self.journal.forget(self.history, runs)
        self.tools.close()
        self.answers.clear()
        self._model = self._first_model
        return len(forgotten)

    def stop(self, reason: str = "stopped by the user") -> bool:
        """Stop the running turn, from any thread; return ``False`` if none is running."""
        running = self.running  # another thread may end the turn meanwhile
        if running is None:
            return False
        running.set(reason)
        if threading.current_thread() is not threading.main_thread():
            stop_running_code()
        return True

    def close(self) -> None:
        """Close the journal and stop the MCP servers."""
        self.tools.close()
        self.journal.close()
