"""What a full budget never takes away: a write that is on record."""

import json
from dataclasses import replace
from types import SimpleNamespace

from parsimony_kernel.agent.loop import run_loop
from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.chat import Completion, Usage
from parsimony_kernel.core.config import AgentGuardrails
from parsimony_kernel.core.events import BudgetWarning, RunCompleted
from parsimony_kernel.core.state import RunState
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.testing.scripted import ScriptedModel, call
from parsimony_kernel.tools import Tools, tool

DONE = call("return_done", summary="ok")


def costing(completion: Completion, tokens: int) -> Completion:
    return replace(completion, usage=Usage(tokens, 0))


async def test_write_near_budget_limit_stays_recorded_and_is_not_repeated() -> None:
    refunds: list[str] = []

    @tool(effect="none")
    async def look(at: str) -> str:
        """Look."""
        return "Delayed, ETA Friday"

    @tool(effect="write")
    async def refund(payment: str) -> dict[str, str]:
        """Pay back."""
        refunds.append(payment)
        return {"receipt": f"R{len(refunds)}", "note": "n" * 4_000}

    paid = call("refund", payment="P9")
    model = ScriptedModel(
        [
            costing(paid, 1_000),
            costing(call("look", at="x"), 82_000),
            call("look", at="y"),
            paid,
            DONE,
        ]
    )
    agent = SimpleNamespace(
        model_config=model,
        guardrails=AgentGuardrails(max_tokens=100_000),
        suspension_secret="s",
        tools=Tools([look, refund]) + termination_tools(),
        clock=ManualClock(),
    )
    state = RunState(messages=[{"role": "user", "content": "go"}], started_monotonic_s=0.0)
    events = [event async for event in run_loop(agent, state)]
    assert [type(e) for e in events if isinstance(e, BudgetWarning)] == [BudgetWarning]
    assert isinstance(events[-1], RunCompleted)
    assert refunds == ["P9"]

    said = [m for m in model.requests[-1].messages if m["role"] in ("assistant", "tool")]
    asked = [c["function"] for m in said for c in m.get("tool_calls") or ()]
    # What was asked for stands as it was; of the answers only words without end are gone.
    assert [json.loads(each["arguments"]) for each in asked if each["name"] == "refund"] == [
        {"payment": "P9"}
    ] * 2
    first = next(m["content"] for m in said if m["role"] == "tool")
    assert "shortened" in first
    assert "receipt: R1" in first
    # The run's own memory is whole.
    kept = [json.loads(m["content"]) for m in state.messages if m["role"] == "tool"]
    assert [each["result"]["receipt"] for each in (kept[0], kept[3])] == ["R1", "R1"]
    assert "shortened" not in json.dumps(kept)
