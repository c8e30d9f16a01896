"""Parts of a request that a model can do without, and how to tell that one was refused.

A refused request has run nothing, so the same one without the part is sent at once.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.llm import thinking

Arguments = dict[str, Any]

_REFUSED = frozenset({400, 404, 422})


@dataclass(frozen=True)
class Extra:
    """``words`` are the provider's for it; ``left_out`` gives the arguments without it."""

    words: re.Pattern[str]
    left_out: Callable[[Arguments], Arguments]

    def is_refused(self, exc: Exception, arguments: Arguments) -> bool:
        """Whether ``exc`` is a refusal of this part of ``arguments``."""
        return (
            getattr(exc, "status_code", None) in _REFUSED
            and self.words.search(str(exc)) is not None
            and self.left_out(arguments) != arguments
        )


def _without_thinking(arguments: Arguments) -> Arguments:
    kept = {key: arguments[key] for key in arguments if key not in ("thinking", "reasoning_effort")}
    return {**kept, "messages": thinking.without(arguments["messages"])}


THINKING = Extra(
    re.compile(r"thinking|reasoning|encrypted_content|signature", re.IGNORECASE), _without_thinking
)
EXTRAS = (THINKING,)
