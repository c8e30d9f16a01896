"""Excel, PDF and PowerPoint files: what they say, and what is said of those that say nothing."""

import builtins
import re
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd
import pptx
import pypdf
import pytest
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from parsimony_kernel.artifacts.codecs import encode_dataset
from parsimony_kernel.artifacts.store import ArtifactStore, LogEntry, SnapshotError
from parsimony_kernel.execution import readers
from parsimony_kernel.execution.csv_dialect import readings, readings_of, sniff
from parsimony_kernel.execution.readers import (
    DocumentError,
    load_dataset,
    read_excel,
    read_pdf_text,
    read_pptx_text,
)
from parsimony_kernel.identity import content_sha

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
        entries = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
        font = DictionaryObject({NameObject(k): NameObject(v) for k, v in entries.items()})
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
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


def test_one_sheet_is_a_frame_several_a_dict_and_a_missing_one_lists_them(workbook: Path) -> None:
    pd.testing.assert_frame_equal(read_excel(workbook), SALES)
    for chosen in ("Costs", 1, -1):
        assert read_excel(workbook, chosen).shape == (1, 2)
    assert list(read_excel(workbook, None)) == ["Sales", "Costs"]
    assert list(read_excel(str(workbook), sheet=["Costs"])) == ["Costs"]
    for chosen in ("Sale", 2):
        with pytest.raises(DocumentError, match=r"no sheet .*'Sales', 'Costs'"):
            read_excel(workbook, chosen)


def test_pdf_gives_one_text_per_page(paper: Path) -> None:
    assert read_pdf_text(paper) == ["Page one", "", "Page three"]


def test_presentation_gives_words_tables_groups_and_notes(slides: Path) -> None:
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

    def test_what_is_empty_old_or_of_another_kind_is_told(
        self, suffix: str, files: dict[str, Path], tmp_path: Path
    ) -> None:
        others = [path.read_bytes() for other, path in files.items() if other != suffix]
        for data in (b"", OLE, *others):
            assert "cannot be read as a" in refusal(suffix, tmp_path / "other", data)

    def test_truncated_file_is_one_error(self, suffix: str, files: dict[str, Path]) -> None:
        data = files[suffix].read_bytes()
        told = [
            refusal(suffix, files[suffix].with_name("cut"), data[: len(data) * tenth // 10])
            for tenth in range(1, 10)
        ]
        # Of a PDF of which the end alone is missing something can be had.
        assert sum("cut" in each for each in told) >= 7

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
    made = changed(files[suffix], **{part: bomb.encode()})
    assert "cannot be read as" in refusal(suffix, made, made.read_bytes())


def test_encrypted_pdf_asks_for_password(tmp_path: Path) -> None:
    path = pdf(tmp_path / "secret.pdf", says("hidden"), password="open sesame")
    for password in ("", "wrong"):
        with pytest.raises(DocumentError, match=r"is encrypted: hand in the password"):
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


def archive(name: str, data: bytes, *, declared: int) -> bytes:
    """A zip file of one deflated member that says that it unpacks to ``declared`` bytes."""
    path = name.encode()
    fields = (20, 0, 8, 0, 0, 0, len(data), declared, len(path))
    local = struct.pack("<4s5H3L2H", b"PK\x03\x04", *fields, 0) + path + data
    central = struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 20, *fields, 0, 0, 0, 0, 0, 0) + path
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, len(central), len(local), 0)
    return local + central + end


@cache
def liar() -> bytes:
    """A workbook whose directory declares less than it unpacks to."""
    deflate = zlib.compressobj(wbits=-15)
    data = deflate.compress(b"<a>" + bytes(40_000_000)) + deflate.flush()
    return archive("xl/workbook.xml", data, declared=1_000)


@cache
def well_packed() -> bytes:
    with zipfile.ZipFile(packed := BytesIO(), "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.bin", bytes(30_000_000))
    return packed.getvalue()


@pytest.mark.parametrize("suffix", [".xlsx", ".pptx"])
def test_bomb_is_refused_without_unpacking(suffix: str, tmp_path: Path) -> None:
    # No deflate stream at all: unpacking it would be another error.
    large = archive("xl/workbook.xml", b"\xff" * 1_000_000, declared=1 << 30)
    for bomb, said in (
        (large, r"unpacks to 1,073 MB, .*over the limit"),
        (well_packed(), r"\d+,?\d* times its size"),
        (liar(), "cannot be read as"),
    ):
        assert re.search(said, refusal(suffix, tmp_path / f"bomb{suffix}", bomb))


