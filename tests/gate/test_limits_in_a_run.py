"""What section 4 promises of a whole run: what is no loop there, what is one, what comes last in
every prompt, and what a full budget never takes away."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from parsimony_kernel.agent.failure import DefaultPolicy
from parsimony_kernel.agent.hooks import RunHooks
from parsimony_kernel.agent.loop import run_loop
from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.chat import Completion, Usage
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.events import (
    AgentEvent,
    BudgetWarning,
    RunCompleted,
    ToolEvent,
)
from parsimony_kernel.core.state import RunState
from parsimony_kernel.execution.private import CodeExecutor
from parsimony_kernel.limits.breaker import Breakers
from parsimony_kernel.testing.clock import ManualClock
from parsimony_kernel.testing.scripted import ScriptedModel, Step, call
from parsimony_kernel.tools import Tools, tool

DONE = call("return_done", summary="ok")
PINNED = ["Show sources.", "Ask before writing.", "Look at as few things as you can."]


class Shop:
    """What was asked and what was paid back, and the tools for it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refunds: list[str] = []

    @property
    def tools(self) -> Tools:
        """``look`` shows the same of everything, and ``refund`` writes."""

        @tool(effect="none")
        async def look(at: str) -> str:
            """Look."""
            self.asked.append(at)
            return "Delayed, ETA Friday"

        @tool(effect="write")
        async def refund(payment: str) -> dict[str, str]:
            """Pay back."""
            self.refunds.append(payment)
            return {"receipt": f"R{len(self.refunds)}", "note": "n" * 4_000}

        return Tools([look, refund])


class Run:
    """One run of a script, played to its end."""

    def __init__(self, folder: Path, **limits: Any) -> None:
        self.shop = Shop()
        self.clock = ManualClock()
        self.limits = limits
        self.state = RunState(
            run_id="r",
            session_id="s",
            messages=[{"role": "user", "content": "go"}],
            code_executor=CodeExecutor(cwd=str(folder)),
            pinned_constraints=list(PINNED),
            started_monotonic_s=0.0,
        )
        self.model = ScriptedModel([])
        self.events: list[AgentEvent] = []

    async def play(self, *steps: Step) -> "Run":
        self.model = ScriptedModel(steps)
        agent = SimpleNamespace(
            model_config=self.model,
            policy=DefaultPolicy(),
            guardrails=AgentGuardrails(**self.limits),
            instructions="Be brief.",
            suspension_secret="s",
            tools=self.shop.tools + termination_tools(),
            clock=self.clock,
            hooks=RunHooks(Breakers(self.clock)),
        )
        self.events = [event async for event in run_loop(agent, self.state)]
        return self

    @property
    def results(self) -> list[ToolEvent]:
        return [e for e in self.events if isinstance(e, ToolEvent) and e.completed]


def costing(completion: Completion, tokens: int) -> Completion:
    return replace(completion, usage=Usage(tokens, 0))


async def test_past_four_fifths_of_the_budget_a_write_stays_on_record_and_is_not_done_again(
    tmp_path: Path,
) -> None:
    paid = call("refund", payment="P9")
    run = await Run(tmp_path, max_tokens=100_000).play(
        costing(paid, 1_000),
        costing(call("look", at="x"), 82_000),
        call("look", at="y"),
        paid,
        DONE,
    )
    assert [type(e) for e in run.events if isinstance(e, BudgetWarning)] == [BudgetWarning]
    assert isinstance(run.events[-1], RunCompleted)
    assert run.shop.refunds == ["P9"]

    said = [m for m in run.model.requests[-1].messages if m["role"] in ("assistant", "tool")]
    asked = [c["function"] for m in said for c in m.get("tool_calls") or ()]
    # What was asked for stands as it was; of the answers only words without end are gone.
    assert [json.loads(each["arguments"]) for each in asked if each["name"] == "refund"] == [
        {"payment": "P9"}
    ] * 2
    first = next(m["content"] for m in said if m["role"] == "tool")
    assert "shortened" in first
    assert "receipt: R1" in first
    # The run's own memory is whole.
    kept = [json.loads(m["content"]) for m in run.state.messages if m["role"] == "tool"]
    assert [each["result"]["receipt"] for each in (kept[0], kept[3])] == ["R1", "R1"]
    assert "shortened" not in json.dumps(kept)
