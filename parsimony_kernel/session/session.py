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
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.agent.failure.suspension import (
    SuspensionConsumed,
    SuspensionElsewhere,
    SuspensionExpired,
    SuspensionTokenMismatch,
)
from parsimony_kernel.agent.loop import admit, first_request, go_on, run_loop
from parsimony_kernel.agent.prompts import INSTRUCTIONS
from parsimony_kernel.agent.resolve import EFFORT, check_models, names_in, resolve_models
from parsimony_kernel.artifacts.publish import PAGES, LiveName, Publisher
from parsimony_kernel.artifacts.refresh import NOT_REFRESHED, Refreshed
from parsimony_kernel.artifacts.store import ArtifactStore, LogEntry
from parsimony_kernel.artifacts.verify import Verification, verify
from parsimony_kernel.core import choices
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.chat import OFFLINE, ChatModel, ModelRequest
from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.config import AgentGuardrails, FileStore
from parsimony_kernel.core.conversation import AgentContext
from parsimony_kernel.core.events import (
    AgentEvent,
    RunCancelled,
    RunCompleted,
    RunStarted,
    UserInputRequested,
    is_terminal,
)
from parsimony_kernel.core.state import RunState
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.execution.interrupt import stop_on_sigint, stop_running_code
from parsimony_kernel.execution.run_scope import RunScope
from parsimony_kernel.gate.approval import Granted
from parsimony_kernel.gate.task_file import Playbook
from parsimony_kernel.limits.breaker import Breakers
from parsimony_kernel.limits.redis_store import breakers_for
from parsimony_kernel.llm.cassette import CassetteMiss
from parsimony_kernel.llm.credentials import provider_of
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.metrics import tracing
from parsimony_kernel.session import memory
from parsimony_kernel.session.answers import came_to_nothing, is_doing, or_ask_again
from parsimony_kernel.session.cassettes import Cassettes
from parsimony_kernel.session.catalogue import catalogue
from parsimony_kernel.session.hooks import NotebookHooks, NotebookPlace, Sharing, differences
from parsimony_kernel.session.identity import (
    adopt,
    history_name,
    name_in,
    origins_in_words,
    plain_name,
)
from parsimony_kernel.session.instructions import Written, hashes, in_words, read_instructions
from parsimony_kernel.session.inventory import notebook_in_words
from parsimony_kernel.session.own_tools import OwnTools
from parsimony_kernel.session.past import Past
from parsimony_kernel.session.playbooks import read_playbook
from parsimony_kernel.session.scribe import Scribe, ending
from parsimony_kernel.session.sent import SentRecord, SentRequest, first_notice
from parsimony_kernel.session.share import Share, tools_told
from parsimony_kernel.session.spending import left_of, used, within_budget
from parsimony_kernel.session.trouble import TROUBLE, explained
from parsimony_kernel.session.turn_log import (
    MAX_QUESTION_AGE_S,
    TurnLog,
    abandon_cut_off,
    digest_of,
    is_alive,
    limits_of,
    options_of,
    owner_of,
)
from parsimony_kernel.session.turns import (
    PendingQuestion,
    SessionError,
    TurnOptions,
    TurnSummary,
    sentence,
    shown_limits,
)
from parsimony_kernel.session.upkeep import effects_in, refresh_watched
from parsimony_kernel.storage.breakers import JournalBreakers
from parsimony_kernel.storage.durable import sweep_temporary
from parsimony_kernel.storage.keyring import Keyring
from parsimony_kernel.storage.store import PendingRow, SqliteJournal
from parsimony_kernel.storage.workspace import find_workspace, journal_path
from parsimony_kernel.toolbox.mcp_client import Servers
from parsimony_kernel.toolbox.mcp_servers import PREFIX
from parsimony_kernel.tools import Tool, Tools
from parsimony_kernel.triage.classify import Classifier, HybridClassifier
from parsimony_kernel.triage.llm_classifier import LLMClassifier

DEFAULT_MODEL = "offline"

_REFUSED = (SuspensionTokenMismatch, SuspensionExpired, SuspensionElsewhere, SuspensionConsumed)


@dataclass
class _Running:
    run_id: str
    ordinal: int
    cell_key: str
    secrets: Secrets = field(default_factory=Secrets)
    options: TurnOptions = field(default_factory=TurnOptions)
    seen: set[LiveName] = field(default_factory=set)
    instructions: tuple[Written, ...] = ()
    # Whether a model reads words: the one that is built in has no use for a date.
    is_reader: bool = True
    cancellation: CancellationRequest = field(default_factory=CancellationRequest)

    @property
    def sharing(self) -> Sharing:
        """What the turn tells its model of the notebook."""
        return Sharing(self.options.share, self.options.context, self.options.share_figures)


