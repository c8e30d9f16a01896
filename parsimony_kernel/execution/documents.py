"""The text and the tables of Excel, PDF and PowerPoint files.

The rule of the place: a file is measured before it is unpacked. Its size, what its container
unpacks to and at what ratio, its cells, pages or slides and their text have limits, and XML that
defines entities is refused. A file that is not what its name says, empty, cut short or encrypted
is one ``DocumentError`` that says what to do. Files are opened with ``open``, so that what was
read is known as a source.
"""

import io
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from types import ModuleType
from typing import Any, NoReturn
from xml.parsers import expat

FILE_BYTES = 200_000_000
UNPACKED_BYTES = 500_000_000
RATIO = 200
# What is small when unpacked may be packed however well.
RATIO_FREE_BYTES = 20_000_000
MEMBERS = 20_000
CELLS = 20_000_000
ROWS = 1_048_576  # Excel has no more; one without cells still takes memory
PAGES = 5_000
PAGE_CONTENT_BYTES = 100_000_000
TEXT_CHARS = 50_000_000

_EXTRA = 'pip install "parsimony-kernel[documents]"'
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
_SPREADSHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_ROW = f"{_SPREADSHEET}row"
_PICTURE = "http://www.w3.org/2000/svg}svg"

_Path = str | PathLike[str]


class DocumentError(ValueError):
    """A document cannot be read, or not within the limits. ``str()`` says what to do."""


def read_excel(
    path: _Path, sheet: str | int | Sequence[str | int] | None = 0, **options: Any
) -> Any:
    """A sheet of an ``.xlsx`` or ``.xlsm`` workbook as a pandas ``DataFrame``.

    Args:
        path: the file.
        sheet: a sheet's name or its number, from 0 on; with ``None`` or a list, a dict of frames
            by sheet. ``sheet_name``, as pandas calls it, does the same.
        options: those of ``pandas.read_excel``, such as ``header`` and ``skiprows``.

    Raises:
        DocumentError: it is no such workbook, there is no such sheet, or it is over a limit
            (20 million cells, empty ones between filled ones among them, and 1,048,576 rows).
    """
    import pandas

    chosen = options.pop("sheet_name", sheet)
    content = _content(path)
    _check_package(path, content, "xl/workbook.xml", "an .xlsx workbook")
    _check_cells(path, content)
    with _parsing(path, "an .xlsx workbook"), pandas.ExcelFile(content, engine="openpyxl") as book:
        for each in chosen if isinstance(chosen, list | tuple) else [chosen]:
            _check_sheet(path, each, book.sheet_names)
        return pandas.read_excel(book, sheet_name=chosen, **options)


def read_pdf_text(
    path: _Path, *, first: int = 1, last: int | None = None, password: str = ""
) -> list[str]:
    """The text of a PDF file, one string for each page.

    A page that is a picture, as in a scan, has no text and gives an empty string.

    Args:
        path: the file.
        first: the first page to read, from 1 on.
        last: the last page to read; the last of the file by default.
        password: for an encrypted file.

    Raises:
        DocumentError: it is no such file, it is encrypted, or it is over a limit (5,000 pages,
            100 MB of drawing operations, 50 million characters of text).
        ModuleNotFoundError: pypdf is missing; the message says how to install it.
    """
    pypdf = _library("pypdf")
    content = _content(path)
    if b"%PDF-" not in content.getbuffer()[:1024].tobytes():
        _not_a(path, content, "a PDF file")
    with _parsing(path, "a PDF file"):
        reader = pypdf.PdfReader(content)
        if reader.is_encrypted and not reader.decrypt(password):
            raise DocumentError(
                f"{fspath(path)!r} is encrypted: hand in the password that opens it, as in "
                "read_pdf_text(path, password=...)."
            )
        wanted = _range(path, first, last, len(reader.pages), "page")
        return _within(path, _page_texts(path, reader, wanted))


def read_pptx_text(path: _Path, *, first: int = 1, last: int | None = None) -> list[str]:
    """The text of a PowerPoint ``.pptx`` file, one string for each slide.

    The lines of a slide are its texts in the order of its shapes, then its tables' rows with tabs
    between cells as they come, then what the speaker's notes say, after ``Notes:``.

    Args:
        path: the file.
        first: the first slide to read, from 1 on.
        last: the last slide to read; the last of the file by default.

    Raises:
        DocumentError: it is no such file, it is encrypted, or it is over a limit.
        ModuleNotFoundError: python-pptx is missing; the message says how to install it.
    """
    pptx = _library("pptx")
    content = _content(path)
    _check_package(path, content, "ppt/presentation.xml", "a .pptx presentation")
    with _parsing(path, "a .pptx presentation"):
        slides = list(pptx.Presentation(content).slides)
        wanted = _range(path, first, last, len(slides), "slide")
        return _within(path, (_slide_text(slides[each]) for each in wanted))


