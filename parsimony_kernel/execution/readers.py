"""Readers in the private namespace: Excel, PDF and PowerPoint files, and published datasets.

Any parser error, e.g. for a mislabelled, truncated or encrypted file, becomes a ``DocumentError``
that says what to do. Files are opened with ``open``, so that lineage records them as sources. The
bytes of a dataset are read through ``artifacts.store``, which verifies their digest; the snapshot
is recorded as a source of the results.
"""

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from parsimony_kernel.artifacts.codecs import decode_dataset
from parsimony_kernel.artifacts.store import ArtifactStore, LogEntry
from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.storage.workspace import find_workspace

_Path = str | PathLike[str]


class DocumentError(ValueError):
    """A document can't be read. ``str()`` says what to do."""


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
    with _opened(path, "an .xlsx workbook") as content:
        return pandas.read_excel(content, sheet_name=chosen, engine="openpyxl", **options)


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
        reader = pypdf.PdfReader(content, password=password or None)
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
        return ["\n".join(_lines(each)) for each in pptx.Presentation(content).slides]


def _library(name: str, package: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name != name:
            raise
        raise ModuleNotFoundError(
            f"{package} is not installed, which reads this kind of file: "
            'pip install "parsimony-kernel[documents]"',
            name=name,
        ) from exc


@contextmanager
def _opened(path: _Path, kind: str) -> Iterator[io.BytesIO]:
    """Yield a file's content; turn a parser's error in the body into a ``DocumentError``.

    Args:
        path: the file.
        kind: the expected kind of file, for the message.
    """
    with open(path, "rb") as file:
        data = file.read()
    try:
        yield io.BytesIO(data)
    except ImportError:
        raise
    except Exception as exc:
        reason = " ".join(f"{type(exc).__name__}: {exc}".split())[:200]
        raise DocumentError(
            f"{fspath(path)!r} cannot be read as {kind} ({reason}). It may be of another kind, cut "
            "short or encrypted: check the sheet, the password and the options, or save it again."
        ) from exc


def _lines(slide: Any) -> Iterator[str]:
    for shape in slide.shapes:
        yield from _shape_lines(shape)
    if slide.has_notes_slide:
        frame = slide.notes_slide.notes_text_frame
        if frame is not None and frame.text.strip():
            yield f"Notes: {frame.text}"


def _shape_lines(shape: Any) -> Iterator[str]:
    if hasattr(shape, "shapes"):  # a group
        for each in shape.shapes:
            yield from _shape_lines(each)
    elif getattr(shape, "has_table", False):
        for row in shape.table.rows:
            yield "\t".join(cell.text for cell in row.cells)
    elif shape.has_text_frame and shape.text_frame.text.strip():
        yield shape.text_frame.text


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