class NotebookSession:
    """A notebook's turns."""

    def __init__(
        self,
        *,
        workspace: Path,
        history: str,
        folder: Path,
        executor: BaseCodeExecutor,
        journal: SqliteJournal,
        store: ArtifactStore,
        keyring: Keyring,
        model: str | ChatModel = DEFAULT_MODEL,
        environ: Mapping[str, str] = os.environ,
        clock: Clock = SYSTEM_CLOCK,
        connection_file: str = "",
        breakers: Breakers | None = None,
        notice: str = "",
        file_store: FileStore | None = None,
    ) -> None:
        """``history`` is the name under which the journal keeps the notebook's turns, ``notice``
        what the record of the next turn says first, ``file_store`` where a host keeps files."""
        self.workspace = workspace
        self.notebook = plain_name(history)
        self._history = history
        self._notice = notice
        self._file_store = file_store
        self.executor = executor
        self._folder = folder
        self._journal = journal
        self._store = store
        self._keyring = keyring
        self._model = self._first_model = model
        # What the notebook sets for models stands before the environment.
        self._environ = ChainMap[str, str]({}, cast(MutableMapping[str, str], environ))
        self._clock = clock
        self._running: _Running | None = None
        self._session_id = uuid.uuid4().hex
        self._own_tools = OwnTools(executor.variables, self._every_turns_tools)
        self.servers = Servers(folder, workspace, self._environ)
        self.past = Past(
            executor, turns=self.turns, write=self._record, must_be_free=self._must_be_free
        )
        # A name is another function in another notebook, so these are its own.
        self._tool_breakers = Breakers(clock)
        # What was allowed, by run: a question may be answered much later.
        self._granted: dict[str, Granted] = {}
        self._breakers = breakers or Breakers(clock)
        self._owner = owner_of(self._session_id)
        self._log = TurnLog(journal, history, owner=self._owner, connection_file=connection_file)
        self._sent = SentRecord(journal, history, clock)
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
            self._require(model)
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
        self, request: str, *, cell_key: str, options: TurnOptions | None = None
    ) -> AsyncGenerator[AgentEvent, None]:
        """Run ``request`` as the turn of cell ``cell_key``, replacing that cell's earlier turn.

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
            require=partial(self._require, effort=chosen.effort),
        )
        model_name = ", ".join(model.name for model in models)
        self._must_be_free()
        secrets = Secrets.of(models, {**os.environ, **self._environ})
        request = secrets.clean(request)
        running = _Running(run_id, 0, cell_key, secrets, chosen)
        guardrails = self._within_budget(chosen.guardrails(), chosen.notebook_cost_usd)
        self._running = running
        try:
            notice = first_notice(models, chosen.share, self._sent.models_asked)
            if chosen.asked_by:
                notice = f"Asked by {chosen.asked_by}. {notice}".rstrip()
            models = self._sent.noting(models, run_id)
            agent = self._agent(models, running, guardrails)
            running.ordinal = self._log.begin(
                running.run_id, cell_key=cell_key, request=request, model=model_name
            )
            with self._log.opening(running.run_id):
                back = self.past.replace(self._log.of_cell(cell_key), by=running.run_id)
                state, shared = self._opened(agent, running, request, also=back.removed)
                started = _started(
                    running,
                    shown_limits(guardrails),
                    request=request,
                    model=model_name,
                    shared=(
                        *shared,
                        *self._written(running),
                        *self._own_tools.kept_in_words(),
                        *self.servers.changes(),
                    ),
                    approve=chosen.approve.value,
                    procedure=chosen.procedure or "",
                    notice=" ".join(filter(None, (self._notice, self._journal.news(), notice))),
                    replaced=(*back.restored, *back.removed),
                )
                state.begun = digest_of(started)
                self._journal.append(running.run_id, started)
            self._notice = ""
            stream = within_budget(run_loop(agent, state), chosen.notebook_cost_usd)
            async with aclosing(self._drive(running, started, stream)) as events:
                async for event in events:
                    yield event
        except (*TROUBLE, CassetteMiss) as exc:
            raise SessionError(str(exc)) from exc
        finally:
            self._running = None

    def _written(self, running: _Running) -> tuple[str, ...]:
        """What is said of the person's instructions, by what they were in the turn before."""
        turns = [each.turn_id for each in self.turns() if each.turn_id != running.run_id]
        before = self._log.beginning_of(turns[-1]) if turns else None
        return in_words(running.instructions, before)

    def _opened(
        self, agent: Agent, running: _Running, request: str, *, also: Sequence[str] = ()
    ) -> tuple[RunState, tuple[str, ...]]:
        """The state in which a turn begins, and what of the notebook its first message shares.

        ``also`` are names that may be bound anew beside those of the turn that is replaced.
        """
        share, chosen = running.sharing.share, running.sharing.chosen
        earlier = self._log.earlier(running.cell_key, share) if chosen is None else ()
        context, shared = self._in_words(
            running, request=request, earlier_turns=len(earlier) // 2, also=also
        )
        state = agent.start(
            request,
            ctx=AgentContext(earlier, context),
            run_id=running.run_id,
            cancellation=running.cancellation,
        )
        return state, shared

    def _in_words(
        self,
        running: _Running,
        *,
        request: str = "",
        earlier_turns: int = 0,
        also: Sequence[str] = (),
    ) -> tuple[str, tuple[str, ...]]:
        """What the notebook holds, as the model and as people are told of it."""
        return notebook_in_words(
            self.executor,
            self._folder,
            self._artifacts(most=memory.MOST_ARTIFACTS),
            request=request,
            earlier_turns=earlier_turns,
            today=self._clock.now().date() if running.is_reader else None,
            replaceable=(*self._replaceable(running.cell_key), *also),
            share=running.sharing.share,
            chosen=running.sharing.chosen,
        )

    @explained
    def preview(
        self, request: str, *, cell_key: str = "", options: TurnOptions | None = None
    ) -> ModelRequest:
        """What a turn would ask its model first. Nothing is sent, written or taken back.

        ``SessionError`` when such a turn could not begin, or in a turn.
        """
        chosen = options or TurnOptions()
        self._must_be_free()
        models = resolve_models(chosen.model or self._model, self._around(chosen.effort))
        secrets = Secrets.of(models, {**os.environ, **self._environ})
        running = _Running(uuid.uuid4().hex, 0, cell_key, secrets, chosen)
        agent = self._agent(models, running, chosen.guardrails())
        state, _ = self._opened(agent, running, secrets.clean(request))
        return first_request(agent, state)

    async def resume(
        self,
        reply: str,
        *,
        turn_id: str | None = None,
        nonce: str | None = None,
        notebook_cost_usd: float | None = None,
    ) -> AsyncGenerator[AgentEvent, None]:
        """Answer the question of ``turn_id``, or the newest one, and go on.

        A number picks that choice. With ``nonce`` only that very question is answered, not a
        later one of the turn. The turn goes on telling as much of the notebook as it began with;
        ``notebook_cost_usd`` is what all turns may cost now, where that is another limit than the
        one it began with. Raises ``SessionError`` before anything ran: no such question, an
        empty answer, a record that is expired, altered, or answered before.
        """
        self._must_be_free()
        row = self._question(turn_id, nonce)
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
        effort = begun.effort if begun else ""
        models = self._cassettes.of_resumed(
            record.run_id,
            row.turn.request,
            row.turn.cell_key,
            lambda: self._require(self._model if asked_by == self.model_name else asked_by, effort),
        )
        secrets = Secrets.of(models, {**os.environ, **self._environ})
        running = _Running(record.run_id, row.turn.ordinal, row.turn.cell_key, secrets)
        running.seen.update(record.minted_live_names)
        self._running = running
        try:
            running.options = options_of(begun)
            if notebook_cost_usd is not None:
                running.options = replace(running.options, notebook_cost_usd=notebook_cost_usd)
            limit = running.options.notebook_cost_usd
            guardrails = self._within_budget(limits_of(begun), limit, record.cumulative_cost_usd)
            models = self._sent.noting(models, record.run_id)
            agent = self._agent(models, running, guardrails)
            gone, _ = differences(self.executor, record)
            state = admit(
                agent,
                record,
                answer,
                files=self._file_store,
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
                gone=gone if running.sharing.share is not Share.none else (),
                shared=in_words(running.instructions, begun),
            )
            self._log.take_up(running.run_id, record, started)
            stream = within_budget(or_ask_again(go_on(agent, state, record, answer)), limit)
            ran = False
            async with aclosing(self._drive(running, started, stream)) as events:
                async for event in events:
                    ran = ran or is_doing(event)
                    if not ran and came_to_nothing(event):
                        self._log.wait_on(running.run_id, record)
                    yield event
        except (*_REFUSED, ValueError) as exc:
            raise SessionError(sentence(str(exc))) from exc
        except (*TROUBLE, CassetteMiss) as exc:
            raise SessionError(str(exc)) from exc
        finally:
            self._running = None

    @explained
    def pending(self) -> tuple[PendingQuestion, ...]:
        """The questions that wait in this notebook, newest first."""
        return self._log.pending(self._clock.now())

    @explained
    def turns(self) -> tuple[TurnSummary, ...]:
        """This notebook's turns, oldest first."""
        return self._log.turns()

    @explained
    def origins(self) -> tuple[str, ...]:
        """Where the notebook's history is from, in words, if it was moved or copied."""
        return origins_in_words(self._journal, self._history)

    @explained
    def events(self, turn_id: str) -> tuple[AgentEvent, ...]:
        """What happened in a turn, from the journal."""
        return self._journal.events(turn_id)

    @explained
    def sent(self, turn_id: str) -> tuple[SentRequest, ...]:
        """What a turn has sent to its models, request by request; nothing for one that was
        replayed from a recording."""
        return self._sent.of_turn(turn_id)

    @explained
    def spent_usd(self) -> float:
        """What the turns begun in this notebook have cost, replaced and forgotten ones included,
        in US dollars. Answers without a known price and turns that were purged count nothing."""
        return sum(
            used(self._journal.events(row.run_id)).cost_usd
            for row in self._journal.turns(self._history)
            if row.notebook == self._history
        )

    @explained
    def artifacts(self) -> tuple[LogEntry, ...]:
        """What is published in the workspace, newest snapshot of each, this notebook's first."""
        return self._artifacts()

    @explained
    def verify(self) -> tuple[tuple[int, str] | None, Verification]:
        """The first entry of the journal that is not as it was written, if one is, and what was
        found of everything published. Nothing is moved."""
        return self._journal.verify(), verify(self._store, quarantine=False)

    @property
    def tools(self) -> Tools:
        """The tools that a turn has beside those of every turn: functions of the person's, and what
        MCP servers bring."""
        return self.servers.tools() + self._own_tools.resolved()

    @property
    def kept_tools(self) -> Mapping[str, str]:
        """Those of the person's tools that are not what the notebook defines now, and why."""
        return self._own_tools.kept

    def add_tool(self, name: str) -> Tool:
        """Make the function that ``name`` holds a tool from now on. ``SessionError`` if it cannot
        be one, or in a turn. MCP servers are added by ``servers``."""
        self._must_be_free()
        return self._own_tools.add(name)

    def remove_tool(self, name: str) -> None:
        """Take a tool of the person's away, or end a server. ``SessionError`` without it, or in a
        turn."""
        self._must_be_free()
        if not (name.startswith(PREFIX) and self.servers.remove(name.removeprefix(PREFIX))):
            self._own_tools.remove(name)

    async def refresh(self, name: str, *, accept: bool = False, allow: bool = False) -> Refreshed:
        """Make a published artifact again, in a clean kernel; see ``artifacts.refresh``. Only with
        ``allow`` may its code reach outside.

        ``SessionError`` when there is none of that name, it cannot be made again, or in a turn.
        """
        self._must_be_free()
        try:
            with effects_in(self._folder) as effects:
                publisher = self._publisher()
                return await refresh_watched(publisher, name, effects, accept=accept, allow=allow)
        except (*TROUBLE, *NOT_REFRESHED) as exc:
            raise SessionError(sentence(str(exc))) from exc

    def playbook(self, file: str) -> Playbook:
        """What ``file`` says of a task, checked as a turn would.

        ``SessionError`` says all that is wrong with it.
        """
        tools = self._every_turns_tools() + self.tools
        return read_playbook(file, self._folder, self.executor, tools)

    @explained
    def forget(self, turn_id: str) -> None:
        """Tell later turns nothing of this one. ``SessionError`` without it, or in a turn."""
        self._must_be_free()
        memory.forget(self._journal, self._history, turn_id)

    @explained
    def reset(self) -> int:
        """Forget every turn, take the person's tools away and have the first model again; how many
        turns. ``SessionError`` in a turn."""
        self._must_be_free()
        forgotten = memory.reset(self._journal, self._history, self._own_tools)
        self.servers.close()
        self._model = self._first_model
        return forgotten

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
        self.servers.close()
        self._journal.close()

    @explained
    def _record(self, run_id: str, event: AgentEvent) -> None:
        self._journal.append(run_id, event)

    def _require(self, model: str | ChatModel, effort: str = "") -> tuple[ChatModel, ...]:
        try:
            failure = check_models(model, self._environ) if isinstance(model, str) else None
            if failure is not None:
                raise SessionError(sentence(failure.explanation))
            return resolve_models(model, self._around(effort))
        except ValueError as exc:
            raise SessionError(f"The settings of models cannot be read: they take {exc}.") from exc

    def _around(self, effort: str) -> Mapping[str, str]:
        return {**self._environ, EFFORT: effort} if effort else self._environ

    def _must_be_free(self) -> None:
        if self._running is not None:
            raise SessionError(
                f"Turn {self._running.ordinal} is still running in this notebook. Wait for it, or "
                "stop it with the Stop button or %agent stop."
            )

    def _artifacts(self, *, most: int | None = None) -> tuple[LogEntry, ...]:
        return memory.published(self._store, self._journal, self.notebook, most=most)

    def _publisher(self) -> Publisher:
        return Publisher(
            self._store, notebook_path=self.notebook, clock=self._clock, folder=self._folder
        )

    def _tools(
        self,
        running: _Running,
        guardrails: AgentGuardrails,
        emit: Callable[[AgentEvent], None],
    ) -> Tools:
        return catalogue(
            self.executor,
            self._publisher(),
            workspace=self.workspace,
            folder=self._folder,
            timeout_s=min(guardrails.tool_timeout_s, guardrails.max_execution_time_s),
            scope=lambda: RunScope(
                running.run_id, self.notebook, running.cell_key, running.ordinal
            ),
            emit=emit,
            seen=running.seen,
            file_store=self._file_store,
        )

    def _every_turns_tools(self) -> Tools:
        return self._tools(_Running("", 0, ""), AgentGuardrails(), lambda event: None)

    def _within_budget(
        self, guardrails: AgentGuardrails, limit_usd: float | None, spent_by_turn_usd: float = 0.0
    ) -> AgentGuardrails:
        """``guardrails``, with what the budget of the notebook leaves to a turn.

        Raises ``SessionError`` when that is nothing.
        """
        left = left_of(limit_usd, self.spent_usd() if limit_usd is not None else 0.0)
        ceiling = None if left is None else left + spent_by_turn_usd
        return guardrails.model_copy(update={"ceiling_cost_usd": ceiling})

    def _agent(
        self, models: Sequence[ChatModel], running: _Running, guardrails: AgentGuardrails
    ) -> Agent:
        chosen, sharing = running.options, running.sharing
        place = NotebookPlace(
            self.workspace, self._folder, self.executor, self._journal, self._clock
        )
        own = tools_told(self.tools, sharing.share)
        hooks = NotebookHooks(
            place,
            self._breakers,
            self._tool_breakers,
            chosen.approve,
            self._owner,
            self.past.changes,
            running.secrets,
            replace(sharing, own_tools=frozenset(own)),
            lambda: self._in_words(running)[0],
            self._publisher(),
            bool(self._artifacts(most=1)),
            self._granted,
        )
        tools = self._tools(running, guardrails, hooks.emit) + own
        running.is_reader = any(model.name != OFFLINE for model in models)
        playbook = read_playbook(chosen.procedure or "", self._folder, self.executor, tools)
        if sharing.share is not Share.none and sharing.chosen != ():
            running.instructions = read_instructions(self._folder, self.workspace)
        named = playbook.classifier or chosen.classifier
        return Agent(
            model_config=models,
            code_executor=self.executor,
            guardrails=guardrails,
            session_id=self._session_id,
            keyring=self._keyring,
            workspace=str(self.workspace),
            file_store=self._file_store,
            tools=tools,
            contract=playbook.contract,
            rules=playbook.rules,
            procedure=playbook.procedure,
            instructions="\n\n".join((INSTRUCTIONS, *(w.block for w in running.instructions))),
            pinned_constraints=playbook.constraints,
            policy=playbook.policy,
            classifier=self._classifier(named, models, running, hooks),
            hooks=hooks,
            clock=self._clock,
        )

    def _classifier(
        self, named: str, models: Sequence[ChatModel], running: _Running, hooks: NotebookHooks
    ) -> Classifier | None:
        """What tells why a step failed; the model that is built in is no judge of that."""
        asked = next((model for model in models if model.name != OFFLINE), None)
        if named not in ("hybrid", "llm") or asked is None:
            return None
        judge = LLMClassifier(
            asked, cancellation=running.cancellation, clock=self._clock, heard=hooks.heard
        )
        return HybridClassifier(judge) if named == "hybrid" else judge

    async def _drive(
        self, running: _Running, started: RunStarted, stream: AsyncGenerator[AgentEvent, None]
    ) -> AsyncGenerator[AgentEvent, None]:
        """Yield ``started``, which is written already, and ``stream``, each event journalled
        first; close the turn."""
        scribe = Scribe(self._journal, running.run_id, running.secrets)
        observer = tracing.observer(self._environ, self._clock, provider_of)
        trace = (lambda event: None) if observer is None else observer.observe
        ended = False
        with stop_on_sigint(running.cancellation):
            try:
                trace(started)
                yield started
                async with aclosing(stream):
                    async for event in stream:
                        if isinstance(event, UserInputRequested):
                            self._journal.suspend(event.suspension_record)
                        scribe.write(event)
                        if is_terminal(event):
                            ended = True
                            told = map(running.secrets.clean, ending(event))
                            self._journal.end_turn(running.run_id, *told)
                        if isinstance(event, RunCompleted):
                            self.past.settle(running.run_id)
                        trace(event)
                        yield event
            except CassetteMiss:
                running.cancellation.set("the recording has no answer to this request")
                raise
            finally:
                if not ended:
                    # The consumer went away, its task was cancelled, or the journal failed: said
                    # in writing as far as that is possible.
                    running.cancellation.set("the cell was cancelled")
                    cut_short = RunCancelled(reason=running.cancellation.reason)
                    trace(cut_short)
                    with suppress(*TROUBLE):
                        scribe.write(cut_short)
                    with suppress(*TROUBLE):
                        self._journal.end_turn(running.run_id, "cancelled")

    def _replaceable(self, cell_key: str) -> tuple[str, ...]:
        """The names that hold what this cell's earlier turn bound."""
        replaced = self._log.of_cell(cell_key)
        ledger = self.executor.origin_ledger
        return tuple(
            name
            for name in self.executor.variables()
            if (origin := ledger.get(name)) is not None and origin.run_id in replaced
        )

    @explained
    def _question(self, turn_id: str | None, nonce: str | None = None) -> PendingRow:
        return self._log.question(turn_id, nonce, self._clock.now())


