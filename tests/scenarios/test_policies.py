"""A policy of strategies chooses what is tried; it never answers in a person's place, and nothing
that a host's code does keeps a run from its end."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from parsimony_kernel.agent.hooks import RunContext
from parsimony_kernel.agent.outcomes import diagnose
from parsimony_kernel.core import events as ev
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.causes import RAISED
from parsimony_kernel.core.chat import FunctionCall, ToolCall
from parsimony_kernel.core.conversation import opening
from parsimony_kernel.core.kinds import FailureContext, FailureKind, FailureType, TriageContext
from parsimony_kernel.core.state import RunState
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.testing.scripted import Step, call
from parsimony_kernel.tools import tool
from parsimony_kernel.triage.policy import FailurePolicy, PolicyRecovery, RecoveryAction
from tests.session.session_steps import gather, question, turn

from .loops import DONE, actions, bare, run

BROKEN = call("breaks", at="x")
SHELL = "import subprocess\nsubprocess.run(['touch', 'made'], check=True)"
EXAMPLE = Path(__file__).parents[2] / "notebooks" / "recovery.yaml"


@tool(idempotent=True)
async def breaks(at: str) -> str:
    """Break."""
    raise RuntimeError("broken")


async def hangs(*_: Any, **__: Any) -> Any:
    await asyncio.Event().wait()


def raising(exc: BaseException) -> Any:
    async def act(*_: Any, **__: Any) -> Any:
        raise exc

    return act


def agent(
    *steps: Step, policy: FailurePolicy | None = None, classify: Any = None, **limits: Any
) -> SimpleNamespace:
    who = bare(*steps, tools=[breaks], **limits)
    who.policy = PolicyRecovery(policy or FailurePolicy())
    who.classifier = classify and SimpleNamespace(classify=classify)
    return who


async def go(
    who: SimpleNamespace, cancellation: CancellationRequest | None = None
) -> list[ev.AgentEvent]:
    state = RunState(messages=opening("go", ""), started_monotonic_s=0.0)
    return await run(who, state=state, cancellation=cancellation)


@pytest.mark.parametrize("stated", ["CONSTRAINT_IGNORED", "default"])
async def test_policy_cannot_answer_an_approval(scripted: Any, tmp_path: Path, stated: str) -> None:
    (tmp_path / "policy.yaml").write_text(f"policy:\n  {stated}: replan\n")
    session = scripted(call("run_code", code=SHELL), DONE)
    asked = question(await turn(session, procedure="policy.yaml"))
    assert asked.question == "May this code run?"
    assert not (tmp_path / "made").exists()
    assert isinstance((await gather(session.resume("Run it")))[-1], ev.RunCompleted)
    assert (tmp_path / "made").exists()


async def test_rollback_example_keeps_work_at_a_limit(scripted: Any, tmp_path: Path) -> None:
    (tmp_path / "recovery.yaml").write_text(EXAMPLE.read_text())
    session = scripted(call("run_code", code="a = 1"), call("run_code", code="b = 2"), DONE)
    question(await turn(session, procedure="recovery.yaml", max_iterations=2))
    assert session.executor.variables() == {"a": 1, "b": 2}


async def test_hanging_strategy_costs_only_its_timeout() -> None:
    policy = FailurePolicy(default=hangs)
    who = agent(BROKEN, DONE, policy=policy)
    events = await go(who)
    assert actions(events) == ["retry"]
    assert events[-1] == ev.RunCompleted(summary="ok")
    assert who.clock.monotonic() == 30.0


async def test_hanging_strategy_ends_with_run_time() -> None:
    who = agent(BROKEN, policy=FailurePolicy(default=hangs), max_execution_time_s=7)
    asked = question(await go(who))
    assert asked.originating_failure_kind is FailureKind.time_limit
    assert who.clock.monotonic() == 7.0


async def test_stop_during_strategy_cancels_run() -> None:
    stop = CancellationRequest()

    async def asked_to_stop(context: FailureContext) -> RecoveryAction:
        stop.set("enough")
        plan: RecoveryAction = await hangs()
        return plan

    who = agent(BROKEN, policy=FailurePolicy(default=asked_to_stop))
    assert (await go(who, stop))[-1] == ev.RunCancelled(reason="enough")


ENDS = [SystemExit(1), GeneratorExit(), asyncio.CancelledError(), RuntimeError("broken")]


@pytest.mark.parametrize("exc", ENDS, ids=lambda exc: type(exc).__name__)
async def test_raising_strategy_or_classifier_ends_with_an_event(exc: BaseException) -> None:
    events = await go(agent(BROKEN, DONE, classify=raising(exc)))
    assert events[-1] == ev.RunCompleted(summary="ok")
    events = await go(agent(BROKEN, DONE, policy=FailurePolicy(default=raising(exc))))
    assert ev.is_terminal(events[-1])


async def judged(classify: Any, clock: ManualClock, **limits: Any) -> FailureType:
    state = RunState(messages=opening("go", ""), started_monotonic_s=0.0)
    who = agent(classify=classify, **limits)
    who.clock = clock
    failed = ToolCall("a", FunctionCall("breaks", "{}"))
    return await diagnose(
        RAISED.failure("broke"), failed, RunContext.of(who), state, TriageContext()
    )


@pytest.mark.parametrize(("limits", "waited"), [({}, 10.0), ({"max_execution_time_s": 3}, 3.0)])
async def test_hanging_classifier_is_ignored(limits: dict[str, float], waited: float) -> None:
    clock = ManualClock()
    assert await judged(hangs, clock, **limits) is FailureType.UNKNOWN
    assert clock.monotonic() == waited


async def test_timely_classifier_is_believed() -> None:
    async def knows(*_: Any, **__: Any) -> str:
        return FailureType.GOAL_DRIFT

    clock = ManualClock()
    assert await judged(knows, clock) is FailureType.GOAL_DRIFT
    assert clock.monotonic() == 0.0
