"""Ways to answer a task, from the most capable to the simplest.

The first valid answer wins. What only the world knows is never answered by a model's own words or
by a fixed text.
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
    """``strategy`` is the one that answered, ``None`` when all failed; ``failures`` is what each
    one before it came to, in order."""

    text: str
    strategy: str | None
    failures: tuple[tuple[str, str], ...] = ()


class FallbackChain:
    """Tries ``primary_agent``, ``backup_agent``, ``direct_generation`` and ``static_fallback``.

    Args:
        classify: gives the kind of a task, which chooses the fixed text.
        accept: whether an answer of a strategy will do, after it was seen not to be empty.
        on_fallback: told the name of each strategy that is tried after another has failed.

    A strategy that is ``None`` is left out.
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
        """The text of ``answer``."""
        return (await self.answer(task, requires_live_data)).text

    async def answer(self, task: str, requires_live_data: bool = False) -> Answer:
        """The first valid answer, or one that says that there is none and what to do.

        With ``requires_live_data`` the strategies that look at nothing are not even tried.
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
