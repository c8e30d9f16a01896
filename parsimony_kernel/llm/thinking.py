"""What a provider wants back as it came: signed thinking, reasoning text, Responses items.

A message carries it as JSON that names the model it is of. The rule of the place: a part is carried
to the letter or not at all, since a signature holds for the whole, and it goes back to the model
that gave it only.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from parsimony_kernel.llm.secrets import Secrets

PARTS = ("thinking_blocks", "reasoning_items", "reasoning_content")
# These refuse a call whose reasoning is not sent back; others refuse the unknown field. DeepSeek:
# "The reasoning_content in the thinking mode must be passed back to the API."
_WANT_TEXT = ("deepseek", "kimi", "moonshot", "mimo")
# What of a part is no words, and is only read by who signed it.
_SEALED = frozenset({"signature", "data", "encrypted_content", "id", "by"})


def carried(model: str, message: Any, chunks: Iterable[Any] = ()) -> str:
    """What of litellm's ``message`` goes back to ``model``, as JSON; empty when nothing does.

    ``chunks`` is the stream that the message was put together from, if it came in one: litellm
    doubles the text of a signed block, and drops the items of the Responses API.
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
    """``messages`` as ``model`` gets them: with what it gave, without what another one did."""
    return [_given_back(each, model) if "opaque" in each else each for each in messages]


def without(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """``messages`` without any of it; their calls stay valid."""
    return [{key: each[key] for key in each if key not in PARTS} for each in messages]


def is_missing(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the newest calls stand without signed thinking."""
    last = next((each for each in reversed(messages) if each.get("tool_calls")), None)
    return last is not None and not last.get("thinking_blocks")


def without_secrets(opaque: str, secrets: Secrets) -> str:
    """``opaque``, or nothing where its words hold a secret: what is cut is no longer valid."""
    try:
        return "" if any(map(secrets.are_in, _words(json.loads(opaque)))) else opaque
    except ValueError:
        return ""


def _given_back(message: dict[str, Any], model: str) -> dict[str, Any]:
    kept = {key: value for key, value in message.items() if key != "opaque"}
    try:
        parts = json.loads(message["opaque"])
    except (TypeError, ValueError):
        return kept
    if not isinstance(parts, dict) or parts.get("by") != model:
        return kept
    return {**kept, **{name: parts[name] for name in PARTS if parts.get(name)}}


def _signed(blocks: Iterable[Any]) -> list[dict[str, Any]]:
    """The blocks put together from their pieces; none where one has no end or is of no kind known.

    Anthropic signs each block behind its last piece.
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
