"""The publishing tools, as a model calls them."""

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any, Literal

import altair as alt
import pandas as pd
import pytest

from parsimony_kernel.artifacts.publish import Kind, Published, Publisher
from parsimony_kernel.artifacts.store import ArtifactStore
from parsimony_kernel.core.error_table import KNOWN, ROWS
from parsimony_kernel.core.events import AgentEvent, ArtifactPublished, parse_event
from parsimony_kernel.core.kinds import FailureKind, FailureType
from parsimony_kernel.core.outputs import FigureObject, PrimitiveObject
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.execution.remote_client import RemoteValue
from parsimony_kernel.execution.remote_kernel import RemoteKernelError
from parsimony_kernel.execution.run_scope import RunScope, run_scope
from parsimony_kernel.gate.gate import Gate
from parsimony_kernel.lineage.script import slice_of
from parsimony_kernel.toolbox.publish_tools import MAX_LISTED, MAX_TEXT, publish_tools
from parsimony_kernel.tools import ToolResult
from tests.artifacts.report_cases import origin


def _namespace(*stamped: str, **variables: Any) -> CodeExecutor:
    """An executor that holds ``variables``, some of which have an origin."""
    executor = CodeExecutor()
    executor.locals.update(variables)
    for name in stamped:
        executor.origin_ledger.stamp(origin(name, sources=()))
    return executor


FRAME = pd.DataFrame({"g": ["a", "b"], "v": [1, 2]})
CHART = alt.Chart(FRAME).mark_bar().encode(x="g:N", y="v:Q")


