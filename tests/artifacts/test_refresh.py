"""An artifact is made again from what is on record of it, and from nothing else."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.artifacts.publish import Published, Publisher
from parsimony_kernel.artifacts.refresh import Refreshed, RefreshError, refresh_named
from parsimony_kernel.artifacts.store import ArtifactStore, SnapshotError
from parsimony_kernel.execution.clean import clean_executor
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.execution.outputs import KernelOutput
from parsimony_kernel.execution.run_scope import RunScope, run_scope
from parsimony_kernel.lineage.slice import slice as slice_of

SCOPE = RunScope("r1", "analysis.ipynb", "c1", 1)
CELLS = (
    "sales = pd.read_csv('sales.csv')\nnoise = 1\nprint(noise)",
    "by_town = sales.groupby('town', as_index=False)['eur'].sum()",
    "chart = alt.Chart(by_town).mark_bar().encode(x='town:N', y='eur:Q')",
)


class InProcess:
    """A private namespace as a clean place; remembers what ran in it."""

    def __init__(self) -> None:
        self.executor = CodeExecutor()
        self.ran: list[str] = []

    async def execute(self, code: str, *, timeout_seconds: float | None = None) -> KernelOutput:
        self.ran.append(code)
        return await self.executor.execute(code, timeout_seconds=timeout_seconds)

    async def set_cwd(self, cwd: str) -> None:
        await self.executor.set_cwd(cwd)

    async def value(self, name: str) -> Any:
        return self.executor.variables()[name]


class Desk:
    """A notebook with its workspace, in which cells run and variables are published."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.store = ArtifactStore(root)
        self.publisher = Publisher(self.store, notebook_path="analysis.ipynb", quarto="")
        self.executor = CodeExecutor(cwd=str(root))
        self.places: list[InProcess] = []

    async def run(self, *cells: str) -> None:
        for cell in cells:
            with run_scope(SCOPE):
                output = await self.executor.execute(cell)
            assert output.error is None, output.error

    def publish(self, how: Callable[..., Published], variable: str, title: str) -> Published:
        ledger = self.executor.origin_ledger
        return how(
            self.executor.variables()[variable],
            variable=variable,
            title=title,
            lineage=tuple(ledger.ancestry(variable)),
            run_id="r1",
            script=slice_of(ledger, variable).code,
        )

    @asynccontextmanager
    async def clean(self) -> AsyncIterator[InProcess]:
        self.places.append(InProcess())
        yield self.places[-1]

    async def refresh(self, words: str, **given: Any) -> Refreshed:
        return await refresh_named(self.publisher, words, self.clean, **given)

    def lines(self, published: Published) -> int:
        return len(self.store.history(published.ref.kind, published.ref.logical_id).entries)


@pytest.fixture
async def desk(tmp_path: Path) -> Desk:
    (tmp_path / "sales.csv").write_text("town,eur\nGraz,1\nWien,2\nGraz,3\n")
    (tmp_path / "analysis.ipynb").write_text("{}")
    desk = Desk(tmp_path)
    await desk.run(*CELLS)
    return desk


