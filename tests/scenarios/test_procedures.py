"""A turn keeps to what a file says about its task: procedure, contract, rules, policy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.core import events as ev
from parsimony_kernel.core.config import ActionContract
from parsimony_kernel.gate.procedure import Edge, Procedure, ProcedureError
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.session.turn_values import SessionError
from parsimony_kernel.testing.scripted import ScriptedModel, call
from parsimony_kernel.tools import tool
from tests.session.session_steps import gather, question, turn

from .loops import DONE

LOOK = call("run_code", code="import pandas as pd\nt = pd.DataFrame({'a': [1]})\nt")
COUNT = call("run_code", code="len(t)")
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

Starting = Callable[..., NotebookSession]


@pytest.fixture
def start(scripted: Starting, tmp_path: Path) -> Starting:
    """Opens sessions beside a file of a procedure."""
    (tmp_path / "review.yaml").write_text(PUBLISH_LAST)
    return scripted


async def ask(session: NotebookSession, procedure: str = "review.yaml") -> list[ev.AgentEvent]:
    return await turn(session, procedure=procedure)


def refused(events: list[ev.AgentEvent], *told: str) -> list[tuple[Any, ...]]:
    """The tools that were refused, and what was ``told`` of each."""
    return [
        (event.tool_name, *(event.result[name] for name in told))
        for event in events
        if isinstance(event, ev.ToolEvent) and event.result and "error" in event.result
    ]


async def test_out_of_order_step_is_refused_with_options(start: Starting) -> None:
    events = await ask(start(SAVE, LOOK, SAVE, DONE))
    [(*told, following)] = refused(events, "error", "valid_next_actions")
    assert (told, following[0]) == (["return_dataset", "invalid_transition"], "run_code")
    assert isinstance(events[-1], ev.RunCompleted)


async def test_suspended_procedure_resumes_in_another_process(start: Starting) -> None:
    first = start(LOOK, call("ask_user", question="Publish it?"))
    question(await ask(first))
    second = start(LOOK, DONE)
    events = await gather(second.resume("yes"))
    [(*told, following)] = refused(events, "error", "valid_next_actions")
    assert (told, following[0]) == (["run_code", "invalid_transition"], "return_dataset")


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "cannot be read"), (PUBLISH_LAST.replace("run_code", "run_cod"), "run_cod")],
)
async def test_impossible_task_file_is_reported_before_running(
    start: Starting, tmp_path: Path, text: str | None, said: str
) -> None:
    if text is not None:
        (tmp_path / "mine.yaml").write_text(text)
    session = start()
    with pytest.raises(SessionError, match=said):
        await ask(session, "mine.yaml")
    assert session.turns() == ()


async def follow(session: NotebookSession, folder: Path, text: str) -> list[ev.AgentEvent]:
    (folder / "task.yaml").write_text(text)
    return await ask(session, "task.yaml")


async def test_rule_is_enforced_and_reminder_comes_last(start: Starting, tmp_path: Path) -> None:
    model = ScriptedModel([call("run_code", code="import os"), LOOK, DONE])
    session = start(model=model)
    events = await follow(session, tmp_path, "forbid_imports: os\nconstraints: Be kind.\n")
    assert refused(events, "reason") == [("run_code", "it breaks the rule forbid_imports: os")]
    assert isinstance(events[-1], ev.RunCompleted)
    for request in model.requests:
        pinned = request.messages[-1]["content"].split("<pinned_constraints>")[1]
        assert "Be kind." in pinned
        assert "- forbid_imports: os" in request.messages[0]["content"]


async def test_call_limit_counts_calls_before_suspension(start: Starting, tmp_path: Path) -> None:
    first = start(LOOK, call("ask_user", question="Go on?"))
    question(await follow(first, tmp_path, "max_tool_calls: 1\n"))
    model = ScriptedModel([COUNT, DONE])
    second = start(model=model)
    events = await gather(second.resume("yes"))
    assert refused(events, "reason") == [("run_code", "it breaks the rule max_tool_calls: 1")]
    assert isinstance(events[-1], ev.RunCompleted)
    assert "- max_tool_calls: 1" in model.requests[0].messages[0]["content"]


async def test_task_file_policy_handles_failure_type(start: Starting, tmp_path: Path) -> None:
    session = start(call("run_code", code="1/0"))
    events = await follow(session, tmp_path, "policy:\n  UNKNOWN: escalate\n")
    assert isinstance(events[-1], ev.Handoff)
    assert "ZeroDivisionError" in events[-1].rationale


@tool
async def query_db(order_id: str) -> str:
    """Look an order up."""
    return f"{order_id} is delayed"


def test_contract_and_procedure_name_existing_tools() -> None:
    def agent(**given: Any) -> Agent:
        return Agent("offline", suspension_secret="s", tools=[query_db], **given)

    with pytest.raises(ValueError, match="'qery_db', which is no tool; did you mean 'query_db'"):
        agent(contract=ActionContract(frozenset({"qery_db"})))
    walk = Procedure("p", ("a", "b"), "a", ("b",), (Edge("qery_db", "a", "b"),))
    with pytest.raises(ProcedureError, match="did you mean 'query_db'"):
        agent(procedure=walk)
    assert agent().contract is None
    assert agent().procedure is None
