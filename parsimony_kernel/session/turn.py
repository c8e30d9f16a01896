"""One turn of a notebook: its permissions, its model's context, and its journal entries.

A turn builds the agent of its run and serves as that run's hooks, so all permissions are decided
in one place.

Rules: every event is journalled before anybody sees it; nothing shown to a person or written to
disk contains a secret; a model sees only the parts of the notebook that the share mode allows.
"""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.agent.hooks import RunContext, RunHooks
from parsimony_kernel.agent.loop import admit, run_loop
from parsimony_kernel.agent.prompts import (
    INSTRUCTIONS,
    notebook_changes,
    persons_words,
    split_at_request,
)
from parsimony_kernel.artifacts.publish import LiveName
from parsimony_kernel.artifacts.store import SHORT_ID
from parsimony_kernel.core import events as ev
from parsimony_kernel.core.cancellation import CONSUMER_GONE, CancellationRequest
from parsimony_kernel.core.causes import BAD_ARGUMENTS
from parsimony_kernel.core.chat import OFFLINE, ToolCall, arguments_of
from parsimony_kernel.core.conversation import AgentContext, snapshot_message
from parsimony_kernel.core.effects import Effects
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.core.outputs import FigureObject
from parsimony_kernel.core.reach import Reach, ReachKind
from parsimony_kernel.core.state import RunState, SuspensionRecord
from parsimony_kernel.execution.frames import is_frame
from parsimony_kernel.execution.interrupt import stop_on_sigint
from parsimony_kernel.execution.run_scope import RunScope
from parsimony_kernel.gate.approval import Approval, Approving, Granted
from parsimony_kernel.gate.gate import StepOutcome
from parsimony_kernel.gate.preview import preview
from parsimony_kernel.gate.stages import Attempt, Stage
from parsimony_kernel.lineage.checkpoint import Change
from parsimony_kernel.lineage.file_backups import Files
from parsimony_kernel.llm.cassette import CassetteMiss
from parsimony_kernel.llm.providers import provider_of
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.metrics import tracing
from parsimony_kernel.session.context import TurnContext
from parsimony_kernel.session.home import Home
from parsimony_kernel.session.past import bound_by
from parsimony_kernel.session.share import Share, Step, shared, tools_told
from parsimony_kernel.session.turn_models import Models, first_notice, noting
from parsimony_kernel.session.turn_values import SessionError, TurnOptions, digest_of, sentence
from parsimony_kernel.storage.durable import StorageError
from parsimony_kernel.storage.journal import PendingRow, SqliteJournal
from parsimony_kernel.storage.keyring import GRACE_S
from parsimony_kernel.storage.run_log import JournalEffects
from parsimony_kernel.toolbox.publish_tools import announcement
from parsimony_kernel.tools import Tools

Events = AsyncGenerator[ev.AgentEvent, None]
# The start event and the first state of a run.
Start = tuple[ev.RunStarted, RunState]

# Artifact tools, not offered in a workspace without artifacts.
_OF_ARTIFACTS = frozenset({"list_artifacts", "read_artifact"})
_ADDRESS = re.compile(r"\bhttps?://(?:[^\s/@]*@)?([\w.-]+\w)")
# Replaces the list of undone names when the share mode hides names.
_GONE_BACK = "The variables are as they were before."
_ASK_AGAIN = "The question still waits: answer it again later, with %agent answer."
# Transient failures: a question whose answer ran into one can be answered again.
_PASSING = (FailureKind.capability_gap, FailureKind.transient_provider)
# Turn status by terminal event, and the event's field that holds the summary.
_ENDS: Mapping[type[ev.AgentEvent], tuple[str, str]] = {
    ev.RunCompleted: ("done", "summary"),
    ev.UserInputRequested: ("suspended", "question"),
    ev.Handoff: ("handed_off", "rationale"),
    ev.PartialRunSummary: ("stopped", "missing"),
}


