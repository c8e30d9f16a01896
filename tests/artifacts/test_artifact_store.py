"""Snapshots and logs on a real disk."""

import json
import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import pytest

from parsimony_kernel.artifacts.places import Folder
from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.store import (
    ArtifactStore,
    LogEntry,
    SnapshotError,
    UnknownArtifactError,
    parse_reference,
    reference,
)
from parsimony_kernel.artifacts.verify import verify
from parsimony_kernel.identity import (
    ARTIFACT_FOLDER,
    SNAPSHOT_KINDS,
    ArtifactRef,
    LiveNameCollisionError,
    snapshot_sha,
)
from tests.artifacts.report_cases import publish_table
from tests.races import Race


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path)


def _folder(store: ArtifactStore) -> Path:
    return store.root / ARTIFACT_FOLDER


def _entry(data: bytes, **fields: str) -> LogEntry:
    base = {"kind": "dataset", "logical_id": "df", "title": "T", "run_id": data.decode()}
    return LogEntry(**{**base, **fields})


def _log_lines(store: ArtifactStore) -> int:
    return len((_folder(store) / "datasets" / "df" / "log.jsonl").read_text().splitlines())


def test_nothing_is_created_before_publishing(store: ArtifactStore) -> None:
    assert store.list() == ()
    assert store.latest("dataset", "df") is None
    assert list(store.root.iterdir()) == []


def test_line_is_appended_for_a_new_title_only(store: ArtifactStore) -> None:
    first, _ = store.publish(_entry(b"one", published_at="1"), b"one")
    assert store.publish(_entry(b"one", published_at="2"), b"one") == (first, True)
    assert _log_lines(store) == 1
    renamed, reused = store.publish(_entry(b"one", title="Better"), b"one")
    assert (renamed.ref, reused) == (first.ref, True)
    assert [entry.title for entry in store.list()] == ["Better"]


@pytest.mark.parametrize("kind", sorted(SNAPSHOT_KINDS))
def test_every_kind_is_published_listed_and_read(store: ArtifactStore, kind: str) -> None:
    data = b"x = 1"
    entry, _ = store.publish(_entry(data, kind=kind, logical_id="thing", title="A thing"), data)
    assert store.list() == (entry,)
    assert store.latest(kind, "thing") == entry
    assert store.read(entry.ref) == data
    for words in ("thing", "a thing", entry.path, reference(entry.ref)):
        assert store.find(words) == entry


def test_object_bytes_are_pooled_once(store: ArtifactStore) -> None:
    for logical_id in ("one", "two"):
        store.publish(_entry(b"bytes", kind="data_object", logical_id=logical_id), b"bytes")
    sha = snapshot_sha("data_object", b"bytes")
    pooled = _folder(store) / "objects" / sha[:2] / f"{sha[2:]}.parquet"
    assert list(_folder(store).rglob("*.parquet")) == [pooled]
    assert [entry.logical_id for entry in store.list()] == ["one", "two"]


def test_republished_first_version_is_latest(store: ArtifactStore) -> None:
    for data in (b"v1", b"v2", b"v1"):
        store.publish(_entry(data), data)
    latest = store.latest("dataset", "df")
    assert latest is not None
    assert store.read(latest.ref) == b"v1"
    assert [e.run_id for e in store.history("dataset", "df")] == ["v1", "v2", "v1"]
    assert len(list((_folder(store) / "datasets" / "df").glob("*.parquet"))) == 2


@pytest.mark.parametrize(("damage", "told"), [(b"onf", "damaged"), (None, "missing")])
def test_broken_snapshot_is_mended(store: ArtifactStore, damage: bytes | None, told: str) -> None:
    entry, _ = store.publish(_entry(b"one"), b"one")
    path = store.root / entry.path
    path.unlink() if damage is None else path.write_bytes(damage)
    with pytest.raises(SnapshotError, match=told):
        store.read(entry.ref)
    assert store.publish(_entry(b"one"), b"one") == (entry, False)
    assert store.read(entry.ref) == b"one"


def test_notebook_snapshot_may_differ_in_trailing_whitespace(store: ArtifactStore) -> None:
    entry = LogEntry(kind="notebook", logical_id="foo", content_sha="")
    ref = store.publish(entry, b"x = 1\n")[0].ref
    again, reused = store.publish(entry, b"x = 1  \n\n")
    assert (again.ref, reused) == (ref, True)
    assert store.read(ref) == b"x = 1\n"


def test_torn_foreign_or_outside_line_is_left_out(store: ArtifactStore) -> None:
    first, _ = store.publish(_entry(b"one"), b"one")
    log = _folder(store) / "datasets" / "df" / "log.jsonl"
    line = json.loads(log.read_text())
    for change in ({"logical_id": "other"}, {"content_sha": "../../../etc/passwd"}):
        with log.open("a") as stream:
            stream.write(json.dumps(line | change) + "\n")
    with log.open("a") as stream:
        stream.write(first.model_dump_json()[:40])
    assert store.history("dataset", "df") == store.list() == (first,)
    second, _ = store.publish(_entry(b"two"), b"two")
    assert store.latest("dataset", "df") == second


