"""The publishing tools, as a model calls them."""

import socket
import threading
from pathlib import Path
from typing import Any, Literal

import altair as alt
import dask.dataframe as dd
import pandas as pd
import pytest

from parsimony_kernel.artifacts.publish import Kind, Published, Publisher
from parsimony_kernel.artifacts.store import ArtifactStore
from parsimony_kernel.core.error_table import KNOWN, ROWS
from parsimony_kernel.core.events import AgentEvent, ArtifactPublished, parse_event
from parsimony_kernel.core.kinds import Failure, FailureKind
from parsimony_kernel.core.outputs import FigureObject, PrimitiveObject
from parsimony_kernel.core.taxonomy import FailureType
from parsimony_kernel.execution.private import CodeExecutor
from parsimony_kernel.execution.remote_kernel import RemoteKernelError
from parsimony_kernel.execution.remote_values import RemoteValue
from parsimony_kernel.execution.run_scope import RunScope, run_scope
from parsimony_kernel.gate.gate import Gate
from parsimony_kernel.toolbox.publish_tools import MAX_LISTED, MAX_TEXT, publish_tools
from parsimony_kernel.tools import ToolResult, Tools
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


def _tools(
    root: Path,
    events: list[AgentEvent],
    notebook: str = "work.ipynb",
    *,
    executor: CodeExecutor | None = None,
    **given: Any,
) -> Tools:
    stamped = {"sales": FRAME, "chart": CHART, "numbers": [1, 2]}
    executor = executor or _namespace(*stamped, **stamped, unstamped=FRAME)
    publisher = Publisher(ArtifactStore(root), notebook_path=notebook)
    return publish_tools(executor, publisher, events.append, lambda: "run-1", **given)


async def _call(tools: Tools, called: str, /, **arguments: Any) -> ToolResult:
    """What the gate makes of the tool's answer."""
    outcome = await Gate(tools, timeout_s=60).step(called, arguments)
    if outcome.failure is not None:
        return ToolResult.from_failure(outcome.failure)
    assert outcome.result is not None
    return outcome.result


def _type(failure: Failure) -> FailureType:
    """Why it failed, by the table that classifiers ask."""
    return ROWS[failure.metadata["facts"][KNOWN]].type


async def test_dataset_answer_has_ids_and_event(tmp_path: Path) -> None:
    events: list[AgentEvent] = []
    tools = _tools(tmp_path, events)
    result = await _call(tools, "return_dataset", variable="sales", title="Sales")
    assert result.ok
    assert list(result.data) == ["kind", "logical_id", "content_sha", "path", "reused"]
    assert (tmp_path / result.data["path"]).is_file()
    event = events[0]
    assert isinstance(event, ArtifactPublished)
    assert (event.kind, event.variable, event.title) == ("dataset", "sales", "Sales")
    assert event.path == result.data["path"]
    assert event.figure is None


async def test_chart_event_has_picture(tmp_path: Path) -> None:
    events: list[AgentEvent] = []
    tools, told = _tools(tmp_path, events), {"description": "Two cars."}
    result = await _call(tools, "return_chart", variable="chart", title="v by g", **told)
    assert result.data["kind"] == "chart"
    assert result.data["path"].endswith(".vl.json")
    event = parse_event(events[0].model_dump(mode="json"))
    assert isinstance(event, ArtifactPublished)
    figure = FigureObject.model_validate(event.figure)
    assert figure.png_base64
    assert figure.spec == CHART.to_dict()
    assert figure.description == "bar chart of v by g: Two cars."


async def test_unwritable_disk_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    events: list[AgentEvent] = []
    tools = _tools(tmp_path / "file", events)
    result = await _call(tools, "return_dataset", variable="sales", title="T")
    assert result.failure is not None
    assert _type(result.failure) is FailureType.EXTERNAL_FAULT
    assert "choose another folder" in result.failure.explanation
    assert events == []


async def test_work_is_off_loop_and_announced_on_it(tmp_path: Path) -> None:
    threads: list[threading.Thread] = []

    class Watched(Publisher):
        def publish(self, kind: Kind, value: object, **arguments: Any) -> Published:
            threads.append(threading.current_thread())
            return super().publish(kind, value, **arguments)

    executor = _namespace("sales", sales=FRAME)
    tools = publish_tools(
        executor,
        Watched(ArtifactStore(tmp_path), notebook_path="work.ipynb"),
        lambda _: threads.append(threading.current_thread()),
        lambda: "r",
    )
    await _call(tools, "return_dataset", variable="sales", title="T")
    assert threads[0] is not threading.current_thread()
    assert threads[1] is threading.current_thread()


