"""What a notebook adds to a run: its claims, its ledger, its tools' events, and what it allows."""

import asyncio
import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from parsimony_kernel.agent.evidence import said
from parsimony_kernel.agent.hooks import RunContext, RunHooks
from parsimony_kernel.agent.prompts import notebook_changes
from parsimony_kernel.artifacts.store import SHORT_ID
from parsimony_kernel.core.calls import arguments_of
from parsimony_kernel.core.causes import BAD_ARGUMENTS
from parsimony_kernel.core.chat import ToolCall
from parsimony_kernel.core.conversation import snapshot_message
from parsimony_kernel.core.effects import Effects, action_sha
from parsimony_kernel.core.events import AgentEvent
from parsimony_kernel.core.kinds import Failure
from parsimony_kernel.core.outputs import FigureObject
from parsimony_kernel.core.reach import Reach, ReachKind
from parsimony_kernel.core.state import RunState, SuspensionRecord
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.execution.frames import is_frame
from parsimony_kernel.gate.approval import Approval, Approving, Granted
from parsimony_kernel.gate.gate import StepOutcome
from parsimony_kernel.gate.preview import preview
from parsimony_kernel.gate.stages import Attempt, Stage
from parsimony_kernel.limits.breaker import Breakers
from parsimony_kernel.lineage.checkpoint import Change
from parsimony_kernel.lineage.files import Files
from parsimony_kernel.lineage.ledger import OriginLedger
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.session.notebook_tools import NotebookTools
from parsimony_kernel.session.past import Changes, bound_by
from parsimony_kernel.session.share import Share, Step, shared
from parsimony_kernel.session.turn_log import Running, TurnLog
from parsimony_kernel.storage.durable import StorageError
from parsimony_kernel.storage.effects import JournalEffects
from parsimony_kernel.toolbox.publish import announcement
from parsimony_kernel.tools import Tools

_LEASE_S = 120.0
# Tools of what is published: a turn that begins where nothing is need not hear of them.
_OF_ARTIFACTS = frozenset({"list_artifacts", "read_artifact", "refresh"})
_ADDRESS = re.compile(r"\bhttps?://(?:[^\s/@]*@)?([\w.-]+\w)")
# What is told of going back where names are kept.
_GONE_BACK = "The variables are as they were before."


