"""Measuring what code has read, so that a change of it is noticed."""

import hashlib
from pathlib import Path

from parsimony_kernel.artifacts.store import SourceFile

MAX_HASHED_BYTES = 200 * 1024 * 1024


def measured(source: str, folder: Path) -> SourceFile:
    """``source`` with its size in bytes and, up to 200 MB, its digest.

    An address, and a file that is gone or cannot be read, keep their name alone.
    """
    if "://" in source:
        return SourceFile(path=source)
    path = folder / source
    try:
        size = path.stat().st_size
        if not path.is_file() or size > MAX_HASHED_BYTES:
            return SourceFile(path=source, size_bytes=size if path.is_file() else None)
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, ValueError):
        return SourceFile(path=source)
    return SourceFile(path=source, size_bytes=size, sha256=digest)
