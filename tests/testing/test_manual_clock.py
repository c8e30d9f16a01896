"""Time moves when the test, or idleness, moves it, and at no other moment."""

import asyncio
from datetime import timedelta

import pytest

from parsimony_kernel.testing.manual_clock import START, ManualClock


async def test_sleepers_wake_on_their_time_and_the_earliest_first() -> None:
    clock = ManualClock()
    woken: list[tuple[float, float]] = []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((seconds, clock.monotonic()))

    await asyncio.gather(*map(sleeper, (5, 2, 3.1)))
    assert woken == [(2, 2.0), (3.1, 3.1), (5, 5.0)]
    assert clock.now() - START == timedelta(seconds=5)
    assert clock.slept == [2, 3.1, 5]


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
