"""Readers in the private namespace: Excel, PDF and PowerPoint files, and published datasets.

A file that is too large, or would unpack to too much, is refused before it is unpacked. Any parser
error, e.g. for a mislabelled, truncated or encrypted file, becomes a ``DocumentError`` that says
what to do. Files are opened with ``open``, so that lineage records them as sources. The
bytes of a dataset are read through ``artifacts.store``, which verifies their digest; the snapshot
is recorded as a source of the results.
"""

import io
import os
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NoReturn

from parsimony_kernel.artifacts.codecs import decode_dataset
from parsimony_kernel.artifacts.store import ArtifactStore, LogEntry
from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.storage.workspace import find_workspace

FILE_BYTES = 200_000_000
UNPACKED_BYTES = 500_000_000
RATIO = 200
# Below this, a file may be compressed by any ratio.
RATIO_FREE_BYTES = 20_000_000

_Path = str | PathLike[str]


class DocumentError(ValueError):
    """A document can't be read, or exceeds a size limit. ``str()`` says what to do."""


def _refuse(path: _Path, why: str) -> NoReturn:
    raise DocumentError(f"{fspath(path)!r} {why}")


def read_excel(
    path: _Path, sheet: str | int | Sequence[str | int] | None = 0, **options: Any
) -> Any:
    """Read a sheet of an ``.xlsx`` or ``.xlsm`` workbook.

    Args:
        path: the file.
        sheet: a sheet's name or its number, from 0; a list of these, or ``None`` for all sheets.
            pandas' name for it, ``sheet_name``, works too.
        options: options of ``pandas.read_excel``, such as ``header`` and ``skiprows``.

    Returns:
        A pandas ``DataFrame``; for several sheets, a dict of frames by sheet.

    Raises:
        DocumentError: when the file is not such a workbook, or has no such sheet.
    """
    import pandas

    chosen = options.pop("sheet_name", sheet)
    with (
        _opened(path, "an .xlsx workbook") as content,
        pandas.ExcelFile(content, engine="openpyxl") as book,
    ):
        names = book.sheet_names
        for each in chosen if isinstance(chosen, list | tuple) else [chosen]:
            if each is not None and each not in (*names, *range(-len(names), len(names))):
                _refuse(path, f"has no sheet {each!r}: it has {', '.join(map(repr, names[:20]))}.")
        return pandas.read_excel(book, sheet_name=chosen, **options)


def read_pdf_text(path: _Path, *, password: str = "") -> list[str]:
    """Read the text of a PDF file.

    Args:
        path: the file.
        password: for an encrypted file.

    Returns:
        One string per page; empty for a page without text, such as a scan.

    Raises:
        DocumentError: when it is not a PDF file, or is encrypted with another password.
        ModuleNotFoundError: when pypdf is missing; the message says how to install it.
    """
    pypdf = _library("pypdf", "pypdf")
    with _opened(path, "a PDF file") as content:
        reader = pypdf.PdfReader(content)
        if reader.is_encrypted and not reader.decrypt(password):
            _refuse(path, "is encrypted: hand in the password, read_pdf_text(path, password=...).")
        return [page.extract_text() or "" for page in reader.pages]


def read_pptx_text(path: _Path) -> list[str]:
    """Read the text of a PowerPoint ``.pptx`` file.

    Args:
        path: the file.

    Returns:
        One string per slide: the texts in the order of the shapes, table rows with tabs between
        cells, then the speaker's notes after ``Notes:``.

    Raises:
        DocumentError: when it is not a ``.pptx`` file, or is encrypted.
        ModuleNotFoundError: when python-pptx is missing; the message says how to install it.
    """
    pptx = _library("pptx", "python-pptx")
    with _opened(path, "a .pptx presentation") as content:
        slides = pptx.Presentation(content).slides
        return ["\n".join((*_lines(each.shapes), *_notes(each))) for each in slides]


