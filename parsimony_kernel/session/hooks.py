"""What a notebook adds to a run: its claims, its ledger, its tools' events, and what it allows."""

import asyncio
import functools
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from parsimony_kernel.agent.evidence import said
from parsimony_kernel.agent.hooks import RunContext, RunHooks
from parsimony_kernel.agent.prompts import notebook_changes
from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.store import SHORT_ID
from parsimony_kernel.core.calls import arguments_of
from parsimony_kernel.core.chat import Completion, ToolCall
from parsimony_kernel.core.clock import Clock
from parsimony_kernel.core.effects import Effects
from parsimony_kernel.core.events import AgentEvent, LLMCallCompleted
from parsimony_kernel.core.outputs import FigureObject
from parsimony_kernel.core.reach import Reach, ReachKind
from parsimony_kernel.core.state import RunState, SuspensionRecord
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.execution.frames import is_frame
from parsimony_kernel.gate.approval import Approval, Approving, Granted
from parsimony_kernel.gate.gate import StepOutcome
from parsimony_kernel.gate.preview import preview
from parsimony_kernel.gate.stages import Stage
from parsimony_kernel.limits.breaker import Breakers
from parsimony_kernel.lineage.checkpoint import Change
from parsimony_kernel.lineage.files import Files
from parsimony_kernel.llm.secrets import Secrets
from parsimony_kernel.session.changes import Changes
from parsimony_kernel.session.secrets import DiscreetEffects, publishing_none, showing_none
from parsimony_kernel.session.share import Share, Step, shared
from parsimony_kernel.session.turn_log import is_at_work
from parsimony_kernel.storage.durable import StorageError
from parsimony_kernel.storage.effects import JournalEffects
from parsimony_kernel.storage.store import SqliteJournal
from parsimony_kernel.toolbox.publish import announcement
from parsimony_kernel.tools import Tools

_LEASE_S = 120.0
# Tools of what is published: a turn that begins where nothing is need not hear of them.
_OF_ARTIFACTS = frozenset(
    {"edit_notebook", "edit_report", "list_artifacts", "read_artifact", "refresh"}
)
# What a request describes of its tools, in bytes, and which give way first where that is too much.
MAX_SCHEMAS = 6 * 1024
_RARE = (
    "dry_execute_code",
    "edit_notebook",
    "restart_kernel",
    "list_artifacts",
    "return_notebook",
    "edit_report",
)
_ADDRESS = re.compile(r"\bhttps?://(?:[^\s/@]*@)?([\w.-]+\w)")
# What is told of going back where names are kept.
_GONE_BACK = "The variables are as they were before."


@dataclass(frozen=True)
class NotebookPlace:
    """Where a notebook's runs happen."""

    workspace: Path
    folder: Path
    executor: BaseCodeExecutor
    journal: SqliteJournal
    clock: Clock


@dataclass(frozen=True)
class Sharing:
    """What of a notebook a run tells its model: how much, of what, and which tools are the
    person's own. ``chosen`` is ``None`` for everything; ``figures`` are shown as they are drawn
    where first rows are told, too."""

    share: Share = Share.samples
    chosen: tuple[str, ...] | None = None
    figures: bool = False
    own_tools: frozenset[str] = frozenset()

    @property
    def shows_figures(self) -> bool:
        """Whether a model that sees gets the pictures of charts."""
        return self.share is Share.full or (self.figures and self.share is Share.samples)


