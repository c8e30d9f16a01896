"""What failed leaves the person's variables as they were; a rollback and an undo go further."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from parsimony_kernel.agent.agent import Agent
from parsimony_kernel.agent.hooks import RunHooks
from parsimony_kernel.core import events as ev
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.config import ActionContract
from parsimony_kernel.core.kinds import FailureContext, FailureKind, FailureType
from parsimony_kernel.core.state import RunState
from parsimony_kernel.execution.executor import CodeExecutor
from parsimony_kernel.lineage.checkpoint import Change
from parsimony_kernel.session.session import NotebookSession
from parsimony_kernel.testing.scripted import ScriptedModel, call, calls
from parsimony_kernel.toolbox.run_tools import plan
from parsimony_kernel.tools import Tools, tool
from parsimony_kernel.triage.policy import FailurePolicy, replan, rollback_to_checkpoint
from tests.session.session_steps import code, gather, mine, question, turn

from .loops import DONE
from .notebooks import shown

Start = Callable[..., NotebookSession]


FAILS = code("raise Exception('no')")
UNABLE = call("return_unable", rationale="r", blockers=["b"])


def last_sent(agent: Agent) -> Sequence[dict[str, Any]]:
    """What the model was sent last."""
    model: Any = agent.model_config
    return list(model.requests[-1].messages)


def answers(events: Sequence[ev.AgentEvent]) -> list[dict[str, Any]]:
    """The envelopes of the steps that ended."""
    return [e.result or {} for e in events if isinstance(e, ev.ToolEvent) and e.completed]


async def test_failing_cell_leaves_existing_variables(scripted: Start) -> None:
    session = scripted(code("prices['x'] = 2; rows.append(4); half = 1; 1 / 0"), code("half"), DONE)
    await mine(session, "prices = pd.DataFrame({'a': [1]}); rows = [1]")
    events = await turn(session)
    failed = answers(events)[0]
    said = "Restored: prices, rows. New, and kept: half."
    assert failed["variables"] == said
    assert said in shown(events)
    assert isinstance(session._model, ScriptedModel)
    assert any(f"variables: {said}" in str(each.messages) for each in session._model.requests)
    variables = session.executor.variables()
    assert list(variables["prices"].columns) == ["a"]
    assert variables["rows"] == [1]
    assert variables["half"] == 1


async def test_retry_does_not_repeat_change(scripted: Start) -> None:
    session = scripted(
        code("prices['a'] *= 2\nprices.missing()"), code("prices['a'] *= 2\nprices"), DONE
    )
    await mine(session, "prices = pd.DataFrame({'a': [1]})")
    await turn(session)
    assert session.executor.variables()["prices"]["a"].tolist() == [2]


async def test_refused_cell_restores_nothing(scripted: Start) -> None:
    session = scripted(calls(code("rows.append(2)")), code("prices['ab']"), code("rows"), DONE)
    await mine(session, "rows = [1]; prices = pd.DataFrame({'abc': [1]})")
    events = await turn(session)
    assert answers(events)[1]["error"] == "validation_failed"
    assert session.executor.variables()["rows"] == [1, 2]


async def test_overwritten_user_variable_is_named_and_restored(scripted: Start) -> None:
    session = scripted(code("sales = 'gone'; other = 1"), DONE)
    await mine(session, "sales = [1, 2]")
    events = await turn(session)
    assert answers(events)[0]["output"]["overwritten"] == ["sales"]
    assert "Changed your sales; %agent undo takes back what it can." in shown(events)
    ordinal, back = session.past.undo()
    assert (ordinal, back.restored, back.removed) == (1, ("sales",), ("other",))
    assert session.executor.variables()["sales"] == [1, 2]


async def test_earlier_turn_is_undone_alone(scripted: Start) -> None:
    session = scripted(code("a = 1; b = 1"), DONE, code("a = 2"), DONE)
    await turn(session, cell="one")
    await turn(session, cell="two")
    assert session.past.undo(1)[1].kept == ("a",)
    assert session.executor.variables() == {"a": 2}
    assert session.past.undo(2)[1].restored == ("a",)
    assert session.executor.variables() == {"a": 1}


async def test_waiting_turn_is_undone_whole(scripted: Start) -> None:
    session = scripted(code("a = 1"), call("ask_user", question="Go?"), code("b = 1"), DONE)
    question(await turn(session))
    await mine(session, "c = 1")
    await gather(session.resume("yes"))
    assert session.past.undo()[1].removed == ("a", "b")
    assert session.executor.variables() == {"c": 1}


def rolling_back(strategy: Any, *steps: Any, tools: Sequence[Any] = ()) -> Agent:
    """An agent with this strategy for failures that nobody knows more of."""
    return Agent(
        ScriptedModel(steps),
        code_executor=CodeExecutor(),
        policy=FailurePolicy(UNKNOWN=strategy) if strategy else FailurePolicy(),
        tools=tools,
        suspension_secret="a secret for tests",
    )


async def run(agent: Agent) -> list[ev.AgentEvent]:
    return [event async for event in agent.run("do it")]


def to_step(number: int) -> Any:
    """A strategy that goes back to the state after a step."""

    async def strategy(context: FailureContext) -> Any:
        return await rollback_to_checkpoint(context, f"step-{number}")

    return strategy


def error_of(events: Sequence[ev.AgentEvent]) -> ev.AgentError:
    """The one failure that did not end the run."""
    [error] = [each for each in events if isinstance(each, ev.AgentError)]
    return error


async def test_rollback_returns_to_last_passing_step() -> None:
    fails = code("good.append(2); bad = 1; raise Exception('no')")
    agent = rolling_back(rollback_to_checkpoint, code("good = [1]"), fails, DONE)
    events = await run(agent)
    error = error_of(events)
    assert (error.strategy, error.action) == ("ROLLBACK", "narrow_scope")
    assert error.put_back == "The variables are as they were after step 1. Removed: bad."
    assert agent.code_executor.variables() == {"good": [1]}
    # The transcript is whole: what was taken back is still in it.
    sent = last_sent(agent)
    assert sum(message["role"] == "tool" for message in sent) == 2
    assert any(error.put_back in str(message["content"]) for message in sent)
    assert "Gone back: The variables are as they were" in shown(events)


async def test_rollback_returns_to_named_checkpoint() -> None:
    async def to_the_first(context: FailureContext) -> Any:
        assert context.run.checkpoints == ("step-0", "step-1", "step-2")
        return await rollback_to_checkpoint(context, "step-1")

    steps = code("a = [1]"), code("a.append(2); b = 1"), code("c = 1; raise Exception('no')")
    agent = rolling_back(to_the_first, *steps, DONE)
    await run(agent)
    assert agent.code_executor.variables() == {"a": [1]}


async def test_undone_work_may_be_repeated() -> None:
    same = code("a = [1]\na")
    events = await run(rolling_back(to_step(0), same, same, FAILS, same, DONE))
    assert [answer.get("error") for answer in answers(events)][3:] == [None, None]
    assert isinstance(events[-1], ev.RunCompleted)


async def test_missing_checkpoint_is_reported_and_run_continues() -> None:
    events = await run(rolling_back(to_step(99), code("a = 1"), FAILS, DONE))
    told = "There is no earlier state to go back to; the variables are as they are."
    assert error_of(events).put_back == told
    assert isinstance(events[-1], ev.RunCompleted)


async def test_strategy_sees_earlier_answers() -> None:
    seen: list[Any] = []

    async def looking(context: FailureContext) -> Any:
        seen.append([(kind, action.name) for kind, action in context.attempt_history])
        return await (replan(context) if context.attempts else rollback_to_checkpoint(context))

    await run(rolling_back(looking, FAILS, code("raise Exception('b')")))
    assert seen == [[], [(FailureType.UNKNOWN, "ROLLBACK")]]


async def test_tool_error_gets_type_and_hint() -> None:
    @tool
    def fetch(page: int) -> str:
        """Fetch a page."""
        raise ConnectionResetError("peer went away")

    agent = rolling_back(None, call("fetch", page=1), UNABLE, tools=[fetch])
    events = await run(agent)
    [failed] = [e.failure for e in events if isinstance(e, ev.ToolEvent) and e.failure]
    assert (failed.kind, failed.type) == (FailureKind.tool_error, FailureType.EXTERNAL_FAULT)
    answered = [each["content"] for each in last_sent(agent) if each["role"] == "tool"]
    assert "may be made again" in answered[-1]


async def test_second_reminder_says_where_to_continue(scripted: Start) -> None:
    session = scripted(call("plan", parts=["load", "plot"], done=["load"]), DONE, DONE, DONE)
    events = await turn(session)
    failure = error_of(events).failure
    assert failure is not None
    assert failure.type is FailureType.PLAN_INCOMPLETE
    assert isinstance(session._model, ScriptedModel)
    said = [m["content"] for m in session._model.requests[-1].messages if m["role"] == "user"]
    assert "Go on with 'plot'" in said[-1]
    assert "<plan>\n- done: load\n- open: plot\n</plan>" in said[-1]
    assert isinstance(events[-1], ev.Handoff)
    assert "plot" in events[-1].rationale


async def test_plan_is_in_suspension_record(scripted: Start) -> None:
    planned, asked = call("plan", parts=["load", "plot"]), call("ask_user", question="Go?")
    session = scripted(planned, asked, DONE, UNABLE)
    await turn(session)
    events = await gather(session.resume("yes"))
    assert answers(events)[0]["details"] == {"open": ["load", "plot"]}


ADDING = "orders = ['a']\ndef add(x: str) -> str:\n    orders.append(x)\n"


async def test_tool_effect_before_failing_cell_stays(scripted: Start) -> None:
    session = scripted(code("1 / 0"), call("add", x="b"), code("1 / 0"), DONE)
    await mine(session, f"{ADDING}    return x")
    session.tools.add("add")
    await turn(session)
    assert session.executor.variables()["orders"] == ["a", "b"]


async def test_failing_notebook_tool_is_undone(scripted: Start) -> None:
    session = scripted(call("add", x="b"), call("add", x="c"), DONE)
    await mine(session, f"{ADDING}    return x if x == 'c' else 1 / 0")
    session.tools.add("add")
    events = await turn(session)
    assert answers(events)[0]["variables"] == "Restored: orders."
    assert session.executor.variables()["orders"] == ["a", "c"]
    assert session.past.undo()[1].restored == ("orders",)
    assert session.executor.variables()["orders"] == ["a"]


SENDING = """
from parsimony_kernel.tools import tool
sent = []
@tool(effect="write")
def send(to: str) -> str:
    sent.append(to)
    raise ConnectionResetError
