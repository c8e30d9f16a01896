"""An event loop whose seconds pass as fast as it turns, so that nobody waits for a deadline."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


@asynccontextmanager
async def hurried(step_s: float = 0.05) -> AsyncIterator[Callable[[], float]]:
    """Each turn of the loop is ``step_s`` seconds of its clock, however long it takes.

    Gives how many have passed.
    """
    loop = asyncio.get_running_loop()
    real, begun, ahead = loop.time, loop.time(), 0.0
    loop.time = lambda: begun + ahead  # type: ignore[method-assign]

    async def run_ahead() -> None:
        nonlocal ahead
        while True:
            ahead += step_s
            await asyncio.sleep(0)

    running = asyncio.ensure_future(run_ahead())
    try:
        yield lambda: ahead
    finally:
        running.cancel()
        await asyncio.wait({running})
        loop.time = real  # type: ignore[method-assign]
