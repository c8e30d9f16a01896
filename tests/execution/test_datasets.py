"""Published datasets are found again by what they are called, and read only when they are whole."""

from pathlib import Path

import pandas as pd
import pytest

from parsimony_kernel.artifacts.codecs import encode_dataset
from parsimony_kernel.artifacts.store import ArtifactStore, LogEntry, SnapshotError
from parsimony_kernel.execution.readers import load_dataset
from parsimony_kernel.identity import content_sha

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
