"""Who may write under a name, with real publishers and real processes."""

from pathlib import Path

import pandas as pd
import pytest

from parsimony_kernel.artifacts.publish import Published, Publisher
from parsimony_kernel.artifacts.store import ArtifactStore
from parsimony_kernel.identity import LiveNameCollisionError
from parsimony_kernel.lineage.ledger import VariableOrigin

FRAME = pd.DataFrame({"v": [1, 2]})


def _publisher(root: Path, notebook: str) -> Publisher:
    path = root / notebook
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    return Publisher(ArtifactStore(root), notebook_path=notebook)


def _publish(publisher: Publisher, notebook: str, frame: pd.DataFrame = FRAME) -> Published:
    origin = VariableOrigin(
        name="df",
        version=1,
        actor="agent",
        notebook_path=notebook,
        cell_id="c",
        run_id="r",
        code="df = …",
        code_sha="0",
    )
    return publisher.publish(
        "dataset", frame, variable="df", title="Rows", lineage=[origin], run_id="r"
    )


def test_sibling_is_refused_until_it_read_the_content(tmp_path: Path) -> None:
    mine, other = (_publisher(tmp_path, f"{name}/work.ipynb") for name in ("a", "b"))
    first = mine.publish("notebook", "x = 1", title="clean", run_id="r")
    with pytest.raises(LiveNameCollisionError, match="read that notebook first") as refused:
        other.publish("notebook", "x = 2", title="clean", run_id="r")
    collision = refused.value
    assert (collision.kind, collision.live_name, collision.owner) == (
        "notebook",
        "clean",
        "a/work.ipynb",
    )
    seen = {(collision.kind, collision.live_name)}
    taken = other.publish("notebook", "x = 2", title="clean", run_id="r", seen=seen)
    assert taken.ref.logical_id == first.ref.logical_id
    assert other.store.read(first.ref) == b"x = 1\n"
    with pytest.raises(LiveNameCollisionError, match=r"belongs to 'b/work\.ipynb'"):
        mine.publish("notebook", "x = 3", title="clean", run_id="r")


def test_reading_another_name_or_kind_is_not_enough(tmp_path: Path) -> None:
    mine, other = (_publisher(tmp_path, f"{name}/work.ipynb") for name in ("a", "b"))
    mine.publish("report", "Words.", title="Clean", run_id="r")
    for seen in ({("report", "cleaner")}, {("notebook", "clean")}):
        with pytest.raises(LiveNameCollisionError):
            other.publish("report", "Others.", title="Clean", run_id="r", seen=seen)
    other.publish("report", "Others.", title="Clean", run_id="r", seen={("report", "CLEAN")})


def test_a_sibling_s_name_in_another_case_or_width_is_the_sibling_s_name(tmp_path: Path) -> None:
    mine, other = (_publisher(tmp_path, f"{name}/work.ipynb") for name in ("a", "b"))
    mine.publish("notebook", "x = 1", title="scope", run_id="r")
    for name in ("SCOPE", "\uff53cope"):
        with pytest.raises(LiveNameCollisionError, match="belongs to"):
            other.publish("notebook", "x = 2", title=name, run_id="r")


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
    before = _publish(_publisher(tmp_path, "draft.ipynb"), "draft.ipynb")
    (tmp_path / "draft.ipynb").rename(tmp_path / "final.ipynb")
    renamed = Publisher(ArtifactStore(tmp_path), notebook_path="final.ipynb")
    after = _publish(renamed, "final.ipynb")
    assert after.ref.logical_id != before.ref.logical_id
    assert after.reused is False
    store = renamed.store
    assert len(store.history("dataset", after.ref.logical_id)) == 1
    assert store.read(before.ref) == store.read(after.ref)
    assert store.find(before.path).notebook == "draft.ipynb"
    assert {entry.ref for entry in store.list()} == {before.ref, after.ref}