class Turn(RunHooks):
    """A turn and the hooks of its run.

    Args:
        home: What all turns of the notebook share.
        models: The models that answer, the preferred one first.
        options: Permissions, limits and share mode.
        run_id: The turn's own; that of ``asked`` if it goes on, empty for a preview.
        asked: The pending question to resume from, if any.
        stop: The cancellation token.
    """

    def __init__(
        self,
        home: Home,
        models: Models,
        cell_key: str,
        options: TurnOptions,
        *,
        run_id: str = "",
        asked: PendingRow | None = None,
        stop: CancellationRequest | None = None,
    ) -> None:
        super().__init__(home.breakers, home.tool_breakers)
        self._home, self._options, self._asked = home, options, asked
        self.run_id = asked.turn.run_id if asked else run_id
        self._cell_key, self.ordinal = cell_key, asked.turn.ordinal if asked else 0
        self.cancellation = stop or CancellationRequest()
        self._secrets = Secrets.of(models, {**os.environ, **home.environ})
        self._models = noting(models, home.journal, self.run_id)
        self._model_name = ", ".join(model.name for model in models)
        # Whether an LLM answers; the built-in model needs no date and reuses earlier answers.
        self._is_reader = any(model.name != OFFLINE for model in models)
        self._guardrails = options.guardrails()
        self._granted = home.granted.setdefault(self.run_id, Granted())
        self._files = self._granted.files or Files(home.workspace.resolve(), self._granted.made)
        self._granted.files = self._files
        # How much of the notebook the first message shares.
        told = options.share if options.tells else Share.none
        self._context = TurnContext(home, told, cell_key, is_reader=self._is_reader)
        self._emitted: list[ev.AgentEvent] = []
        # Resolved once, when the run begins.
        self._own_tools: frozenset[str] = frozenset()
        self._has_artifacts = False
        self._trouble = ""

    # -- its flow

    async def run(self, opened: Callable[[Agent], Start]) -> Events:
        """Run the turn to its end or next question, and mark the notebook busy meanwhile.

        Args:
            opened: Journals the start (``begin``) or resumption (``go_on``) and returns the run
                state.
        """
        home = self._home
        home.must_be_free()
        home.running = self.cancellation
        try:
            self._trouble = await home.store.look(self.cancellation)
            agent = self._agent()
            started, state = opened(agent)
            async with aclosing(self._follow(started, run_loop(agent, state))) as events:
                async for event in events:
                    yield event
        finally:
            home.running = None

    def begin(self, request: str, agent: Agent) -> Start:
        """Start the turn with ``request``, undoing and replacing its cell's earlier turns."""
        home, request = self._home, self._secrets.clean(request)
        asked_by = self._options.asked_by and f"Asked by {self._options.asked_by}."
        first = first_notice(self._models, self._options.share, home.journal, home.history)
        self.ordinal = home.journal.begin_turn(
            self.run_id,
            notebook=home.history,
            cell_key=self._cell_key,
            request=request,
            model=self._model_name,
        )
        try:
            back = home.past.replace_runs(self._context.runs_of_cell)
            context, told = self._context.opening(request, back.removed)
            state = self._state(agent, request, context)
            notices = (home.news, home.journal.news(), asked_by, first, self._trouble)
            started = self._started(
                state,
                request=request,
                shared=told,
                notice=" ".join(filter(None, notices)),
                replaced=(*back.restored, *back.removed),
            )
            state.begun = digest_of(started)
            home.journal.append(self.run_id, started)
        except BaseException:
            with suppress(SessionError):
                home.journal.end_turn(self.run_id, "cancelled")
            raise
        home.news = ""
        return started, state

    def go_on(self, answer: str, choice: str, begun: ev.RunStarted, agent: Agent) -> Start:
        """Resume the turn from its question.

        Args:
            answer: The person's answer.
            choice: The id of the chosen option; empty for free text.
            begun: The turn's first ``RunStarted``.

        Raises:
            SessionError: The suspension record is rejected; nothing has run.
        """
        assert self._asked is not None
        home, record = self._home, self._asked.record
        gone, _ = home.differences(record)
        try:
            state = admit(
                agent,
                record,
                answer,
                code_executor=home.executor,
                cancellation=self.cancellation,
                max_suspension_age_s=GRACE_S,
            )
        except ValueError as exc:
            raise SessionError(sentence(str(exc))) from exc
        is_allowed = state.pending_call is not None and state.pending_call.allowed
        if is_allowed and (lost := home.lost(record)):
            raise SessionError(f"Not run. {lost}")
        started = self._started(
            state,
            request=self._asked.turn.request,
            reply=self._secrets.clean(answer),
            choice=choice,
            gone=gone if self._options.share is not Share.none else (),
            shared=self._context.instructed(begun),
        )
        if not home.journal.resume_turn(record.nonce, started):
            raise SessionError("This question was answered elsewhere meanwhile.")
        if not self._is_reader and record.pending_call is None:
            home.answers[record.pending_question] = answer
        return started, state

    def preview(self, request: str) -> tuple[Agent, RunState]:
        """Return the agent and first state of such a turn. Nothing is written or undone."""
        agent, request = self._agent(), self._secrets.clean(request)
        return agent, self._state(agent, request, self._context.opening(request)[0])

    def _agent(self) -> Agent:
        """Build the agent from the notebook's current tools, instructions and procedure."""
        home, chosen = self._home, self._options
        own = tools_told(home.tools.added(), chosen.share)

        def scope() -> RunScope:  # the turn gets its number when it begins
            return RunScope(self.run_id, home.notebook, self._cell_key, self.ordinal)

        seen: set[LiveName] = set(self._asked.record.minted_live_names if self._asked else ())
        tools = home.tools.of_run(scope, self._guardrails, self._emitted.append, seen) + own
        playbook = home.tools.playbook(chosen.procedure, tools)
        self._own_tools = frozenset(own)
        # Looked at before the turn begins: if they can't be read, nothing is replaced or answered.
        self._has_artifacts = bool(home.artifacts())
        written = (each.block for each in self._context.instructions)
        return Agent(
            model_config=self._models,
            code_executor=home.executor,
            guardrails=self._guardrails,
            session_id=home.session_id,
            keyring=home.keyring,
            workspace=str(home.workspace),
            tools=tools,
            instructions="\n\n".join((INSTRUCTIONS, *written)),
            hooks=self,
            clock=home.clock,
            **vars(playbook),
        )

    def _state(self, agent: Agent, request: str, context: AgentContext) -> RunState:
        stop = self.cancellation
        return agent.start(request, ctx=context, run_id=self.run_id, cancellation=stop)

    def _started(self, state: RunState, **told: Any) -> ev.RunStarted:
        """Build the event with which the turn starts or goes on: options, limits and ``told``."""
        return ev.RunStarted(
            run_id=self.run_id,
            model=self._model_name,
            instructions={each.path: each.sha for each in self._context.instructions},
            **self._options.on_record(state),
            **told,
        )

    async def _follow(self, started: ev.RunStarted, stream: Events) -> Events:
        """Yield ``started``, already journalled, then ``stream``; record how the turn ended.

        Each event of ``stream`` is journalled before it is yielded.
        """
        home, stop = self._home, self.cancellation
        log = EventWriter(home.journal, self.run_id, self._secrets)
        observer = tracing.observer(home.clock, provider_of)
        trace = observer.observe if observer else lambda event: None
        ended = ran = False
        with stop_on_sigint(stop):
            try:
                trace(started)
                yield started
                async with aclosing(stream):
                    async for event in stream:
                        # Once work has begun, answering again must not repeat it.
                        ran = ran or _is_work(event, started.gone)
                        waits_on = None if ran or not _came_to_nothing(event) else self._asked
                        if waits_on and isinstance(event, ev.Handoff):
                            steps = (*event.suggested_next_steps, _ASK_AGAIN)
                            event = event.model_copy(update={"suggested_next_steps": steps})
                        if isinstance(event, ev.UserInputRequested):
                            home.journal.suspend(event.suspension_record)
                        log.write(event)
                        if ev.is_terminal(event):
                            ended = True
                            log.end(event)
                        if waits_on:
                            home.journal.reopen(waits_on.record.nonce)
                            asked = waits_on.record.pending_question
                            home.journal.end_turn(self.run_id, "suspended", asked)
                        if isinstance(event, ev.RunCompleted):
                            home.past.changes.settle(self._context.runs_of_cell - {self.run_id})
                        trace(event)
                        yield event
            except CassetteMiss:
                stop.set("the recording has no answer to this request")
                raise
            finally:
                if not ended:
                    # The consumer went away, its task was cancelled, or the journal failed:
                    # record the cancellation if the journal still accepts it.
                    stop.set(CONSUMER_GONE)
                    cut_short = ev.RunCancelled(reason=stop.reason)
                    trace(cut_short)
                    with suppress(SessionError):
                        log.write(cut_short)
                    with suppress(SessionError):
                        home.journal.end_turn(self.run_id, "cancelled")

    # -- the hooks of its run

    def secrets(self, context: RunContext) -> Secrets:
        return self._secrets

    def offered(self, tools: Tools) -> Tools:
        if self._has_artifacts:
            return tools
        return Tools(each for each in tools.values() if each.name not in _OF_ARTIFACTS)

    def drain(self) -> list[ev.AgentEvent]:
        emitted = self._emitted.copy()
        self._emitted.clear()
        return emitted

    def stages(self, state: RunState) -> tuple[Stage, ...]:
        return (self._publishing_no_secret,)

    def approvals(self, state: RunState) -> Approving:
        executor, granted = self._home.executor, self._granted
        workspace = self._home.workspace.resolve()
        # A host whose full URL the person has written in this turn counts as approved. Messages of
        # earlier turns hold a model's code as well.
        words = persons_words(split_at_request(state.messages)[1])
        granted.targets.update((ReachKind.network, host) for host in _ADDRESS.findall(words))
        mode = self._options.approve
        if mode is Approval.guarded and not executor.is_watched:
            mode = Approval.ask

        def reaches(code: str) -> tuple[Reach, ...]:
            """Return the effects outside the workspace that static analysis finds in ``code``."""
            folder = self._home.folder.resolve()
            namespace = executor.variables()
            is_watched = executor.is_watched
            return preview(
                code, workspace=workspace, folder=folder, namespace=namespace, is_watched=is_watched
            )

        return Approving(
            mode,
            reaches,
            workspace if executor.is_watched else None,
            granted,
            self.effects(state),
            self.run_id,
            lambda: "" if (paused := executor.paused) is None else paused.sha,
            lambda attempt: self._holding_none(
                attempt, "the person would be asked about a call with a secret in it"
            ),
        )

    async def kept(self, call: ToolCall, outcome: StepOutcome, state: RunState) -> StepOutcome:
        table = outcome.result.data
        if not outcome.ok or not is_frame(table):
            return outcome
        try:
            published = await asyncio.to_thread(
                self._home.publisher.keep,
                table,
                tool=call.function.name,
                arguments=self._secrets.of_json(arguments_of(call)),
                run_id=self.run_id,
            )
        except (ValueError, StorageError) as exc:
            told = f"It is not kept. {exc}"
        else:
            self._emitted.append(announcement(published.entry, reused=published.reused))
            told = (
                "It is kept whole. In code: import parsimony_kernel, then "
                f"parsimony_kernel.load_dataset({published.ref.logical_id[:SHORT_ID]!r})"
            )
        note = " ".join(filter(None, (outcome.envelope.get("note", ""), told)))
        return replace(outcome, envelope={**outcome.envelope, "note": note})

    def shared(self, call: ToolCall, outcome: StepOutcome) -> StepOutcome:
        code = arguments_of(call).get("code")
        step = Step(call.function.name, code if isinstance(code, str) else "", self._own_tools)
        return shared(outcome, self._options.share, step)

    def pictures(self, outcome: StepOutcome) -> Sequence[FigureObject]:
        return super().pictures(outcome) if self._options.shows_figures else ()

    def shared_names(self, words: str) -> str:
        return _GONE_BACK if words and self._options.share is Share.none else words

    def effects(self, state: RunState) -> Effects:
        return JournalEffects(self._home.journal, self.run_id, self._secrets.of_json)

    def variables(self, state: RunState) -> tuple[str, ...]:
        return bound_by(self._home.executor, {self.run_id})

    def files(self, state: RunState) -> Files | None:
        return self._files

    def ended(self, state: RunState, change: Change | None) -> None:
        replaced = self._files.close()
        if change is not None or replaced:
            self._home.past.changes.add(self.run_id, change, replaced)

    def claim(self, record: SuspensionRecord) -> bool:
        return True  # the journal answers it once, as it records the resumption

    def news_since(self, record: SuspensionRecord) -> Sequence[dict[str, Any]]:
        if self._options.share is Share.none:
            return ()
        gone, changed = self._home.differences(record)
        told = notebook_changes(gone=gone, changed=changed)
        if told is None:
            return ()
        # The newest inventory replaces all earlier ones.
        inventory = snapshot_message(self._context.inventory()[0])
        return [{"role": "user", "content": told}, self._secrets.of_prose(inventory)]

    # Refusals of calls with a secret. A suspended call is sealed with its exact arguments, and an
    # artifact keeps its code: neither can be redacted, so a secret in them is refused, and the
    # model is told where to read it instead. The log of writes is only compared and shown, so it
    # can be redacted.

    def _publishing_no_secret(self, attempt: Attempt) -> Failure | None:
        """Refuse to publish anything whose text or code contains a secret."""
        if attempt.tools[attempt.action].tool_type != "publish":
            return None
        ledger, variable = self._home.executor.origin_ledger, attempt.inputs.get("variable")
        code: list[str] = []
        if isinstance(variable, str):
            code = [origin.code for origin in ledger.ancestry(variable)]
        elif not attempt.inputs.get("code") and "name" in attempt.inputs:
            code = [cell.code for cell in ledger.cell_runs() if cell.run_id == self.run_id]
        is_in_code = any(map(self._secrets.are_in, code))
        what = (
            "the code that would be published with it" if is_in_code else "what would be published"
        )
        return self._holding_none(attempt, f"{what} holds a secret", code)

    def _holding_none(self, attempt: Attempt, why: str, code: Sequence[str] = ()) -> Failure | None:
        """Refuse a call with a secret in its arguments or in ``code``."""
        given = dict(attempt.inputs)
        if self._secrets.of_json(given) == given and not any(map(self._secrets.are_in, code)):
            return None
        return BAD_ARGUMENTS.failure(
            f"{attempt.action}: {why}. Read it from os.environ[…] where it is needed, and never "
            f"write it out; then call {attempt.action} again. Nothing was run.",
            envelope={"reason": why},
        )


