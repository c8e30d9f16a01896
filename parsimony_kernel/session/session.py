"""The composition root of a notebook: its agent, its journal, its turns.

One session per notebook and process. It decides what a turn is, keeps two from running at once,
writes every event down before anybody sees it, and knows nothing of front ends.
"""

import os
import threading
import uuid
from collections import ChainMap
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.agent.loop import admit, first_request, run_loop
from parsimony_kernel.agent.prompts import INSTRUCTIONS
from parsimony_kernel.agent.resolve import names_in, resolve_models
from parsimony_kernel.artifacts.places import place_of
from parsimony_kernel.artifacts.publish import PAGES, Publisher
from parsimony_kernel.artifacts.refresh import NOT_REFRESHED, Refreshed
from parsimony_kernel.artifacts.store import ArtifactStore, LogEntry
from parsimony_kernel.artifacts.verify import Verification, verify
from parsimony_kernel.core import choices
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.chat import OFFLINE, ChatModel, ModelRequest
from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.conversation import AgentContext, AgentMessage
from parsimony_kernel.core.events import AgentEvent, RunStarted
from parsimony_kernel.core.state import RunState
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.execution.interrupt import stop_running_code
from parsimony_kernel.execution.run_scope import RunScope
from parsimony_kernel.gate.approval import Granted
from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.limits.breaker import Breakers
from parsimony_kernel.limits.redis_store import breakers_for
from parsimony_kernel.llm.credentials import provider_of
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.metrics import tracing
from parsimony_kernel.session import identity, memory
from parsimony_kernel.session.hooks import NotebookHooks, differences
from parsimony_kernel.session.inventory import (
    hashes,
    instructions_in_words,
    notebook_in_words,
    read_instructions,
)
from parsimony_kernel.session.maintenance import refresh_watched
from parsimony_kernel.session.notebook_tools import NotebookTools
from parsimony_kernel.session.past import Past, bound_by
from parsimony_kernel.session.share import Share, tools_told
from parsimony_kernel.session.turn_log import (
    MAX_QUESTION_AGE_S,
    Running,
    TurnLog,
)
from parsimony_kernel.session.turn_models import (
    Cassettes,
    first_notice,
    noting,
    require,
    with_effort,
)
from parsimony_kernel.session.turns import (
    KEPT,
    SessionError,
    TurnOptions,
    digest_of,
    limits_of,
    options_of,
    sentence,
    shown_limits,
)
from parsimony_kernel.storage.breakers import JournalBreakers
from parsimony_kernel.storage.durable import sweep_temporary
from parsimony_kernel.storage.effects import JournalEffects
from parsimony_kernel.storage.keyring import Keyring
from parsimony_kernel.storage.sent import SentRequest, sent_by
from parsimony_kernel.storage.store import PendingRow, SqliteJournal, TurnRow, owner_of
from parsimony_kernel.storage.workspace import find_workspace, journal_path


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
        self.workspace = find_workspace(folder, environ)
        self._history = identity.history_name(identity.name_in(self.workspace, folder / notebook))
        self.notebook = identity.plain_name(self._history)
        self._keyring = Keyring.open(None, environ, clock)
        self._journal = SqliteJournal(journal_path(self.workspace), clock, keyring=self._keyring)
        # What the record of the next turn says first.
        self._notice = identity.adopt(self._journal, self.workspace, folder / notebook)
        self._journal.abandon_running(self._history)
        place = place_of(self.workspace, environ)
        self._store = ArtifactStore(self.workspace, self._journal.witness, place)
        for written in (self.workspace / ARTIFACT_FOLDER, self.workspace / PAGES):
            sweep_temporary(written, clock=clock)
        self.executor = executor
        self._folder = folder
        model = model or environ.get("PARSIMONY_MODEL", "").strip() or OFFLINE
        self._model = self._first_model = model
        # What the notebook sets for models stands before the environment.
        self._environ = ChainMap[str, str]({}, cast(MutableMapping[str, str], environ))
        self._clock = clock
        self._running: Running | None = None
        self._session_id = uuid.uuid4().hex
        self._publisher = Publisher(
            self._store, notebook_path=self.notebook, clock=clock, folder=folder
        )
        self.tools = NotebookTools(
            executor,
            self._publisher,
            workspace=self.workspace,
            folder=folder,
            environ=self._environ,
            must_be_free=self._must_be_free,
        )
        self.past = Past(executor, self._journal, self._history, must_be_free=self._must_be_free)
        # A name is another function in another notebook, so these are its own.
        self._tool_breakers = Breakers(clock)
        self._breakers = breakers_for(environ, JournalBreakers(self._journal, clock), clock)
        # What was allowed, by run: a question may be answered much later.
        self._granted: dict[str, Granted] = {}
        # What the built-in model was answered, by its question, until a reset.
        self._answers: dict[str, str] = {}
        self._log = TurnLog(
            self._journal,
            self._history,
            owner=owner_of(self._session_id),
            connection_file=connection_file,
            settle=self.past.settle,
        )
        self._cassettes = Cassettes(self.notebook, folder, self._environ)

    @property
    def model_name(self) -> str:
        """The model of the next turn, by its own name where an alias is set."""
        if not isinstance(self._model, str):
            return self._model.name
        with suppress(ValueError):  # said when a turn begins
            return ", ".join(names_in(self._model, self._environ)) or self._model
        return self._model

    def set_model(self, model: str | ChatModel) -> None:
        """Use ``model`` from the next turn on. ``SessionError`` if it cannot work, or in a turn."""
        self._must_be_free()
        if not self._cassettes.only_replay:
            require(model, self._environ)
        self._model = model

    @contextmanager
    def lent(self, model: ChatModel) -> Iterator[None]:
        """Let ``model`` answer in place of the notebook's own for as long as the context lasts.

        Its turns are neither recorded to a cassette nor replayed from one. ``SessionError`` in a
        turn.
        """
        self._must_be_free()
        usual = self._model, self._cassettes
        self._model, self._cassettes = model, Cassettes(self.notebook, self._folder, {})
        try:
            yield
        finally:
            self._model, self._cassettes = usual

    def configure(self, variables: Mapping[str, str]) -> None:
        """Set what holds for every model, by the names of the environment's variables."""
        self._environ.maps[0] = dict(variables)

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
        chosen = options or TurnOptions()
        if not request.strip():
            raise SessionError(
                "The request is empty. Say what you want below %%agent, for example: "
                "load data/cars.csv and show the mean mileage by origin"
            )
        run_id = uuid.uuid4().hex
        models = self._cassettes.of_turn(
            run_id,
            request,
            cell_key,
            chosen=chosen.cassette,
            named=chosen.model,
            usual=self._model,
            effort=chosen.effort,
        )
        model_name = ", ".join(model.name for model in models)
        self._must_be_free()
        secrets = self._secrets(models)
        request = secrets.clean(request)
        running = Running(run_id, cell_key, secrets=secrets, options=chosen)
        running.cancellation = stop or running.cancellation
        guardrails = chosen.guardrails()
        self._running = running
        try:
            notice = first_notice(models, chosen.share, self._journal, self._history)
            if chosen.asked_by:
                notice = f"Asked by {chosen.asked_by}. {notice}".rstrip()
            models = noting(models, self._journal, run_id)
            trouble = await self._store.look(running.cancellation)
            notice = f"{notice} {trouble}".strip()
            agent = self._agent(models, running, guardrails)
            with self._log.beginning(running, request=request, model=model_name):
                back = self.past.replace(self._log.of_cell(cell_key), by=running.run_id)
                state, shared = self._opened(agent, running, request, also=back.removed)
                started = _started(
                    running,
                    shown_limits(guardrails),
                    request=request,
                    model=model_name,
                    shared=(*shared, *self.tools.changes()),
                    approve=chosen.approve.value,
                    procedure=chosen.procedure or "",
                    notice=" ".join(filter(None, (self._notice, self._journal.news(), notice))),
                    replaced=(*back.restored, *back.removed),
                )
                state.begun = digest_of(started)
                self._journal.append(running.run_id, started)
            self._notice = ""
            stream = self._log.follow(running, started, run_loop(agent, state), self._trace())
            async with aclosing(stream) as events:
                async for event in events:
                    yield event
        finally:
            self._running = None

    def _opened(
        self, agent: Agent, running: Running, request: str, *, also: Sequence[str] = ()
    ) -> tuple[RunState, tuple[str, ...]]:
        """The state in which a turn begins, and what of the notebook its first message shares.

        ``also`` are names that may be bound anew beside those of the turn that is replaced.
        """
        chosen = running.options
        earlier: tuple[AgentMessage, ...] = ()
        if chosen.context is None:
            earlier = memory.earlier_turns(
                self.turns(),
                self._journal.events,
                cell_key=running.cell_key,
                share=chosen.share,
            )
        context, shared = self._in_words(
            running, request=request, earlier_turns=len(earlier) // 2, also=also
        )
        state = agent.start(
            request,
            ctx=AgentContext(earlier, context),
            run_id=running.run_id,
            cancellation=running.cancellation,
        )
        turns = [each.run_id for each in self.turns() if each.run_id != running.run_id]
        before = self._log.beginning_of(turns[-1]) if turns else None
        return state, (*shared, *instructions_in_words(running.instructions, before))

    def _in_words(
        self,
        running: Running,
        *,
        request: str = "",
        earlier_turns: int = 0,
        also: Sequence[str] = (),
    ) -> tuple[str, tuple[str, ...]]:
        """What the notebook holds, as the model and as people are told of it."""
        return notebook_in_words(
            self.executor,
            self._folder,
            self.artifacts(most=memory.MOST_ARTIFACTS),
            request=request,
            earlier_turns=earlier_turns,
            today=self._clock.now().date() if running.is_reader else None,
            replaceable=(*bound_by(self.executor, self._log.of_cell(running.cell_key)), *also),
            share=running.options.share,
            chosen=running.options.context,
            answers={} if running.is_reader else self._answers,
        )

    def preview(
        self, request: str, *, cell_key: str = "", options: TurnOptions | None = None
    ) -> ModelRequest:
        """What a turn would ask its model first. Nothing is sent, written or taken back.

        ``SessionError`` when such a turn could not begin, or in a turn.
        """
        chosen = options or TurnOptions()
        self._must_be_free()
        models = resolve_models(
            chosen.model or self._model, with_effort(self._environ, chosen.effort)
        )
        secrets = self._secrets(models)
        running = Running(uuid.uuid4().hex, cell_key, secrets=secrets, options=chosen)
        agent = self._agent(models, running, chosen.guardrails())
        state, _ = self._opened(agent, running, secrets.clean(request))
        return first_request(agent, state)

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
        self._must_be_free()
        row = self._log.question(turn_id, nonce, self._clock.now())
        record = row.record
        if not record.seal:
            raise SessionError(
                "The question was never sealed, so it cannot be trusted. Run the cell again."
            )
        try:
            answer, choice = choices.resolve(reply, record.choices, record.choice_ids)
        except ValueError as exc:
            raise SessionError(str(exc)) from exc
        # The model that asked goes on, unless the session has it under the same name already.
        asked_by = record.model_id or self.model_name
        begun = self._log.beginning_of(record.run_id)
        if record.begun and (begun is None or digest_of(begun) != record.begun):
            raise SessionError(
                "What this turn may do was changed in the journal after it began; nothing was run. "
                "Run the cell again."
            )
        models = self._cassettes.of_resumed(
            record.run_id,
            row.turn.request,
            row.turn.cell_key,
            self._model if asked_by == self.model_name else asked_by,
            begun.effort if begun else "",
        )
        secrets = self._secrets(models)
        running = Running(record.run_id, row.turn.cell_key, row.turn.ordinal, secrets, asked=record)
        running.seen.update(record.minted_live_names)
        running.cancellation = stop or running.cancellation
        self._running = running
        try:
            running.options = options_of(begun)
            guardrails = limits_of(begun)
            models = noting(models, self._journal, record.run_id)
            await self._store.look(running.cancellation)
            agent = self._agent(models, running, guardrails)
            gone, _ = differences(self.executor, record)
            state = admit(
                agent,
                record,
                answer,
                code_executor=self.executor,
                cancellation=running.cancellation,
                max_suspension_age_s=MAX_QUESTION_AGE_S,
            )
            started = _started(
                running,
                shown_limits(guardrails, state),
                request=row.turn.request,
                model=", ".join(model.name for model in models),
                reply=secrets.clean(answer),
                choice=choice,
                gone=gone if running.options.share is not Share.none else (),
                shared=instructions_in_words(running.instructions, begun),
            )
            self._log.take_up(running.run_id, record, started)
            if not running.is_reader:
                self._answers[record.pending_question] = answer
            stream = self._log.follow(running, started, run_loop(agent, state), self._trace())
            async with aclosing(stream) as events:
                async for event in events:
                    yield event
        except ValueError as exc:  # the checks of resuming, and a mode that does not exist
            raise SessionError(sentence(str(exc))) from exc
        finally:
            self._running = None

    def pending(self) -> tuple[PendingRow, ...]:
        """The questions that wait in this notebook, newest first."""
        return self._log.pending(self._clock.now())

    def turns(self, notebook: str = "") -> tuple[TurnRow, ...]:
        """This notebook's turns, or those of another of the workspace, oldest first."""
        return self._journal.turns(notebook or self._history)

    def events(self, turn_id: str) -> tuple[AgentEvent, ...]:
        """What happened in a turn, from the journal."""
        return self._journal.events(turn_id)

    def sent(self, turn_id: str) -> tuple[SentRequest, ...]:
        """What a turn has sent to its models, request by request; nothing for one that was
        replayed from a recording."""
        return sent_by(self._journal.database, turn_id)

    def artifacts(self, *, most: int | None = None) -> tuple[LogEntry, ...]:
        """What is published in the workspace, newest snapshot of each, this notebook's first."""
        return memory.published(self._store, self._journal, self.notebook, most=most)

    def verify(self) -> tuple[tuple[int, str] | None, Verification]:
        """The first entry of the journal that is not as it was written, if one is, and what was
        found of everything published. Nothing is moved."""
        known = self._journal.witnessed()
        return self._journal.verify(), verify(self._store, quarantine=False, witnessed=known)

    async def refresh(self, name: str, *, accept: bool = False, allow: bool = False) -> Refreshed:
        """Make a published artifact again, in a clean kernel; see ``artifacts.refresh``. Only with
        ``allow`` may its code reach outside.

        ``SessionError`` when there is none of that name, it cannot be made again, or in a turn.
        """
        self._must_be_free()
        effects = JournalEffects(self._journal.database, "refresh")
        try:
            return await refresh_watched(self._publisher, name, effects, accept=accept, allow=allow)
        except NOT_REFRESHED as exc:
            raise SessionError(sentence(str(exc))) from exc

    def forget(self, turn_id: str) -> None:
        """Tell later turns nothing of this one. ``SessionError`` without it, or in a turn."""
        self._must_be_free()
        memory.forget(self._journal, self._history, turn_id)

    def reset(self) -> int:
        """Forget every turn, take the person's tools away and have the first model again; how many
        turns. ``SessionError`` in a turn."""
        self._must_be_free()
        runs = [row.run_id for row in self.turns()]
        forgotten = self._journal.forget(self._history, runs)
        self.tools.close()
        self._answers.clear()
        self._model = self._first_model
        return len(forgotten)

    def stop(self, reason: str = "stopped by the user") -> bool:
        """Stop the running turn, from any thread. ``False`` when none runs."""
        running = self._running
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

    def _must_be_free(self) -> None:
        if self._running is not None:
            raise SessionError(
                f"Turn {self._running.ordinal} is still running in this notebook. Wait for it, or "
                "stop it with the Stop button or %agent stop."
            )

    def _secrets(self, models: Sequence[ChatModel]) -> Secrets:
        return Secrets.of(models, {**os.environ, **self._environ})

    def _agent(
        self, models: Sequence[ChatModel], running: Running, guardrails: AgentGuardrails
    ) -> Agent:
        chosen = running.options
        own = tools_told(self.tools.added(), chosen.share)
        hooks = NotebookHooks(
            running=running,
            log=self._log,
            toolbox=self.tools,
            breakers=self._breakers,
            tool_breakers=self._tool_breakers,
            changes=self.past.changes,
            told_inventory=lambda: self._in_words(running)[0],
            has_artifacts=bool(self.artifacts(most=1)),
            own_tools=frozenset(own),
            granted=self._granted,
        )
        scope = RunScope(running.run_id, self.notebook, running.cell_key, running.ordinal)
        tools = self.tools.of_run(scope, guardrails, hooks.emit, running.seen) + own
        running.is_reader = any(model.name != OFFLINE for model in models)
        playbook = self.tools.playbook(chosen.procedure or "", tools)
        if chosen.share is not Share.none and chosen.context != ():
            running.instructions = read_instructions(self._folder, self.workspace)
        return Agent(
            model_config=models,
            code_executor=self.executor,
            guardrails=guardrails,
            session_id=self._session_id,
            keyring=self._keyring,
            workspace=str(self.workspace),
            tools=tools,
            contract=playbook.contract,
            rules=playbook.rules,
            procedure=playbook.procedure,
            instructions="\n\n".join((INSTRUCTIONS, *(w.block for w in running.instructions))),
            pinned_constraints=playbook.constraints,
            policy=playbook.policy,
            hooks=hooks,
            clock=self._clock,
        )

    def _trace(self) -> Callable[[AgentEvent], None]:
        observer = tracing.observer(self._clock, provider_of)
        return (lambda event: None) if observer is None else observer.observe


def _started(running: Running, limits: Mapping[str, Any], **told: Any) -> RunStarted:
    """How a turn begins or goes on: its options, its ``limits``, and what else is ``told``."""
    chosen = running.options
    return RunStarted(
        run_id=running.run_id,
        share=chosen.share.value,
        instructions=hashes(running.instructions),
        **{name: getattr(chosen, name) for name in KEPT},
        **limits,
        **told,
    )
