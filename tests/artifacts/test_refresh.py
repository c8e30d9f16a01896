"""An artifact is made again from what is on record of it, and from nothing else."""

import io
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pytest

from parsimony_kernel.artifacts import publish
from parsimony_kernel.artifacts import refresh as refreshing
from parsimony_kernel.artifacts.publish import Published, Publisher
from parsimony_kernel.artifacts.refresh import Refreshed, RefreshError, in_words, refresh_named
from parsimony_kernel.artifacts.store import ArtifactStore, LogEntry, SnapshotError
from parsimony_kernel.artifacts.verify import verify
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.execution.run_scope import RunScope, run_scope
from parsimony_kernel.identity import ARTIFACT_FOLDER
from parsimony_kernel.lineage.ledger import OriginLedger, stamp_effect
from parsimony_kernel.lineage.observe import observe_cell
from parsimony_kernel.lineage.script import slice_of
from tests.artifacts.report_cases import Clean
from tests.races import Race

SCOPE = RunScope("r1", "analysis.ipynb", "c1", 1)
CELLS = (
    "sales = pd.read_csv('sales.csv')\nnoise = 1\nprint(noise)",
    "by_town = sales.groupby('town', as_index=False)['eur'].sum()",
    "chart = alt.Chart(by_town).mark_bar().encode(x='town:N', y='eur:Q')",
)


