"""What a caller hands to a run besides the request."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class AgentMessage:
    """One earlier message of the conversation."""

    role: str
    content: str
    metadata: dict[str, Any] = field(default_factory=dict)

    def to_llm(self, mode: str) -> dict[str, Any]:
        """The litellm shape; ``minimal`` keeps the first line."""
        text = self.content if mode == "default" else self.content.partition("\n")[0]
        return {"role": self.role, "content": text}


@dataclass(frozen=True)
class AgentContext:
    """Earlier messages, and the inventory of the notebook as the model will read it."""

    messages: tuple[AgentMessage, ...] = ()
    notebook: str | None = None
