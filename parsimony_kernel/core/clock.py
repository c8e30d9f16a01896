"""Time, handed in.

Nothing else in the package reads a clock or sleeps; ``parsimony_kernel.testing`` has the manual
one.
"""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What the machinery asks about time."""

    def monotonic(self) -> float:
        """Seconds that only grow, for durations."""
        ...

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; cancellable at any moment."""
        ...


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


SYSTEM_CLOCK: Clock = SystemClock()