class Desk:
    """A notebook with its workspace, in which cells run and variables are published."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = ArtifactStore(root)
        self.publisher = Publisher(self.store, notebook_path="analysis.ipynb")
        self.executor = CodeExecutor(cwd=str(root))
        self.places: list[Clean] = []

    async def run(self, *cells: str) -> None:
        for cell in cells:
            with run_scope(SCOPE):
                output = await self.executor.execute(cell)
            assert output.error is None, output.error

    def publish(self, kind: Literal["dataset", "chart"], variable: str, title: str) -> Published:
        ledger, value = self.executor.origin_ledger, self.executor.variables()[variable]
        told: dict[str, Any] = {"title": title, "run_id": "r1"}
        told["lineage"] = tuple(ledger.ancestry(variable))
        told["script"] = slice_of(ledger, variable)
        return self.publisher.publish(kind, value, variable=variable, **told)

    @asynccontextmanager
    async def clean(self) -> AsyncIterator[Clean]:
        self.places.append(Clean())
        yield self.places[-1]

    async def refresh(self, words: str, **given: Any) -> Refreshed:
        return await refresh_named(self.publisher, words, self.clean, **given)

    def lines(self, published: Published) -> int:
        return len(self.store.history(published.ref.kind, published.ref.logical_id))


@pytest.fixture
async def desk(tmp_path: Path) -> Desk:
    (tmp_path / "sales.csv").write_text("town,eur\nGraz,1\nWien,2\nGraz,3\n")
    (tmp_path / "analysis.ipynb").write_text("{}")
    desk = Desk(tmp_path)
    await desk.run(*CELLS)
    return desk


# A dataset.


async def test_only_the_slice_runs(desk: Desk) -> None:
    desk.publish("dataset", "by_town", "By town")
    await desk.refresh("By town")
    (place,) = desk.places
    assert "groupby" in place.ran[0]
    assert "noise" not in place.ran[0]
    assert "chart" not in place.ran[0]


async def test_same_content_appends_nothing(desk: Desk) -> None:
    published = desk.publish("dataset", "by_town", "By town")
    assert published.note == ""
    done = await desk.refresh("by_town")
    assert (done.changed, done.sources, desk.lines(published)) == (False, (), 1)


@pytest.mark.parametrize(
    ("text", "accept", "said"),
    [
        ("town,eur\nGraz,100\n", False, r"'sales\.csv': changed since.*accept it"),
        (None, True, "missing or unreadable"),
        ("city,eur\nGraz,100\n", True, r"KeyError: 'town'.*groupby.*sales\.csv"),
    ],
    ids=["changed", "missing", "code that fails"],
)
async def test_unusable_source_fails_and_appends_nothing(
    desk: Desk, text: str | None, accept: bool, said: str
) -> None:
    published = desk.publish("dataset", "by_town", "By town")
    source = desk.root / "sales.csv"
    source.unlink() if text is None else source.write_text(text)
    with pytest.raises(RefreshError, match=said):
        await desk.refresh("By town", accept=accept)
    assert accept or not desk.places
    assert desk.lines(published) == 1


async def test_accepted_change_becomes_latest(desk: Desk) -> None:
    published = desk.publish("dataset", "by_town", "By town")
    (desk.root / "sales.csv").write_text("town,eur\nGraz,100\n")
    done = await desk.refresh("By town", accept=True)
    assert (done.changed, done.sources, desk.lines(published)) == (True, ("sales.csv",), 2)
    assert done.entry.content_sha != published.ref.content_sha
    assert desk.store.read(published.ref), "the earlier snapshot stays"
    # A harmless change is known afterwards, too.
    (desk.root / "sales.csv").write_text("town,eur\nGraz,60\nGraz,40\n")
    done = await desk.refresh("By town", accept=True)
    assert (done.changed, done.sources, desk.lines(published)) == (False, ("sales.csv",), 3)
    again = await desk.refresh("By town")
    assert (again.changed, again.sources, desk.lines(published)) == (False, (), 3)


async def test_slow_code_fails(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await desk.run("import time\nslow = pd.DataFrame({'x': [time.sleep(0.05) or 1]})")
    desk.publish("dataset", "slow", "Slow")
    monkeypatch.setattr(refreshing, "TIMEOUT_S", 0.01)
    with pytest.raises(RefreshError, match="timeout"):
        await desk.refresh("Slow")


async def test_corrupt_code_is_not_run(desk: Desk) -> None:
    desk.publish("dataset", "by_town", "By town")
    (entry,) = desk.store.list()
    (desk.root / entry.code_path).write_text("by_town = 'something else'\n")
    with pytest.raises(SnapshotError, match="damaged"):
        await desk.refresh("By town")
    assert not desk.places or not desk.places[0].ran


async def publish_frame(desk: Desk, code: str, title: str = "T") -> Published:
    await desk.run(code)
    return desk.publish("dataset", "t", title)


def entry_of(desk: Desk, published: Published) -> LogEntry:
    entry = desk.store.latest(published.ref.kind, published.ref.logical_id)
    assert entry is not None
    return entry


# A source that changed before publishing: what is published names the bytes that were read, or says
# that they are not known.


async def test_change_is_reported_and_counts_at_refresh(desk: Desk) -> None:
    (desk.root / "sales.csv").write_text("town,eur\nGraz,100\n")
    published = desk.publish("dataset", "by_town", "By town")
    assert "'sales.csv': changed since it was read" in published.note
    (source,) = entry_of(desk, published).sources
    assert (source.sha256, source.size_bytes) == ("", 30)
    with pytest.raises(RefreshError, match=r"'sales\.csv': changed since"):
        await desk.refresh("By town")
    done = await desk.refresh("By town", accept=True)
    assert (done.changed, desk.lines(published)) == (True, 2)
    assert not (await desk.refresh("By town")).changed


@pytest.mark.parametrize("again", ["refresh", "publish"])
async def test_rereading_clears_the_change(desk: Desk, again: str) -> None:
    source = desk.root / "sales.csv"
    source.write_text("town,eur\nGraz,4\nWien,2\n")
    published = desk.publish("dataset", "by_town", "By town")
    assert published.note
    if again == "refresh":
        assert not (await desk.refresh("By town", accept=True)).changed
    else:
        await desk.run(*CELLS)
        anew = desk.publish("dataset", "by_town", "By town")
        assert (anew.reused, anew.note) == (True, "")
    assert all(source.sha256 for source in entry_of(desk, published).sources)
    assert (await desk.refresh("By town")).sources == ()


async def test_large_source_is_reported_too(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "MAX_HASHED_BYTES", 2)
    (desk.root / "sales.csv").write_text("town,eur\nGraz,100\n")
    published = desk.publish("dataset", "by_town", "By town")
    assert "'sales.csv': changed since it was read" in published.note


async def test_differently_read_source_is_reported(desk: Desk) -> None:
    await desk.run("first = pd.read_csv('sales.csv')")
    (desk.root / "sales.csv").write_text("town,eur\nGraz,1\n")
    await desk.run("both = pd.concat([first, pd.read_csv('sales.csv')])")
    published = desk.publish("dataset", "both", "Both")
    assert "'sales.csv': changed since" in published.note


async def test_late_stamped_cell_reports_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x")
    code = "x = open('a.csv').read()"
    effect = observe_cell({}, {"x": "x"}, code, tmp_path)
    (tmp_path / "a.csv").write_text("longer")
    ledger = OriginLedger()
    stamp_effect(ledger, effect, code, SCOPE, "")
    origin = ledger.get("x")
    assert origin is not None
    assert [state.size_bytes for state in origin.source_states] == [1]


# Content that is another: nothing is published that nobody has accepted.


async def refused_then_accepted(desk: Desk, published: Published, said: str) -> None:
    with pytest.raises(RefreshError, match=rf"no known source has changed.*{said}.*--accept"):
        await desk.refresh("T")
    assert desk.lines(published) == 1
    assert (await desk.refresh("T", accept=True)).changed
    assert desk.lines(published) == 2


async def test_folder_with_another_file_is_noted(desk: Desk) -> None:
    (desk.root / "data").mkdir()
    (desk.root / "data/a.csv").write_text("v\n1\n")
    code = "import glob\nt = pd.concat(map(pd.read_csv, sorted(glob.glob('data/*.csv'))))"
    published = await publish_frame(desk, code)
    (desk.root / "data/b.csv").write_text("v\n2\n")
    await refused_then_accepted(desk, published, "")


async def test_unmeasurable_file_is_noted(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "MAX_HASHED_BYTES", 2)
    published = await publish_frame(desk, "t = pd.read_csv('sales.csv')")
    (desk.root / "sales.csv").write_text("town,eur\nGraz,1\nWien,2\nGraz,4\n")
    await refused_then_accepted(desk, published, r"'sales\.csv' cannot be compared")


async def test_nondeterministic_code_is_noted(desk: Desk) -> None:
    published = await publish_frame(desk, "import uuid\nt = pd.DataFrame([str(uuid.uuid4())])")
    await refused_then_accepted(desk, published, "different results each time")


async def test_changed_library_is_recorded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    published = await publish_frame(desk, "import uuid\nt = pd.DataFrame([str(uuid.uuid4())])")
    was = entry_of(desk, published).environment
    monkeypatch.setattr(refreshing, "environment", lambda: {**was, "pandas": "9.9"})
    await refused_then_accepted(desk, published, rf"pandas {was['pandas']} is 9\.9")
    assert entry_of(desk, published).environment["pandas"] == "9.9"


async def test_source_changing_during_run_fails(desk: Desk) -> None:
    code = "import os\nt = pd.read_csv('sales.csv')\nt['n'] = os.utime('sales.csv', (9, 9)) or 1\n"
    published = await publish_frame(desk, code)
    (desk.root / "sales.csv").write_text("town,eur\nGraz,1\nWien,2\n")
    with pytest.raises(RefreshError, match="changed while its code ran"):
        await desk.refresh("T", accept=True)
    assert desk.lines(published) == 1


@pytest.mark.parametrize("data", [None, b"junk"])
async def test_identical_bytes_are_restored(desk: Desk, data: bytes | None) -> None:
    published = desk.publish("dataset", "by_town", "By town")
    path = desk.root / published.path
    whole = path.read_bytes()
    path.unlink() if data is None else path.write_bytes(data)
    done = await desk.refresh("By town")
    assert (done.changed, path.read_bytes()) == (False, whole)
    assert desk.lines(published) == 1


@pytest.mark.parametrize(
    "path", ["../../evil.py", "x", "/etc/passwd", ".ockham/notebooks/a/zz.txt", "con/zz.py", "\0/a"]
)
async def test_code_that_is_no_snapshot_is_not_run(desk: Desk, path: str) -> None:
    published = desk.publish("dataset", "by_town", "By town")
    log = desk.store.root / ARTIFACT_FOLDER / f"datasets/{published.ref.logical_id}/log.jsonl"
    log.write_text(json.dumps(json.loads(log.read_text()) | {"code_path": path}) + "\n")
    (desk.root / "evil.py").write_text("by_town = 'something else'\n")
    with pytest.raises(RefreshError, match="has no code on record"):
        await desk.refresh("By town")
    assert not desk.places


async def test_result_published_meanwhile_is_kept(desk: Desk) -> None:
    published = await publish_frame(desk, "t = pd.read_csv('sales.csv')")
    (desk.root / "sales.csv").write_text("town,eur\nGraz,100\n")

    @asynccontextmanager
    async def busy() -> AsyncIterator[Clean]:
        desk.store.publish(published.entry.model_copy(update={"content_sha": ""}), b"other")
        yield Clean()

    with pytest.raises(RefreshError, match="published by somebody else while its code ran"):
        await refresh_named(desk.publisher, "T", busy, accept=True)
    assert desk.store.read(entry_of(desk, published).ref) == b"other"
    assert verify(desk.store).ok


_AT_ONCE = """
import asyncio
from pathlib import Path
import pandas as pd
from parsimony_kernel.artifacts.codecs import encode_dataset
from parsimony_kernel.artifacts.publish import Publisher
from parsimony_kernel.artifacts.refresh import RefreshError, refresh_named
from parsimony_kernel.artifacts.store import ArtifactStore
from tests.artifacts.report_cases import clean

