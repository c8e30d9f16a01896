"""What turns have used of models, counted from their events."""

from collections.abc import Iterable
from dataclasses import dataclass

from parsimony_kernel.agent.events import AgentEvent, LLMCallCompleted


@dataclass(frozen=True)
class Used:
    """Calls of models, their tokens, and US dollars; ``unpriced`` calls have no known price."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    seconds: float = 0.0

    def __add__(self, other: "Used") -> "Used":
        return Used(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cost_usd + other.cost_usd,
            self.unpriced + other.unpriced,
            self.seconds + other.seconds,
        )


def used(events: Iterable[AgentEvent]) -> Used:
    """What the events say that was used. ``seconds`` are those of waiting for models."""
    return sum(
        (
            Used(
                1,
                event.prompt_tokens,
                event.completion_tokens,
                event.cost_usd or 0.0,
                event.cost_usd is None,
                event.duration_s,
            )
            for event in events
            if isinstance(event, LLMCallCompleted)
        ),
        Used(),
    )
