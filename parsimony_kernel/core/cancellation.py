"""Cooperative cancellation.

There is one request per run. It can be set from anywhere (a signal handler, a widget's thread,
another task), and every wait of the run goes through ``race``, which ends the wait at once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

# The reason of a run whose consumer went away, or was itself cancelled.
CONSUMER_GONE = "the cell was cancelled"
T = TypeVar("T")


class Cancelled(Exception):
    """A raced wait ended early because the run is to stop."""


class CancellationRequest:
    """A flag that wakes whoever waits on it.

    ``set`` is idempotent and may be called from any thread or signal handler; the first reason is
    kept.
    """

    def __init__(self) -> None:
        # A plain value: an Event's lock could be held by the very thread whose signal handler
        # sets it.
        self._reason: str | None = None
        self._waiters: set[tuple[asyncio.AbstractEventLoop, Callable[[], object]]] = set()

    @property
    def is_set(self) -> bool:
        """Whether the run is to stop."""
        return self._reason is not None

    @property
    def reason(self) -> str:
        """Why it was set; empty while it is not."""
        return self._reason or ""

    def set(self, reason: str = "stopped by the user") -> None:
        """Ask the run to stop."""
        if self.is_set:
            return
        self._reason = reason or ""
        for loop, wake in tuple(self._waiters):
            if not loop.is_closed():
                loop.call_soon_threadsafe(wake)

    @contextmanager
    def calling(self, wake: Callable[[], object]) -> Iterator[None]:
        """Call ``wake`` on this event loop if the request is set during the block."""
        waiter = (asyncio.get_running_loop(), wake)
        self._waiters.add(waiter)
        try:
            if self.is_set:
                wake()
            yield
        finally:
            self._waiters.discard(waiter)

    async def race(self, work: Awaitable[T]) -> T:
        """Await ``work`` and return its result, unless the request is set first.

        The loser is cancelled and awaited, so none of it keeps running.

        Raises:
            Cancelled: the request was set first.
        """
        task = asyncio.ensure_future(work)
        if self.is_set:
            task.cancel()
            raise Cancelled(self._reason)
        watch: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        try:
            with self.calling(watch.cancel):
                await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise Cancelled(self._reason)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
