"""What a run has observed, read from its transcript.

Observed is what the person wrote, what tools answered, the code that ran, and what earlier turns
came to. What the model only said in this run is not.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from parsimony_kernel.agent.prompts import REQUEST_TAG


def observed(messages: Sequence[Any], code_tools: Collection[str]) -> Iterator[str]:
    """The texts that a summary can rest on. ``code_tools`` are the tools that run code."""
    begin = max((i for i, message in enumerate(messages) if _is_request(message)), default=0)
    for index, message in enumerate(messages):
        if not isinstance(message, dict):
            yield str(message.to_llm("default").get("content") or "")
        elif index < begin or message.get("role") in ("user", "tool"):
            yield str(message.get("content") or "")
        else:
            for call in message.get("tool_calls") or ():
                if call["function"]["name"] in code_tools:
                    yield _code(call["function"]["arguments"])


def succeeded(messages: Iterable[Any], tools: Collection[str]) -> bool:
    """Whether one of ``tools`` has answered without an error."""
    return any(
        isinstance(message, dict)
        and message.get("role") == "tool"
        and message.get("name") in tools
        and not str(message.get("content") or "").startswith('{"error"')
        for message in messages
    )


def _is_request(message: Any) -> bool:
    return (
        isinstance(message, dict)
        and message.get("role") == "user"
        and f"<{REQUEST_TAG}>" in str(message.get("content"))
    )


def _code(arguments: str) -> str:
    try:
        given = json.loads(arguments)
    except (TypeError, ValueError, RecursionError):
        return ""
    return str(given.get("code", "")) if isinstance(given, dict) else ""
