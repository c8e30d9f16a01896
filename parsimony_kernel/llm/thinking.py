"""Reasoning to send back unchanged: signed thinking, reasoning text, Responses items.

A message holds it in ``opaque`` as JSON that names its model. A part is kept verbatim or not at
all, since its signature covers the whole, and it is sent back only to the model that wrote it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from parsimony_kernel.core.text import from_json
from parsimony_kernel.llm.secrets import Secrets

PARTS = ("thinking_blocks", "reasoning_items", "reasoning_content")
# These providers refuse a call without its reasoning; others refuse the unknown field. DeepSeek:
# "The reasoning_content in the thinking mode must be passed back to the API."
_WANT_TEXT = ("deepseek", "kimi", "moonshot", "mimo")
# The fields without text, which only the provider reads.
_SEALED = frozenset({"signature", "data", "encrypted_content", "id", "by"})


def carried(model: str, message: Any, chunks: Iterable[Any] = ()) -> str:
    """Extract the parts of litellm's ``message`` that ``model`` wants back, as JSON; else empty.

    ``chunks`` is the stream of the message, if it was streamed. The parts are read from it, since
    litellm doubles the text of a signed block and drops the items of the Responses API.
    """
    deltas = [choice.delta for chunk in chunks for choice in getattr(chunk, "choices", None) or ()]
    parts: dict[str, Any] = {}
    for name, whole in (("thinking_blocks", _signed), ("reasoning_items", _items)):
        streamed = [each for delta in deltas for each in getattr(delta, name, None) or ()]
        if found := whole(streamed or getattr(message, name, None) or ()):
            parts[name] = found
    reasoning = getattr(message, "reasoning_content", None)
    wants_text = any(name in model.lower() for name in _WANT_TEXT)
    if wants_text and reasoning and getattr(message, "tool_calls", None):
        parts["reasoning_content"] = reasoning
    return json.dumps({"by": model, **parts}) if parts else ""


def given_back(messages: Iterable[dict[str, Any]], model: str) -> list[dict[str, Any]]:
    """Add the reasoning of ``model`` to its messages, and drop that of other models."""
    return [_given_back(each, model) if "opaque" in each else each for each in messages]


def without(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Drop all reasoning parts from ``messages``; their calls stay valid."""
    return [{key: each[key] for key in each if key not in PARTS} for each in messages]


def is_missing(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the newest message with calls lacks signed thinking."""
    last = next((each for each in reversed(messages) if each.get("tool_calls")), None)
    return last is not None and not last.get("thinking_blocks")


def without_secrets(opaque: str, secrets: Secrets) -> str:
    """Return ``opaque``, or nothing if it contains a secret: a redacted part would be invalid."""
    try:
        return "" if any(map(secrets.are_in, _words(json.loads(opaque)))) else opaque
    except ValueError:
        return ""


def _given_back(message: dict[str, Any], model: str) -> dict[str, Any]:
    kept = {key: value for key, value in message.items() if key != "opaque"}
    parts = from_json(message["opaque"])
    if not isinstance(parts, dict) or parts.get("by") != model:
        return kept
    return {**kept, **{name: parts[name] for name in PARTS if parts.get(name)}}


def _signed(blocks: Iterable[Any]) -> list[dict[str, Any]]:
    """Assemble blocks from their pieces; none if one is incomplete or of an unknown kind.

    Anthropic sends the signature of a block after its last piece.
    """
    whole: list[dict[str, Any]] = []
    begun = ""
    for block in map(dict, blocks):
        kind, text = block.get("type"), block.get("thinking") or ""
        if kind == "redacted_thinking" and block.get("data") and not begun:
            whole.append({"type": kind, "data": block["data"]})
        elif kind != "thinking":
            return []
        elif signature := block.get("signature"):
            text = text if text.startswith(begun) else begun + text
            whole.append({"type": kind, "thinking": text, "signature": signature})
            begun = ""
        else:
            begun += text
    return [] if begun else whole


def _items(items: Iterable[Any]) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in dict(each).items() if value is not None} for each in items
    ]


def _words(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for key, each in value.items():
                if key not in _SEALED:
                    yield from _words(each)
        case list():
            for each in value:
                yield from _words(each)