def test_pdf_stream_that_inflates_hugely_is_refused(tmp_path: Path) -> None:
    path = pdf(tmp_path / "bomb.pdf", says("x") + b" " * 80_000_000)
    assert path.stat().st_size < 200_000
    with pytest.raises(DocumentError, match="LimitReachedError"):
        read_pdf_text(path)


@pytest.mark.parametrize("suffix", READERS)
def test_oversized_file_is_not_read_to_its_end(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert readers.FILE_BYTES == 200_000_000
    monkeypatch.setattr(readers, "FILE_BYTES", 2_000_000)
    assert "larger than 200 MB" in refusal(suffix, tmp_path / f"large{suffix}", bytes(2_000_001))


# How a file of data is written is found in its text, or left to a person.


FOUND = [
    ("a,b\n1.5,x\n2,y\n", {}),
    ("a;b\n1,5;x\n2.000,25;y\n", {"sep": ";", "decimal": ",", "thousands": "."}),
    ("a|b\n1.5|x\n", {"sep": "|"}),
    ("a\tb\n1.5\tx\n", {"sep": "\t"}),
    ('a,b\n"1,500",x\n"2,000.5",y\n', {"thousands": ","}),
    ("a;b\n0.123;x\n1.234;y\n12.5;z\n", {"sep": ";"}),
    ("day,n\n24.12.2024,1\n", {"parse_dates": ["day"], "date_format": {"day": "%d.%m.%Y"}}),
    ("day,n\n12/24/2024 08:00,1\n",
     {"parse_dates": ["day"], "date_format": {"day": "%m/%d/%Y %H:%M"}}),
    ('"day\n(local)",n\n24.12.2024,1\n',
     {"parse_dates": ["day\n(local)"], "date_format": {"day\n(local)": "%d.%m.%Y"}}),
    ("day,n\n2024-12-24,1\n", {}),
    ("day,n\n13/01/2024,1\n01/13/2024,2\n", {}),
    ('name,text\nAnn,"one, two"\nBo,three\n', {}),
    ("Sales by branch\nas of 2026\na,b\n1.5,x\n2,y\n", {"skiprows": 2}),
    ("Sales;;\n01.02.2026;;\n\nday;shop;n\n24.12.2024;x, y;1,5\n25.12.2024;z;2.000,25\n",
     {"sep": ";", "skiprows": 3, "decimal": ",", "thousands": ".",
      "parse_dates": ["day"], "date_format": {"day": "%d.%m.%Y"}}),
    ("Sales, 2025\nshop;n\nx;1,5\ny;2,5\nz;3,5\n", {"sep": ";", "skiprows": 1, "decimal": ","}),
    ("Sales in 2025\nland;2019;2020\nx;1;5\ny;2;5\n", {"sep": ";", "skiprows": 1}),
    ("shop, town;m;n\nx, y;1,5;2,5\nz, u;2,5;3,5\n", {"sep": ";", "decimal": ","}),
    ("shop;m;n\nx, y;1,5;2,5\nz, u;2,5;3,5\n", {"sep": ";", "decimal": ","}),
    ("a,b,c\n1,2\n3,4,5\n6,7,8\n9,0,1\n2,3,4\n", {}),
    (",town\nAnn,Rome\nBo,Oslo\n", {}),
    ("lake;temp\nTarn;12,1\nMere;-\n",
     {"sep": ";", "decimal": ",", "na_values": {"temp": ["-"]}}),
    ("lake,grade\nTarn,A\nMere,unknown\n", {}),
    # As R writes it: the row names have no name.
    ('"mpg","cyl"\n"Mazda RX4",21,6\n"Datsun 710",22.8,4\n', {}),
    ('"mpg"\t"cyl"\n"Mazda RX4"\t21\t6\n"Datsun 710"\t22.8\t4\n', {"sep": "\t"}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "options"), FOUND, ids=[t.split("\n")[0] for t, _ in FOUND])
def test_dialect_is_detected(text: str, options: dict[str, Any]) -> None:
    (only,) = readings(text.encode())
    assert (only.options, only.says) == (options, "")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a;b\n1.234;x\n5.678;y\n", ["1.234 means 1,234", "1.234 has three decimals"]),
        ("a;b\n1,234;x\n5,678;y\n", ["1,234 means 1,234", "1,234 has three decimals"]),
        ("day,n\n03/04/2024,1\n",
         ["03/04/2024 begins with the day", "03/04/2024 begins with the month"]),
    ],
)  # fmt: skip
def test_both_readings_are_returned(text: str, says: list[str]) -> None:
    found = readings(text.encode())
    assert [each.says for each in found] == says
    frames = [pd.read_csv(BytesIO(text.encode()), **each.options) for each in found]
    assert not frames[0].equals(frames[1])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_encoding_is_detected(encoding: str) -> None:
    data = "stadt;größe €\nKöln;405\n".encode(encoding)
    (only,) = readings(data)
    frame = pd.read_csv(BytesIO(data), **only.options)
    assert frame.to_dict("list") == {"stadt": ["Köln"], "größe €": [405]}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,n\nx,1\n", "sep=','"),
        ("Umsatz;;\nStand: 2026;;\nTag;Ort;n\n24.12.2024;Köln;1,5\n",
         "sep=';', skiprows=2, encoding='cp1252', decimal=',', parse_dates=['Tag'], "
         "date_format={'Tag': '%d.%m.%Y'}"),
        ('price,n\n"$1,200.50",47%\n$3.00,5%\n',
         "sep=',', thousands=','  # numbers with a sign in price, n"),
        ("price;n\n1.5;2,5 %\n2.25;3,5 %\n", "sep=';'"),  # pandas reads one decimal mark
        ("price;n\n3 EUR;1\n$4;2\n", "sep=';'"),  # two currencies
        ("a;n\nx;1.234\n",
         "sep=';', thousands='.'  # 1.234 means 1,234\nsep=';'  # 1.234 has three decimals"),
    ],
)  # fmt: skip
def test_model_is_given_arguments_to_paste(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(text, encoding="cp1252")
    assert sniff(str(path)) == told
    for line in told.splitlines():
        frame = eval(f"pd.read_csv({str(path)!r}, {line}\n)")
        assert frame.columns[-1] == "n"
    assert len(readings_of(str(path))) == len(told.splitlines())


# Published datasets are found again by what they are called, and read only when they are whole.


MAY = pd.DataFrame({"month": ["May"], "sold": [3]})
JUNE = pd.DataFrame({"month": ["May", "June"], "sold": [3, 4]})
IDENTITY = "5a1e" * 16


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArtifactStore:
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    return ArtifactStore(tmp_path)


def publish(
    store: ArtifactStore,
    frame: pd.DataFrame,
    *,
    logical_id: str = IDENTITY,
    title: str = "Monthly sales",
    variable: str = "sales",
    kind: str = "dataset",
) -> LogEntry:
    data = encode_dataset(frame, variable) if kind == "dataset" else b'{"mark":"bar"}'
    entry = LogEntry(
        kind=kind,
        logical_id=logical_id,
        content_sha=content_sha(data),
        title=title,
        variable=variable,
        live_name=f"work/{variable}",
        notebook="notebooks/work.ipynb",
    )
    return store.publish(entry, data)[0]


@pytest.mark.parametrize(
    "name", ["Monthly sales", "monthly  SALES", "sales", "work/sales", IDENTITY, IDENTITY[:6]]
)
def test_dataset_is_found_by_any_name(store: ArtifactStore, name: str) -> None:
    publish(store, MAY)
    publish(store, JUNE)
    pd.testing.assert_frame_equal(load_dataset(name), JUNE)


def test_path_names_one_snapshot(store: ArtifactStore) -> None:
    path = publish(store, MAY).path
    publish(store, JUNE)
    for name in (path, f"../{path}", str(store.root / path)):
        pd.testing.assert_frame_equal(load_dataset(name), MAY)


def test_chart_of_same_title_does_not_interfere(store: ArtifactStore) -> None:
    publish(store, MAY)
    publish(store, MAY, kind="chart", logical_id="c" * 64)
    assert load_dataset("Monthly sales").equals(MAY)


def test_corrupt_snapshot_is_not_read(store: ArtifactStore) -> None:
    snapshot = store.root / publish(store, MAY).path
    snapshot.write_bytes(snapshot.read_bytes()[:-1] + b"\0")
    with pytest.raises(SnapshotError, match="damaged"):
        load_dataset("sales")
