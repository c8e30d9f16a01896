"""Measuring what code has read, so that a change of it is noticed."""

import hashlib
from collections.abc import Collection
from pathlib import Path

from parsimony_kernel.artifacts.store import SourceFile
from parsimony_kernel.lineage.ledger import SourceState, source_state

MAX_HASHED_BYTES = 200 * 1024 * 1024


def measured(source: str, folder: Path, read: Collection[SourceState] = ()) -> SourceFile:
    """``source`` with its size in bytes and, up to 200 MB, its digest.

    An address, a folder, and a file that is gone or cannot be read keep their name alone.

    Args:
        read: what it was when the cells that read it had ended, newest first. A file that is
            another now is ``stale`` and has no digest: its bytes are not those that were read.
    """
    if "://" in source:
        return SourceFile(path=source)
    now = source_state(source, folder)
    found = [state for state in read if state.path == source]
    if any(state != now for state in found):
        return SourceFile(path=source, size_bytes=found[0].size_bytes, stale=True)
    if now.size_bytes is None or now.size_bytes > MAX_HASHED_BYTES:
        return SourceFile(path=source, size_bytes=now.size_bytes)
    try:
        with (folder / source).open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, ValueError):
        return SourceFile(path=source)
    if source_state(source, folder) != now:
        return SourceFile(path=source, size_bytes=now.size_bytes, stale=True)
    return SourceFile(path=source, size_bytes=now.size_bytes, sha256=digest)


def stale_note(sources: Collection[SourceFile]) -> str:
    """What is said of those of ``sources`` that are stale; nothing where none is."""
    stale = [source.path for source in sources if source.stale]
    if not stale:
        return ""
    return (
        f"{', '.join(map(repr, stale))}: not what it was when it was read, and what is published "
        "was made from it as it was then. Run its cell again and publish anew for what it is now."
    )
