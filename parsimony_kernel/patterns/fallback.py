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


@dataclass(frozen=True)
class Answer:
    """Answer to a task.

    ``strategy`` is the one that answered, ``None`` if all failed. ``failures`` are the earlier
    strategies, each with the reason it failed, in order.
    """

    text: str
    strategy: str | None
    failures: tuple[tuple[str, str], ...] = ()


class FallbackChain:
    """Chain of ``primary_agent``, ``backup_agent``, ``direct_generation`` and ``static_fallback``.

    Args:
        primary_agent: the first strategy; any strategy that is ``None`` is skipped.
        backup_agent: the second strategy.
        direct_generation: the model alone, without live data.
        classify: returns the kind of a task, which selects the fixed text.
        accept: whether a strategy's non-empty answer is valid.
        on_fallback: called with the name of each strategy that is tried after another failed.
    """

    FALLBACK_RESPONSES: ClassVar[Mapping[str, str]] = {
        "greeting": "Hello! Only a part of this service works at the moment.",
        "search": "The search does not work at the moment. Try again later.",
    }
    DEFAULT_RESPONSE: ClassVar[str] = (
        "No answer could be had: live data is unavailable right now, and every way to it failed. "
        "Try again later, or ask support."
    )

    def __init__(
        self,
        *,
        primary_agent: Strategy | None = None,
        backup_agent: Strategy | None = None,
        direct_generation: Strategy | None = None,
        classify: Callable[[str], str] = lambda _: "unknown",
        accept: Callable[[str, str], bool] = lambda _strategy, _answer: True,
        on_fallback: Callable[[str], None] | None = None,
    ) -> None:
        self._classify = classify
        self._accept = accept
        self._on_fallback = on_fallback
        strategies = {
            "primary_agent": primary_agent,
            "backup_agent": backup_agent,
            "direct_generation": direct_generation,
            "static_fallback": self._static_fallback,
        }
        self._strategies = {name: each for name, each in strategies.items() if each is not None}

    async def execute(self, task: str, requires_live_data: bool = False) -> str:
        """Return the text of ``answer``."""
        return (await self.answer(task, requires_live_data)).text

    async def answer(self, task: str, requires_live_data: bool = False) -> Answer:
        """Return the first valid answer, or a text that says there is none and what to do.

        With ``requires_live_data``, the strategies without live data are skipped.
        """
        failures: list[tuple[str, str]] = []
        for name, strategy in self._strategies.items():
            if requires_live_data and name in _UNFOUNDED:
                failures.append((name, "it has no live data"))
                continue
            if failures and self._on_fallback is not None:
                self._on_fallback(name)
            try:
                text = await strategy(task)
            except Exception as exc:  # boundary: tool - the next strategy is the answer to it
                failures.append((name, scrub(f"{type(exc).__name__}: {exc}")))
            else:
                if not isinstance(text, str) or not text.strip():
                    failures.append((name, "its answer was empty"))
                elif not self._accept(name, text):
                    failures.append((name, "its answer was not valid"))
                else:
                    return Answer(text, name, tuple(failures))
            _log.warning("%s failed: %s", *failures[-1])
        return Answer(self.DEFAULT_RESPONSE, None, tuple(failures))

    async def _static_fallback(self, task: str) -> str | None:
        return self.FALLBACK_RESPONSES.get(self._classify(task))
