"""The file that a page is written to."""

import os
from pathlib import Path

import pytest

from parsimony_kernel.artifacts.page import write_page
from parsimony_kernel.identity import content_sha

ONE, OTHER = content_sha(b"one"), content_sha(b"other")


def test_hand_edited_page_is_left_alone(tmp_path: Path) -> None:
    first = write_page(tmp_path, "t", "<p>one</p>", ONE)
    assert first == tmp_path / "t.html"
    assert write_page(tmp_path, "t", "<p>two</p>", ONE) == first
    changed = first.read_bytes().replace(b"two", b"2")
    first.write_bytes(changed)
    second = tmp_path / "t-2.html"
    assert write_page(tmp_path, "t", "<p>three</p>", ONE) == second
    assert write_page(tmp_path, "t", "<p>four</p>", ONE) == second
    assert first.read_bytes() == changed
    assert b"four" in second.read_bytes()


def test_page_of_another_report_is_left_alone(tmp_path: Path) -> None:
    first = write_page(tmp_path, "t", "<p>one</p>", ONE)
    was = first.read_bytes()
    second = write_page(tmp_path, "t", "<p>other</p>", OTHER)
    assert second == tmp_path / "t-2.html"
    assert write_page(tmp_path, "t", "<p>again</p>", OTHER) == second
    assert first.read_bytes() == was
    assert sorted(tmp_path.iterdir()) == [second, first]


def test_page_with_pasted_stamp_is_not_ours(
    tmp_path: Path,
) -> None:
    first = write_page(tmp_path, "t", "<p>one</p>", ONE)
    first.write_bytes(first.read_bytes().replace(ONE.encode(), OTHER.encode()))
    write_page(tmp_path, "u", "<!-- parsimony-report -->", ONE)
    stamp = first.read_bytes()[len(b"<p>one</p>") :]
    first.write_bytes(b"<p>mine</p>" + stamp)
    assert write_page(tmp_path, "t", "<p>other</p>", OTHER) == tmp_path / "t-2.html"


@pytest.mark.parametrize("there", [b"", b"<p>mine</p>", b"\xff\x00", b"x" * 10_000])
def test_foreign_file_is_left_alone(tmp_path: Path, there: bytes) -> None:
    (tmp_path / "t.html").write_bytes(there)
    assert write_page(tmp_path, "t", "<p>one</p>", ONE) == tmp_path / "t-2.html"
    assert (tmp_path / "t.html").read_bytes() == there


def test_folder_in_place_of_page_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "t.html").mkdir()
    os.mkfifo(tmp_path / "t-2.html")
    (tmp_path / "t-3.html").symlink_to("nowhere")
    assert write_page(tmp_path, "t", "<p>one</p>", ONE) == tmp_path / "t-4.html"


def test_copy_under_another_name_is_left_alone(tmp_path: Path) -> None:
    page = write_page(tmp_path, "t", "<p>one</p>", ONE)
    copy = tmp_path / "t-kept.html"
    copy.write_bytes(page.read_bytes())
    assert write_page(tmp_path, "t", "<p>two</p>", ONE) == page
    assert "one" in copy.read_text()
