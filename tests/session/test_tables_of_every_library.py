"""What holds for a table of pandas holds for one of any library, and a plan is not computed for it.

Each row is a library: it reads the same file, and what comes of it is the same table.
"""

from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.artifacts.codecs import CodecError, decode_dataset, encode_dataset
from parsimony_kernel.core.conversation import AgentContext
from parsimony_kernel.core.events import Handoff
from parsimony_kernel.core.outputs import DataFrameObject, KernelOutput
from parsimony_kernel.execution.base import BaseCodeExecutor
from parsimony_kernel.execution.executor import CodeExecutor, NotebookExecutor
from parsimony_kernel.execution.factory import OutputFactory, summarise
from parsimony_kernel.execution.frames import in_words
from parsimony_kernel.execution.run_scope import RunScope, run_scope
from parsimony_kernel.lineage.script import slice_of
from parsimony_kernel.session.context import TurnContext
from parsimony_kernel.session.past import Changes
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.session.share import Share

# Ibis asks DuckDB by a name that DuckDB will drop.
pytestmark = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")

SALES = pd.DataFrame({"city": ["Rome", "Rome", "Oslo", None], "sold": [1, 2, 3, 4]})
USER, TURN = RunScope("", "n.ipynb", "mine", actor="user"), RunScope("t", "n.ipynb", "t")


# How code makes each kind of table of a file, derives another, and changes it.
IMPORTS = (
    "import duckdb, ibis, pandas as pd, polars as pl\n"
    "import dask.dataframe as dd, pyarrow.dataset as ds, pyarrow.parquet as pq"
)
MAKE = {
    "pandas": "pd.read_parquet('sales.parquet')",
    "polars": "pl.read_parquet('sales.parquet')",
    "polars, lazy": "pl.scan_parquet('sales.parquet')",
    "duckdb": "duckdb.sql(\"SELECT * FROM 'sales.parquet'\")",
    "ibis": "ibis.read_parquet('sales.parquet')",
    "pyarrow": "pq.read_table('sales.parquet')",
    "pyarrow, a dataset": "ds.dataset('sales.parquet')",
    "dask": "dd.read_parquet('sales.parquet')",
}
DERIVE = {
    "pandas": "sales[sales.sold > 1]",
    "polars": "sales.filter(pl.col('sold') > 1)",
    "polars, lazy": "sales.filter(pl.col('sold') > 1)",
    "duckdb": "duckdb.sql('SELECT * FROM sales WHERE sold > 1')",
    "ibis": "sales.filter(sales.sold > 1)",
    "pyarrow": "sales.slice(1)",
    "pyarrow, a dataset": "sales.filter(ds.field('sold') > 1)",
    "dask": "sales[sales.sold > 1]",
}
CHANGE = {
    "pandas": "sales['twice'] = sales.sold * 2",
    "polars": "sales.insert_column(0, pl.Series('n', [1, 2, 3, 4]))",
    "polars, lazy": "sales = sales.with_columns(n=1)",
    "duckdb": "sales = sales.project('city')",
    "ibis": "sales = sales.mutate(n=1)",
    "pyarrow": "sales = sales.drop_columns(['city'])",
    "pyarrow, a dataset": "sales = sales.filter(ds.field('sold') > 2)",
    "dask": "sales['twice'] = sales.sold * 2",
}


async def ran(executor: BaseCodeExecutor, source: str, scope: RunScope = USER) -> KernelOutput:
    """What code that ends well shows."""
    with run_scope(scope):
        output = await executor.execute(source)
    assert output.error is None, output.error
    return output


