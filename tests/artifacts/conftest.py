"""A workspace in which a table and a chart are published."""

import shutil
from pathlib import Path

import altair as alt
import pytest

from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.store import ArtifactStore
from parsimony_kernel.testing.manual_clock import ManualClock
from tests.artifacts.report_cases import FRAME, publish, publish_table


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def publisher_in(folder: Path, clock: ManualClock) -> Publisher:
    return Publisher(ArtifactStore(folder), notebook_path="work.ipynb", clock=clock)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where both were published once; drawing a chart takes its time."""
    folder = tmp_path_factory.mktemp("published")
    (folder / "data.csv").write_text("t\n1\n")
    made = publisher_in(folder, ManualClock())
    publish_table(made)
    chart = alt.Chart(FRAME).mark_line().encode(x="month:T", y="t:Q")
    publish(made, "chart", chart, "curve", title="The curve")
    return folder


@pytest.fixture
def publisher(published: Path, tmp_path: Path, clock: ManualClock) -> Publisher:
    shutil.copytree(published, tmp_path, dirs_exist_ok=True)
    return publisher_in(tmp_path, clock)