store = ArtifactStore(Path(place))
publisher = Publisher(store, notebook_path="analysis.ipynb")
other = next(entry for entry in store.list() if entry.title == "Other")
encoded = encode_dataset(pd.DataFrame({"x": [me]}), "other")
wait()
told = []
for title in ("T", "Random", "Other"):
    if me in ("n0", "n1", "n2") and title == "Other":
        store.publish(other, encoded)
        continue
    try:
        done = asyncio.run(refresh_named(publisher, title, clean, accept=True))
        told.append("done" if store.read(done.entry.ref) else "empty")
    except RefreshError as exc:
        told.append("anew" if "published by somebody else" in str(exc) else str(exc))
print(*told, sep=",")
"""


@pytest.mark.slow
async def test_eight_concurrent_refreshes_leave_whole_logs(desk: Desk, race: Race) -> None:
    published = await publish_frame(desk, "t = pd.read_csv('sales.csv')")
    for name in ("random", "other"):
        await desk.run(f"import uuid\n{name} = pd.DataFrame([str(uuid.uuid4())])")
        desk.publish("dataset", name, name.title())
    (desk.root / "sales.csv").write_text("town,eur\nGraz,100\n")
    said = [each.split(",") for each in race(_AT_ONCE, desk.root)]
    assert {told for each in said for told in each} <= {"done", "anew"}
    assert [each[0] for each in said] == ["done"] * 8, "the same comes out everywhere"
    found = verify(desk.store)
    assert found.ok
    newest = desk.store.read(entry_of(desk, published).ref)
    assert pd.read_parquet(io.BytesIO(newest))["eur"].tolist() == [100]


# A chart and a report.


async def test_chart_is_compared_by_what_it_draws(desk: Desk) -> None:
    published = desk.publish("chart", "chart", "Towns")
    assert not (await desk.refresh("Towns")).changed
    (desk.root / "sales.csv").write_text("town,eur\nGraz,100\n")
    assert (await desk.refresh("Towns", accept=True)).changed
    assert desk.lines(published) == 2


async def test_report_is_refreshed_with_its_artifacts(desk: Desk) -> None:
    desk.publish("dataset", "by_town", "By town")
    desk.publish("chart", "chart", "Towns")
    report = desk.publisher.publish(
        "report",
        "![Towns](artifact:chart)\n\n![Table](artifact:by_town)",
        title="Sales",
        run_id="r1",
    )
    first = (desk.root / report.page).read_text()
    same = await desk.refresh("Sales")
    assert (same.changed, [part.changed for part in same.parts]) == (False, [False, False])
    (desk.root / "sales.csv").write_text("town,eur\nGraz,4711\n")
    done = await desk.refresh("Sales", accept=True)
    assert (done.changed, [part.changed for part in done.parts]) == (True, [True, True])
    assert desk.lines(report) == 2
    # Hashes may hold these digits.
    pages = first, (desk.root / done.page).read_text()
    told = [re.search(r"(?<![0-9a-f])4,?711(?![0-9a-f])", page) for page in pages]
    assert list(map(bool, told)) == [False, True]
    *parts, whole, page = in_words(done).splitlines()
    assert [each.startswith("The ") for each in parts] == [True, True]
    assert whole.startswith("The report 'Sales' changed ('sales.csv' changed); published as ")
    assert page == "Its page is reports/sales.html."


async def test_script_is_not_refreshable(desk: Desk) -> None:
    desk.publisher.publish("notebook", "x = 1", title="clean", run_id="r1")
    with pytest.raises(RefreshError, match="publish it again instead"):
        await desk.refresh("clean")