class TestADataset:
    async def test_exactly_the_slice_runs(self, desk: Desk) -> None:
        desk.publish(desk.publisher.publish_dataset, "by_town", "By town")
        await desk.refresh("By town")
        (place,) = desk.places
        assert "groupby" in place.ran[0]
        assert "noise" not in place.ran[0]
        assert "chart" not in place.ran[0]

    async def test_the_same_content_appends_nothing(self, desk: Desk) -> None:
        published = desk.publish(desk.publisher.publish_dataset, "by_town", "By town")
        done = await desk.refresh("by_town")
        assert (done.changed, done.sources, desk.lines(published)) == (False, (), 1)

    async def test_a_source_that_changed_is_a_failure_and_nothing_is_appended(
        self, desk: Desk
    ) -> None:
        published = desk.publish(desk.publisher.publish_dataset, "by_town", "By town")
        (desk.root / "sales.csv").write_text("town,eur\nGraz,100\n")
        with pytest.raises(RefreshError, match=r"'sales\.csv': changed since.*accepted"):
            await desk.refresh("By town")
        assert not desk.places
        assert desk.lines(published) == 1

    async def test_a_change_that_is_accepted_becomes_the_latest(self, desk: Desk) -> None:
        published = desk.publish(desk.publisher.publish_dataset, "by_town", "By town")
        (desk.root / "sales.csv").write_text("town,eur\nGraz,100\n")
        done = await desk.refresh("By town", accept=True)
        assert (done.changed, done.sources, desk.lines(published)) == (True, ("sales.csv",), 2)
        assert done.entry.content_sha != published.ref.content_sha
        assert desk.store.read(published.ref), "the earlier snapshot stays"
        again = await desk.refresh("By town")
        assert (again.changed, desk.lines(published)) == (False, 2)

    async def test_a_source_that_changed_without_effect_appends_nothing(self, desk: Desk) -> None:
        published = desk.publish(desk.publisher.publish_dataset, "by_town", "By town")
        (desk.root / "sales.csv").write_text("town,eur\nGraz,4\nWien,2\n")
        done = await desk.refresh("By town", accept=True)
        assert (done.changed, done.sources, desk.lines(published)) == (False, ("sales.csv",), 1)

    async def test_another_encoding_of_the_same_content_is_no_change(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import pyarrow.parquet

        published = desk.publish(desk.publisher.publish_dataset, "by_town", "By town")
        write = pyarrow.parquet.write_table
        monkeypatch.setattr(
            pyarrow.parquet,
            "write_table",
            lambda table, sink: write(table, sink, compression="zstd"),
        )
        assert not (await desk.refresh("By town")).changed
        assert desk.lines(published) == 1

    async def test_a_source_that_is_gone_is_a_failure(self, desk: Desk) -> None:
        desk.publish(desk.publisher.publish_dataset, "by_town", "By town")
        (desk.root / "sales.csv").unlink()
        with pytest.raises(RefreshError, match="gone or not readable"):
            await desk.refresh("By town", accept=True)

    async def test_code_that_fails_now_is_told_with_its_line_and_the_source(
        self, desk: Desk
    ) -> None:
        published = desk.publish(desk.publisher.publish_dataset, "by_town", "By town")
        (desk.root / "sales.csv").write_text("city,eur\nGraz,100\n")
        with pytest.raises(RefreshError, match=r"KeyError: 'town'.*groupby.*sales\.csv"):
            await desk.refresh("By town", accept=True)
        assert desk.lines(published) == 1

    async def test_code_that_is_too_slow_is_a_failure(self, desk: Desk) -> None:
        await desk.run("import time\nslow = pd.DataFrame({'x': [time.sleep(0.05) or 1]})")
        desk.publish(desk.publisher.publish_dataset, "slow", "Slow")
        with pytest.raises(RefreshError, match="timeout"):
            await desk.refresh("Slow", timeout_s=0.01)

    async def test_damaged_code_is_not_run(self, desk: Desk) -> None:
        desk.publish(desk.publisher.publish_dataset, "by_town", "By town")
        (entry,) = desk.store.list()
        (desk.root / entry.code_path).write_text("by_town = 'something else'\n")
        with pytest.raises(SnapshotError, match="damaged"):
            await desk.refresh("By town")
        assert not desk.places or not desk.places[0].ran


class TestAChartAndAReport:
    async def test_a_chart_is_compared_by_what_it_draws(self, desk: Desk) -> None:
        published = desk.publish(desk.publisher.publish_chart, "chart", "Towns")
        assert not (await desk.refresh("Towns")).changed
        (desk.root / "sales.csv").write_text("town,eur\nGraz,100\n")
        assert (await desk.refresh("Towns", accept=True)).changed
        assert desk.lines(published) == 2

    async def test_a_report_is_renewed_with_what_it_shows(self, desk: Desk) -> None:
        desk.publish(desk.publisher.publish_dataset, "by_town", "By town")
        desk.publish(desk.publisher.publish_chart, "chart", "Towns")
        report = desk.publisher.publish_report(
            "Sales", "![Towns](artifact:chart)\n\n![Table](artifact:by_town)", run_id="r1"
        )
        first = (desk.root / report.page).read_text()
        same = await desk.refresh("Sales")
        assert (same.changed, [part.changed for part in same.parts]) == (False, [False, False])
        (desk.root / "sales.csv").write_text("town,eur\nGraz,4711\n")
        done = await desk.refresh("Sales", accept=True)
        assert (done.changed, [part.changed for part in done.parts]) == (True, [True, True])
        assert desk.lines(report) == 2
        assert (
            "4,711" in (desk.root / done.page).read_text()
            or "4711" in (desk.root / done.page).read_text()
        )
        assert "4711" not in first

    async def test_a_script_is_not_made_by_code(self, desk: Desk) -> None:
        desk.publisher.publish_notebook("x = 1", name="clean", run_id="r1")
        with pytest.raises(RefreshError, match="publish it again instead"):
            await desk.refresh("clean")


@pytest.mark.kernel
async def test_it_works_in_a_kernel_that_nobody_has_used(desk: Desk) -> None:
    published = desk.publish(desk.publisher.publish_dataset, "by_town", "By town")
    chart = desk.publish(desk.publisher.publish_chart, "chart", "Towns")
    assert not (await refresh_named(desk.publisher, "By town", clean_executor)).changed
    assert not (await refresh_named(desk.publisher, "Towns", clean_executor)).changed
    (desk.root / "sales.csv").write_text("town,eur\nGraz,100\n")
    done = await refresh_named(desk.publisher, "By town", clean_executor, accept=True)
    assert done.changed
    assert (desk.lines(published), desk.lines(chart)) == (2, 1)
