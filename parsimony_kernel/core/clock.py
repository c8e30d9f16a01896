"""The injected clock.

Nothing else in the package reads the time or sleeps; ``parsimony_kernel.testing`` has a manual one.
"""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """The clock that the package uses."""

    def monotonic(self) -> float:
        """Return monotonic seconds, for durations."""

    def now(self) -> datetime:
        """Return the wall-clock time in UTC."""

    async def sleep(self, seconds: float) -> None:
        """Wait for ``seconds``; cancellable at any moment."""


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


SYSTEM_CLOCK: Clock = SystemClock()
