"""Publishing, editing and renewing reports."""

import os
from html import unescape as html_unescape
from pathlib import Path

import pytest

from parsimony_kernel.artifacts.page import write_page
from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.reports import parse
from parsimony_kernel.artifacts.store import SnapshotError, reference
from parsimony_kernel.identity import content_sha
from parsimony_kernel.testing.manual_clock import ManualClock
from tests.artifacts.report_cases import BODY, assert_harmless, page_of, publish_table, report


def test_report_is_published_with_artifacts_and_page(publisher: Publisher) -> None:
    published = report(publisher, title="How warm?")
    store = publisher.store
    entry = store.latest("report", published.ref.logical_id)
    assert entry is not None
    assert published.path.endswith(".qmd")
    assert published.page == "reports/how_warm.html"
    assert (store.root / published.page).is_file()
    shown = [publisher.find("curve").ref, publisher.find("monthly").ref]
    assert entry.embedded == tuple(map(reference, shown))
    assert (entry.live_name, entry.notebook, entry.run_id) == ("how_warm", "work.ipynb", "r")
    assert parse(store.read(published.ref)).shown == tuple(shown)
    assert b"2026" not in store.read(published.ref)


def test_corrupt_artifact_is_not_shown(publisher: Publisher) -> None:
    (publisher.store.root / publisher.find("curve").path).write_bytes(b"{}")
    with pytest.raises(SnapshotError, match="damaged"):
        report(publisher)
    assert not (publisher.store.root / "reports").exists()


def test_same_report_gives_same_snapshot_and_page(publisher: Publisher, clock: ManualClock) -> None:
    first = report(publisher)
    page = (publisher.store.root / first.page).read_bytes()
    clock.advance(3600)
    again = publisher.publish("report", BODY, title="T", run_id="r2")
    assert (again.ref, again.page, again.reused) == (first.ref, first.page, True)
    assert (publisher.store.root / first.page).read_bytes() == page


def test_report_keeps_pinned_snapshots(publisher: Publisher) -> None:
    first = report(publisher)
    old = publisher.store.read(first.ref)
    publish_table(publisher, t=0)
    assert publisher.store.read(first.ref) == old
    second = report(publisher)
    assert second.ref.logical_id == first.ref.logical_id
    assert second.ref.content_sha != first.ref.content_sha


def test_refreshed_report_shows_newest_and_keeps_notebook(publisher: Publisher) -> None:
    (publisher.store.root / "work.ipynb").write_text("{}")
    first = report(publisher, f"{BODY}\n![: odd](artifact:monthly)")
    anyone = Publisher(publisher.store, notebook_path="another.ipynb")
    same = anyone.renew_report(publisher.find("T"))
    assert (same.ref, same.reused, same.page) == (first.ref, True, first.page)
    table = publish_table(publisher, t=0)
    renewed = anyone.renew_report(publisher.find("T"))
    assert renewed.ref.logical_id == first.ref.logical_id
    assert parse(publisher.store.read(renewed.ref)).shown == (
        publisher.find("curve").ref,
        table.ref,
    )
    old = publisher.store.read(first.ref).decode()
    was = next(ref for ref in parse(old.encode()).shown if ref.kind == "dataset")
    assert publisher.store.read(renewed.ref).decode() == old.replace(
        reference(was), reference(table.ref)
    )
    assert publisher.find("T").notebook == "work.ipynb"


def test_titles_that_share_their_letters_have_pages_of_their_own(publisher: Publisher) -> None:
    long = "Revenue and costs of all the branches in Austria and in Germany, "
    titles = ["A", "A+", "A#", f"{long}north", f"{long}south", "😀", "---", "++", "C", "C++", "con"]
    made = [report(publisher, f"About {title!r}.", title) for title in titles]
    assert len({each.page for each in made}) == len(titles)
    assert (made[0].page, made[8].page) == ("reports/a.html", "reports/c.html")
    for title, each in zip(titles, made, strict=True):
        assert f"About {title!r}." in html_unescape(page_of(publisher, each))


def test_two_reports_of_one_title_get_separate_pages(publisher: Publisher) -> None:
    first = report(publisher)
    other = report(publisher, "Words alone.")
    assert (first.page, other.page) == ("reports/t.html", "reports/t-2.html")
    again = report(publisher, f"{BODY}\nMore.")
    assert again.page == first.page
    assert "Words alone." in page_of(publisher, other)


def test_refreshed_page_dates_its_sentences(publisher: Publisher, clock: ManualClock) -> None:
    first = report(publisher)
    assert "The sentences are of" not in page_of(publisher, first)
    for days, values in ((1, 0), (2, 5)):
        clock.advance(86_400)
        publish_table(publisher, t=values)
        page = page_of(publisher, publisher.renew_report(publisher.find("T")))
        seen = assert_harmless(page)
        told = (
            "The sentences are of 2026-01-01 00:00 UTC; the figures, the tables and what is "
            f"linked were renewed on 2026-01-0{days + 1} 00:00 UTC."
        )
        assert told in seen.text
    same = publisher.renew_report(publisher.find("T"))
    assert page_of(publisher, same) == page
    told_anew = publisher.publish("report", f"New. {BODY}", title="T", run_id="r2")
    assert told_anew.ref.logical_id == first.ref.logical_id
    assert "The sentences are of" not in page_of(publisher, told_anew)


def test_unwritable_page_is_a_note_on_published_report(publisher: Publisher) -> None:
    (publisher.store.root / "reports").write_text("a file")
    published = report(publisher)
    assert publisher.store.read(published.ref)
    assert published.page == ""
    assert published.note.startswith("The page was not written. Cannot")


# The file that a page is written to.


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


def test_page_with_pasted_stamp_is_not_ours(tmp_path: Path) -> None:
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