class Desk:
    """The tools over a namespace, as a model calls them, and what they announce."""

    def __init__(self, root: Path, notebook: str = "work.ipynb", **given: Any) -> None:
        self.root = root
        self.events: list[AgentEvent] = []
        self.seen: set[tuple[str, str]] = set()
        stamped = {"sales": FRAME, "chart": CHART, "numbers": [1, 2]}
        executor = given.pop("executor", None) or _namespace(*stamped, **stamped, unstamped=FRAME)
        publisher = given.pop("publisher", Publisher)(ArtifactStore(root), notebook_path=notebook)
        emit = given.pop("emit", self.events.append)
        self.tools = publish_tools(
            executor, publisher, emit, lambda: "run-1", **{"seen": self.seen, **given}
        )

    async def call(self, called: str, /, **arguments: Any) -> ToolResult:
        """What the gate makes of the tool's answer."""
        outcome = await Gate(self.tools, timeout_s=60).step(called, arguments)
        if outcome.failure is not None:
            return ToolResult.from_failure(outcome.failure)
        assert outcome.result is not None
        return outcome.result

    async def refused(self, called: str, /, **arguments: Any) -> tuple[FailureType, str]:
        """Why a call fails, by the table that classifiers ask, and what is said of it."""
        failure = (await self.call(called, **arguments)).failure
        assert failure is not None
        assert failure.kind is FailureKind.tool_error
        return ROWS[failure.metadata["facts"][KNOWN]].type, failure.explanation

    async def publish_all(self) -> ToolResult:
        """A dataset, a chart and a report that shows both."""
        await self.call("return_dataset", variable="sales", title="Sales")
        told = {"title": "v by g", "description": "Two bars."}
        await self.call("return_chart", variable="chart", **told)
        return await self.call("return_report", title="Sales report", body=BODY)

    @property
    def published(self) -> ArtifactPublished:
        """The newest announcement, as it is read again."""
        event = parse_event(self.events[-1].model_dump(mode="json"))
        assert isinstance(event, ArtifactPublished)
        return event


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A workspace with a dataset, a chart and a report, which no test changes."""
    desk = Desk(tmp_path_factory.mktemp("full"))
    asyncio.run(desk.publish_all())
    return desk


async def test_dataset_answer_has_ids_and_event(desk: Desk) -> None:
    result = await desk.call("return_dataset", variable="sales", title="Sales")
    assert result.ok
    assert list(result.data) == ["kind", "logical_id", "content_sha", "path", "reused"]
    assert (desk.root / result.data["path"]).is_file()
    event = desk.published
    assert (event.kind, event.variable, event.title) == ("dataset", "sales", "Sales")
    assert (event.path, event.figure) == (result.data["path"], None)


async def test_chart_event_has_picture(desk: Desk) -> None:
    told = {"title": "v by g", "description": "Two cars."}
    result = await desk.call("return_chart", variable="chart", **told)
    assert result.data["kind"] == "chart"
    assert result.data["path"].endswith(".vl.json")
    figure = FigureObject.model_validate(desk.published.figure)
    assert figure.png_base64
    assert figure.spec == CHART.to_dict()
    assert figure.description == "bar chart of v by g: Two cars."


async def test_unwritable_disk_and_corrupt_artifact_are_faults_outside(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    desk = Desk(tmp_path / "file")
    kind, said = await desk.refused("return_dataset", variable="sales", title="T")
    assert (kind, desk.events) == (FailureType.EXTERNAL_FAULT, [])
    assert "choose another folder" in said
    published = await Desk(tmp_path).call("return_dataset", variable="sales", title="Sales")
    (tmp_path / published.data["path"]).write_bytes(b"")
    desk = Desk(tmp_path)
    kind, _ = await desk.refused("read_artifact", name="sales")
    assert (kind, desk.seen) == (FailureType.EXTERNAL_FAULT, set())


async def test_work_is_off_loop_and_announced_on_it(tmp_path: Path) -> None:
    threads: list[threading.Thread] = []

    class Watched(Publisher):
        def publish(self, kind: Kind, value: object, **arguments: Any) -> Published:
            threads.append(threading.current_thread())
            return super().publish(kind, value, **arguments)

    desk = Desk(
        tmp_path, publisher=Watched, emit=lambda _: threads.append(threading.current_thread())
    )
    await desk.call("return_dataset", variable="sales", title="T")
    assert threads[0] is not threading.current_thread()
    assert threads[1] is threading.current_thread()


def test_publishing_is_repeatable_and_looking_harmless(desk: Desk) -> None:
    publishing = ["return_dataset", "return_chart", "return_report", "return_notebook"]
    assert [*desk.tools] == [*publishing, "read_artifact", "list_artifacts"]
    for name, built in desk.tools.items():
        assert (built.is_repeatable, built.terminal) == (True, False)
        assert (built.tool_type == "publish") is (built.effect != "none") is (name in publishing)


BODY = "Sales rose.\n\n![By g](artifact:chart)\n\nSee [the table](artifact:sales)."


@pytest.mark.parametrize(
    ("notebook", "up"), [("work.ipynb", ""), ("plans/may/work.ipynb", "../../")]
)
async def test_report_answer_has_page_and_event(tmp_path: Path, notebook: str, up: str) -> None:
    desk = Desk(tmp_path, notebook)
    result = await desk.call("return_report", title="Sales report", body="Sales rose.")
    assert list(result.data) == ["kind", "logical_id", "content_sha", "path", "reused", "page"]
    assert result.data["page"] == "reports/sales_report.html"
    assert "Sales rose." in (desk.root / result.data["page"]).read_text()
    event = desk.published
    assert (event.kind, event.title) == ("report", "Sales report")
    # The page is told from where the notebook lies.
    assert (event.path, event.page) == (result.data["path"], up + result.data["page"])


async def test_cells_of_run_are_the_default_script(tmp_path: Path) -> None:
    executor = CodeExecutor()
    cells: list[tuple[Literal["user", "agent"], str, str]] = [
        ("user", "run-1", "a = 1"),
        ("agent", "run-0", "b = 1"),
        ("agent", "run-1", "c = 1\n"),
        ("agent", "run-1", "d = c"),
    ]
    for actor, run, code in cells:
        with run_scope(RunScope(run, "work.ipynb", "c", actor=actor)):
            await executor.execute(code)
    desk = Desk(tmp_path, executor=executor)
    result = await desk.call("return_notebook", name="steps")
    assert (tmp_path / result.data["path"]).read_text() == "# %%\nc = 1\n\n# %%\nd = c\n"
    given = await desk.call("return_notebook", name="given", code="x = 1")
    assert (tmp_path / given.data["path"]).read_text() == "x = 1\n"
    assert [getattr(event, "title", "") for event in desk.events] == ["steps", "given"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sales", {"kind": "dataset", "rows": 2, "columns": {"g": "large_string", "v": "int64"},
                   "first_rows": [["a", "1"], ["b", "2"]],
                   "code": "# %% agent\nsales = made()\n"}),
        ("v by g", {"kind": "chart", "shows": "bar chart of v by g", "description": "Two bars."}),
    ],
)  # fmt: skip
async def test_artifact_is_read_briefly(full: Desk, name: str, expected: dict[str, Any]) -> None:
    result = await full.call("read_artifact", name=name)
    assert {key: result.data[key] for key in expected} == expected


async def test_long_text_is_read_in_parts(desk: Desk) -> None:
    code = "\n".join(f"x{number} = {number}" for number in range(2_000)) + "\n"
    await desk.call("return_notebook", name="long", code=code)
    parts, start = "", 0
    while start is not None:
        data = (await desk.call("read_artifact", name="long", start=start)).data
        assert len(data["text"]) <= MAX_TEXT
        parts, start = parts + data["text"], data.get("next_start")
    assert parts == code


async def test_published_work_is_listed_newest_first(desk: Desk) -> None:
    await desk.publish_all()
    listed = (await desk.call("list_artifacts")).data["artifacts"]
    assert [each["kind"] for each in listed] == ["report", "chart", "dataset"]
    assert listed[2]["variable"] == "sales"
    charts = (await desk.call("list_artifacts", kind="chart")).data["artifacts"]
    assert [each["title"] for each in charts] == ["v by g"]
    for number in range(MAX_LISTED):
        await desk.call("return_notebook", name=f"n{number}", code=f"x = {number}")
    data = (await desk.call("list_artifacts")).data
    assert len(data["artifacts"]) == MAX_LISTED
    assert data["more"] == 3


async def test_siblings_name_is_taken_over_after_reading(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.ipynb").write_text("{}")
    mine = Desk(tmp_path, "b.ipynb")
    await Desk(tmp_path, "a.ipynb").call("return_notebook", name="clean", code="x = 1")
    kind, said = await mine.refused("return_notebook", name="clean", code="x = 2")
    assert kind is FailureType.CONSTRAINT_IGNORED
    told = "return_notebook failed: The notebook name 'clean' belongs to 'a.ipynb'. Publish under"
    assert said.startswith(told)  # in words, without the name of a class
    assert (await mine.call("read_artifact", name="clean")).data["text"] == "x = 1\n"
    assert mine.seen == {("notebook", "clean")}
    assert (await mine.call("return_notebook", name="clean", code="x = 2")).ok
    await mine.call("return_notebook", name="of mine", code="x = 3")
    assert mine.seen == {("notebook", "clean"), ("notebook", "of mine")}


@pytest.mark.parametrize(
    ("tool", "arguments", "cause", "words"),
    [
        ("return_dataset", {"variable": "slaes"}, "hallucinated_state", "did you mean 'sales'?"),
        ("return_dataset", {"variable": "qqq"}, "hallucinated_state", "has 'chart', 'numbers'"),
        ("return_dataset", {"variable": "numbers"}, "schema_mismatch", "not a DataFrame"),
        ("return_dataset", {"variable": "chart"}, "schema_mismatch", "with return_chart"),
        ("return_chart", {"variable": "sales"}, "schema_mismatch", "with return_dataset"),
        ("return_dataset", {"variable": "unstamped"}, "constraint_ignored", "The origin of"),
        ("return_dataset", {"variable": "sales", "title": " "}, "constraint_ignored", "a title"),
        ("read_artifact", {"name": "slaes"}, "hallucinated_state", "did you mean"),
        ("return_report", {"body": "![x](artifact:crt)"}, "hallucinated_state", "(chart)"),
        ("return_report", {"body": "{{< include x >}}"}, "constraint_ignored", "shortcode"),
        ("return_notebook", {"name": "n"}, "constraint_ignored", "is empty"),
        ("return_notebook", {"name": "n", "code": "x ="}, "constraint_ignored", "valid Python"),
    ],
)
async def test_impossible_action_is_one_sentence_without_event(
    full: Desk, tool: str, arguments: dict[str, str], cause: str, words: str
) -> None:
    usual = {} if tool in ("read_artifact", "return_notebook") else {"title": "T"}
    kind, said = await full.refused(tool, **usual | arguments)
    assert kind is FailureType(cause)
    assert words in said
    assert "\n" not in said
    assert len(full.events) == 3


async def test_script_of_variable_is_kept(tmp_path: Path) -> None:
    executor = CodeExecutor()
    with run_scope(RunScope("r", "work.ipynb", "c")):
        await executor.execute("import pandas as pd\nother = 1\nsales = pd.DataFrame({'v': [1]})")
    desk = Desk(tmp_path, executor=executor)
    await desk.call("return_dataset", variable="sales", title="Sales")
    code = (await desk.call("read_artifact", name="sales")).data["code"]
    assert code == slice_of(executor.origin_ledger, "sales")
    assert "sales = pd.DataFrame" in code
    assert "other" not in code


async def test_remote_variable_is_fetched_before_publishing(tmp_path: Path) -> None:
    def bring(name: str, max_bytes: int) -> Any:
        if name == "gone":
            raise RemoteKernelError("The kernel is gone: run the code again.")
        return {"sales": FRAME, "chart": CHART.to_dict()}[name]

    summary = PrimitiveObject(python_type="x", text="x")
    names = ("sales", "chart", "gone")
    values = {name: RemoteValue(name, "x", summary, bring) for name in names}
    desk = Desk(tmp_path, executor=_namespace(*names, **values))
    assert (await desk.call("return_dataset", variable="sales", title="S")).ok
    assert (await desk.call("return_chart", variable="chart", title="C")).ok
    failure = (await desk.call("return_dataset", variable="gone", title="G")).failure
    assert failure is not None
    assert failure.explanation.endswith("The kernel is gone: run the code again.")


@pytest.mark.parametrize("reaches", [False, True])
async def test_plan_is_computed_without_reaching_out(reaches: bool, tmp_path: Path) -> None:
    import dask.dataframe as dd

    def fetched(part: pd.DataFrame) -> pd.DataFrame:
        if reaches:
            socket.create_connection(("198.51.100.7", 80), timeout=1)
        return part

    plan = dd.from_pandas(FRAME, npartitions=1).map_partitions(fetched, meta=FRAME)
    desk = Desk(tmp_path, executor=_namespace("plan", plan=plan))
    result = await desk.call("return_dataset", variable="plan", title="Plan")
    assert result.ok == (not reaches)
    if reaches:
        assert "it may not reach 198.51.100.7" in str(result.failure)
    else:
        assert len(pd.read_parquet(tmp_path / result.data["path"])) == len(FRAME)