def test_publishing_is_repeatable_and_looking_harmless(tmp_path: Path) -> None:
    tools = _tools(tmp_path, [])
    parameters = {
        "return_dataset": (["variable", "title", "description"], 2),
        "return_chart": (["variable", "title", "description"], 2),
        "return_report": (["title", "body", "description"], 2),
        "return_notebook": (["name", "code", "description"], 1),
        "read_artifact": (["name", "start"], 1),
        "list_artifacts": (["kind"], 0),
    }
    assert list(tools) == list(parameters)
    for name, (names, required) in parameters.items():
        schema = tools[name].parameters_schema
        assert list(schema["properties"]) == names
        assert schema.get("required", []) == names[:required]
        assert tools[name].is_repeatable
        assert not tools[name].terminal
        publishes = name.startswith("return")
        assert (tools[name].tool_type == "publish") is publishes
        assert (tools[name].effect == "none") is not publishes


BODY = "Sales rose.\n\n![By g](artifact:chart)\n\nSee [the table](artifact:sales)."


async def _published(tools: Tools) -> ToolResult:
    await _call(tools, "return_dataset", variable="sales", title="Sales")
    await _call(tools, "return_chart", variable="chart", title="v by g", description="Two bars.")
    return await _call(tools, "return_report", title="Sales report", body=BODY)


async def test_report_answer_has_page_and_event(tmp_path: Path) -> None:
    events: list[AgentEvent] = []
    result = await _published(_tools(tmp_path, events))
    assert list(result.data) == ["kind", "logical_id", "content_sha", "path", "reused", "page"]
    assert result.data["page"] == "reports/sales_report.html"
    assert "Sales rose." in (tmp_path / result.data["page"]).read_text()
    event = events[-1]
    assert isinstance(event, ArtifactPublished)
    assert (event.kind, event.title) == ("report", "Sales report")
    assert event.path == result.data["path"]


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
    events: list[AgentEvent] = []
    tools = _tools(tmp_path, events, executor=executor)
    result = await _call(tools, "return_notebook", name="steps")
    assert (tmp_path / result.data["path"]).read_text() == "# %%\nc = 1\n\n# %%\nd = c\n"
    given = await _call(tools, "return_notebook", name="given", code="x = 1")
    assert (tmp_path / given.data["path"]).read_text() == "x = 1\n"
    assert [getattr(event, "title", "") for event in events] == ["steps", "given"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "sales",
            {
                "kind": "dataset",
                "rows": 2,
                "columns": {"g": "large_string", "v": "int64"},
                "first_rows": [["a", "1"], ["b", "2"]],
                "code": "# %% agent\nsales = made()\n",
            },
        ),
        ("v by g", {"kind": "chart", "shows": "bar chart of v by g", "description": "Two bars."}),
    ],
)
async def test_artifact_is_read_briefly(
    tmp_path: Path, name: str, expected: dict[str, Any]
) -> None:
    tools = _tools(tmp_path, [])
    await _published(tools)
    result = await _call(tools, "read_artifact", name=name)
    assert {key: result.data[key] for key in expected} == expected


async def test_long_text_is_read_in_parts(tmp_path: Path) -> None:
    tools = _tools(tmp_path, [])
    code = "\n".join(f"x{number} = {number}" for number in range(2_000)) + "\n"
    await _call(tools, "return_notebook", name="long", code=code)
    parts, start = "", 0
    while start is not None:
        data = (await _call(tools, "read_artifact", name="long", start=start)).data
        assert len(data["text"]) <= MAX_TEXT
        parts, start = parts + data["text"], data.get("next_start")
    assert parts == code


async def test_published_work_is_listed_newest_first(tmp_path: Path) -> None:
    tools = _tools(tmp_path, [])
    await _published(tools)
    listed = (await _call(tools, "list_artifacts")).data["artifacts"]
    assert [each["kind"] for each in listed] == ["report", "chart", "dataset"]
    assert listed[2]["variable"] == "sales"
    charts = (await _call(tools, "list_artifacts", kind="chart")).data["artifacts"]
    assert [each["title"] for each in charts] == ["v by g"]
    for number in range(MAX_LISTED):
        await _call(tools, "return_notebook", name=f"n{number}", code=f"x = {number}")
    data = (await _call(tools, "list_artifacts")).data
    assert len(data["artifacts"]) == MAX_LISTED
    assert data["more"] == 3


