"""The publishing tools, as a model calls them."""

import threading
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import pytest

from parsimony_kernel.agent.events import AgentEvent, ArtifactPublished, parse_event
from parsimony_kernel.agent.failure.kinds import FailureKind
from parsimony_kernel.artifacts.publish import Published, Publisher
from parsimony_kernel.artifacts.store import ArtifactStore
from parsimony_kernel.execution.executor import BaseCodeExecutor
from parsimony_kernel.execution.outputs import FigureObject, KernelOutput
from parsimony_kernel.lineage.ledger import OriginLedger, VariableOrigin
from parsimony_kernel.toolbox.publish import publish_tools
from parsimony_kernel.tools import ToolResult, Tools
from parsimony_kernel.triage.taxonomy import FailureType


class _Namespace(BaseCodeExecutor):
    """An executor that holds variables and runs nothing."""

    def __init__(self, **variables: Any) -> None:
        self._variables = variables
        self.origin_ledger = OriginLedger()

    def stamp(self, name: str) -> None:
        self.origin_ledger.stamp(
            VariableOrigin(
                name=name,
                version=1,
                actor="agent",
                notebook_path="work.ipynb",
                cell_id="c",
                run_id="r",
                code=f"{name} = …",
                code_sha="0",
            )
        )

    async def execute(self, code: str, *_: Any, **__: Any) -> KernelOutput:
        raise AssertionError(code)

    async def eval(self, expr: str, *_: Any, **__: Any) -> KernelOutput:
        raise AssertionError(expr)

    async def set_cwd(self, cwd: str, session_id: str | None = None) -> None:
        raise AssertionError(cwd)

    async def clear_namespace(self) -> None:
        raise AssertionError

    def variables(self) -> dict[str, Any]:
        return dict(self._variables)


FRAME = pd.DataFrame({"g": ["a", "b"], "v": [1, 2]})
CHART = alt.Chart(FRAME).mark_bar().encode(x="g:N", y="v:Q")


def _tools(root: Path, events: list[AgentEvent]) -> Tools:
    executor = _Namespace(sales=FRAME, chart=CHART, numbers=[1, 2], unstamped=FRAME)
    for name in ("sales", "chart", "numbers"):
        executor.stamp(name)
    publisher = Publisher(ArtifactStore(root), notebook_path="work.ipynb")
    return publish_tools(executor, publisher, events.append, lambda: "run-1")


async def _call(tools: Tools, name: str, **arguments: str) -> ToolResult:
    result = await tools[name].function(**arguments)
    assert isinstance(result, ToolResult)
    return result


async def test_a_dataset_is_answered_with_its_ids_and_announced(tmp_path: Path) -> None:
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


async def test_a_chart_is_announced_with_its_picture(tmp_path: Path) -> None:
    events: list[AgentEvent] = []
    tools = _tools(tmp_path, events)
    result = await _call(tools, "return_chart", variable="chart", title="v by g")
    assert result.data["kind"] == "chart"
    assert result.data["path"].endswith(".vl.json")
    event = parse_event(events[0].model_dump(mode="json"))
    assert isinstance(event, ArtifactPublished)
    figure = FigureObject.model_validate(event.figure)
    assert figure.png_base64
    assert figure.spec == CHART.to_dict()


async def test_the_same_again_is_reused(tmp_path: Path) -> None:
    events: list[AgentEvent] = []
    tools = _tools(tmp_path, events)
    first = await _call(tools, "return_dataset", variable="sales", title="Sales")
    again = await _call(tools, "return_dataset", variable="sales", title="Sales")
    assert again.data == {**first.data, "reused": True}
    assert [getattr(event, "reused", None) for event in events] == [False, True]


@pytest.mark.parametrize(
    ("tool", "variable", "title", "cause", "words"),
    [
        ("return_dataset", "slaes", "T", "hallucinated_state", "did you mean 'sales'?"),
        ("return_dataset", "qqq", "T", "hallucinated_state", "the notebook has 'chart', 'numbers'"),
        ("return_dataset", "numbers", "T", "schema_mismatch", "a DataFrame is expected"),
        ("return_dataset", "chart", "T", "schema_mismatch", "publish it with return_chart"),
        ("return_chart", "sales", "T", "schema_mismatch", "publish it with return_dataset"),
        ("return_dataset", "unstamped", "T", "constraint_ignored", "Nothing is known about where"),
        ("return_dataset", "sales", " ", "constraint_ignored", "needs a title"),
    ],
)
async def test_what_cannot_be_published_is_one_sentence_and_no_event(
    tmp_path: Path, tool: str, variable: str, title: str, cause: str, words: str
) -> None:
    events: list[AgentEvent] = []
    result = await _call(_tools(tmp_path, events), tool, variable=variable, title=title)
    assert result.failure is not None
    assert result.failure.kind is FailureKind.tool_error
    assert result.failure.type is FailureType(cause)
    assert words in result.failure.explanation
    assert "\n" not in result.failure.explanation
    assert events == []


async def test_a_disk_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    events: list[AgentEvent] = []
    tools = _tools(tmp_path / "file", events)
    result = await _call(tools, "return_dataset", variable="sales", title="T")
    assert result.failure is not None
    assert result.failure.type is FailureType.EXTERNAL_FAULT
    assert "choose another folder" in result.failure.explanation
    assert events == []


async def test_the_first_variable_is_asked_for_when_there_is_none(tmp_path: Path) -> None:
    publisher = Publisher(ArtifactStore(tmp_path), notebook_path="work.ipynb")
    tools = publish_tools(_Namespace(), publisher, lambda _: None, lambda: "r")
    result = await _call(tools, "return_chart", variable="chart", title="T")
    assert result.failure is not None
    assert "the notebook has none yet" in result.failure.explanation


async def test_the_work_is_done_off_the_loop_and_announced_on_it(tmp_path: Path) -> None:
    threads: list[threading.Thread] = []

    class Watched(Publisher):
        def publish_dataset(self, value: object, **arguments: Any) -> Published:
            threads.append(threading.current_thread())
            return super().publish_dataset(value, **arguments)

    executor = _Namespace(sales=FRAME)
    executor.stamp("sales")
    tools = publish_tools(
        executor,
        Watched(ArtifactStore(tmp_path), notebook_path="work.ipynb"),
        lambda _: threads.append(threading.current_thread()),
        lambda: "r",
    )
    await _call(tools, "return_dataset", variable="sales", title="T")
    assert threads[0] is not threading.current_thread()
    assert threads[1] is threading.current_thread()


def test_the_tools_are_publishing_and_idempotent_and_take_three_texts(tmp_path: Path) -> None:
    tools = _tools(tmp_path, [])
    assert list(tools) == ["return_dataset", "return_chart"]
    for each in tools.values():
        assert (each.tool_type, each.idempotent, each.terminal) == ("publish", True, False)
        assert list(each.parameters_schema["properties"]) == ["variable", "title", "description"]
        assert each.parameters_schema["required"] == ["variable", "title"]
