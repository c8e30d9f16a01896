"""Fallback chain: strategies to answer a task, from the most capable to the simplest.

The first valid answer wins. A task that needs live data is never answered by a model alone or by a
fixed text.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from parsimony_kernel.core.redaction import scrub

_log = logging.getLogger(__name__)

Strategy = Callable[[str], Awaitable[str | None]]

_UNFOUNDED = frozenset({"direct_generation", "static_fallback"})


@dataclass(kw_only=True, eq=False, repr=False)
class FallbackChain:
    """Chain of ``primary_agent``, ``backup_agent``, ``direct_generation`` and ``static_fallback``.

    Args:
        primary_agent: the first strategy; any strategy that is ``None`` is skipped.
        backup_agent: the second strategy.
        direct_generation: the model alone, without live data.
        classify: returns the kind of a task, which selects the fixed text.
    """

    FALLBACK_RESPONSES: ClassVar[Mapping[str, str]] = {
        "greeting": "Hello! Only a part of this service works at the moment.",
        "search": "The search does not work at the moment. Try again later.",
    }
    DEFAULT_RESPONSE: ClassVar[str] = (
        "No answer could be had: live data is unavailable right now, and every way to it failed. "
        "Try again later, or ask support."
    )

    primary_agent: Strategy | None = None
    backup_agent: Strategy | None = None
    direct_generation: Strategy | None = None
    classify: Callable[[str], str] = lambda _: "unknown"

    async def execute(self, task: str, requires_live_data: bool = False) -> str:
        """Return the first valid answer, or a text that says there is none and what to do.

        An answer is valid if it has any text. With ``requires_live_data``, the strategies without
        live data are skipped.
        """
        strategies = {
            "primary_agent": self.primary_agent,
            "backup_agent": self.backup_agent,
            "direct_generation": self.direct_generation,
            "static_fallback": self._static_fallback,
        }
        for name, strategy in strategies.items():
            if strategy is None or (requires_live_data and name in _UNFOUNDED):
                continue
            try:
                text = await strategy(task)
            except Exception as exc:  # boundary: tool - the next strategy is the answer to it
                _log.warning("%s failed: %s", name, scrub(f"{type(exc).__name__}: {exc}"))
                continue
            if isinstance(text, str) and text.strip():
                return text
            _log.warning("%s failed: its answer was empty", name)
        return self.DEFAULT_RESPONSE

    async def _static_fallback(self, task: str) -> str | None:
        return self.FALLBACK_RESPONSES.get(self.classify(task))
