"""What the turns of one notebook share: its place, its journal, its tools, what runs its code."""

import uuid
from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Protocol, cast

from parsimony_kernel.artifacts.places import place_of
from parsimony_kernel.artifacts.publish import PAGES, Publisher
from parsimony_kernel.artifacts.store import ArtifactStore, LogEntry
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.clock import Clock
from parsimony_kernel.core.events import RunStarted
from parsimony_kernel.core.state import SuspensionRecord
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.gate.approval import Granted
from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.limits.breaker import Breakers
from parsimony_kernel.limits.redis_store import breakers_for
from parsimony_kernel.session import identity, memory
from parsimony_kernel.session.notebook_tools import NotebookTools
from parsimony_kernel.session.past import Past
from parsimony_kernel.session.turns import SessionError
from parsimony_kernel.storage.durable import sweep_temporary
from parsimony_kernel.storage.keyring import Keyring
from parsimony_kernel.storage.store import JournalBreakers, SqliteJournal, TurnRow, owner_of
from parsimony_kernel.storage.workspace import find_workspace, journal_path
from parsimony_kernel.toolbox.mcp_client import Servers


class Running(Protocol):
    """The turn that runs, as far as others need to know it."""

    ordinal: int
    cancellation: CancellationRequest


class Home:
    """A notebook's place in its workspace. ``NotebookSession`` describes the arguments.

    Attributes:
        running: the turn that runs now.
        news: what the record of the next turn says first.
        granted: what a person has allowed, by run: a question may be answered much later.
        answers: what the built-in model was answered, by its question, until a reset.
        owner: the name that this session claims questions by.
    """

    def __init__(
        self,
        executor: BaseCodeExecutor,
        notebook: str,
        folder: Path,
        environ: Mapping[str, str],
        clock: Clock,
        connection_file: str,
    ) -> None:
        self.executor, self.folder, self.clock = executor, folder, clock
        self.workspace = find_workspace(folder, environ)
        name = identity.name_in(self.workspace, folder / notebook)
        self.history = identity.history_name(name)
        self.notebook = identity.plain_name(self.history)
        # What the notebook sets for models stands before the environment.
        self.environ = ChainMap[str, str]({}, cast(MutableMapping[str, str], environ))
        self.keyring = Keyring.open(None, environ, clock)
        self.journal = SqliteJournal(journal_path(self.workspace), clock, keyring=self.keyring)
        self.news = identity.adopt(self.journal, self.workspace, folder / notebook)
        self.journal.abandon_running(self.history)
        place = place_of(self.workspace, environ)
        self.store = ArtifactStore(self.workspace, self.journal.witness, place)
        for written in (self.workspace / ARTIFACT_FOLDER, self.workspace / PAGES):
            sweep_temporary(written, clock=clock)
        self.publisher = Publisher(
            self.store, notebook_path=self.notebook, clock=clock, folder=folder
        )
        self.connection_file = connection_file
        self.session_id = uuid.uuid4().hex
        self.owner = owner_of(self.session_id)
        # A tool's name is another function in another notebook, so its breakers are the notebook's.
        self.tool_breakers = Breakers(clock)
        self.breakers = breakers_for(environ, JournalBreakers(self.journal, clock), clock)
        self.granted: dict[str, Granted] = {}
        self.answers: dict[str, str] = {}
        self.running: Running | None = None
        servers = Servers(folder, self.workspace, self.environ)
        self.tools = NotebookTools(executor, self.publisher, folder, servers, self.must_be_free)
        self.past = Past(executor, self.journal, self.history, must_be_free=self.must_be_free)

    def must_be_free(self) -> None:
        """Raise ``SessionError`` while a turn runs."""
        if self.running is not None:
            raise SessionError(
                f"Turn {self.running.ordinal} is still running in this notebook. Wait for it, or "
                "stop it with the Stop button or %agent stop."
            )

    def turns(self) -> tuple[TurnRow, ...]:
        """This notebook's turns, oldest first."""
        return self.journal.turns(self.history)

    def runs_of(self, cell_key: str) -> frozenset[str]:
        """The ids of the turns of a cell."""
        return frozenset(row.run_id for row in self.turns() if row.cell_key == cell_key)

    def beginning_of(self, run_id: str) -> RunStarted | None:
        """How a turn began."""
        events = self.journal.events(run_id)
        return next((event for event in events if isinstance(event, RunStarted)), None)

    def artifacts(self) -> tuple[LogEntry, ...]:
        """What is published in the workspace, newest snapshot of each, oldest first."""
        return memory.published(self.store, self.journal)

    def wait_on(self, record: SuspensionRecord) -> None:
        """Let a question wait again whose answer came to nothing."""
        if self.journal.reopen(record.nonce, self.owner):
            self.journal.end_turn(record.run_id, "suspended", record.pending_question)
