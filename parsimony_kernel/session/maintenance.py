"""Looking after a workspace without its notebooks: its journal, what is published, what is old."""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import cast
from uuid import uuid4

from parsimony_kernel import execution
from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.refresh import Refreshed, RefreshError, refresh_named
from parsimony_kernel.artifacts.store import ArtifactStore, reference
from parsimony_kernel.artifacts.verify import Verification, verify
from parsimony_kernel.core.effects import Effects, MemoryEffects
from parsimony_kernel.core.errors import SessionError
from parsimony_kernel.execution.run_scope import Permit, permitting
from parsimony_kernel.gate.approval import on_record
from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.storage import durable
from parsimony_kernel.storage.database import JournalError
from parsimony_kernel.storage.journal import Purged, SqliteJournal, TurnRow, old_copies, purge
from parsimony_kernel.storage.run_log import JournalEffects
from parsimony_kernel.storage.workspace import find_workspace, journal_path

# What is told of how runs go is told of recent ones.
RECENT_TURNS = 200


# -- the journal


@contextmanager
def journal_of(folder: Path, *, writes: bool = False) -> Iterator[SqliteJournal]:
    """The journal of the workspace that ``folder`` is in.

    On a medium that cannot be written a copy is read, unless the caller ``writes``.

    Raises:
        JournalError: there is none, or it cannot be opened.
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
    """All turns, oldest first; one that says it runs, and whose process is gone, is cancelled."""
    return tuple(
        replace(turn, status="cancelled")
        if turn.status == "running" and not journal.has_process(turn)
        else turn
        for turn in journal.turns()
    )


def verify_in(folder: Path) -> tuple[tuple[int, str] | None, Verification]:
    """The first entry of the journal that was changed or is missing, and what is wrong with it; and
    what was found of everything published, see ``artifacts.verify``.

    A folder with neither is a ``JournalError``.
    """
    store = ArtifactStore(find_workspace(folder))
    if store.place.is_there(ARTIFACT_FOLDER) and not journal_path(store.root).is_file():
        return None, verify(store)
    with journal_of(folder) as journal:
        return journal.verify(), verify(store, journal.witnessed())


def report_of(bad: tuple[int, str] | None, found: Verification) -> list[str]:
    """What a verification has found, a line each: of the journal, then of what is published."""
    if bad is not None:
        number, why = bad
        entry = f"Entry {number} of the journal is the first bad one"
        told = [f"{entry if number else 'The journal cannot be vouched for'}: {why}."]
    elif found.known is None:
        told = ["There is no journal here."]
    else:
        told = [
            "Journal intact: turns, events, questions, writes, requests and the "
            "lines of artifacts' logs, by their chain and its seal."
        ]
    if found.ok:
        known = found.known or 0
        less = f", of which the journal knows {known}" if known < found.lines else ""
        sizes = f"snapshots {found.snapshots}, lines of logs {found.lines}"
        told.append(f"Published files intact: {sizes}{less}.")
    return [*told, *(each.sentence for each in found.findings)]


# -- what is published


async def refresh_watched(
    publisher: Publisher, words: str, effects: Effects, *, accept: bool, allow: bool, trust: bool
) -> Refreshed:
    """Refresh an artifact; its code is stopped before it reaches outside, unless ``allow``.

    Anybody who can write to the workspace can change that code, so the audit hook watches it. What
    leaves is put down in ``effects`` before it does. Raises what ``refresh_named`` does.
    """
    leaving, ended = on_record(effects, f"refresh:{uuid4().hex}", [], [])
    permit = Permit(publisher.store.root, lambda reach, lines: allow, leaving=leaving, ended=ended)
    try:
        with permitting(permit):
            clean = execution.RemoteExecutor
            return await refresh_named(publisher, words, clean, accept=accept, trust=trust)
    except RefreshError as exc:
        if permit.held is None:
            raise
        why = f"The code on record: {permit.held.sentence} It was stopped before that."
        raise RefreshError(f"{why} If you trust the code, add --allow.") from exc


async def refresh_in(
    folder: Path, names: list[str], *, accept: bool, allow: bool, trust: bool
) -> AsyncIterator[tuple[str, Refreshed | Exception]]:
    """Refresh artifacts by name, or without names all that code has made, one after the other.

    Args:
        accept: publish what comes out although it is another.
        allow: let the code reach outside, on record where there is a journal.
        trust: run the code although the workspace isn't trusted.

    Gives for each its name and what was found, or the ``SessionError`` that stood in the way.
    """
    with ExitStack() as stack:
        store, effects = ArtifactStore(find_workspace(folder)), cast(Effects, MemoryEffects())
        if journal_path(store.root).is_file():
            journal = stack.enter_context(journal_of(folder, writes=True))
            store = ArtifactStore(store.root, journal.witness)
            effects = JournalEffects(journal, "refresh")
        # By what names one snapshot: titles and variables may name several artifacts.
        made = () if names else (each for each in store.list() if each.kind in ("dataset", "chart"))
        wanted = [(each, each) for each in names] or [(e.name, reference(e.ref)) for e in made]
        for name, words in wanted:
            try:
                notebook = store.find(words).notebook or "notebook.ipynb"
                publisher = Publisher(store, notebook_path=notebook)
                done = await refresh_watched(
                    publisher, words, effects, accept=accept, allow=allow, trust=trust
                )
                yield name, done
            except SessionError as exc:
                yield name, exc


# -- what is old


def forget_in(folder: Path, before: datetime) -> tuple[Purged, int, int]:
    """Forget the turns that ended before then, and the replaced files of before.

    Published artifacts stay.

    Returns:
        What went of the journal, how many files went, and their bytes.

    Raises:
        JournalError: there is no journal, or it cannot be written.
        StorageError: a file cannot be deleted.
    """
    with journal_of(folder, writes=True) as journal:
        journal.abandon_running()
        purged = purge(journal, before)
    copies = old_copies(find_workspace(folder), before)
    size = sum(path.stat().st_size for path in copies)
    for path in copies:
        durable.remove(path)
    return purged, len(copies), size
