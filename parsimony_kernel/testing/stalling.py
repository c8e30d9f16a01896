"""A model that stands still at a chosen point, for trying out Stop."""

import asyncio
from collections.abc import AsyncIterator

from parsimony_kernel.core.chat import Completion, Delta, ModelRequest

PLACES = ("first token", "mid-stream", "back-off")


class StallingModel:
    """Never answers: it is silent, falls silent in a sentence, or is always unreachable."""

    def __init__(self, place: str) -> None:
        if place not in PLACES:
            raise ValueError(f"{place!r} is no place to stall; choose from {PLACES}")
        self._place = place

    @property
    def name(self) -> str:
        return f"stalling ({self._place})"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta | Completion]:
        """Stall."""
        if self._place == "back-off":
            raise ConnectionError("the provider cannot be reached")
        if self._place == "mid-stream":
            yield Delta("Thinking about it")
        await asyncio.Event().wait()
