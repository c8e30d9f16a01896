"""Time moves when the test, or idleness, moves it, and at no other moment."""

import asyncio
from datetime import timedelta

import pytest

from parsimony_kernel.testing.manual_clock import START, ManualClock


async def test_lone_sleep_takes_exactly_its_time() -> None:
    clock = ManualClock()
    await clock.sleep(30)
    await clock.sleep(0.1)
    assert clock.monotonic() == pytest.approx(30.1)
    assert clock.now() - START == timedelta(seconds=30.1)
    assert clock.slept == [30, 0.1]


async def test_earliest_sleeper_wakes_first_on_time() -> None:
    clock = ManualClock()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.monotonic()))

    await asyncio.gather(sleeper("late", 5), sleeper("early", 2), sleeper("between", 3))
    assert woken == [("early", 2.0), ("between", 3.0), ("late", 5.0)]


async def test_unneeded_deadline_moves_nothing() -> None:
    clock = ManualClock()
    deadline = asyncio.ensure_future(clock.sleep(60))
    for _ in range(10):
        await asyncio.sleep(0)
    deadline.cancel()
    with pytest.raises(asyncio.CancelledError):
        await deadline
    for _ in range(200):
        await asyncio.sleep(0)
    assert (clock.monotonic(), clock.sleepers, clock.slept) == (0.0, 0, [])


async def test_only_advance_moves_time_without_auto() -> None:
    clock = ManualClock(auto=False)
    sleeping = asyncio.ensure_future(clock.sleep(10))
    await clock.until_asleep()
    for _ in range(200):
        await asyncio.sleep(0)
    clock.advance(9.5)
    await asyncio.sleep(0)
    assert not sleeping.done()
    clock.advance(0.5)
    await sleeping
    assert clock.monotonic() == 10.0


async def test_zero_sleep_yields_once() -> None:
    clock = ManualClock(auto=False)
    seen: list[str] = []
    asyncio.get_running_loop().call_soon(seen.append, "loop")
    await clock.sleep(0)
    assert seen == ["loop"]


def test_time_never_runs_backwards() -> None:
    with pytest.raises(ValueError, match="-1"):
        ManualClock().advance(-1)