async def test_siblings_name_is_taken_over_after_reading(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.ipynb").write_text("{}")
    theirs = _tools(tmp_path, [], "a.ipynb")
    seen: set[tuple[str, str]] = set()
    mine = _tools(tmp_path, [], "b.ipynb", seen=seen)
    await _call(theirs, "return_notebook", name="clean", code="x = 1")
    refused = await _call(mine, "return_notebook", name="clean", code="x = 2")
    assert refused.failure is not None
    assert _type(refused.failure) is FailureType.CONSTRAINT_IGNORED
    assert "belongs to 'a.ipynb': read that notebook first" in refused.failure.explanation
    assert (await _call(mine, "read_artifact", name="clean")).data["text"] == "x = 1\n"
    assert seen == {("notebook", "clean")}
    assert (await _call(mine, "return_notebook", name="clean", code="x = 2")).ok
    await _call(mine, "return_notebook", name="of mine", code="x = 3")
    assert seen == {("notebook", "clean"), ("notebook", "of mine")}


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
    tmp_path: Path, tool: str, arguments: dict[str, str], cause: str, words: str
) -> None:
    events: list[AgentEvent] = []
    tools = _tools(tmp_path, events)
    await _published(tools)
    usual = {} if tool in ("read_artifact", "return_notebook") else {"title": "T"}
    result = await _call(tools, tool, **usual | arguments)
    assert result.failure is not None
    assert _type(result.failure) is FailureType(cause)
    assert result.failure.kind is FailureKind.tool_error
    assert words in result.failure.explanation
    assert "\n" not in result.failure.explanation
    assert len(events) == 3


async def test_corrupt_artifact_is_reported_and_unread(tmp_path: Path) -> None:
    seen: set[tuple[str, str]] = set()
    tools = _tools(tmp_path, [], seen=seen)
    published = await _call(_tools(tmp_path, []), "return_dataset", variable="sales", title="Sales")
    (tmp_path / published.data["path"]).write_bytes(b"")
    result = await _call(tools, "read_artifact", name="sales")
    assert result.failure is not None
    assert _type(result.failure) is FailureType.EXTERNAL_FAULT
    assert seen == set()


async def test_given_script_is_kept(tmp_path: Path) -> None:
    tools = _tools(tmp_path, [], script=lambda name: f"{name} = slice()\n")
    await _call(tools, "return_dataset", variable="sales", title="Sales")
    result = await _call(tools, "read_artifact", name="sales")
    assert result.data["code"] == "sales = slice()\n"


async def test_remote_variable_is_fetched_before_publishing(tmp_path: Path) -> None:
    def bring(name: str, max_bytes: int) -> Any:
        if name == "gone":
            raise RemoteKernelError("The kernel is gone: run the code again.")
        return {"sales": FRAME, "chart": CHART.to_dict()}[name]

    summary = PrimitiveObject(python_type="x", text="x")
    names = ("sales", "chart", "gone")
    values = {name: RemoteValue(name, "x", summary, bring) for name in names}
    tools = _tools(tmp_path, [], executor=_namespace(*names, **values))
    assert (await _call(tools, "return_dataset", variable="sales", title="S")).ok
    assert (await _call(tools, "return_chart", variable="chart", title="C")).ok
    result = await _call(tools, "return_dataset", variable="gone", title="G")
    assert result.failure is not None
    assert result.failure.explanation.endswith("The kernel is gone: run the code again.")


@pytest.mark.parametrize("reaches", [False, True])
async def test_plan_is_computed_without_reaching_out(reaches: bool, tmp_path: Path) -> None:
    def fetched(part: pd.DataFrame) -> pd.DataFrame:
        if reaches:
            socket.create_connection(("198.51.100.7", 80), timeout=1)
        return part

    plan = dd.from_pandas(FRAME, npartitions=1).map_partitions(fetched, meta=FRAME)
    tools = _tools(tmp_path, [], executor=_namespace("plan", plan=plan))
    result = await _call(tools, "return_dataset", variable="plan", title="Plan")
    assert result.ok == (not reaches)
    if reaches:
        assert result.failure is not None
        assert "it may not reach 198.51.100.7" in str(result.failure)
    else:
        assert len(pd.read_parquet(tmp_path / result.data["path"])) == len(FRAME)
