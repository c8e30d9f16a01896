"""Looking after what a workspace has published, without its notebooks: verify and refresh."""

from collections.abc import AsyncIterator
from pathlib import Path

from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.refresh import NOT_REFRESHED, Refreshed, refresh_named
from parsimony_kernel.artifacts.store import ArtifactStore, reference
from parsimony_kernel.artifacts.verify import Verification, verify
from parsimony_kernel.durable import StorageError
from parsimony_kernel.execution.clean import clean_executor
from parsimony_kernel.execution.remote_kernel import RemoteKernelError
from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.journal.workspace import find_workspace

# The foreseen ways in which an artifact cannot be made again.
TROUBLE = (*NOT_REFRESHED, StorageError, RemoteKernelError)


def store_of(folder: Path) -> ArtifactStore:
    """The artifacts of the workspace that ``folder`` is in."""
    return ArtifactStore(find_workspace(folder))


def verify_in(folder: Path, *, quarantine: bool = True) -> Verification:
    """Look at everything that is published there; see ``artifacts.verify``."""
    return verify(store_of(folder), quarantine=quarantine)


async def refresh_in(
    folder: Path, names: list[str], *, accept: bool = False
) -> AsyncIterator[tuple[str, Refreshed | Exception]]:
    """Refresh artifacts by name, or without names all that code has made, one after the other.

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
            yield name, await refresh_named(publisher, words, clean_executor, accept=accept)
        except TROUBLE as exc:
            yield name, exc