def _started(running: _Running, limits: Mapping[str, Any], **told: Any) -> RunStarted:
    """How a turn begins or goes on: its options, its ``limits``, and what else is ``told``."""
    chosen = running.options
    return RunStarted(
        run_id=running.run_id,
        share=chosen.share.value,
        context=chosen.context,
        share_figures=chosen.share_figures,
        notebook_cost_usd=chosen.notebook_cost_usd,
        classifier=chosen.classifier,
        effort=chosen.effort,
        instructions=hashes(running.instructions),
        **limits,
        **told,
    )


def open_session(
    *,
    executor: BaseCodeExecutor,
    notebook: str,
    folder: Path,
    model: str | ChatModel | None = None,
    environ: Mapping[str, str] = os.environ,
    clock: Clock = SYSTEM_CLOCK,
    connection_file: str = "",
    file_store: FileStore | None = None,
) -> NotebookSession:
    """The session of the file ``notebook``, which lies in ``folder``.

    The tools for files work in the workspace, or on ``file_store``. The model is ``model``, else
    ``PARSIMONY_MODEL``, else the embedded offline model. Raises ``SessionError`` when the
    workspace's journal or the key folder cannot be written.
    """
    workspace = find_workspace(folder, environ)
    history = history_name(name_in(workspace, folder / notebook))
    try:
        keyring = Keyring.open(None, environ, clock)
        journal = SqliteJournal(journal_path(workspace), clock, keyring=keyring)
        adopted = adopt(journal, workspace, folder / notebook, alive=is_alive)
        abandon_cut_off(journal, history)
        store = ArtifactStore(workspace)
        for written in (store.folder, workspace / PAGES):
            sweep_temporary(written, clock=clock)
    except TROUBLE as exc:
        raise SessionError(str(exc)) from exc
    return NotebookSession(
        workspace=workspace,
        history=history,
        notice=adopted,
        folder=folder,
        executor=executor,
        journal=journal,
        store=store,
        keyring=keyring,
        model=model or environ.get("PARSIMONY_MODEL", "").strip() or DEFAULT_MODEL,
        environ=environ,
        clock=clock,
        connection_file=connection_file,
        breakers=breakers_for(environ, JournalBreakers(journal, clock), clock),
        file_store=file_store,
    )
