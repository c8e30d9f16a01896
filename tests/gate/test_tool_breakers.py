"""A tool whose service is down is left alone, and tried by one call when its time has come."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from parsimony_kernel.agent.termination_tools import termination_tools
from parsimony_kernel.core.cancellation import CancellationRequest, Cancelled
from parsimony_kernel.core.effects import MemoryEffects
from parsimony_kernel.core.kinds import Effect, Failure, FailureKind, FailureType
from parsimony_kernel.gate.gate import Gate, StepOutcome, service_of
from parsimony_kernel.limits.breaker import FAILURE_THRESHOLD, RESET_TIMEOUT_S, Breakers
from parsimony_kernel.testing.manual_clock import ManualClock
from parsimony_kernel.tools import Tool, ToolResult, Tools, tool

FAULT = ConnectionError("the service is away")


class Service:
    """A tool's service: what it does next, and how often it was asked."""

    def __init__(self, **options: Any) -> None:
        self.does: Callable[[], Any] = lambda: None
        self.asked = 0
        self.clock = ManualClock()
        self.breakers = Breakers(self.clock)
        self.effects = MemoryEffects()

        @tool(name="fetch", **options)
        async def fetch(n: int = 0) -> Any:
            """Fetch."""
            self.asked += 1
            made = self.does()
            return await made if asyncio.iscoroutine(made) else made

        self.tool: Tool = fetch

    def gate(self) -> Gate:
        tools = Tools([self.tool]) + termination_tools()
        return Gate(
            tools, timeout_s=0.01, effects=self.effects, run_id="r1", breakers=self.breakers
        )

    async def step(self, n: int = 0) -> StepOutcome:
        return await self.gate().step("fetch", {"n": n})

    async def fails(self, times: int, does: Callable[[], Any] | None = None) -> None:
        self.does = does or raising(FAULT)
        for n in range(times):
            assert not (await self.step(n)).ok

    @property
    def state(self) -> str:
        return self.breakers.of(service_of(self.tool)).state


def raising(error: Exception) -> Callable[[], None]:
    def does() -> None:
        raise error

    return does


def answering(failure: Failure) -> Callable[[], ToolResult]:
    return lambda: ToolResult.from_failure(failure)


def failure_of(outcome: StepOutcome) -> Failure:
    assert outcome.failure is not None
    return outcome.failure


async def test_five_failures_open_the_breaker_and_model_is_told() -> None:
    service = Service()
    await service.fails(FAILURE_THRESHOLD)
    service.clock.advance(12)
    gate = service.gate()
    outcome = await gate.step("fetch", {})
    assert service.asked == FAILURE_THRESHOLD
    assert outcome.envelope["error"] == "invalid_transition"
    assert outcome.envelope["message"] == (
        "fetch is not reachable: it failed 5 times in a row; it is left alone for 48 s more. "
        "Nothing was run: another way is needed."
    )
    assert outcome.envelope["valid_next_actions"] == [*termination_tools()]
    failure = failure_of(outcome)
    assert (failure.type, failure.effect) == (FailureType.EXTERNAL_FAULT, Effect.none)
    assert outcome.is_guidance


class Late(Exception):
    status_code = 504


EXTERNAL = Failure(FailureKind.tool_error, "x", metadata={"type": FailureType.EXTERNAL_FAULT})


@pytest.mark.parametrize(
    ("does", "state"),
    [
        (lambda: asyncio.Event().wait(), "open"),  # until its deadline
        (raising(Late("no words that say so")), "open"),
        (lambda: ToolResult.from_exception(ConnectionResetError("reset by peer")), "open"),
        (answering(EXTERNAL), "open"),
        # The caller's mistakes.
        (raising(ValueError("connection is no valid column")), "closed"),
        (raising(KeyError("timeout")), "closed"),
        (raising(PermissionError("no")), "closed"),
        (answering(Failure(FailureKind.tool_error, "no such order")), "closed"),
    ],
)
async def test_every_fault_of_the_service_counts_and_no_mistake_of_its_caller(
    does: Callable[[], Any], state: str
) -> None:
    service = Service(idempotent=True)
    await service.fails(FAILURE_THRESHOLD if state == "open" else 2 * FAILURE_THRESHOLD, does)
    assert service.state == state


