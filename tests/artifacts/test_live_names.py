"""Who may write under a name."""

from pathlib import Path

import pytest

from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.store import ArtifactStore
from parsimony_kernel.identity import LiveNameCollisionError
from tests.artifacts.report_cases import publish_table


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