class NotebookHooks(RunHooks):
    """What a notebook adds to a run: its journal's claim, its ledger, its tools' events."""

    def __init__(
        self,
        place: NotebookPlace,
        breakers: Breakers,
        tool_breakers: Breakers,
        approval: Approval,
        owner: str,
        changes: Changes,
        secrets: Secrets,
        sharing: Sharing = Sharing(),
        inventory: Callable[[], str | None] = lambda: None,
        publisher: Publisher | None = None,
        has_artifacts: bool = True,
        granted: dict[str, Granted] | None = None,
    ) -> None:
        super().__init__(breakers, tool_breakers)
        self._sharing = sharing
        self._place = place
        self._approval = approval
        self._owner = owner
        self._changes = changes
        self._secrets = secrets
        self._inventory = inventory
        self._publisher = publisher
        self._has_artifacts = has_artifacts
        self._granted = {} if granted is None else granted
        self._emitted: list[AgentEvent] = []

    def offered(self, tools: Tools) -> Tools:
        left_out = set() if self._has_artifacts else set(_OF_ARTIFACTS)
        for rare in _RARE:
            told = [each for each in tools.values() if each.name not in left_out]
            if len(json.dumps([each.to_llm() for each in told], ensure_ascii=False)) <= MAX_SCHEMAS:
                break
            left_out.add(rare)
        return Tools(each for each in tools.values() if each.name not in left_out)

    def emit(self, event: AgentEvent) -> None:
        self._emitted.append(event)

    def heard(self, answer: Completion) -> None:
        """Tell of what a model answered beside the run."""
        self.emit(
            LLMCallCompleted(
                model=answer.model,
                prompt_tokens=answer.usage.prompt_tokens,
                completion_tokens=answer.usage.completion_tokens,
                cost_usd=answer.cost_usd,
                finish_reason=answer.choices[0].finish_reason if answer.choices else None,
            )
        )

    def drain(self) -> list[AgentEvent]:
        emitted, self._emitted = self._emitted, []
        return emitted

    def stages(self, state: RunState) -> tuple[Stage, ...]:
        ledger = self._place.executor.origin_ledger
        return (publishing_none(self._secrets, ledger, state.run_id),)

    def approvals(self, state: RunState) -> Approving:
        executor = self._place.executor
        # A host whose full address the person has given is theirs to be asked.
        addresses = _ADDRESS.findall(said(state.messages))
        self._grants(state).targets.update((ReachKind.network, host) for host in addresses)
        return Approving(
            self._approval,
            self._reaches,
            self._place.workspace.resolve() if executor.is_watched else None,
            self._grants(state),
            self.effects(state),
            state.run_id,
            lambda: "" if (paused := executor.paused) is None else paused.sha,
            showing_none(self._secrets),
        )

    async def kept(self, call: ToolCall, outcome: StepOutcome, state: RunState) -> StepOutcome:
        table = outcome.result.data
        if self._publisher is None or not outcome.ok or not is_frame(table):
            return outcome
        keep = functools.partial(
            self._publisher.keep,
            tool=call.function.name,
            arguments=self._secrets.of_json(arguments_of(call)),
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
        step = Step(
            call.function.name,
            code if isinstance(code, str) else "",
            self._sharing.own_tools,
        )
        return shared(outcome, self._sharing.share, step)

    def pictures(self, outcome: StepOutcome) -> Sequence[FigureObject]:
        return super().pictures(outcome) if self._sharing.shows_figures else ()

    def shared_names(self, words: str) -> str:
        return _GONE_BACK if words and self._sharing.share is Share.none else words

    def secrets(self, context: RunContext) -> Secrets:
        return self._secrets

    def effects(self, state: RunState) -> Effects:
        database = self._place.journal.database
        effects = JournalEffects(database, state.run_id, self._place.clock)
        return DiscreetEffects(effects, self._secrets)

    def variables(self, state: RunState) -> tuple[str, ...]:
        ledger = self._place.executor.origin_ledger
        return tuple(
            name
            for name in self._place.executor.variables()
            if (origin := ledger.get(name)) is not None and origin.run_id == state.run_id
        )

    def ended(self, state: RunState, change: Change | None) -> None:
        files = self._grants(state).files
        replaced = () if files is None else files.close()
        if change is not None or replaced:
            self._changes.add(state.run_id, change, replaced)

    def files(self, state: RunState) -> Files | None:
        return self._grants(state).files

    def _grants(self, state: RunState) -> Granted:
        if state.run_id not in self._granted:
            new = self._granted[state.run_id] = Granted()
            new.files = Files(self._place.workspace.resolve(), new.made)
        return self._granted[state.run_id]

    def changes_since(self, record: SuspensionRecord) -> str | None:
        if self._sharing.share is Share.none:
            return None
        gone, changed = differences(self._place.executor, record)
        return notebook_changes(gone=self._told(gone, record), changed=self._told(changed, record))

    def inventory(self) -> str | None:
        return self._inventory()

    def claim(self, record: SuspensionRecord) -> bool:
        return self._place.journal.claim(record.nonce, self._owner, _LEASE_S, is_at_work)

    def _told(self, names: tuple[str, ...], record: SuspensionRecord) -> Iterator[str]:
        """Those of ``names`` that the model was told of, or has used."""
        chosen = self._sharing.chosen
        used = "" if chosen is None else json.dumps(record.messages, ensure_ascii=False)
        for name in names:
            if chosen is None or name in chosen or re.search(rf"\b{re.escape(name)}\b", used):
                yield name

    def _reaches(self, code: str) -> tuple[Reach, ...]:
        """What ``code`` would plainly do outside this notebook's workspace."""
        return preview(
            code,
            workspace=self._place.workspace.resolve(),
            folder=self._place.folder.resolve(),
            namespace=self._place.executor.variables(),
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