@dataclass(eq=False)
class NotebookHooks(RunHooks):
    """What a notebook adds to a run: its journal's claim, its ledger, its tools' events.

    Args:
        running: the turn, with how much it tells its model, what it asks the person about, and what
            no text of it may show.
        toolbox: the tools of the notebook, with what they work in.
        told_inventory: gives what the notebook holds, as the model is told of it.
        has_artifacts: whether anything is published.
        own_tools: the names of the person's tools.
        granted: what was allowed, by run.
    """

    running: Running
    log: TurnLog
    toolbox: NotebookTools
    breakers: Breakers
    tool_breakers: Breakers
    changes: Changes
    told_inventory: Callable[[], str]
    has_artifacts: bool
    own_tools: frozenset[str]
    granted: dict[str, Granted]
    _emitted: list[AgentEvent] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(self.breakers, self.tool_breakers)

    def offered(self, tools: Tools) -> Tools:
        if self.has_artifacts:
            return tools
        return Tools(each for each in tools.values() if each.name not in _OF_ARTIFACTS)

    def emit(self, event: AgentEvent) -> None:
        self._emitted.append(event)

    def drain(self) -> list[AgentEvent]:
        emitted, self._emitted = self._emitted, []
        return emitted

    def stages(self, state: RunState) -> tuple[Stage, ...]:
        def publishing_none(attempt: Attempt) -> Failure | None:
            """Nothing is published whose words or code hold a secret."""
            if attempt.tools[attempt.action].tool_type != "publish":
                return None
            if refused := self._holding_none(attempt, "what would be published holds a secret"):
                return refused
            code = _code(attempt, self.toolbox.executor.origin_ledger, state.run_id)
            if any(map(self.running.secrets.are_in, code)):
                why = "the code that would be published with it holds a secret"
                return _refused(attempt, why)
            return None

        return (publishing_none,)

    def approvals(self, state: RunState) -> Approving:
        executor = self.toolbox.executor
        # A host whose full address the person has given is theirs to be asked.
        addresses = _ADDRESS.findall(said(state.messages))
        self._grants(state).targets.update((ReachKind.network, host) for host in addresses)
        mode = self.running.options.approve
        if mode is Approval.guarded and not executor.is_watched:
            mode = Approval.ask
        return Approving(
            mode,
            self._reaches,
            self.toolbox.workspace.resolve() if executor.is_watched else None,
            self._grants(state),
            self.effects(state),
            state.run_id,
            lambda: "" if (paused := executor.paused) is None else paused.sha,
            functools.partial(
                self._holding_none, why="the person would be asked about a call with a secret in it"
            ),
        )

    async def kept(self, call: ToolCall, outcome: StepOutcome, state: RunState) -> StepOutcome:
        table = outcome.result.data
        if not outcome.ok or not is_frame(table):
            return outcome
        keep = functools.partial(
            self.toolbox.publisher.keep,
            tool=call.function.name,
            arguments=self.running.secrets.of_json(arguments_of(call)),
            run_id=state.run_id,
        )
        try:
            published = await asyncio.to_thread(keep, table)
        except (ValueError, StorageError) as exc:
            said = f"It is not kept. {exc}"
        else:
            self.emit(announcement(published.entry, reused=published.reused))
            said = (
                "It is kept whole. In code: import parsimony_kernel, then "
                f"parsimony_kernel.load_dataset({published.ref.logical_id[:SHORT_ID]!r})"
            )
        note = " ".join(filter(None, (outcome.envelope.get("note", ""), said)))
        return replace(outcome, envelope={**outcome.envelope, "note": note})

    def shared(self, call: ToolCall, outcome: StepOutcome) -> StepOutcome:
        code = arguments_of(call).get("code")
        step = Step(call.function.name, code if isinstance(code, str) else "", self.own_tools)
        return shared(outcome, self.running.options.share, step)

    def pictures(self, outcome: StepOutcome) -> Sequence[FigureObject]:
        return super().pictures(outcome) if self.running.options.shows_figures else ()

    def shared_names(self, words: str) -> str:
        return _GONE_BACK if words and self.running.options.share is Share.none else words

    def secrets(self, context: RunContext) -> Secrets:
        return self.running.secrets

    def effects(self, state: RunState) -> Effects:
        return JournalEffects(
            self.log.journal.database,
            state.run_id,
            self.log.journal.clock,
            told=self._without,
            answered=self.running.secrets.of_json,
        )

    def variables(self, state: RunState) -> tuple[str, ...]:
        return bound_by(self.toolbox.executor, {state.run_id})

    def ended(self, state: RunState, change: Change | None) -> None:
        files = self._grants(state).files
        replaced = () if files is None else files.close()
        if change is not None or replaced:
            self.changes.add(state.run_id, change, replaced)

    def files(self, state: RunState) -> Files | None:
        return self._grants(state).files

    def _grants(self, state: RunState) -> Granted:
        if state.run_id not in self.granted:
            new = self.granted[state.run_id] = Granted()
            new.files = Files(self.toolbox.workspace.resolve(), new.made)
        return self.granted[state.run_id]

    def news_since(self, record: SuspensionRecord) -> Sequence[dict[str, Any]]:
        if self.running.options.share is Share.none:
            return ()
        gone, changed = differences(self.toolbox.executor, record)
        told = notebook_changes(gone=self._told(gone, record), changed=self._told(changed, record))
        if told is None:
            return ()
        # The newest inventory takes the place of every earlier one.
        inventory = snapshot_message(self.told_inventory())
        return [{"role": "user", "content": told}, self.running.secrets.of_prose(inventory)]

    def claim(self, record: SuspensionRecord) -> bool:
        return self.log.journal.claim(record.nonce, self.log.owner, _LEASE_S)

    def _told(self, names: tuple[str, ...], record: SuspensionRecord) -> Iterator[str]:
        """Those of ``names`` that the model was told of, or has used."""
        chosen = self.running.options.context
        used = "" if chosen is None else json.dumps(record.messages, ensure_ascii=False)
        for name in names:
            if chosen is None or name in chosen or re.search(rf"\b{re.escape(name)}\b", used):
                yield name

    # What may not be put before a person or on the disk with a secret in it. A call that waits is
    # sealed with its exact arguments, and what is published keeps its code: neither can be
    # cleaned, so a secret in them is refused. The model is told where to read it instead. The
    # record of writes is only compared and told, so it can be.

    def _holding_none(self, attempt: Attempt, why: str) -> Failure | None:
        given = dict(attempt.inputs)
        return None if self.running.secrets.of_json(given) == given else _refused(attempt, why)

    def _without(self, action: str, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The inputs of a write as they are put down. Of those that hold a secret a hash is put
        down too, so that another write stays another."""
        told = self.running.secrets.of_json(dict(inputs))
        return inputs if told == inputs else {**told, "": action_sha(action, inputs)}

    def _reaches(self, code: str) -> tuple[Reach, ...]:
        """What ``code`` would plainly do outside this notebook's workspace."""
        return preview(
            code,
            workspace=self.toolbox.workspace.resolve(),
            folder=self.toolbox.folder.resolve(),
            namespace=self.toolbox.executor.variables(),
        )


def differences(
    executor: BaseCodeExecutor, record: SuspensionRecord
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names that are gone since the question was asked, and those that mean something else."""
    present = executor.variables()
    ledger = executor.origin_ledger
    gone = tuple(name for name in record.variables if name not in present)
    changed = tuple(
        name
        for name, version in record.variables.items()
        if name in present and ledger.version(name) != version
    )
    return gone, changed


def _code(attempt: Attempt, ledger: OriginLedger, run_id: str) -> list[str]:
    """The cells that publishing would keep beside what it publishes."""
    variable = attempt.inputs.get("variable")
    if isinstance(variable, str):
        return [origin.code for origin in ledger.ancestry(variable)]
    if not attempt.inputs.get("code") and "name" in attempt.inputs:
        return [cell.code for cell in ledger.cell_runs() if cell.run_id == run_id]
    return []


def _refused(attempt: Attempt, why: str) -> Failure:
    return BAD_ARGUMENTS.failure(
        f"{attempt.action}: {why}. Read it from os.environ[…] where it is needed, and never write "
        f"it out; then call {attempt.action} again. Nothing was run.",
        envelope={"reason": why},
    )