async def test_stopped_probe_frees_its_slot() -> None:
    service = Service(timeout_s=60)
    await service.fails(FAILURE_THRESHOLD)
    service.clock.advance(RESET_TIMEOUT_S)
    stop = CancellationRequest()

    async def stopped() -> None:
        stop.set()
        await asyncio.Event().wait()

    service.does = stopped
    with pytest.raises(Cancelled):
        await service.gate().step("fetch", {}, cancellation=stop)
    service.does = lambda: "here"
    assert (await service.step()).ok
    assert service.state == "closed"


async def test_skipped_write_leaves_no_intent() -> None:
    service = Service(effect="write")
    await service.fails(FAILURE_THRESHOLD)
    refused = await service.step(99)
    assert refused.envelope["error"] == "invalid_transition"
    service.clock.advance(RESET_TIMEOUT_S)
    service.does = lambda: "done"
    assert (await service.step(99)).ok


async def test_failing_record_is_not_the_services_fault() -> None:
    class Locked(MemoryEffects):
        def intend(self, key: str, action: str, inputs: Mapping[str, Any]) -> bool:
            raise ConnectionError("503 Service Unavailable")

    service = Service(effect="write")
    service.effects = Locked()
    await service.fails(2 * FAILURE_THRESHOLD)
    assert (service.asked, service.state) == (0, "closed")


async def test_recorded_write_is_reported_while_breaker_is_open() -> None:
    service = Service(effect="write")
    service.does = lambda: "done"
    assert (await service.step(99)).ok
    await service.fails(FAILURE_THRESHOLD)
    assert (await service.step(99)).envelope["result"] == "done"


BROKEN = """
@tool(name="fetch")
def fetch(n: int = 0, url: str = "http://old") -> str:
    raise ConnectionError(url)
"""
MENDED = BROKEN.replace("raise ConnectionError(url)", "return url")


def defined(cell: str) -> Tools:
    """``fetch`` as a cell of a notebook defines it."""
    namespace: dict[str, Any] = {"tool": tool}
    exec(cell, namespace)
    return Tools([namespace["fetch"]])


async def is_asked(cell: str, breakers: Breakers) -> bool:
    """Whether ``fetch`` of ``cell`` is let through by a gate of its own."""
    outcome = await Gate(defined(cell), timeout_s=5, breakers=breakers).step("fetch", {})
    return outcome.envelope.get("error") != "invalid_transition"


@pytest.mark.parametrize(
    ("defined", "is_another"),
    [
        (BROKEN, False),
        ("\n\n\n# further down\n" + BROKEN, False),
        (MENDED, True),
        (MENDED.replace("def fetch", "async def fetch"), True),
        (BROKEN.replace("old", "new"), True),
    ],
    ids=["run again", "moved", "mended", "made async", "another default"],
)
async def test_only_another_definition_starts_closed(defined: str, is_another: bool) -> None:
    breakers = Breakers(ManualClock())
    for _ in range(FAILURE_THRESHOLD):
        assert await is_asked(BROKEN, breakers)
    assert await is_asked(defined, breakers) is is_another


async def test_probe_keeps_slot_for_call_and_reconciliation() -> None:
    service = Service(timeout_s=600)
    await service.fails(FAILURE_THRESHOLD)
    service.clock.advance(RESET_TIMEOUT_S)
    service.does = asyncio.Event().wait
    probe = asyncio.ensure_future(service.step())
    while service.asked == FAILURE_THRESHOLD:
        await asyncio.sleep(0)
    service.does = lambda: "here"
    service.clock.advance(2 * 600 + 59)
    assert not (await service.step()).ok
    service.clock.advance(1)
    assert (await service.step()).ok
    probe.cancel()
