"""Calls of one answer run in order; those that say so, and only read, run beside one another."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import pytest

from parsimony_kernel.agent.hooks import RunHooks
from parsimony_kernel.agent.loop import run_loop
from parsimony_kernel.core import events as ev
from parsimony_kernel.core.cancellation import CancellationRequest
from parsimony_kernel.core.state import RunState
from parsimony_kernel.gate.approval import Approval, Approving
from parsimony_kernel.testing.scripted import ScriptedModel, call, calls
from parsimony_kernel.tools import Tools, tool
from tests.session.session_steps import question

from .loops import DONE, bare, begun

READS: dict[str, Any] = {"effect": "none", "parallelizable": True}
# Passes of the event loop in which a call that need not wait would begin.
_PASSES = 50


class Asking(RunHooks):
    def stages(self, state: RunState) -> Any:
        return (Approving(Approval.guarded, lambda _: ()).stage,)


class Desk:
    """A run of one answer that reads ``a``, ``b`` …, and what its tools have seen."""

    def __init__(self, names: str) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.stopped: list[str] = []
        self.stop = CancellationRequest()
        self.model = ScriptedModel(
            [calls(*[call(each, at=f"{each}{n}") for n, each in enumerate(names)]), DONE]
        )
        self.agent = bare(model=self.model)
        self.agent.hooks = Asking()

    def named(self, name: str, body: Callable[[], Any], **options: Any) -> None:
        """A tool whose calls are noted; ``body`` is awaited in them."""

        @tool(name=name, **options)
        async def noted(at: str) -> str:
            """Read."""
            self.begun.append(name)
            try:
                await body()
            except asyncio.CancelledError:
                self.stopped.append(name)
                raise
            self.ended.append(name)
            return f"seen {at}"

        self.agent.tools = Tools([noted]) + self.agent.tools

    def events(self) -> AsyncGenerator[ev.AgentEvent, None]:
        self.state = begun()
        return run_loop(self.agent, self.state, cancellation=self.stop)

    async def run(self) -> list[ev.AgentEvent]:
        async with asyncio.timeout(30):
            return [event async for event in self.events()]

    def results(self) -> list[dict[str, Any]]:
        told = [m["content"] for m in self.state.messages if m["role"] == "tool"]
        return [json.loads(each) for each in told]


async def at_once() -> None:
    return


async def for_ever() -> None:
    await asyncio.Event().wait()


async def breaks() -> None:
    raise RuntimeError("broken")


async def test_reading_calls_overlap_and_keep_order() -> None:
    desk, last = Desk("abc"), asyncio.Event()

    async def ends_last() -> None:
        await last.wait()

    async def ends_first() -> None:
        last.set()

    desk.named("a", ends_last, **READS)
    desk.named("b", at_once, **READS)
    desk.named("c", ends_first, **READS)
    events = await desk.run()
    assert isinstance(events[-1], ev.RunCompleted)
    assert desk.ended[-1] == "a"
    assert [each["result"] for each in desk.results()[:3]] == ["seen a0", "seen b1", "seen c2"]
    steps = [(each.tool_name, each.completed) for each in events if isinstance(each, ev.ToolEvent)]
    assert steps[:6] == [(name, ended) for name in "abc" for ended in (False, True)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (READS, {"effect": "none"}),
        ({"effect": "none"}, READS),
        (READS, {"parallelizable": True}),
        (READS, {"parallelizable": True, "effect": "idempotent"}),
    ],
)
async def test_other_calls_wait_their_turn(first: dict[str, Any], second: dict[str, Any]) -> None:
    desk = Desk("ab")
    before: list[str] = []

    async def slow() -> None:
        for _ in range(_PASSES):
            await asyncio.sleep(0)

    async def look() -> None:
        before.extend(desk.ended)

    desk.named("a", slow, **first)
    desk.named("b", look, **second)
    assert isinstance((await desk.run())[-1], ev.RunCompleted)
    assert before == ["a"]


async def test_stop_ends_every_running_call() -> None:
    desk = Desk("ab")

    async def stop() -> None:
        desk.stop.set("enough")
        await for_ever()

    desk.named("a", for_ever, **READS)
    desk.named("b", stop, **READS)
    events = await desk.run()
    assert isinstance(events[-1], ev.RunCancelled)
    assert (desk.begun, desk.ended) == (["a", "b"], [])
    assert sorted(desk.stopped) == ["a", "b"]


async def test_abandoned_run_ends_its_calls() -> None:
    desk, other = Desk("ab"), asyncio.Event()

    async def hangs() -> None:
        other.set()
        await for_ever()

    async def wait() -> None:
        await other.wait()

    desk.named("a", wait, **READS)
    desk.named("b", hangs, **READS)
    async with asyncio.timeout(30), aclosing(desk.events()) as events:
        async for event in events:
            if isinstance(event, ev.ToolEvent) and event.completed:
                break
    assert (desk.ended, desk.stopped) == (["a"], ["b"])


async def test_call_beside_a_failure_is_ended_and_not_counted() -> None:
    desk = Desk("ab")
    desk.named("a", breaks, **READS)
    desk.named("b", for_ever, **READS)
    await desk.run()
    assert desk.stopped == ["b"]
    assert desk.results()[1]["message"] == "not run: the call before it failed"


async def test_nothing_starts_behind_a_waiting_approval() -> None:
    desk = Desk("abc")
    desk.named("a", at_once, **READS)
    desk.named("b", at_once, reaches=lambda given: ("b talks to a stranger",), **READS)
    desk.named("c", at_once, **READS)
    asked = question(await desk.run())
    assert desk.begun == ["a"]
    held = asked.suspension_record.pending_call
    assert held is not None
    assert held.name == "b"
    assert [each.name for each in asked.suspension_record.pending_behind] == ["c"]