"""


async def test_variables_stay_with_possible_effect(scripted: Start) -> None:
    session = scripted(call("send", to="ann"), DONE)
    await mine(session, SENDING)
    session.tools.add("send")
    await turn(session)
    asked = question(await gather(session.resume("Run it")))
    assert asked.question == "Did send take effect?"
    assert session.executor.variables()["sent"] == ["ann"]


async def test_rollback_restores_plan() -> None:
    planned = call("plan", parts=["load"], done=["load"])
    agent = rolling_back(to_step(0), code("a = 1"), planned, FAILS, DONE, UNABLE)
    agent.tools = Tools([*agent.tools.values(), plan])
    events = await run(agent)
    assert agent.code_executor.variables() == {}
    assert isinstance(events[-1], ev.RunCompleted)


async def test_stop_during_classification_reports_step() -> None:
    class Slow:
        async def classify(self, *given: Any, **named: Any) -> FailureType:
            stop.set("enough")
            await asyncio.Event().wait()
            raise AssertionError

    stop = CancellationRequest()
    agent = rolling_back(None, FAILS)
    agent.classifier = Slow()
    events = [event async for event in agent.run("do it", cancellation=stop)]
    assert isinstance(events[-1], ev.RunCancelled)
    assert [answer["error"] for answer in answers(events)] == ["action_error"]


async def test_host_error_at_end_changes_nothing() -> None:
    class Breaking(RunHooks):
        def ended(self, state: RunState, change: Change | None) -> None:
            raise RuntimeError("no")

    agent = rolling_back(None, code("a = 1"), DONE)
    agent.hooks = Breaking()
    assert isinstance((await run(agent))[-1], ev.RunCompleted)


def asking(contract: ActionContract | None) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel([call("ask_user", question="Go?"), code("a = 1"), DONE])
    agent = Agent(
        model=model,
        code_executor=CodeExecutor(),
        suspension_secret="a secret for tests",
        contract=contract,
    )
    return agent, model


@pytest.mark.parametrize("dropped", [True, False])
async def test_run_resumes_under_its_contract(dropped: bool) -> None:
    contract = ActionContract(frozenset({"return_done"}))
    agent, _ = asking(contract if dropped else None)
    last = question(await run(agent))
    other, model = asking(None if dropped else contract)
    with pytest.raises(ValueError, match="another contract or procedure"):
        _ = [event async for event in other.resume(last.suspension_record, "yes")]
    assert model.requests == []
    # The question waits on.
    again = [event async for event in agent.resume(last.suspension_record, "yes")]
    assert isinstance(again[-1], ev.RunCompleted)
    assert ("a" in agent.code_executor.variables()) == (not dropped)


async def test_futile_rollbacks_reach_a_person() -> None:
    events = await run(rolling_back(rollback_to_checkpoint, FAILS, code("raise Exception('b')")))
    assert isinstance(events[-1], ev.Handoff)
    assert "again after going back" in events[-1].rationale
