"""Publishing a variable with its code and what it was made from."""

import io
import platform
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from parsimony_kernel.artifacts.publish import (
    Kind,
    Published,
    Publisher,
    PublishError,
    producing_code,
)
from parsimony_kernel.artifacts.store import ArtifactStore
from parsimony_kernel.identity import (
    ARTIFACT_FOLDER,
    ArtifactRef,
    LiveNameCollisionError,
    content_sha,
)
from parsimony_kernel.lineage.ledger import InputRef, OriginLedger, VariableOrigin
from parsimony_kernel.testing.manual_clock import ManualClock
from tests.artifacts.report_cases import origin


def _origin(name: str, code: str, *inputs: tuple[str, int], **more: Any) -> VariableOrigin:
    refs = tuple(InputRef(name=n, version=v) for n, v in inputs)
    path = "notebooks/work.ipynb"
    return origin(name, code, **{"notebook_path": path, "inputs": refs, "sources": (), **more})


FRAME = pd.DataFrame({"g": ["a", "b"], "v": [1, 2]})
CHART = alt.Chart(FRAME).mark_bar().encode(x="g:N", y="v:Q")


def _ledger() -> OriginLedger:
    ledger = OriginLedger()
    for each in (
        _origin("raw", "raw = read('data/cars.csv')", actor="user", sources=("data/cars.csv",)),
        _origin("df", "df = raw.dropna()", ("raw", 1)),
        _origin("chart", "chart = draw(df)", ("df", 1)),
    ):
        ledger.stamp(each)
    return ledger


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    data = tmp_path / "notebooks" / "data"
    data.mkdir(parents=True)
    (data / "cars.csv").write_bytes(b"g,v\na,1\nb,2\n")
    (tmp_path / "notebooks" / "work.ipynb").write_text("{}")
    return ArtifactStore(tmp_path)


def _publisher(store: ArtifactStore, notebook: str = "notebooks/work.ipynb") -> Publisher:
    return Publisher(store, notebook_path=notebook, clock=ManualClock())


def _publish(publisher: Publisher, kind: Kind, **told: Any) -> Published:
    variable, value = ("df", FRAME) if kind == "dataset" else ("chart", CHART)
    usual: dict[str, Any] = {
        "value": value,
        "variable": variable,
        "title": "Cars",
        "lineage": _ledger().ancestry(variable),
        "run_id": "r1",
    }
    return publisher.publish(kind, **usual | told)


def test_dataset_is_published_with_code_and_sources(store: ArtifactStore) -> None:
    published = _publish(_publisher(store), "dataset", description="one row a car")
    assert published.reused is False
    assert published.figure is None
    frame = pd.read_parquet(io.BytesIO(store.read(published.ref)))
    pd.testing.assert_frame_equal(frame, FRAME)
    entry = store.latest("dataset", published.ref.logical_id)
    assert entry is not None
    assert (entry.title, entry.description, entry.variable) == ("Cars", "one row a car", "df")
    assert (entry.run_id, entry.published_at) == ("r1", "2026-01-01T00:00:00+00:00")
    assert (entry.notebook, entry.folder) == ("notebooks/work.ipynb", "notebooks")
    libraries = {"pandas": pd, "pyarrow": pa, "altair": alt, "numpy": np}
    versions = {name: library.__version__ for name, library in libraries.items()}
    assert entry.environment == {"python": platform.python_version(), **versions}
    assert entry.inputs == (InputRef(name="df", version=1), InputRef(name="raw", version=1))
    source = entry.sources[0]
    assert (source.path, source.size_bytes) == ("data/cars.csv", 12)
    assert source.sha256 == content_sha(b"g,v\na,1\nb,2\n")
    code = (store.root / entry.code_path).read_text()
    assert entry.code_path.startswith(".ockham/notebooks/work/")
    assert code == ("# %% user\nraw = read('data/cars.csv')\n\n# %% agent\ndf = raw.dropna()\n")
    sha = Path(entry.code_path).stem
    assert store.read(ArtifactRef("notebook", "work", sha)).decode() == code


