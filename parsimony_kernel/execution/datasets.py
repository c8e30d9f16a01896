"""Published datasets, read back by name.

The bytes are read through ``artifacts.store``, which verifies their digest; the snapshot is then
a source of what is made of them.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from parsimony_kernel.artifacts.codecs import decode_dataset
from parsimony_kernel.artifacts.store import ArtifactStore, LogEntry
from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.storage.workspace import find_workspace

_TABLES = frozenset({"dataset", "data_object"})


def load_dataset(name: str) -> Any:
    """A published dataset as a pandas ``DataFrame``.

    Args:
        name: its title, the variable that was published, its live name, its logical id or the
            first six characters of it, for the newest snapshot; or the path of a snapshot, in the
            workspace or from here.

    Raises:
        LookupError: no dataset is called so, or several are; the near ones are named.
        SnapshotError: the snapshot is missing, or is not what was published.
    """
    store = _Tables(find_workspace(Path.cwd()))
    entry = store.find(_in_workspace(str(name), store.root))
    return decode_dataset(store.read(entry.ref))


def live_names(sources: Iterable[str], folder: Path) -> set[tuple[str, str]]:
    """The kinds and live names of the published tables among ``sources``, which are relative to
    ``folder``."""
    inside = [source for source in sources if ARTIFACT_FOLDER in Path(source).parts]
    if not inside:
        return set()
    store = ArtifactStore(find_workspace(folder))
    found = set()
    for source in inside:
        with suppress(LookupError):
            entry = store.find(_in_workspace(str(folder / source), store.root))
            found.add((entry.kind, entry.live_name))
    return {(kind, name) for kind, name in found if name}


class _Tables(ArtifactStore):
    """A workspace of which only the tables are seen: a chart may have the same title."""

    def list(self) -> tuple[LogEntry, ...]:
        return tuple(entry for entry in super().list() if entry.kind in _TABLES)


def _in_workspace(name: str, root: Path) -> str:
    """The path of a snapshot as the workspace has it; any other name as it is."""
    try:
        inside = Path(os.path.normpath(Path(name).absolute())).relative_to(root)
    except ValueError:
        return name
    return inside.as_posix() if inside.parts[:1] == (ARTIFACT_FOLDER,) else name
