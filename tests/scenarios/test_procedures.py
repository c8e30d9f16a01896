"""A turn that follows a procedure can only walk its edges, and goes on where it stood."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.agent.events import AgentEvent, RunCompleted, ToolEvent, UserInputRequested
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.notebook.turns import SessionError, TurnOptions
from parsimony_kernel.session import NotebookSession, open_session
from parsimony_kernel.testing.scripted import ScriptedModel, Step, call

ENVIRON = {"PARSIMONY_SUSPENSION_SECRET": "a secret for tests"}
DONE = call("return_done", summary="ok")
LOOK = call("run_code", code="import pandas as pd\nt = pd.DataFrame({'a': [1]})\nt")
SAVE = call("return_dataset", variable="t", title="T")
PUBLISH_LAST = """\
name: look before you publish
start: unseen
final: [published]
edges:
  - {action: run_code, from: unseen, to: seen}
  - {action: return_dataset, from: seen, to: published}
states: [unseen, seen, published]
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    sessions: list[NotebookSession] = []
    (tmp_path / "review.yaml").write_text(PUBLISH_LAST)

    def build(*steps: Step) -> NotebookSession:
        session = open_session(
            executor=CodeExecutor(cwd=str(tmp_path)),
            notebook="analysis.ipynb",
            folder=tmp_path,
            model=ScriptedModel(steps),
            environ=ENVIRON,
        )
        sessions.append(session)
        return session

    yield build
    for session in sessions:
        session.close()


async def gather(events: AsyncIterator[AgentEvent]) -> list[AgentEvent]:
    return [event async for event in events]


async def ask(session: NotebookSession, procedure: str = "review.yaml") -> list[AgentEvent]:
    options = TurnOptions(procedure=procedure)
    return await gather(session.turn("do it", cell_key="a", options=options))


def refused(events: list[AgentEvent]) -> list[tuple[str, Any, Any]]:
    return [
        (event.tool_name, event.result["error"], event.result["valid_next_actions"][0])
        for event in events
        if isinstance(event, ToolEvent) and event.result and "error" in event.result
    ]


async def test_a_step_out_of_order_is_refused_with_what_is_possible(start: Any) -> None:
    events = await ask(start(SAVE, LOOK, SAVE, DONE))
    assert refused(events) == [("return_dataset", "invalid_transition", "run_code")]
    assert isinstance(events[-1], RunCompleted)


async def test_a_run_that_asked_goes_on_where_it_stood_in_another_process(start: Any) -> None:
    first = start(LOOK, call("ask_user", question="Publish it?"))
    assert isinstance((await ask(first))[-1], UserInputRequested)
    second = start(LOOK, DONE)
    events = await gather(second.resume("yes"))
    assert refused(events) == [("run_code", "invalid_transition", "return_dataset")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read"),
        ("name: [", "line 1"),
        (PUBLISH_LAST.replace("run_code", "run_cod"), "run_cod"),
        (PUBLISH_LAST.replace("final: [published]", "final: [elsewhere]"), "elsewhere"),
    ],
)
async def test_a_procedure_that_cannot_be_followed_is_told_before_anything_runs(
    start: Any, tmp_path: Path, text: str | None, said: str
) -> None:
    if text is not None:
        (tmp_path / "mine.yaml").write_text(text)
    session = start()
    with pytest.raises(SessionError, match=said):
        await ask(session, "mine.yaml")
    assert session.turns() == ()
