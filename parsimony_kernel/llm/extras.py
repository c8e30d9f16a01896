"""Optional parts of a request: reasoning to send back, effort, cache marks and pictures.

A message holds signed thinking, reasoning text or Responses items in ``opaque``, as JSON that names
its model. A part is kept verbatim or not at all, since its signature covers the whole, and it is
sent back only to the model that wrote it.

A refused request ran nothing, so it is sent again at once without the part that was refused.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parsimony_kernel.core.conversation import REQUEST_TAG, pictures_in
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


def lacks_thinking(messages: Sequence[Mapping[str, Any]]) -> bool:
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


Arguments = dict[str, Any]

_REFUSED = frozenset({400, 404, 422})
_MARK = {"type": "ephemeral"}
# Other providers cache automatically, or not at all.
_WANTS_MARKS = re.compile(r"claude|amazon\.nova|^dashscope/", re.IGNORECASE)


@dataclass(frozen=True)
class Extra:
    """An optional part of a request.

    Args:
        words: matches the provider's message when it refuses this part.
        left_out: returns the arguments without this part.
        for_good: a model that refuses this part once refuses it always.
    """

    words: re.Pattern[str]
    left_out: Callable[[Arguments], Arguments]
    for_good: bool = False

    def is_refused(self, exc: Exception, arguments: Arguments) -> bool:
        """Whether ``exc`` is a refusal of this part of ``arguments``."""
        return (
            getattr(exc, "status_code", None) in _REFUSED
            and self.words.search(str(exc)) is not None
            and self.left_out(arguments) != arguments
        )


def marked(model: str, arguments: Arguments) -> Arguments:
    """Add cache marks to ``arguments`` if the provider of ``model`` wants them.

    The cacheable prefixes end at three places: after the tools, after the instructions, and after
    the last result or request. Behind that a run puts parts that hold for one request only.
    """
    if _WANTS_MARKS.search(model) is None:
        return arguments
    messages = list(arguments["messages"])
    of_role = {"system": -1, "settled": -1}
    for index, message in enumerate(messages):
        if message["role"] == "system":
            of_role["system"] = index
        elif message["role"] == "tool" or f"<{REQUEST_TAG}>" in str(message.get("content")):
            of_role["settled"] = index
    for index in filter(lambda index: index >= 0, of_role.values()):
        messages[index] = _with_mark(messages[index], in_content=model.startswith("dashscope/"))
    tools = list(arguments.get("tools") or ())
    if tools:
        tools[-1] = {**tools[-1], "cache_control": _MARK}
        arguments = {**arguments, "tools": tools}
    return {**arguments, "messages": messages}


def _with_mark(message: Mapping[str, Any], *, in_content: bool) -> dict[str, Any]:
    content = message["content"]
    if in_content and isinstance(content, str):
        part = {"type": "text", "text": content, "cache_control": _MARK}
        return {**message, "content": [part]}
    return {**message, "cache_control": _MARK}


def _without_marks(value: Any) -> Any:
    match value:
        case Mapping():
            return {key: _without_marks(value[key]) for key in value if key != "cache_control"}
        case list():
            return [_without_marks(each) for each in value]
    return value


def _without_effort(arguments: Arguments) -> Arguments:
    return {key: arguments[key] for key in arguments if key not in ("thinking", "reasoning_effort")}


def _without_thinking(arguments: Arguments) -> Arguments:
    # Without their reasoning, the calls in the messages stay valid.
    messages = [{k: m[k] for k in m if k not in PARTS} for m in arguments["messages"]]
    return {**_without_effort(arguments), "messages": messages}


def _without_pictures(arguments: Arguments) -> Arguments:
    kept = [each for each in arguments["messages"] if not any(pictures_in(each))]
    return {**arguments, "messages": kept}


_REASONING = re.compile(r"(?i)thinking|reasoning|encrypted.content|signature")
THINKING = Extra(_REASONING, _without_thinking)
EFFORT = Extra(re.compile(r"(?i)reasoning[_. ]effort"), _without_effort, for_good=True)
CACHE = Extra(re.compile(r"(?i)cache_control|cache.?point"), _without_marks, for_good=True)
PICTURES = Extra(re.compile(r"(?i)image|vision|multi.?modal"), _without_pictures, for_good=True)
EXTRAS = (CACHE, EFFORT, THINKING, PICTURES)
