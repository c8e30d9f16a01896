"""An event loop that does not wait."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


@asynccontextmanager
async def fast_loop(step_s: float = 0.05) -> AsyncIterator[Callable[[], float]]:
    """Make each iteration of the event loop advance its clock by ``step_s`` seconds.

    Yields:
        A function that returns the seconds passed.
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
