"""The text and the tables of Excel, PDF and PowerPoint files.

The rule of the place: nothing is unpacked or built without a limit. A file's size, what its
container unpacks to and at what ratio are known before it is read; the cells of a sheet and the
text of pages and slides are counted while it is read, and entities in its XML are never expanded.
A file that is not what its name says, empty, cut short or encrypted is one ``DocumentError`` that
says what to do. Files are opened with ``open``, so that what was read is known as a source.
"""

import io
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from os import PathLike, fspath
from typing import Any, NoReturn

FILE_BYTES = 200_000_000
UNPACKED_BYTES = 500_000_000
RATIO = 200
# What is small when unpacked may be packed however well.
RATIO_FREE_BYTES = 20_000_000
MEMBERS = 20_000
CELLS = 20_000_000
ROWS = 1_048_576  # Excel has no more; one without cells still takes memory
TEXT_CHARS = 50_000_000

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_GROUP_DEPTH = 20

_Path = str | PathLike[str]


class DocumentError(ValueError):
    """A document cannot be read, or not within the limits. ``str()`` says what to do."""


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
        DocumentError: it is no such workbook, there is no such sheet, or it is over a limit
            (20 million cells, empty ones between filled ones among them, and 1,048,576 rows).
    """
    import pandas

    chosen = options.pop("sheet_name", sheet)
    content = _content(path)
    _check_package(path, content, "xl/workbook.xml", "an .xlsx workbook")
    with _parsing(path, "an .xlsx workbook"), pandas.ExcelFile(content, engine="openpyxl") as book:
        names = book.sheet_names
        for each in chosen if isinstance(chosen, list | tuple) else [chosen]:
            numbers = range(-len(names), len(names))
            if each is not None and each not in names and each not in numbers:
                has = ", ".join(map(repr, names[:20]))
                _refuse(path, f"has no sheet {each!r}: it has {has}.")
        _count_cells(path, book.book)
        return pandas.read_excel(book, sheet_name=chosen, **options)


def read_pdf_text(
    path: _Path, *, first: int = 1, last: int | None = None, password: str = ""
) -> list[str]:
    """Read the text of a PDF file.

    Args:
        path: the file.
        first: the first page to read, from 1 on.
        last: the last page to read; the last of the file by default.
        password: for an encrypted file.

    Returns:
        One string for each page, empty for one that is a picture, as in a scan.

    Raises:
        DocumentError: it is no such file, it is encrypted, or it is over a limit (50 million
            characters of text).
        ModuleNotFoundError: pypdf is missing; the message says how to install it.
    """
    pypdf = _library("pypdf", "pypdf")
    content = _content(path)
    if b"%PDF-" not in content.getbuffer()[:1024].tobytes():
        _not_a(path, content, "a PDF file")
    with _parsing(path, "a PDF file"):
        reader = pypdf.PdfReader(content)
        if reader.is_encrypted and not reader.decrypt(password):
            _refuse(path, "is encrypted: hand in the password, read_pdf_text(path, password=...).")
        wanted = _range(path, first, last, len(reader.pages), "page")
        return _within(path, (reader.pages[each].extract_text() or "" for each in wanted))


def read_pptx_text(path: _Path, *, first: int = 1, last: int | None = None) -> list[str]:
    """Read the text of a PowerPoint ``.pptx`` file.

    Args:
        path: the file.
        first: the first slide to read, from 1 on.
        last: the last slide to read; the last of the file by default.

    Returns:
        One string for each slide. Its lines are the texts in the order of the shapes, tables' rows
        with tabs between cells as they come, then the speaker's notes, after ``Notes:``.

    Raises:
        DocumentError: it is no such file, it is encrypted, or it is over a limit.
        ModuleNotFoundError: python-pptx is missing; the message says how to install it.
    """
    pptx = _library("pptx", "python-pptx")
    content = _content(path)
    _check_package(path, content, "ppt/presentation.xml", "a .pptx presentation")
    with _parsing(path, "a .pptx presentation"):
        slides = list(pptx.Presentation(content).slides)
        wanted = _range(path, first, last, len(slides), "slide")
        return _within(path, (_slide_text(slides[each]) for each in wanted))


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


def _content(path: _Path) -> io.BytesIO:
    with open(path, "rb") as file:
        data = file.read(FILE_BYTES + 1)
    if len(data) > FILE_BYTES:
        limit = f"{FILE_BYTES // 1_000_000} MB"
        _refuse(path, f"is larger than {limit}: save the part you need as CSV or Parquet.")
    if not data:
        _refuse(path, "is empty: save or download it again.")
    return io.BytesIO(data)


def _not_a(path: _Path, content: io.BytesIO, kind: str) -> NoReturn:
    data = content.getvalue()
    if not data.startswith(_OLE):
        _refuse(path, f"is not {kind}, or cut short: save it again, or read it as what it is.")
    if _ENCRYPTED in data:
        _refuse(path, "is encrypted: open it with its password, and save it without one.")
    suffix = kind.split(" ", 1)[1]
    _refuse(path, f"is in the format of Office before 2007: open it there and save it as {suffix}.")


@contextmanager
def _parsing(path: _Path, kind: str) -> Iterator[None]:
    """A broken file makes a foreign parser raise anything: it is one error here."""
    try:
        yield
    except (DocumentError, ImportError):
        raise
    except Exception as exc:
        if type(exc).__name__ == "LimitReachedError":  # of pypdf, before anything is unpacked whole
            _too_large(path, "unpacks to more than a part of it may", "")
        reason = " ".join(f"{type(exc).__name__}: {exc}".split())[:200]
        remedy = "check the options, or save it again in the program that made it"
        raise DocumentError(
            f"{fspath(path)!r} cannot be read as {kind} ({reason}): {remedy}."
        ) from exc


def _check_package(path: _Path, content: io.BytesIO, part: str, kind: str) -> None:
    """Refuse what is no such Office file, or unpacks to too much; nothing is unpacked for it."""
    with _parsing(path, kind):
        try:
            package = zipfile.ZipFile(content)
        except zipfile.BadZipFile:
            _not_a(path, content, kind)
        with package:
            members = package.infolist()
            # What a member says that it unpacks to is also all that is ever read of it.
            unpacked = sum(each.file_size for each in members)
            packed = content.getbuffer().nbytes
            if unpacked > UNPACKED_BYTES or len(members) > MEMBERS:
                size = f"{unpacked // 1_000_000:,} MB"
                _too_large(path, f"unpacks to {size} in {len(members):,} parts")
            if unpacked > RATIO_FREE_BYTES and unpacked > RATIO * packed:
                _too_large(path, f"unpacks to {unpacked // packed:,} times its size")
            if part not in package.namelist():
                _not_a(path, content, kind)
    content.seek(0)


def _too_large(
    path: _Path, what: str, limit: str = f" ({UNPACKED_BYTES // 1_000_000} MB, {RATIO} times)"
) -> NoReturn:
    _refuse(
        path, f"{what}, which is over the limit{limit}: save the part you need as a smaller file."
    )


def _count_cells(path: _Path, book: Any) -> None:
    """Let no sheet of the workbook give more cells than the limit. They are counted as they come:
    between cells that lie far apart the reader makes a value of every place."""
    from openpyxl.worksheet._read_only import ReadOnlyWorksheet

    class Counted(ReadOnlyWorksheet):
        @property
        def rows(self) -> Iterator[Any]:
            width = 1
            for count, row in enumerate(super().rows, 1):
                width = max(width, len(row))
                if count > ROWS or count * width > CELLS:
                    size = f"more than {CELLS:,} cells, or than the {ROWS:,} rows of Excel"
                    _refuse(path, f"has a sheet of {size}: remove far cells, or save it as CSV.")
                yield row

    for sheet in book.worksheets:
        sheet.__class__ = Counted


def _range(path: _Path, first: int, last: int | None, count: int, noun: str) -> range:
    """The positions from 0 on of what is to be read."""
    if first < 1 or (last is not None and last < first) or (count and first > count):
        asked = f"there is no {first} to {last or count}"
        _refuse(path, f"has {count:,} {noun}s, numbered from 1: {asked}.")
    return range(first - 1, count if last is None else min(last, count))


def _within(path: _Path, texts: Iterator[str]) -> list[str]:
    kept: list[str] = []
    room = TEXT_CHARS
    for text in texts:
        room -= len(text)
        if room < 0:
            less = f"read less of it at once, with last={max(1, len(kept))}"
            _refuse(path, f"has more than {TEXT_CHARS:,} characters of text: {less}.")
        kept.append(text)
    return kept


def _slide_text(slide: Any) -> str:
    lines = [line for shape in slide.shapes for line in _shape_lines(shape)]
    if slide.has_notes_slide:
        frame = slide.notes_slide.notes_text_frame
        if frame is not None and frame.text.strip():
            lines.append(f"Notes: {frame.text}")
    return "\n".join(lines)


def _shape_lines(shape: Any, depth: int = 0) -> Iterator[str]:
    if hasattr(shape, "shapes"):  # a group
        if depth < _GROUP_DEPTH:
            for each in shape.shapes:
                yield from _shape_lines(each, depth + 1)
    elif getattr(shape, "has_table", False):
        for row in shape.table.rows:
            yield "\t".join(cell.text for cell in row.cells)
    elif shape.has_text_frame and shape.text_frame.text.strip():
        yield shape.text_frame.text
