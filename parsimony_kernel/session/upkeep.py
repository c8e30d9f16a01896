"""Looking after a workspace without its notebooks: verify, refresh, and forgetting what is old."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from uuid import uuid4

from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.refresh import NOT_REFRESHED, Refreshed, refresh_named
from parsimony_kernel.artifacts.store import ArtifactStore, reference
from parsimony_kernel.artifacts.verify import Verification, verify
from parsimony_kernel.core.effects import Effects, MemoryEffects
from parsimony_kernel.execution.clean import clean_executor
from parsimony_kernel.execution.permit import Permit, permitting
from parsimony_kernel.execution.remote_kernel import RemoteKernelError
from parsimony_kernel.gate.approval import on_record
from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.session.audit import journal_of
from parsimony_kernel.session.turn_log import MAX_QUESTION_AGE_S, abandon_cut_off
from parsimony_kernel.storage import durable
from parsimony_kernel.storage.durable import StorageError
from parsimony_kernel.storage.effects import JournalEffects
from parsimony_kernel.storage.purge import Purged, old_copies, purge
from parsimony_kernel.storage.workspace import find_workspace, journal_path
from parsimony_kernel.toolbox.refresh import watched

# The foreseen ways in which an artifact cannot be made again.
TROUBLE = (*NOT_REFRESHED, StorageError, RemoteKernelError)


def store_of(folder: Path) -> ArtifactStore:
    """The artifacts of the workspace that ``folder`` is in."""
    return ArtifactStore(find_workspace(folder))


def verify_in(folder: Path, *, quarantine: bool = True) -> Verification:
    """Look at everything that is published there; see ``artifacts.verify``."""
    return verify(store_of(folder), quarantine=quarantine)


async def refresh_watched(
    publisher: Publisher, words: str, effects: Effects, *, accept: bool, allow: bool
) -> Refreshed:
    """Refresh an artifact; its code is stopped before it reaches outside, unless ``allow``.

    What leaves then is put down in ``effects`` before it does. Raises what ``refresh_named`` does.
    """
    leaving, ended = on_record(effects, f"refresh:{uuid4().hex}")
    permit = Permit(publisher.store.root, lambda reach, lines: allow, leaving=leaving, ended=ended)
    with permitting(permit):
        return await refresh_named(
            publisher, words, partial(watched, clean_executor), accept=accept
        )


async def refresh_in(
    folder: Path, names: list[str], *, accept: bool = False, allow: bool = False
) -> AsyncIterator[tuple[str, Refreshed | Exception]]:
    """Refresh artifacts by name, or without names all that code has made, one after the other.

    Args:
        accept: publish what comes out although it is another.
        allow: let the code reach outside, on record where there is a journal.

    Gives for each its name and what was found, or which of ``TROUBLE`` stood in the way.
    """
    store = store_of(folder)
    wanted = [(name, name) for name in names]
    if not wanted:
        try:
            made = [entry for entry in store.list() if entry.kind in ("dataset", "chart")]
        except StorageError as exc:
            yield ARTIFACT_FOLDER, exc
            return
        # By what names one snapshot: titles and variables may name several artifacts.
        wanted = [(entry.name, reference(entry.ref)) for entry in made]
    for name, words in wanted:
        try:
            notebook = store.find(words).notebook
            publisher = Publisher(store, notebook_path=notebook or "notebook.ipynb")
            with effects_in(folder) as effects:
                done = await refresh_watched(publisher, words, effects, accept=accept, allow=allow)
            yield name, done
        except TROUBLE as exc:
            yield name, exc


@contextmanager
def effects_in(folder: Path) -> Iterator[Effects]:
    """The record of what left the notebooks of the workspace; where it has no journal, none."""
    if not journal_path(find_workspace(folder)).is_file():
        yield MemoryEffects()
        return
    with journal_of(folder, writes=True) as journal:
        yield JournalEffects(journal.database, "refresh")


@dataclass(frozen=True)
class Forgotten:
    """What was forgotten: turns of the journal, and files that were kept when another took their
    place."""

    purged: Purged
    copies: int
    copied_bytes: int


def forget_in(folder: Path, before: datetime, *, dry_run: bool) -> Forgotten:
    """Forget the turns that ended before then, and the replaced and quarantined files of before.

    Published artifacts stay. With ``dry_run`` all of it is only counted.

    Raises:
        JournalError: there is no journal, or it cannot be written.
        StorageError: a file cannot be deleted.
    """
    with journal_of(folder, writes=not dry_run) as journal:
        if not dry_run:
            for notebook in journal.notebook_names():
                abandon_cut_off(journal, notebook)
        purged = purge(journal, before, dry_run=dry_run, answerable_s=MAX_QUESTION_AGE_S)
    copies = old_copies(find_workspace(folder), before)
    size = sum(path.stat().st_size for path in copies)
    if not dry_run:
        for path in copies:
            durable.remove(path)
    return Forgotten(purged, len(copies), size)
