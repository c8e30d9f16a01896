"""What every executor tells of the origin of variables."""

from pathlib import Path

import pandas as pd
import pytest

from parsimony_kernel.artifacts.codecs import encode_dataset
from parsimony_kernel.artifacts.store import ArtifactStore, LogEntry
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.execution.run_scope import RunScope, run_scope
from parsimony_kernel.identity import content_sha


async def test_variables_are_stamped_with_notebook(executor: BaseCodeExecutor) -> None:
    await executor.execute("x = [1]", producer_notebook_path="notebooks/a.ipynb")
    await executor.execute("y = x * 2", producer_notebook_path="notebooks/a.ipynb")
    origin = executor.origin_ledger.get("y")
    assert origin is not None
    assert (origin.notebook_path, origin.actor, origin.version) == ("notebooks/a.ipynb", "agent", 1)
    assert [(each.name, each.version) for each in origin.inputs] == [("x", 1)]
    assert origin.at


async def test_run_scope_provides_ids(executor: BaseCodeExecutor) -> None:
    with run_scope(RunScope("run-1", "nb.ipynb", "cell-1", turn=3)):
        await executor.execute("x = [1]")
    origin = executor.origin_ledger.get("x")
    assert origin is not None
    assert (origin.run_id, origin.cell_id, origin.notebook_path) == ("run-1", "cell-1", "nb.ipynb")


async def test_nothing_is_stamped_without_producer(executor: BaseCodeExecutor) -> None:
    await executor.execute("x = [1]")
    assert executor.origin_ledger.get("x") is None


async def test_output_lists_changed_names(executor: BaseCodeExecutor, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n\n1\n2\n")
    await executor.set_cwd(str(tmp_path))
    await executor.execute("import pandas as pd\nold = {}\ngone = 1")
    output = await executor.execute(
        "df = pd.read_csv('a.csv')\nold['k'] = 1\n_private = 1\ndel gone"
    )
    assert (output.changed, output.deleted) == (("df", "old"), ("gone",))
    assert [each.name for each in output.variables] == ["df", "old"]
    assert [(each.source, each.size_bytes) for each in output.fetched] == [("a.csv", 6)]


async def test_loaded_published_table_is_a_source(
    executor: BaseCodeExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PARSIMONY_WORKSPACE", raising=False)
    data = encode_dataset(pd.DataFrame({"n": [1, 2]}), "sales")
    entry = LogEntry(
        kind="dataset",
        logical_id="d" * 64,
        content_sha=content_sha(data),
        title="Sales",
        live_name="work/sales",
    )
    ArtifactStore(tmp_path).publish(entry, data)
    await executor.set_cwd(str(tmp_path))
    seen = {("report", "summary")}
    output = await executor.execute(
        "from parsimony_kernel import load_dataset\ndf = load_dataset('Sales')",
        producer_notebook_path="nb.ipynb",
        seen_live_names=seen,
    )
    assert [each.source for each in output.fetched] == [entry.path]
    origin = executor.origin_ledger.get("df")
    assert origin is not None
    assert origin.sources == (entry.path,)
    assert seen == {("report", "summary"), ("dataset", "work/sales")}


async def test_bindings_before_an_error_are_stamped(executor: BaseCodeExecutor) -> None:
    await executor.execute("x = [1]\n1 / 0", producer_notebook_path="nb.ipynb")
    assert executor.origin_ledger.version("x") == 1
