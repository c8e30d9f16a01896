"""What all turns of a notebook share: workspace, journal, artifacts, tools, executor, model."""

import os
import uuid
from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import cast

from parsimony_kernel.analysis.read import read
from parsimony_kernel.artifacts.places import place_of
from parsimony_kernel.artifacts.publish import PAGES, Publisher
from parsimony_kernel.artifacts.store import ArtifactStore, LogEntry
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.chat import OFFLINE, ChatModel
from parsimony_kernel.core.clock import SYSTEM_CLOCK, Clock
from parsimony_kernel.core.events import AgentEvent, RunStarted
from parsimony_kernel.core.state import SuspensionRecord
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.gate.approval import Granted
from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.limits.breaker import Breakers, breakers_for
from parsimony_kernel.session.notebook_identity import adopt, history_name, name_in, plain_name
from parsimony_kernel.session.notebook_tools import NotebookTools
from parsimony_kernel.session.past import Past
from parsimony_kernel.session.turn_models import Cassettes
from parsimony_kernel.session.turn_values import SessionError, held_lines
from parsimony_kernel.storage.durable import sweep_temporary
from parsimony_kernel.storage.journal import SqliteJournal, TurnRow
from parsimony_kernel.storage.keyring import Keyring
from parsimony_kernel.storage.workspace import find_workspace, journal_path
from parsimony_kernel.toolbox.mcp_client import Servers


class Home:
    """The base of ``NotebookSession``: what its turns share.

    Args:
        executor: Runs the code of turns.
        notebook: The notebook's file name in ``folder``.
        folder: The notebook's folder.
        model: The model; else ``PARSIMONY_MODEL``, else the built-in model (no LLM).
        environ: Environment variables.
        clock: The clock.
        connection_file: Connection file of the kernel in which turns run, if any.

    Attributes:
        running: The cancellation token of the running turn, if any.
        news: Text shown first in the record of the next turn.
        granted: Approvals by run id, kept because a question may be answered much later.
        answers: Answers given to the built-in model, by question, which it reuses until a reset.

    Raises:
        SessionError: The workspace's journal or the key folder can't be written.
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
        self.executor, self.folder, self.clock, path = executor, folder, clock, folder / notebook
        self.workspace = find_workspace(folder, environ)
        self.history = history_name(name_in(self.workspace, path))
        self.notebook = plain_name(self.history)
        # The notebook's model settings override the environment.
        self.environ = ChainMap[str, str]({}, cast(MutableMapping[str, str], environ))
        model = model or environ.get("PARSIMONY_MODEL", "").strip() or OFFLINE
        self._model = self._first_model = model
        self._cassettes = Cassettes(self.notebook, folder, self.environ)
        self.keyring = Keyring(clock=clock)
        self.journal = SqliteJournal(journal_path(self.workspace), clock, keyring=self.keyring)
        self.journal.connection_file = connection_file
        self.news = adopt(self.journal, self.workspace, path)
        self.journal.abandon_running(self.history)
        place = place_of(self.workspace, environ)
        self.store = ArtifactStore(self.workspace, self.journal.witness, place)
        for written in (self.workspace / ARTIFACT_FOLDER, self.workspace / PAGES):
            sweep_temporary(written, clock=clock)
        self.publisher = Publisher(
            self.store, notebook_path=self.notebook, clock=clock, folder=folder
        )
        self.session_id = uuid.uuid4().hex
        # The same tool name may be another function elsewhere, so these breakers aren't shared.
        self.tool_breakers = Breakers(clock)
        self.breakers = breakers_for(environ, self.journal, clock)
        self.granted: dict[str, Granted] = {}
        self.answers: dict[str, str] = {}
        self.running: CancellationRequest | None = None
        servers = Servers(folder, self.workspace, self.environ)
        free = self.must_be_free
        self.past = Past(executor, self.journal, self.history, must_be_free=free)
        self.tools = NotebookTools(executor, self.publisher, folder, servers, free)

    def must_be_free(self) -> None:
        """Raise ``SessionError`` while a turn runs."""
        if self.running is not None:
            raise SessionError(
                "A turn is still running in this notebook. Wait for it, or stop it with the Stop "
                "button or %agent stop."
            )

    def turns(self, notebook: str = "") -> tuple[TurnRow, ...]:
        """Return the turns of this notebook, or of another in the workspace, oldest first."""
        return self.journal.turns(notebook or self.history)

    def events(self, turn_id: str) -> tuple[AgentEvent, ...]:
        """Return a turn's events from the journal."""
        return self.journal.events(turn_id)

    def beginning_of(self, run_id: str) -> RunStarted | None:
        """Return a turn's first ``RunStarted``, if it is in the journal."""
        return next((each for each in self.events(run_id) if isinstance(each, RunStarted)), None)

    def differences(self, record: SuspensionRecord) -> tuple[list[str], list[str]]:
        """Return the names removed, and those rebound, since the question was asked."""
        asked, present = record.variables, self.executor.variables()
        version = self.executor.origin_ledger.version
        gone = [name for name in asked if name not in present]
        changed = [name for name in asked if name in present and version(name) != asked[name]]
        return gone, changed

    def lost(self, record: SuspensionRecord) -> str:
        """Say which variables the held code reads that are gone meanwhile; empty without any.

        The turn itself makes its own again.
        """
        gone, _ = self.differences(record)
        events, code = self.events(record.run_id), "\n".join(held_lines(record.pending_call))
        own = {name for event in events for name in getattr(event, "variables", ())}
        needed = read(code).reads - own if gone and record.pending_call else frozenset()
        names = " and ".join(repr(name) for name in gone if name in needed)
        are, them = ("are", "them") if " and " in names else ("is", "it")
        remedy = f"Run the cell that makes {them} again, then answer."
        return names and f"The code needs {names}, which {are} no longer in the notebook. {remedy}"

    def artifacts(self) -> tuple[LogEntry, ...]:
        """Return the newest visible snapshot of each artifact in the workspace, oldest first.

        Snapshots of forgotten turns are hidden, unless another turn published the same one.
        """

        def visible(entries: Sequence[LogEntry]) -> list[LogEntry]:
            hidden = self.journal.hidden([(each.run_id, each.path) for each in entries])
            return [each for each in entries if (each.run_id, each.path) not in hidden]

        newest = [entry for entry in self.store.list() if entry.kind != "notebook"]
        shown = {entry.ref: [entry] for entry in visible(newest)}
        logs = (
            shown.get(each.ref) or visible(self.store.history(each.kind, each.logical_id))
            for each in newest
        )
        return tuple(log[-1] for log in logs if log)