def _library(name: str, package: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as exc:
        raise ModuleNotFoundError(
            f"{package} is not installed, which reads this kind of file: "
            'pip install "parsimony-kernel[documents]"',
            name=exc.name,
        ) from exc


@contextmanager
def _opened(path: _Path, kind: str) -> Iterator[io.BytesIO]:
    """Yield a file's content; turn a parser's error in the body into a ``DocumentError``.

    Args:
        path: the file.
        kind: the expected kind of file, for the message.
    """
    with open(path, "rb") as file:
        data = file.read(FILE_BYTES + 1)
    if len(data) > FILE_BYTES:
        _refuse(path, "is larger than 200 MB: save the part you need as CSV or Parquet.")
    try:
        _refuse_bomb(path, data)
        yield io.BytesIO(data)
    except (DocumentError, ImportError):
        raise
    except Exception as exc:
        reason = " ".join(f"{type(exc).__name__}: {exc}".split())[:200]
        raise DocumentError(
            f"{fspath(path)!r} cannot be read as {kind} ({reason}). It may be of another kind, cut "
            "short or encrypted: check the options, or save it again as that, without a password."
        ) from exc


def _refuse_bomb(path: _Path, data: bytes) -> None:
    """Refuse a zip file that would unpack to too much, by its directory: nothing is unpacked.

    A parser reads no more of a member than the directory declares.
    """
    try:
        members = zipfile.ZipFile(io.BytesIO(data)).infolist()
    except zipfile.BadZipFile:
        return
    unpacked = sum(each.file_size for each in members)
    if unpacked > UNPACKED_BYTES or unpacked > max(RATIO_FREE_BYTES, RATIO * len(data)):
        size = f"unpacks to {unpacked // 1_000_000:,} MB, {unpacked // len(data):,} times its size"
        _refuse(path, f"{size}, which is over the limit: save the part you need as a smaller file.")


def _lines(shapes: Any) -> Iterator[str]:
    for shape in shapes:
        if hasattr(shape, "shapes"):  # a group
            yield from _lines(shape.shapes)
        elif getattr(shape, "has_table", False):
            yield from ("\t".join(cell.text for cell in row.cells) for row in shape.table.rows)
        elif shape.has_text_frame and shape.text_frame.text.strip():
            yield shape.text_frame.text


def _notes(slide: Any) -> Iterator[str]:
    frame = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    if frame is not None and frame.text.strip():
        yield f"Notes: {frame.text}"


_TABLES = frozenset({"dataset", "data_object"})


def load_dataset(name: str) -> Any:
    """Load a published dataset as a pandas ``DataFrame``.

    Args:
        name: for the newest snapshot: its title, the published variable, its live name, or its
            logical id (the first six characters are enough). For a certain snapshot: its path, in
            the workspace or relative to the working folder.

    Raises:
        LookupError: when no dataset, or more than one, has this name; similar names are listed.
        SnapshotError: when the snapshot is missing, or differs from what was published.
    """
    store = _Tables(find_workspace(Path.cwd()))
    entry = store.find(_in_workspace(str(name), store.root))
    return decode_dataset(store.read(entry.ref))


def live_names(sources: Iterable[str], folder: Path) -> set[tuple[str, str]]:
    """Return kind and live name of each published table among ``sources``.

    Args:
        sources: paths or addresses that a cell read.
        folder: the folder that relative paths start from.
    """
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
    """An artifact store that lists tables only, since a chart may have the same title."""

    def list(self) -> tuple[LogEntry, ...]:
        return tuple(entry for entry in super().list() if entry.kind in _TABLES)


def _in_workspace(name: str, root: Path) -> str:
    """Return a snapshot's path relative to the workspace; any other name unchanged."""
    try:
        inside = Path(os.path.normpath(Path(name).absolute())).relative_to(root)
    except ValueError:
        return name
    return inside.as_posix() if inside.parts[:1] == (ARTIFACT_FOLDER,) else name
