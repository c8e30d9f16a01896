"""Excel, PDF and PowerPoint files: what they say, and what is said of those that say nothing."""

import builtins
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pptx
import pypdf
import pytest
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from parsimony_kernel.execution.readers import (
    DocumentError,
    read_excel,
    read_pdf_text,
    read_pptx_text,
)

SALES = pd.DataFrame({"month": ["May", "June"], "sold": [3, 4]})
READERS: dict[str, Callable[..., Any]] = {
    ".xlsx": read_excel,
    ".pptx": read_pptx_text,
    ".pdf": read_pdf_text,
}


@pytest.fixture
def workbook(tmp_path: Path) -> Path:
    path = tmp_path / "sales.xlsx"
    with pd.ExcelWriter(path) as writer:
        SALES.to_excel(writer, sheet_name="Sales", index=False)
        SALES.head(1).to_excel(writer, sheet_name="Costs", index=False)
    return path


@pytest.fixture
def slides(tmp_path: Path) -> Path:
    path = tmp_path / "talk.pptx"
    talk = pptx.Presentation()
    first = talk.slides.add_slide(talk.slide_layouts[0])
    first.shapes.title.text = "Growth"
    first.notes_slide.notes_text_frame.text = "say it slowly"
    second = talk.slides.add_slide(talk.slide_layouts[6])
    inches = pptx.util.Inches(1)
    table = second.shapes.add_table(1, 2, inches, inches, inches, inches).table
    table.cell(0, 0).text, table.cell(0, 1).text = "May", "3"
    box = second.shapes.add_group_shape().shapes.add_textbox(inches, inches, inches, inches)
    box.text_frame.text = "in a group"
    talk.save(path)
    return path


def pdf(path: Path, *contents: bytes, password: str = "") -> Path:
    """A PDF file of one page for each of ``contents``, which are its drawing operations."""
    writer = pypdf.PdfWriter()
    for content in contents:
        page = writer.add_blank_page(200, 200)
        font = DictionaryObject(
            {
                NameObject("/Type"): NameObject("/Font"),
                NameObject("/Subtype"): NameObject("/Type1"),
                NameObject("/BaseFont"): NameObject("/Helvetica"),
            }
        )
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})}
        )
        stream = DecodedStreamObject()
        stream.set_data(content)
        page[NameObject("/Contents")] = writer._add_object(stream.flate_encode())
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    writer.write(path)
    return path


def says(text: str) -> bytes:
    return f"BT /F1 12 Tf 10 100 Td ({text}) Tj ET".encode()


@pytest.fixture
def paper(tmp_path: Path) -> Path:
    return pdf(tmp_path / "paper.pdf", says("Page one"), b"", says("Page three"))


@pytest.fixture
def files(workbook: Path, slides: Path, paper: Path) -> dict[str, Path]:
    return {each.suffix: each for each in (workbook, slides, paper)}


def changed(path: Path, **members: bytes) -> Path:
    """The package at ``path`` with these parts in place of its own, named with __ for a slash."""
    with zipfile.ZipFile(path) as package:
        parts = {name: package.read(name) for name in package.namelist()}
    given = {name.replace("__", "/") + ".xml": data for name, data in members.items()}
    made = path.with_name(f"changed{path.suffix}")
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as package:
        for name, data in (parts | given).items():
            package.writestr(name, data)
    return made


def test_one_sheet_is_a_frame_and_several_a_dict(workbook: Path) -> None:
    pd.testing.assert_frame_equal(read_excel(workbook), SALES)
    for chosen in ("Costs", 1, -1):
        assert read_excel(workbook, chosen).shape == (1, 2)
    assert list(read_excel(workbook, None)) == ["Sales", "Costs"]
    assert list(read_excel(str(workbook), sheet=["Costs"])) == ["Costs"]


@pytest.mark.parametrize("chosen", ["Sale", 2])
def test_missing_sheet_is_named(workbook: Path, chosen: str | int) -> None:
    with pytest.raises(DocumentError, match=f"Worksheet .*{chosen}.* check the sheet"):
        read_excel(workbook, chosen)


def test_pdf_gives_one_text_per_page(paper: Path) -> None:
    assert read_pdf_text(paper) == ["Page one", "", "Page three"]


def test_presentation_gives_words_tables_groups_and_notes(
    slides: Path,
) -> None:
    assert read_pptx_text(slides) == ["Growth\nNotes: say it slowly", "May\t3\nin a group"]


def refusal(suffix: str, path: Path, data: bytes) -> str:
    """What is said of a file of ``data``; empty when it is read. Anything else is raised."""
    path.write_bytes(data)
    try:
        READERS[suffix](path)
    except DocumentError as exc:
        return str(exc)
    return ""


@pytest.mark.parametrize("suffix", READERS)
class TestAFileThatIsNoSuchDocument:
    def test_missing_file_is_missing(self, suffix: str, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            READERS[suffix](tmp_path / f"none{suffix}")

    def test_what_is_empty_cut_old_or_of_another_kind_is_told(
        self, suffix: str, files: dict[str, Path], tmp_path: Path
    ) -> None:
        others = [path.read_bytes() for other, path in files.items() if other != suffix]
        own = files[suffix].read_bytes()
        for data in (b"", OLE, own[: len(own) // 10], own[: len(own) // 2], *others):
            assert "cannot be read as a" in refusal(suffix, tmp_path / "other", data)

    def test_file_is_opened_once_through_open(
        self, suffix: str, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """So that who watches what is opened knows the source."""
        opened: list[Any] = []
        really = builtins.open

        def watched(file: Any, *args: Any, **kwargs: Any) -> Any:
            opened.append(file)
            return really(file, *args, **kwargs)

        monkeypatch.setattr(builtins, "open", watched)
        READERS[suffix](files[suffix])
        assert opened.count(files[suffix]) == 1


# How an encrypted workbook begins, and one of Office before 2007.
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504)


@pytest.mark.parametrize("suffix", [".xlsx", ".pptx"])
def test_entities_are_never_expanded(suffix: str, files: dict[str, Path]) -> None:
    part = {".xlsx": "xl__worksheets__sheet1", ".pptx": "ppt__slides__slide1"}[suffix]
    laughs = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 12))
    bomb = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "ha">{laughs}]><x>&a11;</x>'
    with pytest.raises(DocumentError, match="cannot be read as"):
        READERS[suffix](changed(files[suffix], **{part: bomb.encode()}))


def test_encrypted_pdf_asks_for_password(tmp_path: Path) -> None:
    path = pdf(tmp_path / "secret.pdf", says("hidden"), password="open sesame")
    for password in ("", "wrong"):
        with pytest.raises(DocumentError, match="check the sheet, the password"):
            read_pdf_text(path, password=password)
    assert read_pdf_text(path, password="open sesame") == ["hidden"]


@pytest.mark.parametrize(
    ("reader", "library"), [(read_pdf_text, "pypdf"), (read_pptx_text, "pptx")]
)
def test_missing_library_says_what_to_install(
    reader: Callable[..., Any], library: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ModuleNotFoundError, match=r'pip install "parsimony-kernel\[documents\]"'):
        reader(tmp_path / "any")


def test_pdf_stream_that_inflates_hugely_is_refused(tmp_path: Path) -> None:
    path = pdf(tmp_path / "bomb.pdf", says("x") + b" " * 80_000_000)
    assert path.stat().st_size < 200_000
    with pytest.raises(DocumentError, match="LimitReachedError"):
        read_pdf_text(path)
