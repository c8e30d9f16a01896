"""Tools that read and write text files in a host's ``FileStore``.

In a notebook, code reads and writes files; these tools are for runs without a folder. The old
content of a file that is replaced is kept.
"""

from contextlib import suppress
from typing import Any

from parsimony_kernel.core.config import FileStore
from parsimony_kernel.identity import ARTIFACT_FOLDER, checked_name, content_sha
from parsimony_kernel.tools import Tools, tool

MAX_SHOWN = 16 * 1024
MAX_WRITTEN = 2**20


class FileRefused(ValueError):
    """A refused file access. ``str()`` is one sentence with the remedy."""


def stored_file_tools(store: FileStore | None) -> Tools:
    """Build ``read_file`` and ``write_file`` on ``store``; no tools without a store."""
    if not isinstance(store, FileStore):
        return Tools()

    @tool(description="Lines of a text file, at most 16 KiB.", effect="none", parallelizable=True)
    async def read_file(path: str, start_line: int = 1, lines: int = 200) -> dict[str, Any]:
        _check_path(path)
        if start_line < 1 or lines < 1:
            raise FileRefused("start_line and lines count from 1.")
        try:
            data = await store.read(path)
        except FileNotFoundError:
            raise FileRefused(f"{path!r} does not exist: write_file makes it.") from None
        if b"\0" in data:
            raise FileRefused(f"{path!r} holds no text.")
        every = data.decode(errors="replace").splitlines(keepends=True)
        text = "".join(every[start_line - 1 : start_line - 1 + lines])[:MAX_SHOWN]
        last = start_line - 1 + len(text.splitlines())
        is_whole = len(text) == len("".join(every))
        return {"path": path, "text": text, "last_line": last, "complete": is_whole}

    @tool(description="Write a text file; an older one is kept aside.", effect="idempotent")
    async def write_file(path: str, content: str) -> dict[str, Any]:
        _check_path(path)
        data, before = content.encode("utf-8", "surrogatepass"), None
        if len(data) > MAX_WRITTEN:
            raise FileRefused("More than 1 MiB of text: write it in parts, to several files.")
        with suppress(FileNotFoundError):
            before = await store.read(path)
        answer: dict[str, Any] = {"path": path, "bytes": len(data)}
        if before is not None and before != data:
            answer["before"] = f"{ARTIFACT_FOLDER}/replaced/{content_sha(before)}"
            await store.write(answer["before"], before)
        await store.write(path, data)
        return answer

    return Tools([read_file, write_file])


def _check_path(path: str) -> None:
    for part in path.split("/"):
        try:
            checked_name(part, "file name")
        except ValueError as exc:
            raise FileRefused(f"{exc} Files are named as in data/notes.txt.") from exc
        if part.startswith("."):
            raise FileRefused(f"{path!r} is hidden, and hidden files are left alone.")
