"""The input of a run: the request, earlier messages, and the notebook's inventory."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

REQUEST_TAG = "request"
# The metadata key that marks a message as the notebook's inventory.
SNAPSHOT = "context_snapshot"


@dataclass(frozen=True)
class AgentMessage:
    """One earlier message of the conversation."""

    role: str
    content: str
    metadata: dict[str, Any] = field(default_factory=dict)

    def to_llm(self, mode: str) -> dict[str, Any]:
        """Return litellm's shape; mode ``minimal`` keeps only the first line."""
        text = self.content if mode == "default" else self.content.partition("\n")[0]
        return {"role": self.role, "content": text}


@dataclass(frozen=True)
class AgentContext:
    """Earlier messages, and the notebook's inventory as text for the model."""

    messages: tuple[AgentMessage, ...] = ()
    notebook: str | None = None


def block(tag: str, body: str) -> str:
    """Wrap ``body`` in the tags that mark it as data for the model."""
    return f"<{tag}>\n{body}\n</{tag}>"


def inside(tag: str, text: str) -> str:
    """Return what stands between the first line that opens ``tag`` and the last that closes it."""
    return text.partition(f"<{tag}>\n")[2].rpartition(f"\n</{tag}>")[0]


def request_message(request: str) -> dict[str, Any]:
    """Return the user message that starts a turn."""
    return {"role": "user", "content": block(REQUEST_TAG, request)}


def snapshot_message(context: str) -> dict[str, Any]:
    """Return the notebook's inventory as a message of its own, which replaces older ones."""
    return {"role": "user", "content": context, "metadata": {SNAPSHOT: True}}


def opening(request: str, context: str | None = None) -> list[dict[str, Any]]:
    """Return the messages that start a turn: the notebook's inventory, if any, and the request."""
    told = [] if context is None else [snapshot_message(context)]
    return [*told, request_message(request)]


def is_snapshot(message: Any) -> bool:
    """Return whether ``message`` is an inventory, of which only the newest is rendered."""
    is_dict = isinstance(message, Mapping)
    metadata = message.get("metadata") if is_dict else getattr(message, "metadata", None)
    return isinstance(metadata, Mapping) and SNAPSHOT in metadata


def request_in(messages: Iterable[Any]) -> str:
    """Return the newest request in a transcript; empty if there is none."""
    for message in reversed(list(messages)):
        if isinstance(message, Mapping) and message.get("role") == "user":
            content = str(message.get("content") or "")
            if f"<{REQUEST_TAG}>\n" in content:
                return inside(REQUEST_TAG, content)
    return ""
