"""Cooperative stop.

One request per run. It is set from anywhere (a signal handler, a widget's thread, another task)
and every wait of the run goes through ``race``, which ends the wait at once.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class Cancelled(Exception):
    """A raced wait was ended because the run is to stop."""


class CancellationRequest:
    """A flag that wakes whoever waits on it.

    ``set`` is idempotent, callable from any thread and from a signal handler; the first reason
    stays.
    """

    def __init__(self) -> None:
        # A plain bool: the lock of an Event could be held by the very thread whose signal handler
        # sets it.
        self._flag = False
        self._reason = ""
        self._waiters: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()

    @property
    def is_set(self) -> bool:
        """Whether the run is to stop."""
        return self._flag

    @property
    def reason(self) -> str:
        """Who asked, in words; empty while nobody did."""
        return self._reason

    def set(self, reason: str = "stopped by the user") -> None:
        """Ask the run to stop."""
        if self._flag:
            return
        self._reason = reason
        self._flag = True
        for loop, event in tuple(self._waiters):
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    async def wait(self) -> None:
        """Return once the request is set."""
        if self._flag:
            return
        waiter = (asyncio.get_running_loop(), asyncio.Event())
        self._waiters.add(waiter)
        try:
            if not self._flag:
                await waiter[1].wait()
        finally:
            self._waiters.discard(waiter)

    async def race(self, work: Awaitable[T]) -> T:
        """Await ``work`` unless the request comes first.

        The loser is cancelled and awaited, so nothing of it runs on. Raises ``Cancelled`` when
        the request won.
        """
        task = asyncio.ensure_future(work)
        if self._flag:
            task.cancel()
            raise Cancelled(self._reason)
        watch = asyncio.ensure_future(self.wait())
        try:
            await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise Cancelled(self._reason)
        finally:
            pending = [t for t in (task, watch) if not t.done()]
            for each in pending:
                each.cancel()
            await asyncio.gather(*pending, return_exceptions=True)
