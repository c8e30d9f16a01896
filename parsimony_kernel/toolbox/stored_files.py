"""The tools for text files where a host keeps them.

Rule: ``FileStore`` is all that is known of where they lie. A file that is replaced
was read first, was still what was read a moment ago, and is kept as it was.
"""

import io
from contextlib import suppress
from typing import Any

from parsimony_kernel.core.config import FileStore
from parsimony_kernel.identity import checked_name
from parsimony_kernel.toolbox.files import (
    REPLACED,
    FileRefused,
    check_text,
    edited,
    encoded,
    lines_of,
    replacing,
    sha_of,
    text_tools,
)
from parsimony_kernel.tools import Tools


class StoredFiles:
    """The files of one run in ``store``."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        # The digests of the files that this run has read or written, as it knows them.
        self._known: dict[str, str] = {}

    async def read(self, path: str, start: int, lines: int) -> dict[str, Any]:
        """``lines`` lines of a text file from line ``start`` on."""
        data = await self._existing(path)
        check_text(data[:8192], path)
        shown = lines_of(io.BytesIO(data), path, start, lines)
        self._known[path] = sha_of(data)
        return {"path": path, **shown}

    async def write(self, path: str, content: str) -> dict[str, Any]:
        """Write a text file; one that is there must be what this run knows of it."""
        _check(path)
        data, before = encoded(content), None
        with suppress(FileNotFoundError):
            before = await self._store.read(path)
        if before is not None:
            replacing(self._known.get(path), path, before, data)
        return await self._written(path, before, data)

    async def edit(self, path: str, old: str, new: str) -> dict[str, Any]:
        """Put ``new`` in the place of ``old``, which must stand in the file exactly once."""
        before = await self._existing(path)
        return await self._written(path, before, edited(before, path, old, new))

    async def _existing(self, path: str) -> bytes:
        _check(path)
        try:
            return await self._store.read(path)
        except FileNotFoundError:
            raise FileRefused(f"{path!r} does not exist: write_file makes it.") from None

    async def _written(self, path: str, before: bytes | None, data: bytes) -> dict[str, Any]:
        answer: dict[str, Any] = {"path": path, "bytes": len(data)}
        if before is not None and before != data:
            answer["before"] = f"{REPLACED}/{sha_of(before)}"
            await self._store.write(answer["before"], before)
        await self._store.write(path, data)
        if before is None or self._known.get(path) == sha_of(before):
            self._known[path] = sha_of(data)  # else others wrote what this run never saw
        return answer


def _check(path: str) -> None:
    for part in path.split("/"):
        try:
            checked_name(part, "file name")
        except ValueError as exc:
            raise FileRefused(f"{exc} Files are named as in data/notes.txt.") from exc
        if part.startswith("."):
            raise FileRefused(f"{path!r} is hidden, and hidden files are left alone.")


def stored_file_tools(store: FileStore) -> Tools:
    """``read_file``, ``write_file`` and ``edit_file`` on the files that a host keeps."""
    return text_tools(StoredFiles(store))
