"""The tools for text files of the workspace: list, read, write, edit.

The rules of the place: nothing outside the workspace, nothing hidden and nothing of the record
can be reached, and no notebook written, by whatever name or link; a file that is replaced was
read first, is still what was read, and is kept as it was.

What does not hold: another notebook than the one of the run, when it is a link to a file of
another name, is not known for a notebook by that name. Code, which runs beside these tools, may
change a link between the look at it and the writing. ``durable.rewrite`` says who may still be
overwritten.
"""

import fnmatch
import hashlib
import io
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Protocol

from parsimony_kernel.core.config import FileStore
from parsimony_kernel.execution.reading import readings
from parsimony_kernel.identity import ARTIFACT_FOLDER, checked_name
from parsimony_kernel.storage import durable
from parsimony_kernel.tools import Tools, tool

MAX_LISTED = 200
MAX_VISITED = 20_000
MAX_SHOWN = 16 * 1024
MAX_SCANNED = 64 * 2**20
MAX_WRITTEN = 2**20
_PIECE = 2**16
_MAX_LINKS = 40
REPLACED = f"{ARTIFACT_FOLDER}/replaced"


class FileRefused(ValueError):
    """A file cannot be read or written this way. ``str()`` is one sentence with the remedy."""


class WorkspaceFiles:
    """The files that a run may touch.

    Args:
        root: the workspace.
        folder: what relative names are relative to: where the notebook's code runs.
        notebook: the notebook of the run, which may be a link to a file of any name.
    """

    def __init__(self, root: Path, folder: Path, notebook: Path | None = None) -> None:
        self._root = root.resolve()
        self._folder = folder.resolve()
        self._notebook = notebook
        # The digests of the files that this run has read or written, as it knows them.
        self._known: dict[Path, str] = {}

    def list(self, folder: str, pattern: str) -> dict[str, Any]:
        """The files below ``folder`` whose name or path matches ``pattern``, with sizes."""
        place = self._reached(folder)
        if not place.is_dir():
            raise FileRefused(f"{folder!r} is no folder: list_files() shows what there is.")
        found, more, visited = list[dict[str, Any]](), 0, 0
        for path in _files_below(place, but=self._record()):
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
        """``lines`` lines of a text file from line ``start`` on, at most 16 KiB of them.

        Of a file of data also ``read_csv``: the arguments that pandas reads it with, where they are
        not its defaults; several where two readings fit.
        """
        place = self._existing(path)
        with durable.reading(place) as stream:
            # What is small is read once, so that what is known of it is what was shown of it.
            head = stream.read(MAX_WRITTEN + 1)
            _check_text(head[:8192].decode(errors="replace"), path)
            stream.seek(0)
            is_small = len(head) <= MAX_WRITTEN
            shown = _lines_of(io.BytesIO(head) if is_small else stream, path, start, lines)
        if is_small:
            self._known[place] = _sha_of(head)
        answer = {"path": self._told(place), **shown}
        if place.suffix.casefold() in (".csv", ".tsv"):
            options = [each.options for each in readings(head) if each.options]
            answer |= {"read_csv": options[0] if len(options) == 1 else options} if options else {}
        return answer

    def write(self, path: str, content: str) -> dict[str, Any]:
        """Write a text file; one that is there must be what this run knows of it."""
        place = self._writable(path)
        data = _encoded(content)
        if place.exists():
            self._check_size(place, path)
            return self._rewritten(
                place, lambda before: _replacing(self._known.get(place), path, before, data)
            )
        if not durable.create(place, data):
            raise FileRefused(f"{self._told(place)!r} was made meanwhile: read it first.")
        durable.sweep_temporary(place.parent, deep=False)
        self._known[place] = _sha_of(data)
        return {"path": self._told(place), "bytes": len(data)}

    def edit(self, path: str, old: str, new: str) -> dict[str, Any]:
        """Put ``new`` in the place of ``old``, which must stand in the file exactly once."""
        place = self._writable(path)
        self._existing(path)
        self._check_size(place, path)
        return self._rewritten(place, lambda before: _edited(before, path, old, new))

    def _rewritten(self, place: Path, change: Callable[[bytes], bytes]) -> dict[str, Any]:
        def kept(before: bytes) -> bytes:
            data = change(before)
            if data != before:
                durable.keep(self._copy(before), before, mode=0o600)
            return data

        before, data = durable.rewrite(place, kept)
        durable.sweep_temporary(place.parent, deep=False)
        answer: dict[str, Any] = {"path": self._told(place), "bytes": len(data)}
        if data != before:
            answer["before"] = self._copy(before).relative_to(self._root).as_posix()
        if self._known.get(place) == _sha_of(before):  # else others wrote what this run never saw
            self._known[place] = _sha_of(data)
        return answer

    def _copy(self, before: bytes) -> Path:
        return self._root / REPLACED / _sha_of(before)

    def _check_size(self, place: Path, path: str) -> None:
        if not place.is_file():
            raise FileRefused(f"{path!r} is a folder.")
        if _size(place) > MAX_WRITTEN:
            raise FileRefused(f"{path!r} is larger than 1 MiB: change it with code.")

    def _existing(self, path: str) -> Path:
        place = self._reached(path)
        if not place.is_file():
            what = "is a folder" if place.is_dir() else "does not exist"
            raise FileRefused(f"{path!r} {what}: list_files shows what there is.")
        return place

    def _writable(self, path: str) -> Path:
        passed = self._passed(path)
        place = passed[-1]
        if any(_is_notebook(each) for each in passed) or self._is_the_notebook(place):
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

    def _is_the_notebook(self, place: Path) -> bool:
        if self._notebook is None:
            return False
        try:
            return place == self._notebook.resolve() or place.samefile(self._notebook)
        except (OSError, RuntimeError):
            return False  # one of the two is not there

    def _reached(self, path: str) -> Path:
        """The file that ``path`` means, links followed."""
        return self._passed(path)[-1]

    def _passed(self, path: str) -> tuple[Path, ...]:
        """What is passed on the way to the file that ``path`` means, which is the last."""
        try:
            passed = (*_way_to(self._folder / path), (self._folder / path).resolve())
        except (OSError, RuntimeError, ValueError) as exc:
            raise FileRefused(f"{path!r} is no path: {exc}.") from exc
        if not passed[-1].is_relative_to(self._root):
            raise FileRefused(
                f"{path!r} lies outside the workspace: name a file below {self._root.name!r}, or "
                "use code, which the person may allow."
            )
        for each in passed:
            within = each.relative_to(self._root).parts if each.is_relative_to(self._root) else ()
            if any(part.startswith(".") and part != ".." for part in within):
                raise FileRefused(f"{path!r} is hidden, and hidden files are left alone.")
            if each.is_relative_to(self._record()):
                raise FileRefused(f"{path!r} is of the record, which is left alone.")
        return passed

    def _record(self) -> Path:
        """Where the record lies: its folder may be a link."""
        try:
            return (self._root / ARTIFACT_FOLDER).resolve()
        except (OSError, RuntimeError):
            return self._root / ARTIFACT_FOLDER

    def _told(self, place: Path) -> str:
        base = self._folder if place.is_relative_to(self._folder) else self._root
        told = place.relative_to(base).as_posix()
        if base == self._folder:
            return told
        return Path(os.path.relpath(place, self._folder)).as_posix()


