"""What a private namespace reads by name: Excel, PDF and PowerPoint files, and published datasets.

Whatever a foreign parser raises of a file that is not what its name says, cut short or encrypted
is one ``DocumentError`` that says what to do. Files are opened with ``open``, so that what was read
is known as a source. Of a dataset the bytes are read through ``artifacts.store``, which verifies
their digest; the snapshot is then a source of what is made of them.
"""

import io
import os
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

_Path = str | PathLike[str]


class DocumentError(ValueError):
    """A document cannot be read. ``str()`` says what to do."""


def _refuse(path: _Path, why: str) -> NoReturn:
    raise DocumentError(f"{fspath(path)!r} {why}")


def read_excel(
    path: _Path, sheet: str | int | Sequence[str | int] | None = 0, **options: Any
) -> Any:
    """Read a sheet of an ``.xlsx`` or ``.xlsm`` workbook.

    Args:
        path: the file.
        sheet: a sheet's name or its number, from 0 on; ``None`` for all, or a list. ``sheet_name``,
            as pandas calls it, does the same.
        options: those of ``pandas.read_excel``, such as ``header`` and ``skiprows``.

    Returns:
        A pandas ``DataFrame``; for all or a list of sheets, a dict of frames by sheet.

    Raises:
        DocumentError: it is no such workbook, or there is no such sheet.
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
        One string for each page, empty for one that is a picture, as in a scan.

    Raises:
        DocumentError: it is no such file, or it is encrypted.
        ModuleNotFoundError: pypdf is missing; the message says how to install it.
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
        One string for each slide. Its lines are the texts in the order of the shapes, tables' rows
        with tabs between cells as they come, then the speaker's notes, after ``Notes:``.

    Raises:
        DocumentError: it is no such file, or it is encrypted.
        ModuleNotFoundError: python-pptx is missing; the message says how to install it.
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
    """The content of a file that is ``kind``. What a parser raises of it is a ``DocumentError``."""
    with open(path, "rb") as file:
        content = io.BytesIO(file.read())
    try:
        yield content
    except (DocumentError, ImportError):
        raise
    except Exception as exc:
        reason = " ".join(f"{type(exc).__name__}: {exc}".split())[:200]
        raise DocumentError(
            f"{fspath(path)!r} cannot be read as {kind} ({reason}). It may be of another kind, cut "
            "short or encrypted: check the options, or save it again as that, without a password."
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
