"""A workspace in which a table and a chart are published."""

from pathlib import Path

import altair as alt
import pytest

from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.store import ArtifactStore
from parsimony_kernel.testing.manual_clock import ManualClock
from tests.artifacts.report_cases import FRAME, origin, publish_table


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def publisher(tmp_path: Path, clock: ManualClock) -> Publisher:
    (tmp_path / "data.csv").write_text("t\n1\n")
    made = Publisher(ArtifactStore(tmp_path), notebook_path="work.ipynb", clock=clock)
    publish_table(made)
    chart = alt.Chart(FRAME).mark_line().encode(x="month:T", y="t:Q")
    made.publish(
        "chart", chart, variable="curve", title="The curve", lineage=[origin("curve")], run_id="r"
    )
    return made