def test_list_shows_newest_in_publication_order(store: ArtifactStore) -> None:
    store.publish(_entry(b"b1", logical_id="b", published_at="2026-01-01"), b"b1")
    store.publish(_entry(b"a1", logical_id="a", published_at="2026-01-02"), b"a1")
    store.publish(_entry(b"b2", logical_id="b", published_at="2026-01-03"), b"b2")
    assert [(e.logical_id, e.run_id) for e in store.list()] == [("a", "a1"), ("b", "b2")]


@pytest.mark.parametrize("name", ["SALES", "\uff33ales"])
def test_sibling_name_is_refused_in_any_spelling(store: ArtifactStore, name: str) -> None:
    for kind, owner in (("dataset", "a.ipynb"), ("dataset", "a.ipynb"), ("chart", "b.ipynb")):
        store.claim(kind, "Sales", owner)
    with pytest.raises(LiveNameCollisionError, match=r"ales' belongs to 'a\.ipynb'|'SALES'"):
        store.claim("dataset", name, "b.ipynb")


def _several(store: ArtifactStore) -> dict[str, LogEntry]:
    rows = {
        "sales": ("dataset", "aaaa1111aaaa1111", "Monthly sales", "sales", "a.ipynb"),
        "other": ("dataset", "aaaa1111bbbb2222", "Sales elsewhere", "sales", "b.ipynb"),
        "chart": ("chart", "cccc3333cccc3333", "Sales  over time", "curve", "a.ipynb"),
    }
    published = {}
    columns = ("kind", "logical_id", "title", "variable", "notebook")
    for name, row in rows.items():
        fields = dict(zip(columns, row, strict=True))
        live_name = f"{fields['notebook']}/{fields['variable']}"
        entry = _entry(name.encode(), live_name=live_name, published_at=name, **fields)
        published[name], _ = store.publish(entry, name.encode())
    return published


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("aaaa1111bbbb2222", "other"),
        ("aaaa1111b", "other"),
        ("cccc33", "chart"),
        ("a.ipynb/sales", "sales"),
        ("B.IPYNB/Sales", "other"),
        ("monthly SALES", "sales"),
        (" Sales over  time ", "chart"),
        ("curve", "chart"),
    ],
)
def test_artifact_is_found_by_its_usual_names(store: ArtifactStore, words: str, name: str) -> None:
    published = _several(store)
    assert store.find(words) == published[name]
    assert store.find(words, notebook="c.ipynb") == published[name]


def test_own_artifact_wins_else_all_are_listed(store: ArtifactStore) -> None:
    published = _several(store)
    assert store.find("sales", notebook="a.ipynb") == published["sales"]
    assert store.find("sales", notebook="b.ipynb") == published["other"]
    with pytest.raises(UnknownArtifactError, match=r"'Sales elsewhere'.*'Monthly sales'.*the id"):
        store.find("sales")
    with pytest.raises(UnknownArtifactError, match=r"names .*: give the id"):
        store.find("aaaa1111")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("montly sales", "did you mean .*'Monthly sales'"),
        ("crve", r"did you mean the chart 'Sales  over time' \(curve\)"),
        ("aaaa1", "There is no artifact 'aaaa1'"),
        ("zzzzzzzz", "Published here: "),
        ("../../etc/passwd", "There is no artifact"),
        (".ockham/datasets/../x.parquet", "There is no artifact"),
        ("dataset/aaaa1111aaaa1111@00", "There is no artifact"),
        ("", "There is no artifact ''"),
    ],
)
def test_unknown_name_suggests_near_ones(store: ArtifactStore, words: str, told: str) -> None:
    _several(store)
    with pytest.raises(UnknownArtifactError, match=told) as caught:
        store.find(words)
    assert "\n" not in str(caught.value)


def test_empty_workspace_says_so(tmp_path: Path) -> None:
    with pytest.raises(UnknownArtifactError, match="Published here: nothing yet"):
        ArtifactStore(tmp_path).find("sales")


def test_path_finds_snapshot_and_name_finds_newest(store: ArtifactStore) -> None:
    first, second = (store.publish(_entry(data), data)[0] for data in (b"v1", b"v2"))
    assert store.find("df") == second
    assert store.find(first.path) == store.find(f"./{first.path}") == first
    assert store.find(first.path.replace("/", "\\")) == first
    assert store.find(reference(first.ref)) == first


def test_reference_reads_as_written() -> None:
    ref = ArtifactRef("notebook", "a@b c", "ab12")
    assert parse_reference(reference(ref)) == ref
    for text in ("", "chart", "chart/a", "chart@a", "picture/a@b", "chart/@b", "chart/a/b@c"):
        with pytest.raises(ValueError, match=r"reference|kind|empty|path"):
            parse_reference(text)