def test_folder_outside_workspace_is_kept_whole(
    store: ArtifactStore, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    publisher = Publisher(store, notebook_path="notebooks/work.ipynb", folder=elsewhere)
    _publish(publisher, "dataset")
    (entry,) = store.list()
    assert store.root / entry.folder == elsewhere


def test_chart_without_picture_says_so(store: ArtifactStore) -> None:
    far = alt.Chart("https://example.invalid/x.csv").mark_line().encode(x="a:T", y="b:Q")
    published = _publish(_publisher(store), "chart", value=far, title="Far")
    assert published.figure is not None
    assert published.figure.png_base64 is None
    assert published.note.startswith("The chart could not be drawn:")
    assert store.read(published.ref)


def test_republishing_restores_lost_code(store: ArtifactStore) -> None:
    publisher = _publisher(store)
    entry = _publish(publisher, "dataset").entry
    path = store.root / entry.code_path
    code = path.read_bytes()
    path.unlink()
    assert _publish(publisher, "dataset").reused
    assert path.read_bytes() == code


def test_chart_of_published_dataset_names_it(store: ArtifactStore) -> None:
    publisher = _publisher(store)
    ids = set()
    for sources in ((".ockham/datasets/d1/x.parquet",), (".ockham/datasets/d1/y.parquet",), ()):
        lineage = [_origin("chart", "c", sources=sources)]
        published = _publish(publisher, "chart", lineage=lineage)
        ids.add(published.ref.logical_id)
    assert len(ids) == 2


def test_unmeasurable_source_keeps_its_name(store: ArtifactStore) -> None:
    sources = ("gone.csv", "https://example.invalid/x.csv", "a\0b", "data")
    published = _publish(
        _publisher(store), "dataset", lineage=[_origin("df", "c", sources=sources)]
    )
    entry = store.latest("dataset", published.ref.logical_id)
    assert entry is not None
    assert sorted(s.path for s in entry.sources) == sorted(sources)
    assert {(s.size_bytes, s.sha256) for s in entry.sources} == {(None, None)}


def test_notebooks_with_same_name_share_no_variable(store: ArtifactStore) -> None:
    lineage = list(_ledger().ancestry("df"))
    _publish(_publisher(store), "dataset", lineage=lineage)
    other = store.root / "elsewhere" / "work.ipynb"
    other.parent.mkdir()
    other.write_text("{}")
    sibling = _publisher(store, "elsewhere/work.ipynb")
    with pytest.raises(LiveNameCollisionError, match=r"belongs to 'notebooks/work\.ipynb'"):
        _publish(sibling, "dataset", lineage=lineage)
    (store.root / "notebooks" / "work.ipynb").unlink()
    _publish(sibling, "dataset", lineage=lineage)


def test_cell_appears_once_per_run() -> None:
    one = _origin("x", "x, y = 1, 2", at="1")
    two = _origin("y", "x, y = 1, 2", at="1")
    bump = _origin("x", "x += 1", ("x", 1), version=2, at="2")
    again = _origin("x", "x += 1", ("x", 2), version=3, at="3")
    last = _origin("z", "z = x + y", ("x", 3), ("y", 1), at="4")
    code = producing_code([last, again, two, bump, one])
    lines = [line for line in code.splitlines() if line and not line.startswith("#")]
    assert lines == ["x, y = 1, 2", "x += 1", "x += 1", "z = x + y"]


def test_script_is_published_under_its_base_name(store: ArtifactStore) -> None:
    published = _publisher(store).publish(
        "notebook",
        "\nx = await f('\\d')  \n",
        title="scripts/clean.py",
        description="D",
        run_id="r",
    )
    assert published.ref.logical_id == "clean"
    assert published.path.startswith(".ockham/notebooks/clean/")
    assert store.read(published.ref) == b"x = await f('\\d')\n"
    entry = store.find("clean")
    assert (entry.kind, entry.live_name, entry.description) == ("notebook", "clean", "D")
    assert entry.notebook == "notebooks/work.ipynb"


def test_script_may_share_notebooks_name(store: ArtifactStore) -> None:
    publisher = _publisher(store)
    _publish(publisher, "dataset")
    published = publisher.publish("notebook", "x = 1", title="work", run_id="r")
    assert [entry.ref for entry in store.list() if entry.kind == "notebook"] == [published.ref]
    assert publisher.code_of(store.find("df")).startswith("# %% user")


@pytest.mark.parametrize(
    ("code", "name", "words"),
    [
        ("x = 1", " ", "needs a title"),
        (" \n", "clean", "is empty"),
        ("x = (", "clean", r"valid Python: .* \(line 1\)"),
        ("x = 1\n%time x", "clean", r"\(line 2\); fix it, and leave out magics"),
        ("x = '\0'", "clean", "valid Python"),
        ("x = " + "(" * 500 + ")" * 500, "clean", "valid Python"),
    ],
)
def test_non_script_is_reported(store: ArtifactStore, code: str, name: str, words: str) -> None:
    with pytest.raises(PublishError, match=words):
        _publisher(store).publish("notebook", code, title=name, run_id="r")
    assert not (store.root / ARTIFACT_FOLDER).exists()
