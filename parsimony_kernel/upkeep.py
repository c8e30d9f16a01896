"""Looking after what a workspace has published, without its notebooks: verify and refresh."""

from collections.abc import AsyncIterator
from pathlib import Path

from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.refresh import NOT_REFRESHED, Refreshed, refresh_named
from parsimony_kernel.artifacts.store import ArtifactStore
from parsimony_kernel.artifacts.verify import Verification, verify
from parsimony_kernel.durable import StorageError
from parsimony_kernel.execution.clean import clean_executor
from parsimony_kernel.journal.workspace import find_workspace

# The foreseen ways in which an artifact cannot be made again.
TROUBLE = (*NOT_REFRESHED, StorageError)


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

    Gives for each what was found, or which of ``TROUBLE`` stood in the way.
    """
    store = store_of(folder)
    wanted = names or [
        f"{entry.kind}/{entry.logical_id}"
        for entry in store.list()
        if entry.kind in ("dataset", "chart")
    ]
    for name in wanted:
        try:
            entry = store.find(name)
            publisher = Publisher(store, notebook_path=entry.notebook or "notebook.ipynb")
            yield name, await refresh_named(publisher, name, clean_executor, accept=accept)
        except TROUBLE as exc:
            yield name, exc