_PUBLISHER = """
from pathlib import Path
from parsimony_kernel.artifacts.store import ArtifactStore, LogEntry
from parsimony_kernel.identity import LiveNameCollisionError, content_sha
data = me.encode()
entry = LogEntry(kind="dataset", logical_id=f"of_{me}", content_sha=content_sha(data),
                 run_id=me, live_name="Sales", notebook=f"{me}.ipynb", title=me)
wait()
try:
    ArtifactStore(Path(place)).publish(entry, data)
    print("won")
except LiveNameCollisionError:
    print("lost")
"""


def test_one_of_eight_processes_wins_a_live_name(tmp_path: Path, race: Race) -> None:
    said = race(_PUBLISHER, tmp_path)
    assert sorted(said) == ["lost"] * 7 + ["won"]
    published = ArtifactStore(tmp_path).list()
    assert [entry.title for entry in published] == [f"n{said.index('won')}"]
    assert verify(ArtifactStore(tmp_path)).ok


class _Late(Folder):
    """Another notebook takes the name between our look and our claim."""

    def create_all(self, files: Mapping[str, bytes], log: str, claim: str) -> Collection[str]:
        other = ArtifactStore(self._root)
        other.publish(_entry(b"1", logical_id="a", live_name="Sales", notebook="a.ipynb"), b"1")
        return super().create_all(files, log, claim)


def test_loser_of_a_live_name_leaves_no_log(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, place=_Late(tmp_path))
    with pytest.raises(LiveNameCollisionError):
        store.publish(_entry(b"2", logical_id="b", live_name="Sales", notebook="b.ipynb"), b"2")
    assert verify(ArtifactStore(tmp_path)).ok


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("nowhere")])
def test_foreign_name_entry_is_replaced(store: ArtifactStore, make: Callable[[Path], None]) -> None:
    store.claim("report", "sales", "a.ipynb")
    (first,) = (_folder(store) / "names").iterdir()
    first.unlink()
    make(first)
    store.claim("report", "sales", "b.ipynb")
    with pytest.raises(LiveNameCollisionError, match=r"b\.ipynb"):
        store.claim("report", "sales", "a.ipynb")


# Who may write under a name.


def _publisher(root: Path, notebook: str) -> Publisher:
    path = root / notebook
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    return Publisher(ArtifactStore(root), notebook_path=notebook)


def test_name_passes_to_a_sibling_that_read_it_and_no_further(tmp_path: Path) -> None:
    mine, other = (_publisher(tmp_path, f"{name}/work.ipynb") for name in ("a", "b"))
    first = mine.publish("notebook", "x = 1", title="clean", run_id="r")
    for seen in (set(), {("notebook", "cleaner")}, {("report", "clean")}):
        with pytest.raises(LiveNameCollisionError, match="to replace that notebook, read it first"):
            other.publish("notebook", "x = 2", title="clean", run_id="r", seen=seen)
    seen = {("notebook", "CLEAN")}
    taken = other.publish("notebook", "x = 2", title="clean", run_id="r", seen=seen)
    assert taken.ref.logical_id == first.ref.logical_id
    assert other.store.read(first.ref) == b"x = 1\n"
    with pytest.raises(LiveNameCollisionError, match=r"belongs to 'b/work\.ipynb'"):
        mine.publish("notebook", "x = 3", title="clean", run_id="r")


def test_refused_write_leaves_no_snapshot_or_page(tmp_path: Path) -> None:
    mine, other = (_publisher(tmp_path, f"{name}/work.ipynb") for name in ("a", "b"))
    mine.publish("report", "Mine.", title="Title", run_id="r")
    page = (tmp_path / "reports" / "title.html").read_bytes()
    listed = mine.store.list()
    with pytest.raises(LiveNameCollisionError):
        other.publish("report", "Theirs.", title="Title", run_id="r")
    assert mine.store.list() == listed
    assert [path.read_bytes() for path in (tmp_path / "reports").iterdir()] == [page]


def test_renamed_notebook_starts_fresh_and_published_work_stays(tmp_path: Path) -> None:
    before = publish_table(_publisher(tmp_path, "draft.ipynb"))
    (tmp_path / "draft.ipynb").rename(tmp_path / "final.ipynb")
    renamed = Publisher(ArtifactStore(tmp_path), notebook_path="final.ipynb")
    after = publish_table(renamed)
    assert after.ref.logical_id != before.ref.logical_id
    store = renamed.store
    assert len(store.history("dataset", after.ref.logical_id)) == 1
    assert store.read(before.ref) == store.read(after.ref)
    assert store.find(before.path).notebook == "draft.ipynb"
    assert {entry.ref for entry in store.list()} == {before.ref, after.ref}