class StoredFiles:
    """The files of one run in ``store``."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        # The digests of the files that this run has read or written, as it knows them.
        self._known: dict[str, str] = {}

    async def read(self, path: str, start: int, lines: int) -> dict[str, Any]:
        """``lines`` lines of a text file from line ``start`` on."""
        data = await self._existing(path)
        _check_text(data[:8192].decode(errors="replace"), path)
        shown = _lines_of(io.BytesIO(data), path, start, lines)
        self._known[path] = _sha_of(data)
        return {"path": path, **shown}

    async def write(self, path: str, content: str) -> dict[str, Any]:
        """Write a text file; one that is there must be what this run knows of it."""
        _check_stored(path)
        data, before = _encoded(content), None
        with suppress(FileNotFoundError):
            before = await self._store.read(path)
        if before is not None:
            _replacing(self._known.get(path), path, before, data)
        return await self._written(path, before, data)

    async def edit(self, path: str, old: str, new: str) -> dict[str, Any]:
        """Put ``new`` in the place of ``old``, which must stand in the file exactly once."""
        before = await self._existing(path)
        return await self._written(path, before, _edited(before, path, old, new))

    async def _existing(self, path: str) -> bytes:
        _check_stored(path)
        try:
            return await self._store.read(path)
        except FileNotFoundError:
            raise FileRefused(f"{path!r} does not exist: write_file makes it.") from None

    async def _written(self, path: str, before: bytes | None, data: bytes) -> dict[str, Any]:
        answer: dict[str, Any] = {"path": path, "bytes": len(data)}
        if before is not None and before != data:
            answer["before"] = f"{REPLACED}/{_sha_of(before)}"
            await self._store.write(answer["before"], before)
        await self._store.write(path, data)
        if before is None or self._known.get(path) == _sha_of(before):
            self._known[path] = _sha_of(data)  # else others wrote what this run never saw
        return answer


def _check_text(text: str, path: str) -> None:
    """``FileRefused`` when ``text`` is none."""
    if "\0" in text:
        raise FileRefused(f"{path!r} holds no text: load it with run_code, as pandas does.")


def _lines_of(source: IO[bytes], path: str, start: int, lines: int) -> dict[str, Any]:
    """``lines`` lines of text from line ``start`` on, at most 16 KiB of them, and which they are.

    No more than a piece is held at once, however long a line is.
    """
    if start < 1 or lines < 1:
        raise FileRefused("start_line and lines count from 1.")
    text = io.TextIOWrapper(source, "utf-8", "replace", newline="\n")
    shown, room, scanned = list[str](), MAX_SHOWN, 0
    number, count, is_new, ends = 0, 0, True, False
    while piece := text.readline(_PIECE):
        number += is_new
        scanned += len(piece)
        if number >= start + lines or room <= 0 or scanned > MAX_SCANNED:
            break
        if number >= start:
            count += is_new
            _check_text(piece, path)
            shown.append(piece[:room])
            if len(piece) > room:
                break
            room -= len(piece)
        is_new = piece.endswith("\n")
    else:
        ends = True
    text.detach()
    return {
        "text": "".join(shown),
        "first_line": start,
        "last_line": start + count - 1,
        "complete": ends and start == 1,
    }


def _encoded(content: str) -> bytes:
    """The bytes of a text file. ``FileRefused`` for more than 1 MiB."""
    data = content.encode("utf-8", "surrogatepass")
    if len(data) > MAX_WRITTEN:
        raise FileRefused("More than 1 MiB of text: write it with code.")
    return data


def _replacing(known: str | None, path: str, before: bytes, data: bytes) -> bytes:
    """``data``, where what is in its place is known: ``before`` must be what was read."""
    if known is None:
        raise FileRefused(f"{path!r} exists: read_file it first, or choose another name.")
    if known != _sha_of(before):
        raise FileRefused(f"{path!r} was changed since it was read: read_file it again.")
    return data


def _edited(before: bytes, path: str, old: str, new: str) -> bytes:
    """``before`` with ``new`` in the place of ``old``, which must stand there exactly once."""
    if not old or old == new:
        raise FileRefused("edit_file needs an `old` text that is in the file, and another new.")
    try:
        text = before.decode()
    except UnicodeDecodeError as exc:
        raise FileRefused(f"{path!r} is not UTF-8: edit it with code.") from exc
    count = text.count(old)
    if count != 1:
        what = "is not in" if not count else f"stands {count} times in"
        raise FileRefused(f"The old text {what} {path!r}: read_file shows it; quote more of it.")
    return _encoded(text.replace(old, new))


def file_tools(root: Path, folder: Path, notebook: Path | None = None) -> Tools:
    """``list_files``, ``read_file``, ``write_file`` and ``edit_file`` for one run.

    Args:
        root: the workspace, which bounds them.
        folder: what relative names are relative to.
        notebook: the notebook of the run, which is never written.
    """
    files = WorkspaceFiles(root, folder, notebook)

    @tool(
        description=(
            "The files of the workspace below `folder`, by a pattern such as `*.csv`; no hidden "
            "ones."
        ),
        effect="none",
        parallelizable=True,
    )
    def list_files(folder: str = ".", pattern: str = "*") -> dict[str, Any]:
        return files.list(folder, pattern)

    return Tools([list_files]) + _text_tools(files)


class _TextFiles(Protocol):
    """Files as tools reach them. What a method gives may have to be awaited."""

    def read(self, path: str, start: int, lines: int) -> Any: ...
    def write(self, path: str, content: str) -> Any: ...
    def edit(self, path: str, old: str, new: str) -> Any: ...


def _text_tools(files: _TextFiles) -> Tools:
    """``read_file``, ``write_file`` and ``edit_file`` on ``files``."""

    @tool(
        description="Lines of a text file of the workspace. Data is loaded with run_code instead.",
        effect="none",
        parallelizable=True,
    )
    def read_file(path: str, start_line: int = 1, lines: int = 200) -> Any:
        return files.read(path, start_line, lines)

    @tool(
        description=(
            "Write a text file of the workspace; read one that exists first. Not for notebooks, "
            "nor for data: publish that."
        ),
        effect="idempotent",
    )
    def write_file(path: str, content: str) -> Any:
        return files.write(path, content)

    @tool(
        description=(
            "Replace one piece of a text file of the workspace: `old`, exactly, must stand there "
            "once."
        ),
        effect="idempotent",
    )
    def edit_file(path: str, old: str, new: str) -> Any:
        return files.edit(path, old, new)

    return Tools([read_file, write_file, edit_file])


def _files_below(folder: Path, *, but: Path) -> Iterator[Path]:
    """What lies below, by name; nothing hidden, not ``but``, and no link to a folder followed."""
    ahead = [folder]
    while ahead:
        with suppress(OSError):  # a folder that cannot be listed
            there = sorted(os.scandir(ahead.pop()), key=lambda each: each.name)
            seen = [each for each in there if each.name[0] != "." and Path(each) != but]
            yield from (Path(each) for each in seen if each.is_file())
            below = (Path(each) for each in seen if each.is_dir(follow_symlinks=False))
            ahead += reversed([*below])


def _way_to(path: Path) -> Iterator[Path]:
    """``path``, and what it means after each link that is followed."""
    for _ in range(_MAX_LINKS):
        yield path
        links = (each for each in (*reversed(path.parents), path) if each.is_symlink())
        link = next(links, None)
        if link is None:
            return
        path = link.parent / link.readlink() / path.relative_to(link)
    raise RuntimeError("it is a link to itself")


def _is_notebook(place: Path) -> bool:
    return place.suffix.casefold() == ".ipynb" and not place.is_dir()


def _sha_of(data: bytes) -> str:
    """By which the bytes of a file are known."""
    return hashlib.sha256(data).hexdigest()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _check_stored(path: str) -> None:
    for part in path.split("/"):
        try:
            checked_name(part, "file name")
        except ValueError as exc:
            raise FileRefused(f"{exc} Files are named as in data/notes.txt.") from exc
        if part.startswith("."):
            raise FileRefused(f"{path!r} is hidden, and hidden files are left alone.")


def stored_file_tools(store: FileStore) -> Tools:
    """``read_file``, ``write_file`` and ``edit_file`` on the files that a host keeps."""
    return _text_tools(StoredFiles(store))