def _library(name: str) -> ModuleType:
    from importlib import import_module

    try:
        return import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name != name:
            raise
        package = {"pptx": "python-pptx"}.get(name, name)
        raise ModuleNotFoundError(
            f"{package} is not installed, which reads this kind of file: {_EXTRA}", name=name
        ) from exc


def _content(path: _Path) -> io.BytesIO:
    with open(path, "rb") as file:
        data = file.read(FILE_BYTES + 1)
    if len(data) > FILE_BYTES:
        raise DocumentError(
            f"{fspath(path)!r} is larger than {_size(FILE_BYTES)}, the limit: save the part that "
            "is needed as a smaller file, or as CSV or Parquet."
        )
    if not data:
        raise DocumentError(f"{fspath(path)!r} is empty: save or download it again.")
    return io.BytesIO(data)


def _size(count: int) -> str:
    return f"{count // 1_000_000:,} MB"


def _not_a(path: _Path, content: io.BytesIO, kind: str) -> NoReturn:
    data = content.getbuffer()
    if data[: len(_OLE)] == _OLE:
        if _ENCRYPTED in content.getvalue():
            raise DocumentError(
                f"{fspath(path)!r} is encrypted: open it with its password in the program that "
                "made it, and save it without one."
            )
        raise DocumentError(
            f"{fspath(path)!r} is in the format of Office before 2007: open it there and save it "
            f"as {kind.split(' ', 1)[1]}."
        )
    raise DocumentError(
        f"{fspath(path)!r} is not {kind}, or only a part of one: download or save it again, or "
        "read it as what it is."
    )


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
        raise DocumentError(
            f"{fspath(path)!r} cannot be read as {kind} ({reason}): check the options, or open it "
            "in the program that made it and save it again."
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
                _too_large(path, f"unpacks to {_size(unpacked)} in {len(members):,} parts")
            if unpacked > RATIO_FREE_BYTES and unpacked > RATIO * packed:
                _too_large(path, f"unpacks to {unpacked // packed:,} times its size")
            if part not in package.namelist():
                _not_a(path, content, kind)
            for each in members:
                _scan(package, each, _Prolog(path))
    content.seek(0)


def _too_large(
    path: _Path, what: str, limit: str = f" ({UNPACKED_BYTES // 1_000_000} MB, {RATIO} times)"
) -> NoReturn:
    raise DocumentError(
        f"{fspath(path)!r} {what}, which is over the limit{limit}: it may be made to fill the "
        "memory. If it can be trusted, save the part that is needed as a smaller file."
    )


class _Enough(Exception):
    """No more of this part needs to be read."""


class _Prolog:
    """Looks at a part up to its first element: entities are defined before it.

    A picture may be drawn with them: nobody takes it for more than bytes.
    """

    def __init__(self, path: _Path) -> None:
        self._path = path
        self.has_doctype = False

    def begin(self, name: str, _attributes: dict[str, str]) -> None:
        if self.has_doctype and name != _PICTURE:
            self._refuse()
        raise _Enough

    def end(self, name: str) -> None:
        pass

    def doctype(self, *_: Any) -> None:
        self.has_doctype = True

    def _refuse(self) -> NoReturn:
        raise DocumentError(
            f"{fspath(self._path)!r} defines entities in its XML, which Office files never do and "
            "which can be made to fill the memory: it is not read."
        )


class _Grid(_Prolog):
    """Measures a worksheet by the cells that are there, whatever it says of its dimensions.

    As openpyxl reads it: a row is one wherever it stands, whatever it holds are its cells, and
    numbers are what Python takes for them. Never less than is read is counted.
    """

    def __init__(self, path: _Path) -> None:
        from openpyxl.utils import coordinate_to_tuple

        super().__init__(path)
        self._place_of = coordinate_to_tuple
        self._depth = 0
        self._rows: list[list[int]] = []  # of each open row its depth and its last column
        self._last = self._unnumbered = 0
        self.width = 1  # a row without cells takes its place as well

    @property
    def rows(self) -> int:
        return self._last + self._unnumbered

    def begin(self, name: str, attributes: dict[str, str]) -> None:
        if self.has_doctype and name.startswith(_SPREADSHEET):
            self._refuse()
        self._depth += 1
        if self._rows and self._rows[-1][0] == self._depth - 1:
            self._cell(attributes.get("r", ""))
        if name == _ROW:
            number = _row_number(attributes.get("r", ""))
            if number is None:
                self._unnumbered += 1
            else:
                self._last = max(self._last, number)
            self._rows.append([self._depth, 0])
        if self.rows * self.width > CELLS:
            raise DocumentError(
                f"{fspath(self._path)!r} has a sheet of {self.rows:,} rows and {self.width:,} "
                f"columns, more than {CELLS:,} cells: remove what lies far from the rest, or save "
                "it as CSV."
            )
        if self.rows > ROWS:
            raise DocumentError(
                f"{fspath(self._path)!r} has a sheet of {self.rows:,} rows, more than the {ROWS:,} "
                "of Excel: remove what lies far from the rest, or save it as CSV."
            )

    def end(self, name: str) -> None:
        if self._rows and self._rows[-1][0] == self._depth:
            self._rows.pop()
        self._depth -= 1

    def _cell(self, reference: str) -> None:
        open_row = self._rows[-1]
        try:
            row, open_row[1] = self._place_of(reference)
        except (ValueError, UnboundLocalError):  # none, or one that the reader refuses
            open_row[1] += 1
        else:
            self._last = max(self._last, row)
        self.width = max(self.width, open_row[1])


def _row_number(text: str) -> int | None:
    """The number that openpyxl takes ``text`` for."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if number.is_integer() else None


def _scan(package: zipfile.ZipFile, member: zipfile.ZipInfo, look: _Prolog) -> None:
    parser = expat.ParserCreate(namespace_separator="}")
    parser.StartElementHandler = look.begin
    parser.EndElementHandler = look.end
    parser.StartDoctypeDeclHandler = look.doctype
    with package.open(member) as part:
        try:
            while data := part.read(1 << 16):
                parser.Parse(data)
        except (_Enough, expat.ExpatError):
            return  # broken XML is told by who reads it in earnest


def _check_cells(path: _Path, content: io.BytesIO) -> None:
    """Refuse a worksheet with too many cells. A part is one by its rows, not by its name."""
    with _parsing(path, "an .xlsx workbook"), zipfile.ZipFile(content) as package:
        for each in package.infolist():
            _scan(package, each, _Grid(path))
    content.seek(0)


def _check_sheet(path: _Path, sheet: str | int | None, names: list[Any]) -> None:
    there = (
        sheet is None
        or sheet in names
        or (isinstance(sheet, int) and -len(names) <= sheet < len(names))
    )
    if not there:
        told = ", ".join(repr(each) for each in names[:20])
        raise DocumentError(f"{fspath(path)!r} has no sheet {sheet!r}: it has {told}.")


def _range(path: _Path, first: int, last: int | None, count: int, noun: str) -> range:
    """The positions from 0 on of what is to be read."""
    end = count if last is None else min(last, count)
    if first < 1 or (last is not None and last < first) or (count and first > count):
        raise DocumentError(
            f"{fspath(path)!r} has {count:,} {noun}s, numbered from 1: {first} to {last or count} "
            "is not among them."
        )
    if end - first + 1 > PAGES:
        raise DocumentError(
            f"{fspath(path)!r} has {count:,} {noun}s: read at most {PAGES:,} at once, with "
            f"first={first} and last={first + PAGES - 1}."
        )
    return range(first - 1, end)


def _within(path: _Path, texts: Iterator[str]) -> list[str]:
    kept: list[str] = []
    room = TEXT_CHARS
    for text in texts:
        room -= len(text)
        if room < 0:
            raise DocumentError(
                f"{fspath(path)!r} has more than {TEXT_CHARS:,} characters of text: read less of "
                f"it at once, with last={max(1, len(kept))}."
            )
        kept.append(text)
    return kept


def _page_texts(path: _Path, reader: Any, wanted: range) -> Iterator[str]:
    room = PAGE_CONTENT_BYTES
    for number in wanted:
        page = reader.pages[number]
        content = page.get_contents()
        room -= 0 if content is None else len(content.get_data())
        if room < 0:
            _too_large(
                path, f"has drawing operations on its pages {wanted.start + 1:,} to {number + 1:,}",
                f" of {_size(PAGE_CONTENT_BYTES)} at once",
            )  # fmt: skip
        yield page.extract_text() or ""


def _slide_text(slide: Any) -> str:
    lines = [line for shape in slide.shapes for line in _shape_lines(shape)]
    if slide.has_notes_slide:
        frame = slide.notes_slide.notes_text_frame
        if frame is not None and frame.text.strip():
            lines.append(f"Notes: {frame.text}")
    return "\n".join(lines)


def _shape_lines(shape: Any, depth: int = 0) -> Iterator[str]:
    if hasattr(shape, "shapes"):  # a group
        if depth < 20:
            for each in shape.shapes:
                yield from _shape_lines(each, depth + 1)
    elif getattr(shape, "has_table", False):
        for row in shape.table.rows:
            yield "\t".join(cell.text for cell in row.cells)
    elif shape.has_text_frame and shape.text_frame.text.strip():
        yield shape.text_frame.text
