"""Workspace maintenance without a notebook: verify the journal, refresh artifacts, purge turns."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import cast
from uuid import uuid4

from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.refresh import NOT_REFRESHED, Refreshed, refresh_named
from parsimony_kernel.artifacts.store import ArtifactStore, reference
from parsimony_kernel.artifacts.verify import Verification, verify
from parsimony_kernel.core.effects import Effects, MemoryEffects
from parsimony_kernel.core.events import AgentEvent
from parsimony_kernel.execution.clean import clean_executor
from parsimony_kernel.execution.permit import Permit, permitting
from parsimony_kernel.execution.remote_kernel import RemoteKernelError
from parsimony_kernel.gate.approval import on_record
from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.storage import durable
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.durable import StorageError
from parsimony_kernel.storage.effects import JournalEffects
from parsimony_kernel.storage.purge import Purged, old_copies, purge
from parsimony_kernel.storage.store import SqliteJournal, TurnRow
from parsimony_kernel.storage.workspace import find_workspace, journal_path
from parsimony_kernel.toolbox.refresh import watched

# Expected failures of rebuilding an artifact.
TROUBLE = (*NOT_REFRESHED, StorageError, RemoteKernelError)
# Metrics cover this many of the newest turns.
RECENT_TURNS = 200


# -- the journal


@contextmanager
def journal_of(folder: Path, *, writes: bool = False) -> Iterator[SqliteJournal]:
    """Open the journal of the workspace that contains ``folder``.

    On a read-only medium a temporary copy is opened, unless the caller ``writes``.

    Raises:
        JournalError: There is no journal, or it can't be opened.
    """
    path = journal_path(find_workspace(folder))
    if not path.is_file():
        raise JournalError(
            f"There is no journal in {str(folder)!r} or a folder above it. "
            "Name the notebook's folder with --folder."
        )
    with ExitStack() as stack:
        if not writes and not os.access(path.parent, os.W_OK):
            place = Path(stack.enter_context(TemporaryDirectory(prefix="parsimony-")))
            for each in path.parent.glob(f"{path.name}*"):
                copyfile(each, place / each.name)
            path = place / path.name
        yield stack.enter_context(closing(SqliteJournal(path)))


def turns_of(journal: SqliteJournal) -> tuple[TurnRow, ...]:
    """Return all turns, oldest first; running turns of dead processes count as cancelled."""
    return tuple(
        replace(turn, status="cancelled")
        if turn.status == "running" and not journal.has_process(turn)
        else turn
        for turn in journal.turns()
    )


def verify_in(folder: Path) -> tuple[tuple[int, str] | None, Verification]:
    """Verify the journal and the artifacts (see ``artifacts.verify``) of a workspace.

    Returns:
        The first altered or missing journal entry (number, reason) or ``None``, and the artifacts'
        verification.

    Raises:
        JournalError: The folder has neither a journal nor artifacts.
    """
    store = ArtifactStore(find_workspace(folder))
    if store.place.is_there(ARTIFACT_FOLDER) and not journal_path(store.root).is_file():
        return None, verify(store)
    with journal_of(folder) as journal:
        known = journal.witnessed()
        return journal.verify(), verify(store, known)


def report_of(bad: tuple[int, str] | None, found: Verification) -> list[str]:
    """Render a verification, one line per finding; intact parts come first."""
    well, wrong = list[str](), list[str]()
    if bad is None:
        well.append(
            "The journal is as it was written: turns, events, questions, writes, requests and the "
            "lines of artifacts' logs, by their chain and its seal."
        )
    elif not bad[0]:
        wrong.append(f"The journal cannot be vouched for: {bad[1]}.")
    else:
        wrong.append(f"Entry {bad[0]} of the journal is the first bad one: {bad[1]}.")
    if found.ok:
        well.append(
            f"Everything published is as it was written: snapshots {found.snapshots}, "
            f"lines of logs {found.lines}."
        )
    return [*well, *wrong, *(each.sentence for each in found.findings)]


def recent_events(journal: SqliteJournal) -> list[tuple[AgentEvent, ...]]:
    """Return the events of each of the newest ``RECENT_TURNS`` turns."""
    return [journal.events(turn.run_id) for turn in journal.turns()[-RECENT_TURNS:]]


# -- artifacts


async def refresh_watched(
    publisher: Publisher, words: str, effects: Effects, *, accept: bool, allow: bool
) -> Refreshed:
    """Refresh an artifact; unless ``allow``, its code is stopped before it reaches outside.

    Outside effects are logged in ``effects`` before they happen. Raises what ``refresh_named``
    raises.
    """
    leaving, ended = on_record(effects, f"refresh:{uuid4().hex}", [])
    permit = Permit(publisher.store.root, lambda reach, lines: allow, leaving=leaving, ended=ended)
    with permitting(permit):
        clean = partial(watched, clean_executor)
        return await refresh_named(publisher, words, clean, accept=accept)


async def refresh_in(
    folder: Path, names: list[str], *, accept: bool = False, allow: bool = False
) -> AsyncIterator[tuple[str, Refreshed | Exception]]:
    """Refresh artifacts one after the other.

    Args:
        folder: A folder of the workspace.
        names: The artifacts; if empty, all datasets and charts.
        accept: Publish the result even if it differs.
        allow: Let the code reach outside; logged if there is a journal.

    Yields:
        The name of each artifact, and its result or the ``TROUBLE`` exception that prevented it.
    """
    with ExitStack() as stack:
        store, effects = ArtifactStore(find_workspace(folder)), cast(Effects, MemoryEffects())
        if journal_path(store.root).is_file():
            journal = stack.enter_context(journal_of(folder, writes=True))
            store = ArtifactStore(store.root, journal.witness)
            effects = JournalEffects(journal.database, "refresh")
        wanted = [(name, name) for name in names]
        if not wanted:
            try:
                made = [entry for entry in store.list() if entry.kind in ("dataset", "chart")]
            except StorageError as exc:
                yield ARTIFACT_FOLDER, exc
                return
            # By reference, which is unique: titles and variables may name several artifacts.
            wanted = [(entry.name, reference(entry.ref)) for entry in made]
        for name, words in wanted:
            try:
                notebook = store.find(words).notebook or "notebook.ipynb"
                publisher = Publisher(store, notebook_path=notebook)
                done = await refresh_watched(publisher, words, effects, accept=accept, allow=allow)
                yield name, done
            except TROUBLE as exc:
                yield name, exc


# -- purging


def forget_in(folder: Path, before: datetime, *, dry_run: bool) -> tuple[Purged, int, int]:
    """Purge turns that ended before ``before``, and older copies of replaced files.

    Published artifacts stay. With ``dry_run`` everything is only counted.

    Returns:
        The purged part of the journal, the number of deleted files, and their bytes.

    Raises:
        JournalError: There is no journal, or it can't be written.
        StorageError: A file can't be deleted.
    """
    with journal_of(folder, writes=not dry_run) as journal:
        if not dry_run:
            for notebook in journal.notebook_names():
                journal.abandon_running(notebook)
        purged = purge(journal, before, dry_run=dry_run)
    copies = old_copies(find_workspace(folder), before)
    size = sum(path.stat().st_size for path in copies)
    if not dry_run:
        for path in copies:
            durable.remove(path)
    return purged, len(copies), size