class Place:
    """A namespace beside a file."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder, self.executor = kind, folder, CodeExecutor()
        self.library = kind.partition(",")[0]
        self.rows = 4 if kind in ("pandas", "polars", "pyarrow") else None

    async def __call__(self, code: str, scope: RunScope = USER) -> KernelOutput:
        output = await ran(self.executor, code, scope)
        assert output.stderr == ""
        return output

    @property
    def sales(self) -> Any:
        return self.executor.variables()["sales"]

    def inputs(self, name: str) -> dict[str, int]:
        origin = self.executor.origin_ledger.get(name)
        assert origin is not None
        return {ref.name: ref.version for ref in origin.inputs}


@pytest.fixture(params=MAKE)
async def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Place:
    made = Place(request.param, tmp_path)
    monkeypatch.chdir(tmp_path)
    SALES.to_parquet(tmp_path / "sales.parquet")
    await made.executor.set_cwd(str(tmp_path))
    await made(IMPORTS)
    await made(f"sales = {MAKE[made.kind]}")
    return made


async def test_inventory_names_library_columns_and_rows(place: Place) -> None:
    (told,), left_out = summarise({"sales": place.sales})
    assert (left_out, told["rows"]) == (0, place.rows)
    assert told.get("library", "pandas") == place.library
    assert [(each["name"], each["dtype"]) for each in told["columns"]] == [
        ("city", "str"),
        ("sold", "int64"),
    ]


async def test_shown_table_has_existing_rows(place: Place) -> None:
    for shown in ("sales", "display(sales)", "print(sales)"):
        (table,) = (await place(shown)).outputs
        assert isinstance(table, DataFrameObject)
        assert ("Oslo" in table.with_rows().get("text", "")) == (place.rows is not None)
    assert in_words(place.sales).startswith(f"<{place.library} ")


async def test_lineage_includes_file_and_derivations(place: Place) -> None:
    ledger = place.executor.origin_ledger
    origin = ledger.get("sales")
    assert origin is not None
    assert origin.sources == ("sales.parquet",)
    await place("sales")
    await place(f"some = {DERIVE[place.kind]}")
    assert place.inputs("some")["sales"] == ledger.version("sales") == 1
    await place(CHANGE[place.kind], TURN)
    assert [ref.name for ref in ledger.stale("some")] == ["sales"]


async def test_changing_turn_is_undone(place: Place) -> None:
    changes, checkpoints = Changes(), place.executor.checkpoints()
    await place(f"some = {DERIVE[place.kind]}")
    object_before, columns = place.sales, frame_names(place.sales)
    checkpoints.take()
    await place(CHANGE[place.kind], TURN)
    assert frame_names(place.sales) != columns or place.sales is not object_before
    change = checkpoints.close()
    assert change is not None
    changes.add("t", change)
    undone = changes.undo("t", place.executor)
    assert (undone.restored, undone.lost, undone.kept) == (("sales",), (), ())
    assert place.sales is object_before
    assert frame_names(place.sales) == columns


def frame_names(value: Any) -> list[str]:
    (told,), _ = summarise({"it": value})
    return [each["name"] for each in told["columns"]]


async def test_table_is_published_by_its_own_writer(place: Place) -> None:
    stored = encode_dataset(place.sales, "sales")
    assert stored == encode_dataset(place.sales, "sales")
    pd.testing.assert_frame_equal(decode_dataset(stored), SALES, check_dtype=False)


# Tables computed later: code that makes one with ``seen``, which notes values, and computes it.
PLANS = {
    "polars": (
        "import polars as pl\n"
        "plan = pl.LazyFrame({'n': range(3)}).select(pl.col('n').map_elements(seen, pl.Int64))",
        "plan.collect()",
    ),
    "duckdb": (
        "import duckdb\ncon = duckdb.connect()\n"
        "con.create_function('seen', seen, ['BIGINT'], 'BIGINT')\n"
        "plan = con.sql('SELECT seen(range) AS n FROM range(3)')",
        "plan.fetchall()",
    ),
    "ibis": (
        "import ibis\nibis.options.interactive = True\n"
        "marked = ibis.udf.scalar.python(seen, signature=((int,), int))\n"
        "plan = ibis.range(3).unnest().name('n').as_table().select(n=lambda t: marked(t.n))",
        "plan.to_pyarrow()",
    ),
    "ibis, a column and a number": (
        "import ibis\nibis.options.interactive = True\n"
        "marked = ibis.udf.scalar.python(seen, signature=((int,), int))\n"
        "column = ibis.range(3).unnest().name('n').as_table().select(n=lambda t: marked(t.n)).n\n"
        "plan = column.sum().name('n')",
        "plan.to_pyarrow()",
    ),
    "pyarrow": (
        "import pyarrow as pa\n"
        "batches = (pa.record_batch({'n': [seen(each)]}) for each in range(3))\n"
        "plan = pa.RecordBatchReader.from_batches(pa.schema({'n': pa.int64()}), batches)",
        "plan.read_all()",
    ),
    "dask": (
        "import pandas as pd, dask.dataframe as dd\n"
        "whole = dd.from_pandas(pd.DataFrame({'n': range(3)}), npartitions=2)\n"
        "plan = whole.n.map(seen, meta=('n', 'int64')).to_frame()\n"
        "column, total = plan.n, plan.n.sum()",
        "plan.compute()",
    ),
}


@pytest.mark.parametrize("library", PLANS)
async def test_plan_is_not_computed_for_display(library: str) -> None:
    asked: list[int] = []

    def seen(number: int) -> int:
        asked.append(number)
        return number

    executor, (make, compute) = CodeExecutor(), PLANS[library]
    executor.namespace()["seen"] = seen

    await ran(executor, make)
    asked.clear()  # DuckDB calls a function once to learn that it has no effect
    checkpoints = executor.checkpoints()
    checkpoints.take()
    for code in ("plan", "display(plan)", "print(plan)", "many = [plan, {'it': plan}]\nmany"):
        await ran(executor, code)
    variables = {name: each for name, each in executor.variables().items() if name != "seen"}
    summaries, _ = summarise(variables)
    for name, value in variables.items():
        OutputFactory().convert(value, name)
    assert checkpoints.change_since(0) is not None  # `many`
    assert asked == []
    (told,) = (each for each in summaries if each["name"] == "plan")
    assert (told["rows"], [each["name"] for each in told["columns"]]) == (None, ["n"])
    await ran(executor, compute)
    assert sorted(asked) == [0, 1, 2]


class Spark:
    """A data frame of Spark, as far as it tells of itself without a job."""

    dtypes = (("city", "string"), ("sold", "bigint"))

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} asks the cluster")


def test_spark_frame_is_described_not_published() -> None:
    kind = type("DataFrame", (Spark,), {"__module__": "pyspark.sql.dataframe"})
    (told,), _ = summarise({"sales": kind()})
    assert (told["library"], told["rows"]) == ("pyspark", None)
    assert [(each["name"], each["dtype"]) for each in told["columns"]] == list(Spark.dtypes)
    with pytest.raises(CodecError, match=r"pyspark.*DataFrame of pandas first"):
        encode_dataset(kind(), "sales")


async def test_spark_operations_keep_session() -> None:
    class SparkSession:
        def read(self, path: str) -> None:
            self.sent = path  # as the real one notes every command

    SparkSession.__module__ = "pyspark.sql.session"
    executor = CodeExecutor()
    executor.namespace()["spark"] = SparkSession()
    assert (await executor.execute("rows = spark.read('sales.csv')")).changed == ("rows",)


async def test_query_lineage_and_undo() -> None:
    executor = CodeExecutor()
    ledger = executor.origin_ledger

    run = partial(ran, executor)
    await run("import duckdb, pandas as pd\nsales = pd.DataFrame({'sold': [1, 2]})")
    await run("duckdb.sql('CREATE OR REPLACE TABLE kept AS SELECT * FROM sales')")
    await run("total = duckdb.sql('SELECT sum(sold) AS s FROM kept').df()")
    inputs = {ref.name for origin in ledger.ancestry("total") for ref in origin.inputs}
    assert {"table kept", "sales"} <= inputs
    assert slice_of(ledger, "total").count("duckdb.sql") == 2
    checkpoints = executor.checkpoints()
    checkpoints.take()
    output = await run("duckdb.sql('INSERT INTO kept VALUES (5)')", TURN)
    assert "Undo can't restore table kept: it is in a database.\n" in output.stderr
    assert [ref.name for ref in ledger.stale("total")] == ["table kept"]
    await run("later = duckdb.sql('SELECT * FROM older_table') if False else 1")
    assert "older_table" in slice_of(ledger, "later")


@pytest.mark.parametrize(
    "many", ["'parts'", "'parts/*.parquet'", "folder", "f'{folder}/*.parquet'"]
)
async def test_multi_file_table_has_folder_or_pattern_source(many: str, tmp_path: Path) -> None:
    executor = CodeExecutor()
    (tmp_path / "parts").mkdir()
    SALES.to_parquet(tmp_path / "parts" / "0.parquet")
    await executor.set_cwd(str(tmp_path))
    await ran(executor, "import polars as pl\nfolder = 'parts'")
    await ran(executor, f"frame = pl.scan_parquet({many})\n{{'parts': 1}}['parts'], '*.*'")
    origin = executor.origin_ledger.get("frame")
    assert origin is not None
    assert origin.sources == (("parts/*.parquet",) if "*" in many else ("parts",))


async def test_sql_cell_lineage_has_tables(shell: InteractiveShell, tmp_path: Path) -> None:
    def sql(line: str, cell: str) -> None:
        """What JupySQL does with a cell whose result has a name."""
        result, name = shell.user_ns["con"].sql(cell), line.removesuffix("<<").strip()
        if name:
            shell.user_ns[name] = result.df()

    shell.register_magic_function(sql, magic_kind="cell")
    executor = NotebookExecutor(shell)
    ledger = executor.origin_ledger
    await executor.set_cwd(str(tmp_path))
    for code in (
        "import duckdb, pandas as pd\nsales = pd.DataFrame({'city': ['Rome'], 'sold': [1]})",
        "con = duckdb.connect(config={'python_scan_all_frames': True})",
        "%%sql\nCREATE TABLE kept AS SELECT * FROM sales",
        "%%sql best <<\nSELECT city, max(sold) AS sold FROM kept GROUP BY city",
    ):
        await ran(executor, code)
    assert executor.variables()["best"].to_dict("list") == {"city": ["Rome"], "sold": [1]}
    inputs = {ref.name for origin in ledger.ancestry("best") for ref in origin.inputs}
    assert {"table kept", "sales"} <= inputs
    del shell.magics_manager.magics["cell"]["sql"]


def test_real_model_is_told_versions_and_date(tmp_path: Path) -> None:
    with closing(
        NotebookSession(executor=CodeExecutor(), notebook="n.ipynb", folder=tmp_path)
    ) as home:
        context, _ = TurnContext(home, Share.samples).inventory()
    assert f'"today": "{datetime.now(UTC):%Y-%m-%d, %a}"' in context
    assert f"pandas {version('pandas')}, " in context
    assert f"altair {version('altair')}" in context


async def test_built_in_model_says_it_uses_pandas(place: Place) -> None:
    with closing(
        NotebookSession(executor=place.executor, notebook="n.ipynb", folder=place.folder)
    ) as home:
        context, _ = TurnContext(home, Share.samples, is_reader=False).inventory()
    agent = Agent(model="offline", code_executor=place.executor)
    result = await agent.ask("total sold by city in sales", ctx=AgentContext(notebook=context))
    assert result.ok == (place.library == "pandas")
    if not result.ok:
        (last,) = (each for each in result.events if isinstance(each, Handoff))
        assert f"sales is a table of {place.library}" in last.rationale