@dataclass(eq=False)
class EventWriter:
    """Journal a run's events, redacted by ``secrets``; adjacent text deltas become one event."""

    journal: SqliteJournal
    run_id: str
    secrets: Secrets
    _words: list[str] = field(default_factory=list)

    def write(self, event: ev.AgentEvent) -> None:
        if isinstance(event, ev.TextDelta):
            self._words.append(event.content)
            return
        if self._words:
            words, self._words = "".join(self._words), []
            self.journal.append(self.run_id, ev.TextDelta(content=self.secrets.clean(words)))
        self.journal.append(self.run_id, self.secrets.of_event(event))

    def end(self, event: ev.AgentEvent) -> None:
        """Record the turn's final status and summary from its terminal ``event``."""
        status, words = _ENDS.get(type(event), ("cancelled", "reason"))
        said = getattr(event, words, "")
        self.journal.end_turn(self.run_id, status, self.secrets.clean(said))


def _is_work(event: ev.AgentEvent, gone: Sequence[str]) -> bool:
    """Whether ``event`` is a step or a model's answer that the next answer would repeat.

    Where variables are ``gone`` since the question, saying that it can't go on is none.
    """
    if isinstance(event, ev.ToolEvent):
        return not gone or event.tool_name != "return_unable"
    return isinstance(event, ev.LLMCallCompleted) and not gone


def _came_to_nothing(event: ev.AgentEvent) -> bool:
    """Whether ``event`` is a cancellation or a handoff for a transient failure."""
    failure = event.failure if isinstance(event, ev.Handoff) else None
    return isinstance(event, ev.RunCancelled) or (failure is not None and failure.kind in _PASSING)
