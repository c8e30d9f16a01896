"""Pinned constraints: a prompt that always ends with a few constraints.

They are a reminder where a model pays most attention, not an enforcement: the gate enforces rules,
see ``gate.rules``.
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
    """Render the constraints as a numbered list under a heading.

    Raises:
        ValueError: there are not three to five, or one is empty. More of them, or longer ones,
            would weaken each other.
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
    """Builder of prompts that end with pinned constraints.

    ``constraints`` are as for ``pinned_block``. The class attribute ``CRITICAL_CONSTRAINTS`` is the
    rendered text of the default ones.
    """

    CRITICAL_CONSTRAINTS: ClassVar[str] = pinned_block(CRITICAL_CONSTRAINTS)

    def __init__(self, base_system_prompt: str, constraints: Sequence[str] | None = None) -> None:
        self.base_system_prompt = base_system_prompt
        self._pinned = (
            self.CRITICAL_CONSTRAINTS if constraints is None else pinned_block(constraints)
        )

    def build_prompt(
        self, conversation_history: Sequence[Mapping[str, Any]], current_task: str
    ) -> str:
        """Build the prompt: base prompt, the last ten messages, ``current_task``, constraints."""
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
