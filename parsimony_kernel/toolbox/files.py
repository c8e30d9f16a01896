"""The tools for text files of the workspace: list, read, write, edit.

The rules of the place: nothing outside the workspace, nothing hidden, no notebook and nothing of
the record can be reached; a file that is replaced was read first, is still what was read, and is
kept as it was.
"""

import fnmatch
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parsimony_kernel import durable
from parsimony_kernel.identity import ARTIFACT_FOLDER, checked_name
from parsimony_kernel.tools import Tools, tool

MAX_LISTED = 200
MAX_VISITED = 20_000
MAX_SHOWN = 16 * 1024
MAX_SCANNED = 64 * 2**20
MAX_WRITTEN = 2**20
REPLACED = f"{ARTIFACT_FOLDER}/replaced"


class FileRefused(ValueError):
    """A file cannot be read or written this way. ``str()`` is one sentence with the remedy."""


class WorkspaceFiles:
    """The files that a run may touch.

    Args:
        root: the workspace.
        folder: what relative names are relative to: where the notebook's code runs.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self._root = root.resolve()
        self._folder = folder.resolve()
        # The digests of the files that this run has read or written, as it knows them.
        self._known: dict[Path, str] = {}

    def list(self, folder: str, pattern: str) -> dict[str, Any]:
        """The files below ``folder`` whose name or path matches ``pattern``, with sizes."""
        place = self._reached(folder)
        if not place.is_dir():
            raise FileRefused(f"{folder!r} is no folder: list_files() shows what there is.")
        found, more, visited = list[dict[str, Any]](), 0, 0
        for path in _files_below(place):
            visited += 1
            if visited > MAX_VISITED:
                break
            told = path.relative_to(place).as_posix()
            if not (fnmatch.fnmatch(path.name, pattern) or fnmatch.fnmatch(told, pattern)):
                continue
            if len(found) == MAX_LISTED:
                more += 1
                continue
            found.append({"path": self._told(path), "bytes": _size(path)})
        answer: dict[str, Any] = {"files": found}
        if more:
            answer["more"] = more
        if visited > MAX_VISITED:
            answer["note"] = f"Only the first {MAX_VISITED:,} files were looked at."
        return answer

    def read(self, path: str, start: int, lines: int) -> dict[str, Any]:
        """``lines`` lines of a text file from line ``start`` on, at most 16 KiB of them."""
        if start < 1 or lines < 1:
            raise FileRefused("start_line and lines count from 1.")
        place = self._existing(path)
        shown, room, number, ends, scanned = list[str](), MAX_SHOWN, 0, True, 0
        with place.open("rb") as stream:
            self._text(stream.read(8192), path)
            stream.seek(0)
            for raw in stream:
                number += 1
                scanned += len(raw)
                if number >= start + lines or room <= 0 or scanned > MAX_SCANNED:
                    ends = False
                    break
                if number >= start:
                    line = self._text(raw, path, whole=False)
                    shown.append(line[:room])
                    ends = ends and len(line) <= room
                    room -= len(shown[-1])
        if size := _size(place):
            self._remember(place, size)
        return {
            "path": self._told(place),
            "text": "".join(shown),
            "first_line": start,
            "last_line": start + len(shown) - 1,
            "complete": ends and start == 1,
        }

    def write(self, path: str, content: str) -> dict[str, Any]:
        """Write a text file; one that is there must be what this run knows of it."""
        place = self._writable(path)
        before = self._before(place, path) if place.exists() else None
        return self._replaced(place, before, content)

    def edit(self, path: str, old: str, new: str) -> dict[str, Any]:
        """Put ``new`` in the place of ``old``, which must stand in the file exactly once."""
        place = self._writable(path)
        self._existing(path)
        if not old or old == new:
            raise FileRefused("edit_file needs an `old` text that is in the file, and another new.")
        if _size(place) > MAX_WRITTEN:
            raise FileRefused(f"{path!r} is larger than 1 MiB: edit it with code.")
        before = durable.read(place)
        try:
            text = before.decode()
        except UnicodeDecodeError as exc:
            raise FileRefused(f"{path!r} is not UTF-8: edit it with code.") from exc
        count = text.count(old)
        if count != 1:
            what = "is not in" if not count else f"stands {count} times in"
            raise FileRefused(
                f"The old text {what} {path!r}: read_file shows it; quote more of it."
            )
        return self._replaced(place, before, text.replace(old, new))

    def _replaced(self, place: Path, before: bytes | None, content: str) -> dict[str, Any]:
        data = content.encode("utf-8", "surrogatepass")
        if len(data) > MAX_WRITTEN:
            raise FileRefused("More than 1 MiB of text: write it with code.")
        answer: dict[str, Any] = {"path": self._told(place), "bytes": len(data)}
        if before is None:
            if not durable.create(place, data):
                raise FileRefused(f"{answer['path']!r} was made meanwhile: read it first.")
        elif before != data:
            kept = self._root / REPLACED / hashlib.sha256(before).hexdigest()
            durable.write_once(kept, before)
            durable.replace(place, data)
            answer["before"] = kept.relative_to(self._root).as_posix()
        self._known[place] = hashlib.sha256(data).hexdigest()
        return answer

    def _before(self, place: Path, path: str) -> bytes:
        if not place.is_file():
            raise FileRefused(f"{path!r} is a folder.")
        if _size(place) > MAX_WRITTEN:
            raise FileRefused(f"{path!r} is larger than 1 MiB: replace it with code.")
        data = durable.read(place)
        known = self._known.get(place)
        if known is None:
            raise FileRefused(f"{path!r} exists: read_file it first, or choose another name.")
        if known != hashlib.sha256(data).hexdigest():
            raise FileRefused(f"{path!r} was changed since it was read: read_file it again.")
        return data

    def _remember(self, place: Path, size: int) -> None:
        if size <= MAX_WRITTEN:
            self._known[place] = hashlib.sha256(durable.read(place)).hexdigest()

    def _existing(self, path: str) -> Path:
        place = self._reached(path)
        if not place.is_file():
            what = "is a folder" if place.is_dir() else "does not exist"
            raise FileRefused(f"{path!r} {what}: list_files shows what there is.")
        return place

    def _writable(self, path: str) -> Path:
        place = self._reached(path)
        if place.suffix.casefold() == ".ipynb":
            raise FileRefused(
                f"{path!r} is a notebook, and notebooks are not written by file tools: run_code "
                "works in this one."
            )
        for part in place.relative_to(self._root).parts:
            try:
                checked_name(part, "file name")
            except ValueError as exc:
                raise FileRefused(str(exc)) from exc
        return place

    def _reached(self, path: str) -> Path:
        """The file that ``path`` means, links followed."""
        try:
            place = (self._folder / path).resolve()
        except (OSError, RuntimeError, ValueError) as exc:
            raise FileRefused(f"{path!r} is no path: {exc}.") from exc
        if not place.is_relative_to(self._root):
            raise FileRefused(
                f"{path!r} lies outside the workspace: name a file below {self._root.name!r}, or "
                "use code, which the person may allow."
            )
        if any(part.startswith(".") for part in place.relative_to(self._root).parts):
            raise FileRefused(f"{path!r} is hidden, and hidden files are left alone.")
        return place

    def _text(self, data: bytes, path: str, *, whole: bool = True) -> str:
        if b"\0" in data:
            raise FileRefused(f"{path!r} holds no text: load it with run_code, as pandas does.")
        return data.decode("utf-8-sig" if whole else "utf-8", "replace")

    def _told(self, place: Path) -> str:
        base = self._folder if place.is_relative_to(self._folder) else self._root
        told = place.relative_to(base).as_posix()
        if base == self._folder:
            return told
        return Path(os.path.relpath(place, self._folder)).as_posix()


def file_tools(root: Path, folder: Path) -> Tools:
    """``list_files``, ``read_file``, ``write_file`` and ``edit_file`` for one run.

    Args:
        root: the workspace, which bounds them.
        folder: what relative names are relative to.
    """
    files = WorkspaceFiles(root, folder)

    @tool(
        description=(
            "The files of the workspace below `folder` (relative to the notebook), by a pattern "
            "such as `*.csv`. Hidden ones are left out."
        ),
        effect="none",
        parallelizable=True,
    )
    def list_files(folder: str = ".", pattern: str = "*") -> dict[str, Any]:
        return files.list(folder, pattern)

    @tool(
        description="Lines of a text file of the workspace. Data is loaded with run_code instead.",
        effect="none",
        parallelizable=True,
    )
    def read_file(path: str, start_line: int = 1, lines: int = 200) -> dict[str, Any]:
        return files.read(path, start_line, lines)

    @tool(
        description=(
            "Write a text file of the workspace. One that exists has to be read first; it is kept "
            "as it was, and the answer says where. Not for notebooks, nor for data: publish that."
        ),
        effect="idempotent",
    )
    def write_file(path: str, content: str) -> dict[str, Any]:
        return files.write(path, content)

    @tool(
        description=(
            "Replace one piece of a text file of the workspace: `old`, quoted exactly, which must "
            "stand there once, by `new`. The file is kept as it was."
        ),
        effect="idempotent",
    )
    def edit_file(path: str, old: str, new: str) -> dict[str, Any]:
        return files.edit(path, old, new)

    return Tools([list_files, read_file, write_file, edit_file])


def _files_below(folder: Path) -> Iterator[Path]:
    """What lies below, by name; nothing hidden, and no link to a folder is followed."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(Path(entry.path))
        elif entry.is_file():
            yield Path(entry.path)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
