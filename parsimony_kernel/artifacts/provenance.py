"""Provenance of a snapshot: its producing code, its sources and its environment."""

import hashlib
import platform
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from parsimony_kernel.artifacts.store import SourceFile
from parsimony_kernel.lineage.file_access import SourceState, source_state
from parsimony_kernel.lineage.ledger import VariableOrigin

MAX_HASHED_BYTES = 200 * 1024 * 1024
_LIBRARIES = ("pandas", "pyarrow", "altair", "numpy")


@cache
def environment(libraries: Sequence[str] = _LIBRARIES) -> Mapping[str, str]:
    """Return the versions of Python and of the installed ``libraries``.

    By default these are the libraries whose values are published.
    """
    versions = {"python": platform.python_version()}
    for name in libraries:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def sources_of(origins: Iterable[VariableOrigin]) -> list[str]:
    """Return the sources of all ``origins``, sorted."""
    return sorted({source for origin in origins for source in origin.sources})


def producing_code(origins: Sequence[VariableOrigin]) -> str:
    """Join the cells that made a variable to one script, in the order in which they ran.

    A cell that bound several of the variables appears once per run of the cell.

    Args:
        origins: the ledger's ancestry of the variable, newest first.
    """
    oldest_first = origins[::-1]  # the sort is stable: this orders equal times
    ran = sorted(oldest_first, key=lambda origin: origin.at)
    cells = {(each.at, each.run_id, each.cell_id, each.code_sha): each for each in ran}
    return "\n".join(f"# %% {cell.actor}\n{cell.code.strip()}\n" for cell in cells.values())


def measured(source: str, folder: Path, read: Collection[SourceState] = ()) -> SourceFile:
    """Return ``source`` with its size in bytes and, up to ``MAX_HASHED_BYTES``, its digest.

    Addresses, folders, and missing or unreadable files have only their name.

    Args:
        source: a path or an address.
        folder: the folder that a relative path is relative to.
        read: its states at the end of the cells that read it, newest first. A file that differs
            now has an empty digest: its bytes aren't those that were read.
    """
    if "://" in source:
        return SourceFile(path=source)
    now = source_state(source, folder)
    found = [state for state in read if state.path == source]
    if any(state != now for state in found):
        sizes = (state.size_bytes for state in (*found, now) if state.size_bytes is not None)
        return SourceFile(path=source, size_bytes=next(sizes, None), sha256="")
    if now.size_bytes is None or now.size_bytes > MAX_HASHED_BYTES:
        return SourceFile(path=source, size_bytes=now.size_bytes)
    try:
        with (folder / source).open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, ValueError):
        return SourceFile(path=source)
    is_whole = source_state(source, folder) == now
    return SourceFile(path=source, size_bytes=now.size_bytes, sha256=digest if is_whole else "")


def changed_note(sources: Collection[SourceFile]) -> str:
    """Return a warning that names the sources that changed since they were read; empty if none."""
    changed = dict.fromkeys(repr(each.path) for each in sources if each.sha256 == "")
    if not changed:
        return ""
    return (
        f"{', '.join(changed)}: changed since it was read. What is published was made from the "
        "earlier version: run its cell and publish again for the new one."
    )
