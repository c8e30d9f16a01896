"""A prompt whose few pinned constraints always come last.

A reminder where a model reads best, and no enforcement: what must not happen is refused by the
gate, see ``gate.rules``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from parsimony_kernel.core.config import MAX_PINNED

FEWEST = 3
RECENT_MESSAGES = 10
CRITICAL_CONSTRAINTS = (
    "Keep personal data out of every answer.",
    "Ask for a confirmation before anything that changes data.",
    "Ask when something is not clear; do not guess.",
    "Call tools ten times at most for one request.",
)


def pinned_block(constraints: Sequence[str]) -> str:
    """The constraints, numbered, under their heading.

    ``ValueError`` unless there are three to five, each a line of text: more of them, or longer
    ones, weaken each other.
    """
    lines = [" ".join(each.split()) for each in constraints]
    if not FEWEST <= len(lines) <= MAX_PINNED or not all(lines):
        raise ValueError(
            f"pin {FEWEST} to {MAX_PINNED} constraints, each with some text, "
            f"not {list(constraints)!r}"
        )
    numbered = (f"{number}. {line}" for number, line in enumerate(lines, 1))
    return "\n".join(["CRITICAL CONSTRAINTS (must follow):", *numbered])


class PinnedConstraintsAgent:
    """Builds prompts; ``constraints`` as for ``pinned_block``, whose text for those that are used
    by default is ``CRITICAL_CONSTRAINTS``."""

    CRITICAL_CONSTRAINTS: ClassVar[str] = pinned_block(CRITICAL_CONSTRAINTS)

    def __init__(self, base_system_prompt: str, constraints: Sequence[str] | None = None) -> None:
        self.base_system_prompt = base_system_prompt
        self._pinned = (
            self.CRITICAL_CONSTRAINTS if constraints is None else pinned_block(constraints)
        )

    def build_prompt(
        self, conversation_history: Sequence[Mapping[str, Any]], current_task: str
    ) -> str:
        """The prompt for ``current_task``: base, the last ten messages, task, constraints."""
        recent = conversation_history[-RECENT_MESSAGES:]
        return "\n".join(
            [
                self.base_system_prompt,
                "",
                "=== CONVERSATION HISTORY ===",
                *(f"{message['role']}: {message.get('content') or ''}" for message in recent),
                "",
                "=== CURRENT TASK ===",
                current_task,
                "",
                self._pinned,
            ]
        )
