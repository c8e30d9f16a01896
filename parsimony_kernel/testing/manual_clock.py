"""A manually advanced clock for tests."""

import asyncio
from datetime import UTC, datetime, timedelta

# Passes of the event loop without a new sleeper after which the loop counts as idle. Tasks that
# only hand one another values get anything done in far fewer.
_IDLE_PASSES = 50

START = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """A clock with virtual time.

    With ``auto``, time jumps to the earliest deadline as soon as the event loop is idle. A sleep
    that is cancelled first, such as the deadline of work that ended in time, moves nothing. Work
    in threads or on sockets looks idle to this clock; give such code ``ManualClock(auto=False)``,
    where only ``advance`` moves time.
    """

    def __init__(self, start: datetime = START, *, auto: bool = True) -> None:
        self._start = start
        self._auto = auto
        self._elapsed = 0.0
        self._sleepers: dict[asyncio.Future[None], float] = {}
        self._passes_left = 0
        self._watched: asyncio.AbstractEventLoop | None = None
        self.slept: list[float] = []

    def monotonic(self) -> float:
        """Return the virtual seconds since the clock was made."""
        return self._elapsed

    def now(self) -> datetime:
        """Return ``start`` plus the virtual seconds since."""
        return self._start + timedelta(seconds=self._elapsed)

    @property
    def sleepers(self) -> int:
        """The number of pending sleeps."""
        return len(self._sleepers)

    async def sleep(self, seconds: float) -> None:
        """Wait ``seconds`` of virtual time. ``slept`` lists the completed sleeps."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        self._sleepers[woken] = self._elapsed + seconds
        if self._auto:
            self._passes_left = _IDLE_PASSES
            if self._watched is not loop:
                self._watched = loop
                loop.call_soon(self._watch, loop)
        try:
            await woken
        finally:
            self._sleepers.pop(woken, None)
        self.slept.append(seconds)

    def advance(self, seconds: float) -> None:
        """Advance time and wake due sleepers; they run once the caller awaits."""
        if seconds < 0:
            raise ValueError(f"time does not run backwards: advance({seconds!r})")
        self._elapsed += seconds
        for woken, deadline in sorted(self._sleepers.items(), key=lambda each: each[1]):
            if deadline <= self._elapsed and not woken.done():
                woken.set_result(None)

    async def until_asleep(self, count: int = 1) -> None:
        """Wait until ``count`` sleeps are pending."""
        while len(self._sleepers) < count:
            await asyncio.sleep(0)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = [deadline for woken, deadline in self._sleepers.items() if not woken.done()]
        if not waiting:
            self._watched = None
            return
        if self._passes_left > 0:
            self._passes_left -= 1
        else:
            self._passes_left = _IDLE_PASSES
            # Assigned, not added: a float sum could stay just below the deadline for ever.
            self._elapsed = max(self._elapsed, min(waiting))
            self.advance(0.0)
        loop.call_soon(self._watch, loop)
